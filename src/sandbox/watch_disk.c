/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums up the blocks below the writable trees, a slice at a time so that the watcher can look at memory in between.
 *
 * The trees belong to the sandbox and change while they are walked: names vanish, directories move. Nothing is followed, no other
 * file system is entered, and the depth costs memory but no descriptors past WATCH_KEEP_FDS: deeper parents are reopened as "..", and
 * their inode number is checked. Where that fails the result is marked `torn`, and the caller falls back on the file system's own figures.
 * A file with several names counts with its share per name, which sums up to the whole where all its names are inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/util.h"
#include "sandbox/watch_parts.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* getdents64(2); musl and glibc disagree about its declaration */
struct walk_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

void watch_walk_start(struct watch_walk *w, const int roots[WATCH_TREES])
{
	memcpy(w->roots, roots, sizeof(w->roots));
	w->root = w->depth = 0;
	w->fd = -1;
	w->active = true;
	w->torn = w->too_deep = false;
	w->bytes = w->files = 0;
	w->pos = w->len = 0;
}

/* Starts with the next tree; false: that was the last. */
static bool next_root(struct watch_walk *w)
{
	struct stat st;

	while (w->root < ARRAY_SIZE(w->roots)) {
		int root = w->roots[w->root++];
		if (root < 0)
			continue;
		w->fd = openat(root, ".", OPEN_DIR);
		if (w->fd >= 0 && fstat(w->fd, &st) == 0) {
			w->dev = st.st_dev;
			w->ino = st.st_ino;
			w->depth = 0;
			w->pos = w->len = 0;
			return true;
		}
		cleanup_fd(&w->fd);
		w->fd = -1;
		w->torn = true;
	}
	return false;
}

static void descend(struct watch_walk *w, const struct walk_dirent *e, const struct stat *st)
{
	if (w->depth >= WATCH_DEPTH) {
		w->too_deep = true;
		return;
	}
	int fd = openat(w->fd, e->name, OPEN_DIR);
	if (fd < 0) {
		w->torn |= errno != ENOENT && errno != ENOTDIR && errno != ELOOP; /* gone or replaced is no loss */
		return;
	}
	struct watch_level *up = &w->stack[w->depth];
	*up = (struct watch_level){.ino = w->ino, .next = (off_t)e->off, .fd = w->fd};
	if (w->depth >= WATCH_KEEP_FDS) {
		close(w->fd);
		up->fd = -1;
	}
	w->depth++;
	w->fd = fd;
	w->ino = st->st_ino;
	w->pos = w->len = 0;
}

/* The directory is done: back to the one above, or to no one. */
static void ascend(struct watch_walk *w)
{
	struct stat st;
	int done = w->fd;

	w->fd = -1;
	w->pos = w->len = 0;
	if (w->depth > 0) {
		const struct watch_level *up = &w->stack[--w->depth];
		w->fd = up->fd >= 0 ? up->fd : openat(done, "..", OPEN_DIR);
		if (w->fd >= 0 && fstat(w->fd, &st) == 0 && st.st_ino == up->ino && st.st_dev == w->dev &&
		    lseek(w->fd, up->next, SEEK_SET) >= 0) {
			w->ino = up->ino;
		} else {
			/* Moved elsewhere meanwhile: what is left of this tree above the kept levels cannot be found again. */
			w->torn = true;
			cleanup_fd(&w->fd);
			w->fd = -1;
			while (w->depth > 0 && (w->fd = w->stack[--w->depth].fd) < 0)
				;
			if (w->fd >= 0 && lseek(w->fd, w->stack[w->depth].next, SEEK_SET) >= 0)
				w->ino = w->stack[w->depth].ino;
		}
	}
	close(done);
}

bool watch_walk_step(struct watch_walk *w, unsigned entries)
{
	struct stat st;

	while (entries > 0) {
		if (w->fd < 0 && !next_root(w)) {
			w->active = false;
			return true;
		}
		if (w->pos >= w->len) {
			long n = syscall(SYS_getdents64, w->fd, w->buf, sizeof(w->buf));
			if (n <= 0) {
				w->torn |= n < 0 && errno != ENOENT;
				ascend(w);
				entries--;
				continue;
			}
			w->pos = 0;
			w->len = (size_t)n;
		}
		const struct walk_dirent *e = (const void *)(w->buf + w->pos);
		w->pos += e->reclen;
		entries--;
		if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
			continue;
		if (fstatat(w->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && st.st_dev != w->dev) /* files of one overlay can have several numbers */
			continue;
		w->files++;
		w->bytes += (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) || st.st_nlink < 2 ? 1 : st.st_nlink);
		if (S_ISDIR(st.st_mode))
			descend(w, e, &st);
	}
	return false;
}
