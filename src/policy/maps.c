/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/maps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "policy/items.h"
#include "policy/values.h"

const char *const policy_languages[] = {
	[LANGUAGE_PYTHON] = "python",
	[LANGUAGE_JAVASCRIPT] = "javascript",
	[LANGUAGE_TYPESCRIPT] = "typescript",
	[LANGUAGE_RUBY] = "ruby",
	[LANGUAGE_BASH] = "bash",
	[LANGUAGE_COUNT] = NULL,
};
const char *const policy_protocols[] = {[PROTOCOL_WEB] = "web", [PROTOCOL_TCP] = "tcp", [PROTOCOL_COUNT] = NULL};

#define OUT(member) offsetof(struct policy_outbound, member)
#define PATTERN(member) offsetof(struct policy_pattern, member)
#define SECRET(member) offsetof(struct policy_secret, member)

/* clang-format off */
static const struct policy_field outbound_fields[] = {
	{.name = "host", .type = FIELD_TEXT, .offset = OUT(host), .required = true, .item = &item_host,
	 .help = "a name, a *.suffix (without the bare suffix) or ADDRESS/PREFIX; private addresses only by the latter"},
	{.name = "ports", .type = FIELD_PORTS, .offset = OUT(ports), .fallback = "80,443", .help = "1 to 65535, at most 32 of them"},
	{.name = "protocol", .type = FIELD_WORD, .offset = OUT(protocol), .fallback = "web", .words = policy_protocols,
	 .help = "web: TLS or HTTP, whose server name is checked; tcp: anything else (ssh, postgres)"},
};
static const struct policy_field inbound_fields[] = {
	{.name = "port", .type = FIELD_PORT, .offset = offsetof(struct policy_inbound, port), .required = true,
	 .help = "a port inside, 1 to 65535"},
	{.name = "host_port", .type = FIELD_PORT, .offset = offsetof(struct policy_inbound, host_port), .any = true,
	 .help = "the port of 127.0.0.1 and ::1 by which the host reaches it, 0 for any that is free; the same number, if it is not given"},
};
static const struct policy_field pattern_fields[] = {
	{.name = "language", .type = FIELD_WORD, .offset = PATTERN(language), .required = true, .words = policy_languages,
	 .help = "which code it is about; bash: shell lines, too"},
	{.name = "match", .type = FIELD_TEXT, .offset = PATTERN(match), .required = true, .item = &item_text,
	 .help = "what to look for"},
	{.name = "reason", .type = FIELD_TEXT, .offset = PATTERN(reason), .item = &item_text, .help = "what the user is told"},
};
static const struct policy_field secret_fields[] = {
	{.name = "from", .type = FIELD_TEXT, .offset = SECRET(from), .required = true, .item = &item_secret,
	 .help = "store:NAME (cordon secret set) or env:NAME (a variable of the caller)"},
	{.name = "hosts", .type = FIELD_TEXTS, .offset = SECRET(hosts), .required = true, .item = &item_named_host,
	 .help = "the only hosts it is sent to, over verified TLS"},
	{.name = "header", .type = FIELD_TEXT, .offset = SECRET(header), .fallback = "Authorization", .item = &item_header,
	 .help = "the header that carries it"},
	{.name = "format", .type = FIELD_TEXT, .offset = SECRET(format), .fallback = "Bearer {}", .item = &item_format,
	 .help = "the header's value; {} is the secret"},
	{.name = "env", .type = FIELD_TEXT, .offset = SECRET(env), .item = &item_placeholder,
	 .help = "a variable inside that holds a placeholder, which is swapped on the way out"},
	{.name = "methods", .type = FIELD_TEXTS, .offset = SECRET(methods), .item = &item_method,
	 .help = "the only methods that requests to these hosts may have; all, if it is not given"},
	{.name = "paths", .type = FIELD_TEXTS, .offset = SECRET(paths), .item = &item_url_path,
	 .help = "patterns of the only paths that they may ask for, such as /v1/**; all, if it is not given"},
};
/* clang-format on */

