/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "policy/maps.h"
#include "policy/print.h"
#include "policy/profiles.h"

#define COMMENT_COLUMN 44

size_t policy_section(const struct policy_key *key)
{
	const char *dot = strchr(key->name, '.');

	return dot ? (size_t)(dot - key->name) : 0;
}

const char *policy_short_name(const struct policy_key *key)
{
	const size_t section = policy_section(key);

	return section ? key->name + section + 1 : key->name;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

/* Nothing that YAML, of whatever version, would read as anything but this text. */
static bool is_plain(const char *text)
{
	static const char *const taken[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", more[] = "0123456789_./-";

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (strcasecmp(text, taken[i]) == 0)
			return false;
	if (!text[0] || (!strchr(letters, text[0]) && !strchr("_/", text[0])))
		return false;
	for (const char *s = text; *s; s++)
		if (!strchr(letters, *s) && !strchr(more, *s))
			return false;
	return true;
}

/* A JSON string is a YAML one. */
void policy_print_scalar(const char *text, struct buf *out)
{
	struct json j = {.out = out};

	if (is_plain(text))
		buf_add_str(out, text);
	else
		json_str(&j, text);
}

static void print_assignment(const char *entry, struct buf *out)
{
	size_t len = strcspn(entry, "=");

	buf_addf(out, "%.*s: ", (int)len, entry);
	policy_print_scalar(entry + len + 1, out);
}

/* "443", "tcp", "[80, 443]" */
static void print_field(const struct policy_field *f, const struct strlist *values, struct buf *out)
{
	const bool list = policy_field_is_list(f), text = f->type == FIELD_TEXT || f->type == FIELD_TEXTS;

	buf_add_str(out, list ? "[" : "");
	for (size_t i = 0; i < values->count; i++) {
		buf_add_str(out, i > 0 ? ", " : "");
		if (text)
			policy_print_scalar(values->items[i], out);
		else
			buf_add_str(out, values->items[i]);
	}
	buf_add_str(out, list ? "]" : "");
}

static void print_map(const struct policy_map *map, const void *item, struct buf *out)
{
	bool any = false;

	buf_add_str(out, "{");
	for (size_t i = 0; i < map->count; i++) {
		struct strlist values = {0};

		if (policy_field_values(&map->fields[i], item, &values, NULL) < 0)
			out->failed = true;
		if (values.count > 0) {
			buf_addf(out, "%s%s: ", any ? ", " : "", map->fields[i].name);
			print_field(&map->fields[i], &values, out);
			any = true;
		}
		strlist_free(&values);
	}
	buf_add_str(out, "}");
}

static void print_item(const struct cordon_policy *p, const struct policy_key *key, const char *value, size_t i, struct buf *out)
{
	const struct maplist *list = (const void *)((const char *)p + key->offset);

	if (key->type == POLICY_MAPS)
		print_map(key->map, maplist_item(list, key->map, i), out);
	else if (key->type == POLICY_ASSIGN_LIST)
		print_assignment(value, out);
	else if (key->type == POLICY_LIST)
		policy_print_scalar(value, out);
	else
		buf_add_str(out, value); /* numbers, words, true and false are what they are */
}

void policy_print_value(const struct cordon_policy *p, const struct policy_key *key, struct buf *out)
{
	const bool list = policy_key_is_list(key), map = key->type == POLICY_ASSIGN_LIST;
	struct strlist values = {0};

	if (policy_values(p, key, &values, NULL) < 0)
		out->failed = true;
	buf_add_str(out, map ? "{" : list ? "[" : "");
	for (size_t i = 0; i < values.count; i++) {
		buf_add_str(out, i > 0 ? ", " : "");
		print_item(p, key, values.items[i], i, out);
	}
	buf_add_str(out, map ? "}" : list ? "]" : "");
	strlist_free(&values);
}

/* ---- the effective policy ----------------------------------------------------------------------------------------------------- */

/* A comment at the end of the line that begins at `start`, in a column of its own if that is free. */
static void add_comment(struct buf *out, size_t start, const char *text, const struct policy_origin *from)
{
	size_t width = out->len - start;
	_cleanup_buf_ struct buf where = {0};

	if (from)
		origin_text(from, &where);
	if (where.failed)
		out->failed = true;
	for (size_t i = 0; i < where.len; i++) /* a file may be called anything; its name stays on this line */
		where.data[i] = (unsigned char)where.data[i] < 0x20 || where.data[i] == 0x7f ? '?' : where.data[i];
	buf_addf(out, "%*s# %s%s%s\n", width < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - width) : 1, "", where.len ? where.data : "",
	         where.len && *text ? "; " : "", text);
}

static void print_list(const struct cordon_policy *p, const struct policy_origins *o, const struct policy_key *key, const char *indent,
                       struct buf *out)
{
	struct strlist values = {0};
	size_t start = out->len;

	if (policy_values(p, key, &values, NULL) < 0)
		out->failed = true;
	buf_addf(out, "%s%s:%s", indent, policy_short_name(key), values.count > 0 ? "" : key->type == POLICY_ASSIGN_LIST ? " {}" : " []");
	add_comment(out, start, key->help, values.count > 0 ? NULL : origins_of_key(o, key));
	for (size_t i = 0; i < values.count; i++) {
		const size_t place = key->type == POLICY_STATUSES ? strtoul(values.items[i], NULL, 10) : i;

		start = out->len;
		buf_addf(out, "%s  %s", indent, key->type == POLICY_ASSIGN_LIST ? "" : "- ");
		print_item(p, key, values.items[i], i, out);
		add_comment(out, start, "", origins_of(o, key, place));
	}
	strlist_free(&values);
}

static void print_key(const struct cordon_policy *p, const struct policy_origins *o, const struct policy_key *key, struct buf *out)
{
	const char *indent = policy_section(key) ? "  " : "";
	size_t start = out->len;

	if (policy_key_is_list(key)) {
		print_list(p, o, key, indent, out);
		return;
	}
	buf_addf(out, "%s%s: ", indent, policy_short_name(key));
	policy_print_value(p, key, out);
	add_comment(out, start, key->help, origins_of_key(o, key));
}

/* The next key in the order of the table, or NULL; *begins: it is the first of its section. */
static const struct policy_key *next_key(size_t *i, bool *begins)
{
	const size_t before = *i;

	while (*i < policy_key_count && policy_keys[*i].alias)
		++*i;
	if (*i >= policy_key_count)
		return NULL;
	const struct policy_key *key = &policy_keys[(*i)++];
	const size_t len = policy_section(key);
	*begins = before == 0 || len == 0 || len != policy_section(&policy_keys[before - 1]) ||
	          strncmp(policy_keys[before - 1].name, key->name, len) != 0;
	return key;
}

void policy_print_yaml(const struct cordon_policy *p, const struct policy_origins *o, struct buf *out)
{
	const struct policy_key *key;
	bool begins;

	buf_addf(out, "version: 1\nextends: %s\n", o->profile ? o->profile : policy_profiles[0].name);
	for (size_t i = 0; (key = next_key(&i, &begins));) {
		if (begins)
			buf_add_str(out, "\n");
		if (begins && policy_section(key))
			buf_addf(out, "%.*s:\n", (int)policy_section(key), key->name);
		print_key(p, o, key, out);
	}
}

/* ---- a file to begin with ----------------------------------------------------------------------------------------------------- */

static void print_fields(const struct policy_map *map, const char *indent, struct buf *out)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct policy_field *f = &map->fields[i];

		buf_addf(out, "%s#   %s: %s", indent, f->name, f->help);
		if (f->fallback)
			buf_addf(out, " (default %s)", f->fallback);
		buf_addf(out, "%s\n", f->required ? " (required)" : "");
	}
}

