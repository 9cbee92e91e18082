/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths below directories that others may write: everything goes through a directory descriptor, nothing follows a link out of it.
 */
#ifndef CORDON_BASE_FS_H
#define CORDON_BASE_FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum fs_resolve {
	FS_BENEATH,  /* never leave dirfd; any symbolic link is an error */
	FS_IN_ROOT,  /* dirfd is the root: absolute links and ".." stay below it */
	FS_ANYWHERE, /* follow links, but no /proc magic links */
};

/* openat2(2) with O_CLOEXEC. There is no fallback for kernels without it (before 5.6): the race-free walk is the point. */
int fs_open(int dirfd, const char *path, int flags, mode_t mode, enum fs_resolve how);

/*
 * Asks for directories that will be made in this one to be placed apart from each other on disk, and from what was deleted there lately: ext4 does not
 * reuse an inode for minutes, and looks at each one again for every file that is made beside it. File systems that know no such wish go without.
 */
void fs_spread(int dirfd);

/* mkdir -p below dirfd; existing directories are fine. */
int fs_mkdirs(int dirfd, const char *path, mode_t mode, struct cordon_error *err);

int fs_write_file(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct cordon_error *err);

/* All of it; -1 with errno set. */
int fs_write_full(int fd, const void *data, size_t len);

/* As read(2) and pread(2), but less than len only at the end of the file. */
ssize_t fs_read_full(int fd, void *buf, size_t len);
ssize_t fs_pread_full(int fd, void *buf, size_t len, off_t at);

/* Reads at most size-1 bytes and terminates them; the length, or -1 with errno set. */
ssize_t fs_read_small(int dirfd, const char *path, char *buf, size_t size);

/* Removes name below dirfd with everything in it: no links followed, no other file system entered, unreadable directories opened up. */
int fs_remove_tree(int dirfd, const char *name, struct cordon_error *err);

/* The names in a directory, each with its NUL, one after the other. The descriptor stays where it is; errno is set on failure. */
#define FS_NAMES_MAX ((size_t)1 << 30)
int fs_read_names(int dir, struct buf *out);

/* The path a descriptor refers to now, from /proc/self/fd. */
int fs_fd_path(int fd, char *buf, size_t size);

/* True if path is prefix or lies below it; both absolute and normalised. */
int fs_path_within(const char *path, const char *prefix);

#endif
