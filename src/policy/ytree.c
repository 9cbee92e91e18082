/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/ytree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/json.h"
#include "base/util.h"

struct reader {
	yaml_parser_t parser;
	const char *data; /* without a byte order mark */
	size_t len;
	size_t nodes;
	struct ytree_problem *problem;
};

void ynode_free(struct ynode *n)
{
	for (size_t i = 0; i < n->count; i++)
		ynode_free(&n->items[i]);
	free(n->items);
	free(n->text);
	*n = (struct ynode){0};
}

bool ynode_is_null(const struct ynode *n)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	for (size_t i = 0; n->type == YNODE_SCALAR && n->plain && i < ARRAY_SIZE(nulls); i++)
		if (!strcmp(n->text, nulls[i]))
			return true;
	return false;
}

/* ---- problems ----------------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static int refuse(struct reader *r, size_t line, size_t column, const char *fmt, ...)
{
	char message[sizeof(r->problem->error.message)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	r->problem->line = (unsigned)line + 1;
	r->problem->column = (unsigned)column + 1;
	return err_set(&r->problem->error, CORDON_ERR_INPUT, "%s", message);
}

static int out_of_memory(struct reader *r)
{
	r->problem->line = r->problem->column = 1;
	return err_set(&r->problem->error, CORDON_ERR_SYSTEM, "out of memory");
}

static void hint(struct reader *r, const char *text)
{
	err_hint(&r->problem->error, "%s", text);
}

/* Where a byte is, both from 0. Bytes that do not begin a character do not count. */
static void locate(const struct reader *r, size_t offset, size_t *line, size_t *column)
{
	*line = *column = 0;
	for (size_t i = 0; i < MIN(offset, r->len); i++) {
		if (r->data[i] == '\n') {
			++*line;
			*column = 0;
		} else if (((unsigned char)r->data[i] & 0xc0) != 0x80) {
			++*column;
		}
	}
}

static int refuse_byte(struct reader *r, size_t offset, const char *what)
{
	size_t line, column;

	locate(r, offset, &line, &column);
	return refuse(r, line, column, "%s", what);
}

/* The byte at a mark, whose index counts characters. NUL: none. */
static char byte_at(const struct reader *r, const yaml_mark_t *mark)
{
	const char *s = r->data, *end = r->data + r->len;

	for (size_t line = 0; line < mark->line && s; line++) {
		s = memchr(s, '\n', (size_t)(end - s));
		s = s ? s + 1 : NULL;
	}
	for (size_t column = 0; s && s < end; s++) {
		if (((unsigned char)*s & 0xc0) == 0x80)
			continue;
		if (column++ == mark->column)
			return *s;
	}
	return '\0';
}

/* Where the scanner stood is nearer to the mistake than where the thing began that it was reading. */
static int refuse_parser(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const yaml_mark_t *mark = &p->problem_mark;

	if (p->error == YAML_MEMORY_ERROR)
		return out_of_memory(r);
	if (p->error == YAML_READER_ERROR)
		return refuse_byte(r, p->problem_offset, p->problem ? p->problem : "this cannot be read");
	if (byte_at(r, mark) == '\t') {
		refuse(r, mark->line, mark->column, "a tab where only spaces may stand");
		hint(r, "indent with spaces");
		return -1;
	}
	refuse(r, mark->line, mark->column, "this is not YAML: %s%s%s", p->context ? p->context : "", p->context ? ": " : "",
	       p->problem ? p->problem : "something is wrong here");
	if (p->context && p->context_mark.line != mark->line)
		err_hint(&r->problem->error, "it begins in line %zu", p->context_mark.line + 1);
	return -1;
}

/* ---- what libyaml is not asked about ------------------------------------------------------------------------------------------ */

