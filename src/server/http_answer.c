/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler says. It only fills the connection's buffer: the bytes go when it is the connection's turn, those of several answers together. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/util.h"
#include "server/http_parts.h"

#define DISCARDED_MAX 65536 /* of a body that nobody wanted: as much is read for the sake of the connection */

static const struct http_problem internal = {500, "internal", "the answer cannot be sent", NULL};

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */

static void default_problem(const struct http_problem *p, struct buf *body)
{
	struct json j = {.out = body};

	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "code", p->code);
	json_kstr(&j, "message", p->message);
	json_kstr(&j, "hint", p->hint ? p->hint : "");
	json_end(&j);
	json_end(&j);
	buf_add_str(body, "\n");
}

/* ---- whole --------------------------------------------------------------------------------------------------------------------- */

/* A body that was not asked for is read past, if its end is near. */
static bool body_in_the_way(const struct http_exchange *x)
{
	if (x->body_done)
		return false;
	return x->expects || x->request.length < 0 || (uint64_t)x->request.length - x->body_seen > DISCARDED_MAX;
}

static void decide_close(struct http_exchange *x, const struct http_answer *a)
{
	x->close = x->close || a->close || !x->request.keep_alive || x->conn->loop->draining || body_in_the_way(x);
}

static void done(struct http_exchange *x)
{
	x->answer = ANSWER_DONE;
	if (x->conn->out.failed)
		x->conn->broken = true;
	conn_wake(x->conn);
}

/* The body as gzip, in zipped; false: it goes as it is. */
static bool zip(struct http_exchange *x, const struct http_answer *a, struct buf *zipped)
{
	struct http_loop *l = x->conn->loop;

	if (!l->gzip && !(l->gzip = gzip_new()))
		return false;
	return gzip_add(l->gzip, a->body, a->len, true, zipped);
}

static void send_whole(struct http_exchange *x, const struct http_answer *a)
{
	_cleanup_buf_ struct buf zipped = {0};
	const bool worth = gzip_worth(a), gzip = worth && gzip_accepted(x) && zip(x, a, &zipped);
	const bool empty = x->no_body || a->status == 204 || a->status == 304;
	const size_t len = gzip ? zipped.len : a->len;

	decide_close(x, a);
	compose_head(x, a, (int64_t)len, gzip, worth);
	if (!empty && len)
		buf_add(&x->conn->out, gzip ? zipped.data : a->body, len);
	done(x);
}

static void send_problem(struct http_exchange *x, const struct http_problem *p)
{
	const struct http_service *s = &x->conn->loop->service;
	_cleanup_buf_ struct buf body = {0};

	if (s->problem)
		s->problem(s->arg, p, &body);
	else
		default_problem(p, &body);
	if (body.failed)
		buf_free(&body);
	send_whole(x, &(struct http_answer){.status = p->status, .type = "application/json", .body = body.data, .len = body.len});
}

void http_answer(struct http_exchange *x, const struct http_answer *a)
{
	if (x->answer != ANSWER_NONE)
		return;
	if (compose_allowed(a))
		send_whole(x, a);
	else
		send_problem(x, &internal);
}

void http_refuse(struct http_exchange *x, const struct http_problem *p)
{
	if (x->answer == ANSWER_BEGUN)
		http_abort(x);
	else if (x->answer == ANSWER_NONE)
		send_problem(x, p->status < 200 || p->status > 599 ? &internal : p);
}

void answer_refuse(struct http_exchange *x)
{
	const enum answer_state before = x->answer;

	exchange_gone(x);
	x->close = true;
	if (before == ANSWER_NONE)
		send_problem(x, &x->problem);
	else if (before == ANSWER_BEGUN)
		x->conn->broken = x->conn->reset = true;
}

/* ---- in parts ------------------------------------------------------------------------------------------------------------------ */

void http_begin(struct http_exchange *x, const struct http_answer *a, int64_t length, unsigned flags)
{
	if (x->answer != ANSWER_NONE)
		return;
	if (!compose_allowed(a)) {
		send_problem(x, &internal);
		x->answer = ANSWER_BEGUN; /* the handler goes on writing, to nobody */
		x->no_body = true;
		return;
	}
	const bool bodyless = a->status == 204 || a->status == 304, may_zip = (flags & HTTP_STREAM_GZIP) && !bodyless;
	if (may_zip && gzip_accepted(x) && (x->gzip = gzip_new()))
		length = -1;
	x->left = length;
	x->no_body = x->no_body || bodyless;
	x->chunked = length < 0 && x->request.minor == 1 && !x->no_body;
	if (length < 0 && x->request.minor == 0)
		x->close = true;
	decide_close(x, a);
	compose_head(x, a, length, x->gzip != NULL, may_zip);
	x->answer = ANSWER_BEGUN;
	conn_wake(x->conn);
}

