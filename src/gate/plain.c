/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of plain shell: see plain.h. */
#include "gate/plain_parts.h"

#include "base/util.h"

#define ROUNDS_MAX 64 /* parts of one list or pipe: each moves all before it */

/* ---- compound statements ----------------------------------------------------------------------------------------------------- */

enum keyword { K_NONE, K_IF, K_THEN, K_ELIF, K_ELSE, K_FI, K_FOR, K_WHILE, K_UNTIL, K_DO, K_DONE, K_CASE, K_ESAC, K_DECLARE, K_OTHER };

static const struct {
	const char *name;
	enum keyword keyword;
} keywords[] = {
	{"if", K_IF},       {"then", K_THEN},    {"elif", K_ELIF},     {"else", K_ELSE},      {"fi", K_FI},          {"for", K_FOR},
	{"while", K_WHILE}, {"until", K_UNTIL},  {"do", K_DO},         {"done", K_DONE},      {"export", K_DECLARE}, {"local", K_DECLARE},
	{"case", K_CASE},   {"esac", K_ESAC},    {"select", K_OTHER},  {"function", K_OTHER}, {"in", K_OTHER},       {"time", K_OTHER},
	{"unset", K_OTHER}, {"coproc", K_OTHER}, {"declare", K_OTHER}, {"typeset", K_OTHER},  {"readonly", K_OTHER}, {"unsetenv", K_OTHER},
};

static enum keyword keyword_of(const char *name, uint32_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(keywords) && n >= 2 && n <= 8; i++)
		if (strlen(keywords[i].name) == n && memcmp(keywords[i].name, name, n) == 0)
			return keywords[i].keyword;
	return K_NONE;
}

/* The word at this place, if it means something at the beginning of a statement; *n is its length. */
static enum keyword keyword(const struct plain *p, uint32_t *n)
{
	uint32_t end = plain_name_end(p, p->at);
	*n = end - p->at;
	return is(p, end, C_END) ? keyword_of(p->text + p->at, *n) : K_NONE;
}

/* Blanks, newlines and remarks: nothing of them is kept. */
static bool gap(struct plain *p)
{
	for (;; p->at++) {
		plain_blanks(p);
		if (here(p) == '#')
			while (is(p, p->at, C_TEXT))
				p->at++;
		if (here(p) != '\n')
			return p->at < p->end && here(p) != '#';
	}
}

/* What ends a statement. */
static bool terminator(struct plain *p)
{
	plain_blanks(p);
	if (here(p) == '#')
		while (is(p, p->at, C_TEXT))
			p->at++;
	if (here(p) == ';' && ahead(p, 1) != ';')
		plain_sign(p, 0, 1);
	else if (here(p) == '&' && ahead(p, 1) != '&' && ahead(p, 1) != '>')
		plain_sign(p, S_AMP, 1);
	else if (here(p) == '\n')
		p->at++;
	else
		return false;
	p->closed = p->at;
	return true;
}

/* Statements up to one of two keywords or a brace, which is left where it is. */
static bool statements(struct plain *p, enum tree_field field, bool (*stops)(enum keyword k, char c))
{
	uint32_t n;
	for (size_t i = 0;; i++) {
		if (!gap(p))
			return false;
		enum keyword k = keyword(p, &n);
		if (stops(k, here(p)))
			return i > 0;
		uint32_t first = p->count;
		if (!plain_statement(p))
			return false;
		plain_plays(p, first, field);
		uint32_t after = p->count;
		if (!terminator(p))
			return false;
		if (p->count > after)
			plain_plays(p, after, field);
		run_step(p->run);
	}
}

static bool stops_then(enum keyword k, char c)
{
	return k == K_THEN;
}
static bool stops_do(enum keyword k, char c)
{
	return k == K_DO;
}
static bool stops_done(enum keyword k, char c)
{
	return k == K_DONE;
}
static bool stops_fi(enum keyword k, char c)
{
	return k == K_ELIF || k == K_ELSE || k == K_FI;
}
static bool stops_brace(enum keyword k, char c)
{
	return c == '}';
}

static bool do_group(struct plain *p)
{
	uint32_t n = plain_open(p, S_GROUP);
	plain_sign(p, 0, 2);
	if (!statements(p, F_NONE, stops_done))
		return false;
	plain_sign(p, 0, 4);
	plain_close(p, n);
	plain_plays(p, n, F_body);
	return true;
}

static bool while_loop(struct plain *p)
{
	uint32_t n = plain_open(p, S_WHILE);
	plain_sign(p, 0, 5);
	if (!statements(p, F_condition, stops_do) || !do_group(p))
		return false;
	plain_close(p, n);
	return true;
}

