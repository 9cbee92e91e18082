/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/code.h"

#include "base/util.h"

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

/* What is in the scopes of this place; NULL if the name comes from outside. */
static const struct val *find(const struct code *c, struct text name)
{
	bool inner = true;
	for (const struct scope *s = c->scope; s; s = s->up, inner = false) {
		/* A class's names are no variables of its methods; in Ruby its methods are called without a receiver. */
		if (s->is_class && !inner && c->which != GATE_RUBY)
			continue;
		const struct val *v = map_get(&s->vars, name);
		if (v)
			return v;
	}
	return NULL;
}

const struct val *code_lookup(struct code *c, struct text name)
{
	const struct val *v = find(c, name);
	if (v)
		return v;
	v = val_name(c, name, NULL);
	for (const struct scope *s = c->scope; s; s = s->up)
		for (size_t i = 0; i < s->star_count; i++)
			v = val_or(c, v, val_member(c, val_name(c, s->stars[i], NULL), name));
	return v;
}

/* ---- expressions ------------------------------------------------------------------------------------------------------------- */

/* Of the children that are nodes of their own: the first, or the last. */
static const struct val *through(struct code *c, uint32_t n, bool last, bool quiet)
{
	const struct val *v = NULL;
	TREE_CHILDREN(&c->tree, n, child)
	{
		const struct node *node = &c->tree.nodes[child];
		if (!(node->flags & NODE_NAMED) || node->kind == C_SKIP)
			continue;
		if (v && !last) {
			code_eval(c, child);
			continue;
		}
		v = quiet ? code_value(c, child) : code_eval(c, child);
	}
	return v ? v : &val_unknown;
}

/* a + b + c … is nested to the left as often as there are signs: the left side is gone down in a loop. */
static const struct val *binary(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t spine[256];
	size_t depth = 0;
	while (t->nodes[n].kind == C_BINARY && depth < ARRAY_SIZE(spine)) {
		spine[depth++] = n;
		uint32_t left = tree_field(t, n, F_left);
		if (!left)
			break;
		n = left;
	}
	const struct val *v = depth && n == spine[depth - 1] ? &val_unknown : code_eval(c, n);
	while (depth--) {
		uint32_t right = tree_field(t, spine[depth], F_right), sign = tree_field(t, spine[depth], F_operator);
		const struct val *w = right ? code_eval(c, right) : &val_unknown;
		struct text op = sign ? tree_text(t, sign) : TEXT("");
		shape_repeat(c, spine[depth], op, tree_field(t, spine[depth], F_left), right);
		bool texts = v->kind == V_TEXT || w->kind == V_TEXT || v->kind == V_ALTS || w->kind == V_ALTS;
		if (text_is(op, "||") || text_is(op, "??") || text_is(op, "or") || text_is(op, "&&") || text_is(op, "and")) {
			v = val_or(c, v, w);
		} else if (text_is(op, "+") && (texts || (v->kind == V_NAME && v->stands))) {
			v = val_concat(c, v, w);
		} else if (text_is(op, "+") && v->kind == V_LIST && w->kind == V_LIST) {
			const struct val **items = arena_alloc(c->arena, (v->count + w->count) * sizeof(*items));
			memcpy(items, v->items, v->count * sizeof(*items));
			memcpy(items + v->count, w->items, w->count * sizeof(*items));
			v = val_list(c, spine[depth], items, v->count + w->count);
		} else if (text_is(op, "/") && v->kind == V_NAME && v->stands) {
			struct val *path = ARENA_NEW(c->arena, struct val);
			*path = *v;
			path->stands = val_concat(c, val_concat(c, v->stands, val_text(c, TEXT("/"))), w);
			v = path;
		} else if (text_is(op, "%") && v->kind == V_TEXT) { /* "…%s…" % x: what is put in is not followed */
			v = val_text(c, text_cat3(c->arena, text_first(v->text, text_find(v->text, '%')), text_mark(MARK_ANY),
			                          text_from(v->text, text_rfind(v->text, '%') + 2)));
		} else if (text_is(op, "<<") && v->kind == V_TEXT) {
			v = val_concat(c, v, w);
		} else {
			v = &val_unknown;
		}
	}
	return v;
}

static const struct val *list(struct code *c, uint32_t n)
{
	const struct val **items = NULL;
	size_t count = 0;
	TREE_CHILDREN(&c->tree, n, child)
	if (c->tree.nodes[child].flags & NODE_NAMED)
		ARENA_PUSH(c->arena, items, count, code_eval(c, child));
	return val_list(c, n, items, count);
}

