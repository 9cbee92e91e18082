/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What files.* and process.* of a policy make of a plan. Under the default policy: nothing.
 *
 * Landlock says what may be read, written and executed, by tree; mounts take away what Landlock cannot: a path inside an allowed tree (masked), and programs
 * that somebody brought (trees that are mounted without the right to execute). Patterns are resolved inside, over the mounted tree, when
 * the sandbox starts and each time that its layers are exchanged.
 *
 * With a list of programs, nothing of the system that is a program can be read unless it is listed, so that it can be neither loaded (ld.so needs no
 * more than to read it) nor copied: directories of programs are not granted but file by file, and of other directories that hold one, all but that.
 */
#ifndef CORDON_BACKEND_PERMIT_H
#define CORDON_BACKEND_PERMIT_H

#include "backend/image_host.h"
#include "backend/image_root.h"
#include "policy/policy.h"

/*
 * Adds to a complete plan. home: $CORDON_HOME, where the list of programs is kept. image: what the plan's root is; NULL: the host's. layers_only: the plan exchanges layers of a sandbox that lives, whose
 * rules stay. *flags gets what the spec has to say about it.
 */
int permit_plan(struct plan *p, const struct cordon_policy *policy, const char *home, const struct image_root *image, bool layers_only,
                uint32_t *flags, struct cordon_error *err);

/* Of a plan that exchanges layers, leaves what hides and permits things in trees that stay where they are. */
void permit_stay(struct plan *p);

#endif
