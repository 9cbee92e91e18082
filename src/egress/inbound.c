/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A guest, once accepted, waits for a pair of sockets of the sandbox, which as a rule is there already; the first of the two that is not refused inside
 * is its relay's, together with the guest's own. Until then it has a limited time. If nothing listens, it gets a reset.
 */
#include "egress/inbound.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "egress/clock.h"
#include "egress/conn.h"
#include "egress/door.h"
#include "egress/relay.h"
#include "egress/report.h"
#include "egress/socket.h"

struct guest {
	struct inbound *inbound;
	TAILQ_ENTRY(guest) link; /* in inbound.guests, or in inbound.waiting */
	uint64_t id, opened_us;
	uint16_t port;
	bool waiting;
	int fd; /* -1: the relay has it */
	struct door_pair pair;
	size_t tried; /* of the pair: this one is being connected */
	struct event meanwhile, connecting, timer;
	struct relay *relay;
	char peer[64];
};

TAILQ_HEAD(guest_list, guest);

struct inbound {
	struct broker *broker;
	struct door *door;
	struct guest_list guests, waiting; /* waiting: for a pair, longest first */
	size_t waiting_count;
};

static struct broker_event event_of(const struct guest *g, enum broker_event_kind kind, const char *reason)
{
	return (struct broker_event){.kind = kind,
	                             .id = g->id,
	                             .target = "127.0.0.1",
	                             .port = g->port,
	                             .protocol = "tcp",
	                             .rule = "network.inbound",
	                             .reason = reason,
	                             .address = g->peer};
}

/* ---- its end ------------------------------------------------------------------------------------------------------------------- */

static void leave_waiting(struct guest *g)
{
	if (!g->waiting)
		return;
	TAILQ_REMOVE(&g->inbound->waiting, g, link);
	TAILQ_INSERT_TAIL(&g->inbound->guests, g, link);
	g->inbound->waiting_count--;
	g->waiting = false;
}

static void guest_free(struct guest *g, bool reset)
{
	struct broker *b = g->inbound->broker;
	leave_waiting(g);
	TAILQ_REMOVE(&g->inbound->guests, g, link);
	b->conn_count--;
	b->guest_count--;
	event_del(&g->meanwhile);
	event_del(&g->connecting);
	event_del(&g->timer);
	relay_free(g->relay, reset);
	socket_close(g->fd, reset);
	door_pair_close(&g->pair);
	free(g);
	broker_resume(b);
}

static void failed(struct guest *g, const char *reason)
{
	const struct broker_event e = event_of(g, BROKER_FAILED, reason);
	report_limited(g->inbound->broker->reporter, &e);
	guest_free(g, true);
}

/* As for any connection: "sent" is what the sandbox sent. */
static void tell_closed(const struct guest *g, const char *reason)
{
	struct broker_event e = event_of(g, BROKER_CLOSED, reason);
	e.sent = relay_bytes(g->relay, RELAY_DOWN);
	e.received = relay_bytes(g->relay, RELAY_UP);
	e.duration_us = clock_us() - g->opened_us;
	report(g->inbound->broker->reporter, &e);
}

static void on_over(void *arg, enum relay_end how)
{
	struct guest *g = arg;
	tell_closed(g, how == RELAY_RESET ? "it was reset" : how == RELAY_IDLE ? "it was idle for too long" : NULL);
	guest_free(g, how != RELAY_DONE);
}

/* ---- connecting ---------------------------------------------------------------------------------------------------------------- */

static void connected(struct guest *g, int *server)
{
	const struct broker_event e = event_of(g, BROKER_OPENED, NULL);
	struct broker *b = g->inbound->broker;
	struct buf none = {0};
	report(b->reporter, &e);
	g->opened_us = clock_us();
	event_del(&g->meanwhile);
	event_del(&g->timer);
	socket_tune(*server);
	socket_bound_buffers(*server, b->conn_count);
	const struct relay_spec spec = {.client = g->fd, .server = *server, .first = &none, .copied = true, .over = on_over, .over_arg = g};
	g->relay = relay_start(b->relays, &spec);
	if (!g->relay) {
		failed(g, "out of memory");
		return;
	}
	g->fd = *server = -1;
	door_pair_close(&g->pair); /* the other one */
}

