/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/owners.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#define DEPTH_MAX 512 /* each level has a descriptor */

struct owners {
	uid_t uid;
	gid_t gid;
	dev_t dev;
};

static int give_all(const struct owners *o, int dir, int depth, struct cordon_error *err);

static int give_one(const struct owners *o, int dir, const char *name, int depth, struct cordon_error *err)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot look at %s", name);
	if ((st.st_uid != o->uid || st.st_gid != o->gid) && fchownat(dir, name, o->uid, o->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot give %s back", name);
	if (!S_ISDIR(st.st_mode) || st.st_dev != o->dev)
		return 0;
	if (depth == DEPTH_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%s: more than %d directories inside one another", name, DEPTH_MAX);
	_cleanup_fd_ int sub = fs_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, FS_BENEATH);
	return sub < 0 ? err_sys(err, "cannot open %s", name) : give_all(o, sub, depth + 1, err);
}

static int give_all(const struct owners *o, int dir, int depth, struct cordon_error *err)
{
	_cleanup_buf_ struct buf names = {0};
	if (fs_read_names(dir, &names) < 0)
		return err_sys(err, "cannot read a directory");
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		if (give_one(o, dir, names.data + at, depth, err) < 0)
			return -1;
	return 0;
}

int tree_give_back(int dirfd, const char *name, uid_t uid, gid_t gid, struct cordon_error *err)
{
	struct owners o = {.uid = uid, .gid = gid};
	struct stat st;
	_cleanup_fd_ int dir = fs_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, FS_BENEATH);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_sys(err, "cannot open %s", name);
	o.dev = st.st_dev;
	return give_all(&o, dir, 0, err) < 0 ? err_wrap(err, "%s", name) : 0;
}
