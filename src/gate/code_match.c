/* SPDX-License-Identifier: Apache-2.0 */
/* Names and calls against rules. */
#include "gate/code.h"

#include "base/util.h"
#include "gate/match.h"

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

static struct text next_part(struct text *rest)
{
	size_t dot = text_find(*rest, '.');
	struct text part = text_first(*rest, dot);
	*rest = dot < rest->n ? text_from(*rest, dot + 1) : (struct text){rest->s + rest->n, 0};
	return part;
}

static enum sure part_match(struct text pattern, struct text part)
{
	char p[PACK_TEXT_MAX + 1];
	if (text_same(pattern, part))
		return YES;
	if (pattern.n > PACK_TEXT_MAX)
		return NO;
	memcpy(p, pattern.s, pattern.n);
	p[pattern.n] = '\0';
	return strpbrk(p, "*?") || !text_known(part) ? pattern_match(p, part) : NO;
}

static enum sure member_match(struct text tail, struct text name, bool prefix)
{
	for (size_t at = 0; at + tail.n <= name.n; at++) {
		bool begins = at == 0 || name.s[at - 1] == '.',
		     ends = at + tail.n == name.n || (prefix && (name.s[at + tail.n] == '.' || name.s[at + tail.n] == '('));
		if (begins && ends && memcmp(name.s + at, tail.s, tail.n) == 0)
			return YES;
	}
	return NO;
}

enum sure name_match(const char *pattern, struct text name, bool prefix)
{
	struct text rest = text_of(pattern);
	enum sure sure = YES;
	if (text_is(rest, "**")) /* whatever is called */
		return YES;
	if (text_begins(rest, "*.")) /* of whatever: the end counts, or any part if what is behind it does not matter */
		return member_match(text_from(rest, 2), name, prefix);
	while (rest.n && sure != NO) {
		if (!name.n)
			return NO;
		sure = sure_min(sure, part_match(next_part(&rest), next_part(&name)));
	}
	return prefix || !name.n ? sure : NO;
}

static void add_all(struct arena *a, const struct lookup *l, struct text part, const void ***out, size_t *count)
{
	const void **found;
	size_t more = lookup_all(l, a, part, &found);
	if (!*count) {
		*out = found;
		*count = more;
	} else if (more) {
		const void **all = arena_alloc(a, (*count + more) * sizeof(*all));
		memcpy(all, *out, *count * sizeof(*all));
		memcpy(all + *count, found, more * sizeof(*all));
		*out = all;
		*count += more;
	}
}

size_t name_candidates(const struct lookup *first, const struct lookup *member, struct arena *a, struct text name, const void ***out)
{
	size_t count = 0;
	bool begin = true;
	for (struct text rest = name; rest.n || begin; begin = false) {
		struct text part = next_part(&rest);
		if (begin)
			add_all(a, first, part, out, &count);
		if (part.n > 2 && text_ends(part, "()"))
			part.n -= 2;
		if (text_known(part))
			add_all(a, member, part, out, &count);
	}
	return count;
}

static bool excepted(const struct gate_rule *r, struct text name)
{
	for (size_t i = 0; i < r->except.count; i++)
		if (name_match(r->except.items[i], name, true) == YES)
			return true;
	return false;
}

