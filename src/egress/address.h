/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses outside that a name may resolve to. Whoever runs a name's zone can make it any address: one of the host itself, of the network it is in, of a cloud's
 * metadata service. These are dialled only if a rule of the policy names their block.
 */
#ifndef CORDON_EGRESS_ADDRESS_H
#define CORDON_EGRESS_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/policy.h"

/* Why not, "a private address"; NULL: it is one of the public internet. Sees through IPv4 in IPv6's clothes (mapped, 6to4, NAT64, ISATAP). */
const char *address_special(const struct sockaddr *a);

/* The IPv4 addresses that an IPv6 address leads to as in address_special(), mapped ones but not; how many: one at most for each way. */
#define ADDRESS_CARRIED_MAX 3
size_t address_carried(const struct sockaddr *a, struct sockaddr_in out[ADDRESS_CARRIED_MAX]);

/*
 * May a connection for an allowed name and this port end there? By policy: network.deny names blocks, too, and rules with blocks let names resolve into them, if they are no
 * wider than what is special: 169.254.0.0/16 stands for link-local addresses, but not for the metadata service among them, and 0.0.0.0/0 for no special address. *why: NULL if
 * it may.
 */
bool address_allowed(const struct cordon_policy *policy, const struct sockaddr *a, uint16_t port, const char **why);

/* Does a rule for this port name the address, or a block around it whose prefix has at least so many bits? */
bool address_named(const struct cordon_policy *policy, const struct sockaddr *a, uint16_t port, unsigned bits);

#endif
