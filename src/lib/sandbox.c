/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "lib/exec.h"

int cordon_sandbox_create(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
                          struct cordon_sandbox **out, struct cordon_error *err)
{
	static const struct cordon_sandbox_options defaults = {.size = sizeof(defaults)};
	const struct cordon_sandbox_options *o = options ? options : &defaults;
	if (o->size != sizeof(*o))
		return err_set(err, CORDON_ERR_INPUT, "cordon_sandbox_options.size is not set, or the header is of another version");
	struct cordon_sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, "cannot create a sandbox");
	s->ctx = ctx;
	atomic_init(&s->refs, 1);
	s->backend = backend_find(o->backend, err);
	if (!s->backend || policy_copy(&s->policy, policy, err) < 0) {
		free(s);
		return -1;
	}
	pthread_mutex_init(&s->lock, NULL);
	if (s->backend->start(ctx, &s->policy, o, &s->state, err) < 0 || (!(o->flags & CORDON_SANDBOX_LAZY) && sandbox_ready(s, err) < 0)) {
		cordon_sandbox_destroy(s);
		return -1;
	}
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
	return sandbox->state.id;
}

void sandbox_unref(struct cordon_sandbox *s)
{
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	s->backend->release(&s->state);
	pthread_mutex_destroy(&s->lock);
	policy_clear(&s->policy);
	free(s);
}

void cordon_sandbox_destroy(struct cordon_sandbox *sandbox)
{
	if (!sandbox)
		return;
	sandbox->backend->stop(&sandbox->state);
	sandbox_unref(sandbox);
}