static enum sure in_list(const struct gate_strs *l, struct text name, bool prefix)
{
	enum sure sure = NO;
	for (size_t i = 0; i < l->count && sure != YES; i++)
		sure = sure_max(sure, name_match(l->items[i], name, prefix));
	return sure;
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

static const unsigned kind_bits[] = {
	[V_UNKNOWN] = 1u << KIND_UNKNOWN, [V_TEXT] = 1u << KIND_STRING,       [V_NAME] = 1u << KIND_NAME,      [V_LIST] = 1u << KIND_LIST,
	[V_DICT] = 1u << KIND_DICT,       [V_FUNCTION] = 1u << KIND_FUNCTION, [V_CLASS] = 1u << KIND_FUNCTION, [V_OBJECT] = 1u << KIND_NAME,
	[V_NUMBER] = 1u << KIND_NUMBER,   [V_TRUE] = 1u << KIND_TRUE,         [V_FALSE] = 1u << KIND_FALSE,    [V_NULL] = 1u << KIND_NONE,
};

static enum sure test_kind(const struct gate_test *t, const struct val *v)
{
	if (kind_bits[v->kind] & t->kind)
		return YES;
	/* What comes out of a call, or from outside, may be anything. */
	return v->kind == V_UNKNOWN || v->kind == V_NAME ? MAYBE : NO;
}

static enum sure test_value(struct code *c, const struct test *test, const struct val *v);

static enum sure test_items(struct code *c, const struct test *test, const struct val *v)
{
	enum sure sure = NO;
	for (size_t i = 0; i < v->count && sure != YES; i++)
		sure = sure_max(sure, test_value(c, test, v->items[i]));
	return sure;
}

static enum sure test_value(struct code *c, const struct test *test, const struct val *v)
{
	const struct gate_test *t = test->t;
	bool text = t->in.count || t->text.count || t->except.count || t->taint || t->prefix || t->known;
	if (v->kind == V_ALTS)
		return test_items(c, test, v);
	enum sure sure = t->kind ? test_kind(t, v) : YES;
	if (sure == NO || !text)
		return sure;
	if (v->kind == V_LIST && !t->kind)
		return test_items(c, test, v);
	if (v->kind == V_NAME && v->stands) {
		enum sure best = NO;
		VAL_ALTS(v->stands, each)
		best = sure_max(best, test_text(c->run, test, val_as_text(each), c->gate->workspace));
		return sure_min(sure, best);
	}
	for (size_t i = 0; v->kind == V_NAME && i < t->except.count; i++)
		if (pattern_match_text(t->except.items[i], v->text) == YES)
			return NO;
	if (v->kind == V_NAME && t->text.count && !t->in.count) { /* yaml.UnsafeLoader as an argument: its name is compared */
		enum sure named = test_text(c->run, test, v->text, c->gate->workspace);
		if (named != NO)
			return sure_min(sure, named);
	}
	if (v->kind == V_NUMBER || v->kind == V_TEXT || v->kind == V_UNKNOWN || v->kind == V_NAME || v->kind == V_OBJECT)
		return sure_min(sure, test_text(c->run, test, val_as_text(v), c->gate->workspace));
	if (v->kind == V_TRUE || v->kind == V_FALSE || v->kind == V_NULL)
		return sure_min(sure, test_text(c->run, test, v->text, c->gate->workspace));
	return NO;
}

/* A named argument, or a key of a dictionary that is an argument. */
static enum sure test_named(struct code *c, const struct test *test, const struct args *args)
{
	const struct gate_strs *of = &test->t->of;
	enum sure sure = NO;
	for (size_t k = 0; k < of->count; k++) {
		struct text name = text_of(of->items[k]);
		for (size_t i = 0; i < args->named_count; i++)
			if (text_same(args->named[i].key, name))
				sure = sure_max(sure, test_value(c, test, args->named[i].value));
		for (size_t i = 0; i < args->count; i++) {
			VAL_ALTS(args->list[i], v)
			for (size_t p = 0; v->kind == V_DICT && p < v->count; p++)
				if (text_same(v->pairs[p].key, name))
					sure = sure_max(sure, test_value(c, test, v->pairs[p].value));
		}
	}
	return sure;
}

static enum sure test_arg(struct code *c, const struct test *test, const struct args *args)
{
	enum sure sure = NO;
	int at = test->t->index;
	for (size_t i = 0; i < args->count; i++)
		if (at < 0 || (size_t)at == i)
			sure = sure_max(sure, test_value(c, test, args->list[i]));
	if (args->block && test->t->kind & 1u << KIND_FUNCTION)
		return YES;
	/* The same argument by its name, where the rule gives one. */
	for (size_t k = 0; k < test->t->of.count; k++)
		for (size_t i = 0; i < args->named_count; i++)
			if (text_is(args->named[i].key, test->t->of.items[k]))
				sure = sure_max(sure, test_value(c, test, args->named[i].value));
	return sure == NO && args->spread && (at < 0 || (size_t)at >= args->count) ? MAYBE : sure;
}

static bool is_given(const struct gate_test *t, const struct val *callee, const struct args *args)
{
	if (t->at == AT_SELF)
		return callee->self != NULL;
	if (t->at == AT_ARG) {
		for (size_t k = 0; k < t->of.count; k++)
			for (size_t i = 0; i < args->named_count; i++)
				if (text_is(args->named[i].key, t->of.items[k]))
					return true;
		return t->index < 0 ? args->count > 0 : args->count > (size_t)t->index;
	}
	for (size_t k = 0; k < t->of.count; k++)
		for (size_t i = 0; i < args->named_count; i++)
			if (text_is(args->named[i].key, t->of.items[k]))
				return true;
	return false;
}

static enum sure test_call(struct code *c, const struct test *test, const struct val *callee, const struct args *args)
{
	const struct gate_test *t = test->t;
	if (t->absent)
		return is_given(t, callee, args) ? NO : YES;
	if (t->at == AT_ARG)
		return test_arg(c, test, args);
	if (t->at == AT_KEYWORD)
		return test_named(c, test, args);
	return t->at == AT_SELF && callee->self ? test_value(c, test, callee->self) : NO;
}

static enum sure test_all(struct code *c, const struct rule *rule, const struct val *callee, const struct args *args)
{
	enum sure sure = YES, any = rule->r->any.count ? NO : YES;
	for (size_t i = 0; i < rule->r->args.count && sure != NO; i++)
		sure = sure_min(sure, test_call(c, &rule->args[i], callee, args));
	for (size_t i = 0; i < rule->r->any.count && any != YES && sure != NO; i++)
		any = sure_max(any, test_call(c, &rule->any[i], callee, args));
	return sure_min(sure, any);
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------- */

static const struct node *at(const struct code *c, uint32_t n)
{
	return &c->tree.nodes[n];
}

static void found(struct code *c, const struct rule *rule, uint32_t n)
{
	run_find(c->run, rule->r, rule->pack, rule->r->verdict, at(c, n)->start, at(c, n)->end);
}

/* Some rule might be about a name of which a part is not known. */
static void unknown_name(struct code *c, uint32_t n)
{
	run_unproven(c->run, "dynamic-name", "which name is used here is not known from the text", at(c, n)->start, at(c, n)->end);
}

static bool is_moot(const struct code *c, const struct rule *rule)
{
	return rule->r->needs & c->gate->granted;
}

static void mention_one(struct code *c, uint32_t n, const struct val *v, bool kept)
{
	const void **list;
	size_t count = name_candidates(&c->language->names, &c->language->members, c->arena, v->text, &list);
	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = list[i];
		if (is_moot(c, rule))
			continue;
		enum sure sure = in_list(&rule->r->names, v->text, true);
		if (sure == YES && !excepted(rule->r, v->text))
			found(c, rule, n);
		if (sure == MAYBE)
			unknown_name(c, n);
		/* What is called later may be called with anything; if it is kept in a variable, its calls are seen. */
		if (sure == NO && !kept && in_list(&rule->r->calls, v->text, false) == YES && rule->r->dynamic != DYNAMIC_IGNORE)
			run_find(c->run, rule->r, rule->pack, GATE_UNPROVEN, at(c, n)->start, at(c, n)->end);
	}
}

void match_mention(struct code *c, uint32_t n, const struct val *v, bool kept)
{
	if (c->run->quiet)
		return;
	VAL_ALTS(v, each)
	if (each->kind == V_NAME && each->text.n)
		mention_one(c, n, each, kept);
}

static void call_one(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	const void **list;
	size_t count = name_candidates(&c->language->names, &c->language->members, c->arena, callee->text, &list);
	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = list[i];
		if (is_moot(c, rule))
			continue;
		enum sure named = in_list(&rule->r->names, callee->text, true), called = in_list(&rule->r->calls, callee->text, false);
		if (named == MAYBE || called == MAYBE)
			unknown_name(c, n);
		if (excepted(rule->r, callee->text))
			continue;
		enum sure sure = named == YES ? YES : called == YES ? test_all(c, rule, callee, args) : NO;
		if (sure == YES)
			found(c, rule, n);
		else if (sure == MAYBE && rule->r->dynamic != DYNAMIC_IGNORE)
			run_find(c->run, rule->r, rule->pack, rule->r->dynamic == DYNAMIC_DENY ? GATE_DENY : GATE_UNPROVEN, at(c, n)->start,
			         at(c, n)->end);
	}
}

void match_call(struct code *c, uint32_t n, const struct val *callee, const struct args *args)
{
	if (c->run->quiet)
		return;
	VAL_ALTS(callee, each)
	if (each->kind == V_NAME && each->text.n)
		call_one(c, n, each, args);
}

void match_import(struct code *c, uint32_t n, struct text module)
{
	const struct val *m = val_name(c, module, NULL);
	if (c->run->quiet)
		return;
	for (size_t i = 0; i < c->language->rule_count; i++) {
		const struct rule *rule = c->language->all[i];
		if (!is_moot(c, rule) && rule->r->imports.count && in_list(&rule->r->imports, m->text, true) == YES &&
		    !excepted(rule->r, m->text))
			found(c, rule, n);
	}
}
