/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that carries secrets. Here the client's TLS ends (or its plain HTTP), as if this were the host, and another TLS begins, with the host, who must prove that it is
 * the one. Every request between them is held against the same rules as in plain HTTP (http.h), gets its secrets (rewrite.h), and what comes back is passed on without them
 * (mask.h). No secret leaves before the host has been verified, and none ever leaves without TLS.
 *
 * A request that gets no secret is answered here (403, with the reason), behind the host's answers to those before it, and so is one for a host that cannot be verified, or does
 * not accept us (502). What is not HTTP is reset.
 */
#ifndef CORDON_EGRESS_COURIER_H
#define CORDON_EGRESS_COURIER_H

#include <stdbool.h>
#include <stdint.h>

#include "egress/couriers.h"
#include "egress/relay.h"

#define COURIER_SHAKE_S 20 /* for which the two handshakes may take */
#define COURIER_LEAVE_S 5  /* for a client to read its last answer, and to end */

enum courier_news {
	COURIER_OPENED,  /* the host is the one */
	COURIER_FAILED,  /* it cannot be verified, or TLS failed on either side: `why` */
	COURIER_DENIED,  /* a request gets no secret: `why` */
	COURIER_REFUSED, /* what the client sends is not for this host, or no HTTP: `why` */
};
/* Said before the client can notice. courier_free() is not to be called out of it. */
typedef void courier_told(void *arg, enum courier_news news, const char *why);

struct courier_spec {
	const struct host_target *host;
	uint16_t port;      /* that the client dialled */
	bool tls;           /* the client speaks it */
	int client, server; /* do not block; taken over */
	struct buf *first;  /* what the client has sent already; taken over */
	courier_told *told;
	relay_over *over; /* to be followed by courier_free(), which may be called at once */
	void *arg;        /* of both; neither is called out of courier_start() */
};

struct courier;
struct courier *courier_start(struct couriers *s, const struct courier_spec *spec); /* NULL: out of memory, and nothing was taken over */
uint64_t courier_bytes(const struct courier *c, enum relay_way way);                /* inside TLS, as the client sees them */
void courier_free(struct courier *c, bool reset);

#endif
