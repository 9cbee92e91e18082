/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that look like the internet's and are not: the host's own, on which its services listen behind every firewall, and those of the networks that it is in by
 * IPv6, where each printer has one. As the interfaces were when the broker started, and as they are now, as far as the kernel tells without being asked for a list: the host's own
 * are those that a socket can be bound to, and a route tells of neighbours (no packet is sent).
 */
#ifndef CORDON_EGRESS_NEARBY_H
#define CORDON_EGRESS_NEARBY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

struct nearby;
struct nearby *nearby_new(struct cordon_error *err);
void nearby_free(struct nearby *n);

struct nearby_place {
	bool is_host;
	const char *what; /* "an address of this host" */
	unsigned bits;    /* of a rule that names it, at least: it is no wider than what the host has there */
};

/* For an address that address_special() knows nothing of. NULL: it is not nearby. */
const struct nearby_place *nearby_find(const struct nearby *n, const struct sockaddr *a, struct nearby_place *out);

#endif
