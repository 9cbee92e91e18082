/* SPDX-License-Identifier: Apache-2.0 */
#include "serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"

#define PART ((size_t)64 << 10)

/* ---- the handler's side -------------------------------------------------------------------------------------------------------- */

static void count(struct serving *s, unsigned *counter)
{
	pthread_mutex_lock(&s->lock);
	(*counter)++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void text(struct http_exchange *x, const char *body, size_t len)
{
	http_answer(x, &(struct http_answer){.status = 200, .type = "text/plain", .body = body, .len = len});
}

static void do_hello(struct serving *s, struct http_exchange *x)
{
	(void)s;
	text(x, "hello\n", 6);
}

static void echo(void *arg, struct http_exchange *x, char *body, size_t len)
{
	(void)arg;
	http_answer(x, &(struct http_answer){.status = 200, .type = "application/octet-stream", .body = body, .len = len});
}

static void do_echo(struct serving *s, struct http_exchange *x)
{
	http_collect(x, 1 << 20, echo, s);
}

static void do_small(struct serving *s, struct http_exchange *x)
{
	http_collect(x, 10, echo, s);
}

static void on_piece(void *arg, struct http_exchange *x, const char *data, size_t len, bool last)
{
	struct serving *s = arg;
	char sum[32];

	(void)data;
	s->streamed += len;
	if (len)
		count(s, &s->pieces);
	if (!last)
		return;
	snprintf(sum, sizeof(sum), "%zu", s->streamed);
	text(x, sum, strlen(sum));
}

static void do_streamed(struct serving *s, struct http_exchange *x)
{
	s->streamed = 0;
	http_stream_body(x, on_piece, s);
}

static void resume(void *arg)
{
	struct serving *s = arg;
	if (!s->later)
		return;
	http_resume(s->later);
	count(s, &s->resumed);
}

static void on_piece_then_pause(void *arg, struct http_exchange *x, const char *data, size_t len, bool last)
{
	struct serving *s = arg;
	if (last)
		s->later = NULL;
	on_piece(arg, x, data, len, last);
	if (last)
		return;
	http_pause(x);
	http_loop_post(s->loop, resume, s);
}

static void do_paused(struct serving *s, struct http_exchange *x)
{
	s->streamed = 0;
	s->later = x;
	http_stream_body(x, on_piece_then_pause, s);
}

static void do_who(struct serving *s, struct http_exchange *x)
{
	const struct http_request *r = http_request(x);
	_cleanup_buf_ struct buf b = {0};
	char peer[64];

	(void)s;
	http_peer_name(&r->peer, peer, sizeof(peer));
	buf_addf(&b, "method %s\npath %s\nhost %s\nminor %d\npeer %s\n", r->method, r->path, r->host, r->minor, peer);
	for (struct http_query q = http_query(x); http_query_next(&q);)
		buf_addf(&b, "query %s=%s\n", q.name, q.value);
	for (size_t i = 0; i < r->header_count; i++)
		buf_addf(&b, "header %s=%s\n", r->headers[i].name, r->headers[i].value);
	text(x, b.data, b.len);
}

static size_t wanted(struct http_exchange *x)
{
	const char *n = http_query_get(x, "n");
	return n ? (size_t)strtoull(n, NULL, 10) : 0;
}

static void do_text(struct serving *s, struct http_exchange *x)
{
	const size_t n = wanted(x);
	_cleanup_free_ char *letters = malloc(n + 1);

	(void)s;
	for (size_t i = 0; i < n; i++)
		letters[i] = (char)('a' + i % 26);
	text(x, letters, n);
}

/* ---- in parts */

struct parts {
	struct serving *serving;
	size_t left, cheated;
	uint64_t at;
};

static void parts_go_on(void *arg, struct http_exchange *x)
{
	struct parts *p = arg;
	char part[PART];
	int64_t unsent = 0;

	while (p->left && unsent <= HTTP_ENOUGH) {
		const size_t n = MIN(p->left, sizeof(part));
		for (size_t i = 0; i < n; i++)
			part[i] = (char)('a' + p->at++ % 26);
		p->left -= n;
		unsent = http_write(x, part, n);
		if (unsent < 0)
			return;
		p->serving->most_unsent = MAX(p->serving->most_unsent, (size_t)unsent);
	}
	if (p->left) {
		count(p->serving, &p->serving->waits);
		return;
	}
	http_end(x);
	free(p);
}

static void parts_gone(void *arg, struct http_exchange *x)
{
	struct parts *p = arg;
	struct serving *s = p->serving;

	(void)x;
	free(p);
	count(s, &s->gone);
}

static void do_parts(struct serving *s, struct http_exchange *x)
{
	struct parts *p = calloc(1, sizeof(*p));

	p->serving = s;
	p->left = wanted(x);
	http_on_gone(x, parts_gone, p);
	http_on_drained(x, parts_go_on, p);
	http_begin(x, &(struct http_answer){.status = 200, .type = "text/plain"}, http_query_get(x, "known") ? (int64_t)p->left : -1,
	           http_query_get(x, "zip") ? HTTP_STREAM_GZIP : 0);
	if (http_query_get(x, "short"))
		p->left--;
	parts_go_on(p, x);
}

/* A writer that does not listen. */
static void do_flood(struct serving *s, struct http_exchange *x)
{
	struct parts *p = calloc(1, sizeof(*p));
	char part[PART] = "";

	p->serving = s;
	http_on_gone(x, parts_gone, p);
	http_begin(x, &(struct http_answer){.status = 200}, -1, 0);
	for (size_t i = 0; i < wanted(x); i++)
		if (http_write(x, part, sizeof(part)) < 0)
			return;
	http_end(x);
	free(p);
}

/* ---- others */

static void on_gone(void *arg, struct http_exchange *x)
{
	struct serving *s = arg;

	if (s->later == x)
		s->later = NULL;
	count(s, &s->gone);
}

static void on_half_closed(void *arg, struct http_exchange *x)
{
	struct serving *s = arg;

	(void)x;
	count(s, &s->half_closed);
}

static void do_later(struct serving *s, struct http_exchange *x)
{
	s->later = x;
	http_on_gone(x, on_gone, s);
	http_on_half_closed(x, on_half_closed, s);
}

static void answer_it(void *arg)
{
	struct serving *s = arg;
	struct http_exchange *x = s->later;

	s->later = NULL;
	if (x)
		text(x, "later\n", 6);
	count(s, &s->posted);
}

static void come_back(void *arg, struct http_exchange *x, const char *data, size_t len, bool last)
{
	struct serving *s = arg;

	if (last || (len == 3 && memcmp(data, "bye", 3) == 0))
		http_end(x);
	else if (http_write(x, data, len) > HTTP_ENOUGH) {
		http_pause(x);
		count(s, &s->paused);
	}
}

static void raw_drained(void *arg, struct http_exchange *x)
{
	(void)arg;
	http_resume(x);
}

static void do_upgrade(struct serving *s, struct http_exchange *x)
{
	static const struct http_header accept = {"Sec-Test", "yes"};

	http_on_gone(x, on_gone, s);
	http_on_drained(x, raw_drained, s);
	if (http_upgrade(x, "echo", &accept, 1) < 0)
		http_refuse(x, &(struct http_problem){426, "upgrade_required", "this is for upgrades", "send Upgrade: echo"});
	else
		http_stream_body(x, come_back, s);
}

static void do_headers(struct serving *s, struct http_exchange *x)
{
	static const struct http_header headers[] = {{"X-One", "1"}, {"ETag", "\"e\""}};

	(void)s;
	http_answer(x,
	            &(struct http_answer){.status = 404, .headers = headers, .header_count = ARRAY_SIZE(headers), .body = "no", .len = 2});
}

static void do_bad(struct serving *s, struct http_exchange *x)
{
	static const struct http_header headers[] = {{"X-One", "1\r\nX-Two: 2"}};

	(void)s;
	http_answer(x, &(struct http_answer){.status = 200, .headers = headers, .header_count = 1});
}

static void do_empty(struct serving *s, struct http_exchange *x)
{
	(void)s;
	http_answer(x, &(struct http_answer){.status = 204});
}

static void do_abort(struct serving *s, struct http_exchange *x)
{
	(void)s;
	http_begin(x, &(struct http_answer){.status = 200}, -1, 0);
	http_write(x, "half", 4);
	http_abort(x);
}

static void handle(void *arg, struct http_exchange *x)
{
	static const struct {
		const char *path;
		void (*act)(struct serving *s, struct http_exchange *x);
	} acts[] = {
		{"/hello", do_hello},   {"/echo", do_echo},   {"/small", do_small},     {"/streamed", do_streamed},
		{"/paused", do_paused}, {"/text", do_text},   {"/parts", do_parts},     {"/flood", do_flood},
		{"/later", do_later},   {"/never", do_later}, {"/upgrade", do_upgrade}, {"/headers", do_headers},
		{"/bad", do_bad},       {"/empty", do_empty}, {"/abort", do_abort},     {"/early", do_hello},
	};
	struct serving *s = arg;

	count(s, &s->handled);
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		if (strcmp(http_request(x)->path, acts[i].path) == 0) {
			acts[i].act(s, x);
			return;
		}
	}
	do_who(s, x);
}

