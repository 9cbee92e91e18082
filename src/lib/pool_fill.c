/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that fills the pool and keeps it in order. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/image.h"
#include "lib/pool_parts.h"
#include "lib/zygote.h"

#define BATCH 4        /* made at a time: while one is set up by its own process the launcher begins the next */
#define AHEAD_MS 100.0 /* what is parked should last for this long */
#define RETRY_MS 1000
#define ZYGOTE_MS 10000 /* what an interpreter has to get ready */
#define BREATH_MS 3     /* whoever has just taken one runs a command now, and needs the CPU more */
#define PRESSURE "/proc/pressure/memory"
#define PRESSURE_HIGH 10.0 /* percent of the last ten seconds in which somebody waited for memory */
#define PRESSURE_LOW 5.0
#define BAD_MAX 64

bool pool_lives(const struct parked *one)
{
	const struct backend_sandbox *b = &one->sandbox->state;
	struct pollfd p[] = {{.fd = b->fds[CREATED_PIDFD], .events = POLLIN}, {.fd = b->control, .events = POLLIN}};
	return poll(p, ARRAY_SIZE(p), 0) == 0; /* init says nothing of itself while it waits */
}

double pool_pressure(const char *path)
{
	char text[256];
	double avg10 = 0;
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0 || sscanf(text, "some avg10=%lf", &avg10) != 1)
		return 0;
	return avg10;
}

unsigned pool_target(const struct pool *p, const struct kind *k, int64_t now)
{
	double want = 0;
	if (k->asked_ms - k->before_ms < POOL_TWICE_MS && now - k->asked_ms < POOL_IDLE_MS)
		want = 1 + k->rate * (AHEAD_MS + k->make_ms) / 1000;
	return MIN(MAX((unsigned)MIN(want, (double)p->max), k->least), p->max);
}

unsigned pool_want(const struct kind *k)
{
	return MAX(MAX(k->target, k->least), k->waiting);
}

/* ---- keeping order ----------------------------------------------------------------------------------------------------------- */

static bool is_old(const struct kind *k, const struct parked *one, int64_t now)
{
	return now - one->born_ms > (k->listed ? POOL_LISTED_AGE_MS : POOL_AGE_MS);
}

/* How much of this kind may be parked now. */
static unsigned room_for(const struct pool *p, const struct kind *k)
{
	return p->pressed || !p->max ? 0 : pool_want(k);
}

/* Takes out what has died, is old or too much; the oldest first. */
static unsigned sort_out(struct pool *p, struct cordon_sandbox *bad[BAD_MAX])
{
	const int64_t now = pool_clock_ms();
	unsigned n = 0;
	for (unsigned i = 0; i < p->kind_count; i++) {
		struct kind *k = p->kinds[i];
		if (!p->always)
			k->target = pool_target(p, k, now);
		for (unsigned j = 0; j < k->count && n < BAD_MAX;) {
			const struct parked *one = &k->items[j];
			if (k->count <= room_for(p, k) && p->parked <= p->max && p->bytes <= p->max_bytes && !is_old(k, one, now) &&
			    pool_lives(one)) {
				j++;
				continue;
			}
			bad[n++] = pool_remove(p, k, j).sandbox;
			p->discarded++;
		}
	}
	return n;
}

static void look_at_pressure(struct pool *p)
{
	const double now = pool_pressure(p->pressure ? p->pressure : PRESSURE);
	p->pressed = now > (p->pressed ? PRESSURE_LOW : PRESSURE_HIGH);
	if (p->pressed)
		pthread_cond_broadcast(&p->moved);
}

static bool fits(const struct pool *p, const struct kind *k)
{
	return !p->pressed && p->parked + k->making < p->max && p->bytes + (k->making + 1) * k->bytes <= p->max_bytes;
}

