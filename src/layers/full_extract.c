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
	const struct tree_index *base, *now;
	uint32_t *kept;             /* of each entry of base: where it is now */
	struct index_walk from, to; /* the copy's tree, and the layer's */
	bool *made;                 /* of each entry of now: it is a directory that the layer has */
	struct copy_links *links;
	struct buf path;
};

/* A directory as it is now, in the layer; it and those above it are made. A descriptor that stays the walk's; -1 with errno. */
static int make_dir(struct extraction *x, uint32_t dir)
{
	for (;;) {
		uint32_t next = dir;
		if (dir == INDEX_TOP || x->made[dir])
			return index_walk_to(&x->to, dir);
		while (x->now->items[next].parent != INDEX_TOP && !x->made[x->now->items[next].parent])
			next = x->now->items[next].parent;
		int parent = index_walk_to(&x->to, x->now->items[next].parent);
		if (parent < 0 || mkdirat(parent, tree_index_name(x->now, next), 0700) < 0)
			return -1;
		x->made[next] = true;
	}
}

static int take_gone(struct extraction *x, uint32_t before, struct cordon_error *err)
{
	const char *name = tree_index_name(x->base, before);
	const uint32_t parent = x->base->items[before].parent, dir = parent == INDEX_TOP ? INDEX_TOP : x->kept[parent];
	if (parent != INDEX_TOP && (dir == INDEX_NONE || !S_ISDIR(x->now->items[dir].mode)))
		return 0; /* it went with the directory */
	const int to = make_dir(x, dir);
	_cleanup_fd_ int marked = to < 0 ? -1 : path_open_dir(to, "", O_RDONLY); /* O_PATH takes no attributes */
	return marked >= 0 && whiteout_make(marked, name) == 0 ? 0 : err_sys(err, "cannot mark %s as deleted", name);
}

static int take_directory(struct extraction *x, uint32_t now, bool is_new, struct cordon_error *err)
{
	const int made = make_dir(x, now);
	_cleanup_fd_ int dir = made < 0 ? -1 : path_open_dir(made, "", O_RDONLY);
	if (dir < 0)
		return err_sys(err, "cannot make the directory %s", tree_index_name(x->now, now));
	if (is_new && whiteout_make_opaque(dir) < 0)
		errno = 0; /* where it cannot be, it has to do without */
	return 0;
}

static int take_entry(struct extraction *x, uint32_t now, struct cordon_error *err)
{
	struct cordon_error why = {0};
	const char *name = tree_index_name(x->now, now);
	const uint32_t parent = x->now->items[now].parent;
	const int from = index_walk_to(&x->from, parent), to = from < 0 ? -1 : make_dir(x, parent);
	int r = to < 0 ? err_sys(&why, "cannot open the directory of %s", name) : 0;
	if (r == 0)
		r = full_copy_entry(from, to, name, x->flags & FULL_LINK ? COPY_LINK : 0, x->links, &x->full->ids, ids_store, &why);
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
static int is_another(struct extraction *x, const struct index_entry *before, uint32_t entry, struct cordon_error *err)
{
	const struct index_entry *now = &x->now->items[entry];
	struct view_entry there;
	enum change_op op;
	const char *base, *path;
	if (S_ISDIR(now->mode) || before->mode != now->mode || before->ctime_ns != now->ctime_ns || before->size != now->size)
		return 1;
	if (!(path = tree_index_path(x->now, entry, &x->path)))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (view_stat(x->head, path, &there, err) < 0)
		return -1;
	if ((there.st.st_mode & S_IFMT) != (now->mode & S_IFMT))
		return 1;
	struct stat st;
	const int dir = index_walk_to(&x->from, now->parent);
	_cleanup_fd_ int old = path_open_parent(x->head->fds[there.layer], path, &base);
	if (old < 0 || dir < 0 || fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 1;
	int r = entry_compare(base, &(struct found){old, &there.st}, &(struct found){dir, &st}, &op, err);
	return r > 0 && op == CHANGE_MODE && x->full->ids.mapped ? 0 : r; /* the owner is another one in any case */
}

static int take(void *arg, uint32_t before, uint32_t now, struct cordon_error *err)
{
	struct extraction *x = arg;
	const struct index_entry *b = full_entry(x->base, before), *n = full_entry(x->now, now);
	const bool was = full_keeps(b), is = full_keeps(n);
	if (!was && !is)
		return 0;
	if (!is)
		return take_gone(x, before, err);
	int differs = !was ? 1 : full_entry_same(b, n) ? 0 : is_another(x, b, now, err);
	if (differs <= 0)
		return differs;
	if (S_ISDIR(n->mode))
		return take_directory(x, now, !was || !S_ISDIR(b->mode), err);
	return take_entry(x, now, err);
}

static int finish_dir(struct extraction *x, uint32_t dir, struct cordon_error *err)
{
	const char *name = dir == INDEX_TOP ? "" : tree_index_name(x->now, dir);
	const int from = index_walk_to(&x->from, dir);
	if (from < 0 && (x->flags & FULL_USED) && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	const int to = from < 0 ? -1 : index_walk_to(&x->to, dir);
	if (to < 0)
		return err_sys(err, "cannot open /%s", name);
	return full_copy_dir(from, to, &x->full->ids, ids_store, err) < 0 ? err_wrap(err, "/%s", name) : 0;
}

/* From the end: what is in a directory changes its times. The top itself is last. */
static int finish_dirs(struct extraction *x, struct cordon_error *err)
{
	for (uint32_t k = (uint32_t)x->now->count; k > 0; k--)
		if (x->made[k - 1] && finish_dir(x, k - 1, err) < 0)
			return -1;
	return finish_dir(x, INDEX_TOP, err);
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

static int extract_tree(const struct extract_job *j, enum layer_tree tree, const struct tree_index *base, struct tree_index *now,
                        struct cordon_error *err)
{
	struct extraction x = {.full = j->full, .flags = j->flags, .head = &j->full->head[tree], .base = base, .now = now};
	_cleanup_fd_ int from = full_open(j->full->store, j->full->layer, tree, err);
	_cleanup_fd_ int to = from < 0 ? -1 : empty_tree(j->full->store, j->to, tree, err);
	if (to < 0 || ((j->flags & FULL_SETTLE) && tree_index_settle(from, now, base, 0, err) < 0))
		return -1;
	index_walk_begin(&x.from, now, from);
	index_walk_begin(&x.to, now, to);
	x.links = copy_links_new();
	x.kept = tree_index_match(base, now);
	x.made = calloc(now->count + 1, sizeof(*x.made));
	int r = x.links && x.kept && x.made ? 0 : err_sys(err, "cannot take a layer from the copy");
	if (r == 0)
		r = full_index_compare(base, now, take, &x, err);
	if (r == 0)
		r = finish_dirs(&x, err);
	copy_links_free(x.links);
	free(x.kept);
	free(x.made);
	index_walk_end(&x.from);
	index_walk_end(&x.to);
	buf_free(&x.path);
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
