/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory as a layer. Depth first, names in the order of their bytes, so that the same tree gives the same digest; one directory is open at a time, however deep it
 * is, and each is opened from the top: whoever moves one meanwhile gets an error, and leads nowhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/layer.h"
#include "image/writing.h"

#define CHUNK ((size_t)256 << 10)
#define PROGRESS_EVERY ((uint64_t)1 << 20)

/* Where the first name of a file with several is. */
struct first_name {
	dev_t dev;
	ino_t ino; /* 0: free */
	char *path;
};

struct walk_level {
	struct buf names;
	char **sorted;
	size_t count, next;
	size_t path_len; /* of this directory */
};

struct walk {
	int top, dir;
	struct stat staging; /* never part of what it is made from */
	bool upper;          /* it is a layer already, in overlayfs' own format */
	struct walk_level *levels;
	size_t depth, room;
	char path[STREAM_PATH_MAX + 1];
	struct first_name *links; /* open addressing; room is a power of two */
	size_t link_count, link_room;
	char *chunk;
	struct new_layer layer;
	struct new_layer_totals totals;
	uint64_t told;
	image_progress *progress;
	void *arg;
};

/* Below the top, no links, no other mounts: not even those of the same file system. */
static int open_here(int dir, const char *path, int flags)
{
	const struct open_how how = {.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
	                             .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	for (int tries = 0;; tries++) {
		const int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN || tries == 100)
			return fd;
	}
}

/* ---- hard links --------------------------------------------------------------------------------------------------------------- */

static struct first_name *link_slot(struct first_name *links, size_t room, dev_t dev, ino_t ino)
{
	const uint64_t hash = ((uint64_t)ino * 0x9e3779b97f4a7c15u) ^ (uint64_t)dev;
	for (size_t i = (size_t)(hash >> 20);; i++) {
		struct first_name *f = &links[i & (room - 1)];
		if (f->ino == 0 || (f->ino == ino && f->dev == dev))
			return f;
	}
}

static int links_grow(struct walk *w)
{
	if (w->link_count * 4 < w->link_room * 3)
		return 0;
	const size_t room = w->link_room ? 2 * w->link_room : 64;
	struct first_name *links = calloc(room, sizeof(*links));
	if (!links)
		return -1;
	for (size_t i = 0; i < w->link_room; i++)
		if (w->links[i].ino)
			*link_slot(links, room, w->links[i].dev, w->links[i].ino) = w->links[i];
	free(w->links);
	w->links = links;
	w->link_room = room;
	return 0;
}

/* The path of its first name; NULL: this is the first (errno 0), or there is no memory. */
static const char *first_name(struct walk *w, const struct stat *st)
{
	if (links_grow(w) < 0)
		return NULL;
	struct first_name *f = link_slot(w->links, w->link_room, st->st_dev, st->st_ino);
	if (f->ino)
		return f->path;
	*f = (struct first_name){st->st_dev, st->st_ino, strdup(w->path)};
	w->link_count++;
	errno = f->path ? 0 : ENOMEM;
	return NULL;
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------------- */

static struct stream_entry entry_of(const struct walk *w, enum entry_type type, const struct stat *st)
{
	return (struct stream_entry){.type = type,
	                             .path = w->path,
	                             .mode = st->st_mode & 07777,
	                             .uid = st->st_uid,
	                             .gid = st->st_gid,
	                             .mtime = st->st_mtim.tv_sec,
	                             .mtime_ns = (uint32_t)st->st_mtim.tv_nsec};
}

static int tell(struct walk *w, struct cordon_error *err)
{
	if (!w->progress || w->totals.bytes - w->told < PROGRESS_EVERY)
		return 0;
	w->told = w->totals.bytes;
	return w->progress(w->arg, w->told, 0) ? 0 : err_set(err, CORDON_ERR_SYSTEM, "interrupted");
}

static int copy_range(struct walk *w, int fd, off_t at, off_t end, struct cordon_error *err)
{
	while (at < end) {
		const ssize_t n = pread(fd, w->chunk, (size_t)MIN((off_t)CHUNK, end - at), at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot read %.*s", PATH_SHOWN, w->path);
		if (n == 0)
			return err_set(err, CORDON_ERR_BUSY, "%.*s became shorter while it was read", PATH_SHOWN, w->path);
		if (new_layer_data(&w->layer, w->chunk, (size_t)n, err) < 0 || tell(w, err) < 0)
			return -1;
		at += n;
	}
	return 0;
}

static int copy_contents(struct walk *w, int fd, off_t size, struct cordon_error *err)
{
	for (off_t at = 0; at < size;) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data < 0)
			data = errno == ENXIO ? size : at; /* a hole up to the end, or a file system that cannot tell */
		data = MIN(data, size);
		if (data > at && new_layer_hole(&w->layer, (uint64_t)(data - at), err) < 0)
			return -1;
		off_t end = data < size ? lseek(fd, data, SEEK_HOLE) : size;
		end = end < 0 || end > size ? size : end;
		if (copy_range(w, fd, data, end, err) < 0)
			return -1;
		at = end;
	}
	return 0;
}

