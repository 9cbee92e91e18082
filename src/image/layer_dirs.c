/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of a layer: their paths, how they are made, and what becomes of them in the end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/layer.h"
#include "layers/whiteout.h"

#define DIR_PATHS_MAX ((size_t)512 << 20) /* bytes of the paths of all directories of a layer */
#define DIR_WORKING 0700                  /* while it is written to, whatever it is to become */
#define DIR_IMPLIED 0755                  /* of those that are only part of a path */

/* ---- paths -------------------------------------------------------------------------------------------------------------------- */

static int path_fault(struct cordon_error *err, const char *path, const char *what)
{
	return err_set(err, CORDON_ERR_INPUT, "the archive has a path %s: %.*s", what, PATH_SHOWN, path);
}

int entry_path(const char *path, uint32_t depth_max, char out[STREAM_PATH_MAX + 1], struct cordon_error *err)
{
	size_t used = 0, len;
	uint32_t depth = 0;
	for (const char *p = path; *p; p += len + (p[len] == '/')) {
		len = strcspn(p, "/");
		if (len == 0 || (len == 1 && p[0] == '.'))
			continue;
		if (len == 2 && p[0] == '.' && p[1] == '.')
			return path_fault(err, path, "with \"..\" in it");
		if (len > NAME_MAX)
			return path_fault(err, path, "with a name of more than 255 bytes");
		if (used + (used > 0) + len > STREAM_PATH_MAX)
			return path_fault(err, path, "of more than 4095 bytes");
		if (++depth > depth_max)
			return path_fault(err, path, "that leads through too many directories");
		if (used)
			out[used++] = '/';
		memcpy(out + used, p, len);
		used += len;
	}
	out[used] = '\0';
	return 0;
}

/* Links and directories take room as well: each entry for itself is taken for a block, until it is measured when all are there. */
#define ENTRY_BYTES ((uint64_t)4096)
#define ENTRIES_FREE 1024

/* ---- making them -------------------------------------------------------------------------------------------------------------- */

int new_layer_count(struct new_layer *l, struct cordon_error *err)
{
	if (l->totals->entries >= l->totals->limits->entries)
		return err_set(err, CORDON_ERR_INPUT, "the image has more than %llu files and directories",
		               (unsigned long long)l->totals->limits->entries);
	if ((l->totals->entries + 1) * ENTRY_BYTES > MAX(l->totals->limits->bytes, ENTRIES_FREE * ENTRY_BYTES))
		return new_layer_full(l, err);
	l->totals->entries++;
	l->entries++;
	return 0;
}

int new_layer_full(const struct new_layer *l, struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_INPUT, "the image is larger than the %llu bytes that there is room for",
	               (unsigned long long)l->totals->limits->bytes);
}

