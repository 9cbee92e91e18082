/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: one process per sandbox, outside of it, that answers its questions about names (resolve.h) and makes its connections (conn.h), as far as the policy allows. One
 * thread, one event loop; nothing in it waits but for the library, which is told first (report.h).
 */
#ifndef CORDON_EGRESS_BROKER_H
#define CORDON_EGRESS_BROKER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "egress/messages.h"
#include "egress/names.h"
#include "policy/policy.h"

#define BROKER_CONNECTIONS 1000 /* at a time; fewer, if the library says so */
#define BROKER_RATE 100         /* new ones per second, out and in each … */
#define BROKER_BURST 1000       /* … after as many at once */
#define BROKER_FDS_EACH 6       /* two sockets, and a pipe each way while something is in it */
#define BROKER_FDS_OTHER 512    /* listeners, resolvers, attempts to connect, spare pipes */

TAILQ_HEAD(conn_list, conn);

/* Connections of one direction: those that wait do not keep the others waiting. */
struct intake {
	struct broker *broker;
	struct event *resume;
	bool paused;                    /* its listeners are not listened to */
	uint64_t may_accept, filled_us; /* how many, and since when more have become of it */
};

struct listener {
	struct broker *broker;
	struct intake *intake;
	struct event *event;
	uint16_t published; /* of a published port: the one inside; 0: it is the airlock's */
};

struct broker {
	struct event_base *base;
	struct cordon_policy policy;
	struct names *names;
	struct dialler *dialler;
	struct relays *relays;
	struct reporter *reporter;
	struct resolver *resolver;
	struct couriers *couriers; /* NULL: the policy has no secrets */
	struct event *library;
	struct inbound *inbound; /* NULL: nothing is published */
	struct listener listeners[BROKER_SOCKETS_MAX];
	size_t listener_count;
	struct intake out, in;                        /* of the sandbox, into it */
	struct conn_list conns, waiting;              /* waiting: for their first bytes, longest first */
	uint32_t conn_count, waiting_count, conn_max; /* all, both ways */
	uint32_t guest_count, guest_max; /* of these: into the sandbox; half, so that who comes in does not keep it from going out */
	uint64_t next_id;
};

/* Reads all files that will be needed. `connections`: as many as there can be descriptors for. */
struct broker *broker_new(const struct broker_config *c, uint32_t connections, struct cordon_error *err);
/* Takes the sockets over: all that there are. */
int broker_listen(struct broker *b, const struct airlock_socket *sockets, size_t count, struct cordon_error *err);
/* Until the library is gone, and returns when everything that is open has been told of and closed. */
void broker_run(struct broker *b);
void broker_free(struct broker *b);

/* A connection is over: another one can be accepted. */
void broker_resume(struct broker *b);

#endif