/* for x in a b; do … done */
static bool for_loop(struct plain *p)
{
	uint32_t n = plain_open(p, S_FOR), end;
	plain_sign(p, 0, 3);
	plain_blanks(p);
	end = plain_name_end(p, p->at);
	if (end == p->at || !is(p, end, C_END))
		return false;
	plain_plays(p, plain_add(p, S_VARIABLE, NODE_NAMED, p->at, end), F_variable);
	p->at = end;
	plain_blanks(p);
	if (!looking_at(p, "in ", 3))
		return false;
	plain_sign(p, 0, 2);
	uint32_t first = p->count;
	if (!plain_words(p, F_value) || p->count == first || (here(p) != ';' && here(p) != '\n') || !terminator(p) || !gap(p))
		return false;
	if (keyword(p, &end) != K_DO || !do_group(p))
		return false;
	plain_close(p, n);
	return true;
}

static bool condition(struct plain *p)
{
	uint32_t n = plain_open(p, S_IF), len, clause;
	plain_sign(p, 0, 2);
	if (!statements(p, F_condition, stops_then))
		return false;
	plain_sign(p, 0, 4);
	if (!statements(p, F_NONE, stops_fi))
		return false;
	for (enum keyword k; (k = keyword(p, &len)) != K_FI;) {
		clause = plain_open(p, S_GROUP);
		plain_sign(p, 0, 4);
		if (k == K_ELIF) {
			if (!statements(p, F_NONE, stops_then))
				return false;
			plain_sign(p, 0, 4);
		}
		if (!statements(p, F_NONE, stops_fi))
			return false;
		plain_close(p, clause);
		p->nodes[clause].end = p->closed;
		/* Of several newlines, the grammar may take another one for its end. */
		if (memchr(p->text + p->closed, '\n', p->at - p->closed))
			return false;
		if (k == K_ELSE && keyword(p, &len) != K_FI)
			return false;
	}
	plain_sign(p, 0, 2);
	plain_close(p, n);
	return true;
}

/* a|b) … ;; */
static bool case_item(struct plain *p)
{
	uint32_t n = plain_open(p, S_CASE_ITEM);
	for (;;) {
		uint32_t end = p->at;
		if (here(p) == '*')
			end++;
		else
			while (is(p, end, C_NAME) || (end > p->at && end < p->end && p->text[end] == '-'))
				end++;
		if (end == p->at)
			return false;
		plain_plays(p, plain_add(p, S_WORD, NODE_NAMED, p->at, end), F_value);
		p->at = end;
		if (here(p) != '|')
			break;
		plain_sign(p, 0, 1);
	}
	if (here(p) != ')' || (ahead(p, 1) != ' ' && ahead(p, 1) != '\n'))
		return false;
	plain_sign(p, 0, 1);
	for (;;) {
		if (!gap(p))
			return false;
		if (looking_at(p, ";;", 2))
			break;
		if (!plain_statement(p))
			return false;
		plain_blanks(p);
		if (!looking_at(p, ";;", 2) && !terminator(p))
			return false;
	}
	plain_sign(p, 0, 2);
	plain_close(p, n);
	return ahead(p, 0) != '&' && ahead(p, 0) != ';';
}

static bool case_statement(struct plain *p)
{
	uint32_t n = plain_open(p, S_CASE), len;
	plain_sign(p, 0, 4);
	plain_blanks(p);
	if (!plain_at_word(p) || !plain_word(p, F_value))
		return false;
	plain_blanks(p);
	if (!looking_at(p, "in\n", 3))
		return false;
	plain_sign(p, 0, 2);
	for (size_t items = 0;; items++) {
		if (!gap(p))
			return false;
		if (keyword(p, &len) == K_ESAC) {
			plain_sign(p, 0, 4);
			plain_close(p, n);
			return items > 0 && here(p) != '|' && here(p) != '&'; /* for the grammar, that is one more item */
		}
		if (!case_item(p))
			return false;
	}
}

static bool group(struct plain *p)
{
	uint32_t n = plain_open(p, S_GROUP);
	plain_sign(p, 0, 1);
	if (!is(p, p->at, C_END) || !statements(p, F_NONE, stops_brace))
		return false;
	plain_sign(p, 0, 1);
	plain_close(p, n);
	return true;
}

static bool function(struct plain *p, uint32_t name)
{
	uint32_t n = plain_open(p, S_FUNCTION);
	if (keyword_of(p->text + p->at, name) != K_NONE) /* `case()`: the grammar takes it for what it is, with whatever follows */
		return false;
	plain_plays(p, plain_add(p, S_WORD, NODE_NAMED, p->at, p->at + name), F_name);
	p->at += name;
	plain_sign(p, 0, 1);
	plain_sign(p, 0, 1);
	plain_blanks(p);
	uint32_t body = p->count;
	if (here(p) != '{' || !group(p))
		return false;
	plain_plays(p, body, F_body);
	plain_close(p, n);
	plain_blanks(p); /* redirections would be its own */
	return here(p) == '\n' || here(p) == ';' || here(p) == '#';
}

/* There, signs within a word are signs of their own for the grammar. */
static bool tested(struct plain *p, enum tree_field field)
{
	uint32_t end = p->at;
	if (here(p) == '"' || here(p) == '$')
		return plain_word(p, field);
	while (is(p, end, C_RUN))
		end++;
	return is(p, end, C_END) && (is(p, p->at, C_START) || here(p) == '/' || here(p) == '.') && plain_word(p, field);
}

