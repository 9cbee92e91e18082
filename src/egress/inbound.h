/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections into the sandbox, by the ports that its policy publishes (network.inbound): who connects to such a port of the host's loopback is connected, by a socket of
 * the sandbox's own (door.h), to what listens on a port inside, 127.0.0.1 or else ::1. Nothing is looked at: it is the host that speaks.
 */
#ifndef CORDON_EGRESS_INBOUND_H
#define CORDON_EGRESS_INBOUND_H

#include "egress/broker.h"

#define INBOUND_PATIENCE_S 30 /* for a sandbox that is busy, or frozen */

struct sockaddr;
struct inbound;
struct inbound *inbound_new(struct broker *b, int door); /* takes the door over; NULL: out of memory, and it was not */
void inbound_free(struct inbound *in);

/* Takes fd over; port: inside. */
void inbound_accepted(struct inbound *in, int fd, const struct sockaddr *peer, uint16_t port);
void inbound_close_all(struct inbound *in); /* each is told of; in may be NULL */

#endif
