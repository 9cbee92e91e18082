/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a file's contents that does not depend on where its holes are: blocks of zeros count as holes, whether they lie on disk or not. A hole costs nothing,
 * however large it is.
 */
#ifndef CORDON_IMAGE_CONTENT_H
#define CORDON_IMAGE_CONTENT_H

#include <stdint.h>

#include "base/sha256.h"

#define CONTENT_BLOCK 4096

struct content {
	struct sha256 data; /* of the blocks that are not all zeros */
	struct sha256 runs; /* of the lengths, in blocks, of what is zeros and what is not, by turns */
	uint64_t run;       /* of this kind so far */
	int zeros;          /* which kind it is */
	unsigned filled;    /* bytes in block */
	unsigned char block[CONTENT_BLOCK];
};
void content_begin(struct content *c);
/* data NULL: so many zeros. */
void content_add(struct content *c, const void *data, uint64_t len);
/* Adds it to the digest of something larger. */
void content_end(struct content *c, struct sha256 *into);

#endif
