/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exact DIR TOOLS ROUNDS [SEED [WORLD]]: the property test of layers. In each round a random script changes a random tree inside a
 * sandbox and, the same, on a plain directory outside: both must do the same and look the same. Then something happens to the sandbox (a
 * rollback, a restore, a fork …), and what it shows then must be exactly, to the nanosecond, what it showed before.
 *
 *   DIR      an empty directory to work in       TOOLS    the directory that holds the program `inside`
 *   SEED     a number; from the clock if there is none, and printed; with the same one everything happens again
 *   WORLD    only this one of the worlds (a tree and a sandbox, some rounds long) that the seed gives, and all that happens in it is printed
 *
 * Prints "ok - …" or "not ok - …" lines, and on lines with "#" what differs. Exit status 0 if nothing did. Uses the library's insides
 * where the public interface has no word for it yet: commit, flatten.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "exact.h"
#include "lib/exec.h"

enum { DEADLINE = 3600, ROUNDS_PER_WORLD = 20, WORST = 5 };

/* How often each thing was checked: a test that checks nothing finds nothing. */
static struct {
	unsigned kept, rolled_back, unchanged, restored, failed_restored, forked, flattened, committed, reopened, beside, meddled, outside;
} done;

static struct node *now(struct world *w)
{
	return &w->nodes[w->current];
}

/* ---- manifests --------------------------------------------------------------------------------------------------------------- */

/* The line of a path in a manifest; NULL: there is none. */
static const char *line_of(const char *text, const char *line)
{
	const size_t len = strcspn(line, " ") + 1;

	for (; *text; text = strchr(text, '\n') + 1)
		if (strncmp(text, line, len) == 0)
			return text;
	return NULL;
}

static const char *field_of(const char *line, enum manifest_field field)
{
	for (unsigned i = 0; i < (unsigned)field; i++)
		line += strcspn(line, " \n") + 1;
	return line;
}

/* The manifest, but which names are of one file is taken from the other. */
static char *with_groups(const char *text, const char *other)
{
	struct buf out = {0};

	for (const char *line = text, *end; *line && (end = strchr(line, '\n')); line = end + 1) {
		const char *there = line_of(other, line), *group = field_of(line, F_GROUP), *rest = field_of(line, F_SPARSE);
		const char *from = there ? field_of(there, F_GROUP) : group;
		buf_add(&out, line, (size_t)(group - line));
		buf_add(&out, from, strcspn(from, " ") + 1);
		buf_add(&out, rest, (size_t)(end - rest) + 1);
	}
	return buf_steal(&out);
}

/*
 * Beside a service, what was put back in place may show the names of one file with several inode numbers: overlayfs in a user namespace does
 * so, until it is mounted again, where link(2) had to copy the file up. What is on disk is right, as the next mount and each commit show.
 */
static unsigned groups_of(const struct world *w)
{
	return w->service ? NO_GROUPS : 0;
}

/* What the sandbox shows is the current node, and what the host edits is as on the host was. */
static void check_state(struct world *w, const char *what, const char *shown, const char *host)
{
	if (!shown)
		return;
	_cleanup_free_ char *hosts = filtered(w, host, ONLY_HOST | OWNERS), *seen = filtered(w, shown, ONLY_HOST);
	_cleanup_free_ char *want = filtered(w, now(w)->manifest, groups_of(w)), *ours = filtered(w, shown, WITHOUT_HOST | groups_of(w));

	same(w, what, want, ours);
	if (!sandbox_copied(w->sandbox)) /* a copy does not show them */
		same(w, "the host's edits", hosts, seen);
}

static void look(struct world *w, const char *what)
{
	_cleanup_free_ char *host = host_manifest(w, false);
	struct run run = run_inside(w, w->sandbox, NULL);

	check_state(w, what, run.before, host);
	run_free(&run);
}

/* ---- a round ----------------------------------------------------------------------------------------------------------------- */

static void check_outside(struct world *w, const struct run *inside, const struct run *outside)
{
	const unsigned filters = WITHOUT_HOST | NO_NEW_TIMES | NO_HOLES | groups_of(w);

	same(w, "what the operations answer, wanted as outside", outside->results, inside->results);
	_cleanup_free_ char *want = filtered(w, outside->after, filters | OWNERS);
	_cleanup_free_ char *got = filtered(w, inside->after, filters);
	same(w, "the tree, wanted as outside", want, got);
	done.outside++;
}

static void add_node(struct world *w, const struct run *inside, const struct run *outside, char *script)
{
	struct node *n = &w->nodes[w->count];
	_cleanup_free_ char *seen = filtered(w, inside->after, WITHOUT_HOST);

	*n = (struct node){.parent = w->current, .script = script, .manifest = with_groups(seen, outside->after), .valid = true};
	snprintf(n->layer, sizeof(n->layer), "%s", inside->ended.after);
	w->current = w->mirrored = w->count++;
}

