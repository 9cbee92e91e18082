/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/code.h"

#define ALTS_MAX 8
#define NAME_MAX_LEN 160 /* of a dotted name; longer chains are of no interest */
#define TEXT_LONG 65536  /* texts are not joined beyond this */

const struct val val_unknown = {.kind = V_UNKNOWN};

const struct val *val_text(struct code *c, struct text t)
{
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = V_TEXT;
	v->text = t;
	return v;
}

static struct val *of_kind(struct code *c, enum val_kind kind, uint32_t node)
{
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = kind;
	v->node = node;
	return v;
}

const struct val *val_list(struct code *c, uint32_t node, const struct val **items, size_t count)
{
	struct val *v = of_kind(c, V_LIST, node);
	v->items = items;
	v->count = count;
	return v;
}

const struct val *val_dict(struct code *c, uint32_t node, struct val_pair *pairs, size_t count)
{
	struct val *v = of_kind(c, V_DICT, node);
	v->pairs = pairs;
	v->count = count;
	return v;
}

/* The name by which the rules know it. */
static struct text canonical(struct code *c, struct text name)
{
	for (int i = 0; i < 4; i++) { /* an alias of an alias; no more, should they go round */
		const struct gate_alias *a = map_get(&c->language->aliases, name);
		if (!a)
			break;
		name = text_of(a->to);
	}
	return name;
}

const struct val *val_name(struct code *c, struct text name, const struct val *self)
{
	struct val *v = ARENA_NEW(c->arena, struct val);
	v->kind = V_NAME;
	v->text = canonical(c, name);
	v->self = self;
	return v;
}

/* ---- alternatives ------------------------------------------------------------------------------------------------------------ */

/* Lists are made anew whenever their text is walked: those from one place are the same, and the later one knows more. */
static bool same(const struct val *a, const struct val *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->kind == V_ALTS)
		return false;
	if (a->kind == V_LIST || a->kind == V_DICT)
		return a->node && a->node == b->node;
	if (a->kind == V_NAME && a->stands != b->stands && !(a->stands && b->stands && same(a->stands, b->stands)))
		return false;
	return text_same(a->text, b->text) && a->function == b->function && a->class == b->class;
}

static void add(const struct val **items, size_t *count, const struct val *v)
{
	for (size_t i = 0; i < *count; i++) {
		if (same(items[i], v)) {
			items[i] = v;
			return;
		}
	}
	if (*count < ALTS_MAX)
		items[(*count)++] = v;
	else
		items[ALTS_MAX - 1] = &val_unknown;
}

const struct val *val_or(struct code *c, const struct val *a, const struct val *b)
{
	const struct val *items[ALTS_MAX];
	size_t count = 0;
	if (!a || a == b || same(a, b))
		return b;
	VAL_ALTS(a, each)
	add(items, &count, each);
	VAL_ALTS(b, each)
	add(items, &count, each);
	if (count == 1)
		return items[0];
	if (a->kind == V_ALTS && a->count == count && memcmp(a->items, items, count * sizeof(*items)) == 0)
		return a;
	struct val *v = of_kind(c, V_ALTS, 0);
	v->items = arena_copy(c->arena, items, count * sizeof(*items));
	v->count = count;
	return v;
}

