/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path was on the host when a sandbox first changed its own version of it: absent, or (device, inode, type, size, change time),
 * and the inodes of the directories above it. A commit demands that the host's file is still that; so an edit, a deletion, a directory
 * moved into its place and a replaced file are seen whatever the clock says, and our own earlier commit (which records what it wrote) is
 * told apart from somebody else's edit.
 *
 * A directory's size and change time say nothing about it (every file made in it changes them): in their place are its mode and owner,
 * and 0. Device numbers of some file systems change with each boot: DEV is 0 on the seed's own file system, and only what is mounted
 * below it has another.
 *
 * A file of lines, the first "cordon-identities 1", then "ID PATH", ID being "-:PARENTHASH" (absent), "!" (changed on the host while the
 * exec ran) or DEV:INO:TYPE:SIZE:CTIME_NS:PARENTHASH, numbers in hexadecimal, PATH with bytes outside printable ASCII, blanks, "%", "="
 * and "," as %XX.
 */
#ifndef CORDON_LAYERS_IDENTITY_H
#define CORDON_LAYERS_IDENTITY_H

#include "layers/view.h"

struct identity {
	bool known; /* false: nothing recorded */
	bool absent, raced;
	uint64_t dev, ino, size, parents; /* parents: a hash over (dev, ino) of every directory above that is there, the seed first */
	uint32_t type;
	int64_t ctime_ns;
};

/* What the path is now, below the seed directory. */
int identity_now(int seed, const char *path, struct identity *out, struct cordon_error *err);
bool identity_equal(const struct identity *a, const struct identity *b);

/*
 * Whether the path is still what it was. As identity_equal() with what it is now, but a path that was absent may have got more
 * directories above it since: they did not exist then, so each of them is an addition of its own, and whoever asks looks at each.
 */
int identity_check(int seed, const char *path, const struct identity *expected, struct identity *now, bool *same, struct cordon_error *err);

/* A loaded file of identities: a map from path. */
struct identities;
int identities_load(int dir, const char *name, struct identities **out, struct cordon_error *err); /* a missing file is an empty map */
int identities_new(struct identities **out, struct cordon_error *err);
void identities_free(struct identities *i);
/* Takes over all entries of a file, or of another map: they replace those that are there. A missing file has none. */
int identities_merge(struct identities *i, int dir, const char *name, struct cordon_error *err);
int identities_merge_from(struct identities *i, const struct identities *from, struct cordon_error *err);
struct identity identities_get(const struct identities *i, const char *path);
int identities_put(struct identities *i, const char *path, const struct identity *id, struct cordon_error *err);
/* About what a file of them takes: so much each, and three times the length of its path at most. */
#define IDENTITY_BYTES 100
uint64_t identities_bytes(const struct identities *i);
int identities_save(const struct identities *i, int dir, const char *name, struct cordon_error *err);

/*
 * At seal: records the identity of every changed path in layers/ID/base. birth_ns: CLOCK_REALTIME when the upper was made; a host ctime
 * later than it means that the host's file changed during the exec ("!").
 */
int identities_record(int layer_dir, int seed, const struct changes *changes, int64_t birth_ns, struct cordon_error *err);

#endif