static void do_round(struct world *w)
{
	const bool fails = chance(&w->rng, 40), compared = !fails || chance(&w->rng, 40);
	const bool meddle = chance(&w->rng, 15);
	char *script = make_script(&w->rng, now(w)->manifest, meddle, fails ? 3 : 0);
	_cleanup_free_ char *host = host_manifest(w, false);
	struct run run = run_inside(w, w->sandbox, script), outside = {0};

	check_state(w, "before the exec", run.before, host);
	char how[1024];
	snprintf(how, sizeof(how), "status %d, reason '%s', %s", run.ended.status, run.ended.reason, run.ended.error.message);
	expect(w, run.ended.status == (fails ? 3 : 0), "the exec ends as it should", how);
	if (!w->failed && compared) {
		outside = run_outside(w, script);
		check_outside(w, &run, &outside);
	}
	const char *outcome = run.ended.outcome;
	const bool changed = strcmp(outcome, "none") != 0;
	expect(w, !changed || strcmp(outcome, fails ? "rolled_back" : "committed") == 0, "the outcome", outcome);
	if (w->failed) {
		printf("# the script was:\n%s", script);
		free(script);
	} else if (fails) {
		done.rolled_back += changed;
		free(script);
	} else {
		done.kept += changed;
		add_node(w, &run, &outside, script);
	}
	done.unchanged += !changed;
	done.beside += w->service != NULL;
	done.meddled += meddle;
	if (run.stale) /* what is mounted need not show names that vanished below it; what is mounted anew must */
		world_reopen(w);
	run_free(&run);
	run_free(&outside);
}

/* ---- what happens in between ------------------------------------------------------------------------------------------------- */

static void restore(struct world *w)
{
	struct cordon_error err = {0};
	const int to = (int)below(&w->rng, (uint32_t)w->count);

	if (!w->nodes[to].valid)
		return;
	w->current = to;
	expect(w, cordon_sandbox_restore(w->sandbox, now(w)->layer[0] ? now(w)->layer : "seed", &err) == 0, "a restore", err.message);
	look(w, "after the restore");
	done.restored++;
}

/* A rolled-back exec, looked at once more: it shows what it had done. */
static void restore_failed(struct world *w)
{
	struct live *l = w->sandbox->live;
	struct layer_list all = {0};
	struct cordon_error err = {0};
	char *script = make_script(&w->rng, now(w)->manifest, false, 3), failed[LAYER_ID_LEN + 1] = "";
	struct run run = run_inside(w, w->sandbox, script);

	if (strcmp(run.ended.outcome, "rolled_back") == 0 && layer_history(&l->store, l->box.id, l->box.head, &all, &err) == 0) {
		for (size_t i = 0; i < all.count; i++) /* the youngest is the last */
			if (all.items[i].layer.kind == LAYER_FAILED)
				memcpy(failed, all.items[i].layer.id, sizeof(failed));
		layer_list_free(&all);
		expect(w, failed[0] && cordon_sandbox_restore(w->sandbox, failed, &err) == 0, "a failed layer is restored", err.message);
		struct run again = run_inside(w, w->sandbox, NULL);
		_cleanup_free_ char *want = filtered(w, run.after ? run.after : "", WITHOUT_HOST | groups_of(w));
		_cleanup_free_ char *got = filtered(w, again.before ? again.before : "", WITHOUT_HOST | groups_of(w));
		if (!same(w, "a restored failed layer", want, got))
			printf("# the script was:\n%s", script);
		run_free(&again);
		expect(w, cordon_sandbox_restore(w->sandbox, now(w)->layer[0] ? now(w)->layer : "seed", &err) == 0, "and back",
		       err.message);
		done.failed_restored++;
	}
	look(w, "after a failed exec was restored and left");
	run_free(&run);
	free(script);
}

static void fork_and_compare(struct world *w)
{
	char id[21];
	struct cordon_error err = {0};
	const int from = (int)below(&w->rng, (uint32_t)w->count), was = w->current;
	const bool present = chance(&w->rng, 50) || !w->nodes[from].valid;
	const char *layer = w->nodes[from].layer[0] ? w->nodes[from].layer : "seed";

	if (!expect(w, cordon_sandbox_fork(w->sandbox, present ? NULL : layer, NULL, id, &err) == 0, "a fork", err.message))
		return;
	struct cordon_sandbox *s = open_box(w->ctx, id);
	w->current = present ? was : from;
	char *script = make_script(&w->rng, now(w)->manifest, false, 0);
	_cleanup_free_ char *host = host_manifest(w, false);
	struct run run = run_inside(w, s, script);
	check_state(w, "a fork", run.before, host);
	w->current = was;
	cordon_sandbox_destroy(s);
	look(w, "after its fork was changed");
	expect(w, cordon_remove(id, &err) == 0, "a fork is removed", err.message);
	run_free(&run);
	free(script);
	done.forked++;
}