static void print_template_key(const struct cordon_policy *p, const struct policy_key *key, struct buf *out)
{
	const char *indent = policy_section(key) ? "  " : "";

	buf_addf(out, "%s# %s%s\n", indent, key->help, key->type == POLICY_MAPS ? "; a list of" : "");
	if (key->type == POLICY_MAPS)
		print_fields(key->map, indent, out);
	if (key->accumulates)
		buf_addf(out, "%s# (adds to what it extends)\n", indent);
	buf_addf(out, "%s# %s: ", indent, policy_short_name(key));
	policy_print_value(p, key, out);
	buf_add_str(out, "\n");
}

static const char template_head[] =
	"# A policy of cordon: what a sandbox may do. Values that are commented out are those of the profile; take the # away to change one.\n"
	"# A list replaces that of what is extended (an empty one grants nothing), a map is added to it. Check it with: cordon policy check FILE\n"
	"version: 1\n"
	"\n"
	"# What it starts from: a profile, or the path of another policy\n";

int policy_print_template(const char *profile, struct buf *out, struct cordon_error *err)
{
	struct cordon_policy p;
	const struct policy_key *key;
	bool begins;

	if (policy_init_profile(&p, profile, err) < 0)
		return -1;
	profile = profile ? profile : policy_profiles[0].name;
	buf_add_str(out, template_head);
	for (size_t i = 0; i < policy_profile_count; i++)
		buf_addf(out, "#   %s: %s\n", policy_profiles[i].name, policy_profiles[i].help);
	buf_addf(out, "extends: %s\n", profile);
	for (size_t i = 0; (key = next_key(&i, &begins));) {
		if (begins)
			buf_add_str(out, "\n");
		if (begins && policy_section(key))
			buf_addf(out, "%.*s:\n", (int)policy_section(key), key->name);
		print_template_key(&p, key, out);
	}
	policy_clear(&p);
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}
