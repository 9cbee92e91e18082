/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FIRST_SIZE ((size_t)128)

/* Makes room for len more bytes and the NUL behind them. */
static bool grow(struct buf *b, size_t len)
{
	size_t cap = b->cap ? b->cap : BUF_CAP;
	size_t need, size;
	char *data;

	if (b->failed)
		return false;
	if (cap == SIZE_MAX)
		cap--; /* one byte is for the NUL */
	if (b->len > cap || len > cap - b->len) {
		b->failed = true;
		return false;
	}
	need = b->len + len + 1;
	if (need <= b->size)
		return true;
	size = b->size ? b->size : FIRST_SIZE;
	while (size < need)
		size = size > SIZE_MAX / 2 ? need : size * 2;
	if (size > cap + 1)
		size = cap + 1;
	data = realloc(b->data, size);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->size = size;
	return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!grow(b, len))
		return;
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	if (b->failed)
		return;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0) {
		b->failed = true;
	} else if (grow(b, (size_t)n)) {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
	va_end(ap);
}

void *buf_reserve(struct buf *b, size_t len)
{
	if (!grow(b, len))
		return NULL;
	/* The caller only moves b->len: with zeros in the whole room, the contents end in NUL wherever it stops. */
	memset(b->data + b->len, 0, len + 1);
	return b->data + b->len;
}

char *buf_steal(struct buf *b)
{
	char *data = NULL;

	if (!b->failed)
		buf_add(b, NULL, 0); /* an empty buffer has no memory yet */
	if (b->failed)
		free(b->data);
	else
		data = b->data;
	*b = (struct buf){.cap = b->cap, .failed = b->failed};
	return data;
}
