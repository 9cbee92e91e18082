/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "policy/maps.h"
#include "policy/values.h"

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

static void *field(struct cordon_policy *p, const struct policy_key *key)
{
	return (char *)p + key->offset;
}

static const void *seen(const struct cordon_policy *p, const struct policy_key *key)
{
	return (const char *)p + key->offset;
}

static bool is_text_list(const struct policy_key *key)
{
	return key->type == POLICY_LIST || key->type == POLICY_ASSIGN_LIST;
}

bool policy_status_ok(const struct cordon_policy *p, int status)
{
	return status >= 0 && status <= 255 && (p->transaction.ok[status / 8] >> status % 8 & 1);
}

/* ---- setting ------------------------------------------------------------------------------------------------------------------ */

static size_t index_of(const struct strlist *list, const char *item, size_t len)
{
	size_t i = 0;

	while (i < list->count && strncmp(list->items[i], item, len) != 0)
		i++;
	return i;
}

static int assign(struct strlist *list, const char *value, size_t *index, struct cordon_error *err)
{
	if (strlist_assign(list, value, err) < 0)
		return -1;
	*index = index_of(list, value, strcspn(value, "=") + 1);
	return 0;
}

static int add_text(struct strlist *list, const struct policy_key *key, const char *value, size_t *index, struct cordon_error *err)
{
	_cleanup_free_ char *item = NULL;

	if (list->count >= POLICY_LIST_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %zu entries", POLICY_LIST_MAX);
	if (key->type == POLICY_ASSIGN_LIST)
		return assign(list, value, index, err);
	item = key->item->check(value, err);
	if (!item)
		return -1;
	*index = index_of(list, item, strlen(item) + 1);
	return *index < list->count ? 0 : strlist_add(list, item, err);
}

static int add_map(struct maplist *list, const struct policy_key *key, const char *value, size_t *index, struct cordon_error *err)
{
	*index = list->count;
	return maplist_add(list, key->map, value, err);
}

int policy_put(struct cordon_policy *p, const struct policy_key *key, const char *value, size_t *index, struct cordon_error *err)
{
	size_t ignored;
	int r = -1;

	index = index ? index : &ignored;
	*index = 0;
	switch (key->type) {
	case POLICY_SIZE:
	case POLICY_DURATION:
	case POLICY_CPUS:
	case POLICY_COUNT:
		return value_parse_number(key, value, field(p, key), err);
	case POLICY_BOOL:
		return value_parse_bool(key, value, field(p, key), err);
	case POLICY_STATUSES:
		return value_parse_statuses(key, value, field(p, key), index, err);
	case POLICY_WORD:
		r = value_parse_word(key->words, value, field(p, key), err);
		break;
	case POLICY_LIST:
	case POLICY_ASSIGN_LIST:
		r = add_text(field(p, key), key, value, index, err);
		break;
	case POLICY_MAPS:
		r = add_map(field(p, key), key, value, index, err);
		break;
	}
	return r < 0 ? err_wrap(err, "%s", key->name) : 0;
}

/* "limits, env, root": short enough for a hint. */
static void list_sections(struct buf *out)
{
	const char *before = NULL;

	for (size_t i = 0; i < policy_key_count; i++) {
		const char *name = policy_keys[i].name;
		size_t len = strcspn(name, ".");

		if (!before || strncmp(before, name, len) != 0 || (before[len] && before[len] != '.'))
			buf_addf(out, "%s%.*s", before ? ", " : "", (int)len, name);
		before = name;
	}
}

static int unknown_key(const char *key, struct cordon_error *err)
{
	const char *full[POLICY_KEYS_MAX], *last[POLICY_KEYS_MAX];
	_cleanup_buf_ struct buf sections = {0};
	const char *near, *short_near;

	for (size_t i = 0; i < policy_key_count; i++) {
		const char *dot = strchr(policy_keys[i].name, '.');

		full[i] = policy_keys[i].name;
		last[i] = dot ? dot + 1 : full[i];
	}
	err_set(err, CORDON_ERR_INPUT, "unknown policy key '%.60s'", key);
	near = nearest_word(key, full, policy_key_count);
	short_near = near ? NULL : nearest_word(key, last, policy_key_count); /* "memory" for "limits.memory" */
	for (size_t i = 0; short_near && !near && i < policy_key_count; i++)
		near = last[i] == short_near ? full[i] : NULL;
	if (near)
		return err_hint(err, "did you mean '%s'?", near);
	list_sections(&sections);
	return err_hint(err, "the keys are in %s; cordon policy init - shows all", sections.data ? sections.data : "");
}

void policy_empty(struct cordon_policy *p, const struct policy_key *key)
{
	if (is_text_list(key))
		strlist_free(field(p, key));
	else if (key->type == POLICY_MAPS)
		maplist_free(field(p, key), key->map);
	else if (key->type == POLICY_STATUSES)
		memset(field(p, key), 0, sizeof(p->transaction.ok));
}

static int empty_by_name(struct cordon_policy *p, const char *name, struct cordon_error *err)
{
	const struct policy_key *key = policy_key_find(name);

	if (!key)
		return unknown_key(name, err);
	if (!policy_key_is_list(key))
		return err_set(err, CORDON_ERR_INPUT, "clear: %s is not a list", name);
	policy_empty(p, key);
	return 0;
}

int policy_set(struct cordon_policy *p, const char *key, const char *value, struct cordon_error *err)
{
	const struct policy_key *k;

	if (!key || !value)
		return err_set(err, CORDON_ERR_INPUT, "a policy setting needs a key and a value");
	if (!strcmp(key, "clear"))
		return empty_by_name(p, value, err);
	k = policy_key_find(key);
	return k ? policy_put(p, k, value, NULL, err) : unknown_key(key, err);
}

/* ---- defaults ----------------------------------------------------------------------------------------------------------------- */

/* The next item of a default, "A, B"; its length. *s moves behind it, to NULL at the end. */
static size_t next_item(const struct policy_key *key, const char **s, const char **item)
{
	const char *end = is_text_list(key) ? strstr(*s, ", ") : NULL;
	size_t len = end ? (size_t)(end - *s) : strlen(*s);

	*item = *s;
	*s = end ? end + 2 : NULL;
	return len;
}

/* The defaults take the same way as what a user writes, so they are checked by the same rules. */
static int set_default(struct cordon_policy *p, const struct policy_key *key, struct cordon_error *err)
{
	const char *s = key->fallback;

	while (s) {
		const char *start;
		size_t len = next_item(key, &s, &start);
		_cleanup_free_ char *item = strndup(start, len);

		if (!item)
			return out_of_memory(err);
		if (policy_put(p, key, item, NULL, err) < 0)
			return -1;
	}
	return 0;
}

int policy_init(struct cordon_policy *p, struct cordon_error *err)
{
	*p = (struct cordon_policy){0};
	for (size_t i = 0; i < policy_key_count; i++) {
		if (set_default(p, &policy_keys[i], err) < 0) {
			policy_clear(p);
			return -1;
		}
	}
	return 0;
}

static bool list_is_default(const struct strlist *list, const struct policy_key *key)
{
	const char *s = key->fallback, *item;
	size_t i = 0;

	for (; s; i++) {
		size_t len = next_item(key, &s, &item);

		if (i >= list->count || strlen(list->items[i]) != len || memcmp(list->items[i], item, len) != 0)
			return false;
	}
	return i == list->count;
}

bool policy_is_default(const struct cordon_policy *p, const struct policy_key *key)
{
	uint8_t statuses[sizeof(p->transaction.ok)] = {0};
	uint64_t number = 0;
	unsigned word = 0;
	bool yes = false;
	size_t last;

	if (key->alias)
		key = policy_key_find(key->alias);
	switch (key->type) {
	case POLICY_SIZE:
	case POLICY_DURATION:
	case POLICY_CPUS:
	case POLICY_COUNT:
		return value_parse_number(key, key->fallback, &number, NULL) == 0 && *(const uint64_t *)seen(p, key) == number;
	case POLICY_BOOL:
		return value_parse_bool(key, key->fallback, &yes, NULL) == 0 && *(const bool *)seen(p, key) == yes;
	case POLICY_WORD:
		return value_parse_word(key->words, key->fallback, &word, NULL) == 0 && *(const unsigned *)seen(p, key) == word;
	case POLICY_STATUSES:
		return value_parse_statuses(key, key->fallback, statuses, &last, NULL) == 0 &&
		       memcmp(statuses, seen(p, key), sizeof(statuses)) == 0;
	case POLICY_LIST:
	case POLICY_ASSIGN_LIST:
		return list_is_default(seen(p, key), key);
	case POLICY_MAPS:
		return ((const struct maplist *)seen(p, key))->count == 0; /* no default has any */
	}
	return false;
}

/* ---- whole policies ----------------------------------------------------------------------------------------------------------- */

void policy_clear(struct cordon_policy *p)
{
	for (size_t i = 0; i < policy_key_count; i++)
		policy_empty(p, &policy_keys[i]);
	*p = (struct cordon_policy){0};
}

static int copy_list(struct cordon_policy *to, const struct cordon_policy *from, const struct policy_key *key, struct cordon_error *err)
{
	if (is_text_list(key))
		return strlist_copy(field(to, key), seen(from, key), err);
	return key->type == POLICY_MAPS ? maplist_copy(field(to, key), seen(from, key), key->map, err) : 0;
}

/* `to` is overwritten, so it need not be initialised; it is empty after a failure. */
static bool equal_texts(const struct strlist *a, const struct strlist *b)
{
	bool same = a->count == b->count;
	for (size_t i = 0; same && i < a->count; i++)
		same = strcmp(a->items[i], b->items[i]) == 0;
	return same;
}

bool policy_equal(const struct cordon_policy *a, const struct cordon_policy *b)
{
	struct cordon_policy x = *a, y = *b; /* what is left when the lists are taken out is numbers */
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		if (is_text_list(key)) {
			if (!equal_texts(field(&x, key), field(&y, key)))
				return false;
			memset(field(&x, key), 0, sizeof(struct strlist));
			memset(field(&y, key), 0, sizeof(struct strlist));
		} else if (key->type == POLICY_MAPS) {
			const struct maplist *one = field(&x, key), *other = field(&y, key);
			if ((one->count || other->count) && policy_same(a, b, key, NULL) != 1)
				return false;
			memset(field(&x, key), 0, sizeof(struct maplist));
			memset(field(&y, key), 0, sizeof(struct maplist));
		}
	}
	return memcmp(&x, &y, sizeof(x)) == 0;
}

