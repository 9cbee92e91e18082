/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a hard cap. Once an append fails (out of memory or past the cap) the buffer is marked failed and every
 * later append is ignored, so a caller may append freely and check once. The contents are always NUL-terminated.
 */
#ifndef CORDON_BASE_BUF_H
#define CORDON_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct buf {
	char *data; /* never NULL after the first append that succeeded */
	size_t len;
	size_t size;
	size_t cap; /* most bytes it may hold; 0 means BUF_CAP */
	bool failed;
};

#define BUF_CAP ((size_t)64 << 20)

static inline void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}
#define _cleanup_buf_ __attribute__((cleanup(buf_free)))

void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for len more bytes at the end, to be filled by the caller, who then adds to b->len; NULL on failure. */
void *buf_reserve(struct buf *b, size_t len);
/* Hands the contents over (free() them); NULL if the buffer failed. An empty buffer gives "". */
char *buf_steal(struct buf *b);

#endif
