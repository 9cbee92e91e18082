/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one check: handed out in order, given back as one. An arena that is at its limit, or finds no memory, calls `fail`, which must not return:
 * a check is abandoned by one jump to where it began, and nothing in between has to look at a return value.
 */
#ifndef CORDON_GATE_ARENA_H
#define CORDON_GATE_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_chunk *chunks;
	char *at, *end;
	size_t used, limit; /* bytes taken from the system */
	void *owner;        /* for fail() */
	void (*fail)(struct arena *a, int out_of_memory) __attribute__((noreturn));
};

/* Zeroed, aligned for any type. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_copy(struct arena *a, const void *data, size_t size);
/* The bytes and a NUL. */
char *arena_text(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n + 1 elements in a list that holds n: grows by doubling at every power of two. */
void *arena_grow(struct arena *a, void *list, size_t n, size_t element);
void arena_free(struct arena *a);

#define ARENA_NEW(a, type) ((type *)arena_alloc(a, sizeof(type)))
/* list[n++] = value, with list and n as lvalues. */
#define ARENA_PUSH(a, list, n, value)                                   \
	do {                                                            \
		(list) = arena_grow(a, (list), (n), sizeof((list)[0])); \
		(list)[(n)++] = (value);                                \
	} while (0)

#endif
