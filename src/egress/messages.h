/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library (lib/egress.h) and the broker say to each other, as WIRE_BROKER messages over the socket that the broker is started with:
 *
 *   library ── CONFIG, SOCKETS … ──▶ broker     (until all sockets that CONFIG announces are there)
 *   library ◀─ READY, or WIRE_ERROR ── broker
 *   library ◀─ EVENT … ── broker                (before the sandbox is answered: who sees a refusal knows that it is on record)
 *   library ── FRESH ──▶ broker                 (a command begins: its refusals are told, whatever was told before)
 *
 * Closing the socket ends the broker, after the events of what was still open.
 */
#ifndef CORDON_EGRESS_MESSAGES_H
#define CORDON_EGRESS_MESSAGES_H

#include "base/err.h"
#include "sandbox/airlock.h"
#include "sandbox/spec.h"

#define BROKER_FD 3 /* where the broker finds that socket */

enum broker_message { BROKER_CONFIG = 1, BROKER_SOCKETS, BROKER_READY, BROKER_EVENT, BROKER_FRESH, BROKER_MESSAGE_COUNT };

struct broker_config {
	struct string_list policy;  /* "KEY=VALUE" as policy_settings() makes them: network.* and secrets */
	const char *proxy;          /* "http://[USER:PASSWORD@]HOST:PORT", by which the host itself gets out; NULL: directly */
	const char *resolv, *hosts; /* files by which names are resolved; NULL: the host's */
	uint32_t connections;       /* most at a time */
	uint64_t bandwidth;         /* bytes per second, both ways together; 0: no limit */
	uint32_t sockets;           /* how many follow */
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
};

void broker_config_encode(const struct broker_config *c, struct buf *b);
/* Points into the body; c->policy.items is to be freed. */
int broker_config_decode(const void *body, size_t len, struct broker_config *c, struct cordon_error *err);
/* At most WIRE_MAX_FDS; the descriptors travel beside it. */
void broker_sockets_encode(const struct airlock_socket *s, size_t count, struct buf *b);
int broker_sockets_decode(const void *body, size_t len, struct airlock_socket *out, size_t *count, struct cordon_error *err);
void broker_event_encode(const struct broker_event *e, struct buf *b);
int broker_event_decode(const void *body, size_t len, struct broker_event *e, struct cordon_error *err); /* points into the body */
/* Which message a body is; 0: none. */
enum broker_message broker_message_kind(const void *body, size_t len);

#endif
