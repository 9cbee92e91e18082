/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are in order: what a handler sees of them, however they come. */
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
#include "serving.h"

#define POST(path) "POST " path " HTTP/1.1\r\n" HOST

static void see_lines(struct answer *a, const char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strstr(a->body.data, lines[i]))
			fail_msg("\"%s\" is not in:\n%s", lines[i], a->body.data);
}

/* ---- heads --------------------------------------------------------------------------------------------------------------------- */

static void test_a_request_is_seen_as_it_was_meant(void **state)
{
	static const char *const lines[] = {"method DELETE\n",
	                                    "path /v1/a b/\xc3\xa9\n",
	                                    "host a\n",
	                                    "minor 1\n",
	                                    "query x=1 2\n",
	                                    "query y=\n",
	                                    "query z=\n",
	                                    "query &=%\n",
	                                    "header X-One=a  b\n",
	                                    "header X-Empty=\n",
	                                    "peer unix:uid="};
	_cleanup_fd_ int fd = client_pair(&server);
	struct answer a;

	(void)state;
	client_say(fd, "DELETE /v1/a%20b/%C3%A9?x=1+2&y=&&z&%26=%25 HTTP/1.1\r\n" HOST "X-One:   a  b \t\r\nX-Empty:\r\n\r\n");
	client_hear(fd, &a);
	see_lines(&a, lines, ARRAY_SIZE(lines));
	answer_free(&a);
}

static void test_an_absolute_target_says_the_host(void **state)
{
	static const struct {
		const char *target, *lines[3];
	} cases[] = {
		{"http://a/x?y=1", {"path /x\n", "host a\n", "query y=1\n"}},
		{"HTTP://A:80", {"path /\n", "host A:80\n", "minor 1\n"}},
		{"https://[::1]:8443?q", {"path /\n", "host [::1]:8443\n", "query q=\n"}},
	};
	static const char *const hosts[] = {"a", "a:80", "[::1]:8443"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = client_pair(&server);
		_cleanup_buf_ struct buf sent = {0};
		struct answer a;

		buf_addf(&sent, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].target, hosts[i]);
		client_send(fd, sent.data, sent.len);
		client_hear(fd, &a);
		see_lines(&a, cases[i].lines, 3);
		answer_free(&a);
	}
}

static void test_a_tcp_client_is_known_by_its_address(void **state)
{
	static const char *const lines[] = {"peer 127.0.0.1:"};
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	client_say(fd, GET("/"));
	client_hear(fd, &a);
	see_lines(&a, lines, 1);
	answer_free(&a);
}

/* ---- several ------------------------------------------------------------------------------------------------------------------- */

static void ask_numbered(int fd, unsigned count, bool slowly)
{
	_cleanup_buf_ struct buf sent = {0};

	for (unsigned i = 0; i < count; i++)
		buf_addf(&sent, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n%04u", i);
	for (size_t at = 0; at < sent.len; at += slowly ? 1 : sent.len)
		client_send(fd, sent.data + at, slowly ? 1 : sent.len);
	for (unsigned i = 0; i < count; i++) {
		char expected[16];
		snprintf(expected, sizeof(expected), "%04u", i);
		client_expect(fd, 200, expected);
	}
}

static void test_requests_in_one_write_are_answered_in_their_order(void **state)
{
	static const unsigned counts[] = {1, 2, 50, 2000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_fd_ int fd = client_connect(&server);
		ask_numbered(fd, counts[i], false);
		ask_numbered(fd, counts[i], false);
	}
}

static void test_requests_byte_by_byte_are_answered_in_their_order(void **state)
{
	static const unsigned counts[] = {1, 2, 50};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_fd_ int fd = client_pair(&server);
		ask_numbered(fd, counts[i], true);
	}
}

static void test_a_request_waits_until_the_one_before_is_answered(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned before = serving_count(&server, &server.handled);

	(void)state;
	client_say(fd, GET("/later") GET("/hello") GET("/later") GET("/hello"));
	for (unsigned i = 0; i < 2; i++) {
		serving_wait(&server, &server.handled, before + 1 + 2 * i);
		assert_int_equal(serving_count(&server, &server.handled), before + 1 + 2 * i);
		serving_answer_later(&server);
		client_expect(fd, 200, "later\n");
		client_expect(fd, 200, "hello\n");
	}
}

