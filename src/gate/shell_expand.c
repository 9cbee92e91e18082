/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: $x, ${x:-y}, ${x%/∗}, "$@", arrays. */
#include "gate/shell.h"

/* ---- escapes ----------------------------------------------------------------------------------------------------------------- */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

static size_t digits(struct text t, size_t from, int base, size_t most, unsigned *value)
{
	size_t i = from;
	*value = 0;
	for (; i < t.n && i < from + most && digit_of(t.s[i]) < base; i++)
		*value = *value * (unsigned)base + (unsigned)digit_of(t.s[i]);
	return i;
}

/* $'…' and what printf %b and echo -e make of a text. */
struct text unescape_ansi(struct arena *a, struct text t)
{
	static const char from[] = "abeEfnrtv", to[] = "\a\b\033\033\f\n\r\t\v";
	char *out = arena_alloc(a, t.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++) {
		unsigned value = 0;
		size_t end;
		const char *simple;
		if (t.s[i] != '\\' || i + 1 >= t.n) {
			out[n++] = t.s[i];
			continue;
		}
		char c = t.s[++i];
		if ((c == 'x' || c == 'u' || c == 'U') && (end = digits(t, i + 1, 16, c == 'x' ? 2 : 8, &value)) > i + 1) {
			i = end - 1;
		} else if (c >= '0' && c <= '7') {
			i = digits(t, i, 8, c == '0' ? 4 : 3, &value) - 1;
		} else if ((simple = memchr(from, c, sizeof(from) - 1))) {
			value = (unsigned char)to[simple - from];
		} else {
			value = (unsigned char)c;
		}
		/* Letters are what matters: what is outside ASCII cannot be the name of anything that the rules know. */
		out[n++] = value == 0                             ? '\n'
		           : value > 0x7e || is_mark((char)value) ? MARK_ANY
		                                                  : (char)value; /* a NUL separates, and so does a newline */
	}
	return (struct text){out, n};
}

/* ---- patterns ---------------------------------------------------------------------------------------------------------------- */

/* As in ${x%pattern}: * and ? and [...] that match anything. */
static bool matches(struct text p, struct text t)
{
	size_t i = 0, k = 0, star = SIZE_MAX, mark = 0;
	while (k < t.n) {
		if (i < p.n && p.s[i] == '*') {
			star = i++;
			mark = k;
		} else if (i < p.n && p.s[i] == '[' && text_find(text_from(p, i), ']') < p.n - i) {
			i += text_find(text_from(p, i), ']') + 1;
			k++;
		} else if (i < p.n && (p.s[i] == '?' || p.s[i] == t.s[k])) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			k = ++mark;
			i = star + 1;
		} else {
			return false;
		}
	}
	while (i < p.n && p.s[i] == '*')
		i++;
	return i == p.n;
}

static struct text strip(struct text t, struct text pattern, bool front, bool longest)
{
	if (t.n > 4096)
		return text_mark(MARK_ANY);
	for (size_t i = 0; i <= t.n; i++) {
		size_t cut = longest ? t.n - i : i;
		struct text part = front ? text_first(t, cut) : text_from(t, t.n - cut);
		if (matches(pattern, part))
			return front ? text_from(t, cut) : text_first(t, t.n - cut);
	}
	return t;
}

static struct text replace(struct shell *sh, struct text t, struct text pattern, struct text with, bool all)
{
	struct text out = TEXT("");
	size_t i = 0;
	if (!pattern.n || t.n > 4096)
		return t;
	while (i < t.n) {
		size_t best = 0;
		for (size_t n = t.n - i; n > 0 && !best; n--)
			if (matches(pattern, (struct text){t.s + i, n}))
				best = n;
		if (!best) {
			out = text_cat(sh->arena, out, (struct text){t.s + i++, 1});
			continue;
		}
		out = text_cat(sh->arena, out, with);
		i += best;
		run_step(sh->run);
		if (!all)
			return text_cat(sh->arena, out, text_from(t, i));
	}
	return out;
}

static struct text change_case(struct shell *sh, struct text t, char op, bool all)
{
	char *out = arena_copy(sh->arena, t.s, t.n);
	for (size_t i = 0; i < (all ? t.n : t.n > 0); i++) {
		if (op == ',' && out[i] >= 'A' && out[i] <= 'Z')
			out[i] = (char)(out[i] + 'a' - 'A');
		if (op == '^' && out[i] >= 'a' && out[i] <= 'z')
			out[i] = (char)(out[i] - 'a' + 'A');
	}
	return (struct text){out, t.n};
}

