/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/filemeta.h"

#define MAX_ENTRIES 4000000

void tree_index_free(struct tree_index *i)
{
	free(i->items);
	buf_free(&i->names);
	free(i->top);
	*i = (struct tree_index){0};
}

/* ---- making one ---------------------------------------------------------------------------------------------------------------- */

int tree_index_add(struct tree_index *i, const struct index_entry *e, const char *name, size_t len, struct cordon_error *err)
{
	if (i->count == MAX_ENTRIES || i->names.len + len >= INDEX_NAMES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "too many changed files to list, more than %zu", i->count);
	if (i->count == i->size) {
		size_t size = i->size ? i->size * 2 : 64;
		struct index_entry *items = realloc(i->items, size * sizeof(*items));
		if (!items)
			return err_sys(err, "cannot list the layer");
		i->items = items;
		i->size = size;
	}
	struct index_entry *at = &i->items[i->count];
	*at = *e;
	at->name = (uint32_t)i->names.len;
	at->first = at->count = 0;
	i->names.cap = INDEX_NAMES_MAX;
	buf_add(&i->names, name, len);
	buf_add(&i->names, "", 1);
	if (i->names.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	i->count++;
	return 0;
}

bool tree_index_finish(struct tree_index *i)
{
	i->top_count = 0;
	for (uint32_t k = 0; k < i->count; k++) {
		const uint32_t parent = i->items[k].parent;
		struct index_entry *dir = parent == INDEX_TOP ? NULL : &i->items[parent];
		if (dir && (parent >= k || !S_ISDIR(dir->mode)))
			return false;
		uint32_t *count = dir ? &dir->count : &i->top_count;
		const uint32_t first = !dir ? 0 : dir->count ? dir->first : k;
		if (first + *count != k || (*count && strcmp(tree_index_name(i, k - 1), tree_index_name(i, k)) >= 0))
			return false;
		if (dir)
			dir->first = first;
		++*count;
	}
	return true;
}

/* ---- scanning ------------------------------------------------------------------------------------------------------------------ */

struct scan {
	struct tree_index *out;
	struct index_walk walk;
	uint32_t *pending; /* directories that are still to be read, the next one last */
	size_t count, size;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names, sorted; they point into `text`. NULL without memory. */
static const char **sort_names(const struct buf *text, size_t *count)
{
	*count = 0;
	for (size_t at = 0; at < text->len; at += strlen(text->data + at) + 1)
		++*count;
	const char **names = malloc((*count + 1) * sizeof(*names));
	size_t n = 0;
	for (size_t at = 0; names && at < text->len; at += strlen(text->data + at) + 1)
		names[n++] = text->data + at;
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	return names;
}

static int add_name(struct scan *s, int dir, uint32_t parent, const char *name, struct cordon_error *err)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot look at %s", name);
	const struct index_entry e = {
		.parent = parent, .ino = st.st_ino, .size = (uint64_t)st.st_size, .ctime_ns = timespec_ns(st.st_ctim), .mode = st.st_mode};
	return tree_index_add(s->out, &e, name, strlen(name), err);
}

/* From the end, so that they are read in their order. */
static int push_directories(struct scan *s, size_t from, struct cordon_error *err)
{
	for (size_t k = s->out->count; k > from; k--) {
		if (!S_ISDIR(s->out->items[k - 1].mode))
			continue;
		if (s->count == s->size) {
			size_t size = s->size ? s->size * 2 : 64;
			uint32_t *more = realloc(s->pending, size * sizeof(*more));
			if (!more)
				return err_sys(err, "cannot list the layer");
			s->pending = more;
			s->size = size;
		}
		s->pending[s->count++] = (uint32_t)(k - 1);
	}
	return 0;
}

static const char *told(const struct scan *s, uint32_t dir)
{
	return dir == INDEX_TOP ? "" : tree_index_name(s->out, dir);
}

static int scan_dir(struct scan *s, uint32_t dir, struct cordon_error *err)
{
	const size_t from = s->out->count;
	_cleanup_buf_ struct buf text = {.cap = FS_NAMES_MAX};
	size_t count;
	const int at = index_walk_to(&s->walk, dir);
	if (at < 0 || fs_read_names(at, &text) < 0)
		return dir != INDEX_TOP && (errno == ENOENT || errno == ENOTDIR) ? 0 /* gone meanwhile */
		                                                                 : err_sys(err, "cannot read /%s", told(s, dir));
	_cleanup_free_ const char **names = sort_names(&text, &count);
	if (!names)
		return err_sys(err, "cannot list the layer");
	for (size_t k = 0; k < count; k++)
		if ((!k || strcmp(names[k - 1], names[k]) != 0) && add_name(s, at, dir, names[k], err) < 0)
			return -1;
	return push_directories(s, from, err);
}

/* What the top is apart from its entries and its times, which these change. */
static int describe_top(int dir, struct tree_index *out, struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta m = {0};
	struct buf text = {0};
	if (file_meta_read(dir, "the top of the tree", 0, &m, err) < 0)
		return -1;
	m.mtime = (struct timespec){0};
	file_meta_format(&text, &m);
	out->top = buf_steal(&text);
	return out->top ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

int tree_index_scan(int dir, struct tree_index *out, struct cordon_error *err)
{
	struct scan s = {.out = out};
	*out = (struct tree_index){0};
	index_walk_begin(&s.walk, out, dir);
	int r = describe_top(dir, out, err);
	if (r == 0)
		r = scan_dir(&s, INDEX_TOP, err);
	while (r == 0 && s.count)
		r = scan_dir(&s, s.pending[--s.count], err);
	index_walk_end(&s.walk);
	free(s.pending);
	if (r == 0 && !tree_index_finish(out))
		r = err_set(err, CORDON_ERR_SYSTEM, "cannot list the layer");
	if (r < 0)
		tree_index_free(out);
	return r;
}

/* ---- looking things up --------------------------------------------------------------------------------------------------------- */

const char *tree_index_name(const struct tree_index *i, uint32_t entry)
{
	return i->names.data + i->items[entry].name;
}

/* From the end to the beginning. */
const char *tree_index_path(const struct tree_index *i, uint32_t entry, struct buf *out)
{
	size_t len = 0;
	for (uint32_t e = entry; e != INDEX_TOP; e = i->items[e].parent)
		len += strlen(tree_index_name(i, e)) + 1;
	out->len = 0;
	out->cap = INDEX_NAMES_MAX;
	char *path = buf_reserve(out, len + 1);
	if (!path)
		return NULL;
	path[len ? len - 1 : 0] = '\0';
	for (uint32_t e = entry; e != INDEX_TOP; e = i->items[e].parent) {
		const size_t n = strlen(tree_index_name(i, e));
		len -= n + 1;
		memcpy(path + len, tree_index_name(i, e), n);
		if (len)
			path[len - 1] = '/';
	}
	return path;
}

/* The name is the first len bytes. */
static uint32_t find_child(const struct tree_index *i, uint32_t parent, const char *name, size_t len)
{
	uint32_t from = parent == INDEX_TOP ? 0 : i->items[parent].first;
	uint32_t to = from + (parent == INDEX_TOP ? i->top_count : i->items[parent].count);
	while (from < to) {
		const uint32_t middle = from + (to - from) / 2;
		const char *there = tree_index_name(i, middle);
		int order = strncmp(name, there, len);
		if (order == 0 && there[len])
			order = -1;
		if (order == 0)
			return middle;
		if (order < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return INDEX_NONE;
}

uint32_t tree_index_child(const struct tree_index *i, uint32_t parent, const char *name)
{
	return find_child(i, parent, name, strlen(name));
}

uint32_t tree_index_find(const struct tree_index *i, const char *path)
{
	uint32_t at = INDEX_TOP;
	for (const char *p = path;; p++) {
		const size_t len = strcspn(p, "/");
		at = find_child(i, at, p, len);
		p += len;
		if (at == INDEX_NONE || !*p)
			return at;
	}
}

uint32_t *tree_index_match(const struct tree_index *of, const struct tree_index *in)
{
	uint32_t *match = malloc((of->count + 1) * sizeof(*match));
	for (uint32_t k = 0; match && k < of->count; k++) {
		const uint32_t parent = of->items[k].parent;
		const bool there = parent == INDEX_TOP || match[parent] != INDEX_NONE;
		match[k] =
			there ? tree_index_child(in, parent == INDEX_TOP ? INDEX_TOP : match[parent], tree_index_name(of, k)) : INDEX_NONE;
	}
	return match;
}

/* ---- comparing ----------------------------------------------------------------------------------------------------------------- */

bool index_entry_same(const struct index_entry *a, const struct index_entry *b)
{
	return a->ino == b->ino && a->mode == b->mode && a->size == b->size && a->ctime_ns == b->ctime_ns &&
	       (!a->hash || !b->hash || a->hash == b->hash);
}

bool tree_index_same_top(const struct tree_index *a, const struct tree_index *b)
{
	return a->top && b->top && strcmp(a->top, b->top) == 0;
}

/* A directory's size depends on what was in it at some time. */
bool tree_index_equal(const struct tree_index *a, const struct tree_index *b)
{
	if (a->count != b->count || !tree_index_same_top(a, b))
		return false;
	for (uint32_t k = 0; k < a->count; k++) {
		const struct index_entry *x = &a->items[k], *y = &b->items[k];
		if (x->parent != y->parent || strcmp(tree_index_name(a, k), tree_index_name(b, k)) != 0 || x->ctime_ns != y->ctime_ns ||
		    x->ino != y->ino || x->mode != y->mode || (!S_ISDIR(x->mode) && !index_entry_same(x, y)))
			return false;
	}
	return true;
}
