/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what an image is made of to disk: one tree per layer, in overlayfs' upper format.
 *
 * What comes is held to be hostile, whether it comes out of cordon-unpack (stream.h) or out of a directory:
 *   - no path leads out of its layer: none is absolute, none has "..", and no link is ever followed, not even one of the same layer (openat2, RESOLVE_BENEATH,
 *     RESOLVE_NO_SYMLINKS); hard links are to files of the same layer only;
 *   - devices, FIFOs, sockets, setuid and setgid bits, extended attributes and owners over 65534 do not reach the disk; they are counted;
 *   - bytes, entries, depth and names have limits, which hold while writing, not afterwards.
 * Of an entry that comes twice the later one counts, as in tar; of a directory that comes twice, what it holds stays.
 *
 * A layer's digest is computed here, over what was written: it names the layer in the store, and a reader that has been taken over could otherwise put its own files
 * in the place of a layer that others share.
 */
#ifndef CORDON_IMAGE_WRITE_H
#define CORDON_IMAGE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "image/stream.h"
#include "policy/policy.h"

struct image_write_limits {
	uint64_t bytes;      /* of all files of all layers */
	uint64_t entries;    /* of all layers, with directories that are only part of a path */
	uint64_t file_bytes; /* of one file, with its holes */
	uint32_t depth;      /* directories inside one another */
};
#define IMAGE_ENTRIES_MAX ((uint64_t)4 << 20)
#define IMAGE_FILE_MAX ((uint64_t)64 << 30)
#define IMAGE_DEPTH_MAX 1024

/* What was changed or left out, so that it can be said. */
struct image_neutralised {
	uint64_t devices; /* and FIFOs and sockets */
	uint64_t set_ids; /* setuid and setgid bits: files and directories that had one */
	uint64_t owners;  /* beyond 65534: given to 65534 */
	uint64_t mounts;  /* of a directory: other file systems in it, whose place is empty */
};

struct written_layer {
	char digest[DIGEST_LEN + 1];  /* of what was written; the name of the layer in the store. The same may come twice in one image */
	char diff_id[DIGEST_LEN + 1]; /* what the reader says: of the uncompressed tar; "" of directories. For people only */
	uint64_t bytes;               /* of its files */
	uint64_t entries;
	bool hides_lower; /* its top is opaque, which overlayfs does not heed there: leave the layers below it out of the image */
};

struct image_write_result {
	enum image_kind kind;
	struct written_layer *layers; /* lowest first: number i is at "i/tree" below the staging directory */
	size_t layer_count;
	struct image_neutralised neutralised;
	char *arch, *os, *user, *cwd, *tag; /* NULL: not said */
	struct strlist env;                 /* "K=V" */
};
void image_write_result_free(struct image_write_result *r);
#define _cleanup_write_result_ __attribute__((cleanup(image_write_result_free)))

/* Called every megabyte or so. total may be 0: not known. False: stop. */
typedef bool image_progress(void *arg, uint64_t done, uint64_t total);

/*
 * Reads the stream to its end and makes "N/tree" for each layer below staging (a directory that nobody else writes to). On errors what has been written stays: the
 * staging directory is the caller's to remove. progress may be NULL. CORDON_ERR_INPUT: the archive is at fault; CORDON_ERR_SYSTEM: the machine is.
 */
int image_write(int stream, int staging, const struct image_write_limits *limits, struct image_write_result *out, image_progress *progress,
                void *arg, struct cordon_error *err);

/* A directory as one layer: no links followed, no other file system entered, hard links inside kept. The same tree gives the same digest. */
int image_write_directory(int dir, int staging, const struct image_write_limits *limits, struct image_write_result *out,
                          image_progress *progress, void *arg, struct cordon_error *err);

/*
 * One more layer, from a directory in overlayfs' upper format (a layer of a sandbox): its whiteouts and opaque directories are kept. Adds to *out, which begins zeroed and is
 * the caller's to free, also after a failure.
 */
int image_write_upper(int dir, int staging, const struct image_write_limits *limits, struct image_write_result *out,
                      image_progress *progress, void *arg, struct cordon_error *err);

/* An OCI layout ("oci-layout" and "index.json" are in it): a matter for cordon-unpack. Other directories are what they hold. */
bool image_is_layout(int dir);

#endif
