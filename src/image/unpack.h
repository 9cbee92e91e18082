/* SPDX-License-Identifier: Apache-2.0 */
/* cordon-unpack, as the library sees it: a process without rights that reads an archive and says what is in it (stream.h). */
#ifndef CORDON_IMAGE_UNPACK_H
#define CORDON_IMAGE_UNPACK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Starts it. archive: a regular file that can be sought in, wherever its offset is, or a directory that is an OCI layout; it stays the caller's. most: bytes that it may
 * unpack from one compressed stream, which ends bombs that never come to be written: the limit of image_write() is a good one.
 * The other end of *stream is for image_write().
 */
int unpack_start(int archive, uint64_t most, int *stream, pid_t *pid, struct cordon_error *err);
/*
 * Ends it, whatever it is doing; to be called once, after the stream's end has been closed or not. If the stream ended without a word (r of image_write is -1 and
 * err says so) the message gets how it ended: out of memory, say.
 */
void unpack_end(pid_t pid, struct cordon_error *err);

#endif
