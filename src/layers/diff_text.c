/* SPDX-License-Identifier: Apache-2.0 */
/* The unified difference of two texts: hunks as diff -u and git print them. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "layers/diff_parts.h"

#define HEADING_MAX ((size_t)80)

/* Lines a0 … a1-1 of the one text become b0 … b1-1 of the other. */
struct edit {
	size_t a0, a1, b0, b1;
};

struct edits {
	struct edit *items;
	size_t count, size;
};

struct hunks {
	struct buf *out;
	const struct diff_side *a, *b;
	size_t context;
	bool colours;
	size_t looked, heading; /* lines of a that were looked at for a heading, and the one that was found, plus one */
};

/* ---- lines -------------------------------------------------------------------------------------------------------------------- */

static bool split_lines(const char *text, size_t len, struct diff_side *out)
{
	size_t count = 0;

	for (const char *p = text, *end = text + len; p < end; count++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		p = nl ? nl + 1 : end;
	}
	out->lines = calloc(MAX(count, (size_t)1), sizeof(*out->lines));
	if (!out->lines)
		return false;
	for (const char *p = text, *end = text + len; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl + 1 : end) - p);

		out->lines[out->count++] = (struct diff_line){.text = p, .len = n};
		p += n;
	}
	return true;
}

static bool add_edit(struct edits *e, const struct edit *item)
{
	if (e->count == e->size) {
		size_t size = e->size ? e->size * 2 : 16;
		struct edit *items = realloc(e->items, size * sizeof(*items));
		if (!items)
			return false;
		e->items = items;
		e->size = size;
	}
	e->items[e->count++] = *item;
	return true;
}

static bool collect_edits(const struct diff_side *a, const struct diff_side *b, struct edits *out)
{
	size_t x = 0, y = 0;

	while (x < a->count || y < b->count) {
		struct edit e = {.a0 = x, .b0 = y};

		while (x < a->count && a->lines[x].changed)
			x++;
		while (y < b->count && b->lines[y].changed)
			y++;
		e.a1 = x;
		e.b1 = y;
		if ((e.a0 != e.a1 || e.b0 != e.b1) && !add_edit(out, &e))
			return false;
		x++; /* an unchanged line of both */
		y++;
	}
	return true;
}

/*
 * A run of lines that was added or removed can often be moved: where the line before the run equals its last one, or its first one the line
 * behind it. Moving it down as far as it goes makes a new function end with its own brace and not begin with that of the one before.
 */
static void slide_down(const struct diff_side *a, const struct diff_side *b, struct edit *e, size_t limit)
{
	bool adds = e->a0 == e->a1;
	const struct diff_line *lines = adds ? b->lines : a->lines;
	size_t *first = adds ? &e->b0 : &e->a0, *end = adds ? &e->b1 : &e->a1;

	if (!adds && e->b0 != e->b1)
		return;
	while (*end < limit && diff_same_line(&lines[*first], &lines[*end])) {
		e->a0++, e->a1++;
		e->b0++, e->b1++;
	}
}

static void slide_edits(const struct diff_side *a, const struct diff_side *b, struct edits *edits)
{
	size_t kept = 0;

	for (size_t i = 0; i < edits->count; i++) {
		struct edit e = edits->items[i], *next = i + 1 < edits->count ? &edits->items[i + 1] : NULL;
		bool adds = e.a0 == e.a1;

		slide_down(a, b, &e, next ? (adds ? next->b0 : next->a0) : (adds ? b->count : a->count));
		if (next && e.a1 == next->a0 && e.b1 == next->b0) { /* they touch now */
			next->a0 = e.a0;
			next->b0 = e.b0;
		} else {
			edits->items[kept++] = e;
		}
	}
	edits->count = kept;
}

/* ---- hunks -------------------------------------------------------------------------------------------------------------------- */

static void put_line(const struct hunks *h, char sign, const struct diff_line *line)
{
	const char *colour = sign == '+' ? COLOUR_GREEN : COLOUR_RED;
	bool ended = line->text[line->len - 1] == '\n';
	size_t len = line->len - ended;

	if (!h->colours) {
		buf_add(h->out, &sign, 1);
		buf_add(h->out, line->text, len);
	} else {
		if (sign != ' ')
			buf_add_str(h->out, colour);
		buf_add(h->out, &sign, 1);
		escape_text(h->out, line->text, len);
		if (sign != ' ')
			buf_add_str(h->out, COLOUR_OFF);
	}
	buf_add_str(h->out, ended ? "\n" : "\n\\ No newline at end of file\n");
}

