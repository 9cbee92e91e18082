/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the server's HTTP core. An input is a byte that says in what pieces, and what the client sends; then it closes its side. Besides
 * memory errors, the target fails when what comes back is not a row of answers that another parser can read; when there are more of them than
 * requests (and one refusal); when anything follows an answer that closes; when the connection does not end; and when other pieces have
 * another outcome.
 */
#include <errno.h>
#include <event2/event.h>
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz_seeds.h"
#include "must.h"
#include "server/http.h"

#define ANSWERS_MAX 512
#define INPUT_MAX 4096

static struct http_loop *loop;

/* ---- the server ---------------------------------------------------------------------------------------------------------------- */

static unsigned handled, open_exchanges;
static bool streamed; /* an answer may be broken off */

static void see_text(const char *s)
{
	MUST(s && strlen(s) <= INPUT_MAX);
}

static void see_request(struct http_exchange *x)
{
	const struct http_request *r = http_request(x);

	see_text(r->method);
	see_text(r->query);
	MUST(r->path[0] == '/' && !strstr(r->path, "/../") && !strpbrk(r->path, "\r\n\\"));
	MUST(r->minor == 0 || r->host[0]);
	MUST(!(http_header(x, "content-length") && http_header(x, "transfer-encoding")));
	for (size_t i = 0; i < r->header_count; i++) {
		MUST(r->headers[i].name[0] && !strpbrk(r->headers[i].name, " \t\r\n:"));
		MUST(!strpbrk(r->headers[i].value, "\r\n"));
	}
	for (struct http_query q = http_query(x); http_query_next(&q);) {
		see_text(q.name);
		see_text(q.value);
	}
}

static void ended(void *arg, struct http_exchange *x)
{
	(void)arg;
	see_text(http_request(x)->path);
	open_exchanges--;
}

static void on_body(void *arg, struct http_exchange *x, char *body, size_t len)
{
	(void)arg;
	MUST(len <= 64 && body[len] == '\0');
	open_exchanges--;
	http_answer(x, &(struct http_answer){.status = 200, .type = "text/plain", .body = body, .len = len});
}

static void on_piece(void *arg, struct http_exchange *x, const char *data, size_t len, bool last)
{
	(void)arg;
	MUST(http_write(x, data, len) >= 0 || http_request(x)->minor == 0);
	if (!last)
		return;
	open_exchanges--;
	http_end(x);
}

static void handle(void *arg, struct http_exchange *x)
{
	const char *method = http_request(x)->method;

	(void)arg;
	handled++;
	open_exchanges++;
	see_request(x);
	http_on_gone(x, ended, NULL);
	if (strcmp(method, "POST") == 0) {
		http_collect(x, 64, on_body, NULL);
	} else if (strcmp(method, "PUT") == 0) {
		streamed = true;
		http_stream_body(x, on_piece, NULL);
		http_begin(x, &(struct http_answer){.status = 200, .type = "text/plain"}, -1, HTTP_STREAM_GZIP);
	} else {
		static const char text[2000] = "text";
		open_exchanges--;
		http_answer(x, &(struct http_answer){.status = 200,
		                                     .type = "text/plain",
		                                     .body = text,
		                                     .len = strcmp(method, "PATCH") == 0 ? sizeof(text) : 4});
	}
}

/* ---- the client ---------------------------------------------------------------------------------------------------------------- */

struct outcome {
	int status[ANSWERS_MAX];
	unsigned answers, requests;
	bool closes, reset, head;
};

static int on_answer_head(llhttp_t *p)
{
	struct outcome *o = p->data;

	MUST(!o->closes);
	return o->head; /* 1: without a body */
}

static int on_answer(llhttp_t *p)
{
	struct outcome *o = p->data;

	if (p->status_code == 100)
		return 0;
	MUST(o->answers < ANSWERS_MAX);
	o->status[o->answers++] = p->status_code;
	o->closes = !llhttp_should_keep_alive(p);
	return 0;
}

