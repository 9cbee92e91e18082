/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Both sockets are watched for edges, as a relay's are, and after each of them the courier runs, until both sides block or its turn is used up:
 *
 *   SHAKING   both handshakes, side by side. Nothing is read that a client says in its TLS before the host has been verified
 *   OPEN      up: read, checked, a head rewritten, written; down: read, masked, written. Nothing is read that the other side could not be given
 *   LAST      a request was denied behind others: what the host still answers to these goes before the denial, which else would be taken for the answer to one of them
 *   LEAVING   an answer of our own is given (answer.h)
 */
#include "egress/courier.h"

#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "egress/answer.h"
#include "egress/answered.h"
#include "egress/channel.h"
#include "egress/clock.h"
#include "egress/http.h"
#include "egress/rewrite.h"
#include "egress/socket.h"
#include "egress/tls.h"

#define TURN ((size_t)512 << 10) /* bytes that one direction moves before others have their turn */
#define UNFINISHED_S 30          /* for which a client that has ended may have left something that waits for the host's answer */

enum state { STATE_SHAKING, STATE_OPEN, STATE_LAST, STATE_LEAVING };
enum step { STEP_GO, STEP_MORE, STEP_BLOCKED, STEP_TURN_OVER, STEP_DONE, STEP_RESET, STEP_REFUSED };

struct up {
	struct buf held; /* what the client sent; before `at` it is gone, and `passed` bytes behind it may go as they are */
	size_t at, passed;
	struct buf head; /* a rewritten head, which goes first; before `head_at` it is gone */
	size_t head_at;
	uint64_t bytes;
	bool ended, closed; /* there is nothing more to read; … and the host knows */
	bool unfinished;    /* it has ended, and left something that waits for the host's answer */
};

struct down {
	struct buf held; /* what the host sent and the check has not let pass */
	struct buf out;  /* masked; before `at` it is gone */
	size_t at;
	struct mask mask;
	uint64_t bytes;
	bool ended, closed;
};

struct courier {
	struct couriers *shared;
	struct host_target host;
	struct channel client, server;
	struct http_check *check;
	struct rewrite rewrite;
	struct answered answered;
	enum state state;
	struct up up;
	struct down down;
	struct answer answer; /* ours */
	struct event again, timer;
	struct bucket_waiter waiter;
	uint64_t active_us;
	courier_told *told;
	relay_over *over;
	void *arg;
};

/* ---- states --------------------------------------------------------------------------------------------------------------------- */

static uint64_t patience_s(const struct courier *c)
{
	static const uint64_t seconds[] = {[STATE_SHAKING] = COURIER_SHAKE_S,
	                                   [STATE_OPEN] = RELAY_IDLE_S,
	                                   [STATE_LAST] = RELAY_IDLE_S,
	                                   [STATE_LEAVING] = COURIER_LEAVE_S};
	return c->state == STATE_OPEN && c->up.unfinished ? UNFINISHED_S : seconds[c->state];
}

/* There is less time from here on than the timer was set for. */
static void hurry(struct courier *c)
{
	const struct timeval patience = {(time_t)patience_s(c), 0};
	c->active_us = clock_us();
	evtimer_add(&c->timer, &patience);
}

static void enter(struct courier *c, enum state state)
{
	c->state = state;
	hurry(c);
}

static void host_failed(struct courier *c, const char *why)
{
	char text[CHANNEL_WHY + 64];
	snprintf(text, sizeof(text), "TLS with the host failed: %s", why);
	c->told(c->arg, COURIER_FAILED, text);
	c->answer.asked = c->answered.requests > 0;
	answer_error(&c->answer, "502 Bad Gateway", "failed", text,
	             c->answer.asked ? "The host has ended the connection before it answered." : "No secret was sent to it.");
	enter(c, STATE_LEAVING);
}

static void client_failed(struct courier *c, const char *why)
{
	char text[CHANNEL_WHY + 64];
	snprintf(text, sizeof(text), "TLS with the client failed: %s", why);
	c->told(c->arg, COURIER_FAILED, text);
	enter(c, STATE_LEAVING);
}

