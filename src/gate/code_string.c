/* SPDX-License-Identifier: Apache-2.0 */
/* What a string literal says: escapes undone, with what is interpolated in its place. */
#include "gate/code.h"

static int hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}

static size_t put_utf8(char *out, uint32_t u)
{
	if (u < 0x80) {
		out[0] = (char)u;
		return 1;
	}
	if (u < 0x800) {
		out[0] = (char)(0xc0 | u >> 6);
		out[1] = (char)(0x80 | (u & 0x3f));
		return 2;
	}
	if (u < 0x10000) {
		out[0] = (char)(0xe0 | u >> 12);
		out[1] = (char)(0x80 | (u >> 6 & 0x3f));
		out[2] = (char)(0x80 | (u & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (u >> 18 & 7));
	out[1] = (char)(0x80 | (u >> 12 & 0x3f));
	out[2] = (char)(0x80 | (u >> 6 & 0x3f));
	out[3] = (char)(0x80 | (u & 0x3f));
	return 4;
}

/* \x41, \u0041, \u{41}, \101, \n … as all four languages write them. */
static struct text unescape(struct code *c, struct text t)
{
	static const char from[] = "abefnrtv", to[] = "\a\b\033\f\n\r\t\v";
	if (t.n < 2)
		return t;
	char *out = arena_alloc(c->arena, 8);
	const char *at = memchr(from, t.s[1], sizeof(from) - 1);
	if (t.s[1] == '\n')
		return TEXT("");
	if (at && t.n == 2) {
		out[0] = to[at - from];
		return (struct text){out, 1};
	}
	uint32_t code = 0;
	size_t i = 2;
	if (t.s[1] == 'x' || t.s[1] == 'u' || t.s[1] == 'U') {
		for (i += t.n > 2 && t.s[2] == '{'; i < t.n && hex_digit(t.s[i]) >= 0; i++)
			code = code << 4 | (uint32_t)hex_digit(t.s[i]);
	} else if (t.s[1] >= '0' && t.s[1] <= '7') {
		for (i = 1; i < t.n && t.s[i] >= '0' && t.s[i] <= '7'; i++)
			code = code << 3 | (uint32_t)(t.s[i] - '0');
	} else {
		return text_from(t, 1);
	}
	if (code >= MARK_ANY && code <= MARK_LAST) /* a byte that means something else here */
		return text_mark(MARK_ANY);
	return (struct text){out, put_utf8(out, code)};
}

/* Pieces are put together once, at the end: a long string with many escapes costs no more than its length. */
struct builder {
	const struct val *v; /* what is in front of the pieces; NULL: nothing */
	struct text *pieces;
	size_t count, len;
};

static const struct val *flush(struct code *c, struct builder *b)
{
	if (b->count) {
		char *all = b->count > 1 ? arena_alloc(c->arena, b->len) : NULL;
		size_t n = 0;
		for (size_t i = 0; all && i < b->count; n += b->pieces[i++].n)
			memcpy(all + n, b->pieces[i].s, b->pieces[i].n);
		const struct val *v = val_text(c, all ? (struct text){all, b->len} : b->pieces[0]);
		b->v = b->v ? val_concat(c, b->v, v) : v;
	}
	b->pieces = NULL;
	b->count = b->len = 0;
	return b->v ? b->v : val_text(c, TEXT(""));
}

static void put_text(struct code *c, struct builder *b, struct text t)
{
	if (!t.n)
		return;
	ARENA_PUSH(c->arena, b->pieces, b->count, t);
	b->len += t.n;
}

static void put(struct code *c, struct builder *b, const struct val *v)
{
	if (v->kind == V_ALTS)
		b->v = b->v || b->count ? val_concat(c, flush(c, b), v) : v;
	else
		put_text(c, b, val_as_text(v));
}

/* A literal part: a slice of the source unless it has escapes in it. */
static void put_part(struct code *c, struct builder *b, uint32_t n)
{
	const struct tree *t = &c->tree;
	uint32_t at = t->nodes[n].start;
	TREE_CHILDREN(t, n, child)
	{
		if (t->nodes[child].kind != C_ESCAPE)
			continue;
		put_text(c, b, (struct text){t->text.s + at, t->nodes[child].start - at});
		put_text(c, b, unescape(c, tree_text(t, child)));
		at = t->nodes[child].end;
	}
	put_text(c, b, (struct text){t->text.s + at, t->nodes[n].end - at});
}

static const struct val *interpolated(struct code *c, uint32_t n)
{
	const struct val *v = NULL;
	TREE_CHILDREN(&c->tree, n, child)
	if (c->tree.nodes[child].flags & NODE_NAMED)
		v = code_eval(c, child);
	return v && (v->kind == V_TEXT || v->kind == V_NUMBER || v->kind == V_ALTS || (v->kind == V_NAME && v->stands))
	               ? v
	               : val_text(c, text_mark(MARK_ANY));
}

const struct val *code_string(struct code *c, uint32_t n)
{
	struct builder b = {0};
	TREE_CHILDREN(&c->tree, n, child)
	{
		switch (c->tree.nodes[child].kind) {
		case C_PART:
			put_part(c, &b, child);
			break;
		case C_ESCAPE:
			put_text(c, &b, unescape(c, tree_text(&c->tree, child)));
			break;
		case C_INTERPOLATION:
			put(c, &b, interpolated(c, child));
			break;
		case C_STRING:
			put(c, &b, code_value(c, child));
			break;
		default:
			break;
		}
	}
	return flush(c, &b);
}
