/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: their arguments, what they give, and what they run. */
#include "gate/code.h"

#include "base/util.h"
#include "gate/match.h"

#define ARGS_MAX 64 /* further ones are looked at, but kept by nobody */

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

static void add_pair(struct code *c, struct args *args, uint32_t n)
{
	uint32_t key = tree_field(&c->tree, n, F_name), value = tree_field(&c->tree, n, F_value);
	if (!key)
		key = tree_field(&c->tree, n, F_key);
	struct val_pair p = {.value = value ? code_eval(c, value) : &val_unknown};
	struct text t = key ? tree_text(&c->tree, key) : TEXT("");
	if (t.n && t.s[0] == ':')
		t = text_from(t, 1);
	p.key = t.n && t.s[t.n - 1] == ':' ? text_first(t, t.n - 1) : t;
	if (key && c->tree.nodes[key].kind == C_STRING)
		p.key = val_as_text(code_string(c, key));
	if (args->named_count < ARGS_MAX)
		ARENA_PUSH(c->arena, args->named, args->named_count, p);
}

static void add_arg(struct code *c, struct args *args, uint32_t n)
{
	const struct node *node = &c->tree.nodes[n];
	if (!(node->flags & NODE_NAMED))
		return;
	if (node->kind == C_PAIR) {
		add_pair(c, args, n);
		return;
	}
	const struct val *v = code_eval(c, n);
	if (node->kind == C_SPREAD) {
		/* &name in Ruby is a block, and *list any number of arguments */
		args->spread = true;
		if (tree_text(&c->tree, n).s[0] == '&')
			args->block = v;
	}
	if (args->count < ARGS_MAX)
		ARENA_PUSH(c->arena, args->list, args->count, v);
}

static struct args arguments(struct code *c, uint32_t n)
{
	struct args args = {0};
	TREE_CHILDREN(&c->tree, n, child)
	{
		uint8_t field = c->tree.nodes[child].field;
		if (field == F_block) {
			args.block = code_eval(c, child);
			continue;
		}
		if (field != F_arguments)
			continue;
		if (c->tree.nodes[child].kind != C_ARGS) { /* f`text`; f(x for x in y) */
			add_arg(c, &args, child);
			continue;
		}
		TREE_CHILDREN(&c->tree, child, arg)
		add_arg(c, &args, arg);
	}
	return args;
}

/* ---- what a call gives ------------------------------------------------------------------------------------------------------- */

static const struct val *arg_at(const struct args *args, int i)
{
	return i >= 0 && (size_t)i < args->count ? args->list[i] : &val_unknown;
}

static struct text home_path(struct code *c, struct text t)
{
	return t.n && t.s[0] == '~' && (t.n == 1 || t.s[1] == '/') ? text_cat(c->arena, c->gate->home, text_from(t, 1)) : t;
}

static const struct val *environment(struct code *c, struct text name)
{
	if (text_is(name, "HOME") || text_is(name, "USERPROFILE"))
		return val_text(c, c->gate->home);
	if (text_is(name, "PWD"))
		return val_text(c, c->gate->workspace);
	return val_text(c, text_mark(MARK_ANY));
}

/* All arguments as one path: one that begins with a slash begins anew. */
static const struct val *path_of(struct code *c, const struct args *args)
{
	const struct val *out = NULL;
	if (args->spread) /* any number of parts: ".." among them, perhaps */
		return val_text(c, text_mark(MARK_ANY));
	for (size_t i = 0; i < args->count; i++) {
		const struct val *v = args->list[i];
		struct text t = val_as_text(v);
		if (out && v->kind != V_ALTS && t.n && t.s[0] == '/')
			out = NULL;
		out = out ? val_concat(c, val_concat(c, out, val_text(c, TEXT("/"))), v) : v;
	}
	return out ? out : val_text(c, TEXT("."));
}

static const struct val *joined(struct code *c, const struct val *sep, const struct val *list)
{
	struct text out = TEXT(""), between = sep ? val_as_text(sep) : TEXT("");
	if (list->kind == V_ALTS)
		list = list->items[0];
	if (list->kind != V_LIST)
		return val_text(c, text_mark(MARK_ANY));
	for (size_t i = 0; i < list->count && i < ARGS_MAX; i++) {
		if (i)
			out = text_cat(c->arena, out, between);
		out = text_cat(c->arena, out, val_as_text(list->items[i]));
	}
	return val_text(c, out);
}

