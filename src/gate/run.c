/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/util.h"
#include "gate/index.h"
#include "gate/pack.h"

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void run_stop(struct run *r, const char *limit)
{
	r->limit = limit;
	longjmp(r->stop, 1);
}

static void arena_failed(struct arena *a, int out_of_memory) __attribute__((noreturn));
static void arena_failed(struct arena *a, int out_of_memory)
{
	struct run *r = a->owner;
	r->out_of_memory = out_of_memory;
	run_stop(r, "the text needs more memory than a check may use");
}

void run_tick(struct run *r)
{
	if (r->steps > RUN_STEPS)
		run_stop(r, "the text takes more steps than a check may make");
	if (now() > r->deadline)
		run_stop(r, "the text takes longer than a check may last");
}

bool run_enter(struct run *r, uint32_t offset)
{
	if (r->depth >= RUN_DEPTH) {
		run_unproven(r, "limit", "it is nested too deeply to be followed", offset, offset + 1);
		return false;
	}
	r->depth++;
	run_step(r);
	return true;
}

/* ---- findings ---------------------------------------------------------------------------------------------------------------- */

static void place(struct source *s, uint32_t offset, uint32_t *line, uint32_t *column)
{
	if (s->nested) {
		*line = s->line;
		*column = s->column;
		return;
	}
	if (offset > s->len)
		offset = (uint32_t)s->len;
	if (offset < s->seen_offset)
		s->seen_offset = s->seen_line = s->seen_start = 0;
	const char *p = s->text + s->seen_offset, *end = s->text + offset, *newline;
	while (p < end && (newline = memchr(p, '\n', (size_t)(end - p)))) {
		s->seen_line++;
		p = newline + 1;
		s->seen_start = (uint32_t)(p - s->text);
	}
	s->seen_offset = offset;
	*line = s->seen_line + 1;
	*column = offset - s->seen_start + 1;
}

/* One line of at most GATE_SNIPPET bytes; markers become "…", which is what a reader would write there. */
static const char *snippet(struct run *r, uint32_t start, uint32_t end)
{
	static const char dots[] = "\xe2\x80\xa6";
	const struct source *s = r->source;
	char *out = arena_alloc(&r->arena, GATE_SNIPPET + 1);
	size_t n = 0;
	if (start > s->len)
		start = (uint32_t)s->len;
	if (end > s->len)
		end = (uint32_t)s->len;
	for (uint32_t i = start; i < end; i++) {
		unsigned char c = (unsigned char)s->text[i];
		bool mark = is_mark((char)c);
		if (n + sizeof(dots) + 4 > GATE_SNIPPET || c == '\n' || mark) {
			if (n < 3 || memcmp(out + n - 3, dots, 3) != 0) {
				memcpy(out + n, dots, 3);
				n += 3;
			}
			if (!mark)
				break;
			continue;
		}
		out[n++] = c < ' ' || c == 0x7f ? ' ' : (char)c;
	}
	if (!utf8_valid(out, n))
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)out[i] >= 0x80)
				out[i] = '?';
	out[n] = '\0';
	return out;
}

static void add_finding(struct run *r, struct gate_finding f, uint32_t start, uint32_t end)
{
	if (r->quiet)
		return;
	if (f.verdict > r->verdict)
		r->verdict = f.verdict;
	place(r->source, start, &f.line, &f.column);
	uint64_t key = ((uint64_t)(uintptr_t)f.rule << 24) ^ ((uint64_t)f.line << 12) ^ f.column ^ ((uint64_t)f.verdict << 60);
	for (size_t i = 0; i < r->count; i++)
		if (r->finding_keys[i] == key)
			return;
	if (r->count == GATE_FINDINGS) {
		r->more = true;
		return;
	}
	f.snippet = snippet(r, start, end);
	r->finding_keys[r->count] = key;
	r->findings[r->count++] = f;
}

void run_find(struct run *r, const struct gate_rule *rule, const char *pack, enum gate_verdict verdict, uint32_t start, uint32_t end)
{
	add_finding(r,
	            (struct gate_finding){
			    .verdict = verdict, .rule = rule->name, .pack = pack, .reason = rule->reason, .severity = rule->severity},
	            start, end);
}

