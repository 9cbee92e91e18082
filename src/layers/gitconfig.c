/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gitconfig.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

struct cursor {
	const char *at, *end;
};

/* The end of the text is a line's end, as often as one asks. */
static char next(struct cursor *c)
{
	if (c->at == c->end)
		return '\n';
	if (*c->at == '\r' && c->end - c->at > 1 && c->at[1] == '\n')
		c->at++;
	return *c->at++;
}

static void skip_line(struct cursor *c, char last)
{
	while (last != '\n')
		last = next(c);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_key_char(char c)
{
	char l = lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

static void add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

static void start(struct buf *b)
{
	b->len = 0;
	buf_add(b, "", 0);
}

/* [section], [section "subsection"] or [section.subsection]; the "[" has been read. False: it is none, and the line is over. */
static bool read_section(struct cursor *c, struct buf *section)
{
	char ch;
	start(section);
	for (ch = next(c); is_key_char(ch); ch = next(c))
		add_char(section, lower(ch));
	if (ch == '.')
		while (is_key_char(ch) || ch == '.')
			ch = next(c);
	while (ch == ' ' || ch == '\t')
		ch = next(c);
	if (ch == '"') {
		for (ch = next(c); ch != '"' && ch != '\n'; ch = next(c))
			if (ch == '\\' && next(c) == '\n')
				return false;
		if (ch == '"')
			ch = next(c);
	}
	if (ch == ']')
		return true;
	skip_line(c, ch);
	return false;
}

/* What a backslash and this stand for; 0: nothing that git knows. */
static char escaped(char c)
{
	static const char names[] = "tbn\\\"", values[] = "\t\b\n\\\"";
	const char *at = c ? strchr(names, c) : NULL;
	return at ? values[at - names] : '\0';
}

/* Up to the end of the line. False: git would not take it. */
static bool read_value(struct cursor *c, struct buf *value)
{
	bool quoted = false, comment = false;
	size_t spaces = 0; /* between words they count, at both ends they do not */
	for (char ch = next(c); ch != '\n'; ch = next(c)) {
		if (comment)
			continue;
		if (is_space(ch) && !quoted) {
			spaces += value->len > 0;
			continue;
		}
		if ((ch == '#' || ch == ';') && !quoted) {
			comment = true;
			continue;
		}
		for (; spaces; spaces--)
			add_char(value, ' ');
		if (ch == '"') {
			quoted = !quoted;
			continue;
		}
		if (ch == '\\') {
			ch = next(c);
			if (ch == '\n') /* the value goes on in the next line */
				continue;
			ch = escaped(ch);
			if (!ch) {
				skip_line(c, ch);
				return false;
			}
		}
		add_char(value, ch);
	}
	return !quoted;
}

/* One setting, of which the first letter has been read. False: it is none. */
static bool read_setting(struct cursor *c, char ch, struct buf *key, struct buf *value)
{
	start(key);
	start(value);
	for (; is_key_char(ch); ch = next(c))
		add_char(key, lower(ch));
	while (ch == ' ' || ch == '\t')
		ch = next(c);
	if (ch == '\n')
		return true;
	if (ch == '=')
		return read_value(c, value);
	skip_line(c, ch);
	return false;
}

int git_config_parse(const char *text, size_t len, int (*each)(void *arg, const struct git_setting *s, struct cordon_error *err), void *arg,
                     struct cordon_error *err)
{
	_cleanup_buf_ struct buf section = {0}, key = {0}, value = {0};
	struct cursor c = {text, text + len};
	int r = 0;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		c.at += 3;
	start(&section);
	while (c.at < c.end && r == 0) {
		char ch = next(&c);
		if (is_space(ch))
			continue;
		if (ch == '[') {
			if (!read_section(&c, &section))
				start(&section);
			continue;
		}
		if (!is_key_char(ch)) { /* a comment, too */
			skip_line(&c, ch);
			continue;
		}
		bool good = read_setting(&c, ch, &key, &value);
		if (section.failed || key.failed || value.failed)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		if (good)
			r = each(arg, &(struct git_setting){section.data, key.data, value.data}, err);
	}
	return r;
}
