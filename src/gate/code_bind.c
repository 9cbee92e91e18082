/* SPDX-License-Identifier: Apache-2.0 */
/* What gives names to things: assignments, parameters, functions, classes, loops, imports. */
#include "gate/code.h"

static const struct node *node_at(const struct code *c, uint32_t n)
{
	return &c->tree.nodes[n];
}

static struct text text_at(const struct code *c, uint32_t n)
{
	return tree_text(&c->tree, n);
}

/* ---- assignment -------------------------------------------------------------------------------------------------------------- */

static void put(struct code *c, struct map *m, struct text name, const struct val *v)
{
	void **slot = map_put(m, c->arena, name);
	*slot = (void *)(uintptr_t)val_or(c, *slot, v);
}

void code_set(struct code *c, struct text name, const struct val *v)
{
	struct scope *s = c->scope;
	if (map_get(&s->globals, name))
		s = c->top;
	/* JavaScript and Ruby blocks assign to what is outside, if it is there. */
	if (c->which != GATE_PYTHON && !s->is_class)
		for (struct scope *up = s; up; up = up->up)
			if (map_get(&up->vars, name)) {
				s = up;
				break;
			}
	put(c, &s->vars, name, v);
}

static void assign_targets(struct code *c, uint32_t n, const struct val *v)
{
	size_t i = 0;
	bool in_order = v->kind == V_LIST;
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (!(node_at(c, child)->flags & NODE_NAMED))
			continue;
		if (node_at(c, child)->kind == C_SPREAD)
			in_order = false;
		code_assign(c, child, in_order && i < v->count ? v->items[i] : val_item(c, v));
		i++;
	}
}

static void assign_object(struct code *c, uint32_t n, const struct val *v)
{
	TREE_CHILDREN(&c->tree, n, child)
	{
		uint32_t key = tree_field(&c->tree, child, F_key), value = tree_field(&c->tree, child, F_value),
			 left = tree_field(&c->tree, child, F_left);
		switch (node_at(c, child)->kind) {
		case C_SHORTHAND: {
			const struct val *m = val_member(c, v, text_at(c, child));
			match_mention(c, child, m, true);
			code_set(c, text_at(c, child), m);
			break;
		}
		case C_PAIR_PATTERN: {
			const struct val *m = key ? val_member(c, v, text_at(c, key)) : &val_unknown;
			match_mention(c, child, m, true);
			if (value)
				code_assign(c, value, m);
			break;
		}
		case C_DEFAULT:
			if (left)
				code_set(c, text_at(c, left), val_member(c, v, text_at(c, left)));
			break;
		case C_SPREAD:
			if (tree_named(&c->tree, child))
				code_assign(c, tree_named(&c->tree, child), v);
			break;
		default:
			break;
		}
	}
}

static void assign_member(struct code *c, uint32_t n, const struct val *v)
{
	const struct tree *t = &c->tree;
	uint32_t object = tree_field(t, n, F_object), name = tree_field(t, n, F_attribute);
	if (!name)
		name = tree_field(t, n, F_property);
	if (object && name && (node_at(c, object)->kind == C_SELF || text_is(text_at(c, object), "self"))) {
		put(c, &c->fields, text_at(c, name), v);
		return;
	}
	match_mention(c, n, code_value(c, n), false);
}

void code_assign(struct code *c, uint32_t target, const struct val *v)
{
	switch (node_at(c, target)->kind) {
	case C_IDENT:
	case C_SHORTHAND:
		code_set(c, text_at(c, target), v);
		break;
	case C_KEY_NAME: /* a field of the class that is being defined */
		put(c, &c->fields, text_at(c, target), v);
		break;
	case C_FIELD_NAME:
		put(c, &c->fields, text_at(c, target), v);
		break;
	case C_TARGETS:
	case C_LIST:
		assign_targets(c, target, v);
		break;
	case C_OBJECT_PATTERN:
		assign_object(c, target, v);
		break;
	case C_MEMBER:
		assign_member(c, target, v);
		break;
	case C_SPREAD:
	case C_WRAP:
		if (tree_named(&c->tree, target))
			code_assign(c, tree_named(&c->tree, target), v);
		break;
	case C_DEFAULT: {
		uint32_t left = tree_field(&c->tree, target, F_left), right = tree_field(&c->tree, target, F_right);
		if (right)
			v = val_or(c, v, code_eval(c, right));
		if (left)
			code_assign(c, left, v);
		break;
	}
	default:
		code_eval(c, target);
	}
}

