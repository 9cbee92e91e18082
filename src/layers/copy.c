/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "layers/filemeta.h"
#include "layers/view.h"

#define CHUNK ((size_t)256 << 10)

/* ---- hard links --------------------------------------------------------------------------------------------------------------- */

/* Where the first copy of an inode is: a path below one of the roots. */
struct link_entry {
	dev_t dev;
	ino_t ino;
	size_t root;
	char *path;      /* NULL once all its names are there */
	nlink_t awaited; /* names that have not been seen yet */
};

struct link_root {
	dev_t dev;
	ino_t ino;
	int fd; /* -1: free */
	size_t users;
};

struct copy_links {
	struct link_entry *entries; /* open addressing; room is a power of two; ino 0: free */
	size_t count, room;
	struct link_root *roots;
	size_t root_count;
};

struct copy_links *copy_links_new(void)
{
	return calloc(1, sizeof(struct copy_links));
}

void copy_links_free(struct copy_links *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->room; i++)
		free(l->entries[i].path);
	for (size_t i = 0; i < l->root_count; i++)
		cleanup_fd(&l->roots[i].fd);
	free(l->entries);
	free(l->roots);
	free(l);
}

/* Its slot, or the free one where it would be. */
static struct link_entry *link_slot(struct link_entry *entries, size_t room, dev_t dev, ino_t ino)
{
	uint64_t hash = ((uint64_t)ino * 0x9e3779b97f4a7c15u) ^ (uint64_t)dev;
	for (size_t i = (size_t)(hash >> 20);; i++) {
		struct link_entry *e = &entries[i & (room - 1)];
		if (e->ino == 0 || (e->ino == ino && e->dev == dev))
			return e;
	}
}

static bool links_grow(struct copy_links *l)
{
	size_t room = l->room ? l->room * 2 : 64;
	if (l->count * 4 < l->room * 3)
		return true;
	struct link_entry *entries = calloc(room, sizeof(*entries));
	if (!entries)
		return false;
	for (size_t i = 0; i < l->room; i++)
		if (l->entries[i].ino)
			*link_slot(entries, room, l->entries[i].dev, l->entries[i].ino) = l->entries[i];
	free(l->entries);
	l->entries = entries;
	l->room = room;
	return true;
}

/* The root for a directory; -1 with errno set. */
static ssize_t links_root(struct copy_links *l, int dir)
{
	struct stat st;
	size_t at = l->root_count;
	if (fstat(dir, &st) < 0)
		return -1;
	for (size_t i = 0; i < l->root_count; i++) {
		if (l->roots[i].fd >= 0 && l->roots[i].dev == st.st_dev && l->roots[i].ino == st.st_ino)
			return (ssize_t)i;
		if (l->roots[i].fd < 0)
			at = i;
	}
	if (at == l->root_count) {
		struct link_root *more = realloc(l->roots, (at + 1) * sizeof(*more));
		if (!more)
			return -1;
		l->roots = more;
		l->roots[l->root_count++] = (struct link_root){.fd = -1};
	}
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	l->roots[at] = (struct link_root){st.st_dev, st.st_ino, fd, 0};
	return (ssize_t)at;
}

static void link_settled(struct copy_links *l, struct link_entry *e)
{
	struct link_root *root = &l->roots[e->root];
	free(e->path);
	e->path = NULL;
	if (--root->users == 0) {
		close(root->fd);
		root->fd = -1;
	}
}

static int links_remember(struct copy_links *l, const struct stat *st, int root_dir, const char *path)
{
	ssize_t root = links_grow(l) ? links_root(l, root_dir) : -1;
	if (root < 0)
		return -1;
	struct link_entry *e = link_slot(l->entries, l->room, st->st_dev, st->st_ino);
	char *copy = strdup(path);
	if (!copy)
		return -1;
	if (e->ino == 0)
		l->count++;
	else if (e->path)
		link_settled(l, e); /* its links were too many for one inode: the next names are links to this one */
	*e = (struct link_entry){st->st_dev, st->st_ino, (size_t)root, copy, st->st_nlink - 1};
	l->roots[root].users++;
	return 0;
}

/* 1: made a link to the first copy; 0: there is none, or it can have no more links. */
static int links_try(struct copy_links *l, const struct stat *st, int to_dir, const char *to)
{
	struct link_entry *e = l->room ? link_slot(l->entries, l->room, st->st_dev, st->st_ino) : NULL;
	const char *base;
	if (!e || !e->path)
		return 0;
	_cleanup_fd_ int parent = path_open_parent(l->roots[e->root].fd, e->path, &base);
	if (parent < 0)
		return -1;
	if (linkat(parent, base, to_dir, to, 0) < 0)
		return errno == EMLINK || errno == EXDEV ? 0 : -1;
	if (e->awaited <= 1)
		link_settled(l, e);
	else
		e->awaited--;
	return 1;
}

