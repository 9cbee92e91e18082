/* SPDX-License-Identifier: Apache-2.0 */
/* The schema for editors, the reference for people, and the effective policy for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "policy/maps.h"
#include "policy/print.h"
#include "policy/profiles.h"
#include "policy/values.h"

static const char size_pattern[] = "^[0-9]+(\\.[0-9]+)?([KMGTPkmgtp]([Bb]|i[Bb]|IB)?|[Bb])?$";
static const char duration_pattern[] = "^[0-9]+(\\.[0-9]+)?(ms|s|m|min|h|d)?$";

/* ---- the schema --------------------------------------------------------------------------------------------------------------- */

static void add_words(struct json *j, const char *const *words)
{
	json_key(j, "enum");
	json_array(j);
	for (; *words; words++)
		json_str(j, *words);
	json_end(j);
}

/* {"type":"string","pattern":…} inside an object that is open. */
static void add_text_type(struct json *j, const char *pattern)
{
	json_kstr(j, "type", "string");
	if (pattern)
		json_kstr(j, "pattern", pattern);
}

static void add_integer(struct json *j, uint64_t min, uint64_t max)
{
	json_kstr(j, "type", "integer");
	json_kint(j, "minimum", (int64_t)min);
	json_kint(j, "maximum", (int64_t)max);
}

static void add_item_schema(struct json *j, const struct policy_item *item)
{
	json_object(j);
	add_text_type(j, item->pattern);
	json_kstr(j, "description", item->noun);
	json_end(j);
}

/* A size or a duration: a number, a text with a unit, or the word for "no limit". */
static void add_quantity(struct json *j, const struct policy_key *key, const char *pattern)
{
	json_key(j, "anyOf");
	json_array(j);
	json_object(j);
	json_kstr(j, "type", "number");
	json_kint(j, "exclusiveMinimum", 0);
	json_end(j);
	json_object(j);
	add_text_type(j, pattern);
	json_end(j);
	if (key->words) {
		json_object(j);
		json_kstr(j, "const", key->words[0]);
		json_end(j);
	}
	json_end(j);
}

static void add_port_schema(struct json *j)
{
	json_object(j);
	add_integer(j, 1, UINT16_MAX);
	json_end(j);
}

static void add_field_schema(struct json *j, const struct policy_field *f)
{
	json_key(j, f->name);
	json_object(j);
	if (f->type == FIELD_TEXT) {
		add_text_type(j, f->item->pattern);
	} else if (f->type == FIELD_WORD) {
		add_words(j, f->words);
	} else if (f->type == FIELD_PORT) {
		add_integer(j, f->any ? 0 : 1, UINT16_MAX);
	} else {
		json_kstr(j, "type", "array");
		json_kint(j, "minItems", 1);
		json_kint(j, "maxItems", f->type == FIELD_PORTS ? POLICY_PORTS_MAX : (int64_t)POLICY_LIST_MAX);
		json_key(j, "items");
		if (f->type == FIELD_PORTS)
			add_port_schema(j);
		else
			add_item_schema(j, f->item);
	}
	json_kstr(j, "description", f->help);
	json_end(j);
}

static void add_map_schema(struct json *j, const struct policy_map *map)
{
	json_object(j);
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_key(j, "required");
	json_array(j);
	for (size_t i = 0; i < map->count; i++)
		if (map->fields[i].required)
			json_str(j, map->fields[i].name);
	json_end(j);
	json_key(j, "properties");
	json_object(j);
	for (size_t i = 0; i < map->count; i++)
		add_field_schema(j, &map->fields[i]);
	json_end(j);
	json_end(j);
}

static void add_list(struct json *j, const struct policy_key *key)
{
	json_kstr(j, "type", "array");
	json_kint(j, "maxItems", (int64_t)POLICY_LIST_MAX);
	json_key(j, "items");
	if (key->type == POLICY_MAPS) {
		add_map_schema(j, key->map);
	} else if (key->type == POLICY_LIST) {
		add_item_schema(j, key->item);
	} else {
		json_object(j);
		add_integer(j, 0, 255);
		json_end(j);
	}
}

