/* SPDX-License-Identifier: Apache-2.0 */
/* When a connection stops being HTTP: only after the server has agreed to it, as the first thing it said, and only for a WebSocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/http.h"

#define HOST "Host: api.example.com\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"
#define EVIL "GET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n"
#define ASK(protocols) "GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: " protocols "\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define AGREE "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
#define FRAME "\x81\x05hello\0\n"

static struct http_check *check;

static int set_up(void **state)
{
	check = http_check_new("api.example.com", 80);
	return check ? 0 : -1;
}

static int tear_down(void **state)
{
	http_check_free(check);
	return 0;
}

typedef enum http_verdict look(struct http_check *h, const void *data, size_t *len, const char **why);

/* How many of these bytes pass; -1: they are refused. */
static long shown(look *which, const void *data, size_t len)
{
	const char *why = NULL;
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	enum http_verdict verdict = which(check, copy, &len, &why);
	free(copy);
	assert_true((verdict == HTTP_REFUSED) == (why != NULL));
	return verdict == HTTP_PASS ? (long)len : -1;
}
#define CLIENT(text) shown(http_check_request, (text), sizeof(text) - 1)
#define SERVER(text) shown(http_check_response, (text), sizeof(text) - 1)
#define ALL(text) ((long)sizeof(text) - 1)

static void test_after_an_agreed_upgrade_everything_passes(void **state)
{
	assert_false(http_check_responses_free(check));
	assert_int_equal(CLIENT(ASK("websocket")), ALL(ASK("websocket")));
	assert_false(http_check_responses_free(check));
	assert_int_equal(CLIENT(FRAME), 0);
	assert_false(http_check_requests_free(check));
	assert_int_equal(SERVER(AGREE FRAME), ALL(AGREE FRAME));
	assert_true(http_check_responses_free(check));
	assert_int_equal(CLIENT(FRAME), ALL(FRAME));
	assert_true(http_check_requests_free(check));
	assert_int_equal(CLIENT(EVIL), ALL(EVIL));
	assert_int_equal(SERVER(FRAME), ALL(FRAME));
}

static void test_what_comes_with_the_request_waits_for_the_answer(void **state)
{
	assert_int_equal(CLIENT(ASK("WebSocket") FRAME), ALL(ASK("WebSocket")));
	/* the answer in pieces: nothing of its head goes before it is whole */
	for (size_t n = 1; n < sizeof(AGREE) - 1; n++) {
		assert_int_equal(shown(http_check_response, AGREE, n), 0);
		assert_int_equal(CLIENT(FRAME), 0);
	}
	assert_int_equal(SERVER(AGREE), ALL(AGREE));
	assert_int_equal(CLIENT(FRAME), ALL(FRAME));
}

static void test_without_agreement_what_follows_is_a_request(void **state)
{
	assert_int_equal(CLIENT(ASK("websocket") GOOD), ALL(ASK("websocket")));
#define NO "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n"
	assert_int_equal(SERVER(NO), ALL(NO));
	assert_true(http_check_responses_free(check));
	assert_int_equal(CLIENT(GOOD), ALL(GOOD));
	assert_int_equal(CLIENT(FRAME), -1);
}

static void test_interim_answers_are_not_the_answer(void **state)
{
#define INTERIM "HTTP/1.1 100 Continue\r\nUpgrade: h2c\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a b c d>; rel=x\r\n\r\n"
	assert_int_equal(CLIENT(ASK("websocket") FRAME), ALL(ASK("websocket")));
	assert_int_equal(SERVER(INTERIM), ALL(INTERIM));
	assert_int_equal(CLIENT(FRAME), 0);
	assert_int_equal(SERVER(INTERIM AGREE), ALL(INTERIM AGREE));
	assert_int_equal(CLIENT(FRAME), ALL(FRAME));
}

/* What a client can make a server say in a body or in a second answer is no agreement. */
static void test_only_the_first_answer_agrees(void **state)
{
	assert_int_equal(CLIENT(ASK("websocket") EVIL), ALL(ASK("websocket")));
	assert_true(SERVER("HTTP/1.1 200 OK\r\nContent-Length: 83\r\n\r\n" AGREE) > 0);
	assert_true(SERVER(AGREE) > 0);
	assert_int_equal(CLIENT(EVIL), -1);
}

static void test_an_answer_that_cannot_be_read_agrees_to_nothing(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n X: y\r\nConnection: Upgrade\r\n\r\n",
		"\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/2.2 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101x Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 1010 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"ICY 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"<html>\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		const size_t n = strlen(answers[i]);

		assert_int_equal(CLIENT(ASK("websocket") EVIL), ALL(ASK("websocket")));
		/* it goes on to the client, who may make of it what he likes */
		assert_int_equal(shown(http_check_response, answers[i], n), (long)n);
		assert_int_equal(CLIENT(EVIL), -1);
		tear_down(NULL);
		set_up(NULL);
	}
}

