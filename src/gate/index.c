/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/index.h"

#include <string.h>

#include "base/util.h"

unsigned gate_limit_ms(const struct gate *g)
{
	return g->limit_ms;
}

size_t gate_limit_bytes(const struct gate *g)
{
	return g->limit_bytes;
}

/* ---- lookups ----------------------------------------------------------------------------------------------------------------- */

static void lookup_add(struct lookup *l, struct arena *a, struct text key, const void *item)
{
	if (text_find(key, '*') < key.n || text_find(key, '?') < key.n) {
		struct pattern_entry e = {arena_text(a, key.s, key.n), item};
		ARENA_PUSH(a, l->patterns, l->pattern_count, e);
		return;
	}
	void **slot = map_put(&l->exact, a, key);
	struct entry *e = *slot;
	if (!e)
		*slot = e = ARENA_NEW(a, struct entry);
	for (size_t i = 0; i < e->count; i++)
		if (e->items[i] == item)
			return;
	ARENA_PUSH(a, e->items, e->count, item);
}

bool lookup_has(const struct lookup *l, struct text name)
{
	if (map_get(&l->exact, name))
		return true;
	for (size_t i = 0; i < l->pattern_count; i++)
		if (pattern_match(l->patterns[i].pattern, name) != NO)
			return true;
	return false;
}

size_t lookup_all(const struct lookup *l, struct arena *a, struct text name, const void ***out)
{
	const struct entry *e = map_get(&l->exact, name);
	const void **list = NULL;
	size_t count = 0;
	bool known = text_known(name);
	/* A name that is not known may be any of them. */
	if (!known) {
		for (size_t i = 0; i < l->exact.size; i++) {
			const struct entry *each = l->exact.slots[i].value;
			for (size_t k = 0; l->exact.slots[i].key.s && each && k < each->count; k++)
				ARENA_PUSH(a, list, count, each->items[k]);
		}
	}
	for (size_t i = 0; i < l->pattern_count; i++) {
		if (pattern_match(l->patterns[i].pattern, name) == NO)
			continue;
		for (size_t k = 0, exact = !count && e ? e->count : 0; k < exact; k++)
			ARENA_PUSH(a, list, count, e->items[k]);
		ARENA_PUSH(a, list, count, l->patterns[i].item);
	}
	if (!count && e) {
		*out = e->items;
		return e->count;
	}
	*out = list;
	return count;
}

/* ---- classes ----------------------------------------------------------------------------------------------------------------- */

static const char *replace(struct arena *a, const char *s, const char *name, struct text value)
{
	const char *at;
	while ((at = strstr(s, name))) {
		struct text head = {s, (size_t)(at - s)}, all = text_cat3(a, head, value, text_of(at + strlen(name)));
		s = arena_text(a, all.s, all.n);
	}
	return s;
}

static const char *filled_in(struct gate *g, const char *pattern)
{
	if (!strstr(pattern, "${"))
		return pattern;
	pattern = replace(&g->arena, pattern, "${workspace}", g->workspace);
	pattern = replace(&g->arena, pattern, "${any}", text_mark(MARK_ANY));
	pattern = replace(&g->arena, pattern, "${glob}", text_mark(MARK_GLOB));
	pattern = replace(&g->arena, pattern, "${one}", text_mark(MARK_ONE));
	return replace(&g->arena, pattern, "${home}", g->home);
}

static struct gate_strs all_filled_in(struct gate *g, const struct gate_strs *patterns)
{
	const char **out = arena_alloc(&g->arena, patterns->count * sizeof(*out));
	for (size_t i = 0; i < patterns->count; i++)
		out[i] = filled_in(g, patterns->items[i]);
	return (struct gate_strs){out, patterns->count};
}

static const char *fill_in(void *data, const char *pattern)
{
	return filled_in(data, pattern);
}