/* NAME: VALUE; values are taken as they are written. */
static void add_assignments(struct json *j)
{
	json_kstr(j, "type", "object");
	json_key(j, "propertyNames");
	json_object(j);
	json_kstr(j, "pattern", "^[A-Za-z_][A-Za-z0-9_]*$");
	json_end(j);
	json_key(j, "additionalProperties");
	json_object(j);
	json_key(j, "type");
	json_array(j);
	json_str(j, "string");
	json_str(j, "number");
	json_str(j, "boolean");
	json_end(j);
	json_end(j);
}

static void add_type(struct json *j, const struct policy_key *key)
{
	switch (key->type) {
	case POLICY_SIZE:
		add_quantity(j, key, size_pattern);
		break;
	case POLICY_DURATION:
		add_quantity(j, key, duration_pattern);
		break;
	case POLICY_CPUS:
		json_kstr(j, "type", "number");
		json_kdouble(j, "minimum", (double)key->min / 1000);
		json_kdouble(j, "maximum", (double)key->max / 1000);
		break;
	case POLICY_COUNT:
		add_integer(j, key->min, key->max);
		break;
	case POLICY_BOOL:
		json_kstr(j, "type", "boolean");
		break;
	case POLICY_WORD:
		add_words(j, key->words);
		break;
	case POLICY_LIST:
	case POLICY_STATUSES:
	case POLICY_MAPS:
		add_list(j, key);
		break;
	case POLICY_ASSIGN_LIST:
		add_assignments(j);
		break;
	}
}

static void add_key_schema(struct json *j, const struct policy_key *key)
{
	json_key(j, policy_short_name(key));
	json_object(j);
	add_type(j, key);
	json_kstr(j, "description", key->help);
	json_end(j);
}

static bool same_section(const struct policy_key *a, const struct policy_key *b)
{
	size_t len = policy_section(a);

	return len > 0 && len == policy_section(b) && strncmp(a->name, b->name, len) == 0;
}

/* A section whose keys are all commented out is there, and empty: null. */
static void begin_section_schema(struct json *j, const struct policy_key *first)
{
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)policy_section(first), first->name);
	json_key(j, name);
	json_object(j);
	json_key(j, "type");
	json_array(j);
	json_str(j, "object");
	json_str(j, "null");
	json_end(j);
	json_kbool(j, "additionalProperties", false);
	json_key(j, "properties");
	json_object(j);
}

static void add_sections(struct json *j)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];

		if (policy_section(key) && (i == 0 || !same_section(key, key - 1)))
			begin_section_schema(j, key);
		add_key_schema(j, key);
		if (policy_section(key) && (i + 1 == policy_key_count || !same_section(key, key + 1))) {
			json_end(j);
			json_end(j);
		}
	}
}

/* "section.key" is given. */
static void add_given(struct json *j, const struct policy_key *key)
{
	char section[32];

	snprintf(section, sizeof(section), "%.*s", (int)policy_section(key), key->name);
	json_object(j);
	json_key(j, "required");
	json_array(j);
	json_str(j, section);
	json_end(j);
	json_key(j, "properties");
	json_object(j);
	json_key(j, section);
	json_object(j);
	json_kstr(j, "type", "object");
	json_key(j, "required");
	json_array(j);
	json_str(j, policy_short_name(key));
	json_end(j);
	json_end(j);
	json_end(j);
	json_end(j);
}

/* Two names of one value are not both given. */
static void add_exclusions(struct json *j)
{
	json_key(j, "allOf");
	json_array(j);
	for (size_t i = 0; i < policy_key_count; i++) {
		if (!policy_keys[i].alias)
			continue;
		json_object(j);
		json_key(j, "not");
		json_object(j);
		json_key(j, "allOf");
		json_array(j);
		add_given(j, &policy_keys[i]);
		add_given(j, policy_key_find(policy_keys[i].alias));
		json_end(j);
		json_end(j);
		json_end(j);
	}
	json_end(j);
}

