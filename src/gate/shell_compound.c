/* SPDX-License-Identifier: Apache-2.0 */
/* Loops, conditions and functions. */
#include "gate/shell_parts.h"

#define CALLS_MAX 64      /* of one function */
#define ROUNDS_MANY 1000  /* of a loop: too many to start something by itself in each */
#define ROUNDS_HUGE 50000 /* … to do anything in each without waiting */

/* ---- compound statements ----------------------------------------------------------------------------------------------------- */

static bool same_var(const struct var *a, const struct var *b)
{
	if (a->count != b->count || a->list != b->list)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->alts[i].n != 1 || b->alts[i].n != 1 || !text_same(a->alts[i].v[0], b->alts[i].v[0]))
			return false;
	return true;
}

static void loop_variable(struct shell *sh, struct text name, const struct fields *values)
{
	struct var v = {0};
	for (size_t i = 0; i < values->n && v.count < ALTS; i++) {
		/* Of a long list: the first ones and the last. */
		size_t k = values->n > ALTS && v.count == ALTS - 1 ? values->n - 1 : i;
		struct fields one = {0};
		fields_add(sh, &one, values->v[k]);
		v.alts[v.count++] = one;
	}
	if (!v.count) {
		struct fields any = {0};
		fields_add(sh, &any, text_mark(MARK_ANY));
		v.alts[v.count++] = any;
	}
	const struct var *old = var_find(sh, name);
	if (old && same_var(old, &v))
		return;
	var_set_text(sh, name, TEXT(""));
	struct var *slot = map_get(&sh->vars, name);
	*slot = v;
}

struct loop {
	bool endless, spawned, paused, left;
	unsigned long rounds;
};

/* {1..100000}, $(seq 100000), i<100000: the largest number in it. */
static unsigned long largest_number(struct text t)
{
	unsigned long most = 0, n = 0;
	for (size_t i = 0; i < t.n; i++) {
		bool digit = t.s[i] >= '0' && t.s[i] <= '9';
		n = digit ? (n < 100000000 ? n * 10 + (unsigned long)(t.s[i] - '0') : n) : 0;
		most = n > most ? n : most;
	}
	return most;
}

static bool counts(struct text t)
{
	return (t.n && t.s[0] == '{' && memmem(t.s, t.n, "..", 2)) || text_begins(t, "$(seq ") || text_begins(t, "`seq ") ||
	       text_begins(t, "$(jot ");
}

static struct loop loop_begin(struct shell *sh, bool endless, unsigned long rounds)
{
	struct loop outer = {sh->endless, sh->spawned, sh->paused, sh->left, rounds};
	sh->endless = endless;
	sh->spawned = sh->paused = sh->left = false;
	sh->conditions++;
	return outer;
}

static void loop_end(struct shell *sh, struct loop outer, uint32_t n)
{
	if (sh->endless && sh->spawned && !sh->paused)
		match_shape(sh, SHAPE_ENDLESS_SPAWN, node_at(sh, n)->start, node_at(sh, n)->end);
	if (sh->endless && !sh->paused && !sh->left)
		match_shape(sh, SHAPE_SPIN, node_at(sh, n)->start, node_at(sh, n)->end);
	if (!sh->paused && !sh->left && (outer.rounds >= ROUNDS_HUGE || (outer.rounds >= ROUNDS_MANY && sh->spawned)))
		match_shape(sh, SHAPE_SPIN, node_at(sh, n)->start, node_at(sh, n)->end);
	sh->endless = outer.endless;
	sh->spawned = outer.spawned || sh->spawned;
	sh->paused = outer.paused;
	sh->left = outer.left;
	sh->conditions--;
}

static struct text for_loop(struct shell *sh, uint32_t n)
{
	uint32_t name = tree_field(sh->tree, n, F_variable), body = tree_field(sh->tree, n, F_body);
	struct fields values = {0};
	bool in = false;
	unsigned long rounds = 0;
	TREE_CHILDREN(sh->tree, n, c)
	{
		if (node_at(sh, c)->field == F_value) {
			in = true;
			rounds = counts(text_at(sh, c)) ? largest_number(text_at(sh, c)) : rounds;
			word_fields(sh, c, &values);
		}
	}
	if (!in && sh->positional_known)
		values = sh->positional;
	struct loop outer = loop_begin(sh, false, rounds);
	if (name)
		loop_variable(sh, text_at(sh, name), &values);
	struct text out = body ? shell_statement(sh, body) : TEXT("");
	loop_end(sh, outer, n);
	return out;
}

/* The condition is a command that always succeeds, or [ 1 ]. */
static bool is_endless(struct shell *sh, uint32_t n, uint32_t condition)
{
	struct text text = text_at(sh, condition);
	bool until = text_begins(text_at(sh, n), "until");
	const void **list;
	if (until)
		return text_is(text, "false");
	size_t count = lookup_all(&sh->language->commands, sh->arena, text, &list);
	for (size_t i = 0; i < count; i++)
		if (((const struct gate_command *)list[i])->builtin == BUILTIN_TRUE)
			return true;
	return text_is(text, "[ 1 ]") || text_is(text, "((1))") || text_is(text, "(( 1 ))") || text_is(text, "[ true ]");
}

