/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "crash.h"
#include "layers/copy.h"
#include "layers/filemeta.h"

_Noreturn void must_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: failed: %s (%s)\n", file, line, what, strerror(errno));
	abort(); /* cmocka reports it as the failure of the test; a child dies of it */
}

int tree_open(int base, const char *path)
{
	int fd = fs_open(base, path, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
	MUST(fd >= 0);
	return fd;
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, ends in NULL; free() each and all. */
static char **names_in(int dir, size_t *count)
{
	char **names = calloc(1, sizeof(*names));
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	MUST(d && names);
	*count = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		names = realloc(names, (*count + 2) * sizeof(*names));
		MUST(names);
		names[(*count)++] = strdup(e->d_name);
		names[*count] = NULL;
	}
	closedir(d);
	qsort(names, *count, sizeof(*names), by_text);
	return names;
}

static void names_free(char **names)
{
	for (size_t i = 0; names[i]; i++)
		free(names[i]);
	free(names);
}

/* ---- descriptions ------------------------------------------------------------------------------------------------------------- */

/* First names of files with several. */
struct seen {
	ino_t ino;
	dev_t dev;
	size_t number;
};

struct describer {
	struct buf text;
	struct seen *seen;
	size_t count;
	bool times;
};

static size_t link_number(struct describer *d, const struct stat *st)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->seen[i].ino == st->st_ino && d->seen[i].dev == st->st_dev)
			return i;
	d->seen = realloc(d->seen, (d->count + 1) * sizeof(*d->seen));
	MUST(d->seen);
	d->seen[d->count] = (struct seen){st->st_ino, st->st_dev, d->count};
	return d->count++;
}

static void add_text(struct buf *out, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] > 0x20 && bytes[i] < 0x7f)
			buf_add(out, &bytes[i], 1);
		else
			buf_addf(out, "%%%02x", (unsigned char)bytes[i]);
	}
}

static void add_attrs(struct buf *out, const char *path)
{
	char list[4096], value[4096];
	char *names[64];
	size_t count = 0;
	ssize_t len = listxattr(path, list, sizeof(list));
	for (char *n = list; len > 0 && n < list + len; n += strlen(n) + 1) {
		MUST(count < ARRAY_SIZE(names));
		if (strncmp(n, "security.selinux", 16) != 0)
			names[count++] = n;
	}
	qsort(names, count, sizeof(*names), by_text);
	for (size_t i = 0; i < count; i++) {
		ssize_t n = getxattr(path, names[i], value, sizeof(value));
		buf_addf(out, " %s=", names[i]);
		add_text(out, value, n < 0 ? 0 : (size_t)n);
	}
}

static void add_contents(struct buf *out, int fd, const struct stat *st)
{
	char bytes[4096], path[40];
	uint64_t hash = 0xcbf29ce484222325u;
	ssize_t n;
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(fd, "", bytes, sizeof(bytes));
		buf_add_str(out, " -> ");
		add_text(out, bytes, n < 0 ? 0 : (size_t)n);
	}
	if (!S_ISREG(st->st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	_cleanup_fd_ int in = open(path, O_RDONLY | O_CLOEXEC);
	MUST(in >= 0);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++)
			hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
	MUST(n == 0);
	buf_addf(out, " size %lld hash %016llx", (long long)st->st_size, (unsigned long long)hash);
}