void policy_print_schema(struct buf *out)
{
	struct json j = {.out = out};

	json_object(&j);
	json_kstr(&j, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_kstr(&j, "title", "cordon policy");
	json_kstr(&j, "description", "what a sandbox may do");
	json_kstr(&j, "type", "object");
	json_kbool(&j, "additionalProperties", false);
	json_key(&j, "required");
	json_array(&j);
	json_str(&j, "version");
	json_end(&j);
	add_exclusions(&j);
	json_key(&j, "properties");
	json_object(&j);
	json_key(&j, "version");
	json_object(&j);
	json_kint(&j, "const", 1);
	json_end(&j);
	json_key(&j, "extends");
	json_object(&j);
	json_kstr(&j, "type", "string");
	json_kstr(&j, "description", "a profile (default, locked, dev) or the path of another policy, relative to this one");
	json_end(&j);
	add_sections(&j);
	json_end(&j);
	json_end(&j);
	buf_add_str(out, "\n");
}

/* ---- the reference ------------------------------------------------------------------------------------------------------------ */

/* "|" would end a cell. */
static void add_cell(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_addf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

static void add_kind(struct buf *out, const struct policy_key *key)
{
	static const char *const nouns[] = {
		[POLICY_SIZE] = "size",
		[POLICY_DURATION] = "duration",
		[POLICY_CPUS] = "number",
		[POLICY_COUNT] = "number",
		[POLICY_BOOL] = "`true` or `false`",
		[POLICY_ASSIGN_LIST] = "map of names and values",
		[POLICY_STATUSES] = "list of exit statuses",
		[POLICY_MAPS] = "list of maps, see below",
	};
	char min[VALUE_TEXT_MAX], max[VALUE_TEXT_MAX];

	if (key->type == POLICY_WORD) {
		for (size_t i = 0; key->words[i]; i++)
			buf_addf(out, "%s`%s`", i == 0 ? "" : key->words[i + 1] ? ", " : " or ", key->words[i]);
	} else if (key->type == POLICY_LIST) {
		buf_add_str(out, "list: ");
		add_cell(out, key->item->noun);
	} else {
		buf_add_str(out, nouns[key->type]);
	}
	if (!policy_key_is_list(key) && key->type != POLICY_BOOL && key->type != POLICY_WORD)
		buf_addf(out, ", %s to %s", value_format_number(key, key->min, min), value_format_number(key, key->max, max));
	if (key->words && key->type != POLICY_WORD)
		buf_addf(out, ", or `%s`", key->words[0]);
}

static void add_default(struct buf *out, const struct cordon_policy *defaults, const struct policy_key *key)
{
	_cleanup_buf_ struct buf value = {0};

	if (key->alias)
		return;
	policy_print_value(defaults, key, &value);
	buf_add_str(out, "`");
	add_cell(out, value.data ? value.data : "");
	buf_add_str(out, "`");
}

static void add_row(struct buf *out, const struct cordon_policy *defaults, const struct policy_key *key)
{
	buf_addf(out, "| `%s` | ", key->name);
	add_kind(out, key);
	buf_add_str(out, " | ");
	add_default(out, defaults, key);
	buf_add_str(out, " | ");
	add_cell(out, key->help);
	buf_addf(out, "%s |\n", key->accumulates ? "; adds to what it extends" : "");
}

static void add_fields(struct buf *out, const struct policy_key *key)
{
	buf_addf(out, "\nEach item of `%s`:\n\n| field | default | meaning |\n|---|---|---|\n", key->name);
	for (size_t i = 0; i < key->map->count; i++) {
		const struct policy_field *f = &key->map->fields[i];

		buf_addf(out, "| `%s` | %s%s%s | ", f->name, f->fallback ? "`" : "",
		         f->fallback   ? f->fallback
		         : f->required ? "required"
		                       : "",
		         f->fallback ? "`" : "");
		add_cell(out, f->help);
		buf_add_str(out, " |\n");
	}
}

void policy_print_markdown(struct buf *out)
{
	struct cordon_policy defaults;

	if (policy_init(&defaults, NULL) < 0) {
		out->failed = true;
		return;
	}
	buf_add_str(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < policy_key_count; i++)
		add_row(out, &defaults, &policy_keys[i]);
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_keys[i].type == POLICY_MAPS)
			add_fields(out, &policy_keys[i]);
	policy_clear(&defaults);
}
