/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a kill, a crash or a failure: DIR's stage tells how far the commit was.
 *
 *   .cordon-commit.T/           without a manifest: nothing was changed, it is removed
 *   .cordon-commit.T/manifest   everything is ready: its steps are done (again)
 *   .cordon-commit.T.done/      the steps are done: it is removed; T is DIR's new time by now
 *
 * Each of these may itself be interrupted and begun again. What is not ours is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/view_parts.h"

/*
 * Blocks that were given back can be had again when the file system's journal says that they are free, which a full disk has to be asked for. Every step can be
 * repeated.
 */
static int apply(int dir, const struct manifest *m, struct cordon_error *err)
{
	struct cordon_error why = {0};
	stages_give_room(&m->stages);
	int r = commit_apply(dir, m, &why);
	if (r < 0 && (why.sys_errno == ENOSPC || why.sys_errno == EDQUOT) && sync_whole(m, NULL) == 0)
		r = commit_apply(dir, m, &why);
	if (r < 0 && err)
		*err = why;
	return r;
}

int commit_finish(int dir, const char *name, const struct commit_key *key, struct cordon_error *err)
{
	char done[STAGE_NAME_MAX];
	_cleanup_manifest_ struct manifest m = {0};
	_cleanup_fd_ int stage = stage_open(dir, name, err);
	if (stage < 0)
		return -1;
	int r = manifest_load(stage, MANIFEST, key, &m, err);
	if (r != 0)
		return r < 0 ? -1 : err_set(err, CORDON_ERR_SYSTEM, "%s has no manifest", name);
	if (stages_open(dir, name, &m.stages, err) < 0 || apply(dir, &m, err) < 0)
		return err_hint(
			err, "what could be written is; the rest will be when a cordon command is run here again. To give it up, remove %s",
			name);
	stage_name(done, m.stages.items[0].after, COMMIT_DONE);
	if (renameat(dir, name, dir, done) < 0 || fsync(dir) < 0)
		return err_sys(err, "cannot rename %s", name);
	return stages_discard(dir, done, &m.stages, true, err);
}

/* The parts on other file systems, as far as they are known; `which` is the file that lists them. */
static int discard(int dir, const char *name, int stage, const char *which, const struct commit_key *key, bool done,
                   struct cordon_error *err)
{
	_cleanup_manifest_ struct manifest m = {0};
	if (manifest_load(stage, which, key, &m, err) < 0)
		return -1;
	return stages_discard(dir, name, &m.stages, done, err);
}

static int recover_own(int dir, const char *name, const struct commit_key *key, enum commit_recovered *what, struct cordon_error *err)
{
	int64_t mtime;
	bool done;
	if (!stage_name_parse(name, &mtime, &done))
		return err_set(err, CORDON_ERR_DENIED, "%s is not of our making", name);
	_cleanup_fd_ int stage = stage_open(dir, name, err);
	if (stage < 0)
		return -1;
	if (done) {
		*what = RECOVERED_FINISHED;
		return discard(dir, name, stage, MANIFEST, key, true, err);
	}
	if (faccessat(stage, MANIFEST, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		*what = RECOVERED_FINISHED;
		return commit_finish(dir, name, key, err);
	}
	*what = RECOVERED_UNDONE;
	return discard(dir, name, stage, STAGES, key, false, err);
}

static int recover_stage(int dir, const char *name, const struct commit_key *key, enum commit_recovered *what, struct cordon_error *err)
{
	enum commit_recovered this = RECOVERED_NOTHING;
	struct cordon_error why = {0};
	int r = recover_own(dir, name, key, &this, &why);
	if (r < 0 && why.code == CORDON_ERR_DENIED) {
		this = RECOVERED_FOREIGN;
		r = 0;
	}
	if (r < 0 && err)
		*err = why;
	*what = MAX(*what, this);
	return r;
}

/* Parts of a commit to a directory above this one are that directory's to recover. */
static bool is_part(const char *name)
{
	size_t len = strlen(name), suffix = strlen(COMMIT_PART);
	return len > suffix && strcmp(name + len - suffix, COMMIT_PART) == 0;
}

static int list_stages(int dir, struct strlist *out, struct cordon_error *err)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = again < 0 ? NULL : fdopendir(again);
	if (!d) {
		cleanup_fd(&again);
		return err_sys(err, "cannot read the directory");
	}
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(d);
		if (!e)
			return errno ? err_sys(err, "cannot read the directory") : 0;
		if (strncmp(e->d_name, COMMIT_STAGE, strlen(COMMIT_STAGE)) == 0 && !is_part(e->d_name) &&
		    strlist_add(out, e->d_name, err) < 0)
			return -1;
	}
}

static int recover_all(int dir, const struct strlist *stages, const struct commit_key *key, enum commit_recovered *what,
                       struct cordon_error *err)
{
	bool done;
	for (size_t i = 0; i < stages->count; i++)
		if (recover_stage(dir, stages->items[i], key, what, err) < 0)
			return -1;
	int r = stage_settle(dir, &done, err);
	if (r > 0 && *what == RECOVERED_NOTHING)
		*what = done ? RECOVERED_FINISHED : RECOVERED_UNDONE;
	return r < 0 ? -1 : 0;
}

int commit_recover_locked(int dir, const char *path, const struct commit_key *key, enum commit_recovered *what, struct cordon_error *err)
{
	struct strlist stages = {0};
	*what = RECOVERED_NOTHING;
	int r = list_stages(dir, &stages, err);
	if (r == 0)
		r = recover_all(dir, &stages, key, what, err);
	strlist_free(&stages);
	if (r < 0)
		return err_wrap(err, "cannot recover an interrupted commit to %s", path);
	return *what == RECOVERED_UNDONE || *what == RECOVERED_FINISHED;
}

int commit_recover(int target, const char *target_path, const char *home, enum commit_recovered *what, struct cordon_error *err)
{
	struct strlist stages = {0};
	*what = RECOVERED_NOTHING;
	_cleanup_fd_ int dir = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, "cannot open %s", target_path);
	int r = list_stages(dir, &stages, err);
	bool any = stages.count > 0 || stage_unsettled(dir);
	strlist_free(&stages);
	if (r < 0 || !any)
		return r;
	_cleanup_fd_ int locked = commit_lock(dir, false);
	if (locked < 0 && errno == EWOULDBLOCK)
		return 0; /* not interrupted: somebody is at it */
	if (locked < 0)
		return err_sys(err, "cannot lock %s", target_path);
	struct commit_key key;
	r = commit_key_load(home, false, &key, err);
	if (r > 0)
		*what = RECOVERED_FOREIGN; /* without a key nothing can be ours */
	return r != 0 ? MIN(r, 0) : commit_recover_locked(locked, target_path, &key, what, err);
}
