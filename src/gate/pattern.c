/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns against texts that are known in part: see text.h. */
#include <stdint.h>

#include "gate/text.h"

#define PATTERN_MAX 255   /* longer ones are refused when a pack is read; here they match nothing */
#define TEXT_MAX_LEN 4096 /* of what is compared byte by byte */

enum token { T_CHAR, T_ONE, T_STAR, T_STARS };

struct tokens {
	unsigned char kind[PATTERN_MAX + 1];
	char c[PATTERN_MAX + 1];
	size_t n;
	bool fold; /* no regard to case, and "*" passes slashes */
	bool stars;
};

static char fold_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static bool tokenize(struct tokens *t, const char *pattern, bool as_text)
{
	t->n = 0;
	t->fold = as_text;
	t->stars = false;
	for (const char *p = pattern; *p; p++) {
		if (t->n == PATTERN_MAX)
			return false;
		enum token kind = *p == '?' ? T_ONE : *p == '*' ? (as_text ? T_STARS : T_STAR) : T_CHAR;
		if (*p == '*' && p[1] == '*') {
			kind = T_STARS;
			p++;
		}
		t->stars = t->stars || kind == T_STARS;
		t->kind[t->n] = (unsigned char)kind;
		t->c[t->n++] = as_text ? fold_case(*p) : *p;
	}
	return true;
}

/* May this token stand for the byte? Markers are bytes here: only what covers all that they stand for takes them. */
static bool covers(const struct tokens *t, size_t i, char c)
{
	bool slash = c == '/' && !t->fold;
	switch ((enum token)t->kind[i]) {
	case T_CHAR:
		return t->c[i] == (t->fold ? fold_case(c) : c);
	case T_ONE:
		return !slash && (!is_mark(c) || c == MARK_ONE);
	case T_STAR:
		return !slash && (!is_mark(c) || c == MARK_ONE || c == MARK_GLOB);
	case T_STARS:
		return true;
	}
	return false;
}

/*
 * Whatever the markers stand for, it matches. What fails goes back to the last "*", and if that can take no more, to the last "**", which takes
 * everything: these two are enough.
 */
static bool match_all(const struct tokens *t, struct text text)
{
	const size_t none = SIZE_MAX;
	size_t i = 0, k = 0, star = none, star_at = 0, stars = none, stars_at = 0;
	while (k < text.n) {
		if (i < t->n && t->kind[i] == T_STARS) {
			stars = i++;
			stars_at = k;
			star = none;
		} else if (i < t->n && t->kind[i] == T_STAR) {
			star = i++;
			star_at = k;
		} else if (i < t->n && covers(t, i, text.s[k])) {
			i++;
			k++;
		} else if (star != none && covers(t, star, text.s[star_at])) {
			k = ++star_at;
			i = star + 1;
		} else if (stars != none) {
			k = ++stars_at;
			i = stars + 1;
			star = none;
		} else {
			return false;
		}
	}
	while (i < t->n && (t->kind[i] == T_STAR || t->kind[i] == T_STARS))
		i++;
	return i == t->n;
}

static bool is_star(const struct tokens *t, size_t i)
{
	return i < t->n && (t->kind[i] == T_STAR || t->kind[i] == T_STARS);
}

/* One byte of the text that stands for one character. */
static bool takes(const struct tokens *t, size_t i, char c)
{
	return i < t->n && (c == MARK_ONE ? t->kind[i] != T_CHAR || t->c[i] != '/' : covers(t, i, c));
}

/*
 * Can both stand for the same text? reach[i] says: the text so far can end before token i. One row per byte of the text, of which only the part that can
 * be reached is looked at: [from, to].
 */
static bool match_any(const struct tokens *t, struct text text)
{
	bool reach[PATTERN_MAX + 2] = {true}, next[PATTERN_MAX + 2];
	size_t from = 0, to = 0;
	for (; is_star(t, to); to++)
		reach[to + 1] = true;
	for (size_t k = 0; k < text.n; k++) {
		char c = text.s[k];
		bool many = is_mark(c) && c != MARK_ONE, within = c == MARK_GLOB, any = false;
		size_t first = from, last = from;
		memset(next + from, 0, t->n + 2 - from);
		for (size_t i = from; i <= t->n && (i <= to || next[i]); i++) {
			bool here = i <= to && reach[i];
			if (many) {
				/* A marker of any length stands for nothing, or swallows tokens one by one. */
				next[i] = next[i] || here;
				if (i < t->n && next[i] && (!within || t->kind[i] != T_CHAR || t->c[i] != '/'))
					next[i + 1] = true;
			} else {
				if (here && takes(t, i, c))
					next[is_star(t, i) ? i : i + 1] = true;
				if (next[i] && is_star(t, i))
					next[i + 1] = true;
			}
			if (next[i]) {
				first = any ? first : i;
				any = true;
				last = i;
			}
		}
		if (!any)
			return false;
		memcpy(reach + first, next + first, last + 1 - first);
		from = first;
		to = last;
	}
	return to == t->n && reach[t->n];
}

