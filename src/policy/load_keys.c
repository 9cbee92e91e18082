/* SPDX-License-Identifier: Apache-2.0 */
/* From the tree of a policy file to the policy: the table of keys says what may stand where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "policy/load_parts.h"
#include "policy/maps.h"
#include "policy/values.h"

#define CANDIDATES_MAX (POLICY_KEYS_MAX + 8)

static const char *const not_keys[] = {"version", "extends"}; /* at the top, and about the file itself */

const struct ynode *load_find(const struct ynode *map, const char *name)
{
	for (size_t i = 0; map->type == YNODE_MAP && i + 1 < map->count; i += 2)
		if (!strcmp(map->items[i].text, name))
			return &map->items[i + 1];
	return NULL;
}

/* ---- complaints --------------------------------------------------------------------------------------------------------------- */

static const char *type_name(const struct ynode *n)
{
	if (n->type == YNODE_SCALAR)
		return ynode_is_null(n) ? "nothing" : "a single value";
	return n->type == YNODE_LIST ? "a list" : "a map";
}

static void wrong_type(struct loader *l, const struct ynode *n, const char *name, const char *wanted, const char *advice)
{
	struct cordon_error err = {0};

	err_set(&err, CORDON_ERR_INPUT, "%s: %s is wanted here, and this is %s", name, wanted, type_name(n));
	err_hint(&err, "%s", advice);
	load_problem_at(l, n, &err);
}

/* A map in which no key is twice, and not too many are. Earlier ones are compared with later ones, so the number counts. */
static bool check_map(struct loader *l, const struct ynode *n, const char *name)
{
	struct cordon_error err = {0};
	bool good = true;

	if (n->count / 2 > POLICY_LIST_MAX) {
		err_set(&err, CORDON_ERR_INPUT, "%s%smore than %zu entries", name, *name ? ": " : "", POLICY_LIST_MAX);
		load_problem_at(l, n, &err);
		return false;
	}
	for (size_t i = 2; i + 1 < n->count && !load_stopped(l); i += 2) {
		for (size_t k = 0; k < i; k += 2) {
			if (strcmp(n->items[i].text, n->items[k].text) != 0)
				continue;
			err_set(&err, CORDON_ERR_INPUT, "'%.60s' is here for the second time", n->items[i].text);
			err_hint(&err, "the first is in line %u", n->items[k].line);
			load_problem_at(l, &n->items[i], &err);
			good = false;
			break;
		}
	}
	return good;
}

/* A key of another section that was meant, or NULL. */
static const struct policy_key *meant_elsewhere(const char *word)
{
	const char *last[POLICY_KEYS_MAX], *near;

	for (size_t i = 0; i < policy_key_count; i++) {
		const char *dot = strchr(policy_keys[i].name, '.');

		last[i] = dot ? dot + 1 : policy_keys[i].name;
	}
	near = nearest_word(word, last, policy_key_count);
	for (size_t i = 0; near && i < policy_key_count; i++)
		if (last[i] == near)
			return &policy_keys[i];
	return NULL;
}

static void unknown(struct loader *l, const struct ynode *n, const char *section, const char *const *candidates, size_t count)
{
	const char *near = nearest_word(n->text, candidates, count);
	const struct policy_key *elsewhere = near ? NULL : meant_elsewhere(n->text);
	_cleanup_buf_ struct buf all = {0};
	struct cordon_error err = {0};

	err_set(&err, CORDON_ERR_INPUT, "%s%sunknown key '%.60s'", section, *section ? ": " : "", n->text);
	value_join_words(candidates, count, &all);
	if (near)
		err_hint(&err, "did you mean '%s'?", near);
	else if (elsewhere)
		err_hint(&err, "did you mean %s?", elsewhere->name);
	else
		err_hint(&err, "write %s", all.data ? all.data : "");
	load_problem_at(l, n, &err);
}

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

static struct policy_origin origin(const struct loader *l, const struct ynode *n)
{
	return (struct policy_origin){ORIGIN_FILE, l->chain[l->depth - 1].name, n->line, n->column};
}

/* A value that is there, and is one. text: it is no number or boolean, so quotes do not matter. */
static bool is_value(struct loader *l, const struct ynode *n, const char *name, bool text)
{
	struct cordon_error err = {0};

	if (n->type != YNODE_SCALAR || ynode_is_null(n)) {
		wrong_type(l, n, name, "a single value",
		           n->type != YNODE_SCALAR ? "only one, without brackets"
		           : text                  ? "an empty text is written \"\"; to keep the default, leave the key out"
		                                   : "to keep the default, leave the key out");
		return false;
	}
	if (text || n->plain)
		return true;
	err_set(&err, CORDON_ERR_INPUT, "%s: '%.60s' is a text", name, n->text);
	err_hint(&err, "write it without quotes");
	load_problem_at(l, n, &err);
	return false;
}

