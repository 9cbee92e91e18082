/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two stacks of layers.
 *
 * Theory of operation. Two stacks usually end in the same layers (the seed, and all the history that they have in common). What only
 * these hold is the same in both, so the walk reads the names of the other layers alone. One thing breaks that rule: where a whiteout, an
 * opaque directory or a file hides a directory of the common layers on one side and not on the other, all that was in it has to be listed.
 * So a place in the walk is three sets of directories: those of the layers that are only in the one stack, only in the other, and of the
 * common ones, and for each side whether these show through. Directories still to be visited are kept as paths, with few descriptors, so
 * that no depth and no width needs more than some for each layer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "layers/view_parts.h"

#ifndef CHANGES_PATHS_MAX                     /* a test has a smaller one */
#define CHANGES_PATHS_MAX ((size_t)256 << 20) /* bytes in all paths together: deep trees have long ones */
#endif

const char *const change_op_names[CHANGE_OP_COUNT] = {
	[CHANGE_ADD] = "add",   [CHANGE_MODIFY] = "modify", [CHANGE_DELETE] = "delete",
	[CHANGE_MODE] = "mode", [CHANGE_TYPE] = "type",     [CHANGE_TIME] = "time",
};

#define OPEN_MAX_PENDING 64 /* descriptors of directories that are still to be visited; beyond that they are reopened */

enum side { BEFORE, AFTER, SIDES, COMMON = SIDES, SETS };

/* One directory, seen from both sides. */
struct place {
	char *path;
	unsigned depth;
	struct merged dirs[SETS];
	bool shows[SIDES]; /* the common layers show through on that side */
};

struct walk {
	struct view view[SETS]; /* parts of the callers' views */
	struct place *stack;
	size_t count, size;
	size_t open; /* descriptors that the stack holds */
	struct changes *out;
	struct cordon_error *err;
	unsigned flags; /* enum changes_flags */
};

static void place_free(struct place *p)
{
	for (int i = 0; i < SETS; i++)
		merged_free(&p->dirs[i]);
	free(p->path);
}
#define _cleanup_place_ __attribute__((cleanup(place_free)))

void changes_free(struct changes *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->items[i].path);
	free(c->items);
	*c = (struct changes){0};
}

/* ---- common layers ------------------------------------------------------------------------------------------------------------ */

static int same_directory(int a, int b, struct cordon_error *err)
{
	struct stat sa, sb;

	if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0)
		return err_sys(err, "cannot look at a layer");
	return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* Divides the two views into what each has alone and what is common to both. */
static int find_common(struct walk *w, const struct view *b, const struct view *a)
{
	size_t common = 0;

	while (common < b->count && common < a->count) {
		int same = same_directory(b->fds[b->count - 1 - common], a->fds[a->count - 1 - common], w->err);
		if (same < 0)
			return -1;
		if (!same)
			break;
		common++;
	}
	if (b->seeded != a->seeded || (b->seeded && common == 0))
		return err_set(w->err, CORDON_ERR_INPUT, "the two states do not have the same seed and cannot be compared");
	w->view[BEFORE] = (struct view){.fds = b->fds, .count = b->count - common};
	w->view[AFTER] = (struct view){.fds = a->fds, .count = a->count - common};
	w->view[COMMON] = (struct view){.fds = common ? b->fds + b->count - common : NULL, .count = common, .seeded = b->seeded};
	return 0;
}

