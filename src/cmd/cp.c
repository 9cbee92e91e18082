/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon cp`: files out of a sandbox and into it, stopped or live. */
#include "cmd/cp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

struct cp_flags {
	bool wait, quiet, json;
};

const struct option_def cp_options[] = {
	{.name = "wait", .offset = offsetof(struct cp_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "quiet", .letter = 'q', .offset = offsetof(struct cp_flags, quiet), .help = "say nothing where all is well"},
	{.name = "json", .offset = offsetof(struct cp_flags, json), .help = "print JSON: {\"files\":N}"},
	{0},
};

const struct example cp_examples[] = {
	{"cordon cp work:/app/dist .", "a directory out of a sandbox, to ./dist"},
	{"cordon cp data.csv work:/app/in/", "a file into a directory that is there"},
	{"cordon cp assets/. work:assets", "what is in a directory; paths without a slash in front start at /app"},
	{0},
};

const char cp_about[] =
	"One side names a sandbox: ID:PATH. Of a sandbox, /app and its home (/home/user) can be copied; directories are copied with all\n"
	"that is in them, links as links. What is copied in belongs to the sandbox's user and is a step of its history. In a live\n"
	"sandbox it is done by tar, which runs inside. A host path with a colon in it: ./a:b.";

/* ---- paths ------------------------------------------------------------------------------------------------------------------- */

/* "ID:PATH": the colon comes before any slash. */
static const char *colon_of(const char *text)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	return colon && colon != text && (!slash || colon < slash) ? colon : NULL;
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

static int parse_inside(const char *workspace, const char *given, struct cp_inside *out, struct cordon_error *err)
{
	static const char home[] = "/home/user";
	const size_t len = sizeof(home) - 1;
	const bool in_home = strncmp(given, home, len) == 0 && (given[len] == '/' || !given[len]);

	*out = (struct cp_inside){.tree = in_home ? TREE_HOME : TREE_APP};
	out->contents = strcmp(given, ".") == 0 || ends_with(given, "/.");
	out->slash = ends_with(given, "/");
	if (in_home) {
		given += len;
		given += strspn(given, "/");
	}
	out->path = tree_path(workspace, given, err);
	if (out->path)
		return 0;
	return err->hint[0] ? -1 : err_hint(err, "of a sandbox, /app and /home/user can be copied");
}

int cp_into(const struct cp_source *from, enum cp_there there, bool slash, const char *given, bool *into, struct cordon_error *err)
{
	*into = there == CP_DIRECTORY && !(from->directory && from->contents);
	if (there == CP_OTHER && from->directory)
		return err_set(err, CORDON_ERR_INPUT, "'%.200s' is no directory, so a directory cannot be copied to it", given);
	if (there != CP_DIRECTORY && slash && !from->directory)
		return err_set(err, CORDON_ERR_INPUT, "'%.200s' is no directory", given);
	return 0;
}

/* ---- out --------------------------------------------------------------------------------------------------------------------- */

static int copy_out(const struct tree_args *a, const char *box, const char *inside, const char *to, uint64_t *files,
                    struct cordon_error *err)
{
	_cleanup_view_ struct view v = {0};
	struct cp_inside from = {0};
	struct live l;
	int r = -1;

	if (tree_peek(&l, a->home, box, NULL, err) < 0)
		return -1;
	if (parse_inside(l.box.workspace, inside, &from, err) == 0 && tree_view(&l, from.tree, &v, err) == 0)
		r = cp_out(&v, &from, to, files, err);
	free(from.path);
	live_close(&l);
	return r;
}

/* ---- in ---------------------------------------------------------------------------------------------------------------------- */

static int copy_in_stopped(const struct tree_args *a, const char *id, const char *from, const char *inside, bool wait, uint64_t *files,
                           struct cordon_error *err)
{
	_cleanup_free_ char *command = NULL;
	struct cp_inside to = {0};
	struct live l;
	int r = -1;

	if (asprintf(&command, "cordon cp %s %s", from, inside) < 0) {
		command = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (live_open(&l, a->home, id, "cp", wait, err) < 0)
		return -1;
	if (parse_inside(l.box.workspace, inside, &to, err) == 0)
		r = cp_in(&l, from, &to, command, files, err);
	free(to.path);
	live_close(&l);
	return r;
}

static int copy_in_live(const struct live *l, const char *from, const char *inside, uint64_t *files, struct cordon_error *err)
{
	_cleanup_view_ struct view v = {0};
	struct cp_inside to = {0};
	int r = -1;

	if (parse_inside(l->box.workspace, inside, &to, err) == 0 && tree_view(l, to.tree, &v, err) == 0)
		r = cp_in_live(l, &v, from, &to, files, err);
	free(to.path);
	return r;
}

static int copy_in(const struct tree_args *a, const char *from, const char *box, const char *inside, bool wait, uint64_t *files,
                   struct cordon_error *err)
{
	enum box_state state;
	struct live l;
	int r;

	if (tree_peek(&l, a->home, box, &state, err) < 0)
		return -1;
	if (state == BOX_STOPPED) {
		r = copy_in_stopped(a, l.box.id, from, inside, wait, files, err);
	} else if (state == BOX_PAUSED) {
		err_set(err, CORDON_ERR_BUSY, "sandbox %.*s is paused", SHORT_ID, l.box.id);
		r = err_hint(err, "let it go on with: cordon resume %.*s", SHORT_ID, l.box.id);
	} else {
		r = copy_in_live(&l, from, inside, files, err);
	}
	live_close(&l);
	return r;
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static int copy(const struct tree_args *a, const struct cp_flags *f, uint64_t *files, struct cordon_error *err)
{
	const char *from = a->operands[0], *to = a->operands[1], *out = colon_of(from), *in = colon_of(to);
	_cleanup_free_ char *box = strndup(out ? from : to, (size_t)(out ? out - from : in ? in - to : 0));

	if (!box)
		return err_sys(err, "cp");
	if (out && in) {
		err_set(err, CORDON_ERR_INPUT, "both sides name a sandbox");
		return err_hint(err, "copy to the host first");
	}
	if (!out && !in) {
		err_set(err, CORDON_ERR_INPUT, "neither side names a sandbox; one must be of the form ID:PATH");
		return err_hint(err, "cordon cp %.60s ID:/app/", from);
	}
	return out ? copy_out(a, box, out + 1, to, files, err) : copy_in(a, from, box, in + 1, f->wait, files, err);
}

int cmd_cp(int argc, char **argv)
{
	struct cp_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "cp", .target = &f, .json = &f.json, .least = 2, .most = 2};
	char text[FORMAT_MAX * 2];
	uint64_t files = 0;
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (copy(&a, &f, &files, &err) < 0)
		return tree_fail(&a, &err);
	if (a.json) {
		json_object(&j);
		json_kint(&j, "files", (int64_t)files);
		json_end(&j);
		return tree_print_json(&a, &line, EXIT_OK);
	}
	if (!f.quiet && terminal_width(STDERR_FILENO))
		fprintf(stderr, "copied %s\n", tree_count(files, "file", text));
	return EXIT_OK;
}
