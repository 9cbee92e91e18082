/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon diff`: what two states of a sandbox differ in. */
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "base/util.h"
#include "cmd/tree.h"

enum { CONTEXT_DEFAULT = 3, CONTEXT_MAX = 100000 };

struct diff_flags {
	const char *context;
	bool names, stat, exit_code, json;
};

#define FLAG(member) offsetof(struct diff_flags, member)

const struct option_def diff_options[] = {
	{.name = "name-status", .offset = FLAG(names), .help = "only the paths: A added, M modified, D deleted, m mode, T type"},
	{.name = "stat", .offset = FLAG(stat), .help = "lines added and removed per file"},
	{.name = "unified", .letter = 'U', .argument = "N", .offset = FLAG(context), .help = "lines around a change (default 3)"},
	{.name = "exit-code", .offset = FLAG(exit_code), .help = "end with 1 if there are differences"},
	{.name = "json", .offset = FLAG(json), .help = "print a JSON list of the changes"},
	{0},
};

const struct example diff_examples[] = {
	{"cordon diff work", "everything since the seed"},
	{"cordon diff work green", "since the snapshot green"},
	{"cordon diff work green head --stat -- src", "between two states, in src only"},
	{0},
};

const char diff_about[] =
	"A and B are ids of the history, beginnings of ids, names, head or seed. Without B: the present state, without A: the seed.";

/* ---- what is compared -------------------------------------------------------------------------------------------------------- */

struct comparison {
	struct live live;
	struct view before, after;
	struct changes all, shown;
};

static void comparison_free(struct comparison *c)
{
	view_close(&c->before);
	view_close(&c->after);
	changes_free(&c->all);
	free(c->shown.items); /* its strings are those of `all` */
	live_close(&c->live);
}

static int select_paths(struct comparison *c, char **paths, int count, struct cordon_error *err)
{
	struct strlist list = {0};
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		_cleanup_free_ char *path = tree_path(c->live.box.workspace, paths[i], err);

		r = path ? strlist_add(&list, path, err) : -1;
	}
	if (r == 0)
		r = tree_select(&c->all, &list, &c->shown, err);
	strlist_free(&list);
	return r;
}

/* A state of this sandbox. Another sandbox is a likely mistake. */
static int find_state(struct comparison *c, const char *what, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_box_ struct box other = {0};
	const struct box *box = &c->live.box;

	if (box_find_layer(&c->live.store, box, what, id, err) == 0)
		return 0;
	if (err->code != CORDON_ERR_NOT_FOUND || box_find(&c->live.store, what, &other, NULL) < 0)
		return -1;
	const char *own = box->name[0] ? box->name : box->id;
	err_set(err, CORDON_ERR_NOT_FOUND, "'%.100s' is a sandbox, not a snapshot of %s: two states of one sandbox can be compared", what,
	        own);
	return err_hint(err, "each with the directory it was made from: cordon diff %s; cordon diff %.100s", own, what);
}

/* Operands before "--" are ID [A] [B], those behind it are paths. */
static int compare(struct comparison *c, const struct tree_args *args, struct cordon_error *err)
{
	char a[LAYER_ID_LEN + 1] = "", b[LAYER_ID_LEN + 1];
	const int states = MIN(args->dashes, args->count);

	if (states > 3)
		return err_set(err, CORDON_ERR_INPUT, "'%.100s' is one word too many; paths come behind --", args->operands[3]);
	if (states > 1 && find_state(c, args->operands[1], a, err) < 0)
		return -1;
	if (states > 2 && find_state(c, args->operands[2], b, err) < 0)
		return -1;
	if (live_compare(&c->live, a, states > 2 ? b : NULL, &c->before, &c->after, &c->all, err) < 0)
		return -1;
	return select_paths(c, args->operands + states, args->count - states, err);
}

/* ---- output ------------------------------------------------------------------------------------------------------------------ */

static int print_json(const struct tree_args *a, const struct changes *c)
{
	_cleanup_buf_ struct buf line = {.cap = (size_t)1 << 30};
	struct json j = {.out = &line};

	tree_json_changes(&j, c, SIZE_MAX);
	return tree_print_json(a, &line, EXIT_OK);
}

static int print(const struct tree_args *a, const struct diff_flags *f, const struct comparison *c, struct cordon_error *err)
{
	const struct colours colours = colours_for(STDOUT_FILENO);
	struct diff_style style = {.format = f->names  ? DIFF_NAMES
	                                     : f->stat ? DIFF_STAT
	                                               : DIFF_UNIFIED,
	                           .colours = *colours.off != '\0',
	                           .width = terminal_width(STDOUT_FILENO),
	                           .context = CONTEXT_DEFAULT,
	                           .prefix_a = "a/",
	                           .prefix_b = "b/"};
	uint64_t context;

	if (f->context) {
		if (units_parse_count(f->context, 0, CONTEXT_MAX, &context, err) < 0)
			return err_wrap(err, "--unified");
		style.context = (unsigned)context;
	}
	if (a->json)
		return print_json(a, &c->shown);
	if (c->shown.count && diff_print(stdout, &c->before, &c->after, &c->shown, &style, err) < 0)
		return -1;
	return EXIT_OK;
}

int cmd_diff(int argc, char **argv)
{
	struct diff_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct comparison c = {0};
	const struct tree_form form = {.command = "diff", .target = &f, .json = &f.json, .least = 1, .most = -1};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (a.dashes < 1) {
		err_set(&err, CORDON_ERR_INPUT, "which sandbox? it comes before --");
		return tree_fail(&a, &err);
	}
	if (f.names && f.stat) {
		err_set(&err, CORDON_ERR_INPUT, "--name-status and --stat exclude each other");
		return tree_fail(&a, &err);
	}
	if (tree_peek(&c.live, a.home, a.operands[0], NULL, &err) < 0)
		return tree_fail(&a, &err);
	status = compare(&c, &a, &err);
	if (status == 0)
		status = print(&a, &f, &c, &err);
	if (status < 0)
		status = tree_fail(&a, &err);
	else if (status == EXIT_OK && f.exit_code && c.shown.count)
		status = EXIT_WEAKER;
	comparison_free(&c);
	return status;
}
