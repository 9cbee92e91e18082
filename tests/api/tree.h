/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two trees (the workspace and the home) as the property test sees them: a manifest that tells everything about them, and a replay of
 * changes. The same code runs inside a sandbox (inside.c) and on a plain directory outside, so that one can be compared with the other.
 *
 * Paths start with "app" or "home", may be longer than PATH_MAX, and hold any bytes but NUL. In text they are encoded: %XX for what is
 * not a letter, a digit or one of "._-/", and a lone "%" for the empty string.
 */
#ifndef CORDON_TESTS_API_TREE_H
#define CORDON_TESTS_API_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct roots {
	int fds[2]; /* app, home; -1: left out */
};
extern const char *const root_names[2];

void encode(struct buf *out, const char *text);
/* In place. */
void decode(char *text);

/* The directory that holds the last component, which *base gets; a descriptor that is good for *at() calls and fchdir(2). -1: errno says why. */
int open_parent(const struct roots *r, const char *path, const char **base);

/*
 * One line per file, a directory before what is in it, names sorted:
 *
 *   PATH TYPE MODE UID GID SIZE MTIME CONTENT GROUP SPARSE ATTRIBUTES
 *
 * MTIME in nanoseconds, CONTENT a hash, a link's target, or "!ERRNO" if it cannot be read, GROUP the first path of the same inode if it
 * has several.
 */
enum manifest_field { F_PATH, F_TYPE, F_MODE, F_UID, F_GID, F_SIZE, F_MTIME, F_CONTENT, F_GROUP, F_SPARSE, F_ATTRIBUTES, F_COUNT };
/* part: which of the names at the top are wanted; NULL: all. */
void manifest(const struct roots *r, bool (*part)(const char *name), struct buf *out);

/*
 * Replays a script, one operation per line, "NAME ARGUMENT…" with blanks between. Appends "NAME ARGUMENT… = ERRNO" per operation to
 * results. The operation "pause" calls `pause_now`, if there is one; "exit N" ends the script. Returns N, or 0. See the table in
 * tree_replay.c.
 */
int replay(const struct roots *r, char *script, struct buf *results, void (*pause_now)(void));

#endif
