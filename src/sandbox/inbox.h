/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a command gets when it starts (OP_INBOX, /run/code): code, above all. Nobody but init can write there; inside it is a read-only mount,
 * so whatever lies there is what was put there. A file takes the place of an earlier one of its name, which a program that has it open goes on to
 * read.
 */
#ifndef CORDON_SANDBOX_INBOX_H
#define CORDON_SANDBOX_INBOX_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/spec.h"

/* Which they are is added to `names`, for inbox_remove(), which is also to be called after a failure. */
int inbox_put(int dir, const struct code_file *files, uint32_t count, struct buf *names, struct cordon_error *err);
/* Removes those that are still there, and the directories that become empty by that; names is freed. */
void inbox_remove(int dir, struct buf *names);

#endif
