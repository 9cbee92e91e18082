/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "layers/owners.h"
#include "lib/events.h"
#include "sandbox/watch_parts.h"

const char *const live_outcome_names[] = {"none", "committed", "kept", "rolled_back"};

int64_t live_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

int live_create(const char *home, struct box *b, struct cordon_error *err)
{
	struct store s;
	if (store_open(&s, home, err) < 0)
		return -1;
	int r = box_create(&s, b, err);
	store_close(&s);
	const struct audit_field detail[] = {AUDIT_TEXT("name", b->name[0] ? b->name : NULL), AUDIT_TEXT("image", b->image),
	                                     AUDIT_TEXT("workspace", b->workspace),           AUDIT_TEXTS("policy", b->policy.items),
	                                     AUDIT_TEXTS("mounts", b->mounts.items),          AUDIT_END};
	return r < 0 ? -1 : events_tree(home, b->id, "create", b->id, detail, err);
}

int live_remove(struct store *s, const char *id, const char *why, struct cordon_error *err)
{
	char removed[LAYER_ID_LEN + 1]; /* the caller's may go with the record */
	snprintf(removed, sizeof(removed), "%s", id);
	return box_remove(s, id, err) < 0 ? -1 : events_tree(s->home, removed, why, removed, NULL, err);
}

/* A process that was killed left its open layer: what an exec had done by then is not lost, but it does not count either. */
static int recover_open(struct live *l, struct cordon_error *err)
{
	struct layer meta = {.kind = LAYER_FAILED, .exit_code = -1, .note = (char[]){"interrupted"}};
	struct changes changes = {0};
	_cleanup_layer_ struct layer sealed = {0};
	char open[sizeof(l->box.open)];
	memcpy(open, l->box.open, sizeof(open));
	if (!open[0])
		return 0;
	int r = 0;
	/* sealed, and the record could not be saved after that: it stays in the history, where it is */
	if (layer_read(&l->store, open, &sealed, NULL) == 0)
		r = l->box.copy ? full_retire(&l->store, open, err) : 0;
	else if (live_open_is_empty(l))
		r = layer_drop(&l->store, open, err);
	else
		r = live_turn_over(l, false, &meta, &changes, err);
	changes_free(&changes);
	if (r < 0 && err && err->code == CORDON_ERR_NOT_FOUND)
		r = 0;
	l->box.open[0] = '\0';
	if (r < 0 || box_save(&l->store, &l->box, err) < 0)
		return -1;
	if (l->box.copy) /* it may have been killed on the way to the next layer, which has the copy then */
		store_collect(&l->store, live_clock_ns() / 1000000, NULL);
	return 0;
}

/* What its own history takes; what it shares with others counts for whoever made it. */
static int count_used(struct live *l, struct cordon_error *err)
{
	struct layer_list all = {0};
	if (layer_history(&l->store, l->box.id, l->box.head, &all, err) < 0)
		return -1;
	l->used = 0;
	for (size_t i = 0; i < all.count; i++)
		if (strcmp(all.items[i].layer.sandbox, l->box.id) == 0)
			l->used += all.items[i].layer.disk;
	layer_list_free(&all);
	return 0;
}

/* Past its limit, what failed commands left to be looked at goes first. */
static int drop_failed(struct live *l, struct cordon_error *err)
{
	struct layer_list all = {0};
	if (layer_history(&l->store, l->box.id, l->box.head, &all, err) < 0)
		return -1;
	int r = 0;
	for (size_t i = 0; r == 0 && i < all.count && l->used >= l->policy->limits.disk; i++) {
		const struct layer *f = &all.items[i].layer;
		if (f->kind != LAYER_FAILED || f->name || strcmp(f->sandbox, l->box.id) != 0 || strcmp(f->id, l->box.head) == 0)
			continue;
		r = layer_drop(&l->store, f->id, err);
		l->used -= MIN(l->used, f->disk);
	}
	layer_list_free(&all);
	return r;
}

