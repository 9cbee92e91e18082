/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. An accepted connection is held against the policy by its address in the airlock: that is the name (or the address of a block rule). With protocol
 * `web` it then waits for the client's first bytes, and nobody is contacted before they are found to be for that name; with `tcp`, and for addresses, it is dialled at once.
 * Connected, it is a relay's until it ends, or a courier's, if secrets are for its host. What happens is told before the client can notice; a refusal is a reset.
 */
#include "egress/conn.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
#include "egress/clock.h"
#include "egress/courier.h"
#include "egress/dial.h"
#include "egress/http.h"
#include "egress/inspect.h"
#include "egress/relay.h"
#include "egress/report.h"
#include "egress/rules.h"
#include "egress/socket.h"

#define HEAD_MAX (HTTP_HEAD_MAX + (size_t)(16 << 10))
#define PIECE ((size_t)16 << 10)
#define PORT_HTTP 80
#define PORT_HTTPS 443

struct conn {
	struct broker *broker;
	TAILQ_ENTRY(conn) link; /* in broker.conns, or in broker.waiting */
	uint64_t id, opened_us;
	struct destination to;
	int fd; /* -1: the relay has it */
	bool waiting;
	struct event readable, timer;
	struct buf head; /* what the client has sent */
	size_t passed;   /* of it, may go */
	unsigned pieces;
	struct inspect *inspect; /* NULL: nothing is looked at */
	struct dial *dial;
	struct relay *relay;
	struct courier *courier; /* instead of it, where the host gets secrets */
	bool opened, failed;     /* as was told */
	char address[64];
};

static const char *const relay_ends[] = {
	[RELAY_DONE] = NULL,
	[RELAY_RESET] = "it was reset",
	[RELAY_IDLE] = "it was idle for too long",
	[RELAY_REFUSED] = "it was refused to go on",
};

static const char *protocol_of(const struct conn *c)
{
	return c->inspect ? inspect_protocol(c->inspect) : "tcp";
}

static struct broker_event event_of(const struct conn *c, enum broker_event_kind kind, const char *reason)
{
	return (struct broker_event){.kind = kind,
	                             .id = c->id,
	                             .target = c->to.target.name,
	                             .port = c->to.port,
	                             .protocol = protocol_of(c),
	                             .rule = "network.outbound",
	                             .reason = reason,
	                             .address = c->address[0] ? c->address : NULL};
}

static void denied(const struct conn *c, const char *rule, const char *reason)
{
	struct broker_event e = event_of(c, BROKER_DENIED, reason);
	e.rule = rule;
	report_limited(c->broker->reporter, &e);
}

static void failed(const struct conn *c, const char *reason)
{
	const struct broker_event e = event_of(c, BROKER_FAILED, reason);
	report_limited(c->broker->reporter, &e);
}

/* ---- its end ------------------------------------------------------------------------------------------------------------------- */

static void leave_waiting(struct conn *c)
{
	if (!c->waiting)
		return;
	struct broker *b = c->broker;
	TAILQ_REMOVE(&b->waiting, c, link);
	TAILQ_INSERT_TAIL(&b->conns, c, link);
	b->waiting_count--;
	c->waiting = false;
	event_del(&c->readable);
	event_del(&c->timer);
}

static void conn_free(struct conn *c, bool reset)
{
	struct broker *b = c->broker;
	leave_waiting(c);
	TAILQ_REMOVE(&b->conns, c, link);
	b->conn_count--;
	if (c->dial)
		dial_cancel(c->dial);
	event_del(&c->readable);
	relay_free(c->relay, reset);
	courier_free(c->courier, reset);
	socket_close(c->fd, reset);
	if (c->to.number)
		names_release(b->names, c->to.number);
	inspect_free(c->inspect);
	buf_free(&c->head);
	free(c);
	broker_resume(b);
}

static void tell_closed(const struct conn *c, const char *reason)
{
	struct broker_event e = event_of(c, BROKER_CLOSED, reason);
	e.sent = c->relay ? relay_bytes(c->relay, RELAY_UP) : courier_bytes(c->courier, RELAY_UP);
	e.received = c->relay ? relay_bytes(c->relay, RELAY_DOWN) : courier_bytes(c->courier, RELAY_DOWN);
	e.duration_us = clock_us() - c->opened_us;
	report(c->broker->reporter, &e);
}

static void on_over(void *arg, enum relay_end how)
{
	struct conn *c = arg;
	if (how == RELAY_REFUSED)
		denied(c, "network.name", inspect_why(c->inspect));
	tell_closed(c, relay_ends[how]);
	conn_free(c, how != RELAY_DONE);
}

