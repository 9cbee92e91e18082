/* SPDX-License-Identifier: Apache-2.0 */
/* The compression function: with the processor's own instructions where it has them, in C everywhere. */
#include "base/sha256_blocks.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK 64
#define ROUNDS 64

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
	0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
	0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* ---- C -------------------------------------------------------------------------------------------------------------------------- */

static inline uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static inline uint32_t big_endian(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expand(const unsigned char *block, uint32_t w[ROUNDS])
{
	for (int i = 0; i < 16; i++)
		w[i] = big_endian(block + (size_t)4 * i);
	for (int i = 16; i < ROUNDS; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

/* One round on v[0] … v[7], which are a … h of the standard turned by n: so nothing is moved. */
static inline void turn(uint32_t v[8], unsigned n, uint32_t word)
{
	const uint32_t a = v[-n & 7], b = v[(1 - n) & 7], c = v[(2 - n) & 7], e = v[(4 - n) & 7], f = v[(5 - n) & 7], g = v[(6 - n) & 7];
	const uint32_t t = v[(7 - n) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + word;
	v[(3 - n) & 7] += t;
	v[(7 - n) & 7] = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

void sha256_blocks_plain(uint32_t state[8], const unsigned char *p, size_t count)
{
	uint32_t w[ROUNDS], v[8];
	for (; count > 0; count--, p += BLOCK) {
		expand(p, w);
		memcpy(v, state, sizeof(v));
		for (unsigned i = 0; i < ROUNDS; i += 8) {
#pragma GCC unroll 8
			for (unsigned n = 0; n < 8; n++)
				turn(v, n, constants[i + n] + w[i + n]);
		}
		for (int i = 0; i < 8; i++)
			state[i] += v[i];
	}
}

/* ---- x86: the SHA extensions ---------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static bool has_instructions(void)
{
	unsigned a, b, c, d;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* The instructions want the state as a, b, e, f and c, d, g, h, highest first. */
__attribute__((target("sha,ssse3,sse4.1"))) static void use_instructions(uint32_t state[8], const unsigned char *p, size_t count)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
	for (; count > 0; count--, p += BLOCK) {
		const __m128i before_abef = abef, before_cdgh = cdgh;
		__m128i w[4];
		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap);
#pragma GCC unroll 16
		for (int i = 0; i < ROUNDS / 4; i++) {
			const __m128i word = _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)constants + i));
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, word);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(word, 0x0e));
			if (i >= ROUNDS / 4 - 4)
				continue; /* nobody needs words after the last */
			const __m128i seven_ago = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
			w[i & 3] = _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]), seven_ago);
			w[i & 3] = _mm_sha256msg2_epu32(w[i & 3], w[(i + 3) & 3]);
		}
		abef = _mm_add_epi32(abef, before_abef);
		cdgh = _mm_add_epi32(cdgh, before_cdgh);
	}
	const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* ---- arm64: the cryptography extension ------------------------------------------------------------------------------------------ */

#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>

#define HAS_SHA2 (1u << 6) /* HWCAP_SHA2 of asm/hwcap.h */

static bool has_instructions(void)
{
	return getauxval(AT_HWCAP) & HAS_SHA2;
}

__attribute__((target("+crypto"))) static void use_instructions(uint32_t state[8], const unsigned char *p, size_t count)
{
	uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
	for (; count > 0; count--, p += BLOCK) {
		const uint32x4_t before_abcd = abcd, before_efgh = efgh;
		uint32x4_t w[4];
		for (int i = 0; i < 4; i++)
			w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + (size_t)16 * i)));
#pragma GCC unroll 16
		for (int i = 0; i < ROUNDS / 4; i++) {
			const uint32x4_t word = vaddq_u32(w[i & 3], vld1q_u32(constants + (size_t)4 * i)), first = abcd;
			abcd = vsha256hq_u32(abcd, efgh, word);
			efgh = vsha256h2q_u32(efgh, first, word);
			if (i < ROUNDS / 4 - 4) /* nobody needs words after the last */
				w[i & 3] = vsha256su1q_u32(vsha256su0q_u32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3], w[(i + 3) & 3]);
		}
		abcd = vaddq_u32(abcd, before_abcd);
		efgh = vaddq_u32(efgh, before_efgh);
	}
	vst1q_u32(state, abcd);
	vst1q_u32(state + 4, efgh);
}

#else
static bool has_instructions(void)
{
	return false;
}

static void use_instructions(uint32_t state[8], const unsigned char *p, size_t count)
{
	sha256_blocks_plain(state, p, count);
}
#endif

void sha256_blocks(uint32_t state[8], const unsigned char *p, size_t count)
{
	static int has = -1; /* every thread finds the same */
	int known = __atomic_load_n(&has, __ATOMIC_RELAXED);
	if (known < 0) {
		known = has_instructions();
		__atomic_store_n(&has, known, __ATOMIC_RELAXED);
	}
	if (known)
		use_instructions(state, p, count);
	else
		sha256_blocks_plain(state, p, count);
}
