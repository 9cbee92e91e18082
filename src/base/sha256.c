/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <string.h>

#include "base/sha256_blocks.h"

void sha256_begin(struct sha256 *s)
{
	/* the first 32 bits of the fractional parts of the square roots of the first 8 primes */
	*s = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t used = s->len % sizeof(s->block);
	s->len += len;
	if (used) {
		size_t room = sizeof(s->block) - used, n = len < room ? len : room;
		memcpy(s->block + used, p, n);
		if (n < room)
			return;
		sha256_blocks(s->state, s->block, 1);
		p += n;
		len -= n;
	}
	sha256_blocks(s->state, p, len / sizeof(s->block));
	if (len % sizeof(s->block))
		memcpy(s->block, p + (len - len % sizeof(s->block)), len % sizeof(s->block));
}

void sha256_end(struct sha256 *s, unsigned char out[SHA256_SIZE])
{
	static const unsigned char padding[64] = {0x80};
	const uint64_t bits = s->len * 8;
	unsigned char length[8];
	size_t used = s->len % sizeof(s->block);
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_add(s, padding, (used < 56 ? 56 : 120) - used);
	sha256_add(s, length, sizeof(length));
	for (int i = 0; i < SHA256_SIZE; i++)
		out[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len, unsigned char out[SHA256_SIZE])
{
	unsigned char inner[64] = {0}, outer[64];
	struct sha256 s;
	sha256_begin(&s);
	if (key_len > sizeof(inner)) {
		sha256_add(&s, key, key_len);
		sha256_end(&s, inner);
		sha256_begin(&s);
	} else {
		memcpy(inner, key, key_len);
	}
	for (size_t i = 0; i < sizeof(inner); i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	sha256_add(&s, inner, sizeof(inner));
	sha256_add(&s, data, len);
	sha256_end(&s, out);
	sha256_begin(&s);
	sha256_add(&s, outer, sizeof(outer));
	sha256_add(&s, out, SHA256_SIZE);
	sha256_end(&s, out);
}

void sha256_hex(const unsigned char digest[SHA256_SIZE], char out[SHA256_HEX])
{
	for (int i = 0; i < SHA256_SIZE; i++) {
		out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
	}
	out[SHA256_HEX - 1] = '\0';
}
