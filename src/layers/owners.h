/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is root inside (root: layered) can give files of the workspace to any id of its own, and as root we have those ids on disk as they are inside. On the host they are somebody
 * else's: before such a layer is looked at, everything in it is given back to whoever owns the workspace.
 */
#ifndef CORDON_LAYERS_OWNERS_H
#define CORDON_LAYERS_OWNERS_H

#include <sys/types.h>

#include "base/err.h"

/* Everything in the directory `name` of dirfd. No link is followed, no other file system entered. Nothing may be writing to it. */
int tree_give_back(int dirfd, const char *name, uid_t uid, gid_t gid, struct cordon_error *err);

#endif
