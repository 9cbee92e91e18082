/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be opened and cloned before the tree is built: directories that a user named, and those that hold layers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/mount_rules.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/mounts_parts.h"

bool mounts_needs_source(const struct setup_op *op)
{
	return op->kind == OP_SCRATCH || op->kind == OP_LAYERED || op->kind == OP_ROOT || (op->kind == OP_BIND && (op->flags & OP_CHECKED));
}

size_t mounts_sources_of(const struct setup_op *op)
{
	if (op->kind == OP_ROOT)
		return op->over.count ? 2 : 1;
	if (op->kind == OP_LAYERED)
		return op->source && !mounts_is_plain(op) ? 2 : 1;
	return mounts_needs_source(op) ? 1 : 0;
}

bool mounts_writable(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if (spec->ops[i].kind == OP_BIND && (spec->ops[i].flags & OP_WRITABLE))
			return true;
	return false;
}

bool mounts_show_host_files(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if ((spec->ops[i].flags & OP_CHECKED) || spec->ops[i].kind == OP_LAYERED || spec->ops[i].kind == OP_ROOT)
			return true;
	return false;
}

/*
 * As root, files belong to ids that do not exist inside; an idmapped mount makes their owner the sandbox's user. Most mounts of a sandbox
 * have the same owner, so the last namespace is kept.
 */
static int idmap_tree(struct mounts_cache *cache, int tree, const struct stat *st, const char *name, const struct idmap *ids, bool only,
                      struct cordon_error *err)
{
	if (ids->mode != IDMAP_RANGE)
		return 0;
	if (cache->userns < 0 || cache->owner != st->st_uid || cache->group != st->st_gid || cache->only != only) {
		cleanup_fd(&cache->userns);
		cache->userns = idmap_mount_userns(ids, st->st_uid, st->st_gid, only, err);
		cache->only = only;
		cache->owner = st->st_uid;
		cache->group = st->st_gid;
		if (cache->userns < 0)
			return -1;
	}
	if (sys_mount_setattr(tree, AT_RECURSIVE, MOUNT_ATTR_IDMAP, 0, cache->userns) < 0) {
		err_sys(err, "cannot map the owners of %s", name);
		if (err && (err->sys_errno == EINVAL || err->sys_errno == EPERM))
			err->sys_errno = LAYERED_REFUSED;
		return err_hint(err,
		                "its file system, or one mounted below it, has no idmapped mounts (Linux 5.12; ext4, xfs, btrfs, tmpfs …)");
	}
	return 0;
}

/*
 * Opens what a user named and holds it against the rules. The seed of a live sandbox is opened each time that its layers are exchanged: while it is
 * the directory that was checked, by inode, the rules need not be read again.
 */
static int open_checked(struct mounts_cache *cache, const struct sandbox_spec *spec, const struct setup_op *op, struct stat *st,
                        struct cordon_error *err)
{
	_cleanup_fd_ int fd = fs_open(AT_FDCWD, op->source, O_PATH, 0, FS_ANYWHERE);
	if (fd < 0 && mount_rules_check_name(op->source, &spec->forbid, err) < 0)
		return -1;
	if (fd < 0 || fstat(fd, st) < 0)
		return err_sys(err, "cannot open %s", op->source);
	const bool seed = op->kind == OP_LAYERED;
	if (!(op->flags & OP_CHECKED) || (seed && cache->seed_checked && cache->seed_dev == st->st_dev && cache->seed_ino == st->st_ino))
		return steal_fd(&fd);
	if (mount_rules_check(fd, op->source, op->flags & OP_WRITABLE, &spec->forbid, &spec->read, &spec->write, err) < 0)
		return -1;
	if (seed) {
		cache->seed_checked = true;
		cache->seed_dev = st->st_dev;
		cache->seed_ino = st->st_ino;
	}
	return steal_fd(&fd);
}

