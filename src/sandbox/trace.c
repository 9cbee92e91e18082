/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

_Static_assert(TRACE_EVENT_MAX <= WIRE_INLINE, "an event would need a memfd, which the supervisor's filter may refuse");

static void put_head(struct buf *b, const struct trace_slot *s, uint64_t lost)
{
	wire_put_u32(b, s->kind);
	wire_put_u32(b, s->flags);
	wire_put_u64(b, s->seq);
	wire_put_u64(b, s->time_us);
	wire_put_u64(b, s->duration_us);
	wire_put_u64(b, lost);
	wire_put_u32(b, (uint32_t)s->pid);
	wire_put_u32(b, (uint32_t)s->ppid);
	wire_put_u32(b, (uint32_t)s->status);
}

static uint32_t count_words(const char *text, size_t len)
{
	uint32_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\0';
	return MIN(n, TRACE_WORDS_MAX);
}

void trace_put(struct buf *b, struct trace_table *t, struct trace_slot *s)
{
	const size_t path = MIN((size_t)s->path_len, sizeof(s->text) - 1), argv = MIN((size_t)s->argv_len, sizeof(s->text) - path);
	s->text[path ? path - 1 : 0] = '\0';
	if (argv)
		s->text[path + argv - 1] = '\0';
	if (s->seq == 0)
		s->seq = ++t->seq;
	put_head(b, s, 0);
	wire_put_str(b, s->text);
	const char *word = s->text + path;
	const uint32_t words = count_words(word, argv);
	wire_put_u32(b, words);
	for (uint32_t i = 0; i < words; i++) {
		wire_put_str(b, word);
		word += strlen(word) + 1;
	}
}

void trace_put_lost(struct buf *b, uint64_t seq, uint64_t lost)
{
	const struct trace_slot s = {.kind = TRACE_LOST, .seq = seq, .status = TRACE_UNKNOWN};
	put_head(b, &s, lost);
	wire_put_str(b, "");
	wire_put_u32(b, 0);
}

int trace_next(struct wire_reader *r, struct trace_event *out)
{
	*out = (struct trace_event){0};
	if (wire_done(r))
		return 0;
	const uint32_t kind = wire_get_u32(r);
	out->flags = wire_get_u32(r);
	out->seq = wire_get_u64(r);
	out->time_us = wire_get_u64(r);
	out->duration_us = wire_get_u64(r);
	out->lost = wire_get_u64(r);
	out->pid = (int32_t)wire_get_u32(r);
	out->ppid = (int32_t)wire_get_u32(r);
	out->status = (int32_t)wire_get_u32(r);
	out->path = wire_get_str(r);
	string_list_get(r, &out->argv);
	if (r->bad || kind == 0 || kind >= TRACE_KIND_COUNT || (out->flags & ~(uint32_t)TRACE_FLAGS_ALL) || !out->path ||
	    strlen(out->path) >= TRACE_PATH_MAX || out->argv.count > TRACE_WORDS_MAX || out->status < TRACE_UNKNOWN) {
		trace_event_free(out);
		return -1;
	}
	out->kind = (enum trace_kind)kind;
	return 1;
}

void trace_event_free(struct trace_event *e)
{
	free(e->argv.items);
	*e = (struct trace_event){0};
}
