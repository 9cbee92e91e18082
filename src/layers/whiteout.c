/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/whiteout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#define OPAQUE "user.overlay.opaque"
#define XWHITEOUT "user.overlay.whiteout"

int whiteout_make(int dir, const char *name)
{
	if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && fsetxattr(fd, XWHITEOUT, "", 0, 0) == 0 && fsetxattr(dir, OPAQUE, "x", 1, 0) == 0 ? 0 : -1;
}

static bool stands_for_whiteout(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 && fgetxattr(fd, XWHITEOUT, NULL, 0) >= 0;
}

int whiteout_make_opaque(int dir)
{
	char mark;
	if (fgetxattr(dir, OPAQUE, &mark, 1) == 1 && mark == 'x') {
		_cleanup_buf_ struct buf names = {.cap = FS_NAMES_MAX};
		if (fs_read_names(dir, &names) < 0)
			return -1;
		for (const char *name = names.data; name && name < names.data + names.len; name += strlen(name) + 1)
			if (stands_for_whiteout(dir, name) && unlinkat(dir, name, 0) < 0)
				return -1;
	}
	return fsetxattr(dir, OPAQUE, "y", 1, 0);
}
