/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

_Noreturn void must_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: failed: %s (%s)\n", file, line, what, strerror(errno));
	abort(); /* cmocka reports it as the failure of the test; a child dies of it */
}

unsigned rng_below(struct rng *r, unsigned limit)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return (unsigned)((r->state >> 11) % limit);
}

/* ---- trees -------------------------------------------------------------------------------------------------------------------- */

int tree_new(int parent, const char *name)
{
	MUST(mkdirat(parent, name, 0755) == 0);
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

void tree_dir(int tree, const char *path)
{
	MUST(fs_mkdirs(tree, path, 0755, NULL) == 0);
}

void tree_file(int tree, const char *path, const char *data)
{
	unlinkat(tree, path, 0);
	MUST(fs_write_file(tree, path, data, strlen(data), 0644, NULL) == 0);
}

void tree_whiteout(int tree, const char *path)
{
	MUST(mknodat(tree, path, S_IFCHR, makedev(0, 0)) == 0);
}

void tree_xattr(int tree, const char *path, const char *name, const char *value)
{
	char link[64];
	_cleanup_fd_ int fd = openat(tree, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	MUST(fd >= 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	MUST(setxattr(link, name, value, strlen(value), 0) == 0);
}

void tree_mark(int tree, const char *path, const char *value)
{
	tree_xattr(tree, path, "user.overlay.opaque", value);
}

/* ---- lists -------------------------------------------------------------------------------------------------------------------- */

void listing_free(struct listing *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i].path);
	free(l->items);
	*l = (struct listing){0};
}

struct item *listing_add(struct listing *l, const char *path, mode_t mode)
{
	if (l->count == l->size) {
		l->size = l->size ? l->size * 2 : 64;
		l->items = realloc(l->items, l->size * sizeof(*l->items));
		MUST(l->items);
	}
	l->items[l->count] = (struct item){.path = strdup(path), .mode = mode};
	return &l->items[l->count++];
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->path, ((const struct item *)b)->path);
}

void listing_sort(struct listing *l)
{
	if (l->count)
		qsort(l->items, l->count, sizeof(*l->items), by_path);
}

/* fd: a regular file open for reading, anything else O_PATH */
static void fill(struct item *item, const struct stat *st, int fd)
{
	char link[64];
	ssize_t n = 0;

	item->uid = st->st_uid;
	item->gid = st->st_gid;
	if (S_ISREG(st->st_mode))
		n = read(fd, item->data, sizeof(item->data) - 1);
	else if (S_ISLNK(st->st_mode))
		n = readlinkat(fd, "", item->data, sizeof(item->data) - 1);
	MUST(n >= 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = getxattr(link, "user.t", item->xattr, sizeof(item->xattr) - 1);
	MUST(n >= 0 || errno == ENODATA || errno == ENOTSUP || errno == EPERM);
}

static char *join(const char *dir, const char *name)
{
	char *path = NULL;

	MUST(asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) > 0);
	return path;
}

static void view_below(const struct view *v, const char *dir, struct listing *out)
{
	struct strlist names;

	MUST(view_list(v, dir, &names, NULL) == 0);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = join(dir, names.items[i]);
		struct view_entry e;

		MUST(i == 0 || strcmp(names.items[i - 1], names.items[i]) < 0);
		MUST(view_stat(v, path, &e, NULL) == 0 && e.st.st_mode);
		_cleanup_fd_ int fd = view_open_entry(v, path, &e, NULL);
		MUST(fd >= 0);
		fill(listing_add(out, path, e.st.st_mode), &e.st, fd);
		if (S_ISDIR(e.st.st_mode))
			view_below(v, path, out);
	}
	strlist_free(&names);
}

void listing_of_view(const struct view *v, struct listing *out)
{
	*out = (struct listing){0};
	view_below(v, "", out);
	listing_sort(out);
}

static void dir_below(int dirfd, const char *dir, struct listing *out)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	struct dirent *e;
	struct stat st;

	MUST(d);
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		/* overlayfs lists the whiteouts of a directory that only one layer has, and then denies that they are there */
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			continue;
		if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode))
			continue;
		_cleanup_free_ char *path = join(dir, e->d_name);
		_cleanup_fd_ int entry = openat(fd, e->d_name, (S_ISREG(st.st_mode) ? O_RDONLY : O_PATH) | O_NOFOLLOW | O_CLOEXEC);
		MUST(entry >= 0);
		fill(listing_add(out, path, st.st_mode), &st, entry);
		if (S_ISDIR(st.st_mode))
			dir_below(entry, path, out);
	}
	closedir(d);
}

