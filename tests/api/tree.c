/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"

#define SPARSE_FROM 1048576 /* smaller files are not looked at: what a file system allocates at once differs */

const char *const root_names[2] = {"app", "home"};

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == '/';
}

void encode(struct buf *out, const char *text)
{
	if (!*text)
		buf_add_str(out, "%");
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (is_plain(*p))
			buf_add(out, p, 1);
		else
			buf_addf(out, "%%%02x", *p);
	}
}

static int hex(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c - '0';
}

void decode(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '%' && p[1] && p[2]) {
			*to++ = (char)(hex(p[1]) * 16 + hex(p[2]));
			p += 2;
		} else if (*p != '%') {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* ---- paths ------------------------------------------------------------------------------------------------------------------- */

int open_parent(const struct roots *r, const char *path, const char **base)
{
	char name[NAME_MAX + 1];
	const char *p = strchr(path, '/'), *slash;
	int fd = openat(r->fds[path[0] == 'h'], ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (p = p ? p + 1 : "."; fd >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
		snprintf(name, sizeof(name), "%.*s", (int)(slash - p), p);
		int next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int error = errno;
		close(fd);
		errno = error;
		fd = next;
	}
	*base = p;
	return fd;
}

/* ---- the manifest ------------------------------------------------------------------------------------------------------------ */

struct entry {
	dev_t dev;
	ino_t ino;
	bool file;          /* something that can have several names */
	char *path, *start; /* encoded; what comes before GROUP */
	char *rest;         /* … and after it */
};

struct walk {
	struct entry *items;
	size_t count, size;
};

/* As FNV-1a, by eight bytes: nothing is to be kept secret, and nobody makes collisions. */
static uint64_t hash(uint64_t h, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, data + i, MIN(len - i, sizeof(word)));
		h = (h ^ word) * 1099511628211u;
		h ^= h >> 29;
	}
	return h ^ len;
}

static void add_contents(struct buf *out, int dir, const char *name)
{
	static char block[1 << 16]; /* read(2) of a file fills it, but at the end: the blocks of the hash are the same everywhere */
	uint64_t h = 14695981039346656037u;
	ssize_t n = -1;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	while (fd >= 0 && (n = read(fd, block, sizeof(block))) > 0)
		h = hash(h, block, (size_t)n);
	if (n < 0)
		buf_addf(out, " !%d", errno);
	else
		buf_addf(out, " %016llx", (unsigned long long)h);
}

static void add_target(struct buf *out, int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	buf_add_str(out, " ");
	encode(out, target);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of a file in the working directory, sorted by name. */
static void add_attributes(struct buf *out, const char *file)
{
	char list[4096], value[4096];
	const char *names[64];
	size_t count = 0;
	ssize_t len = llistxattr(file, list, sizeof(list));

	for (const char *p = list; len > 0 && p < list + len && count < ARRAY_SIZE(names); p += strlen(p) + 1)
		names[count++] = p;
	qsort(names, count, sizeof(names[0]), by_name);
	buf_add_str(out, len < 0 ? " !" : count ? " " : " -");
	for (size_t i = 0; i < count; i++) {
		ssize_t n = lgetxattr(file, names[i], value, sizeof(value));
		buf_add_str(out, i ? "," : "");
		encode(out, names[i]);
		buf_add_str(out, n < 0 ? "!" : "=");
		for (ssize_t k = 0; k < n; k++)
			buf_addf(out, "%02x", (unsigned char)value[k]);
	}
}

static char type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISFIFO(mode) ? 'p' : '?';
}

/* The working directory is `dir`. */
static void describe(int dir, const char *name, const struct stat *st, struct entry *e)
{
	const bool file = S_ISREG(st->st_mode);
	struct buf start = {0}, rest = {0};

	buf_addf(&start, "%c %04o %u %u %lld %lld.%09ld", type_of(st->st_mode), (unsigned)(st->st_mode & 07777), st->st_uid, st->st_gid,
	         file ? (long long)st->st_size : 0, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	if (file)
		add_contents(&start, dir, name);
	else if (S_ISLNK(st->st_mode))
		add_target(&start, dir, name);
	else
		buf_add_str(&start, " -");
	buf_add_str(&rest, file && st->st_size >= SPARSE_FROM && st->st_blocks * 512 < st->st_size / 2 ? "sparse" : "-");
	add_attributes(&rest, name);
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->file = !S_ISDIR(st->st_mode);
	e->start = buf_steal(&start);
	e->rest = buf_steal(&rest);
}

static struct entry *new_entry(struct walk *w, const char *path)
{
	if (w->count == w->size) {
		size_t more = w->size ? w->size * 2 : 256;
		struct entry *items = realloc(w->items, more * sizeof(*items));
		if (!items)
			abort();
		w->items = items;
		w->size = more;
	}
	struct entry *e = &w->items[w->count++];
	*e = (struct entry){.path = strdup(path)};
	return e;
}

static size_t read_names(int dir, char **names, size_t max)
{
	size_t count = 0;
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *e; d && count < max && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			names[count++] = strdup(e->d_name);
	qsort(names, count, sizeof(names[0]), by_name);
	return count;
}

/* path: encoded, of the directory. */
static void walk_directory(struct walk *w, int dir, const char *path, bool (*part)(const char *name))
{
	enum { NAMES = 2048 };
	char **names = calloc(NAMES, sizeof(*names));
	size_t count = names ? read_names(dir, names, NAMES) : 0;

	for (size_t i = 0; i < count; i++) {
		struct stat st;
		struct buf full = {0};
		if (part && !part(names[i])) {
			free(names[i]);
			continue;
		}
		buf_addf(&full, "%s/", path);
		encode(&full, names[i]);
		struct entry *e = new_entry(w, full.data);
		if (fchdir(dir) < 0 || fstatat(dir, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
			char text[32];
			snprintf(text, sizeof(text), "? !%d - - - - -", errno);
			e->start = strdup(text);
			e->rest = strdup("- -");
		} else {
			describe(dir, names[i], &st, e);
			_cleanup_fd_ int child =
				S_ISDIR(st.st_mode) ? openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
			if (child >= 0)
				walk_directory(w, child, full.data, NULL);
		}
		buf_free(&full);
		free(names[i]);
	}
	free(names);
}

/* The first of the names that a file has, if it has several. */
static const char *group_of(const struct walk *w, size_t of)
{
	const char *first = NULL;
	size_t names = 0;

	for (size_t i = 0; w->items[of].file && i < w->count; i++) {
		const struct entry *e = &w->items[i];
		if (!e->file || e->ino != w->items[of].ino || e->dev != w->items[of].dev)
			continue;
		first = first ? first : e->path;
		names++;
	}
	return names > 1 ? first : "-";
}

void manifest(const struct roots *r, bool (*part)(const char *name), struct buf *out)
{
	struct walk w = {0};
	_cleanup_fd_ int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 2; i++) {
		struct stat st;
		if (r->fds[i] < 0 || fchdir(r->fds[i]) < 0 || fstat(r->fds[i], &st) < 0)
			continue;
		describe(r->fds[i], ".", &st, new_entry(&w, root_names[i]));
		walk_directory(&w, r->fds[i], root_names[i], part);
	}
	for (size_t i = 0; i < w.count; i++)
		buf_addf(out, "%s %s %s %s\n", w.items[i].path, w.items[i].start, group_of(&w, i), w.items[i].rest);
	for (size_t i = 0; i < w.count; i++) {
		free(w.items[i].path);
		free(w.items[i].start);
		free(w.items[i].rest);
	}
	free(w.items);
	if (here >= 0 && fchdir(here) < 0)
		abort();
}
