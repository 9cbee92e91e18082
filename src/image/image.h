/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images on disk: read-only root file systems, as stacks of layers.
 *
 *   $CORDON_HOME/images/names/NAME          one image: text, one "key value" per line (layers/record.h), written by rename
 *   $CORDON_HOME/images/layers/SHA256/      one layer, named by what it holds: the digest of its uncompressed tar. Several images share it
 *           tree/                           in overlayfs' upper format (whiteouts, user.overlay.opaque)
 *           layer                           its metadata; written last: a layer without it is not there
 *   $CORDON_HOME/images/ids/ID              the same record once more, by what the image is: whoever uses it holds a shared flock on this file
 *   $CORDON_HOME/images/tmp/STAMP.ID/       what is being imported, by whom (sandbox/owner.h); of a dead owner: garbage
 *   $CORDON_HOME/images/quota               how much all layers may take: "20G"; optional
 *   $CORDON_HOME/images/lock                held exclusively by whoever adds or removes, for moments
 *
 * Theory of operation. An import is written to tmp/STAMP.ID/N/tree, synced, and then, under the lock, its layers are renamed to their digests (those that are there
 * already stay, and the new ones are dropped), ids/ID is written, and names/NAME last, each by rename: until then nothing of it counts. What no record in ids/ needs,
 * and records in ids/ that have no name and that nobody holds, are garbage; every command that adds or removes collects it. A record that cannot be read puts all in
 * doubt: then only tmp/ is swept. Holding needs no lock but the one on ids/ID: the collector takes that exclusively before it unlinks the file, and a holder that comes
 * too late sees that the file it has locked has no name any more.
 *
 * As root the files of a layer have the ids of the archive (0 to 65534) on disk, which idmapped mounts shift into the range of each sandbox; as a user all belong
 * to the user. Setuid and setgid bits, devices, sockets and security attributes never reach the disk.
 */
#ifndef CORDON_IMAGE_IMAGE_H
#define CORDON_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "image/stream.h"
#include "policy/policy.h"

#define IMAGE_NAME_MAX 127

struct image {
	char name[IMAGE_NAME_MAX + 1];
	char id[DIGEST_LEN + 1]; /* of the layers' digests and the configuration: what it is, whatever its name */
	struct strlist layers;   /* digests, topmost first */
	struct strlist env;      /* "K=V": what the image wants to be set */
	char *cwd;               /* NULL: none */
	char *user;              /* as the image says it; for information: cordon's user is its own */
	char *arch;              /* "amd64", "arm64" */
	char *source;            /* what it was made from, for people */
	struct strlist preload;  /* modules that a parked interpreter has loaded */
	int64_t created_ms;
	uint64_t bytes; /* of files in all its layers */
};
void image_free(struct image *i);
#define _cleanup_image_ __attribute__((cleanup(image_free)))

/* By name. CORDON_ERR_NOT_FOUND with a hint that names the nearest ones. `host` is not one of them. */
int image_find(const char *home, const char *name, struct image *out, struct cordon_error *err);

/* The directory that holds the layers, for a mount: layer i is at "DIGEST/tree" below it. */
int image_layers_dir(const char *home, char *path, size_t size);

/* The file that says what a name stands for now: it is another one after each change. */
int image_name_file(const char *home, const char *name, char *path, size_t size);

/* Those who use an image hold it, so that `image rm` cannot take its layers away: a shared lock on a file of each; the descriptor lets go when it is closed. */
int image_hold(const char *home, const struct image *i, struct cordon_error *err);

/* ---- names and lists ----------------------------------------------------------------------------------------------------------- */

#define IMAGE_HOST "host" /* the machine's own root: never the name of an image on disk */

/* [a-z0-9][a-z0-9._-]*, optionally with ":tag" of the same letters (and capitals). CORDON_ERR_INPUT says what may be one. */
int image_check_name(const char *name, struct cordon_error *err);

/* All of them, by name; one that cannot be read is listed with `damaged`. No store: none. */
struct image_list {
	struct image_item {
		struct image image;
		bool damaged;
	} * items;
	size_t count;
};
int image_list(const char *home, struct image_list *out, struct cordon_error *err);
void image_list_free(struct image_list *l);

/* What a layer's own record says. */
struct image_layer {
	char digest[DIGEST_LEN + 1];
	uint64_t bytes; /* of its files */
	uint64_t disk;  /* what it takes there */
	uint64_t files; /* entries of any type */
	int64_t created_ms;
	int staged; /* for image_add(): its tree is at "STAGED/tree" in the staging directory; -1: it is in the store already */
};
int image_layer_read(const char *home, const char *digest, struct image_layer *out, struct cordon_error *err);

/* ---- room ---------------------------------------------------------------------------------------------------------------------- */

#define IMAGE_QUOTA_DEFAULT ((uint64_t)20 << 30)

struct image_room {
	uint64_t quota; /* for all images together */
	uint64_t used;  /* by all layers, shared ones once */
};
/*
 * given: "20G", from an option; NULL: $CORDON_IMAGES_QUOTA, else the file images/quota, else the default: 20G or half of what the disk could give to images,
 * whichever is less.
 */
int image_room(const char *home, const char *given, struct image_room *out, struct cordon_error *err);

/* ---- adding and removing --------------------------------------------------------------------------------------------------------- */

/* A place to write an image to, of this process, which must live until it is added or dropped. Sweeps what dead processes left. */
struct image_staging {
	char *home;
	char *name; /* below images/tmp */
	int dir;    /* images/tmp/STAMP.ID: layer number N, from 0, is written to "N/tree" */
	struct image_room room;
};
int image_stage(const char *home, const char *quota, struct image_staging *out, struct cordon_error *err);
/* Removes what is left of it. Must be called after image_add(), too. */
void image_unstage(struct image_staging *s);
#define _cleanup_staging_ __attribute__((cleanup(image_unstage)))

struct image_added {
	size_t shared;      /* layers that were there already */
	uint64_t new_bytes; /* of those that were not */
	bool replaced;      /* an image of that name */
};
/*
 * Makes an image of staged layers (and of some that are in the store: image commit), topmost first: syncs them, moves them to their digests, gives it its name.
 * Of *i, name, env, cwd, user, arch, source and preload are the caller's; id, layers, bytes and created_ms are filled in. CORDON_ERR_INPUT if the name is
 * taken and `replace` is not set, or if the quota is exceeded. After a failure nothing of it is left but the staging directory.
 */
int image_add(struct image_staging *s, struct image *i, const struct image_layer *layers, size_t count, bool replace,
              struct image_added *out, struct cordon_error *err);

/*
 * CORDON_ERR_BUSY while it is held under no other name, or a sandbox that stays is on it, unless `force`: then its name goes now, and its layers go with the last holder. freed (may be NULL): bytes of the
 * layers that went with it.
 */
int image_remove(const char *home, const char *name, bool force, uint64_t *freed, struct cordon_error *err);

/* Removes what is garbage now. Quiet: what cannot be removed now is removed the next time. */
void image_sweep(const char *home);

/* Who holds an image now, as far as the kernel tells: process ids. */
int image_holders(const char *home, const struct image *i, pid_t *out, size_t most, size_t *count, struct cordon_error *err);

/* The machine's own, in the words of images: "amd64", "arm64"; "unknown" on others. */
const char *image_host_arch(void);

#endif