/* Whoever waits for one of these is told not to. */
static void give_up(struct pool *p, struct kind *k)
{
	if (!k->waiting || p->pressed)
		return;
	err_set(&p->failed, CORDON_ERR_BUSY, "the pool is full: %u sandboxes and %llu bytes are parked", p->parked,
	        (unsigned long long)p->bytes);
	k->failures++;
	pthread_cond_broadcast(&p->moved);
}

/* The kind that lacks most. wait_ms: if it is none now, when to ask again. */
static struct kind *neediest(struct pool *p, int64_t now, int *wait_ms)
{
	struct kind *most = NULL;
	unsigned lack = 0;
	const int rush = pool_rush_left(p, now);
	*wait_ms = p->ended_count ? POOL_PAUSE_MS : POOL_TICK_MS;
	for (unsigned i = 0; i < p->kind_count; i++) {
		struct kind *k = p->kinds[i];
		const unsigned want = pool_want(k), have = k->count + k->making;
		if (want <= have || want - have <= lack || (now < k->retry_ms && !k->waiting))
			continue;
		if (!fits(p, k)) {
			give_up(p, k);
			continue;
		}
		if (!k->waiting && (rush || (have > want / 2 && now - k->asked_ms < BREATH_MS))) {
			*wait_ms = BREATH_MS;
			continue;
		}
		most = k;
		lack = want - have;
	}
	return most;
}

/* ---- making ------------------------------------------------------------------------------------------------------------------ */

/* The most that it has needed so far, or a guess where no cgroup counts. */
static uint64_t memory_of(const struct cordon_sandbox *s)
{
	char text[32] = "";
	const int fd = s->state.fds[CREATED_MEMORY];
	if (fd >= 0 && pread(fd, text, sizeof(text) - 1, 0) > 0)
		return strtoull(text, NULL, 10);
	return POOL_GUESS;
}

static bool keep(struct pool *p, struct kind *k, const struct parked *one)
{
	if (k->count == k->size) {
		const unsigned size = k->size ? k->size * 2 : 4;
		struct parked *items = realloc(k->items, size * sizeof(*items));
		if (!items)
			return false;
		k->items = items;
		k->size = size;
	}
	k->items[k->count++] = *one;
	k->bytes = MAX(k->bytes, one->bytes);
	p->parked++;
	p->bytes += one->bytes;
	return true;
}

/* Those without an interpreter, because it cannot be started or takes too long, are of use for all else. */
static void await_zygote(struct cordon_sandbox *s)
{
	struct cordon_error err;
	const int64_t until = pool_clock_ms() + ZYGOTE_MS;
	enum zygote_state state;
	while ((state = zygote_look(s, &err)) == ZYGOTE_STARTING && pool_clock_ms() < until) {
		struct pollfd p = {.fd = zygote_fd(s), .events = POLLIN};
		poll(&p, 1, POOL_TICK_MS);
	}
	if (state != ZYGOTE_READY)
		zygote_drop(s);
}

/* The modules that the image wants to be loaded are no reason for an error here: the interpreter starts without them. */
static void start_zygote(struct pool *p, const struct kind *k, const char *language, struct cordon_sandbox *s)
{
	_cleanup_image_ struct image image = {0};
	const bool known = pool_image(k) && image_find(p->ctx->home, pool_image(k), &image, NULL) == 0;
	zygote_park(s, language, known ? &image.preload : NULL, NULL);
}

static unsigned make_some(struct pool *p, const struct kind *k, const char *language, struct parked made[BATCH], unsigned count,
                          struct cordon_error *failed)
{
	const struct pool_stamp stamp = pool_stamp_now(p->ctx, k); /* before: what changes meanwhile is seen */
	unsigned asked = 0, n = 0;
	while (asked < count && sandbox_park(p->ctx, &k->policy, &k->options, &made[asked].sandbox, failed) == 0)
		asked++;
	for (unsigned i = 0; i < asked; i++) {
		struct cordon_sandbox *s = made[i].sandbox;
		if (sandbox_ready(s, failed) < 0) {
			sandbox_end(s);
			continue;
		}
		if (language)
			start_zygote(p, k, language, s);
		made[n++] = (struct parked){.sandbox = s, .stamp = stamp};
	}
	for (unsigned i = 0; i < n; i++) {
		if (language)
			await_zygote(made[i].sandbox);
		made[i].born_ms = pool_clock_ms();
		made[i].bytes = memory_of(made[i].sandbox);
	}
	return n;
}

