/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/arena.h"

#include <stdarg.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)32 << 10)
#define ALIGN (alignof(max_align_t))

struct arena_chunk {
	struct arena_chunk *next;
	alignas(max_align_t) char data[];
};

static void more(struct arena *a, size_t size)
{
	/* Chunks grow with what is in use, so that a large text does not take thousands of them. */
	size_t want = a->used / 4 > CHUNK ? a->used / 4 : CHUNK;
	if (want < size)
		want = size;
	if (a->used + want > a->limit)
		want = size;
	if (size > a->limit || a->used + want > a->limit)
		a->fail(a, 0);
	struct arena_chunk *c = malloc(sizeof(*c) + want);
	if (!c)
		a->fail(a, 1);
	c->next = a->chunks;
	a->chunks = c;
	a->at = c->data;
	a->end = c->data + want;
	a->used += want;
}

void *arena_alloc(struct arena *a, size_t size)
{
	if (size > SIZE_MAX / 2)
		a->fail(a, 0);
	size = (size + !size + ALIGN - 1) & ~(ALIGN - 1);
	if ((size_t)(a->end - a->at) < size)
		more(a, size);
	void *p = a->at;
	a->at += size;
	return memset(p, 0, size);
}

void *arena_copy(struct arena *a, const void *data, size_t size)
{
	void *p = arena_alloc(a, size);
	if (size)
		memcpy(p, data, size);
	return p;
}

char *arena_text(struct arena *a, const char *s, size_t len)
{
	char *p = arena_alloc(a, len + 1);
	if (len)
		memcpy(p, s, len);
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	char *p = arena_alloc(a, (size_t)len + 1);
	va_start(args, fmt);
	vsnprintf(p, (size_t)len + 1, fmt, args);
	va_end(args);
	return p;
}

void *arena_grow(struct arena *a, void *list, size_t n, size_t element)
{
	if (n & (n - 1) || n == 1) /* 0 and powers of two from 2 on are full; one element is given room for two */
		return list;
	size_t room = n ? n * 2 : 2;
	if (room > SIZE_MAX / 4 / element)
		a->fail(a, 0);
	void *p = arena_alloc(a, room * element);
	if (n)
		memcpy(p, list, n * element);
	return p;
}

void arena_free(struct arena *a)
{
	for (struct arena_chunk *c = a->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	a->chunks = NULL;
	a->at = a->end = NULL;
	a->used = 0;
}
