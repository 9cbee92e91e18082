/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/pool_parts.h"
#include "lib/zygote.h"

#define RATE_WINDOW_MS 2000.0

int64_t pool_clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* CORDON_POOL: 0 switches the pool off, 1 makes every request wait for a parked one; else requests decide. */
struct pool *pool_new(struct cordon *ctx)
{
	const char *how = getenv("CORDON_POOL");
	pthread_condattr_t monotonic;
	struct pool *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->ctx = ctx;
	p->max = how && strcmp(how, "0") == 0 ? 0 : POOL_MAX;
	p->always = how && strcmp(how, "1") == 0;
	p->makers_max = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 2L);
	p->max_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / POOL_MEMORY_SHARE;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &monotonic);
	pthread_cond_init(&p->moved, &monotonic);
	pthread_cond_init(&p->turned, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	const bool running = p->running;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	if (running)
		pthread_join(p->thread, NULL);
	pthread_mutex_lock(&p->lock);
	pool_end_all(p);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->kind_count; i++) {
		for (unsigned n = 0; n < p->kinds[i]->count; n++)
			sandbox_end(p->kinds[i]->items[n].sandbox);
		pool_kind_free(p->kinds[i]);
	}
	pthread_cond_destroy(&p->wake);
	pthread_cond_destroy(&p->moved);
	pthread_cond_destroy(&p->turned);
	pthread_mutex_destroy(&p->lock);
	free(p->pressure);
	free(p);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------------------- */

/* One that nobody waits for, holds or makes, and that was not asked for since longest, gives up its place. */
static bool make_room(struct pool *p)
{
	unsigned oldest = POOL_KINDS_MAX;
	for (unsigned i = 0; i < p->kind_count; i++) {
		const struct kind *k = p->kinds[i];
		if (!k->count && !pool_want(k) && !k->making && (oldest == POOL_KINDS_MAX || k->asked_ms < p->kinds[oldest]->asked_ms))
			oldest = i;
	}
	if (oldest == POOL_KINDS_MAX)
		return false;
	pool_kind_free(p->kinds[oldest]);
	p->kinds[oldest] = p->kinds[--p->kind_count];
	return true;
}

static struct kind *find_kind(struct pool *p, const struct cordon_policy *policy, const struct cordon_sandbox_options *o)
{
	for (unsigned i = 0; i < p->kind_count; i++)
		if (pool_kind_is(p->kinds[i], policy, o))
			return p->kinds[i];
	if (p->kind_count == POOL_KINDS_MAX && !make_room(p))
		return NULL;
	struct kind *k = pool_kind_new(policy, o);
	if (k) {
		k->id = ++p->next_id;
		k->asked_ms = k->before_ms = -POOL_TWICE_MS;
		p->kinds[p->kind_count++] = k;
	}
	return k;
}

static void count_request(struct kind *k, int64_t now)
{
	const double passed = (double)(now - k->rated_ms) / RATE_WINDOW_MS;
	k->rate = k->rate * (passed < 1 ? 1 - passed : 0) + 1000 / RATE_WINDOW_MS;
	k->rated_ms = now;
	k->before_ms = k->asked_ms;
	k->asked_ms = now;
}

/* ---- taking ------------------------------------------------------------------------------------------------------------------ */

struct parked pool_remove(struct pool *p, struct kind *k, unsigned i)
{
	struct parked one = k->items[i];
	memmove(&k->items[i], &k->items[i + 1], (--k->count - i) * sizeof(*k->items));
	p->parked--;
	p->bytes -= one.bytes;
	return one;
}

/* The oldest that is fit for use; those that are not go. Those to be ended without the lock are put into `bad`. */
static struct cordon_sandbox *take_one(struct pool *p, struct kind *k, struct cordon_sandbox **bad, unsigned room, unsigned *bad_count)
{
	const struct pool_stamp now = k->count ? pool_stamp_now(p->ctx, k) : (struct pool_stamp){0};
	while (k->count && *bad_count < room) {
		struct parked one = pool_remove(p, k, 0);
		if (one.stamp.sum == now.sum && pool_lives(&one))
			return one.sandbox;
		bad[(*bad_count)++] = one.sandbox;
		p->discarded++;
	}
	return NULL;
}

/* CORDON_POOL=1: one is parked for this very request. */
static void wait_for_one(struct pool *p, struct kind *k)
{
	if (pool_start_thread(p, NULL) < 0)
		return;
	const unsigned failures = k->failures;
	if (p->expected && zygote_possible(p->expected) && !k->language && pool_may_wait(&k->options))
		k->language = strdup(p->expected);
	k->waiting++;
	pthread_cond_signal(&p->wake);
	while (!k->count && k->failures == failures && !p->pressed && !p->stop)
		pthread_cond_wait(&p->moved, &p->lock);
	k->waiting--;
}