/* Whether the names of a set can be of something that differs. */
static bool is_worth_reading(const struct place *p, int set)
{
	return p->dirs[set].count > 0 && (set != COMMON || p->shows[BEFORE] != p->shows[AFTER]);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------ */

static void *grow(struct walk *w, void *items, size_t count, size_t *size, size_t item_size)
{
	if (count < *size)
		return items;
	size_t more = *size ? *size * 2 : 64;
	void *grown = realloc(items, more * item_size);
	if (!grown)
		err_sys(w->err, "cannot compare");
	else
		*size = more;
	return grown;
}

static char *join(const char *dir, const char *name)
{
	struct buf b = {0};

	buf_add_str(&b, dir);
	buf_add(&b, "/", *dir ? 1 : 0);
	buf_add_str(&b, name);
	return buf_steal(&b);
}

int changes_add(struct changes *c, const struct change *change, struct cordon_error *err)
{
	const size_t len = strlen(change->path);

	if (c->count >= VIEW_NAMES_MAX || len > CHANGES_PATHS_MAX - c->path_bytes)
		return err_set(err, CORDON_ERR_SYSTEM, "too many changes to list, more than %zu", c->count);
	if (c->count == c->size) {
		size_t size = c->size ? c->size * 2 : 64;
		struct change *items = realloc(c->items, size * sizeof(*items));
		if (!items)
			return err_sys(err, "cannot compare");
		c->items = items;
		c->size = size;
	}
	char *path = strdup(change->path);
	if (!path)
		return err_sys(err, "cannot compare");
	c->path_bytes += len;
	c->bytes += change->bytes;
	c->items[c->count] = *change;
	c->items[c->count++].path = path;
	return 0;
}

static int record(struct walk *w, enum change_op op, const char *path, const struct stat *before, const struct stat *after)
{
	const struct change c = {.op = op,
	                         .path = (char *)(uintptr_t)path,
	                         .bytes = S_ISREG(after->st_mode) ? (uint64_t)after->st_size : 0,
	                         .before = before->st_mode,
	                         .after = after->st_mode};

	return changes_add(w->out, &c, w->err);
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

/* An entry as both sides show it. */
struct both {
	struct view_entry e[SIDES];
	int dir[SIDES]; /* where it was found */
};

static int look(struct walk *w, const struct place *in, const char *name, struct both *out)
{
	struct view_entry common;
	int looked = 0;

	for (int s = 0; s < SIDES; s++) {
		int found = merged_stat(&w->view[s], &in->dirs[s], name, &out->e[s], w->err);
		if (found < 0)
			return -1;
		out->dir[s] = merged_fd(&in->dirs[s], out->e[s].layer);
		if (found || !in->shows[s])
			continue;
		if (!looked++ && merged_stat(&w->view[COMMON], &in->dirs[COMMON], name, &common, w->err) < 0)
			return -1;
		out->e[s] = common;
		out->dir[s] = merged_fd(&in->dirs[COMMON], common.layer);
	}
	return 0;
}

/* 1: they differ, as *op says; 0: they do not. */
static int classify(struct walk *w, const char *name, const struct both *b, enum change_op *op)
{
	const struct stat *before = &b->e[BEFORE].st, *after = &b->e[AFTER].st;

	if (!before->st_mode || !after->st_mode) {
		*op = before->st_mode ? CHANGE_DELETE : CHANGE_ADD;
		return before->st_mode || after->st_mode;
	}
	*op = CHANGE_TYPE;
	if ((before->st_mode & S_IFMT) != (after->st_mode & S_IFMT))
		return 1;
	int differs = entry_compare(name, &(struct found){b->dir[BEFORE], before}, &(struct found){b->dir[AFTER], after}, op, w->err);
	if (differs > 0 && *op == CHANGE_TIME)
		differs = (w->flags & (S_ISDIR(after->st_mode) ? CHANGES_DIR_TIMES : CHANGES_FILE_TIMES)) != 0;
	return differs;
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------------- */

static size_t place_size(const struct place *p)
{
	return p->dirs[BEFORE].count + p->dirs[AFTER].count + p->dirs[COMMON].count;
}

/* Takes the place over, also when it fails. */
static int push(struct walk *w, struct place place)
{
	_cleanup_place_ struct place p = place;

	if (p.depth > VIEW_DEPTH_MAX)
		return err_set(w->err, CORDON_ERR_SYSTEM, "directories nested more than %d deep", VIEW_DEPTH_MAX);
	if (!p.path)
		return err_sys(w->err, "cannot compare");
	struct place *stack = grow(w, w->stack, w->count, &w->size, sizeof(*stack));
	if (!stack)
		return -1;
	w->stack = stack;
	if (w->open + place_size(&p) > OPEN_MAX_PENDING)
		for (int i = 0; i < SETS; i++)
			merged_park(&p.dirs[i]);
	else
		w->open += place_size(&p);
	stack[w->count++] = p;
	p = (struct place){0};
	return 0;
}

static bool is_parked(const struct place *p)
{
	for (int i = 0; i < SETS; i++)
		if (p->dirs[i].count)
			return p->dirs[i].dirs[0].fd < 0;
	return false;
}

static struct place pop(struct walk *w)
{
	struct place p = w->stack[--w->count];

	if (!is_parked(&p))
		w->open -= place_size(&p);
	return p;
}

static int push_directory(struct walk *w, const struct place *in, const char *name, const char *path, const struct both *b)
{
	_cleanup_place_ struct place p = {.depth = in->depth + 1};

	for (int s = 0; s < SIDES; s++) {
		if (!S_ISDIR(b->e[s].st.st_mode))
			continue;
		int ended = merged_enter(&w->view[s], &in->dirs[s], name, &p.dirs[s], w->err);
		if (ended < 0)
			return -1;
		p.shows[s] = !ended && in->shows[s];
	}
	if ((p.shows[BEFORE] || p.shows[AFTER]) && merged_enter(&w->view[COMMON], &in->dirs[COMMON], name, &p.dirs[COMMON], w->err) < 0)
		return -1;
	if (!is_worth_reading(&p, BEFORE) && !is_worth_reading(&p, AFTER) && !is_worth_reading(&p, COMMON))
		return 0;
	p.path = strdup(path);
	struct place pushed = p;
	p = (struct place){0};
	return push(w, pushed);
}

static int visit_name(struct walk *w, const struct place *in, const char *name)
{
	struct both b;
	enum change_op op;

	_cleanup_free_ char *path = join(in->path, name);
	if (!path) {
		errno = ENOMEM;
		return err_sys(w->err, "cannot compare");
	}
	if (look(w, in, name, &b) < 0)
		return -1;
	int differs = classify(w, name, &b, &op);
	if (differs < 0 || (differs && record(w, op, path, &b.e[BEFORE].st, &b.e[AFTER].st) < 0))
		return -1;
	if (!S_ISDIR(b.e[BEFORE].st.st_mode) && !S_ISDIR(b.e[AFTER].st.st_mode))
		return 0;
	return push_directory(w, in, name, path, &b);
}

static int visit(struct walk *w, struct place *in)
{
	_cleanup_names_ struct names names = {0};

	for (int i = 0; i < SETS; i++) {
		if (merged_reopen(&w->view[i], in->path, &in->dirs[i], w->err) < 0)
			return -1;
		for (size_t k = 0; k < in->dirs[i].count && is_worth_reading(in, i); k++)
			if (names_read(&names, in->dirs[i].dirs[k].fd, w->err) < 0)
				return -1;
	}
	names_tidy(&names);
	for (size_t i = 0; i < names.count; i++)
		if (visit_name(w, in, names.items[i]) < 0)
			return -1;
	return 0;
}

static int push_top(struct walk *w)
{
	_cleanup_place_ struct place top = {.shows = {true, true}};

	for (int i = 0; i < SETS; i++)
		if (merged_find(&w->view[i], "", 0, &top.dirs[i], w->err) < 0)
			return -1;
	top.path = strdup("");
	struct place pushed = top;
	top = (struct place){0};
	return push(w, pushed);
}

static int walk_all(struct walk *w)
{
	if (push_top(w) < 0)
		return -1;
	while (w->count > 0) {
		_cleanup_place_ struct place p = pop(w);
		if (visit(w, &p) < 0)
			return err_wrap(w->err, "cannot compare %s", *p.path ? p.path : "the top directory");
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

void changes_sort(struct changes *c)
{
	if (c->count)
		qsort(c->items, c->count, sizeof(*c->items), by_path);
}

const struct change *changes_find(const struct changes *c, const char *path)
{
	const struct change key = {.path = (char *)(uintptr_t)path};

	return c->count ? bsearch(&key, c->items, c->count, sizeof(key), by_path) : NULL;
}

void changes_forget_times(struct changes *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		if (c->items[i].op == CHANGE_TIME) {
			c->bytes -= c->items[i].bytes;
			free(c->items[i].path);
		} else {
			c->items[n++] = c->items[i];
		}
	}
	c->count = n;
}

int changes_between(const struct view *before, const struct view *after, struct changes *out, struct cordon_error *err)
{
	return changes_between_with(before, after, 0, out, err);
}

int changes_between_with(const struct view *before, const struct view *after, unsigned flags, struct changes *out, struct cordon_error *err)
{
	struct walk w = {.out = out, .err = err, .flags = flags};

	*out = (struct changes){0};
	int r = find_common(&w, before, after);
	if (r == 0)
		r = walk_all(&w);
	while (w.count > 0)
		place_free(&w.stack[--w.count]);
	free(w.stack);
	if (r < 0)
		changes_free(out);
	else
		changes_sort(out);
	return r;
}