/* [a, b].join(s) and s.join([a, b]) are both written. */
static const struct val *join(struct code *c, const struct val *self, const struct args *args)
{
	if (self && self->kind == V_ALTS)
		self = self->items[0];
	if (self && self->kind == V_LIST)
		return joined(c, args->count ? args->list[0] : (c->which == GATE_RUBY ? NULL : val_text(c, TEXT(","))), self);
	if (self && self->kind == V_TEXT && text_known(self->text))
		return joined(c, self, arg_at(args, 0));
	return val_text(c, text_mark(MARK_ANY));
}

/* Something below a directory; or, of a pattern, whatever there is that fits. */
static const struct val *below(struct code *c, const struct val *arg)
{
	const struct val *out = NULL;
	VAL_ALTS(arg, each)
	{
		struct text t = val_as_text(each);
		if (text_find(t, '*') == t.n) {
			out = val_or(c, out, val_concat(c, each, val_text(c, TEXT("/\1"))));
			continue;
		}
		char *s = arena_copy(c->arena, t.s, t.n);
		for (size_t i = 0; i < t.n; i++)
			s[i] = s[i] == '*' ? MARK_GLOB : s[i] == '?' ? MARK_ONE : s[i];
		out = val_or(c, out, val_text(c, (struct text){s, t.n}));
	}
	return out;
}

static const struct val *object(struct code *c, const struct val *callee, const struct val *path)
{
	struct val *v = ARENA_NEW(c->arena, struct val);
	*v = *val_name(c, text_cat(c->arena, callee->text, TEXT("()")), NULL);
	v->stands = path;
	return v;
}

static const struct val *module(struct code *c, uint32_t n, const struct val *name)
{
	const struct val *out = NULL;
	VAL_ALTS(name, each)
	{
		struct text t = val_as_text(each);
		if (!text_known(t)) {
			match_import(c, n, t);
			if (!c->run->quiet)
				run_unproven(c->run, "dynamic-import", "which module is loaded here is not known from the text",
				             c->tree.nodes[n].start, c->tree.nodes[n].end);
			out = val_or(c, out, &val_unknown);
			continue;
		}
		if (!t.n || t.s[0] == '.' || t.s[0] == '/') {
			out = val_or(c, out, &val_unknown);
			continue;
		}
		const struct val *m = val_name(c, t, NULL);
		match_import(c, n, m->text);
		out = val_or(c, out, m);
	}
	return out;
}

/* A method whose name is an argument: send(:system, …). */
static const struct val *sent(struct code *c, uint32_t n, const struct val *self, const struct args *args)
{
	struct args rest = *args;
	const struct val *name = arg_at(args, 0), *out = NULL;
	if (rest.count) {
		rest.list++;
		rest.count--;
	}
	VAL_ALTS(name, each)
	{
		struct text t = val_as_text(each);
		/* On an object of one's own nothing but its own methods is meant, unless the name is known and is one of the language's. */
		const struct val *callee =
			self && self->kind == V_NAME && !text_begins(self->text, "*.") ? val_member(c, self, t) : &val_unknown;
		if (text_known(t))
			callee = val_or(c, callee->kind == V_UNKNOWN ? NULL : callee, val_name(c, t, self));
		else if (!self || self->kind == V_NAME)
			callee = val_or(c, callee->kind == V_UNKNOWN ? NULL : callee, val_name(c, text_mark(MARK_ANY), NULL));
		out = val_or(c, out, code_called(c, n, callee, &rest));
	}
	return out;
}

