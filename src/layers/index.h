/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an open layer holds, by inode and change time: comparing two of these tells what was written in between without reading a byte of
 * it. And a copy of an open layer that costs only what was written since the last one: the rest is linked.
 */
#ifndef CORDON_LAYERS_INDEX_H
#define CORDON_LAYERS_INDEX_H

#include "layers/store.h"

struct index_entry {
	char *path;
	uint64_t ino, size;
	int64_t ctime_ns;
	mode_t mode;
};
struct tree_index {
	struct index_entry *items; /* sorted by path, so that a directory comes before what is in it */
	size_t count, size;
};
void tree_index_free(struct tree_index *i);

/* Walks a tree. Nothing in it should change meanwhile; what vanishes is left out. */
int tree_index_scan(int dir, struct tree_index *out, struct cordon_error *err);
bool tree_index_equal(const struct tree_index *a, const struct tree_index *b);
/* NULL: none. */
const struct index_entry *tree_index_find(const struct tree_index *i, const char *path);

/*
 * Copies tree `from` (whose index is `now`) into the empty directory `to`, as a layer. What is in `last` unchanged is linked from `sealed`, a copy that
 * was made when `last` was the index; last NULL: nothing is.
 */
int tree_checkpoint(int from, const struct tree_index *now, int to, int sealed, const struct tree_index *last, struct cordon_error *err);

#endif
