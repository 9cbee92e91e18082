/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Whenever something has happened to a connection (bytes came, the socket takes some again, a handler answered, a clock
 * ran out) it gets a turn, in which it takes steps as long as there is one: find a head and hand it over, feed a body, read. At the end of the
 * turn what has been written is sent, the clock is set, and only here, or between turns, a connection is freed: handlers may do what they like
 * inside of it.
 *
 * The next head is looked for only after the answer before it is complete, so answers are in order, and who does not take answers is not asked
 * for more requests. A connection that waits has neither buffers nor an exchange.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "server/http_parts.h"

#define STEPS_MAX 256                  /* of one turn: others want theirs */
#define LINGER_BYTES ((size_t)1 << 20) /* of what comes after the end */

/* ---- bytes --------------------------------------------------------------------------------------------------------------------- */

void conn_flush(struct conn *c)
{
	while (!c->broken && c->writable && conn_unsent(c)) {
		const ssize_t n = send(c->fd, c->out.data + c->sent, conn_unsent(c), MSG_NOSIGNAL);
		if (n > 0) {
			c->sent += (size_t)n;
			c->moved = true;
		} else if (n < 0 && errno == EAGAIN) {
			c->writable = false;
		} else if (n == 0 || errno != EINTR) {
			c->broken = true;
		}
	}
	if (c->sent && c->sent >= c->out.len / 2) { /* moved rarely enough to cost nothing, often enough that the buffer stays small */
		memmove(c->out.data, c->out.data + c->sent, conn_unsent(c));
		c->out.len -= c->sent;
		c->sent = 0;
	}
	const bool goes_on = c->x && c->x->wants_drained; /* and will fill it again at once */
	if (c->out.data && c->out.len == 0 && !goes_on)
		loop_give_buf(c->loop, &c->out);
}

