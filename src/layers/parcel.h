/* SPDX-License-Identifier: Apache-2.0 */
/* What one process found out, for another of the same program: through a file, from where it stands. */
#ifndef CORDON_LAYERS_PARCEL_H
#define CORDON_LAYERS_PARCEL_H

#include "layers/index.h"
#include "layers/view.h"

int tree_index_send(const struct tree_index *i, int fd, struct cordon_error *err);
int tree_index_receive(struct tree_index *out, int fd, struct cordon_error *err);

int changes_send(const struct changes *c, int fd, struct cordon_error *err);
int changes_receive(struct changes *out, int fd, struct cordon_error *err);

#endif