static void test_more_requests_than_fit_are_answered_all(void **state)
{
	enum { COUNT = 20000 };
	_cleanup_fd_ int fd = client_pair(&server);
	const char one[] = GET("/hello");
	_cleanup_buf_ struct buf some = {0};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		buf_add(&some, one, sizeof(one) - 1);
	for (unsigned i = 0; i < COUNT / 100; i++) {
		client_send(fd, some.data, some.len);
		for (unsigned k = 0; i > 0 && k < 100; k++) /* one hundred behind, so that there is always something on its way */
			client_expect(fd, 200, "hello\n");
	}
	for (unsigned k = 0; k < 100; k++)
		client_expect(fd, 200, "hello\n");
}

/* ---- bodies -------------------------------------------------------------------------------------------------------------------- */

#define CHUNKS "5\r\nhello\r\n1;a;b=c\r\n \r\nA\r\nworld12345\r\n0\r\nX-Trailer: y\r\n\r\n"

static void test_a_chunked_body_is_the_same_in_all_pieces(void **state)
{
	static const char request[] = POST("/echo") "Transfer-Encoding: chunked\r\n\r\n" CHUNKS;
	_cleanup_fd_ int fd = client_pair(&server);

	(void)state;
	for (size_t cut = 1; cut < sizeof(request) - 1; cut++) {
		client_send(fd, request, cut);
		client_send(fd, request + cut, sizeof(request) - 1 - cut);
		client_expect(fd, 200, "hello world12345");
	}
	for (size_t at = 0; at < sizeof(request) - 1; at++)
		client_send(fd, request + at, 1);
	client_expect(fd, 200, "hello world12345");
}

static void test_what_follows_a_chunked_body_is_the_next_request(void **state)
{
	static const char request[] = POST("/echo") "Transfer-Encoding: chunked\r\n\r\n" CHUNKS GET("/hello");
	_cleanup_fd_ int fd = client_pair(&server);

	(void)state;
	client_send(fd, request, sizeof(request) - 1);
	client_expect(fd, 200, "hello world12345");
	client_expect(fd, 200, "hello\n");
}

static void send_large(int fd, const char *path, size_t len)
{
	_cleanup_buf_ struct buf sent = {0};
	char piece[10000];

	memset(piece, 'x', sizeof(piece));
	buf_addf(&sent, "POST %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", path, len);
	client_send(fd, sent.data, sent.len);
	for (size_t n; len; len -= n) {
		n = MIN(len, sizeof(piece));
		client_send(fd, piece, n);
	}
}

static void test_a_streamed_body_of_any_size_is_taken(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	send_large(fd, "/streamed", (size_t)64 << 20);
	client_expect(fd, 200, "67108864");
	client_say(fd, GET("/hello"));
	client_expect(fd, 200, "hello\n");
}

static void test_a_paused_body_goes_on_when_it_is_resumed(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned before = serving_count(&server, &server.resumed);

	(void)state;
	send_large(fd, "/paused", (size_t)4 << 20);
	client_expect(fd, 200, "4194304");
	assert_true(serving_count(&server, &server.resumed) - before > 100);
}

static void test_pieces_after_a_pause_come_after_the_resume(void **state)
{
	static const char request[] = POST("/paused") "Transfer-Encoding: chunked\r\n\r\n" CHUNKS;
	_cleanup_fd_ int fd = client_pair(&server);

	(void)state;
	client_send(fd, request, sizeof(request) - 1);
	client_expect(fd, 200, "16");
}

static void test_an_empty_body_is_collected_too(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, GET("/echo") POST("/echo") "Content-Length: 0\r\n\r\n" POST("/streamed") "\r\n" POST(
			       "/echo") "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	client_expect(fd, 200, "");
	client_expect(fd, 200, "");
	client_expect(fd, 200, "0");
	client_expect(fd, 200, "");
}

