/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of files as they are: contents (holes stay holes, shared blocks where the file system can), mode, owner, times to the
 * nanosecond, extended attributes and ACLs, hard links between what is copied, symbolic links, FIFOs, empty directories. Never follows a
 * link, never leaves its directories. overlayfs' own attributes (user.overlay.*, trusted.overlay.*) are not copied unless asked for.
 *
 * What is no file, directory, link or FIFO (a socket, a device) is refused by copy_entry and left out by copy_tree. A copy that fails
 * leaves nothing behind.
 */
#ifndef CORDON_LAYERS_COPY_H
#define CORDON_LAYERS_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

enum copy_flags {
	COPY_OVERLAY = 1 << 0,        /* whiteouts and overlayfs' attributes too: a layer stays a layer */
	COPY_LINK = 1 << 1,           /* hard links instead of copies of regular files (for what never changes again) */
	COPY_SYNC = 1 << 2,           /* fsync what was written */
	COPY_OWNER_MAY_FAIL = 1 << 3, /* an ordinary user cannot give files away */
};

/*
 * Source inodes that were copied before, so that a second name becomes a link. It keeps each directory open into which a file with
 * several names was copied, until all the names are there.
 */
struct copy_links;
struct copy_links *copy_links_new(void);
void copy_links_free(struct copy_links *l);

/* One entry that is no directory; both names are single components. from is opened O_NOFOLLOW below from_dir; to must not exist. */
int copy_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned flags, struct copy_links *links,
               struct cordon_error *err);
/* Mode, owner, times, attributes of one directory onto another (both open). */
int copy_dir_meta(int from, int to, unsigned flags, struct cordon_error *err);
/* A directory with everything in it, to a new directory; any depth. */
int copy_tree(int from_dir, const char *from, int to_dir, const char *to, unsigned flags, struct copy_links *links,
              struct cordon_error *err);

/* The contents of a regular file, both open; `to` is empty. errno is set on failure. */
int copy_data(int from, int to, off_t size);

/*
 * A small file, whole or not at all, whatever happens: under a temporary name (".NAME.tmp", which a killed writer may leave), synced,
 * renamed, directory synced.
 */
int write_synced(int dir, const char *name, const void *data, size_t len, struct cordon_error *err);

#endif
