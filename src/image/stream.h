/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image is made of, on its way from whoever reads it (cordon-unpack, which trusts nothing and can do nothing) to whoever writes it
 * (image/write.h, which parses nothing but this).
 *
 *   BEGIN              the kind of archive, the image's configuration as far as cordon knows it
 *     LAYER            the digest that it claims; then its entries, in the archive's order
 *       ENTRY          path, type, mode, ids, time, size, link; then, of a file, DATA and HOLE until the size is reached
 *     LAYER_END        the digest that was seen
 *   END
 *   PROGRESS           anywhere after BEGIN: how much of the archive has been read
 *   ERROR              instead of any of them: why it cannot be read; nothing follows
 *
 * Each is a header of fixed size and a body of at most STREAM_BODY_MAX bytes, over a pipe. The reader's side is held to be hostile: the writer checks every
 * length, every order and every path again, and what a layer is called in the store comes from a digest that the writer computes, never from the stream.
 */
#ifndef CORDON_IMAGE_STREAM_H
#define CORDON_IMAGE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define STREAM_BODY_MAX ((uint32_t)256 << 10)
#define STREAM_PATH_MAX 4095
#define STREAM_ENV_MAX 1000   /* variables */
#define STREAM_LAYERS_MAX 128 /* overlayfs takes 500, and Docker makes 127 at most */
#define DIGEST_LEN 64         /* SHA-256, in hexadecimal */

enum stream_kind {
	STREAM_BEGIN = 1,
	STREAM_LAYER,
	STREAM_ENTRY,
	STREAM_DATA,
	STREAM_HOLE,
	STREAM_LAYER_END,
	STREAM_END,
	STREAM_ERROR,
	STREAM_PROGRESS,
	STREAM_KIND_COUNT
};

struct stream_header {
	uint32_t kind;
	uint32_t len; /* of the body */
};

enum image_kind { IMAGE_PLAIN = 1, IMAGE_DOCKER, IMAGE_OCI, IMAGE_DIRECTORY, IMAGE_KIND_COUNT };
/* For people: "a tar archive". */
const char *image_kind_name(enum image_kind kind);

enum entry_type {
	ENTRY_FILE = 1,
	ENTRY_DIR,
	ENTRY_SYMLINK,
	ENTRY_HARDLINK,
	ENTRY_WHITEOUT, /* the path is gone, whatever the layers below have there */
	ENTRY_OPAQUE,   /* nothing of the layers below shows in this directory */
	ENTRY_LEFT_OUT, /* a device, FIFO or socket: it is counted */
	ENTRY_TYPE_COUNT
};

/* What an archive says of a file; strings point into the message. */
struct stream_entry {
	enum entry_type type;
	const char *path; /* as the archive has it */
	const char *link; /* of links; else NULL */
	uint32_t mode;    /* of permissions, with the bits that will not be given */
	uint64_t uid, gid;
	int64_t mtime; /* seconds */
	uint32_t mtime_ns;
	uint64_t size; /* of files */
};

/* What the image says of itself. Strings point into the message; NULL: it says nothing. */
struct stream_begin {
	enum image_kind kind;
	const char *arch, *os, *user, *cwd;
	const char *tag;  /* what it was called where it comes from: "registry.example/app:1.0" */
	const char **env; /* the array is the caller's to free */
	uint32_t env_count;
	uint32_t layers;
};

/* A digest may be "": none is known. */
struct stream_layer {
	const char *digest;
};

struct stream_progress {
	uint64_t done, total; /* bytes as they lie in the archive */
};

/* Bodies. A body that does not fit marks the buffer as failed. */
void stream_put_begin(struct buf *out, const struct stream_begin *b);
void stream_put_layer(struct buf *out, const char *digest);
void stream_put_entry(struct buf *out, const struct stream_entry *e);
void stream_put_u64(struct buf *out, uint64_t v); /* of a HOLE: its length */
void stream_put_progress(struct buf *out, const struct stream_progress *p);
void stream_put_error(struct buf *out, const struct cordon_error *err);

/* Back; -1: it is none. What an entry's fields say has not been looked at, but that the type is one and strings end. */
int stream_get_begin(const char *body, size_t len, struct stream_begin *b);
int stream_get_layer(const char *body, size_t len, struct stream_layer *l);
int stream_get_entry(const char *body, size_t len, struct stream_entry *e);
int stream_get_u64(const char *body, size_t len, uint64_t *v);
int stream_get_progress(const char *body, size_t len, struct stream_progress *p);
/* Always gives an error, if need be that there is none in it. */
void stream_get_error(const char *body, size_t len, struct cordon_error *err);

/* One message; -1 with errno. */
int stream_send(int fd, enum stream_kind kind, const void *body, size_t len);
/* One message into a buffer of STREAM_BODY_MAX bytes. 1: it came, 0: the other side ended, -1: it is none, or cannot be read. */
int stream_receive(int fd, struct stream_header *header, char *body, struct cordon_error *err);

#endif
