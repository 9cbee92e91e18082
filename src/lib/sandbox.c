/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "lib/egress.h"
#include "lib/exec.h"
#include "lib/pool.h"
#include "lib/zygote.h"

/* Its workspace as an overlay, or where that is refused as a copy; one without a workspace needs neither. */
static int start_scratch(struct cordon_sandbox *s, const struct cordon_sandbox_options *o, struct cordon_error *err)
{
	struct cordon_error why = {0};
	enum live_choice choice;
	if (live_copy_choice(&choice, err) < 0)
		return -1;
	if (s->state.parked && choice == CHOICE_COPY && o->workspace)
		return err_set(err, CORDON_ERR_INPUT, "a full copy of a workspace cannot be parked");
	if (!o->workspace || choice != CHOICE_COPY) {
		if (s->backend->start(s->ctx, &s->policy, o, NULL, &s->state, err) < 0)
			return -1;
		if (s->state.parked || (!o->workspace && (o->flags & CORDON_SANDBOX_LAZY)))
			return 0;
		if (sandbox_ready(s, &why) == 0)
			return 0;
		if (why.sys_errno != LAYERED_REFUSED || !o->workspace || choice == CHOICE_OVERLAY) {
			if (err)
				*err = why;
			return -1;
		}
		s->backend->stop(&s->state);
		s->backend->release(&s->state);
		s->failed = (struct cordon_error){0};
	}
	s->copy = live_start_scratch(s->ctx, s->backend, &s->policy, o, &s->state, &why, err);
	return s->copy ? 0 : -1;
}

static void no_state(struct backend_sandbox *s)
{
	s->control = s->seed = s->image = -1;
	s->trees[0] = s->trees[1] = -1;
	memset(s->fds, -1, sizeof(s->fds));
}

static int make(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o, bool parked,
                struct cordon_sandbox **out, struct cordon_error *err)
{
	struct cordon_sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, "cannot create a sandbox");
	s->ctx = ctx;
	atomic_init(&s->refs, 1);
	no_state(&s->state);
	s->state.parked = parked;
	s->birth_ns = live_clock_ns();
	s->backend = backend_find(o->backend, err);
	if (!s->backend || policy_check_enforced(policy, err) < 0 || policy_copy(&s->policy, policy, err) < 0) {
		free(s);
		return -1;
	}
	pthread_mutex_init(&s->lock, NULL);
	if (!parked)
		egress_prepare(s);
	if (egress_authority(s, &s->state.authority, err) < 0 || start_scratch(s, o, err) < 0) {
		cordon_sandbox_destroy(s);
		return -1;
	}
	*out = s;
	return 0;
}

int sandbox_park(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                 struct cordon_sandbox **out, struct cordon_error *err)
{
	return make(ctx, policy, o, true, out, err);
}

/* From now on it is as if it had just been made. What watches it begins with its first command, while that runs. */
static void unpark(struct cordon_sandbox *s)
{
	s->birth_ns = live_clock_ns();
	atomic_store(&s->resting, true);
	egress_prepare(s);
}

int cordon_sandbox_create(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
                          struct cordon_sandbox **out, struct cordon_error *err)
{
	static const struct cordon_sandbox_options defaults = {.size = sizeof(defaults)};
	const struct cordon_sandbox_options *o = options ? options : &defaults;
	if (o->size != sizeof(*o))
		return err_set(err, CORDON_ERR_INPUT, "cordon_sandbox_options.size is not set, or the header is of another version");
	struct cordon_sandbox *s = pool_take(ctx->pool, policy, o);
	if (!s) {
		/* one with a workspace may take as long as copying it does, one with secrets waits for others, too */
		struct pool *turns = o->workspace || policy->secrets.count ? NULL : ctx->pool;
		pool_turn_begin(turns);
		int r = make(ctx, policy, o, false, out, err);
		pool_turn_end(turns);
		return r;
	}
	unpark(s);
	*out = s;
	return 0;
}