struct cordon_sandbox *pool_take(struct pool *p, const struct cordon_policy *policy, const struct cordon_sandbox_options *o)
{
	struct cordon_sandbox *s = NULL, *bad[8];
	unsigned bad_count = 0;
	if (!p || !pool_can(policy, o))
		return NULL;
	pthread_mutex_lock(&p->lock);
	struct kind *k = p->max && p->max_bytes ? find_kind(p, policy, o) : NULL;
	if (k) {
		const int64_t now = pool_clock_ms();
		count_request(k, now);
		pool_stir(p, now);
		if (p->always)
			wait_for_one(p, k);
		s = take_one(p, k, bad, ARRAY_SIZE(bad), &bad_count);
		s ? p->hits++ : p->misses++;
		k->target = p->always ? 0 : pool_target(p, k, now);
		if (k->count + k->making < k->target && pool_start_thread(p, NULL) == 0)
			pthread_cond_signal(&p->wake);
		if (s)
			s->kind = k->id;
	}
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < bad_count; i++)
		sandbox_end(bad[i]);
	return s;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------------------- */

void pool_learn(struct pool *p, const struct cordon_sandbox *s, const char *language)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->kind_count; i++)
		if (p->kinds[i]->id == s->kind && !p->kinds[i]->language && pool_may_wait(&p->kinds[i]->options))
			p->kinds[i]->language = strdup(language);
	pthread_mutex_unlock(&p->lock);
}

void pool_expect(struct pool *p, const char *language)
{
	if (p)
		p->expected = language;
}

int pool_warm(struct pool *p, const struct cordon_policy *policy, const struct cordon_sandbox_options *o, const char *language,
              unsigned count, struct cordon_error *err)
{
	if (!pool_can(policy, o))
		return err_set(err, CORDON_ERR_INPUT,
		               "sandboxes with files of their own, secrets, or hidden files in a workspace cannot be parked");
	if (language && !pool_may_wait(o))
		return err_set(
			err, CORDON_ERR_INPUT,
			"no interpreter waits where there is a workspace or a mount: code that lies there would run as it starts, before anybody asks for it");
	int r = 0;
	pthread_mutex_lock(&p->lock);
	struct kind *k = count <= p->max ? find_kind(p, policy, o) : NULL;
	if (!k) {
		r = err_set(err, CORDON_ERR_INPUT, "at most %u sandboxes can be parked", p->max);
	} else if (pool_start_thread(p, err) < 0) {
		r = -1;
	} else {
		free(k->language);
		k->language = language ? strdup(language) : NULL;
		k->least = k->target = count;
		k->asked_ms = pool_clock_ms();
		const unsigned failures = k->failures;
		k->waiting++;
		pthread_cond_signal(&p->wake);
		while (k->count < MIN(count, k->least) && k->failures == failures && !p->pressed && !p->stop)
			pthread_cond_wait(&p->moved, &p->lock);
		k->waiting--;
		if (k->failures != failures) {
			r = -1;
			if (err)
				*err = p->failed;
		} else if (k->count < MIN(count, k->least)) {
			r = err_set(err, CORDON_ERR_SYSTEM, "the machine is short of memory: nothing is parked");
		}
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

void pool_limit(struct pool *p, unsigned sandboxes, uint64_t bytes)
{
	pthread_mutex_lock(&p->lock);
	p->max = sandboxes;
	p->max_bytes = bytes;
	p->look = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

void pool_info(struct pool *p, struct cordon_pool_info *out)
{
	pthread_mutex_lock(&p->lock);
	*out = (struct cordon_pool_info){.size = sizeof(*out),
	                                 .parked = p->parked,
	                                 .bytes = p->bytes,
	                                 .hits = p->hits,
	                                 .misses = p->misses,
	                                 .discarded = p->discarded};
	pthread_mutex_unlock(&p->lock);
}

/* ---- the library's functions ------------------------------------------------------------------------------------------------- */

static const struct cordon_sandbox_options plain = {.size = sizeof(plain)};

static int check_pool(const struct cordon *c, struct cordon_error *err)
{
	return c->pool ? 0 : err_set(err, CORDON_ERR_INPUT, "this context makes no sandboxes");
}

int cordon_warm(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options, const char *language,
                unsigned count, struct cordon_error *err)
{
	const struct cordon_sandbox_options *o = options ? options : &plain;
	if (o->size != sizeof(*o))
		return err_set(err, CORDON_ERR_INPUT, "cordon_sandbox_options.size is not set, or the header is of another version");
	if (check_pool(ctx, err) < 0 || policy_check_enforced(policy, err) < 0)
		return -1;
	return pool_warm(ctx->pool, policy, o, language, count, err);
}

void cordon_pool_limit(struct cordon *ctx, unsigned sandboxes, uint64_t bytes)
{
	if (ctx->pool)
		pool_limit(ctx->pool, sandboxes, bytes);
}

int cordon_pool_info(struct cordon *ctx, struct cordon_pool_info *out, struct cordon_error *err)
{
	if (out->size != sizeof(*out))
		return err_set(err, CORDON_ERR_INPUT, "cordon_pool_info.size is not set, or the header is of another version");
	if (check_pool(ctx, err) < 0)
		return -1;
	pool_info(ctx->pool, out);
	return 0;
}
