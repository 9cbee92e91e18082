/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/scan.h"

#include <string.h>

#include "audit/record.h"
#include "base/util.h"

enum { DEPTH_MAX = 32 };

/* What is left to read. */
struct cursor {
	const char *at, *end;
	const char *why; /* the first thing that was wrong */
};

static bool fail(struct cursor *c, const char *why)
{
	if (!c->why)
		c->why = why;
	return false;
}

static bool literal(struct cursor *c, const char *text, size_t len)
{
	if ((size_t)(c->end - c->at) < len || memcmp(c->at, text, len) != 0)
		return false;
	c->at += len;
	return true;
}
#define LITERAL(c, text) literal(c, text, sizeof(text) - 1)

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

/* Behind the opening quote. */
static bool string(struct cursor *c, struct slice *out)
{
	ptrdiff_t len = audit_check(c->at, (size_t)(c->end - c->at));

	if (len < 0)
		return fail(c, "a string is not as cordon writes it");
	if (out)
		*out = (struct slice){c->at, (size_t)len};
	c->at += len + 1;
	return true;
}

static bool string_or_null(struct cursor *c, struct slice *out)
{
	*out = (struct slice){NULL, 0};
	if (c->at < c->end && *c->at == '"') {
		c->at++;
		return string(c, out);
	}
	return LITERAL(c, "null") || fail(c, "a value is neither a string nor null");
}

static size_t digit_count(const struct cursor *c)
{
	size_t n = 0;

	while (c->at + n < c->end && c->at[n] >= '0' && c->at[n] <= '9')
		n++;
	return n;
}

/* As the writer makes them: -12, 0, 3.250 */
static bool number(struct cursor *c)
{
	if (c->at < c->end && *c->at == '-')
		c->at++;
	size_t n = digit_count(c);
	if (n == 0 || n > 20 || (n > 1 && *c->at == '0'))
		return fail(c, "a number is not as cordon writes it");
	c->at += n;
	if (c->at == c->end || *c->at != '.')
		return true;
	c->at++;
	n = digit_count(c);
	c->at += n;
	return n == 3 || fail(c, "a number is not as cordon writes it");
}

/*
 * The value of detail, levels kept by hand: hostile lines must not use the stack up. What is expected next is one of:
 */
enum expect { VALUE, FIRST_VALUE /* or ] */, FIRST_KEY /* or } */, KEY, AFTER };

static bool scalar(struct cursor *c)
{
	if (*c->at == '"') {
		c->at++;
		return string(c, NULL);
	}
	return LITERAL(c, "null") || LITERAL(c, "true") || LITERAL(c, "false") || number(c);
}

struct nest {
	bool list[DEPTH_MAX];
	unsigned depth;
};

/* One step; *next is what is expected behind it. */
static bool step(struct cursor *c, struct nest *nest, enum expect *next)
{
	const char first = *c->at;
	bool closes = nest->depth && first == (nest->list[nest->depth - 1] ? ']' : '}');

	if (closes && (*next == AFTER || *next == FIRST_KEY || *next == FIRST_VALUE)) {
		c->at++;
		nest->depth--;
		*next = AFTER;
		return true;
	}
	if (*next == AFTER) {
		*next = nest->list[nest->depth - 1] ? VALUE : KEY;
		return LITERAL(c, ",") || fail(c, "detail is not as cordon writes it");
	}
	if (*next == KEY || *next == FIRST_KEY) {
		*next = VALUE;
		return (LITERAL(c, "\"") && string(c, NULL) && LITERAL(c, ":")) || fail(c, "detail is not as cordon writes it");
	}
	if (first != '{' && first != '[') {
		*next = AFTER;
		return scalar(c) || fail(c, "detail is not as cordon writes it");
	}
	if (nest->depth == DEPTH_MAX)
		return fail(c, "detail is nested too deeply");
	nest->list[nest->depth++] = first == '[';
	*next = first == '[' ? FIRST_VALUE : FIRST_KEY;
	c->at++;
	return true;
}

static bool detail(struct cursor *c, struct slice *out)
{
	struct nest nest = {.depth = 0};
	enum expect next = VALUE;
	const char *begin = c->at;

	*out = (struct slice){NULL, 0};
	if (LITERAL(c, "null"))
		return true;
	if (c->at == c->end || *c->at != '{')
		return fail(c, "detail is neither an object nor null");
	do {
		if (c->at == c->end)
			return fail(c, "detail has no end");
		if (!step(c, &nest, &next))
			return false;
	} while (nest.depth);
	*out = (struct slice){begin, (size_t)(c->at - begin)};
	return true;
}

/* ---- members ----------------------------------------------------------------------------------------------------------------- */

