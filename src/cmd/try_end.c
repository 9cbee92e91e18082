/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/ask.h"
#include "cmd/try.h"

enum verdict { UNDECIDED, COMMIT, DISCARD, KEEP };

/* What there is to decide about. Everything that people are told goes to stderr: stdout is the command's. */
struct end {
	struct try *t;
	struct live *live;
	const struct colours c;
	struct cordon_result result; /* a copy; what it points to is the exec's */
	struct view before, after;
	struct changes changes;
	struct commit_report report;
	struct problems problems;
	struct cordon_conflict *conflicts;
	unsigned flags; /* of a commit */
	bool talk;      /* to a person */
};

static void end_free(struct end *e)
{
	view_close(&e->before);
	view_close(&e->after);
	changes_free(&e->changes);
	problems_free(&e->problems);
	commit_report_free(&e->report);
	free(e->conflicts);
}

/* ---- showing ----------------------------------------------------------------------------------------------------------------- */

static int show_diff(struct end *e, enum diff_format format, struct cordon_error *err)
{
	const struct diff_style style = {.format = format,
	                                 .colours = *e->c.off != '\0',
	                                 .width = terminal_width(STDERR_FILENO),
	                                 .context = 3,
	                                 .prefix_a = "a/",
	                                 .prefix_b = "b/"};

	return diff_print(stderr, &e->before, &e->after, &e->changes, &style, err);
}

/* "exit 2, 1.2 s, 3 changes" */
static void show_summary(const struct end *e)
{
	const struct cordon_result *r = &e->result;
	const bool fine = exec_succeeded(e->t->exec);
	char count[FORMAT_MAX * 2];

	if (r->error)
		fprintf(stderr, "%scordon:%s %s%s%s%s\n", e->c.bad, e->c.off, r->error, r->hint ? " (" : "", r->hint ? r->hint : "",
		        r->hint ? ")" : "");
	fputs(fine ? e->c.good : e->c.bad, stderr);
	if (e->t->io.ended_by == SIGINT)
		fputs("interrupted", stderr);
	else if (e->t->io.ended_by) /* we were asked to end; with what we ended the command is our affair */
		fprintf(stderr, "ended by signal %d", e->t->io.ended_by);
	else if (r->signal)
		fprintf(stderr, "ended by signal %d", r->signal);
	else
		fprintf(stderr, "exit %d", r->exit_code);
	if (r->duration_ms < 1000)
		fprintf(stderr, "%s, %.0f ms", e->c.off, r->duration_ms);
	else
		fprintf(stderr, "%s, %.*f s", e->c.off, r->duration_ms < 9950 ? 1 : 0, r->duration_ms / 1000);
	fprintf(stderr, ", %s%s%s\n", e->c.bold, e->changes.count ? tree_count(e->changes.count, "change", count) : "nothing changed",
	        e->c.off);
}

static int show(struct end *e, struct cordon_error *err)
{
	if (!e->talk)
		return 0;
	if (e->t->io.mid_line && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO))
		fputc('\n', stderr);
	if (e->changes.count && show_diff(e, DIFF_STAT, err) < 0)
		return -1;
	show_summary(e);
	return 0;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------------------- */

/* By flags, or because there is nobody to ask. */
static enum verdict decided(const struct end *e)
{
	const struct try_options *o = &e->t->o;
	const bool anyway = o->on_failure && strcmp(o->on_failure, "keep") == 0;

	if (o->keep)
		return KEEP;
	if (o->yes)
		return exec_succeeded(e->t->exec) || anyway ? COMMIT : DISCARD;
	if (o->no || o->run.json || !ask_possible() || (e->t->io.ended_by && e->t->io.ended_by != SIGINT))
		return DISCARD;
	return UNDECIDED;
}

static enum verdict ask(struct end *e, struct cordon_error *err)
{
	static const struct {
		const char *first, *shown, *keys;
	} forms[] = {
		{"commit, ", "c/d/k/?", "cdk?sv"},
		{"force the commit, ", "f/d/k/?", "fdk?sv"},
		{"", "d/k/?", "dk?sv"},
	};
	size_t form = e->problems.count > 0;
	char question[128];

