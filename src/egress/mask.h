/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server may say back what it was sent (an error page, a debugging endpoint): each secret in what it says is overwritten with stars, as many as it has bytes, wherever reads
 * happen to cut it. Not seen is what is not there byte by byte: in a compressed answer, in another encoding, in two chunks of a body. So this keeps accidents out, not a server
 * that wants the sandbox to know: whoever may not know the secret at all must not be among its hosts.
 */
#ifndef CORDON_EGRESS_MASK_H
#define CORDON_EGRESS_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MASK_SHORTEST 8 /* shorter ones would be found where they are not meant */
#define MASK_MOST 64    /* in one stream */

/* What is looked for; made once, outlives every mask with it. */
struct needle {
	const char *data; /* outlives it */
	size_t len;
	uint32_t *back; /* how much of it still fits when the next byte does not; NULL: it is too short to be looked for */
};
int needle_init(struct needle *n, const char *data, size_t len); /* -1: out of memory */
void needle_clear(struct needle *n);

struct mask {
	const struct needle *needles[MASK_MOST];
	size_t fits[MASK_MOST]; /* of each, how much of it the last bytes are */
	size_t count;
};
/* False: there is room for no more. */
bool mask_add(struct mask *m, const struct needle *n);
/* Appends these bytes to what came before, and overwrites in there. -1: out of memory. */
int mask_feed(struct mask *m, const char *data, size_t len, struct buf *out);
/* How many of the last bytes of it may be the beginning of a secret, and must wait for more (or for the end, at which they are none). */
size_t mask_held(const struct mask *m);

#endif
