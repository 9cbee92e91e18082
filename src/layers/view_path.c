/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of any length below a directory, opened in pieces that the kernel takes; no link is followed and nothing leaves the directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/view_parts.h"

bool path_is_clean(const char *path)
{
	size_t len;

	for (const char *p = path;; p += len + 1) {
		len = strcspn(p, "/");
		if (len == 0 || len > NAME_MAX || (p[0] == '.' && (len == 1 || (len == 2 && p[1] == '.'))))
			return false;
		if (!p[len])
			return true;
	}
}

/* The longest beginning of path[0..len) that openat2() takes at once and that ends where a component ends. */
static size_t piece_of(const char *path, size_t len)
{
	size_t n = MIN(len, (size_t)PATH_MAX - 1);

	if (n < len)
		while (path[n] != '/')
			n--;
	return n;
}

/* As path_open_dir(), for the first len bytes, which hold no component longer than NAME_MAX. */
static int open_pieces(int dirfd, const char *path, size_t len, int flags)
{
	char piece[PATH_MAX];
	_cleanup_fd_ int at = -1;

	if (len == 0)
		return fs_open(dirfd, ".", flags | O_DIRECTORY, 0, FS_BENEATH);
	while (len > 0) {
		size_t n = piece_of(path, len);
		bool last = n == len;

		memcpy(piece, path, n);
		piece[n] = '\0';
		int next = fs_open(at < 0 ? dirfd : at, piece, (last ? flags : O_PATH) | O_DIRECTORY, 0, FS_BENEATH);
		if (next < 0)
			return -1;
		cleanup_fd(&at);
		at = next;
		path += n + !last;
		len -= n + !last;
	}
	return steal_fd(&at);
}

int path_open_dir(int dirfd, const char *path, int flags)
{
	if (*path && !path_is_clean(path)) {
		errno = EINVAL;
		return -1;
	}
	return open_pieces(dirfd, path, strlen(path), flags);
}

int path_open_parent(int dirfd, const char *path, const char **base)
{
	if (!path_is_clean(path)) {
		errno = EINVAL;
		return -1;
	}
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	*base = slash ? slash + 1 : path;
	int fd = open_pieces(dirfd, path, len, O_RDONLY);
	return fd < 0 && errno == EACCES ? open_pieces(dirfd, path, len, O_PATH) : fd;
}
