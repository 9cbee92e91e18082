/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: their heads, their bodies whole and in parts, and as gzip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/util.h"
#include "serving.h"

static void ask(int fd, const char *method, const char *path, const char *headers)
{
	_cleanup_buf_ struct buf b = {0};

	buf_addf(&b, "%s %s HTTP/1.1\r\n" HOST "%s\r\n", method, path, headers);
	client_send(fd, b.data, b.len);
}

static void see_header(struct answer *a, const char *name, const char *expected)
{
	char value[128];

	assert_string_equal(answer_header(a, name, value, sizeof(value)), expected);
}

static void see_letters(const struct buf *b, size_t len)
{
	assert_int_equal(b->len, len);
	for (size_t i = 0; i < len; i++)
		if (b->data[i] != (char)('a' + i % 26))
			fail_msg("byte %zu of %zu is %d", i, len, b->data[i]);
}

/* ---- heads --------------------------------------------------------------------------------------------------------------------- */

static void test_an_answer_has_the_headers_that_it_should(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;
	struct tm t;
	char date[64];

	(void)state;
	ask(fd, "GET", "/hello", "");
	client_hear(fd, &a);
	assert_int_equal(strncmp(a.head.data, "HTTP/1.1 200 OK\r\n", 17), 0);
	see_header(&a, "server", "cordon");
	see_header(&a, "content-type", "text/plain");
	see_header(&a, "content-length", "6");
	see_header(&a, "connection", "");
	assert_non_null(strptime(answer_header(&a, "date", date, sizeof(date)), "%a, %d %b %Y %H:%M:%S GMT", &t));
	assert_in_range(timegm(&t), time(NULL) - DEADLINE_S, time(NULL) + 1);
	answer_free(&a);
}

static void test_a_handlers_headers_are_sent(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	ask(fd, "GET", "/headers", "");
	client_hear(fd, &a);
	assert_int_equal(a.status, 404);
	see_header(&a, "x-one", "1");
	see_header(&a, "etag", "\"e\"");
	assert_string_equal(a.body.data, "no");
	answer_free(&a);
}

static void test_a_header_that_would_be_two_is_not_sent(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	ask(fd, "GET", "/bad", "");
	client_hear(fd, &a);
	assert_int_equal(a.status, 500);
	see_header(&a, "x-two", "");
	answer_free(&a);
}

static void test_head_gets_the_headers_of_get_and_no_body(void **state)
{
	static const char *const paths[] = {"/hello", "/text?n=5000", "/parts?n=100000&known", "/parts?n=100000", "/headers"};
	static const char *const names[] = {"content-length", "content-encoding", "transfer-encoding", "vary", "etag"};
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct answer get, head;
		char value[64];

		ask(fd, "GET", paths[i], "Accept-Encoding: gzip\r\n");
		client_hear(fd, &get);
		ask(fd, "HEAD", paths[i], "Accept-Encoding: gzip\r\n");
		client_hear_answer(fd, &head, true);
		assert_int_equal(get.status, head.status);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			see_header(&head, names[k], answer_header(&get, names[k], value, sizeof(value)));
		answer_free(&get);
		answer_free(&head);
	}
	ask(fd, "GET", "/hello", "");
	client_expect(fd, 200, "hello\n");
}

static void test_no_content_has_neither_body_nor_length(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	ask(fd, "GET", "/empty", "");
	client_hear(fd, &a);
	assert_int_equal(a.status, 204);
	see_header(&a, "content-length", "");
	see_header(&a, "transfer-encoding", "");
	answer_free(&a);
	ask(fd, "GET", "/hello", "");
	client_expect(fd, 200, "hello\n");
}

/* ---- in parts ------------------------------------------------------------------------------------------------------------------ */

static void test_an_answer_in_parts_arrives_whole(void **state)
{
	static const struct {
		const char *path;
		bool chunked;
	} cases[] = {{"/parts?n=3000000", true}, {"/parts?n=3000000&known", false}};
	_cleanup_fd_ int fd = client_connect(&server);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct answer a;

		ask(fd, "GET", cases[i].path, "");
		client_hear(fd, &a);
		assert_int_equal(a.chunked, cases[i].chunked);
		see_letters(&a.body, 3000000);
		answer_free(&a);
	}
}