static bool is_wild(char c)
{
	return c == '*' || c == '?';
}

/* How far both are plain text; false if they differ there. Most comparisons end here. */
static bool same_beginning(const char *pattern, struct text text, bool as_text, size_t *n)
{
	size_t i = 0;
	for (; pattern[i] && !is_wild(pattern[i]) && i < text.n && !is_mark(text.s[i]); i++)
		if (as_text ? fold_case(pattern[i]) != fold_case(text.s[i]) : pattern[i] != text.s[i])
			return false;
	*n = i;
	/* One is at its end, and the other has more to say. */
	return !(i == text.n && pattern[i] && !is_wild(pattern[i])) && !(!pattern[i] && i < text.n && !is_mark(text.s[i]));
}

/* The same from the end on: false if plain text there differs. */
static bool same_end(const char *pattern, size_t n, struct text text, bool as_text)
{
	for (size_t k = text.n; n && k && !is_wild(pattern[n - 1]) && !is_mark(text.s[k - 1]); n--, k--)
		if (as_text ? fold_case(pattern[n - 1]) != fold_case(text.s[k - 1]) : pattern[n - 1] != text.s[k - 1])
			return false;
	return true;
}

/* "*word*" against a text that does not have the word in it: most comparisons that are left end here. */
static bool has_word(const char *pattern, struct text text)
{
	size_t n = 0;
	while (*pattern == '*')
		pattern++;
	while (pattern[n] && !is_wild(pattern[n]))
		n++;
	if (!n)
		return true;
	for (size_t i = 0; i + n <= text.n; i++) {
		size_t k = 0;
		while (k < n && fold_case(text.s[i + k]) == fold_case(pattern[k]))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

/* `certain`: only YES is of interest, and NO takes the place of MAYBE. */
static enum sure match(const char *pattern, struct text text, bool as_text, bool certain)
{
	struct tokens t;
	size_t n;
	if (!same_beginning(pattern, text, as_text, &n))
		return NO;
	if (!pattern[n] && n == text.n)
		return YES;
	text = text_from(text, n);
	if (text.n <= TEXT_MAX_LEN && !same_end(pattern + n, strlen(pattern + n), text, as_text))
		return NO;
	unsigned marks = text_marks(text);
	bool dynamic = marks & MARKS_DYNAMIC;
	if (as_text && pattern[n] == '*' && !has_word(pattern + n, text)) {
		if (!dynamic || certain)
			return NO;
		if (text.n <= TEXT_MAX_LEN &&
		    pattern[strlen(pattern) - 1] == '*') /* the word may come with what is not known, and all else is taken */
			return MAYBE;
	}
	if (!tokenize(&t, pattern + n, as_text))
		return NO;
	if (text.n > TEXT_MAX_LEN) {
		text.n = TEXT_MAX_LEN;
		marks = text_marks(text);
		dynamic = marks & MARKS_DYNAMIC;
	}
	if (match_all(&t, text))
		return YES;
	/* /e?c is /etc if that is there; but that something in a directory could have a name that is special anywhere says nothing. */
	if (!marks || (dynamic ? certain : t.stars) || !match_any(&t, text))
		return NO;
	return dynamic ? MAYBE : YES;
}

enum sure pattern_match(const char *pattern, struct text t)
{
	return match(pattern, t, false, false);
}

bool pattern_match_certain(const char *pattern, struct text t)
{
	return match(pattern, t, false, true) == YES;
}

enum sure pattern_match_text(const char *pattern, struct text t)
{
	return match(pattern, t, true, false);
}

bool pattern_covers(const char *pattern, struct text text)
{
	struct tokens t;
	size_t n;
	if (text.n > TEXT_MAX_LEN || !same_beginning(pattern, text, false, &n))
		return false;
	return tokenize(&t, pattern + n, false) && match_all(&t, text_from(text, n));
}

/* ---- letters ----------------------------------------------------------------------------------------------------------------- */

static unsigned letter_bit(unsigned char c)
{
	return c >= 'a' && c <= 'z' ? 0u + c - 'a' : c >= '0' && c <= '9' ? 26u + c - '0' : 36u + c % 28u;
}

static void add_letter(struct letters *l, char before, char c)
{
	unsigned char x = (unsigned char)fold_case(before), y = (unsigned char)fold_case(c);
	l->one |= (uint64_t)1 << letter_bit(y);
	if (before)
		l->two |= (uint64_t)1 << ((x * 37u + y * 11u) & 63);
}

struct letters text_letters(struct text t)
{
	struct letters l = {0};
	for (size_t i = 0; i < t.n; i++)
		add_letter(&l, i ? t.s[i - 1] : '\0', t.s[i]);
	return l;
}

struct letters pattern_letters(const char *pattern)
{
	struct letters l = {0};
	char before = '\0';
	for (const char *p = pattern; *p; p++) {
		if (!is_wild(*p))
			add_letter(&l, before, *p);
		before = is_wild(*p) ? '\0' : *p;
	}
	return l;
}
