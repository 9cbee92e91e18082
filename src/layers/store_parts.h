/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share; for them (and box.c) only. */
#ifndef CORDON_LAYERS_STORE_PARTS_H
#define CORDON_LAYERS_STORE_PARTS_H

#include "layers/store.h"

#define LAYER_RECORD "layer" /* in a layer's directory */
#define LAYER_OPEN_MARK "open"
#define LAYER_WORK "work"
#define LAYER_FLAT "flat"
#define FLAT_TEMP "flat.tmp-"
#define GONE ".gone-"      /* in layers/ and sandboxes/: removed, and its tree may be removed by anyone at any time */
#define STORE_PATH_MAX 128 /* of a path below layers/ or sandboxes/ that holds nothing but ids and our own names */

/* CORDON_ERR_INPUT unless it has the form of an id: what is checked here can be part of a path. */
int store_check_id(const char *id, struct cordon_error *err);

/*
 * A lock on the whole tree. Shared (exclusive false): the boxes' records may be changed, and a layer that is there stays. Exclusive: no box changes,
 * so what is garbage can be told. Returns a descriptor; closing it unlocks. Held for moments only.
 */
int store_lock(struct store *s, bool exclusive, struct cordon_error *err);

/* Removes dirfd's entry `name` quickly: renamed to ".gone-ID", whose tree the caller may then remove with store_remove_gone(). */
int store_retire(int dirfd, const char *id, struct cordon_error *err);
void store_remove_gone(int dirfd, const char *id);

/* "ID/NAME" */
void store_path(char out[STORE_PATH_MAX], const char *id, const char *name);

/* A descriptor of a layer's directory that fsync(2) accepts. */
int layer_open_dir(struct store *s, const char *id, struct cordon_error *err);

/* layer_read() that leaves in *out what could be read of a damaged record; to be freed even after a failure. */
int layer_load(struct store *s, const char *id, struct layer *out, struct cordon_error *err);

/* Starts and awaits the writing of a layer's files: store_sync.c. dir is the layer's directory. */
int layer_sync(struct store *s, int dir, struct cordon_error *err);

/* ---- all layers at once: store_scan.c ------------------------------------------------------------------------------------------ */

enum layer_state {
	LAYER_SEALED,
	LAYER_OPEN,      /* its process lives, or nobody can tell */
	LAYER_ABANDONED, /* open, and its process is dead */
	LAYER_DAMAGED,   /* `layer` holds what could be read */
};

struct scanned {
	struct layer layer; /* its id is always there */
	enum layer_state state;
	bool marked; /* for whoever scans */
};

struct scan {
	struct scanned *items; /* sorted by id */
	size_t count, size;
};

int store_scan(struct store *s, struct scan *out, struct cordon_error *err);
struct scanned *scan_find(const struct scan *all, const char *id);
void scan_free(struct scan *all);
#define _cleanup_scan_ __attribute__((cleanup(scan_free)))

/* The names in a directory, without "." and "..". */
int store_list(int dirfd, struct strlist *out, struct cordon_error *err);

#endif
