/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a sandbox on its layers, or where these cannot be mounted on a full copy of what they show. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/live.h"

/* ---- the stacks -------------------------------------------------------------------------------------------------------------- */

/* One tree's stack as the backend takes it; the strings belong to `names`. */
static int stack(struct live *l, const char *stage, const char *below, const char *under_open, enum layer_tree tree, struct strlist *names,
                 struct cordon_error *err)
{
	const char *name = layer_tree_names[tree];
	char text[128];
	if (strlist_add(names, stage, err) < 0)
		return -1;
	if (live_copies(l)) { /* all there is */
		snprintf(text, sizeof(text), "%s/full/%s", l->box.open, name);
		return strlist_add(names, text, err) < 0 || strlist_add(names, text, err) < 0 ? -1 : 0;
	}
	snprintf(text, sizeof(text), "%s/%s", l->box.open, name);
	if (strlist_add(names, text, err) < 0)
		return -1;
	snprintf(text, sizeof(text), "%s/work/%s", l->box.open, name);
	if (strlist_add(names, text, err) < 0)
		return -1;
	if (under_open) { /* about to be sealed: not yet part of any chain */
		snprintf(text, sizeof(text), "%s/%s", under_open, name);
		if (strlist_add(names, text, err) < 0)
			return -1;
	}
	struct strlist chain = {0};
	int r = layer_chain(&l->store, below, tree, &chain, err);
	for (size_t i = 0; r == 0 && i < chain.count; i++)
		r = strlist_add(names, chain.items[i], err);
	strlist_free(&chain);
	return r;
}

static struct string_list as_list(const struct strlist *s)
{
	return (struct string_list){(const char **)(void *)s->items, (uint32_t)s->count};
}

int live_mount(struct live *l, const struct cordon_policy *policy, const char *below, const char *under_open, bool start,
               struct cordon_error *err)
{
	char stage[4096];
	struct strlist app = {0}, home = {0}, root = {0};
	int r = -1;
	snprintf(stage, sizeof(stage), "%s/layers", l->store.home);
	if (stack(l, stage, below, under_open, TREE_APP, &app, err) == 0 &&
	    stack(l, stage, below, under_open, TREE_HOME, &home, err) == 0 &&
	    (!live_layered(l) || stack(l, stage, below, under_open, TREE_ROOT, &root, err) == 0)) {
		const struct backend_layers layers = {as_list(&app), as_list(&home), as_list(&root)};
		r = (start ? l->backend->start : l->backend->relayer)(l->ctx, policy, &l->options, &layers, l->state, err);
	}
	strlist_free(&app);
	strlist_free(&home);
	strlist_free(&root);
	return r;
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

struct cordon_policy *live_policy(const struct box *b, struct cordon_error *err)
{
	struct cordon_policy *p = cordon_policy_new_profile("dev", err);
	for (size_t i = 0; p && i < b->policy.count; i++) {
		_cleanup_free_ char *key = strdup(b->policy.items[i]);
		char *value = key ? strchr(key, '=') : NULL;
		if (value)
			*value++ = '\0';
		if (!value || policy_set(p, key, value, err) < 0) {
			if (!value)
				err_set(err, CORDON_ERR_INPUT, "malformed policy setting '%.80s' in the sandbox's record",
				        b->policy.items[i]);
			cordon_policy_free(p);
			return NULL;
		}
	}
	for (size_t i = 0; p && i < b->env.count; i++)
		if (policy_set(p, "env.set", b->env.items[i], err) < 0) {
			cordon_policy_free(p);
			return NULL;
		}
	if (p && policy_check_enforced(p, err) < 0) {
		cordon_policy_free(p);
		return NULL;
	}
	return p;
}

int live_parse_user(const char *text, struct box *b, struct cordon_error *err)
{
	char rest;
	int n = text ? sscanf(text, "%u:%u%c", &b->uid, &b->gid, &rest) : 0;
	if (!text)
		return 0;
	if (n == 1 && !strchr(text, ':'))
		b->gid = b->uid;
	else if (n != 2)
		return err_set(err, CORDON_ERR_INPUT, "user '%.60s' is not UID or UID:GID (numbers)", text);
	return 0;
}

/* "HOST:GUEST[:rw]" as the record has it, written by `create` from checked parts. */
static int parse_mounts(struct live *l, struct cordon_error *err)
{
	size_t count = l->box.mounts.count;
	if (l->mounts) /* it was started before */
		return 0;
	if (count && !(l->mounts = calloc(count, sizeof(*l->mounts))))
		return err_sys(err, "mounts");
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *text = strdup(l->box.mounts.items[i]);
		char *colon = text ? strrchr(text, ':') : NULL;
		if (colon && strcmp(colon, ":rw") == 0) {
			l->mounts[i].writable = 1;
			*colon = '\0';
			colon = strrchr(text, ':');
		}
		if (!colon)
			return err_set(err, CORDON_ERR_INPUT, "malformed mount in the sandbox's record");
		*colon = '\0';
		l->mounts[i].host = strdup(text);
		l->mounts[i].guest = strdup(colon + 1);
		if (!l->mounts[i].host || !l->mounts[i].guest)
			return err_sys(err, "mounts");
	}
	return 0;
}

/* Asks the backend, and waits until it is there or refused: what comes next depends on it. */
static int start_and_wait(struct live *l, const struct cordon_policy *policy, struct cordon_error *err)
{
	return live_mount(l, policy, l->box.head, NULL, true, err) < 0 || l->backend->ready(l->state, err) < 0 ? -1 : 0;
}

