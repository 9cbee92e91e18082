/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: lists, pipes, redirections; and texts, of which they are the parts. */
#include "gate/shell_parts.h"

struct text output_add(struct shell *sh, struct text a, struct text b)
{
	if (!b.n || a.n > TEXT_CAP)
		return a;
	/* What is not known stays so, however much of it there is. */
	if (a.n && a.s[a.n - 1] == MARK_ANY && text_is(b, "\1"))
		return a;
	return text_cat(sh->arena, a, b);
}

/* ---- pipes and redirections -------------------------------------------------------------------------------------------------- */

static struct text pipeline(struct shell *sh, uint32_t n, struct text in, bool piped)
{
	struct text out = in;
	bool first = !piped;
	sh->pipes++;
	TREE_CHILDREN(sh->tree, n, c)
	{
		if (!(node_at(sh, c)->flags & NODE_NAMED))
			continue;
		struct saved saved = shell_fork(sh);
		if (!first)
			sh->in = out;
		out = shell_statement(sh, c);
		shell_join(sh, saved);
		first = false;
	}
	sh->pipes--;
	return out;
}

static struct text rest_of_line(struct shell *sh, const struct after *after, struct text out)
{
	if (after->pipe)
		out = pipeline(sh, after->pipe, out, true);
	if (after->right)
		out = output_add(sh, out, shell_statement(sh, after->right));
	return out;
}

/* The simple command that a statement ends with; 0: there is none. */
static uint32_t last_command(const struct shell *sh, uint32_t n)
{
	while (node_at(sh, n)->kind == S_LIST || node_at(sh, n)->kind == S_PIPELINE || node_at(sh, n)->kind == S_NEGATED) {
		uint32_t last = 0;
		TREE_CHILDREN(sh->tree, n, c)
		if (node_at(sh, c)->flags & NODE_NAMED)
			last = c;
		if (!last)
			break;
		n = last;
	}
	return node_at(sh, n)->kind == S_COMMAND ? n : 0;
}

static struct text redirected(struct shell *sh, uint32_t n)
{
	uint32_t body = tree_field(sh->tree, n, F_body);
	struct after after = {0};
	struct text out;
	if (!body || node_at(sh, body)->kind == S_COMMAND) {
		out = simple_command(sh, body, n, &after);
		return rest_of_line(sh, &after, out);
	}
	struct command c = {.start = node_at(sh, n)->start, .end = node_at(sh, n)->end, .in = sh->in};
	struct text in = sh->in;
	redirects(sh, n, &c, &after);
	sh->in = c.in;
	uint32_t last = sh->last;
	struct fields words = sh->last_words;
	if (after.args.n) { /* a && rm 2>x -rf y: for the grammar all that is one */
		sh->last = last_command(sh, body);
		sh->last_words = after.args;
	}
	out = shell_statement(sh, body);
	sh->last = last;
	sh->last_words = words;
	sh->in = in;
	if (c.write_count || c.read_count)
		command_run(sh, &c);
	return rest_of_line(sh, &after, command_finish(sh, &c, out));
}

/* ---- statements -------------------------------------------------------------------------------------------------------------- */

/* Everything in it that runs something: of tests, patterns, and what did not parse. */
static void look_into(struct shell *sh, uint32_t n)
{
	for (uint32_t i = n + 1, end = n + node_at(sh, n)->size; i < end; i++) {
		uint16_t kind = node_at(sh, i)->kind;
		struct fields f = {0};
		if (kind != S_SUBSTITUTION && kind != S_EXPANSION && kind != S_PROCESS)
			continue;
		word_fields(sh, i, &f);
		i += node_at(sh, i)->size - 1;
	}
}

static void declare(struct shell *sh, uint32_t n)
{
	bool reference = false; /* declare -n a=b: a is whatever b is when it is used */
	TREE_CHILDREN(sh->tree, n, c)
	{
		if (node_at(sh, c)->kind == S_ASSIGN)
			shell_assign(sh, c);
		else if (node_at(sh, c)->flags & NODE_NAMED)
			look_into(sh, c);
		uint32_t name = reference && node_at(sh, c)->kind == S_ASSIGN ? tree_field(sh->tree, c, F_name) : 0;
		reference = reference || text_is(text_at(sh, c), "-n");
		if (name)
			var_set_text(sh, text_at(sh, name), text_mark(MARK_ANY));
	}
}

