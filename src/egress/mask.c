/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm of Knuth, Morris and Pratt, since it never looks back: a byte is looked at once for each secret, whatever a server sends to make it slow, and how much of a
 * secret the last bytes are is just what has to be held back.
 */
#include "egress/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int needle_init(struct needle *n, const char *data, size_t len)
{
	*n = (struct needle){.data = data, .len = len};
	if (len < MASK_SHORTEST)
		return 0;
	n->back = calloc(len + 1, sizeof(*n->back));
	if (!n->back)
		return -1;
	for (size_t i = 1, fits = 0; i < len; i++) {
		while (fits && data[i] != data[fits])
			fits = n->back[fits];
		fits += data[i] == data[fits];
		n->back[i + 1] = (uint32_t)fits;
	}
	return 0;
}

void needle_clear(struct needle *n)
{
	free(n->back);
	*n = (struct needle){0};
}

bool mask_add(struct mask *m, const struct needle *n)
{
	if (!n->back)
		return true;
	if (m->count == MASK_MOST)
		return false;
	m->needles[m->count++] = n;
	return true;
}

/* `out` has the same bytes as `data`, and before them at least as many as fit. What was overwritten for another secret is read in `data` as it was. */
static size_t overwrite(const struct needle *n, size_t fits, const char *data, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++) {
		if (fits == 0) {
			const char *next = memchr(data + i, n->data[0], len - i);
			if (!next)
				return 0;
			i = (size_t)(next - data);
		}
		while (fits && data[i] != n->data[fits])
			fits = n->back[fits];
		fits += data[i] == n->data[fits];
		if (fits < n->len)
			continue;
		memset(out + i + 1 - n->len, '*', n->len);
		fits = n->back[fits];
	}
	return fits;
}

int mask_feed(struct mask *m, const char *data, size_t len, struct buf *out)
{
	const size_t before = out->len;
	buf_add(out, data, len);
	if (out->failed)
		return -1;
	for (size_t i = 0; i < m->count; i++)
		m->fits[i] = overwrite(m->needles[i], m->fits[i], data, len, out->data + before);
	return 0;
}

size_t mask_held(const struct mask *m)
{
	size_t most = 0;
	for (size_t i = 0; i < m->count; i++)
		most = MAX(most, m->fits[i]);
	return most;
}
