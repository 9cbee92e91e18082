/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root that is an image.
 *
 * Theory of operation. The root tmpfs stays outside of the tree: it holds what set-up adds to the image (the skeleton: mount points, a few files of /etc), as the
 * upper layer of an overlay over the image's layers, and the directories that become /tmp and the like. Whatever is put into the tree goes through that overlay,
 * so that links, whiteouts and files of the image count for what they are: nothing hides a link, and nothing follows one. In the end it is made read-only.
 *
 * With layers that can be written the skeleton is made first and is then one more layer below them: what the sandbox keeps of its root is what its commands did, and nothing
 * of ours. Mounts come after that.
 *
 * Both the image and the layers are written by others: every target is opened piece by piece (OP_CAREFUL), whoever named it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/mounts_parts.h"

/* On the tmpfs, beside the stages. */
#define SKELETON ".skeleton"
#define SKELETON_WORK ".work"
#define SHORT "l" /* links to the layers: mount(2) takes a page of options, and an image may have 127 of them (as Docker's overlay2 does) */
#define STAGE_IMAGE ".image"

#define LINES_MAX ((size_t)1 << 20)

/* ---- overlays ----------------------------------------------------------------------------------------------------------------- */

struct lowers {
	struct buf text; /* for lowerdir=, topmost first */
	unsigned count;
};

static int make_dirs(const struct builder *b, struct cordon_error *err)
{
	static const struct {
		const char *name;
		mode_t mode;
	} dirs[] = {{SKELETON, 0755}, {SKELETON_WORK, 0700}, {STAGE_MERGED, 0700}, {SHORT, 0700}};
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(b->top, dirs[i].name, dirs[i].mode) < 0)
			return err_sys(err, "cannot make %s", dirs[i].name);
	return 0;
}

static int add_lower(const struct builder *b, struct lowers *l, const char *stage, const char *name, struct cordon_error *err)
{
	char link[32], target[512];
	snprintf(link, sizeof(link), SHORT "/%u", l->count++);
	if ((size_t)snprintf(target, sizeof(target), "../%s/%s", stage, name) >= sizeof(target))
		return err_set(err, CORDON_ERR_INPUT, "the name of a layer is too long");
	if (symlinkat(target, b->top, link) < 0)
		return err_sys(err, "cannot name a layer");
	buf_addf(&l->text, "%s%s", l->text.len ? ":" : "", link);
	return 0;
}

static int add_image(const struct builder *b, struct lowers *l, const struct setup_op *op, struct cordon_error *err)
{
	for (uint32_t i = ROOT_LAYER; i < op->layers.count; i++)
		if (add_lower(b, l, STAGE_IMAGE, op->layers.items[i], err) < 0)
			return -1;
	return 0;
}

