/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lines two texts have in common: E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), in its form that needs linear
 * space: a box of the edit graph is searched from both corners until the searches meet, and the two boxes before and after the meeting
 * point are next. Lines that only one text has are set aside first, so that a file that was rewritten costs nothing. Where the searches do not
 * meet within DIFF_COST_MAX steps the box is cut at the point furthest reached, as diff(1) and git do: the result is a little longer than it
 * needs to be, and still right. WORK_MAX bounds all of it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "layers/diff_parts.h"

#define LINES_MAX ((size_t)1000000) /* of one text */
#ifndef DIFF_COST_MAX               /* a test has a smaller one */
#define DIFF_COST_MAX 512
#endif
#define WORK_MAX ((uint64_t)256 << 20) /* about a second */

struct sequence {
	unsigned *ids;
	struct diff_line **lines; /* which line each id stands for */
	int count;
};

struct search {
	struct sequence a, b;
	int *memory;
	int *forward, *backward; /* by diagonal (x - y): the furthest x reached from either corner */
	uint64_t work;
};

struct box {
	int x0, x1, y0, y1;
};

/* The diagonals of a box that one of the searches is at. */
struct band {
	int low, high;
};

bool diff_same_line(const struct diff_line *a, const struct diff_line *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* ---- the search --------------------------------------------------------------------------------------------------------------- */

/* One more diagonal on each side, or one less where the box ends; `beyond` is what lies outside. */
static void widen(struct band *s, int *reached, int low, int high, int beyond)
{
	if (s->low > low)
		reached[--s->low - 1] = beyond;
	else
		s->low++;
	if (s->high < high)
		reached[++s->high + 1] = beyond;
	else
		s->high--;
}

static bool in_band(const struct band *s, int d)
{
	return s->low <= d && d <= s->high;
}

/* One step from the upper left corner. True: on diagonal *at it met the other search. */
static bool step_forward(struct search *s, const struct box *box, const struct band *f, const struct band *b, bool odd, int *at)
{
	for (int d = f->high; d >= f->low; d -= 2) {
		int x = s->forward[d - 1] >= s->forward[d + 1] ? s->forward[d - 1] + 1 : s->forward[d + 1];
		int from = x;

		while (x < box->x1 && x - d < box->y1 && s->a.ids[x] == s->b.ids[x - d])
			x++;
		s->work += 1 + (uint64_t)(x - from);
		s->forward[d] = x;
		*at = d;
		if (odd && in_band(b, d) && s->backward[d] <= x)
			return true;
	}
	return false;
}

static bool step_backward(struct search *s, const struct box *box, const struct band *f, const struct band *b, bool odd, int *at)
{
	for (int d = b->high; d >= b->low; d -= 2) {
		int x = s->backward[d - 1] < s->backward[d + 1] ? s->backward[d - 1] : s->backward[d + 1] - 1;
		int from = x;

		while (x > box->x0 && x - d > box->y0 && s->a.ids[x - 1] == s->b.ids[x - d - 1])
			x--;
		s->work += 1 + (uint64_t)(from - x);
		s->backward[d] = x;
		*at = d;
		if (!odd && in_band(f, d) && x <= s->forward[d])
			return true;
	}
	return false;
}

/* The point that either search has come furthest to. */
static void furthest(const struct search *s, const struct box *box, const struct band *f, const struct band *b, int *x, int *y)
{
	int best = 0;

	*x = box->x0;
	*y = box->y0;
	for (int d = f->high; d >= f->low; d -= 2) {
		int fx = MIN(MIN(s->forward[d], box->x1), box->y1 + d);
		int gain = fx - box->x0 + fx - d - box->y0;

		if (gain > best) {
			best = gain;
			*x = fx;
			*y = fx - d;
		}
	}
	for (int d = b->high; d >= b->low; d -= 2) {
		int bx = MAX(MAX(s->backward[d], box->x0), box->y0 + d);
		int gain = box->x1 - bx + box->y1 - (bx - d);

		if (gain > best) {
			best = gain;
			*x = bx;
			*y = bx - d;
		}
	}
}

/* A point that a shortest (or, past DIFF_COST_MAX, a short) way through the box passes. */
static void split(struct search *s, const struct box *box, int *x, int *y)
{
	int low = box->x0 - box->y1, high = box->x1 - box->y0;
	int start = box->x0 - box->y0, end = box->x1 - box->y1, at;
	bool odd = (start - end) & 1;
	struct band f = {start, start}, b = {end, end};

	s->forward[start] = box->x0;
	s->backward[end] = box->x1;
	for (int cost = 1; cost <= DIFF_COST_MAX; cost++) {
		widen(&f, s->forward, low, high, -1);
		if (step_forward(s, box, &f, &b, odd, &at)) {
			*x = s->forward[at];
			*y = *x - at;
			return;
		}
		widen(&b, s->backward, low, high, INT32_MAX);
		if (step_backward(s, box, &f, &b, odd, &at)) {
			*x = s->backward[at];
			*y = *x - at;
			return;
		}
	}
	furthest(s, box, &f, &b, x, y);
}

static void trim(const struct search *s, struct box *box)
{
	while (box->x0 < box->x1 && box->y0 < box->y1 && s->a.ids[box->x0] == s->b.ids[box->y0])
		box->x0++, box->y0++;
	while (box->x0 < box->x1 && box->y0 < box->y1 && s->a.ids[box->x1 - 1] == s->b.ids[box->y1 - 1])
		box->x1--, box->y1--;
}

static void mark_all(const struct search *s, const struct box *box)
{
	for (int x = box->x0; x < box->x1; x++)
		s->a.lines[x]->changed = true;
	for (int y = box->y0; y < box->y1; y++)
		s->b.lines[y]->changed = true;
}

static int box_size(const struct box *b)
{
	return b->x1 - b->x0 + b->y1 - b->y0;
}

/* The larger half waits, so that no more wait than the size has bits. */
static bool search_boxes(struct search *s)
{
	struct box stack[64];
	size_t waiting = 1;

	stack[0] = (struct box){0, s->a.count, 0, s->b.count};
	while (waiting > 0) {
		struct box box = stack[--waiting];
		int x, y;

		trim(s, &box);
		if (box.x0 == box.x1 || box.y0 == box.y1) {
			mark_all(s, &box);
			continue;
		}
		split(s, &box, &x, &y);
		if (s->work > WORK_MAX)
			return false;
		struct box head = {box.x0, x, box.y0, y}, tail = {x, box.x1, y, box.y1};
		if (box_size(&head) == 0 || box_size(&tail) == 0) {
			mark_all(s, &box); /* no way through it was found */
			continue;
		}
		bool head_first = box_size(&head) < box_size(&tail);
		stack[waiting++] = head_first ? tail : head;
		stack[waiting++] = head_first ? head : tail;
	}
	return true;
}

/* ---- preparation -------------------------------------------------------------------------------------------------------------- */

/* Lengths first, which tells most lines apart. Sorting, not hashing: nobody can write a file that makes it slow. */
static int by_text(const void *pa, const void *pb)
{
	const struct diff_line *a = *(struct diff_line *const *)pa, *b = *(struct diff_line *const *)pb;

	return a->len != b->len ? (a->len < b->len ? -1 : 1) : memcmp(a->text, b->text, a->len);
}

static bool belongs_to(const struct diff_line *line, const struct diff_side *side)
{
	return line >= side->lines && line < side->lines + side->count;
}

/* Numbers the lines; those without a counterpart in the other text are changed and take no further part. */
static bool number_lines(struct diff_side *a, struct diff_side *b)
{
	size_t count = a->count + b->count, end;
	_cleanup_free_ struct diff_line **sorted = malloc(MAX(count, (size_t)1) * sizeof(*sorted));

	if (!sorted)
		return false;
	for (size_t i = 0; i < count; i++)
		sorted[i] = i < a->count ? &a->lines[i] : &b->lines[i - a->count];
	qsort(sorted, count, sizeof(*sorted), by_text);
	for (size_t i = 0; i < count; i = end) {
		bool in_a = false, in_b = false;

		for (end = i; end < count && diff_same_line(sorted[i], sorted[end]); end++) {
			in_a |= belongs_to(sorted[end], a);
			in_b |= belongs_to(sorted[end], b);
		}
		for (size_t k = i; k < end; k++) {
			sorted[k]->id = (unsigned)i;
			sorted[k]->changed = !in_a || !in_b;
		}
	}
	return true;
}

static bool sequence_of(const struct diff_side *side, struct sequence *out)
{
	out->ids = malloc(MAX(side->count, (size_t)1) * sizeof(*out->ids));
	out->lines = malloc(MAX(side->count, (size_t)1) * sizeof(struct diff_line *));
	if (!out->ids || !out->lines)
		return false;
	for (size_t i = 0; i < side->count; i++) {
		if (side->lines[i].changed)
			continue;
		out->ids[out->count] = side->lines[i].id;
		out->lines[out->count++] = &side->lines[i];
	}
	return true;
}

static void search_free(struct search *s)
{
	free(s->a.ids);
	free(s->a.lines);
	free(s->b.ids);
	free(s->b.lines);
	free(s->memory);
}
#define _cleanup_search_ __attribute__((cleanup(search_free)))

static bool search_sides(struct diff_side *a, struct diff_side *b)
{
	_cleanup_search_ struct search s = {0};

	if (!number_lines(a, b) || !sequence_of(a, &s.a) || !sequence_of(b, &s.b))
		return false;
	/* diagonals go from -b.count to a.count, and one more on either side is looked at */
	size_t diagonals = (size_t)s.a.count + (size_t)s.b.count + 3;
	s.memory = malloc(2 * diagonals * sizeof(*s.memory));
	if (!s.memory)
		return false;
	s.forward = s.memory + s.b.count + 1;
	s.backward = s.forward + diagonals;
	return search_boxes(&s);
}

bool diff_lines(struct diff_side *a, struct diff_side *b)
{
	struct diff_side ma = *a, mb = *b; /* the middle: what lies between a common beginning and a common end */

	if (a->count > LINES_MAX || b->count > LINES_MAX)
		return false;
	while (ma.count && mb.count && diff_same_line(ma.lines, mb.lines))
		ma.lines++, ma.count--, mb.lines++, mb.count--;
	while (ma.count && mb.count && diff_same_line(&ma.lines[ma.count - 1], &mb.lines[mb.count - 1]))
		ma.count--, mb.count--;
	return search_sides(&ma, &mb);
}
