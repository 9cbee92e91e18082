/* SPDX-License-Identifier: Apache-2.0 */
/* What all connections that carry secrets (courier.h) have in common: the secrets, whom the sandbox believes, and whom the broker does. */
#ifndef CORDON_EGRESS_COURIERS_H
#define CORDON_EGRESS_COURIERS_H

#include <event2/event.h>

#include "base/err.h"
#include "egress/authority.h"
#include "egress/bucket.h"
#include "egress/keyring.h"
#include "egress/messages.h"

#define COURIERS_PIECE ((size_t)16 << 10) /* bytes that are read at once: what a record of TLS has at most */

struct couriers {
	struct event_base *base;
	struct bucket *bucket;
	struct keyring keys;
	struct authority *authority;
	SSL_CTX *trust;
	char piece[COURIERS_PIECE]; /* what was read, until it is clear where it goes: never longer than one call */
};

struct couriers_config {
	struct event_base *base; /* these three outlive it */
	struct bucket *bucket;
	const struct cordon_policy *policy;
	const char *trust;                 /* as in struct broker_config, as is this: */
	struct broker_authority authority; /* copied */
};
/* Reads all files that it needs, and lets OpenSSL do so. */
struct couriers *couriers_new(const struct couriers_config *config, struct cordon_error *err);
void couriers_free(struct couriers *s);

#endif