/* A kind that somebody makes sandboxes of stays, and its policy and options do not change. */
static void make_batch(struct pool *p, struct kind *k, unsigned count)
{
	struct parked made[BATCH] = {0};
	struct cordon_error failed = {0};
	char *language = k->language ? strdup(k->language) : NULL;
	k->making += count;
	pthread_mutex_unlock(&p->lock);
	const int64_t begin = pool_clock_ms();
	const unsigned n = make_some(p, k, language, made, count, &failed);
	const double each = (double)(pool_clock_ms() - begin) / count;
	free(language);
	pthread_mutex_lock(&p->lock);
	k->making -= count;
	k->make_ms = k->make_ms == 0 ? each : k->make_ms * 0.8 + each * 0.2;
	for (unsigned i = 0; i < n; i++)
		if (!keep(p, k, &made[i]))
			sandbox_end(made[i].sandbox);
	if (failed.code != CORDON_OK) {
		p->failed = failed;
		k->failures++;
		k->retry_ms = pool_clock_ms() + RETRY_MS;
	}
	pthread_cond_broadcast(&p->moved);
}

/* ---- the thread -------------------------------------------------------------------------------------------------------------- */

/* One turn, with the lock held at both ends. Returns how long there is nothing to do, in milliseconds. */
static int turn(struct pool *p)
{
	int wait_ms;
	struct cordon_sandbox *bad[BAD_MAX];
	const int64_t now = pool_clock_ms();
	unsigned n = 0;
	if (now - p->looked_ms >= POOL_TICK_MS / 2 || p->look) {
		p->looked_ms = now;
		p->look = false;
		look_at_pressure(p);
		n = sort_out(p, bad);
	}
	if (n) {
		pthread_mutex_unlock(&p->lock);
		for (unsigned i = 0; i < n; i++)
			sandbox_end(bad[i]);
		pthread_mutex_lock(&p->lock);
	}
	if (p->ended_count && !pool_rush_left(p, now))
		pool_end_all(p);
	struct kind *k = p->stop ? NULL : neediest(p, pool_clock_ms(), &wait_ms);
	if (!k)
		return n > 0 || p->stop ? 0 : wait_ms;
	const unsigned lack = pool_want(k) - k->count - k->making;
	unsigned batch = MIN(lack, (unsigned)BATCH);
	batch = MIN(batch, p->max - p->parked);
	make_batch(p, k, batch);
	return 0;
}

static bool anything_to_watch(const struct pool *p)
{
	bool any = p->parked > 0 || p->ended_count > 0;
	for (unsigned i = 0; i < p->kind_count; i++)
		any = any || pool_want(p->kinds[i]);
	return any;
}

static void wait_for(struct pool *p, int ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&p->wake, &p->lock, &until);
}

static void *run(void *arg)
{
	struct pool *p = arg;
	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		const int wait_ms = turn(p);
		if (wait_ms && anything_to_watch(p))
			wait_for(p, wait_ms);
		else if (wait_ms)
			pthread_cond_wait(&p->wake, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int pool_start_thread(struct pool *p, struct cordon_error *err)
{
	sigset_t all, before;
	if (p->running)
		return 0;
	sigfillset(&all); /* signals are the caller's own affair */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	p->running = r == 0;
	if (r == 0)
		return 0;
	errno = r;
	return err_sys(err, "cannot start a thread");
}

int pool_set_pressure(struct pool *p, const char *path)
{
	char *copy = strdup(path);
	pthread_mutex_lock(&p->lock);
	free(p->pressure);
	p->pressure = copy;
	p->look = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	return copy ? 0 : -1;
}

void pool_look(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->look = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}