static void test_an_answer_in_parts_ends_with_the_connection_for_http_1_0(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	client_say(fd, "GET /parts?n=300000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	client_hear(fd, &a);
	assert_false(a.chunked);
	see_header(&a, "connection", "close");
	see_letters(&a.body, 300000);
	answer_free(&a);
}

static void test_an_answer_shorter_than_promised_is_not_taken_for_whole(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf all = {0};
	char piece[4096];
	ssize_t n;

	(void)state;
	ask(fd, "GET", "/parts?n=1000&known&short", "");
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		buf_add(&all, piece, (size_t)n);
	assert_int_equal(n, -1); /* a reset */
}

static void test_an_aborted_answer_has_no_end(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf all = {0};

	(void)state;
	ask(fd, "GET", "/abort", "");
	client_hear_all(fd, &all);
	assert_null(strstr(all.data, "\r\n0\r\n\r\n"));
}

/* ---- backpressure -------------------------------------------------------------------------------------------------------------- */

static size_t resident_bytes(void)
{
	unsigned long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &pages, &resident), 2);
	fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Waits until the writer has nothing to do any more, since nobody reads. */
static void test_an_answer_to_who_does_not_read_does_not_fill_the_memory(void **state)
{
	enum { LENGTH = 100 << 20 };
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned waits = serving_count(&server, &server.waits), posted = serving_count(&server, &server.posted);
	char piece[65536];
	size_t heard = 0;
	ssize_t n;

	(void)state;
	const size_t before = resident_bytes();
	server.most_unsent = 0;
	client_say(fd, "GET /parts?n=104857600&known HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	serving_wait(&server, &server.waits, waits + 1); /* it has stopped writing for the first time */
	assert_true(recv(fd, piece, 1, MSG_PEEK) == 1);
	serving_answer_later(&server); /* the loop does other things meanwhile */
	serving_wait(&server, &server.posted, posted + 1);
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		heard += (size_t)n;
	assert_int_equal(n, 0);
	assert_true(heard > LENGTH);
	assert_true(server.most_unsent < (size_t)HTTP_ENOUGH + ((size_t)128 << 10));
#ifdef ADDRESS_SANITIZER
	(void)before; /* it keeps what was freed */
#else
	if (!getenv("UNDER_VALGRIND"))
		assert_true(resident_bytes() < before + ((size_t)16 << 20));
#endif
}

static void test_a_writer_that_does_not_wait_loses_its_connection(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned gone = serving_count(&server, &server.gone);

	(void)state;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	ask(fd, "GET", "/flood?n=600", ""); /* 39 MB: more than the sockets hold, less than a buffer could */
	serving_wait(&server, &server.gone, gone + 1);
}

static void test_who_does_not_take_its_answers_is_not_asked_for_more(void **state)
{
	enum { REQUESTS = 200 };
	_cleanup_fd_ int fd = client_connect(&server);
	const unsigned before = serving_count(&server, &server.handled);
	struct answer a;

	(void)state;
	for (unsigned i = 0; i < REQUESTS; i++)
		ask(fd, "GET", "/text?n=1000000", "");
	serving_wait(&server, &server.handled, before + 1);
	for (unsigned i = 0; i < REQUESTS; i++) {
		/* what the sockets hold is the kernel's business: a few of them */
		assert_true(serving_count(&server, &server.handled) - before < i + 32);
		client_hear(fd, &a);
		assert_int_equal(a.body.len, 1000000);
		answer_free(&a);
	}
}

/* ---- gzip ---------------------------------------------------------------------------------------------------------------------- */

static void unzip(const struct buf *zipped, struct buf *out)
{
	z_stream z = {.next_in = (Bytef *)zipped->data, .avail_in = (uInt)zipped->len};
	char piece[65536];
	int result = Z_OK;

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	while (result == Z_OK) {
		z.next_out = (Bytef *)piece;
		z.avail_out = sizeof(piece);
		result = inflate(&z, Z_NO_FLUSH);
		buf_add(out, piece, sizeof(piece) - z.avail_out);
	}
	assert_int_equal(result, Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
}

static void see_zipped(const char *path, const char *accept, size_t len, bool zipped)
{
	_cleanup_fd_ int fd = client_connect(&server);
	_cleanup_buf_ struct buf plain = {0};
	struct answer a;

	for (unsigned again = 0; again < 2; again++) { /* one compressor for all of them */
		ask(fd, "GET", path, accept);
		client_hear(fd, &a);
		char value[32];
		if ((strcmp(answer_header(&a, "content-encoding", value, sizeof(value)), "gzip") == 0) != zipped)
			fail_msg("%s with %s: %s", path, accept, a.head.data);
		plain.len = 0;
		if (zipped)
			unzip(&a.body, &plain);
		else
			buf_add(&plain, a.body.data, a.body.len);
		see_letters(&plain, len);
		answer_free(&a);
	}
}

static void test_texts_are_zipped_for_who_accepts_it(void **state)
{
	static const struct {
		const char *accept;
		bool zipped;
	} cases[] = {
		{"Accept-Encoding: gzip\r\n", true},
		{"Accept-Encoding: deflate, GZIP;q=1.0\r\n", true},
		{"Accept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1\r\n", true},
		{"Accept-Encoding: *\r\n", true},
		{"Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", true},
		{"Accept-Encoding: gzip ; q=0.001\r\n", true},
		{"Accept-Encoding: gzip;q=0\r\n", false},
		{"Accept-Encoding: gzip;q=0.000\r\n", false},
		{"Accept-Encoding: gzip;q=0, *\r\n", false},
		{"Accept-Encoding: *;q=0\r\n", false},
		{"Accept-Encoding: identity, gzip;q=0.5\r\n", false},
		{"Accept-Encoding: identity;q=0.5, gzip;q=0.6\r\n", true},
		{"Accept-Encoding: notgzip, gzipped\r\n", false},
		{"Accept-Encoding: gzip;q=yes\r\n", false},
		{"Accept-Encoding: gzip;q=1.5\r\n", false},
		{"Accept-Encoding: \r\n", false},
		{"", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		see_zipped("/text?n=100000", cases[i].accept, 100000, cases[i].zipped);
}

static void test_short_texts_are_not_zipped(void **state)
{
	(void)state;
	see_zipped("/text?n=1024", "Accept-Encoding: gzip\r\n", 1024, false);
	see_zipped("/text?n=1025", "Accept-Encoding: gzip\r\n", 1025, true);
}

static void test_parts_are_zipped_only_if_the_handler_asks(void **state)
{
	(void)state;
	see_zipped("/parts?n=1000000", "Accept-Encoding: gzip\r\n", 1000000, false);
	see_zipped("/parts?n=1000000&zip", "Accept-Encoding: gzip\r\n", 1000000, true);
	see_zipped("/parts?n=1000000&zip&known", "Accept-Encoding: gzip\r\n", 1000000, true);
	see_zipped("/parts?n=0&zip", "Accept-Encoding: gzip\r\n", 0, true);
	see_zipped("/parts?n=1000000&zip", "", 1000000, false);
}

static void test_caches_are_told_what_the_answer_depends_on(void **state)
{
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	(void)state;
	ask(fd, "GET", "/text?n=5000", "");
	client_hear(fd, &a);
	see_header(&a, "vary", "Accept-Encoding");
	answer_free(&a);
	ask(fd, "GET", "/hello", "");
	client_hear(fd, &a);
	see_header(&a, "vary", "");
	answer_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_has_the_headers_that_it_should),
		cmocka_unit_test(test_a_handlers_headers_are_sent),
		cmocka_unit_test(test_a_header_that_would_be_two_is_not_sent),
		cmocka_unit_test(test_head_gets_the_headers_of_get_and_no_body),
		cmocka_unit_test(test_no_content_has_neither_body_nor_length),
		cmocka_unit_test(test_an_answer_in_parts_arrives_whole),
		cmocka_unit_test(test_an_answer_in_parts_ends_with_the_connection_for_http_1_0),
		cmocka_unit_test(test_an_answer_shorter_than_promised_is_not_taken_for_whole),
		cmocka_unit_test(test_an_aborted_answer_has_no_end),
		cmocka_unit_test(test_an_answer_to_who_does_not_read_does_not_fill_the_memory),
		cmocka_unit_test(test_a_writer_that_does_not_wait_loses_its_connection),
		cmocka_unit_test(test_who_does_not_take_its_answers_is_not_asked_for_more),
		cmocka_unit_test(test_texts_are_zipped_for_who_accepts_it),
		cmocka_unit_test(test_short_texts_are_not_zipped),
		cmocka_unit_test(test_parts_are_zipped_only_if_the_handler_asks),
		cmocka_unit_test(test_caches_are_told_what_the_answer_depends_on),
	};

	return cmocka_run_group_tests(tests, serving_set_up, serving_tear_down);
}
