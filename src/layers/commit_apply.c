/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doing what a manifest says. It may have been done before, in whole or in part, so each step asks first whether it is still to be done.
 * Every place is reached through descriptors, from DIR down, without following a link: whatever others do in DIR meanwhile, nothing
 * outside it is touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/filemeta.h"
#include "layers/view_parts.h"

struct applier {
	int dir;
	const struct manifest *m;
	bool user; /* permissions count */
};

/* ---- directories that are closed to their owner ------------------------------------------------------------------------------- */

/*
 * An ordinary user's directory may lack the w or x bit for himself, since it had none before or because an earlier run of this manifest
 * took it away. Either way the manifest gives it the right mode at the end, so it can be opened up here.
 */
static bool open_up(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0700) != 0700 &&
	       file_chmod(fd, (st.st_mode & 07777) | 0700) == 0;
}

/* Opens up every directory on the way to the path's last component, as far as there are any. */
static bool open_up_all(int dir, const char *path)
{
	_cleanup_free_ char *part = strdup(path);
	bool any = false;
	for (char *slash = part ? strchr(part, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		_cleanup_fd_ int fd = path_open_dir(dir, part, O_PATH);
		*slash = '/';
		if (fd < 0)
			break;
		any = open_up(fd) || any;
	}
	return any;
}

static int parent_of(const struct applier *a, const char *path, const char **base)
{
	int fd = path_open_parent(a->dir, path, base);
	if (fd < 0 && errno == EACCES && a->user && open_up_all(a->dir, path))
		fd = path_open_parent(a->dir, path, base);
	return fd;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

static bool nothing_there(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

static int remove_name(const struct applier *a, int parent, const char *base, int flags)
{
	int r = unlinkat(parent, base, flags);
	if (r < 0 && errno == EACCES && a->user && open_up(parent))
		r = unlinkat(parent, base, flags);
	return r;
}

static int step_remove(const struct applier *a, const struct step *s)
{
	const char *base;
	_cleanup_fd_ int parent = parent_of(a, s->path, &base);
	if (parent < 0)
		return nothing_there(errno) ? 0 : -1;
	if (remove_name(a, parent, base, s->op == STEP_RMDIR ? AT_REMOVEDIR : 0) == 0)
		return 0;
	if (s->op == STEP_RMDIR && (errno == ENOTEMPTY || errno == EEXIST))
		return 0;
	return nothing_there(errno) || errno == EISDIR ? 0 : -1;
}

static int step_tree(const struct applier *a, const struct step *s, struct cordon_error *err)
{
	const char *base;
	struct stat st;
	_cleanup_fd_ int parent = parent_of(a, s->path, &base);
	if (parent < 0 || fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return nothing_there(errno) ? 0 : err_sys(err, "cannot open %s", s->path);
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (a->user)
		open_up(parent);
	return fs_remove_tree(parent, base, err);
}

static int step_move(const struct applier *a, const struct step *s)
{
	char number[24];
	const char *base;
	struct stat st;
	int files = a->m->stages.items[s->stage].files;
	snprintf(number, sizeof(number), "%zu", s->number);
	if (files < 0)
		return 0;
	if (fstatat(files, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	_cleanup_fd_ int parent = parent_of(a, s->path, &base);
	if (parent < 0)
		return -1;
	int r = renameat(files, number, parent, base);
	if (r < 0 && errno == EACCES && a->user && open_up(parent))
		r = renameat(files, number, parent, base);
	/* a directory that somebody else made meanwhile will do */
	return r < 0 && S_ISDIR(st.st_mode) && (errno == ENOTEMPTY || errno == EEXIST) ? 0 : r;
}

/* -1 with errno; ENOENT also for what has vanished. */
static int open_place(const struct applier *a, const char *path)
{
	const char *base;
	if (!*path)
		return path_open_dir(a->dir, "", O_RDONLY);
	_cleanup_fd_ int parent = parent_of(a, path, &base);
	if (parent < 0)
		return -1;
	int fd = openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && a->user && open_up(parent))
		fd = openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd;
}

static int step_meta(const struct applier *a, const struct step *s, struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta meta = {0};
	if (file_meta_parse(s->meta, &meta, err) < 0)
		return -1;
	_cleanup_fd_ int fd = open_place(a, s->path);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot open %s", s->path);
	return file_meta_apply(fd, s->path, &meta, a->user ? COPY_OWNER_MAY_FAIL : 0, err);
}

/* Somebody else's directory that we may write to: its mode is not ours to set, and needs not be set. */
static int step_touch(const struct applier *a, const struct step *s)
{
	struct stat st;
	_cleanup_fd_ int fd = open_place(a, s->path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return nothing_there(errno) ? 0 : -1;
	if (!S_ISDIR(st.st_mode))
		return 0;
	if ((st.st_mode & 07777) != s->mode && file_chmod(fd, s->mode) < 0 && errno != EPERM)
		return -1;
	return file_set_mtime(fd, s->mtime) < 0 && errno != EPERM ? -1 : 0;
}

static int run_step(const struct applier *a, const struct step *s, struct cordon_error *err)
{
	switch (s->op) {
	case STEP_UNLINK:
	case STEP_RMDIR:
		return step_remove(a, s) < 0 ? err_sys(err, "cannot remove %s", s->path) : 0;
	case STEP_TREE:
		return step_tree(a, s, err);
	case STEP_MOVE:
		return step_move(a, s) < 0 ? err_sys(err, "cannot put %s in place", s->path) : 0;
	case STEP_META:
		return step_meta(a, s, err);
	case STEP_TOUCH:
		return step_touch(a, s) < 0 ? err_sys(err, "cannot set mode and time of %s", *s->path ? s->path : ".") : 0;
	case STEP_OP_COUNT:
		break;
	}
	return err_set(err, CORDON_ERR_INPUT, "damaged");
}

/* ---- syncing ------------------------------------------------------------------------------------------------------------------ */

/* 1: cannot be synced alone, since it is closed to us (as it should be by now) or the file system does not know how; -1: failed. */
static int sync_fd(int fd)
{
	if (fd >= 0 && fsync(fd) == 0)
		return 0;
	return errno == EACCES || errno == EBADF || errno == EINVAL ? 1 : -1;
}

/* What was moved is synced already: the directory it is in now counts. */
static int sync_step(const struct applier *a, const struct step *s, struct cordon_error *err)
{
	const char *base = ".";
	_cleanup_fd_ int parent = *s->path ? path_open_parent(a->dir, s->path, &base) : path_open_dir(a->dir, "", O_RDONLY);
	if (parent < 0 && nothing_there(errno))
		return 0;
	int r = sync_fd(parent);
	if (r == 0 && s->op == STEP_META) {
		_cleanup_fd_ int fd = openat(parent, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		r = fd < 0 && nothing_there(errno) ? 0 : sync_fd(fd);
	}
	if (r < 0)
		return err_sys(err, "cannot write %s to disk", s->path);
	return r > 0 ? sync_whole(a->m, err) : 0;
}

static int for_each_step(const struct applier *a, int (*act)(const struct applier *, const struct step *, struct cordon_error *),
                         struct cordon_error *err)
{
	for (size_t i = 0; i < a->m->count; i++) {
		struct step s;
		if (manifest_get(a->m, i, &s, err) < 0)
			return err_wrap(err, "step %zu", i + 1);
		int r = act(a, &s, err);
		free(s.path);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int check_step(const struct applier *a, const struct step *s, struct cordon_error *err)
{
	struct file_meta meta = {0};
	int r = s->op == STEP_META ? file_meta_parse(s->meta, &meta, err) : 0;
	file_meta_free(&meta);
	return r;
}

int commit_apply(int dir, const struct manifest *m, struct cordon_error *err)
{
	struct applier a = {.dir = dir, .m = m, .user = geteuid() != 0};
	bool each;
	if (for_each_step(&a, check_step, err) < 0) /* all or nothing: no step before all can be read */
		return -1;
	if (for_each_step(&a, run_step, err) < 0 || sync_applied(m, &each, err) < 0)
		return -1;
	return each ? for_each_step(&a, sync_step, err) : 0;
}
