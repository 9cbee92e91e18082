/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of full.h share; for them only. */
#ifndef CORDON_LAYERS_FULL_PARTS_H
#define CORDON_LAYERS_FULL_PARTS_H

#include "layers/full.h"
#include "layers/index.h"

#define FULL_DIR "full" /* in a layer's directory */
#define FULL_INDEX "index"
#define FULL_INDEX_NEW "index.new"

/* ---- full_index.c ------------------------------------------------------------------------------------------------------------- */

struct full_index {
	struct tree_index trees[TREE_COUNT];
};
void full_index_free(struct full_index *i);
#define _cleanup_full_index_ __attribute__((cleanup(full_index_free)))

int full_index_scan(struct store *s, const char *layer, struct full_index *out, struct cordon_error *err);
/* 0 also if there is none, or a damaged one: *found tells. */
int full_index_load(struct store *s, const char *layer, struct full_index *out, bool *found, struct cordon_error *err);
/*
 * Written by rename, and not before the file system's clock has moved on: what is written from now on has another change time than all that
 * is in the index.
 */
int full_index_save(struct store *s, const char *layer, const char *name, const struct full_index *i, struct cordon_error *err);

/* True if the entry was not touched. Directories: inode numbers of overlayfs' own need not last. */
bool full_entry_same(const struct index_entry *a, const struct index_entry *b);
/*
 * Goes through two indexes, for each path that is in one of them: first all that is there now, each directory before what is in it, then in the same way what is gone.
 * INDEX_NONE: it is not in that one. Stops at what is not 0, and returns it.
 */
typedef int (*full_each)(void *arg, uint32_t before, uint32_t now, struct cordon_error *err);
int full_index_compare(const struct tree_index *before, const struct tree_index *now, full_each each, void *arg, struct cordon_error *err);

static inline const struct index_entry *full_entry(const struct tree_index *i, uint32_t entry)
{
	return entry == INDEX_NONE ? NULL : &i->items[entry];
}

/* What a layer can hold: sockets and devices count as absent. */
static inline bool full_keeps(const struct index_entry *e)
{
	return e && (S_ISREG(e->mode) || S_ISDIR(e->mode) || S_ISLNK(e->mode) || S_ISFIFO(e->mode));
}

/* ---- full_extract.c ----------------------------------------------------------------------------------------------------------- */

/* Copies one entry that is no directory, and translates its owner. */
int full_copy_entry(int from_dir, int to_dir, const char *name, unsigned flags, struct copy_links *links, const struct layer_ids *ids,
                    void (*translate)(const struct layer_ids *ids, struct file_meta *m), struct cordon_error *err);
/* The same for what a directory is apart from its entries; both open. */
int full_copy_dir(int from, int to, const struct layer_ids *ids, void (*translate)(const struct layer_ids *ids, struct file_meta *m),
                  struct cordon_error *err);

#endif
