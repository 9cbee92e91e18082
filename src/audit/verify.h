/* SPDX-License-Identifier: Apache-2.0 */
/* Is the log whole? And what keeps it so: sealing full segments, and removing old ones. */
#ifndef CORDON_AUDIT_VERIFY_H
#define CORDON_AUDIT_VERIFY_H

#include "audit/check.h"
#include "audit/seal.h"

struct audit_verify_options {
	const char *pub;            /* a file with the public key; NULL: the one in the directory, which proves less */
	struct audit_expect expect; /* a head noted elsewhere */
	unsigned threads;           /* 0: as there are CPUs */
};

struct audit_verified {
	uint64_t records, bytes;
	unsigned segments, sealed, retired;
	unsigned torn;        /* files with what interrupted writers have left */
	uint64_t torn_bytes;  /* at the end of the newest segment: the next writer puts them aside */
	uint64_t first, last; /* numbers of the records that are there; 0: none */
	char head[AUDIT_HASH + 1];
	char key[SEAL_KEY_ID + 1]; /* by which the seals were checked; "": there was nothing to check */
	struct audit_broken broken;
};
/* 0 also if the log is broken: then out->broken says where. -1: it cannot be read. */
int audit_verify(const char *home, const struct audit_verify_options *options, struct audit_verified *out, struct cordon_error *err);

struct audit_sealed {
	unsigned sealed, retired;
	uint64_t retired_bytes;
	char key[SEAL_KEY_ID + 1];
};
struct audit_retention {
	uint64_t max_age_ms; /* of the latest record in a segment; 0: any age */
	uint64_t max_bytes;  /* of all segments together; 0: any size */
};
/*
 * Ends the present segment, seals all that are not, then removes sealed segments, oldest first, that are too old or too much; their seals
 * stay. A segment whose chain is broken is not sealed: -1 says where.
 */
int audit_seal(const char *home, const struct audit_retention *keep, struct audit_sealed *out, struct cordon_error *err);

/* Locks the seals, for reading or for changing them. The descriptor (-1 if there is nothing to lock, when only reading), or -2. */
int seal_lock(int dir, bool change, struct cordon_error *err);

#endif
