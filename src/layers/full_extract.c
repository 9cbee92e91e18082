/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer from a copy: what was touched is copied (or linked), what is gone becomes a whiteout, and the directories above both are made as they are in the
 * copy. No directory has to be opaque for that: where one was replaced, what the old one held is whited out name by name. New ones are made opaque all the
 * same, as overlayfs does where it can, so that what comes into the seed later does not show through.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "layers/full_parts.h"
#include "layers/store_parts.h"
#include "layers/view_parts.h"
#include "layers/whiteout.h"

/* ---- one entry ---------------------------------------------------------------------------------------------------------------- */

int full_copy_dir(int from, int to, const struct layer_ids *ids, void (*translate)(const struct layer_ids *ids, struct file_meta *m),
                  struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta m = {0};
	if (file_meta_read(from, "the directory", 0, &m, err) < 0)
		return -1;
	translate(ids, &m);
	return file_meta_apply(to, "the directory", &m, COPY_OWNER_MAY_FAIL, err);
}

int full_copy_entry(int from_dir, int to_dir, const char *name, unsigned flags, struct copy_links *links, const struct layer_ids *ids,
                    void (*translate)(const struct layer_ids *ids, struct file_meta *m), struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta m = {0};
	if (copy_entry(from_dir, name, to_dir, name, flags | COPY_OWNER_MAY_FAIL, links, err) < 0)
		return -1;
	if (!ids->mapped)
		return 0;
	_cleanup_fd_ int from = openat(from_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int to = openat(to_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || to < 0)
		return err_sys(err, "cannot open %s", name);
	if (file_meta_read(from, name, 0, &m, err) < 0)
		return -1;
	translate(ids, &m);
	return file_meta_apply(to, name, &m, 0, err);
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------------- */

struct extraction {
	const struct full *full;
	unsigned flags;
	const struct view *head;
	const struct tree_index *now;
	int from, to; /* the copy's tree, and the layer's */
	struct copy_links *links;
	struct strlist dirs; /* that were made in the layer; each before what is in it */
};

/* The directory of the first len bytes of a path, in the layer; it and those above it are made. */
static int make_dirs(struct extraction *x, const char *path, size_t len, struct cordon_error *err)
{
	_cleanup_fd_ int at = fcntl(x->to, F_DUPFD_CLOEXEC, 3);
	for (size_t done = 0; at >= 0 && done < len;) {
		size_t n = MIN(strcspn(path + done, "/"), len - done);
		char name[NAME_MAX + 1];
		snprintf(name, sizeof(name), "%.*s", (int)n, path + done);
		if (mkdirat(at, name, 0700) == 0) {
			_cleanup_free_ char *made = strndup(path, done + n);
			if (!made || strlist_add(&x->dirs, made, err) < 0)
				return made ? -1 : err_sys(err, "cannot take a layer from the copy");
		} else if (errno != EEXIST) {
			break;
		}
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		cleanup_fd(&at);
		at = next;
		done += n + 1;
		if (done > len)
			return at < 0 ? err_sys(err, "cannot make /%s", path) : steal_fd(&at);
	}
	return at < 0 || len ? err_sys(err, "cannot make /%s", path) : steal_fd(&at);
}

static int make_parent(struct extraction *x, const char *path, const char **base, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/');
	*base = slash ? slash + 1 : path;
	return make_dirs(x, path, slash ? (size_t)(slash - path) : 0, err);
}

static bool is_directory_now(const struct extraction *x, const char *path, size_t len)
{
	if (len == 0)
		return true;
	_cleanup_free_ char *dir = strndup(path, len);
	const struct index_entry *e = dir ? tree_index_find(x->now, dir) : NULL;
	return e && S_ISDIR(e->mode);
}

static int take_gone(struct extraction *x, const char *path, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/'), *base;
	if (!is_directory_now(x, path, slash ? (size_t)(slash - path) : 0))
		return 0; /* it went with the directory */
	_cleanup_fd_ int parent = make_parent(x, path, &base, err);
	if (parent < 0)
		return -1;
	return whiteout_make(parent, base) == 0 ? 0 : err_sys(err, "cannot mark /%s as deleted", path);
}

static int take_directory(struct extraction *x, const char *path, bool is_new, struct cordon_error *err)
{
	_cleanup_fd_ int dir = make_dirs(x, path, strlen(path), err);
	if (dir < 0)
		return -1;
	if (is_new && whiteout_make_opaque(dir) < 0)
		errno = 0; /* where it cannot be, it has to do without */
	return 0;
}

static int take_entry(struct extraction *x, const char *path, struct cordon_error *err)
{
	struct cordon_error why = {0};
	const char *base;
	_cleanup_fd_ int from = path_open_parent(x->from, path, &base);
	_cleanup_fd_ int to = from < 0 ? -1 : make_parent(x, path, &base, &why);
	int r = from < 0 ? err_sys(&why, "cannot open /%s", path) : -1;
	if (to >= 0)
		r = full_copy_entry(from, to, base, x->flags & FULL_LINK ? COPY_LINK : 0, x->links, &x->full->ids, ids_store, &why);
	if (r < 0 && (x->flags & FULL_USED) && (why.sys_errno == ENOENT || why.sys_errno == ENOTDIR || why.code == CORDON_ERR_INPUT))
		return 0; /* gone, or something else by now */
	if (r < 0 && err)
		*err = why;
	return r;
}

/*
 * Some file systems (FUSE, of the simple kind) give a file another inode number each time they meet it. What differs in nothing else is compared with what
 * the head shows; everywhere else such a file is another one, moved there with the directory that it is in.
 */
static int is_another(const struct extraction *x, const struct index_entry *before, const struct index_entry *now, struct cordon_error *err)
{
	struct view_entry there;
	enum change_op op;
	const char *base;
	if (S_ISDIR(now->mode) || before->mode != now->mode || before->ctime_ns != now->ctime_ns || before->size != now->size)
		return 1;
	if (view_stat(x->head, now->path, &there, err) < 0)
		return -1;
	if ((there.st.st_mode & S_IFMT) != (now->mode & S_IFMT))
		return 1;
	struct stat st;
	_cleanup_fd_ int old = path_open_parent(x->head->fds[there.layer], now->path, &base),
			 dir = path_open_parent(x->from, now->path, &base);
	if (old < 0 || dir < 0 || fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 1;
	int r = entry_compare(base, &(struct found){old, &there.st}, &(struct found){dir, &st}, &op, err);
	return r > 0 && op == CHANGE_MODE && x->full->ids.mapped ? 0 : r; /* the owner is another one in any case */
}

static int take(void *arg, const struct index_entry *before, const struct index_entry *now, struct cordon_error *err)
{
	struct extraction *x = arg;
	const bool was = full_keeps(before), is = full_keeps(now);
	if (!was && !is)
		return 0;
	if (!is)
		return take_gone(x, before->path, err);
	int differs = !was ? 1 : full_entry_same(before, now) ? 0 : is_another(x, before, now, err);
	if (differs <= 0)
		return differs;
	if (S_ISDIR(now->mode))
		return take_directory(x, now->path, !was || !S_ISDIR(before->mode), err);
	return take_entry(x, now->path, err);
}

/* From the end: what is in a directory changes its times. The top itself is last. */
static int finish_dirs(struct extraction *x, struct cordon_error *err)
{
	for (size_t i = x->dirs.count + 1; i > 0; i--) {
		const char *path = i > 1 ? x->dirs.items[i - 2] : "";
		_cleanup_fd_ int from = path_open_dir(x->from, path, O_PATH), to = path_open_dir(x->to, path, O_RDONLY);
		if (from < 0 && (x->flags & FULL_USED) && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (from < 0 || to < 0)
			return err_sys(err, "cannot open /%s", path);
		if (full_copy_dir(from, to, &x->full->ids, ids_store, err) < 0)
			return err_wrap(err, "/%s", path);
	}
	return 0;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------------- */

/* What an earlier attempt left is not known to be complete. */
static int empty_tree(struct store *s, const char *layer, enum layer_tree tree, struct cordon_error *err)
{
	_cleanup_fd_ int dir = layer_open_dir(s, layer, err);
	if (dir < 0)
		return -1;
	if (!tree_is_empty(dir, layer_tree_names[tree])) {
		struct cordon_error why = {0};
		if (fs_remove_tree(dir, layer_tree_names[tree], &why) < 0 && why.sys_errno != ENOENT) {
			if (err)
				*err = why;
			return -1;
		}
		if (mkdirat(dir, layer_tree_names[tree], 0755) < 0)
			return err_sys(err, "cannot make a tree of the layer");
	}
	int fd = openat(dir, layer_tree_names[tree], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd : err_sys(err, "cannot open a tree of the layer");
}

struct extract_job {
	const struct full *full;
	const char *to;
	unsigned flags;
};

static int extract_tree(const struct extract_job *j, enum layer_tree tree, const struct tree_index *base, const struct tree_index *now,
                        struct cordon_error *err)
{
	struct extraction x = {.full = j->full, .flags = j->flags, .head = &j->full->head[tree], .now = now, .links = copy_links_new()};
	x.from = full_open(j->full->store, j->full->layer, tree, err);
	x.to = x.from < 0 ? -1 : empty_tree(j->full->store, j->to, tree, err);
	int r = x.to < 0 ? -1 : x.links ? 0 : err_sys(err, "cannot take a layer from the copy");
	if (r == 0)
		r = full_index_compare(base, now, take, &x, err);
	if (r == 0)
		r = finish_dirs(&x, err);
	copy_links_free(x.links);
	strlist_free(&x.dirs);
	cleanup_fd(&x.from);
	cleanup_fd(&x.to);
	return r < 0 ? -1 : 0;
}

static int extract(void *job, struct full_size *size, struct cordon_error *err)
{
	const struct extract_job *j = job;
	_cleanup_full_index_ struct full_index base = {0}, now = {0};
	bool found;
	(void)size;
	if (full_index_load(j->full->store, j->full->layer, &base, &found, err) < 0 ||
	    full_index_scan(j->full->store, j->full->layer, &now, err) < 0)
		return -1;
	if (!found)
		return err_set(err, CORDON_ERR_SYSTEM, "the copy of layer %s is not complete", j->full->layer);
	for (int t = 0; t < TREE_COUNT; t++)
		if (extract_tree(j, (enum layer_tree)t, &base.trees[t], &now.trees[t], err) < 0)
			return -1;
	return full_index_save(j->full->store, j->to, FULL_INDEX_NEW, &now, err);
}

int full_extract(const struct full *f, const char *to, unsigned flags, struct cordon_error *err)
{
	return full_do(extract, &(struct extract_job){f, to, flags}, NULL, err);
}
