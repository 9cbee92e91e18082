/* SPDX-License-Identifier: Apache-2.0 */
/* Names and text that strangers wrote, made harmless for terminals. */
#include <string.h>

#include "base/json.h"
#include "layers/diff_parts.h"

/* How many bytes the character at p takes; 0 if it is no valid UTF-8. */
static size_t character_length(const char *p, size_t len)
{
	unsigned char c = (unsigned char)*p;
	size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

	return n <= len && utf8_valid(p, n) ? n : 0;
}

static unsigned code_point(const char *p, size_t n)
{
	static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned c = (unsigned char)p[0] & lead[n];

	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c;
}

/* C1 controls, which terminals obey, line separators, and what changes the direction of text (CVE-2021-42574). */
static bool misleads(unsigned c)
{
	return (c >= 0x80 && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static bool is_usual(const char *p, size_t n)
{
	return n && !is_control(*p) && *p != '"' && *p != '\\' && !(n > 1 && misleads(code_point(p, n)));
}

static bool all_usual(const char *s)
{
	for (size_t len = strlen(s), n; len > 0; s += n, len -= n) {
		n = character_length(s, len);
		if (!is_usual(s, n))
			return false;
	}
	return true;
}

static void quote_byte(struct buf *out, char c)
{
	static const char letters[] = "abtnvfr"; /* 7 … 13 */

	if (c == '"' || c == '\\')
		buf_addf(out, "\\%c", c);
	else if (c >= 7 && c <= 13)
		buf_addf(out, "\\%c", letters[c - 7]);
	else
		buf_addf(out, "\\%03o", (unsigned)(unsigned char)c);
}

static void quote(struct buf *out, const char *s)
{
	for (size_t len = strlen(s), n; len > 0; s += n, len -= n) {
		n = character_length(s, len);
		if (is_usual(s, n)) {
			buf_add(out, s, n);
			continue;
		}
		n = n ? n : 1;
		for (size_t i = 0; i < n; i++)
			quote_byte(out, s[i]);
	}
}

void escape_name(struct buf *out, const char *prefix, const char *name)
{
	if (all_usual(prefix) && all_usual(name)) {
		buf_add_str(out, prefix);
		buf_add_str(out, name);
		return;
	}
	buf_add_str(out, "\"");
	quote(out, prefix);
	quote(out, name);
	buf_add_str(out, "\"");
}

/* ---- text --------------------------------------------------------------------------------------------------------------------- */

void escape_text(struct buf *out, const char *text, size_t len)
{
	for (size_t n; len > 0; text += n, len -= n) {
		n = character_length(text, len);
		if (n == 0) {
			n = 1;
			buf_addf(out, "<%02X>", (unsigned)(unsigned char)*text);
		} else if (n == 1 && is_control(*text) && *text != '\t') {
			buf_addf(out, "^%c", *text ^ 0x40);
		} else if (n > 1 && misleads(code_point(text, n))) {
			buf_addf(out, "<U+%04X>", code_point(text, n));
		} else {
			buf_add(out, text, n);
		}
	}
}
