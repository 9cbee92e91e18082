/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104). Here, since the programs that need it are static and small. */
#ifndef CORDON_BASE_SHA256_H
#define CORDON_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX (2 * SHA256_SIZE + 1)

struct sha256 {
	uint32_t state[8];
	uint64_t len;
	unsigned char block[64];
};
void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_SIZE]);

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len, unsigned char out[SHA256_SIZE]);

void sha256_hex(const unsigned char digest[SHA256_SIZE], char out[SHA256_HEX]);

#endif