/* On an open layer of its own. One that does not stay has no record (and no lock). */
static int start_on_layer(struct live *l, bool copy, struct backend_sandbox *state, struct cordon_error *err)
{
	char next[LAYER_ID_LEN + 1];
	if (live_begin_layer(l, next, err) < 0)
		return -1;
	memcpy(l->box.open, next, sizeof(next));
	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	l->state = state;
	l->lost = false;
	int r = l->lock >= 0 ? box_save(&l->store, &l->box, err) : 0;
	if (r == 0 && (r = copy ? live_copy_run(l, start_and_wait, err) : start_and_wait(l, l->policy, err)) < 0) {
		l->backend->stop(state);
		l->backend->release(state);
	}
	if (r == 0)
		return 0;
	l->state = NULL;
	layer_drop(&l->store, next, NULL);
	l->box.open[0] = '\0';
	if (l->lock >= 0)
		box_save(&l->store, &l->box, NULL);
	return -1;
}

/* The record says so before the open layer has a copy: whoever finds that layer has to know. */
static int start_as_copy(struct live *l, struct backend_sandbox *state, const struct cordon_error *why, struct cordon_error *err)
{
	const bool known = l->box.copy;
	if (!known && live_copy_note(l, why, err) < 0)
		return -1;
	if (start_on_layer(l, true, state, err) == 0) {
		if (!known && live_copy_note(l, why, NULL) == 0 && l->lock >= 0)
			box_save(&l->store, &l->box, NULL); /* how many files there are is known now, and no more than that */
		return 0;
	}
	if (!known) {
		free(l->box.copy);
		l->box.copy = NULL;
	}
	return -1;
}

/* As layers, unless it is known or found that this cannot be. */
static int start_somehow(struct live *l, struct backend_sandbox *state, struct cordon_error *err)
{
	struct cordon_error why = {0};
	enum live_choice choice;
	if (live_copy_choice(&choice, err) < 0)
		return -1;
	if (live_layered(l) && (l->box.copy || choice == CHOICE_COPY))
		return err_set(err, CORDON_ERR_INPUT, "root: layered needs overlayfs: a full copy of a root is not made");
	if (!l->box.copy && choice != CHOICE_COPY) {
		if (start_on_layer(l, false, state, &why) == 0)
			return 0;
		if (why.sys_errno != LAYERED_REFUSED || choice == CHOICE_OVERLAY || live_layered(l)) {
			if (err)
				*err = why;
			return -1;
		}
	}
	return start_as_copy(l, state, &why, err);
}

/* What was written on one image means nothing on another. */
static int check_image(const struct live *l, struct cordon_error *err)
{
	_cleanup_image_ struct image i = {0};
	if (!live_layered(l) || !l->box.image || !l->box.image_id || image_find(l->store.home, l->box.image, &i, NULL) < 0)
		return 0; /* that there is none is said when it is started */
	if (strcmp(i.id, l->box.image_id) == 0)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "image %s is another one than this sandbox was made with, whose root stands on it", l->box.image);
	return err_hint(err, "import the old one again under that name (%.12s), or make a new sandbox", l->box.image_id);
}

int live_start(struct live *l, struct cordon *ctx, const struct backend *backend, struct cordon_policy *policy,
               struct backend_sandbox *state, struct cordon_error *err)
{
	if (parse_mounts(l, err) < 0)
		return -1;
	l->ctx = ctx;
	l->backend = backend;
	l->policy = policy;
	if (check_image(l, err) < 0)
		return -1;
	if (l->box.uid != UINT32_MAX)
		snprintf(l->user, sizeof(l->user), "%u:%u", (unsigned)l->box.uid, (unsigned)l->box.gid);
	l->options = (struct cordon_sandbox_options){.size = sizeof(l->options),
	                                             .user = l->user[0] ? l->user : NULL,
	                                             .image = l->box.image,
	                                             .workspace = l->box.workspace,
	                                             .hostname = l->box.name[0] ? l->box.name : NULL,
	                                             .mounts = l->mounts,
	                                             .mount_count = l->box.mounts.count};
	return start_somehow(l, state, err);
}

/* ---- those that do not stay -------------------------------------------------------------------------------------------------- */

struct live *live_start_scratch(struct cordon *ctx, const struct backend *backend, struct cordon_policy *policy,
                                const struct cordon_sandbox_options *options, struct backend_sandbox *state, const struct cordon_error *why,
                                struct cordon_error *err)
{
	struct live *l = calloc(1, sizeof(*l));
	if (!l) {
		err_sys(err, "cannot copy the workspace");
		return NULL;
	}
	*l = (struct live){
		.lock = -1, .seed = -1, .store = {.layers_fd = -1, .boxes_fd = -1}, .box = {.uid = UINT32_MAX, .gid = UINT32_MAX}};
	l->ctx = ctx;
	l->backend = backend;
	l->policy = policy;
	l->options = *options;
	if (store_open(&l->store, ctx->home, err) == 0 && live_parse_user(options->user, &l->box, err) == 0) {
		l->seed = open(options->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (l->seed < 0)
			err_sys(err, "workspace %s", options->workspace);
		else if (start_as_copy(l, state, why, err) == 0)
			return l;
	}
	live_end_scratch(l);
	return NULL;
}

int live_scratch_views(struct live *l, struct view *before, struct view *after, struct cordon_error *err)
{
	if (live_copy_present(l, err) < 0 || view_open(&l->store, "", NULL, TREE_APP, l->seed, before, err) < 0)
		return -1;
	return view_open(&l->store, "", l->present, TREE_APP, l->seed, after, err);
}

void live_end_scratch(struct live *l)
{
	if (!l)
		return;
	if (l->box.open[0])
		layer_drop(&l->store, l->box.open, NULL);
	live_close(l);
	free(l);
}