static void flatten(struct world *w)
{
	struct live *l = w->sandbox->live;
	struct cordon_error err = {0};

	if (!l->box.head[0])
		return;
	expect(w, layer_flatten(&l->store, l->box.head, &err) == 0, "a layer is made flat", err.message);
	world_reopen(w); /* what is mounted stays so */
	look(w, "made flat");
	done.flattened++;
}

static void start_or_stop_service(struct world *w)
{
	if (w->service) {
		end_service(w->service);
		w->service = NULL;
	} else {
		w->service = start_service(w->sandbox);
	}
	look(w, w->service ? "beside a service" : "after a service");
}

static void reopen(struct world *w)
{
	world_reopen(w);
	look(w, "after it was closed and opened again");
	done.reopened++;
}

static bool same_field(const char *a, const char *b, enum manifest_field field)
{
	const char *x = field_of(a, field), *y = field_of(b, field);
	const size_t n = strcspn(x, " \n");

	return n == strcspn(y, " \n") && strncmp(x, y, n) == 0;
}

/* A directory that differs in nothing but its time may be left alone by a commit. What the owner cannot see is not compared. */
static bool left_alone(const char *line, const char *before, const char *after)
{
	static const enum manifest_field fields[] = {F_TYPE, F_MODE, F_UID, F_GID, F_ATTRIBUTES};
	const char *was = line_of(before, line), *is = line_of(after, line);

	if (*field_of(line, F_TYPE) != 'd' || !was || !is || !same_field(was, is, F_MTIME))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!same_field(line, was, fields[i]) && !(fields[i] == F_ATTRIBUTES && strchr(field_of(line, F_ATTRIBUTES), '!')))
			return false;
	return true;
}

/* What the host should show after a commit: what is inside, but for these directories' times and for holes. */
static char *committed(const char *inside, const char *before, const char *after)
{
	struct buf out = {0};

	for (const char *line = inside, *end; *line && (end = strchr(line, '\n')); line = end + 1) {
		const char *time_from = field_of(left_alone(line, before, after) ? line_of(before, line) : line, F_MTIME);
		const char *at = field_of(line, F_MTIME), *rest = field_of(line, F_CONTENT), *host = line_of(after, line);
		const char *holes = field_of(line, F_SPARSE), *last = field_of(line, F_ATTRIBUTES);
		if (host && *field_of(host, F_SPARSE) == 's')
			holes = field_of(host, F_SPARSE); /* a copy may have more holes */
		buf_add(&out, line, (size_t)(at - line));
		buf_add(&out, time_from, strcspn(time_from, " ") + 1);
		buf_add(&out, rest, (size_t)(field_of(line, F_SPARSE) - rest));
		buf_add(&out, holes, strcspn(holes, " ") + 1);
		buf_add(&out, last, (size_t)(end - last) + 1);
	}
	return buf_steal(&out);
}

/*
 * A commit that takes one of the names of a file away changes the change time of the others, so that the next one may take them for edited on
 * the host, and refuses. True if that is all that it complains of.
 */
static bool complains_of_links(const struct commit_report *report)
{
	for (size_t i = 0; i < report->problem_count; i++) {
		const char *path = report->problems[i].path, *slash = strrchr(path, '/');
		if (report->problems[i].why != REFUSED_CONFLICT || strncmp(slash ? slash + 1 : path, "hl", 2) != 0)
			return false;
	}
	return report->problem_count > 0;
}

/* 0: done, 1: refused, for the reason above. */
static int run_commit(struct world *w)
{
	struct cordon_error err = {0};
	struct commit_report report = {0};
	int r = live_commit(w->sandbox->live, &(struct live_commit){.flags = COMMIT_AUTORUN}, &report, &err);
	const bool excused = r == 1 && complains_of_links(&report);

	expect(w, r == 0 || excused, "a commit", r < 0 ? err.message : report.problem_count ? report.problems[0].text : "");
	for (size_t i = 0; r == 1 && !excused && i < report.problem_count && i < 5; i++)
		printf("#   %s: %s\n", report.problems[i].path, report.problems[i].text);
	commit_report_free(&report);
	return r;
}