const struct policy_map map_outbound = {sizeof(struct policy_outbound), outbound_fields, ARRAY_SIZE(outbound_fields), SHORT_HOST_PORTS};
const struct policy_map map_inbound = {sizeof(struct policy_inbound), inbound_fields, ARRAY_SIZE(inbound_fields), SHORT_HOST_PORT};
const struct policy_map map_pattern = {sizeof(struct policy_pattern), pattern_fields, ARRAY_SIZE(pattern_fields), SHORT_FIRST};
const struct policy_map map_secret = {sizeof(struct policy_secret), secret_fields, ARRAY_SIZE(secret_fields), SHORT_FIRST};

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

static void *place(const struct policy_field *f, void *item)
{
	return (char *)item + f->offset;
}

static const void *seen(const struct policy_field *f, const void *item)
{
	return (const char *)item + f->offset;
}

const struct policy_field *policy_field_find(const struct policy_map *map, const char *name, size_t len)
{
	for (size_t i = 0; i < map->count; i++)
		if (strlen(map->fields[i].name) == len && memcmp(map->fields[i].name, name, len) == 0)
			return &map->fields[i];
	return NULL;
}

bool policy_field_is_list(const struct policy_field *f)
{
	return f->type == FIELD_TEXTS || f->type == FIELD_PORTS;
}

/* ---- one field ---------------------------------------------------------------------------------------------------------------- */

static int put_text(const struct policy_field *f, char **text, const char *value, struct cordon_error *err)
{
	char *normal = f->item->check(value, err);

	if (!normal)
		return -1;
	free(*text);
	*text = normal;
	return 0;
}

static int put_texts(const struct policy_field *f, struct strlist *list, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *normal = f->item->check(value, err);

	if (!normal)
		return -1;
	if (list->count >= POLICY_LIST_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %zu entries", POLICY_LIST_MAX);
	return strlist_has(list, normal) ? 0 : strlist_add(list, normal, err);
}

static int put_port(const struct policy_field *f, struct policy_ports *ports, const char *value, struct cordon_error *err)
{
	uint64_t n;

	if (units_parse_count(value, f->any ? 0 : 1, UINT16_MAX, &n, NULL) < 0)
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a port (write 1 to 65535%s)", value, f->any ? ", or 0 for any" : "");
	for (size_t i = 0; i < ports->count; i++)
		if (ports->items[i] == n)
			return 0;
	if (f->type == FIELD_PORT)
		ports->count = 0;
	if (ports->count >= POLICY_PORTS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %d ports", POLICY_PORTS_MAX);
	ports->items[ports->count++] = (uint16_t)n;
	return 0;
}

static int put_value(const struct policy_field *f, void *item, const char *value, struct cordon_error *err)
{
	switch (f->type) {
	case FIELD_TEXT:
		return put_text(f, place(f, item), value, err);
	case FIELD_TEXTS:
		return put_texts(f, place(f, item), value, err);
	case FIELD_PORT:
	case FIELD_PORTS:
		return put_port(f, place(f, item), value, err);
	case FIELD_WORD:
		return value_parse_word(f->words, value, place(f, item), err);
	}
	return -1;
}

static int add_port_values(const struct policy_ports *ports, struct strlist *out, struct cordon_error *err)
{
	char text[8];

	for (size_t i = 0; i < ports->count; i++) {
		snprintf(text, sizeof(text), "%u", (unsigned)ports->items[i]);
		if (strlist_add(out, text, err) < 0)
			return -1;
	}
	return 0;
}

int policy_field_values(const struct policy_field *f, const void *item, struct strlist *out, struct cordon_error *err)
{
	const char *const *text = seen(f, item);
	const struct strlist *list = seen(f, item);

	switch (f->type) {
	case FIELD_TEXT:
		return *text ? strlist_add(out, *text, err) : 0;
	case FIELD_WORD:
		return strlist_add(out, f->words[*(const unsigned *)seen(f, item)], err);
	case FIELD_PORT:
	case FIELD_PORTS:
		return add_port_values(seen(f, item), out, err);
	case FIELD_TEXTS:
		for (size_t i = 0; i < list->count; i++)
			if (strlist_add(out, list->items[i], err) < 0)
				return -1;
		return 0;
	}
	return -1;
}

static void clear_item(const struct policy_map *map, void *item)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct policy_field *f = &map->fields[i];

		if (f->type == FIELD_TEXT)
			free(*(char **)place(f, item));
		else if (f->type == FIELD_TEXTS)
			strlist_free(place(f, item));
	}
}