/* ---- up: to the host ------------------------------------------------------------------------------------------------------------ */

/* The host takes nothing more. What it has to say is still of interest: it may refuse an upload, answer and end. */
static void abandon_up(struct courier *c)
{
	rewrite_wipe(&c->up.head);
	buf_free(&c->up.held);
	c->up.at = c->up.passed = 0;
	c->up.ended = c->up.closed = true;
}

static enum step drain_up(struct courier *c)
{
	struct up *u = &c->up;
	while (u->head.len || u->passed) {
		const bool head = u->head.len > 0;
		size_t put;
		const enum channel_result r = head ? channel_write(&c->server, u->head.data + u->head_at, u->head.len - u->head_at, &put)
		                                   : channel_write(&c->server, u->held.data + u->at, u->passed, &put);
		if (r == CHANNEL_BLOCKED)
			return STEP_BLOCKED;
		if (r != CHANNEL_OK) {
			abandon_up(c);
			return STEP_GO;
		}
		if (head) {
			u->head_at += put;
			if (u->head_at == u->head.len) {
				rewrite_wipe(&u->head);
				u->head_at = 0;
			}
		} else {
			u->at += put;
			u->passed -= put;
			u->bytes += put;
		}
	}
	return STEP_GO;
}

/* Requests before this one may still be answered. */
static enum step deny(struct courier *c, const char *why)
{
	c->told(c->arg, COURIER_DENIED, why);
	answer_error(&c->answer, "403 Forbidden", "denied", why,
	             "The policy's secrets for this host name the methods and paths that they are for (`cordon policy explain`).");
	buf_free(&c->up.held);
	c->up.at = 0;
	c->up.ended = c->answer.asked = true;
	enter(c, c->answered.requests ? STATE_LAST : STATE_LEAVING);
	return STEP_GO;
}

static enum step take_head(struct courier *c, const struct http_part *part, size_t len)
{
	struct up *u = &c->up;
	char why[KEYRING_WHY];
	const enum rewrite_verdict v = rewrite_head(&c->rewrite, part, u->held.data + u->at, len, &u->head, why);
	if (v == REWRITE_OK) {
		u->at += len;
		u->bytes += len;
		answered_request(&c->answered, part->method);
		return STEP_GO;
	}
	rewrite_wipe(&u->head);
	return v == REWRITE_DENIED ? deny(c, why) : STEP_RESET;
}

/* STEP_MORE: nothing more can go of what is there. */
static enum step look_up(struct courier *c)
{
	struct up *u = &c->up;
	struct http_part part;
	const char *why;
	size_t len = u->held.len - u->at;
	if (len == 0)
		return STEP_MORE;
	if (http_check_step(c->check, u->held.data + u->at, &len, &part, &why) == HTTP_REFUSED) {
		c->told(c->arg, COURIER_REFUSED, why);
		return STEP_REFUSED;
	}
	if (len == 0)
		return STEP_MORE;
	if (part.is_head)
		return take_head(c, &part, len);
	u->passed = len;
	return STEP_GO;
}

/* Reads once into `to`, as much as there is and the limits allow: the shared piece, if that is NULL. */
static enum step fill(struct courier *c, struct channel *from, struct buf *to, size_t *turn, size_t *got, bool *ended)
{
	if (*turn == 0)
		return STEP_TURN_OVER;
	size_t may = bucket_take(c->shared->bucket, MIN(*turn, COURIERS_PIECE));
	*got = 0;
	if (may == 0) {
		bucket_wait(c->shared->bucket, &c->waiter);
		return STEP_BLOCKED;
	}
	void *room = to ? buf_reserve(to, may) : c->shared->piece;
	const enum channel_result r = room ? channel_read(from, room, may, got) : CHANNEL_FAILED;
	bucket_give_back(c->shared->bucket, may - *got);
	*turn -= *got;
	if (to)
		to->len += *got;
	*ended = r == CHANNEL_ENDED;
	return r == CHANNEL_OK || r == CHANNEL_ENDED ? STEP_GO : r == CHANNEL_BLOCKED ? STEP_BLOCKED : STEP_RESET;
}

