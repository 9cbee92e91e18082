/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions beside services, whose mounts cannot be exchanged: the sandbox stands still for a moment while what was written since the last time is copied, and
 * for a rollback or a restore files are put back where they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/copy.h"
#include "layers/parcel.h"
#include "layers/putback.h"
#include "layers/spare.h"
#include "lib/live.h"

#define NEVER INT64_MIN /* a change time that no file has: it differs from whatever it is compared with */

void live_forget_checkpoint(struct live *l)
{
	for (size_t i = 0; i < TREE_COUNT; i++)
		tree_index_free(&l->last[i]);
	l->last_layer[0] = '\0';
	l->sheds = false;
}

static int open_tree(const struct live *l, const char *layer, enum layer_tree tree)
{
	char path[LAYER_ID_LEN + 16];
	snprintf(path, sizeof(path), "%s/%s", layer, layer_tree_names[tree]);
	return openat(l->store.layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * What is done to the trees is done where all of them can be read: a command can close a file, a directory or the top itself to its owner, who is us where cordon is
 * run by an ordinary user. That may be another process; what it found out comes back through a file.
 */
struct work {
	struct live *live;
	const char *layer;            /* to be filled, or to go back to */
	const struct strlist *spare;  /* not to be put back */
	const struct tree_index *now; /* of each tree, where it is known already */
	int64_t birth_ns;             /* of the layer to be described */
	int found;                    /* gets the indexes, or the changes */
};

static int work_begin(struct work *w, struct cordon_error *err)
{
	w->found = memfd_create("cordon-index", MFD_CLOEXEC);
	return w->found >= 0 ? 0 : err_sys(err, "cannot make a file in memory");
}

/* What the work has left; now and changes: empty, or NULL if that is none of it. */
static int work_end(struct work *w, int result, struct tree_index *now, struct changes *changes, struct cordon_error *err)
{
	if (result == 0 && lseek(w->found, 0, SEEK_SET) < 0)
		result = err_sys(err, "cannot read a file in memory");
	for (int i = 0; result == 0 && now && i < TREE_COUNT; i++)
		result = tree_index_receive(&now[i], w->found, err);
	if (result == 0 && changes)
		result = changes_receive(changes, w->found, err);
	close(w->found);
	return result;
}

/* The present state of the open layer, which can be compared with that of another time. spared: paths in the workspace that are not what the layer of then has. */
static int scan(struct work *w, const struct strlist *spared, struct cordon_error *err)
{
	struct live *l = w->live;
	for (int i = 0; i < TREE_COUNT; i++) {
		_cleanup_index_ struct tree_index now = {0};
		_cleanup_fd_ int dir = open_tree(l, l->box.open, (enum layer_tree)i);
		if (dir < 0)
			return err_sys(err, "cannot open the open layer");
		if (tree_index_scan(dir, &now, err) < 0 || tree_index_settle(dir, &now, &l->last[i], 0, err) < 0)
			return -1;
		for (size_t k = 0; spared && i == TREE_APP && k < spared->count; k++) {
			uint32_t entry = tree_index_find(&now, spared->items[k]);
			if (entry != INDEX_NONE)
				now.items[entry].ctime_ns = NEVER;
		}
		if (tree_index_send(&now, w->found, err) < 0)
			return -1;
	}
	return 0;
}

static int do_scan(void *work, struct full_size *size, struct cordon_error *err)
{
	(void)size;
	return scan(work, NULL, err);
}

static int do_copy(void *work, struct full_size *size, struct cordon_error *err)
{
	const struct work *w = work;
	struct live *l = w->live;
	(void)size;
	for (int i = 0; i < TREE_COUNT; i++) {
		_cleanup_fd_ int from = open_tree(l, l->box.open, (enum layer_tree)i), to = open_tree(l, w->layer, (enum layer_tree)i);
		_cleanup_fd_ int sealed = l->last_layer[0] ? open_tree(l, l->last_layer, (enum layer_tree)i) : -1;
		if (from < 0 || to < 0)
			return err_sys(err, "cannot open the layer");
		if (tree_checkpoint(from, &w->now[i], to, sealed, &l->last[i], l->sheds, err) < 0)
			return -1;
	}
	for (int i = 0; i < TREE_COUNT; i++)
		tree_index_await_tick(&w->now[i]);
	return 0;
}

static void remember(struct live *l, struct tree_index now[TREE_COUNT])
{
	for (int i = 0; i < TREE_COUNT; i++) {
		tree_index_free(&l->last[i]);
		l->last[i] = now[i];
		now[i] = (struct tree_index){0};
	}
}

/* While everything stands still. *id stays "" if nothing was written since the last time. */
static int take_copy(struct live *l, struct tree_index now[TREE_COUNT], char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	struct work w = {.live = l, .layer = id, .now = now};
	bool same = true;
	if (work_begin(&w, err) < 0 || work_end(&w, full_do(do_scan, &w, NULL, err), now, NULL, err) < 0)
		return -1;
	for (int i = 0; i < TREE_COUNT; i++)
		same = same && tree_index_equal(&now[i], &l->last[i]);
	if (same)
		return 0;
	if (live_begin_layer(l, id, err) < 0)
		return -1;
	if (full_do(do_copy, &w, NULL, err) == 0)
		return 0;
	layer_drop(&l->store, id, NULL);
	id[0] = '\0';
	return -1;
}

static int do_describe(void *work, struct full_size *size, struct cordon_error *err)
{
	const struct work *w = work;
	struct changes changes = {0};
	(void)size;
	int r = live_describe(w->live, w->layer, w->birth_ns, &changes, err);
	if (r == 0)
		r = changes_send(&changes, w->found, err);
	changes_free(&changes);
	return r;
}

int live_describe_closed(struct live *l, const char *layer, int64_t birth_ns, struct changes *out, struct cordon_error *err)
{
	struct work w = {.live = l, .layer = layer, .birth_ns = birth_ns};
	*out = (struct changes){0};
	if (geteuid() == 0)
		return live_describe(l, layer, birth_ns, out, err);
	return work_begin(&w, err) < 0 ? -1 : work_end(&w, full_do(do_describe, &w, NULL, err), NULL, out, err);
}

int live_checkpoint(struct live *l, struct layer *meta, bool move_head, struct changes *changes, struct cordon_error *err)
{
	struct tree_index now[TREE_COUNT] = {0};
	char id[LAYER_ID_LEN + 1] = "";
	const int64_t birth_ns = l->birth_ns;
	if (live_copies(l))
		return live_copy_checkpoint(l, meta, move_head, changes, err);
	if (l->backend->freeze(l->ctx, l->state, true, err) < 0)
		return -1;
	int r = take_copy(l, now, id, err);
	if (l->backend->freeze(l->ctx, l->state, false, r < 0 ? NULL : err) < 0)
		r = -1;
	meta->id[0] = '\0';
	if (r == 0 && id[0])
		r = live_describe_closed(l, id, birth_ns, changes, err) < 0 || live_seal(l, meta, id, changes, err) < 0 ? -1 : 0;
	if (r == 0 && id[0]) {
		remember(l, now);
		memcpy(l->last_layer, id, sizeof(id));
		if (move_head) {
			memcpy(l->box.head, id, sizeof(id));
			r = box_save(&l->store, &l->box, err);
		}
	}
	for (int i = 0; i < TREE_COUNT; i++)
		tree_index_free(&now[i]);
	return r;
}

int live_turn_over_shed(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err)
{
	struct tree_index now[TREE_COUNT] = {0};
	char id[LAYER_ID_LEN + 1] = "", old[LAYER_ID_LEN + 1], head[LAYER_ID_LEN + 1];
	const int64_t birth_ns = l->birth_ns;
	memcpy(old, l->box.open, sizeof(old));
	memcpy(head, l->box.head, sizeof(head));
	int r = take_copy(l, now, id, err);
	for (int i = 0; i < TREE_COUNT; i++)
		tree_index_free(&now[i]);
	if (r == 0 && id[0])
		r = live_describe_closed(l, id, birth_ns, changes, err) < 0 || live_seal(l, meta, id, changes, err) < 0 ? -1 : 0;
	if (r < 0)
		return -1;
	if (keep && id[0])
		memcpy(l->box.head, id, sizeof(id));
	if (live_remount(l, err) < 0) {
		memcpy(l->box.head, head, sizeof(head));
		return -1;
	}
	if (!l->state) { /* there was nothing to mount */
		memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
		l->box.open[0] = '\0';
	}
	l->replaced[0] = '\0';
	live_forget_checkpoint(l);
	if (box_save(&l->store, &l->box, err) < 0)
		return -1;
	layer_drop(&l->store, old, NULL);
	return 0;
}

/* What the top of a tree was when the open layer was mounted: inherit_root() in sandbox/mounts_layers.c. */
static mode_t inherited_mode(const struct live *l, enum layer_tree tree)
{
	char path[LAYER_ID_LEN + 16];
	struct stat st;
	if (!l->box.lower[0] && (tree != TREE_APP || l->seed < 0))
		return 0755;
	snprintf(path, sizeof(path), "%s/%s", l->box.lower, layer_tree_names[tree]);
	const int r = l->box.lower[0] ? fstatat(l->store.layers_fd, path, &st, AT_SYMLINK_NOFOLLOW) : fstat(l->seed, &st);
	return r < 0 ? 0755 : st.st_mode & 01777;
}

bool live_tops_are_fresh(const struct live *l)
{
	char path[LAYER_ID_LEN + 16];
	for (int i = 0; i < TREE_COUNT; i++) {
		_cleanup_file_meta_ struct file_meta top = {0};
		snprintf(path, sizeof(path), "%s/%s", l->box.open, layer_tree_names[i]);
		_cleanup_fd_ int fd = openat(l->store.layers_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && file_meta_read(fd, path, 0, &top, NULL) == 0 &&
		    ((top.mode & 07777) != inherited_mode(l, (enum layer_tree)i) || top.attr_count))
			return false;
	}
	return true;
}

/* ---- going back -------------------------------------------------------------------------------------------------------------- */

/* Who is who in the mounted tree: its top belongs to the user inside. */
static int find_ids(const struct live *l, int tree, int layer, struct layer_ids *ids, struct cordon_error *err)
{
	struct stat shown, disk;
	const struct created_msg *info = &l->state->info;
	*ids = (struct layer_ids){.mapped = geteuid() == 0};
	if (fstat(tree, &shown) < 0 || fstat(layer, &disk) < 0)
		return err_sys(err, "cannot look at the sandbox's tree");
	ids->disk_uid = disk.st_uid;
	ids->disk_gid = disk.st_gid;
	ids->shown_uid = shown.st_uid;
	ids->shown_gid = shown.st_gid;
	ids->inside_uid = info->uid;
	ids->inside_gid = info->gid;
	ids->base_uid = shown.st_uid - info->uid;
	ids->base_gid = shown.st_gid - info->gid;
	return 0;
}

/* No view shows the sockets that are left in the open layer. They go, but for those that a service listens at. */
static int add_sockets(int open, int merged, int seed, struct changes *changes, struct cordon_error *err)
{
	_cleanup_index_ struct tree_index index = {0};
	_cleanup_walk_ struct index_walk walk;
	_cleanup_buf_ struct buf path = {0};
	const size_t count = changes->count;
	index_walk_begin(&walk, &index, merged); /* overlayfs' inode is the one that was bound */
	if (tree_index_scan(open, &index, err) < 0)
		return -1;
	for (uint32_t k = 0; k < index.count; k++) {
		struct stat st;
		const char *base;
		const int dir = S_ISSOCK(index.items[k].mode) ? index_walk_to(&walk, index.items[k].parent) : -1;
		if (dir < 0 || putback_is_used(dir, tree_index_name(&index, k)))
			continue;
		if (!tree_index_path(&index, k, &path))
			return err_sys(err, "cannot put files back");
		_cleanup_fd_ int below = seed < 0 ? -1 : path_open_parent(seed, path.data, &base);
		if (below >= 0 && fstatat(below, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
			continue; /* there was one at the beginning */
		if (changes_find(&(struct changes){.items = changes->items, .count = count}, path.data))
			continue; /* it is replaced */
		const struct change gone = {.op = CHANGE_DELETE, .path = path.data, .before = index.items[k].mode};
		if (changes_add(changes, &gone, err) < 0)
			return -1;
	}
	changes_sort(changes);
	return 0;
}

static int put_back_tree(const struct work *w, enum layer_tree tree, struct strlist *spared, struct cordon_error *err)
{
	struct live *l = w->live;
	_cleanup_view_ struct view now = {0}, want = {0};
	_cleanup_fd_ int open = open_tree(l, l->box.open, tree);
	struct changes changes = {0};
	struct layer_ids ids;
	const int seed = tree == TREE_APP ? l->seed : -1, merged = l->state->trees[tree];
	const bool inherited = !w->layer[0] || strcmp(w->layer, l->box.lower) == 0;
	if (open < 0 || merged < 0)
		return err_sys(err, "cannot open the sandbox's tree");
	int r = find_ids(l, merged, open, &ids, err);
	if (r == 0)
		r = view_open(&l->store, l->box.lower, l->box.open, tree, seed, &now, err);
	if (r == 0)
		r = view_open(&l->store, w->layer, NULL, tree, seed, &want, err);
	if (r == 0)
		r = changes_between_with(&now, &want, CHANGES_FILE_TIMES | CHANGES_DIR_TIMES, &changes, err);
	if (r == 0)
		r = add_sockets(open, merged, seed, &changes, err);
	if (r == 0 && tree == TREE_APP)
		r = spare_changes(&changes, w->spare, spared, err);
	if (r == 0)
		r = putback(merged, &want, &changes, &ids, err);
	if (r == 0)
		r = putback_top(merged, &want, inherited, &ids, err);
	changes_free(&changes);
	return r;
}

static int do_put_back(void *work, struct full_size *size, struct cordon_error *err)
{
	struct strlist spared = {0};
	int r = 0;
	(void)size;
	for (int i = 0; r == 0 && i < TREE_COUNT; i++)
		r = put_back_tree(work, (enum layer_tree)i, &spared, err);
	if (r == 0)
		r = scan(work, &spared, err);
	strlist_free(&spared);
	return r;
}

static int put_back(struct live *l, const char *layer, const struct strlist *spare, struct tree_index now[TREE_COUNT],
                    struct cordon_error *err)
{
	struct work w = {.live = l, .layer = layer, .spare = spare};
	if (work_begin(&w, err) < 0 || work_end(&w, full_do(do_put_back, &w, NULL, err), now, NULL, err) < 0)
		return -1;
	for (int i = 0; i < TREE_COUNT; i++)
		tree_index_await_tick(&now[i]);
	return 0;
}

/* Whether what a layer does not have itself is what is below the open layer. */
static bool stands_on_lower(struct live *l, const char *layer)
{
	_cleanup_layer_ struct layer meta = {0};
	if (strcmp(layer, l->box.lower) == 0)
		return true;
	if (!layer[0] || layer_read(&l->store, layer, &meta, NULL) < 0)
		return false;
	const char *on = meta.over[0] ? meta.over : meta.parent[0] ? meta.parent : LAYER_OVER_SEED;
	return strcmp(on, l->box.lower[0] ? l->box.lower : LAYER_OVER_SEED) == 0;
}

int live_put_back(struct live *l, const char *target, const struct strlist *spare, struct cordon_error *err)
{
	struct tree_index now[TREE_COUNT] = {0};
	char layer[LAYER_ID_LEN + 1]; /* it may be the head's own memory */
	snprintf(layer, sizeof(layer), "%s", target);
	if (l->backend->freeze(l->ctx, l->state, true, err) < 0)
		return -1;
	int r = live_copies(l) ? live_copy_put_back(l, layer, spare, err) : put_back(l, layer, spare, now, err);
	if (l->backend->freeze(l->ctx, l->state, false, r < 0 ? NULL : err) < 0)
		r = -1;
	if (r < 0) {
		for (int i = 0; i < TREE_COUNT; i++)
			tree_index_free(&now[i]);
		return -1;
	}
	remember(l, now);
	memcpy(l->last_layer, layer, sizeof(layer));
	memcpy(l->box.head, layer, sizeof(layer));
	l->sheds = !live_copies(l) && stands_on_lower(l, layer);
	return box_save(&l->store, &l->box, err);
}

/* ---- what survives ----------------------------------------------------------------------------------------------------------- */

/* The directories above a path, as they are in the other layer. Returns the last one. */
static int make_parents(int from, int to, const char *path, struct cordon_error *err)
{
	char name[NAME_MAX + 1];
	_cleanup_fd_ int source = fcntl(from, F_DUPFD_CLOEXEC, 3), target = fcntl(to, F_DUPFD_CLOEXEC, 3);
	for (const char *p = path, *slash; source >= 0 && target >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
		snprintf(name, sizeof(name), "%.*s", (int)(slash - p), p);
		bool made = mkdirat(target, name, 0700) == 0;
		int next_source = openat(source, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int next_target = openat(target, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(source);
		close(target);
		source = next_source;
		target = next_target;
		if (made && source >= 0 && target >= 0 && copy_dir_meta(source, target, COPY_OWNER_MAY_FAIL, err) < 0)
			return -1;
	}
	return source < 0 || target < 0 ? err_sys(err, "cannot preserve %s", path) : steal_fd(&target);
}

static int preserve_path(int from, int to, const char *path, struct cordon_error *err)
{
	const char *base;
	_cleanup_fd_ int from_dir = path_open_parent(from, path, &base);
	_cleanup_fd_ int to_dir = from_dir < 0 ? -1 : make_parents(from, to, path, err);
	if (from_dir < 0)
		return err_sys(err, "cannot preserve %s", path);
	return to_dir < 0 ? -1 : copy_entry(from_dir, base, to_dir, base, COPY_OWNER_MAY_FAIL, NULL, err);
}

int live_preserve(struct live *l, const char *from_layer, const char *to_layer, const struct changes *changes, struct cordon_error *err)
{
	const struct strlist *globs = &l->policy->transaction.preserve;
	if (!globs->count)
		return 0;
	_cleanup_fd_ int from = open_tree(l, from_layer, TREE_APP), to = open_tree(l, to_layer, TREE_APP);
	if (from < 0 || to < 0)
		return err_sys(err, "cannot open a layer");
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *c = &changes->items[i];
		if (c->after && !S_ISDIR(c->after) && spare_matches(globs, c->path) && preserve_path(from, to, c->path, err) < 0)
			return -1;
	}
	return 0;
}
