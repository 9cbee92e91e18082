/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that was made unreadable, made readable again where that is possible: what runs it is then looked at as if it had been written out. A mark stays in it,
 * as rules are about running such text at all.
 */
#include "gate/shell.h"

/* The mark stands on a line of its own: the last word of the text is known, too. */
static struct text marked(struct shell *sh, struct text t)
{
	return text_cat3(sh->arena, t, t.n && t.s[t.n - 1] == '\n' ? TEXT("") : TEXT("\n"), text_mark(MARK_DECODED));
}

/* Bytes that are not text, or that stand for something else here, are not known. */
static char plain(unsigned value)
{
	return value == 0 || value > 0x7e || is_mark((char)value) ? MARK_ANY : (char)value;
}

/* ---- base64, hex, rev -------------------------------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = memchr(digits, c == '-' ? '+' : c == '_' ? '/' : c, sizeof(digits) - 1);
	return p ? (int)(p - digits) : -1;
}

struct text decode_base64(struct shell *sh, struct text in)
{
	char *out = arena_alloc(sh->arena, in.n + 1);
	size_t n = 0;
	unsigned bits = 0, have = 0;
	if (!text_known(in))
		return text_mark(MARK_DECODED);
	for (size_t i = 0; i < in.n; i++) {
		int digit = base64_digit(in.s[i]);
		if (digit < 0)
			continue;
		bits = bits << 6 | (unsigned)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[n++] = plain(bits >> have & 0xff);
		}
	}
	return marked(sh, (struct text){out, n});
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct text decode_hex(struct shell *sh, struct text in)
{
	char *out = arena_alloc(sh->arena, in.n + 1);
	size_t n = 0;
	if (!text_known(in))
		return text_mark(MARK_DECODED);
	for (size_t i = 0; i + 1 < in.n; i++) {
		int high = hex_digit(in.s[i]), low = hex_digit(in.s[i + 1]);
		if (high < 0 || low < 0)
			continue;
		out[n++] = plain((unsigned)(high << 4 | low));
		i++;
	}
	return marked(sh, (struct text){out, n});
}

struct text decode_reverse(struct shell *sh, struct text in)
{
	char *out = arena_alloc(sh->arena, in.n + 1);
	if (!text_known(in))
		return text_mark(MARK_DECODED);
	for (size_t from = 0; from < in.n;) {
		size_t end = from + text_find(text_from(in, from), '\n');
		for (size_t i = from; i < end; i++)
			out[from + end - 1 - i] = in.s[i];
		if (end < in.n)
			out[end] = '\n';
		from = end + 1;
	}
	return marked(sh, (struct text){out, in.n});
}

/* ---- tr ---------------------------------------------------------------------------------------------------------------------- */

struct set {
	unsigned char items[512];
	size_t n;
};

static void set_add(struct set *s, unsigned char c)
{
	if (s->n < sizeof(s->items))
		s->items[s->n++] = c;
}

static size_t set_class(struct set *s, struct text t)
{
	static const struct {
		const char *name;
		unsigned char from, to;
	} classes[] = {{"[:lower:]", 'a', 'z'},
	               {"[:upper:]", 'A', 'Z'},
	               {"[:digit:]", '0', '9'},
	               {"[:space:]", '\t', '\r'},
	               {"[:blank:]", ' ', ' '}};
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (!text_begins(t, classes[i].name))
			continue;
		for (unsigned c = classes[i].from; c <= classes[i].to; c++)
			set_add(s, (unsigned char)c);
		return strlen(classes[i].name);
	}
	return 0;
}

/* False: it has something in it that is not understood. */
static bool set_parse(struct shell *sh, struct text spec, struct set *s)
{
	struct text t = unescape_ansi(sh->arena, spec);
	s->n = 0;
	if (!text_known(t))
		return false;
	for (size_t i = 0; i < t.n;) {
		size_t class = t.s[i] == '[' ? set_class(s, text_from(t, i)) : 0;
		if (!class && t.s[i] == '[' && i + 1 < t.n && (t.s[i + 1] == ':' || t.s[i + 1] == '='))
			return false;
		if (class) {
			i += class;
		} else if (i + 2 < t.n && t.s[i + 1] == '-' && (unsigned char)t.s[i] <= (unsigned char)t.s[i + 2]) {
			for (unsigned c = (unsigned char)t.s[i]; c <= (unsigned char)t.s[i + 2]; c++)
				set_add(s, (unsigned char)c);
			i += 3;
		} else {
			set_add(s, (unsigned char)t.s[i++]);
		}
	}
	return true;
}

/* Letters become other letters, and not only small ones large: that hides what a text says. */
static bool hides(const struct set *from, const struct set *to)
{
	for (size_t i = 0; i < from->n && to->n; i++) {
		unsigned char a = from->items[i], b = to->items[i < to->n ? i : to->n - 1];
		bool letter = ((a | 0x20) >= 'a' && (a | 0x20) <= 'z') || (a >= '0' && a <= '9');
		bool becomes = ((b | 0x20) >= 'a' && (b | 0x20) <= 'z') || b == '/' || b == '-' || (b >= '0' && b <= '9');
		if (a != b && becomes && (!letter || (a | 0x20) != (b | 0x20)))
			return true;
	}
	return false;
}

struct text decode_map(struct shell *sh, const struct parsed *p, struct text in)
{
	struct set from, to = {.n = 0};
	bool delete = option_given(p, "-d") == YES || option_given(p, "--delete") == YES,
	     others = option_given(p, "-c") == YES || option_given(p, "-C") == YES;
	if (!p->operand_count || others || !set_parse(sh, p->operands[0], &from) ||
	    (p->operand_count > 1 && !set_parse(sh, p->operands[1], &to)))
		return others || delete ? text_mark(MARK_ANY) : text_mark(MARK_DECODED);
	char *out = arena_alloc(sh->arena, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		const unsigned char *at = is_mark(in.s[i]) ? NULL : memchr(from.items, (unsigned char)in.s[i], from.n);
		size_t k = at ? (size_t)(at - from.items) : 0;
		if (!at || (!delete &&!to.n))
			out[n++] = in.s[i];
		else if (!delete)
			out[n++] = plain(to.items[k < to.n ? k : to.n - 1]);
	}
	struct text t = {out, n};
	return !delete &&hides(&from, &to) ? marked(sh, t) : t;
}
