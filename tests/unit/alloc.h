/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail on demand. For tests that are linked with --wrap of these four; to be included once in a program. */
#ifndef CORDON_TESTS_UNIT_ALLOC_H
#define CORDON_TESTS_UNIT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

static long allocations_left = -1; /* -1: no limit */

static bool allocation_fails(void)
{
	if (allocations_left < 0)
		return false;
	if (allocations_left == 0)
		return true;
	allocations_left--;
	return false;
}

void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t size)
{
	return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return allocation_fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return allocation_fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return allocation_fails() ? NULL : __real_strndup(s, n);
}

#endif
