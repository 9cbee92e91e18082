/* SPDX-License-Identifier: Apache-2.0 */
/* What view.c, changes.c and their parts share; nobody else needs it. */
#ifndef CORDON_LAYERS_VIEW_PARTS_H
#define CORDON_LAYERS_VIEW_PARTS_H

#include "layers/view.h"

#ifndef VIEW_NAMES_MAX         /* a test has smaller ones */
#define VIEW_DEPTH_MAX 10000   /* directories inside one another; more is an error */
#define VIEW_NAMES_MAX 1000000 /* names in one directory, and changes in all; more is an error */
#endif

/* ---- paths: view_path.c ------------------------------------------------------------------------------------------------------- */

/* Relative, components of 1 to 255 bytes, none of them "." or "..". */
bool path_is_clean(const char *path);
/* A directory below dirfd, however long the path; "" is dirfd itself, anew. flags: O_PATH or O_RDONLY. -1 with errno. */
int path_open_dir(int dirfd, const char *path, int flags);

/* ---- one directory of a view: view_merge.c ------------------------------------------------------------------------------------ */

/*
 * The directories of the layers that a view merges at one path, topmost first. None: there is no directory at that path. A walk over a deep
 * tree parks what it comes back to, which closes the descriptors, and reopens it by its path.
 */
struct merged {
	struct merged_dir {
		unsigned layer;
		int fd; /* may be O_PATH */
	} * dirs;
	size_t count;
};
#define _cleanup_merged_ __attribute__((cleanup(merged_free)))
void merged_free(struct merged *m);

/*
 * The first len bytes of path; 0 is the top. Like the next two it tells whether the search ended: 1, nothing below the layers of this view
 * could add to it; 0, layers further down, if there were any, would be merged as well; -1 on errors.
 */
int merged_find(const struct view *v, const char *path, size_t len, struct merged *out, struct cordon_error *err);
/* The directory `name` in m. */
int merged_enter(const struct view *v, const struct merged *m, const char *name, struct merged *out, struct cordon_error *err);
/* The entry `name` in m, as view_stat() has it. */
int merged_stat(const struct view *v, const struct merged *m, const char *name, struct view_entry *out, struct cordon_error *err);
/* Its directory in the layer that an entry comes from. */
int merged_fd(const struct merged *m, size_t layer);

void merged_park(struct merged *m);
/* Does nothing if it is not parked. What has vanished meanwhile (a tree may be in use) is left out. */
int merged_reopen(const struct view *v, const char *path, struct merged *m, struct cordon_error *err);

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

struct names {
	char **items;
	size_t count, size;
};
#define _cleanup_names_ __attribute__((cleanup(names_free)))
void names_free(struct names *n);
/* Adds what the directory holds, but "." and "..". dirfd may be O_PATH. */
int names_read(struct names *n, int dirfd, struct cordon_error *err);
/* Sorts by byte, drops duplicates. */
void names_tidy(struct names *n);

/* ---- one entry of two views: view_compare.c ----------------------------------------------------------------------------------- */

struct found {
	int dir; /* where st was found */
	const struct stat *st;
};
/* Both are there and of the same type. 1: they differ, as *op says; 0: they do not; -1: cannot be told. */
int entry_compare(const char *name, const struct found *before, const struct found *after, enum change_op *op, struct cordon_error *err);

/* "/proc/self/fd/N": the way to what an O_PATH descriptor refers to. */
struct fd_link {
	char path[32];
};
struct fd_link fd_link(int fd);

#endif