static void compact(struct buf *b, size_t *at)
{
	if (*at == b->len) {
		buf_free(b);
	} else if (*at) {
		b->len -= *at;
		memmove(b->data, b->data + *at, b->len);
	}
	*at = 0;
}

static enum step fill_up(struct courier *c, size_t *turn)
{
	struct up *u = &c->up;
	size_t got;
	compact(&u->held, &u->at);
	/* a head that is longer the check has refused; what waits for the host's answer needs no company */
	if (u->held.len >= COURIERS_PIECE && http_check_waits(c->check))
		return STEP_BLOCKED;
	return fill(c, &c->client, &u->held, turn, &got, &u->ended);
}

/* What the client has left behind may still go when the host answers. */
static enum step end_up(struct courier *c)
{
	const bool unfinished = c->up.held.len > c->up.at && http_check_waits(c->check) && !c->down.ended, before = c->up.unfinished;
	c->up.unfinished = unfinished;
	if (unfinished && !before)
		hurry(c);
	if (unfinished)
		return STEP_BLOCKED;
	if (channel_end(&c->server, !c->client.ssl || c->client.notified) == CHANNEL_BLOCKED)
		return STEP_BLOCKED;
	c->up.closed = true;
	return STEP_BLOCKED;
}

static enum step run_up(struct courier *c)
{
	size_t turn = TURN;
	enum step s = STEP_GO;
	while (s == STEP_GO && !c->up.closed && c->state == STATE_OPEN) {
		s = drain_up(c);
		if (s == STEP_GO && !c->up.closed)
			s = look_up(c);
		if (s == STEP_MORE)
			s = c->up.ended ? end_up(c) : fill_up(c, &turn);
	}
	if (c->up.passed == 0)
		compact(&c->up.held, &c->up.at);
	return s;
}

/* ---- down: to the client -------------------------------------------------------------------------------------------------------- */

/* The client takes nothing more: it has gone, or will be found to. */
static void abandon_down(struct courier *c)
{
	buf_free(&c->down.held);
	buf_free(&c->down.out);
	mask_clear(&c->down.mask);
	c->down.at = 0;
	c->down.ended = c->down.closed = true;
}

static enum step drain_down(struct courier *c)
{
	struct down *d = &c->down;
	while (d->at < d->out.len) {
		size_t put;
		const enum channel_result r = channel_write(&c->client, d->out.data + d->at, d->out.len - d->at, &put);
		if (r == CHANNEL_BLOCKED)
			return STEP_BLOCKED;
		if (r != CHANNEL_OK) {
			abandon_down(c);
			return STEP_GO;
		}
		d->at += put;
		d->bytes += put;
	}
	compact(&d->out, &d->at);
	return STEP_GO;
}

/* As long as an upgrade may be agreed to, the check holds back what is not whole. */
static enum step look_down(struct courier *c, const char *data, size_t len)
{
	struct down *d = &c->down;
	const bool kept = d->held.len > 0;
	const char *why;
	if (kept || !http_check_responses_free(c->check)) {
		buf_add(&d->held, data, len);
		if (d->held.failed)
			return STEP_RESET;
		data = d->held.data;
		len = d->held.len;
		if (http_check_response(c->check, data, &len, &why) == HTTP_REFUSED) {
			c->told(c->arg, COURIER_REFUSED, why);
			return STEP_REFUSED;
		}
	}
	answered_feed(&c->answered, data, len);
	if (mask_feed(&d->mask, data, len, &d->out) < 0)
		return STEP_RESET;
	if (d->held.len) {
		size_t at = len;
		compact(&d->held, &at);
	}
	return STEP_GO;
}

static enum step fill_down(struct courier *c, size_t *turn)
{
	size_t got = 0;
	const enum step s = fill(c, &c->server, NULL, turn, &got, &c->down.ended);
	/* it says no only now: in TLS 1.3 a client's certificate, which this has none of, is demanded when the handshake is over to the client */
	if (s == STEP_RESET && c->server.failed_tls && c->down.bytes == 0 && c->down.held.len == 0 && !c->up.ended) {
		host_failed(c, c->server.why);
		return STEP_BLOCKED;
	}
	return s == STEP_GO && got ? look_down(c, c->shared->piece, got) : s;
}

