/* SPDX-License-Identifier: Apache-2.0 */
/* The layer tree of one sandbox: naming states, going back, forking, comparing, committing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/record.h"
#include "lib/events.h"
#include "lib/live.h"
#include "policy/match.h"

/* What is in the open layer becomes part of the tree, so that the head is the present state. */
static int settle(struct live *l, struct cordon_error *err)
{
	struct layer meta = {.kind = LAYER_CHECKPOINT, .exit_code = -1};
	struct changes changes = {0};
	if (!l->box.open[0] || live_open_is_empty(l))
		return 0;
	int r = l->running && l->state ? live_checkpoint(l, &meta, true, &changes, err) : live_turn_over(l, true, &meta, &changes, err);
	changes_free(&changes);
	return r;
}

/* The trees of a new layer look from outside like those that are shown now. */
static int take_tops_over(struct live *l, const char *layer, struct cordon_error *err)
{
	const char *from = l->box.open[0] ? l->box.open : l->box.head;
	for (int i = 0; i < TREE_COUNT; i++) {
		char path[LAYER_ID_LEN + 16];
		struct stat st = {.st_mode = 0755};
		snprintf(path, sizeof(path), "%s/%s", from, layer_tree_names[i]);
		int r = *from                           ? fstatat(l->store.layers_fd, path, &st, AT_SYMLINK_NOFOLLOW)
		        : i == TREE_APP && l->seed >= 0 ? fstat(l->seed, &st)
		                                        : 0;
		snprintf(path, sizeof(path), "%s/%s", layer, layer_tree_names[i]);
		if (r < 0 || fchmodat(l->store.layers_fd, path, st.st_mode & 01777, 0) < 0)
			return err_sys(err, "cannot prepare layer %s", layer);
	}
	return 0;
}

/* A layer without changes, for a name: on the seed, or where the head has a name already. */
static int add_empty(struct live *l, struct layer *meta, struct cordon_error *err)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (layer_begin(&l->store, geteuid(), getegid(), meta->id, err) < 0)
		return -1;
	memcpy(meta->parent, l->box.head, sizeof(meta->parent));
	memcpy(meta->sandbox, l->box.id, sizeof(meta->sandbox));
	meta->created_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	if (take_tops_over(l, meta->id, err) < 0 || layer_seal(&l->store, meta, err) < 0) {
		layer_drop(&l->store, meta->id, NULL);
		return -1;
	}
	const bool on_it = strcmp(l->box.lower, l->box.head) == 0; /* what is mounted shows the same with it */
	memcpy(l->box.head, meta->id, sizeof(l->box.head));
	if (on_it)
		memcpy(l->box.lower, meta->id, sizeof(l->box.lower));
	if (box_save(&l->store, &l->box, err) == 0)
		return 0;
	memcpy(l->box.head, meta->parent, sizeof(l->box.head));
	if (on_it)
		memcpy(l->box.lower, meta->parent, sizeof(l->box.lower));
	layer_drop(&l->store, meta->id, NULL);
	return -1;
}

static int snapshot(struct live *l, const char *name, const char *note, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_layer_ struct layer head = {0};
	if (name && box_check_layer_name(name, err) < 0)
		return -1;
	if (name) {
		char taken[LAYER_ID_LEN + 1];
		if (box_find_layer(&l->store, &l->box, name, taken, NULL) == 0)
			return err_set(err, CORDON_ERR_INPUT, "there is a snapshot '%s' already", name);
	}
	if (settle(l, err) < 0)
		return -1;
	if (!name && !note && l->box.head[0]) { /* the layer that it stands on is the snapshot */
		memcpy(id, l->box.head, sizeof(l->box.head));
		return 0;
	}
	if (l->box.head[0] && layer_read(&l->store, l->box.head, &head, err) < 0)
		return -1;
	if (!l->box.head[0] || head.name || head.kind == LAYER_SNAPSHOT) {
		struct layer meta = {
			.kind = LAYER_SNAPSHOT, .exit_code = -1, .name = (char *)(uintptr_t)name, .note = (char *)(uintptr_t)note};
		if (add_empty(l, &meta, err) < 0)
			return -1;
		memcpy(id, meta.id, sizeof(meta.id));
		return 0;
	}
	struct layer named = head;
	named.kind = LAYER_SNAPSHOT;
	named.name = (char *)(uintptr_t)name;
	if (note)
		named.note = (char *)(uintptr_t)note;
	memcpy(id, head.id, sizeof(head.id));
	return layer_update(&l->store, &named, err);
}

