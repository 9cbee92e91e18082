/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full copy of what a stack of layers shows, for places where overlayfs cannot write or ids cannot be mapped (overlayfs itself, FUSE, NFS …): a
 * plain tree that is bound into the sandbox, and from which a layer in overlayfs' format is taken when it has to be sealed. Beside an open layer lie
 *
 *   layers/ID/full/app, full/home    the copy; while it is there, ID/app and ID/home are not final
 *   layers/ID/index                  what it was like when it was last the same as the head, by inode and change time; without it, it was never complete
 *
 * What differs from the index was changed inside; nothing is read for that, and what is edited in the seed meanwhile is not taken for a change.
 *
 * An ordinary user's own files may be closed to him by their mode. So the work is done in a child that has a user namespace of its own, in which he may look
 * at all that is his; root does it here.
 */
#ifndef CORDON_LAYERS_FULL_H
#define CORDON_LAYERS_FULL_H

#include "layers/ids.h"
#include "layers/view.h"

/* Does the work where all of it can be read; returns what that returned, with its size (NULL: none is wanted) and error. */
struct full_size;
typedef int (*full_work)(void *job, struct full_size *size, struct cordon_error *err);
int full_do(full_work work, void *job, struct full_size *size, struct cordon_error *err);

struct full {
	struct store *store;
	const char *layer; /* whose directory holds the copy */
	/* The ids in the copy are those that the sandbox shows, where mounts cannot map them. */
	struct layer_ids ids;
	const struct view *head; /* one per tree: what the copy is to be compared with, or made of */
};

struct full_size {
	uint64_t files;  /* that are no directories */
	uint64_t bytes;  /* what a watcher of disks would count, or a little more */
	uint64_t closed; /* files of others that cannot be read, and are not there */
};

/* Empty trees, of the owner of the layer's own. CORDON_ERR_WEAK_HOST where deleted files cannot be marked as such. */
int full_begin(struct store *s, const char *layer, struct cordon_error *err);
bool full_exists(struct store *s, const char *layer);
int full_open(struct store *s, const char *layer, enum layer_tree tree, struct cordon_error *err);

/* What a copy of the head would take. */
int full_measure(const struct full *f, struct full_size *out, struct cordon_error *err);
/* Fills the empty trees, and writes the index. */
int full_fill(const struct full *f, struct full_size *out, struct cordon_error *err);

/* 1: something was changed since the index was written; 0: nothing, or it was never complete; -1. */
int full_changed(const struct full *f, struct cordon_error *err);

enum full_flags {
	FULL_LINK = 1 << 0,   /* the copy is not written to any more: its files may be linked */
	FULL_USED = 1 << 1,   /* it is in use meanwhile: what vanishes is gone */
	FULL_SETTLE = 1 << 2, /* whoever uses it stands still, and goes on afterwards */
};
/*
 * What was changed, as a layer: into the trees of `to`, which may be f->layer itself; what is there goes away first. The index of the copy as it is now
 * lies beside it as "index.new".
 */
int full_extract(const struct full *f, const char *to, unsigned flags, struct cordon_error *err);

/*
 * Puts files back in place until the copy, which may be in use, shows what `want` (one view per tree) shows, but for those that match `spare` (NULL: none), and
 * writes the index anew. base: the layer where the old index is.
 */
int full_put_back(const struct full *f, const char *base, const struct view *want, const struct strlist *spare, struct cordon_error *err);

/* The copy goes to another open layer; what is mounted of it stays mounted. */
int full_move(struct store *s, const char *from, const char *to, struct cordon_error *err);
/* The index that full_extract() left beside one layer is passed on to another, to be adopted there. */
int full_pass_index(struct store *s, const char *from, const char *to, struct cordon_error *err);
/* It becomes that of another layer, or of the same. */
int full_adopt_index(struct store *s, const char *from, const char *to, struct cordon_error *err);
/* Takes the copy (if there is one) and the indexes away from a layer that is to be sealed. */
int full_retire(struct store *s, const char *layer, struct cordon_error *err);

#endif
