/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where bytes come from, one on top of the other: a part of a file, what a compressed stream holds, a file in a tar archive. Nothing is written anywhere; a layer in a
 * compressed archive of layers is four of these.
 *
 *   file          bytes of a descriptor
 *   unpacked      what another source holds, decompressed if it is compressed (libarchive's filters)
 *   member        one file of the tar archive that another source holds
 *   skipped       another source from some byte on
 */
#ifndef CORDON_UNPACK_SOURCE_H
#define CORDON_UNPACK_SOURCE_H

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/sha256.h"

#define SOURCE_BLOCK ((size_t)256 << 10)
/* Of a stream between two files in it, or after the last: more is no tar archive, but somebody who wants us to be busy. */
#define SOURCE_IDLE_MAX ((uint64_t)64 << 20)

struct source {
	/* The next block, which stays until the next call, and its length; 0: the end; -1. */
	ssize_t (*next)(struct source *s, const void **block, struct cordon_error *err);
	/* Optional: moves on without reading; how far, which may be less. Never together with a digest. */
	int64_t (*skip)(struct source *s, int64_t len);
	void (*free)(struct source *s);
	uint64_t count; /* bytes that came */
	uint64_t most;  /* that may come; 0: any number */
	bool hashed;
	struct sha256 hash;
};

/* All of them own what they are on top of; each gives NULL with err. */
struct source *source_file(int fd, uint64_t at, uint64_t end, struct cordon_error *err);
struct source *source_unpacked(struct source *under, uint64_t most, struct cordon_error *err);
/* The first file in the archive. size: what it has to have. */
struct source *source_member(struct source *under, uint64_t size, struct cordon_error *err);
struct source *source_skipped(struct source *under, uint64_t len, struct cordon_error *err);
void source_free(struct source **s);
#define _cleanup_source_ __attribute__((cleanup(source_free)))

ssize_t source_next(struct source *s, const void **block, struct cordon_error *err);
/* From here on, with what came before. Must be called before the first byte. */
void source_hash(struct source *s);
/* Reads to the end, and gives the digest of all of it if there is one. */
int source_end(struct source *s, uint64_t most, char digest[SHA256_HEX], struct cordon_error *err);
/* All of it, at most len bytes: how many; -1. */
ssize_t source_read_all(struct source *s, char *to, size_t len, struct cordon_error *err);
/* Whether something had to be decompressed, of one that is `unpacked`, once the first byte has come. */
bool source_was_packed(const struct source *s);

/* ---- libarchive over a source --------------------------------------------------------------------------------------------------- */

struct reader {
	struct archive *archive;
	struct source *from;       /* not owned */
	struct cordon_error fault; /* of the source: libarchive would only say that something failed */
	uint64_t idle;             /* bytes since somebody set it to 0 */
	bool limited;              /* there may not be more than SOURCE_IDLE_MAX of them */
};
enum reader_format { READ_TAR, READ_RAW };
/* Of tar, no compression; of raw, every one that needs no other program. */
int reader_open(struct reader *r, enum reader_format format, struct source *from, struct cordon_error *err);
void reader_close(struct reader *r);
/* What failed: the source, or what libarchive says. */
int reader_failed(const struct reader *r, struct cordon_error *err);
/* The next entry: 1; 0: the end; -1. A warning is none: a name that is no UTF-8, say. */
int reader_next(struct reader *r, struct archive_entry **entry, struct cordon_error *err);

#endif
