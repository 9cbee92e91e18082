/* SPDX-License-Identifier: Apache-2.0 */
/* The chain within segments, checked by all CPUs. What is between segments, and the seals, is verify.c's. */
#ifndef CORDON_AUDIT_CHECK_H
#define CORDON_AUDIT_CHECK_H

#include <sys/types.h>

#include "audit/scan.h"

/* The first thing that is wrong. */
struct audit_broken {
	bool found;
	char file[64];
	uint64_t line; /* from 1; 0: the file as a whole */
	uint64_t seq;  /* of the record; 0: not known */
	char what[256];
};
void broken_set(struct audit_broken *b, const char *file, uint64_t line, uint64_t seq, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* A head that was noted elsewhere. */
struct audit_expect {
	uint64_t seq; /* 0: none */
	char hash[AUDIT_HASH + 1];
};

struct checked_segment {
	/* to be filled in */
	unsigned number;
	bool want_sha256; /* of the whole file */

	/* what it is */
	off_t size;       /* when it was opened; what is appended later is not looked at */
	uint64_t records; /* 0: none, and the following have no meaning */
	uint64_t first, last;
	char prev[AUDIT_HASH + 1], head[AUDIT_HASH + 1];
	char from[TEXT_TIME + 1], to[TEXT_TIME + 1];
	bool rotates;  /* its last record ends it */
	uint64_t torn; /* bytes behind it that are part of a line */
	bool expected; /* the expected record is here, and is the right one */
	char sha256[AUDIT_HASH + 1];
	struct audit_broken broken; /* not: at the end of the file */
	struct chunk_checked *chunks;
};

/* Checks all of them, by `threads` threads (0: as there are CPUs). `expect` may be NULL. -1: they cannot be read. */
int check_segments(int dir, struct checked_segment *segments, size_t count, unsigned threads, const struct audit_expect *expect,
                   struct cordon_error *err);
void checked_segments_free(struct checked_segment *segments, size_t count);

#endif
