/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment in pieces of whole lines, so that it can be read backwards, and by several threads. Read, not mapped: a writer that finds the disk full cuts
 * the file, and whoever has it mapped would get SIGBUS.
 */
#ifndef CORDON_AUDIT_CHUNK_H
#define CORDON_AUDIT_CHUNK_H

#include <sys/types.h>

#include "audit/audit.h"

#define CHUNK ((off_t)1 << 20)

struct chunk_lines {
	const char *data; /* in the buffer */
	size_t len;       /* whole lines, each with its line feed */
	off_t begin;      /* their place in the file */
	bool overlong;    /* what follows is a line that is longer than a record can be */
	size_t torn;      /* what follows is the end of the file, and a part of a line of this length */
};

/* The lines that begin in the piece `index`. `size` is what counts as the file's. -1 with errno. */
int chunk_read(int fd, off_t size, uint64_t index, struct buf *buffer, struct chunk_lines *out);

static inline uint64_t chunk_count(off_t size)
{
	return ((uint64_t)size + CHUNK - 1) / CHUNK;
}

#endif