/* ---- drafts ------------------------------------------------------------------------------------------------------------------- */

int policy_draft_begin(struct policy_draft *d, const struct policy_map *map, struct cordon_error *err)
{
	*d = (struct policy_draft){.map = map, .item = malloc(map->size)};
	if (!d->item)
		return out_of_memory(err);
	memset(d->item, 0, map->size);
	return 0;
}

void policy_draft_clear(struct policy_draft *d)
{
	if (d->item)
		clear_item(d->map, d->item);
	free(d->item);
	*d = (struct policy_draft){0};
}

int policy_draft_put(struct policy_draft *d, const struct policy_field *f, const char *value, struct cordon_error *err)
{
	if (put_value(f, d->item, value, err) < 0)
		return -1;
	d->given |= UINT32_C(1) << (f - d->map->fields);
	return 0;
}

/* One value, or several with commas between them. */
static int put_several(struct policy_draft *d, const struct policy_field *f, const char *text, struct cordon_error *err)
{
	if (!policy_field_is_list(f))
		return policy_draft_put(d, f, text, err);
	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		_cleanup_free_ char *value = strndup(s, len);

		if (!value)
			return out_of_memory(err);
		if (policy_draft_put(d, f, value, err) < 0)
			return -1;
		s += len;
		if (!*s)
			return 0;
	}
}

static int complete(struct policy_draft *d, struct cordon_error *err)
{
	for (size_t i = 0; i < d->map->count; i++) {
		const struct policy_field *f = &d->map->fields[i];

		if (d->given >> i & 1)
			continue;
		if (f->required)
			return err_set(err, CORDON_ERR_INPUT, "'%s' is missing (%s)", f->name, f->help);
		if (f->fallback && put_several(d, f, f->fallback, err) < 0)
			return err_wrap(err, "%s", f->name);
	}
	return 0;
}

int policy_draft_finish(struct policy_draft *d, struct maplist *list, struct cordon_error *err)
{
	size_t size = d->map->size;
	void *items;

	if (complete(d, err) < 0)
		return -1;
	if (list->count >= POLICY_LIST_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %zu entries", POLICY_LIST_MAX);
	items = realloc(list->items, (list->count + 1) * size);
	if (!items)
		return out_of_memory(err);
	list->items = items;
	memcpy((char *)items + list->count++ * size, d->item, size);
	free(d->item); /* what it pointed to is the list's now */
	*d = (struct policy_draft){0};
	return 0;
}

/* ---- as one string ------------------------------------------------------------------------------------------------------------ */

static void add_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == ';' || *text == '%')
			buf_addf(out, "%%%02X", (unsigned)*text);
		else
			buf_add(out, text, 1);
	}
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place. False: a "%" that stands for nothing, or for the NUL. */
static bool unescape(char *text)
{
	char *to = text;

	for (const char *s = text; *s; s++) {
		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		if (hex(s[1]) < 0 || hex(s[2]) < 0 || (hex(s[1]) == 0 && hex(s[2]) == 0))
			return false;
		*to++ = (char)(hex(s[1]) * 16 + hex(s[2]));
		s += 2;
	}
	*to = '\0';
	return true;
}

void policy_item_text(const struct policy_map *map, const void *item, struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < map->count; i++) {
		struct strlist values = {0};

		if (policy_field_values(&map->fields[i], item, &values, NULL) < 0)
			out->failed = true;
		if (values.count > 0) {
			buf_addf(out, "%s%s=", any ? ";" : "", map->fields[i].name);
			any = true;
		}
		for (size_t k = 0; k < values.count; k++) {
			buf_add_str(out, k > 0 ? "," : "");
			add_escaped(out, values.items[k]);
		}
		strlist_free(&values);
	}
}

/* "NAME=VALUE" */
static int put_pair(struct policy_draft *d, char *pair, struct cordon_error *err)
{
	size_t len = strcspn(pair, "=");
	const struct policy_field *f = policy_field_find(d->map, pair, len);

	if (!f || !pair[len])
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not of the form FIELD=VALUE", pair);
	if (d->given >> (f - d->map->fields) & 1)
		return err_set(err, CORDON_ERR_INPUT, "'%s' is given twice", f->name);
	if (!unescape(pair + len + 1))
		return err_set(err, CORDON_ERR_INPUT, "%s: '%%' is written %%25, and ';' %%3B", f->name);
	return put_several(d, f, pair + len + 1, err) < 0 ? err_wrap(err, "%s", f->name) : 0;
}

