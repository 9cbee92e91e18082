/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library (lib/egress.h) and the broker say to each other, as WIRE_BROKER messages over the socket that the broker is started with:
 *
 *   library ── CONFIG ──▶ broker
 *   library ◀─ AUTHORITY ── broker              (if the policy has secrets: before the sandbox is made, which is to believe it)
 *   library ── SECRETS … ──▶ broker             (if the policy has secrets: a pipe each, in its order, out of which the value comes)
 *   library ── SOCKETS … ──▶ broker             (the last one says so)
 *   library ◀─ READY ── broker                  (or WIRE_ERROR, at any time before it)
 *   library ◀─ EVENT … ── broker                (before the sandbox is answered: who sees a refusal knows that it is on record)
 *   library ── FRESH ──▶ broker                 (a command begins: its refusals are told, whatever was told before, and the host's resolvers may be others)
 *
 * Closing the socket ends the broker, after the events of what was still open.
 */
#ifndef CORDON_EGRESS_MESSAGES_H
#define CORDON_EGRESS_MESSAGES_H

#include "base/err.h"
#include "policy/policy.h"
#include "sandbox/airlock.h"
#include "sandbox/spec.h"

#define BROKER_FD 3 /* where the broker finds that socket */

/* The airlock's, those of published ports, and a door. */
#define BROKER_SOCKETS_MAX (AIRLOCK_SOCKETS_MAX + 2 * POLICY_INBOUND_MAX + 1)

enum broker_message {
	BROKER_CONFIG = 1,
	BROKER_AUTHORITY,
	BROKER_SECRETS,
	BROKER_SOCKETS,
	BROKER_READY,
	BROKER_EVENT,
	BROKER_FRESH,
	BROKER_MESSAGE_COUNT,
};

/* By which the broker speaks for the hosts that secrets are for (egress/authority.h), and of which the sandbox gets the certificate: both in PEM. */
struct broker_authority {
	const char *certificate, *key; /* NULL: none */
};

struct broker_config {
	struct string_list policy;  /* "KEY=VALUE" as policy_settings() makes them: network.* and secrets */
	const char *proxy;          /* "[http://][USER:PASSWORD@]HOST:PORT", by which the host itself gets out; NULL: directly */
	const char *proxy_from;     /* the variable that says so; NULL: none */
	const char *no_proxy;       /* the hosts that are reached without it all the same, as in NO_PROXY; NULL: none */
	const char *resolv, *hosts; /* files by which names are resolved; NULL: the host's */
	const char *trust; /* a file of certificates that servers are verified by (PEM); NULL: the host's. Read only if there are secrets */
	struct broker_authority authority; /* of an earlier broker of this sandbox */
	uint32_t connections;              /* most at a time */
	uint64_t bandwidth;                /* bytes per second, both ways together; 0: no limit */
};

enum broker_event_kind {
	BROKER_DENIED = 1, /* a name, a connection or a request was refused */
	BROKER_OPENED,     /* a connection reached its host */
	BROKER_CLOSED,     /* … and is over: bytes and duration */
	BROKER_FAILED,     /* allowed, but its host could not be reached */
	BROKER_EVENT_COUNT,
};

struct broker_event {
	enum broker_event_kind kind;
	uint64_t id;          /* of the connection, 0: none (a name was asked for) */
	const char *target;   /* "api.example.com" or an address; as the sandbox said it, printable */
	uint16_t port;        /* 0: a name was asked for */
	const char *protocol; /* "dns", "tls", "http", "tcp" */
	const char *
		rule; /* the key that decided: "network.outbound", "network.deny"; "network.name" where names differ, "network.address" where a name leads to one that is not public */
	const char *reason;  /* one line */
	const char *address; /* that was dialled; NULL: none */
	uint64_t sent, received, duration_us;
	uint64_t again; /* 0: this is told for the first time; else how often it has happened since it was told */
};

void broker_config_encode(const struct broker_config *c, struct buf *b);
/* Points into the body; c->policy.items is to be freed. */
int broker_config_decode(const void *body, size_t len, struct broker_config *c, struct cordon_error *err);
void broker_authority_encode(const struct broker_authority *a, struct buf *b);
int broker_authority_decode(const void *body, size_t len, struct broker_authority *a, struct cordon_error *err); /* points into the body */
/* At most WIRE_MAX_FDS, whose descriptors travel beside it; last: no more follow. */
void broker_sockets_encode(const struct airlock_socket *s, size_t count, bool last, struct buf *b);
int broker_sockets_decode(const void *body, size_t len, struct airlock_socket *out, size_t *count, bool *last, struct cordon_error *err);
void broker_event_encode(const struct broker_event *e, struct buf *b);
int broker_event_decode(const void *body, size_t len, struct broker_event *e, struct cordon_error *err); /* points into the body */
void broker_fresh_encode(const char *resolv, struct buf *b); /* the contents of resolv.conf, NULL: as before */
int broker_fresh_decode(const void *body, size_t len, const char **resolv, struct cordon_error *err); /* points into the body */
/* Which message a body is; 0: none. */
enum broker_message broker_message_kind(const void *body, size_t len);

#endif