void run_unproven(struct run *r, const char *name, const char *reason, uint32_t start, uint32_t end)
{
	add_finding(r, (struct gate_finding){.verdict = GATE_UNPROVEN, .rule = name, .reason = reason, .severity = GATE_LOW}, start, end);
}

/* ---- texts within texts ------------------------------------------------------------------------------------------------------ */

struct source *run_nest(struct run *r, struct text text, uint32_t start, uint32_t end)
{
	if (r->nesting >= RUN_NESTING) {
		run_unproven(r, "limit", "too many texts within each other to be followed", start, end);
		return NULL;
	}
	r->nesting++;
	struct source *outer = r->source, *inner = ARENA_NEW(&r->arena, struct source);
	inner->text = text.s;
	inner->len = text.n;
	inner->nested = true;
	place(outer, start, &inner->line, &inner->column);
	r->source = inner;
	return outer;
}

void run_unnest(struct run *r, struct source *outer)
{
	r->nesting--;
	r->source = outer;
}

/* ---- the frame of a check ---------------------------------------------------------------------------------------------------- */

/* What was found goes into one allocation that outlives the arena. */
static int hand_over(struct run *r, struct gate_result *out, struct cordon_error *err)
{
	size_t size = r->count * sizeof(*r->findings);
	for (size_t i = 0; i < r->count; i++)
		size += strlen(r->findings[i].snippet) + 1;
	*out = (struct gate_result){.verdict = r->verdict, .more = r->more};
	if (!r->count)
		return 0;
	struct gate_finding *items = malloc(size);
	if (!items)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	memcpy(items, r->findings, r->count * sizeof(*items));
	char *text = (char *)(items + r->count);
	for (size_t i = 0; i < r->count; i++) {
		size_t n = strlen(items[i].snippet) + 1;
		items[i].snippet = memcpy(text, items[i].snippet, n);
		text += n;
	}
	out->items = out->memory = items;
	out->count = r->count;
	return 0;
}

static void release(struct run *r)
{
	while (r->cursor_count)
		ts_tree_cursor_delete(&r->cursors[--r->cursor_count]);
	if (r->tree)
		ts_tree_delete(r->tree);
	if (r->parser)
		ts_parser_delete(r->parser);
	arena_free(&r->arena);
}

/* Apart, so that no local of the caller is live across the jump. */
static void guarded(struct run *r, void (*check)(struct run *r, void *data), void *data)
{
	if (setjmp(r->stop) == 0)
		check(r, data);
}

int run_check(const struct gate *g, void (*check)(struct run *r, void *data), void *data, struct gate_result *result,
              struct cordon_error *err)
{
	struct gate_finding findings[GATE_FINDINGS];
	uint64_t keys[GATE_FINDINGS];
	struct source none = {.text = ""};
	struct run r = {.gate = g, .findings = findings, .finding_keys = keys, .source = &none};
	r.arena.limit = gate_limit_bytes(g);
	r.arena.fail = arena_failed;
	r.arena.owner = &r;
	r.deadline = now() + (uint64_t)gate_limit_ms(g) * 1000000u;
	guarded(&r, check, data);
	int status;
	if (r.out_of_memory) {
		status = err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	} else {
		if (r.limit) {
			struct gate_finding f = {
				.verdict = GATE_UNPROVEN, .rule = "limit", .reason = r.limit, .line = 1, .column = 1, .snippet = ""};
			if (r.count < GATE_FINDINGS)
				findings[r.count++] = f;
			else
				r.more = true;
			r.verdict = MAX(r.verdict, GATE_UNPROVEN);
		}
		status = hand_over(&r, result, err);
	}
	release(&r);
	return status;
}

void gate_result_free(struct gate_result *r)
{
	free(r->memory);
	*r = (struct gate_result){0};
}

const struct gate_finding *gate_result_first(const struct gate_result *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].verdict == r->verdict)
			return &r->items[i];
	return NULL;
}