int policy_copy(struct cordon_policy *to, const struct cordon_policy *from, struct cordon_error *err)
{
	*to = *from;
	for (size_t i = 0; i < policy_key_count; i++) { /* the lists are still those of the other one */
		const struct policy_key *key = &policy_keys[i];

		if (is_text_list(key))
			*(struct strlist *)field(to, key) = (struct strlist){0};
		else if (key->type == POLICY_MAPS)
			*(struct maplist *)field(to, key) = (struct maplist){0};
	}
	for (size_t i = 0; i < policy_key_count; i++) {
		if (copy_list(to, from, &policy_keys[i], err) < 0) {
			policy_clear(to);
			return -1;
		}
	}
	return 0;
}

/* ---- as text ------------------------------------------------------------------------------------------------------------------ */

static int add_statuses(const struct cordon_policy *p, struct strlist *out, struct cordon_error *err)
{
	char text[8];

	for (int status = 0; status <= 255; status++) {
		snprintf(text, sizeof(text), "%d", status);
		if (policy_status_ok(p, status) && strlist_add(out, text, err) < 0)
			return -1;
	}
	return 0;
}

static int add_maps(const struct maplist *list, const struct policy_map *map, struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < list->count; i++) {
		_cleanup_buf_ struct buf text = {0};

		policy_item_text(map, maplist_item(list, map, i), &text);
		if (text.failed)
			return out_of_memory(err);
		if (strlist_add(out, text.data, err) < 0)
			return -1;
	}
	return 0;
}

