/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/whiteout.h"

#define OWNER_MAX 65534
#define MTIME_MAX ((int64_t)1 << 33) /* the year 2242: what every file system and every language can tell */
#define DIGEST_TAG "cordon layer 1"  /* another way to compute it would get another one */

/* ---- beginning ---------------------------------------------------------------------------------------------------------------- */

int new_layer_begin(struct new_layer *l, struct new_layer_totals *totals, int staging, unsigned number, struct cordon_error *err)
{
	const struct dir_record top = {.mode = 0755};
	char name[16], tree[32];
	*l = (struct new_layer){.totals = totals, .give_owner = geteuid() == 0, .tree = -1, .parent = -1, .file = -1};
	sha256_begin(&l->digest);
	sha256_add(&l->digest, DIGEST_TAG, sizeof(DIGEST_TAG));
	snprintf(name, sizeof(name), "%u", number);
	snprintf(tree, sizeof(tree), "%u/tree", number);
	if (mkdirat(staging, name, 0700) < 0 || mkdirat(staging, tree, 0700) < 0 ||
	    (l->tree = fs_open(staging, tree, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH)) < 0)
		return err_sys(err, "cannot make a place for layer %u", number);
	return new_layer_record_dir(l, "", &top, err);
}

void new_layer_free(struct new_layer *l)
{
	cleanup_fd(&l->tree);
	cleanup_fd(&l->parent);
	cleanup_fd(&l->file);
	for (size_t i = 0; i < l->dir_count; i++)
		free(l->dirs[i].path);
	free(l->dirs);
	*l = (struct new_layer){.tree = -1, .parent = -1, .file = -1};
}

/* ---- what is not given -------------------------------------------------------------------------------------------------------- */

static void neutralise(struct new_layer *l, struct stream_entry *e)
{
	struct image_neutralised *n = &l->totals->neutralised;
	const uint32_t mode = e->mode & 07777;
	const bool has_mode = e->type == ENTRY_FILE || e->type == ENTRY_DIR;
	e->mode = mode & (uint32_t) ~(S_ISUID | S_ISGID);
	n->set_ids += has_mode && e->mode != mode;
	n->owners += (has_mode || e->type == ENTRY_SYMLINK) && (e->uid > OWNER_MAX || e->gid > OWNER_MAX);
	e->uid = MIN(e->uid, (uint64_t)OWNER_MAX);
	e->gid = MIN(e->gid, (uint64_t)OWNER_MAX);
	e->mtime = MAX(MIN(e->mtime, MTIME_MAX), (int64_t)0);
	e->mtime_ns = e->mtime_ns < 1000000000 ? e->mtime_ns : 0;
}

static void digest_u64(struct sha256 *s, uint64_t v)
{
	sha256_add(s, &v, sizeof(v));
}

static void digest_str(struct sha256 *s, const char *text)
{
	digest_u64(s, strlen(text));
	sha256_add(s, text, strlen(text));
}

/* What the entry will be, not what the archive says of it. */
static void digest_entry(struct new_layer *l, const char *path, const struct stream_entry *e, const char *link)
{
	const uint64_t numbers[] = {(uint64_t)e->type, e->mode, e->uid, e->gid, (uint64_t)e->mtime, e->mtime_ns, e->size};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		digest_u64(&l->digest, numbers[i]);
	digest_str(&l->digest, path);
	digest_str(&l->digest, link);
}

static void entry_times(const struct stream_entry *e, struct timespec out[2])
{
	out[0] = out[1] = (struct timespec){.tv_sec = (time_t)e->mtime, .tv_nsec = (long)e->mtime_ns};
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

static int finish_file(struct new_layer *l, struct cordon_error *err)
{
	struct timespec times[2];
	entry_times(&l->entry, times);
	content_end(&l->content, &l->digest);
	if ((l->entry.size && ftruncate(l->file, (off_t)l->entry.size) < 0) ||
	    (l->give_owner && fchown(l->file, (uid_t)l->entry.uid, (gid_t)l->entry.gid) < 0) || fchmod(l->file, l->entry.mode) < 0 ||
	    futimens(l->file, times) < 0)
		return err_sys(err, "cannot finish %.*s", PATH_SHOWN, l->file_path);
	close(steal_fd(&l->file));
	return 0;
}

static int take_file(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
	const char *base;
	if (e->size > l->totals->limits->file_bytes)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a file of %llu bytes, more than the %llu that one may have: %.*s",
		               (unsigned long long)e->size, (unsigned long long)l->totals->limits->file_bytes, PATH_SHOWN, path);
	const int dir = new_layer_parent(l, path, &base, err);
	if (dir < 0)
		return -1;
	l->file = fs_open(dir, base, flags, 0600, FS_BENEATH);
	if (l->file < 0 && errno == EEXIST) {
		if (new_layer_remove(dir, base, path, err) < 0)
			return -1;
		l->file = fs_open(dir, base, flags, 0600, FS_BENEATH);
	}
	if (l->file < 0)
		return err_sys(err, "cannot create %.*s", PATH_SHOWN, path);
	digest_entry(l, path, e, "");
	memcpy(l->file_path, path, strlen(path) + 1);
	l->entry = *e;
	l->entry.path = l->entry.link = NULL;
	l->at = 0;
	content_begin(&l->content);
	return e->size == 0 ? finish_file(l, err) : 0;
}

