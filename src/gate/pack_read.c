/* SPDX-License-Identifier: Apache-2.0 */
/* YAML → struct gate_pack, by the tables of pack_schema.c. libyaml does the parsing; anchors are refused, so a small file stays small. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/fs.h"
#include "base/util.h"
#include "gate/pack.h"
#include "policy/policy.h"

#define BLOCK ((size_t)65536)

struct reader {
	struct arena *arena;
	const char *path;
	yaml_document_t doc;
	struct cordon_error *err;
};

static int wrong(struct reader *r, const yaml_node_t *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int wrong(struct reader *r, const yaml_node_t *node, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return err_set(r->err, CORDON_ERR_INPUT, "%s:%zu:%zu: %s", r->path, node->start_mark.line + 1, node->start_mark.column + 1, text);
}

static int scalar(struct reader *r, const yaml_node_t *node, const char *key, const char **out)
{
	if (node->type != YAML_SCALAR_NODE)
		return wrong(r, node, "%s must be a text", key);
	size_t len = node->data.scalar.length;
	if (memchr(node->data.scalar.value, '\0', len))
		return wrong(r, node, "%s has a NUL byte in it", key);
	*out = arena_text(r->arena, (const char *)node->data.scalar.value, len);
	return 0;
}

static int word(struct reader *r, const yaml_node_t *node, const struct pack_field *f, long *out)
{
	const char *text = NULL;
	size_t count = 0;
	if (scalar(r, node, f->key, &text) < 0)
		return -1;
	for (; f->words[count]; count++) {
		if (strcmp(text, f->words[count]) == 0) {
			*out = (long)count;
			return 0;
		}
	}
	const char *near = nearest_word(text, f->words, count);
	wrong(r, node, "'%s' is nothing that %s can be", text, f->key);
	return near ? err_hint(r->err, "did you mean '%s'?", near) : -1;
}

static int number(struct reader *r, const yaml_node_t *node, const struct pack_field *f, int *out)
{
	const char *text = NULL;
	char *end;
	if (scalar(r, node, f->key, &text) < 0)
		return -1;
	long n = strtol(text, &end, 10);
	if (end == text || *end || n < 0 || n > 1000)
		return wrong(r, node, "%s must be a number from 0 to 1000, not '%s'", f->key, text);
	*out = (int)n;
	return 0;
}

static int truth(struct reader *r, const yaml_node_t *node, const struct pack_field *f, bool *out)
{
	const char *text = NULL;
	if (scalar(r, node, f->key, &text) < 0)
		return -1;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return wrong(r, node, "%s must be true or false, not '%s'", f->key, text);
	*out = text[0] == 't';
	return 0;
}

static yaml_node_t *item(struct reader *r, const yaml_node_t *list, size_t i)
{
	return yaml_document_get_node(&r->doc, list->data.sequence.items.start[i]);
}

static size_t items(const yaml_node_t *list)
{
	return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static int texts(struct reader *r, yaml_node_t *node, const struct pack_field *f, struct gate_strs *out)
{
	bool one = node->type == YAML_SCALAR_NODE;
	if (!one && node->type != YAML_SEQUENCE_NODE)
		return wrong(r, node, "%s must be a text or a list of texts", f->key);
	size_t count = one ? 1 : items(node);
	if (count > PACK_ITEMS_MAX)
		return wrong(r, node, "%s has more than %d items", f->key, PACK_ITEMS_MAX);
	const char **list = arena_alloc(r->arena, count * sizeof(*list));
	for (size_t i = 0; i < count; i++) {
		const yaml_node_t *each = one ? node : item(r, node, i);
		if (scalar(r, each, f->key, &list[i]) < 0)
			return -1;
		if (f->type == PACK_PATTERNS && (strlen(list[i]) > PACK_TEXT_MAX || !list[i][0]))
			return wrong(r, each, "a pattern of %s must have 1 to %d bytes", f->key, PACK_TEXT_MAX);
	}
	*out = (struct gate_strs){list, count};
	return 0;
}

static int flags(struct reader *r, yaml_node_t *node, const struct pack_field *f, unsigned *out)
{
	bool one = node->type == YAML_SCALAR_NODE;
	if (!one && node->type != YAML_SEQUENCE_NODE)
		return wrong(r, node, "%s must be a word or a list of words", f->key);
	for (size_t i = 0; i < (one ? 1 : items(node)); i++) {
		long n;
		if (word(r, one ? node : item(r, node, i), f, &n) < 0)
			return -1;
		*out |= f->bits ? f->bits[n] : 1u << n;
	}
	return 0;
}

static int record(struct reader *r, const yaml_node_t *node, const struct pack_shape *shape, void *out);

static int list(struct reader *r, yaml_node_t *node, const struct pack_field *f, void *out)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return wrong(r, node, "%s must be a list", f->key);
	size_t count = items(node);
	if (count > PACK_ITEMS_MAX)
		return wrong(r, node, "%s has more than %d items", f->key, PACK_ITEMS_MAX);
	char *all = arena_alloc(r->arena, count * f->of->size);
	for (size_t i = 0; i < count; i++)
		if (record(r, item(r, node, i), f->of, all + i * f->of->size) < 0)
			return -1;
	struct {
		const void *items;
		size_t count;
	} made = {all, count};
	memcpy(out, &made, sizeof(made)); /* every GATE_LIST is of this form */
	return 0;
}