static const struct val *given(struct code *c, uint32_t n, const struct gate_result_of *r, const struct val *callee,
                               const struct args *args)
{
	const struct val *arg = arg_at(args, r->arg), *out = NULL;
	switch (r->gives) {
	case GIVES_TEXT:
		return val_text(c, text_template(c->gate, c->arena, r->text));
	case GIVES_ARG:
	case GIVES_BOUND:
		return arg;
	case GIVES_SELF:
		return callee->self ? callee->self : &val_unknown;
	case GIVES_JOIN:
		return join(c, callee->self, args);
	case GIVES_PATH:
		return path_of(c, args);
	case GIVES_HOME_PATH:
		VAL_ALTS(arg, each)
		out = val_or(c, out, val_text(c, home_path(c, val_as_text(each))));
		return out;
	case GIVES_ENV:
		return environment(c, val_as_text(arg));
	case GIVES_MODULE:
		return module(c, n, arg);
	case GIVES_MEMBER:
		return val_index(c, arg_at(args, 0), arg_at(args, 1));
	case GIVES_GLOBAL:
		VAL_ALTS(arg, each)
		out = val_or(c, out, val_name(c, text_known(val_as_text(each)) ? val_as_text(each) : text_mark(MARK_ANY), NULL));
		return out;
	case GIVES_SEND:
		return sent(c, n, callee->self, args);
	case GIVES_BELOW:
		return below(c, arg);
	case GIVES_DIR:
		VAL_ALTS(arg, each)
		out = val_or(c, out, val_text(c, path_parent(val_as_text(each))));
		return out;
	case GIVES_BASE:
		VAL_ALTS(arg, each)
		out = val_or(c, out, val_text(c, path_base(val_as_text(each))));
		return out;
	case GIVES_FORMAT:
		return val_text(c, text_mark(MARK_ANY));
	case GIVES_OBJECT:
		return object(c, callee, r->text ? val_text(c, text_template(c->gate, c->arena, r->text)) : path_of(c, args));
	case GIVES_DECODED:
		return val_text(c, text_mark(MARK_DECODED));
	case GIVES_METHODS:
		for (size_t i = 0; i < args->count && c->scope->is_class; i++)
			if (args->list[i]->kind == V_TEXT && text_known(args->list[i]->text))
				code_set(c, args->list[i]->text, &val_unknown);
		return &val_unknown;
	case GIVES_NEW:
		return callee->self ? object(c, callee, path_of(c, args)) : &val_unknown;
	}
	return &val_unknown;
}

static const struct val *result_of(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	const void **list;
	size_t count = name_candidates(&c->language->results, &c->language->member_results, c->arena, callee->text, &list);
	for (size_t i = 0; i < count; i++) {
		const struct gate_result_of *r = list[i];
		for (size_t k = 0; k < r->calls.count; k++)
			if (name_match(r->calls.items[k], callee->text, false) == YES)
				return given(c, n, r, callee, args);
	}
	if (text_begins(callee->text, "*."))
		return &val_unknown;
	return val_name(c, text_cat(c->arena, callee->text, TEXT("()")), callee->self);
}

/* ---- what a call runs -------------------------------------------------------------------------------------------------------- */

static bool has_flag(const struct args *args, const struct gate_strs *names)
{
	for (size_t k = 0; k < names->count; k++)
		for (size_t i = 0; i < args->named_count; i++)
			if (text_is(args->named[i].key, names->items[k]) && args->named[i].value->kind != V_FALSE)
				return true;
	for (size_t k = 0; k < names->count; k++)
		for (size_t i = 0; i < args->count; i++)
			for (size_t p = 0; args->list[i]->kind == V_DICT && p < args->list[i]->count; p++)
				if (text_is(args->list[i]->pairs[p].key, names->items[k]) && args->list[i]->pairs[p].value->kind != V_FALSE)
					return true;
	return false;
}

static void run_line(struct code *c, uint32_t n, const struct val *line)
{
	VAL_ALTS(line, each)
	if (each->kind == V_TEXT)
		run_code(c->run, GATE_SHELL, each->text, c->tree.nodes[n].start, c->tree.nodes[n].end);
}

static void run_words(struct code *c, uint32_t n, const struct args *args, size_t first)
{
	struct text words[ARGS_MAX];
	size_t count = 0;
	for (size_t i = first; i < args->count; i++) {
		const struct val *v = args->list[i];
		if (v->kind == V_ALTS)
			v = v->items[0];
		for (size_t k = 0; v->kind == V_LIST && k < v->count && count < ARGS_MAX; k++)
			words[count++] = val_as_text(v->items[k]);
		if (v->kind != V_LIST && v->kind != V_DICT && v->kind != V_FUNCTION && v->kind != V_NULL && count < ARGS_MAX)
			words[count++] = val_as_text(v);
	}
	if (count && words[0].n && text_known(words[0]))
		run_argv(c->run, words, count, c->tree.nodes[n].start, c->tree.nodes[n].end);
}

