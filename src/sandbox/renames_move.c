/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a directory by hand.
 *
 * Theory of operation. A second tree is made under a temporary name beside the target: new directories, and in them links to the files, or
 * copies where a link would make the kernel copy anyway. rename(2) gives it the target's name in one step. Then the old tree is removed.
 * Until the rename, a failure only costs the temporary tree; after it, nothing can fail any more that would lose a file.
 *
 * Others may work in the old tree meanwhile. What was put into the second tree is remembered: a link by its inode, which both trees share,
 * a copy by its source's inode and ctime. What the old tree holds beyond that when it is removed is newer, and is moved over instead. (In
 * doubt too: rename(2) of two links to one file does nothing.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __GLIBC__ /* musl has no struct statx, or, since 1.2.5, one without stx_mnt_id: the kernel's, by another name */
#define statx linux_statx
#define statx_timestamp linux_statx_timestamp
#endif
#include <linux/stat.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "sandbox/renames.h"

#define CLEAR_PASSES 3

/* A file that the second tree has, by the old tree's inode. */
struct seen {
	uint64_t ino; /* 0: free */
	uint32_t dev_major, dev_minor;
	bool linked;
	struct statx_timestamp ctime; /* when it was first seen */
	char *path;                   /* below the second tree; NULL: has no other name */
};

struct level {
	struct stat old, new;
	struct buf names; /* each with its NUL */
	size_t next;
	size_t path_len; /* of the path of this directory */
};

struct move {
	int old, new; /* where the walk is */
	int root;     /* the second tree */
	struct level *levels;
	size_t depth, room;
	struct buf path; /* of `new` below root, with a slash at its end */
	struct seen *seen;
	size_t seen_count, seen_room;
	struct timespec born;
};

/* ---- what the second tree has ------------------------------------------------------------------------------------------------- */

static struct seen *seen_slot(struct seen *table, size_t room, const struct statx *st)
{
	for (size_t i = (size_t)((st->stx_ino * 0x9e3779b97f4a7c15u) >> 20);; i++) {
		struct seen *s = &table[i & (room - 1)];
		if (s->ino == 0 || (s->ino == st->stx_ino && s->dev_minor == st->stx_dev_minor && s->dev_major == st->stx_dev_major))
			return s;
	}
}

static struct seen *seen_find(const struct move *m, const struct statx *st)
{
	struct seen *s = m->seen_room ? seen_slot(m->seen, m->seen_room, st) : NULL;
	return s && s->ino ? s : NULL;
}

static bool seen_grow(struct move *m)
{
	size_t room = m->seen_room ? m->seen_room * 2 : 64;
	if (m->seen_count * 4 < m->seen_room * 3)
		return true;
	struct seen *table = calloc(room, sizeof(*table));
	if (!table)
		return false;
	for (size_t i = 0; i < m->seen_room; i++) {
		const struct seen *s = &m->seen[i];
		const struct statx key = {.stx_ino = s->ino, .stx_dev_major = s->dev_major, .stx_dev_minor = s->dev_minor};
		if (s->ino)
			*seen_slot(table, room, &key) = *s;
	}
	free(m->seen);
	m->seen = table;
	m->seen_room = room;
	return true;
}

static int look(int dir, const char *name, struct statx *st)
{
	return (int)syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID,
	                    st);
}

