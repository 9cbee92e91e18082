/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/view_parts.h"

/* ---- views -------------------------------------------------------------------------------------------------------------------- */

int view_from(const int *fds, size_t count, bool seeded, struct view *out, struct cordon_error *err)
{
	*out = (struct view){.seeded = seeded && count > 0};
	if (count == 0)
		return 0;
	out->fds = malloc(count * sizeof(*out->fds));
	if (!out->fds)
		return err_sys(err, "cannot open the layers");
	for (; out->count < count; out->count++) {
		int fd = fcntl(fds[out->count], F_DUPFD_CLOEXEC, 3);
		if (fd < 0) {
			err_sys(err, "cannot open the layers");
			view_close(out);
			return -1;
		}
		out->fds[out->count] = fd;
	}
	return 0;
}

void view_close(struct view *v)
{
	for (size_t i = 0; i < v->count; i++)
		close(v->fds[i]);
	free(v->fds);
	*v = (struct view){0};
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

static int check_path(const char *path, struct cordon_error *err)
{
	if (!*path || path_is_clean(path))
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s: not a plain relative path", path);
}

static int open_path(const struct view *v, const char *path, size_t layer)
{
	const char *base;

	if (layer >= v->count) {
		errno = EINVAL;
		return -1;
	}
	if (!*path)
		return path_open_dir(v->fds[layer], "", O_PATH);
	_cleanup_fd_ int parent = path_open_parent(v->fds[layer], path, &base);
	return parent < 0 ? -1 : openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * First without opening it for anything, and only what then is a regular file is opened for reading, through that descriptor: whatever is
 * put in its place meanwhile, no FIFO is waited for and no device is touched.
 */
int view_open_entry(const struct view *v, const char *path, const struct view_entry *e, struct cordon_error *err)
{
	struct stat st;

	if (check_path(path, err) < 0)
		return -1;
	_cleanup_fd_ int fd = open_path(v, path, e->layer);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open %s", path);
	if ((st.st_mode & S_IFMT) != (e->st.st_mode & S_IFMT)) {
		errno = ESTALE;
		return err_sys(err, "%s was replaced while it was being read", path);
	}
	if (!S_ISREG(st.st_mode))
		return steal_fd(&fd);
	int file = open(fd_link(fd).path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	return file < 0 ? err_sys(err, "cannot read %s", path) : file;
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

void names_free(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->items[i]);
	free(n->items);
	*n = (struct names){0};
}

static int names_add(struct names *n, const char *name, struct cordon_error *err)
{
	if (n->count == VIEW_NAMES_MAX)
		return err_set(err, CORDON_ERR_SYSTEM, "more than %d names in one directory", VIEW_NAMES_MAX);
	if (n->count == n->size) {
		size_t size = n->size ? n->size * 2 : 32;
		char **items = realloc(n->items, size * sizeof(*items));
		if (!items)
			return err_sys(err, "cannot read a directory");
		n->items = items;
		n->size = size;
	}
	n->items[n->count] = strdup(name);
	if (!n->items[n->count])
		return err_sys(err, "cannot read a directory");
	n->count++;
	return 0;
}

int names_read(struct names *n, int dirfd, struct cordon_error *err)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd < 0 && (errno == ENOENT || errno == EACCES)) /* removed meanwhile, or closed by its owner to himself */
			return 0;
		err_sys(err, "cannot read a directory");
		cleanup_fd(&fd);
		return -1;
	}
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(dir);
		if (!e)
			return errno && errno != ENOENT ? err_sys(err, "cannot read a directory") : 0;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && names_add(n, e->d_name, err) < 0)
			return -1;
	}
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_tidy(struct names *n)
{
	size_t kept = 0;

	if (n->count == 0)
		return;
	qsort(n->items, n->count, sizeof(*n->items), by_bytes);
	for (size_t i = 1; i < n->count; i++) {
		if (strcmp(n->items[i], n->items[kept]) == 0)
			free(n->items[i]);
		else
			n->items[++kept] = n->items[i];
	}
	n->count = kept + 1;
}

/* Leaves only the names of what the view shows. */
static int keep_visible(const struct view *v, const struct merged *m, struct names *n, struct cordon_error *err)
{
	size_t kept = 0, i;
	struct view_entry e;
	int r = 0;

	for (i = 0; i < n->count; i++) {
		r = merged_stat(v, m, n->items[i], &e, err);
		if (r < 0)
			break;
		if (e.st.st_mode)
			n->items[kept++] = n->items[i];
		else
			free(n->items[i]);
	}
	memmove(&n->items[kept], &n->items[i], (n->count - i) * sizeof(*n->items));
	n->count = kept + n->count - i;
	return r < 0 ? -1 : 0;
}

/* The list takes the names over; it ends in NULL once it has one. */
static int hand_over(struct names *n, struct strlist *out, struct cordon_error *err)
{
	*out = (struct strlist){0};
	if (n->count == 0)
		return 0;
	char **items = realloc(n->items, (n->count + 1) * sizeof(*items));
	if (!items)
		return err_sys(err, "cannot read a directory");
	items[n->count] = NULL;
	*out = (struct strlist){.items = items, .count = n->count};
	*n = (struct names){0};
	return 0;
}

int view_list(const struct view *v, const char *path, struct strlist *out, struct cordon_error *err)
{
	_cleanup_merged_ struct merged m = {0};
	_cleanup_names_ struct names names = {0};

	*out = (struct strlist){0};
	if (check_path(path, err) < 0)
		return -1;
	if (merged_find(v, path, strlen(path), &m, err) < 0)
		return err_wrap(err, "cannot list %s", path);
	if (m.count == 0)
		return *path ? err_set(err, CORDON_ERR_NOT_FOUND, "%s: no such directory", path) : 0;
	for (size_t i = 0; i < m.count; i++)
		if (names_read(&names, m.dirs[i].fd, err) < 0)
			return err_wrap(err, "cannot list %s", *path ? path : "the top directory");
	names_tidy(&names);
	if (names.count && keep_visible(v, &m, &names, err) < 0)
		return err_wrap(err, "cannot list %s", path);
	return hand_over(&names, out, err);
}

bool tree_is_empty(int layer_dir, const char *tree)
{
	int fd = openat(layer_dir, tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		cleanup_fd(&fd);
		return false;
	}
	errno = 0;
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return false;
	return errno == 0;
}
