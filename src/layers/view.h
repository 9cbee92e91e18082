/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stack of layers shows, read without mounting it: the rules of overlayfs (whiteouts, opaque directories) in user space. Used to
 * tell what changed, to print differences, to commit, and to put files back.
 *
 * Layers are written by whatever ran inside and are read here by whoever runs cordon: nothing follows a symbolic link, no name leaves its tree, and
 * what is no file, directory, link or FIFO counts as absent (a character device 0:0 is a whiteout). Paths are relative, without "." and "..", any bytes but NUL, and may
 * be longer than PATH_MAX: they are opened piece by piece; "" is the top. A directory that we may not read (an ordinary user, and a mode without r for its owner) shows no entries
 * of its own; commit refuses it.
 */
#ifndef CORDON_LAYERS_VIEW_H
#define CORDON_LAYERS_VIEW_H

#include <sys/stat.h>

#include "layers/store.h"

struct view {
	int *fds; /* directories, topmost first; the last is the seed if there is one */
	size_t count;
	bool seeded; /* the last is the seed: in it nothing is a whiteout or opaque */
};

/* head "": only the seed. seed: a descriptor (stays the caller's), -1: none. open: a layer not yet sealed, on top; NULL: none. */
int view_open(struct store *s, const char *head, const char *open, enum layer_tree tree, int seed, struct view *out,
              struct cordon_error *err);
/* From directories directly, topmost first; they are duplicated. */
int view_from(const int *fds, size_t count, bool seeded, struct view *out, struct cordon_error *err);
void view_close(struct view *v);
#define _cleanup_view_ __attribute__((cleanup(view_close)))

struct view_entry {
	size_t layer;   /* index into fds of the layer that gives the entry (for a merged directory: the topmost) */
	struct stat st; /* st_mode 0: absent */
};
/* 0 also if it is absent; -1 on errors. */
int view_stat(const struct view *v, const char *path, struct view_entry *out, struct cordon_error *err);
/* Opens a regular file for reading, or a symbolic link or anything else as O_PATH | O_NOFOLLOW. ESTALE if it is of another type by now. */
int view_open_entry(const struct view *v, const char *path, const struct view_entry *e, struct cordon_error *err);
/* The names in a directory as the stack shows it, sorted. CORDON_ERR_NOT_FOUND if it is no directory. */
int view_list(const struct view *v, const char *path, struct strlist *out, struct cordon_error *err);

/* Opens the directory that holds the last component of path below dirfd, however long the path; *base is that component. No link is followed. O_RDONLY, or O_PATH where it may not be read; -1 with errno. */
int path_open_parent(int dirfd, const char *path, const char **base);

enum change_op { CHANGE_ADD, CHANGE_MODIFY, CHANGE_DELETE, CHANGE_MODE, CHANGE_TYPE, CHANGE_TIME, CHANGE_OP_COUNT };
extern const char *const change_op_names[CHANGE_OP_COUNT]; /* "add", … */

struct change {
	enum change_op op;
	char *path;
	uint64_t bytes;       /* of a file that is there now */
	mode_t before, after; /* st_mode, 0: absent */
};
struct changes {
	struct change *items; /* sorted by path: a directory comes before what is in it */
	size_t count, size;
	uint64_t bytes;
	size_t path_bytes; /* of all paths that were added */
};
void changes_free(struct changes *c);
/* Copies it, with its path. Lists that are too long are an error, see changes_between(). */
int changes_add(struct changes *c, const struct change *change, struct cordon_error *err);
/* By path. */
void changes_sort(struct changes *c);
/* In a sorted list; NULL: it is not in it. */
const struct change *changes_find(const struct changes *c, const char *path);

/*
 * What differs between two stacks. Only what their layers (not the seed, which both must share, or neither have) hold is looked at, so the cost is that of the
 * changes, whatever the size of the seed. A directory counts only if it is new, gone or of another mode; a file copied up without a change
 * does not count (contents are compared when size is equal, unless both come from the same layer). A directory that is gone is one change for itself and one for each thing in it.
 * Owners, times and extended attributes: a difference in owner or xattrs is CHANGE_MODE; mtime alone is none, unless it is asked for. The top itself is not compared.
 * A tree may be in use meanwhile: what vanishes counts as gone. More than 1,000,000 changes, paths of more than 256 MiB in all, or directories more than 10,000 deep, are an error.
 */
int changes_between(const struct view *before, const struct view *after, struct changes *out, struct cordon_error *err);

enum changes_flags {
	CHANGES_FILE_TIMES = 1 << 0, /* CHANGE_TIME for what differs in nothing but its modification time, directories not counted */
	CHANGES_DIR_TIMES = 1 << 1,  /* and for directories */
};
int changes_between_with(const struct view *before, const struct view *after, unsigned flags, struct changes *out,
                         struct cordon_error *err);
/* Takes the CHANGE_TIMEs out again. */
void changes_forget_times(struct changes *c);

/* True if a tree directory (an upper) holds nothing at all: the cheap way to see that an exec changed nothing. */
bool tree_is_empty(int layer_dir, const char *tree);

#endif
