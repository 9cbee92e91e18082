/* SPDX-License-Identifier: Apache-2.0 */
/* From the root of a sandbox (root: layered) to an image: the sandbox's sealed layers on top of those of the image that it was made with. */
#ifndef CORDON_IMAGE_COMMIT_H
#define CORDON_IMAGE_COMMIT_H

#include "image/import.h"

struct image_commit {
	const char *name;
	const char *source;          /* for people */
	bool replace;                /* an image that has this name already */
	const struct image *base;    /* whose environment and the like it has; held by the caller */
	int layers;                  /* the directory that `chain` is relative to */
	const struct strlist *chain; /* topmost first (layer_chain()) */
	image_progress *progress;
	void *arg;
};

/* As image_import(). What has no place in an image (devices, set-user-id bits) is left out, and counted. */
int image_commit(struct image_staging *s, const struct image_commit *what, struct image_imported *out, struct cordon_error *err);

#endif
