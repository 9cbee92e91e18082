/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": for the keys of the policy, subcommands and options. */
#include <string.h>

#include "base/util.h"
#include "policy/policy.h"

#define WORD_MAX 64 /* nobody means a longer word, and the table of distances stays on the stack */
#define PREFIX_MIN 3

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(char a, char b)
{
	return lower(a) == lower(b);
}

/*
 * Insertions, deletions, replacements and swaps of neighbours that turn a into b ("optimal string alignment"): the swap is the
 * most common slip of the fingers, so it counts as one. Neither may be longer than WORD_MAX.
 */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_len; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *oldest = before;

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = above[j - 1] + !same(a[i - 1], b[j - 1]);

			best = MIN(best, above[j] + 1);
			best = MIN(best, row[j - 1] + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				best = MIN(best, before[j - 2] + 1);
			row[j] = best;
		}
		before = above;
		above = row;
		row = oldest;
	}
	return above[b_len];
}

static bool has_prefix(const char *word, const char *prefix, size_t prefix_len)
{
	if (prefix_len < PREFIX_MIN)
		return false;
	for (size_t i = 0; i < prefix_len; i++)
		if (!word[i] || !same(word[i], prefix[i]))
			return false;
	return true;
}

/* The distance, or SIZE_MAX if the two have too little in common to suggest one for the other. */
static size_t nearness(const char *word, size_t len, const char *candidate)
{
	size_t candidate_len = strlen(candidate);
	size_t distance;

	if (candidate_len == 0 || candidate_len > WORD_MAX)
		return SIZE_MAX;
	distance = edit_distance(word, len, candidate, candidate_len);
	if (has_prefix(candidate, word, len) || has_prefix(word, candidate, candidate_len))
		return distance;
	if (distance > MAX((size_t)2, len / 3))
		return SIZE_MAX;
	if (distance >= MIN(len, candidate_len))
		return SIZE_MAX; /* "x" is two edits from "ls", but shares no letter with it */
	return distance;
}

const char *nearest_word(const char *word, const char *const *candidates, size_t count)
{
	size_t len = word ? strlen(word) : 0;
	size_t best = SIZE_MAX;
	const char *nearest = NULL;

	if (len == 0 || len > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t distance = candidates[i] ? nearness(word, len, candidates[i]) : SIZE_MAX;

		if (distance < best) {
			best = distance;
			nearest = candidates[i];
		}
	}
	return nearest;
}