/* A host that ends without saying so in TLS may have been cut off: then the client is not told that it is whole, either. */
static enum step end_down(struct courier *c)
{
	if (channel_end(&c->client, c->server.notified) == CHANNEL_OK)
		c->down.closed = true;
	return STEP_BLOCKED;
}

static enum step run_down(struct courier *c)
{
	size_t turn = TURN;
	enum step s = STEP_GO;
	while (s == STEP_GO && !c->down.closed && c->state != STATE_LEAVING) {
		s = drain_down(c);
		if (s == STEP_GO && !c->down.closed)
			s = c->down.ended ? end_down(c) : fill_down(c, &turn);
	}
	return s;
}

/* ---- both ----------------------------------------------------------------------------------------------------------------------- */

static enum step run_shaking(struct courier *c)
{
	const bool before = c->server.shaken;
	const enum channel_result server = channel_handshake(&c->server), client = channel_handshake(&c->client);
	if (server == CHANNEL_OK && !before)
		c->told(c->arg, COURIER_OPENED, NULL);
	if (client == CHANNEL_FAILED)
		client_failed(c, c->client.why);
	else if (server == CHANNEL_FAILED)
		host_failed(c, c->server.why);
	else if (server == CHANNEL_OK && client == CHANNEL_OK)
		enter(c, STATE_OPEN);
	return STEP_BLOCKED;
}

static bool is_over(enum step s)
{
	return s == STEP_DONE || s == STEP_RESET || s == STEP_REFUSED;
}

static enum step run_open(struct courier *c)
{
	const enum step down = run_down(c), up = is_over(down) ? down : run_up(c);
	if (is_over(up))
		return up;
	if (c->state != STATE_LEAVING && c->up.closed && c->down.closed)
		return STEP_DONE;
	return down == STEP_TURN_OVER ? down : up;
}

/* A host that ends before it has answered all leaves the denied request without an answer as well; and so do we where it is not known. */
static enum step run_last(struct courier *c)
{
	const enum step down = run_down(c);
	const enum answered_state answered = answered_state(&c->answered);
	if (is_over(down) || c->state == STATE_LEAVING)
		return down;
	if (c->down.closed)
		return STEP_DONE;
	if (answered == ANSWERED_LOST)
		return STEP_RESET;
	if (answered == ANSWERED_ALL && c->down.out.len == 0)
		enter(c, STATE_LEAVING);
	return down;
}

static enum step run_leaving(struct courier *c)
{
	return answer_give(&c->answer, &c->client, c->shared->piece, COURIERS_PIECE) == CHANNEL_BLOCKED ? STEP_BLOCKED : STEP_DONE;
}

static enum relay_end end_of(enum step s)
{
	return s == STEP_DONE ? RELAY_DONE : s == STEP_REFUSED ? RELAY_REFUSED : RELAY_RESET;
}

static void run(struct courier *c)
{
	static enum step (*const runs[])(struct courier * c) = {
		[STATE_SHAKING] = run_shaking, [STATE_OPEN] = run_open, [STATE_LAST] = run_last, [STATE_LEAVING] = run_leaving};
	static const struct timeval at_once = {0, 0};
	const uint64_t before = c->up.bytes + c->down.bytes;
	enum state state;
	enum step s;
	do {
		state = c->state;
		s = runs[state](c);
	} while (!is_over(s) && c->state != state);
	if (before != c->up.bytes + c->down.bytes)
		c->active_us = clock_us();
	if (is_over(s))
		c->over(c->arg, end_of(s));
	else if (s == STEP_TURN_OVER)
		evtimer_add(&c->again, &at_once);
}

/* ---- events --------------------------------------------------------------------------------------------------------------------- */

