/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/mask.h"

#include <string.h>

#include "base/util.h"

bool mask_add(struct mask *m, const char *data, size_t len)
{
	if (len < MASK_SHORTEST)
		return true;
	if (m->count == MASK_MOST)
		return false;
	m->secrets[m->count].data = data;
	m->secrets[m->count++].len = len;
	m->longest = MAX(m->longest, len);
	return true;
}

static uint64_t first_of(const char *at)
{
	uint64_t first;
	_Static_assert(sizeof(first) == MASK_SHORTEST, "as many as are compared at once");
	memcpy(&first, at, sizeof(first));
	return first;
}

/* Looks at all of them, whichever is the first that differs. */
static bool is_same(const char *a, const char *b, size_t len)
{
	unsigned char differ = 0;
	for (size_t i = 0; i < len; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return differ == 0;
}

/* seen: `old` bytes that have been passed on, and then those of `out`, which are as many as are left. */
static void overwrite(const char *secret, size_t len, const struct buf *seen, size_t old, char *out)
{
	const uint64_t first = first_of(secret);
	for (size_t at = old >= len ? old - len + 1 : 0; at + len <= seen->len; at++) {
		if (first_of(seen->data + at) != first || !is_same(seen->data + at, secret, len))
			continue;
		const size_t from = MAX(at, old);
		memset(out + from - old, '*', at + len - from);
	}
}

int mask_feed(struct mask *m, const char *data, size_t len, struct buf *out)
{
	const size_t before = out->len, old = m->seen.len;
	buf_add(out, data, len);
	if (m->count == 0)
		return out->failed ? -1 : 0;
	buf_add(&m->seen, data, len);
	if (out->failed || m->seen.failed)
		return -1;
	for (size_t i = 0; i < m->count; i++)
		overwrite(m->secrets[i].data, m->secrets[i].len, &m->seen, old, out->data + before);
	const size_t keep = MIN(m->seen.len, m->longest - 1);
	memmove(m->seen.data, m->seen.data + m->seen.len - keep, keep);
	m->seen.len = keep;
	return 0;
}

void mask_clear(struct mask *m)
{
	if (m->seen.data)
		explicit_bzero(m->seen.data, m->seen.size);
	buf_free(&m->seen);
	*m = (struct mask){0};
}
