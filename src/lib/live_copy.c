/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where overlayfs cannot write: the sandbox works on a full copy (layers/full.h), which is the same one from its start to its end. What an exec changed is
 * taken from it as a layer, and a rollback or a restore puts files back in it. Everything else, the tree of layers above all, is as it is with overlayfs.
 *
 * Between two execs the copy is what box.lower shows, and box.lower is the head. While an open layer has a copy, its own trees are not final; so the copy
 * goes to the next layer before this one is sealed, and whoever finds a layer that is open, has no copy and was not sealed can take its trees as they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/full.h"
#include "lib/live.h"

#define DEFAULT_USER 1000u /* inside, where ids can be chosen: sandbox/idmap.h */

int live_copy_choice(enum live_choice *out, struct cordon_error *err)
{
	static const char *const names[] = {[CHOICE_AUTO] = "", [CHOICE_OVERLAY] = "overlay", [CHOICE_COPY] = "copy"};
	const char *want = getenv("CORDON_LAYERS");
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(want ? want : "", names[i]) == 0) {
			*out = (enum live_choice)i;
			return 0;
		}
	return err_set(err, CORDON_ERR_INPUT, "CORDON_LAYERS=%.40s: must be overlay or copy", want);
}

bool live_copies(const struct live *l)
{
	struct store s = l->store;
	return l->box.copy && l->box.open[0] && full_exists(&s, l->box.open);
}

/* ---- the copy and what it is compared with ----------------------------------------------------------------------------------- */

struct copy {
	struct full full;
	struct view head[TREE_COUNT];
};

static void views_close(struct view views[TREE_COUNT])
{
	for (int i = 0; i < TREE_COUNT; i++)
		view_close(&views[i]);
}

static void copy_close(struct copy *c)
{
	views_close(c->head);
}
#define _cleanup_copy_ __attribute__((cleanup(copy_close)))

static int views_open(struct live *l, const char *head, struct view out[TREE_COUNT], struct cordon_error *err)
{
	for (int i = 0; i < TREE_COUNT; i++)
		if (view_open(&l->store, head, NULL, (enum layer_tree)i, i == TREE_APP ? l->seed : -1, &out[i], err) < 0) {
			views_close(out);
			return -1;
		}
	return 0;
}

/* Whose the copy is on disk: as on the host, if mounts can map that, else the sandbox's own. */
static int find_ids(struct live *l, const char *layer, struct layer_ids *out, struct cordon_error *err)
{
	struct stat shown, disk = {.st_uid = geteuid(), .st_gid = getegid()};
	*out = (struct layer_ids){0};
	if (geteuid() != 0)
		return 0;
	_cleanup_fd_ int tree = full_open(&l->store, layer, TREE_APP, err);
	if (tree < 0)
		return -1;
	if (fstat(tree, &shown) < 0 || (l->seed >= 0 && fstat(l->seed, &disk) < 0))
		return err_sys(err, "cannot look at the copy");
	const bool chosen = l->box.uid != UINT32_MAX;
	*out = (struct layer_ids){.mapped = shown.st_uid != disk.st_uid,
	                          .nobodys = true,
	                          .disk_uid = disk.st_uid,
	                          .disk_gid = disk.st_gid,
	                          .shown_uid = shown.st_uid,
	                          .shown_gid = shown.st_gid,
	                          .inside_uid = chosen ? l->box.uid : DEFAULT_USER,
	                          .inside_gid = chosen ? l->box.gid : DEFAULT_USER};
	out->base_uid = out->shown_uid - out->inside_uid;
	out->base_gid = out->shown_gid - out->inside_gid;
	return 0;
}

static int copy_open(struct live *l, struct copy *out, struct cordon_error *err)
{
	*out = (struct copy){.full = {.store = &l->store, .layer = l->box.open}};
	if (find_ids(l, l->box.open, &out->full.ids, err) < 0 || views_open(l, l->box.lower, out->head, err) < 0)
		return -1;
	out->full.head = out->head;
	return 0;
}

