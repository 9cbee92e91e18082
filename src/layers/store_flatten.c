/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Squashing: a layer and all below it merged into one tree of hard links, beside the layer.
 *
 * The layers are added from the top down, by the rules of overlayfs: what is there already hides what comes later, directories are merged, and a
 * directory that is opaque takes nothing more. The seed is below all of them and stays there, so whiteouts and opaque marks are kept; and where a
 * layer holds something that ends the merging (a whiteout or a file under a directory), the directory above it becomes opaque.
 *
 * A walk holds two descriptors, however deep the tree: ".." leads back, and has to be the directory that the walk came from.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "layers/record.h"
#include "layers/store_parts.h"
#include "layers/whiteout.h"

#define OPAQUE "user.overlay.opaque"
#define XWHITEOUT "user.overlay.whiteout"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct level {
	struct stat from, to;    /* to: as it was before we came, and will be again */
	bool marked;             /* opaque=x: holds empty files that stand for whiteouts */
	bool ends;               /* `from` is opaque: so is `to`, once all of it is merged (by what stands for whiteouts in `to`, too) */
	struct strlist children; /* sub-directories of `from` */
	size_t next;
};

struct merge {
	int from, to; /* where the walk is */
	struct level *levels;
	size_t depth, room; /* depth: levels in use */
};

/* ---- overlayfs' marks --------------------------------------------------------------------------------------------------------- */

