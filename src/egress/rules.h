/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy says of a name that somebody asks for, and of an address in the airlock that somebody connects to. */
#ifndef CORDON_EGRESS_RULES_H
#define CORDON_EGRESS_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "egress/names.h"
#include "policy/host.h"
#include "policy/match.h"
#include "policy/policy.h"

/* May this name be known inside: is any port of it allowed? */
bool rules_resolvable(const struct cordon_policy *p, const struct host_target *name, struct policy_verdict *v);

struct destination {
	struct host_target target; /* whose connection it is to be; where it is refused: what is known of it */
	uint32_t number;           /* of a name; 0: it is an address */
	uint16_t port;
	enum policy_protocol protocol;
};
/* local: where in the airlock the connection arrived. */
bool rules_connection(const struct cordon_policy *p, const struct names *names, const struct sockaddr *local, struct destination *out,
                      struct policy_verdict *v);

/* May this host be dialled at another port than the one that was asked for? */
bool rules_other_port(const struct cordon_policy *p, const struct host_target *target, uint16_t port, struct policy_verdict *v);

#endif
