/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From directory to directory of an index. No path is put together for that, so that deep trees cost what they hold, and not its square. The tree may be in
 * use: ".." counts only if it is the directory that the walk came from, else the way begins at the top again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/index.h"

struct index_level {
	dev_t dev;
	ino_t ino;
};

void index_walk_begin(struct index_walk *w, const struct tree_index *i, int top)
{
	*w = (struct index_walk){.index = i, .top = top, .fd = -1, .at = INDEX_TOP};
}

void index_walk_end(struct index_walk *w)
{
	cleanup_fd(&w->fd);
	free(w->levels);
	*w = (struct index_walk){.fd = -1, .top = -1, .at = INDEX_TOP};
}

/* fd: the new place; -1: nowhere, so that the next call begins at the top. */
static void move_to(struct index_walk *w, int fd)
{
	const int error = errno;
	cleanup_fd(&w->fd);
	w->fd = fd;
	errno = error;
}

static int restart(struct index_walk *w)
{
	move_to(w, fcntl(w->top, F_DUPFD_CLOEXEC, 3));
	w->depth = 0;
	w->at = INDEX_TOP;
	return w->fd < 0 ? -1 : 0;
}

static int remember(struct index_walk *w)
{
	struct stat st;
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 32;
		struct index_level *more = realloc(w->levels, room * sizeof(*more));
		if (!more)
			return -1;
		w->levels = more;
		w->room = room;
	}
	if (fstat(w->fd, &st) < 0)
		return -1;
	w->levels[w->depth] = (struct index_level){st.st_dev, st.st_ino};
	return 0;
}

static int go_down(struct index_walk *w, uint32_t to)
{
	if (remember(w) < 0)
		return -1;
	int next = openat(w->fd, tree_index_name(w->index, to), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0)
		return -1;
	move_to(w, next);
	w->at = to;
	w->depth++;
	return 0;
}

/* False if it is not where it was. */
static bool go_up(struct index_walk *w)
{
	struct stat st;
	_cleanup_fd_ int up = openat(w->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || fstat(up, &st) < 0 || st.st_dev != w->levels[w->depth - 1].dev || st.st_ino != w->levels[w->depth - 1].ino)
		return false;
	move_to(w, steal_fd(&up));
	w->at = w->index->items[w->at].parent;
	w->depth--;
	return true;
}

/* INDEX_TOP is above all. */
static bool is_after(uint32_t a, uint32_t b)
{
	return a != INDEX_TOP && (b == INDEX_TOP || a > b);
}

/* Goes up to what the two have above them both: of two directories, the one with the larger number is not above the other. */
static int go_up_towards(struct index_walk *w, uint32_t dir)
{
	for (uint32_t other = dir; w->at != other;) {
		if (is_after(other, w->at))
			other = w->index->items[other].parent;
		else if (!go_up(w))
			return restart(w);
	}
	return 0;
}

int index_walk_to(struct index_walk *w, uint32_t dir)
{
	size_t count = 0;
	if (w->fd < 0 && restart(w) < 0)
		return -1;
	if (w->at == dir)
		return w->fd;
	if (go_up_towards(w, dir) < 0)
		return -1;
	for (uint32_t d = dir; d != w->at; d = w->index->items[d].parent)
		count++;
	_cleanup_free_ uint32_t *way = count ? malloc(count * sizeof(*way)) : NULL;
	if (count && !way)
		return -1;
	for (uint32_t d = dir; d != w->at; d = w->index->items[d].parent)
		way[--count] = d;
	for (; w->at != dir; count++)
		if (go_down(w, way[count]) < 0) {
			move_to(w, -1);
			return -1;
		}
	return w->fd;
}
