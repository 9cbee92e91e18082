/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words. A word is first put together as bytes with a note on each: was it quoted, did it come out of an expansion. Then braces, splitting and patterns
 * of files are done on that, as these depend on just these notes.
 */
#include <stdint.h>

#include "gate/shell.h"

enum note {
	PLAIN,    /* as it was written */
	QUOTED,   /* means itself */
	EXPANDED, /* out of a variable, without quotes: split, and * is a pattern */
	BREAK,    /* between the fields of "$@": no byte of its own */
};

struct builder {
	char *bytes;
	unsigned char *notes;
	size_t n;
	bool quotes; /* there were quotes: "" is a field */
};

static void put(struct shell *sh, struct builder *b, char c, enum note note)
{
	size_t n = b->n;
	if (n >= TEXT_CAP)
		return;
	ARENA_PUSH(sh->arena, b->notes, n, (unsigned char)note);
	ARENA_PUSH(sh->arena, b->bytes, b->n, c);
}

static void put_text(struct shell *sh, struct builder *b, struct text t, enum note note)
{
	for (size_t i = 0; i < t.n; i++)
		put(sh, b, t.s[i], note);
}

void fields_add(struct shell *sh, struct fields *f, struct text t)
{
	if (f->n < FIELDS)
		ARENA_PUSH(sh->arena, f->v, f->n, t);
}

struct text fields_join(struct shell *sh, const struct fields *f)
{
	struct text out = TEXT("");
	for (size_t i = 0; i < f->n && out.n < TEXT_CAP; i++)
		out = i ? text_cat3(sh->arena, out, TEXT(" "), f->v[i]) : f->v[i];
	return out;
}

/* ---- parts of a word --------------------------------------------------------------------------------------------------------- */

static void put_node(struct shell *sh, struct builder *b, uint32_t n, bool quoted);

/* Text without quotes: a backslash quotes what follows. */
static void put_literal(struct shell *sh, struct builder *b, struct text t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.s[i] == '\\' && i + 1 < t.n) {
			if (t.s[++i] != '\n')
				put(sh, b, t.s[i], QUOTED);
			continue;
		}
		put(sh, b, t.s[i], PLAIN);
	}
}

/* Text within double quotes: a backslash quotes only what means something there. */
static void put_quoted(struct shell *sh, struct builder *b, struct text t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.s[i] == '\\' && i + 1 < t.n && strchr("$`\"\\\n", t.s[i + 1])) {
			if (t.s[++i] != '\n')
				put(sh, b, t.s[i], QUOTED);
			continue;
		}
		put(sh, b, t.s[i], QUOTED);
	}
}

static void put_fields(struct shell *sh, struct builder *b, const struct fields *f, bool quoted)
{
	for (size_t i = 0; i < f->n; i++) {
		if (i)
			put(sh, b, ' ', quoted ? BREAK : EXPANDED);
		put_text(sh, b, f->v[i], quoted ? QUOTED : EXPANDED);
	}
}

/* The children of a node between two places, and the text between them. */
static void put_parts(struct shell *sh, struct builder *b, uint32_t n, uint32_t from, uint32_t to, bool quoted)
{
	const struct tree *t = sh->tree;
	uint32_t at = from;
	TREE_CHILDREN(t, n, c)
	{
		const struct node *node = &t->nodes[c];
		if (node->start < at || node->end > to || node->start < from || !(node->flags & NODE_NAMED) ||
		    node->kind == S_STRING_CONTENT || node->kind == S_HEREDOC_START || node->kind == S_HEREDOC_END)
			continue;
		struct text gap = {t->text.s + at, node->start - at};
		if (quoted)
			put_quoted(sh, b, gap);
		else
			put_literal(sh, b, gap);
		put_node(sh, b, c, quoted);
		at = node->end;
	}
	if (at < to) {
		struct text gap = {t->text.s + at, to - at};
		if (quoted)
			put_quoted(sh, b, gap);
		else
			put_literal(sh, b, gap);
	}
}

/* <(x) is a file that holds what x writes. */
static void put_process(struct shell *sh, struct builder *b, uint32_t n)
{
	bool writes = tree_text(sh->tree, n).s[0] == '>';
	struct saved saved = shell_fork(sh);
	if (writes)
		sh->in = text_mark(MARK_ANY);
	struct text out = shell_statements(sh, n), path = text_of(arena_printf(sh->arena, "/dev/fd/%u", 63 + sh->descriptors++));
	shell_join(sh, saved);
	file_put(sh, path, out, false);
	put_text(sh, b, path, QUOTED);
}