static bool is_list(struct loader *l, const struct ynode *n, const char *name)
{
	struct cordon_error err = {0};
	char advice[128];

	if (n->type == YNODE_LIST && n->count <= POLICY_LIST_MAX)
		return true;
	if (n->type == YNODE_LIST) {
		err_set(&err, CORDON_ERR_INPUT, "%s: more than %zu entries", name, POLICY_LIST_MAX);
		load_problem_at(l, n, &err);
		return false;
	}
	if (n->type == YNODE_SCALAR && !ynode_is_null(n))
		snprintf(advice, sizeof(advice), "write [%.60s]", n->text);
	else
		snprintf(advice, sizeof(advice),
		         "an empty list, which grants nothing, is written []; to keep the default, leave the key out");
	wrong_type(l, n, name, "a list", n->type == YNODE_MAP ? "items begin with a dash" : advice);
	return false;
}

static void put(struct loader *l, const struct policy_key *key, const struct ynode *n, const char *value)
{
	const struct policy_origin from = origin(l, n);
	struct cordon_error err = {0};

	if (policy_put_from(l->p, key, value, l->o, &from, &err) < 0)
		load_problem_at(l, n, &err);
}

/* What a list holds already goes, unless it is one of those that only grow. */
static void begin_list(struct loader *l, const struct policy_key *key, const struct ynode *n)
{
	const struct policy_origin from = origin(l, n);

	if (key->accumulates)
		return;
	policy_empty(l->p, key);
	if (l->o)
		origins_forget(l->o, key, &from);
}

static void put_list(struct loader *l, const struct policy_key *key, const struct ynode *n)
{
	if (!is_list(l, n, key->name))
		return;
	begin_list(l, key, n);
	for (size_t i = 0; i < n->count && !load_stopped(l); i++)
		if (is_value(l, &n->items[i], key->name, key->type != POLICY_STATUSES))
			put(l, key, &n->items[i], n->items[i].text);
}

/* NAME: VALUE. Values are taken as they are written, so that 1.10 and yes stay what they are. */
static void put_assignments(struct loader *l, const struct policy_key *key, const struct ynode *n)
{
	if (n->type != YNODE_MAP) {
		wrong_type(l, n, key->name, "a map", "write NAME: VALUE");
		return;
	}
	if (!check_map(l, n, key->name))
		return;
	for (size_t i = 0; i + 1 < n->count && !load_stopped(l); i += 2) {
		_cleanup_buf_ struct buf entry = {0};

		if (!is_value(l, &n->items[i + 1], key->name, true))
			continue;
		buf_addf(&entry, "%s=%s", n->items[i].text, n->items[i + 1].text);
		if (entry.failed)
			err_set(&l->fatal, CORDON_ERR_SYSTEM, "out of memory");
		else
			put(l, key, &n->items[i], entry.data);
	}
}

/* ---- structures --------------------------------------------------------------------------------------------------------------- */

static bool put_field_value(struct loader *l, const char *name, struct policy_draft *d, const struct policy_field *f, const struct ynode *n)
{
	struct cordon_error err = {0};

	if (!is_value(l, n, name, f->type != FIELD_PORT && f->type != FIELD_PORTS))
		return false;
	if (policy_draft_put(d, f, n->text, &err) == 0)
		return true;
	err_wrap(&err, "%s", name);
	load_problem_at(l, n, &err);
	return false;
}

static bool put_field(struct loader *l, const struct policy_key *key, struct policy_draft *d, const struct ynode *k, const struct ynode *v)
{
	const struct policy_field *f = policy_field_find(d->map, k->text, strlen(k->text));
	const char *candidates[16];
	struct cordon_error err = {0};
	char name[96];
	bool good = true;

	if (!f) {
		for (size_t i = 0; i < d->map->count; i++)
			candidates[i] = d->map->fields[i].name;
		unknown(l, k, key->name, candidates, d->map->count);
		return false;
	}
	snprintf(name, sizeof(name), "%s: %s", key->name, f->name);
	if (!policy_field_is_list(f))
		return put_field_value(l, name, d, f, v);
	if (!is_list(l, v, name))
		return false;
	if (v->count == 0) {
		err_set(&err, CORDON_ERR_INPUT, "%s: an empty list would make a rule that grants nothing", name);
		err_hint(&err, f->required ? "name one at least" : "leave it out for the default");
		load_problem_at(l, v, &err);
		return false;
	}
	for (size_t i = 0; i < v->count && !load_stopped(l); i++)
		good = put_field_value(l, name, d, f, &v->items[i]) && good;
	return good;
}

static void put_map(struct loader *l, const struct policy_key *key, const struct ynode *n)
{
	struct maplist *list = (struct maplist *)(void *)((char *)l->p + key->offset);
	const struct policy_origin from = origin(l, n);
	struct policy_draft d = {0};
	struct cordon_error err = {0};
	bool good = true;

	if (n->type != YNODE_MAP) {
		wrong_type(l, n, key->name, "a map", "each item is one: {FIELD: VALUE}");
		return;
	}
	if (!check_map(l, n, key->name))
		return;
	if (policy_draft_begin(&d, key->map, &err) < 0) {
		l->fatal = err;
		return;
	}
	for (size_t i = 0; i + 1 < n->count && !load_stopped(l); i += 2)
		good = put_field(l, key, &d, &n->items[i], &n->items[i + 1]) && good;
	if (good && policy_draft_finish(&d, list, &err) < 0) {
		err_wrap(&err, "%s", key->name);
		load_problem_at(l, n, &err);
	} else if (good && l->o && origins_note(l->o, key, list->count - 1, &from, &err) < 0) {
		l->fatal = err;
	}
	policy_draft_clear(&d);
}

