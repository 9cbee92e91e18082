/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small records as text, readable with cat:
 *
 *   cordon 1 layer            what it is, and the version of its form
 *   id k3f9…                  one "key value" per line; a list is a key that comes several times
 *   note two%0Alines          control bytes, "%" and what is not ASCII as %XX
 *   end                       so that a record that was cut off is seen
 *
 * One table per kind drives reader and writer. Keys that this version does not know are skipped (and not written again); anything else
 * that the writer would not have written makes the record damaged.
 */
#ifndef CORDON_LAYERS_RECORD_H
#define CORDON_LAYERS_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define RECORD_VERSION 1
#define RECORD_SIZE_MAX ((size_t)1 << 20)

enum record_type {
	RECORD_ID,    /* char[ID_LEN + 1]; "" is left out */
	RECORD_CHARS, /* char[size]; "" is left out */
	RECORD_TEXT,  /* char *, owned by the record; NULL is left out */
	RECORD_LIST,  /* struct strlist */
	/* from here on: always written, and a record without it is damaged */
	RECORD_INT,
	RECORD_U32,
	RECORD_I64,
	RECORD_U64,
	RECORD_WORD, /* an enum, written as one of `words`, of which there are `size` */
};
#define RECORD_LATER 1 /* as the size of a number: records of earlier versions do not have it, and then it is 0 */

struct record_key {
	const char *name; /* [a-z_]+ */
	enum record_type type;
	size_t offset; /* in the record */
	size_t size;
	const char *const *words;
};

struct record_kind {
	const char *name; /* "layer" */
	const struct record_key *keys;
	size_t count; /* at most 64 */
};

/* Appends the record's text. The buffer fails if it would be longer than RECORD_SIZE_MAX. */
void record_format(const struct record_kind *kind, const void *record, struct buf *out);

/*
 * Fills in a record that is zeroed; text need not end in NUL. -1: CORDON_ERR_INPUT, "damaged: line 3: …" or another version;
 * CORDON_ERR_SYSTEM if memory ran out. What could be read is in the record even then, and the record must be freed.
 */
int record_parse(const struct record_kind *kind, const char *text, size_t len, void *record, struct cordon_error *err);
/* The same from a file in a directory that only we can write. CORDON_ERR_NOT_FOUND if there is none. */
int record_read(int dirfd, const char *path, const struct record_kind *kind, void *record, struct cordon_error *err);
/*
 * The record of the thing called `id`: ID/KIND in dirfd, which must be its own. own_id is the record's field; it is filled in, whatever was read.
 * 1: there is none, and err is as it was; see record_missing().
 */
int record_load(int dirfd, const char *id, const struct record_kind *kind, void *record, char own_id[], struct cordon_error *err);
/* -1: "damaged" if the directory ID is there, CORDON_ERR_NOT_FOUND otherwise. */
int record_missing(int dirfd, const char *id, const struct record_kind *kind, struct cordon_error *err);
/* Under a temporary name, on the disk, renamed to `name` in dirfd (which cannot be O_PATH), the directory synced. */
int record_write(int dirfd, const char *name, const struct record_kind *kind, const void *record, struct cordon_error *err);
/* The same without waiting for the disk: after a loss of power it may be the old one again, or damaged. */
int record_write_soon(int dirfd, const char *name, const struct record_kind *kind, const void *record, struct cordon_error *err);

/*
 * Getting files to the disk. One fsync(2) per file costs a commit of the journal and a flush of the disk's cache each. Where the file system
 * keeps one ordered journal it is enough that each file's data are written, and that something is synced at last: blocks are allocated and sizes
 * logged before pages count as written, so that this one commit brings all that came before it, with one flush. Elsewhere (btrfs logs single
 * files, ext4 may have no journal) every file must be synced.
 */
bool disk_has_one_journal(int fd);
/* Writes a file's contents and waits; one_journal: of its file system, and then an fsync(2) of something else must follow. -1 with errno. */
int disk_write_out(int fd, bool one_journal);

/*
 * Temporary names, "PREFIXSTAMP.ID" with the owner stamp of this process: whoever finds one can tell whether its maker still lives.
 */
#define RECORD_TEMP ".tmp-"
#define RECORD_TEMP_MAX 128
int record_temp_name(char out[RECORD_TEMP_MAX], const char *prefix, struct cordon_error *err);
/* True only if the name begins with prefix and its maker is gone. */
bool record_temp_is_dead(const char *name, const char *prefix);

#endif