/* The code between two backticks: there a backslash quotes what means something there. */
static struct text unticked(struct shell *sh, struct text t)
{
	char *out = arena_alloc(sh->arena, t.n);
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++) {
		if (t.s[i] == '\\' && i + 1 < t.n && strchr("$`\\", t.s[i + 1]))
			i++;
		out[n++] = t.s[i];
	}
	return (struct text){out, n};
}

static size_t next_tick(struct text t, size_t i)
{
	while (i < t.n && t.s[i] != '`')
		i += t.s[i] == '\\' ? 2 : 1;
	return i < t.n ? i : t.n;
}

/* `a` `b`: the grammar may take several for one, with what is between them. */
static void put_ticks(struct shell *sh, struct builder *b, uint32_t n, bool quoted)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text t = tree_text(sh->tree, n);
	for (size_t i = 0; i < t.n;) {
		size_t open = next_tick(t, i), close = open < t.n ? next_tick(t, open + 1) : t.n;
		for (size_t k = i; k < open; k++)
			put(sh, b, t.s[k], quoted ? QUOTED : EXPANDED);
		if (open == t.n)
			return;
		struct text code = {t.s + open + 1, close - open - 1}, out;
		struct saved saved = shell_fork(sh);
		out = shell_text(sh, unticked(sh, code), node->start, node->end);
		shell_join(sh, saved);
		while (out.n && out.s[out.n - 1] == '\n')
			out.n--;
		put_text(sh, b, out, quoted ? QUOTED : EXPANDED);
		i = close + 1;
	}
}

static void put_substitution(struct shell *sh, struct builder *b, uint32_t n, bool quoted)
{
	if (tree_text(sh->tree, n).s[0] == '`') {
		put_ticks(sh, b, n, quoted);
		return;
	}
	struct text out = shell_substitution(sh, n);
	put_text(sh, b, out, quoted ? QUOTED : EXPANDED);
}

static void put_node(struct shell *sh, struct builder *b, uint32_t n, bool quoted)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text text = tree_text(sh->tree, n);
	struct fields f = {0};
	if (!run_enter(sh->run, node->start))
		return;
	switch (node->kind) {
	case S_STRING:
		b->quotes = true;
		if (text.n >= 2)
			put_parts(sh, b, n, node->start + (text.s[0] == '$') + 1, node->end - 1, true);
		break;
	case S_TRANSLATED:
		put_parts(sh, b, n, node->start + 1, node->end, false);
		break;
	case S_RAW:
		b->quotes = true;
		if (text.n >= 2)
			put_text(sh, b, (struct text){text.s + 1, text.n - 2}, QUOTED);
		break;
	case S_ANSI:
		b->quotes = true;
		if (text.n >= 3)
			put_text(sh, b, unescape_ansi(sh->arena, (struct text){text.s + 2, text.n - 3}), QUOTED);
		break;
	case S_CONCAT:
	case S_COMMAND_NAME:
		put_parts(sh, b, n, node->start, node->end, quoted);
		break;
	case S_SIMPLE:
	case S_EXPANSION:
		expand_variable(sh, n, quoted, &f);
		put_fields(sh, b, &f, quoted);
		break;
	case S_SUBSTITUTION:
		put_substitution(sh, b, n, quoted);
		break;
	case S_PROCESS:
		put_process(sh, b, n);
		break;
	case S_ARITHMETIC:
		expand_arithmetic(sh, n);
		put(sh, b, MARK_ANY, QUOTED);
		break;
	case S_SUBSCRIPT:
	case S_VARIABLE:
	case S_WORD:
	case S_OTHER:
	default:
		if (quoted)
			put_quoted(sh, b, text);
		else
			put_literal(sh, b, text);
	}
	run_leave(sh->run);
}

/* ---- from bytes to fields ---------------------------------------------------------------------------------------------------- */