/* 0: it is connected, or an errno; EINPROGRESS: `connecting` tells. */
static int begin_connect(struct guest *g, int fd)
{
	const struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(g->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(g->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const bool is_six = g->tried == DOOR_V6;
	const void *to = is_six ? (const void *)&six : &four;
	return door_connect(fd, to, is_six ? sizeof(six) : sizeof(four)) == 0 ? 0 : errno;
}

static void refused(struct guest *g, int why)
{
	char reason[128];
	if (why == ECONNREFUSED || why == EADDRNOTAVAIL) /* the latter: of a family that the sandbox does not have */
		snprintf(reason, sizeof(reason), "nothing listens on port %u inside", (unsigned)g->port);
	else
		snprintf(reason, sizeof(reason), "port %u inside cannot be reached: %s", (unsigned)g->port, strerror(why));
	failed(g, reason);
}

static void on_connecting(evutil_socket_t fd, short what, void *arg);

/* One after the other; why: what became of the one before. */
static void connect_next(struct guest *g, int why)
{
	for (; g->tried < DOOR_FAMILIES; g->tried++) {
		int *fd = &g->pair.fds[g->tried];
		if (*fd < 0)
			continue;
		why = begin_connect(g, *fd);
		if (why == 0) {
			connected(g, fd);
			return;
		}
		event_assign(&g->connecting, g->inbound->broker->base, *fd, EV_WRITE, on_connecting, g);
		if (why == EINPROGRESS && event_add(&g->connecting, NULL) == 0)
			return;
	}
	refused(g, why);
}

static void on_connecting(evutil_socket_t fd, short what, void *arg)
{
	struct guest *g = arg;
	const int failure = socket_failure(fd);
	(void)what;
	if (failure == 0) {
		connected(g, &g->pair.fds[g->tried]);
		return;
	}
	g->tried++;
	connect_next(g, failure);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------------------- */

/* False: it is still waiting. */
static bool serve(struct guest *g)
{
	switch (door_take(g->inbound->door, &g->pair)) {
	case DOOR_LATER:
		return false;
	case DOOR_GIVEN:
		leave_waiting(g);
		connect_next(g, ECONNREFUSED);
		return true;
	case DOOR_NONE:
		failed(g, "the sandbox cannot make a socket");
		return true;
	case DOOR_SHUT:
		failed(g, "the sandbox does not let anybody in any more");
		return true;
	}
	return false;
}

static void on_door(void *arg)
{
	struct inbound *in = arg;
	struct guest *g;
	while ((g = TAILQ_FIRST(&in->waiting)) && serve(g))
		;
	door_need(in->door, in->waiting_count);
}

/* What the guest sends meanwhile, or that it has ended, is the relay's to find. */
static void on_meanwhile(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	if (socket_failure(fd))
		failed(arg, "who wanted in broke off");
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	failed(arg, "the sandbox did not answer in time: is it paused, or its server too busy?");
}

static void name_peer(struct guest *g, const struct sockaddr *peer)
{
	const bool six = peer->sa_family == AF_INET6;
	const struct sockaddr_in *four = (const void *)peer;
	const struct sockaddr_in6 *v6 = (const void *)peer;
	char address[INET6_ADDRSTRLEN] = "";
	inet_ntop(peer->sa_family, six ? (const void *)&v6->sin6_addr : &four->sin_addr, address, sizeof(address));
	snprintf(g->peer, sizeof(g->peer), six ? "[%s]:%u" : "%s:%u", address, (unsigned)ntohs(six ? v6->sin6_port : four->sin_port));
}

void inbound_accepted(struct inbound *in, int fd, const struct sockaddr *peer, uint16_t port)
{
	static const struct timeval patience = {INBOUND_PATIENCE_S, 0};
	struct broker *b = in->broker;
	struct guest *g = calloc(1, sizeof(*g));
	if (!g) {
		socket_close(fd, true);
		return;
	}
	*g = (struct guest){.inbound = in, .fd = fd, .port = port, .pair = DOOR_PAIR_NONE, .waiting = true, .id = b->next_id++};
	name_peer(g, peer);
	socket_reset_unless_closed(fd);
	socket_tune(fd);
	socket_bound_buffers(fd, b->conn_count);
	event_assign(&g->meanwhile, b->base, fd, EV_READ | EV_PERSIST | EV_ET, on_meanwhile, g);
	event_assign(&g->connecting, b->base, -1, 0, on_connecting, g);
	evtimer_assign(&g->timer, b->base, on_timeout, g);
	TAILQ_INSERT_TAIL(&in->waiting, g, link);
	in->waiting_count++;
	b->conn_count++;
	b->guest_count++;
	if (event_add(&g->meanwhile, NULL) < 0 || evtimer_add(&g->timer, &patience) < 0) {
		failed(g, "out of memory");
		return;
	}
	on_door(in);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static void close_list(struct guest_list *list)
{
	struct guest *g;
	while ((g = TAILQ_FIRST(list))) {
		const struct broker_event never = event_of(g, BROKER_FAILED, "the sandbox ended before it was let in");
		if (g->relay)
			tell_closed(g, "the sandbox ended");
		else
			report(g->inbound->broker->reporter, &never);
		guest_free(g, true);
	}
}

void inbound_close_all(struct inbound *in)
{
	if (!in)
		return;
	close_list(&in->waiting);
	close_list(&in->guests);
}

struct inbound *inbound_new(struct broker *b, int door)
{
	struct inbound *in = calloc(1, sizeof(*in));
	if (!in)
		return NULL;
	in->broker = b;
	TAILQ_INIT(&in->guests);
	TAILQ_INIT(&in->waiting);
	in->door = door_new(b->base, door, on_door, in);
	if (in->door)
		return in;
	free(in);
	return NULL;
}

void inbound_free(struct inbound *in)
{
	if (!in)
		return;
	inbound_close_all(in);
	door_free(in->door);
	free(in);
}