/* unset X is a command like others, for the rules. */
static struct text plain_words(struct shell *sh, uint32_t n)
{
	struct fields argv = {0};
	struct command c = {.start = node_at(sh, n)->start, .end = node_at(sh, n)->end, .in = sh->in};
	struct text all = text_at(sh, n);
	fields_add(sh, &argv, text_first(all, text_find(all, ' ')));
	TREE_CHILDREN(sh->tree, n, child)
	{
		if (!(node_at(sh, child)->flags & NODE_NAMED))
			continue;
		uint32_t name = node_at(sh, child)->kind == S_ASSIGN ? tree_field(sh->tree, child, F_name) : 0;
		fields_add(sh, &argv, name ? text_at(sh, name) : word_text(sh, child)); /* what is assigned has been */
		if (node_at(sh, n)->kind == S_UNSET)
			var_unset(sh, text_at(sh, child));
	}
	c.argv = argv.v;
	c.n = argv.n;
	return command_run(sh, &c);
}

static struct text subshell(struct shell *sh, uint32_t n)
{
	struct saved saved = shell_fork(sh);
	struct text out = shell_statements(sh, n);
	shell_join(sh, saved);
	return out;
}

static struct text list(struct shell *sh, uint32_t n)
{
	/* a && b && c is nested to the left as often as there are signs: gone down in a loop. */
	uint32_t spine[256];
	size_t depth = 0;
	struct text out = TEXT("");
	while (node_at(sh, n)->kind == S_LIST && depth < 256) {
		spine[depth++] = n;
		uint32_t left = tree_named(sh->tree, n);
		if (!left)
			break;
		n = left;
	}
	if (!depth || n != spine[depth - 1])
		out = shell_statement(sh, n);
	while (depth--) {
		uint32_t first = tree_named(sh->tree, spine[depth]);
		bool or = false;
		TREE_CHILDREN(sh->tree, spine[depth], c)
		{
			or = or || node_at(sh, c)->kind == S_OR;
			if (c == first || !(node_at(sh, c)->flags & NODE_NAMED))
				continue;
			sh->maybes++;
			struct text more = shell_statement(sh, c);
			sh->maybes--;
			if (! or || !out.n) /* a || b: if a has something to say, b is not asked */
				out = output_add(sh, out, more);
		}
	}
	return out;
}

static struct text statement(struct shell *sh, uint32_t n)
{
	struct after after = {0};
	struct text out;
	switch (node_at(sh, n)->kind) {
	case S_LIST:
		return list(sh, n);
	case S_PIPELINE:
		return pipeline(sh, n, sh->in, false);
	case S_COMMAND:
		out = simple_command(sh, n, n, &after);
		return rest_of_line(sh, &after, out);
	case S_REDIRECTED:
		return redirected(sh, n);
	case S_ASSIGN:
		shell_assign(sh, n);
		return TEXT("");
	case S_DECLARE:
		declare(sh, n);
		return plain_words(sh, n);
	case S_UNSET:
		return plain_words(sh, n);
	case S_TEST:
		look_into(sh, n);
		return TEXT("");
	case S_SUBSHELL:
		return subshell(sh, n);
	case S_IF:
	case S_FOR:
	case S_C_FOR:
	case S_WHILE:
	case S_CASE:
		return compound_statement(sh, n);
	case S_FUNCTION:
		function_define(sh, n);
		return TEXT("");
	case S_NEGATED:
	case S_GROUP:
	case S_CASE_ITEM:
	case S_OTHER:
		return shell_statements(sh, n);
	case S_ARITHMETIC:
		expand_arithmetic(sh, n);
		return TEXT("");
	default:
		look_into(sh, n);
		return TEXT("");
	}
}

struct text shell_statement(struct shell *sh, uint32_t n)
{
	if (!run_enter(sh->run, node_at(sh, n)->start))
		return text_mark(MARK_ANY);
	struct text out = statement(sh, n);
	run_leave(sh->run);
	return out;
}

/*
 * A statement that was looked at before, changed nothing then, and had nothing in it that was found, does the same now if nothing was changed in between.
 */
struct seen {
	unsigned long changes, own_changes;
};

static bool seen_before(struct shell *sh, uint32_t n)
{
	const struct seen *s = map_get(&sh->seen, text_at(sh, n));
	return s && s->changes == sh->changes && s->own_changes == sh->own_changes;
}

static void look_once(struct shell *sh, uint32_t n)
{
	struct seen before = {sh->changes, sh->own_changes};
	size_t found = sh->run->count;
	bool loops = sh->spawned || sh->paused || sh->left;
	if (seen_before(sh, n))
		return;
	shell_statement(sh, n);
	if (sh->run->count != found || sh->run->more || loops || sh->changes != before.changes || sh->own_changes != before.own_changes)
		return;
	struct seen *s = ARENA_NEW(sh->arena, struct seen);
	*s = before;
	*map_put(&sh->seen, sh->arena, text_at(sh, n)) = s;
}