static void test_a_body_at_its_cap_is_taken(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, POST("/small") "Content-Length: 10\r\n\r\n0123456789" POST(
			       "/small") "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n");
	client_expect(fd, 200, "0123456789");
	client_expect(fd, 200, "0123456789");
}

static void test_a_body_over_its_cap_is_refused(void **state)
{
	static const char *const requests[] = {
		POST("/small") "Content-Length: 11\r\n\r\n",
		POST("/small") "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n",
		POST("/small") "Content-Length: 999999999999\r\n\r\nxxx",
		POST("/small") "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n56789a",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_fd_ int fd = client_connect(&server);
		struct answer a;

		client_say(fd, requests[i]); /* and no more: it does not wait for the rest */
		client_hear(fd, &a);
		assert_int_equal(a.status, 413);
		assert_non_null(strstr(a.body.data, "\"code\":\"body_too_large\""));
		client_expect_end(fd);
		answer_free(&a);
	}
}

static void test_who_waits_to_be_asked_for_its_body_is_asked(void **state)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	_cleanup_fd_ int fd = client_connect(&server);
	char heard[sizeof(go_on)] = "";

	(void)state;
	client_say(fd, POST("/echo") "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	assert_int_equal(recv(fd, heard, sizeof(go_on) - 1, MSG_WAITALL), sizeof(go_on) - 1);
	assert_string_equal(heard, go_on);
	client_say(fd, "hello");
	client_expect(fd, 200, "hello");
}

static void test_who_waits_and_is_not_asked_gets_the_answer_and_the_end(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf all = {0};

	(void)state;
	client_say(fd, POST("/early") "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	client_hear_all(fd, &all);
	assert_int_equal(strncmp(all.data, "HTTP/1.1 200 ", 13), 0);
	assert_non_null(strstr(all.data, "Connection: close\r\n"));
}

static void test_a_small_body_that_nobody_wanted_is_read_past(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, POST("/early") "Content-Length: 5\r\n\r\nhel");
	client_expect(fd, 200, "hello\n");
	client_say(fd, "lo" GET("/hello"));
	client_expect(fd, 200, "hello\n");
}

static void test_a_large_body_that_nobody_wanted_ends_the_connection(void **state)
{
	static const char *const requests[] = {
		POST("/early") "Content-Length: 100000000\r\n\r\nhel",
		POST("/early") "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_fd_ int fd = client_connect(&server);

		client_say(fd, requests[i]);
		client_expect(fd, 200, "hello\n");
		client_say(fd, GET("/hello"));
		client_expect_end(fd);
	}
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------------- */

static void see_connection(const char *request, const char *expected, bool ends)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;
	char value[32];

	client_say(fd, request);
	client_hear(fd, &a);
	assert_int_equal(a.status, 200);
	assert_string_equal(answer_header(&a, "connection", value, sizeof(value)), expected);
	answer_free(&a);
	if (ends) {
		client_expect_end(fd);
		return;
	}
	client_say(fd, request);
	client_expect(fd, 200, "hello\n");
}