int live_open(struct live *l, const char *home, const char *what, const char *who, bool wait, struct cordon_error *err)
{
	char id[sizeof(l->box.id)];
	*l = (struct live){.lock = -1, .seed = -1};
	if (store_open(&l->store, home, err) < 0)
		return -1;
	if (box_find(&l->store, what, &l->box, err) < 0)
		goto fail;
	memcpy(id, l->box.id, sizeof(id));
	l->lock = box_lock(&l->store, id, who, wait, err);
	if (l->lock < 0)
		goto fail;
	box_free(&l->box); /* whoever held the lock may have changed it */
	if (box_load(&l->store, id, &l->box, err) < 0)
		goto fail;
	if (l->box.workspace) {
		l->seed = open(l->box.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (l->seed < 0) {
			err_sys(err, "workspace %s", l->box.workspace);
			goto fail;
		}
		if (commit_recover(l->seed, l->box.workspace, l->store.home, &l->recovered, err) < 0)
			goto fail;
	}
	if (count_used(l, err) < 0 || recover_open(l, err) < 0)
		goto fail;
	return 0;
fail:
	live_close(l);
	return -1;
}

static void remove_retired(struct live *l)
{
	if (l->retired[0])
		layer_remove_retired(&l->store, l->retired);
	l->retired[0] = '\0';
}

void live_close(struct live *l)
{
	live_forget_checkpoint(l);
	live_copy_forget_present(l);
	remove_retired(l);
	if (l->next[0])
		layer_drop(&l->store, l->next, NULL);
	cleanup_fd(&l->seed);
	cleanup_fd(&l->lock);
	for (size_t i = 0; l->mounts && i < l->box.mounts.count; i++) {
		free((void *)(uintptr_t)l->mounts[i].host);
		free((void *)(uintptr_t)l->mounts[i].guest);
	}
	free(l->mounts);
	box_free(&l->box);
	store_close(&l->store);
	*l = (struct live){.lock = -1, .seed = -1};
}

/* ---- the stacks -------------------------------------------------------------------------------------------------------------- */

static int make_layer(struct live *l, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	uid_t owner = geteuid();
	gid_t group = getegid();
	struct stat st;
	if (l->seed >= 0 && geteuid() == 0 && fstat(l->seed, &st) == 0) {
		owner = st.st_uid;
		group = st.st_gid;
	}
	if (layer_begin(&l->store, owner, group, id, err) < 0)
		return -1;
	if (!live_layered(l) || layer_add_root(&l->store, id, err) == 0)
		return 0;
	layer_drop(&l->store, id, NULL);
	return -1;
}

bool live_layered(const struct live *l)
{
	return l->policy && l->policy->root == ROOT_LAYERED;
}

int live_begin_layer(struct live *l, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	if (l->next[0])
		memcpy(id, l->next, sizeof(l->next));
	else if (make_layer(l, id, err) < 0)
		return -1;
	l->next[0] = '\0';
	l->birth_ns = live_clock_ns();
	return 0;
}

void live_prepare(struct live *l)
{
	remove_retired(l);
	if (!l->next[0] && !l->box.copy && make_layer(l, l->next, NULL) < 0)
		l->next[0] = '\0'; /* then it is made when it is needed, and what is wrong comes out */
}

static bool trees_are_empty(int dir)
{
	for (int i = 0; i < TREE_ALL; i++)
		if (!tree_is_empty(dir, layer_tree_names[i]) &&
		    (i < TREE_COUNT || faccessat(dir, layer_tree_names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0))
			return false;
	return true;
}

bool live_open_is_empty(const struct live *l)
{
	if (live_copies(l))
		return live_copy_is_empty(l);
	if (strcmp(l->box.lower, l->box.head) != 0) /* the head is a copy of what it held: empty is not the same as unchanged */
		return false;
	_cleanup_fd_ int dir = openat(l->store.layers_fd, l->box.open, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 || (trees_are_empty(dir) && live_tops_are_fresh(l));
}

int live_describe(struct live *l, const char *layer, int64_t birth_ns, struct changes *out, struct cordon_error *err)
{
	_cleanup_view_ struct view before = {0}, after = {0};
	_cleanup_fd_ int dir = openat(l->store.layers_fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, "cannot open layer %s", layer);
	if (view_open(&l->store, l->box.head, NULL, TREE_APP, l->seed, &before, err) < 0 ||
	    view_open(&l->store, l->box.lower, layer, TREE_APP, l->seed, &after, err) < 0 ||
	    changes_between_with(&before, &after, CHANGES_FILE_TIMES, out, err) < 0)
		return -1;
	int r = l->seed >= 0 ? identities_record(dir, l->seed, out, birth_ns, err) : 0;
	changes_forget_times(out); /* a commit cares, people do not */
	return r;
}

uint64_t live_tree_bytes(struct live *l, const char *layer, enum layer_tree tree)
{
	char path[LAYER_ID_LEN + 16];
	snprintf(path, sizeof(path), "%s/%s", layer, layer_tree_names[tree]);
	_cleanup_fd_ int dir = openat(l->store.layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ struct watch_walk *walk = dir < 0 ? NULL : malloc(sizeof(*walk));
	if (!walk)
		return 0;
	watch_walk_start(walk, (const int[WATCH_TREES]){dir, -1, -1});
	while (!watch_walk_step(walk, UINT_MAX))
		;
	return walk->bytes;
}

static void fill_meta(struct live *l, struct layer *meta, const char *id, const struct changes *changes)
{
	memcpy(meta->id, id, sizeof(meta->id));
	memcpy(meta->parent, l->box.head, sizeof(meta->parent));
	if (strcmp(l->box.lower, l->box.head) != 0)
		snprintf(meta->over, sizeof(meta->over), "%s", l->box.lower[0] ? l->box.lower : LAYER_OVER_SEED);
	memcpy(meta->sandbox, l->box.id, sizeof(meta->sandbox));
	meta->created_ms = live_clock_ns() / 1000000;
	meta->changes = changes->count;
	const uint64_t home = live_tree_bytes(l, id, TREE_HOME) + live_tree_bytes(l, id, TREE_ROOT);
	meta->bytes = changes->bytes + home;
	meta->disk = live_tree_bytes(l, id, TREE_APP) + home;
	l->used += meta->disk;
}

int live_seal(struct live *l, struct layer *meta, const char *id, const struct changes *changes, struct cordon_error *err)
{
	fill_meta(l, meta, id, changes);
	if (layer_seal(&l->store, meta, err) == 0) {
		if (l->box.copy) /* what stays of it only takes room */
			full_retire(&l->store, id, NULL);
		return 0;
	}
	l->used -= meta->disk;
	return -1;
}

/* Mounts the new open layer on `below` and, not yet sealed, `under`. While the sandbox is stopped there is nothing to mount. */
static int mount_next(struct live *l, const char *below, const char *under, const char *next, struct cordon_error *err)
{
	char old[LAYER_ID_LEN + 1];
	if (!l->state)
		return 0;
	if (live_layered(l)) { /* the root itself cannot be exchanged: it is started anew */
		l->lost = true;
		return 0;
	}
	memcpy(old, l->box.open, sizeof(old));
	memcpy(l->box.open, next, sizeof(old));
	int r = live_mount(l, l->policy, below, under, false, err);
	memcpy(l->box.open, old, sizeof(old));
	if (r < 0)
		l->lost = true; /* nothing is mounted there any more: no command may run in it */
	return r;
}

/* What somebody who was root inside gave to others, in the workspace. */
static int give_back(const struct live *l, const char *layer, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int dir = openat(l->store.layers_fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (geteuid() != 0 || dir < 0 || faccessat(dir, layer_tree_names[TREE_ROOT], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (fstatat(dir, layer_tree_names[TREE_APP], &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot look at layer %s", layer);
	return tree_give_back(dir, layer_tree_names[TREE_APP], st.st_uid, st.st_gid, err);
}

/*
 * The order makes it safe to be killed anywhere: the record names the old layer as the open one until the old one is sealed and the
 * new one is mounted; a layer that is open in the record but not sealed is what recover_open() finds.
 */
int live_turn_over(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err)
{
	char old[LAYER_ID_LEN + 1], next[LAYER_ID_LEN + 1] = "";
	const int64_t birth_ns = l->birth_ns;
	memcpy(old, l->box.open, sizeof(old));
	if (live_copies(l))
		return live_copy_turn_over(l, keep, meta, changes, err);
	if (l->sheds && (keep || !l->state || !l->policy->transaction.preserve.count))
		return live_turn_over_shed(l, keep, meta, changes, err);
	const bool mounted = l->state && !live_layered(l);
	if (give_back(l, old, err) < 0)
		return -1;
	if (live_describe_closed(l, old, birth_ns, changes, err) < 0 || (mounted && live_begin_layer(l, next, err) < 0))
		return -1;
	if ((!keep && mounted && live_preserve(l, old, next, changes, err) < 0) ||
	    mount_next(l, keep ? l->box.lower : l->box.head, keep ? old : NULL, next, err) < 0) {
		if (next[0])
			layer_drop(&l->store, next, NULL);
		return -1;
	}
	if (live_seal(l, meta, old, changes, err) < 0) {
		/* it is still the open one, so it is the one that has to be mounted */
		if (next[0] && mount_next(l, l->box.lower, NULL, old, NULL) == 0)
			layer_drop(&l->store, next, NULL);
		return -1;
	}
	if (keep)
		memcpy(l->box.head, old, sizeof(old));
	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	memcpy(l->box.open, next, sizeof(next));
	live_forget_checkpoint(l);
	return keep ? box_save(&l->store, &l->box, err) : box_save_soon(&l->store, &l->box, err);
}

int live_remount(struct live *l, struct cordon_error *err)
{
	char next[LAYER_ID_LEN + 1];
	l->replaced[0] = '\0';
	if (!l->state)
		return 0;
	if (l->box.copy)
		return live_copy_put_back(l, l->box.head, NULL, err);
	next[0] = '\0';
	if (!live_layered(l) && live_begin_layer(l, next, err) < 0)
		return -1;
	if (mount_next(l, l->box.head, NULL, next, err) < 0) {
		layer_drop(&l->store, next, NULL);
		return -1;
	}
	memcpy(l->replaced, l->box.open, sizeof(l->replaced));
	memcpy(l->replaced_lower, l->box.lower, sizeof(l->replaced_lower));
	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	memcpy(l->box.open, next, sizeof(next));
	live_forget_checkpoint(l);
	return 0;
}

/* What holds nothing can be removed later: nobody waits for its blocks. */
static bool holds_nothing(const struct live *l, const char *layer)
{
	_cleanup_fd_ int dir = openat(l->store.layers_fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && trees_are_empty(dir);
}

void live_remount_keep(struct live *l)
{
	if (!l->replaced[0])
		return;
	if (!holds_nothing(l, l->replaced)) {
		layer_drop(&l->store, l->replaced, NULL);
	} else if (layer_retire(&l->store, l->replaced, NULL) == 0) {
		remove_retired(l);
		memcpy(l->retired, l->replaced, sizeof(l->retired));
	}
	l->replaced[0] = '\0';
}

void live_remount_back(struct live *l)
{
	char next[LAYER_ID_LEN + 1];
	if (!l->replaced[0]) {
		live_remount(l, NULL);
		return;
	}
	memcpy(next, l->box.open, sizeof(next));
	if (mount_next(l, l->replaced_lower, NULL, l->replaced, NULL) == 0)
		layer_drop(&l->store, next, NULL);
	memcpy(l->box.open, l->replaced, sizeof(l->box.open));
	memcpy(l->box.lower, l->replaced_lower, sizeof(l->box.lower));
	l->replaced[0] = '\0';
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

int live_stop(struct live *l, struct cordon_error *err)
{
	struct layer meta = {.kind = LAYER_CHECKPOINT, .exit_code = -1};
	struct changes changes = {0};
	l->state = NULL;
	if (!l->box.open[0])
		return 0;
	int r = 0;
	if (live_open_is_empty(l)) {
		r = layer_drop(&l->store, l->box.open, err);
		l->box.open[0] = '\0';
		if (r == 0)
			r = box_save(&l->store, &l->box, err);
	} else {
		r = live_turn_over(l, true, &meta, &changes, err);
	}
	changes_free(&changes);
	return r;
}

/* ---- transactions ------------------------------------------------------------------------------------------------------------ */

void live_tx_free(struct live_tx *tx)
{
	changes_free(&tx->changes);
	strlist_free(&tx->services);
}

int live_exec_begin(struct live *l, bool own, struct live_tx *tx, struct cordon_error *err)
{
	char limit[32];
	*tx = (struct live_tx){.own = own};
	if (live_layered(l) && !own) {
		err_set(err, CORDON_ERR_INPUT,
		        "with root: layered one command runs at a time: its root cannot be kept or rolled back beside others");
		return err_hint(
			err,
			"services and --parallel need a sandbox with a read-only root: cordon image commit makes an image of this one's");
	}
	if (l->used >= l->policy->limits.disk && drop_failed(l, err) < 0)
		return -1;
	if (l->used >= l->policy->limits.disk) {
		err_set(err, CORDON_ERR_DENIED, "the layers of this sandbox have reached its disk limit of %s",
		        units_format_size(l->policy->limits.disk, limit));
		return err_hint(err, "fork what you need and remove the rest, or create it with a larger --disk");
	}
	/* what services or parallel execs wrote before belongs to "before" */
	if (own && !live_open_is_empty(l)) {
		struct layer meta = {.kind = LAYER_CHECKPOINT, .exit_code = -1};
		struct changes changes = {0};
		int r = l->running ? live_checkpoint(l, &meta, true, &changes, err) : live_turn_over(l, true, &meta, &changes, err);
		changes_free(&changes);
		if (r < 0)
			return -1;
	}
	memcpy(tx->before, l->box.head, sizeof(tx->before));
	memcpy(tx->after, l->box.head, sizeof(tx->after));
	l->running++;
	return 0;
}

/* Past some depth a chain is made flat. Off the caller's path would be better still, but it is rare: once in many execs, and links only. */
static void flatten(struct live *l)
{
	struct strlist chain = {0};
	if (layer_chain(&l->store, l->box.head, TREE_APP, &chain, NULL) == 0 && chain.count > LAYER_FLATTEN_DEPTH)
		layer_flatten(&l->store, l->box.head, NULL); /* a longer chain is slower, not wrong */
	strlist_free(&chain);
}

static void tx_done(struct live *l, struct live_tx *tx, const char *layer, bool failed, bool keep)
{
	snprintf(tx->layer, sizeof(tx->layer), "%s", layer);
	memcpy(tx->after, l->box.head, sizeof(tx->after));
	tx->outcome = !keep ? OUTCOME_ROLLED_BACK : failed ? OUTCOME_KEPT : OUTCOME_COMMITTED;
	flatten(l);
}

int live_exec_end(struct live *l, struct live_tx *tx, bool failed, bool keep, const char *command, int exit_code, struct cordon_error *err)
{
	l->running--;
	if (!tx->own || live_open_is_empty(l))
		return 0;
	struct layer meta = {.kind = keep ? LAYER_EXEC : LAYER_FAILED, .exit_code = exit_code, .command = (char *)(uintptr_t)command};
	if (l->running == 0 || !l->state) {
		if (live_turn_over(l, keep, &meta, &tx->changes, err) < 0)
			return -1;
		if (!meta.id[0])
			return 0; /* what is in the open layer was there before */
	} else {
		if (live_checkpoint(l, &meta, keep, &tx->changes, err) < 0)
			return -1;
		if (!meta.id[0])
			return 0;
		if (!keep && live_put_back(l, l->box.head, &l->policy->transaction.preserve, err) < 0)
			return -1;
	}
	tx_done(l, tx, meta.id, failed, keep);
	return 0;
}

int live_exec_end_stopped(struct live *l, struct live_tx *tx, bool failed, bool keep, const char *command, int exit_code,
                          struct cordon_error *err)
{
	struct layer meta = {.kind = keep ? LAYER_EXEC : LAYER_FAILED, .exit_code = exit_code, .command = (char *)(uintptr_t)command};
	l->state = NULL;
	changes_free(&tx->changes);
	tx->changes = (struct changes){0};
	if (!l->box.open[0] || live_turn_over(l, keep, &meta, &tx->changes, err) < 0)
		return -1;
	if (!meta.id[0])
		return 0;
	tx_done(l, tx, meta.id, failed, keep);
	return 0;
}