/* Both sides of the connection are closed, or it failed; after the end of the client's side recv() tells no more of it. */
static bool peer_is_gone(const struct conn *c)
{
	struct pollfd p = {.fd = c->fd};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static bool ended(struct conn *c)
{
	c->eof = true;
	c->readable = false;
	if (peer_is_gone(c))
		c->broken = true;
	return true;
}

/* True: something came, if only an end. */
static bool receive(struct conn *c, void *to, size_t room, size_t *got)
{
	*got = 0;
	if (!c->readable || c->eof || room == 0)
		return false;
	const ssize_t n = recv(c->fd, to, room, 0);
	if (n > 0) {
		*got = (size_t)n;
		c->moved = true;
		return true;
	}
	if (n == 0)
		return ended(c);
	if (errno == EINTR)
		return true;
	c->readable = false;
	if (errno != EAGAIN)
		c->broken = true;
	return false;
}

/* Behind what is there; with a handler at work the head stays where it is. */
static bool read_more(struct conn *c)
{
	struct http_exchange *x = c->x;
	const size_t size = exchange_in_size(c->loop);
	const size_t pinned = c->state == CONN_HEAD ? 0 : x->start + x->head_len;
	size_t got;

	if (c->state == CONN_HEAD && x->filled == size) {
		memmove(x->in, x->in + x->start, x->filled - x->start);
		x->filled -= x->start;
		x->start = 0;
	} else if (c->state != CONN_HEAD && x->pos == x->filled) {
		x->pos = x->filled = pinned;
	}
	const bool news = receive(c, x->in + x->filled, size - x->filled, &got);
	x->filled += got;
	return news;
}

/* ---- its exchange -------------------------------------------------------------------------------------------------------------- */

void exchange_clear(struct http_exchange *x)
{
	gzip_free(x->gzip);
	if (x->body.size > KEPT_BYTES || x->body.failed)
		buf_free(&x->body);
	x->body.len = 0;
	x->body.cap = 0;
	memset(&x->scan, 0, offsetof(struct http_exchange, body) - offsetof(struct http_exchange, scan));
	x->chunks.zero = true;
	x->start = x->pos;
	x->head_len = 0;
}

void exchange_gone(struct http_exchange *x)
{
	if (!x->handed || x->answer == ANSWER_DONE)
		return;
	x->answer = ANSWER_DONE;
	if (x->gone)
		x->gone(x->gone_arg, x);
}

static bool refuse(struct conn *c)
{
	answer_refuse(c->x);
	c->state = CONN_LINGER;
	return true;
}

/* ---- steps: true, if there may be another -------------------------------------------------------------------------------------- */

static bool step_idle(struct conn *c)
{
	if (c->eof || c->loop->draining) {
		c->state = CONN_LINGER;
		return true;
	}
	if (!c->readable)
		return false;
	c->x = loop_take_exchange(c->loop);
	if (!c->x) {
		c->broken = true;
		return false;
	}
	c->x->conn = c;
	return true;
}

static bool step_head(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (conn_unsent(c) > PIPELINE_UNSENT)
		conn_flush(c);
	if (conn_unsent(c) > PIPELINE_UNSENT || c->broken)
		return false;
	if (!x)
		return step_idle(c);
	switch (head_take(x)) {
	case HEAD_REFUSED:
		return refuse(c);
	case HEAD_WHOLE:
		c->state = CONN_EXCHANGE;
		x->handed = true;
		c->loop->service.handle(c->loop->service.arg, x);
		return true;
	case HEAD_MORE:
	default:
		break;
	}
	if (c->eof && x->filled > x->start) {
		problem_bad(x, "the request ended before its head did");
		return refuse(c);
	}
	if (!c->eof && read_more(c))
		return true;
	if (x->filled == x->start) {
		c->x = NULL;
		loop_give_exchange(c->loop, x);
		return c->eof || c->loop->draining;
	}
	return false;
}

/* The answer is complete, and so is the request, or the connection will not be used again. */
static bool step_over(struct conn *c)
{
	struct http_exchange *x = c->x;

	c->served = true;
	if (x->close) {
		c->state = CONN_LINGER;
		return true;
	}
	exchange_clear(x);
	c->state = CONN_HEAD;
	return true;
}

static bool step_body(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (x->pos < x->filled)
		return body_feed(x) || c->broken || refuse(c);
	if (c->eof) {
		problem_bad(x, "the request ended before its body did");
		return refuse(c);
	}
	return read_more(c);
}

static bool tell_half_closed(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (!c->eof || x->half_told || c->broken)
		return false;
	x->half_told = true;
	if (x->half_closed)
		x->half_closed(x->half_arg, x);
	return true;
}

static bool step_exchange(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (x->answer == ANSWER_DONE && (x->body_done || x->close))
		return step_over(c);
	if (x->problem.status && x->answer != ANSWER_DONE)
		return refuse(c);
	if (body_tell(x))
		return true;
	if (body_wanted(x))
		return step_body(c);
	if (x->body_done && read_more(c)) /* another request, or the client's end */
		return true;
	return tell_half_closed(c);
}

static bool step_raw(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (x->answer == ANSWER_DONE)
		return step_over(c);
	if (x->paused || !x->piece)
		return false;
	if (x->pos < x->filled) {
		const size_t at = x->pos;
		x->pos = x->filled;
		x->piece(x->body_arg, x, x->in + at, x->filled - at, false);
		return true;
	}
	if (c->eof && !x->body_told) {
		x->body_told = true;
		x->piece(x->body_arg, x, "", 0, true);
		return true;
	}
	return read_more(c);
}

static bool step_linger(struct conn *c)
{
	char nobody_reads_it[4096];
	size_t got;

	conn_flush(c);
	if (conn_unsent(c) || c->broken)
		return false;
	if (!c->shut)
		shutdown(c->fd, SHUT_WR);
	c->shut = true;
	const bool news = receive(c, nobody_reads_it, sizeof(nobody_reads_it), &got);
	c->lingered += got;
	if (c->eof || c->lingered > LINGER_BYTES)
		c->broken = true;
	return news;
}

static bool step(struct conn *c)
{
	switch (c->state) {
	case CONN_EXCHANGE:
		return step_exchange(c);
	case CONN_RAW:
		return step_raw(c);
	case CONN_LINGER:
		return step_linger(c);
	case CONN_HEAD:
	default:
		return step_head(c);
	}
}

/* ---- turns --------------------------------------------------------------------------------------------------------------------- */

/* True: a writer was told that it may go on. */
static bool tell_drained(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (c->broken || !x || x->answer != ANSWER_BEGUN || !x->wants_drained || conn_unsent(c) > (size_t)HTTP_ENOUGH / 4)
		return false;
	x->wants_drained = false;
	if (x->drained)
		x->drained(x->drained_arg, x);
	return x->drained;
}

static enum timer_kind timer_for(const struct conn *c)
{
	const struct http_exchange *x = c->x;

	if (conn_unsent(c))
		return TIMER_STALL;
	switch (c->state) {
	case CONN_EXCHANGE:
		return body_wanted(x) ? TIMER_STALL : TIMER_NONE;
	case CONN_RAW:
		return TIMER_NONE;
	case CONN_LINGER:
		return TIMER_LINGER;
	case CONN_HEAD:
	default:
		return x && x->filled > x->start ? TIMER_HEAD : TIMER_IDLE;
	}
}

/* A head has its time from its first byte on, however many follow; the others have theirs since something last moved. */
static void set_timer(struct conn *c)
{
	const enum timer_kind kind = timer_for(c);

	if (kind != c->timer || (kind == TIMER_STALL ? c->moved : c->served))
		loop_timer_set(c->loop, c, kind);
	c->moved = c->served = false;
}

void conn_turn(struct conn *c)
{
	unsigned steps = 0;

	c->running = true;
	do {
		while (!c->broken && steps < STEPS_MAX && step(c))
			steps++;
		if (c->out.failed)
			c->broken = true;
		conn_flush(c);
	} while (tell_drained(c) && ++steps < STEPS_MAX);
	/* bytes wait that nobody reads now, so an end behind them would not be noticed; and after a half-close there may be a whole one */
	if ((c->state == CONN_EXCHANGE || c->state == CONN_RAW) && (c->eof || c->readable) && !c->broken)
		c->broken = peer_is_gone(c);
	c->running = false;
	if (c->broken) {
		conn_free(c);
		return;
	}
	set_timer(c);
	if (steps >= STEPS_MAX || (c->state == CONN_LINGER && !conn_unsent(c) && !c->shut))
		conn_wake(c);
}

void conn_wake(struct conn *c)
{
	if (!c->running)
		event_active(&c->event, EV_WRITE, 0);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	c->readable = c->readable || (what & EV_READ);
	c->writable = c->writable || (what & EV_WRITE);
	conn_turn(c);
}

void conn_expired(struct conn *c, enum timer_kind kind)
{
	const bool waits_for_body = c->state == CONN_EXCHANGE && !conn_unsent(c) && c->x->answer == ANSWER_NONE;

	if (kind == TIMER_HEAD || (kind == TIMER_STALL && waits_for_body)) {
		problem_set(c->x, 408, "timeout",
		            kind == TIMER_HEAD ? "the request's head took too long" : "the request's body did not come");
		refuse(c);
		loop_timer_set(c->loop, c, TIMER_LINGER);
		conn_wake(c);
		return;
	}
	c->reset = c->reset || kind == TIMER_STALL;
	conn_free(c);
}

/* ---- beginning and end --------------------------------------------------------------------------------------------------------- */

static void describe_peer(struct conn *c, const struct sockaddr *from)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	c->peer = (struct http_peer){.family = from->sa_family, .uid = (uid_t)-1, .pid = -1};
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)from;
		memcpy(c->peer.address, &four->sin_addr, 4);
		c->peer.port = ntohs(four->sin_port);
	} else if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;
		memcpy(c->peer.address, &six->sin6_addr, 16);
		c->peer.port = ntohs(six->sin6_port);
	} else if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
		c->peer.uid = who.uid;
		c->peer.pid = who.pid;
	}
	if (from->sa_family != AF_UNIX)
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

struct conn *conn_new(struct http_loop *l, int fd, const struct sockaddr *peer)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->loop = l;
	c->fd = fd;
	c->timer = TIMER_NONE;
	describe_peer(c, peer);
	event_assign(&c->event, l->base, fd, EV_READ | EV_WRITE | EV_PERSIST | EV_ET, on_event, c);
	if (event_add(&c->event, NULL) < 0) {
		free(c);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&l->conns, c, all);
	l->conn_count++;
	loop_timer_set(l, c, TIMER_IDLE);
	return c;
}

void conn_free(struct conn *c)
{
	struct http_loop *l = c->loop;

	c->broken = c->running = true;
	if (c->x) {
		exchange_gone(c->x);
		c->x->pos = c->x->filled = 0;
		loop_give_exchange(l, c->x);
	}
	event_del(&c->event);
	loop_timer_set(l, c, TIMER_NONE);
	TAILQ_REMOVE(&l->conns, c, all);
	l->conn_count--;
	if (c->reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0}, sizeof(struct linger));
	close(c->fd);
	loop_give_buf(l, &c->out);
	free(c);
	loop_conn_gone(l);
}
