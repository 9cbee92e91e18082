/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code in languages that have no grammar here: Perl, PHP and awk, as it is given to commands in one line. Only words, strings, comments and patterns are told
 * apart; a word with arguments behind it is a call, and is compared with the rules as calls of other languages are.
 */
#include "gate/code.h"

#define ARGS 8

struct scan {
	struct code code;
	struct node node; /* the only one: where we are */
	const char *s;
	size_t n, i;
	bool operand; /* a value may begin here: a slash begins a pattern */
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* From behind the opening quote to the closing one; the place behind that. */
static size_t string_end(const struct scan *t, size_t from, char close)
{
	char open = close == ')' ? '(' : close == '}' ? '{' : close == ']' ? '[' : close == '>' ? '<' : '\0';
	unsigned depth = 0;
	size_t i = from;
	for (; i < t->n; i++) {
		if (t->s[i] == '\\') {
			i++;
		} else if (open && t->s[i] == open) {
			depth++;
		} else if (t->s[i] == close) {
			if (!depth)
				break;
			depth--;
		}
	}
	return i;
}

/* What a string says; "$x" in it is not known. */
static struct text string_text(struct scan *t, size_t from, size_t to, bool interpolated)
{
	char *out = arena_alloc(t->code.arena, to - from + 1);
	size_t n = 0;
	for (size_t i = from; i < to; i++) {
		char c = t->s[i];
		if (c == '\\' && i + 1 < to) {
			c = t->s[++i];
			out[n++] = c == 'n' ? '\n' : c == 't' ? '\t' : c;
		} else if (interpolated && (c == '$' || c == '@') && i + 1 < to && (is_name(t->s[i + 1]) || t->s[i + 1] == '{')) {
			/* $HOME and the like belong to the shell that gets this: kept as they are written. */
			bool shell = t->code.which != GATE_PERL || (t->s[i + 1] >= 'A' && t->s[i + 1] <= 'Z' && c == '$');
			if (shell) {
				out[n++] = c;
				continue;
			}
			while (i + 1 < to && (is_name(t->s[i + 1]) || t->s[i + 1] == '{' || t->s[i + 1] == '}'))
				i++;
			out[n++] = MARK_ANY;
		} else {
			out[n++] = c;
		}
	}
	return (struct text){out, n};
}

static char closing(char open)
{
	return open == '(' ? ')' : open == '{' ? '}' : open == '[' ? ']' : open == '<' ? '>' : open;
}

static void call(struct scan *t, struct text name, size_t start, size_t end, struct args *args)
{
	t->node.start = (uint32_t)start;
	t->node.end = (uint32_t)end;
	code_called(&t->code, 0, val_name(&t->code, name, NULL), args);
}

static bool is_unknown(struct text t)
{
	return t.n == 1 && t.s[0] == MARK_ANY;
}

static void add_argument(struct scan *t, struct args *args, struct text text)
{
	if (args->count < ARGS)
		ARENA_PUSH(t->code.arena, args->list, args->count, is_unknown(text) ? &val_unknown : val_text(&t->code, text));
}

/* The arguments behind a name: strings as they are, joined by ".", and everything else as something that is not known. */
static void arguments(struct scan *t, size_t i, struct args *args)
{
	struct text current = TEXT("");
	bool any = false, parens = false;
	unsigned depth = 0;
	while (i < t->n && is_space(t->s[i]))
		i++;
	if (i < t->n && t->s[i] == '(') {
		parens = true;
		i++;
	}
	for (; i < t->n; i++) {
		char c = t->s[i];
		run_step(t->code.run);
		if (c == '"' || c == '\'') {
			size_t end = string_end(t, i + 1, c);
			if (depth && is_unknown(current)) /* glob("x"): what is made of it is like it */
				current = TEXT("");
			current = text_cat(t->code.arena, current, string_text(t, i + 1, end, c == '"'));
			any = true;
			i = end;
		} else if (c == '(' || c == '[' || c == '{') {
			depth++;
		} else if (c == ')' || c == ']' || c == '}') {
			if (!depth)
				break;
			depth--;
		} else if ((c == ',' && !depth) || (c == ';' && !parens) || (c == '\n' && !parens)) {
			if (any)
				add_argument(t, args, current);
			current = TEXT("");
			any = false;
			if (c != ',')
				return;
		} else if (!is_space(c) && c != '.' && !depth) {
			if (!current.n || !is_mark(current.s[current.n - 1]))
				current = text_cat(t->code.arena, current, text_mark(MARK_ANY));
			any = true;
		}
	}
	if (any)
		add_argument(t, args, current);
}

/* m/…/, s/…/…/, qw(…): not code, but for the e of s///e. */
static bool quote_like(struct scan *t, struct text word, size_t after)
{
	static const char *const names[] = {"m", "s", "y", "tr", "qr", "q", "qq", "qw", "qx"};
	bool found = false;
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
		found = found || text_is(word, names[k]);
	if (!found || t->code.which != GATE_PERL || after >= t->n || is_name(t->s[after]) || is_space(t->s[after]) ||
	    strchr("=,;)", t->s[after]))
		return false;
	char close = closing(t->s[after]);
	size_t end = string_end(t, after + 1, close);
	if (text_is(word, "qx")) {
		const struct val *v = val_text(&t->code, string_text(t, after + 1, end, true));
		call(t, TEXT("`"), t->i, end, &(struct args){.list = &v, .count = 1});
	}
	if (text_is(word, "s") || text_is(word, "y") || text_is(word, "tr")) {
		size_t from = end + 1;
		if (close != t->s[after] && from < t->n) {
			close = closing(t->s[from]);
			from++;
		}
		end = string_end(t, from, close);
	}
	t->i = end < t->n ? end + 1 : t->n;
	while (t->i < t->n && is_name(t->s[t->i]))
		t->i++;
	t->operand = false;
	return true;
}

static void word(struct scan *t)
{
	size_t from = t->i;
	while (t->i < t->n &&
	       (is_name(t->s[t->i]) || (t->s[t->i] == ':' && t->i + 2 < t->n && t->s[t->i + 1] == ':' && is_name(t->s[t->i + 2]))))
		t->i += t->s[t->i] == ':' ? 2 : 1;
	struct text name = {t->s + from, t->i - from};
	bool variable = from > 0 && strchr(t->code.which == GATE_PERL ? "$@%" : "$", t->s[from - 1]),
	     member = from > 1 && t->s[from - 1] == '>' && t->s[from - 2] == '-';
	bool key = from > 0 && t->s[from - 1] == '{' && t->i < t->n && t->s[t->i] == '}';
	t->operand = false;
	if (variable || key)
		return;
	if (quote_like(t, name, t->i))
		return;
	struct args args = {0};
	arguments(t, t->i, &args);
	char *dotted = arena_alloc(t->code.arena, name.n);
	size_t n = 0;
	for (size_t i = 0; i < name.n; i++) { /* A::b is A.b */
		if (name.s[i] == ':')
			i++;
		dotted[n++] = name.s[i] == ':' ? '.' : name.s[i];
	}
	struct text full = {dotted, n};
	call(t, member ? text_cat(t->code.arena, TEXT("*."), full) : full, from, t->i, &args);
	static const char *const before_values[] = {"and",    "or",    "not",  "if",  "unless", "while", "until",
	                                            "return", "split", "grep", "map", "print",  "x"};
	for (size_t i = 0; i < sizeof(before_values) / sizeof(before_values[0]); i++)
		t->operand = t->operand || text_is(name, before_values[i]);
}

/* awk: "command" | getline, print | "command", print > "file". */
static void around_string(struct scan *t, size_t from, size_t end, struct text text)
{
	size_t before = from, after = end + 1;
	const struct val *v = val_text(&t->code, text);
	struct args args = {.list = &v, .count = 1};
	while (before > 0 && is_space(t->s[before - 1]))
		before--;
	while (after < t->n && is_space(t->s[after]))
		after++;
	bool to_pipe = before > 0 && (t->s[before - 1] == '|' || (t->s[before - 1] == '&' && before > 1 && t->s[before - 2] == '|'));
	bool from_pipe = after < t->n && t->s[after] == '|' && after + 1 < t->n && t->s[after + 1] != '|';
	if (to_pipe && !(before > 1 && t->s[before - 2] == '|' && t->s[before - 1] == '|'))
		call(t, TEXT("pipe"), from, end, &args);
	else if (from_pipe)
		call(t, TEXT("pipe"), from, end, &args);
	else if (before > 0 && t->s[before - 1] == '>')
		call(t, TEXT("write"), from, end, &args);
	else
		call(t, TEXT("text"), from, end, &args);
}

static void string(struct scan *t, char quote)
{
	size_t from = t->i, end = string_end(t, from + 1, quote);
	struct text text = string_text(t, from + 1, end, quote != '\'');
	if (quote == '`') {
		const struct val *v = val_text(&t->code, text);
		call(t, TEXT("`"), from, end, &(struct args){.list = &v, .count = 1});
	} else if (t->code.which == GATE_AWK) {
		around_string(t, from, end, text);
	}
	t->i = end + 1;
	t->operand = false;
}

static void skip_comment(struct scan *t)
{
	while (t->i < t->n && t->s[t->i] != '\n')
		t->i++;
}

static void one(struct scan *t)
{
	char c = t->s[t->i];
	bool php = t->code.which == GATE_PHP;
	if (c == '"' || c == '\'' || (c == '`' && t->code.which != GATE_AWK)) {
		string(t, c);
	} else if ((c == '#' && !(t->i > 0 && t->s[t->i - 1] == '$')) || (php && c == '/' && t->i + 1 < t->n && t->s[t->i + 1] == '/')) {
		skip_comment(t);
	} else if (c == '/' && t->operand && !php) {
		t->i = string_end(t, t->i + 1, '/') + 1;
		t->operand = false;
	} else if (is_name(c)) {
		word(t);
	} else {
		if (!is_space(c))
			t->operand = strchr(")]}", c) == NULL;
		t->i++;
	}
}

void tokens_check(struct run *r, enum gate_language language)
{
	struct scan *t = ARENA_NEW(&r->arena, struct scan);
	t->code =
		(struct code){.run = r, .arena = &r->arena, .gate = r->gate, .language = &r->gate->languages[language], .which = language};
	t->code.top = t->code.scope = ARENA_NEW(&r->arena, struct scope);
	t->code.tree = (struct tree){.nodes = &t->node, .count = 1, .text = {r->source->text, r->source->len}};
	t->node.size = 1;
	t->s = r->source->text;
	t->n = r->source->len;
	t->operand = true;
	while (t->i < t->n) {
		run_step(r);
		one(t);
	}
}