static int field(struct reader *r, yaml_node_t *node, const struct pack_field *f, void *out)
{
	long n = 0;
	switch (f->type) {
	case PACK_STR:
		return scalar(r, node, f->key, out);
	case PACK_STRS:
	case PACK_PATTERNS:
		return texts(r, node, f, out);
	case PACK_WORD:
		if (word(r, node, f, &n) < 0)
			return -1;
		*(unsigned *)out = (unsigned)n;
		return 0;
	case PACK_FLAGS:
		return flags(r, node, f, out);
	case PACK_BOOL:
		return truth(r, node, f, out);
	case PACK_INT:
		return number(r, node, f, out);
	case PACK_LIST:
		return list(r, node, f, out);
	}
	return -1;
}

static const struct pack_field *find(const struct pack_shape *shape, const char *key)
{
	for (size_t i = 0; i < shape->count; i++)
		if (strcmp(shape->fields[i].key, key) == 0)
			return &shape->fields[i];
	return NULL;
}

static int unknown_key(struct reader *r, const yaml_node_t *node, const struct pack_shape *shape, const char *key)
{
	const char *names[32];
	size_t count = MIN(shape->count, ARRAY_SIZE(names));
	for (size_t i = 0; i < count; i++)
		names[i] = shape->fields[i].key;
	const char *near = nearest_word(key, names, count);
	wrong(r, node, "a %s has no key '%s'", shape->noun, key);
	return near ? err_hint(r->err, "did you mean '%s'?", near) : -1;
}

static void fall_back(const struct pack_shape *shape, char *out)
{
	for (size_t i = 0; i < shape->count; i++) {
		const struct pack_field *f = &shape->fields[i];
		if (f->type == PACK_WORD || f->type == PACK_INT)
			*(int *)(void *)(out + f->offset) = (int)f->fallback;
	}
}

