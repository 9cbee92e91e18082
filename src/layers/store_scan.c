/* SPDX-License-Identifier: Apache-2.0 */
/* All layers of the store, read into a table: for the history and for the collection. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "layers/store_parts.h"
#include "sandbox/owner.h"

int store_list(int dirfd, struct strlist *out, struct cordon_error *err)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* an offset of its own */
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		err_sys(err, "cannot list a directory");
		cleanup_fd(&fd);
		return -1;
	}
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(dir);
		if (!e)
			return errno ? err_sys(err, "cannot list a directory") : 0;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strlist_add(out, e->d_name, err) < 0)
			return -1;
	}
}

/*
 * The mark is looked at before the record: sealing writes the record and then removes the mark, so that who finds no mark must find a record.
 * An empty mark is what a loss of power leaves of one that never reached the disk; no living process has such.
 */
static int examine(struct store *s, const char *id, struct scanned *out, struct cordon_error *err)
{
	char path[STORE_PATH_MAX], mark[256] = "";
	struct cordon_error why = {0};
	store_path(path, id, LAYER_OPEN_MARK);
	ssize_t marked = fs_read_small(s->layers_fd, path, mark, sizeof(mark));
	if (marked < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_sys(err, "cannot read %s", path);
	if (layer_load(s, id, &out->layer, &why) == 0) {
		out->state = LAYER_SEALED;
		return 0;
	}
	if (why.code == CORDON_ERR_INPUT) {
		out->state = LAYER_DAMAGED;
		return 0;
	}
	if (why.code == CORDON_ERR_NOT_FOUND) {
		out->state = marked >= 0 && (*mark == '\0' || owner_is_dead(mark)) ? LAYER_ABANDONED : LAYER_OPEN;
		return 0;
	}
	if (err)
		*err = why;
	return -1;
}

static int add_scanned(struct store *s, const char *id, struct scan *out, struct cordon_error *err)
{
	if (out->count == out->size) {
		size_t size = out->size ? out->size * 2 : 64;
		struct scanned *more = realloc(out->items, size * sizeof(*more));
		if (!more)
			return err_sys(err, "cannot list the layers");
		out->items = more;
		out->size = size;
	}
	struct scanned *l = &out->items[out->count];
	*l = (struct scanned){0};
	int r = examine(s, id, l, err);
	out->count++; /* to be freed either way */
	return r;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct scanned *)a)->layer.id, ((const struct scanned *)b)->layer.id);
}

static int scan_all(struct store *s, struct scan *out, struct cordon_error *err)
{
	struct strlist names = {0};
	int r = store_list(s->layers_fd, &names, err);
	for (size_t i = 0; i < names.count && r == 0; i++)
		if (id_valid(names.items[i]))
			r = add_scanned(s, names.items[i], out, err);
	strlist_free(&names);
	if (r == 0 && out->count > 1)
		qsort(out->items, out->count, sizeof(*out->items), by_id);
	return r;
}

int store_scan(struct store *s, struct scan *out, struct cordon_error *err)
{
	*out = (struct scan){0};
	if (scan_all(s, out, err) == 0)
		return 0;
	scan_free(out);
	return -1;
}

struct scanned *scan_find(const struct scan *all, const char *id)
{
	size_t low = 0, high = all->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(id, all->items[middle].layer.id);
		if (order == 0)
			return &all->items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

void scan_free(struct scan *all)
{
	for (size_t i = 0; i < all->count; i++)
		layer_free(&all->items[i].layer);
	free(all->items);
	*all = (struct scan){0};
}
