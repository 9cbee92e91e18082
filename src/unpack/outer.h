/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an archive of layers has in it: a tar archive's files by where they lie, or the files of an OCI layout's directory. Small ones are kept, since they are asked for
 * first; layers are read from where they are.
 */
#ifndef CORDON_UNPACK_OUTER_H
#define CORDON_UNPACK_OUTER_H

#include "base/buf.h"
#include "unpack/source.h"

#define MEMBERS_MAX 65536
#define MEMBERS_STRANGE_MAX 1000     /* that no archive of layers has: then it is a tar archive of files */
#define BLOBS_MAX 4096               /* of a directory: each is a descriptor */
#define TEXT_MAX ((size_t)4 << 20)   /* of a manifest or a configuration */
#define TEXTS_MAX ((size_t)64 << 20) /* of all that are kept */

struct member {
	char *name; /* as it is meant: without "./" */
	char *link; /* of symbolic and hard links: the name that it leads to, from the top; NULL: a file */
	uint64_t size;
	uint64_t header; /* where it begins in the archive, uncompressed */
	char *text;      /* its contents, if they are kept */
	int fd;          /* in a directory; else -1 */
};

struct outer {
	int fd;
	uint64_t size, most;
	bool packed; /* as a whole: then it is unpacked once more for every layer */
	bool files;  /* a tar archive of files, not of layers: the index is not complete */
	struct member *members;
	size_t count, room, strange, kept;
};
void outer_free(struct outer *o);

/* Opens the files of an OCI layout, by their names alone; before the process gives up opening files. */
int outer_open_layout(struct outer *o, int dir, struct cordon_error *err);
/* Looks through a tar archive. */
int outer_index(struct outer *o, struct cordon_error *err);

/* By a name that the archive gives: no such file, or a name that leads out, is an error that says `what` was looked for. Links are followed inside the archive. */
const struct member *outer_find(const struct outer *o, const char *name, const char *what, struct cordon_error *err);
bool outer_has(const struct outer *o, const char *name);
/* Its bytes. */
struct source *outer_open(const struct outer *o, const struct member *m, struct cordon_error *err);
/* All of a small one, with its digest. */
int outer_text(const struct outer *o, const struct member *m, struct buf *out, char digest[SHA256_HEX], struct cordon_error *err);

/* "a/./b/../c" is "a/c": NULL if it leads out, or is nothing. */
char *name_clean(const char *name);

#endif
