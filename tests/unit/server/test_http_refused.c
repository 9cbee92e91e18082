/* SPDX-License-Identifier: Apache-2.0 */
/* What is not a request, or could be two: byte by byte what is sent, what must come back, and that nothing behind it is read as a request. */
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

#define LINE "GET / HTTP/1.1\r\n"
#define POST "POST /echo HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define SMUGGLED "GET /smuggled HTTP/1.1\r\n" HOST "\r\n"

/* Bytes with a NUL among them need their length. */
#define SENT(literal) (literal), sizeof(literal) - 1

static const struct refused {
	const char *what;
	const char *bytes;
	size_t len;
	int status;
} corpus[] = {
	/* where it ends */
	{"length and chunked", SENT(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked and length", SENT(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"differing lengths", SENT(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" SMUGGLED), 400},
	{"equal lengths", SENT(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" SMUGGLED), 400},
	{"a list of lengths", SENT(POST "Content-Length: 5, 5\r\n\r\nhello" SMUGGLED), 400},
	{"a signed length", SENT(POST "Content-Length: +5\r\n\r\nhello" SMUGGLED), 400},
	{"a negative length", SENT(POST "Content-Length: -5\r\n\r\nhello" SMUGGLED), 400},
	{"a hex length", SENT(POST "Content-Length: 0x5\r\n\r\nhello" SMUGGLED), 400},
	{"an octal length", SENT(POST "Content-Length: 05\r\n\r\nhello" SMUGGLED), 400},
	{"an empty length", SENT(POST "Content-Length: \r\n\r\n" SMUGGLED), 400},
	{"a length of words", SENT(POST "Content-Length: five\r\n\r\nhello" SMUGGLED), 400},
	{"a length with a space in it", SENT(POST "Content-Length: 5 0\r\n\r\nhello" SMUGGLED), 400},
	{"a length over 64 bits", SENT(POST "Content-Length: 18446744073709551617\r\n\r\nx" SMUGGLED), 400},
	{"a length with white space", SENT(POST "Content-Length:\t5\r\n\r\nhello" SMUGGLED), 400},
	{"a length with an underscore", SENT(POST "Content_Length: 5\r\n\r\nhello" SMUGGLED), 400},
	{"gzip", SENT(POST "Transfer-Encoding: gzip\r\n\r\n" SMUGGLED), 501},
	{"gzip, chunked", SENT(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
	{"identity", SENT(POST "Transfer-Encoding: identity\r\n\r\n" SMUGGLED), 501},
	{"xchunked", SENT(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
	{"chunked, gzip", SENT(POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked twice in one", SENT(POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked twice", SENT(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked and identity", SENT(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"Chunked", SENT(POST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked with a tab", SENT(POST "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked with a space behind", SENT(POST "Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked with a vertical tab",
         SENT(POST "Transfer-Encoding: \x0b"
                   "chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
         400},
	{"chunked in quotes", SENT(POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"an empty coding", SENT(POST "Transfer-Encoding: \r\n\r\n" SMUGGLED), 400},
	{"transfer_encoding", SENT(POST "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"chunked of HTTP/1.0", SENT("POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
	{"Connection names the length", SENT(POST "Content-Length: 5\r\nConnection: close, content-length\r\n\r\nhello" SMUGGLED), 400},
	/* lines */
	{"bare line feeds", SENT("GET / HTTP/1.1\nHost: a\n\n" SMUGGLED), 400},
	{"one bare line feed", SENT(LINE "Host: a\nX: y\r\n\r\n" SMUGGLED), 400},
	{"a bare line feed at the end", SENT(LINE HOST "\n" SMUGGLED), 400},
	{"a bare carriage return", SENT(LINE "Host: a\rX: y\r\n\r\n" SMUGGLED), 400},
	{"two carriage returns", SENT(LINE "Host: a\r\r\n\r\n" SMUGGLED), 400},
	{"a folded line", SENT(LINE HOST "X: y\r\n z\r\n\r\n" SMUGGLED), 400},
	{"a folded line with a tab", SENT(LINE HOST "X: y\r\n\tz\r\n\r\n" SMUGGLED), 400},
	{"a fold before the first header", SENT(LINE " " HOST "\r\n" SMUGGLED), 400},
	{"a space before the colon", SENT(LINE "Host : a\r\n\r\n" SMUGGLED), 400},
	{"a space in a name", SENT(LINE HOST "X Y: z\r\n\r\n" SMUGGLED), 400},
	{"a tab before the colon", SENT(LINE HOST "Content-Length\t: 5\r\n\r\nhello" SMUGGLED), 400},
	{"a header without a colon", SENT(LINE HOST "nothing\r\n\r\n" SMUGGLED), 400},
	{"a header without a name", SENT(LINE HOST ": y\r\n\r\n" SMUGGLED), 400},
	{"a NUL in a value", SENT(LINE HOST "X: a\0b\r\n\r\n" SMUGGLED), 400},
	{"a NUL in a name", SENT(LINE HOST "X\0: a\r\n\r\n" SMUGGLED), 400},
	{"an escape character in a value", SENT(LINE HOST "X: \x1b[31m\r\n\r\n" SMUGGLED), 400},
	{"DEL in a value", SENT(LINE HOST "X: \x7f\r\n\r\n" SMUGGLED), 400},
	{"a parenthesis in a name", SENT(LINE HOST "X(Y): a\r\n\r\n" SMUGGLED), 400},
	{"a name that is not ASCII", SENT(LINE HOST "X\xc3\xa9: a\r\n\r\n" SMUGGLED), 400},
	{"an empty line in front", SENT("\r\n" GET("/")), 400},
	{"a space in front", SENT(" " GET("/")), 400},
	/* the first line */
	{"HTTP/0.9", SENT("GET /\r\n\r\n" SMUGGLED), 400},
	{"HTTP/0.9 in number", SENT("GET / HTTP/0.9\r\n" HOST "\r\n" SMUGGLED), 505},
	{"HTTP/1.2", SENT("GET / HTTP/1.2\r\n" HOST "\r\n" SMUGGLED), 505},
	{"HTTP/2.0", SENT("GET / HTTP/2.0\r\n" HOST "\r\n" SMUGGLED), 505},
	{"HTTP/2's preface", SENT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" SMUGGLED), 505},
	{"HTTP/1", SENT("GET / HTTP/1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"HTTP/1.10", SENT("GET / HTTP/1.10\r\n" HOST "\r\n" SMUGGLED), 400},
	{"HTTP/01.1", SENT("GET / HTTP/01.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"http in small letters", SENT("GET / http/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"another protocol", SENT("GET / ICY/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"get in small letters", SENT("get / HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a method that nobody knows", SENT("FLY / HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 501},
	{"a method without an end", SENT("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), 501},
	{"two spaces", SENT("GET  / HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"two spaces before the version", SENT("GET /  HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a space in the target", SENT("GET /a b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a space behind the version", SENT("GET / HTTP/1.1 \r\n" HOST "\r\n" SMUGGLED), 400},
	{"a tab for a space", SENT("GET\t/ HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"TLS", SENT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400},
	/* the target */
	{"an asterisk", SENT("OPTIONS * HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an authority", SENT("CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an authority of GET", SENT("GET a:443 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"another scheme", SENT("GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"no slash", SENT("GET x HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an encoded NUL", SENT("GET /a%00b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an encoded slash", SENT("GET /a%2Fb HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an encoded backslash", SENT("GET /a%5cb HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"an encoded line feed", SENT("GET /a%0ab HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"half an escape", SENT("GET /a%2 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"no escape", SENT("GET /a%zz HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"not UTF-8", SENT("GET /a%ff HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a slash in too many bytes", SENT("GET /a%c0%afb HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"bytes that are not ASCII", SENT("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"..", SENT("GET /a/../b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{".. at the end", SENT("GET /a/.. HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"encoded dots", SENT("GET /a/%2e%2E/b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"half encoded dots", SENT("GET /.%2e/b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{".", SENT("GET /./b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a backslash", SENT("GET /a\\b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a fragment", SENT("GET /a#b HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a query with half an escape", SENT("GET /a?b=%4 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a query with an encoded NUL", SENT("GET /a?b=%00 HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	/* for whom */
	{"no Host", SENT("GET / HTTP/1.1\r\n\r\n" SMUGGLED), 400},
	{"two Hosts", SENT(LINE HOST HOST "\r\n" SMUGGLED), 400},
	{"an empty Host", SENT(LINE "Host: \r\n\r\n" SMUGGLED), 400},
	{"a Host with a path", SENT(LINE "Host: a/b\r\n\r\n" SMUGGLED), 400},
	{"a Host with a user", SENT(LINE "Host: u@a\r\n\r\n" SMUGGLED), 400},
	{"a Host with a word for a port", SENT(LINE "Host: a:http\r\n\r\n" SMUGGLED), 400},
	{"a Host with half a bracket", SENT(LINE "Host: [::1\r\n\r\n" SMUGGLED), 400},
	{"a list of Hosts", SENT(LINE "Host: a, b\r\n\r\n" SMUGGLED), 400},
	{"another host in the target", SENT("GET http://b/ HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"a user in the target", SENT("GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	{"no host in the target", SENT("GET http:///x HTTP/1.1\r\n" HOST "\r\n" SMUGGLED), 400},
	/* chunks */
	{"a chunk size that is none", SENT(CHUNKED "x\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"an empty chunk size", SENT(CHUNKED "\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a chunk size with 0x", SENT(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a signed chunk size", SENT(CHUNKED "+5\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a negative chunk size", SENT(CHUNKED "-5\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a chunk size over 64 bits", SENT(CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a chunk size of many zeros", SENT(CHUNKED "0000000000000000000005\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a space behind a chunk size", SENT(CHUNKED "5 \r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a space before a chunk size", SENT(CHUNKED " 5\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a space before an extension", SENT(CHUNKED "5 ;a\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a bare line feed behind a chunk size", SENT(CHUNKED "5\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a bare line feed behind a chunk", SENT(CHUNKED "5\r\nhello\n0\r\n\r\n" SMUGGLED), 400},
	{"a bare carriage return behind a chunk size", SENT(CHUNKED "5\rXhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a chunk that is too long", SENT(CHUNKED "5\r\nhello!\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a chunk without its end", SENT(CHUNKED "5\r\nhello0\r\n\r\n" SMUGGLED), 400},
	{"a bare line feed in an extension", SENT(CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a NUL in an extension", SENT(CHUNKED "5;a\0b\r\nhello\r\n0\r\n\r\n" SMUGGLED), 400},
	{"a bare line feed after the last chunk", SENT(CHUNKED "5\r\nhello\r\n0\n\r\n" SMUGGLED), 400},
	{"a folded trailer", SENT(CHUNKED "0\r\nX: y\r\n z\r\n\r\n" SMUGGLED), 400},
	{"a trailer without a colon", SENT(CHUNKED "0\r\nGET / HTTP/1.1\r\n\r\n" SMUGGLED), 400},
	/* others */
	{"another expectation", SENT(POST "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello" SMUGGLED), 417},
};

static void see_refused(const struct refused *r, const struct buf *all)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "HTTP/1.1 %d ", r->status);
	if (strncmp(all->data, begin, strlen(begin)) != 0)
		fail_msg("%s: not %d but: %s", r->what, r->status, all->data);
	const char *body = strstr(all->data, "\r\n\r\n");
	if (!strstr(all->data, "Connection: close\r\n") || !body || strncmp(body + 4, "{\"error\":{\"code\":\"", 18) != 0)
		fail_msg("%s: not in the form of errors: %s", r->what, all->data);
	if (strstr(body, "\nHTTP/1.1 ") || strstr(all->data, "smuggled"))
		fail_msg("%s: something was answered after the end: %s", r->what, all->data);
}

/* In one piece, and byte by byte. */
static void send_refused(const struct refused *r, bool slowly)
{
	_cleanup_fd_ int fd = client_pair(&server);
	_cleanup_buf_ struct buf all = {0};

	for (size_t at = 0; at < r->len; at += slowly ? 1 : r->len)
		if (send(fd, r->bytes + at, slowly ? 1 : r->len, MSG_NOSIGNAL) < 0)
			break; /* it has heard enough */
	shutdown(fd, SHUT_WR);
	client_hear_all(fd, &all);
	see_refused(r, &all);
}

static void test_what_is_malformed_is_refused_and_ends_the_connection(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(corpus); i++)
		send_refused(&corpus[i], false);
}

static void test_what_is_malformed_is_refused_byte_by_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(corpus); i++)
		send_refused(&corpus[i], true);
}

static void test_what_is_malformed_is_refused_behind_a_good_request(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(corpus); i++) {
		_cleanup_fd_ int fd = client_pair(&server);
		_cleanup_buf_ struct buf all = {0}, sent = {0};

		buf_add_str(&sent, GET("/hello"));
		buf_add(&sent, corpus[i].bytes, corpus[i].len);
		client_send(fd, sent.data, sent.len);
		client_expect(fd, 200, "hello\n");
		shutdown(fd, SHUT_WR);
		client_hear_all(fd, &all);
		see_refused(&corpus[i], &all);
	}
}

static void refuse_generated(const char *before, const char *repeated, size_t times, const char *after, int status)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf sent = {0}, all = {0};

	buf_add_str(&sent, before);
	for (size_t i = 0; i < times; i++)
		buf_add_str(&sent, repeated);
	buf_add_str(&sent, after);
	buf_add_str(&sent, SMUGGLED);
	client_send(fd, sent.data, sent.len);
	shutdown(fd, SHUT_WR);
	client_hear_all(fd, &all);
	see_refused(&(struct refused){.what = repeated, .status = status}, &all);
}

static void test_a_head_over_its_limit_is_refused(void **state)
{
	(void)state;
	refuse_generated(LINE HOST "X: ", "aaaaaaaaaaaaaaaa", 1024, "\r\n\r\n", 431);
	refuse_generated(LINE HOST "X: ", "aaaaaaaaaaaaaaaa", 100000, "", 431);
	refuse_generated(LINE HOST, "X: y\r\n", 100, "\r\n", 431);
}

static void test_a_head_at_its_limit_is_taken(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf sent = {0};

	(void)state;
	buf_add_str(&sent, "GET /hello HTTP/1.1\r\n" HOST);
	for (size_t i = 0; i < 99; i++)
		buf_add_str(&sent, "X: y\r\n");
	buf_add_str(&sent, "\r\n");
	client_send(fd, sent.data, sent.len);
	client_expect(fd, 200, "hello\n");
	sent.len = 0;
	buf_add_str(&sent, "GET /hello HTTP/1.1\r\n" HOST "X: ");
	while (sent.len < (16 << 10) - 4)
		buf_add_str(&sent, "a");
	buf_add_str(&sent, "\r\n\r\n");
	client_send(fd, sent.data, sent.len);
	client_expect(fd, 200, "hello\n");
}

static void test_a_target_over_its_limit_is_refused(void **state)
{
	(void)state;
	refuse_generated("GET /", "aaaaaaaaaaaaaaaa", 512, " HTTP/1.1\r\n" HOST "\r\n", 414);
	refuse_generated("GET /?", "aaaaaaaaaaaaaaaa", 4096, "", 414);
}

static void test_chunk_extensions_and_trailers_over_their_limits_are_refused(void **state)
{
	(void)state;
	refuse_generated(CHUNKED "5;", "aaaaaaaaaaaaaaaa", 65, "\r\nhello\r\n0\r\n\r\n", 400);
	refuse_generated(CHUNKED, "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", 600, "0\r\n\r\n", 400);
	refuse_generated(CHUNKED "0\r\n", "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 600, "\r\n", 400);
}

static void test_a_head_that_does_not_end_is_refused_when_the_client_ends(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, "GET /hello HTTP/1.1\r\nHost");
	shutdown(fd, SHUT_WR);
	client_expect(fd, 400, NULL);
	client_expect_end(fd);
}

static void test_a_body_that_does_not_end_is_refused_when_the_client_ends(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, POST "Content-Length: 10\r\n\r\nhello");
	shutdown(fd, SHUT_WR);
	client_expect(fd, 400, NULL);
	client_expect_end(fd);
}

static void test_what_follows_an_answer_that_closes_is_not_answered(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	client_say(fd, "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" SMUGGLED "\x01\x02 garbage");
	client_expect(fd, 200, "hello\n");
	client_expect_end(fd);
}

/* A close() with bytes unread would be a reset, which takes the answer from who has not read it yet. */
static void test_who_goes_on_sending_after_a_refusal_still_hears_it(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	char piece[10000];

	(void)state;
	memset(piece, 'x', sizeof(piece));
	client_say(fd, "POST /small HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\n");
	for (unsigned i = 0; i < 90; i++)
		client_send(fd, piece, sizeof(piece));
	client_expect(fd, 413, NULL);
	client_expect_end(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_malformed_is_refused_and_ends_the_connection),
		cmocka_unit_test(test_what_is_malformed_is_refused_byte_by_byte),
		cmocka_unit_test(test_what_is_malformed_is_refused_behind_a_good_request),
		cmocka_unit_test(test_a_head_over_its_limit_is_refused),
		cmocka_unit_test(test_a_head_at_its_limit_is_taken),
		cmocka_unit_test(test_a_target_over_its_limit_is_refused),
		cmocka_unit_test(test_chunk_extensions_and_trailers_over_their_limits_are_refused),
		cmocka_unit_test(test_a_head_that_does_not_end_is_refused_when_the_client_ends),
		cmocka_unit_test(test_a_body_that_does_not_end_is_refused_when_the_client_ends),
		cmocka_unit_test(test_what_follows_an_answer_that_closes_is_not_answered),
		cmocka_unit_test(test_who_goes_on_sending_after_a_refusal_still_hears_it),
	};

	return cmocka_run_group_tests(tests, serving_set_up, serving_tear_down);
}
