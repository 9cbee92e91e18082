/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/mount_rules.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/mounts_parts.h"

#define ROOT_INODES "131072"

/* ---- places in the new root -------------------------------------------------------------------------------------------------- */

/* Opens a directory in the new root, making what is missing; a symbolic link on the way is an error, so nothing is made elsewhere. */
static int dir_in_root(struct builder *b, const char *path, size_t len, mode_t mode, struct cordon_error *err)
{
	char name[256];
	_cleanup_fd_ int at = fs_open(b->root, ".", O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	for (const char *p = path; at >= 0 && p < path + len;) {
		size_t n = strcspn(p, "/");
		n = MIN(n, (size_t)(path + len - p));
		if (n >= sizeof(name))
			return err_set(err, CORDON_ERR_INPUT, "/%s: name too long", path);
		memcpy(name, p, n);
		name[n] = '\0';
		int next = fs_open(at, name, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
		if (next < 0 && errno == ENOENT && mkdirat(at, name, mode) == 0)
			next = fs_open(at, name, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
		if (next < 0) {
			int e = errno;
			err_sys(err, "cannot make /%.*s inside", (int)(p + n - path), path);
			return e == ELOOP ? err_hint(err, "a target may not pass through a symbolic link") : -1;
		}
		close(at);
		at = next;
		p += n + (p[n] == '/');
	}
	return at < 0 ? err_sys(err, "cannot open the new root") : steal_fd(&at);
}

/* Opens the place to mount on: a directory, or an empty file. */
int mounts_place(struct builder *b, const char *target, bool is_dir, struct cordon_error *err)
{
	int fd = fs_open(b->root, target, O_PATH | O_NOFOLLOW | (is_dir ? O_DIRECTORY : 0), 0, FS_BENEATH);
	if (fd >= 0)
		return fd;
	if (is_dir)
		return dir_in_root(b, target, strlen(target), 0755, err);
	const char *slash = strrchr(target, '/');
	const char *base = slash ? slash + 1 : target;
	_cleanup_fd_ int dir = dir_in_root(b, target, slash ? (size_t)(slash - target) : 0, 0755, err);
	if (dir < 0)
		return -1;
	if (mknodat(dir, base, S_IFREG | 0444, 0) < 0 && errno != EEXIST)
		return err_sys(err, "cannot make /%s inside", target);
	fd = fs_open(dir, base, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
	return fd >= 0 ? fd : err_sys(err, "cannot make /%s inside", target);
}

/*
 * Mounts a tree on a place that the image's own operations made: everything on the way is ours, so it can be named by path. This is
 * what keeps set-up short; places that a user named go the careful way.
 */
static int attach_fast(struct builder *b, int tree, const char *target, bool is_dir, struct cordon_error *err)
{
	if (is_dir ? mkdirat(b->root, target, 0755) : mknodat(b->root, target, S_IFREG | 0444, 0)) {
		if (errno == ENOENT)
			return 1; /* its parent is missing */
		if (errno != EEXIST)
			return err_sys(err, "cannot make /%s inside", target);
	}
	if (sys_move_mount(tree, b->root, target) < 0)
		return err_sys(err, "cannot mount /%s", target);
	return 0;
}

int mounts_attach(struct builder *b, int tree, const char *target, bool is_dir, struct cordon_error *err)
{
	if (!b->careful) {
		int r = attach_fast(b, tree, target, is_dir, err);
		if (r <= 0)
			return r;
	}
	_cleanup_fd_ int place = mounts_place(b, target, is_dir, err);
	if (place < 0)
		return -1;
	if (sys_move_mount(tree, place, "") < 0)
		return err_sys(err, "cannot mount /%s", target);
	return 0;
}

static int attach_tree(struct builder *b, int tree, const char *target, struct cordon_error *err)
{
	struct stat st;
	if (fstat(tree, &st) < 0)
		return err_sys(err, "cannot stat the source of /%s", target);
	return mounts_attach(b, tree, target, S_ISDIR(st.st_mode), err);
}

/* A new file system of its own: type and up to four options. */
int mounts_new_filesystem(const char *type, const char *const options[][2], size_t count, unsigned attr, struct cordon_error *err)
{
	_cleanup_fd_ int fs = sys_fsopen(type);
	if (fs < 0)
		return err_sys(err, "cannot create a %s", type);
	for (size_t i = 0; i < count; i++)
		if (sys_fsconfig(fs, options[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[i][0], options[i][1]) < 0)
			return err_sys(err, "cannot create a %s: option %s", type, options[i][0]);
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return err_sys(err, "cannot create a %s", type);
	int mnt = sys_fsmount(fs, attr);
	return mnt >= 0 ? mnt : err_sys(err, "cannot mount a %s", type);
}

static int own(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (!(op->flags & OP_OWNED) || b->ids->mode == IDMAP_SELF)
		return 0;
	if (fchownat(b->root, op->target, b->ids->uid, b->ids->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot give /%s to the sandbox's user", op->target);
	return 0;
}

/* ---- the operations ---------------------------------------------------------------------------------------------------------- */

static int op_dir(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (!b->careful && mkdirat(b->root, op->target, op->mode ? op->mode : 0755) == 0)
		return own(b, op, err);
	_cleanup_fd_ int fd = dir_in_root(b, op->target, strlen(op->target), op->mode ? op->mode : 0755, err);
	return fd < 0 ? -1 : own(b, op, err);
}

static int op_symlink(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (!b->careful && symlinkat(op->source, b->root, op->target) == 0)
		return 0;
	const char *slash = strrchr(op->target, '/');
	_cleanup_fd_ int dir = dir_in_root(b, op->target, slash ? (size_t)(slash - op->target) : 0, 0755, err);
	if (dir < 0)
		return -1;
	if (symlinkat(op->source, dir, slash ? slash + 1 : op->target) < 0 && !(errno == EEXIST && (op->flags & OP_OPTIONAL)))
		return err_sys(err, "cannot link /%s", op->target);
	return 0;
}

int mounts_write(struct builder *b, const char *target, const void *data, size_t len, mode_t mode, struct cordon_error *err)
{
	if (!b->careful && fs_write_file(b->root, target, data, len, mode, err) == 0)
		return 0;
	const char *slash = strrchr(target, '/');
	const char *base = slash ? slash + 1 : target;
	_cleanup_fd_ int dir = dir_in_root(b, target, slash ? (size_t)(slash - target) : 0, 0755, err);
	if (dir >= 0 && b->top >= 0 && unlinkat(dir, base, 0) < 0 && errno != ENOENT)
		return err_sys(err, "cannot replace /%s of the image", target);
	return dir < 0 ? -1 : fs_write_file(dir, base, data, len, mode, err);
}

static int op_file(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (mounts_write(b, op->target, op->data, op->data_len, op->mode ? op->mode : 0444, err) < 0)
		return -1;
	return own(b, op, err);
}

/* A small file of the host; a copy costs less than a mount. One that is too large for that is left out. */
static int op_copy(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	static char text[(size_t)64 << 10];
	ssize_t n = fs_read_small(AT_FDCWD, op->source, text, sizeof(text));
	if (n < 0)
		return op->flags & OP_OPTIONAL ? 0 : err_sys(err, "cannot read %s", op->source);
	return n == sizeof(text) - 1 ? 0 : mounts_write(b, op->target, text, (size_t)n, 0444, err);
}

static int op_bind(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	_cleanup_fd_ int tree = -1;
	if (mounts_needs_source(op)) {
		struct stat st;
		tree = mounts_take_source(b, err);
		if (tree < 0 || fstat(tree, &st) < 0)
			return tree < 0 ? -1 : err_sys(err, "cannot stat %s", op->source);
		if (S_ISDIR(st.st_mode) && !(op->flags & OP_WRITABLE))
			return mounts_read_only(b, tree, op, err);
		return mounts_attach(b, tree, op->target, S_ISDIR(st.st_mode), err);
	}
	tree = sys_open_tree(AT_FDCWD, op->source, OPEN_TREE_CLONE | AT_RECURSIVE);
	if (tree < 0) {
		if ((op->flags & OP_OPTIONAL) && (errno == ENOENT || errno == EACCES))
			return 0;
		return err_sys(err, "cannot bind %s", op->source);
	}
	uint64_t attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | ((op->flags & OP_WRITABLE) ? 0 : MOUNT_ATTR_RDONLY) |
	                ((op->flags & OP_NOEXEC) ? MOUNT_ATTR_NOEXEC : 0);
	if (sys_mount_setattr(tree, AT_RECURSIVE, attr, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot make %s read-only", op->source);
	return attach_tree(b, tree, op->target, err);
}

/* A host's /dev could hold anything under a familiar name (CVE-2025-31133): no link is followed, what is bound is what was looked at. */
static int op_device(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	struct stat st;
	struct device_number want;
	const char *name = fs_path_within(op->source, "/dev") ? op->source + strlen("/dev/") : "";
	if (!*name || strchr(name, '/'))
		return err_set(err, CORDON_ERR_INPUT, "%s is not in /dev", op->source);
	if (b->dev < 0)
		b->dev = fs_open(AT_FDCWD, "/dev", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, FS_ANYWHERE);
	_cleanup_fd_ int tree = b->dev < 0 ? -1 : sys_open_tree(b->dev, name, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || fstat(tree, &st) < 0)
		return err_sys(err, "cannot bind %s", op->source);
	if (op->data_len != sizeof(want))
		return err_set(err, CORDON_ERR_SYSTEM, "device number of %s is missing", op->source);
	memcpy(&want, op->data, sizeof(want));
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(want.major, want.minor))
		return err_set(err, CORDON_ERR_SYSTEM, "%s is not the device it should be (%u:%u)", op->source, want.major, want.minor);
	if (sys_mount_setattr(tree, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, MS_PRIVATE, -1) < 0)
		return err_sys(err, "cannot restrict %s", op->source);
	return mounts_attach(b, tree, op->target, false, err);
}

static int op_scratch(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	_cleanup_fd_ int tree = mounts_take_source(b, err);
	return tree < 0 ? -1 : mounts_attach(b, tree, op->target, true, err);
}

static int op_volatile(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (b->top >= 0)
		return mounts_volatile(b, op, err);
	if (op_dir(b, op, err) < 0)
		return -1;
	_cleanup_fd_ int tree = sys_open_tree(b->root, op->target, OPEN_TREE_CLONE);
	uint64_t attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | ((op->flags & OP_NOEXEC) ? MOUNT_ATTR_NOEXEC : 0);
	if (tree < 0 || sys_mount_setattr(tree, 0, attr, 0, -1) < 0 || sys_move_mount(tree, b->root, op->target) < 0)
		return err_sys(err, "cannot make /%s writable", op->target);
	return 0;
}

int mounts_alias(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	_cleanup_fd_ int tree = sys_open_tree(b->root, op->source, OPEN_TREE_CLONE | AT_RECURSIVE);
	return tree < 0 ? err_sys(err, "cannot show /%s again", op->source) : mounts_attach(b, tree, op->target, true, err);
}

/* Both were put there by the image's own operations; where there is no file to be covered, nobody misses it. */
static int op_cover(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int place = fs_open(b->root, op->target, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
	if (place < 0 && (op->flags & OP_OPTIONAL) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0;
	if (place < 0 || fstat(place, &st) < 0)
		return err_sys(err, "cannot cover /%s", op->target);
	if (!S_ISREG(st.st_mode))
		return op->flags & OP_OPTIONAL ? 0 : err_set(err, CORDON_ERR_SYSTEM, "cannot cover /%s: not a file", op->target);
	_cleanup_fd_ int tree = sys_open_tree(b->root, op->source, OPEN_TREE_CLONE);
	const uint64_t attr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	if (tree < 0 || sys_mount_setattr(tree, 0, attr, 0, -1) < 0 || sys_move_mount(tree, place, "") < 0)
		return err_sys(err, "cannot cover /%s", op->target);
	return 0;
}

static int op_proc(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	int tree = -1;
	if (b->spec->weaken & WEAKEN_PIDNS)
		tree = sys_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | AT_RECURSIVE);
	else
		tree = mounts_new_filesystem("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
	if (tree < 0) {
		if (err && err->sys_errno == EPERM)
			err_hint(err, "a container with a masked /proc forbids this; start it with unmasked system paths");
		return -1;
	}
	int result = mounts_attach(b, tree, op->target, true, err);
	b->view->proc_fd = tree;
	return result;
}

static int op_devpts(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	static const char *const options[][2] = {{"ptmxmode", "0666"}, {"mode", "0620"}};
	_cleanup_fd_ int tree = mounts_new_filesystem("devpts", options, ARRAY_SIZE(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
	return tree < 0 ? -1 : mounts_attach(b, tree, op->target, true, err);
}

/*
 * Masks: an empty file and an empty directory that nobody may open, mounted read-only. The first of each kind is made from a file on the
 * root tmpfs; the others are clones of the last one, since only what is mounted can be cloned.
 */
int mounts_next_mask(struct builder *b, bool is_dir, struct cordon_error *err)
{
	const uint64_t attr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	struct mask *m = &b->masks[is_dir];
	if (m->fd >= 0 && !m->mounted)
		return 0;
	_cleanup_fd_ int last = m->fd;
	const char *name = is_dir ? STAGE_MASK_DIR : STAGE_MASK_FILE;
	const int at = b->layered_root ? b->top : b->root;
	if (last < 0 && (is_dir ? mkdirat(at, name, 0) : mknodat(at, name, S_IFREG, 0)) < 0 && errno != EEXIST)
		return err_sys(err, "cannot create a mask");
	m->fd = last >= 0 ? sys_open_tree(last, "", OPEN_TREE_CLONE | AT_EMPTY_PATH) : sys_open_tree(at, name, OPEN_TREE_CLONE);
	if (m->fd < 0 || (last < 0 && sys_mount_setattr(m->fd, 0, attr, 0, -1) < 0))
		return err_sys(err, "cannot create a mask");
	m->mounted = false;
	return 0;
}

/* Most are files. To ask first would take longer than to try: EINVAL is the kernel's word for a file on a directory. */
static int op_mask(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (b->spec->weaken & WEAKEN_MASKS)
		return 0;
	for (int is_dir = 0; is_dir <= 1; is_dir++) {
		if (mounts_next_mask(b, is_dir, err) < 0)
			return -1;
		b->masks[is_dir].mounted = sys_move_mount(b->masks[is_dir].fd, b->root, op->target) == 0;
		if (b->masks[is_dir].mounted || errno == ENOENT)
			return 0;
		if (errno != EINVAL)
			break;
	}
	return err_sys(err, "cannot mask /%s", op->target);
}

static int op_readonly(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (b->spec->weaken & WEAKEN_MASKS)
		return 0;
	_cleanup_fd_ int place = fs_open(b->root, op->target, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
	if (place < 0 && errno == ENOENT)
		return 0;
	if (op->flags & OP_ALONE)
		return place < 0 || sys_mount_setattr(place, 0, MOUNT_ATTR_RDONLY, 0, -1) < 0
		               ? err_sys(err, "cannot make /%s read-only", op->target)
		               : 0;
	_cleanup_fd_ int tree = place < 0 ? -1 : sys_open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE);
	if (tree < 0 || sys_mount_setattr(tree, AT_RECURSIVE, MOUNT_ATTR_RDONLY, 0, -1) < 0 || sys_move_mount(tree, place, "") < 0)
		return err_sys(err, "cannot make /%s read-only", op->target);
	return 0;
}

/*
 * The directory is seen through a read-only mount, which even its owner cannot write through (as a user, init has the user's own id); what can write is a mount that is
 * attached nowhere and that init alone has.
 */
static int op_inbox(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	const uint64_t attr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	if (op_dir(b, op, err) < 0)
		return -1;
	_cleanup_fd_ int place = fs_open(b->root, op->target, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, FS_BENEATH);
	_cleanup_fd_ int inside = place < 0 ? -1 : sys_open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
	b->view->inbox_fd = place < 0 ? -1 : sys_open_tree(place, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
	if (inside < 0 || b->view->inbox_fd < 0 || sys_mount_setattr(inside, 0, attr, 0, -1) < 0 || sys_move_mount(inside, place, "") < 0)
		return err_sys(err, "cannot make /%s", op->target);
	return 0;
}

static int (*const op_table[OP_KIND_COUNT])(struct builder *, const struct setup_op *, struct cordon_error *) = {
	[OP_DIR] = op_dir,           [OP_SYMLINK] = op_symlink,     [OP_FILE] = op_file,
	[OP_BIND] = op_bind,         [OP_DEVICE] = op_device,       [OP_SCRATCH] = op_scratch,
	[OP_VOLATILE] = op_volatile, [OP_LAYERED] = mounts_layered, [OP_ALIAS] = mounts_alias,
	[OP_COVER] = op_cover,       [OP_PROC] = op_proc,           [OP_DEVPTS] = op_devpts,
	[OP_MASK] = op_mask,         [OP_READONLY] = op_readonly,   [OP_COPY] = op_copy,
	[OP_HIDE] = mounts_hide,     [OP_EXEC] = mounts_allow_exec, [OP_ROOT] = mounts_root,
	[OP_LINES] = mounts_lines,   [OP_INBOX] = op_inbox,
};

int mounts_execute(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	if (op_table[op->kind](b, op, err) < 0)
		return -1;
	return op->flags & OP_NOEXEC ? mounts_forbid_exec(b, op, err) : 0;
}

/* ---- building ---------------------------------------------------------------------------------------------------------------- */

static int make_root(struct builder *b, struct cordon_error *err)
{
	char size[32];
	snprintf(size, sizeof(size), "%llu", (unsigned long long)b->spec->memory);
	const char *const options[][2] = {{"size", size}, {"nr_inodes", ROOT_INODES}, {"mode", "0755"}};
	b->root = mounts_new_filesystem("tmpfs", options, ARRAY_SIZE(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
	if (b->root < 0)
		return -1;
	/*
	 * A mount can only take others once it is attached somewhere. What it covers cannot be opened any more in here, so it is put where
	 * no source of a mount can lie.
	 */
	static const char *const places[] = {"/sys", "/mnt", "/media"};
	_cleanup_fd_ int place = -1;
	for (size_t i = 0; i < ARRAY_SIZE(places) && place < 0; i++)
		place = openat(AT_FDCWD, places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0 || sys_move_mount(b->root, place, "") < 0 || fchdir(b->root) < 0)
		return err_sys(err, "cannot attach the new root");
	return 0;
}

/* What operations left at the top of the root. */
static int tidy(struct builder *b, struct cordon_error *err)
{
	static const struct {
		const char *name;
		int flags;
	} left[] = {{STAGE_MASK_FILE, 0}, {STAGE_MASK_DIR, AT_REMOVEDIR}};
	cleanup_fd(&b->dev);
	if (b->empty_staged && mounts_unstage(b, STAGE_EMPTY, err) < 0)
		return -1;
	static const char *const stages[] = {STAGE_LAYERS, STAGE_LOWER, STAGE_MERGED};
	for (size_t i = 0; b->keep_stages && i < ARRAY_SIZE(stages); i++)
		if (mkdirat(b->root, stages[i], 0700) < 0 && errno != EEXIST)
			return err_sys(err, "cannot make a directory");
	const bool keep_masks = b->keep_stages && (b->spec->flags & SPEC_PERMITS);
	for (int is_dir = 0; is_dir <= 1; is_dir++) {
		if (keep_masks && mounts_next_mask(b, is_dir, err) < 0)
			return -1;
		cleanup_fd(&b->masks[is_dir].fd);
	}
	if (keep_masks ||
	    b->layered_root) /* others will be made like them when the root cannot be written any more; or they are not in it */
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		if (unlinkat(b->root, left[i].name, left[i].flags) < 0 && errno != ENOENT)
			return err_sys(err, "cannot remove %s", left[i].name);
	return 0;
}

static int enter(struct builder *b, struct cordon_error *err)
{
	if (!b->layered_root && sys_mount_setattr(b->root, 0, MOUNT_ATTR_RDONLY, 0, -1) < 0)
		return err_sys(err, "cannot make the root read-only");
	/* pivot_root(2): with both arguments "." the old root ends up on top of the new one and can be detached by the same name */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(err, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(err, "cannot detach the host's tree");
	if (chdir("/") < 0)
		return err_sys(err, "cannot enter the new root");
	return 0;
}

/* Below a mount that is written for real, set-up would make files and directories on the host, and not even as the right owner. */
static int check_nothing_is_made_on_the_host(struct builder *b, uint32_t index, struct cordon_error *err)
{
	const struct setup_op *op = &b->spec->ops[index];
	for (uint32_t i = 0; i < index; i++) {
		const struct setup_op *above = &b->spec->ops[i];
		if (above->kind != OP_BIND || !(above->flags & OP_WRITABLE) || !fs_path_within(op->target, above->target))
			continue;
		_cleanup_fd_ int fd = fs_open(b->root, op->target, O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
		if (fd < 0 || op->kind == OP_FILE)
			return err_set(err, CORDON_ERR_INPUT,
			               "cannot put /%s into /%s, which is a directory of the host: make it there first", op->target,
			               above->target);
	}
	return 0;
}

int mounts_build(const struct sandbox_spec *spec, const struct idmap *ids, mounts_get_sources get_sources, void *arg,
                 struct mounts_view *view, struct cordon_error *err)
{
	struct builder b = {.spec = spec,
	                    .ids = ids,
	                    .root = -1,
	                    .top = -1,
	                    .dev = -1,
	                    .masks = {{.fd = -1}, {.fd = -1}},
	                    .view = view,
	                    .keep_stages = spec->flags & SPEC_LIVE};
	view->proc_fd = view->root_fd = view->inbox_fd = -1;
	umask(0); /* modes are given exactly */
	if (make_root(&b, err) < 0)
		return -1;
	view->root_fd = b.root;
	for (uint32_t i = 0; i < spec->op_count; i++) {
		const struct setup_op *op = &spec->ops[i];
		/* whoever prepares the sources does so while the rest of the tree is built */
		if (mounts_needs_source(op) && b.next_source == 0 && get_sources(arg, &b.sources, err) < 0)
			return -1;
		if (mounts_in_skeleton(&b, i))
			continue;
		b.careful = b.top >= 0 || (op->flags & OP_CAREFUL);
		if (b.careful && check_nothing_is_made_on_the_host(&b, i, err) < 0)
			return -1;
		if (mounts_execute(&b, op, err) < 0)
			return -1;
	}
	if (tidy(&b, err) < 0)
		return -1;
	return enter(&b, err);
}
