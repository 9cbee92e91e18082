/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that build a sandbox's tree share: mounts.c the plain operations, mounts_layers.c overlays and what is prepared for them. */
#ifndef CORDON_SANDBOX_MOUNTS_PARTS_H
#define CORDON_SANDBOX_MOUNTS_PARTS_H

#include <string.h>

#include "sandbox/mounts.h"

/*
 * Where the pieces stand while the tree is built; nothing is mounted there when something of the sandbox runs. The empty directories stay in
 * a sandbox whose layers can be exchanged later, since its root is read-only then.
 */
#define STAGE_LAYERS ".layers"
#define STAGE_LOWER ".lower"
#define STAGE_MERGED ".merged"
#define STAGE_EMPTY ".empty"
#define STAGE_MASK_FILE ".masked"
#define STAGE_MASK_DIR ".masked-dir"

struct builder {
	const struct sandbox_spec *spec;
	const struct idmap *ids;
	struct mount_sources sources;
	size_t next_source;
	int root; /* the new root */
	int top;  /* with OP_ROOT: the tmpfs that the root's skeleton is on; -1: the root is that tmpfs itself */
	int dev;  /* the host's /dev, -1: not opened yet */
	struct mask {
		int fd; /* -1: none yet */
		bool mounted;
	} masks[2];        /* the last one of a file, of a directory */
	bool empty_staged; /* there is an empty file system at STAGE_EMPTY */
	bool careful;      /* the operation's target was named by a user */
	bool keep_stages;  /* see above */
	bool layered_root; /* what is made in the root now would be the sandbox's own */
	unsigned volatiles;
	struct mounts_view *view;
};

/* A full copy instead of layers, see enum layered_item. */
static inline bool mounts_is_plain(const struct setup_op *op)
{
	return op->kind == OP_LAYERED && strcmp(op->layers.items[LAYERED_UPPER], op->layers.items[LAYERED_WORK]) == 0;
}

/* True if something has to be opened before the operation can be executed. */
bool mounts_needs_source(const struct setup_op *op);
/* The next of the prepared sources. */
int mounts_take_source(struct builder *b, struct cordon_error *err);

/* How many of them it takes. */
size_t mounts_sources_of(const struct setup_op *op);

/* Opens the place to mount on, which is made if it is missing: a directory, or an empty file. */
int mounts_place(struct builder *b, const char *target, bool is_dir, struct cordon_error *err);
/* Makes a file; in an image, in the place of what is there. */
int mounts_write(struct builder *b, const char *target, const void *data, size_t len, mode_t mode, struct cordon_error *err);
/* Mounts a detached tree on its place in the new root, which is made if it is missing. */
int mounts_attach(struct builder *b, int tree, const char *target, bool is_dir, struct cordon_error *err);
/* A new file system of its own: type and options. */
int mounts_new_filesystem(const char *type, const char *const options[][2], size_t count, unsigned attr, struct cordon_error *err);

/* Any of the operations. */
int mounts_execute(struct builder *b, const struct setup_op *op, struct cordon_error *err);
int mounts_alias(struct builder *b, const struct setup_op *op, struct cordon_error *err);

/* A mask that is not mounted yet, of a file or of a directory, as a detached mount; it stays the builder's. */
int mounts_next_mask(struct builder *b, bool is_dir, struct cordon_error *err);

/* The operations of mounts_permit.c, and what it does after others. */
int mounts_hide(struct builder *b, const struct setup_op *op, struct cordon_error *err);
int mounts_allow_exec(struct builder *b, const struct setup_op *op, struct cordon_error *err);
int mounts_forbid_exec(struct builder *b, const struct setup_op *op, struct cordon_error *err);

/* The operations of mounts_root.c. */
int mounts_root(struct builder *b, const struct setup_op *op, struct cordon_error *err);
int mounts_lines(struct builder *b, const struct setup_op *op, struct cordon_error *err);
/* OP_VOLATILE where the root is an image. */
int mounts_volatile(struct builder *b, const struct setup_op *op, struct cordon_error *err);
/* It was executed with OP_ROOT. */
bool mounts_in_skeleton(const struct builder *b, uint32_t index);

/* The operations of mounts_layers.c. */
int mounts_read_only(struct builder *b, int tree, const struct setup_op *op, struct cordon_error *err);
int mounts_layered(struct builder *b, const struct setup_op *op, struct cordon_error *err);
int mounts_stage(struct builder *b, int tree, const char *stage, struct cordon_error *err);
int mounts_unstage(struct builder *b, const char *stage, struct cordon_error *err);

#endif
