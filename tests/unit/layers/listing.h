/* SPDX-License-Identifier: Apache-2.0 */
/* A whole tree as a flat, sorted list, whatever it was read from; and helpers to make trees. */
#ifndef CORDON_TESTS_LISTING_H
#define CORDON_TESTS_LISTING_H

#include "layers/view.h"

struct item {
	char *path;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	char data[1024]; /* contents of a file, target of a link: the tests' are short */
	char xattr[8];   /* user.t, "" if there is none */
};
struct listing {
	struct item *items;
	size_t count, size;
};
void listing_free(struct listing *l);
/* path is copied; mode, owner and the rest may be filled in afterwards. */
struct item *listing_add(struct listing *l, const char *path, mode_t mode);
void listing_sort(struct listing *l);

void listing_of_view(const struct view *v, struct listing *out);
/* By plain system calls; what a view does not show (devices, sockets) is left out. */
void listing_of_dir(int dirfd, struct listing *out);

/* Prints the first difference and returns false if there is one. */
bool listing_equal(const struct listing *a, const char *a_name, const struct listing *b, const char *b_name);
/* What changes_between() must say. */
void listing_changes(const struct listing *before, const struct listing *after, struct changes *out);
bool changes_equal(const struct changes *expected, const struct changes *got);

/* ---- trees: all fail the test if they cannot ------------------------------------------------------------------------------- */

int tree_new(int parent, const char *name); /* a directory, open */
void tree_dir(int tree, const char *path);  /* with parents */
void tree_file(int tree, const char *path, const char *data);
void tree_whiteout(int tree, const char *path);
void tree_mark(int tree, const char *path, const char *value); /* user.overlay.opaque */
void tree_xattr(int tree, const char *path, const char *name, const char *value);

/* Fails the test with a message, also in a forked child of it. */
#define MUST(condition)                                              \
	do {                                                         \
		if (!(condition))                                    \
			must_failed(#condition, __FILE__, __LINE__); \
	} while (0)
_Noreturn void must_failed(const char *what, const char *file, int line);

/* A small generator: the same numbers from the same seed everywhere. */
struct rng {
	uint64_t state;
};
unsigned rng_below(struct rng *r, unsigned limit);

#endif