static bool sequence(struct cursor *c, uint64_t *out)
{
	size_t n = digit_count(c);

	*out = 0;
	if (n == 0 || n > 20 || *c->at == '0')
		return fail(c, "seq is not a number");
	for (; n; n--, c->at++) {
		unsigned digit = (unsigned)(*c->at - '0');

		if (*out > (UINT64_MAX - digit) / 10)
			return fail(c, "seq is too large");
		*out = *out * 10 + digit;
	}
	return true;
}

static bool moment(struct cursor *c, const char **out)
{
	if (c->end - c->at <= TEXT_TIME || !audit_time_valid(c->at) || c->at[TEXT_TIME] != '"')
		return fail(c, "ts is not a time");
	*out = c->at;
	c->at += TEXT_TIME + 1;
	return true;
}

/* One of the words; the cursor is left behind it and its closing quote (if there is one). */
static bool word(struct cursor *c, const char *const *words, size_t count, const char *close, unsigned *out)
{
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(words[i]), more = strlen(close);

		if ((size_t)(c->end - c->at) >= len + more && memcmp(c->at, words[i], len) == 0 && memcmp(c->at + len, close, more) == 0) {
			c->at += len + more;
			*out = (unsigned)i;
			return true;
		}
	}
	return false;
}

static bool action(struct cursor *c, struct slice *out)
{
	if (!string(c, out))
		return false;
	for (size_t i = 0; i < out->len; i++)
		if (out->at[i] == '\\' || (unsigned char)out->at[i] >= 0x80)
			return fail(c, "action is not a word");
	return out->len > 0 || fail(c, "action is empty");
}

static bool hash(struct cursor *c, const char **out)
{
	if (c->end - c->at < AUDIT_HASH)
		return fail(c, "a hash is too short");
	for (int i = 0; i < AUDIT_HASH; i++) {
		const char d = c->at[i];

		if (!((d >= '0' && d <= '9') || (d >= 'a' && d <= 'f')))
			return fail(c, "a hash is not 64 hexadecimal digits");
	}
	*out = c->at;
	c->at += AUDIT_HASH;
	return true;
}

#define WORD(c, words, close, out) word(c, words, ARRAY_SIZE(words), close, out)
#define MEMBER(c, text) (LITERAL(c, text) || fail(c, "the keys are not those of a record, in their order"))

const char *audit_scan(const char *line, size_t len, struct audit_line *out)
{
	struct cursor cursor = {.at = line, .end = line + len}, *c = &cursor;
	unsigned level = 0, category = 0, allowed = 0;

	*out = (struct audit_line){.line = line, .len = len};
	if (len + 1 > AUDIT_LINE_MAX)
		return "the line is too long";
	if (MEMBER(c, "{\"seq\":") && sequence(c, &out->seq) && MEMBER(c, ",\"ts\":\"") && moment(c, &out->ts) &&
	    MEMBER(c, ",\"tenant\":") && string_or_null(c, &out->tenant) && MEMBER(c, ",\"sandbox\":") &&
	    string_or_null(c, &out->sandbox) && MEMBER(c, ",\"exec\":") && string_or_null(c, &out->exec) && MEMBER(c, ",\"level\":\"") &&
	    (WORD(c, audit_level_names, "\"", &level) || fail(c, "level is not one that there is")) && MEMBER(c, ",\"category\":\"") &&
	    (WORD(c, audit_category_names, "\"", &category) || fail(c, "category is not one that there is")) &&
	    MEMBER(c, ",\"action\":\"") && action(c, &out->action) && MEMBER(c, ",\"target\":") && string_or_null(c, &out->target) &&
	    MEMBER(c, ",\"allowed\":") &&
	    (WORD(c, audit_allowed_names, "", &allowed) || fail(c, "allowed is neither true, false nor null")) && MEMBER(c, ",\"rule\":") &&
	    string_or_null(c, &out->rule) && MEMBER(c, ",\"detail\":") && detail(c, &out->detail)) {
		out->record = (size_t)(c->at - line);
		if (MEMBER(c, ",\"prev\":\"") && hash(c, &out->prev) && MEMBER(c, "\",\"hash\":\"") && hash(c, &out->hash) &&
		    MEMBER(c, "\"}") && c->at != c->end)
			fail(c, "something follows the record");
	}
	out->level = (enum audit_level)level;
	out->category = (enum audit_category)category;
	out->allowed = (enum audit_allowed)allowed;
	return c->why;
}

bool audit_line_intact(const struct audit_line *l)
{
	char digits[AUDIT_HASH + 1];

	audit_hash(l->prev, l->line, l->record, digits);
	return memcmp(digits, l->hash, AUDIT_HASH) == 0;
}

bool audit_line_rotates(const struct audit_line *l)
{
	return l->category == AUDIT_SYSTEM && l->action.len == strlen(AUDIT_ROTATE) &&
	       memcmp(l->action.at, AUDIT_ROTATE, l->action.len) == 0;
}