bool live_copy_is_empty(const struct live *l)
{
	struct live same = *l; /* not changed: only the headers do not say so */
	_cleanup_copy_ struct copy c = {0};
	return copy_open(&same, &c, NULL) == 0 && full_changed(&c.full, NULL) == 0;
}

/* ---- starting ---------------------------------------------------------------------------------------------------------------- */

/* The watcher of disks counts what is in the copy, too: the limit is for what is added to it. */
static struct cordon_policy with_room(const struct cordon_policy *policy, uint64_t bytes)
{
	struct cordon_policy p = *policy;
	p.limits.disk = p.limits.disk > UINT64_MAX - bytes ? UINT64_MAX : p.limits.disk + bytes;
	return p;
}

/* What the policy denies is masked where it is; a copy is filled and put back without any exchange, so somebody has to look again. */
static int mask_again(struct live *l, struct cordon_error *err)
{
	const struct backend_layers none = {0};
	return l->state ? l->backend->relayer(l->ctx, l->policy, &l->options, &none, l->state, err) : 0;
}

int live_copy_run(struct live *l, live_starter start, struct cordon_error *err)
{
	_cleanup_copy_ struct copy c = {0};
	if (full_begin(&l->store, l->box.open, err) < 0 || copy_open(l, &c, err) < 0 || full_measure(&c.full, &l->copied, err) < 0)
		return -1;
	const struct cordon_policy roomy = with_room(l->policy, l->copied.bytes);
	if (start(l, &roomy, err) < 0 || find_ids(l, l->box.open, &c.full.ids, err) < 0)
		return -1;
	return full_fill(&c.full, &l->copied, err) < 0 ? err_wrap(err, "cannot copy the workspace") : mask_again(l, err);
}