/* The brace that closes the one at `open`, or b->n; *comma is set if it makes a list. */
static size_t brace_end(const struct builder *b, size_t open, bool *list)
{
	unsigned depth = 0;
	*list = false;
	for (size_t i = open; i < b->n; i++) {
		if (b->notes[i] != PLAIN)
			continue;
		if (b->bytes[i] == '{')
			depth++;
		if (b->bytes[i] == '}' && --depth == 0)
			return i;
		if (depth == 1 && (b->bytes[i] == ',' || (b->bytes[i] == '.' && i + 1 < b->n && b->bytes[i + 1] == '.')))
			*list = true;
	}
	return b->n;
}

static struct builder sub(const struct builder *b, size_t from, size_t to)
{
	return (struct builder){b->bytes + from, b->notes + from, to - from, b->quotes};
}

static void append(struct shell *sh, struct builder *to, struct builder from)
{
	for (size_t i = 0; i < from.n; i++)
		put(sh, to, from.bytes[i], from.notes[i]);
}

static void split(struct shell *sh, const struct builder *b, struct fields *out);

/* {1..5} and {a..e}: their ends and, where it is short, everything between. */
static bool expand_range(struct shell *sh, const struct builder *in, struct fields *items)
{
	struct text t = {in->bytes, in->n};
	size_t dots = text_find(t, '.');
	if (dots + 1 >= t.n || t.s[dots + 1] != '.')
		return false;
	struct text first = text_first(t, dots), last = text_from(t, dots + 2);
	last = text_first(last, text_find(last, '.'));
	if (first.n == 1 && last.n == 1 && first.s[0] < last.s[0] && last.s[0] - first.s[0] < 64) {
		for (char c = first.s[0]; c <= last.s[0]; c++)
			fields_add(sh, items, (struct text){arena_copy(sh->arena, &c, 1), 1});
		return true;
	}
	fields_add(sh, items, first);
	fields_add(sh, items, text_mark(MARK_ANY));
	return first.n && last.n;
}

static void expand_braces(struct shell *sh, const struct builder *b, unsigned depth, struct fields *out)
{
	for (size_t i = 0; i < b->n && depth < 16 && out->n < FIELDS; i++) {
		bool list;
		if (b->bytes[i] != '{' || b->notes[i] != PLAIN || (i > 0 && b->bytes[i - 1] == '$'))
			continue;
		size_t end = brace_end(b, i, &list);
		if (end == b->n || !list)
			continue;
		struct builder inner = sub(b, i + 1, end), tail = sub(b, end + 1, b->n);
		struct fields range = {0};
		if (!memchr(inner.bytes, ',', inner.n) && expand_range(sh, &inner, &range)) {
			for (size_t k = 0; k < range.n; k++) {
				struct builder one = {.quotes = b->quotes};
				append(sh, &one, sub(b, 0, i));
				put_text(sh, &one, range.v[k], QUOTED);
				append(sh, &one, tail);
				expand_braces(sh, &one, depth + 1, out);
			}
			return;
		}
		size_t from = i + 1;
		unsigned level = 0;
		for (size_t k = i + 1; k <= end; k++) {
			if (b->notes[k] == PLAIN && b->bytes[k] == '{')
				level++;
			if (b->notes[k] == PLAIN && b->bytes[k] == '}' && k < end)
				level--;
			if (k < end && (level || b->notes[k] != PLAIN || b->bytes[k] != ','))
				continue;
			struct builder one = {.quotes = b->quotes};
			append(sh, &one, sub(b, 0, i));
			append(sh, &one, sub(b, from, k));
			append(sh, &one, tail);
			expand_braces(sh, &one, depth + 1, out);
			from = k + 1;
			run_step(sh->run);
		}
		return;
	}
	split(sh, b, out);
}

/* ~ and ~name at the beginning. */
static struct text tilde(struct shell *sh, const struct builder *b, size_t *used)
{
	size_t end = 0;
	*used = 0;
	if (!b->n || b->bytes[0] != '~' || b->notes[0] != PLAIN)
		return TEXT("");
	while (end < b->n && b->bytes[end] != '/' && b->notes[end] == PLAIN)
		end++;
	if (end < b->n && b->bytes[end] != '/')
		return TEXT("");
	*used = end;
	struct text name = {b->bytes + 1, end - 1};
	if (!name.n)
		return sh->gate->home;
	if (text_is(name, "+"))
		return sh->cwd;
	if (text_is(name, "-"))
		return sh->oldpwd;
	return text_is(name, "root") ? TEXT("/root") : text_cat(sh->arena, TEXT("/home/"), name);
}