static bool is_pairs(const struct policy_map *map, const char *text)
{
	size_t len = strcspn(text, "=");

	return text[len] && policy_field_find(map, text, len);
}

/* HOST, HOST:PORTS, [HOST], [HOST]:PORTS: cuts the ports off, NULL if there are none, and the brackets. */
static char *cut_ports(char **text)
{
	char *colon = strrchr(*text, ':'), *close = strrchr(*text, ']');

	if ((*text)[0] == '[' && close && (!close[1] || close[1] == ':')) {
		++*text;
		colon = close[1] ? close + 1 : NULL;
		*close = '\0';
	} else if (colon && strchr(*text, ':') != colon) {
		colon = NULL; /* several: an address */
	}
	if (!colon)
		return NULL;
	*colon = '\0';
	return colon + 1;
}

static int put_short_form(struct policy_draft *d, char *text, struct cordon_error *err)
{
	char *ports = d->map->short_form == SHORT_HOST_PORTS ? cut_ports(&text) : NULL;
	char *colon = d->map->short_form == SHORT_HOST_PORT ? strchr(text, ':') : NULL;

	if (colon) {
		*colon = '\0';
		if (policy_draft_put(d, policy_field_find(d->map, "host_port", 9), text, err) < 0)
			return -1;
		text = colon + 1;
	}
	if (policy_draft_put(d, &d->map->fields[0], text, err) < 0)
		return -1;
	return ports ? put_several(d, policy_field_find(d->map, "ports", 5), ports, err) : 0;
}

static int read_text(struct policy_draft *d, char *text, struct cordon_error *err)
{
	if (!is_pairs(d->map, text))
		return put_short_form(d, text, err);
	for (char *s = text, *next; s; s = next) {
		next = strchr(s, ';');
		if (next)
			*next++ = '\0';
		if (put_pair(d, s, err) < 0)
			return -1;
	}
	return 0;
}

int maplist_add(struct maplist *list, const struct policy_map *map, const char *text, struct cordon_error *err)
{
	_cleanup_free_ char *copy = strdup(text);
	struct policy_draft d = {0};
	int r = -1;

	if (!copy)
		return out_of_memory(err);
	if (policy_draft_begin(&d, map, err) == 0 && read_text(&d, copy, err) == 0)
		r = policy_draft_finish(&d, list, err);
	policy_draft_clear(&d);
	return r;
}

/* ---- lists -------------------------------------------------------------------------------------------------------------------- */

const void *maplist_item(const struct maplist *list, const struct policy_map *map, size_t i)
{
	return (const char *)list->items + i * map->size;
}

void maplist_free(struct maplist *list, const struct policy_map *map)
{
	for (size_t i = 0; i < list->count; i++)
		clear_item(map, (char *)list->items + i * map->size);
	free(list->items);
	*list = (struct maplist){0};
}

static int copy_item(struct maplist *to, const struct policy_map *map, const void *item, struct cordon_error *err)
{
	struct policy_draft d = {0};
	int r = policy_draft_begin(&d, map, err);

	for (size_t i = 0; r == 0 && i < map->count; i++) {
		struct strlist values = {0};

		r = policy_field_values(&map->fields[i], item, &values, err);
		for (size_t k = 0; r == 0 && k < values.count; k++)
			r = policy_draft_put(&d, &map->fields[i], values.items[k], err);
		strlist_free(&values);
	}
	if (r == 0)
		r = policy_draft_finish(&d, to, err);
	policy_draft_clear(&d);
	return r;
}

/* `to` is overwritten; it is empty after a failure. */
int maplist_copy(struct maplist *to, const struct maplist *from, const struct policy_map *map, struct cordon_error *err)
{
	*to = (struct maplist){0};
	for (size_t i = 0; i < from->count; i++) {
		if (copy_item(to, map, maplist_item(from, map, i), err) < 0) {
			maplist_free(to, map);
			return -1;
		}
	}
	return 0;
}
