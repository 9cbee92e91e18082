/* SPDX-License-Identifier: Apache-2.0 */
/* What SHA-256 does with each 64 bytes. */
#ifndef CORDON_BASE_SHA256_BLOCKS_H
#define CORDON_BASE_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

void sha256_blocks(uint32_t state[8], const unsigned char *p, size_t count);
void sha256_blocks_plain(uint32_t state[8], const unsigned char *p, size_t count); /* whatever the processor can do */

#endif