int new_layer_remove(int dir, const char *base, const char *path, struct cordon_error *err)
{
	return fs_remove_tree(dir, base, err) < 0 ? err_wrap(err, "cannot replace %.*s", PATH_SHOWN, path) : 0;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* The other form of it, see layers/whiteout.h: no entry can have an attribute. */
static bool stands_for_whiteout(int dir, const char *base, const struct stat *st)
{
	_cleanup_fd_ int fd = S_ISREG(st->st_mode) && st->st_size == 0 ? fs_open(dir, base, O_RDONLY | O_NOFOLLOW, 0, FS_BENEATH) : -1;
	return fd >= 0 && fgetxattr(fd, "user.overlay.whiteout", NULL, 0) >= 0;
}

/* A directory where something else is: what the layers below have there is gone with it. An entry inside a file or a link is nonsense, or worse. */
static int make_way(int dir, const char *base, const char *path, bool implied, struct cordon_error *err)
{
	struct stat st;
	if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot look at %.*s", PATH_SHOWN, path);
	if (implied && !is_whiteout(&st) && !stands_for_whiteout(dir, base, &st))
		return err_set(err, CORDON_ERR_INPUT, "the archive has files below %.*s, which is %s", PATH_SHOWN, path,
		               S_ISLNK(st.st_mode) ? "a symbolic link" : "no directory");
	return unlinkat(dir, base, 0) == 0 ? 0 : err_sys(err, "cannot replace %.*s", PATH_SHOWN, path);
}

static int open_dir(int dir, const char *path)
{
	return fs_open(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
}

/* The umask may have taken what we need; the name is ours, and no link. */
static int open_new(int dir, const char *base)
{
	const int fd = open_dir(dir, base);
	return fd >= 0 || errno != EACCES || fchmodat(dir, base, DIR_WORKING, 0) < 0 ? fd : open_dir(dir, base);
}

/* One directory in another that is open. The caller's. */
static int make_one(struct new_layer *l, int dir, const char *base, const char *path, bool implied, bool *made, struct cordon_error *err)
{
	const struct dir_record plain = {.mode = DIR_IMPLIED};
	*made = false;
	int fd = open_dir(dir, base);
	if (fd >= 0)
		return fd;
	const bool replaces = errno == ENOTDIR || errno == ELOOP;
	if (!replaces && errno != ENOENT)
		return err_sys(err, "cannot open %.*s", PATH_SHOWN, path);
	if (replaces && make_way(dir, base, path, implied, err) < 0)
		return -1;
	if (implied && (new_layer_count(l, err) < 0 || new_layer_record_dir(l, path, &plain, err) < 0))
		return -1;
	if (mkdirat(dir, base, DIR_WORKING) < 0 || (fd = open_new(dir, base)) < 0 || (replaces && whiteout_make_opaque(fd) < 0)) {
		err_sys(err, "cannot make the directory %.*s", PATH_SHOWN, path);
		cleanup_fd(&fd);
		return -1;
	}
	*made = true;
	return fd;
}

/* The first len bytes of a path, from the top on. The caller's. */
static int make_all(struct new_layer *l, const char *path, size_t len, struct cordon_error *err)
{
	char part[STREAM_PATH_MAX + 1];
	_cleanup_fd_ int at = open_dir(l->tree, "");
	bool made;
	if (at < 0)
		return err_sys(err, "cannot open the layer");
	memcpy(part, path, len);
	part[len] = '\0';
	for (size_t from = 0; from < len;) {
		const size_t to = from + strcspn(part + from, "/");
		part[to] = '\0';
		const int next = make_one(l, at, part + from, part, true, &made, err);
		if (next < 0)
			return -1;
		close(at);
		at = next;
		if (to < len)
			part[to] = '/';
		from = to + 1;
	}
	return steal_fd(&at);
}

int new_layer_parent(struct new_layer *l, const char *path, const char **base, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/');
	const size_t len = slash ? (size_t)(slash - path) : 0;
	*base = slash ? slash + 1 : path;
	if (l->parent >= 0 && strlen(l->parent_path) == len && memcmp(l->parent_path, path, len) == 0)
		return l->parent;
	char parent[STREAM_PATH_MAX + 1];
	memcpy(parent, path, len);
	parent[len] = '\0';
	int fd = open_dir(l->tree, parent);
	if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENOTDIR)
		return err_sys(err, "cannot open %.*s", PATH_SHOWN, parent);
	if (fd < 0)
		fd = make_all(l, path, len, err);
	if (fd < 0)
		return -1;
	cleanup_fd(&l->parent);
	l->parent = fd;
	memcpy(l->parent_path, parent, len + 1);
	return fd;
}

int new_layer_make_dir(struct new_layer *l, const char *path, bool *made, struct cordon_error *err)
{
	const char *base;
	*made = false;
	if (!*path) {
		const int top = open_dir(l->tree, "");
		return top < 0 ? err_sys(err, "cannot open the layer") : top;
	}
	const int parent = new_layer_parent(l, path, &base, err);
	return parent < 0 ? -1 : make_one(l, parent, base, path, false, made, err);
}

/* ---- what becomes of them ----------------------------------------------------------------------------------------------------- */

int new_layer_record_dir(struct new_layer *l, const char *path, const struct dir_record *r, struct cordon_error *err)
{
	if (l->dir_count == l->dir_room) {
		const size_t room = l->dir_room ? 2 * l->dir_room : 256;
		struct dir_record *more = realloc(l->dirs, room * sizeof(*more));
		if (!more)
			return err_sys(err, "cannot remember directories");
		l->dirs = more;
		l->dir_room = room;
	}
	l->dir_bytes += strlen(path) + sizeof(*r);
	if (l->dir_bytes > DIR_PATHS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the image has more directories than can be remembered");
	char *copy = strdup(path);
	if (!copy)
		return err_sys(err, "cannot remember directories");
	l->dirs[l->dir_count] = *r;
	l->dirs[l->dir_count].path = copy;
	l->dirs[l->dir_count].order = l->dir_count;
	l->dir_count++;
	return 0;
}

/* What lies inside another comes before it: its own mode may be what keeps us out. */
static int deepest_first(const void *a, const void *b)
{
	const struct dir_record *x = a, *y = b;
	const int r = strcmp(y->path, x->path);
	return r ? r : (x->order < y->order) - (x->order > y->order);
}

static int finish_dir(const struct new_layer *l, const struct dir_record *r, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open_dir(l->tree, r->path);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0; /* a later entry took its place */
	const struct timespec times[2] = {r->mtime, r->mtime};
	if (fd < 0 || (l->give_owner && fchown(fd, r->uid, r->gid) < 0) || fchmod(fd, r->mode) < 0 || futimens(fd, times) < 0)
		return err_sys(err, "cannot set mode and time of %.*s", PATH_SHOWN, *r->path ? r->path : "/");
	return 0;
}

int new_layer_finish_dirs(struct new_layer *l, struct cordon_error *err)
{
	qsort(l->dirs, l->dir_count, sizeof(*l->dirs), deepest_first);
	for (size_t i = 0; i < l->dir_count; i++)
		if ((i == 0 || strcmp(l->dirs[i].path, l->dirs[i - 1].path) != 0) && finish_dir(l, &l->dirs[i], err) < 0)
			return -1;
	return 0;
}