static bool number(struct text t, long *out)
{
	size_t i = 0;
	bool minus = false;
	while (i < t.n && t.s[i] == ' ')
		i++;
	if (i < t.n && t.s[i] == '-') {
		minus = true;
		i++;
	}
	if (i == t.n || t.n - i > 6)
		return false;
	for (*out = 0; i < t.n; i++) {
		if (t.s[i] < '0' || t.s[i] > '9')
			return false;
		*out = *out * 10 + (t.s[i] - '0');
	}
	if (minus)
		*out = -*out;
	return true;
}

/* ${x:1:2} */
static struct text substring(struct text t, struct text range)
{
	long from, len = 1 << 20;
	size_t colon = text_find(range, ':');
	if (!text_known(t) || !number(text_first(range, colon), &from) || (colon < range.n && !number(text_from(range, colon + 1), &len)))
		return text_mark(MARK_ANY);
	if (from < 0)
		from += (long)t.n;
	if (from < 0 || (size_t)from > t.n)
		return TEXT("");
	t = text_from(t, (size_t)from);
	if (len < 0)
		len += (long)t.n;
	return len < 0 ? TEXT("") : text_first(t, (size_t)len);
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static bool special(struct shell *sh, struct text name, struct fields *out)
{
	const struct {
		const char *name;
		struct text value;
	} known[] = {
		{"HOME", sh->gate->home},
		{"PWD", sh->cwd},
		{"OLDPWD", sh->oldpwd},
		{"IFS", TEXT(" \t\n")},
		{"USER", TEXT("user")},
		{"LOGNAME", TEXT("user")},
		{"BASH_SOURCE", text_cat(sh->arena, sh->gate->workspace, TEXT("/\1"))},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (text_is(name, known[i].name)) {
			fields_add(sh, out, known[i].value);
			return true;
		}
	}
	return false;
}

/* $1 … and $@, where they are known; in a script they come from outside. */
static bool positional(struct shell *sh, struct text name, struct fields *out)
{
	if (text_is(name, "@") || text_is(name, "*")) {
		if (sh->positional_known)
			for (size_t i = 0; i < sh->positional.n; i++)
				fields_add(sh, out, sh->positional.v[i]);
		return sh->positional_known;
	}
	if (name.n == 1 && name.s[0] == '0') {
		fields_add(sh, out, text_cat3(sh->arena, sh->gate->workspace, TEXT("/"), text_mark(MARK_ANY)));
		return true;
	}
	long n;
	if (!number(name, &n) || n < 1 || !sh->positional_known)
		return false;
	if ((size_t)n <= sh->positional.n)
		fields_add(sh, out, sh->positional.v[n - 1]);
	return true;
}

/* What a variable that is not set here would hold: nothing is known of it but where it comes from. */
static struct text from_outside(struct shell *sh, struct text name)
{
	const void **list;
	size_t count = lookup_all(&sh->language->variables, sh->arena, name, &list);
	for (size_t i = 0; i < count; i++)
		for (unsigned m = MARK_DECODED; m <= MARK_LAST; m++)
			if (((const struct gate_variable *)list[i])->taint & 1u << m)
				return text_mark((enum text_mark)m);
	return text_mark(MARK_ANY);
}

/* False: nothing is known about it. */
static bool value_of(struct shell *sh, struct text name, struct fields *out)
{
	struct fields f;
	if (var_value(sh, name, &f)) {
		*out = f;
		return true;
	}
	return positional(sh, name, out) || special(sh, name, out);
}

/* An element of an array: all, one, or one that is not known. */
static void element(struct shell *sh, struct text subscript, bool *list, struct fields *f)
{
	long n;
	if (text_is(subscript, "@") || text_is(subscript, "*")) {
		*list = true;
		return;
	}
	if (number(subscript, &n) && n >= 0 && (size_t)n < f->n) {
		*f = (struct fields){&f->v[n], 1};
		return;
	}
	struct fields any = {0};
	fields_add(sh, &any, f->n ? f->v[sh->alt % f->n] : text_mark(MARK_ANY));
	if (f->n > sh->alt_max && f->n <= ALTS)
		sh->alt_max = f->n;
	*f = any;
}

struct parameter {
	struct text name, subscript, op; /* op: from the operator on */
	uint32_t op_at;                  /* its place in the text */
	bool indirect, length, has_subscript;
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct parameter parse(struct text inner, uint32_t at)
{
	struct parameter p = {0};
	size_t i = 0;
	if (inner.n > 1 && inner.s[0] == '!') {
		p.indirect = true;
		i++;
	} else if (inner.n > 1 && inner.s[0] == '#' && (is_name(inner.s[1]) || inner.s[1] == '@' || inner.s[1] == '*')) {
		p.length = true;
		i++;
	}
	size_t from = i;
	while (i < inner.n && is_name(inner.s[i]))
		i++;
	if (i == from && i < inner.n)
		i++; /* @ * # ? … */
	p.name = (struct text){inner.s + from, i - from};
	if (i < inner.n && inner.s[i] == '[') {
		unsigned depth = 0;
		size_t open = i + 1;
		for (; i < inner.n; i++) {
			depth += inner.s[i] == '[';
			if (inner.s[i] == ']' && --depth == 0)
				break;
		}
		p.subscript = (struct text){inner.s + open, i - open};
		p.has_subscript = true;
		i = i < inner.n ? i + 1 : i;
	}
	p.op = text_from(inner, i);
	p.op_at = at + (uint32_t)i;
	return p;
}

/* The place of the slash between pattern and replacement. */
static size_t separator(struct text t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.s[i] == '\\')
			i++;
		else if (t.s[i] == '/')
			return i;
	}
	return t.n;
}