/* One record of what was done to the tree. target: a layer or a sandbox; "" is the seed. */
static int record(const struct live *l, const char *action, const char *target, const struct audit_field *detail, struct cordon_error *err)
{
	return events_tree(l->store.home, l->box.id, action, *target ? target : "seed", detail, err);
}

int live_snapshot(struct live *l, const char *name, const char *note, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	const struct audit_field detail[] = {AUDIT_TEXT("name", name), AUDIT_TEXT("note", note), AUDIT_END};
	return snapshot(l, name, note, id, err) < 0 ? -1 : record(l, "snapshot", id, detail, err);
}

static int restore(struct live *l, const char *layer, struct cordon_error *err)
{
	struct strlist check = {0};
	char old[LAYER_ID_LEN + 1];
	int r = layer_chain(&l->store, layer, TREE_APP, &check, err); /* all of it is there and sound */
	strlist_free(&check);
	if (r < 0 || settle(l, err) < 0)
		return -1;
	memcpy(old, l->box.head, sizeof(old));
	if (l->running && l->state) {
		if (live_put_back(l, layer, NULL, err) == 0)
			return 0;
		live_put_back(l, old, NULL, NULL); /* all of it or nothing, as far as a disk that may be full allows it */
		return -1;
	}
	snprintf(l->box.head, sizeof(l->box.head), "%s", layer);
	if (live_remount(l, err) < 0) {
		memcpy(l->box.head, old, sizeof(old));
		return -1;
	}
	if (box_save_soon(&l->store, &l->box, err) == 0) {
		live_remount_keep(l);
		return 0;
	}
	memcpy(l->box.head, old, sizeof(old));
	live_remount_back(l);
	return -1;
}

static int copy_lists(struct box *to, const struct box *from, struct cordon_error *err)
{
	return strlist_copy(&to->labels, &from->labels, err) < 0 || strlist_copy(&to->env, &from->env, err) < 0 ||
	                       strlist_copy(&to->policy, &from->policy, err) < 0 || strlist_copy(&to->mounts, &from->mounts, err) < 0
	               ? -1
	               : 0;
}

int live_fork(struct live *l, const char *layer, const char *name, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_box_ struct box b = {.ttl_ms = l->box.ttl_ms, .idle_ms = l->box.idle_ms, .uid = l->box.uid, .gid = l->box.gid};
	if (!layer && settle(l, err) < 0)
		return -1;
	snprintf(b.head, sizeof(b.head), "%s", layer ? layer : l->box.head);
	snprintf(b.name, sizeof(b.name), "%s", name ? name : "");
	if ((l->box.workspace && !(b.workspace = strdup(l->box.workspace))) || (l->box.copy && !(b.copy = strdup(l->box.copy))) ||
	    (l->box.image && !(b.image = strdup(l->box.image))) || (l->box.image_id && !(b.image_id = strdup(l->box.image_id))))
		return err_sys(err, "strdup");
	if (copy_lists(&b, &l->box, err) < 0 || box_create(&l->store, &b, err) < 0)
		return -1;
	memcpy(id, b.id, sizeof(b.id));
	const struct audit_field detail[] = {AUDIT_TEXT("from", b.head[0] ? b.head : "seed"), AUDIT_TEXT("name", name), AUDIT_END};
	return record(l, "fork", id, detail, err);
}

int live_restore(struct live *l, const char *layer, struct cordon_error *err)
{
	return restore(l, layer, err) < 0 ? -1 : record(l, "restore", layer, NULL, err);
}

/* ---- groups of execs --------------------------------------------------------------------------------------------------------- */

#define SEED "-" /* in the record, where the head is the seed itself */

