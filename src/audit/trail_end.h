/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a segment: its last good record, and what an interrupted writer has left behind it. */
#ifndef CORDON_AUDIT_TRAIL_END_H
#define CORDON_AUDIT_TRAIL_END_H

#include <sys/types.h>

#include "audit/record.h"

struct trail_end {
	off_t size, good;       /* of the file; of it up to the end of the last good record */
	struct chain_head head; /* that record; of an empty segment: the last one of the segment before */
	bool rotates;           /* it is the last one of this segment */
};

/* `path` is the directory's, for messages. Looks at the segment before, if this one holds no record. */
int trail_end_read(int dir, const char *path, int fd, unsigned number, struct trail_end *out, struct cordon_error *err);

/* Moves what is behind the last good record into a file of its own. */
int trail_end_set_aside(int dir, const char *path, int fd, unsigned number, const struct trail_end *end, struct cordon_error *err);

/* "000001.torn-12" */
void trail_end_torn_name(unsigned number, uint64_t seq, char out[]);

#endif