static void read_answers(struct outcome *o, const char *data, size_t len)
{
	static const llhttp_settings_t calls = {.on_headers_complete = on_answer_head, .on_message_complete = on_answer};
	llhttp_t parser;

	llhttp_init(&parser, HTTP_RESPONSE, &calls);
	parser.data = o;
	llhttp_set_lenient_keep_alive(&parser, 1);
	const llhttp_errno_t error = llhttp_execute(&parser, data, len);
	MUST(error == HPE_OK);
	if (llhttp_finish(&parser) != HPE_OK)
		o->reset = true; /* of a unix socket it looks like an end */
	MUST(!o->reset || streamed);
}

static bool hear(int fd, struct buf *heard, bool *reset)
{
	char piece[4096];
	ssize_t n;

	for (;;) {
		event_base_loop(http_loop_base(loop), EVLOOP_NONBLOCK);
		n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n <= 0)
			break;
		buf_add(heard, piece, (size_t)n);
	}
	*reset = n < 0 && errno == ECONNRESET;
	return n < 0 && !*reset; /* it goes on */
}

static void talk(const char *data, size_t len, size_t step, struct outcome *o)
{
	_cleanup_buf_ struct buf heard = {0};
	int ends[2];
	bool on = true;

	*o = (struct outcome){0};
	handled = 0;
	streamed = false;
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	MUST(http_loop_adopt(loop, ends[1], NULL) == 0);
	for (size_t at = 0; at < len && on; at += step) {
		if (send(ends[0], data + at, MIN(step, len - at), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		on = hear(ends[0], &heard, &o->reset);
	}
	shutdown(ends[0], SHUT_WR);
	for (unsigned i = 0; on && i < 1000; i++)
		on = hear(ends[0], &heard, &o->reset);
	MUST(!on);
	close(ends[0]);
	for (unsigned i = 0; http_loop_connections(loop) && i < 10; i++)
		event_base_loop(http_loop_base(loop), EVLOOP_NONBLOCK);
	MUST(http_loop_connections(loop) == 0);
	MUST(open_exchanges == 0);
	o->requests = handled;
	o->head = len > 4 && memmem(data, len, "HEAD ", 5);
	if (!o->head && heard.len) /* an answer to HEAD looks as if its body were missing: of these only memory is checked */
		read_answers(o, heard.data, heard.len);
	MUST(o->answers <= o->requests + 1);
}

static void same(const struct outcome *a, const struct outcome *b)
{
	if (a->reset || b->reset)
		return; /* what of an answer was sent before it broke off depends on the pieces */
	MUST(a->answers == b->answers);
	MUST(a->requests == b->requests);
	MUST(memcmp(a->status, b->status, a->answers * sizeof(a->status[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome once, pieces;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	talk((const char *)data + 1, size - 1, size - 1, &once);
	talk((const char *)data + 1, size - 1, (size_t)data[0] % 97 + 1, &pieces);
	same(&once, &pieces);
	return 0;
}

/* ---- seeds --------------------------------------------------------------------------------------------------------------------- */

#define HOST "Host: a\r\n"
#define GOOD "GET /x?y=1&z=%41 HTTP/1.1\r\n" HOST "\r\n"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const seeds[] = {
		GOOD GOOD GOOD,
		"GET http://a/%C3%A9 HTTP/1.1\r\n" HOST "Accept-Encoding: gzip;q=0.5, *\r\n\r\n" GOOD,
		"PATCH / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n" GOOD,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n" GOOD,
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello" GOOD,
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 500\r\nExpect: 100-continue\r\n\r\n",
		"POST / HTTP/1.1\r\n" HOST
		"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n" GOOD,
		"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n" GOOD,
		"PUT / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nAccept-Encoding: gzip\r\n\r\nabc" GOOD,
		"PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc" GOOD,
		"DELETE / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc" GOOD,
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GOOD,
		"HEAD / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" GOOD,
		"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x01x",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	};
	const struct http_service service = {.handle = handle, .limits = {.head_bytes = 1024, .target_bytes = 256, .headers = 10}};
	const char *dir = seeds_directory(*argc, *argv);
	char name[32];

	loop = http_loop_new(&service, NULL);
	MUST(loop);
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		snprintf(name, sizeof(name), "requests-%zu", i);
		seed_write(dir, name, (uint8_t)i, seeds[i], strlen(seeds[i]));
	}
	return 0;
}
