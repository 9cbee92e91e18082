/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon commit`: the changes of a sandbox into the directory on the host that it started from. */
#include "cmd/commit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

enum { LISTED_MAX = 40, BAR = 24 };

struct commit_options {
	bool dry_run, force, autorun, wait, quiet, json;
	struct strlist overwrite;
};

#define FLAG(member) offsetof(struct commit_options, member)

/* clang-format off */
const struct option_def commit_options[] = {
	{.name = "dry-run", .letter = 'n', .offset = FLAG(dry_run), .help = "show what would be done, and what is in its way"},
	{.name = "force", .letter = 'f', .offset = FLAG(force), .help = "also over what was changed on the host meanwhile"},
	{.name = "overwrite", .argument = "PATH", .offset = FLAG(overwrite), .repeat = true,
	 .help = "the same for this path (and below) only; may be repeated"},
	{.name = "allow-autorun", .offset = FLAG(autorun),
	 .help = "also files that other programs run by themselves: .git/hooks, .envrc, .vscode ..."},
	{.name = "wait", .offset = FLAG(wait), .help = "wait for a command that is running in it"},
	{.name = "quiet", .letter = 'q', .offset = FLAG(quiet), .help = "say nothing where all is well"},
	{.name = "json", .offset = FLAG(json), .help = "print JSON"},
	{0},
};
/* clang-format on */

const struct example commit_examples[] = {
	{"cordon commit work --dry-run", "what would be written, and whether it can be"},
	{"cordon commit work", "all changes since the seed, or nothing"},
	{"cordon commit work src docs/index.md", "only these"},
	{0},
};

const char commit_about[] =
	"All of it or nothing: after a crash or a power cut the next cordon that touches the directory finishes it or undoes it.\n"
	"Whoever reads the directory while it is being written may see old and new files side by side. A file that was changed on the\n"
	"host after the sandbox first changed its own version is a conflict: it is named, nothing is written, and the status is 1.";

/* ---- progress ---------------------------------------------------------------------------------------------------------------- */

static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(struct progress *p)
{
	*p = (struct progress){.enabled = isatty(STDERR_FILENO), .begun = seconds_now()};
}

void progress_show(void *user, uint64_t done, uint64_t total)
{
	struct progress *p = user;
	char a[FORMAT_MAX], b[FORMAT_MAX], bar[BAR + 1];
	double now = seconds_now();

	if (!p->enabled || now - p->begun < 0.5 || now - p->shown < 0.05 || total == 0)
		return;
	size_t filled = (size_t)((double)BAR * (double)MIN(done, total) / (double)total);
	memset(bar, '.', BAR);
	memset(bar, '#', filled);
	bar[BAR] = '\0';
	fprintf(stderr, "\r\033[K%s [%s] %s of %s", p->what ? p->what : "committing", bar, format_bytes(done, a), format_bytes(total, b));
	p->shown = now;
}

void progress_end(struct progress *p)
{
	if (p->shown > 0)
		fputs("\r\033[K", stderr);
	p->shown = 0;
}

/* ---- what is in the way ------------------------------------------------------------------------------------------------------ */

static const struct {
	const char *key, *json;
} refusals[] = {
	[REFUSED_CONFLICT] = {"conflict", "conflicts"},
	[REFUSED_AUTORUN] = {"autorun", "autorun"},
	[REFUSED_KIND] = {"kind", "impossible"},
};

static void print_kind(const struct problems *p, enum commit_refusal kind, const char *title, const struct colours *c)
{
	static const struct table_column columns[] = {{.title = ""}, {.title = "", .least = 16}, {.title = ""}};
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns), .bare = true};
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++) {
		if (p->items[i].kind != kind)
			continue;
		if (n++ >= LISTED_MAX)
			continue;
		table_add(&t, NULL, "%s", "  ");
		table_add(&t, c->bold, "%s", p->items[i].path);
		table_add(&t, NULL, "%s", p->items[i].why);
	}
	if (n == 0)
		return;
	fprintf(stderr, "%s\n", title);
	table_print(&t, stderr);
	if (n > LISTED_MAX)
		fprintf(stderr, "  ... and %zu more\n", n - LISTED_MAX);
}

static bool has_kind(const struct problems *p, enum commit_refusal kind)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->items[i].kind == kind)
			return true;
	return false;
}

void problems_print(const struct problems *p, const char *force_hint)
{
	const struct colours c = colours_for(STDERR_FILENO);
	char text[FORMAT_MAX * 2];

	fprintf(stderr, "%snothing was committed:%s %s in the way\n", c.bad, c.off, tree_count(p->count, "path", text));
	print_kind(p, REFUSED_CONFLICT, "changed on the host meanwhile:", &c);
	print_kind(p, REFUSED_AUTORUN, "other programs run or obey these by themselves:", &c);
	print_kind(p, REFUSED_KIND, "these cannot be committed:", &c);
	if (has_kind(p, REFUSED_CONFLICT))
		fprintf(stderr, "%shint:%s %s\n", c.bold, c.off, force_hint);
	if (has_kind(p, REFUSED_AUTORUN))
		fprintf(stderr, "%shint:%s look at them, then allow them with --allow-autorun\n", c.bold, c.off);
}

void problems_json(struct json *j, const struct problems *p)
{
	for (size_t kind = 0; kind < ARRAY_SIZE(refusals); kind++) {
		json_key(j, refusals[kind].json);
		json_array(j);
		for (size_t i = 0; i < p->count; i++) {
			if ((size_t)p->items[i].kind != kind)
				continue;
			json_object(j);
			json_kpath(j, p->items[i].path);
			json_kstr(j, "why", p->items[i].why);
			json_end(j);
		}
		json_end(j);
	}
}

static int add_problem(struct problems *p, enum commit_refusal kind, char *why, const char *path, struct cordon_error *err)
{
	struct problem *items = realloc(p->items, (p->count + 1) * sizeof(*items));

	if (items)
		p->items = items;
	if (!items || !why) {
		free(why);
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	items[p->count++] = (struct problem){kind, why, path};
	return 0;
}

/* "conflict WHY\tPATH": the path is the rest, whatever it holds. */
int problems_of_reply(struct problems *p, const struct op_reply *reply, struct cordon_error *err)
{
	*p = (struct problems){0};
	for (size_t i = 0; i < reply->items.count; i++) {
		const char *item = reply->items.items[i], *space = strchr(item, ' '), *tab = space ? strchr(space, '\t') : NULL;

		for (size_t k = 0; tab && k < ARRAY_SIZE(refusals); k++)
			if ((size_t)(space - item) == strlen(refusals[k].key) &&
			    strncmp(item, refusals[k].key, (size_t)(space - item)) == 0 &&
			    add_problem(p, (enum commit_refusal)k, strndup(space + 1, (size_t)(tab - space - 1)), tab + 1, err) < 0)
				return -1;
	}
	return 0;
}

int problems_of_report(struct problems *p, const struct commit_report *report, struct cordon_error *err)
{
	*p = (struct problems){0};
	for (size_t i = 0; i < report->problem_count; i++)
		if (add_problem(p, report->problems[i].why, strdup(report->problems[i].text), report->problems[i].path, err) < 0)
			return -1;
	return 0;
}

void problems_free(struct problems *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i].why);
	free(p->items);
	*p = (struct problems){0};
}

void executables_print(const struct strlist *paths)
{
	const struct colours c = colours_for(STDERR_FILENO);
	_cleanup_buf_ struct buf text = {0};

	for (size_t i = 0; i < paths->count && i < 5; i++) {
		buf_add_str(&text, i ? ", " : "");
		text_plain(&text, paths->items[i]);
	}
	if (paths->count && text.data)
		fprintf(stderr, "%snote:%s new executable%s: %s%s\n", c.bold, c.off, paths->count == 1 ? "" : "s", text.data,
		        paths->count > 5 ? " ..." : "");
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

/* What is about to be committed, for people; nothing depends on it. */
struct preview {
	struct live live;
	struct view before, after;
	struct changes all, shown;
};

static void preview_free(struct preview *p)
{
	view_close(&p->before);
	view_close(&p->after);
	changes_free(&p->all);
	free(p->shown.items);
	live_close(&p->live);
}

static int add_argument(struct op_request *request, const char *key, const char *path, struct cordon_error *err)
{
	_cleanup_free_ char *item = NULL;

	if (asprintf(&item, "%s %s", key, path) < 0) {
		item = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return strlist_add(&request->args, item, err);
}

/* "" is the workspace itself: everything. */
static int request_paths(struct op_request *request, const struct tree_args *a, const struct commit_options *o, const char *workspace,
                         struct strlist *paths, struct cordon_error *err)
{
	for (int i = 0; i < a->count - 1; i++) {
		_cleanup_free_ char *path = tree_path(workspace, a->operands[i + 1], err);

		if (!path || strlist_add(paths, path, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < paths->count; i++)
		if (!strlist_has(paths, "") && add_argument(request, "path", paths->items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < o->overwrite.count; i++) {
		_cleanup_free_ char *path = tree_path(workspace, o->overwrite.items[i], err);

		if (!path || add_argument(request, "force", path, err) < 0)
			return -1;
	}
	return 0;
}

static int print_changes(const struct preview *p, struct cordon_error *err)
{
	struct changes first = p->shown;
	const struct diff_style style = {.format = DIFF_NAMES, .colours = terminal_width(STDOUT_FILENO) > 0};

	if (style.colours)
		first.count = MIN(first.count, (size_t)LISTED_MAX);
	if (diff_print(stdout, &p->before, &p->after, &first, &style, err) < 0)
		return -1;
	if (first.count < p->shown.count)
		printf("... and %zu more\n", p->shown.count - first.count);
	return 0;
}

struct applied {
	uint64_t changes, times;
};

/* 0 where it was refused. */
static uint64_t reply_number(const struct op_reply *reply, const char *key)
{
	const char *value = reply->status == 0 ? op_reply_get(reply, key) : NULL;

	return value ? strtoull(value, NULL, 10) : 0;
}

static int report_json(const struct tree_args *a, const struct commit_options *o, const struct preview *p, const struct op_reply *reply,
                       const struct problems *problems, struct applied applied)
{
	_cleanup_buf_ struct buf line = {.cap = (size_t)1 << 30};
	struct json j = {.out = &line};

	json_object(&j);
	json_kbool(&j, "committed", reply->status == 0 && !o->dry_run);
	json_kbool(&j, "dry_run", o->dry_run);
	json_kstr(&j, "workspace", p->live.box.workspace);
	json_kint(&j, "applied", (int64_t)applied.changes);
	json_kint(&j, "times", (int64_t)applied.times);
	json_key(&j, "changes");
	tree_json_changes(&j, &p->shown, 1000);
	json_kint(&j, "changes_total", (int64_t)p->shown.count);
	problems_json(&j, problems);
	json_key(&j, "executables");
	json_array(&j);
	for (size_t i = 0; i < reply->items.count; i++)
		if (strncmp(reply->items.items[i], "executable ", 11) == 0)
			json_str(&j, reply->items.items[i] + 11);
	json_end(&j);
	json_end(&j);
	return tree_print_json(a, &line, reply->status ? EXIT_WEAKER : EXIT_OK);
}

/* "13 changes"; times are worth a word only where there is nothing else. */
static const char *applied_text(struct applied applied, char text[FORMAT_MAX * 2])
{
	return applied.changes ? tree_count(applied.changes, "change", text) : tree_count(applied.times, "modification time", text);
}

static int report_text(const struct commit_options *o, const struct preview *p, const struct op_reply *reply, struct applied applied,
                       struct cordon_error *err)
{
	struct strlist executables = {0};
	_cleanup_buf_ struct buf workspace = {0};
	char text[FORMAT_MAX * 2];
	int r = 0;

	text_plain(&workspace, p->live.box.workspace);
	if (workspace.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (!o->quiet) {
		r = print_changes(p, err);
		printf("%s%s to %s\n", o->dry_run ? "would commit " : "committed ", applied_text(applied, text), workspace.data);
	}
	for (size_t i = 0; i < reply->items.count && r == 0; i++)
		if (strncmp(reply->items.items[i], "executable ", 11) == 0)
			r = strlist_add(&executables, reply->items.items[i] + 11, err);
	fflush(stdout);
	executables_print(&executables);
	strlist_free(&executables);
	return r;
}

static int report(const struct tree_args *a, const struct commit_options *o, const struct preview *p, const struct op_reply *reply,
                  struct cordon_error *err)
{
	const struct applied applied = {reply_number(reply, "applied"), reply_number(reply, "times")};
	struct problems problems;
	int status = problems_of_reply(&problems, reply, err);

	if (status == 0 && a->json) {
		status = report_json(a, o, p, reply, &problems, applied);
	} else if (status == 0 && reply->status) {
		problems_print(&problems, "compare with cordon diff, then commit over them with --force or --overwrite PATH");
		status = EXIT_WEAKER;
	} else if (status == 0 && applied.changes + applied.times == 0) {
		if (!o->quiet)
			puts("nothing to commit");
	} else if (status == 0) {
		status = report_text(o, p, reply, applied, err);
	}
	problems_free(&problems);
	return status;
}

/* The same ones as the commit takes. */
static int select_shown(struct preview *p, const struct strlist *paths, struct cordon_error *err)
{
	p->shown = (struct changes){.items = calloc(p->all.count + 1, sizeof(*p->shown.items)), .size = p->all.count + 1};
	if (!p->shown.items)
		return err_sys(err, "cannot list the changes");
	for (size_t i = 0; i < p->all.count; i++)
		if (commit_selects(&p->all.items[i], paths->count ? (const char *const *)paths->items : NULL))
			p->shown.items[p->shown.count++] = p->all.items[i];
	return 0;
}

static int commit(const struct tree_args *a, const struct commit_options *o, struct preview *p, struct cordon_error *err)
{
	struct progress progress;
	struct op_request request = {.verb = OP_COMMIT, .user = &progress};
	struct op_reply reply = {0};
	struct strlist paths = {0};
	int r = -1;

	request.flags = (o->dry_run ? COMMIT_DRY_RUN : 0u) | (o->force ? COMMIT_FORCE : 0u) | (o->autorun ? COMMIT_AUTORUN : 0u);
	if (!p->live.box.workspace) {
		err_set(err, CORDON_ERR_INPUT, "sandbox %s was not made from a directory: there is nothing to commit to", a->operands[0]);
		return err_hint(err, "copy files out with: cordon cp %s:/app/FILE .", a->operands[0]);
	}
	if (request_paths(&request, a, o, p->live.box.workspace, &paths, err) == 0 && tree_recover(p->live.box.workspace, err) == 0 &&
	    live_compare(&p->live, "", NULL, &p->before, &p->after, &p->all, err) == 0 && select_shown(p, &paths, err) == 0) {
		progress_begin(&progress);
		request.progress = progress.enabled ? progress_show : NULL; /* a keeper is not asked for what nobody sees */
		r = keeper_op(a->home, p->live.box.id, &request, o->wait, &reply, err);
		progress_end(&progress);
	}
	if (r < 0 && err->code == CORDON_ERR_BUSY && !err->hint[0])
		err_hint(err, "--wait waits until it is free");
	if (r == 0)
		r = report(a, o, p, &reply, err);
	op_request_free(&request);
	op_reply_free(&reply);
	strlist_free(&paths);
	return r;
}

int cmd_commit(int argc, char **argv)
{
	struct commit_options o = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct preview p = {0};
	const struct tree_form form = {.command = "commit", .target = &o, .json = &o.json, .least = 1, .most = -1};
	int status;

	if (tree_parse(&form, argc, argv, &a, &status)) {
		status = tree_peek(&p.live, a.home, a.operands[0], NULL, &err);
		if (status == 0) {
			status = commit(&a, &o, &p, &err);
			preview_free(&p);
		}
		if (status < 0)
			status = tree_fail(&a, &err);
	}
	strlist_free(&o.overwrite);
	return status;
}
