/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mount_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "base/util.h"

#define MAX_DEPTH 256

static int refuse(struct cordon_error *err, const char *name, const char *path, const char *why, const char *entry)
{
	if (strcmp(name, path) == 0)
		err_set(err, CORDON_ERR_DENIED, "cannot mount %s: it %s %s, which is forbidden", name, why, entry);
	else
		err_set(err, CORDON_ERR_DENIED, "cannot mount %s (really %s): it %s %s, which is forbidden", name, path, why, entry);
	return err_hint(err, "the forbidden list cannot be overridden; mount something narrower");
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is `entry` the object itself or one of its parents, under whatever name? Bind mounts and hard links have no path to compare. */
static int is_or_below_inode(int fd, const struct stat *self, const struct stat *entry)
{
	if (same_inode(self, entry))
		return 1;
	if (!S_ISDIR(self->st_mode))
		return 0;
	struct stat st = *self;
	_cleanup_fd_ int at = fs_open(fd, ".", O_PATH | O_DIRECTORY, 0, FS_ANYWHERE);
	for (int i = 0; at >= 0 && i < MAX_DEPTH; i++) {
		struct stat up;
		int next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -1;
		close(at);
		at = next;
		if (fstat(at, &up) < 0)
			return -1;
		if (same_inode(&up, entry))
			return 1;
		if (same_inode(&up, &st))
			return 0; /* the root is its own parent */
		st = up;
	}
	return -1;
}

/* One forbidden entry against the object, by name and by inode. */
static int check_forbidden(int fd, const char *name, const char *path, const struct stat *st, const char *entry, struct cordon_error *err)
{
	char real[PATH_MAX];
	struct stat est;
	if (fs_path_within(path, entry))
		return refuse(err, name, path, "is or lies below", entry);
	_cleanup_fd_ int efd = fs_open(AT_FDCWD, entry, O_PATH, 0, FS_ANYWHERE);
	if (efd < 0)
		return 0; /* does not exist: nothing to protect */
	if (fstat(efd, &est) < 0 || fs_fd_path(efd, real, sizeof(real)) < 0)
		return err_sys(err, "cannot check %s against %s", name, entry);
	if (fs_path_within(path, real))
		return refuse(err, name, path, "is or lies below", entry);
	if (fs_path_within(entry, path) || fs_path_within(real, path))
		return refuse(err, name, path, "contains", entry);
	switch (is_or_below_inode(fd, st, &est)) {
	case 0:
		return 0;
	case 1:
		return refuse(err, name, path, "is another name of, or lies below,", entry);
	default:
		return err_set(err, CORDON_ERR_DENIED, "cannot mount %s: its parents cannot be checked", name);
	}
}

static bool granted(const char *path, const struct string_list *list)
{
	char real[PATH_MAX];
	for (uint32_t i = 0; i < list->count; i++) {
		if (fs_path_within(path, list->items[i]))
			return true;
		_cleanup_fd_ int fd = fs_open(AT_FDCWD, list->items[i], O_PATH, 0, FS_ANYWHERE);
		if (fd >= 0 && fs_fd_path(fd, real, sizeof(real)) == 0 && fs_path_within(path, real))
			return true;
	}
	return false;
}

int mount_rules_check(int fd, const char *name, bool writable, const struct string_list *forbid, const struct string_list *read,
                      const struct string_list *write, struct cordon_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	if (fstat(fd, &st) < 0 || fs_fd_path(fd, path, sizeof(path)) < 0)
		return err_sys(err, "cannot check %s", name);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_DENIED, "cannot mount %s: only files and directories can be mounted, no sockets, pipes or devices", name);
	for (uint32_t i = 0; i < forbid->count; i++)
		if (check_forbidden(fd, name, path, &st, forbid->items[i], err) < 0)
			return -1;
	if (granted(path, write) || (!writable && granted(path, read)))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "cannot mount %s%s: not granted by %s", name, writable ? " writable" : "",
	        writable ? "mounts.write" : "mounts.read or mounts.write");
	return err_hint(err, "an empty list grants nothing; add %s to the policy", path);
}