	for (size_t i = 0; i < e->problems.count; i++)
		if (e->problems.items[i].kind == REFUSED_KIND)
			form = 2;
	for (;;) {
		snprintf(question, sizeof(question), "%s%sdiscard, keep or show diff?%s [%s] ", e->c.bold, forms[form].first, e->c.off,
		         forms[form].shown);
		switch (ask_key(&(struct question){.text = question, .keys = forms[form].keys, .fallback = 'k'})) {
		case 'c':
			return COMMIT;
		case 'f':
			e->flags |= COMMIT_FORCE | COMMIT_AUTORUN;
			return COMMIT;
		case 'd':
			return DISCARD;
		case 'k':
			return KEEP;
		default:
			if (show_diff(e, DIFF_UNIFIED, err) < 0)
				return KEEP;
		}
	}
}

/* ---- doing ------------------------------------------------------------------------------------------------------------------- */

/* The next steps. A commit that was refused is refused again without the flag that it needs, and with none if nothing helps. */
static void advise(const struct end *e)
{
	const char *flags[] = {[REFUSED_CONFLICT] = "", [REFUSED_AUTORUN] = ""};
	const int length = e->t->o.name ? BOX_NAME_MAX : SHORT_ID;
	const char *name = e->t->o.name ? e->t->o.name : e->t->id;
	bool possible = true;

	for (size_t i = 0; i < e->problems.count; i++) {
		possible = possible && e->problems.items[i].kind != REFUSED_KIND;
		if (e->problems.items[i].kind == REFUSED_CONFLICT)
			flags[REFUSED_CONFLICT] = " --force";
		else if (e->problems.items[i].kind == REFUSED_AUTORUN)
			flags[REFUSED_AUTORUN] = " --allow-autorun";
	}
	fprintf(stderr, "%s  cordon diff %.*s", e->c.dim, length, name);
	if (possible)
		fprintf(stderr, "     cordon commit %.*s%s%s", length, name, flags[REFUSED_AUTORUN], flags[REFUSED_CONFLICT]);
	fprintf(stderr, "     cordon rm %.*s%s\n", length, name, e->c.off);
}

static int keep(struct end *e, struct cordon_error *err)
{
	struct try *t = e->t;
	const char *name = t->o.name ? t->o.name : t->id;

	e->live->box.ttl_ms = 0;
	if (box_save(&e->live->store, &e->live->box, err) < 0)
		return -1;
	t->stays = true;
	e->result.transaction.outcome = "kept";
	if (!e->talk)
		return 0;
	fprintf(stderr, "kept as %s%s%s\n", e->c.name, name, e->c.off);
	advise(e);
	return 0;
}

static void discard(struct end *e)
{
	const struct try_options *o = &e->t->o;
	char count[FORMAT_MAX * 2];

	e->result.transaction.outcome = "rolled_back";
	if (!e->talk)
		return;
	fprintf(stderr, "%s discarded", tree_count(e->changes.count, "change", count));
	if (o->yes)
		fputs(": the command failed (--on-failure keep commits all the same)", stderr);
	else if (!o->no && !ask_possible())
		fputs(" (--yes commits them, --keep keeps the sandbox)", stderr);
	fputc('\n', stderr);
}

static int list_conflicts(struct end *e, struct cordon_error *err)
{
	static const char *const kinds[] = {[REFUSED_CONFLICT] = "conflict", [REFUSED_AUTORUN] = "autorun", [REFUSED_KIND] = "impossible"};
	struct cordon_transaction *t = &e->result.transaction;

	free(e->conflicts);
	e->conflicts = calloc(e->problems.count + 1, sizeof(*e->conflicts));
	if (!e->conflicts)
		return err_sys(err, "cannot list the conflicts");
	for (size_t i = 0; i < e->problems.count; i++)
		e->conflicts[i] =
			(struct cordon_conflict){kinds[e->problems.items[i].kind], e->problems.items[i].path, e->problems.items[i].why};
	t->conflicts = e->conflicts;
	t->conflict_count = e->problems.count;
	return 0;
}