static struct text key_of(struct code *c, uint32_t key)
{
	struct text t = tree_text(&c->tree, key);
	switch (c->tree.nodes[key].kind) {
	case C_IDENT:
	case C_KEY_NAME:
	case C_NUMBER:
		return t;
	case C_SYMBOL:
		return t.n && t.s[0] == ':' ? text_from(t, 1) : t.n && t.s[t.n - 1] == ':' ? text_first(t, t.n - 1) : t;
	default:
		return val_as_text(code_eval(c, key));
	}
}

static const struct val *dict(struct code *c, uint32_t n)
{
	struct val_pair *pairs = NULL;
	size_t count = 0;
	TREE_CHILDREN(&c->tree, n, child)
	{
		const struct node *node = &c->tree.nodes[child];
		struct val_pair p = {.value = &val_unknown};
		if (node->kind == C_PAIR) {
			uint32_t key = tree_field(&c->tree, child, F_key), value = tree_field(&c->tree, child, F_value);
			p.key = !key ? TEXT("") : c->which == GATE_PYTHON ? val_as_text(code_eval(c, key)) : key_of(c, key);
			p.value = value ? code_eval(c, value) : &val_unknown;
		} else if (node->kind == C_SHORTHAND) {
			p.key = tree_text(&c->tree, child);
			p.value = code_eval(c, child);
		} else if (node->kind == C_FUNCTION) {
			uint32_t name = tree_field(&c->tree, child, F_name);
			p.key = name ? key_of(c, name) : TEXT("");
			p.value = code_function(c, child);
		} else {
			if (node->flags & NODE_NAMED)
				code_eval(c, child);
			continue;
		}
		ARENA_PUSH(c->arena, pairs, count, p);
	}
	return val_dict(c, n, pairs, count);
}

/* f().gi_frame.f_builtins, f.__globals__["os"]: where a name does not go on in that of its member, it is looked at by itself. */
static const struct val *linked(struct code *c, uint32_t n, const struct val *v, const struct val *member)
{
	VAL_ALTS(v, each)
	if (each->kind == V_NAME && (member->kind != V_NAME || text_begins(each->text, "*.") || member->text.n < each->text.n ||
	                             memcmp(member->text.s, each->text.s, each->text.n) != 0))
		match_mention(c, n, each, true);
	return member;
}

static const struct val *member(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t object = tree_field(t, n, F_object), name = tree_field(t, n, F_attribute);
	if (!object)
		object = tree_field(t, n, F_scope);
	if (!name)
		name = tree_field(t, n, F_property);
	if (!name)
		name = tree_field(t, n, F_name);
	if (!name)
		return &val_unknown;
	struct text field = tree_text(t, name);
	if (!object) /* ::File */
		return val_name(c, field, NULL);
	if (t->nodes[object].kind == C_SELF || (t->nodes[object].kind == C_IDENT && text_is(tree_text(t, object), "self"))) {
		const struct val *known = map_get(&c->fields, field);
		if (known)
			return known;
	}
	const struct val *v = code_value(c, object);
	return linked(c, object, v, val_member(c, v, field));
}

static const struct val *subscript(struct code *c, uint32_t n)
{
	const struct val *v = NULL, *key = NULL;
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (!(c->tree.nodes[child].flags & NODE_NAMED))
			continue;
		if (!v)
			v = code_value(c, child);
		else if (!key)
			key = code_eval(c, child);
		else
			code_eval(c, child);
	}
	if (!v)
		return &val_unknown;
	if (c->which == GATE_RUBY) { /* Dir["*"]: a call */
		struct args args = {.list = &key, .count = key ? 1 : 0};
		if (v->kind == V_NAME)
			return code_called(c, n, val_member(c, v, TEXT("[]")), &args);
	}
	return linked(c, n, v, val_index(c, v, key ? key : &val_unknown));
}

static const struct val *conditional(struct code *c, uint32_t n)
{
	const struct val *v = NULL;
	uint32_t condition = tree_field(&c->tree, n, F_condition);
	TREE_CHILDREN(&c->tree, n, child)
	{
		if (!(c->tree.nodes[child].flags & NODE_NAMED))
			continue;
		const struct val *each = code_eval(c, child);
		if (child != condition)
			v = val_or(c, v, each);
	}
	return v ? v : &val_unknown;
}

static const struct val *heredoc(struct code *c, uint32_t n)
{
	for (size_t i = 0; i < c->heredoc_count && i < c->body_count; i++) {
		if (c->heredocs[i] != n)
			continue;
		const struct val *v = code_string(c, c->bodies[i]);
		if (text_find(tree_text(&c->tree, n), '`') == c->tree.nodes[n].end - c->tree.nodes[n].start)
			return v;
		return code_called(c, n, val_name(c, TEXT("`"), NULL), &(struct args){.list = &v, .count = 1});
	}
	return &val_unknown;
}

