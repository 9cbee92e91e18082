/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests a server has answered: every stream is fed in pieces of all sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/answered.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define THREE OK "Content-Length: 3\r\n\r\nabc"

/* methods: one letter each, "G" or "H" (HEAD). */
static void expect(const char *methods, const char *text, enum answered_state wanted)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		struct answered a;

		answered_init(&a);
		for (const char *m = methods; *m; m++)
			answered_request(&a, *m == 'H' ? "HEAD" : "GET");
		for (size_t at = 0, n; at < strlen(text); at += n) {
			n = MIN(step, strlen(text) - at);
			char *copy = malloc(n);

			assert_non_null(copy);
			memcpy(copy, text + at, n);
			answered_feed(&a, copy, n);
			free(copy);
		}
		if (answered_state(&a) != wanted)
			fail_msg("%d instead of %d, in steps of %zu:\n%s", (int)answered_state(&a), (int)wanted, step, text);
	}
}

static void test_answers_of_every_kind(void **state)
{
	expect("", "", ANSWERED_ALL);
	expect("G", "", ANSWERED_SOME);
	expect("G", THREE, ANSWERED_ALL);
	expect("GG", THREE, ANSWERED_SOME);
	expect("GG", THREE THREE, ANSWERED_ALL);
	expect("G", OK "Content-Length: 3\r\n\r\nab", ANSWERED_SOME);
	expect("G", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", ANSWERED_SOME);
	expect("GG", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" THREE, ANSWERED_ALL);
	expect("GGG", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n" THREE, ANSWERED_ALL);
	expect("G", "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n", ANSWERED_ALL);
}

static void test_what_comes_before_an_answer_is_none(void **state)
{
	expect("G", "HTTP/1.1 100 Continue\r\n\r\n", ANSWERED_SOME);
	expect("GG", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" THREE "HTTP/1.1 100 Continue\r\n\r\n",
	       ANSWERED_SOME);
}

static void test_head_has_no_body(void **state)
{
	expect("H", OK "Content-Length: 3\r\n\r\n", ANSWERED_ALL);
	expect("GHG", THREE OK "Content-Length: 3\r\n\r\n" THREE, ANSWERED_ALL);
	expect("HGH", OK "Transfer-Encoding: chunked\r\n\r\n" THREE "HTTP/1.1 100 Continue\r\n\r\n" OK "\r\n", ANSWERED_ALL);
}

static void test_one_that_ends_with_the_connection_is_never_whole(void **state)
{
	expect("G", OK "\r\nall that comes", ANSWERED_SOME);
}

static void test_what_cannot_be_followed_is_lost(void **state)
{
	expect("G", "220 hello\r\n", ANSWERED_LOST);
	expect("G", THREE THREE, ANSWERED_LOST);
	expect("", THREE, ANSWERED_LOST);
	expect("G", OK "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", ANSWERED_LOST);
	expect("G", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nxyz", ANSWERED_LOST);
}

static void test_many_on_one_connection(void **state)
{
	struct answered a;

	answered_init(&a);
	for (size_t i = 0; i < 1000; i++) {
		const bool head = i % 3 == 0;

		answered_request(&a, head ? "HEAD" : "POST");
		assert_int_equal(answered_state(&a), ANSWERED_SOME);
		answered_feed(&a, THREE, strlen(THREE) - (head ? 3 : 0));
		assert_int_equal(answered_state(&a), ANSWERED_ALL);
	}
	for (size_t i = 0; i < ANSWERED_AHEAD; i++)
		answered_request(&a, "GET");
	assert_int_equal(answered_state(&a), ANSWERED_SOME);
	answered_request(&a, "GET");
	assert_int_equal(answered_state(&a), ANSWERED_LOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_of_every_kind),
		cmocka_unit_test(test_what_comes_before_an_answer_is_none),
		cmocka_unit_test(test_head_has_no_body),
		cmocka_unit_test(test_one_that_ends_with_the_connection_is_never_whole),
		cmocka_unit_test(test_what_cannot_be_followed_is_lost),
		cmocka_unit_test(test_many_on_one_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
