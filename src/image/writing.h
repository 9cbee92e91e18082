/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ways of writing an image share. */
#ifndef CORDON_IMAGE_WRITING_H
#define CORDON_IMAGE_WRITING_H

#include "image/write.h"

int writing_add_layer(struct image_write_result *r, const struct written_layer *l, struct cordon_error *err);

#endif