static int add_items(const struct strlist *list, struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < list->count; i++)
		if (strlist_add(out, list->items[i], err) < 0)
			return -1;
	return 0;
}

int policy_values(const struct cordon_policy *p, const struct policy_key *key, struct strlist *out, struct cordon_error *err)
{
	char text[VALUE_TEXT_MAX];

	switch (key->type) {
	case POLICY_SIZE:
	case POLICY_DURATION:
	case POLICY_CPUS:
	case POLICY_COUNT:
		return strlist_add(out, value_format_number(key, *(const uint64_t *)seen(p, key), text), err);
	case POLICY_BOOL:
		return strlist_add(out, *(const bool *)seen(p, key) ? "true" : "false", err);
	case POLICY_WORD:
		return strlist_add(out, key->words[*(const unsigned *)seen(p, key)], err);
	case POLICY_STATUSES:
		return add_statuses(p, out, err);
	case POLICY_LIST:
	case POLICY_ASSIGN_LIST:
		return add_items(seen(p, key), out, err);
	case POLICY_MAPS:
		return add_maps(seen(p, key), key->map, out, err);
	}
	return -1;
}

static bool same_items(const struct strlist *a, const struct strlist *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return a->count == b->count;
}

static int add_setting(struct strlist *out, const char *key, const char *value, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};

	buf_addf(&text, "%s=%s", key, value);
	return text.failed ? out_of_memory(err) : strlist_add(out, text.data, err);
}

int policy_key_settings(const struct cordon_policy *p, const struct policy_key *key, struct strlist *out, struct cordon_error *err)
{
	struct strlist values = {0};
	int r = policy_values(p, key, &values, err);

	if (r == 0 && policy_key_is_list(key))
		r = add_setting(out, "clear", key->name, err);
	for (size_t i = 0; r == 0 && i < values.count; i++)
		r = add_setting(out, key->name, values.items[i], err);
	strlist_free(&values);
	return r;
}

int policy_same(const struct cordon_policy *a, const struct cordon_policy *b, const struct policy_key *key, struct cordon_error *err)
{
	struct strlist one = {0}, other = {0};
	int r = policy_values(a, key, &one, err) < 0 || policy_values(b, key, &other, err) < 0 ? -1 : same_items(&one, &other);

	strlist_free(&one);
	strlist_free(&other);
	return r;
}

int policy_settings(const struct cordon_policy *p, const struct cordon_policy *base, struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		int same = key->alias ? 1 : policy_same(p, base, key, err);

		if (same < 0 || (!same && policy_key_settings(p, key, out, err) < 0))
			return -1;
	}
	return 0;
}