/* Commands that are known are looked at as the shell's rules would; those that are not are only what the rule about the call itself says. */
static void look_into(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	const void **list;
	if (c->run->quiet)
		return;
	size_t count = name_candidates(&c->language->runs, &c->language->member_runs, c->arena, callee->text, &list);
	for (size_t i = 0; i < count; i++) {
		const struct gate_runs_of *r = list[i];
		bool named = false;
		for (size_t k = 0; k < r->calls.count && !named; k++)
			named = name_match(r->calls.items[k], callee->text, false) == YES;
		if (!named)
			continue;
		/* called with several texts, Ruby takes them for the words of one command, not for a line */
		bool words = r->argv >= 0 && args->count > (size_t)r->argv + 1 && args->list[r->argv + 1]->kind == V_TEXT;
		if (r->shell >= 0 && !words)
			run_line(c, n, arg_at(args, r->shell));
		else if (r->shell < 0 && r->argv >= 0 && (size_t)r->argv < args->count && args->list[r->argv]->kind == V_TEXT &&
		         has_flag(args, &r->shell_if))
			run_line(c, n, args->list[r->argv]);
		else if (r->argv >= 0)
			run_words(c, n, args, (size_t)r->argv);
		return;
	}
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

/* What it is called with is kept for the walk through the function. */
static void pass(struct code *c, struct function *f, const struct args *args, bool bound)
{
	size_t skip = f->method && bound ? 1 : 0;
	for (size_t i = 0; i < args->count && i + skip < f->param_count; i++)
		f->values[i + skip] = val_or(c, f->values[i + skip], args->list[i]);
	for (size_t i = 0; i < args->named_count; i++)
		for (size_t k = 0; k < f->param_count; k++)
			if (text_same(f->params[k], args->named[i].key))
				f->values[k] = val_or(c, f->values[k], args->named[i].value);
}

/* list.each { |x| … }, list.forEach(x => …): what the function is called with is known. */
static void pass_items(struct code *c, const struct val *callee, const struct args *args)
{
	static const char *const names[] = {"each",     "map",     "forEach",    "filter",  "select", "reject", "each_with_index",
	                                    "flat_map", "flatMap", "each_entry", "collect", "some",   "every",  "find"};
	const struct val *f = args->block ? args->block : args->count ? args->list[0] : NULL;
	struct text name = text_from(callee->text, text_rfind(callee->text, '.') + 1);
	bool iterates = false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		iterates = iterates || text_is(name, names[i]);
	if (!iterates || !f || f->kind != V_FUNCTION || !callee->self)
		return;
	const struct val *item = val_item(c, callee->self);
	if (item->kind != V_UNKNOWN)
		pass(c, f->function, &(struct args){.list = &item, .count = 1}, false);
}

static const struct val *new_object(struct code *c, const struct val *class, const struct args *args)
{
	static const char *const constructors[] = {"__init__", "constructor", "initialize"};
	for (size_t i = 0; i < ARRAY_SIZE(constructors); i++) {
		const struct val *init = map_get(&class->class->vars, text_of(constructors[i]));
		if (init && init->kind == V_FUNCTION)
			pass(c, init->function, args, true);
	}
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = V_OBJECT;
	v->class = class->class;
	return v;
}

static const struct val *call_one(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	switch (callee->kind) {
	case V_FUNCTION:
		pass(c, callee->function, args, true);
		return callee->function->gives ? callee->function->gives : &val_unknown;
	case V_CLASS:
		return new_object(c, callee, args);
	case V_NAME:
		pass_items(c, callee, args);
		match_call(c, n, callee, args);
		look_into(c, n, callee, args);
		return result_of(c, n, callee, args);
	case V_UNKNOWN:
	case V_TEXT:
	case V_LIST:
	case V_DICT:
	case V_OBJECT:
	case V_NUMBER:
	case V_TRUE:
	case V_FALSE:
	case V_NULL:
	case V_ALTS:
		return &val_unknown;
	}
	return &val_unknown;
}

const struct val *code_called(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	const struct val *out = NULL;
	VAL_ALTS(callee, each)
	out = val_or(c, out, call_one(c, n, each, args));
	return out;
}

const struct val *code_call(struct code *c, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t function = tree_field(t, n, F_function), method = tree_field(t, n, F_method), receiver = tree_field(t, n, F_receiver);
	const struct val *callee = &val_unknown;
	if (!function)
		function = tree_field(t, n, F_constructor);
	if (function) {
		callee = code_value(c, function);
	} else if (method && receiver) {
		bool self = t->nodes[receiver].kind == C_SELF;
		callee = self ? code_lookup(c, tree_text(t, method)) : val_member(c, code_value(c, receiver), tree_text(t, method));
	} else if (method) {
		callee = code_lookup(c, tree_text(t, method));
	} else if (receiver) { /* f.(x) */
		callee = code_value(c, receiver);
	}
	struct args args = arguments(c, n);
	return code_called(c, n, callee, &args);
}
