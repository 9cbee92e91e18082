/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's resolver (dns.h) on its sockets, over UDP and TCP. */
#ifndef CORDON_EGRESS_RESOLVE_H
#define CORDON_EGRESS_RESOLVE_H

#include "egress/broker.h"

#define RESOLVE_CONNECTIONS 16 /* over TCP, at a time; beyond, the one that was used least recently goes */
#define RESOLVE_IDLE_S 10      /* for which one may say nothing */

struct resolver;
/* ipv6: names have IPv6 addresses, too. NULL: out of memory. */
struct resolver *resolver_new(struct broker *b, bool ipv6);
void resolver_free(struct resolver *r);
/* Serves this socket, which it takes over. */
int resolver_add(struct resolver *r, const struct airlock_socket *s, struct cordon_error *err);

#endif