/* 0: done, 1: refused, -1. */
static int commit(struct end *e, struct cordon_error *err)
{
	struct progress progress;
	const struct live_commit c = {.flags = e->flags, .progress = progress_show, .user = &progress};
	char count[FORMAT_MAX * 2];

	problems_free(&e->problems);
	commit_report_free(&e->report);
	e->report = (struct commit_report){0};
	progress_begin(&progress);
	int r = live_commit(e->live, &c, &e->report, err);
	progress_end(&progress);
	if (r < 0 || problems_of_report(&e->problems, &e->report, err) < 0 || list_conflicts(e, err) < 0)
		return -1;
	if (r > 0) {
		if (e->talk)
			problems_print(&e->problems, "--force commits over them");
		return 1;
	}
	e->result.transaction.outcome = "committed";
	if (e->talk) {
		fprintf(stderr, "%scommitted%s %s\n", e->c.good, e->c.off, tree_count(e->report.applied, "change", count));
		executables_print(&e->report.executables);
	}
	return 0;
}

/* A refused commit is asked about again; without anybody to ask, nothing is thrown away: the sandbox is kept. */
static int carry_out(struct end *e, enum verdict given, int *status, struct cordon_error *err)
{
	enum verdict verdict = given;

	for (;;) {
		if (verdict == UNDECIDED)
			verdict = ask(e, err);
		if (err->code != CORDON_OK)
			return -1;
		if (verdict == KEEP)
			return keep(e, err);
		if (verdict == DISCARD) {
			discard(e);
			return 0;
		}
		int r = commit(e, err);
		if (r <= 0)
			return r;
		verdict = given == UNDECIDED ? UNDECIDED : KEEP;
		if (verdict == KEEP) {
			*status = EXIT_CORDON_FAILED;
			e->result.state = "failed";
			e->result.reason = "conflict";
			e->result.error = "nothing was committed: the host's directory has changed, or would get what it must not";
		}
	}
}

static int print_json(const struct end *e, struct cordon_error *err)
{
	_cleanup_free_ char *json = cordon_result_json(&e->result);

	if (!json)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	puts(json);
	return 0;
}

int try_end(struct try *t, struct cordon_error *err)
{
	struct end e = {.t = t, .live = t->sandbox->live, .c = colours_for(STDERR_FILENO), .result = *cordon_exec_result(t->exec)};
	int status = e.result.exit_code;

	if (t->io.ended_by)
		status = EXIT_SIGNAL + t->io.ended_by;
	e.talk = !t->o.run.json && !t->o.run.quiet;
	e.flags = (t->o.force ? COMMIT_FORCE : 0u) | (t->o.autorun ? COMMIT_AUTORUN : 0u);
	run_io_end(&t->io); /* from here on the terminal is ours */
	const enum verdict given = decided(&e);
	int r = live_compare(e.live, "", NULL, &e.before, &e.after, &e.changes, err);
	const bool something = r < 0 || e.changes.count;
	if (r == 0)
		r = show(&e, err);
	if (given != UNDECIDED && e.changes.count && r < 0) {
		r = 0; /* nobody needs to have seen it */
		*err = (struct cordon_error){0};
	}
	if (r == 0 && e.changes.count)
		r = carry_out(&e, given, &status, err);
	else if (r == 0 && given == KEEP)
		r = keep(&e, err);
	if (r < 0 && something && given != DISCARD) {
		/* whatever went wrong, what the command did is not lost */
		struct cordon_error ignored;
		keep(&e, &ignored);
	}
	e.result.exit_code = status;
	if (r == 0 && t->o.run.json)
		r = print_json(&e, err);
	end_free(&e);
	return r < 0 ? -1 : status;
}
