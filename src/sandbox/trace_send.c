/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/util.h"
#include "sandbox/trace.h"

/* POLLOUT is told while at most a quarter of the socket's room is used: so nobody blocks here, and there is always room for init's last word. */
static bool can_send(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLOUT};
	return poll(&p, 1, 0) > 0;
}

/* A library that is gone is seen by init; nobody misses these then. */
static void send_batch(int sock, struct trace_table *t, struct buf *b, const uint32_t *slots, size_t count)
{
	wire_send(sock, WIRE_TRACE, b, NULL, 0, NULL);
	for (size_t i = 0; i < count; i++)
		t->slots[slots[i]].state = TRACE_SLOT_FREE;
	b->len = 0;
}

void trace_close(struct trace_table *t, uint64_t now_us)
{
	for (uint32_t i = 0; i < MIN(t->used, TRACE_SLOTS); i++) {
		struct trace_slot *s = &t->slots[i];
		if (s->state != TRACE_SLOT_OPEN)
			continue;
		s->duration_us = now_us > s->begun_us ? now_us - s->begun_us : 0;
		s->flags |= TRACE_RUNNING;
		s->state = TRACE_SLOT_ENDED;
	}
}

bool trace_send(int sock, struct trace_table *t, size_t *sent)
{
	_cleanup_buf_ struct buf b = {0};
	uint32_t slots[TRACE_SLOTS];
	size_t count = 0;
	for (uint32_t i = 0; i < MIN(t->used, TRACE_SLOTS); i++) {
		struct trace_slot *s = &t->slots[i];
		if (s->state != TRACE_SLOT_ENDED)
			continue;
		if (count && b.len + TRACE_EVENT_MAX > WIRE_INLINE) {
			send_batch(sock, t, &b, slots, count);
			*sent += count;
			count = 0;
		}
		if (count == 0 && !can_send(sock))
			return false;
		trace_put(&b, t, s);
		slots[count++] = i;
	}
	if (count)
		send_batch(sock, t, &b, slots, count);
	*sent += count;
	return true;
}
