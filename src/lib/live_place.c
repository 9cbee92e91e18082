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
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/copy.h"
#include "layers/putback.h"
#include "layers/spare.h"
#include "lib/live.h"

void live_forget_checkpoint(struct live *l)
{
	for (size_t i = 0; i < TREE_COUNT; i++)
		tree_index_free(&l->last[i]);
	l->last_layer[0] = '\0';
}

static int open_tree(const struct live *l, const char *layer, enum layer_tree tree)
{
	char path[LAYER_ID_LEN + 16];
	snprintf(path, sizeof(path), "%s/%s", layer, layer_tree_names[tree]);
	return openat(l->store.layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int scan(struct live *l, struct tree_index now[TREE_COUNT], struct cordon_error *err)
{
	for (int i = 0; i < TREE_COUNT; i++) {
		_cleanup_fd_ int dir = open_tree(l, l->box.open, (enum layer_tree)i);
		if (dir < 0)
			return err_sys(err, "cannot open the open layer");
		if (tree_index_scan(dir, &now[i], err) < 0)
			return -1;
	}
	return 0;
}

static int copy_trees(struct live *l, const struct tree_index now[TREE_COUNT], const char *id, struct cordon_error *err)
{
	for (int i = 0; i < TREE_COUNT; i++) {
		_cleanup_fd_ int from = open_tree(l, l->box.open, (enum layer_tree)i), to = open_tree(l, id, (enum layer_tree)i);
		_cleanup_fd_ int sealed = l->last_layer[0] ? open_tree(l, l->last_layer, (enum layer_tree)i) : -1;
		if (from < 0 || to < 0)
			return err_sys(err, "cannot open the layer");
		if (tree_checkpoint(from, &now[i], to, sealed, &l->last[i], err) < 0)
			return -1;
	}
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
	bool same = true;
	if (scan(l, now, err) < 0)
		return -1;
	for (int i = 0; i < TREE_COUNT; i++)
		same = same && tree_index_equal(&now[i], &l->last[i]);
	if (same)
		return 0;
	if (live_begin_layer(l, id, err) < 0)
		return -1;
	if (copy_trees(l, now, id, err) == 0)
		return 0;
	layer_drop(&l->store, id, NULL);
	id[0] = '\0';
	return -1;
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
		r = live_describe(l, id, birth_ns, changes, err) < 0 || live_seal(l, meta, id, changes, err) < 0 ? -1 : 0;
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

static int put_back_tree(struct live *l, enum layer_tree tree, const char *layer, const struct strlist *spare, struct cordon_error *err)
{
	_cleanup_view_ struct view now = {0}, want = {0};
	_cleanup_fd_ int open = open_tree(l, l->box.open, tree);
	struct changes changes = {0};
	struct layer_ids ids;
	const int seed = tree == TREE_APP ? l->seed : -1, merged = l->state->trees[tree];
	if (open < 0 || merged < 0)
		return err_sys(err, "cannot open the sandbox's tree");
	int r = find_ids(l, merged, open, &ids, err);
	if (r == 0)
		r = view_open(&l->store, l->box.lower, l->box.open, tree, seed, &now, err);
	if (r == 0)
		r = view_open(&l->store, layer, NULL, tree, seed, &want, err);
	if (r == 0)
		r = changes_between_with(&now, &want, CHANGES_FILE_TIMES | CHANGES_DIR_TIMES, &changes, err);
	if (r == 0 && tree == TREE_APP)
		r = spare_changes(&changes, spare, NULL, err);
	if (r == 0)
		r = putback(merged, &want, &changes, &ids, err);
	changes_free(&changes);
	return r;
}

int live_put_back(struct live *l, const char *target, const struct strlist *spare, struct cordon_error *err)
{
	struct tree_index now[TREE_COUNT] = {0};
	char layer[LAYER_ID_LEN + 1]; /* it may be the head's own memory */
	int r = 0;
	snprintf(layer, sizeof(layer), "%s", target);
	if (l->backend->freeze(l->ctx, l->state, true, err) < 0)
		return -1;
	const bool copied = live_copies(l);
	if (copied)
		r = live_copy_put_back(l, layer, spare, err);
	for (int i = 0; r == 0 && i < TREE_COUNT && !copied; i++)
		r = put_back_tree(l, (enum layer_tree)i, layer, spare, err);
	if (r == 0 && !copied)
		r = scan(l, now, err);
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
