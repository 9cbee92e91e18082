/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions that mounts hold: what a policy denies is covered, and where nothing may be run, nothing can be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/expand.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/mounts_parts.h"

static int search(struct builder *b, const struct setup_op *op, int (*found)(void *, const struct expand_entry *, struct cordon_error *),
                  bool hiding, struct cordon_error *err)
{
	const struct expand x = {
		.root = b->root,
		.start = op->target,
		.name = op->source,
		.patterns = op->find.patterns,
		.keep = op->find.keep,
		.skip = op->find.skip,
		.dots = op->flags & OP_DOTS,
		.hiding = hiding,
		.found = found,
		.arg = b,
	};
	return expand(&x, err);
}

/* The place is opened once, without following anything, and mounted on by its descriptor. */
static int open_place(const struct expand_entry *e)
{
	if (!*e->name)
		return fcntl(e->dir, F_DUPFD_CLOEXEC, 0);
	return fs_open(e->dir, e->name, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
}

static int hide_one(void *arg, const struct expand_entry *e, struct cordon_error *err)
{
	struct builder *b = arg;
	struct stat st, mask;
	_cleanup_fd_ int place = open_place(e);
	if (place < 0 || fstat(place, &st) < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : err_sys(err, "cannot hide %s", e->path);
	if (S_ISLNK(st.st_mode))
		return 0;
	const bool is_dir = S_ISDIR(st.st_mode);
	if (mounts_next_mask(b, is_dir, err) < 0)
		return -1;
	if (fstat(b->masks[is_dir].fd, &mask) == 0 && (mask.st_dev == st.st_dev && mask.st_ino == st.st_ino))
		return 0; /* it is one already, by another path */
	if (sys_move_mount(b->masks[is_dir].fd, place, "") < 0) {
		const bool full = errno == ENOSPC;
		err_sys(err, "cannot hide %s", e->path);
		return full ? err_hint(err, "the policy hides more than there can be mounts (sysctl fs.mount-max)") : -1;
	}
	b->masks[is_dir].mounted = true;
	return 0;
}

int mounts_hide(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	return b->spec->weaken & WEAKEN_MASKS ? 0 : search(b, op, hide_one, true, err);
}

/* The same place once more, as a mount of its own, since that is what can be told apart. */
static int allow_one(void *arg, const struct expand_entry *e, struct cordon_error *err)
{
	struct statvfs fs;
	_cleanup_fd_ int place = open_place(e);
	_cleanup_fd_ int tree = place < 0 ? -1 : sys_open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE);
	if (place < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : err_sys(err, "cannot open %s", e->path);
	if (fstatvfs(place, &fs) == 0 && !(fs.f_flag & ST_NOEXEC))
		return 0; /* it has been, before */
	if (tree >= 0 && sys_mount_clear_attr(tree, AT_RECURSIVE, MOUNT_ATTR_NOEXEC) < 0 && errno == EPERM)
		return 0; /* the host mounts it like that, and what the host forbids stays forbidden */
	if (tree < 0 || sys_move_mount(tree, place, "") < 0)
		return err_sys(err, "cannot let programs in %s run", e->path);
	return 0;
}

int mounts_allow_exec(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	return search(b, op, allow_one, false, err);
}

/* Those that make mounts of their own have seen to it already, or have none that could be told to. */
int mounts_forbid_exec(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (op->kind != OP_LAYERED && op->kind != OP_SCRATCH && op->kind != OP_BIND)
		return 0;
	_cleanup_fd_ int place = fs_open(b->root, op->target, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
	if (place < 0 && errno == ENOENT && (op->flags & OP_OPTIONAL))
		return 0;
	if (place < 0 || sys_mount_setattr(place, AT_RECURSIVE, MOUNT_ATTR_NOEXEC, 0, -1) < 0)
		return err_sys(err, "cannot keep programs in /%s from running", op->target);
	return 0;
}
