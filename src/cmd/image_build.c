/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon image build`: from a recipe, without Docker. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/image.h"
#include "image/build.h"

#define TAIL 12 /* lines that are shown when it fails */

struct building {
	struct image_work work;
	bool verbose;
	char *tail[TAIL]; /* the last lines, a ring */
	size_t said;
};

static void building_free(struct building *b)
{
	for (size_t i = 0; i < TAIL; i++)
		free(b->tail[i]);
}

static void show(FILE *out, const char *line)
{
	_cleanup_buf_ struct buf text = {0};

	text_plain(&text, line);
	if (!text.failed && text.data)
		fprintf(out, "%s\n", text.data);
}

/* On a terminal: what is going on, on one line. */
static void show_state(const struct building *b, const char *line)
{
	_cleanup_buf_ struct buf text = {0};
	int width = terminal_width(STDERR_FILENO);

	if (!b->work.bar.enabled || width < 30)
		return;
	text_plain(&text, line);
	if (!text.failed && text.data && text_width(text.data) == text.len)
		fprintf(stderr, "\r\033[Kbuilding: %.*s", width - 12, text.data);
}

static void on_line(void *arg, const char *line)
{
	struct building *b = arg;
	char **slot = &b->tail[b->said++ % TAIL];

	free(*slot);
	*slot = strdup(line);
	if (b->verbose)
		show(stderr, line);
	else
		show_state(b, line);
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct building *b = arg;

	return image_work_progress(&b->work, done, total);
}

static void show_tail(const struct building *b)
{
	for (size_t i = b->said > TAIL ? b->said - TAIL : 0; i < b->said; i++)
		if (b->tail[i % TAIL])
			show(stderr, b->tail[i % TAIL]);
}

static int build_staged(const struct tree_args *a, const struct image_flags *f, const struct recipe *r, struct building *b,
                        struct image_imported *done, struct cordon_error *err)
{
	_cleanup_staging_ struct image_staging s = {.dir = -1};
	_cleanup_image_ struct image old = {0};
	const struct image_build what = {.name = a->operands[0], .replace = f->force, .said = on_line, .progress = on_progress, .arg = b};

	if (!f->force && image_find(a->home, a->operands[0], &old, NULL) == 0) { /* before minutes of work */
		err_set(err, CORDON_ERR_INPUT, "image '%s' exists", a->operands[0]);
		return err_hint(err, "give another name and --recipe, or --force to replace it");
	}
	if (image_stage(a->home, f->quota, &s, err) < 0)
		return -1;
	return image_build(&s, r, &what, done, err);
}

int image_cmd_build(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	_cleanup_imported_ struct image_imported done = {0};
	_cleanup_recipe_ struct recipe r = {0};
	struct building b = {.verbose = f->verbose && !f->json};
	int failed;

	if (a->count != 1)
		failed = err_set(err, CORDON_ERR_INPUT, "give a name: cordon image build NAME [--recipe FILE]");
	else
		failed = image_check_name(a->operands[0], err);
	if (failed == 0)
		failed = f->recipe ? recipe_read(f->recipe, &r, err) : recipe_find(a->operands[0], &r, err);
	image_work_begin(&b.work, f, "taking over");
	if (failed == 0 && (failed = build_staged(a, f, &r, &b, &done, err)) < 0)
		err_wrap(err, "cannot build %s", a->operands[0]);
	if (b.work.bar.enabled && b.said > 0 && !b.verbose)
		fputs("\r\033[K", stderr);
	image_work_end(&b.work);
	if (failed < 0 && !b.verbose && !a->json && !image_work_signal())
		show_tail(&b);
	building_free(&b);
	return failed < 0 ? image_fail(a, err) : image_report(a, f, "Built", &b.work, &done);
}
