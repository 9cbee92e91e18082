/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer while it is being written, entry by entry; see write.h for what holds. Its directories can be entered by us until the end, when they get their modes
 * and times, those inside others first.
 */
#ifndef CORDON_IMAGE_LAYER_H
#define CORDON_IMAGE_LAYER_H

#include "image/content.h"
#include "image/write.h"

/* What all layers of an image share. */
struct new_layer_totals {
	const struct image_write_limits *limits;
	uint64_t bytes, entries;
	struct image_neutralised neutralised;
};

/* What a directory is to become. */
struct dir_record {
	char *path;
	uint64_t order; /* of two for the same path the later one counts */
	uint32_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

struct new_layer {
	struct new_layer_totals *totals;
	bool give_owner; /* as root */
	int tree;
	uint64_t bytes, entries;
	bool hides_lower;
	struct sha256 digest;
	/* the directory that the last entry was in: the next one is often there, too */
	int parent;
	char parent_path[STREAM_PATH_MAX + 1];
	/* the file whose contents are coming; -1: none */
	int file;
	char file_path[STREAM_PATH_MAX + 1];
	struct stream_entry entry;
	uint64_t at;
	struct content content;
	/* directories */
	struct dir_record *dirs;
	size_t dir_count, dir_room, dir_bytes;
};

/* Makes NUMBER/tree below staging. */
int new_layer_begin(struct new_layer *l, struct new_layer_totals *totals, int staging, unsigned number, struct cordon_error *err);
/* A file's contents have to follow, unless it has none. */
int new_layer_entry(struct new_layer *l, const struct stream_entry *e, struct cordon_error *err);
int new_layer_data(struct new_layer *l, const void *data, size_t len, struct cordon_error *err);
int new_layer_hole(struct new_layer *l, uint64_t len, struct cordon_error *err);
/* True if the contents of a file are still to come. */
bool new_layer_wants_data(const struct new_layer *l);
/* Modes and times of directories. */
int new_layer_end(struct new_layer *l, struct written_layer *out, struct cordon_error *err);
void new_layer_free(struct new_layer *l);
#define _cleanup_new_layer_ __attribute__((cleanup(new_layer_free)))

/* ---- parts of it ---------------------------------------------------------------------------------------------------------------- */

/*
 * The path as it is meant, below the top: without "/" at its ends, "." and empty components; "" is the top. CORDON_ERR_INPUT if it has "..", or is longer or deeper than
 * anything can be.
 */
int entry_path(const char *path, uint32_t depth_max, char out[STREAM_PATH_MAX + 1], struct cordon_error *err);

/* Of a path in a message: as much as leaves room for what is said about it. */
#define PATH_SHOWN 300

/* The directory that an entry is in, with those above it, made if they are missing. It belongs to the layer. *base points into path. */
int new_layer_parent(struct new_layer *l, const char *path, const char **base, struct cordon_error *err);
/* Makes a directory, or finds one: it is open and the caller's. made: whether there was none. */
int new_layer_make_dir(struct new_layer *l, const char *path, bool *made, struct cordon_error *err);
/* What is there of an earlier entry gives way, with everything in it. */
int new_layer_remove(int dir, const char *base, const char *path, struct cordon_error *err);
/* Counts one more, against the limit. */
int new_layer_count(struct new_layer *l, struct cordon_error *err);
/* Says that there is no room. */
int new_layer_full(const struct new_layer *l, struct cordon_error *err);
/* Remembers what a directory is to become. */
int new_layer_record_dir(struct new_layer *l, const char *path, const struct dir_record *r, struct cordon_error *err);
/* Gives all of them what they are to become. */
int new_layer_finish_dirs(struct new_layer *l, struct cordon_error *err);

#endif