struct expansion {
	struct shell *sh;
	uint32_t node, end; /* where the closing brace is */
	bool quoted;
};

static struct text operand(const struct expansion *e, uint32_t from)
{
	return from <= e->end ? word_range(e->sh, e->node, from, e->end, e->quoted) : TEXT("");
}

static void each(const struct expansion *e, const struct parameter *p, struct fields *f)
{
	struct text op = p->op;
	char c = op.s[0];
	bool twice = op.n > 1 && op.s[1] == c;
	struct fields out = {0};
	if (c == '#' || c == '%') {
		struct text pattern = word_range(e->sh, e->node, p->op_at + 1 + twice, e->end, false);
		for (size_t i = 0; i < f->n; i++)
			fields_add(e->sh, &out, strip(f->v[i], pattern, c == '#', twice));
	} else if (c == '/') {
		uint32_t from = p->op_at + 1 + (op.n > 1 && (op.s[1] == '/' || op.s[1] == '#' || op.s[1] == '%'));
		struct text rest = {e->sh->tree->text.s + from, from < e->end ? e->end - from : 0};
		uint32_t middle = from + (uint32_t)separator(rest);
		struct text pattern = word_range(e->sh, e->node, from, middle, false),
			    with = middle < e->end ? operand(e, middle + 1) : TEXT("");
		for (size_t i = 0; i < f->n; i++)
			fields_add(e->sh, &out, replace(e->sh, f->v[i], pattern, with, twice));
	} else if (c == ',' || c == '^') {
		for (size_t i = 0; i < f->n; i++)
			fields_add(e->sh, &out, change_case(e->sh, f->v[i], c, twice));
	} else if (c == ':') {
		for (size_t i = 0; i < f->n; i++)
			fields_add(e->sh, &out, substring(f->v[i], text_from(op, 1)));
	} else {
		out = *f;
	}
	*f = out;
}

/* ${x:-y} and its relatives. True if it was one of these. */
static bool defaults(const struct expansion *e, const struct parameter *p, bool known, struct fields *f)
{
	struct text op = p->op;
	bool colon = op.n > 1 && op.s[0] == ':' && strchr("-=?+", op.s[1]);
	char c = colon ? op.s[1] : op.s[0];
	if (!colon && !strchr("-=?+", c))
		return false;
	bool empty = known && colon && (f->n == 0 || (f->n == 1 && f->v[0].n == 0));
	struct text word = operand(e, p->op_at + 1 + colon);
	bool use = c == '+' ? known && !empty : !known || empty;
	if (c == '?') {
		if (!known)
			fields_add(e->sh, f, text_mark(MARK_ANY));
		return true;
	}
	if (c == '+' && !known) {
		*f = (struct fields){0};
		fields_add(e->sh, f, text_mark(MARK_ANY));
		return true;
	}
	if (use) {
		*f = (struct fields){0};
		fields_add(e->sh, f, word);
		if (c == '=')
			var_set_text(e->sh, p->name, word);
	} else if (c == '+') {
		*f = (struct fields){0};
	}
	return true;
}

