/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts files back in place: makes a mounted tree, which programs are using, show what a stack of layers shows. A file that is still a file is written in place, so
 * that whoever has it open sees it revert; nothing else of the tree is touched.
 */
#ifndef CORDON_LAYERS_PUTBACK_H
#define CORDON_LAYERS_PUTBACK_H

#include "layers/ids.h"
#include "layers/view.h"

/* changes: from what the tree shows now to what it should show. */
int putback(int tree, const struct view *want, const struct changes *changes, const struct layer_ids *ids, struct cordon_error *err);
/*
 * Mode, owner, attributes and time of the top itself, which is in no list of changes. inherited: it began with no more than the mode and the time of the one below it, see
 * inherit_root() in sandbox/mounts_layers.c.
 */
int putback_top(int tree, const struct view *want, bool inherited, const struct layer_ids *ids, struct cordon_error *err);
/* No view shows sockets. One that a program still has bound should be left alone; what others left is in the way of the next. */
bool putback_is_used(int dir, const char *name);

#endif
