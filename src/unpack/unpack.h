/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-unpack: the only code that parses archives. Theory of operation:
 *
 *   fd 0    the archive, a file that can be sought in, or a directory that is an OCI layout
 *   fd 1    a pipe: what is in it, as messages (image/stream.h)
 *
 * Before the first byte is read it gives up everything else (sandbox/lockdown.h): its user, all files, all system calls but reading what is open and writing to the
 * pipe. Of a layout's directory the files are opened before that, by their names. What the archive is, is seen by what it holds: an archive of layers is looked through
 * first, and then each layer is read from where it lies; anything else that is a tar archive is one layer.
 *
 * Digests are checked here, of what is read, while it is read: of each layer as it lies there (the manifest's) and uncompressed (the configuration's).
 */
#ifndef CORDON_UNPACK_UNPACK_H
#define CORDON_UNPACK_UNPACK_H

#include "unpack/emit.h"
#include "unpack/outer.h"

/* Everything before reading that needs files: locales, descriptors of a layout. */
int unpack_prepare(struct outer *o, int fd, uint64_t most, struct cordon_error *err);
int unpack_confine(struct cordon_error *err);
/* Reads it all, and says what is in it. */
int unpack_run(struct outer *o, struct emit *e, struct cordon_error *err);

#endif
