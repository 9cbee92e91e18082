/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of a sandbox on the host's loopback (network.inbound): the sockets that listen there, in the network of whoever uses the library, and the door (sandbox/init_door.c) by
 * which the broker (egress/inbound.h) takes those in who come. Never another address than 127.0.0.1 and ::1.
 */
#ifndef CORDON_LIB_PUBLISH_H
#define CORDON_LIB_PUBLISH_H

#include "lib/exec.h"
#include "sandbox/airlock.h"

struct published {
	struct airlock_socket sockets[2 * POLICY_INBOUND_MAX];
	size_t count;
	/* of each item of network.inbound; 0: none so far. They outlive publish_close(): it gets the same one again */
	uint16_t host_ports[POLICY_INBOUND_MAX];
};

/* For all of network.inbound; after a failure, for none of it. */
int publish_open(struct published *p, const struct cordon_policy *policy, struct cordon_error *err);
void publish_close(struct published *p);

/* Puts on record by which number each is published. */
int publish_announce(struct cordon_sandbox *s, const struct published *p, struct cordon_error *err);
/* What is published now (egress_published()), each as "INSIDE HOST"; added to out. */
int publish_list(struct cordon_sandbox *s, struct strlist *out, struct cordon_error *err);

/* A new door, for a new broker; `out` is its side of it. */
int publish_door(struct cordon_sandbox *s, struct airlock_socket *out, struct cordon_error *err);

#endif
