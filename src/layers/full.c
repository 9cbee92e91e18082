/* SPDX-License-Identifier: Apache-2.0 */
/* Making the copy, telling whether it was changed, and putting it back. */
#include "layers/full.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/util.h"
#include "layers/full_parts.h"
#include "layers/putback.h"
#include "layers/spare.h"
#include "layers/store_parts.h"
#include "layers/view_parts.h"
#include "layers/whiteout.h"

#define BLOCK 4096u  /* the least that an entry takes */
#define COPY_TRIES 3 /* of a file that somebody writes to meanwhile */

/* ---- the directories ---------------------------------------------------------------------------------------------------------- */

int full_open(struct store *s, const char *layer, enum layer_tree tree, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	snprintf(path, sizeof(path), "%s/" FULL_DIR "/%s", layer, layer_tree_names[tree]);
	int fd = openat(s->layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd : err_sys(err, "cannot open the copy of layer %s", layer);
}

bool full_exists(struct store *s, const char *layer)
{
	char path[STORE_PATH_MAX];
	store_path(path, layer, FULL_DIR);
	return faccessat(s->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Better now than when the first command has deleted something. */
static int try_marks(int layer, struct cordon_error *err)
{
	static const char probe[] = "probe";
	_cleanup_fd_ int work = openat(layer, LAYER_WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = work < 0 ? -1 : whiteout_make(work, probe), error = errno;
	if (work >= 0)
		unlinkat(work, probe, 0);
	if (r == 0)
		return 0;
	errno = error;
	err_sys(err, "deleted files cannot be marked there");
	if (err)
		err->code = CORDON_ERR_WEAK_HOST;
	return err_hint(err, "set CORDON_HOME to a directory on a file system with extended attributes");
}

int full_begin(struct store *s, const char *layer, struct cordon_error *err)
{
	_cleanup_fd_ int dir = layer_open_dir(s, layer, err);
	struct stat st;
	if (dir < 0 || try_marks(dir, err) < 0)
		return -1;
	if (mkdirat(dir, FULL_DIR, 0755) < 0)
		return err_sys(err, "cannot make a copy");
	for (int t = 0; t < TREE_COUNT; t++) {
		char path[STORE_PATH_MAX];
		store_path(path, FULL_DIR, layer_tree_names[t]);
		if (fstatat(dir, layer_tree_names[t], &st, AT_SYMLINK_NOFOLLOW) < 0 || mkdirat(dir, path, 0755) < 0 ||
		    fchmodat(dir, path, 0755, 0) < 0 ||
		    (geteuid() == 0 && fchownat(dir, path, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
			return err_sys(err, "cannot make a copy");
	}
	return 0;
}

int full_move(struct store *s, const char *from, const char *to, struct cordon_error *err)
{
	char old[STORE_PATH_MAX], new[STORE_PATH_MAX];
	store_path(old, from, FULL_DIR);
	store_path(new, to, FULL_DIR);
	return renameat(s->layers_fd, old, s->layers_fd, new) == 0 ? 0 : err_sys(err, "cannot move the copy of layer %s", from);
}

static int move_index(struct store *s, const char *from, const char *to, const char *name, struct cordon_error *err)
{
	char old[STORE_PATH_MAX], new[STORE_PATH_MAX];
	store_path(old, from, FULL_INDEX_NEW);
	store_path(new, to, name);
	return renameat(s->layers_fd, old, s->layers_fd, new) == 0 ? 0 : err_sys(err, "cannot move the index of layer %s", from);
}

int full_pass_index(struct store *s, const char *from, const char *to, struct cordon_error *err)
{
	return move_index(s, from, to, FULL_INDEX_NEW, err);
}

int full_adopt_index(struct store *s, const char *from, const char *to, struct cordon_error *err)
{
	return move_index(s, from, to, FULL_INDEX, err);
}

/* By rename first: half a copy must not be taken for one. */
int full_retire(struct store *s, const char *layer, struct cordon_error *err)
{
	static const char *const indexes[] = {FULL_INDEX, FULL_INDEX_NEW};
	char path[STORE_PATH_MAX], gone[STORE_PATH_MAX], id[ID_LEN + 1];
	id_new(id);
	store_path(path, layer, FULL_DIR);
	snprintf(gone, sizeof(gone), GONE "%s", id);
	if (renameat(s->layers_fd, path, s->layers_fd, gone) == 0)
		store_remove_gone(s->layers_fd, id);
	else if (errno != ENOENT)
		return err_sys(err, "cannot take the copy of layer %s away", layer);
	for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
		store_path(path, layer, indexes[i]);
		if (unlinkat(s->layers_fd, path, 0) < 0 && errno != ENOENT)
			return err_sys(err, "cannot take the index of layer %s away", layer);
	}
	return 0;
}

/* ---- making it ---------------------------------------------------------------------------------------------------------------- */

struct filling {
	const struct full *full;
	const struct view *view;
	int to; /* -1: only to be measured */
	struct copy_links *links;
	struct strlist dirs; /* found so far, each before what is in it; "" is the first */
	struct full_size *size;
};

static int add_dir(struct filling *f, const char *path, int to, const char *name, struct cordon_error *err)
{
	_cleanup_free_ char *full = NULL;
	if (asprintf(&full, "%s%s%s", path, *path ? "/" : "", name) < 0) {
		full = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (to >= 0 && mkdirat(to, name, 0700) < 0)
		return err_sys(err, "cannot make /%s in the copy", full);
	return strlist_add(&f->dirs, full, err);
}

/* The seed is in use: what vanishes was not there, and what grows is read again. What we may not read is left out, and counted. */
static int fill_entry(struct filling *f, int from, int to, const char *name, struct cordon_error *err)
{
	struct cordon_error why = {0};
	for (int i = 0; i < COPY_TRIES; i++) {
		why = (struct cordon_error){0};
		if (full_copy_entry(from, to, name, 0, f->links, &f->full->ids, ids_show, &why) == 0)
			return 0;
		if (why.sys_errno == EACCES || why.sys_errno == EPERM)
			f->size->closed++;
		if (why.sys_errno == ENOENT || why.sys_errno == EACCES || why.sys_errno == EPERM)
			return 0;
		if (why.sys_errno != EBUSY)
			break;
	}
	if (err)
		*err = why;
	return -1;
}

static int fill_dir(struct filling *f, const char *path, struct cordon_error *err)
{
	_cleanup_merged_ struct merged m = {0};
	_cleanup_names_ struct names names = {0};
	_cleanup_fd_ int to = f->to < 0 ? -1 : path_open_dir(f->to, path, O_RDONLY);
	if (f->to >= 0 && to < 0)
		return err_sys(err, "cannot open /%s in the copy", path);
	if (merged_find(f->view, path, strlen(path), &m, err) < 0)
		return -1;
	for (size_t i = 0; i < m.count; i++)
		if (names_read(&names, m.dirs[i].fd, err) < 0)
			return -1;
	names_tidy(&names);
	f->size->bytes += BLOCK;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		struct view_entry e;
		if (merged_stat(f->view, &m, name, &e, err) < 0)
			return -1;
		if (!e.st.st_mode)
			continue;
		if (S_ISDIR(e.st.st_mode)) {
			if (add_dir(f, path, to, name, err) < 0)
				return -1;
			continue;
		}
		f->size->files++;
		f->size->bytes += BLOCK + MAX((uint64_t)e.st.st_blocks * 512, (uint64_t)e.st.st_size);
		if (to >= 0 && fill_entry(f, merged_fd(&m, e.layer), to, name, err) < 0)
			return err_wrap(err, "cannot copy /%s", path);
	}
	return 0;
}

/* From the end: what is in a directory changes its times. */
static int finish_dirs(struct filling *f, struct cordon_error *err)
{
	for (size_t i = f->dirs.count; i > 0; i--) {
		const char *path = f->dirs.items[i - 1];
		struct view_entry e;
		if (f->view->count == 0) /* there is no layer at all: the top is as it was made */
			return 0;
		if (view_stat(f->view, path, &e, err) < 0)
			return -1;
		_cleanup_fd_ int from = path_open_dir(f->view->fds[e.layer], path, O_PATH), to = path_open_dir(f->to, path, O_RDONLY);
		if (from < 0 && (errno == ENOENT || errno == ENOTDIR)) /* gone from the seed meanwhile */
			continue;
		if (from < 0 || to < 0)
			return err_sys(err, "cannot open /%s", path);
		if (full_copy_dir(from, to, &f->full->ids, ids_show, err) < 0)
			return err_wrap(err, "/%s", path);
	}
	return 0;
}

static int fill_tree(const struct full *full, enum layer_tree tree, int to, struct full_size *size, struct cordon_error *err)
{
	struct filling f = {.full = full, .view = &full->head[tree], .to = to, .links = copy_links_new(), .size = size};
	int r = f.links ? strlist_add(&f.dirs, "", err) : err_sys(err, "cannot make a copy");
	for (size_t i = 0; r == 0 && i < f.dirs.count; i++)
		r = fill_dir(&f, f.dirs.items[i], err);
	if (r == 0 && to >= 0)
		r = finish_dirs(&f, err);
	copy_links_free(f.links);
	strlist_free(&f.dirs);
	return r;
}

static int measure(void *job, struct full_size *size, struct cordon_error *err)
{
	*size = (struct full_size){0};
	for (int t = 0; t < TREE_COUNT; t++)
		if (fill_tree(job, (enum layer_tree)t, -1, size, err) < 0)
			return -1;
	return 0;
}

static int fill(void *job, struct full_size *size, struct cordon_error *err)
{
	const struct full *f = job;
	_cleanup_full_index_ struct full_index now = {0};
	*size = (struct full_size){0};
	for (int t = 0; t < TREE_COUNT; t++) {
		_cleanup_fd_ int to = full_open(f->store, f->layer, (enum layer_tree)t, err);
		if (to < 0 || fill_tree(f, (enum layer_tree)t, to, size, err) < 0)
			return -1;
	}
	return full_index_scan(f->store, f->layer, &now, err) < 0 ? -1 : full_index_save(f->store, f->layer, FULL_INDEX, &now, err);
}

int full_measure(const struct full *f, struct full_size *out, struct cordon_error *err)
{
	return full_do(measure, (void *)(uintptr_t)f, out, err);
}

int full_fill(const struct full *f, struct full_size *out, struct cordon_error *err)
{
	return full_do(fill, (void *)(uintptr_t)f, out, err);
}

/* ---- looking at it ------------------------------------------------------------------------------------------------------------ */

struct pair {
	const struct tree_index *before, *now;
};

static int differs(void *arg, uint32_t before, uint32_t now, struct cordon_error *err)
{
	const struct pair *p = arg;
	const struct index_entry *b = full_entry(p->before, before), *n = full_entry(p->now, now);
	(void)err;
	if (!full_keeps(b) && !full_keeps(n) && !(n && S_ISSOCK(n->mode))) /* a socket has to go when files are put back */
		return 0;
	return !b || !n || !full_entry_same(b, n);
}

static int tree_changed(const struct full *f, enum layer_tree tree, const struct tree_index *base, struct tree_index *now,
                        struct cordon_error *err)
{
	_cleanup_fd_ int dir = full_open(f->store, f->layer, tree, err);
	if (dir < 0 || tree_index_settle(dir, now, base, SETTLE_KNOWN, err) < 0)
		return -1;
	return !tree_index_same_top(base, now) ? 1 : full_index_compare(base, now, differs, &(struct pair){base, now}, err);
}

static int changed(void *job, struct full_size *size, struct cordon_error *err)
{
	const struct full *f = job;
	_cleanup_full_index_ struct full_index base = {0}, now = {0};
	bool found;
	(void)size;
	if (full_index_load(f->store, f->layer, &base, &found, err) < 0)
		return -1;
	if (!found)
		return 0;
	if (full_index_scan(f->store, f->layer, &now, err) < 0)
		return -1;
	int r = 0;
	for (int t = 0; r == 0 && t < TREE_COUNT; t++)
		r = tree_changed(f, (enum layer_tree)t, &base.trees[t], &now.trees[t], err);
	return r;
}

int full_changed(const struct full *f, struct cordon_error *err)
{
	return full_do(changed, (void *)(uintptr_t)f, NULL, err);
}

/* ---- putting it back ---------------------------------------------------------------------------------------------------------- */

struct put_back_job {
	const struct full *full;
	const char *base; /* layer that has the index */
	const struct view *want;
	const struct strlist *spare;
};

/* A list of what is to be put back in one tree, under construction. */
struct listing {
	const struct view *want;
	const struct tree_index *base, *now;
	struct changes *out;
	int tree;
	struct buf path;
};

static int list_path(struct listing *l, const char *path, mode_t before, mode_t after, struct cordon_error *err)
{
	if (!before && !after)
		return 0;
	const enum change_op op = !before                                 ? CHANGE_ADD
	                          : !after                                ? CHANGE_DELETE
	                          : (before & S_IFMT) != (after & S_IFMT) ? CHANGE_TYPE
	                                                                  : CHANGE_MODIFY;
	return changes_add(l->out, &(struct change){.op = op, .path = (char *)(uintptr_t)path, .before = before, .after = after}, err);
}

/* What was touched inside. What was not in the copy when it was made is not wanted, whatever the seed has there (a file that we may not read, say). */
static int list_touched(void *arg, uint32_t before, uint32_t now, struct cordon_error *err)
{
	struct listing *l = arg;
	struct view_entry e = {0};
	const struct index_entry *b = full_entry(l->base, before), *n = full_entry(l->now, now);
	const bool socket = n && S_ISSOCK(n->mode);
	if (b && n && full_entry_same(b, n) && !socket)
		return 0;
	const char *path = b ? tree_index_path(l->base, before, &l->path) : tree_index_path(l->now, now, &l->path), *base;
	if (!path)
		return err_sys(err, "cannot put the copy back");
	if (full_keeps(b) && view_stat(l->want, path, &e, err) < 0)
		return -1;
	if (socket && !e.st.st_mode) {
		_cleanup_fd_ int dir = path_open_parent(l->tree, path, &base);
		if (dir >= 0 && putback_is_used(dir, base))
			return 0;
	}
	return list_path(l, path, n ? n->mode : 0, e.st.st_mode, err);
}

/* What the two states differ in, where nothing was touched. */
static int list_states(struct listing *l, const struct view *head, struct cordon_error *err)
{
	struct changes states = {0};
	int r = changes_between_with(head, l->want, CHANGES_FILE_TIMES | CHANGES_DIR_TIMES, &states, err);
	for (size_t i = 0; r == 0 && i < states.count; i++) {
		const struct change *c = &states.items[i];
		const struct index_entry *b = full_entry(l->base, tree_index_find(l->base, c->path));
		const struct index_entry *n = full_entry(l->now, tree_index_find(l->now, c->path));
		if ((b || n) && !(b && n && full_entry_same(b, n)))
			continue; /* it is in the list */
		r = list_path(l, c->path, n ? n->mode : 0, c->after, err);
		/* contents that are right are left alone */
		if (r == 0 && n && (c->op == CHANGE_MODE || c->op == CHANGE_TIME) && l->out->count)
			l->out->items[l->out->count - 1].op = c->op;
	}
	changes_free(&states);
	return r;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * What was spared is still different from the head, and is so by the index that it had there. The entries that stay are numbered anew: those in `moved` are where they
 * were, and INDEX_NONE.
 */
static int spare_index(struct tree_index *now, const struct tree_index *base, struct strlist *spared, struct cordon_error *err)
{
	struct tree_index mixed = {.top = now->top};
	_cleanup_buf_ struct buf path = {0};
	_cleanup_free_ uint32_t *moved = malloc((now->count + 1) * sizeof(*moved));
	int r = moved ? 0 : err_sys(err, "cannot put the copy back");
	qsort(spared->items, spared->count, sizeof(*spared->items), by_text);
	for (uint32_t k = 0; r == 0 && k < now->count; k++) {
		struct index_entry e = now->items[k];
		const char *text = tree_index_path(now, k, &path), *name = tree_index_name(now, k);
		if (!text)
			r = err_sys(err, "cannot put the copy back");
		const bool is_spared = text && bsearch(&text, spared->items, spared->count, sizeof(text), by_text);
		const uint32_t old = is_spared ? tree_index_find(base, text) : INDEX_NONE;
		moved[k] = INDEX_NONE;
		if (r < 0 || (e.parent != INDEX_TOP && moved[e.parent] == INDEX_NONE) || (is_spared && old == INDEX_NONE))
			continue; /* new, as is all that is in it */
		const uint32_t parent = e.parent == INDEX_TOP ? INDEX_TOP : moved[e.parent];
		if (is_spared)
			e = base->items[old];
		e.parent = parent;
		moved[k] = (uint32_t)mixed.count;
		r = tree_index_add(&mixed, &e, name, strlen(name), err);
	}
	now->top = NULL;
	tree_index_free(now);
	*now = mixed;
	return r;
}

static int put_back_tree(const struct put_back_job *j, enum layer_tree tree, const struct tree_index *base, struct tree_index *now,
                         struct strlist *spared, struct cordon_error *err)
{
	struct changes list = {0};
	_cleanup_fd_ int to = full_open(j->full->store, j->full->layer, tree, err);
	struct listing l = {.want = &j->want[tree], .base = base, .now = now, .out = &list, .tree = to};
	int r = to < 0 ? -1 : tree_index_settle(to, now, base, SETTLE_KNOWN, err);
	if (r == 0)
		r = full_index_compare(base, now, list_touched, &l, err);
	if (r == 0)
		r = list_states(&l, &j->full->head[tree], err);
	buf_free(&l.path);
	changes_sort(&list);
	if (r == 0 && tree == TREE_APP)
		r = spare_changes(&list, j->spare, spared, err);
	if (r == 0)
		r = putback(to, l.want, &list, &j->full->ids, err);
	if (r == 0)
		r = putback_top(to, l.want, false, &j->full->ids, err);
	changes_free(&list);
	return r;
}

static int put_back(void *job, struct full_size *size, struct cordon_error *err)
{
	const struct put_back_job *j = job;
	const struct full *f = j->full;
	_cleanup_full_index_ struct full_index base = {0}, now = {0}, then = {0};
	struct strlist spared = {0};
	bool found;
	(void)size;
	if (full_index_load(f->store, j->base, &base, &found, err) < 0 || full_index_scan(f->store, f->layer, &now, err) < 0)
		return -1;
	if (!found)
		return err_set(err, CORDON_ERR_SYSTEM, "the copy of layer %s is not complete", f->layer);
	int r = 0;
	for (int t = 0; r == 0 && t < TREE_COUNT; t++)
		r = put_back_tree(j, (enum layer_tree)t, &base.trees[t], &now.trees[t], &spared, err);
	if (r == 0)
		r = full_index_scan(f->store, f->layer, &then, err);
	for (int t = 0; r == 0 && t < TREE_COUNT; t++) {
		_cleanup_fd_ int dir = full_open(f->store, f->layer, (enum layer_tree)t, err);
		r = dir < 0 ? -1 : tree_index_settle(dir, &then.trees[t], &base.trees[t], 0, err);
	}
	if (r == 0 && spared.count)
		r = spare_index(&then.trees[TREE_APP], &base.trees[TREE_APP], &spared, err);
	if (r == 0)
		r = full_index_save(f->store, f->layer, FULL_INDEX, &then, err);
	strlist_free(&spared);
	return r;
}

int full_put_back(const struct full *f, const char *base, const struct view *want, const struct strlist *spare, struct cordon_error *err)
{
	return full_do(put_back, &(struct put_back_job){f, base, want, spare}, NULL, err);
}
