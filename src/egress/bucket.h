/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit on bytes per second for all connections together: a token bucket. Who finds it empty waits in a line, and each turn is worth a small amount, so
 * that one connection which could take everything does not.
 */
#ifndef CORDON_EGRESS_BUCKET_H
#define CORDON_EGRESS_BUCKET_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct bucket;

struct bucket_waiter {
	TAILQ_ENTRY(bucket_waiter) link;
	bool waiting;
	void (*go)(void *arg); /* its turn has come: it is in the line no more, and may get into it again */
	void *arg;
};

struct bucket *bucket_new(struct event_base *base, uint64_t rate); /* rate 0: no limit. NULL: out of memory */
void bucket_free(struct bucket *b);

/* How many of these bytes may go now; 0: none, wait. What was not used is given back. */
size_t bucket_take(struct bucket *b, size_t want);
void bucket_give_back(struct bucket *b, size_t unused);

void bucket_wait(struct bucket *b, struct bucket_waiter *w); /* once, however often it is called */
void bucket_leave(struct bucket *b, struct bucket_waiter *w);

#endif
