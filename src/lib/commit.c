/* SPDX-License-Identifier: Apache-2.0 */
/* What a finished exec has changed, written to the directory on the host that its sandbox started from. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "lib/events.h"

/*
 * In a sandbox that does not stay there is no layer that knows what the host's files were: what they are now counts, and whatever was changed on
 * the host since the sandbox was made is a conflict.
 */
static int note_identities(const struct cordon_exec *e, int seed, struct identities **out, struct cordon_error *err)
{
	if (identities_new(out, err) < 0)
		return -1;
	for (size_t i = 0; i < e->changes.count; i++) {
		struct identity id;

		if (identity_now(seed, e->changes.items[i].path, &id, err) < 0)
			return -1;
		id.raced = !id.absent && id.ctime_ns > e->sandbox->birth_ns;
		if (identities_put(*out, e->changes.items[i].path, &id, err) < 0)
			return -1;
	}
	return 0;
}

static struct identity expected(void *arg, const char *path)
{
	return identities_get(arg, path);
}

static int commit_scratch(struct cordon_exec *e, const struct live_commit *c, struct commit_report *report, struct cordon_error *err)
{
	const struct backend_sandbox *s = &e->sandbox->state;
	_cleanup_view_ struct view before = {0}, after = {0};
	struct identities *known = NULL;
	char path[4096];
	int r = -1;

	if (s->seed < 0 || s->fds[CREATED_SCRATCH] < 0)
		return err_set(err, CORDON_ERR_INPUT, "this sandbox was not seeded from a directory, so there is nothing to commit to");
	if (e->changes.count == 0)
		return 0;
	if (fs_fd_path(s->seed, path, sizeof(path)) < 0)
		return err_sys(err, "workspace");
	if (scratch_views(e->sandbox, &before, &after, err) == 0 && note_identities(e, s->seed, &known, err) == 0) {
		const struct commit_request request = {.home = e->sandbox->ctx->home,
		                                       .target = s->seed,
		                                       .target_path = path,
		                                       .before = &before,
		                                       .after = &after,
		                                       .changes = &e->changes,
		                                       .expected = expected,
		                                       .arg = known,
		                                       .flags = c->flags,
		                                       .forbids = live_forbids,
		                                       .policy = &e->sandbox->policy,
		                                       .progress = c->progress,
		                                       .user = c->user};
		r = commit_run(&request, report, err);
	}
	identities_free(known);
	return r;
}

/* The report as the result shows it. */
static int list_conflicts(struct cordon_exec *e, struct cordon_error *err)
{
	static const char *const kinds[] = {[REFUSED_CONFLICT] = "conflict", [REFUSED_AUTORUN] = "autorun", [REFUSED_KIND] = "impossible"};
	struct cordon_transaction *t = &e->result.transaction;
	const size_t count = e->report.problem_count;

	free(e->conflicts);
	e->conflicts = calloc(count + 1, sizeof(*e->conflicts));
	if (!e->conflicts)
		return err_sys(err, "cannot list the conflicts");
	for (size_t i = 0; i < count; i++) {
		const struct commit_problem *p = &e->report.problems[i];

		e->conflicts[i] = (struct cordon_conflict){kinds[p->why], p->path, p->text};
	}
	t->conflicts = e->conflicts;
	t->conflict_count = count;
	return 0;
}

int cordon_exec_commit(struct cordon_exec *e, const struct cordon_commit_options *o, struct cordon_error *err)
{
	struct cordon_transaction *t = &e->result.transaction;

	if (!o || o->size != sizeof(*o))
		return err_set(err, CORDON_ERR_INPUT, "cordon_commit_options.size is not set, or the header is of another version");
	if (!e->done)
		return err_set(err, CORDON_ERR_BUSY, "the command is still running");
	if (!exec_keeps(e)) {
		t->outcome = live_outcome_names[OUTCOME_ROLLED_BACK];
		return 0;
	}
	const struct live_commit c = {.flags = (o->flags & CORDON_COMMIT_AUTORUN ? COMMIT_AUTORUN : 0u) |
	                                       (o->flags & CORDON_COMMIT_FORCE ? COMMIT_FORCE : 0u) |
	                                       (o->flags & CORDON_COMMIT_DRY_RUN ? COMMIT_DRY_RUN : 0u),
	                              .progress = o->progress,
	                              .user = o->user};
	commit_report_free(&e->report);
	e->report = (struct commit_report){0};
	int r = e->sandbox->live ? live_commit(e->sandbox->live, &c, &e->report, err) : commit_scratch(e, &c, &e->report, err);
	if (!e->sandbox->live && r >= 0 && !(o->flags & CORDON_COMMIT_DRY_RUN) &&
	    events_commit(e->sandbox->ctx->home, e->result.sandbox, NULL, r, &e->report, err) < 0)
		r = -1;
	if (list_conflicts(e, err) < 0)
		return -1;
	if (r == 0 && !(o->flags & CORDON_COMMIT_DRY_RUN))
		t->outcome = live_outcome_names[exec_succeeded(e) ? OUTCOME_COMMITTED : OUTCOME_KEPT];
	else if (!e->sandbox->live)
		t->outcome = live_outcome_names[OUTCOME_NONE];
	return r;
}