/* ---- contents ----------------------------------------------------------------------------------------------------------------- */

static int copy_range_by_hand(int from, int to, off_t at, off_t end)
{
	_cleanup_free_ char *chunk = malloc(CHUNK);
	if (!chunk)
		return -1;
	while (at < end) {
		ssize_t n = pread(from, chunk, (size_t)MIN(end - at, (off_t)CHUNK), at);
		if (n == 0)
			errno = EBUSY; /* it became shorter: somebody writes to it */
		if (n <= 0)
			return -1;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to, chunk + done, (size_t)(n - done), at + done);
			if (w < 0)
				return -1;
			done += w;
		}
		at += n;
	}
	return 0;
}

/* Between two file systems, and on old kernels, the kernel does not copy by itself (or says 0, see copy_file_range(2)). */
static int copy_range(int from, int to, off_t at, off_t end)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)MIN(end - at, (off_t)1 << 30), 0);
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG))
			return -1;
		if (n <= 0)
			return copy_range_by_hand(from, to, at, end);
		at += n;
	}
	return 0;
}

int copy_data(int from, int to, off_t size)
{
	if (size == 0 || ioctl(to, FICLONE, from) == 0)
		return 0;
	for (off_t at = 0; at < size;) {
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		if (data < 0)
			data = at; /* a file system that cannot tell */
		off_t hole = lseek(from, data, SEEK_HOLE);
		off_t end = hole < 0 || hole > size ? size : hole;
		if (copy_range(from, to, data, end) < 0)
			return -1;
		at = end;
	}
	return ftruncate(to, size);
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------------- */

struct copy_job {
	int from_dir, to_dir;
	const char *from, *to;
	int source; /* O_PATH */
	struct stat st;
	struct file_meta meta;
	unsigned flags;
	bool made; /* `to` is there and is ours: to be removed if the rest fails */
};

static int finish_entry(const struct copy_job *j, int fd, struct cordon_error *err)
{
	if (file_meta_apply(fd, j->to, &j->meta, j->flags, err) < 0)
		return -1;
	if ((j->flags & COPY_SYNC) && S_ISREG(j->st.st_mode) && fsync(fd) < 0)
		return err_sys(err, "cannot write %s to disk", j->to);
	return 0;
}

static int copy_regular(struct copy_job *j, struct cordon_error *err)
{
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", j->source); /* just this inode, whatever has its name now */
	_cleanup_fd_ int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return err_sys(err, "cannot read %s", j->from);
	_cleanup_fd_ int out = openat(j->to_dir, j->to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(err, "cannot create %s", j->to);
	j->made = true;
	if (copy_data(in, out, j->st.st_size) < 0)
		return err_sys(err, "cannot copy %s", j->from);
	return finish_entry(j, out, err);
}

static int copy_symlink(const struct copy_job *j, struct cordon_error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(j->source, "", target, sizeof(target));
	if (n < 0 || (size_t)n == sizeof(target))
		return err_sys(err, "cannot read the link %s", j->from);
	target[n] = '\0';
	return symlinkat(target, j->to_dir, j->to) == 0 ? 0 : err_sys(err, "cannot create the link %s", j->to);
}

/* What has no contents is made, then opened by its name only for the rest of it. */
static int copy_special(struct copy_job *j, struct cordon_error *err)
{
	if (S_ISLNK(j->st.st_mode)) {
		if (copy_symlink(j, err) < 0)
			return -1;
	} else if (mknodat(j->to_dir, j->to, S_ISFIFO(j->st.st_mode) ? S_IFIFO | 0600 : S_IFCHR, 0) < 0) {
		return err_sys(err, "cannot create %s", j->to);
	}
	j->made = true;
	_cleanup_fd_ int fd = openat(j->to_dir, j->to, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(err, "cannot open %s", j->to) : finish_entry(j, fd, err);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool can_copy(const struct stat *st, unsigned flags)
{
	return S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) || S_ISFIFO(st->st_mode) || ((flags & COPY_OVERLAY) && is_whiteout(st));
}

/* 1: there is a link now instead of a copy. */
static int link_instead(const struct copy_job *j, struct copy_links *links, struct cordon_error *err)
{
	if (!S_ISREG(j->st.st_mode))
		return 0;
	if ((j->flags & COPY_LINK) && linkat(j->from_dir, j->from, j->to_dir, j->to, 0) == 0)
		return 1;
	if (!links || j->st.st_nlink < 2)
		return 0;
	int r = links_try(links, &j->st, j->to_dir, j->to);
	return r < 0 ? err_sys(err, "cannot link %s", j->to) : r;
}

/* The copy will be found again as `path` below `root`. */
static int copy_entry_at(int from_dir, const char *from, int to_dir, const char *to, unsigned flags, struct copy_links *links, int root,
                         const char *path, struct cordon_error *err)
{
	_cleanup_fd_ int source = openat(from_dir, from, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct copy_job j = {.from_dir = from_dir, .to_dir = to_dir, .from = from, .to = to, .source = source, .flags = flags};
	if (source < 0 || fstat(source, &j.st) < 0)
		return err_sys(err, "cannot open %s", from);
	if (!can_copy(&j.st, flags))
		return err_set(err, CORDON_ERR_INPUT, "%s is no file, link or FIFO", from);
	int r = link_instead(&j, links, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (file_meta_read(source, from, flags, &j.meta, err) < 0)
		return -1;
	r = S_ISREG(j.st.st_mode) ? copy_regular(&j, err) : copy_special(&j, err);
	if (r == 0 && links && S_ISREG(j.st.st_mode) && j.st.st_nlink > 1 && links_remember(links, &j.st, root, path) < 0)
		r = err_sys(err, "cannot remember the links of %s", from);
	file_meta_free(&j.meta);
	if (r < 0 && j.made)
		unlinkat(to_dir, to, 0);
	return r;
}

int copy_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned flags, struct copy_links *links,
               struct cordon_error *err)
{
	return copy_entry_at(from_dir, from, to_dir, to, flags, links, to_dir, to, err);
}

int copy_dir_meta(int from, int to, unsigned flags, struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta m = {0};
	if (file_meta_read(from, "the directory", flags, &m, err) < 0)
		return -1;
	return file_meta_apply(to, "the directory", &m, flags, err);
}

/* ---- trees -------------------------------------------------------------------------------------------------------------------- */

/*
 * Depth-first without recursion and with two descriptors, whatever the depth: ".." leads back up, and has to be the directory that the walk
 * came from, in the source and in the copy.
 */
struct copy_level {
	dev_t from_dev, to_dev;
	ino_t from_ino, to_ino;
	struct buf names; /* each with its NUL */
	size_t next;      /* offset into names */
	size_t path_len;  /* of the path of this directory */
};

struct copy_walk {
	int from, to;
	struct copy_level *levels;
	size_t depth, room; /* depth: number of levels in use */
	struct buf path;    /* of the current directory in the copy, below to_dir */
	int to_dir;
	unsigned flags;
	struct copy_links *links;
};

static int push_level(struct copy_walk *w, int from, int to)
{
	struct stat a, b;
	if (fstat(from, &a) < 0 || fstat(to, &b) < 0)
		return -1;
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 64;
		struct copy_level *more = realloc(w->levels, room * sizeof(*more));
		if (!more)
			return -1;
		w->levels = more;
		w->room = room;
	}
	struct copy_level *l = &w->levels[w->depth++];
	*l = (struct copy_level){a.st_dev, b.st_dev, a.st_ino, b.st_ino, {0}, 0, w->path.len};
	return fs_read_names(from, &l->names);
}

/* Makes the directory `to` in to_dir and goes into it and its source. */
static int descend(struct copy_walk *w, int from_dir, const char *from, int to_dir, const char *to, struct cordon_error *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_fd_ int source = openat(from_dir, from, flags);
	if (source < 0)
		return err_sys(err, "cannot open %s", from);
	if (mkdirat(to_dir, to, 0700) < 0)
		return err_sys(err, "cannot create %s", to);
	_cleanup_fd_ int copy = openat(to_dir, to, flags);
	buf_addf(&w->path, w->path.len ? "/%s" : "%s", to);
	if (copy < 0 || w->path.failed || push_level(w, source, copy) < 0)
		return err_sys(err, "cannot copy %s", from);
	cleanup_fd(&w->from);
	cleanup_fd(&w->to);
	w->from = steal_fd(&source);
	w->to = steal_fd(&copy);
	return 0;
}

static int open_above(int fd, dev_t dev, ino_t ino)
{
	struct stat st;
	_cleanup_fd_ int up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || fstat(up, &st) < 0)
		return -1;
	if (st.st_dev != dev || st.st_ino != ino) {
		errno = EXDEV; /* moved meanwhile */
		return -1;
	}
	return steal_fd(&up);
}

/* The directory is complete: its mode and times now, since both stood in the way before. */
static int ascend(struct copy_walk *w, struct cordon_error *err)
{
	const char *name = w->path.data;
	_cleanup_fd_ int from = -1, to = -1;
	buf_free(&w->levels[--w->depth].names);
	if (w->depth > 0) {
		const struct copy_level *above = &w->levels[w->depth - 1];
		from = open_above(w->from, above->from_dev, above->from_ino);
		to = from < 0 ? -1 : open_above(w->to, above->to_dev, above->to_ino);
		if (to < 0)
			return err_sys(err, "cannot leave %s", name);
	}
	if (copy_dir_meta(w->from, w->to, w->flags, err) < 0)
		return err_wrap(err, "%s", name);
	if ((w->flags & COPY_SYNC) && fsync(w->to) < 0)
		return err_sys(err, "cannot write %s to disk", name);
	cleanup_fd(&w->from);
	cleanup_fd(&w->to);
	w->from = steal_fd(&from);
	w->to = steal_fd(&to);
	if (w->depth > 0) {
		w->path.len = w->levels[w->depth - 1].path_len;
		w->path.data[w->path.len] = '\0';
	}
	return 0;
}

static int copy_one_name(struct copy_walk *w, const char *name, struct cordon_error *err)
{
	struct stat st;
	if (fstatat(w->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot stat %s/%s", w->path.data, name);
	if (S_ISDIR(st.st_mode))
		return descend(w, w->from, name, w->to, name, err);
	if (!can_copy(&st, w->flags))
		return 0;
	size_t len = w->path.len;
	buf_addf(&w->path, "/%s", name);
	int r = w->path.failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory")
	                       : copy_entry_at(w->from, name, w->to, name, w->flags, w->links, w->to_dir, w->path.data, err);
	w->path.len = len;
	if (w->path.data)
		w->path.data[len] = '\0';
	return r;
}

static int walk_and_copy(struct copy_walk *w, int from_dir, const char *from, const char *to, struct cordon_error *err)
{
	if (descend(w, from_dir, from, w->to_dir, to, err) < 0)
		return -1;
	while (w->depth > 0) {
		struct copy_level *l = &w->levels[w->depth - 1];
		if (l->next >= l->names.len) {
			if (ascend(w, err) < 0)
				return -1;
			continue;
		}
		const char *name = l->names.data + l->next;
		l->next += strlen(name) + 1;
		if (copy_one_name(w, name, err) < 0)
			return err_wrap(err, "%s", w->path.data);
	}
	return 0;
}

int copy_tree(int from_dir, const char *from, int to_dir, const char *to, unsigned flags, struct copy_links *links,
              struct cordon_error *err)
{
	struct stat st;
	struct copy_walk w = {.from = -1, .to = -1, .to_dir = to_dir, .flags = flags, .links = links, .path = {.cap = FS_NAMES_MAX}};
	if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, CORDON_ERR_INPUT, "%s exists", to);
	int r = walk_and_copy(&w, from_dir, from, to, err);
	for (size_t i = 0; i < w.depth; i++)
		buf_free(&w.levels[i].names);
	free(w.levels);
	buf_free(&w.path);
	cleanup_fd(&w.from);
	cleanup_fd(&w.to);
	if (r < 0)
		fs_remove_tree(to_dir, to, NULL);
	return r;
}

/* ---- small files -------------------------------------------------------------------------------------------------------------- */

int write_synced(int dir, const char *name, const void *data, size_t len, struct cordon_error *err)
{
	char temporary[NAME_MAX + 1];
	if (snprintf(temporary, sizeof(temporary), ".%s.tmp", name) >= (int)sizeof(temporary))
		return err_set(err, CORDON_ERR_INPUT, "name too long: %s", name);
	unlinkat(dir, temporary, 0);
	int r = fs_write_file(dir, temporary, data, len, 0600, err);
	_cleanup_fd_ int fd = r < 0 ? -1 : openat(dir, temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && (fd < 0 || fsync(fd) < 0 || renameat(dir, temporary, dir, name) < 0 || fsync(dir) < 0))
		r = err_sys(err, "cannot write %s", name);
	if (r < 0)
		unlinkat(dir, temporary, 0);
	return r;
}