static int add_classes(struct gate *g, const struct gate_pack *pack, struct cordon_error *err)
{
	for (size_t i = 0; i < pack->classes.count; i++) {
		const struct gate_class *c = &pack->classes.items[i];
		if (class_find(&g->classes, c->name) < 0 && !classes_add(&g->classes, &g->arena, c, fill_in, g))
			return err_set(err, CORDON_ERR_INPUT, "pack %s: there are more than %d classes of paths", pack->name, CLASSES_MAX);
	}
	return 0;
}

void index_finish(struct gate *g)
{
	classes_index(&g->classes, &g->arena);
}

static const struct letters *all_letters(struct gate *g, const struct gate_strs *patterns)
{
	struct letters *out = arena_alloc(&g->arena, patterns->count * sizeof(*out));
	for (size_t i = 0; i < patterns->count; i++)
		out[i] = pattern_letters(patterns->items[i]);
	return out;
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------- */

static int resolve_tests(struct gate *g, const struct gate_rule *r, const gate_tests *tests, struct test **out, struct cordon_error *err)
{
	struct test *list = arena_alloc(&g->arena, tests->count * sizeof(*list));
	for (size_t i = 0; i < tests->count; i++) {
		struct gate_test *t = arena_copy(&g->arena, &tests->items[i], sizeof(*t));
		t->text = all_filled_in(g, &t->text);
		t->except = all_filled_in(g, &t->except);
		list[i].t = t;
		list[i].text = all_letters(g, &t->text);
		list[i].except = all_letters(g, &t->except);
		for (size_t k = 0; k < t->in.count; k++) {
			int class = class_find(&g->classes, t->in.items[k]);
			list[i].in |= class < 0 ? 0 : (uint64_t)1 << class;
			if (class < 0)
				return err_set(err, CORDON_ERR_INPUT, "rule %s: there is no class of paths named '%s'", r->name,
				               t->in.items[k]);
		}
	}
	*out = list;
	return 0;
}

/* By the first part of a dotted name; "*.name" by the last one. */
static void add_name(struct gate *g, struct lookup *first, struct lookup *last, const char *name, const void *item)
{
	struct text t = text_of(name);
	if (text_begins(t, "*.")) {
		size_t dot = text_rfind(t, '.');
		lookup_add(last, &g->arena, text_from(t, dot + 1), item);
		return;
	}
	lookup_add(first, &g->arena, text_first(t, text_find(t, '.')), item);
}

static void index_code_rule(struct gate *g, struct language *l, struct rule *rule)
{
	const struct gate_strs *lists[] = {&rule->r->names, &rule->r->calls};
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			add_name(g, &l->names, &l->members, lists[k]->items[i], rule);
}

/* What a rule without a command must find: one of these places with something in it. */
static unsigned facts_of(const struct gate_rule *r)
{
	unsigned facts = 0;
	for (size_t i = 0; i < r->args.count; i++)
		facts |= 1u << r->args.items[i].at;
	for (size_t i = 0; i < r->any.count; i++)
		facts |= 1u << r->any.items[i].at;
	return facts;
}

static void index_shell_rule(struct gate *g, struct language *l, struct rule *rule)
{
	const struct gate_rule *r = rule->r;
	rule->facts = facts_of(r);
	if (r->shape)
		ARENA_PUSH(&g->arena, l->shapes, l->shape_count, rule);
	if (r->assigns.count)
		ARENA_PUSH(&g->arena, l->assigns, l->assigns_count, rule);
	if (r->shape || r->assigns.count)
		return;
	rule->one_word = true;
	for (size_t i = 0; i < r->command.count; i++) {
		struct text name = text_of(r->command.items[i]);
		rule->one_word = rule->one_word && text_find(name, ' ') == name.n;
		lookup_add(&l->rules, &g->arena, text_first(name, text_find(name, ' ')), rule);
	}
	if (!r->command.count)
		ARENA_PUSH(&g->arena, l->any_command, l->any_command_count, rule);
}

static int add_rule(struct gate *g, enum gate_language language, const struct gate_rule *r, const char *pack, struct cordon_error *err)
{
	struct language *l = &g->languages[language];
	struct rule *rule = ARENA_NEW(&g->arena, struct rule);
	rule->r = r;
	rule->pack = pack;
	if (resolve_tests(g, r, &r->args, &rule->args, err) < 0 || resolve_tests(g, r, &r->any, &rule->any, err) < 0)
		return -1;
	ARENA_PUSH(&g->arena, l->all, l->rule_count, rule);
	if (language == GATE_SHELL)
		index_shell_rule(g, l, rule);
	else
		index_code_rule(g, l, rule);
	return 0;
}

/* ---- packs ------------------------------------------------------------------------------------------------------------------- */

static void add_tables(struct gate *g, enum gate_language language, const struct gate_pack *pack)
{
	struct language *l = &g->languages[language];
	struct arena *a = &g->arena;
	for (size_t i = 0; i < pack->commands.count; i++) {
		const struct gate_command *c = &pack->commands.items[i];
		for (size_t k = 0; k < c->names.count; k++) {
			struct text name = text_of(c->names.items[k]);
			lookup_add(&l->commands, a, text_first(name, text_find(name, ' ')), c);
		}
	}
	for (size_t i = 0; i < pack->variables.count; i++)
		for (size_t k = 0; k < pack->variables.items[i].names.count; k++)
			lookup_add(&l->variables, a, text_of(pack->variables.items[i].names.items[k]), &pack->variables.items[i]);
	for (size_t i = 0; i < pack->aliases.count; i++) {
		const struct gate_alias *alias = &pack->aliases.items[i];
		if (strncmp(alias->from, "*.", 2) == 0)
			ARENA_PUSH(a, l->alias_patterns, l->alias_pattern_count, alias);
		else
			*map_put(&l->aliases, a, text_of(alias->from)) = (void *)(uintptr_t)alias;
	}
	for (size_t i = 0; i < pack->results.count; i++)
		for (size_t k = 0; k < pack->results.items[i].calls.count; k++)
			add_name(g, &l->results, &l->member_results, pack->results.items[i].calls.items[k], &pack->results.items[i]);
	for (size_t i = 0; i < pack->runs.count; i++)
		for (size_t k = 0; k < pack->runs.items[i].calls.count; k++)
			add_name(g, &l->runs, &l->member_runs, pack->runs.items[i].calls.items[k], &pack->runs.items[i]);
}

static const struct gate_pack *pack_named(const struct gate_pack *const *known, const char *name)
{
	for (; known && *known; known++)
		if (strcmp((*known)->name, name) == 0)
			return *known;
	return NULL;
}

static int use_language(struct gate *g, enum gate_language language, struct cordon_error *err)
{
	struct language *l = &g->languages[language];
	l->used = true;
	if (!l->grammar && language <= GATE_RUBY) { /* the others have none */
		l->grammar = grammar_new(language);
		if (!l->grammar)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* A pack that is there already, because another one brought it along, is not added twice. */
static bool is_added(const struct gate *g, enum gate_language language, const struct gate_pack *pack)
{
	for (size_t i = 0; i < g->added_count; i++)
		if (g->added[i].pack == pack && g->added[i].language == language)
			return true;
	return false;
}

static int add_pack(struct gate *g, enum gate_language language, const struct gate_pack *pack, const struct gate_pack *const *known,
                    unsigned depth, struct cordon_error *err)
{
	if (depth > 8)
		return err_set(err, CORDON_ERR_INPUT, "pack %s: packs include each other", pack->name);
	if (is_added(g, language, pack))
		return 0;
	for (size_t i = 0; i < pack->include.count; i++) {
		const struct gate_pack *other = pack_named(known, pack->include.items[i]);
		if (!other)
			return err_set(err, CORDON_ERR_INPUT, "pack %s includes '%s', which is not there", pack->name,
			               pack->include.items[i]);
		if (add_pack(g, language, other, known, depth + 1, err) < 0)
			return -1;
	}
	struct added added = {pack, language};
	ARENA_PUSH(&g->arena, g->added, g->added_count, added);
	if (add_classes(g, pack, err) < 0)
		return -1;
	if (language == GATE_LANGUAGES)
		return 0;
	add_tables(g, language, pack);
	for (size_t i = 0; i < pack->rules.count; i++)
		if (add_rule(g, language, &pack->rules.items[i], pack->name, err) < 0)
			return err_wrap(err, "pack %s", pack->name);
	return 0;
}

static int add_one(struct gate *g, const struct gate_pack *pack, const struct gate_pack *const *known, struct cordon_error *err)
{
	if (pack->language != GATE_LANGUAGES && use_language(g, pack->language, err) < 0)
		return -1;
	return add_pack(g, pack->language, pack, known, 0, err);
}

int index_add_pack(struct gate *g, const struct gate_pack *pack, const struct gate_pack *const *known, struct cordon_error *err)
{
	if (add_one(g, pack, known, err) < 0)
		return -1;
	if (pack->language != GATE_LANGUAGES)
		g->languages[pack->language].direct = true;
	for (size_t i = 0; i < pack->also.count; i++) {
		const struct gate_pack *other = pack_named(known, pack->also.items[i]);
		if (!other)
			return err_set(err, CORDON_ERR_INPUT, "pack %s brings along '%s', which is not there", pack->name,
			               pack->also.items[i]);
		if (add_one(g, other, known, err) < 0)
			return -1;
	}
	return 0;
}

int index_add_tables(struct gate *g, enum gate_language language, const struct gate_pack *pack, const struct gate_pack *const *known,
                     struct cordon_error *err)
{
	return add_pack(g, language, pack, known, 0, err);
}

/* ---- rules of the policy ----------------------------------------------------------------------------------------------------- */

static struct gate_strs one(struct gate *g, const char *s)
{
	const char **list = arena_alloc(&g->arena, sizeof(*list));
	list[0] = s;
	return (struct gate_strs){list, 1};
}

/* "git push -f --tags": words up to the first option are the command, each letter of an option and each long one is asked for. */
static void shell_addition(struct gate *g, struct gate_rule *r, const char *match)
{
	struct text rest = text_of(match), command = TEXT("");
	const char **options = NULL;
	size_t count = 0;
	while (rest.n) {
		struct text word = text_first(rest, text_find(rest, ' '));
		rest = text_from(rest, word.n + 1);
		if (!word.n)
			continue;
		if (word.s[0] != '-') {
			command = command.n ? text_cat3(&g->arena, command, TEXT(" "), word) : word;
		} else if (word.n > 2 && word.s[1] != '-') {
			for (size_t i = 1; i < word.n; i++)
				ARENA_PUSH(&g->arena, options, count, arena_printf(&g->arena, "-%c", word.s[i]));
		} else {
			ARENA_PUSH(&g->arena, options, count, arena_text(&g->arena, word.s, word.n));
		}
	}
	r->command = one(g, arena_text(&g->arena, command.s, command.n));
	r->options = (struct gate_strs){options, count};
}

int index_add_addition(struct gate *g, const struct gate_addition *a, size_t n, struct cordon_error *err)
{
	if (!a->match || !a->match[0] || strlen(a->match) > PACK_TEXT_MAX)
		return err_set(err, CORDON_ERR_INPUT, "patterns.add: a match has 1 to %d bytes", PACK_TEXT_MAX);
	if (a->language == GATE_SHELL && a->match[0] == '-')
		return err_set(err, CORDON_ERR_INPUT, "patterns.add: '%s' begins with an option; the name of a command comes first",
		               a->match);
	struct gate_rule *r = ARENA_NEW(&g->arena, struct gate_rule);
	const char *match = arena_text(&g->arena, a->match, strlen(a->match));
	r->name = arena_printf(&g->arena, "patterns.add[%zu]", n);
	r->reason = a->reason ? arena_text(&g->arena, a->reason, strlen(a->reason)) : "matches a pattern of the policy";
	r->severity = GATE_HIGH;
	r->verdict = GATE_DENY;
	if (a->language == GATE_SHELL)
		shell_addition(g, r, match);
	else
		r->names = r->imports = one(g, match);
	if (use_language(g, a->language, err) < 0)
		return -1;
	g->languages[a->language].direct = true;
	return add_rule(g, a->language, r, "policy", err);
}