bool new_layer_wants_data(const struct new_layer *l)
{
	return l->file >= 0;
}

static int advance(struct new_layer *l, uint64_t len, struct cordon_error *err)
{
	l->at += len;
	return l->at == l->entry.size ? finish_file(l, err) : 0;
}

static int pwrite_full(int fd, const char *data, size_t len, uint64_t at)
{
	while (len > 0) {
		const ssize_t n = pwrite(fd, data, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int new_layer_data(struct new_layer *l, const void *data, size_t len, struct cordon_error *err)
{
	if (l->file < 0 || len == 0 || len > l->entry.size - l->at)
		return err_set(err, CORDON_ERR_INPUT, "the archive has contents that belong to no file");
	if (len > l->totals->limits->bytes - l->totals->bytes)
		return new_layer_full(l, err);
	if (pwrite_full(l->file, data, len, l->at) < 0) {
		err_sys(err, "cannot write %.*s", PATH_SHOWN, l->file_path);
		return errno == ENOSPC || errno == EDQUOT ? err_hint(err, "the disk is full: the image needs more room than there is") : -1;
	}
	l->totals->bytes += len;
	l->bytes += len;
	content_add(&l->content, data, len);
	return advance(l, len, err);
}

int new_layer_hole(struct new_layer *l, uint64_t len, struct cordon_error *err)
{
	if (l->file < 0 || len == 0 || len > l->entry.size - l->at)
		return err_set(err, CORDON_ERR_INPUT, "the archive has contents that belong to no file");
	content_add(&l->content, NULL, len);
	return advance(l, len, err);
}

/* ---- directories -------------------------------------------------------------------------------------------------------------- */

static int take_dir(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	struct dir_record r = {.mode = e->mode, .uid = (uid_t)e->uid, .gid = (gid_t)e->gid};
	bool made;
	_cleanup_fd_ int fd = new_layer_make_dir(l, path, &made, err);
	if (fd < 0)
		return -1;
	r.mtime = (struct timespec){.tv_sec = (time_t)e->mtime, .tv_nsec = (long)e->mtime_ns};
	digest_entry(l, path, e, "");
	return new_layer_record_dir(l, path, &r, err);
}

/* ---- links -------------------------------------------------------------------------------------------------------------------- */

static int take_symlink(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	struct timespec times[2];
	const char *base;
	if (!*e->link || strlen(e->link) > STREAM_PATH_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a symbolic link to %s: %.*s",
		               *e->link ? "more than 4095 bytes" : "nothing", PATH_SHOWN, path);
	const int dir = new_layer_parent(l, path, &base, err);
	if (dir < 0)
		return -1;
	int r = symlinkat(e->link, dir, base);
	if (r < 0 && errno == EEXIST) {
		if (new_layer_remove(dir, base, path, err) < 0)
			return -1;
		r = symlinkat(e->link, dir, base);
	}
	entry_times(e, times);
	if (r < 0 || (l->give_owner && fchownat(dir, base, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    utimensat(dir, base, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot make the link %.*s", PATH_SHOWN, path);
	digest_entry(l, path, e, e->link);
	return 0;
}

/* The directory of what a hard link leads to, open; -1 unless that is a file or a symbolic link of this layer. */
static int open_link_target(struct new_layer *l, const char *target, const char *path, const char **base, struct stat *st,
                            struct cordon_error *err)
{
	char parent[STREAM_PATH_MAX + 1] = ".";
	const char *slash = strrchr(target, '/');
	*base = slash ? slash + 1 : target;
	if (slash) {
		memcpy(parent, target, (size_t)(slash - target));
		parent[slash - target] = '\0';
	}
	_cleanup_fd_ int fd = *target ? fs_open(l->tree, parent, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH) : -1;
	if (fd < 0 || fstatat(fd, *base, st, AT_SYMLINK_NOFOLLOW) < 0 || (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode)))
		return err_set(err, CORDON_ERR_INPUT, "the archive has a hard link to what is no file of the same layer: %.*s to %.*s",
		               PATH_SHOWN / 2, path, PATH_SHOWN / 2, target);
	return steal_fd(&fd);
}

static int take_hard_link(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	char target[STREAM_PATH_MAX + 1];
	const char *base, *from;
	struct stat st, old;
	if (entry_path(e->link, l->totals->limits->depth, target, err) < 0)
		return err_wrap(err, "hard link %.*s", PATH_SHOWN / 2, path);
	_cleanup_fd_ int source = open_link_target(l, target, path, &from, &st, err);
	const int dir = source < 0 ? -1 : new_layer_parent(l, path, &base, err);
	if (dir < 0)
		return -1;
	const bool there = fstatat(dir, base, &old, AT_SYMLINK_NOFOLLOW) == 0;
	const bool same = there && old.st_dev == st.st_dev && old.st_ino == st.st_ino;
	if (there && !same && new_layer_remove(dir, base, path, err) < 0)
		return -1;
	if (!same && linkat(source, from, dir, base, 0) < 0) {
		if (errno == ENOENT) /* it was inside what gave way */
			return err_set(err, CORDON_ERR_INPUT, "the archive has a hard link to what it takes the place of: %.*s", PATH_SHOWN,
			               path);
		return err_sys(err, "cannot make the hard link %.*s", PATH_SHOWN, path);
	}
	/* names of one file: what else is said of them counts for nothing */
	digest_entry(l, path, &(struct stream_entry){.type = ENTRY_HARDLINK}, target);
	return 0;
}

/* ---- what is gone ------------------------------------------------------------------------------------------------------------- */

static bool is_opaque(int dir)
{
	char mark = 0;
	return fgetxattr(dir, "user.overlay.opaque", &mark, 1) == 1 && mark == 'y';
}

/* It hides what is below this layer, not what the layer itself has there, whichever of them comes first. */
static int take_whiteout(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	const char *base;
	struct stat st;
	const int dir = new_layer_parent(l, path, &base, err);
	if (dir < 0)
		return -1;
	digest_entry(l, path, &(struct stream_entry){.type = ENTRY_WHITEOUT}, "");
	int r = 0;
	if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		_cleanup_fd_ int own = S_ISDIR(st.st_mode) ? fs_open(dir, base, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH) : -1;
		if (S_ISDIR(st.st_mode))
			r = own < 0 ? -1 : whiteout_make_opaque(own);
	} else if (!is_opaque(dir)) {
		r = whiteout_make(dir, base);
	}
	return r < 0 ? err_sys(err, "cannot mark %.*s as deleted", PATH_SHOWN, path) : 0;
}

static int take_opaque(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	const struct dir_record implied = {.mode = 0755};
	bool made;
	_cleanup_fd_ int fd = new_layer_make_dir(l, path, &made, err);
	if (fd < 0 || (made && new_layer_record_dir(l, path, &implied, err) < 0))
		return -1;
	digest_entry(l, path, &(struct stream_entry){.type = ENTRY_OPAQUE}, "");
	l->hides_lower |= !*path;
	return whiteout_make_opaque(fd) < 0 ? err_sys(err, "cannot hide what is below %.*s", PATH_SHOWN, path) : 0;
}

static int take_nothing(struct new_layer *l, const char *path, const struct stream_entry *e, struct cordon_error *err)
{
	l->totals->neutralised.devices++;
	return 0;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

int new_layer_entry(struct new_layer *l, const struct stream_entry *e, struct cordon_error *err)
{
	static int (*const takers[ENTRY_TYPE_COUNT])(struct new_layer *, const char *, const struct stream_entry *,
	                                             struct cordon_error *) = {
		[ENTRY_FILE] = take_file,          [ENTRY_DIR] = take_dir,           [ENTRY_SYMLINK] = take_symlink,
		[ENTRY_HARDLINK] = take_hard_link, [ENTRY_WHITEOUT] = take_whiteout, [ENTRY_OPAQUE] = take_opaque,
		[ENTRY_LEFT_OUT] = take_nothing,
	};
	char path[STREAM_PATH_MAX + 1];
	struct stream_entry mine = *e;
	if (l->file >= 0)
		return err_set(err, CORDON_ERR_INPUT, "the archive has less of %.*s than it says", PATH_SHOWN, l->file_path);
	if (entry_path(e->path, l->totals->limits->depth, path, err) < 0 || new_layer_count(l, err) < 0)
		return -1;
	if (!*path && e->type != ENTRY_DIR && e->type != ENTRY_OPAQUE && e->type != ENTRY_LEFT_OUT)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a file without a name");
	neutralise(l, &mine);
	return takers[e->type](l, path, &mine, err);
}

int new_layer_end(struct new_layer *l, struct written_layer *out, struct cordon_error *err)
{
	unsigned char digest[SHA256_SIZE];
	if (l->file >= 0)
		return err_set(err, CORDON_ERR_INPUT, "the archive has less of %.*s than it says", PATH_SHOWN, l->file_path);
	if (new_layer_finish_dirs(l, err) < 0)
		return -1;
	sha256_end(&l->digest, digest);
	*out = (struct written_layer){.bytes = l->bytes, .entries = l->entries, .hides_lower = l->hides_lower};
	sha256_hex(digest, out->digest);
	return 0;
}