static int prepare_checked(struct mounts_cache *cache, const struct sandbox_spec *spec, const struct setup_op *op, const struct idmap *ids,
                           struct cordon_error *err)
{
	struct stat st;
	bool writable = op->flags & OP_WRITABLE;
	_cleanup_fd_ int fd = open_checked(cache, spec, op, &st, err);
	if (fd < 0)
		return -1;
	_cleanup_fd_ int tree = sys_open_tree(fd, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE);
	if (tree < 0)
		return err_sys(err, "cannot clone the mount of %s", op->source);
	uint64_t attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY);
	if (sys_mount_setattr(tree, AT_RECURSIVE, attr, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot restrict the mount of %s", op->source);
	if (idmap_tree(cache, tree, &st, op->source, ids, ids->root, err) < 0)
		return -1;
	return steal_fd(&tree);
}

/* A directory of the scratch directory. */
static int prepare_scratch(const char *scratch, const char *name, struct cordon_error *err)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	_cleanup_fd_ int tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || sys_mount_setattr(tree, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot clone the mount of %s", path);
	return steal_fd(&tree);
}

static int add_source(struct mount_sources *out, int fd)
{
	if (fd >= 0)
		out->fds[out->count++] = fd;
	return fd < 0 ? -1 : 0;
}

/* The directory that holds the layers. On disk they have the host's ids: whoever owns the upper one is the user inside. */
static int prepare_stage(struct mounts_cache *cache, const struct setup_op *op, const char *scratch, const struct idmap *ids,
                         struct cordon_error *err)
{
	const char *stage = op->layers.items[LAYERED_STAGE], *path = *stage ? stage : scratch;
	struct stat st;
	_cleanup_fd_ int tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || sys_mount_setattr(tree, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot clone the mount of %s", path);
	if (fstatat(tree, op->layers.items[LAYERED_UPPER], &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot find the layer to write to");
	if (idmap_tree(cache, tree, &st, path, ids, false, err) < 0)
		return -1;
	return steal_fd(&tree);
}

/* As if it had been written there. */
static int give_to_user(int tree, const struct idmap *ids, const char *name, struct cordon_error *err)
{
	return fchownat(tree, "", idmap_host_id(ids, ids->uid), idmap_host_id(ids, ids->gid), AT_EMPTY_PATH) == 0
	               ? 0
	               : err_sys(err, "cannot give %s to the sandbox's user", name);
}

static int prepare_plain(struct mounts_cache *cache, const struct setup_op *op, const char *scratch, const struct idmap *ids,
                         struct cordon_error *err)
{
	const char *stage = op->layers.items[LAYERED_STAGE], *name = op->layers.items[LAYERED_UPPER];
	struct cordon_error why = {0};
	struct stat st;
	_cleanup_fd_ int at = open(*stage ? stage : scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int dir = at < 0 ? -1 : fs_open(at, name, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	_cleanup_fd_ int tree = dir < 0 ? -1 : sys_open_tree(dir, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
	if (tree < 0 || sys_mount_setattr(tree, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, MS_PRIVATE, -1) < 0 || fstat(tree, &st) < 0)
		return err_sys(err, "cannot clone the mount of %s", name);
	const bool given = ids->mode == IDMAP_RANGE && st.st_uid == idmap_host_id(ids, ids->uid);
	if (!given && idmap_tree(cache, tree, &st, name, ids, false, &why) < 0) {
		if (why.sys_errno == LAYERED_REFUSED)
			return give_to_user(tree, ids, name, err) < 0 ? -1 : steal_fd(&tree);
		if (err)
			*err = why;
		return -1;
	}
	return steal_fd(&tree);
}

static int check_seed(struct mounts_cache *cache, const struct sandbox_spec *spec, const struct setup_op *op, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = open_checked(cache, spec, op, &st, err);
	return fd < 0 ? -1 : 0;
}

/* On disk, the files of an image and those of layers on it have the ids that they have inside: the sandbox's own map shifts them to where those are. */
static int prepare_root(const struct mounts_cache *cache, const char *path, uint64_t attr, const struct idmap *ids,
                        struct cordon_error *err)
{
	_cleanup_fd_ int tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || sys_mount_setattr(tree, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attr, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot clone the mount of %s", path);
	if (ids->mode == IDMAP_RANGE && sys_mount_setattr(tree, 0, MOUNT_ATTR_IDMAP, 0, cache->own) < 0) {
		err_sys(err, "cannot map the owners of %s", path);
		return err_hint(
			err,
			"its file system has no idmapped mounts (Linux 5.12; ext4, xfs, btrfs, tmpfs …): set CORDON_HOME to one that has");
	}
	return steal_fd(&tree);
}

static int prepare_roots(const struct mounts_cache *cache, const struct setup_op *op, const char *scratch, const struct idmap *ids,
                         struct mount_sources *out, struct cordon_error *err)
{
	const char *stage = op->over.count ? op->over.items[LAYERED_STAGE] : NULL;
	if (add_source(out, prepare_root(cache, op->layers.items[ROOT_STAGE], MOUNT_ATTR_RDONLY, ids, err)) < 0)
		return -1;
	return stage ? add_source(out, prepare_root(cache, *stage ? stage : scratch, 0, ids, err)) : 0;
}

static int prepare_op(struct mounts_cache *cache, const struct sandbox_spec *spec, const struct setup_op *op, const char *scratch,
                      const struct idmap *ids, struct mount_sources *out, struct cordon_error *err)
{
	if (out->count + 2 > MOUNTS_MAX_SOURCES)
		return err_set(err, CORDON_ERR_INPUT, "too many mounts (at most %d)", MOUNTS_MAX_SOURCES - 4);
	if (op->kind == OP_ROOT)
		return prepare_roots(cache, op, scratch, ids, out, err);
	if (op->kind == OP_SCRATCH)
		return add_source(out, prepare_scratch(scratch, op->source, err));
	if (mounts_is_plain(op)) {
		if (op->source && check_seed(cache, spec, op, err) < 0)
			return -1;
		return add_source(out, prepare_plain(cache, op, scratch, ids, err));
	}
	if (op->kind == OP_LAYERED) {
		int r = add_source(out, prepare_stage(cache, op, scratch, ids, err));
		if (r < 0 || !op->source)
			return r;
	}
	return add_source(out, prepare_checked(cache, spec, op, ids, err));
}

int mounts_prepare(const struct sandbox_spec *spec, const char *scratch, const struct idmap *ids, struct mounts_cache *cache,
                   struct mount_sources *out, struct cordon_error *err)
{
	int r = 0;
	*out = (struct mount_sources){0};
	for (uint32_t i = 0; i < spec->op_count && r == 0; i++)
		if (mounts_needs_source(&spec->ops[i]))
			r = prepare_op(cache, spec, &spec->ops[i], scratch, ids, out, err);
	if (r < 0)
		mount_sources_close(out);
	return r;
}

int mounts_fill_cache(const struct sandbox_spec *spec, const char *scratch, const struct idmap *ids, struct mounts_cache *cache,
                      struct cordon_error *err)
{
	for (uint32_t i = 0; i < spec->op_count; i++) {
		const struct setup_op *op = &spec->ops[i];
		struct stat st;
		if (op->kind != OP_LAYERED || mounts_is_plain(op))
			continue;
		if (op->source && !cache->seed_checked) {
			_cleanup_fd_ int fd = open_checked(cache, spec, op, &st, err);
			if (fd < 0)
				return -1;
		}
		if (ids->mode == IDMAP_RANGE &&
		    cache->userns < 0) { /* made for the first; should another owner come, it is made for that one then */
			_cleanup_fd_ int stage = prepare_stage(cache, op, scratch, ids, err);
			if (stage < 0)
				return -1;
		}
	}
	return 0;
}

void mount_sources_close(struct mount_sources *s)
{
	for (size_t i = 0; i < s->count; i++)
		cleanup_fd(&s->fds[i]);
	s->count = 0;
}

int mounts_take_source(struct builder *b, struct cordon_error *err)
{
	if (b->next_source >= b->sources.count)
		return err_set(err, CORDON_ERR_SYSTEM, "a mount source is missing");
	return steal_fd(&b->sources.fds[b->next_source++]);
}
