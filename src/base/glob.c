/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns are run as a state machine without going back: a set of places in the pattern that the path read so far may have led to is moved on
 * by one character at a time. Patterns come from policies and paths from whatever ran inside; with backtracking, a few stars and a long name of
 * one letter would be enough to keep cordon busy for hours.
 */
#include "base/glob.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One step of a pattern: a character, or one of these. No character gets that high: what is packed below begins with 0xf4 at most. */
#define ANY UINT32_C(0xffffff00)
#define STAR UINT32_C(0xffffff01)
#define DEEP UINT32_C(0xffffff02)
#define DEEP_DIRS UINT32_C(0xffffff03)

struct glob {
	uint32_t steps[GLOB_MAX];
	size_t count;
	bool reached[GLOB_MAX + 1]; /* reached[i]: what was read fits steps[0] to steps[i - 1] */
};

/* How many bytes the character at s has; bytes that are no UTF-8 count one by one. Over-long forms need no care: both sides see the same. */
static size_t character_length(const char *s)
{
	unsigned char c = (unsigned char)s[0];
	size_t len = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;

	for (size_t i = 1; i < len; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80) /* the NUL ends it as well */
			return 1;
	return len;
}

/* The character's bytes as one number; *s moves on. */
static uint32_t next_character(const char **s)
{
	uint32_t packed = 0;

	for (size_t n = character_length(*s); n > 0; n--)
		packed = packed << 8 | (unsigned char)*(*s)++;
	return packed;
}

/* A run of stars; at_start: it begins a component. */
static uint32_t next_star(const char **s, bool at_start)
{
	size_t n = strspn(*s, "*");

	*s += n;
	if (n == 1)
		return STAR;
	if (!at_start || **s != '/')
		return DEEP;
	++*s; /* the slash is part of what it stands for */
	return DEEP_DIRS;
}

static void parse(struct glob *g, const char *pattern)
{
	bool at_start = true;

	for (const char *s = pattern; *s; at_start = s[-1] == '/') {
		if (*s == '*') {
			g->steps[g->count++] = next_star(&s, at_start);
		} else if (*s == '?') {
			g->steps[g->count++] = ANY;
			s++;
		} else {
			g->steps[g->count++] = next_character(&s);
		}
	}
}

/* Stars may stand for nothing: whoever is before one is behind it as well. at_start: what was read ends where a component begins. */
static void skip_stars(struct glob *g, bool at_start)
{
	for (size_t i = 0; i < g->count; i++) {
		uint32_t step = g->steps[i];

		if (g->reached[i] && (step == STAR || step == DEEP || (step == DEEP_DIRS && at_start)))
			g->reached[i + 1] = true;
	}
}

static bool stays(uint32_t step, uint32_t c)
{
	return step == DEEP || step == DEEP_DIRS || (step == STAR && c != '/');
}

/* Reads one character. From the end to the beginning, so that each place is set from what its neighbour was before. */
static bool advance(struct glob *g, uint32_t c)
{
	bool any = false;

	for (size_t i = g->count + 1; i-- > 0;) {
		bool kept = g->reached[i] && i < g->count && stays(g->steps[i], c);
		bool moved = i > 0 && g->reached[i - 1] && (g->steps[i - 1] == c || (g->steps[i - 1] == ANY && c != '/'));

		g->reached[i] = kept || moved;
		any = any || g->reached[i];
	}
	return any;
}

bool glob_match(const char *pattern, const char *path)
{
	struct glob g;

	if (strnlen(pattern, GLOB_MAX + 1) > GLOB_MAX)
		return false;
	g.count = 0;
	parse(&g, pattern);
	memset(g.reached, 0, (g.count + 1) * sizeof(g.reached[0]));
	g.reached[0] = true;
	skip_stars(&g, true);
	while (*path) {
		uint32_t c = next_character(&path);

		if (!advance(&g, c))
			return false;
		skip_stars(&g, c == '/');
	}
	return g.reached[g.count];
}