static void expand_braced(struct shell *sh, uint32_t n, bool quoted, struct fields *out)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text text = tree_text(sh->tree, n);
	if (text.n < 3)
		return;
	struct parameter p = parse((struct text){text.s + 2, text.n - 3}, node->start + 2);
	struct expansion e = {sh, n, node->end - 1, quoted};
	struct fields f = {0};
	bool known = value_of(sh, p.name, &f), list = text_is(p.name, "@") || text_is(p.name, "*");
	if (p.length || (p.indirect && p.has_subscript)) {
		fields_add(sh, out, text_mark(MARK_ANY));
		return;
	}
	if (p.indirect) {
		struct text other = known && f.n == 1 ? f.v[0] : TEXT("");
		f = (struct fields){0};
		known = other.n && text_known(other) && value_of(sh, other, &f);
	}
	if (p.has_subscript && known)
		element(sh, p.subscript, &list, &f);
	else if (known && !list && f.n > 1)
		f.n = 1; /* an array without subscript is its first element */
	bool done = p.op.n && defaults(&e, &p, known, &f);
	if (!known && !f.n && !done)
		fields_add(sh, &f, from_outside(sh, p.name));
	if (text_is(p.op, "@P")) /* as a prompt: commands within it run */
		for (size_t i = 0; i < f.n; i++)
			shell_text(sh, text_cat3(sh->arena, TEXT(": \""), f.v[i], TEXT("\"")), node->start, node->end);
	if (text_is(p.op, "@P") && (!known || !f.n))
		run_unproven(sh->run, "dynamic-code", "it runs code that is not known from the text", node->start, node->end);
	if (p.op.n && !done)
		each(&e, &p, &f);
	*out = f;
}

void expand_variable(struct shell *sh, uint32_t n, bool quoted, struct fields *out)
{
	const struct node *node = &sh->tree->nodes[n];
	struct text text = tree_text(sh->tree, n), rest = TEXT("");
	if (node->kind == S_EXPANSION) {
		expand_braced(sh, n, quoted, out);
		return;
	}
	struct text name = text_from(text, 1);
	if (name.n > 1 && name.s[0] >= '0' && name.s[0] <= '9') { /* $1x is $1 and x */
		rest = text_from(name, 1);
		name = text_first(name, 1);
	}
	if (!value_of(sh, name, out))
		fields_add(sh, out, from_outside(sh, name));
	const struct var *v = var_find(sh, name);
	if (v && v->list && out->n > 1)
		out->n = 1;
	if (rest.n && out->n) {
		struct fields longer = {0}; /* the fields themselves belong to the variable */
		for (size_t i = 0; i < out->n; i++)
			fields_add(sh, &longer, i + 1 < out->n ? out->v[i] : text_cat(sh->arena, out->v[i], rest));
		*out = longer;
	}
}

/* Nothing is calculated; but an index may hold a command, and so may the text of a variable that is used as a number. */
void expand_arithmetic(struct shell *sh, uint32_t n)
{
	for (uint32_t i = n + 1, end = n + sh->tree->nodes[n].size; i < end; i++) {
		uint16_t kind = sh->tree->nodes[i].kind;
		struct fields f = {0};
		if (kind == S_SUBSTITUTION) {
			shell_substitution(sh, i);
			i += sh->tree->nodes[i].size - 1;
		} else if (kind == S_EXPANSION) {
			expand_variable(sh, i, true, &f);
			i += sh->tree->nodes[i].size - 1;
		} else if (kind == S_VARIABLE && var_value(sh, tree_text(sh->tree, i), &f) && f.n == 1) {
			size_t dollar = text_find(f.v[0], '$');
			if (dollar + 1 < f.v[0].n && f.v[0].s[dollar + 1] == '(')
				shell_text(sh, text_cat(sh->arena, TEXT(": "), f.v[0]), sh->tree->nodes[i].start, sh->tree->nodes[i].end);
		}
	}
}