static void put_maps(struct loader *l, const struct policy_key *key, const struct ynode *n)
{
	if (!is_list(l, n, key->name))
		return;
	begin_list(l, key, n);
	for (size_t i = 0; i < n->count && !load_stopped(l); i++)
		put_map(l, key, &n->items[i]);
}

/* ---- keys --------------------------------------------------------------------------------------------------------------------- */

/* A key and its other name in one file: which one counts? */
static bool given_twice(struct loader *l, const struct policy_key *key, const struct ynode *k)
{
	struct load_file *file = &l->chain[l->depth - 1];
	struct cordon_error err = {0};

	file->given[key - policy_keys] = k->line;
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *other = &policy_keys[i];

		if (other == key || other->offset != key->offset || !file->given[i])
			continue;
		err_set(&err, CORDON_ERR_INPUT, "%s and %s are two names of one value", key->name, other->name);
		err_hint(&err, "keep one of them; the other is in line %u", file->given[i]);
		load_problem_at(l, k, &err);
		return true;
	}
	return false;
}

static void put_key(struct loader *l, const struct policy_key *key, const struct ynode *k, const struct ynode *v)
{
	if (given_twice(l, key, k))
		return;
	if (key->type == POLICY_MAPS)
		put_maps(l, key, v);
	else if (key->type == POLICY_ASSIGN_LIST)
		put_assignments(l, key, v);
	else if (policy_key_is_list(key))
		put_list(l, key, v);
	else if (is_value(l, v, key->name, key->type != POLICY_BOOL && key->type != POLICY_COUNT))
		put(l, key, v, v->text);
}

/* "limits.memory" is in the section "limits". */
static bool in_section(const struct policy_key *key, const char *section)
{
	size_t len = strlen(section);

	return strncmp(key->name, section, len) == 0 && key->name[len] == '.';
}

static const struct policy_key *find_key(const char *section, const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (in_section(&policy_keys[i], section) && !strcmp(policy_keys[i].name + strlen(section) + 1, name))
			return &policy_keys[i];
	return NULL;
}

static void load_section(struct loader *l, const char *section, const struct ynode *n)
{
	const char *candidates[POLICY_KEYS_MAX];
	size_t count = 0;

	if (ynode_is_null(n))
		return; /* everything in it is commented out */
	if (n->type != YNODE_MAP) {
		wrong_type(l, n, section, "a map", "write KEY: VALUE, indented");
		return;
	}
	if (!check_map(l, n, section))
		return;
	for (size_t i = 0; i < policy_key_count; i++)
		if (in_section(&policy_keys[i], section))
			candidates[count++] = policy_keys[i].name + strlen(section) + 1;
	for (size_t i = 0; i + 1 < n->count && !load_stopped(l); i += 2) {
		const struct policy_key *key = find_key(section, n->items[i].text);

		if (key)
			put_key(l, key, &n->items[i], &n->items[i + 1]);
		else
			unknown(l, &n->items[i], section, candidates, count);
	}
}

/* What may stand at the top: sections, and keys without one. */
static size_t top_names(char names[CANDIDATES_MAX][32], const char *out[CANDIDATES_MAX])
{
	size_t count = 0;

	for (; count < ARRAY_SIZE(not_keys); count++)
		out[count] = not_keys[count];
	for (size_t i = 0; i < policy_key_count; i++) {
		snprintf(names[count], sizeof(names[count]), "%.*s", (int)strcspn(policy_keys[i].name, "."), policy_keys[i].name);
		if (strcmp(out[count - 1], names[count]) != 0) { /* the keys of a section stand together */
			out[count] = names[count];
			count++;
		}
	}
	return count;
}

static bool is_section(const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (in_section(&policy_keys[i], name))
			return true;
	return false;
}

void load_keys(struct loader *l, const struct ynode *root)
{
	char names[CANDIDATES_MAX][32];
	const char *candidates[CANDIDATES_MAX];
	size_t count = top_names(names, candidates);

	check_map(l, root, "");
	for (size_t i = 0; i + 1 < root->count && !load_stopped(l); i += 2) {
		const struct ynode *k = &root->items[i], *v = &root->items[i + 1];
		const struct policy_key *key = strchr(k->text, '.') ? NULL : policy_key_find(k->text);

		if (!strcmp(k->text, not_keys[0]) || !strcmp(k->text, not_keys[1]))
			continue;
		if (key)
			put_key(l, key, k, v);
		else if (is_section(k->text))
			load_section(l, k->text, v);
		else
			unknown(l, k, "", candidates, count);
	}
}