static bool same_time(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* `st` is what the old name was before. */
static int remember(struct move *m, const char *name, const struct statx *st)
{
	if (!seen_grow(m))
		return -1;
	struct seen *s = seen_slot(m->seen, m->seen_room, st);
	if (!s->ino) {
		*s = (struct seen){
			.ino = st->stx_ino, .dev_major = st->stx_dev_major, .dev_minor = st->stx_dev_minor, .ctime = st->stx_ctime};
		m->seen_count++;
		if (st->stx_nlink > 1 && asprintf(&s->path, "%s%s", m->path.data ? m->path.data : "", name) < 0) {
			s->path = NULL;
			return -1;
		}
	}
	return 0;
}

/*
 * The same for a link. Whether both names lead to what `st` was is seen by the ctime that linking gave it: on older kernels inode numbers
 * may differ from name to name.
 */
static int remember_link(struct move *m, const char *name, const struct statx *st)
{
	struct statx old, new;
	if (remember(m, name, st) < 0)
		return -1;
	if (look(m->old, name, &old) == 0 && look(m->new, name, &new) == 0 && same_time(&old.stx_ctime, &new.stx_ctime) &&
	    old.stx_ino == st->stx_ino)
		seen_slot(m->seen, m->seen_room, st)->linked = true;
	return 0;
}

/* ---- walking both trees -------------------------------------------------------------------------------------------------------- */

/* Two descriptors, whatever the depth: ".." leads back up, and has to be the directory that the walk came from. */
/* Goes into two directories; takes the descriptors over. name NULL: the top. */
static int enter(struct move *m, int old, int new, const char *name)
{
	struct level l = {.path_len = m->path.len};
	if (name)
		buf_addf(&m->path, "%s/", name);
	if (m->depth == m->room) {
		size_t room = m->room ? m->room * 2 : 64;
		struct level *more = realloc(m->levels, room * sizeof(*more));
		m->levels = more ? more : m->levels;
		m->room = more ? room : m->room;
	}
	if (m->depth == m->room || m->path.failed)
		errno = ENOMEM;
	else if (fstat(old, &l.old) == 0 && fstat(new, &l.new) == 0 && fs_read_names(old, &l.names) == 0) {
		cleanup_fd(&m->old);
		cleanup_fd(&m->new);
		m->old = old;
		m->new = new;
		m->levels[m->depth++] = l;
		return 0;
	}
	int e = errno;
	buf_free(&l.names);
	close(old);
	close(new);
	errno = e;
	return -1;
}

static int open_above(int fd, const struct stat *above)
{
	struct stat st;
	_cleanup_fd_ int up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || fstat(up, &st) < 0)
		return -1;
	if (st.st_dev != above->st_dev || st.st_ino != above->st_ino) {
		errno = EXDEV; /* moved meanwhile */
		return -1;
	}
	return steal_fd(&up);
}

/* Comes back out of them; `done` does what is left to do in them, before. At the top there is nowhere to go. */
static int leave(struct move *m, int (*done)(struct move *m))
{
	_cleanup_fd_ int old = -1, new = -1;
	if (m->depth > 1) {
		const struct level *above = &m->levels[m->depth - 2];
		old = open_above(m->old, &above->old);
		new = old < 0 ? -1 : open_above(m->new, &above->new);
		if (new < 0)
			return -1;
	}
	if (done && done(m) < 0)
		return -1;
	struct level *l = &m->levels[--m->depth];
	m->path.len = l->path_len;
	if (m->path.data)
		m->path.data[m->path.len] = '\0';
	buf_free(&l->names);
	cleanup_fd(&m->old);
	cleanup_fd(&m->new);
	m->old = steal_fd(&old);
	m->new = steal_fd(&new);
	return 0;
}

/* The next name in the directory where the walk is; NULL: no more. */
static const char *next_name(struct move *m)
{
	struct level *l = &m->levels[m->depth - 1];
	if (l->next >= l->names.len)
		return NULL;
	const char *name = l->names.data + l->next;
	l->next += strlen(name) + 1;
	return name;
}

/* The name by which the walk went into the directory that it has just left. */
static const char *last_name(const struct move *m)
{
	const struct level *l = &m->levels[m->depth - 1];
	size_t at = l->next - 1;
	while (at > 0 && l->names.data[at - 1])
		at--;
	return l->names.data + at;
}

static void end_walk(struct move *m)
{
	while (m->depth > 0)
		buf_free(&m->levels[--m->depth].names);
	m->path.len = 0;
	if (m->path.data)
		m->path.data[0] = '\0';
	cleanup_fd(&m->old);
	cleanup_fd(&m->new);
	m->old = m->new = -1;
}

/* ---- making the second tree ---------------------------------------------------------------------------------------------------- */

static bool out_of_space(void)
{
	return errno == ENOSPC || errno == EDQUOT || errno == ENOMEM;
}

static int copy_file(struct move *m, const char *name)
{
	struct cordon_error err = {0};
	if (copy_entry(m->old, name, m->new, name, COPY_OWNER_MAY_FAIL, NULL, &err) == 0)
		return 0;
	errno = err.sys_errno ? err.sys_errno : EXDEV;
	return -1;
}