/* Others may know of it: who answers for names, the host. So each is told, and there are no more of them than may be open. */
static void tell_unfinished(const struct conn *c)
{
	const struct broker_event e = event_of(c, BROKER_FAILED, "the sandbox ended while it was being connected");
	report(c->broker->reporter, &e);
}

static void close_list(struct conn_list *list)
{
	struct conn *c;
	while ((c = TAILQ_FIRST(list))) {
		if (c->opened)
			tell_closed(c, "the sandbox ended");
		else if ((c->dial || c->courier) && !c->failed)
			tell_unfinished(c);
		conn_free(c, true);
	}
}

void conn_close_all(struct broker *b)
{
	close_list(&b->waiting);
	close_list(&b->conns);
}

/* ---- dialled ------------------------------------------------------------------------------------------------------------------- */

static void opened(struct conn *c)
{
	const struct broker_event e = event_of(c, BROKER_OPENED, NULL);
	report(c->broker->reporter, &e);
	c->opened_us = clock_us();
	c->opened = true;
}

/* ---- with secrets -------------------------------------------------------------------------------------------------------------- */

static void on_news(void *arg, enum courier_news news, const char *why)
{
	struct conn *c = arg;
	if (news == COURIER_OPENED)
		opened(c);
	else if (news == COURIER_FAILED) {
		failed(c, why);
		c->failed = true;
	} else
		denied(c, news == COURIER_DENIED ? "secrets" : "network.name", why);
}

static void on_courier_over(void *arg, enum relay_end how)
{
	struct conn *c = arg;
	if (c->opened)
		tell_closed(c, relay_ends[how]);
	conn_free(c, how != RELAY_DONE);
}

static bool gets_secrets(const struct conn *c)
{
	return c->inspect && c->broker->couriers && keyring_has(&c->broker->couriers->keys, &c->to.target);
}

static bool is_tls(const struct conn *c)
{
	return strcmp(inspect_protocol(c->inspect), "tls") == 0;
}

static bool start_courier(struct conn *c, int server)
{
	const struct courier_spec spec = {.host = &c->to.target,
	                                  .port = c->to.port,
	                                  .tls = is_tls(c),
	                                  .client = c->fd,
	                                  .server = server,
	                                  .first = &c->head,
	                                  .told = on_news,
	                                  .over = on_courier_over,
	                                  .arg = c};
	c->courier = courier_start(c->broker->couriers, &spec);
	return c->courier;
}

/* Plain HTTP inside becomes HTTPS outside. 0: it may not, and that was told. */
static uint16_t port_of(struct conn *c)
{
	struct policy_verdict v;
	if (c->to.port != PORT_HTTP || !gets_secrets(c) || is_tls(c))
		return c->to.port;
	if (rules_other_port(&c->broker->policy, &c->to.target, PORT_HTTPS, &v))
		return PORT_HTTPS;
	denied(c, "secrets", "a secret is sent over TLS only, and port 443 of this host is not allowed");
	return 0;
}

/* ---- without ------------------------------------------------------------------------------------------------------------------- */

static bool start_relay(struct conn *c, int server)
{
	/* between here and the sandbox there is no line that could be crowded: the plainest algorithm, whatever the host has for the world, which may be one that takes its time */
	setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof("reno") - 1);
	const struct relay_spec spec = {.client = c->fd,
	                                .server = server,
	                                .first = &c->head,
	                                .passed = c->passed,
	                                .check = c->inspect ? inspect_check : NULL,
	                                .check_arg = c->inspect,
	                                .over = on_over,
	                                .over_arg = c};
	c->relay = relay_start(c->broker->relays, &spec);
	return c->relay;
}

static void connected(struct conn *c, int server)
{
	const bool secrets = gets_secrets(c);
	socket_tune(server);
	socket_bound_buffers(server, c->broker->conn_count);
	if (!secrets)
		opened(c);
	if (secrets ? start_courier(c, server) : start_relay(c, server)) {
		c->fd = -1;
		return;
	}
	close(server);
	failed(c, "out of memory");
	conn_free(c, true);
}

static void on_dialled(void *arg, const struct dial_result *result)
{
	struct conn *c = arg;
	c->dial = NULL;
	event_del(&c->readable);
	snprintf(c->address, sizeof(c->address), "%s", result->address);
	if (result->outcome == DIAL_CONNECTED) {
		connected(c, result->fd);
		return;
	}
	if (result->outcome == DIAL_DENIED)
		denied(c, "network.address", result->reason);
	else
		failed(c, result->reason);
	conn_free(c, true);
}