/* ---- functions --------------------------------------------------------------------------------------------------------------- */

/* The name of a parameter, wherever the grammar has put it; 0: it is a pattern. */
static uint32_t param_name(const struct code *c, uint32_t n)
{
	uint16_t kind = node_at(c, n)->kind;
	if (kind == C_IDENT)
		return n;
	if (kind != C_DEFAULT && kind != C_WRAP && kind != C_SPREAD)
		return 0;
	static const enum tree_field fields[] = {F_name, F_left, F_pattern};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint32_t name = tree_field(&c->tree, n, fields[i]);
		if (name)
			return node_at(c, name)->kind == C_IDENT ? name : 0;
	}
	uint32_t name = tree_named(&c->tree, n);
	return name && node_at(c, name)->kind == C_IDENT ? name : 0;
}

static void add_param(struct code *c, struct function *f, uint32_t n)
{
	uint32_t name = param_name(c, n);
	struct text t = name ? text_at(c, name) : TEXT("");
	size_t count = f->param_count;
	ARENA_PUSH(c->arena, f->params, count, t);
	ARENA_PUSH(c->arena, f->values, f->param_count, NULL);
}

static uint32_t params_of(const struct code *c, uint32_t n)
{
	uint32_t params = tree_field(&c->tree, n, F_parameters);
	return params ? params : tree_field(&c->tree, n, F_parameter);
}

static struct function *function_at(struct code *c, uint32_t n)
{
	struct function *f = c->functions[n];
	if (f)
		return f;
	f = c->functions[n] = ARENA_NEW(c->arena, struct function);
	f->node = n;
	f->scope = ARENA_NEW(c->arena, struct scope);
	f->scope->up = c->scope;
	f->method = c->scope->is_class && c->which == GATE_PYTHON;
	uint32_t params = params_of(c, n);
	if (params && node_at(c, params)->kind == C_IDENT) {
		add_param(c, f, params);
	} else if (params) {
		TREE_CHILDREN(&c->tree, params, child)
		if (node_at(c, child)->flags & NODE_NAMED)
			add_param(c, f, child);
	}
	return f;
}

/* What a parameter may be: what it was called with, its default, and what nobody knows. */
static void bind_params(struct code *c, struct function *f)
{
	uint32_t params = params_of(c, f->node);
	size_t i = 0;
	if (!params)
		return;
	bool one = node_at(c, params)->kind == C_IDENT;
	for (uint32_t p = one ? params : params + 1, end = params + node_at(c, params)->size; p < end; p += node_at(c, p)->size) {
		if (!(node_at(c, p)->flags & NODE_NAMED))
			continue;
		const struct val *v = i < f->param_count && f->values[i] ? f->values[i] : &val_unknown;
		uint32_t value = tree_field(&c->tree, p, F_value);
		if (!value && node_at(c, p)->kind == C_DEFAULT)
			value = tree_field(&c->tree, p, F_right);
		if (value)
			v = val_or(c, code_eval(c, value), v);
		if (param_name(c, p)) {
			void **slot = map_put(&f->scope->vars, c->arena, text_at(c, param_name(c, p)));
			*slot = (void *)(uintptr_t)v;
		} else {
			uint32_t pattern = tree_field(&c->tree, p, F_pattern);
			code_assign(c, pattern ? pattern : p, v);
		}
		i++;
	}
}

const struct val *code_function(struct code *c, uint32_t n)
{
	struct function *f = function_at(c, n), *outer = c->function;
	uint32_t name = tree_field(&c->tree, n, F_name), body = tree_field(&c->tree, n, F_body);
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = V_FUNCTION;
	v->function = f;
	if (name && (node_at(c, name)->kind == C_IDENT || node_at(c, name)->kind == C_KEY_NAME) &&
	    (node_at(c, name)->kind == C_IDENT || c->scope->is_class))
		code_set(c, text_at(c, name), v);
	struct scope *scope = c->scope;
	c->scope = f->scope;
	c->function = f;
	bind_params(c, f);
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (child == name || node_at(c, child)->kind == C_PARAMS || !(node_at(c, child)->flags & NODE_NAMED))
			continue;
		const struct val *last = code_eval(c, child);
		/* x => expression; def f = expression */
		if (child == body && last->kind != V_UNKNOWN)
			f->gives = val_or(c, f->gives, last);
	}
	c->function = outer;
	c->scope = scope;
	return v;
}

