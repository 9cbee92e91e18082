/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/opened.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct one {
	TAILQ_ENTRY(one) link; /* the first that was opened comes first */
	uint64_t id;
	uint16_t port;
	const char *texts[4]; /* target, protocol, rule, address; behind this struct, or NULL */
	char text[];
};

TAILQ_HEAD(ones, one);

struct opened {
	struct ones all;
	size_t count;
	struct one *taken;
};

static struct opened *new_set(void)
{
	struct opened *s = calloc(1, sizeof(*s));
	if (s)
		TAILQ_INIT(&s->all);
	return s;
}

static struct one *copy(const struct broker_event *e)
{
	const char *const from[] = {e->target, e->protocol, e->rule, e->address};
	size_t size = 0;
	for (size_t i = 0; i < 4; i++)
		size += from[i] ? strlen(from[i]) + 1 : 0;
	struct one *o = calloc(1, sizeof(*o) + size);
	if (!o)
		return NULL;
	o->id = e->id;
	o->port = e->port;
	char *to = o->text;
	for (size_t i = 0; i < 4; i++) {
		if (!from[i])
			continue;
		const size_t len = strlen(from[i]) + 1;
		o->texts[i] = memcpy(to, from[i], len);
		to += len;
	}
	return o;
}

static void forget(struct opened *s, struct one *o)
{
	TAILQ_REMOVE(&s->all, o, link);
	s->count--;
	free(o);
}

static int add(struct opened *s, const struct broker_event *e)
{
	struct one *o = copy(e);
	if (!o)
		return -1;
	if (s->count == OPENED_MAX)
		forget(s, TAILQ_FIRST(&s->all));
	TAILQ_INSERT_TAIL(&s->all, o, link);
	s->count++;
	return 0;
}

int opened_follow(struct opened **set, const struct broker_event *e)
{
	struct one *o;
	if (e->kind == BROKER_OPENED) {
		if (!*set)
			*set = new_set();
		return *set ? add(*set, e) : -1;
	}
	if (e->kind != BROKER_CLOSED || !*set)
		return 0;
	TAILQ_FOREACH(o, &(*set)->all, link)
	{
		if (o->id == e->id) {
			forget(*set, o);
			break;
		}
	}
	return 0;
}

bool opened_take(struct opened **set, struct broker_event *out)
{
	struct opened *s = *set;
	if (!s)
		return false;
	free(s->taken);
	s->taken = TAILQ_FIRST(&s->all);
	if (!s->taken) {
		free(s);
		*set = NULL;
		return false;
	}
	TAILQ_REMOVE(&s->all, s->taken, link);
	s->count--;
	*out = (struct broker_event){.kind = BROKER_CLOSED,
	                             .id = s->taken->id,
	                             .port = s->taken->port,
	                             .target = s->taken->texts[0],
	                             .protocol = s->taken->texts[1],
	                             .rule = s->taken->texts[2],
	                             .address = s->taken->texts[3]};
	return true;
}