/* The value of its opaque mark, 0 if it has none; -1 on errors. */
static int opaque_mark(int fd)
{
	char value = 0;
	ssize_t n = fgetxattr(fd, OPAQUE, &value, 1);
	if (n < 0 && errno != ENODATA && errno != ERANGE && errno != EOPNOTSUPP)
		return -1;
	return n == 1 ? value : 0;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* The other form of a whiteout (whiteout.h): it counts only in a marked directory, and the merged one is not marked unless it has to be. */
static bool is_xwhiteout(const struct level *l, int dir, const char *name, const struct stat *st)
{
	if (!l->marked || !S_ISREG(st->st_mode) || st->st_size > 0)
		return false;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && fgetxattr(fd, XWHITEOUT, NULL, 0) >= 0;
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------------- */

/* A link, or where there can be no more of them a copy. */
static int add_entry(struct merge *m, const char *name, const struct stat *st, struct cordon_error *err)
{
	const struct level *l = &m->levels[m->depth - 1];
	if (is_xwhiteout(l, m->from, name, st))
		return whiteout_make(m->to, name) == 0 ? 0 : err_sys(err, "cannot make a whiteout for %s", name);
	if (linkat(m->from, name, m->to, name, 0) == 0)
		return 0;
	if (errno != EMLINK && errno != EPERM)
		return err_sys(err, "cannot link %s", name);
	if (S_ISSOCK(st->st_mode) || (S_ISCHR(st->st_mode) && !is_whiteout(st)) || S_ISBLK(st->st_mode))
		return 0; /* nobody listens there any more, and nothing inside can open devices */
	return copy_entry(m->from, name, m->to, name, COPY_OVERLAY, NULL, err);
}

/* Opens a directory of ours whatever its mode, and lets us write to it; leave() puts the mode back. */
static int open_writable(int dirfd, const char *name, const struct stat *st)
{
	if ((st->st_mode & 0700) != 0700 && fchmodat(dirfd, name, (st->st_mode & 07777) | 0700, 0) < 0)
		return -1;
	return openat(dirfd, name, DIR_FLAGS);
}

static int restore_mode(int fd, const struct stat *st)
{
	return (st->st_mode & 0700) == 0700 ? 0 : fchmod(fd, st->st_mode & 07777);
}

/* What is no directory lies under one: nothing below this layer shows through it. */
static int end_merging(struct merge *m, const char *name, const struct stat *st, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open_writable(m->to, name, st);
	if (fd < 0 || whiteout_make_opaque(fd) < 0 || restore_mode(fd, st) < 0)
		return err_sys(err, "cannot mark %s", name);
	return 0;
}

static int merge_entry(struct merge *m, const char *name, struct cordon_error *err)
{
	struct stat from, to;
	if (fstatat(m->from, name, &from, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot examine %s", name);
	if (S_ISDIR(from.st_mode))
		return strlist_add(&m->levels[m->depth - 1].children, name, err);
	if (fstatat(m->to, name, &to, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISDIR(to.st_mode) ? end_merging(m, name, &to, err) : 0;
	return errno == ENOENT ? add_entry(m, name, &from, err) : err_sys(err, "cannot examine %s", name);
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------------- */

static int grow(struct merge *m, struct cordon_error *err)
{
	if (m->depth < m->room)
		return 0;
	size_t room = m->room ? m->room * 2 : 32;
	struct level *levels = realloc(m->levels, room * sizeof(*levels));
	if (!levels)
		return err_sys(err, "cannot merge the layers");
	m->levels = levels;
	m->room = room;
	return 0;
}

/* Goes on in a pair of directories, which are taken over; all but their sub-directories is merged at once. */
static int enter(struct merge *m, int from, int to, const struct stat *to_before, struct cordon_error *err)
{
	struct strlist names = {0};
	cleanup_fd(&m->from);
	cleanup_fd(&m->to);
	m->from = from;
	m->to = to;
	int mark = opaque_mark(from);
	if (grow(m, err) < 0)
		return -1;
	struct level *l = &m->levels[m->depth++];
	*l = (struct level){.to = *to_before, .marked = mark == 'x'};
	if (mark < 0 || fstat(from, &l->from) < 0)
		return err_sys(err, "cannot examine a directory");
	int r = store_list(from, &names, err);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = merge_entry(m, names.items[i], err);
	strlist_free(&names);
	return r;
}

static bool same_inode(int fd, const struct stat *st)
{
	struct stat now;
	return fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

/* Puts the directory's times and mode back, and returns to its parent. */
static int leave(struct merge *m, struct cordon_error *err)
{
	struct level *l = &m->levels[m->depth - 1];
	const struct timespec times[] = {l->to.st_atim, l->to.st_mtim};
	strlist_free(&l->children);
	bool top = --m->depth == 0;
	_cleanup_fd_ int from = top ? -1 : openat(m->from, "..", DIR_FLAGS);
	_cleanup_fd_ int to = top ? -1 : openat(m->to, "..", DIR_FLAGS);
	if (!top && (from < 0 || to < 0 || !same_inode(from, &l[-1].from) || !same_inode(to, &l[-1].to)))
		return err_set(err, CORDON_ERR_SYSTEM, "a directory was moved meanwhile");
	if (l->ends && whiteout_make_opaque(m->to) < 0)
		return err_sys(err, "cannot mark a directory");
	if (futimens(m->to, times) < 0 || restore_mode(m->to, &l->to) < 0)
		return err_sys(err, "cannot set a directory's times");
	cleanup_fd(&m->from);
	cleanup_fd(&m->to);
	m->from = steal_fd(&from);
	m->to = steal_fd(&to);
	return 0;
}

/* A new directory with all that belongs to it but its entries. */
static int make_directory(int from, int parent, const char *name, struct stat *st, struct cordon_error *err)
{
	if (mkdirat(parent, name, 0700) < 0)
		return err_sys(err, "cannot make directory %s", name);
	_cleanup_fd_ int to = openat(parent, name, DIR_FLAGS);
	if (to < 0)
		return err_sys(err, "cannot open directory %s", name);
	if (copy_dir_meta(from, to, COPY_OVERLAY, err) < 0)
		return err_wrap(err, "%s", name);
	if (opaque_mark(to) == 'x' && fremovexattr(to, OPAQUE) < 0)
		return err_sys(err, "cannot unmark directory %s", name);
	if (fstat(to, st) < 0)
		return err_sys(err, "cannot examine directory %s", name);
	return 0;
}

/* 1: to be merged, and *to is open; 0: hidden by what is there. *ends: nothing below it is to be merged. */
static int open_target(struct merge *m, int from, const char *name, struct stat *before, int *to, bool *ends, struct cordon_error *err)
{
	bool made = fstatat(m->to, name, before, AT_SYMLINK_NOFOLLOW) < 0;
	if (made && errno != ENOENT)
		return err_sys(err, "cannot examine %s", name);
	if (made && make_directory(from, m->to, name, before, err) < 0)
		return -1;
	if (!S_ISDIR(before->st_mode))
		return 0;
	_cleanup_fd_ int fd = open_writable(m->to, name, before);
	int mark = fd < 0 ? -1 : opaque_mark(fd), mark_below = opaque_mark(from);
	if (mark < 0 || mark_below < 0)
		return err_sys(err, "cannot examine directory %s", name);
	if (!made && mark == 'y')
		return restore_mode(fd, before) == 0 ? 0 : err_sys(err, "cannot set the mode of %s", name);
	*ends = !made && mark_below == 'y';
	*to = steal_fd(&fd);
	return 1;
}

static int descend(struct merge *m, const char *name, struct cordon_error *err)
{
	struct stat before;
	_cleanup_fd_ int from = openat(m->from, name, DIR_FLAGS);
	_cleanup_fd_ int to = -1;
	if (from < 0)
		return err_sys(err, "cannot open directory %s", name);
	bool ends = false;
	int r = open_target(m, from, name, &before, &to, &ends, err);
	if (r <= 0 || enter(m, steal_fd(&from), steal_fd(&to), &before, err) < 0)
		return r <= 0 ? r : -1;
	m->levels[m->depth - 1].ends = ends;
	return 0;
}

/* Adds the tree `from` under what `to` has already. The tops are merged whatever their marks, as overlayfs does. */
static int merge_tree(int from_dir, const char *from_path, int to_dir, const char *to_name, struct cordon_error *err)
{
	struct merge m = {.from = -1, .to = -1};
	struct stat before;
	_cleanup_fd_ int from = openat(from_dir, from_path, DIR_FLAGS); /* the directories above a tree's top are ours alone */
	if (from < 0)
		return err_sys(err, "cannot open %s", from_path);
	if (fstatat(to_dir, to_name, &before, AT_SYMLINK_NOFOLLOW) < 0 && make_directory(from, to_dir, to_name, &before, err) < 0)
		return -1;
	_cleanup_fd_ int to = open_writable(to_dir, to_name, &before);
	int r = to < 0 ? err_sys(err, "cannot open %s", to_name) : enter(&m, steal_fd(&from), steal_fd(&to), &before, err);
	while (r == 0 && m.depth > 0) {
		struct level *l = &m.levels[m.depth - 1];
		if (l->next < l->children.count)
			r = descend(&m, l->children.items[l->next++], err);
		else
			r = leave(&m, err);
	}
	while (m.depth > 0)
		strlist_free(&m.levels[--m.depth].children);
	free(m.levels);
	cleanup_fd(&m.from);
	cleanup_fd(&m.to);
	return r < 0 ? err_wrap(err, "%s", from_path) : 0;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------------- */

static int build(struct store *s, const char *id, int to, struct cordon_error *err)
{
	for (enum layer_tree tree = 0; tree < TREE_ALL; tree++) {
		struct strlist chain = {0};
		int r = layer_chain(s, id, tree, &chain, err);
		for (size_t i = 0; i < chain.count && r == 0; i++)
			r = merge_tree(s->layers_fd, chain.items[i], to, layer_tree_names[tree], err);
		strlist_free(&chain);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* What processes that were killed left here. */
static void remove_remains(int dir)
{
	struct strlist names = {0};
	store_list(dir, &names, NULL);
	for (size_t i = 0; i < names.count; i++)
		if (record_temp_is_dead(names.items[i], FLAT_TEMP))
			fs_remove_tree(dir, names.items[i], NULL);
	strlist_free(&names);
}

/* The name "flat" stands for a complete tree, also after a loss of power. */
static int publish(struct store *s, int dir, const char *temp, struct cordon_error *err)
{
	if (syncfs(s->layers_fd) < 0)
		return err_sys(err, "cannot write to the disk");
	if (renameat(dir, temp, dir, LAYER_FLAT) < 0)
		return errno == ENOTEMPTY || errno == EEXIST ? 1 : err_sys(err, "cannot rename %s", temp);
	if (fsync(dir) < 0)
		return err_sys(err, "cannot write to the disk");
	return 0;
}

int layer_flatten(struct store *s, const char *id, struct cordon_error *err)
{
	char temp[RECORD_TEMP_MAX];
	_cleanup_layer_ struct layer l = {0};
	if (layer_read(s, id, &l, err) < 0)
		return -1;
	_cleanup_fd_ int dir = layer_open_dir(s, id, err);
	if (dir < 0)
		return -1;
	remove_remains(dir);
	if (faccessat(dir, LAYER_FLAT, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (record_temp_name(temp, FLAT_TEMP, err) < 0)
		return -1;
	if (mkdirat(dir, temp, 0700) < 0)
		return err_sys(err, "cannot squash layer %s: cannot make a directory", id);
	_cleanup_fd_ int to = openat(dir, temp, DIR_FLAGS);
	int r = to < 0 ? err_sys(err, "cannot open %s", temp) : build(s, id, to, err);
	if (r == 0)
		r = publish(s, dir, temp, err);
	if (r != 0) /* 1: somebody else was faster */
		fs_remove_tree(dir, temp, NULL);
	return r < 0 ? err_wrap(err, "cannot squash layer %s", id) : 0;
}
