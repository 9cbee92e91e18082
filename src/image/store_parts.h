/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the image store share; for them only. */
#ifndef CORDON_IMAGE_STORE_PARTS_H
#define CORDON_IMAGE_STORE_PARTS_H

#include "image/image.h"
#include "layers/record.h"

#define IMAGE_TREE "tree"    /* in a layer's directory */
#define IMAGE_RECORD "layer" /* written last: a layer without it is not there */
#define IMAGE_GONE ".gone-"  /* in layers/: removed, and its tree may be removed by anyone at any time */
#define IMAGE_PATH_MAX 160   /* of a path that holds nothing but digests and our own names */

enum { PART_NAMES, PART_IDS, PART_LAYERS, PART_TMP, PART_COUNT };

struct image_store {
	int dir;               /* $CORDON_HOME/images */
	int parts[PART_COUNT]; /* its directories */
};
/* make: the directories are made (0700) if they are missing. 1: there are none, and make is not set. Refuses those that others can write. */
int image_store_open(struct image_store *s, const char *home, bool make, struct cordon_error *err);
void image_store_close(struct image_store *s);
#define _cleanup_image_store_ __attribute__((cleanup(image_store_close)))

/* For whoever adds or removes. A descriptor; closing it unlocks. */
int image_store_lock(const struct image_store *s, struct cordon_error *err);

extern const struct record_kind image_record, image_layer_record;

bool image_digest_valid(const char *digest);

/* The image of this name. 1: there is none. -1: damaged, and then *out holds what could be read. */
int image_load(const struct image_store *s, const char *name, struct image *out, struct cordon_error *err);
int image_load_all(const struct image_store *s, struct image_list *out, struct cordon_error *err);
/* The record of a layer; 1: it is not there. */
int image_layer_load(const struct image_store *s, const char *digest, struct image_layer *out, struct cordon_error *err);

/* The file of an image that holders lock, unlocked. 1: there is none. */
int image_open_id(const struct image_store *s, const char *id, int *out, struct cordon_error *err);

/* What all layers take. */
int image_used(const struct image_store *s, uint64_t *out, struct cordon_error *err);

/*
 * With the lock held: forgets the images that nobody needs and renames their layers away; bytes of these are added to *freed (may be NULL).
 * What was renamed away is removed by image_store_sweep(), for which no lock is needed.
 */
int image_store_collect(const struct image_store *s, uint64_t *freed, struct cordon_error *err);
void image_store_sweep(const struct image_store *s);

#endif
