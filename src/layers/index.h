/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tree holds, by inode and change time: comparing two of these tells what was written in between without reading a byte of it. And a copy of
 * an open layer that costs only what was written since the last one: the rest is linked.
 *
 * Each name is kept once, with the number of the directory that it is in: nested directories would otherwise take the square of their depth. The
 * entries of one directory lie side by side, sorted by name, and after that directory's own; so whoever goes through the list meets each directory before
 * what is in it, and through a struct index_walk has never far to go to the next.
 *
 * A change time tells the truth with two exceptions, which tree_index_settle() takes care of. Programs write to a mapped file without the kernel's knowledge while
 * its pages are dirty already: so these are written to the disk, after which the next write is noticed. Where that does not work (tmpfs, overlayfs, FUSE) the
 * contents are compared, by a hash, of files that were seen to change once.
 */
#ifndef CORDON_LAYERS_INDEX_H
#define CORDON_LAYERS_INDEX_H

#include "base/buf.h"
#include "layers/store.h"

#define INDEX_TOP UINT32_MAX /* as a directory: the top of the tree; else: none */
#define INDEX_NONE UINT32_MAX
#define INDEX_NAMES_MAX ((size_t)1 << 30) /* bytes of all names together; more is an error */

struct index_entry {
	uint32_t parent;
	uint32_t name;         /* where it begins in `names` */
	uint32_t first, count; /* of a directory: what is in it */
	uint64_t ino, size;
	uint64_t hash; /* of the contents; 0: not known */
	int64_t ctime_ns;
	mode_t mode;
};
struct tree_index {
	struct index_entry *items;
	size_t count, size;
	struct buf names;   /* each with its NUL */
	uint32_t top_count; /* entries in the top; they are the first */
	char *top;          /* mode, owner and attributes of the top itself, as text; NULL: not known */
};
void tree_index_free(struct tree_index *i);
#define _cleanup_index_ __attribute__((cleanup(tree_index_free)))

/* Walks a tree. Nothing in it should change meanwhile; what vanishes is left out. */
int tree_index_scan(int dir, struct tree_index *out, struct cordon_error *err);
/* The same tree now and then? Both settled. */
bool tree_index_equal(const struct tree_index *a, const struct tree_index *b);
bool tree_index_same_top(const struct tree_index *a, const struct tree_index *b);

const char *tree_index_name(const struct tree_index *i, uint32_t entry);
/* The whole path, in place of what `out` holds; NULL without memory. It can be long: more than PATH_MAX. */
const char *tree_index_path(const struct tree_index *i, uint32_t entry, struct buf *out);
/* INDEX_NONE: there is none. */
uint32_t tree_index_find(const struct tree_index *i, const char *path);
/* Of the directory `parent` (INDEX_TOP: the top). */
uint32_t tree_index_child(const struct tree_index *i, uint32_t parent, const char *name);

/* Which entry of `in` has the path of each entry of `of`, INDEX_NONE if there is none; to be freed. NULL without memory. */
uint32_t *tree_index_match(const struct tree_index *of, const struct tree_index *in);

/* For whoever makes one by hand: an entry that follows all others. name: len bytes. */
int tree_index_add(struct tree_index *i, const struct index_entry *e, const char *name, size_t len, struct cordon_error *err);
/* Makes it findable, once all entries are there. False if it is not in order. */
bool tree_index_finish(struct tree_index *i);

enum settle_flags {
	SETTLE_KNOWN = 1 << 0, /* only what is known to be compared by contents: to tell whether anything changed */
};
/*
 * To be called while nothing writes to the tree: from then on `now`, which is its index, can be trusted. last: an index that can be trusted already, of earlier;
 * what is the same in it costs nothing. NULL: none.
 */
int tree_index_settle(int dir, struct tree_index *now, const struct tree_index *last, unsigned flags, struct cordon_error *err);
/* Until what is written from now on gets another change time than all that is in the index: change times come in steps of some milliseconds. */
void tree_index_await_tick(const struct tree_index *i);
/* True if a file, or anything but a directory, was not touched. For directories see the caller's needs. */
bool index_entry_same(const struct index_entry *a, const struct index_entry *b);

/*
 * Copies tree `from` (whose index is `now`) into the empty directory `to`, as a layer. What is in `last` unchanged is linked from `sealed`, a copy that
 * was made when `last` was the index; sealed -1: nothing is. shed: what is in `last` unchanged and not in `sealed` is as it is below, and is left out.
 */
int tree_checkpoint(int from, const struct tree_index *now, int to, int sealed, const struct tree_index *last, bool shed,
                    struct cordon_error *err);

/* ---- index_walk.c -------------------------------------------------------------------------------------------------------------- */

/* The directories of an index, opened in a tree that has them, one at a time: from one to the next by ".." and by names, with one descriptor. */
struct index_walk {
	const struct tree_index *index;
	int top; /* stays the caller's */
	int fd;  /* of the directory where it stands */
	uint32_t at;
	struct index_level *levels; /* those above it, to know ".." again */
	size_t depth, room;
};
void index_walk_begin(struct index_walk *w, const struct tree_index *i, int top);
void index_walk_end(struct index_walk *w);
#define _cleanup_walk_ __attribute__((cleanup(index_walk_end)))
/* A descriptor (O_PATH) that stays the walk's, until the next call; -1 with errno. */
int index_walk_to(struct index_walk *w, uint32_t dir);

#endif
