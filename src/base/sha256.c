/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
	0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
	0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void expand(const unsigned char block[64], uint32_t w[64])
{
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static void compress(uint32_t state[8], const unsigned char block[64])
{
	uint32_t w[64], v[8];
	expand(block, w);
	memcpy(v, state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
		uint32_t t1 = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice + round_constants[i] + w[i];
		uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		state[i] += v[i];
}

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
		compress(s->state, s->block);
		p += n;
		len -= n;
	}
	for (; len >= sizeof(s->block); p += sizeof(s->block), len -= sizeof(s->block))
		compress(s->state, p);
	if (len)
		memcpy(s->block, p, len);
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
