/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/bucket.h"

#include <stdlib.h>

#include "base/util.h"
#include "egress/clock.h"

#define TURN ((uint64_t)16 << 10) /* bytes */
#define LEAST ((uint64_t)1 << 10) /* fewer are not worth a system call */
#define TICK_US 10000
#define BURST_PER_S 10 /* a tenth of a second's worth may be saved up */

TAILQ_HEAD(waiters, bucket_waiter);

struct bucket {
	uint64_t rate, burst, tokens, filled_us;
	uint64_t turn; /* what is left to whoever has its turn */
	bool in_turn;
	struct event *timer;
	struct waiters line;
	size_t waiting;
};

static void fill(struct bucket *b)
{
	uint64_t now = clock_us(), passed = MIN(now - b->filled_us, (uint64_t)1000000);
	uint64_t more = (uint64_t)((unsigned __int128)b->rate * passed / 1000000);
	if (more == 0) /* the time is not lost: it counts the next time */
		return;
	b->tokens = MIN(b->tokens + more, b->burst);
	b->filled_us = now;
}

static void start_timer(struct bucket *b)
{
	const struct timeval tick = {0, TICK_US};
	if (!evtimer_pending(b->timer, NULL))
		evtimer_add(b->timer, &tick);
}

static bool is_empty(const struct bucket *b)
{
	return b->tokens < LEAST;
}

/* Everybody who is waiting now gets at most one turn, and comes to the end of the line if that was not enough. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct bucket *b = arg;
	struct bucket_waiter *w;
	(void)fd;
	(void)what;
	fill(b);
	b->in_turn = true;
	for (size_t turns = b->waiting; turns > 0 && !is_empty(b) && (w = TAILQ_FIRST(&b->line)); turns--) {
		bucket_leave(b, w);
		b->turn = TURN;
		w->go(w->arg);
	}
	b->in_turn = false;
	if (b->waiting)
		start_timer(b);
}

struct bucket *bucket_new(struct event_base *base, uint64_t rate)
{
	struct bucket *b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->rate = rate;
	b->burst = b->tokens = MAX(rate / BURST_PER_S, TURN);
	b->filled_us = clock_us();
	TAILQ_INIT(&b->line);
	b->timer = evtimer_new(base, on_tick, b);
	if (b->timer)
		return b;
	free(b);
	return NULL;
}

void bucket_free(struct bucket *b)
{
	if (!b)
		return;
	event_free(b->timer);
	free(b);
}

size_t bucket_take(struct bucket *b, size_t want)
{
	if (b->rate == 0)
		return want;
	fill(b);
	if (is_empty(b) || (b->in_turn ? b->turn == 0 : b->waiting > 0))
		return 0;
	uint64_t n = MIN(MIN((uint64_t)want, b->tokens), b->in_turn ? b->turn : TURN);
	b->tokens -= n;
	b->turn -= b->in_turn ? n : 0;
	return (size_t)n;
}

void bucket_give_back(struct bucket *b, size_t unused)
{
	if (b->rate)
		b->tokens = MIN(b->tokens + unused, b->burst);
	if (b->in_turn)
		b->turn += unused;
}

void bucket_wait(struct bucket *b, struct bucket_waiter *w)
{
	if (!w->waiting) {
		TAILQ_INSERT_TAIL(&b->line, w, link);
		b->waiting++;
	}
	w->waiting = true;
	start_timer(b);
}

void bucket_leave(struct bucket *b, struct bucket_waiter *w)
{
	if (w->waiting) {
		TAILQ_REMOVE(&b->line, w, link);
		b->waiting--;
	}
	w->waiting = false;
}
