/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays: stacks of layers, and directories of the host that may only be read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/mounts_parts.h"

/* A stage lies at the top of the new root, whatever the operation's own target is like. */
int mounts_stage(struct builder *b, int tree, const char *stage, struct cordon_error *err)
{
	if (mkdirat(b->root, stage, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "cannot make a directory");
	if (sys_move_mount(tree, b->root, stage) < 0)
		return err_sys(err, "cannot mount %s", stage);
	return 0;
}

/* Takes it away again; what was mounted from it stays. */
int mounts_unstage(struct builder *b, const char *stage, struct cordon_error *err)
{
	if (umount2(stage, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 || (!b->keep_stages && unlinkat(b->root, stage, AT_REMOVEDIR) < 0))
		return err_sys(err, "cannot detach %s", stage);
	return 0;
}

/*
 * A directory of the host that may only be read is shown through an overlay: a read-only bind would still let everything inside connect to
 * the sockets of the host's servers in it, since connect(2) needs no write access to the mount. Through the overlay they are other sockets.
 */
int mounts_read_only(struct builder *b, int tree, const struct setup_op *op, struct cordon_error *err)
{
	static const char *const options[][2] = {{"lowerdir", STAGE_LOWER ":" STAGE_EMPTY}, {"userxattr", NULL}};
	static const char *const empty_options[][2] = {{"size", "4096"}, {"nr_inodes", "2"}, {"mode", "0755"}};
	if (!b->empty_staged) { /* an overlay has two layers at least; this one must outlive its place, so it is a file system of its own */
		_cleanup_fd_ int empty = mounts_new_filesystem("tmpfs", empty_options, ARRAY_SIZE(empty_options), MOUNT_ATTR_RDONLY, err);
		if (empty < 0 || mounts_stage(b, empty, STAGE_EMPTY, err) < 0)
			return -1;
		b->empty_staged = true;
	}
	if (mounts_stage(b, tree, STAGE_LOWER, err) < 0)
		return -1;
	_cleanup_fd_ int overlay = mounts_new_filesystem("overlay", options, ARRAY_SIZE(options),
	                                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
	if (overlay < 0) {
		err_wrap(err, "cannot show %s", op->source);
		return err_hint(err, "if other file systems are mounted below it, mount its parts one by one");
	}
	if (mounts_unstage(b, STAGE_LOWER, err) < 0)
		return -1;
	return mounts_attach(b, overlay, op->target, true, err);
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

static void add_layer(struct buf *options, const char *key, const char *name)
{
	buf_addf(options, "%s%s/%s", key, STAGE_LAYERS, name);
}

/* The working directory is the new root, so the layers are named relative to it and the host's paths never matter. */
static int layer_options(const struct setup_op *op, struct buf *options, struct cordon_error *err)
{
	const char **items = op->layers.items;
	add_layer(options, "userxattr,upperdir=", items[LAYERED_UPPER]);
	add_layer(options, ",workdir=", items[LAYERED_WORK]);
	buf_add_str(options, ",lowerdir=");
	for (uint32_t i = LAYERED_LOWER; i < op->layers.count; i++)
		add_layer(options, i > LAYERED_LOWER ? ":" : "", items[i]);
	if (op->source)
		buf_addf(options, "%s%s", op->layers.count > LAYERED_LOWER ? ":" : "", STAGE_LOWER);
	if (options->failed || options->len >= 4095) /* mount(2) takes a page */
		return err_set(err, CORDON_ERR_INPUT, "too many layers below /%s", op->target);
	return 0;
}

/* The upper's own attributes are what the merged root shows: they start as those of the layer below. */
static int inherit_root(int stage, int lower, const struct setup_op *op, struct cordon_error *err)
{
	const char **items = op->layers.items;
	const bool layered = op->layers.count > LAYERED_LOWER;
	struct stat st;
	_cleanup_fd_ int fd = fs_open(stage, items[LAYERED_UPPER], O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
	if ((layered ? fstatat(stage, items[LAYERED_LOWER], &st, AT_SYMLINK_NOFOLLOW) : fstat(lower, &st)) < 0 || fd < 0 ||
	    fchmod(fd, st.st_mode & 01777) < 0 || futimens(fd, (const struct timespec[]){{.tv_nsec = UTIME_OMIT}, st.st_mtim}) < 0)
		return err_sys(err, "cannot prepare the upper layer of /%s", op->target);
	return 0;
}

/* Whether it is the file system that refuses, so that a plain tree would do, or something that a plain tree would not get round. */
static void say_refused(struct cordon_error *err)
{
	static const int others[] = {ENOMEM, EIO, ENOSPC, EDQUOT};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!err || err->sys_errno == others[i])
			return;
	err->sys_errno = LAYERED_REFUSED;
}

/*
 * Where overlayfs cannot make its working directory, it mounts all the same, for reading only (fs/overlayfs/super.c), and nobody is told. A full disk is the usual
 * reason; making a directory there again tells.
 */
static int check_writable(int tree, int stage, const struct setup_op *op, struct cordon_error *err)
{
	char probe[512];
	struct statvfs fs;
	if (fstatvfs(tree, &fs) == 0 && !(fs.f_flag & ST_RDONLY))
		return 0;
	snprintf(probe, sizeof(probe), "%s/probe", op->layers.items[LAYERED_WORK]);
	if (mkdirat(stage, probe, 0700) == 0) {
		unlinkat(stage, probe, AT_REMOVEDIR);
		errno = EROFS;
	}
	err_sys(err, "%s%s: cannot mount its layers for writing", op->source ? "workspace " : "/", op->source ? op->source : op->target);
	say_refused(err);
	return -1;
}

static int mount_overlay(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	_cleanup_buf_ struct buf options = {0};
	if (layer_options(op, &options, err) < 0)
		return -1;
	if (mkdirat(b->root, STAGE_MERGED, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "cannot make a directory");
	if (mount("overlay", STAGE_MERGED, "overlay", MS_NOSUID | MS_NODEV, options.data) < 0) {
		err_sys(err, "%s%s: cannot mount its layers", op->source ? "workspace " : "/", op->source ? op->source : op->target);
		say_refused(err);
		return err_hint(err, "$CORDON_HOME must be on a file system that overlayfs can write to (not overlayfs, NFS or FUSE)");
	}
	int tree = fs_open(b->root, STAGE_MERGED, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	return tree >= 0 ? tree : err_sys(err, "cannot open the merged tree");
}

/* A layer that stands on nothing needs no overlay. */
static int bind_layer(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", STAGE_LAYERS, op->layers.items[LAYERED_UPPER]);
	int tree = sys_open_tree(b->root, path, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	return tree >= 0 ? tree : err_sys(err, "cannot bind the layer of /%s", op->target);
}

int mounts_layered(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	const bool alone = !op->source && op->layers.count == LAYERED_LOWER;
	_cleanup_fd_ int stage = mounts_take_source(b, err);
	if (stage >= 0 && mounts_is_plain(op))
		return mounts_attach(b, stage, op->target, true, err);
	_cleanup_fd_ int lower = stage >= 0 && op->source ? mounts_take_source(b, err) : -1;
	if (stage < 0 || mounts_stage(b, stage, STAGE_LAYERS, err) < 0 ||
	    (op->source && (lower < 0 || mounts_stage(b, lower, STAGE_LOWER, err) < 0)))
		return -1;
	if (!alone && inherit_root(stage, lower, op, err) < 0)
		return -1;
	_cleanup_fd_ int tree = alone ? bind_layer(b, op, err) : mount_overlay(b, op, err);
	if (tree < 0 || (!alone && check_writable(tree, stage, op, err) < 0) || mounts_attach(b, tree, op->target, true, err) < 0)
		return -1;
	if (!alone && !b->keep_stages && unlinkat(b->root, STAGE_MERGED, AT_REMOVEDIR) < 0)
		return err_sys(err, "cannot remove %s", STAGE_MERGED);
	if (op->source && mounts_unstage(b, STAGE_LOWER, err) < 0)
		return -1;
	return mounts_unstage(b, STAGE_LAYERS, err);
}

int mounts_open_trees(int trees[MOUNTS_TREES], struct cordon_error *err)
{
	static const char *const paths[MOUNTS_TREES] = {"/app", "/home/user"};
	for (int i = 0; i < MOUNTS_TREES; i++) {
		trees[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (trees[i] < 0)
			return err_sys(err, "cannot open %s", paths[i]);
	}
	return 0;
}