int sandbox_ready(struct cordon_sandbox *s, struct cordon_error *err)
{
	int r = 0;
	pthread_mutex_lock(&s->lock);
	if (!s->state.ready && s->failed.code == CORDON_OK)
		r = s->backend->ready(&s->state, &s->failed);
	if (s->failed.code != CORDON_OK) {
		r = -1;
		if (err)
			*err = s->failed;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

const char *cordon_sandbox_id(const struct cordon_sandbox *sandbox)
{
	return sandbox->live ? sandbox->live->box.id : sandbox->state.id;
}

/* Everything inside is dead when init is; until then it may still write to the open layer. */
static void wait_for_end(const struct cordon_sandbox *s)
{
	struct pollfd p = {.fd = s->state.fds[CREATED_PIDFD], .events = POLLIN};
	while (p.fd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

void sandbox_unref(struct cordon_sandbox *s)
{
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	zygote_drop(s);
	egress_free(s);
	if (s->copy)
		wait_for_end(s);
	if (!s->live || s->started)
		s->backend->release(&s->state);
	live_end_scratch(s->copy);
	if (s->live)
		live_close(s->live);
	free(s->live);
	pthread_mutex_destroy(&s->lock);
	policy_clear(&s->policy);
	free(s);
}

void sandbox_halt(struct cordon_sandbox *s)
{
	if (!s->started)
		return;
	zygote_drop(s);
	s->backend->stop(&s->state);
	wait_for_end(s);
	egress_end(s);
	s->backend->release(&s->state);
	s->state.ready = false;
	s->started = false;
	s->live->state = NULL;
}

void cordon_sandbox_destroy(struct cordon_sandbox *sandbox)
{
	if (!sandbox)
		return;
	/* its commands are over, and the last of them has taken all others along (sandbox/init.c) */
	const bool idle = !sandbox->live && !sandbox->copy && !atomic_load(&sandbox->egress) && atomic_load(&sandbox->execs) > 0 &&
	                  atomic_load(&sandbox->refs) == 1 && !atomic_load(&sandbox->unfinished);
	if (!idle || !pool_end(sandbox->ctx->pool, sandbox))
		sandbox_end(sandbox);
}

void sandbox_end(struct cordon_sandbox *sandbox)
{
	if (sandbox->live) {
		sandbox_stop(sandbox, NULL); /* what cannot be sealed now is found by the next who opens it */
	} else {
		sandbox->backend->stop(&sandbox->state);
		egress_end(sandbox);
	}
	sandbox_unref(sandbox);
}

int sandbox_stop(struct cordon_sandbox *s, struct cordon_error *err)
{
	if (!s->live || !s->started || s->stopped)
		return 0;
	if (s->frozen)
		cordon_sandbox_freeze(s, 0, NULL); /* under cgroup v1 even SIGKILL waits for the thaw */
	s->stopped = true;
	s->backend->stop(&s->state);
	wait_for_end(s);
	egress_end(s);
	return live_stop(s->live, err);
}

int cordon_sandbox_freeze(struct cordon_sandbox *s, int frozen, struct cordon_error *err)
{
	int r = 0;
	pthread_mutex_lock(&s->lock);
	if (!s->live || !s->started || s->stopped)
		r = err_set(err, CORDON_ERR_INPUT, "the sandbox is not live");
	else if (s->frozen != !!frozen)
		r = s->backend->freeze(s->ctx, &s->state, frozen, err);
	if (r == 0)
		s->frozen = frozen;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* ---- those that stay --------------------------------------------------------------------------------------------------------- */

static int copy_list(struct strlist *to, const char *const *from, struct cordon_error *err)
{
	for (size_t i = 0; from && from[i]; i++)
		if (strlist_add(to, from[i], err) < 0)
			return -1;
	return 0;
}

const char *sandbox_copied(const struct cordon_sandbox *s)
{
	return s->copy ? s->copy->box.copy : s->live ? s->live->box.copy : NULL;
}

static int copy_mounts(struct box *b, const struct cordon_create_options *o, struct cordon_error *err)
{
	for (size_t i = 0; i < o->mount_count; i++) {
		_cleanup_free_ char *text = NULL;
		if (asprintf(&text, "%s:%s%s", o->mounts[i].host, o->mounts[i].guest, o->mounts[i].writable ? ":rw" : "") < 0)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		if (strlist_add(&b->mounts, text, err) < 0)
			return -1;
	}
	return 0;
}

static int choose_image(struct box *b, const char *home, const char *name, struct cordon_error *err)
{
	_cleanup_image_ struct image i = {0};
	if (!name || strcmp(name, IMAGE_HOST) == 0)
		return 0;
	if (image_find(home, name, &i, err) < 0)
		return -1;
	b->image = strdup(name);
	b->image_id = strdup(i.id);
	return b->image && b->image_id ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

int cordon_create(const struct cordon_create_options *o, char id[21], struct cordon_error *err)
{
	_cleanup_box_ struct box b = {.uid = UINT32_MAX, .gid = UINT32_MAX, .ttl_ms = o->ttl_ms, .idle_ms = o->idle_ms};
	_cleanup_free_ char *home = NULL;
	struct stat st;
	if (o->size != sizeof(*o))
		return err_set(err, CORDON_ERR_INPUT, "cordon_create_options.size is not set, or the header is of another version");
	if (o->name && strlen(o->name) >= sizeof(b.name))
		return err_set(err, CORDON_ERR_INPUT, "name '%.80s' is too long (at most %d letters)", o->name, BOX_NAME_MAX);
	snprintf(b.name, sizeof(b.name), "%s", o->name ? o->name : "");
	if (live_parse_user(o->user, &b, err) < 0)
		return -1;
	if (o->workspace) {
		b.workspace = realpath(o->workspace, NULL);
		if (!b.workspace || stat(b.workspace, &st) < 0)
			return err_sys(err, "workspace %s", o->workspace);
		if (!S_ISDIR(st.st_mode))
			return err_set(err, CORDON_ERR_INPUT, "workspace %s: not a directory", o->workspace);
	}
	if (!(home = context_find_home(err)) || choose_image(&b, home, o->image, err) < 0)
		return -1;
	if (copy_list(&b.policy, o->policy, err) < 0 || copy_list(&b.labels, o->labels, err) < 0 || copy_list(&b.env, o->env, err) < 0 ||
	    copy_mounts(&b, o, err) < 0)
		return -1;
	struct cordon_policy *p = live_policy(&b, err); /* what is wrong with it is better said now */
	const bool on_host = p && p->root == ROOT_LAYERED && !b.image;
	cordon_policy_free(p);
	if (on_host) {
		err_set(err, CORDON_ERR_INPUT, "root: layered needs an image");
		return err_hint(err, "--image NAME; cordon image build or import makes one");
	}
	if (!p || live_create(home, &b, err) < 0)
		return -1;
	memcpy(id, b.id, sizeof(b.id));
	return 0;
}

int cordon_remove(const char *what, struct cordon_error *err)
{
	_cleanup_free_ char *home = context_find_home(err);
	_cleanup_box_ struct box b = {0};
	struct store s;
	if (!home || store_open(&s, home, err) < 0)
		return -1;
	int r = box_find(&s, what, &b, err) < 0 || live_remove(&s, b.id, "remove", err) < 0 ? -1 : 0;
	if (r == 0)
		store_collect(&s, 0, NULL); /* the next one gets what this one cannot */
	store_close(&s);
	return r;
}

int cordon_sandbox_open(struct cordon *ctx, const char *what, struct cordon_sandbox **out, struct cordon_error *err)
{
	return sandbox_open(ctx, what, "a program that uses libcordon", out, err);
}

int sandbox_open(struct cordon *ctx, const char *what, const char *who, struct cordon_sandbox **out, struct cordon_error *err)
{
	struct cordon_sandbox *s = calloc(1, sizeof(*s));
	struct live *l = calloc(1, sizeof(*l));
	if (!s || !l || live_open(l, ctx->home, what, who, false, err) < 0) {
		if (!s || !l)
			err_sys(err, "cannot open a sandbox");
		free(s);
		free(l);
		return -1;
	}
	struct cordon_policy *p = live_policy(&l->box, err);
	s->ctx = ctx;
	s->live = l;
	no_state(&s->state);
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	s->backend = backend_find(NULL, err);
	if (!p || !s->backend || policy_copy(&s->policy, p, err) < 0) {
		cordon_policy_free(p);
		cordon_sandbox_destroy(s);
		return -1;
	}
	cordon_policy_free(p);
	*out = s;
	return 0;
}

/* The layer tree can be worked on while nothing has its transaction. */
static int tree_begin(struct cordon_sandbox *s, struct cordon_error *err)
{
	if (!s->live)
		return err_set(err, CORDON_ERR_INPUT, "this sandbox does not stay on disk: it has no history");
	pthread_mutex_lock(&s->lock);
	if (!s->alone)
		return 0;
	pthread_mutex_unlock(&s->lock);
	return err_set(err, CORDON_ERR_BUSY, "an exec is running in this sandbox");
}

int cordon_sandbox_snapshot(struct cordon_sandbox *s, const char *name, const char *note, char id[21], struct cordon_error *err)
{
	if (tree_begin(s, err) < 0)
		return -1;
	int r = live_snapshot(s->live, name, note, id, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}

int cordon_sandbox_restore(struct cordon_sandbox *s, const char *snapshot, struct cordon_error *err)
{
	char layer[LAYER_ID_LEN + 1];
	if (tree_begin(s, err) < 0)
		return -1;
	int r = box_find_layer(&s->live->store, &s->live->box, snapshot, layer, err);
	if (r == 0)
		r = live_restore(s->live, layer, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}

int cordon_sandbox_fork(struct cordon_sandbox *s, const char *snapshot, const char *name, char id[21], struct cordon_error *err)
{
	char layer[LAYER_ID_LEN + 1];
	if (tree_begin(s, err) < 0)
		return -1;
	int r = snapshot ? box_find_layer(&s->live->store, &s->live->box, snapshot, layer, err) : 0;
	if (r == 0)
		r = live_fork(s->live, snapshot ? layer : NULL, name, id, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}
