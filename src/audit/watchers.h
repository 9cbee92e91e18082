/* SPDX-License-Identifier: Apache-2.0 */
/* Who wants to see what this process writes: callbacks, and the records that are kept in memory. Part of audit.c, by whose mutex everything here is used. */
#ifndef CORDON_AUDIT_WATCHERS_H
#define CORDON_AUDIT_WATCHERS_H

#include <pthread.h>

#include "audit/audit.h"

enum { WATCHERS_MAX = 16 };

struct watchers {
	struct watcher {
		audit_callback *callback; /* NULL: free */
		void *arg;
		int id;
	} slots[WATCHERS_MAX];
	int last_id;
	struct chunk *first, **end; /* written, not delivered yet; oldest first */
	size_t queued;              /* bytes in there */
	uint64_t committed;         /* tickets */
	bool delivering;
	pthread_t deliverer;
	char **ring; /* the last `max` records that were delivered; `count` of them, the oldest at `oldest` */
	size_t max, oldest, count;

	/* of whoever writes: no mutex */
	bool wanted;
	struct buf fresh;
};

int watchers_init(struct watchers *w, size_t max_entries, struct cordon_error *err);
void watchers_free(struct watchers *w);
int watchers_add(struct watchers *w, audit_callback *callback, void *arg, struct cordon_error *err);
void watchers_remove(struct watchers *w, int id, pthread_mutex_t *mutex, pthread_cond_t *changed);

/* A write begins; lines were written (without the mutex); the write is over, and what it wrote counts when everything up to `ticket` is committed. */
void watchers_begin(struct watchers *w);
void watchers_collect(struct watchers *w, const char *lines, size_t len);
void watchers_mark(struct watchers *w, uint64_t ticket);

/* Shows everybody what is committed now. The mutex is released meanwhile. */
void watchers_deliver(struct watchers *w, uint64_t committed, pthread_mutex_t *mutex, pthread_cond_t *changed);

int watchers_recent(struct watchers *w, const struct audit_filter *filter, size_t limit, struct buf *out, struct cordon_error *err);

#endif
