/* SPDX-License-Identifier: Apache-2.0 */
/* transaction.preserve: what is there and is to stay although its exec is undone. */
#ifndef CORDON_LAYERS_SPARE_H
#define CORDON_LAYERS_SPARE_H

#include "layers/view.h"

bool spare_matches(const struct strlist *globs, const char *path);
/* Takes out of a list of what is to be put back what matches, and the directories above it. spared gets their paths (NULL: not wanted). */
int spare_changes(struct changes *c, const struct strlist *globs, struct strlist *spared, struct cordon_error *err);

#endif