static bool closes(const struct builder *b, size_t i)
{
	for (size_t k = i + 2; k < b->n; k++)
		if (b->bytes[k] == ']')
			return true;
	return false;
}

/* Splitting, and patterns of files. */
static void split(struct shell *sh, const struct builder *b, struct fields *out)
{
	size_t used, n = 0, before = out->n;
	struct text home = tilde(sh, b, &used), ifs = TEXT(" \t\n");
	struct fields set;
	char *field = arena_alloc(sh->arena, 2 * b->n + home.n + 1);
	bool any = false;
	if (var_value(sh, TEXT("IFS"), &set) && set.n == 1 && text_known(set.v[0]))
		ifs = set.v[0];
	if (home.n) {
		memcpy(field, home.s, home.n);
		n = home.n;
		any = true;
	}
	for (size_t i = used; i < b->n; i++) {
		char c = b->bytes[i];
		enum note note = b->notes[i];
		if (note == BREAK || (note == EXPANDED && memchr(ifs.s, c, ifs.n))) {
			if (any || note == BREAK)
				fields_add(sh, out, (struct text){arena_copy(sh->arena, field, n), n});
			n = 0;
			any = note == BREAK;
			continue;
		}
		any = true;
		if (note == EXPANDED &&
		    c == MARK_ANY) /* any number of words: twice the mark means the same, and tells it from a quoted one */
			field[n++] = c;
		if (note != QUOTED && c == '*') {
			c = MARK_GLOB;
		} else if (note != QUOTED && c == '?') {
			c = MARK_ONE;
		} else if (note != QUOTED && c == '[' && closes(b, i)) {
			while (i + 1 < b->n && b->bytes[i] != ']')
				i++;
			c = MARK_ONE;
		}
		field[n++] = c;
	}
	if (any || (b->quotes && out->n == before))
		fields_add(sh, out, (struct text){field, n});
}

/* ---- words ------------------------------------------------------------------------------------------------------------------- */

/* Most words have nothing in them that means anything but itself. */
static bool is_simple(struct text t)
{
	static const bool means[256] = {['\0'] = true, ['\\'] = true, ['*'] = true, ['?'] = true, ['['] = true, ['{'] = true, ['~'] = true};
	for (size_t i = 0; i < t.n; i++)
		if (means[(unsigned char)t.s[i]] || is_mark(t.s[i]))
			return false;
	return true;
}

void word_fields(struct shell *sh, uint32_t n, struct fields *out)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text text = tree_text(sh->tree, n);
	if (node->kind == S_COMMAND_NAME && node->size == 2) {
		word_fields(sh, n + 1, out);
		return;
	}
	if (node->kind == S_WORD && is_simple(text)) {
		fields_add(sh, out, text);
		return;
	}
	struct builder b = {0};
	put_node(sh, &b, n, false);
	expand_braces(sh, &b, 0, out);
}

static struct text whole(struct shell *sh, const struct builder *b)
{
	size_t used;
	struct text home = tilde(sh, b, &used), rest = {b->bytes + used, b->n - used};
	for (size_t i = used; i < b->n; i++) /* "$@" as one text */
		if (b->notes[i] == BREAK)
			b->bytes[i] = ' ';
	return text_cat(sh->arena, home, rest);
}

struct text word_text(struct shell *sh, uint32_t n)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text text = tree_text(sh->tree, n);
	if (node->kind == S_WORD && is_simple(text))
		return text;
	struct builder b = {0};
	put_node(sh, &b, n, false);
	return whole(sh, &b);
}

struct text word_range(struct shell *sh, uint32_t n, uint32_t from, uint32_t to, bool quoted)
{
	struct builder b = {0};
	put_parts(sh, &b, n, from, to, quoted);
	return quoted ? (struct text){b.bytes, b.n} : whole(sh, &b);
}

void text_split(struct shell *sh, struct text t, struct text separators, struct fields *out)
{
	for (size_t i = 0, from = 0; i <= t.n; i++) {
		if (i < t.n && !memchr(separators.s, t.s[i], separators.n))
			continue;
		if (i > from)
			fields_add(sh, out, (struct text){t.s + from, i - from});
		from = i + 1;
	}
}