static size_t character_length(unsigned char first)
{
	return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* The length of the valid beginning. */
static size_t valid_utf8(const char *data, size_t len)
{
	size_t good = 0;

	if (utf8_valid(data, len))
		return len;
	for (size_t n = 0; good < len; good += n) {
		n = character_length((unsigned char)data[good]);
		if (n > len - good || !utf8_valid(data + good, n))
			break;
	}
	return good;
}

static int check_bytes(struct reader *r)
{
	static const char mark[] = "\xef\xbb\xbf";
	const char *nul;
	size_t valid;

	if (r->len > YTREE_SIZE_MAX) {
		refuse(r, 0, 0, "the file is larger than a policy can be (%zu bytes; at most %zu)", r->len, YTREE_SIZE_MAX);
		return -1;
	}
	if (r->len >= 2 && (!memcmp(r->data, "\xff\xfe", 2) || !memcmp(r->data, "\xfe\xff", 2))) {
		refuse(r, 0, 0, "the file is UTF-16");
		hint(r, "save it as UTF-8");
		return -1;
	}
	if (r->len >= 3 && memcmp(r->data, mark, 3) == 0) {
		r->data += 3;
		r->len -= 3;
	}
	nul = memchr(r->data, '\0', r->len);
	if (nul)
		return refuse_byte(r, (size_t)(nul - r->data), "a NUL byte: this is not a text file");
	valid = valid_utf8(r->data, r->len);
	return valid == r->len ? 0 : refuse_byte(r, valid, "this is not UTF-8");
}

/* ---- events ------------------------------------------------------------------------------------------------------------------- */

static int next(struct reader *r, yaml_event_t *event)
{
	return yaml_parser_parse(&r->parser, event) ? 0 : refuse_parser(r);
}

static int refuse_at(struct reader *r, const yaml_event_t *event, const char *what, const char *advice)
{
	refuse(r, event->start_mark.line, event->start_mark.column, "%s", what);
	hint(r, advice);
	return -1;
}

/* Anchors let a kilobyte stand for a gigabyte; tags change what a value is. */
static int check_plainness(struct reader *r, const yaml_event_t *event)
{
	const unsigned char *anchor = NULL, *tag = NULL;

	if (event->type == YAML_ALIAS_EVENT)
		return refuse_at(r, event, "an alias (*NAME): a policy has no aliases", "put text that begins with * in quotes");
	if (event->type == YAML_SCALAR_EVENT) {
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
	}
	if (anchor)
		return refuse_at(r, event, "an anchor (&NAME): a policy has no anchors", "write the value out where it is used");
	if (tag)
		return refuse_at(r, event, "a tag (!NAME): a policy has no tags", "put text that begins with ! in quotes");
	return 0;
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth, struct ynode *out);

static int read_scalar(struct reader *r, const yaml_event_t *event, struct ynode *out)
{
	const char *value = (const char *)event->data.scalar.value;

	if (memchr(value, '\0', event->data.scalar.length)) /* "\0" in double quotes */
		return refuse_at(r, event, "a text with a NUL in it", "no value of a policy has one");
	out->type = YNODE_SCALAR;
	out->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	out->text = strdup(value);
	return out->text ? 0 : out_of_memory(r);
}

static struct ynode *add_item(struct reader *r, struct ynode *to)
{
	/* doubled at powers of two */
	if ((to->count & (to->count - 1)) == 0) {
		struct ynode *more = realloc(to->items, MAX(to->count * 2, (size_t)1) * sizeof(*more));

		if (!more) {
			out_of_memory(r);
			return NULL;
		}
		to->items = more;
	}
	to->items[to->count] = (struct ynode){0};
	return &to->items[to->count++];
}

static int check_key(struct reader *r, const yaml_event_t *event)
{
	if (event->type != YAML_SCALAR_EVENT)
		return refuse_at(r, event, "a key that is not a word", "if this is a text with [, {, * or &, put it in quotes");
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !strcmp((const char *)event->data.scalar.value, "<<"))
		return refuse_at(r, event, "a merge key (<<): a policy has none", "use extends, or write the values out");
	return 0;
}

static int read_items(struct reader *r, bool map, unsigned depth, struct ynode *out)
{
	const yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;

	for (;;) {
		yaml_event_t event;
		struct ynode *item;
		int result = -1;

		if (next(r, &event) < 0)
			return -1;
		if (event.type == end) {
			yaml_event_delete(&event);
			return 0;
		}
		if ((!map || out->count % 2 == 1 || check_key(r, &event) == 0) && (item = add_item(r, out)))
			result = read_node(r, &event, depth, item);
		yaml_event_delete(&event);
		if (result < 0)
			return -1;
	}
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth, struct ynode *out)
{
	out->line = (unsigned)event->start_mark.line + 1;
	out->column = (unsigned)event->start_mark.column + 1;
	if (check_plainness(r, event) < 0)
		return -1;
	if (++r->nodes > YTREE_NODES_MAX)
		return refuse_at(r, event, "too many values for a policy", "65,536 at most");
	if (event->type == YAML_SCALAR_EVENT)
		return read_scalar(r, event, out);
	if (depth >= YTREE_DEPTH_MAX)
		return refuse_at(r, event, "nested too deeply for a policy", "16 levels at most");
	out->type = event->type == YAML_MAPPING_START_EVENT ? YNODE_MAP : YNODE_LIST;
	return read_items(r, out->type == YNODE_MAP, depth + 1, out);
}

/* ---- documents ---------------------------------------------------------------------------------------------------------------- */

/* Stream start, document start, the node, document end: the events in between carry nothing. */
static int read_document(struct reader *r, struct ynode *root)
{
	bool seen = false;

	for (;;) {
		yaml_event_t event;
		int result = 0;

		if (next(r, &event) < 0)
			return -1;
		const yaml_event_type_t type = event.type;
		if (type == YAML_DOCUMENT_START_EVENT && seen)
			result = refuse_at(r, &event, "a second document", "one file is one policy");
		else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT ||
		         type == YAML_ALIAS_EVENT) {
			seen = true;
			result = read_node(r, &event, 0, root);
		}
		yaml_event_delete(&event);
		if (result < 0)
			return -1;
		if (type == YAML_STREAM_END_EVENT)
			break;
	}
	if (seen)
		return 0;
	refuse(r, 0, 0, "the file is empty");
	hint(r, "a policy begins with version: 1");
	return -1;
}

int ytree_parse(const char *data, size_t len, struct ynode *root, struct ytree_problem *problem)
{
	struct reader r = {.data = data, .len = len, .problem = problem};
	int result;

	*root = (struct ynode){0};
	*problem = (struct ytree_problem){0};
	if (check_bytes(&r) < 0)
		return -1;
	if (!yaml_parser_initialize(&r.parser))
		return out_of_memory(&r);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.data, r.len);
	result = read_document(&r, root);
	yaml_parser_delete(&r.parser);
	if (result < 0)
		ynode_free(root);
	return result;
}