static void describe_entry(struct describer *d, int fd, const char *path)
{
	char proc[40];
	struct stat st;
	MUST(fstat(fd, &st) == 0);
	add_text(&d->text, path, strlen(path));
	buf_addf(&d->text, " %06o %u:%u", (unsigned)st.st_mode, (unsigned)st.st_uid, (unsigned)st.st_gid);
	if (d->times)
		buf_addf(&d->text, " %lld.%09ld", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	if (d->times && !S_ISDIR(st.st_mode) && st.st_nlink > 1)
		buf_addf(&d->text, " links %lu to %zu", (unsigned long)st.st_nlink, link_number(d, &st));
	add_contents(&d->text, fd, &st);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	add_attrs(&d->text, proc);
	buf_add_str(&d->text, "\n");
}

static void describe_below(struct describer *d, int dir, const char *path)
{
	size_t count;
	char **names = names_in(dir, &count);
	for (size_t i = 0; i < count; i++) {
		struct stat st;
		_cleanup_buf_ struct buf below = {0};
		_cleanup_fd_ int fd = openat(dir, names[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
		MUST(fd >= 0 && fstat(fd, &st) == 0);
		buf_addf(&below, "%s/%s", path, names[i]);
		describe_entry(d, fd, below.data);
		if (S_ISDIR(st.st_mode))
			describe_below(d, fd, below.data);
	}
	names_free(names);
}

char *tree_describe(int dir)
{
	struct describer d = {.times = true};
	describe_entry(&d, dir, ".");
	describe_below(&d, dir, ".");
	free(d.seen);
	char *text = buf_steal(&d.text);
	MUST(text);
	return text;
}

const char *tree_difference(const char *want, const char *got)
{
	static char text[1024];
	while (*want || *got) {
		size_t w = strcspn(want, "\n"), g = strcspn(got, "\n");
		if (w != g || strncmp(want, got, w) != 0) {
			snprintf(text, sizeof(text), "want '%.*s' got '%.*s'", (int)MIN(w, (size_t)400), want, (int)MIN(g, (size_t)400),
			         got);
			return text;
		}
		want += w + (want[w] != '\0');
		got += g + (got[g] != '\0');
	}
	return NULL;
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------- */

static bool same_entry(int a, int b, const char *name)
{
	struct describer x = {0}, y = {0};
	_cleanup_fd_ int fa = openat(a, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fb = openat(b, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	MUST(fa >= 0 && fb >= 0);
	describe_entry(&x, fa, name);
	describe_entry(&y, fb, name);
	bool same = strcmp(x.text.data, y.text.data) == 0;
	buf_free(&x.text);
	buf_free(&y.text);
	return same;
}

static mode_t mode_of(int dir, const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

static void layer_copy(int from, const char *name, int to, struct copy_links *links)
{
	struct cordon_error err = {0};
	int r = S_ISDIR(mode_of(from, name)) ? copy_tree(from, name, to, name, 0, links, &err)
	                                     : copy_entry(from, name, to, name, 0, links, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.message);
	MUST(r == 0);
}

static void make_layer(int old, int new_tree, int upper, struct copy_links *links);

static void layer_both(int old, int new_tree, int upper, const char *name, struct copy_links *links)
{
	if (!S_ISDIR(mode_of(old, name)) || !S_ISDIR(mode_of(new_tree, name))) {
		if ((mode_of(old, name) & S_IFMT) == (mode_of(new_tree, name) & S_IFMT) && same_entry(old, new_tree, name))
			return;
		layer_copy(new_tree, name, upper, links);
		return;
	}
	_cleanup_fd_ int o = tree_open(old, name), n = tree_open(new_tree, name);
	MUST(mkdirat(upper, name, 0700) == 0);
	_cleanup_fd_ int u = tree_open(upper, name);
	make_layer(o, n, u, links);
	if (same_entry(old, new_tree, name) && unlinkat(upper, name, AT_REMOVEDIR) == 0)
		return; /* nothing in it */
}

static void make_layer(int old, int new_tree, int upper, struct copy_links *links)
{
	size_t count;
	char **names = names_in(old, &count);
	for (size_t i = 0; i < count; i++) {
		if (mode_of(new_tree, names[i]) == 0)
			MUST(mknodat(upper, names[i], S_IFCHR, makedev(0, 0)) == 0);
		else
			layer_both(old, new_tree, upper, names[i], links);
	}
	names_free(names);
	names = names_in(new_tree, &count);
	for (size_t i = 0; i < count; i++)
		if (mode_of(old, names[i]) == 0)
			layer_copy(new_tree, names[i], upper, links);
	names_free(names);
	MUST(copy_dir_meta(new_tree, upper, 0, NULL) == 0);
}

void tree_make_layer(int old, int new_tree, int upper)
{
	struct copy_links *links = copy_links_new();
	make_layer(old, new_tree, upper, links);
	copy_links_free(links);
}

/* ---- words -------------------------------------------------------------------------------------------------------------------- */

static void put_parents(int dir, const char *path)
{
	char parent[4096];
	const char *slash = strrchr(path, '/');
	if (!slash)
		return;
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	MUST(fs_mkdirs(dir, parent, 0755, NULL) == 0);
}

void put_file(int dir, const char *path, const char *text, mode_t mode)
{
	put_parents(dir, path);
	unlinkat(dir, path, 0);
	MUST(fs_write_file(dir, path, text, strlen(text), 0600, NULL) == 0);
	MUST(fchmodat(dir, path, mode, 0) == 0);
}

void put_dir(int dir, const char *path, mode_t mode)
{
	put_parents(dir, path);
	MUST(mkdirat(dir, path, 0700) == 0 || errno == EEXIST);
	MUST(fchmodat(dir, path, mode, 0) == 0);
}

void put_link(int dir, const char *path, const char *target)
{
	put_parents(dir, path);
	unlinkat(dir, path, 0);
	MUST(symlinkat(target, dir, path) == 0);
}

void put_attr(int dir, const char *path, const char *name, const char *value)
{
	char proc[40];
	_cleanup_fd_ int fd = openat(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	MUST(fd >= 0 && setxattr(proc, name, value, strlen(value), 0) == 0);
}

void remove_path(int dir, const char *path)
{
	MUST(fs_remove_tree(dir, path, NULL) == 0);
}

void settle_times(int dir, int64_t start_ns)
{
	size_t count;
	char **names = names_in(dir, &count);
	for (size_t i = 0; i < count; i++) {
		int64_t at = start_ns + (int64_t)(i + 1) * 1001001;
		struct timespec times[2] = {ns_timespec(at), ns_timespec(at)};
		if (S_ISDIR(mode_of(dir, names[i]))) {
			_cleanup_fd_ int sub = tree_open(dir, names[i]);
			settle_times(sub, at + 1000000000);
		}
		MUST(utimensat(dir, names[i], times, AT_SYMLINK_NOFOLLOW) == 0);
	}
	names_free(names);
	struct timespec own[2] = {ns_timespec(start_ns), ns_timespec(start_ns)};
	MUST(futimens(dir, own) == 0);
}