static bool is_older(const struct move *m, const struct statx *st)
{
	return (st->stx_mask & STATX_BTIME) && (st->stx_btime.tv_sec < m->born.tv_sec ||
	                                        (st->stx_btime.tv_sec == m->born.tv_sec && st->stx_btime.tv_nsec < m->born.tv_nsec));
}

/*
 * A link is the better copy. But for a link to a file in a lower layer the kernel makes a copy first, with an fsync for each, and of files of
 * others no links may be made.
 */
static int transfer(struct move *m, const char *name, const struct statx *st)
{
	const struct seen *first = st->stx_nlink > 1 ? seen_find(m, st) : NULL;
	if (first && first->path && linkat(m->root, first->path, m->new, name, 0) == 0)
		return 0;
	if (first && out_of_space())
		return -1;
	if (S_ISREG(st->stx_mode) && is_older(m, st) && st->stx_uid == geteuid() && st->stx_gid == getegid()) {
		if (copy_file(m, name) == 0)
			return remember(m, name, st);
		if (out_of_space())
			return -1;
	}
	if (linkat(m->old, name, m->new, name, 0) == 0)
		return remember_link(m, name, st);
	if (errno == ENOENT)
		return 0; /* gone meanwhile */
	if (out_of_space() || copy_file(m, name) < 0)
		return -1;
	return remember(m, name, st);
}