static void put_lines(const struct hunks *h, char sign, const struct diff_side *side, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		put_line(h, sign, &side->lines[i]);
}

/* "3", "3,0" or "3,7": the first line, from 1, and how many unless it is one; of none, the line before. */
static void put_range(const struct hunks *h, char sign, size_t from, size_t to)
{
	buf_addf(h->out, "%c%zu", sign, to > from ? from + 1 : from);
	if (to - from != 1)
		buf_addf(h->out, ",%zu", to - from);
}

static bool is_heading(const struct diff_line *line)
{
	char c = line->text[0];

	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

/* The last line above the hunk that begins like a function, as git shows it. */
static void put_heading(struct hunks *h, size_t from)
{
	for (; h->looked < from; h->looked++)
		if (is_heading(&h->a->lines[h->looked]))
			h->heading = h->looked + 1;
	if (!h->heading)
		return;
	const struct diff_line *line = &h->a->lines[h->heading - 1];
	size_t len = MIN(line->len, HEADING_MAX);
	while (len > 0 && len < line->len && ((unsigned char)line->text[len] & 0xc0) == 0x80)
		len--; /* not in the middle of a character */
	while (len > 0 && strchr(" \t\r\n\v\f", line->text[len - 1]) && line->text[len - 1])
		len--;
	buf_add_str(h->out, " ");
	if (h->colours)
		escape_text(h->out, line->text, len);
	else
		buf_add(h->out, line->text, len);
}

static void put_header(struct hunks *h, size_t a0, size_t a1, size_t b0, size_t b1)
{
	buf_add_str(h->out, h->colours ? COLOUR_CYAN "@@ " : "@@ ");
	put_range(h, '-', a0, a1);
	buf_add_str(h->out, " ");
	put_range(h, '+', b0, b1);
	buf_add_str(h->out, h->colours ? " @@" COLOUR_OFF : " @@");
	put_heading(h, a0);
	buf_add_str(h->out, "\n");
}

/* Edits first … last are near enough to one another to share a hunk. */
static void put_hunk(struct hunks *h, const struct edit *first, const struct edit *last)
{
	size_t before = MIN(h->context, first->a0), after = MIN(h->context, h->a->count - last->a1);
	size_t x = first->a0 - before;

	put_header(h, x, last->a1 + after, first->b0 - before, last->b1 + after);
	for (const struct edit *e = first; e <= last; e++) {
		put_lines(h, ' ', h->a, x, e->a0);
		put_lines(h, '-', h->a, e->a0, e->a1);
		put_lines(h, '+', h->b, e->b0, e->b1);
		x = e->a1;
	}
	put_lines(h, ' ', h->a, x, x + after);
}

static void put_hunks(struct hunks *h, const struct edits *edits)
{
	for (size_t i = 0, end; i < edits->count; i = end) {
		for (end = i + 1; end < edits->count; end++)
			if (edits->items[end].a0 - edits->items[end - 1].a1 > 2 * h->context)
				break;
		put_hunk(h, &edits->items[i], &edits->items[end - 1]);
	}
}

static bool compare(struct buf *out, const struct diff_side *a, const struct diff_side *b, unsigned context, bool colours, size_t *added,
                    size_t *removed)
{
	struct edits edits = {0};
	struct hunks h = {.out = out, .a = a, .b = b, .context = context, .colours = colours};
	bool fine = collect_edits(a, b, &edits);

	slide_edits(a, b, &edits);
	for (size_t i = 0; i < edits.count; i++) {
		*removed += edits.items[i].a1 - edits.items[i].a0;
		*added += edits.items[i].b1 - edits.items[i].b0;
	}
	if (fine && out)
		put_hunks(&h, &edits);
	free(edits.items);
	return fine && !(out && out->failed);
}

bool diff_text(struct buf *out, const char *a, size_t a_len, const char *b, size_t b_len, unsigned context, bool colours, size_t *added,
               size_t *removed)
{
	struct diff_side sa = {0}, sb = {0};

	*added = *removed = 0;
	bool fine = split_lines(a, a_len, &sa) && split_lines(b, b_len, &sb) && diff_lines(&sa, &sb) &&
	            compare(out, &sa, &sb, context, colours, added, removed);
	free(sa.lines);
	free(sb.lines);
	return fine;
}
