/* SPDX-License-Identifier: Apache-2.0 */
/* Words, simple commands and redirections of plain shell. */
#include "gate/plain_parts.h"

#include "base/util.h"

/* clang-format off */
#define LETTER (C_WORD | C_NAME | C_START | C_RUN | C_TEXT)
#define DIGIT (C_WORD | C_NAME | C_RUN | C_TEXT)
const unsigned char plain_classes[256] = {
	['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['_'] = DIGIT, ['0' ... '9'] = DIGIT,
	['.'] = C_WORD | C_RUN | C_TEXT, ['/'] = C_WORD | C_RUN | C_TEXT, ['-'] = C_WORD | C_RUN | C_TEXT,
	[':'] = C_WORD | C_TEXT, [','] = C_WORD | C_TEXT, ['+'] = C_WORD | C_TEXT, ['%'] = C_WORD | C_TEXT, ['@'] = C_WORD | C_TEXT,
	['='] = C_WORD | C_TEXT, ['~'] = C_WORD | C_TEXT, ['*'] = C_WORD | C_TEXT, ['?'] = C_WORD | C_TEXT,
	[' '] = C_END | C_TEXT, ['\t'] = C_END | C_TEXT, ['\n'] = C_END, [';'] = C_END | C_TEXT, ['&'] = C_END | C_TEXT,
	['|'] = C_END | C_TEXT, [')'] = C_END | C_TEXT,
	['!'] = C_TEXT, ['"'] = C_TEXT, ['#'] = C_TEXT, ['$'] = C_TEXT, ['\''] = C_TEXT, ['('] = C_TEXT, ['<'] = C_TEXT, ['>'] = C_TEXT,
	['['] = C_TEXT, [']'] = C_TEXT, ['\\'] = C_TEXT, ['^'] = C_TEXT, ['`'] = C_TEXT, ['{'] = C_TEXT, ['}'] = C_TEXT,
};
/* clang-format on */

void plain_blanks(struct plain *p)
{
	while (p->at < p->end && (p->text[p->at] == ' ' || p->text[p->at] == '\t'))
		p->at++;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------- */

uint32_t plain_add(struct plain *p, unsigned kind, unsigned flags, uint32_t start, uint32_t end)
{
	struct node node = {.kind = (uint16_t)kind, .flags = (uint8_t)flags, .start = start, .end = end, .size = 1};
	ARENA_PUSH(&p->run->arena, p->nodes, p->count, node);
	return p->count - 1;
}

uint32_t plain_sign(struct plain *p, unsigned kind, uint32_t n)
{
	p->at += n;
	return plain_add(p, kind, 0, p->at - n, p->at);
}

void plain_plays(struct plain *p, uint32_t n, enum tree_field field)
{
	p->nodes[n].field = (uint8_t)field;
}

uint32_t plain_open(struct plain *p, unsigned kind)
{
	return plain_add(p, kind, NODE_NAMED, p->at, p->at);
}

void plain_close(struct plain *p, uint32_t n)
{
	p->nodes[n].size = p->count - n;
	p->nodes[n].end = p->at;
}

void plain_wrap(struct plain *p, uint32_t n, unsigned kind)
{
	struct node outer = {.kind = (uint16_t)kind, .flags = NODE_NAMED, .start = p->nodes[n].start};
	plain_add(p, 0, 0, 0, 0);
	memmove(p->nodes + n + 1, p->nodes + n, (p->count - 1 - n) * sizeof(*p->nodes));
	p->nodes[n] = outer;
	plain_close(p, n);
}

/* ---- words ------------------------------------------------------------------------------------------------------------------- */

uint32_t plain_name_end(const struct plain *p, uint32_t at)
{
	if (is(p, at, C_START))
		while (is(p, at, C_NAME))
			at++;
	return at;
}

/* A node that begins with a sign of n bytes, both with the blanks in front of them. */
static uint32_t open_from(struct plain *p, unsigned kind, uint32_t start, uint32_t n)
{
	uint32_t node = plain_add(p, kind, NODE_NAMED, start, start);
	p->at += n;
	plain_add(p, kind == S_SIMPLE ? S_DOLLAR : 0, 0, start, p->at);
	return node;
}

/* ${x} and ${x:-plain} */
static bool braces(struct plain *p, uint32_t start)
{
	uint32_t n = open_from(p, S_EXPANSION, start, 2), end;
	end = plain_name_end(p, p->at);
	if (end == p->at)
		return false;
	plain_add(p, S_VARIABLE, NODE_NAMED, p->at, end);
	p->at = end;
	if (here(p) == ':' && ahead(p, 1) == '-') {
		plain_plays(p, plain_sign(p, 0, 2), F_operator);
		for (end = p->at; is(p, end, C_NAME); end++)
			;
		if (end == p->at || !is(p, p->at, C_START))
			return false;
		plain_add(p, S_WORD, NODE_NAMED, p->at, end);
		p->at = end;
	}
	if (here(p) != '}')
		return false;
	plain_sign(p, 0, 1);
	plain_close(p, n);
	return true;
}

static bool substitution(struct plain *p, uint32_t start)
{
	uint32_t n = open_from(p, S_SUBSTITUTION, start, 2);
	plain_blanks(p);
	if (p->depth >= PLAIN_DEPTH || !is(p, p->at, C_START))
		return false;
	p->depth++;
	bool ok = plain_statement(p);
	p->depth--;
	plain_blanks(p);
	if (!ok || here(p) != ')')
		return false;
	plain_sign(p, 0, 1);
	plain_close(p, n);
	return true;
}

/* `start`: where the blanks in front of it begin, if these are part of it. */
static bool dollar(struct plain *p, uint32_t start)
{
	uint32_t end = plain_name_end(p, p->at + 1);
	if (ahead(p, 1) == '{')
		return braces(p, start);
	if (ahead(p, 1) == '(')
		return substitution(p, start);
	if (end == p->at + 1 && ((ahead(p, 1) >= '0' && ahead(p, 1) <= '9') || memchr("@#?*", ahead(p, 1), 4)) && !is(p, p->at + 2, C_NAME))
		end++;
	if (end == p->at + 1)
		return false;
	uint32_t n = open_from(p, S_SIMPLE, start, 1);
	plain_add(p, S_VARIABLE, NODE_NAMED, p->at, end);
	p->at = end;
	plain_close(p, n);
	return true;
}

static bool string(struct plain *p)
{
	uint32_t n = plain_open(p, S_STRING);
	plain_sign(p, 0, 1);
	uint32_t last = UINT32_MAX;
	while (here(p) != '"') {
		uint32_t start = p->at;
		plain_blanks(p);
		/* The grammar makes blanks that stand alone a part of what follows. */
		if (here(p) == '"') {
			last = start;
			break;
		}
		if (here(p) == '$') {
			if (!dollar(p, start))
				return false;
			continue;
		}
		if (here(p) == '(') /* "((" is arithmetic for the grammar, even there */
			return false;
		for (; is(p, p->at, C_TEXT) && !memchr("\"$`", here(p), 3); p->at++)
			if (here(p) == '\\' && (is(p, ++p->at, C_END) || !is(p, p->at, C_TEXT)))
				return false;
		if (p->at == start || here(p) == '`')
			return false;
		plain_add(p, S_STRING_CONTENT, NODE_NAMED, start, p->at);
	}
	last = MIN(last, p->at);
	plain_add(p, 0, 0, last, ++p->at);
	plain_close(p, n);
	return true;
}

static bool raw_string(struct plain *p)
{
	uint32_t n = plain_open(p, S_RAW);
	p->at++;
	while (here(p) != '\'' && (is(p, p->at, C_TEXT) || here(p) == '\n'))
		p->at++;
	if (here(p) != '\'')
		return false;
	p->at++;
	plain_close(p, n);
	return true;
}

static bool part(struct plain *p)
{
	uint32_t start = p->at;
	switch (here(p)) {
	case '\'':
		return raw_string(p);
	case '"':
		return string(p);
	case '$':
		return dollar(p, p->at);
	default:
		while (is(p, p->at, C_WORD))
			p->at++;
		if (p->at == start)
			return false;
		plain_add(p, S_WORD, NODE_NAMED, start, p->at);
		return true;
	}
}

bool plain_word(struct plain *p, enum tree_field field)
{
	uint32_t first = p->count;
	size_t parts = 0;
	if (here(p) == '=') /* signs of their own, for the grammar */
		return false;
	for (; !is(p, p->at, C_END); parts++)
		if ((parts > 1 && here(p) == '$') || !part(p)) /* $a/b$c: there the grammar sees a dollar by itself */
			return false;
	/* One of these signs alone may be lost by the grammar. */
	if (!parts || (parts == 1 && p->at - p->nodes[first].start == 1 && memchr("-_*@?0", p->text[p->at - 1], 6)))
		return false;
	if (parts > 1)
		plain_wrap(p, first, S_CONCAT);
	plain_plays(p, first, field);
	return true;
}

/* ---- simple commands --------------------------------------------------------------------------------------------------------- */

static bool assignment(struct plain *p)
{
	uint32_t n = plain_open(p, S_ASSIGN), end = plain_name_end(p, p->at);
	plain_plays(p, plain_add(p, S_VARIABLE, NODE_NAMED, p->at, end), F_name);
	p->at = end;
	plain_sign(p, 0, 1);
	bool empty = here(p) == ' ' || here(p) == '\t' || here(p) == '\n' || here(p) == ';';
	if (!empty && !plain_word(p, F_value))
		return false;
	plain_close(p, n);
	return true;
}

static bool is_assignment(const struct plain *p)
{
	uint32_t end = plain_name_end(p, p->at);
	return end > p->at && end < p->end && p->text[end] == '=';
}

bool plain_at_redirect(const struct plain *p)
{
	char c = here(p);
	if (c == '<' || c == '>' || (c == '&' && ahead(p, 1) == '>'))
		return true;
	return c >= '1' && c <= '9' && (ahead(p, 1) == '<' || ahead(p, 1) == '>');
}

bool plain_at_word(const struct plain *p)
{
	return p->at < p->end && !is(p, p->at, C_END) && !plain_at_redirect(p) && here(p) != '#';
}

bool plain_words(struct plain *p, enum tree_field field)
{
	for (plain_blanks(p); plain_at_word(p); plain_blanks(p))
		if (!plain_word(p, field))
			return false;
	return true;
}

void plain_close_behind(struct plain *p, uint32_t n)
{
	uint32_t at = p->at;
	while (p->text[p->at - 1] == ' ' || p->text[p->at - 1] == '\t')
		p->at--;
	plain_close(p, n);
	p->at = at;
}

bool plain_command(struct plain *p)
{
	uint32_t n = plain_open(p, S_COMMAND), name, end = p->at;
	while (is_assignment(p)) {
		if (!assignment(p))
			return false;
		plain_blanks(p);
	}
	name = plain_open(p, S_COMMAND_NAME);
	plain_plays(p, name, F_name);
	for (end = p->at; is(p, end, C_RUN); end++)
		;
	if (end > p->at) {
		if (!is(p, end, C_END) || (!is(p, p->at, C_START) && here(p) != '/' && here(p) != '.') || here(p) == '_')
			return false;
		plain_add(p, S_WORD, NODE_NAMED, p->at, end);
		p->at = end;
	} else if ((here(p) != '"' && here(p) != '$') || !part(p) || !is(p, p->at, C_END)) {
		return false;
	}
	plain_close(p, name);
	if (!plain_words(p, F_argument))
		return false;
	plain_close_behind(p, n);
	return true;
}

bool plain_declaration(struct plain *p, uint32_t n)
{
	plain_sign(p, 0, n);
	uint32_t outer = p->count - 1;
	plain_wrap(p, outer, S_DECLARE);
	for (plain_blanks(p); plain_at_word(p); plain_blanks(p)) {
		uint32_t end = plain_name_end(p, p->at);
		if (is_assignment(p)) {
			if (!assignment(p))
				return false;
		} else if (end > p->at && is(p, end, C_END)) {
			plain_add(p, S_VARIABLE, NODE_NAMED, p->at, end);
			p->at = end;
		} else {
			return false;
		}
	}
	plain_close_behind(p, outer);
	return true;
}

bool plain_lone_assignment(struct plain *p)
{
	uint32_t at = p->at, count = p->count;
	if (is_assignment(p) && assignment(p)) {
		uint32_t end = p->at;
		plain_blanks(p);
		if (here(p) == ';' || here(p) == '\n' || looking_at(p, "&&", 2) || looking_at(p, "||", 2)) {
			p->at = end;
			return true;
		}
	}
	p->at = at;
	p->count = count;
	return false;
}

/* ---- redirections ------------------------------------------------------------------------------------------------------------ */

/*
 * <<X at the end of a line, and lines up to one that is X. Without quotes around X nothing in them may mean anything.
 */
static bool heredoc(struct plain *p)
{
	uint32_t n = plain_open(p, S_HEREDOC), start, len;
	plain_plays(p, n, F_redirect);
	plain_sign(p, 0, 2);
	bool quoted = here(p) == '\'';
	start = p->at + quoted;
	len = plain_name_end(p, start) - start;
	if (!len || (quoted && ahead(p, 1 + len) != '\'') || ahead(p, len + 2 * quoted) != '\n')
		return false;
	plain_add(p, S_HEREDOC_START, NODE_NAMED, p->at, p->at + len + 2 * quoted);
	p->at += len + 2 * quoted + 1;
	uint32_t body = plain_add(p, S_HEREDOC_BODY, NODE_NAMED, p->at, p->at);
	if (is(p, p->at, C_END)) /* blanks and newlines there are left out by the grammar */
		return false;
	for (;;) {
		uint32_t at = p->at, first;
		plain_blanks(p);
		first = p->at;
		for (; is(p, p->at, C_TEXT); p->at++)
			if (here(p) == '\\' || (!quoted && (here(p) == '$' || here(p) == '`')))
				return false;
		if (here(p) != '\n')
			return false;
		if (p->at - at == len && memcmp(p->text + at, p->text + start, len) == 0) {
			p->nodes[body].end = at;
			plain_add(p, S_HEREDOC_END, NODE_NAMED, at, p->at);
			plain_close(p, n);
			return p->nodes[body].start < at;
		}
		/* The grammar takes the end of X for the end of the line. */
		if (p->at - first >= len && memcmp(p->text + first, p->text + start, len) == 0)
			return false;
		p->at++;
	}
}

bool plain_redirect(struct plain *p)
{
	static const struct {
		const char *s;
		uint32_t n;
	} signs[] = {{"&>>", 3}, {"&>", 2}, {">>", 2}, {">&", 2}, {"<&", 2}, {">", 1}, {"<", 1}};
	if (here(p) == '<' && ahead(p, 1) == '<')
		return heredoc(p);
	uint32_t n = plain_open(p, S_FILE_REDIRECT);
	plain_plays(p, n, F_redirect);
	if (here(p) >= '0' && here(p) <= '9') {
		plain_plays(p, plain_add(p, S_DESCRIPTOR, NODE_NAMED, p->at, p->at + 1), F_descriptor);
		p->at++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		if (!looking_at(p, signs[i].s, signs[i].n))
			continue;
		plain_sign(p, 0, signs[i].n);
		plain_blanks(p);
		if (!plain_at_word(p) || here(p) == '-' || !plain_words(p, F_destination))
			return false;
		plain_close_behind(p, n);
		return true;
	}
	return false;
}
