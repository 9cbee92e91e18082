/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a copy, on disk: one line for each entry,
 *
 *   cordon 1 index
 *   app INODE SIZE CTIME MODE PATH      the time in nanoseconds, the mode in octal, the path with %XX for what is not printable
 *   end
 *
 * It lies beside the copy, in a directory that is ours alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/filemeta.h"
#include "layers/full_parts.h"
#include "layers/record.h"
#include "layers/store_parts.h"

#define FIRST_LINE "cordon 1 index"
#define INDEX_MAX ((size_t)1 << 30)
#define TICK "tick"     /* a file that shows the time of the file system */
#define TICK_TRIES 2500 /* of a millisecond: some file systems count in steps of two seconds */

void full_index_free(struct full_index *i)
{
	for (int t = 0; t < TREE_COUNT; t++)
		tree_index_free(&i->trees[t]);
}

int full_index_scan(struct store *s, const char *layer, struct full_index *out, struct cordon_error *err)
{
	*out = (struct full_index){0};
	for (int t = 0; t < TREE_COUNT; t++) {
		_cleanup_fd_ int dir = full_open(s, layer, (enum layer_tree)t, err);
		if (dir < 0 || tree_index_scan(dir, &out->trees[t], err) < 0) {
			full_index_free(out);
			return -1;
		}
	}
	return 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static int read_whole(int dir, const char *name, struct buf *out)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	for (;;) {
		const size_t step = (size_t)256 << 10;
		char *to = buf_reserve(out, step);
		ssize_t n = to ? read(fd, to, step) : -1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		out->len += (size_t)n;
		if (n == 0)
			return 0;
	}
}

static int add_entry(struct tree_index *i, struct index_entry *e)
{
	if (i->count == i->size) {
		size_t size = i->size ? i->size * 2 : 256;
		struct index_entry *items = realloc(i->items, size * sizeof(*items));
		if (!items)
			return -1;
		i->items = items;
		i->size = size;
	}
	i->items[i->count++] = *e;
	return 0;
}

/* "INODE SIZE CTIME MODE PATH"; false: malformed. */
static bool parse_entry(char *text, struct index_entry *out)
{
	char *end;
	errno = 0;
	out->ino = strtoull(text, &end, 10);
	out->size = strtoull(end, &end, 10);
	out->ctime_ns = strtoll(end, &end, 10);
	out->mode = (mode_t)strtoul(end, &end, 8);
	if (errno || *end++ != ' ' || !*end)
		return false;
	out->path = path_decode(end, strlen(end));
	return out->path;
}

static bool parse_line(char *line, struct full_index *out)
{
	for (int t = 0; t < TREE_COUNT; t++) {
		const char *name = layer_tree_names[t];
		const size_t n = strlen(name);
		struct index_entry e = {0};
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		if (!parse_entry(line + n + 1, &e))
			return false;
		if (add_entry(&out->trees[t], &e) == 0)
			return true;
		free(e.path);
	}
	return false;
}

/* True if it is whole. */
static bool parse(char *text, struct full_index *out)
{
	bool first = true;
	for (char *line = text, *next; (next = strchr(line, '\n')); line = next) {
		*next++ = '\0';
		if (first && strcmp(line, FIRST_LINE) != 0)
			return false;
		if (!first && strcmp(line, "end") == 0)
			return !*next;
		if (!first && !parse_line(line, out))
			return false;
		first = false;
	}
	return false;
}

int full_index_load(struct store *s, const char *layer, struct full_index *out, bool *found, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {.cap = INDEX_MAX};
	_cleanup_fd_ int dir = layer_open_dir(s, layer, err);
	*out = (struct full_index){0};
	*found = false;
	if (dir < 0)
		return -1;
	if (read_whole(dir, FULL_INDEX, &text) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot read the index of layer %s", layer);
	buf_add(&text, "", 0);
	if (text.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	*found = text.data && parse(text.data, out);
	if (!*found) {
		full_index_free(out);
		*out = (struct full_index){0};
	}
	return 0;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static int64_t latest(const struct full_index *i)
{
	int64_t last = INT64_MIN;
	for (int t = 0; t < TREE_COUNT; t++)
		for (size_t k = 0; k < i->trees[t].count; k++)
			last = MAX(last, i->trees[t].items[k].ctime_ns);
	return last;
}

/* By the file system's own clock, which need not be ours. A time that lies in the future is not waited for. */
static int wait_for_tick(int dir, int64_t last, struct cordon_error *err)
{
	static const struct timespec millisecond = {.tv_nsec = 1000000};
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, TICK, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, "cannot write beside the copy");
	for (int i = 0; i < TICK_TRIES; i++) {
		if (futimens(fd, NULL) < 0 || fstat(fd, &st) < 0)
			return err_sys(err, "cannot tell the file system's time");
		if (timespec_ns(st.st_ctim) > last)
			break;
		nanosleep(&millisecond, NULL);
	}
	unlinkat(dir, TICK, 0);
	return 0;
}

static void format(const struct full_index *i, struct buf *out)
{
	buf_add_str(out, FIRST_LINE "\n");
	for (int t = 0; t < TREE_COUNT; t++)
		for (size_t k = 0; k < i->trees[t].count; k++) {
			const struct index_entry *e = &i->trees[t].items[k];
			buf_addf(out, "%s %" PRIu64 " %" PRIu64 " %" PRId64 " %o ", layer_tree_names[t], e->ino, e->size, e->ctime_ns,
			         (unsigned)e->mode);
			path_encode(out, e->path);
			buf_add_str(out, "\n");
		}
	buf_add_str(out, "end\n");
}

int full_index_save(struct store *s, const char *layer, const char *name, const struct full_index *i, struct cordon_error *err)
{
	char temp[RECORD_TEMP_MAX];
	_cleanup_buf_ struct buf text = {.cap = INDEX_MAX};
	_cleanup_fd_ int dir = layer_open_dir(s, layer, err);
	if (dir < 0 || wait_for_tick(dir, latest(i), err) < 0 || record_temp_name(temp, RECORD_TEMP, err) < 0)
		return -1;
	format(i, &text);
	if (text.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "the copy has too many files to be listed");
	if (fs_write_file(dir, temp, text.data, text.len, 0600, err) == 0) {
		if (renameat(dir, temp, dir, name) == 0)
			return 0;
		err_sys(err, "cannot write the index of the copy");
	}
	unlinkat(dir, temp, 0);
	return -1;
}

/* ---- comparing ---------------------------------------------------------------------------------------------------------------- */

bool full_entry_same(const struct index_entry *a, const struct index_entry *b)
{
	return a->mode == b->mode && a->ctime_ns == b->ctime_ns && (S_ISDIR(a->mode) || (a->size == b->size && a->ino == b->ino));
}

int full_index_compare(const struct tree_index *before, const struct tree_index *now, full_each each, void *arg, struct cordon_error *err)
{
	int r = 0;
	for (size_t i = 0, k = 0; r == 0 && (i < before->count || k < now->count);) {
		const struct index_entry *b = i < before->count ? &before->items[i] : NULL, *n = k < now->count ? &now->items[k] : NULL;
		const int order = !b ? 1 : !n ? -1 : strcmp(b->path, n->path);
		i += order <= 0;
		k += order >= 0;
		r = each(arg, order <= 0 ? b : NULL, order >= 0 ? n : NULL, err);
	}
	return r;
}