/* ---- the server ---------------------------------------------------------------------------------------------------------------- */

static void *run(void *arg)
{
	http_loop_run(((struct serving *)arg)->loop);
	return NULL;
}

static int listen_here(unsigned short *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

void serving_start(struct serving *s, const struct http_limits *limits)
{
	struct cordon_error err = {0};
	struct http_service service = {.handle = handle, .arg = s};

	*s = (struct serving){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	if (limits)
		service.limits = *limits;
	s->listener = listen_here(&s->port);
	s->loop = http_loop_new(&service, &err);
	assert_non_null(s->loop);
	assert_int_equal(http_loop_listen(s->loop, s->listener, &err), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

void serving_join(struct serving *s)
{
	if (!s->stopped)
		pthread_join(s->thread, NULL);
	s->stopped = true;
}

void serving_stop(struct serving *s)
{
	if (!s->stopped)
		http_loop_stop(s->loop);
	serving_join(s);
	http_loop_free(s->loop);
	close(s->listener);
}

struct serving server;

int serving_set_up(void **state)
{
	(void)state;
	serving_start(&server, NULL);
	return 0;
}

int serving_tear_down(void **state)
{
	(void)state;
	serving_stop(&server);
	return 0;
}

void serving_wait(struct serving *s, const unsigned *counter, unsigned n)
{
	struct timespec until;
	int result = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DEADLINE_S;
	pthread_mutex_lock(&s->lock);
	while (*counter < n && result == 0)
		result = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	pthread_mutex_unlock(&s->lock);
	assert_int_equal(result, 0);
}

unsigned serving_count(struct serving *s, const unsigned *counter)
{
	pthread_mutex_lock(&s->lock);
	const unsigned n = *counter;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void on_round(void *arg)
{
	struct serving *s = arg;

	count(s, &s->rounds);
}

void serving_round(struct serving *s)
{
	const unsigned before = serving_count(s, &s->rounds);

	for (unsigned i = 1; i <= 2; i++) { /* what was there when the first one was posted is seen before the second one is */
		assert_int_equal(http_loop_post(s->loop, on_round, s), 0);
		serving_wait(s, &s->rounds, before + i);
	}
}

void serving_answer_later(struct serving *s)
{
	assert_int_equal(http_loop_post(s->loop, answer_it, s), 0);
}
