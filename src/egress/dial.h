/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the outside: a name is resolved here, by the host's own resolver and hosts file and by nobody inside, every address that comes out is held against the policy (address.h), and what
 * is left is dialled, both families in a race (RFC 8305). Where the host gets out by a proxy only, the proxy is given the name, and
 * resolves it: which addresses it may mean is then the proxy's to judge.
 */
#ifndef CORDON_EGRESS_DIAL_H
#define CORDON_EGRESS_DIAL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/host.h"
#include "policy/policy.h"

#define DIAL_TIMEOUT_S 10                /* to resolve, to connect, and to be answered by a proxy: each */
#define DIAL_HOST "host.cordon.internal" /* the loopback of this machine, for whom a rule names exactly this */

enum dial_outcome { DIAL_CONNECTED, DIAL_DENIED, DIAL_FAILED };

struct dial_result {
	enum dial_outcome outcome;
	int fd;           /* DIAL_CONNECTED: the callee's, does not block */
	char address[64]; /* that was dialled last; "": none */
	char reason[192]; /* otherwise: one line without a full stop */
};

typedef void dial_done(void *arg, const struct dial_result *result);

struct dialler_config {
	const struct cordon_policy *policy;                         /* outlives the dialler */
	const char *proxy, *proxy_from, *no_proxy, *resolv, *hosts; /* as in struct broker_config */
};

struct dialler;
/* Reads all files that it needs. */
struct dialler *dialler_new(struct event_base *base, const struct dialler_config *config, struct cordon_error *err);
void dialler_free(struct dialler *d);
/* The contents of resolv.conf are others now. */
void dialler_renew(struct dialler *d, const char *resolv);

struct dial;
/* `done` is called once, and never out of dial_start(). NULL: out of memory. */
struct dial *dial_start(struct dialler *d, const struct host_target *target, uint16_t port, dial_done *done, void *arg);
/* Before it is done: it never will be. */
void dial_cancel(struct dial *x);

#endif
