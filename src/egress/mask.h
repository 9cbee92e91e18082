/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server may say back what it was sent (an error page, a debugging endpoint): each secret that is found in what it says is overwritten with stars, as many as it has bytes.
 *
 * This is for accidents. It cannot see a secret that is not there byte by byte, in one piece: compressed, in ranges, in two chunks of a body or two frames, in another encoding (base64,
 * percent signs, "\/" in JSON), or shorter than MASK_SHORTEST. Of one that is cut by reads, what was passed on before is gone; only the rest of it becomes stars. A server that
 * wants the sandbox to know is not held up by it: whoever may not know the secret at all must not be among its hosts.
 *
 * Nothing is ever held back until it is clear what it becomes. If it were, who can have a server say a text of its choice would see from what does not arrive, or arrives late,
 * how much of the text is the secret's beginning, and find out the whole of it byte by byte; and an answer that happens to end so would never be whole. For the same
 * reason the search takes as long for a text that is like the secret as for any other: at each place the first MASK_SHORTEST bytes are compared at once, and if these are
 * right, which is no news to who knew them, all of the others are.
 */
#ifndef CORDON_EGRESS_MASK_H
#define CORDON_EGRESS_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MASK_SHORTEST 8 /* shorter ones would be found where they are not meant */
#define MASK_MOST 64    /* in one stream */

struct mask {
	struct {
		const char *data;
		size_t len;
	} secrets[MASK_MOST];
	size_t count, longest;
	struct buf seen; /* the last bytes of the stream, as they came: those that a secret may have begun with */
};
/* A secret that outlives the mask. One that is too short is passed over. False: there is room for no more. */
bool mask_add(struct mask *m, const char *data, size_t len);
/* Appends these bytes, which come behind those of the calls before, and overwrites in there: of what was in `out` before nothing is changed. -1: out of memory. */
int mask_feed(struct mask *m, const char *data, size_t len, struct buf *out);
void mask_clear(struct mask *m);

#endif