static const struct val *assignment(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t left = tree_field(t, n, F_left), right = tree_field(t, n, F_right);
	if (!left)
		left = tree_field(t, n, F_name);
	if (!left)
		left = tree_field(t, n, F_property);
	if (!right)
		right = tree_field(t, n, F_value);
	const struct val *v = right ? code_value(c, right) : NULL;
	if (v)
		match_mention(c, right, v, true);
	if (left)
		code_assign(c, left, v ? v : &val_unknown);
	return v ? v : &val_unknown;
}

static const struct val *augmented(struct code *c, uint32_t n)
{
	uint32_t left = tree_field(&c->tree, n, F_left), right = tree_field(&c->tree, n, F_right);
	if (!left || !right)
		return &val_unknown;
	const struct val *old = code_value(c, left), *v = code_eval(c, right);
	if (old->kind == V_TEXT || v->kind == V_TEXT)
		v = val_concat(c, old, v);
	/* In a loop it would grow with every walk. */
	if (v->kind == V_TEXT && v->text.n > 4096)
		v = val_text(c, text_mark(MARK_ANY));
	code_assign(c, left, v);
	return v;
}

static void returned(struct code *c, uint32_t n)
{
	const struct val *v = through(c, n, false, false);
	if (c->function)
		c->function->gives = val_or(c, c->function->gives, v);
}

/* A bare name in Ruby is a call unless it is a variable. */
static const struct val *identifier(struct code *c, uint32_t n)
{
	struct text name = tree_text(&c->tree, n);
	if (c->which != GATE_RUBY || !name.n || (name.s[0] >= 'A' && name.s[0] <= 'Z') || name.s[0] == '$')
		return code_lookup(c, name);
	const struct val *v = find(c, name);
	if (v && v->kind != V_FUNCTION)
		return v;
	return code_called(c, n, v ? v : val_name(c, name, NULL), &(struct args){0});
}

static const struct val *simple(struct code *c, enum val_kind kind, struct text t)
{
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = kind;
	v->text = t;
	return v;
}

void code_children(struct code *c, uint32_t n)
{
	TREE_CHILDREN(&c->tree, n, child)
	if (c->tree.nodes[child].flags & NODE_NAMED)
		code_eval(c, child);
}

/* Comprehensions are written before the loop that fills their names. */
static const struct val *comprehension(struct code *c, uint32_t n)
{
	const struct val *v = &val_unknown;
	TREE_CHILDREN(&c->tree, n, child)
	if (c->tree.nodes[child].kind == C_FOR)
		code_for(c, child);
	TREE_CHILDREN(&c->tree, n, child)
	if (c->tree.nodes[child].kind != C_FOR && c->tree.nodes[child].flags & NODE_NAMED)
		v = tree_field(&c->tree, n, F_body) == child ? code_eval(c, child) : (code_eval(c, child), v);
	const struct val **items = arena_copy(c->arena, &v, sizeof(v));
	return val_list(c, n, items, 1);
}