/* All statements below a node; what they write, if somebody wants to know. */
static struct text statements(struct shell *sh, uint32_t n, bool keep)
{
	struct text out = TEXT("");
	TREE_CHILDREN(sh->tree, n, c)
	{
		const struct node *node = node_at(sh, c);
		uint32_t next = c + node->size;
		if (!(node->flags & NODE_NAMED))
			continue;
		if (is_word(node)) { /* the value of a case, or what did not parse */
			if (node->kind != S_WORD)
				look_into(sh, c);
			continue;
		}
		bool background = sh->background, amp = next < n + node_at(sh, n)->size && node_at(sh, next)->kind == S_AMP;
		if (amp) {
			sh->background = true;
			sh->spawned = true;
		}
		if (keep)
			out = output_add(sh, out, shell_statement(sh, c));
		else if (sh->background)
			shell_statement(sh, c);
		else
			look_once(sh, c);
		sh->background = background;
	}
	return out;
}

struct text shell_statements(struct shell *sh, uint32_t n)
{
	return statements(sh, n, true);
}

struct text shell_substitution(struct shell *sh, uint32_t n)
{
	struct saved saved = shell_fork(sh);
	struct text out = shell_statements(sh, n);
	TREE_CHILDREN(sh->tree, n, c)
	{ /* $(< file) */
		uint32_t to = node_at(sh, c)->kind == S_FILE_REDIRECT ? tree_field(sh->tree, c, F_destination) : 0;
		bool known;
		if (!to)
			continue;
		struct text path = word_text(sh, to);
		struct command read = {.start = node_at(sh, n)->start, .end = node_at(sh, n)->end, .reads = &path, .read_count = 1};
		command_run(sh, &read);
		out = file_get(sh, path, &known);
	}
	shell_join(sh, saved);
	while (out.n && out.s[out.n - 1] == '\n')
		out.n--;
	return out;
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

static void parse(struct shell *sh, struct tree *tree)
{
	struct run *r = sh->run;
	struct source *s = r->source;
	struct text t = shell_patched(r, (struct text){s->text, s->len});
	s->seen_offset = s->seen_line = s->seen_start = 0; /* lines may end elsewhere now */
	s->text = shell_for_parser(r, t).s;
	tree_read(r, sh->language->grammar, tree);
	s->text = t.s;
	tree->text = t;
	if (tree->error != tree->error_end)
		run_unproven(r, "parse-error", "it does not parse here, so what it does is not known", tree->error, tree->error_end);
}

struct text shell_text(struct shell *sh, struct text text, uint32_t start, uint32_t end)
{
	if (!text.n)
		return TEXT("");
	struct source *outer = run_nest(sh->run, text, start, end);
	if (!outer)
		return text_mark(MARK_ANY);
	const struct tree *tree = sh->tree;
	struct tree *inner = ARENA_NEW(sh->arena, struct tree);
	bool background = sh->background;
	parse(sh, inner);
	sh->tree = inner;
	sh->background = false;
	struct text out = inner->count ? shell_statements(sh, 0) : TEXT("");
	sh->background = background;
	sh->tree = tree;
	run_unnest(sh->run, outer);
	return out;
}

static struct shell *shell_new(struct run *r)
{
	struct shell *sh = ARENA_NEW(&r->arena, struct shell);
	sh->run = r;
	sh->arena = &r->arena;
	sh->gate = r->gate;
	sh->language = &r->gate->languages[GATE_SHELL];
	sh->cwd = sh->oldpwd = r->gate->workspace;
	return sh;
}

void shell_check(struct run *r)
{
	struct shell *sh = shell_new(r);
	struct tree *tree = ARENA_NEW(&r->arena, struct tree);
	if (!sh->language->used)
		return;
	parse(sh, tree);
	sh->tree = tree;
	if (tree->count)
		statements(sh, 0, false);
	functions_uncalled(sh);
}

void run_code(struct run *r, enum gate_language language, struct text code, uint32_t start, uint32_t end)
{
	if (!r->gate->languages[language].used || !code.n)
		return;
	struct source *outer = run_nest(r, code, start, end);
	struct text by = r->by;
	if (!outer)
		return;
	if (!r->by.n)
		r->by = TEXT("code");
	if (language == GATE_SHELL)
		shell_check(r);
	else
		code_check(r, language);
	r->by = by;
	run_unnest(r, outer);
}

void run_argv(struct run *r, const struct text *words, size_t count, uint32_t start, uint32_t end)
{
	struct shell *sh = shell_new(r);
	struct tree *none = ARENA_NEW(&r->arena, struct tree);
	struct command c = {.argv = arena_copy(&r->arena, words, count * sizeof(*words)), .n = count, .start = start, .end = end};
	if (!sh->language->used || !count)
		return;
	sh->tree = none;
	command_run(sh, &c);
}
