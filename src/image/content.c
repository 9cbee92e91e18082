/* SPDX-License-Identifier: Apache-2.0 */
#include "image/content.h"

#include <string.h>

#include "base/util.h"

void content_begin(struct content *c)
{
	sha256_begin(&c->data);
	sha256_begin(&c->runs);
	c->run = 0;
	c->zeros = 0;
	c->filled = 0;
}

static void add_run(struct content *c, int zeros, uint64_t blocks)
{
	if (zeros != c->zeros) {
		sha256_add(&c->runs, &c->run, sizeof(c->run));
		c->run = 0;
		c->zeros = zeros;
	}
	c->run += blocks;
}

static int is_zeros(const unsigned char *block, size_t len)
{
	return block[0] == 0 && memcmp(block, block + 1, len - 1) == 0;
}

/* A whole block, or the last one. */
static void add_block(struct content *c, const unsigned char *block, size_t len)
{
	const int zeros = is_zeros(block, len);
	add_run(c, zeros, 1);
	if (!zeros)
		sha256_add(&c->data, block, len);
}

/* What fits into the block that is not full yet; how much it was. */
static size_t fill(struct content *c, const unsigned char *data, uint64_t len)
{
	const size_t n = (size_t)MIN(len, (uint64_t)(CONTENT_BLOCK - c->filled));
	if (data)
		memcpy(c->block + c->filled, data, n);
	else
		memset(c->block + c->filled, 0, n);
	c->filled += (unsigned)n;
	if (c->filled == CONTENT_BLOCK) {
		add_block(c, c->block, CONTENT_BLOCK);
		c->filled = 0;
	}
	return n;
}

void content_add(struct content *c, const void *data, uint64_t len)
{
	const unsigned char *at = data;
	while (len > 0) {
		uint64_t n = CONTENT_BLOCK;
		if (c->filled || len < CONTENT_BLOCK)
			n = fill(c, at, len);
		else if (at)
			add_block(c, at, CONTENT_BLOCK);
		else
			add_run(c, 1, (n = len - len % CONTENT_BLOCK) / CONTENT_BLOCK);
		len -= n;
		at = at ? at + n : NULL;
	}
}

void content_end(struct content *c, struct sha256 *into)
{
	unsigned char digest[SHA256_SIZE];
	if (c->filled)
		add_block(c, c->block, c->filled);
	add_run(c, !c->zeros, 0);
	sha256_end(&c->data, digest);
	sha256_add(into, digest, sizeof(digest));
	sha256_end(&c->runs, digest);
	sha256_add(into, digest, sizeof(digest));
}