static int take_file(struct walk *w, const char *name, const struct stat *seen, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = open_here(w->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == EXDEV) {
		w->totals.neutralised.mounts++;
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot read %.*s", PATH_SHOWN, w->path);
	if (!S_ISREG(st.st_mode) || st.st_ino != seen->st_ino)
		return err_set(err, CORDON_ERR_BUSY, "%.*s became another while it was read", PATH_SHOWN, w->path);
	struct stream_entry e = entry_of(w, ENTRY_FILE, &st);
	errno = 0;
	e.link = st.st_nlink > 1 ? first_name(w, &st) : NULL;
	if (st.st_nlink > 1 && !e.link && errno)
		return err_sys(err, "cannot remember the links of %.*s", PATH_SHOWN, w->path);
	if (e.link)
		e.type = ENTRY_HARDLINK;
	else
		e.size = (uint64_t)st.st_size;
	if (new_layer_entry(&w->layer, &e, err) < 0)
		return -1;
	return e.link ? 0 : copy_contents(w, fd, st.st_size, err);
}

static int take_symlink(struct walk *w, const char *name, const struct stat *st, struct cordon_error *err)
{
	char target[STREAM_PATH_MAX + 2];
	const ssize_t n = readlinkat(w->dir, name, target, sizeof(target) - 1);
	if (n < 0)
		return err_sys(err, "cannot read the link %.*s", PATH_SHOWN, w->path);
	target[n] = '\0';
	struct stream_entry e = entry_of(w, ENTRY_SYMLINK, st);
	e.link = target;
	return new_layer_entry(&w->layer, &e, err);
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int sort_names(struct walk_level *l)
{
	for (size_t i = 0; i < l->names.len; i++)
		l->count += l->names.data[i] == '\0';
	l->sorted = calloc(l->count + 1, sizeof(*l->sorted));
	if (!l->sorted)
		return -1;
	char *name = l->names.data;
	for (size_t i = 0; i < l->count; i++, name += strlen(name) + 1)
		l->sorted[i] = name;
	qsort(l->sorted, l->count, sizeof(*l->sorted), by_bytes);
	return 0;
}

static void level_free(struct walk_level *l)
{
	buf_free(&l->names);
	free(l->sorted);
}

/* Goes into a directory that is open, and now the walk's. */
static int enter(struct walk *w, int dir, struct cordon_error *err)
{
	if (w->dir != w->top)
		cleanup_fd(&w->dir);
	w->dir = dir;
	if (w->depth == w->room) {
		const size_t room = w->room ? 2 * w->room : 64;
		struct walk_level *more = realloc(w->levels, room * sizeof(*more));
		if (!more)
			return err_sys(err, "cannot walk through %.*s", PATH_SHOWN, w->path);
		w->levels = more;
		w->room = room;
	}
	struct walk_level *l = &w->levels[w->depth++];
	*l = (struct walk_level){.path_len = strlen(w->path)};
	if (fs_read_names(dir, &l->names) < 0 || sort_names(l) < 0)
		return err_sys(err, "cannot read the directory %.*s", PATH_SHOWN, *w->path ? w->path : ".");
	return 0;
}

static int leave(struct walk *w, struct cordon_error *err)
{
	level_free(&w->levels[--w->depth]);
	if (w->depth == 0)
		return 0;
	w->path[w->levels[w->depth - 1].path_len] = '\0';
	if (w->dir != w->top)
		cleanup_fd(&w->dir);
	w->dir = *w->path ? open_here(w->top, w->path, O_RDONLY | O_DIRECTORY) : w->top;
	return w->dir < 0 ? err_sys(err, "cannot go back to %.*s", PATH_SHOWN, w->path) : 0;
}

static bool is_opaque(int dir)
{
	char value[2];
	return fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static int take_dir(struct walk *w, const char *name, const struct stat *st, struct cordon_error *err)
{
	if (st->st_ino == w->staging.st_ino && st->st_dev == w->staging.st_dev)
		return 0;
	const struct stream_entry e = entry_of(w, ENTRY_DIR, st);
	if (new_layer_entry(&w->layer, &e, err) < 0)
		return -1;
	const int fd = open_here(w->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0 && errno == EXDEV) {
		w->totals.neutralised.mounts++;
		return 0;
	}
	if (fd >= 0 && w->upper && is_opaque(fd)) {
		const struct stream_entry opaque = entry_of(w, ENTRY_OPAQUE, st);
		if (new_layer_entry(&w->layer, &opaque, err) < 0) {
			close(fd);
			return -1;
		}
	}
	return fd < 0 ? err_sys(err, "cannot open the directory %.*s", PATH_SHOWN, w->path) : enter(w, fd, err);
}

static int take_name(struct walk *w, const char *name, struct cordon_error *err)
{
	struct stat st;
	const size_t len = w->levels[w->depth - 1].path_len;
	if (len + 1 + strlen(name) > STREAM_PATH_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the directory has a path of more than 4095 bytes: %.*s", PATH_SHOWN, w->path);
	if (len)
		w->path[len] = '/';
	memcpy(w->path + len + (len > 0), name, strlen(name) + 1);
	if (fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot look at %.*s", PATH_SHOWN, w->path);
	const size_t depth = w->depth;
	int r;
	if (S_ISDIR(st.st_mode)) {
		r = take_dir(w, name, &st, err);
	} else if (S_ISREG(st.st_mode)) {
		r = take_file(w, name, &st, err);
	} else if (S_ISLNK(st.st_mode)) {
		r = take_symlink(w, name, &st, err);
	} else {
		const bool gone = w->upper && S_ISCHR(st.st_mode) && st.st_rdev == 0;
		const struct stream_entry e = entry_of(w, gone ? ENTRY_WHITEOUT : ENTRY_LEFT_OUT, &st);
		r = new_layer_entry(&w->layer, &e, err);
	}
	if (w->depth == depth)
		w->path[len] = '\0';
	return r;
}

static int walk_all(struct walk *w, struct cordon_error *err)
{
	struct stat st;
	if (fstat(w->top, &st) < 0)
		return err_sys(err, "cannot look at the directory");
	const struct stream_entry e = entry_of(w, ENTRY_DIR, &st);
	if (new_layer_entry(&w->layer, &e, err) < 0 || enter(w, w->top, err) < 0)
		return -1;
	while (w->depth > 0) {
		struct walk_level *l = &w->levels[w->depth - 1];
		const int r = l->next < l->count ? take_name(w, l->sorted[l->next++], err) : leave(w, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

static void walk_free(struct walk *w)
{
	if (w->dir != w->top)
		cleanup_fd(&w->dir);
	while (w->depth > 0)
		level_free(&w->levels[--w->depth]);
	free(w->levels);
	for (size_t i = 0; i < w->link_room; i++)
		free(w->links[i].path);
	free(w->links);
	free(w->chunk);
	new_layer_free(&w->layer);
}

static int write_layer(int dir, bool upper, int staging, const struct image_write_limits *limits, struct image_write_result *out,
                       image_progress *progress, void *arg, struct cordon_error *err)
{
	struct walk w = {.top = dir, .dir = dir, .upper = upper, .totals = {.limits = limits}, .progress = progress, .arg = arg};
	struct written_layer done;
	w.totals.neutralised = out->neutralised;
	w.chunk = malloc(CHUNK);
	w.layer = (struct new_layer){.tree = -1, .parent = -1, .file = -1};
	int r = w.chunk && fstat(staging, &w.staging) == 0 ? 0 : err_sys(err, "cannot read the directory");
	if (r == 0 && (new_layer_begin(&w.layer, &w.totals, staging, (unsigned)out->layer_count, err) < 0 || walk_all(&w, err) < 0 ||
	               new_layer_end(&w.layer, &done, err) < 0 || writing_add_layer(out, &done, err) < 0))
		r = -1;
	out->neutralised = w.totals.neutralised;
	walk_free(&w);
	return r;
}

int image_write_directory(int dir, int staging, const struct image_write_limits *limits, struct image_write_result *out,
                          image_progress *progress, void *arg, struct cordon_error *err)
{
	*out = (struct image_write_result){.kind = IMAGE_DIRECTORY};
	int r = write_layer(dir, false, staging, limits, out, progress, arg, err);
	if (r < 0)
		image_write_result_free(out);
	return r;
}

int image_write_upper(int dir, int staging, const struct image_write_limits *limits, struct image_write_result *out,
                      image_progress *progress, void *arg, struct cordon_error *err)
{
	return write_layer(dir, true, staging, limits, out, progress, arg, err);
}
