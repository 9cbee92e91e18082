/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"

#define LOCK_TRIES 500 /* of 20 ms */

void commit_report_free(struct commit_report *r)
{
	for (size_t i = 0; i < r->problem_count; i++)
		free(r->problems[i].path);
	free(r->problems);
	strlist_free(&r->executables);
	identities_free(r->written);
	*r = (struct commit_report){0};
}

/* Polls: whoever can read DIR can lock it, and must not be able to keep us for ever. */
int commit_lock(int target, bool wait)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	_cleanup_fd_ int fd = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	for (int tries = wait ? LOCK_TRIES : 1; flock(fd, LOCK_EX | LOCK_NB) < 0; tries--) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || tries <= 1)
			return -1;
		nanosleep(&pause, NULL);
	}
	return steal_fd(&fd);
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

/* Up to the manifest, whose rename is the moment from which on there is no way back. 1: the host changed meanwhile. */
static int prepare(struct plan *p, struct cordon_error *err)
{
	_cleanup_buf_ struct buf manifest = {0};
	if (stages_create(p->dir, &p->stages, err) < 0 || plan_stage(p, err) < 0 || sync_staged(p, err) < 0)
		return -1;
	if (plan_manifest(p, &manifest, err) < 0 || plan_recheck(p, err) < 0)
		return -1;
	if (p->report->problem_count)
		return 1;
	if (plan_take_room(p, err) < 0)
		return -1;
	return write_synced(p->stages.items[0].fd, MANIFEST, manifest.data, manifest.len, err);
}

/* Nothing was changed yet. What cannot be removed now is left to recovery. */
static void undo(struct plan *p, const char *name)
{
	if (p->stages.items[0].fd >= 0)
		stages_discard(p->dir, name, &p->stages, false, NULL);
}

static int write_plan(struct plan *p, struct cordon_error *err)
{
	char name[STAGE_NAME_MAX];
	int r = prepare(p, err);
	stage_name(name, p->stages.items[0].before, "");
	if (r == 0)
		return commit_finish(p->dir, name, p->stages.key, err);
	undo(p, name);
	return r;
}

static int record_written(const struct plan *p, struct cordon_error *err)
{
	if (identities_new(&p->report->written, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		struct identity id;
		if (identity_now(p->dir, p->items[i].path, &id, err) < 0 ||
		    identities_put(p->report->written, p->items[i].path, &id, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------------- */

static void count_effective(const struct plan *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct change *c = p->items[i].change;
		if (c && p->items[i].action != ACT_NOTHING)
			*(c->op == CHANGE_TIME ? &p->report->times : &p->report->applied) += 1;
	}
}

static int run_plan(struct plan *p, struct cordon_error *err)
{
	if (plan_make(p, err) < 0)
		return -1;
	if (p->report->problem_count)
		return 1;
	count_effective(p);
	if (p->r->flags & COMMIT_DRY_RUN)
		return 0;
	int r = p->report->applied + p->report->times ? write_plan(p, err) : 0;
	if (r != 0)
		p->report->applied = p->report->times = 0;
	return r != 0 ? r : record_written(p, err);
}

static int open_target(const struct commit_request *r, struct commit_key *key, struct cordon_error *err)
{
	enum commit_recovered what;
	bool dry = r->flags & COMMIT_DRY_RUN;
	_cleanup_fd_ int dir = dry ? openat(r->target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : commit_lock(r->target, true);
	if (dir < 0 && errno == EWOULDBLOCK)
		return err_set(err, CORDON_ERR_DENIED, "another commit is running");
	if (dir < 0)
		return err_sys(err, "cannot open it");
	if (!dry && (commit_key_load(r->home, true, key, err) < 0 || commit_recover_locked(dir, r->target_path, key, &what, err) < 0))
		return -1;
	if (!dry && what == RECOVERED_FOREIGN) {
		err_set(err, CORDON_ERR_DENIED, "there is an interrupted commit (" COMMIT_STAGE "…) that is not ours");
		return err_hint(err, "finish it with the CORDON_HOME that began it, or remove it if it is not wanted");
	}
	return steal_fd(&dir);
}

int commit_run(const struct commit_request *r, struct commit_report *report, struct cordon_error *err)
{
	*report = (struct commit_report){0};
	struct commit_key key;
	_cleanup_fd_ int dir = open_target(r, &key, err);
	_cleanup_plan_ struct plan p = {.r = r, .dir = dir, .report = report, .stages = {.key = &key}};
	int result = dir < 0 ? -1 : run_plan(&p, err);
	return result < 0 ? err_wrap(err, "cannot commit to %s", r->target_path) : result;
}
