/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the broker itself says to a client: the last thing on its connection. Then it is heard out, since closing a socket with something unread in it would reset it, and the
 * answer be lost.
 */
#ifndef CORDON_EGRESS_ANSWER_H
#define CORDON_EGRESS_ANSWER_H

#include "base/buf.h"
#include "egress/channel.h"

#define ANSWER_HEARD_MAX ((size_t)1 << 20) /* bytes that a client may send behind it */

struct answer {
	struct buf text; /* none: the end is all there is to say */
	size_t at, heard;
	bool asked; /* the client waits for it: else its first word is, since an answer to nothing would surprise it */
};

/* status: "403 Forbidden"; the rest becomes {"error":{"code":…,"message":…,"hint":…}}. */
void answer_error(struct answer *a, const char *status, const char *code, const char *message, const char *hint);
/* CHANNEL_BLOCKED: come again after an edge; CHANNEL_ENDED: that was all. piece: room for what is read and not looked at. */
enum channel_result answer_give(struct answer *a, struct channel *client, void *piece, size_t size);

#endif