static void test_a_connection_is_kept_as_the_client_asks(void **state)
{
	(void)state;
	see_connection(GET("/hello"), "", false);
	see_connection("GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "close", true);
	see_connection("GET /hello HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n", "close", true);
	see_connection("GET /hello HTTP/1.1\r\n" HOST "Connection: keep-alive\r\nConnection: close\r\n\r\n", "close", true);
	see_connection("GET /hello HTTP/1.0\r\n\r\n", "close", true);
	see_connection("GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "keep-alive", false);
}

static void test_a_client_that_closes_its_side_gets_its_answers(void **state)
{
	(void)state;
	for (unsigned pair = 0; pair < 2; pair++) {
		_cleanup_fd_ int fd = pair ? client_pair(&server) : client_connect(&server);
		const unsigned half = serving_count(&server, &server.half_closed);

		client_say(fd, GET("/hello") GET("/later"));
		shutdown(fd, SHUT_WR);
		client_expect(fd, 200, "hello\n");
		serving_wait(&server, &server.half_closed, half + 1);
		serving_answer_later(&server);
		client_expect(fd, 200, "later\n");
		client_expect_end(fd);
	}
}

static void test_a_client_that_breaks_off_is_noticed(void **state)
{
	(void)state;
	for (unsigned pair = 0; pair < 2; pair++) {
		int fd = pair ? client_pair(&server) : client_connect(&server);
		const unsigned handled = serving_count(&server, &server.handled), gone = serving_count(&server, &server.gone);

		client_say(fd, GET("/never"));
		serving_wait(&server, &server.handled, handled + 1);
		if (!pair) /* over TCP, a close alone may be half of one */
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
		close(fd);
		serving_wait(&server, &server.gone, gone + 1);
	}
}

static void test_a_client_that_breaks_off_after_its_side_is_closed_is_noticed(void **state)
{
	int fd = client_connect(&server);
	const unsigned half = serving_count(&server, &server.half_closed), gone = serving_count(&server, &server.gone);

	(void)state;
	client_say(fd, GET("/never"));
	shutdown(fd, SHUT_WR);
	serving_wait(&server, &server.half_closed, half + 1);
	assert_int_equal(serving_count(&server, &server.gone), gone);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	serving_wait(&server, &server.gone, gone + 1);
}

static void test_a_client_that_breaks_off_behind_unread_requests_is_noticed(void **state)
{
	int fd = client_connect(&server);
	const unsigned handled = serving_count(&server, &server.handled), gone = serving_count(&server, &server.gone);
	char piece[65536];

	(void)state;
	memset(piece, 'x', sizeof(piece));
	client_say(fd, GET("/never"));
	client_send(fd, piece, sizeof(piece)); /* more than is read ahead */
	serving_wait(&server, &server.handled, handled + 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	serving_wait(&server, &server.gone, gone + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_request_is_seen_as_it_was_meant),
		cmocka_unit_test(test_an_absolute_target_says_the_host),
		cmocka_unit_test(test_a_tcp_client_is_known_by_its_address),
		cmocka_unit_test(test_requests_in_one_write_are_answered_in_their_order),
		cmocka_unit_test(test_requests_byte_by_byte_are_answered_in_their_order),
		cmocka_unit_test(test_a_request_waits_until_the_one_before_is_answered),
		cmocka_unit_test(test_more_requests_than_fit_are_answered_all),
		cmocka_unit_test(test_a_chunked_body_is_the_same_in_all_pieces),
		cmocka_unit_test(test_what_follows_a_chunked_body_is_the_next_request),
		cmocka_unit_test(test_a_streamed_body_of_any_size_is_taken),
		cmocka_unit_test(test_a_paused_body_goes_on_when_it_is_resumed),
		cmocka_unit_test(test_pieces_after_a_pause_come_after_the_resume),
		cmocka_unit_test(test_an_empty_body_is_collected_too),
		cmocka_unit_test(test_a_body_at_its_cap_is_taken),
		cmocka_unit_test(test_a_body_over_its_cap_is_refused),
		cmocka_unit_test(test_who_waits_to_be_asked_for_its_body_is_asked),
		cmocka_unit_test(test_who_waits_and_is_not_asked_gets_the_answer_and_the_end),
		cmocka_unit_test(test_a_small_body_that_nobody_wanted_is_read_past),
		cmocka_unit_test(test_a_large_body_that_nobody_wanted_ends_the_connection),
		cmocka_unit_test(test_a_connection_is_kept_as_the_client_asks),
		cmocka_unit_test(test_a_client_that_closes_its_side_gets_its_answers),
		cmocka_unit_test(test_a_client_that_breaks_off_is_noticed),
		cmocka_unit_test(test_a_client_that_breaks_off_after_its_side_is_closed_is_noticed),
		cmocka_unit_test(test_a_client_that_breaks_off_behind_unread_requests_is_noticed),
	};

	return cmocka_run_group_tests(tests, serving_set_up, serving_tear_down);
}