/* For people, and for the record. */
int live_copy_note(struct live *l, const struct cordon_error *why, struct cordon_error *err)
{
	char closed[64] = "", *note;
	if (l->copied.closed)
		snprintf(closed, sizeof(closed), ", %llu of others left out", (unsigned long long)l->copied.closed);
	if (asprintf(&note, "%s (%llu files%s)", why->code ? why->message : "CORDON_LAYERS=copy", (unsigned long long)l->copied.files,
	             closed) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	free(l->box.copy);
	l->box.copy = note;
	return 0;
}

/* ---- taking layers from it --------------------------------------------------------------------------------------------------- */

/* The copy goes on as that of a new open layer: as it is, or put back. */
static int hand_on(struct live *l, struct copy *c, bool keep, const char *old, char next[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	if (live_begin_layer(l, next, err) < 0) {
		next[0] = '\0';
		return -1;
	}
	if ((keep && full_adopt_index(&l->store, old, next, err) < 0) || full_move(&l->store, old, next, err) < 0)
		return -1;
	if (keep)
		return 0;
	c->full.layer = next;
	if (full_put_back(&c->full, old, c->head, &l->policy->transaction.preserve, err) == 0)
		return 0;
	l->lost = true;
	return -1;
}

static void take_back(struct live *l, const char *old, const char *next)
{
	if (!next[0])
		return;
	if (!l->lost && full_exists(&l->store, next) && full_move(&l->store, next, old, NULL) < 0)
		l->lost = true;
	layer_drop(&l->store, next, NULL);
}

int live_copy_turn_over(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err)
{
	char old[LAYER_ID_LEN + 1], next[LAYER_ID_LEN + 1] = "";
	const int64_t birth_ns = l->birth_ns;
	_cleanup_copy_ struct copy c = {0};
	memcpy(old, l->box.open, sizeof(old));
	if (copy_open(l, &c, err) < 0)
		return -1;
	c.full.layer = old;
	/* what is linked must not be written to again: it goes with the copy, or is put back as another file; but not what survives a rollback */
	const bool linked = !l->state || (!keep && l->policy->transaction.preserve.count == 0);
	if (full_extract(&c.full, old, linked ? FULL_LINK : 0, err) < 0 || live_describe_closed(l, old, birth_ns, changes, err) < 0)
		return -1;
	if ((l->state && hand_on(l, &c, keep, old, next, err) < 0) || live_seal(l, meta, old, changes, err) < 0) {
		take_back(l, old, next);
		return -1;
	}
	if (keep)
		memcpy(l->box.head, old, sizeof(old));
	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	memcpy(l->box.open, next, sizeof(next));
	return box_save(&l->store, &l->box, err) < 0 ? -1 : mask_again(l, err);
}

/* While everything stands still. id stays "" if nothing was written since the last time. */
static int take_layer(struct live *l, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_copy_ struct copy c = {0};
	int r = copy_open(l, &c, err) < 0 ? -1 : full_changed(&c.full, err);
	if (r <= 0)
		return r;
	if (live_begin_layer(l, id, err) < 0) {
		id[0] = '\0';
		return -1;
	}
	if (full_extract(&c.full, id, FULL_SETTLE, err) == 0 && full_pass_index(&l->store, id, l->box.open, err) == 0)
		return 0;
	layer_drop(&l->store, id, NULL);
	id[0] = '\0';
	return -1;
}

int live_copy_checkpoint(struct live *l, struct layer *meta, bool move_head, struct changes *changes, struct cordon_error *err)
{
	char id[LAYER_ID_LEN + 1] = "";
	const int64_t birth_ns = l->birth_ns;
	if (l->backend->freeze(l->ctx, l->state, true, err) < 0)
		return -1;
	int r = take_layer(l, id, err);
	if (l->backend->freeze(l->ctx, l->state, false, r < 0 ? NULL : err) < 0)
		r = -1;
	meta->id[0] = '\0';
	if (r == 0 && id[0] && (live_describe_closed(l, id, birth_ns, changes, err) < 0 || live_seal(l, meta, id, changes, err) < 0))
		r = -1;
	if (r < 0 && id[0])
		layer_drop(&l->store, id, NULL);
	if (r < 0 || !id[0] || !move_head)
		return r;
	memcpy(l->box.head, id, sizeof(id));
	memcpy(l->box.lower, id, sizeof(id));
	r = box_save(&l->store, &l->box, err);
	return full_adopt_index(&l->store, l->box.open, l->box.open, r < 0 ? NULL : err) < 0 ? -1 : r;
}

int live_copy_put_back(struct live *l, const char *target, const struct strlist *spare, struct cordon_error *err)
{
	_cleanup_copy_ struct copy c = {0}, want = {0};
	if (l->lost)
		return err_set(err, CORDON_ERR_SYSTEM, "the copy of the workspace could not be put back before");
	if (copy_open(l, &c, err) < 0 || views_open(l, target, want.head, err) < 0)
		return -1;
	if (full_put_back(&c.full, l->box.open, want.head, spare, err) < 0) {
		l->lost = true;
		return -1;
	}
	if (target != l->box.lower)
		snprintf(l->box.lower, sizeof(l->box.lower), "%s", target);
	return mask_again(l, err);
}

/* ---- looking at it ----------------------------------------------------------------------------------------------------------- */

void live_copy_forget_present(struct live *l)
{
	if (l->present[0])
		layer_drop(&l->store, l->present, NULL);
	l->present[0] = '\0';
}

int live_copy_present(struct live *l, struct cordon_error *err)
{
	_cleanup_copy_ struct copy c = {0};
	live_copy_forget_present(l);
	if (copy_open(l, &c, err) < 0)
		return -1;
	if (layer_begin(&l->store, geteuid(), getegid(), l->present, err) < 0) {
		l->present[0] = '\0';
		return -1;
	}
	return full_extract(&c.full, l->present, FULL_USED, err);
}

int live_view(const struct live *l, enum layer_tree tree, struct view *out, struct cordon_error *err)
{
	struct store s = l->store;
	if (!live_copies(l))
		return view_open(&s, l->box.lower, l->box.open[0] ? l->box.open : NULL, tree, tree == TREE_APP ? l->seed : -1, out, err);
	_cleanup_fd_ int fd = full_open(&s, l->box.open, tree, err);
	return fd < 0 ? -1 : view_from(&fd, 1, true, out, err); /* a plain tree, in which nothing is a mark */
}
