/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `cordon cp` share. */
#ifndef CORDON_CMD_CP_H
#define CORDON_CMD_CP_H

#include "cmd/tree.h"

/* A path in a sandbox, as it was given, taken apart. */
struct cp_inside {
	enum layer_tree tree;
	char *path;    /* in that tree; "": its top; owned */
	bool contents; /* "…/.": what is in the directory, not the directory */
	bool slash;    /* "…/": it must be a directory */
};

/* Where a copy goes: below which directory, under which name. Rules of docker cp. */
struct cp_source {
	const char *name; /* the last component */
	bool directory, contents;
};
enum cp_there { CP_ABSENT, CP_DIRECTORY, CP_OTHER };
/* True: into the directory that is there; false: the name given is the name of the copy. */
int cp_into(const struct cp_source *from, enum cp_there there, bool slash, const char *given, bool *into, struct cordon_error *err);

/* cp_out.c: from what the layers show to the host. */
int cp_out(const struct view *v, const struct cp_inside *from, const char *to, uint64_t *files, struct cordon_error *err);

/* cp_in.c: from the host into a new layer of a stopped sandbox, opened and locked. command: for the history. */
int cp_in(struct live *l, const char *from, const struct cp_inside *to, const char *command, uint64_t *files, struct cordon_error *err);

/* cp_live.c: the same by a tar(1) that runs inside. v: what its tree shows now. */
int cp_in_live(const struct live *l, const struct view *v, const char *from, const struct cp_inside *to, uint64_t *files,
               struct cordon_error *err);

/* Where the copy goes in a tree: its path, and whether a directory is there already. */
int cp_place(const struct view *v, const struct cp_source *from, const struct cp_inside *to, char **path, struct cordon_error *err);

/* A host path as a source: the directory it lies in, open, and what it is. `name` needs room for NAME_MAX + 1. */
int cp_open_source(const char *from, int *dir, char *name, struct cp_source *out, struct cordon_error *err);

/* Every entry of a source tree, parents first: path is below the source ("" is the source itself), dir holds it as base. */
struct cp_walk {
	int (*entry)(void *user, const char *path, int dir, const char *base, const struct stat *st, struct cordon_error *err);
	void *user;
};
int cp_walk(int dir, const char *name, const struct cp_walk *walk, struct cordon_error *err);

#endif
