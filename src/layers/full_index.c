/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a copy, on disk: one line for each entry,
 *
 *   cordon 1 index
 *   app top TEXT                                     what the top itself is
 *   app INODE SIZE CTIME MODE HASH PARENT NAME       the time in nanoseconds, the mode in octal, the hash in hexadecimal (0: none), the name with
 *   end                                              %XX for what is not printable; PARENT: the how manieth entry of its tree it is in, from 1; 0: the top
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
#define TOP "top "
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

/* "INODE SIZE CTIME MODE HASH PARENT NAME"; false: malformed. */
static bool parse_entry(char *text, struct tree_index *out)
{
	struct index_entry e = {0};
	char *end;
	errno = 0;
	e.ino = strtoull(text, &end, 10);
	e.size = strtoull(end, &end, 10);
	e.ctime_ns = strtoll(end, &end, 10);
	e.mode = (mode_t)strtoul(end, &end, 8);
	e.hash = strtoull(end, &end, 16);
	const unsigned long parent = strtoul(end, &end, 10);
	if (errno || *end++ != ' ' || !*end || parent > out->count)
		return false;
	e.parent = parent ? (uint32_t)parent - 1 : INDEX_TOP;
	_cleanup_free_ char *name = path_decode(end, strlen(end));
	return name && tree_index_add(out, &e, name, strlen(name), NULL) == 0;
}

static bool parse_top(const char *text, struct tree_index *out)
{
	free(out->top);
	out->top = strdup(text);
	return out->top;
}

static bool parse_line(char *line, struct full_index *out)
{
	for (int t = 0; t < TREE_COUNT; t++) {
		const char *name = layer_tree_names[t];
		const size_t n = strlen(name);
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		char *rest = line + n + 1;
		return strncmp(rest, TOP, strlen(TOP)) == 0 ? parse_top(rest + strlen(TOP), &out->trees[t])
		                                            : parse_entry(rest, &out->trees[t]);
	}
	return false;
}

static bool finish(struct full_index *i)
{
	for (int t = 0; t < TREE_COUNT; t++)
		if (!tree_index_finish(&i->trees[t]))
			return false;
	return true;
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
			return !*next && finish(out);
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
	for (int t = 0; t < TREE_COUNT; t++) {
		const struct tree_index *tree = &i->trees[t];
		if (tree->top)
			buf_addf(out, "%s " TOP "%s\n", layer_tree_names[t], tree->top);
		for (uint32_t k = 0; k < tree->count; k++) {
			const struct index_entry *e = &tree->items[k];
			buf_addf(out, "%s %" PRIu64 " %" PRIu64 " %" PRId64 " %o %" PRIx64 " %" PRIu32 " ", layer_tree_names[t], e->ino,
			         e->size, e->ctime_ns, (unsigned)e->mode, e->hash, e->parent == INDEX_TOP ? 0 : e->parent + 1);
			path_encode(out, tree_index_name(tree, k));
			buf_add_str(out, "\n");
		}
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
	return S_ISDIR(a->mode) ? a->mode == b->mode && a->ctime_ns == b->ctime_ns : index_entry_same(a, b);
}

int full_index_compare(const struct tree_index *before, const struct tree_index *now, full_each each, void *arg, struct cordon_error *err)
{
	_cleanup_free_ uint32_t *in_before = tree_index_match(now, before), *in_now = tree_index_match(before, now);
	int r = in_before && in_now ? 0 : err_sys(err, "cannot compare the copy with its index");
	for (uint32_t k = 0; r == 0 && k < now->count; k++)
		r = each(arg, in_before[k], k, err);
	for (uint32_t k = 0; r == 0 && k < before->count; k++)
		if (in_now[k] == INDEX_NONE)
			r = each(arg, k, INDEX_NONE, err);
	return r;
}