const struct val *code_class(struct code *c, uint32_t n)
{
	uint32_t name = tree_field(&c->tree, n, F_name);
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = V_CLASS;
	if (!c->scopes[n]) {
		c->scopes[n] = ARENA_NEW(c->arena, struct scope);
		c->scopes[n]->up = c->scope;
		c->scopes[n]->is_class = true;
	}
	v->class = c->scopes[n];
	/* `module Kernel … end` opens something that is there already. */
	if (name)
		code_set(c, text_at(c, name), v);
	struct scope *scope = c->scope;
	struct function *function = c->function;
	TREE_CHILDREN(&c->tree, n, child)
	{
		bool body = node_at(c, child)->field == F_body;
		c->scope = body ? c->scopes[n] : scope;
		c->function = NULL;
		if (child != name && node_at(c, child)->flags & NODE_NAMED)
			code_eval(c, child);
	}
	c->scope = scope;
	c->function = function;
	return v;
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------- */

void code_for(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t left = tree_field(t, n, F_left), right = tree_field(t, n, F_right);
	if (!left)
		left = tree_field(t, n, F_pattern);
	if (!right)
		right = tree_field(t, n, F_value);
	const struct val *v = right ? code_eval(c, right) : &val_unknown;
	if (left)
		code_assign(c, left, val_item(c, v));
	TREE_CHILDREN(t, n, child)
	if (child != left && child != right && node_at(c, child)->flags & NODE_NAMED)
		code_eval(c, child);
}

/* ---- imports ----------------------------------------------------------------------------------------------------------------- */

/* import a.b as c */
static void import_python(struct code *c, uint32_t n)
{
	TREE_CHILDREN(&c->tree, n, child)
	{
		bool renamed = node_at(c, child)->kind == C_IMPORT_ALIAS;
		if (!renamed && node_at(c, child)->kind != C_DOTTED)
			continue;
		uint32_t name = renamed ? tree_field(&c->tree, child, F_name) : child,
			 alias = renamed ? tree_field(&c->tree, child, F_alias) : 0;
		if (!name)
			continue;
		struct text module = text_at(c, name);
		match_import(c, child, module);
		if (alias)
			code_set(c, text_at(c, alias), val_name(c, module, NULL));
		else
			code_set(c, text_first(module, text_find(module, '.')),
			         val_name(c, text_first(module, text_find(module, '.')), NULL));
	}
}

/* from a import b as c */
static void import_python_from(struct code *c, uint32_t n)
{
	uint32_t from = tree_field(&c->tree, n, F_module_name);
	if (!from)
		return;
	bool own = node_at(c, from)->kind == C_RELATIVE; /* a file beside this one */
	struct text module = text_at(c, from);
	if (!own)
		match_import(c, from, module);
	const struct val *m = own ? &val_unknown : val_name(c, module, NULL);
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (child == from)
			continue;
		bool renamed = node_at(c, child)->kind == C_IMPORT_ALIAS;
		if (node_at(c, child)->kind == C_STAR && !own) {
			struct scope *s = c->scope;
			if (!s->star_count || !text_same(s->stars[s->star_count - 1], module))
				ARENA_PUSH(c->arena, s->stars, s->star_count, module);
		}
		if (!renamed && node_at(c, child)->kind != C_DOTTED)
			continue;
		uint32_t name = renamed ? tree_field(&c->tree, child, F_name) : child,
			 alias = renamed ? tree_field(&c->tree, child, F_alias) : child;
		if (!name || !alias)
			continue;
		const struct val *v = own ? &val_unknown : val_member(c, m, text_at(c, name));
		if (!own && v->kind == V_NAME)
			match_import(c, child, v->text);
		match_mention(c, child, v, true);
		code_set(c, text_at(c, alias), v);
	}
}

/* import d, {a as b}, * as c from 'm' */
static void import_clause(struct code *c, uint32_t n, const struct val *m)
{
	TREE_CHILDREN(&c->tree, n, child)
	{
		uint32_t name = tree_field(&c->tree, child, F_name), alias = tree_field(&c->tree, child, F_alias);
		switch (node_at(c, child)->kind) {
		case C_IDENT:
			code_set(c, text_at(c, child), m);
			break;
		case C_NAMESPACE_IMPORT:
			if (tree_named(&c->tree, child))
				code_set(c, text_at(c, tree_named(&c->tree, child)), m);
			break;
		case C_IMPORT_SPECIFIER:
			if (name) {
				/* import { type T }: nothing of it is there when it runs */
				const struct val *v = val_member(c, m, text_at(c, name));
				if (!text_begins(text_at(c, child), "type "))
					match_mention(c, child, v, true);
				code_set(c, text_at(c, alias ? alias : name), v);
			}
			break;
		case C_IMPORT_CLAUSE:
			import_clause(c, child, m);
			break;
		default:
			break;
		}
	}
}

