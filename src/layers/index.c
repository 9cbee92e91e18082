/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/copy.h"
#include "layers/view.h"

#define MAX_ENTRIES 4000000

void tree_index_free(struct tree_index *i)
{
	for (size_t k = 0; k < i->count; k++)
		free(i->items[k].path);
	free(i->items);
	*i = (struct tree_index){0};
}

static int add(struct tree_index *i, char *path, const struct stat *st, struct cordon_error *err)
{
	if (i->count == MAX_ENTRIES)
		return err_set(err, CORDON_ERR_INPUT, "more than %d changed files", MAX_ENTRIES);
	if (i->count == i->size) {
		size_t size = i->size ? i->size * 2 : 64;
		struct index_entry *items = realloc(i->items, size * sizeof(*items));
		if (!items)
			return err_sys(err, "cannot list the layer");
		i->items = items;
		i->size = size;
	}
	i->items[i->count++] = (struct index_entry){.path = path,
	                                            .ino = st->st_ino,
	                                            .size = (uint64_t)st->st_size,
	                                            .ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
	                                            .mode = st->st_mode};
	return 0;
}

static char *join(const char *dir, const char *name)
{
	size_t a = strlen(dir), b = strlen(name);
	char *path = malloc(a + b + 2);
	if (!path)
		return NULL;
	memcpy(path, dir, a);
	if (a)
		path[a++] = '/';
	memcpy(path + a, name, b + 1);
	return path;
}

/* The directory of that path, "" for the top. Paths may be longer than PATH_MAX. */
static int open_dir(int top, const char *path)
{
	const char *base;
	if (!*path)
		return openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int parent = path_open_parent(top, path, &base);
	return parent < 0 ? -1 : openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int scan_dir(int top, const char *path, struct tree_index *out, struct cordon_error *err)
{
	struct dirent *e;
	struct stat st;
	int fd = open_dir(top, path);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd < 0 && (errno == ENOENT || errno == ENOTDIR) && *path)
		return 0; /* gone meanwhile */
	if (!dir) {
		err_sys(err, "cannot read /%s", path);
		cleanup_fd(&fd);
		return -1;
	}
	while (errno = 0, (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return err_sys(err, "cannot look at /%s/%s", path, e->d_name);
		}
		char *full = join(path, e->d_name);
		if (!full || add(out, full, &st, err) < 0) {
			free(full);
			return full ? -1 : err_sys(err, "cannot list the layer");
		}
	}
	return errno ? err_sys(err, "cannot read /%s", path) : 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct index_entry *)a)->path, ((const struct index_entry *)b)->path);
}

/* The list is its own queue: directories are walked in the order in which they were found, one descriptor at a time. */
int tree_index_scan(int dir, struct tree_index *out, struct cordon_error *err)
{
	*out = (struct tree_index){0};
	int r = scan_dir(dir, "", out, err);
	for (size_t i = 0; r == 0 && i < out->count; i++)
		if (S_ISDIR(out->items[i].mode))
			r = scan_dir(dir, out->items[i].path, out, err);
	if (r < 0)
		tree_index_free(out);
	else if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_path);
	return r;
}

/* A directory's own change time moves with every entry in it; what counts is in the entries, and its mode. */
static bool same(const struct index_entry *a, const struct index_entry *b)
{
	return a->ino == b->ino && a->mode == b->mode && (S_ISDIR(a->mode) || (a->size == b->size && a->ctime_ns == b->ctime_ns));
}

bool tree_index_equal(const struct tree_index *a, const struct tree_index *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i].path, b->items[i].path) != 0 || a->items[i].ctime_ns != b->items[i].ctime_ns ||
		    !same(&a->items[i], &b->items[i]))
			return false;
	return true;
}

const struct index_entry *tree_index_find(const struct tree_index *i, const char *path)
{
	const struct index_entry key = {.path = (char *)(uintptr_t)path};
	return i && i->count ? bsearch(&key, i->items, i->count, sizeof(*i->items), by_path) : NULL;
}

/* ---- copying ----------------------------------------------------------------------------------------------------------------- */

/* False if it has to be copied after all (too many links, say). */
static bool link_sealed(int sealed, int to_dir, const char *path, const char *base)
{
	const char *from;
	_cleanup_fd_ int parent = path_open_parent(sealed, path, &from);
	return parent >= 0 && linkat(parent, from, to_dir, base, 0) == 0;
}

static int checkpoint_entry(int from, const struct index_entry *e, int to, int sealed, const struct tree_index *last,
                            struct copy_links *links, struct cordon_error *err)
{
	const char *base, *to_base;
	_cleanup_fd_ int parent = path_open_parent(from, e->path, &base), to_parent = path_open_parent(to, e->path, &to_base);
	if (parent < 0 || to_parent < 0)
		return err_sys(err, "cannot open /%s", e->path);
	if (S_ISDIR(e->mode))
		return mkdirat(to_parent, to_base, 0700) < 0 ? err_sys(err, "cannot copy /%s", e->path) : 0;
	const struct index_entry *old = sealed >= 0 ? tree_index_find(last, e->path) : NULL;
	if (old && same(old, e) && S_ISREG(e->mode) && link_sealed(sealed, to_parent, e->path, to_base))
		return 0;
	if (S_ISSOCK(e->mode)) /* nobody listens in a copy */
		return 0;
	return copy_entry(parent, base, to_parent, to_base, COPY_OVERLAY | COPY_OWNER_MAY_FAIL, links, err);
}

static int finish_dir(int from, int to, const char *path, struct cordon_error *err)
{
	_cleanup_fd_ int source = open_dir(from, path), target = open_dir(to, path);
	if (source < 0 || target < 0)
		return err_sys(err, "cannot open /%s", path);
	return copy_dir_meta(source, target, COPY_OVERLAY | COPY_OWNER_MAY_FAIL, err);
}

int tree_checkpoint(int from, const struct tree_index *now, int to, int sealed, const struct tree_index *last, struct cordon_error *err)
{
	struct copy_links *links = copy_links_new();
	int r = links ? 0 : err_sys(err, "cannot copy the layer");
	for (size_t i = 0; r == 0 && i < now->count; i++)
		r = checkpoint_entry(from, &now->items[i], to, sealed, last, links, err);
	/* from the end: what is in a directory comes after it, and changes its times */
	for (size_t i = now->count; r == 0 && i > 0; i--)
		if (S_ISDIR(now->items[i - 1].mode))
			r = finish_dir(from, to, now->items[i - 1].path, err);
	if (r == 0)
		r = finish_dir(from, to, "", err);
	copy_links_free(links);
	return r;
}