void listing_of_dir(int dirfd, struct listing *out)
{
	*out = (struct listing){0};
	dir_below(dirfd, "", out);
	listing_sort(out);
}

/* ---- comparisons -------------------------------------------------------------------------------------------------------------- */

static bool same_meta(const struct item *a, const struct item *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && strcmp(a->xattr, b->xattr) == 0;
}

static bool same_item(const struct item *a, const struct item *b)
{
	return same_meta(a, b) && strcmp(a->path, b->path) == 0 && strcmp(a->data, b->data) == 0;
}

static void show(const char *who, const struct listing *l)
{
	fprintf(stderr, "%s:\n", who);
	for (size_t i = 0; i < l->count; i++)
		fprintf(stderr, "  %06o %u:%u %s '%s' '%s'\n", (unsigned)l->items[i].mode, (unsigned)l->items[i].uid,
		        (unsigned)l->items[i].gid, l->items[i].path, l->items[i].data, l->items[i].xattr);
}

bool listing_equal(const struct listing *a, const char *a_name, const struct listing *b, const char *b_name)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++)
		equal = same_item(&a->items[i], &b->items[i]);
	if (!equal) {
		show(a_name, a);
		show(b_name, b);
	}
	return equal;
}

static void add_change(struct changes *c, enum change_op op, const struct item *before, const struct item *after)
{
	if (c->count == c->size) {
		c->size = c->size ? c->size * 2 : 64;
		c->items = realloc(c->items, c->size * sizeof(*c->items));
		MUST(c->items);
	}
	uint64_t bytes = after && S_ISREG(after->mode) ? strlen(after->data) : 0;
	c->bytes += bytes;
	c->items[c->count++] = (struct change){.op = op,
	                                       .path = strdup((before ? before : after)->path),
	                                       .bytes = bytes,
	                                       .before = before ? before->mode : 0,
	                                       .after = after ? after->mode : 0};
}

static void compare(struct changes *c, const struct item *b, const struct item *a)
{
	if ((b->mode & S_IFMT) != (a->mode & S_IFMT))
		add_change(c, CHANGE_TYPE, b, a);
	else if (strcmp(b->data, a->data) != 0)
		add_change(c, CHANGE_MODIFY, b, a);
	else if (!same_meta(b, a))
		add_change(c, CHANGE_MODE, b, a);
}

void listing_changes(const struct listing *before, const struct listing *after, struct changes *out)
{
	size_t i = 0, k = 0;

	*out = (struct changes){0};
	while (i < before->count || k < after->count) {
		int order = i == before->count ? 1 : k == after->count ? -1 : strcmp(before->items[i].path, after->items[k].path);

		if (order == 0)
			compare(out, &before->items[i++], &after->items[k++]);
		else if (order < 0)
			add_change(out, CHANGE_DELETE, &before->items[i++], NULL);
		else
			add_change(out, CHANGE_ADD, NULL, &after->items[k++]);
	}
}

static void show_changes(const char *who, const struct changes *c)
{
	fprintf(stderr, "%s:\n", who);
	for (size_t i = 0; i < c->count; i++)
		fprintf(stderr, "  %s %s %llu %06o %06o\n", change_op_names[c->items[i].op], c->items[i].path,
		        (unsigned long long)c->items[i].bytes, (unsigned)c->items[i].before, (unsigned)c->items[i].after);
}

bool changes_equal(const struct changes *expected, const struct changes *got)
{
	bool equal = expected->count == got->count && expected->bytes == got->bytes;

	for (size_t i = 0; equal && i < got->count; i++) {
		const struct change *e = &expected->items[i], *g = &got->items[i];

		equal = e->op == g->op && strcmp(e->path, g->path) == 0 && e->bytes == g->bytes && e->before == g->before &&
		        e->after == g->after;
	}
	if (!equal) {
		show_changes("expected", expected);
		show_changes("got", got);
	}
	return equal;
}