/* What the client sends meanwhile, or that it has ended, is the relay's to find. */
static void on_client_meanwhile(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	(void)what;
	if (socket_failure(fd) == 0)
		return;
	failed(c, "the client broke off while its host was dialled");
	conn_free(c, true);
}

static void dial(struct conn *c)
{
	leave_waiting(c);
	const uint16_t port = port_of(c);
	if (port == 0) {
		conn_free(c, true);
		return;
	}
	c->dial = dial_start(c->broker->dialler, &c->to.target, port, on_dialled, c);
	event_assign(&c->readable, c->broker->base, c->fd, EV_READ | EV_PERSIST | EV_ET, on_client_meanwhile, c);
	if (c->dial && event_add(&c->readable, NULL) == 0)
		return;
	failed(c, "out of memory");
	conn_free(c, true);
}

/* ---- its first bytes ----------------------------------------------------------------------------------------------------------- */

static void look(struct conn *c)
{
	const enum inspect_verdict v = inspect_first(c->inspect, c->head.data, c->head.len, &c->passed);
	if (v == INSPECT_OK) {
		dial(c);
		return;
	}
	if (v == INSPECT_MORE && ++c->pieces < CONN_PIECES_MAX && c->head.len < HEAD_MAX)
		return;
	denied(c, "network.name", v == INSPECT_MORE ? "its first bytes come in too many pieces" : inspect_why(c->inspect));
	conn_free(c, true);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	(void)what;
	void *room = buf_reserve(&c->head, MIN(PIECE, HEAD_MAX - c->head.len));
	ssize_t n = room ? recv(fd, room, MIN(PIECE, HEAD_MAX - c->head.len), 0) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* the client has changed its mind */
		conn_free(c, n < 0);
		return;
	}
	c->head.len += (size_t)n;
	look(c);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	(void)fd;
	(void)what;
	failed(c, c->head.len ? "its first request was not complete in time"
	                      : "the client said nothing: if the server is to speak first, the rule needs protocol: tcp");
	conn_free(c, true);
}

/* Connections that say nothing cost memory only, but who opens them without end would keep others out: it loses those that it opened first. */
static void wait_for_bytes(struct conn *c)
{
	static const struct timeval patience = {CONN_HEAD_S, 0};
	struct broker *b = c->broker;
	TAILQ_REMOVE(&b->conns, c, link);
	TAILQ_INSERT_TAIL(&b->waiting, c, link);
	b->waiting_count++;
	c->waiting = true;
	event_assign(&c->readable, b->base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
	evtimer_assign(&c->timer, b->base, on_timeout, c);
	event_add(&c->readable, NULL);
	evtimer_add(&c->timer, &patience);
	if (b->waiting_count > CONN_WAITING_MAX) {
		struct conn *oldest = TAILQ_FIRST(&b->waiting);
		failed(oldest, "too many connections were opened on which nothing was said");
		conn_free(oldest, true);
	}
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static void begin(struct conn *c)
{
	/* an address has no name that could be compared with anything */
	const bool looked_at = c->to.protocol == PROTOCOL_WEB && !c->to.target.is_address;
	if (!looked_at) {
		dial(c);
		return;
	}
	c->inspect = inspect_new(c->to.target.name, c->to.port);
	if (c->inspect) {
		wait_for_bytes(c);
		return;
	}
	failed(c, "out of memory");
	conn_free(c, true);
}

void conn_accepted(struct broker *b, int fd)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct policy_verdict v;
	struct conn *c = calloc(1, sizeof(*c));
	if (!c || getsockname(fd, (struct sockaddr *)&local, &len) < 0) {
		socket_close(fd, true);
		free(c);
		return;
	}
	socket_reset_unless_closed(fd);
	socket_tune(fd);
	socket_bound_buffers(fd, b->conn_count);
	event_assign(&c->readable, b->base, fd, EV_READ, on_readable, c);
	const bool allowed = rules_connection(&b->policy, b->names, (const struct sockaddr *)&local, &c->to, &v);
	c->broker = b;
	c->fd = fd;
	c->id = b->next_id++;
	TAILQ_INSERT_TAIL(&b->conns, c, link);
	b->conn_count++;
	if (c->to.number)
		names_hold(b->names, c->to.number);
	if (allowed) {
		begin(c);
		return;
	}
	denied(c, v.key, v.why);
	conn_free(c, true);
}
