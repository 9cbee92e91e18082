/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation fails in turn: the connection may end, the server goes on. In one thread, so that it is known whose allocation it is. */
#include <errno.h>
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "server/http.h"

#define HOST "Host: a\r\n"

/* ---- allocations --------------------------------------------------------------------------------------------------------------- */

static unsigned allocations, failing; /* failing: which one; 0: none */

void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static bool fails(void)
{
	return ++allocations == failing;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : __real_strndup(s, n);
}

/* ---- the server ---------------------------------------------------------------------------------------------------------------- */

static unsigned begun, over;

static void gone(void *arg, struct http_exchange *x)
{
	(void)arg;
	(void)x;
	over++;
}

static void collected(void *arg, struct http_exchange *x, char *body, size_t len)
{
	(void)arg;
	over++;
	http_answer(x, &(struct http_answer){.status = 200, .type = "text/plain", .body = body, .len = len});
}

static void piece(void *arg, struct http_exchange *x, const char *data, size_t len, bool last)
{
	(void)arg;
	http_write(x, data, len);
	if (!last)
		return;
	over++;
	http_end(x);
}

static void handle(void *arg, struct http_exchange *x)
{
	(void)arg;
	begun++;
	http_on_gone(x, gone, NULL);
	if (strcmp(http_request(x)->method, "PUT") == 0) {
		http_begin(x, &(struct http_answer){.status = 200, .type = "text/plain"}, -1, HTTP_STREAM_GZIP);
		http_stream_body(x, piece, NULL);
	} else {
		http_collect(x, 1 << 20, collected, NULL);
	}
}

/* ---- the client ---------------------------------------------------------------------------------------------------------------- */

static size_t talk(struct http_loop *loop, const char *request)
{
	_cleanup_fd_ int mine = -1;
	char heard[4096];
	int ends[2];
	size_t all = 0;
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	mine = ends[0];
	if (http_loop_adopt(loop, ends[1], NULL) < 0)
		return 0;
	assert_int_equal(send(mine, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	shutdown(mine, SHUT_WR);
	while (http_loop_connections(loop)) {
		event_base_loop(http_loop_base(loop), EVLOOP_NONBLOCK);
		while ((n = recv(mine, heard, sizeof(heard), MSG_DONTWAIT)) > 0)
			all += (size_t)n;
	}
	while ((n = recv(mine, heard, sizeof(heard), MSG_DONTWAIT)) > 0)
		all += (size_t)n;
	return all;
}

static void try_all(const char *request)
{
	bool last = false;

	for (unsigned which = 1; !last; which++) {
		struct http_loop *loop = http_loop_new(&(struct http_service){.handle = handle}, NULL);
		assert_non_null(loop);
		begun = over = allocations = 0;
		failing = which;
		talk(loop, request);
		last = allocations < which; /* it was never asked for that many */
		assert_int_equal(begun, over);
		failing = 0;
		assert_true(talk(loop, request) > 0); /* the next client is served */
		assert_int_equal(begun, over);
		http_loop_free(loop);
	}
}

static void test_without_memory_only_that_connection_ends(void **state)
{
	(void)state;
	try_all("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
	try_all("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
	try_all("PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nAccept-Encoding: gzip\r\n\r\nhello");
	try_all("nonsense\r\n\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_memory_only_that_connection_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
