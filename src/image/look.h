/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into an image without mounting it: as a program inside would see it, links included, and none leads out. */
#ifndef CORDON_IMAGE_LOOK_H
#define CORDON_IMAGE_LOOK_H

#include "image/image.h"
#include "layers/view.h"

/* The layers of an image that is in the store. Release with view_close(). */
int image_view(const char *home, const struct image *i, struct view *out, struct cordon_error *err);

/* What an absolute path leads to; st_mode 0: nothing is there. path_out (may be NULL): where it is, without a slash in front. */
#define IMAGE_LOOK_MAX 4096
int image_look(const struct view *v, const char *path, struct view_entry *out, char path_out[IMAGE_LOOK_MAX], struct cordon_error *err);

/* What can be told from its programs. */
struct image_traits {
	bool shell;       /* there is a /bin/sh */
	const char *arch; /* of the first program of its that is found: "amd64", "arm64", … ; NULL: none was */
};
int image_traits(const struct view *v, struct image_traits *out, struct cordon_error *err);

#endif
