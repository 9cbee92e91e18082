/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/watchers.h"

#include <stdlib.h>
#include <string.h>

#include "audit/query.h"
#include "base/util.h"

#define QUEUE_MAX ((size_t)32 << 20) /* who commits more than this waits for the callbacks */
#define ENTRIES_MAX 10000000

struct chunk {
	struct chunk *next;
	uint64_t ticket;
	char *lines;
	size_t len;
};

int watchers_init(struct watchers *w, size_t max_entries, struct cordon_error *err)
{
	*w = (struct watchers){.max = max_entries};
	w->end = &w->first;
	if (max_entries > ENTRIES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "audit: max_entries is %zu; at most %d are kept in memory", max_entries, ENTRIES_MAX);
	w->ring = max_entries ? calloc(max_entries, sizeof(*w->ring)) : NULL;
	return max_entries && !w->ring ? err_sys(err, "audit") : 0;
}

static void free_chunk(struct chunk *c)
{
	free(c->lines);
	free(c);
}

void watchers_free(struct watchers *w)
{
	for (struct chunk *c = w->first, *next; c; c = next) {
		next = c->next;
		free_chunk(c);
	}
	for (size_t i = 0; i < w->count; i++)
		free(w->ring[(w->oldest + i) % w->max]);
	free(w->ring);
	buf_free(&w->fresh);
	*w = (struct watchers){0};
}

int watchers_add(struct watchers *w, audit_callback *callback, void *arg, struct cordon_error *err)
{
	for (size_t i = 0; i < WATCHERS_MAX; i++) {
		if (!w->slots[i].callback) {
			w->slots[i] = (struct watcher){callback, arg, ++w->last_id};
			return w->last_id;
		}
	}
	return err_set(err, CORDON_ERR_INPUT, "audit: there are %d callbacks already", WATCHERS_MAX);
}

void watchers_remove(struct watchers *w, int id, pthread_mutex_t *mutex, pthread_cond_t *changed)
{
	for (size_t i = 0; i < WATCHERS_MAX; i++)
		if (w->slots[i].callback && w->slots[i].id == id)
			w->slots[i].callback = NULL;
	while (w->delivering && !pthread_equal(w->deliverer, pthread_self()))
		pthread_cond_wait(changed, mutex);
}

/* ---- what was written -------------------------------------------------------------------------------------------------------- */

void watchers_begin(struct watchers *w)
{
	w->wanted = w->max > 0;
	for (size_t i = 0; i < WATCHERS_MAX; i++)
		w->wanted = w->wanted || w->slots[i].callback;
}

void watchers_collect(struct watchers *w, const char *lines, size_t len)
{
	if (w->wanted)
		buf_add(&w->fresh, lines, len);
}

void watchers_mark(struct watchers *w, uint64_t ticket)
{
	struct chunk *c = w->fresh.len && !w->fresh.failed ? calloc(1, sizeof(*c)) : NULL;

	if (!c) { /* out of memory: the records are in the log, which is what matters */
		buf_free(&w->fresh);
		return;
	}
	c->ticket = ticket;
	c->len = w->fresh.len;
	c->lines = buf_steal(&w->fresh);
	*w->end = c;
	w->end = &c->next;
	w->queued += c->len;
}

/* ---- showing it -------------------------------------------------------------------------------------------------------------- */

static void keep(struct watchers *w, const char *line, size_t len)
{
	char *copy = w->max ? strndup(line, len) : NULL;

	if (!copy)
		return;
	if (w->count == w->max) {
		free(w->ring[w->oldest]);
		w->oldest = (w->oldest + 1) % w->max;
		w->count--;
	}
	w->ring[(w->oldest + w->count++) % w->max] = copy;
}

/* One after the other; who unsubscribes in the meantime is left out. */
static void show(struct watchers *w, char *line, size_t len, pthread_mutex_t *mutex)
{
	line[len] = '\0';
	keep(w, line, len);
	for (size_t i = 0; i < WATCHERS_MAX; i++) {
		const struct watcher who = w->slots[i];

		if (!who.callback)
			continue;
		pthread_mutex_unlock(mutex);
		who.callback(who.arg, line, len);
		pthread_mutex_lock(mutex);
	}
}

void watchers_deliver(struct watchers *w, uint64_t committed, pthread_mutex_t *mutex, pthread_cond_t *changed)
{
	while (w->delivering && !pthread_equal(w->deliverer, pthread_self()) && w->queued > QUEUE_MAX)
		pthread_cond_wait(changed, mutex);
	w->committed = MAX(w->committed, committed);
	if (w->delivering)
		return; /* whoever is at it goes on with ours */
	w->delivering = true;
	w->deliverer = pthread_self();
	while (w->first && w->first->ticket <= w->committed) {
		struct chunk *c = w->first;

		w->first = c->next;
		if (!w->first)
			w->end = &w->first;
		w->queued -= c->len;
		for (size_t at = 0; at < c->len;) {
			size_t len = (size_t)((char *)memchr(c->lines + at, '\n', c->len - at) - (c->lines + at));

			show(w, c->lines + at, len, mutex);
			at += len + 1;
		}
		free_chunk(c);
		pthread_cond_broadcast(changed);
	}
	w->delivering = false;
	pthread_cond_broadcast(changed);
}

int watchers_recent(struct watchers *w, const struct audit_filter *filter, size_t limit, struct buf *out, struct cordon_error *err)
{
	_cleanup_free_ bool *wanted = calloc(w->count ? w->count : 1, sizeof(*wanted));
	size_t found = 0;

	if (!wanted)
		return err_sys(err, "audit");
	for (size_t i = w->count; i-- && (!limit || found < limit);) {
		const char *line = w->ring[(w->oldest + i) % w->max];
		struct audit_line l;

		wanted[i] = !filter || (!audit_scan(line, strlen(line), &l) && audit_matches(filter, &l));
		found += wanted[i];
	}
	for (size_t i = 0; i < w->count; i++) {
		if (!wanted[i])
			continue;
		buf_add_str(out, w->ring[(w->oldest + i) % w->max]);
		buf_add(out, "\n", 1);
	}
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "audit: out of memory") : 0;
}