static const struct val *value(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	struct text text = tree_text(t, n);
	switch ((enum code_kind)t->nodes[n].kind) {
	case C_IDENT:
		return identifier(c, n);
	case C_SHORTHAND:
		return code_lookup(c, text);
	case C_MEMBER:
		return member(c, n);
	case C_INDEX:
		return subscript(c, n);
	case C_CALL:
		if (text_begins(text, "loop ")) /* Ruby: loop { … } */
			shape_loop(c, n);
		return code_call(c, n);
	case C_STRING:
	case C_STRINGS:
		return code_string(c, n);
	case C_BACKTICK: {
		const struct val *v = code_string(c, n);
		return code_called(c, n, val_name(c, TEXT("`"), NULL), &(struct args){.list = &v, .count = 1});
	}
	case C_HEREDOC:
		return heredoc(c, n);
	case C_SYMBOL:
		return val_text(c, key_of(c, n));
	case C_NUMBER:
		return simple(c, V_NUMBER, text);
	case C_TRUE:
		return simple(c, V_TRUE, text);
	case C_FALSE:
		return simple(c, V_FALSE, text);
	case C_NULL:
		return simple(c, V_NULL, text);
	case C_LIST:
		return list(c, n);
	case C_DICT:
		return dict(c, n);
	case C_BINARY:
		return binary(c, n);
	case C_CONDITIONAL:
		return conditional(c, n);
	case C_WRAP:
		return through(c, n, false, true);
	case C_LAST:
		return through(c, n, true, true);
	case C_SPREAD:
		return val_item(c, through(c, n, false, false));
	case C_ASSIGN:
		return assignment(c, n);
	case C_AUGMENT:
		return augmented(c, n);
	case C_FUNCTION:
	case C_LAMBDA:
		return code_function(c, n);
	case C_CLASS:
		return code_class(c, n);
	case C_COMPREHENSION:
		return comprehension(c, n);
	case C_WHILE:
		shape_loop(c, n);
		break;
	case C_FOR:
		code_for(c, n);
		return &val_unknown;
	case C_RETURN:
		returned(c, n);
		return &val_unknown;
	case C_FIELD_NAME: {
		const struct val *v = map_get(&c->fields, text);
		return v ? v : &val_unknown;
	}
	case C_IMPORT_WORD:
		return val_name(c, TEXT("import"), NULL);
	case C_DECORATOR:
		return through(c, n, false, false);
	case C_IMPORT:
	case C_IMPORT_FROM:
	case C_ES_IMPORT:
	case C_IMPORT_REQUIRE:
	case C_EXPORT:
	case C_WITH_AS:
	case C_DECORATED:
	case C_GLOBAL:
	case C_ALIAS:
		if (!code_binding(c, n))
			code_children(c, n);
		return &val_unknown;
	case C_HEREDOC_BODY: /* looked at where it is announced */
	case C_SKIP:
	case C_KEY_NAME:
	case C_SELF:
	case C_PART:
	case C_ESCAPE:
	case C_STAR:
	case C_RELATIVE:
	case C_PARAMS:
		return &val_unknown;
	case C_OTHER:
	case C_ARGS:
	case C_PAIR:
	case C_INTERPOLATION:
	case C_TARGETS:
	case C_OBJECT_PATTERN:
	case C_PAIR_PATTERN:
	case C_DEFAULT:
	case C_IMPORT_ALIAS:
	case C_DOTTED:
	case C_IMPORT_SPECIFIER:
	case C_NAMESPACE_IMPORT:
	case C_IMPORT_CLAUSE:
		break;
	}
	code_children(c, n);
	return &val_unknown;
}

const struct val *code_value(struct code *c, uint32_t n)
{
	if (!run_enter(c->run, c->tree.nodes[n].start))
		return &val_unknown;
	const struct val *v = value(c, n);
	run_leave(c->run);
	return v;
}

const struct val *code_eval(struct code *c, uint32_t n)
{
	const struct val *v = code_value(c, n);
	uint16_t kind = c->tree.nodes[n].kind;
	/* (f), await f: f was looked at, but nobody has said what becomes of it. */
	if (v->kind != V_UNKNOWN &&
	    (kind == C_IDENT || kind == C_MEMBER || kind == C_INDEX || kind == C_SHORTHAND || kind == C_WRAP || kind == C_LAST))
		match_mention(c, n, v, false);
	return v;
}

/* ---- a whole text ------------------------------------------------------------------------------------------------------------ */

/* One that is never closed takes the rest of the text, which the grammar does not mind. */
static void collect_heredocs(struct code *c)
{
	for (uint32_t i = 0; i < c->tree.count; i++) {
		const struct node *n = &c->tree.nodes[i];
		if (n->kind == C_HEREDOC)
			ARENA_PUSH(c->arena, c->heredocs, c->heredoc_count, i);
		if (n->kind != C_HEREDOC_BODY)
			continue;
		ARENA_PUSH(c->arena, c->bodies, c->body_count, i);
		const struct node *end = &c->tree.nodes[i + n->size - 1];
		if (end->start == end->end && c->tree.error == c->tree.error_end) {
			c->tree.error = n->start;
			c->tree.error_end = n->end;
		}
	}
}

void code_check(struct run *r, enum gate_language language)
{
	const struct language *l = &r->gate->languages[language];
	struct code c = {.run = r, .arena = &r->arena, .gate = r->gate, .language = l, .which = language};
	if (!l->used)
		return;
	if (!l->grammar) {
		tokens_check(r, language);
		return;
	}
	tree_read(r, l->grammar, &c.tree);
	if (language == GATE_RUBY)
		collect_heredocs(&c);
	if (c.tree.error != c.tree.error_end)
		run_unproven(r, "parse-error", "it does not parse here, so what it does is not known", c.tree.error, c.tree.error_end);
	c.top = c.scope = ARENA_NEW(c.arena, struct scope);
	c.scopes = arena_alloc(c.arena, c.tree.count * sizeof(*c.scopes));
	c.functions = arena_alloc(c.arena, c.tree.count * sizeof(*c.functions));
	bool quiet = r->quiet;
	r->quiet = true;
	code_children(&c, 0);
	r->quiet = quiet;
	c.scope = c.top;
	code_children(&c, 0);
}