/* [ -f x ], [ "$a" = "b" ] */
static bool test(struct plain *p)
{
	uint32_t n = plain_open(p, S_TEST), inner;
	plain_sign(p, 0, 1);
	plain_blanks(p);
	inner = plain_open(p, S_OTHER);
	if (here(p) == '-' && is(p, p->at + 1, C_START) && ahead(p, 2) == ' ') {
		plain_plays(p, plain_add(p, S_WORD, NODE_NAMED, p->at, p->at + 2), F_operator);
		p->at += 2;
		plain_blanks(p);
		if (!tested(p, F_NONE))
			return false;
	} else {
		if (here(p) != '"' || !plain_word(p, F_left))
			return false;
		plain_blanks(p);
		uint32_t len = here(p) == '=' ? 1 : here(p) == '!' && ahead(p, 1) == '=' ? 2 : 0;
		if (!len || ahead(p, len) != ' ')
			return false;
		plain_plays(p, plain_sign(p, 0, len), F_operator);
		plain_blanks(p);
		if (!tested(p, F_right))
			return false;
	}
	plain_close(p, inner);
	plain_blanks(p);
	if (here(p) != ']' || !is(p, p->at + 1, C_END))
		return false;
	plain_sign(p, 0, 1);
	plain_close(p, n);
	return true;
}

/* ---- statements -------------------------------------------------------------------------------------------------------------- */

/* What is neither a list nor a pipe. */
static bool unit(struct plain *p)
{
	uint32_t n;
	if (here(p) == '{')
		return group(p);
	if (here(p) == '[')
		return ahead(p, 1) == ' ' && test(p);
	switch (keyword(p, &n)) {
	case K_IF:
		return condition(p);
	case K_FOR:
		return for_loop(p);
	case K_WHILE:
	case K_UNTIL:
		return while_loop(p);
	case K_CASE:
		return case_statement(p);
	case K_DECLARE:
		return plain_declaration(p, n);
	case K_NONE:
		break;
	case K_THEN:
	case K_ELIF:
	case K_ELSE:
	case K_FI:
	case K_DO:
	case K_DONE:
	case K_ESAC:
	case K_OTHER:
	default:
		return false;
	}
	if (n && ahead(p, n) == '(' && ahead(p, n + 1) == ')')
		return function(p, n);
	return plain_lone_assignment(p) || plain_command(p);
}

/* a | b: the one that stands there may be one already. */
static bool pipe_into(struct plain *p, uint32_t left, uint32_t n)
{
	if (p->nodes[left].kind != S_PIPELINE)
		plain_wrap(p, left, S_PIPELINE);
	plain_sign(p, 0, n);
	plain_blanks(p);
	if (!unit(p))
		return false;
	plain_close_behind(p, left);
	return true;
}

/*
 * As the grammar has it: a redirection is one of everything in front of it, pipes bind closer than lists, and lists are nested to the left. `whole` is all
 * that there is so far, `right` what a pipe would take.
 */
bool plain_statement(struct plain *p)
{
	uint32_t whole = p->count, right = whole, pipes = 0, rounds = 0;
	if (p->depth >= PLAIN_DEPTH)
		return false;
	p->depth++;
	bool ok = unit(p);
	for (; ok; rounds++) {
		plain_blanks(p);
		char c = here(p), d = ahead(p, 1);
		if (plain_at_redirect(p) && rounds <= ROUNDS_MAX) {
			plain_wrap(p, whole, S_REDIRECTED);
			plain_plays(p, whole + 1, F_body);
			while (ok && plain_at_redirect(p))
				ok = plain_redirect(p);
			right = whole;
		} else if (c == '|' && d != '|' && d != '&') {
			ok = pipe_into(p, right, 1);
			pipes++;
		} else if ((c == '&' && d == '&') || (c == '|' && d == '|')) {
			/* After pipes, the last of them may be part of the list for the grammar. */
			if (pipes > 1 || rounds > ROUNDS_MAX) {
				ok = false;
				break;
			}
			plain_wrap(p, whole, S_LIST);
			plain_sign(p, c == '|' ? S_OR : 0, 2);
			plain_blanks(p);
			right = p->count;
			ok = unit(p);
		} else {
			break;
		}
		if (ok)
			plain_close_behind(p, whole);
	}
	p->depth--;
	return ok;
}

static bool line(struct plain *p)
{
	if (!gap(p))
		return false;
	while (plain_statement(p) && terminator(p)) {
		if (p->text[p->closed - 1] == '\n')
			return true;
		plain_blanks(p);
		if (here(p) == '\n')
			return true;
		if (here(p) == '#')
			return false;
	}
	return false;
}

bool plain_line(struct plain *p)
{
	uint32_t at = p->at, count = p->count;
	p->depth = 0;
	if (line(p))
		return true;
	p->at = at;
	p->count = count;
	return false;
}
