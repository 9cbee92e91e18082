/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that is known in part. What is not known stands as one marker byte: "/srv/" MARK_ANY "/log" is a path of which the middle comes from somewhere
 * else. Texts are slices of arena or source memory, never changed, without a NUL of their own.
 */
#ifndef CORDON_GATE_TEXT_H
#define CORDON_GATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gate/arena.h"

enum text_mark {
	MARK_ANY = 1,    /* any text, also none */
	MARK_GLOB,       /* a * that the shell expands: everything that is there, within one component */
	MARK_ONE,        /* ? or [...] of the same kind */
	MARK_DECODED,    /* any text that was encoded before: base64 -d, xxd -r … */
	MARK_DOWNLOADED, /* any text that came over the network */
	MARK_SECRET,     /* any text with secrets in it: keys, the environment … */
	MARK_FOREIGN,    /* any text out of somebody else's repository */
	MARK_LAST = MARK_FOREIGN,
};

struct text {
	const char *s;
	size_t n;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

static inline struct text text_of(const char *s)
{
	return (struct text){s, strlen(s)};
}
static inline bool text_is(struct text t, const char *s)
{
	return t.n ? t.s[0] == s[0] && strlen(s) == t.n && memcmp(t.s, s, t.n) == 0 : !*s; /* most differ in the first letter */
}
static inline bool text_same(struct text a, struct text b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}
static inline bool text_begins(struct text t, const char *s)
{
	size_t n = strlen(s);
	return t.n >= n && memcmp(t.s, s, n) == 0;
}
static inline bool text_ends(struct text t, const char *s)
{
	size_t n = strlen(s);
	return t.n >= n && memcmp(t.s + t.n - n, s, n) == 0;
}
static inline struct text text_from(struct text t, size_t i)
{
	return i < t.n ? (struct text){t.s + i, t.n - i} : (struct text){t.s + t.n, 0};
}
static inline struct text text_first(struct text t, size_t n)
{
	return (struct text){t.s, n < t.n ? n : t.n};
}
static inline bool is_mark(char c)
{
	return c >= MARK_ANY && c <= MARK_LAST;
}

/* One marker as a text. */
struct text text_mark(enum text_mark mark);
/* A set of the markers in it, 1 << enum text_mark each; 0 if every byte is known. */
unsigned text_marks(struct text t);
static inline bool text_known(struct text t)
{
	return text_marks(t) == 0;
}
#define MARKS_FILES (1u << MARK_GLOB | 1u << MARK_ONE)                                                    /* names of files that exist */
#define MARKS_TAINT (1u << MARK_DECODED | 1u << MARK_DOWNLOADED | 1u << MARK_SECRET | 1u << MARK_FOREIGN) /* where it came from is known */
#define MARKS_DYNAMIC (1u << MARK_ANY | MARKS_TAINT)

/* The place of c, or t.n. */
size_t text_find(struct text t, char c);
size_t text_rfind(struct text t, char c);

struct text text_cat(struct arena *a, struct text x, struct text y);
struct text text_cat3(struct arena *a, struct text x, struct text y, struct text z);

/* The same without regard to the case of ASCII letters. */
struct text text_lower(struct arena *a, struct text t);

/*
 * An absolute, normal form of a path: below `base` if it is relative; no "//", "." and "..". Components that are not known are kept as they are, and
 * a ".." behind one takes it away, but for one at the beginning, which may be a path of any length.
 */
struct text path_resolve(struct arena *a, struct text base, struct text path);
/* What is behind the last slash. */
struct text path_base(struct text path);
/* As dirname(1). */
struct text path_dir(struct text path);
/* The same for what a text means by it: a last part that is not known may have slashes of its own, so its directory is somewhere in it. */
struct text path_parent(struct text path);

/* How certain it is that something holds. */
enum sure { NO, MAYBE, YES };
static inline enum sure sure_min(enum sure a, enum sure b)
{
	return a < b ? a : b;
}
static inline enum sure sure_max(enum sure a, enum sure b)
{
	return a > b ? a : b;
}

/*
 * Does the whole text match? In the pattern, "?" is one character and "*" any number of them without a slash; "**" is any number of all characters.
 * Markers of files match what exists, so one possible match is enough: YES. Other markers: YES if it matches whatever they stand for, MAYBE if it could.
 */
enum sure pattern_match(const char *pattern, struct text t);
/* pattern_match() says YES: found faster than by asking it, as what may be need not be looked at. */
bool pattern_match_certain(const char *pattern, struct text t);
/* Everything that the text may stand for matches. */
bool pattern_covers(const char *pattern, struct text t);
/* As above for text that is no path: "*" passes slashes, and letters match without regard to case. */
enum sure pattern_match_text(const char *pattern, struct text t);

/* The characters of a text and the pairs of neighbours in it, without regard to case, each as one bit of a few: two sets that are compared at once. */
struct letters {
	uint64_t one, two;
};
struct letters text_letters(struct text t);
/* What every text has that is certain to match; one that is not known may have it in its markers. */
struct letters pattern_letters(const char *pattern);
static inline bool letters_miss(struct letters need, struct letters have)
{
	return (need.one & ~have.one) | (need.two & ~have.two);
}

#endif
