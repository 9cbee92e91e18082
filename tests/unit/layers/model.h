/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random layers, kept in memory as well as on disk, and what a stack of them shows, by the plainest rule there is: layers are applied
 * one after another, from the bottom, to an ordinary tree.
 */
#ifndef CORDON_TESTS_MODEL_H
#define CORDON_TESTS_MODEL_H

#include "listing.h"

struct node; /* a directory and all that is in it */

/* Makes a layer up and writes it below `name` in dirfd. is_seed: an ordinary tree, without marks. owners: files may belong to others. */
struct node *model_layer(struct rng *r, int dirfd, const char *name, bool is_seed, bool owners);
void model_free(struct node *n);
/* layers: topmost first, as for view_from() */
void model_listing(struct node *const *layers, size_t count, struct listing *out);

#endif