/* What is in it will have to be removed from it: nothing may be in the way of that once the second tree has its name. */
static bool can_be_emptied(int dir, const struct stat *st)
{
	return st->st_uid == geteuid() || (!(st->st_mode & S_ISVTX) && faccessat(dir, ".", W_OK | X_OK, 0) == 0);
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int enter_and_make(struct move *m, int old_dir, const char *old_name, int new_dir, const char *new_name, const char *path)
{
	struct stat st;
	_cleanup_fd_ int old = open_dir(old_dir, old_name);
	if (old < 0 || fstat(old, &st) < 0)
		return errno == ENOENT && path ? 0 : -1;
	if (!can_be_emptied(old, &st)) {
		errno = EXDEV;
		return -1;
	}
	if (mkdirat(new_dir, new_name, 0700) < 0)
		return -1;
	_cleanup_fd_ int new = open_dir(new_dir, new_name);
	return new < 0 ? -1 : enter(m, steal_fd(&old), steal_fd(&new), path);
}

static int make_one(struct move *m, const char *name)
{
	struct statx st;
	if (look(m->old, name, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
		errno = EXDEV;
		return -1;
	}
	return S_ISDIR(st.stx_mode) ? enter_and_make(m, m->old, name, m->new, name, name) : transfer(m, name, &st);
}

/* Its mode and times last, since both stood in the way before. */
static int finish_dir(struct move *m)
{
	struct cordon_error err = {0};
	if (copy_dir_meta(m->old, m->new, COPY_OWNER_MAY_FAIL, &err) == 0)
		return 0;
	errno = err.sys_errno ? err.sys_errno : EXDEV;
	return -1;
}

static int make_tree(struct move *m, int old_parent, const char *old_name, int new_parent, const char *temporary)
{
	if (enter_and_make(m, old_parent, old_name, new_parent, temporary, NULL) < 0)
		return -1;
	m->root = fcntl(m->new, F_DUPFD_CLOEXEC, 0);
	if (m->root < 0)
		return -1;
	while (m->depth > 0) {
		const char *name = next_name(m);
		if ((name ? make_one(m, name) : leave(m, finish_dir)) < 0)
			return -1;
	}
	return 0;
}

/* ---- removing the old one ------------------------------------------------------------------------------------------------------- */

static int rename_no_replace(int old_dir, const char *old_name, int new_dir, const char *new_name)
{
	return (int)syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, 1 /* RENAME_NOREPLACE */);
}

static void clear_file(struct move *m, const char *name, const struct statx *st)
{
	struct statx now;
	struct seen *s = seen_find(m, st);
	bool known = s && (s->linked || same_time(&s->ctime, &st->stx_ctime));
	_cleanup_fd_ int other = known && st->stx_nlink > 1 ? openat(m->old, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (known || renameat(m->old, name, m->new, name) == 0)
		unlinkat(m->old, name, 0);
	/* its other names have a new ctime by that */
	if (other >= 0 && syscall(SYS_statx, other, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &now) == 0)
		s->ctime = now.stx_ctime;
}

static void clear_one(struct move *m, const char *name)
{
	struct statx st;
	if (look(m->old, name, &st) < 0)
		return;
	if (!S_ISDIR(st.stx_mode)) {
		clear_file(m, name, &st);
		return;
	}
	if (rename_no_replace(m->old, name, m->new, name) == 0)
		return; /* it was not there before: moved over as a whole */
	int old = open_dir(m->old, name), new = open_dir(m->new, name);
	if (old >= 0 && new >= 0) {
		if ((st.stx_mode & 0700) != 0700)
			fchmod(old, 0700);
		enter(m, old, new, name);
	} else {
		cleanup_fd(&old);
		cleanup_fd(&new);
	}
}

static void clear_tree(struct move *m, int old_parent, const char *old_name)
{
	struct stat st;
	int old = open_dir(old_parent, old_name), new = fcntl(m->root, F_DUPFD_CLOEXEC, 0);
	if (old < 0 || new < 0) {
		cleanup_fd(&old);
		cleanup_fd(&new);
		return;
	}
	if (fstat(old, &st) == 0 && (st.st_mode & 0700) != 0700)
		fchmod(old, 0700);
	if (enter(m, old, new, NULL) < 0)
		return;
	while (m->depth > 0) {
		const char *name = next_name(m);
		if (name)
			clear_one(m, name);
		else if (leave(m, NULL) < 0)
			break;
		else if (m->depth > 0)
			unlinkat(m->old, last_name(m), AT_REMOVEDIR);
	}
	end_walk(m);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

static bool same_mount(int a, int b)
{
	struct statx x, y;
	const int flags = AT_EMPTY_PATH;
	return syscall(SYS_statx, a, "", flags, STATX_MNT_ID, &x) == 0 && syscall(SYS_statx, b, "", flags, STATX_MNT_ID, &y) == 0 &&
	       (x.stx_mask & y.stx_mask & STATX_MNT_ID) && x.stx_mnt_id == y.stx_mnt_id;
}

static bool is_filled(int parent, const char *name)
{
	_cleanup_buf_ struct buf names = {0};
	_cleanup_fd_ int dir = open_dir(parent, name);
	return dir >= 0 && fs_read_names(dir, &names) == 0 && names.len > 0;
}

/* Errors that say something to the caller; for all others it is as if we were not there. */
static int answer(int error)
{
	static const int told[] = {ENOSPC, EDQUOT, ENOMEM, EACCES, EROFS, EIO, EEXIST, ENOTEMPTY, ENOTDIR};
	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		if (told[i] == error)
			return error;
	return EXDEV;
}

static int make_and_rename(struct move *m, int old_parent, const char *old_name, int new_parent, const char *new_name, unsigned flags)
{
	char temporary[40];
	uint64_t id;
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return EXDEV;
	snprintf(temporary, sizeof(temporary), ".cordon-rename-%016llx", (unsigned long long)id);
	int r = make_tree(m, old_parent, old_name, new_parent, temporary);
	if (r == 0)
		r = (int)syscall(SYS_renameat2, new_parent, temporary, new_parent, new_name, flags);
	int e = errno;
	end_walk(m);
	if (r == 0)
		return 0;
	fs_remove_tree(new_parent, temporary, NULL);
	return answer(e);
}

int rename_by_hand(int old_parent, const char *old_name, int new_parent, const char *new_name, unsigned flags, const struct timespec *born)
{
	struct move m = {.old = -1, .new = -1, .root = -1, .born = *born, .path = {.cap = FS_NAMES_MAX}};
	if (!same_mount(old_parent, new_parent))
		return EXDEV;
	if (is_filled(new_parent, new_name))
		return ENOTEMPTY;
	int r = make_and_rename(&m, old_parent, old_name, new_parent, new_name, flags);
	/* what is created in it again and again may stay: that could have come right after the rename, too */
	for (int pass = 0; r == 0 && pass < CLEAR_PASSES; pass++) {
		clear_tree(&m, old_parent, old_name);
		if (unlinkat(old_parent, old_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			break;
	}
	for (size_t i = 0; i < m.seen_room; i++)
		free(m.seen[i].path);
	free(m.seen);
	free(m.levels);
	buf_free(&m.path);
	cleanup_fd(&m.root);
	return r;
}
