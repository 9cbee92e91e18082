/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/pack_emit.h"

#include <string.h>

static void emit_text(struct buf *out, const char *s)
{
	if (!s) {
		buf_add_str(out, "0");
		return;
	}
	buf_add_str(out, "\"");
	for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
		if (*p == '"' || *p == '\\' || *p == '?') /* "??=" would be a trigraph */
			buf_addf(out, "\\%c", *p);
		else if (*p < ' ' || *p > '~')
			buf_addf(out, "\\%03o", *p);
		else
			buf_addf(out, "%c", *p);
	}
	buf_add_str(out, "\"");
}

static void emit_texts(struct buf *out, const struct gate_strs *l)
{
	buf_add_str(out, "{(const char *const[]){");
	for (size_t i = 0; i < l->count; i++) {
		emit_text(out, l->items[i]);
		buf_add_str(out, ",");
	}
	buf_addf(out, "},%zu}", l->count);
}

struct any_list {
	const void *items;
	size_t count;
};

static void emit_record(struct buf *out, const struct pack_shape *shape, const char *data);

static void emit_list(struct buf *out, const struct pack_shape *of, const void *at)
{
	struct any_list l;
	memcpy(&l, at, sizeof(l));
	buf_addf(out, "{(const %s[]){\n", of->type);
	for (size_t i = 0; i < l.count; i++) {
		emit_record(out, of, (const char *)l.items + i * of->size);
		buf_add_str(out, ",\n");
	}
	buf_addf(out, "},%zu}", l.count);
}

static bool is_empty_list(const void *at)
{
	struct any_list l;
	memcpy(&l, at, sizeof(l));
	return l.count == 0;
}

static void emit_field(struct buf *out, const struct pack_field *f, const char *data)
{
	const void *at = data + f->offset;
	switch (f->type) {
	case PACK_STR: {
		const char *s;
		memcpy(&s, at, sizeof(s));
		emit_text(out, s);
		return;
	}
	case PACK_STRS:
	case PACK_PATTERNS:
		emit_texts(out, at);
		return;
	case PACK_WORD:
	case PACK_INT:
	case PACK_FLAGS: {
		int n;
		memcpy(&n, at, sizeof(n));
		buf_addf(out, "%d", n);
		return;
	}
	case PACK_BOOL:
		buf_add_str(out, *(const bool *)at ? "1" : "0");
		return;
	case PACK_LIST:
		emit_list(out, f->of, at);
		return;
	}
}

/* Nothing is written for what is zero: C leaves it so. */
static bool is_zero(const struct pack_field *f, const char *data)
{
	static const char zero[sizeof(struct any_list)];
	const char *at = data + f->offset;
	switch (f->type) {
	case PACK_STR:
		return memcmp(at, zero, sizeof(char *)) == 0;
	case PACK_STRS:
	case PACK_PATTERNS:
	case PACK_LIST:
		return is_empty_list(at);
	case PACK_WORD:
	case PACK_INT:
	case PACK_FLAGS:
		return memcmp(at, zero, sizeof(int)) == 0;
	case PACK_BOOL:
		return !*(const bool *)at;
	}
	return false;
}

static void emit_record(struct buf *out, const struct pack_shape *shape, const char *data)
{
	buf_add_str(out, "{");
	for (size_t i = 0; i < shape->count; i++) {
		const struct pack_field *f = &shape->fields[i];
		bool example = strcmp(f->key, "match") == 0 || strcmp(f->key, "not") == 0;
		if (is_zero(f, data) ||
		    (example && strcmp(shape->noun, "rule") == 0)) /* examples have done their work when this is written */
			continue;
		buf_addf(out, ".%s=", f->c_name ? f->c_name : f->key);
		emit_field(out, f, data);
		buf_add_str(out, ",");
	}
	buf_add_str(out, "}");
}

void pack_emit(struct buf *out, const struct gate_pack *const *packs, size_t count)
{
	buf_add_str(out, "/* Written by gate-pack from rules/: do not edit. */\n#include \"gate/pack.h\"\n");
	for (size_t i = 0; i < count; i++) {
		buf_addf(out, "static const struct gate_pack pack_%zu = ", i);
		emit_record(out, &pack_shape, (const char *)packs[i]);
		buf_add_str(out, ";\n");
	}
	buf_add_str(out, "const struct gate_pack *const gate_builtin_packs[] = {");
	for (size_t i = 0; i < count; i++)
		buf_addf(out, "&pack_%zu,", i);
	buf_add_str(out, "0};\n");
}
