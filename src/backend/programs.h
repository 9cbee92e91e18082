/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs a directory of the host holds, wherever in it they lie: hundreds are not in a bin directory (cc1, git-core, JDKs). Found by
 * looking at every file once; the result is kept in $CORDON_HOME/cache and is good as long as no directory below has changed.
 */
#ifndef CORDON_BACKEND_PROGRAMS_H
#define CORDON_BACKEND_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/policy.h"

enum program_kind {
	PROGRAM_NATIVE, /* machine code that can be started, also by a loader that only has to read it */
	PROGRAM_OTHER,  /* some other file that has the right to be executed: scripts, on some systems libraries */
	PROGRAM_KIND_COUNT,
};

struct program {
	char *path; /* on the host; no link is on the way */
	uint64_t dev, ino;
	enum program_kind kind;
};

struct programs {
	struct program *items; /* sorted by path */
	size_t count, size;
	struct strlist loaders; /* what native programs name as their interpreter, as they name it */
};

/* home: $CORDON_HOME. root: absolute and real. A cache that cannot be read or written only costs time. Release with programs_free(). */
int programs_find(const char *home, const char *root, struct programs *out, struct cordon_error *err);
/* The same of a directory of an image; their paths are those inside. */
struct image_root;
int programs_find_image(const char *home, const struct image_root *image, const char *root, struct programs *out, struct cordon_error *err);
void programs_free(struct programs *p);

/* ---- for programs_cache.c and the tests ---- */

struct programs_dir { /* a directory, as it was */
	char *path;
	uint64_t dev, ino;
	int64_t mtime, mtime_nsec, ctime, ctime_nsec;
};
struct programs_dirs {
	struct programs_dir *items;
	size_t count, size;
};
int programs_scan(const char *root, struct programs *out, struct programs_dirs *dirs, struct cordon_error *err);
int programs_scan_image(const struct image_root *image, const char *root, struct programs *out, struct cordon_error *err);
struct stat;
/* Adds a file, if it is a program. */
int programs_look(struct programs *p, const char *path, int dir, const char *name, const struct stat *st, struct cordon_error *err);
void programs_sort(struct programs *p);
int programs_add(struct programs *p, const char *path, const struct program *like, struct cordon_error *err);
int programs_add_dir(struct programs_dirs *d, const char *path, const struct programs_dir *like, struct cordon_error *err);
void programs_free_dirs(struct programs_dirs *d);
struct programs_dir programs_stamp(const struct stat *st);

/* 1 if the text is what programs_encode() made for this root, and all directories are still as they were; then *out is filled in. */
int programs_decode(const void *data, size_t len, const char *root, struct programs *out);
struct buf;
void programs_encode(const char *root, const struct programs *p, const struct programs_dirs *dirs, struct buf *out);

#endif