static void test_no_other_protocol_is_agreed_to(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: TLS/1.0, HTTP/1.1\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket, h2c\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade:\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		assert_int_equal(CLIENT(ASK("websocket, h2c")), ALL(ASK("websocket, h2c")));
		assert_int_equal(shown(http_check_response, answers[i], strlen(answers[i])), -1);
		assert_int_equal(CLIENT(FRAME), -1);
		tear_down(NULL);
		set_up(NULL);
	}
	/* a WebSocket that nobody asked for */
	assert_int_equal(CLIENT(ASK("h2c")), ALL(ASK("h2c")));
	assert_int_equal(SERVER(AGREE), -1);
}

/* As Java's client does it with every server: most have never heard of it. */
static void test_http_2_may_be_offered_and_not_taken(void **state)
{
#define OFFER                      \
	"POST / HTTP/1.1\r\n" HOST \
	"Connection: Upgrade, HTTP2-Settings\r\nContent-Length: 4\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n\r\nbody"
	assert_int_equal(CLIENT(OFFER GOOD), ALL(OFFER));
	assert_int_equal(SERVER("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 40);
	assert_int_equal(CLIENT(GOOD OFFER GOOD), ALL(GOOD OFFER GOOD));
	assert_int_equal(CLIENT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), -1);
}

static void test_an_upgrade_is_the_first_request_or_none(void **state)
{
	assert_int_equal(CLIENT(GOOD), ALL(GOOD));
	assert_int_equal(CLIENT(ASK("websocket")), -1);
	tear_down(NULL);
	set_up(NULL);
	assert_int_equal(CLIENT(GOOD ASK("h2c, websocket") FRAME), -1);
	tear_down(NULL);
	set_up(NULL);
	/* the server said something before it was asked: what it says next may be no answer */
	assert_true(SERVER("HTTP/1.1 408 Request Timeout\r\n\r\n") > 0);
	assert_int_equal(CLIENT(ASK("websocket")), -1);
	tear_down(NULL);
	set_up(NULL);
	/* a 101 that nobody looks at changes nothing */
	assert_int_equal(CLIENT(GOOD), ALL(GOOD));
	assert_int_equal(SERVER(AGREE), ALL(AGREE));
	assert_int_equal(CLIENT(EVIL), -1);
}

/* The body belongs to the request, whenever the server answers. */
static void test_an_upgrade_may_have_a_body(void **state)
{
#define WITH_BODY "POST /ws HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 8\r\n\r\n"
	assert_int_equal(CLIENT(WITH_BODY "body"), ALL(WITH_BODY "body"));
	assert_int_equal(SERVER(AGREE), ALL(AGREE));
	assert_false(http_check_requests_free(check));
	assert_int_equal(CLIENT("body" FRAME), ALL("body" FRAME));
	assert_true(http_check_requests_free(check));
	tear_down(NULL);
	set_up(NULL);
	assert_int_equal(CLIENT(WITH_BODY "body"), ALL(WITH_BODY "body"));
	assert_true(SERVER("HTTP/1.1 400 Bad Request\r\n\r\n") > 0);
	assert_int_equal(CLIENT("body" GOOD), ALL("body" GOOD));
	assert_int_equal(CLIENT(FRAME), -1);
}

static void test_other_answers_pass_at_once(void **state)
{
	assert_int_equal(CLIENT(GOOD), ALL(GOOD));
	assert_true(http_check_responses_free(check));
	assert_int_equal(SERVER("HT"), 2);
	assert_int_equal(SERVER("TP/1.1 200 OK\nanything\0"), 23);
	assert_int_equal(SERVER(""), 0);
	assert_false(http_check_requests_free(check));
	assert_int_equal(CLIENT(GOOD), ALL(GOOD));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_after_an_agreed_upgrade_everything_passes),
		TEST(test_what_comes_with_the_request_waits_for_the_answer),
		TEST(test_without_agreement_what_follows_is_a_request),
		TEST(test_interim_answers_are_not_the_answer),
		TEST(test_only_the_first_answer_agrees),
		TEST(test_an_answer_that_cannot_be_read_agrees_to_nothing),
		TEST(test_no_other_protocol_is_agreed_to),
		TEST(test_http_2_may_be_offered_and_not_taken),
		TEST(test_an_upgrade_is_the_first_request_or_none),
		TEST(test_an_upgrade_may_have_a_body),
		TEST(test_other_answers_pass_at_once),
	};

	return cmocka_run_group_tests_name("http_upgrade", tests, NULL, NULL);
}
