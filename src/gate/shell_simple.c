/* SPDX-License-Identifier: Apache-2.0 */
/* Assignments, and simple commands: words, what stands in front of them, redirections. */
#include "gate/shell_parts.h"

/* ---- assignments ------------------------------------------------------------------------------------------------------------- */

static void look_at_value(struct shell *sh, struct text name, struct text value, uint32_t start, uint32_t end)
{
	const void **list;
	size_t count = lookup_all(&sh->language->variables, sh->arena, name, &list);
	match_assignment(sh, name, value, start, end);
	for (size_t i = 0; i < count; i++) {
		const struct gate_variable *v = list[i];
		if (v->language != GATE_LANGUAGES && value.n && text_marks(value) != 1u << MARK_ANY)
			run_code(sh->run, v->language, value, start, end);
	}
}

static void array_fields(struct shell *sh, uint32_t n, struct fields *out)
{
	TREE_CHILDREN(sh->tree, n, c)
	if (node_at(sh, c)->flags & NODE_NAMED)
		word_fields(sh, c, out);
}

void shell_assign(struct shell *sh, uint32_t n)
{
	uint32_t name = tree_field(sh->tree, n, F_name), value = tree_field(sh->tree, n, F_value);
	if (!name)
		return;
	if (node_at(sh, name)->kind == S_SUBSCRIPT) /* a[$(x)]=1 runs x */
		expand_arithmetic(sh, name);
	uint32_t variable = node_at(sh, name)->kind == S_SUBSCRIPT ? tree_field(sh->tree, name, F_name) : name;
	struct text key = text_at(sh, variable ? variable : name);
	bool list = value && node_at(sh, value)->kind == S_ARRAY, element = variable != name;
	bool more = value && node_at(sh, name)->end < node_at(sh, value)->start && sh->tree->text.s[node_at(sh, name)->end] == '+';
	struct fields f = {0}, old;
	if ((more || element) && var_value(sh, key, &old))
		for (size_t i = 0; i < old.n; i++)
			fields_add(sh, &f, old.v[i]);
	if (list) {
		array_fields(sh, value, &f);
	} else {
		struct text t = value ? word_text(sh, value) : TEXT("");
		if (more && !element && f.n)
			t = text_cat(sh->arena, f.v[0], t);
		if (!element)
			f.n = 0;
		fields_add(sh, &f, t);
		look_at_value(sh, key, t, node_at(sh, n)->start, node_at(sh, n)->end);
	}
	var_set(sh, key, f, list || element);
}

/* ---- commands ---------------------------------------------------------------------------------------------------------------- */

bool is_word(const struct node *n)
{
	switch (n->kind) {
	case S_WORD:
	case S_STRING:
	case S_RAW:
	case S_ANSI:
	case S_TRANSLATED:
	case S_CONCAT:
	case S_SIMPLE:
	case S_EXPANSION:
	case S_SUBSTITUTION:
	case S_PROCESS:
	case S_ARITHMETIC:
	case S_COMMAND_NAME:
		return true;
	default:
		return false;
	}
}

/* NAME=VALUE in front of a command: for that command only. */
struct prefix {
	struct var *var;
	struct var old;
};

static size_t set_prefixes(struct shell *sh, uint32_t n, struct prefix *list, size_t most)
{
	size_t count = 0;
	TREE_CHILDREN(sh->tree, n, c)
	{
		if (node_at(sh, c)->kind != S_ASSIGN)
			continue;
		uint32_t name = tree_field(sh->tree, c, F_name);
		struct text key = name ? text_at(sh, name) : TEXT("");
		const struct var *v = map_get(&sh->vars, key);
		struct var old = v ? *v : (struct var){0};
		shell_assign(sh, c);
		if (count < most && map_get(&sh->vars, key))
			list[count++] = (struct prefix){map_get(&sh->vars, key), old};
	}
	return count;
}

/* `command_name` and arguments; false if there is no name. */
static bool collect(struct shell *sh, uint32_t n, struct command *c)
{
	struct fields argv = {0};
	bool named = false;
	TREE_CHILDREN(sh->tree, n, child)
	{
		const struct node *node = node_at(sh, child);
		if (node->kind == S_COMMAND_NAME) {
			uint32_t inner = child + 1;
			if (node->size > 1 && node_at(sh, inner)->kind == S_ARITHMETIC && node_at(sh, inner)->end == node->end) {
				expand_arithmetic(sh, inner); /* ((…)) */
				return false;
			}
			struct text t = text_at(sh, child);
			c->self = text_is(t, "$0") || text_is(t, "\"$0\"") || text_is(t, "${0}") || text_is(t, "\"${0}\"");
			named = true;
			word_fields(sh, child, &argv);
		} else if (is_word(node)) {
			word_fields(sh, child, &argv);
		} else if (node->kind == S_SUBSHELL) {
			shell_statement(sh, child);
		}
	}
	c->argv = argv.v;
	c->n = argv.n;
	return named;
}

struct text command_finish(struct shell *sh, const struct command *c, struct text out)
{
	if (!c->to_file)
		return out;
	for (size_t i = 0; i < c->write_count; i++)
		file_put(sh, c->writes[i].path, out, c->writes[i].append);
	return TEXT("");
}

static void more_words(struct shell *sh, struct command *c, const struct fields *words)
{
	struct fields f = {0};
	if (!words->n)
		return;
	for (size_t i = 0; i < c->n; i++)
		fields_add(sh, &f, c->argv[i]);
	for (size_t i = 0; i < words->n; i++)
		fields_add(sh, &f, words->v[i]);
	c->argv = f.v;
	c->n = f.n;
}

/* n is the command, m what holds it and its redirections (perhaps n itself). */
static struct text command_once(struct shell *sh, uint32_t n, uint32_t m, struct after *after)
{
	struct prefix prefixes[16];
	struct command c = {.start = node_at(sh, m)->start, .end = node_at(sh, m)->end, .in = sh->in};
	struct text out = TEXT("");
	size_t count = n ? set_prefixes(sh, n, prefixes, 16) : 0;
	bool named = n && collect(sh, n, &c);
	if (n)
		redirects(sh, n, &c, after);
	if (m != n)
		redirects(sh, m, &c, after);
	more_words(sh, &c, &after->args);
	if (n && n == sh->last)
		more_words(sh, &c, &sh->last_words);
	/* A command of no words is its redirections; "$@" that is empty leaves none either. */
	if (named || c.write_count || c.read_count)
		out = command_run(sh, &c);
	for (size_t i = 0; i < count; i++)
		*prefixes[i].var = prefixes[i].old;
	return command_finish(sh, &c, out);
}

struct text simple_command(struct shell *sh, uint32_t n, uint32_t m, struct after *after)
{
	size_t alt = sh->alt, most = sh->alt_max;
	sh->alt_max = 0;
	if (!sh->in_alt)
		sh->alt = 0;
	struct text out = command_once(sh, n, m, after);
	size_t values = sh->alt_max;
	for (size_t i = 1; !sh->in_alt && i < values && i < ALTS; i++) {
		struct after again = {0};
		sh->in_alt = true;
		sh->alt = i;
		command_once(sh, n, m, &again);
		sh->in_alt = false;
	}
	sh->alt = alt;
	sh->alt_max = most > values ? most : values;
	return out;
}