static int record(struct reader *r, const yaml_node_t *node, const struct pack_shape *shape, void *out)
{
	uint64_t seen = 0;
	if (node->type != YAML_MAPPING_NODE)
		return wrong(r, node, "a %s must be a map of keys and values", shape->noun);
	fall_back(shape, out);
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
		yaml_node_t *key = yaml_document_get_node(&r->doc, p->key), *value = yaml_document_get_node(&r->doc, p->value);
		const char *name = NULL;
		if (scalar(r, key, "a key", &name) < 0)
			return -1;
		const struct pack_field *f = find(shape, name);
		if (!f)
			return unknown_key(r, key, shape, name);
		uint64_t bit = (uint64_t)1 << (f - shape->fields);
		if (seen & bit)
			return wrong(r, key, "%s is there twice", name);
		seen |= bit;
		if (field(r, value, f, (char *)out + f->offset) < 0)
			return -1;
	}
	for (size_t i = 0; i < shape->count; i++)
		if (shape->fields[i].required && !(seen & (uint64_t)1 << i))
			return wrong(r, node, "a %s needs '%s'", shape->noun, shape->fields[i].key);
	return 0;
}

static int bad_yaml(struct reader *r, const yaml_parser_t *p)
{
	return err_set(r->err, CORDON_ERR_INPUT, "%s:%zu:%zu: %s", r->path, p->problem_mark.line + 1, p->problem_mark.column + 1,
	               p->problem ? p->problem : "not YAML");
}

/* Anchors and aliases would let a small file stand for a large one; packs have no use for them. */
static int refuse_anchors(struct reader *r, const char *text, size_t len)
{
	yaml_parser_t p;
	yaml_event_t e;
	int result = 0;
	bool end = false;
	if (!yaml_parser_initialize(&p))
		return err_set(r->err, CORDON_ERR_SYSTEM, "out of memory");
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	while (!end && result == 0) {
		if (!yaml_parser_parse(&p, &e)) {
			result = bad_yaml(r, &p);
			break;
		}
		const yaml_char_t *anchor = e.type == YAML_SCALAR_EVENT           ? e.data.scalar.anchor
		                            : e.type == YAML_SEQUENCE_START_EVENT ? e.data.sequence_start.anchor
		                            : e.type == YAML_MAPPING_START_EVENT  ? e.data.mapping_start.anchor
		                                                                  : NULL;
		if (anchor || e.type == YAML_ALIAS_EVENT)
			result = err_set(r->err, CORDON_ERR_INPUT, "%s:%zu:%zu: anchors and aliases have no place in a pack", r->path,
			                 e.start_mark.line + 1, e.start_mark.column + 1);
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&p);
	return result;
}

static int load(struct reader *r, const char *text, size_t len, struct gate_pack **out)
{
	yaml_parser_t p;
	int result = -1;
	if (refuse_anchors(r, text, len) < 0)
		return -1;
	if (!yaml_parser_initialize(&p))
		return err_set(r->err, CORDON_ERR_SYSTEM, "out of memory");
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	if (!yaml_parser_load(&p, &r->doc)) {
		bad_yaml(r, &p);
	} else {
		const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
		*out = ARENA_NEW(r->arena, struct gate_pack);
		if (!root)
			err_set(r->err, CORDON_ERR_INPUT, "%s: the file is empty", r->path);
		else
			result = record(r, root, &pack_shape, *out);
		yaml_document_delete(&r->doc);
	}
	yaml_parser_delete(&p);
	return result;
}

int pack_read(struct arena *a, const char *path, const char *text, size_t len, struct gate_pack **out, struct cordon_error *err)
{
	struct reader r = {.arena = a, .path = path, .err = err};
	_cleanup_buf_ struct buf b = {.cap = PACK_BYTES_MAX + 2 * BLOCK};
	if (!text) {
		_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return err_sys(err, "cannot open %s", path);
		char *p;
		ssize_t n = 0;
		while ((p = buf_reserve(&b, BLOCK)) && (n = read(fd, p, BLOCK)) > 0 && b.len <= PACK_BYTES_MAX)
			b.len += (size_t)n;
		if (n < 0 || !p)
			return err_sys(err, "cannot read %s", path);
		text = b.data ? b.data : "";
		len = b.len;
	}
	if (len > PACK_BYTES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%s: a pack has at most %zu bytes", path, PACK_BYTES_MAX);
	return load(&r, text, len, out);
}
