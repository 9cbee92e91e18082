/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange that becomes a stream of bytes in both directions. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "serving.h"

static void see_header(struct answer *a, const char *name, const char *expected)
{
	char value[128];

	assert_string_equal(answer_header(a, name, value, sizeof(value)), expected);
}

#define ASK_UPGRADE "GET /upgrade HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\nUpgrade: other, echo\r\n\r\n"

static void hear_upgrade(int fd)
{
	struct answer a;

	client_hear(fd, &a);
	assert_int_equal(a.status, 101);
	see_header(&a, "upgrade", "echo");
	see_header(&a, "connection", "Upgrade");
	see_header(&a, "sec-test", "yes");
	see_header(&a, "content-length", "");
	answer_free(&a);
}

static void test_an_upgraded_connection_is_a_stream_of_bytes(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	char heard[64] = "";

	(void)state;
	client_say(fd, ASK_UPGRADE "early "); /* in the same write */
	hear_upgrade(fd);
	assert_int_equal(recv(fd, heard, 6, MSG_WAITALL), 6);
	assert_string_equal(heard, "early ");
	client_say(fd, GET("/hello"));
	assert_int_equal(recv(fd, heard, strlen(GET("/hello")), MSG_WAITALL), strlen(GET("/hello")));
	assert_string_equal(heard, GET("/hello"));
	client_say(fd, "bye");
	client_expect_end(fd);
}

static void test_a_stream_that_is_not_read_stops_the_client(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned paused = serving_count(&server, &server.paused);
	char piece[65536];
	size_t sent = 0, heard = 0;
	ssize_t n;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	client_say(fd, ASK_UPGRADE);
	hear_upgrade(fd);
	/* until the server reads no more: its memory is not where it goes */
	while (serving_count(&server, &server.paused) == paused) {
		assert_true(sent < (size_t)64 << 20);
		poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 10);
		n = send(fd, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
	}
	while (heard < sent) {
		n = recv(fd, piece, sizeof(piece), 0);
		assert_true(n > 0);
		heard += (size_t)n;
	}
	shutdown(fd, SHUT_WR);
	client_expect_end(fd);
}

static void test_an_upgraded_client_that_breaks_off_is_noticed(void **state)
{
	int fd = client_pair(&server);
	const unsigned gone = serving_count(&server, &server.gone);

	(void)state;
	client_say(fd, ASK_UPGRADE);
	hear_upgrade(fd);
	close(fd);
	serving_wait(&server, &server.gone, gone + 1);
}

static void test_who_did_not_ask_is_not_upgraded(void **state)
{
	static const char *const requests[] = {
		GET("/upgrade"),
		"GET /upgrade HTTP/1.1\r\n" HOST "Upgrade: echo\r\n\r\n",
		"GET /upgrade HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echoes\r\n\r\n",
		"GET /upgrade HTTP/1.0\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n",
		"POST /upgrade HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\nContent-Length: 2\r\n\r\nxx",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_fd_ int fd = client_connect(&server);
		client_say(fd, requests[i]);
		client_expect(
			fd, 426,
			"{\"error\":{\"code\":\"upgrade_required\",\"message\":\"this is for upgrades\",\"hint\":\"send Upgrade: echo\"}}\n");
	}
}

static void test_after_an_upgrade_that_was_refused_the_next_request_is_one(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, "GET /hello HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n" GET("/hello"));
	client_expect(fd, 200, "hello\n");
	client_expect(fd, 200, "hello\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_upgraded_connection_is_a_stream_of_bytes),
		cmocka_unit_test(test_a_stream_that_is_not_read_stops_the_client),
		cmocka_unit_test(test_an_upgraded_client_that_breaks_off_is_noticed),
		cmocka_unit_test(test_who_did_not_ask_is_not_upgraded),
		cmocka_unit_test(test_after_an_upgrade_that_was_refused_the_next_request_is_one),
	};

	return cmocka_run_group_tests(tests, serving_set_up, serving_tear_down);
}