static struct text while_loop(struct shell *sh, uint32_t n)
{
	uint32_t condition = tree_field(sh->tree, n, F_condition), body = tree_field(sh->tree, n, F_body);
	bool endless = condition && is_endless(sh, n, condition);
	struct text out = TEXT("");
	struct loop outer = loop_begin(sh, endless, 0);
	TREE_CHILDREN(sh->tree, n, c)
	if (node_at(sh, c)->field == F_condition && node_at(sh, c)->flags & NODE_NAMED)
		shell_statement(sh, c);
	if (body)
		out = shell_statement(sh, body);
	loop_end(sh, outer, n);
	return out;
}

static struct text c_for_loop(struct shell *sh, uint32_t n)
{
	uint32_t body = tree_field(sh->tree, n, F_body);
	uint32_t condition = tree_field(sh->tree, n, F_condition);
	struct loop outer = loop_begin(sh, !condition, condition ? largest_number(text_at(sh, condition)) : 0);
	TREE_CHILDREN(sh->tree, n, c)
	{
		if (c != body && node_at(sh, c)->kind == S_ASSIGN) {
			uint32_t name = tree_field(sh->tree, c, F_name);
			if (name)
				var_set_text(sh, text_at(sh, name), text_mark(MARK_ANY));
		} else if (c != body && node_at(sh, c)->size > 1) {
			expand_arithmetic(sh, c);
		}
	}
	struct text out = body ? shell_statement(sh, body) : TEXT("");
	loop_end(sh, outer, n);
	return out;
}

static struct text if_statement(struct shell *sh, uint32_t n)
{
	struct text out = TEXT("");
	TREE_CHILDREN(sh->tree, n, c)
	{
		const struct node *node = node_at(sh, c);
		if (!(node->flags & NODE_NAMED))
			continue;
		bool condition = node->field == F_condition;
		sh->conditions += !condition;
		out = output_add(sh, out, shell_statement(sh, c));
		sh->conditions -= !condition;
	}
	return out;
}

static struct text case_statement(struct shell *sh, uint32_t n)
{
	struct text out = TEXT("");
	TREE_CHILDREN(sh->tree, n, c)
	{
		const struct node *node = node_at(sh, c);
		if (node->kind == S_CASE_ITEM) {
			sh->conditions++;
			out = output_add(sh, out, shell_statements(sh, c));
			sh->conditions--;
		} else if (node->field == F_value) {
			word_text(sh, c);
		}
	}
	return out;
}

struct text compound_statement(struct shell *sh, uint32_t n)
{
	switch (node_at(sh, n)->kind) {
	case S_IF:
		return if_statement(sh, n);
	case S_FOR:
		return for_loop(sh, n);
	case S_C_FOR:
		return c_for_loop(sh, n);
	case S_WHILE:
		return while_loop(sh, n);
	default:
		return case_statement(sh, n);
	}
}

/* ---- functions --------------------------------------------------------------------------------------------------------------- */

void function_define(struct shell *sh, uint32_t n)
{
	uint32_t name = tree_field(sh->tree, n, F_name), body = tree_field(sh->tree, n, F_body);
	if (!name || !body)
		return;
	struct function_def *f = ARENA_NEW(sh->arena, struct function_def);
	f->tree = sh->tree;
	f->source = sh->run->source;
	f->body = body;
	*map_put(&sh->functions, sh->arena, text_at(sh, name)) = f;
	sh->changes++;
}

struct text shell_call(struct shell *sh, struct function_def *f, const struct text *argv, size_t n, uint32_t start, uint32_t end)
{
	if (f->active) {
		/* It calls itself: in a pipe or in the background there are more of it each time. */
		if (sh->pipes > f->pipes || sh->background)
			match_shape(sh, SHAPE_SELF_SPAWN, start, end);
		else if (sh->conditions + sh->maybes == f->conditions && !sh->left) /* nothing keeps it from doing so for ever */
			match_shape(sh, SHAPE_SPIN, start, end);
		return text_mark(MARK_ANY);
	}
	/* Called again and again: once more with anything, which stands for all that follow. */
	if (f->calls++ >= CALLS_MAX) {
		if (f->calls > CALLS_MAX + 1)
			return text_mark(MARK_ANY);
		argv = NULL;
	}
	const struct tree *tree = sh->tree;
	struct source *source = sh->run->source;
	struct fields positional = sh->positional;
	bool known = sh->positional_known, background = sh->background;
	sh->tree = f->tree;
	sh->run->source = f->source;
	sh->positional = (struct fields){0};
	for (size_t i = 0; argv && i < n; i++)
		fields_add(sh, &sh->positional, argv[i]);
	sh->positional_known = argv != NULL;
	sh->background = false;
	f->active = true;
	f->pipes = sh->pipes;
	f->conditions = sh->conditions + sh->maybes;
	struct text out = shell_statement(sh, f->body);
	f->active = false;
	sh->background = background;
	sh->tree = tree;
	sh->run->source = source;
	sh->positional = positional;
	sh->positional_known = known;
	return out;
}

void functions_uncalled(struct shell *sh)
{
	for (size_t i = 0; i < sh->functions.size; i++) {
		struct function_def *f = sh->functions.slots[i].key.s ? sh->functions.slots[i].value : NULL;
		if (f && !f->calls) {
			sh->conditions++;
			shell_call(sh, f, NULL, 0, f->tree->nodes[f->body].start, f->tree->nodes[f->body].end);
			sh->conditions--;
		}
	}
}