/* f for each alternative. */
static const struct val *lift(struct code *c, const struct val *v, const struct val *(*f)(struct code *, const struct val *, const void *),
                              const void *data)
{
	const struct val *out = NULL;
	if (v->kind != V_ALTS)
		return f(c, v, data);
	for (size_t i = 0; i < v->count; i++)
		out = val_or(c, out, f(c, v->items[i], data));
	return out;
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

struct text val_as_text(const struct val *v)
{
	if (v->kind == V_ALTS)
		v = v->items[0];
	if (v->kind == V_NAME && v->stands)
		v = v->stands->kind == V_ALTS ? v->stands->items[0] : v->stands;
	if (v->kind == V_TEXT || v->kind == V_NUMBER)
		return v->text;
	return text_mark(MARK_ANY);
}

static const struct val *concat_one(struct code *c, const struct val *a, const struct val *b)
{
	struct text x = val_as_text(a), y = val_as_text(b);
	if (x.n + y.n > TEXT_LONG)
		return val_text(c, text_mark(MARK_ANY));
	return val_text(c, text_cat(c->arena, x, y));
}

const struct val *val_concat(struct code *c, const struct val *a, const struct val *b)
{
	const struct val *out = NULL;
	if (a->kind != V_ALTS && b->kind != V_ALTS)
		return concat_one(c, a, b);
	VAL_ALTS(a, x)
	VAL_ALTS(b, y)
	out = val_or(c, out, concat_one(c, x, y));
	return out;
}

/* ---- members ----------------------------------------------------------------------------------------------------------------- */

static const struct val *class_member(struct code *c, const struct scope *class, struct text name)
{
	return map_get(&class->vars, name);
}

/* What a member of that name is, whatever it belongs to: "*" is the same thing again, else it is something of its own (random._os). */
static const char *anybodys(const struct code *c, struct text name)
{
	for (size_t i = 0; i < c->language->alias_pattern_count; i++)
		if (text_is(name, c->language->alias_patterns[i]->from + 2))
			return c->language->alias_patterns[i]->to;
	return NULL;
}

/* os.environ["HOME"], process.env.HOME: a name that stands for a path. */
static const struct val *of_environment(struct code *c, const struct val *v, struct text name)
{
	static const char *const environments[] = {"os.environ", "process.env", "ENV", "Bun.env"};
	bool home = text_is(name, "HOME") || text_is(name, "USERPROFILE"), found = false;
	for (size_t i = 0; i < sizeof(environments) / sizeof(environments[0]); i++)
		found = found || text_is(v->text, environments[i]);
	if (!found || !(home || text_is(name, "PWD")))
		return NULL;
	struct val *out = ARENA_NEW(c->arena, struct val);
	*out = *val_name(c, text_cat3(c->arena, v->text, TEXT("."), name), v);
	out->stands = val_text(c, home ? c->gate->home : c->gate->workspace);
	return out;
}

static const struct val *unknown_member(struct code *c, const struct val *v, struct text name)
{
	return val_name(c, text_cat(c->arena, TEXT("*."), name), v);
}

static const struct val *member_of(struct code *c, const struct val *v, const void *data)
{
	struct text name = *(const struct text *)data;
	const struct val *found = NULL;
	switch (v->kind) {
	case V_NAME:
		if (anybodys(c, name))
			return strcmp(anybodys(c, name), "*") == 0 ? v : val_name(c, text_of(anybodys(c, name)), NULL);
		found = of_environment(c, v, name);
		if (found)
			return found;
		if (text_begins(v->text, "*.") || v->text.n + name.n > NAME_MAX_LEN)
			return unknown_member(c, v, name);
		if (!v->text.n)
			return val_name(c, name, v);
		return val_name(c, text_cat3(c->arena, v->text, TEXT("."), name), v);
	case V_DICT:
		for (size_t i = 0; i < v->count; i++)
			if (text_same(v->pairs[i].key, name))
				found = val_or(c, found, v->pairs[i].value);
		return found ? found : unknown_member(c, v, name);
	case V_CLASS:
	case V_OBJECT:
		found = class_member(c, v->class, name);
		if (!found && v->kind == V_CLASS && text_is(name, "new"))
			return v;
		return found ? found : val_name(c, text_cat(c->arena, TEXT("own."), name), v);
	case V_UNKNOWN:
	case V_TEXT:
	case V_LIST:
	case V_FUNCTION:
	case V_NUMBER:
	case V_TRUE:
	case V_FALSE:
	case V_NULL:
	case V_ALTS:
		return unknown_member(c, v, name);
	}
	return &val_unknown;
}

const struct val *val_member(struct code *c, const struct val *v, struct text name)
{
	return lift(c, v, member_of, &name);
}

static const struct val *items_of(struct code *c, const struct val *v)
{
	const struct val *out = NULL;
	for (size_t i = 0; i < v->count && i < ALTS_MAX; i++)
		out = val_or(c, out, v->kind == V_DICT ? v->pairs[i].value : v->items[i]);
	if (v->count > ALTS_MAX)
		out = val_or(c, out, &val_unknown);
	return out ? out : &val_unknown;
}

static bool as_number(const struct val *v, size_t *out)
{
	if (v->kind != V_NUMBER || v->text.n > 4)
		return false;
	*out = 0;
	for (size_t i = 0; i < v->text.n; i++) {
		if (v->text.s[i] < '0' || v->text.s[i] > '9')
			return false;
		*out = *out * 10 + (size_t)(v->text.s[i] - '0');
	}
	return v->text.n > 0;
}

static const struct val *index_of(struct code *c, const struct val *v, const void *data)
{
	const struct val *key = data;
	size_t n;
	if (key->kind == V_TEXT && (v->kind == V_NAME || v->kind == V_DICT || v->kind == V_OBJECT || v->kind == V_CLASS))
		return text_known(key->text) ? member_of(c, v, &key->text)
		       : v->kind == V_DICT   ? items_of(c, v)
		                             : member_of(c, v, &(struct text){"\1", 1});
	switch (v->kind) {
	case V_LIST:
		return as_number(key, &n) && n < v->count ? v->items[n] : items_of(c, v);
	case V_DICT:
		return items_of(c, v);
	case V_NAME: {
		struct text any = text_mark(MARK_ANY);
		return member_of(c, v, &any);
	}
	case V_TEXT:
		return text_known(v->text) ? &val_unknown : v;
	case V_UNKNOWN:
		/* obj["constructor"] is obj.constructor, whatever obj is */
		return key->kind == V_TEXT && text_known(key->text) ? member_of(c, v, &key->text) : &val_unknown;
	case V_FUNCTION:
	case V_CLASS:
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

const struct val *val_index(struct code *c, const struct val *v, const struct val *key)
{
	const struct val *out = NULL;
	VAL_ALTS(key, each)
	out = val_or(c, out, lift(c, v, index_of, each));
	return out;
}

static const struct val *item_of(struct code *c, const struct val *v, const void *data)
{
	(void)data;
	if (v->kind == V_LIST)
		return items_of(c, v);
	if (v->kind == V_TEXT && !text_known(v->text)) /* the paths below a directory, say */
		return v;
	return v->kind == V_NAME && v->stands ? v : &val_unknown;
}

const struct val *val_item(struct code *c, const struct val *v)
{
	return lift(c, v, item_of, NULL);
}