/* On STAGE_MERGED; from then on the root is what is mounted there, and the working directory. */
static int mount_root(struct builder *b, const char *upper, const char *work, const struct lowers *l, struct cordon_error *err)
{
	_cleanup_buf_ struct buf options = {0};
	buf_addf(&options, "userxattr,upperdir=%s,workdir=%s,lowerdir=%s", upper, work, l->text.data);
	if (options.failed || l->text.failed || options.len >= 4095)
		return err_set(err, CORDON_ERR_INPUT, "the root has too many layers");
	if (fchdir(b->top) < 0 || mount("overlay", STAGE_MERGED, "overlay", MS_NOSUID | MS_NODEV, options.data) < 0) {
		err_sys(err, "cannot mount the layers of the root");
		return err_hint(err, "$CORDON_HOME must be on a file system that overlayfs can use (not NFS or FUSE)");
	}
	if (b->root != b->top)
		cleanup_fd(&b->root);
	b->root = openat(b->top, STAGE_MERGED, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->root < 0 || fchdir(b->root) < 0 ? err_sys(err, "cannot enter the root") : 0;
}

static int unmount_root(struct builder *b, struct cordon_error *err)
{
	cleanup_fd(&b->root);
	b->root = b->top;
	return fchdir(b->top) < 0 || umount2(STAGE_MERGED, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? err_sys(err, "cannot detach the skeleton")
	                                                                                     : 0;
}

/* ---- what is made before layers are put on it --------------------------------------------------------------------------------- */

static bool makes_mount(const struct setup_op *op)
{
	static const bool kinds[OP_KIND_COUNT] = {[OP_BIND] = true,  [OP_SCRATCH] = true, [OP_VOLATILE] = true, [OP_LAYERED] = true,
	                                          [OP_ALIAS] = true, [OP_PROC] = true,    [OP_DEVPTS] = true,   [OP_DEVICE] = true};
	return kinds[op->kind];
}

static bool makes_file(const struct setup_op *op)
{
	static const bool kinds[OP_KIND_COUNT] = {
		[OP_DIR] = true, [OP_SYMLINK] = true, [OP_FILE] = true, [OP_COPY] = true, [OP_LINES] = true};
	return kinds[op->kind];
}

/* It lies in something that is mounted, not in the root itself. */
static bool lies_in_mount(const struct sandbox_spec *spec, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (makes_mount(&spec->ops[i]) && fs_path_within(spec->ops[index].target, spec->ops[i].target))
			return true;
	return false;
}

bool mounts_in_skeleton(const struct builder *b, uint32_t index)
{
	return b->layered_root && makes_file(&b->spec->ops[index]) && !lies_in_mount(b->spec, index);
}

/* A file may be mounted on a file only. */
static int make_place(struct builder *b, const struct setup_op *op, size_t source, struct cordon_error *err)
{
	struct stat st = {.st_mode = S_IFDIR};
	if (op->kind == OP_BIND && (source >= b->sources.count || fstat(b->sources.fds[source], &st) < 0))
		return err_set(err, CORDON_ERR_SYSTEM, "a mount source is missing");
	_cleanup_fd_ int place = mounts_place(b, op->target, S_ISDIR(st.st_mode), err);
	return place < 0 ? -1 : 0;
}

static int make_stages(struct builder *b, struct cordon_error *err)
{
	static const char *const stages[] = {STAGE_LAYERS, STAGE_LOWER, STAGE_MERGED, STAGE_EMPTY};
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		if (mkdirat(b->root, stages[i], 0700) < 0 && errno != EEXIST)
			return err_sys(err, "cannot make %s", stages[i]);
	return 0;
}

static int make_skeleton(struct builder *b, struct cordon_error *err)
{
	const struct sandbox_spec *spec = b->spec;
	size_t source = b->next_source;
	int r = make_stages(b, err);
	b->careful = true;
	for (uint32_t i = 1; i < spec->op_count && r == 0; i++) {
		const struct setup_op *op = &spec->ops[i];
		if (mounts_in_skeleton(b, i))
			r = mounts_execute(b, op, err);
		else if (makes_mount(op) && !lies_in_mount(spec, i))
			r = make_place(b, op, source, err);
		source += mounts_sources_of(op);
	}
	return r;
}

/* ---- the operations ----------------------------------------------------------------------------------------------------------- */

static int put_layers_on(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	char upper[512], work[512];
	struct lowers l = {0};
	int r = make_skeleton(b, err) < 0 || unmount_root(b, err) < 0 ? -1 : 0;
	if (r == 0)
		r = fs_remove_tree(b->top, SHORT, err);
	if (r == 0 && mkdirat(b->top, SHORT, 0700) < 0)
		r = err_sys(err, "cannot name the layers");
	for (uint32_t i = LAYERED_LOWER; i < op->over.count && r == 0; i++)
		r = add_lower(b, &l, STAGE_LAYERS, op->over.items[i], err);
	if (r == 0)
		r = add_lower(b, &l, ".", SKELETON, err) < 0 || add_image(b, &l, op, err) < 0 ? -1 : 0;
	snprintf(upper, sizeof(upper), STAGE_LAYERS "/%s", op->over.items[LAYERED_UPPER]);
	snprintf(work, sizeof(work), STAGE_LAYERS "/%s", op->over.items[LAYERED_WORK]);
	if (r == 0)
		r = mount_root(b, upper, work, &l, err);
	buf_free(&l.text);
	return r;
}

int mounts_root(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	struct lowers l = {0};
	_cleanup_fd_ int image = mounts_take_source(b, err);
	_cleanup_fd_ int layers = image >= 0 && op->over.count ? mounts_take_source(b, err) : -1;
	b->top = b->root;
	b->layered_root = op->over.count;
	b->keep_stages = b->keep_stages || b->layered_root;
	if (image < 0 || (op->over.count && layers < 0) || make_dirs(b, err) < 0 || mounts_stage(b, image, STAGE_IMAGE, err) < 0 ||
	    (layers >= 0 && mounts_stage(b, layers, STAGE_LAYERS, err) < 0))
		return -1;
	int r = add_image(b, &l, op, err);
	if (r == 0)
		r = mount_root(b, SKELETON, SKELETON_WORK, &l, err);
	buf_free(&l.text);
	return r == 0 && b->layered_root ? put_layers_on(b, op, err) : r;
}

/* The image's own directory of that name, if it has one, is covered by an empty one. */
int mounts_volatile(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	const uint64_t attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | ((op->flags & OP_NOEXEC) ? MOUNT_ATTR_NOEXEC : 0);
	char name[32];
	snprintf(name, sizeof(name), "volatile-%u", b->volatiles++);
	if (mkdirat(b->top, name, op->mode ? op->mode : 0755) < 0)
		return err_sys(err, "cannot make a directory for /%s", op->target);
	if ((op->flags & OP_OWNED) && b->ids->mode != IDMAP_SELF &&
	    fchownat(b->top, name, b->ids->uid, b->ids->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot give /%s to the sandbox's user", op->target);
	_cleanup_fd_ int tree = sys_open_tree(b->top, name, OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW);
	if (tree < 0 || sys_mount_setattr(tree, 0, attr, 0, -1) < 0)
		return err_sys(err, "cannot make /%s writable", op->target);
	return mounts_attach(b, tree, op->target, true, err);
}

/* ---- lines -------------------------------------------------------------------------------------------------------------------- */

/* Whether some line of `ours` begins with the same name, up to its colon. */
static bool is_ours(const char *ours, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	const size_t name = colon ? (size_t)(colon - line) + 1 : 0;
	for (const char *o = ours; name && *o; o += strcspn(o, "\n"), o += *o == '\n')
		if (strncmp(o, line, name) == 0)
			return true;
	return false;
}

/* What the image has, if that is a file; a link or something else is replaced. */
static int read_lines(const struct builder *b, const char *target, struct buf *out, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = fs_open(b->root, target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, FS_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if ((uint64_t)st.st_size > LINES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "/%s of the image is too large", target);
	char *room = st.st_size ? buf_reserve(out, (size_t)st.st_size + 1) : NULL;
	ssize_t n = room ? fs_pread_full(fd, room, (size_t)st.st_size, 0) : 0;
	if (n < 0 || out->failed)
		return err_sys(err, "cannot read /%s of the image", target);
	out->len = (size_t)n;
	return 0;
}

int mounts_lines(struct builder *b, const struct setup_op *op, struct cordon_error *err)
{
	_cleanup_buf_ struct buf theirs = {0}, all = {0};
	_cleanup_free_ char *ours = strndup(op->data ? op->data : "", op->data_len);
	if (!ours)
		return err_sys(err, "cannot add lines to /%s", op->target);
	if (read_lines(b, op->target, &theirs, err) < 0)
		return -1;
	buf_add_str(&all, ours);
	for (size_t at = 0; at < theirs.len;) {
		const char *line = theirs.data + at, *end = memchr(line, '\n', theirs.len - at);
		const size_t len = end ? (size_t)(end - line) : theirs.len - at;
		if (len && !is_ours(ours, line, len)) {
			buf_add(&all, line, len);
			buf_add_str(&all, "\n");
		}
		at += len + 1;
	}
	if (all.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return mounts_write(b, op->target, all.data, all.len, op->mode ? op->mode : 0644, err);
}