static void add_chunk(struct http_exchange *x, const void *data, size_t len)
{
	struct buf *out = &x->conn->out;

	if (len == 0)
		return;
	if (x->chunked)
		buf_addf(out, "%zx\r\n", len);
	buf_add(out, data, len);
	if (x->chunked)
		buf_add(out, "\r\n", 2);
}

static void add_zipped(struct http_exchange *x, const void *data, size_t len, bool last)
{
	_cleanup_buf_ struct buf zipped = {0};

	if (gzip_add(x->gzip, data, len, last, &zipped))
		add_chunk(x, zipped.data, zipped.len);
	else
		x->conn->broken = x->conn->reset = true;
}

static int64_t give_up(struct http_exchange *x)
{
	x->conn->broken = x->conn->reset = true;
	conn_wake(x->conn);
	return -1;
}

int64_t http_write(struct http_exchange *x, const void *data, size_t len)
{
	struct conn *c = x->conn;

	if (x->answer != ANSWER_BEGUN || c->broken)
		return -1;
	if (x->no_body || len == 0)
		return (int64_t)conn_unsent(c);
	if (x->left >= 0 && len > (uint64_t)x->left)
		return give_up(x);
	if (x->left >= 0)
		x->left -= (int64_t)len;
	if (!c->out.data)
		loop_take_buf(c->loop, &c->out);
	if (x->gzip)
		add_zipped(x, data, len, false);
	else
		add_chunk(x, data, len);
	if (conn_unsent(c) > (size_t)HTTP_ENOUGH)
		conn_flush(c);
	if (c->out.failed || c->broken || conn_unsent(c) > c->loop->limits.unsent_bytes)
		return give_up(x);
	x->wants_drained = conn_unsent(c) > (size_t)HTTP_ENOUGH;
	conn_wake(c);
	return (int64_t)conn_unsent(c);
}

void http_on_drained(struct http_exchange *x, void (*drained)(void *arg, struct http_exchange *x), void *arg)
{
	x->drained = drained;
	x->drained_arg = arg;
}

void http_end(struct http_exchange *x)
{
	if (x->answer != ANSWER_BEGUN)
		return;
	if (x->left > 0 && !x->no_body) {
		http_abort(x);
		return;
	}
	if (x->gzip && !x->no_body)
		add_zipped(x, "", 0, true);
	if (x->chunked)
		buf_add(&x->conn->out, "0\r\n\r\n", 5);
	if (x->raw)
		x->close = true;
	done(x);
}

void http_abort(struct http_exchange *x)
{
	if (x->answer == ANSWER_DONE)
		return;
	x->answer = ANSWER_DONE;
	x->conn->broken = x->conn->reset = true;
	conn_wake(x->conn);
}

/* ---- another protocol ---------------------------------------------------------------------------------------------------------- */

static bool list_has(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; *at; at += strcspn(at, ",")) {
		at += strspn(at, ", \t");
		const size_t len = strcspn(at, ", \t");
		if (len == n && strncasecmp(at, word, n) == 0)
			return true;
	}
	return false;
}

int http_upgrade(struct http_exchange *x, const char *protocol, const struct http_header *headers, size_t header_count)
{
	const char *asked = http_header(x, "upgrade");
	struct conn *c = x->conn;

	if (x->answer != ANSWER_NONE || !asked || !x->upgrade_asked || x->request.minor == 0 || !x->body_done || !list_has(asked, protocol))
		return -1;
	if (!compose_allowed(&(struct http_answer){.status = 200, .type = protocol, .headers = headers, .header_count = header_count}))
		return -1;
	buf_addf(&c->out, "HTTP/1.1 101 Switching Protocols\r\nServer: cordon\r\nConnection: Upgrade\r\nUpgrade: %s\r\n", protocol);
	for (size_t i = 0; i < header_count; i++)
		buf_addf(&c->out, "%s: %s\r\n", headers[i].name, headers[i].value);
	buf_add(&c->out, "\r\n", 2);
	x->answer = ANSWER_BEGUN;
	x->left = -1;
	x->raw = true;
	x->no_body = x->body_told = false;
	x->collected = NULL;
	x->piece = NULL;
	c->state = CONN_RAW;
	conn_wake(c);
	return 0;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------------ */

const struct http_request *http_request(const struct http_exchange *x)
{
	return &x->request;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
	for (size_t i = 0; i < x->request.header_count; i++)
		if (strcasecmp(x->headers[i].name, name) == 0)
			return x->headers[i].value;
	return NULL;
}

void http_on_gone(struct http_exchange *x, void (*gone)(void *arg, struct http_exchange *x), void *arg)
{
	x->gone = gone;
	x->gone_arg = arg;
}

void http_on_half_closed(struct http_exchange *x, void (*half_closed)(void *arg, struct http_exchange *x), void *arg)
{
	x->half_closed = half_closed;
	x->half_arg = arg;
}

bool http_half_closed(const struct http_exchange *x)
{
	return x->conn->eof;
}
