/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at once. All of them want the same few CPUs, so who comes first matters more than who can be begun: those that found a parked sandbox are answered while
 * the others take turns at having one made; what is parked anew, and what those leave behind who are done, waits until the rush is over. A rush begins with the first
 * request after a calm and lasts for POOL_RUSH_MS at most: who goes on to make requests needs new sandboxes, and the old ones gone.
 */
#include <string.h>

#include "base/util.h"
#include "lib/pool_parts.h"

/* With the lock held. */
void pool_stir(struct pool *p, int64_t now)
{
	if (now - p->stirred_ms > POOL_CALM_MS)
		p->rush_ms = now;
	p->stirred_ms = now;
}

int pool_rush_left(const struct pool *p, int64_t now)
{
	if (p->stop || now - p->rush_ms >= POOL_RUSH_MS)
		return 0;
	return p->makers || now - p->stirred_ms < POOL_PAUSE_MS ? POOL_PAUSE_MS : 0;
}

void pool_turn_begin(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->makers < p->makers_max) {
		p->makers++;
	} else {
		p->in_line++;
		while (!p->turns)
			pthread_cond_wait(&p->turned, &p->lock);
		p->turns--;
	}
	pthread_mutex_unlock(&p->lock);
}

void pool_turn_end(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	pool_stir(p, pool_clock_ms());
	if (p->in_line) { /* handed on, so that nobody who comes later is faster */
		p->in_line--;
		p->turns++;
		pthread_cond_signal(&p->turned);
	} else {
		p->makers--;
	}
	pthread_mutex_unlock(&p->lock);
}

bool pool_end(struct pool *p, struct cordon_sandbox *s)
{
	bool taken = false;
	if (!p)
		return false;
	pthread_mutex_lock(&p->lock);
	const int64_t now = pool_clock_ms();
	pool_stir(p, now);
	if (p->running && p->ended_count < ARRAY_SIZE(p->ended) && pool_rush_left(p, now)) {
		p->ended[p->ended_count++] = s;
		taken = true;
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return taken;
}

void pool_end_all(struct pool *p)
{
	struct cordon_sandbox *ended[ARRAY_SIZE(p->ended)];
	const unsigned n = p->ended_count;
	memcpy(ended, p->ended, n * sizeof(*ended));
	p->ended_count = 0;
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < n; i++)
		sandbox_end(ended[i]);
	pthread_mutex_lock(&p->lock);
}