int live_tx_begin(struct live *l, struct cordon_error *err)
{
	if (settle(l, err) < 0 || strlist_add(&l->box.tx, l->box.head[0] ? l->box.head : SEED, err) < 0)
		return -1;
	if (box_save(&l->store, &l->box, err) == 0)
		return record(l, "tx-begin", l->box.head, NULL, err);
	free(l->box.tx.items[--l->box.tx.count]);
	l->box.tx.items[l->box.tx.count] = NULL;
	return -1;
}

/* The innermost one is over, once `end` is done with the head it began at; if that fails, it is not. */
static int tx_end(struct live *l, int (*end)(struct live *l, const char *head, struct cordon_error *err), struct cordon_error *err)
{
	const size_t last = l->box.tx.count - 1;
	if (l->box.tx.count == 0)
		return err_set(err, CORDON_ERR_INPUT, "no transaction is open in this sandbox");
	char *head = l->box.tx.items[last];
	l->box.tx.items[last] = NULL;
	l->box.tx.count--;
	int r = end(l, strcmp(head, SEED) == 0 ? "" : head, err);
	if (r == 0) {
		free(head);
		return 0;
	}
	l->box.tx.items[last] = head;
	l->box.tx.count++;
	return -1;
}

static int save_only(struct live *l, const char *head, struct cordon_error *err)
{
	(void)head;
	return box_save(&l->store, &l->box, err);
}

int live_tx_commit(struct live *l, struct cordon_error *err)
{
	return tx_end(l, save_only, err) < 0 ? -1 : record(l, "tx-commit", l->box.head, NULL, err);
}

int live_tx_rollback(struct live *l, struct cordon_error *err)
{
	return tx_end(l, restore, err) < 0 ? -1 : record(l, "tx-rollback", l->box.head, NULL, err);
}

/* ---- comparing and committing ------------------------------------------------------------------------------------------------ */

static int compare(struct live *l, const char *a, const char *b, unsigned flags, struct view *before, struct view *after,
                   struct changes *changes, struct cordon_error *err)
{
	const char *open = !b && l->box.open[0] ? l->box.open : NULL;
	*before = *after = (struct view){0};
	if (open && live_copies(l)) {
		int r = live_copy_present(l, err);
		if (r < 0 && l->lock >= 0)
			return -1;
		open = r < 0 ? NULL : l->present; /* whoever only looks may meet it while it is made: then the head is what is known */
	}
	if (view_open(&l->store, a, NULL, TREE_APP, l->seed, before, err) < 0 || view_open(&l->store,
	                                                                                   b      ? b
	                                                                                   : open ? l->box.lower
	                                                                                          : l->box.head,
	                                                                                   open, TREE_APP, l->seed, after, err) < 0)
		return -1;
	return changes_between_with(before, after, flags, changes, err);
}

int live_compare(struct live *l, const char *a, const char *b, struct view *before, struct view *after, struct changes *changes,
                 struct cordon_error *err)
{
	return compare(l, a, b, 0, before, after, changes, err);
}

