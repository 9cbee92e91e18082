/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "policy/maps.h"
#include "policy/print.h"

static void add_origin(struct json *j, const struct policy_origin *from)
{
	static const char *const kinds[] = {[ORIGIN_PROFILE] = "profile", [ORIGIN_FILE] = "file", [ORIGIN_OPTION] = "option"};

	json_key(j, "origin");
	if (from->kind == ORIGIN_NONE) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "kind", kinds[from->kind]);
	json_kstr(j, "name", from->name);
	if (from->kind == ORIGIN_FILE) {
		json_kint(j, "line", from->line);
		json_kint(j, "column", from->column);
	}
	json_end(j);
}

/* Numbers that have no unit are numbers. */
static void add_scalar(struct json *j, const struct policy_key *key, const char *value)
{
	if (key->type == POLICY_BOOL)
		json_bool(j, strcmp(value, "true") == 0);
	else if (key->type == POLICY_COUNT || key->type == POLICY_STATUSES)
		json_int(j, (int64_t)strtoll(value, NULL, 10));
	else
		json_str(j, value);
}

static void add_field(struct json *j, const struct policy_field *f, const void *item)
{
	const bool number = f->type == FIELD_PORT || f->type == FIELD_PORTS, list = policy_field_is_list(f);
	struct strlist values = {0};

	if (policy_field_values(f, item, &values, NULL) < 0)
		j->out->failed = true;
	json_key(j, f->name);
	if (list)
		json_array(j);
	else if (values.count == 0)
		json_null(j);
	for (size_t i = 0; i < values.count; i++) {
		if (number)
			json_int(j, (int64_t)strtoll(values.items[i], NULL, 10));
		else
			json_str(j, values.items[i]);
	}
	if (list)
		json_end(j);
	strlist_free(&values);
}

static void add_item(struct json *j, const struct cordon_policy *p, const struct policy_key *key, const char *value, size_t i)
{
	const struct maplist *list = (const void *)((const char *)p + key->offset);

	json_key(j, "value");
	if (key->type != POLICY_MAPS) {
		add_scalar(j, key, value);
		return;
	}
	json_object(j);
	for (size_t f = 0; f < key->map->count; f++)
		add_field(j, &key->map->fields[f], maplist_item(list, key->map, i));
	json_end(j);
}

static void add_items(struct json *j, const struct cordon_policy *p, const struct policy_origins *o, const struct policy_key *key,
                      const struct strlist *values)
{
	json_key(j, "items");
	json_array(j);
	for (size_t i = 0; i < values->count; i++) {
		json_object(j);
		add_item(j, p, key, values->items[i], i);
		add_origin(j, origins_of(o, key, key->type == POLICY_STATUSES ? strtoul(values->items[i], NULL, 10) : i));
		json_end(j);
	}
	json_end(j);
}

void policy_print_json(const struct cordon_policy *p, const struct policy_origins *o, struct json *j)
{
	json_array(j);
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		struct strlist values = {0};

		if (key->alias)
			continue;
		if (policy_values(p, key, &values, NULL) < 0)
			j->out->failed = true;
		json_object(j);
		json_kstr(j, "key", key->name);
		if (policy_key_is_list(key))
			add_items(j, p, o, key, &values);
		else if (values.count == 1)
			add_item(j, p, key, values.items[0], 0);
		add_origin(j, origins_of_key(o, key));
		json_kstr(j, "help", key->help);
		json_end(j);
		strlist_free(&values);
	}
	json_end(j);
}
