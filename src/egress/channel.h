/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a connection that the broker is itself an end of: a socket that does not block, plain or with TLS over it. Watched for edges: `readable` and `writable` are
 * what they said, until the kernel says EAGAIN.
 */
#ifndef CORDON_EGRESS_CHANNEL_H
#define CORDON_EGRESS_CHANNEL_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CHANNEL_WHY 192

struct channel {
	int fd;
	SSL *ssl; /* NULL: plain */
	struct event event;
	bool readable, writable;
	struct buf first; /* what was read of the socket before; the first `taken` bytes have been used */
	size_t taken;
	bool shaken;           /* the handshake is over */
	bool eof;              /* of the socket */
	bool notified;         /* TLS said that it is the end */
	bool shut;             /* we have said so */
	char why[CHANNEL_WHY]; /* CHANNEL_FAILED: one line */
	bool failed_tls;       /* … and it was not the socket */
};

enum channel_result {
	CHANNEL_OK,
	CHANNEL_BLOCKED, /* come again after an edge */
	CHANNEL_ENDED,   /* there is nothing more to read */
	CHANNEL_FAILED,
};

/* ssl: in the state in which it is to shake hands, or NULL; taken over with the socket and `first`. `on` is called with `arg` on edges, of which channel_edge() is to be told. */
int channel_open(struct channel *c, struct event_base *base, int fd, SSL *ssl, struct buf *first, event_callback_fn on, void *arg);
void channel_edge(struct channel *c, short what);
/* reset: so that the other side sees that it was not the regular end. One that was never opened must have fd -1. */
void channel_close(struct channel *c, bool reset);

enum channel_result channel_handshake(struct channel *c);
enum channel_result channel_read(struct channel *c, void *data, size_t len, size_t *got);
enum channel_result channel_write(struct channel *c, const void *data, size_t len, size_t *put);
/* No more will be written. notify: TLS says so as well; without, the other side knows that something may be missing. CHANNEL_BLOCKED: to be called again. */
enum channel_result channel_end(struct channel *c, bool notify);

#endif