/* The host's tree becomes what is seen inside. Other states lose what lay below them. */
static void commit(struct world *w)
{
	struct run run = run_inside(w, w->sandbox, NULL);
	const unsigned theirs = sandbox_copied(w->sandbox) ? WITHOUT_HOST : 0;
	_cleanup_free_ char *before = full_manifest(w->seed, -1), *was = filtered(w, before, OWNERS | theirs);

	if (run_commit(w) != 0) {
		_cleanup_free_ char *after = full_manifest(w->seed, -1);
		same(w, "the host's directory after a commit was refused", before, after);
		run_free(&run);
		return;
	}
	_cleanup_free_ char *host = host_manifest(w, true), *got = filtered(w, host, OWNERS | theirs);
	_cleanup_free_ char *seen = filtered(w, run.before ? run.before : "", ONLY_APP | theirs),
			    *true_groups = with_groups(seen, now(w)->manifest);
	_cleanup_free_ char *want = committed(true_groups, was, got);
	same(w, "the host's directory after a commit", want, got);
	run_free(&run);
	for (int i = 0; i < w->count; i++)
		w->nodes[i].valid = i == w->current;
	look(w, "after a commit");
	world_reopen(w);
	look(w, "after a commit, mounted anew");
	done.committed++;
}

static const struct {
	void (*run)(struct world *w);
	const char *name;
	unsigned percent;
} actions[] = {
	{restore, "restore", 20}, {restore_failed, "restore-failed", 5},  {fork_and_compare, "fork", 10}, {flatten, "flatten", 12},
	{reopen, "reopen", 5},    {start_or_stop_service, "service", 10}, {commit, "commit", 8},
};

/* True if the host's directory is what it was, or what was committed to it. */
static void check_host(struct world *w, const char *at_start)
{
	_cleanup_free_ char *full = full_manifest(w->seed, -1);
	_cleanup_free_ char *want = filtered(w, at_start, WITHOUT_HOST), *got = filtered(w, full, WITHOUT_HOST);

	for (int i = 0; i < w->count; i++)
		if (!w->nodes[i].valid)
			return; /* commit() has looked at it */
	same(w, "the host's directory at the end", want, got);
}

static int run_world(struct world *w, int rounds)
{
	int round = 0;

	world_begin(w);
	_cleanup_free_ char *at_start = full_manifest(w->seed, -1);
	for (; round < rounds && !w->failed; round++) {
		snprintf(w->doing, sizeof(w->doing), "round %d%s", round, w->service ? " (service)" : "");
		do_round(w);
		for (size_t i = 0; i < ARRAY_SIZE(actions) && !w->failed; i++) {
			if (!chance(&w->rng, actions[i].percent))
				continue;
			snprintf(w->doing, sizeof(w->doing), "round %d, %s%s", round, actions[i].name, w->service ? " (service)" : "");
			actions[i].run(w);
		}
	}
	if (!w->failed)
		check_host(w, at_start);
	world_end(w);
	return round;
}

static void summary(int rounds, int worlds, int bad)
{
	printf("# %u execs kept, %u rolled back, %u without a change; %u beside a service, %u while the host edited, %u compared with a plain directory\n",
	       done.kept, done.rolled_back, done.unchanged, done.beside, done.meddled, done.outside);
	printf("# %u restored, %u failed ones restored, %u forked, %u made flat, %u committed, %u reopened\n", done.restored,
	       done.failed_restored, done.forked, done.flattened, done.committed, done.reopened);
	check(bad == 0, "%d rounds in %d sandboxes: what is undone, restored, forked, flattened or committed is exact", rounds, worlds);
	if (rounds >= 200)
		check(done.kept && done.rolled_back && done.restored && done.failed_restored && done.forked && done.flattened &&
		              done.committed && done.reopened && done.beside && done.meddled && done.outside,
		      "and each of these was tried");
}

int main(int argc, char **argv)
{
	struct cordon *ctx = NULL;
	struct cordon_error err = {0};
	int bad = 0, worlds = 0, rounds = 0;

	alarm(DEADLINE);
	if (argc < 4 || argc > 6) {
		fprintf(stderr, "usage: exact DIR TOOLS ROUNDS [SEED [WORLD]]\n");
		return 2;
	}
	const int wanted = (int)strtol(argv[3], NULL, 10);
	const uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL) * 1000003u % 1000000000u;
	const uint64_t only = argc > 5 ? strtoull(argv[5], NULL, 10) : UINT64_MAX;
	printf("# seed %llu\n", (unsigned long long)seed);
	umask(0);
	if (cordon_open(&ctx, &err) < 0)
		give_up("a context can be opened: %s", err.message);
	for (uint64_t i = 0; rounds < wanted && bad < WORST; i++) {
		struct world w = {
			.ctx = ctx, .dir = argv[1], .tools = argv[2], .number = seed * 1000 + i, .seed = -1, .verbose = only != UINT64_MAX};
		if (only != UINT64_MAX && only != w.number)
			continue;
		rounds += run_world(&w, wanted - rounds < ROUNDS_PER_WORLD ? wanted - rounds : ROUNDS_PER_WORLD);
		worlds++;
		bad += w.failed;
		if (only != UINT64_MAX)
			break;
	}
	cordon_close(ctx);
	summary(rounds, worlds, bad);
	return failures ? 1 : 0;
}