/* The oldest layer that changed a path knows what it was; our own commits since then know better. */
static int gather_identities(struct live *l, int dir, struct identities **base, struct identities **committed, struct cordon_error *err)
{
	struct layer_list all = {0};
	int r = identities_load(dir, "committed", committed, err);
	if (r == 0)
		r = layer_history(&l->store, "", l->box.head, &all, err);
	for (size_t i = all.count; r == 0 && i > 0; i--) { /* the list begins with the oldest */
		const char *id = all.items[i - 1].layer.id;
		_cleanup_fd_ int layer = openat(l->store.layers_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = layer < 0 ? err_sys(err, "cannot open layer %s", id) : identities_merge(*base, layer, "base", err);
	}
	layer_list_free(&all);
	return r;
}

struct known {
	struct identities *base, *committed;
};

static struct identity expected(void *arg, const char *path)
{
	const struct known *k = arg;
	struct identity own = identities_get(k->committed, path);
	return own.known ? own : identities_get(k->base, path);
}

/* Room for `committed`, which can be written only after the fact: if there is none, better not begin. */
static int take_room(int dir, const struct identities *committed, const struct changes *changes, char name[RECORD_TEMP_MAX],
                     struct cordon_error *err)
{
	uint64_t bytes = 4096 + identities_bytes(committed);
	for (size_t i = 0; i < changes->count; i++)
		bytes += IDENTITY_BYTES + 3 * strlen(changes->items[i].path);
	return record_temp_name(name, RECORD_TEMP, err) < 0 ? -1 : room_take(dir, name, bytes, err);
}

/* The host's files are what they are; if this cannot be noted, a later commit takes them for somebody else's. */
static int note_committed(int dir, struct identities *committed, const struct commit_report *report, struct cordon_error *err)
{
	if (identities_merge_from(committed, report->written, err) == 0 && identities_save(committed, dir, "committed", err) == 0)
		return 0;
	return err_wrap(err, "everything was committed, but that could not be noted");
}

/* What could not be masked, since it was not there when the command began, is held back here. */
const char *live_forbids(const void *policy, const char *path)
{
	_cleanup_free_ char *inside = NULL;
	struct policy_verdict verdict;
	if (asprintf(&inside, "/app/%s", path) < 0) {
		inside = NULL;
		return "out of memory";
	}
	policy_match_path(policy, inside, ACCESS_WRITE, &verdict);
	if (verdict.allowed)
		return NULL;
	return strcmp(verdict.key, "files.deny") == 0     ? "files.deny of the policy names it"
	       : strcmp(verdict.key, "files.hidden") == 0 ? "files.hidden of the policy keeps it out"
	                                                  : "files.write of the policy does not cover it";
}

static int commit(struct live *l, const struct live_commit *c, struct commit_report *report, struct cordon_error *err)
{
	_cleanup_view_ struct view before = {0}, after = {0};
	struct changes changes = {0};
	struct known known = {0};
	char room[RECORD_TEMP_MAX] = "";
	int result = -1;
	struct cordon_policy *policy = NULL;
	*report = (struct commit_report){0};
	if (l->seed < 0) {
		err_set(err, CORDON_ERR_INPUT, "this sandbox was not seeded from a directory, so there is nothing to commit to");
		return err_hint(err, "copy files out with: cordon cp ID:/app/FILE .");
	}
	_cleanup_fd_ int dir = box_open_dir(&l->store, l->box.id, err);
	policy = live_policy(&l->box, err);
	if (!policy || dir < 0 || settle(l, err) < 0 || identities_new(&known.base, err) < 0 ||
	    gather_identities(l, dir, &known.base, &known.committed, err) < 0 ||
	    compare(l, "", l->box.head, CHANGES_FILE_TIMES, &before, &after, &changes, err) < 0 ||
	    (!(c->flags & COMMIT_DRY_RUN) && take_room(dir, known.committed, &changes, room, err) < 0))
		goto out;
	const struct commit_request request = {.home = l->store.home,
	                                       .target = l->seed,
	                                       .target_path = l->box.workspace,
	                                       .before = &before,
	                                       .after = &after,
	                                       .changes = &changes,
	                                       .expected = expected,
	                                       .arg = &known,
	                                       .paths = c->paths,
	                                       .force = c->force,
	                                       .flags = c->flags,
	                                       .forbids = live_forbids,
	                                       .policy = policy,
	                                       .progress = c->progress,
	                                       .user = c->user};
	result = commit_run(&request, report, err);
	if (room[0])
		unlinkat(dir, room, 0);
	if (result == 0 && !(c->flags & COMMIT_DRY_RUN) && report->written)
		result = note_committed(dir, known.committed, report, err);
out:
	changes_free(&changes);
	identities_free(known.base);
	identities_free(known.committed);
	cordon_policy_free(policy);
	return result;
}

int live_commit(struct live *l, const struct live_commit *c, struct commit_report *report, struct cordon_error *err)
{
	int r = commit(l, c, report, err);
	if (r < 0 || (c->flags & COMMIT_DRY_RUN))
		return r;
	return events_commit(l->store.home, l->box.id, l->box.workspace, r, report, err) < 0 ? -1 : r;
}

int live_discard(struct live *l, struct cordon_error *err)
{
	return restore(l, "", err) < 0 ? -1 : record(l, "discard", "", NULL, err);
}
