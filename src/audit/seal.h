/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals: an Ed25519 signature over what a full segment is, in a file NNNNNN.seal beside it. The text, a line each:
 *
 *   cordon-audit-seal 1
 *   segment 000001.jsonl
 *   first 1                   number of its first record, and of its last
 *   last 120000
 *   from 2026-01-31T12:00:00.000000Z      the earliest and the latest time in it
 *   to 2026-02-03T08:15:00.000000Z
 *   prev 000…                 what its first record follows
 *   head 9f3c…                hash of its last record
 *   size 67108512             bytes
 *   sha256 2ab0…              of the whole file
 *   sealed 2026-02-03T08:16:00.000000Z
 *   key 5d41…                 which key: half of the SHA-256 of its 32 bytes
 *   signature base64…         of all lines above, line feeds included
 *
 * The key is made when it is first needed: `key` (PEM, 0600) and `key.pub` in the audit's directory. Who only verifies needs key.pub, best a copy that was
 * taken away in time. When segments are removed because of their age or size, their seals stay in the file `retired`, a line each (with tabs for line
 * feeds), so that the chain can be followed from its beginning.
 */
#ifndef CORDON_AUDIT_SEAL_H
#define CORDON_AUDIT_SEAL_H

#include "audit/scan.h"

#define SEAL_SUFFIX ".seal"
#define SEAL_RETIRED "retired"
#define SEAL_LOCK "seal.lock" /* held (flock) by whoever seals or removes; shared by who verifies */
#define SEAL_KEY "key"
#define SEAL_KEY_PUB "key.pub"
enum { SEAL_KEY_ID = 32, SEAL_SIGNATURE = 88, SEAL_TEXT_MAX = 4096 };

struct seal {
	unsigned number; /* of the segment */
	uint64_t first, last, size;
	char from[TEXT_TIME + 1], to[TEXT_TIME + 1], sealed[TEXT_TIME + 1];
	char prev[AUDIT_HASH + 1], head[AUDIT_HASH + 1], sha256[AUDIT_HASH + 1];
	char key[SEAL_KEY_ID + 1];
	char signature[SEAL_SIGNATURE + 1]; /* base64 */
};

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

/* The lines that are signed. */
void seal_text(const struct seal *s, struct buf *out);
/* NULL, or what is wrong with it. */
const char *seal_parse(const char *text, size_t len, struct seal *out);
/* NULL, or what is wrong with it. *absent: there is no such file. */
const char *seal_read(int dir, unsigned number, struct seal *out, bool *absent);
/* Never half: a temporary file, then renamed. */
int seal_write(int dir, const struct seal *s, struct cordon_error *err);

/* The lines of `retired`. A line without end is one that was interrupted, and does not count. */
struct seal_list {
	struct seal *items;
	size_t count;
	off_t size; /* of the whole lines */
};
void seal_list_free(struct seal_list *l);
/* 1: there is one that cannot be read: then `bad` is its number, from 1, and *why the reason. */
int seal_retired(int dir, struct seal_list *out, size_t *bad, const char **why, struct cordon_error *err);
/* Appends one, behind `size`. */
int seal_retire(int dir, const struct seal *s, off_t size, struct cordon_error *err);

/* ---- keys -------------------------------------------------------------------------------------------------------------------- */

struct seal_key;
void seal_key_free(struct seal_key *k);
static inline void seal_key_freep(struct seal_key **k)
{
	seal_key_free(*k);
}
#define _cleanup_key_ __attribute__((cleanup(seal_key_freep)))
/* The private key of the directory; made if there is none (and no key.pub: that would be the other half of a lost one). */
struct seal_key *seal_key_private(int dir, struct cordon_error *err);
/* A public key. `dir` may be AT_FDCWD. */
struct seal_key *seal_key_public(int dir, const char *path, struct cordon_error *err);
const char *seal_key_id(const struct seal_key *k);
/* Fills in key and signature. */
int seal_sign(struct seal *s, const struct seal_key *k, struct cordon_error *err);
/* NULL, or what is wrong with it. */
const char *seal_check(const struct seal *s, const struct seal_key *k);

#endif