static const struct val *module_named(struct code *c, uint32_t source)
{
	struct text name = val_as_text(code_string(c, source));
	/* A file of its own is as harmless as what is in it, which is not looked at. */
	if (!name.n || name.s[0] == '.' || name.s[0] == '/')
		return &val_unknown;
	const struct val *m = val_name(c, name, NULL);
	match_import(c, source, m->text);
	return m;
}

static void import_es(struct code *c, uint32_t n)
{
	uint32_t source = tree_field(&c->tree, n, F_source);
	struct text all = text_at(c, n);
	if (text_begins(all, "import type "))
		return;
	const struct val *m = source ? module_named(c, source) : &val_unknown;
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (node_at(c, child)->kind == C_IMPORT_CLAUSE)
			import_clause(c, child, m);
		else if (node_at(c, child)->kind == C_IMPORT_REQUIRE)
			code_binding(c, child);
	}
}

/* import a = require('m') */
static void import_require(struct code *c, uint32_t n)
{
	uint32_t source = tree_field(&c->tree, n, F_source);
	TREE_CHILDREN(&c->tree, n, child)
	if (node_at(c, child)->kind == C_IDENT && source)
		code_set(c, text_at(c, child), module_named(c, source));
}

/* ---- the rest ---------------------------------------------------------------------------------------------------------------- */

/* with a as b; except E as e */
static void with_as(struct code *c, uint32_t n)
{
	const struct val *v = &val_unknown;
	uint32_t alias = tree_field(&c->tree, n, F_alias);
	TREE_CHILDREN(&c->tree, n, child)
	if (child != alias && node_at(c, child)->flags & NODE_NAMED)
		v = code_eval(c, child);
	uint32_t target = alias && tree_named(&c->tree, alias) ? tree_named(&c->tree, alias) : alias;
	if (target)
		code_assign(c, target, v);
}

/* @f def g: g is given to f. */
static void decorated(struct code *c, uint32_t n)
{
	uint32_t definition = tree_field(&c->tree, n, F_definition);
	const struct val *v = definition ? code_eval(c, definition) : &val_unknown;
	TREE_CHILDREN(&c->tree, n, child)
	if (node_at(c, child)->kind == C_DECORATOR && tree_named(&c->tree, child))
		code_called(c, child, code_value(c, tree_named(&c->tree, child)), &(struct args){.list = &v, .count = 1});
}

static void global(struct code *c, uint32_t n)
{
	TREE_CHILDREN(&c->tree, n, child)
	if (node_at(c, child)->kind == C_IDENT)
		*map_put(&c->scope->globals, c->arena, text_at(c, child)) = c;
}

/* alias new old */
static void alias(struct code *c, uint32_t n)
{
	uint32_t name = tree_field(&c->tree, n, F_name), old = tree_field(&c->tree, n, F_alias);
	if (!name || !old)
		return;
	const struct val *v = val_name(c, text_at(c, old), NULL);
	match_mention(c, n, v, true);
	code_set(c, text_at(c, name), v);
}

bool code_binding(struct code *c, uint32_t n)
{
	switch (node_at(c, n)->kind) {
	case C_IMPORT:
		import_python(c, n);
		return true;
	case C_IMPORT_FROM:
		import_python_from(c, n);
		return true;
	case C_ES_IMPORT:
		import_es(c, n);
		return true;
	case C_IMPORT_REQUIRE:
		import_require(c, n);
		return true;
	case C_EXPORT:
		if (tree_field(&c->tree, n, F_source))
			module_named(c, tree_field(&c->tree, n, F_source));
		return false;
	case C_WITH_AS:
		with_as(c, n);
		return true;
	case C_DECORATED:
		decorated(c, n);
		return true;
	case C_GLOBAL:
		global(c, n);
		return true;
	case C_ALIAS:
		alias(c, n);
		return true;
	default:
		return false;
	}
}