/* A side that has ended is not read any more, and if nothing is sent to it either, only this tells that it is gone. */
static void on_edge(struct courier *c, struct channel *side, bool ended, short what)
{
	channel_edge(side, what);
	if (ended && c->state != STATE_LEAVING && socket_failure(side->fd))
		c->over(c->arg, RELAY_RESET);
	else
		run(c);
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
	struct courier *c = arg;
	(void)fd;
	on_edge(c, &c->client, c->up.ended, what);
}

static void on_server(evutil_socket_t fd, short what, void *arg)
{
	struct courier *c = arg;
	(void)fd;
	on_edge(c, &c->server, c->down.ended, what);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg);
}

static void on_turn(void *arg)
{
	run(arg);
}

static void out_of_patience(struct courier *c)
{
	if (c->state == STATE_SHAKING && !c->server.shaken)
		host_failed(c, "it takes too long");
	else if (c->state == STATE_SHAKING)
		client_failed(c, "it takes too long");
	else {
		c->over(c->arg, c->state == STATE_LEAVING ? RELAY_DONE : RELAY_IDLE);
		return;
	}
	run(c);
}

/* The timer is not set again for every byte: it finds out when it fires. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct courier *c = arg;
	const uint64_t most = patience_s(c) * 1000000, idle = clock_us() - c->active_us;
	(void)fd;
	(void)what;
	if (idle >= most) {
		out_of_patience(c);
		return;
	}
	const struct timeval next = {(time_t)((most - idle) / 1000000) + 1, 0};
	evtimer_add(&c->timer, &next);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static int open_channels(struct courier *c, const struct courier_spec *spec)
{
	struct couriers *s = c->shared;
	SSL_CTX *speaker = spec->tls ? authority_context(s->authority, c->host.name) : NULL;
	SSL *client = speaker ? SSL_new(speaker) : NULL, *server = tls_client_new(s->trust, c->host.name);
	if (client)
		SSL_set_accept_state(client);
	if (!server || (spec->tls && !client) || channel_open(&c->server, s->base, spec->server, server, NULL, on_server, c) < 0) {
		SSL_free(server);
		SSL_free(client);
		return -1;
	}
	if (channel_open(&c->client, s->base, spec->client, client, spec->first, on_client, c) == 0)
		return 0;
	SSL_free(client);
	event_del(&c->server.event); /* its socket is still the caller's */
	SSL_free(server);
	return -1;
}

struct courier *courier_start(struct couriers *s, const struct courier_spec *spec)
{
	static const struct timeval at_once = {0, 0};
	struct courier *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->shared = s;
	c->host = *spec->host;
	c->told = spec->told;
	c->over = spec->over;
	c->arg = spec->arg;
	c->rewrite = (struct rewrite){&s->keys, &c->host, !spec->tls && spec->port == 80};
	answered_init(&c->answered);
	c->waiter = (struct bucket_waiter){.go = on_turn, .arg = c};
	for (size_t i = 0; i < s->keys.given; i++)
		if (keyring_is_for(&s->keys, i, &c->host))
			mask_add(&c->down.mask, s->keys.keys[i].value.data, s->keys.keys[i].value.len);
	c->check = (spec->tls ? http_check_new_secure : http_check_new)(c->host.name, spec->port);
	if (!c->check || open_channels(c, spec) < 0) {
		http_check_free(c->check);
		free(c);
		return NULL;
	}
	evtimer_assign(&c->timer, s->base, on_timer, c);
	evtimer_assign(&c->again, s->base, on_again, c);
	enter(c, STATE_SHAKING);
	evtimer_add(&c->again, &at_once);
	return c;
}

uint64_t courier_bytes(const struct courier *c, enum relay_way way)
{
	return way == RELAY_UP ? c->up.bytes : c->down.bytes;
}

void courier_free(struct courier *c, bool reset)
{
	if (!c)
		return;
	bucket_leave(c->shared->bucket, &c->waiter);
	event_del(&c->again);
	event_del(&c->timer);
	channel_close(&c->client, reset);
	channel_close(&c->server, reset);
	http_check_free(c->check);
	rewrite_wipe(&c->up.head);
	buf_free(&c->up.held);
	buf_free(&c->down.held);
	buf_free(&c->down.out);
	buf_free(&c->answer.text);
	free(c);
}
