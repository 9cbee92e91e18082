/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/text.h"

#include <stdint.h>

struct text text_mark(enum text_mark mark)
{
	static const char marks[] = "\0\1\2\3\4\5\6\7";
	return (struct text){&marks[mark], 1};
}

unsigned text_marks(struct text t)
{
	unsigned set = 0;
	for (size_t i = 0; i < t.n; i++)
		if (is_mark(t.s[i]))
			set |= 1u << t.s[i];
	return set;
}

size_t text_find(struct text t, char c)
{
	const char *p = t.n ? memchr(t.s, c, t.n) : NULL;
	return p ? (size_t)(p - t.s) : t.n;
}

size_t text_rfind(struct text t, char c)
{
	const char *p = t.n ? memrchr(t.s, c, t.n) : NULL;
	return p ? (size_t)(p - t.s) : t.n;
}

struct text text_cat(struct arena *a, struct text x, struct text y)
{
	if (!x.n)
		return y;
	if (!y.n)
		return x;
	char *p = arena_alloc(a, x.n + y.n);
	memcpy(p, x.s, x.n);
	memcpy(p + x.n, y.s, y.n);
	return (struct text){p, x.n + y.n};
}

struct text text_cat3(struct arena *a, struct text x, struct text y, struct text z)
{
	return text_cat(a, text_cat(a, x, y), z);
}

struct text text_lower(struct arena *a, struct text t)
{
	char *p = arena_alloc(a, t.n);
	for (size_t i = 0; i < t.n; i++)
		p[i] = t.s[i] >= 'A' && t.s[i] <= 'Z' ? (char)(t.s[i] + 'a' - 'A') : t.s[i];
	return (struct text){p, t.n};
}

struct text path_base(struct text path)
{
	size_t slash = text_rfind(path, '/');
	return slash == path.n ? path : text_from(path, slash + 1);
}

struct text path_dir(struct text path)
{
	while (path.n > 1 && path.s[path.n - 1] == '/')
		path.n--;
	size_t slash = text_rfind(path, '/');
	if (slash == path.n)
		return path.n && is_mark(path.s[0]) ? text_mark(MARK_ANY) : TEXT(".");
	while (slash > 1 && path.s[slash - 1] == '/')
		slash--;
	return slash ? text_first(path, slash) : TEXT("/");
}

struct text path_parent(struct text path)
{
	return text_is(path_base(path), "\1") ? path : path_dir(path);
}

/* A slash, and nothing but what is not known. */
static bool is_somewhere(struct text path)
{
	for (size_t i = 1; i < path.n; i++)
		if (path.s[i] != MARK_ANY)
			return false;
	return path.n > 1;
}

/* Puts one component behind out[0..n); returns the new length. */
static size_t add_component(char *out, size_t n, struct text part, bool unknown)
{
	if (part.n == 0 || text_is(part, "."))
		return n;
	if (text_is(part, "..")) {
		if (unknown && is_somewhere((struct text){out, n})) /* and from there up: somewhere */
			return n;
		while (n > 0 && out[n - 1] != '/')
			n--;
		return n > 0 ? n - 1 : 0; /* ".." of the root is the root */
	}
	out[n++] = '/';
	memcpy(out + n, part.s, part.n);
	return n + part.n;
}

struct text path_resolve(struct arena *a, struct text base, struct text path)
{
	char *out = arena_alloc(a, base.n + path.n + 3);
	size_t n = 0;
	/* A text that begins with something unknown may be absolute: it is not put below the base. */
	bool rooted = path.n && path.s[0] == '/', unknown = path.n && is_mark(path.s[0]) && (1u << path.s[0] & MARKS_DYNAMIC);
	struct text parts[2] = {rooted || unknown ? TEXT("") : base, path};
	for (size_t k = 0; k < 2; k++) {
		for (struct text rest = parts[k]; rest.n;) {
			size_t slash = text_find(rest, '/');
			n = add_component(out, n, text_first(rest, slash), unknown);
			rest = text_from(rest, slash + 1);
		}
	}
	if (n == 0)
		out[n++] = '/';
	/* "/" + marker means: somewhere; the marker may bring its own slash. */
	if (unknown && n > 1)
		return (struct text){out + 1, n - 1};
	return (struct text){out, n};
}
