/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is apart from its contents: mode, owner, times, extended attributes and ACLs. Read from one file, written to another or
 * into a text.
 *
 * Descriptors may be O_PATH ones, of files of any kind (of a symbolic link, too): everything goes through /proc/self/fd, which leads to
 * just that file.
 */
#ifndef CORDON_LAYERS_FILEMETA_H
#define CORDON_LAYERS_FILEMETA_H

#include <sys/stat.h>

#include "base/buf.h"
#include "layers/copy.h"

struct file_attr {
	char *name;
	char *value;
	size_t len;
};

struct file_meta {
	mode_t mode; /* st_mode, with the type */
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime;
	struct file_attr *attrs;
	size_t attr_count;
};
void file_meta_free(struct file_meta *m);
#define _cleanup_file_meta_ __attribute__((cleanup(file_meta_free)))

/* flags: COPY_OVERLAY counts overlayfs' own attributes in. *out need not be initialised. `name` is for messages. */
int file_meta_read(int fd, const char *name, unsigned flags, struct file_meta *out, struct cordon_error *err);

/*
 * Gives an existing file of the same type all of it; attributes that m does not have are removed (not overlayfs' own unless flags say
 * so). With COPY_OWNER_MAY_FAIL and an owner that cannot be given, set-user-id and set-group-id bits are not given either.
 */
int file_meta_apply(int fd, const char *name, const struct file_meta *m, unsigned flags, struct cordon_error *err);

/* chmod(2) for any descriptor, O_PATH ones included. */
int file_chmod(int fd, mode_t mode);
/* The modification time alone, in nanoseconds since the epoch. */
int file_set_mtime(int fd, int64_t mtime_ns);

/*
 * "MODE UID GID MTIME ATTRS", numbers (the mode in octal, the time in nanoseconds), and "-" or "name=hex,…" with the names encoded; the
 * access time is not in it.
 */
void file_meta_format(struct buf *out, const struct file_meta *m);
int file_meta_parse(const char *text, struct file_meta *out, struct cordon_error *err);

/*
 * Paths in text: %XX for everything that is not printable ASCII, and for blanks, "%", "=" and ","; and back. path_decode gives NULL for
 * what path_encode never writes (or without memory).
 */
void path_encode(struct buf *out, const char *s);
char *path_decode(const char *s, size_t len);

static inline int64_t timespec_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline struct timespec ns_timespec(int64_t ns)
{
	int64_t sec = ns / 1000000000 - (ns % 1000000000 < 0);
	return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = (long)(ns - sec * 1000000000)};
}

#endif
