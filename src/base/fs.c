/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

int fs_open(int dirfd, const char *path, int flags, mode_t mode, enum fs_resolve how)
{
	static const uint64_t resolve[] = {
		[FS_BENEATH] = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
		[FS_IN_ROOT] = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
		[FS_ANYWHERE] = RESOLVE_NO_MAGICLINKS,
	};
	struct open_how oh = {.flags = (uint64_t)(unsigned)flags | O_CLOEXEC, .resolve = resolve[how]};
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
		oh.mode = mode;
	/* EAGAIN: a rename ran at the same time and the kernel could not prove the walk safe, see openat2(2) */
	for (int tries = 0;; tries++) {
		int fd = (int)syscall(SYS_openat2, dirfd, path, &oh, sizeof(oh));
		if (fd >= 0 || errno != EAGAIN || tries == 100)
			return fd;
	}
}

void fs_spread(int dirfd)
{
	int flags;
	if (ioctl(dirfd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
		flags |= FS_TOPDIR_FL;
		ioctl(dirfd, FS_IOC_SETFLAGS, &flags);
	}
}

int fs_mkdirs(int dirfd, const char *path, mode_t mode, struct cordon_error *err)
{
	if (mkdirat(dirfd, path, mode) == 0 || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return err_sys(err, "cannot create directory %s", path);
	char partial[4096];
	size_t len = strlen(path);
	if (len >= sizeof(partial))
		return err_set(err, CORDON_ERR_INPUT, "path too long: %.60s…", path);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(partial, path, i);
		partial[i] = '\0';
		if (mkdirat(dirfd, partial, mode) < 0 && errno != EEXIST)
			return err_sys(err, "cannot create directory %s", partial);
	}
	return 0;
}

int fs_write_full(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return -1;
		}
		done += (size_t)n;
	}
	return 0;
}

int fs_write_file(int dirfd, const char *path, const void *data, size_t len, mode_t mode, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(err, "cannot create %s", path);
	return fs_write_full(fd, data, len) < 0 ? err_sys(err, "cannot write %s", path) : 0;
}

ssize_t fs_read_full(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)buf + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t fs_pread_full(int fd, void *buf, size_t len, off_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, at + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t fs_read_small(int dirfd, const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size_t done = 0;
	while (done < size - 1) {
		ssize_t n = read(fd, buf + done, size - 1 - done);
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	buf[done] = '\0';
	return (ssize_t)done;
}

/*
 * Depth-first without recursion: descend into the first directory that is not empty, go back through "..". What the tree's owner moves
 * meanwhile must not lead the walk elsewhere: each directory on the way down is remembered, and ".." has to be the one before.
 */
struct level {
	dev_t dev;
	ino_t ino;
};

static bool same_level(int fd, const struct level *l)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

/* An unreadable directory is made readable through a descriptor: by name a link could be swapped in. */
static int open_dir_for_removal(int dirfd, const char *name)
{
	const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, name, O_RDONLY | flags);
	if (fd >= 0 || errno != EACCES)
		return fd;
	_cleanup_fd_ int path = openat(dirfd, name, O_PATH | flags);
	char link[40];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path);
	if (path < 0 || chmod(link, 0700) < 0)
		return -1;
	return openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Unlinks what can be unlinked; copies the name of the first sub-directory that cannot into `sub`. 1: there is one, 0: empty, -1: failed. */
static int empty_once(int fd, char *sub, size_t size)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a fresh offset each time */
	_cleanup_dir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		cleanup_fd(&copy);
		return -1;
	}
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(dir);
		if (!e)
			return errno ? -1 : 0;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		int flags = e->d_type == DT_DIR ? AT_REMOVEDIR : 0;
		if (unlinkat(fd, e->d_name, flags) == 0 || errno == ENOENT)
			continue;
		if (errno == EISDIR && unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno == EACCES && fchmod(fd, 0700) == 0 && unlinkat(fd, e->d_name, flags) == 0)
			continue;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -1;
		snprintf(sub, size, "%s", e->d_name);
		return 1;
	}
}

/* One step down into `sub`, or (sub NULL) back up. */
static int step(int *fd, const char *sub, struct level **levels, size_t *depth, size_t *room)
{
	struct stat st;
	int next = sub ? open_dir_for_removal(*fd, sub) : openat(*fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (next < 0)
		return sub && errno == ENOENT ? 0 : -1;
	bool fine = fstat(next, &st) == 0 && st.st_dev == (*levels)[0].dev;
	if (sub && *depth + 1 == *room) {
		struct level *more = realloc(*levels, *room * 2 * sizeof(*more));
		if (more) {
			*levels = more;
			*room *= 2;
		}
		fine = fine && more;
	}
	if (fine && sub)
		(*levels)[++*depth] = (struct level){st.st_dev, st.st_ino};
	else if (fine)
		fine = same_level(next, &(*levels)[--*depth]);
	if (!fine) {
		close(next);
		errno = EXDEV;
		return -1;
	}
	close(*fd);
	*fd = next;
	return 0;
}

static int empty_tree(int dirfd, const char *name)
{
	size_t depth = 0, room = 64;
	char sub[256];
	struct stat st;
	_cleanup_free_ struct level *levels = malloc(room * sizeof(*levels));
	_cleanup_fd_ int fd = open_dir_for_removal(dirfd, name);
	if (!levels || fd < 0 || fstat(fd, &st) < 0)
		return -1;
	levels[0] = (struct level){st.st_dev, st.st_ino};
	for (;;) {
		int r = empty_once(fd, sub, sizeof(sub));
		if (r < 0)
			return -1;
		if (r == 0 && depth == 0)
			return 0;
		if (step(&fd, r ? sub : NULL, &levels, &depth, &room) < 0)
			return -1;
	}
}

int fs_remove_tree(int dirfd, const char *name, struct cordon_error *err)
{
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR ? unlinkat(dirfd, name, 0) == 0 : empty_tree(dirfd, name) == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	return err_sys(err, "cannot remove %s", name);
}

int fs_fd_path(int fd, char *buf, size_t size)
{
	char link[40];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, buf, size - 1);
	if (n < 0 || (size_t)n >= size - 1)
		return -1;
	buf[n] = '\0';
	return 0;
}

int fs_path_within(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);
	if (n == 1 && prefix[0] == '/')
		return 1;
	return strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

int fs_read_names(int dir, struct buf *out)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = again < 0 ? NULL : fdopendir(again);
	if (!d) {
		cleanup_fd(&again);
		return -1;
	}
	out->cap = FS_NAMES_MAX;
	for (;;) {
		errno = 0;
		struct dirent *e = readdir(d);
		if (!e)
			break;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			buf_add(out, e->d_name, strlen(e->d_name) + 1);
	}
	if (out->failed)
		errno = ENOMEM;
	return errno ? -1 : 0;
}
