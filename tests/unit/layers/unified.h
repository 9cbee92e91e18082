/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the hunks of a unified difference, without mercy: any line that does not fit is a failure. For the unit tests and the fuzzer. */
#ifndef CORDON_TESTS_UNIFIED_H
#define CORDON_TESTS_UNIFIED_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

struct unified {
	const char *old, *old_end;     /* what is left of the text that is changed */
	const char *patch, *patch_end; /* what is left of the hunks */
	size_t old_line, new_line;     /* lines passed in either */
	size_t added, removed;
	struct buf *out;
};

static inline size_t unified_line(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return (size_t)((nl ? nl + 1 : end) - p);
}

static inline bool unified_number(struct unified *u, size_t *out)
{
	const char *start = u->patch;

	for (*out = 0; u->patch < u->patch_end && *u->patch >= '0' && *u->patch <= '9'; u->patch++)
		*out = *out * 10 + (size_t)(*u->patch - '0');
	return u->patch > start;
}

/* "-3,7": the number of the first line, from 0, and how many. */
static inline bool unified_range(struct unified *u, char sign, size_t *from, size_t *count)
{
	if (u->patch == u->patch_end || *u->patch++ != sign || !unified_number(u, from))
		return false;
	*count = 1;
	if (u->patch < u->patch_end && *u->patch == ',') {
		u->patch++;
		if (!unified_number(u, count) || *count == 1)
			return false;
	}
	if (*count > 0 && (*from)-- == 0)
		return false;
	return true;
}

/* The next line of the old text must be `text`. */
static inline bool unified_take(struct unified *u, const char *text, size_t len)
{
	size_t n = unified_line(u->old, u->old_end);

	if (n != len || memcmp(u->old, text, len) != 0)
		return false;
	u->old += n;
	u->old_line++;
	return true;
}

static inline bool unified_body_line(struct unified *u, size_t *old_left, size_t *new_left)
{
	static const char mark[] = "\\ No newline at end of file\n";
	size_t n = unified_line(u->patch, u->patch_end), len;

	if (n < 2 || u->patch[n - 1] != '\n')
		return false;
	const char *line = u->patch;
	u->patch += n;
	len = n - 1; /* without the sign */
	if ((size_t)(u->patch_end - u->patch) >= sizeof(mark) - 1 && memcmp(u->patch, mark, sizeof(mark) - 1) == 0) {
		u->patch += sizeof(mark) - 1;
		len--;
	}
	if (line[0] == ' ' || line[0] == '-') {
		if ((*old_left)-- == 0 || !unified_take(u, line + 1, len))
			return false;
		u->removed += line[0] == '-';
	}
	if (line[0] == ' ' || line[0] == '+') {
		if ((*new_left)-- == 0)
			return false;
		buf_add(u->out, line + 1, len);
		u->new_line++;
		u->added += line[0] == '+';
	}
	return line[0] == ' ' || line[0] == '-' || line[0] == '+';
}

static inline bool unified_hunk(struct unified *u)
{
	size_t from, count, to, new_count;

	if (u->patch_end - u->patch < 3 || memcmp(u->patch, "@@ ", 3) != 0)
		return false;
	u->patch += 3;
	if (!unified_range(u, '-', &from, &count) || *u->patch++ != ' ' || !unified_range(u, '+', &to, &new_count))
		return false;
	if (u->patch_end - u->patch < 4 || memcmp(u->patch, " @@", 3) != 0)
		return false;
	u->patch += unified_line(u->patch, u->patch_end);
	while (u->old_line < from && u->old < u->old_end) { /* what no hunk speaks of stays */
		size_t n = unified_line(u->old, u->old_end);

		buf_add(u->out, u->old, n);
		u->old += n;
		u->old_line++;
		u->new_line++;
	}
	if (u->old_line != from || u->new_line != to)
		return false;
	while (count > 0 || new_count > 0)
		if (!unified_body_line(u, &count, &new_count))
			return false;
	return true;
}

/* False if the hunks are malformed or do not fit. */
static inline bool unified_apply(const char *old, size_t old_len, const struct buf *hunks, struct buf *out, size_t *added, size_t *removed)
{
	const char *text = hunks->len ? hunks->data : "";
	struct unified u = {.old = old, .old_end = old + old_len, .patch = text, .patch_end = text + hunks->len, .out = out};

	while (u.patch < u.patch_end)
		if (!unified_hunk(&u))
			return false;
	buf_add(out, u.old, (size_t)(u.old_end - u.old));
	*added = u.added;
	*removed = u.removed;
	return !out->failed;
}

#endif
