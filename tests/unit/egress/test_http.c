/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every stream is fed in many ways: at once, byte by byte, in pieces. What comes out must be the same, and of an attack nothing that matters may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/http.h"
#include "egress/http_head.h"

#define NAME "api.example.com"
#define HOST "Host: " NAME "\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define EVIL "GET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n"
#define BYTES(text) (text), sizeof(text) - 1

struct outcome {
	enum http_verdict verdict;
	const char *why;
	size_t passed;
};

/* A connection as the broker has it: what was not passed on yet is kept, and shown again with what comes next. */
static struct outcome feed(struct http_check *h, const char *text, size_t len, size_t first, size_t step)
{
	struct outcome o = {0};
	size_t there = 0;

	while (there < len && o.verdict == HTTP_PASS) {
		there = MIN(len, there + (there ? step : first));
		/* in a block of its own, so that sanitizers see a read past its end */
		size_t n = there - o.passed;
		char *copy = malloc(n ? n : 1);

		assert_non_null(copy);
		memcpy(copy, text + o.passed, n);
		o.verdict = http_check_request(h, copy, &n, &o.why);
		assert_in_range(n, 0, there - o.passed);
		assert_true((o.verdict == HTTP_REFUSED) == (o.why != NULL));
		o.passed += n;
		free(copy);
	}
	return o;
}

static struct outcome feed_new(const char *name, uint16_t port, const char *text, size_t len, size_t first, size_t step)
{
	struct http_check *h = http_check_new(name, port);

	assert_non_null(h);
	struct outcome o = feed(h, text, len, first, step);
	http_check_free(h);
	return o;
}

static const size_t steps[] = {SIZE_MAX / 2, 1, 2, 3, 5, 7, 16, 61};

static void must_pass(const char *name, uint16_t port, const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct outcome o = feed_new(name, port, text, len, steps[i], steps[i]);

		if (o.verdict != HTTP_PASS || o.passed != len)
			fail_msg("in steps of %zu: %zu of %zu bytes passed, %s:\n%.200s", steps[i], o.passed, len,
			         o.why ? o.why : "not refused", text);
	}
}

/* before: bytes that are in order. From there on nothing of a head may pass; in_body: what is in order of a body may. */
static void must_refuse(const char *name, uint16_t port, const char *text, size_t len, const char *reason, size_t before, bool in_body)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct outcome o = feed_new(name, port, text, len, steps[i], steps[i]);

		if (o.verdict != HTTP_REFUSED)
			fail_msg("in steps of %zu: not refused (%s):\n%.200s", steps[i], reason, text);
		if (!strstr(o.why, reason))
			fail_msg("in steps of %zu: refused because %s, not because %s:\n%.200s", steps[i], o.why, reason, text);
		if (in_body ? o.passed < before || memmem(text, o.passed, "evil", 4) : o.passed != before)
			fail_msg("in steps of %zu: %zu bytes passed, not %zu:\n%.200s", steps[i], o.passed, before, text);
	}
}

/* ---- requests of every day ----------------------------------------------------------------------------------------------------- */

struct text {
	const char *text;
	size_t len;
};

static void test_requests_of_every_day_pass(void **state)
{
	static const struct text table[] = {
		{BYTES(GOOD)},
		{BYTES("GET /simple/pip/?a=b%20c&d=%00 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: pip/23.0.1 {\"ci\":null}\r\nAccept-Encoding: gzip, deflate\r\n"
	               "Accept: application/vnd.pypi.simple.v1+json, text/html; q=0.1\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n\r\n")},
		{BYTES("HEAD /x HTTP/1.1\r\n" HOST "\r\n")},
		{BYTES("DELETE /x HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n")},
		{BYTES("OPTIONS * HTTP/1.1\r\n" HOST "\r\n")},
		{BYTES("OPTIONS /x HTTP/1.1\r\n" HOST "Origin: null\r\n\r\n")},
		{BYTES("TRACE / HTTP/1.1\r\n" HOST "Max-Forwards: 3\r\n\r\n")},
		{BYTES("PROPFIND /dav HTTP/1.1\r\n" HOST "Depth: 1\r\n\r\n")},
		{BYTES("PATCH / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}")},
		{BYTES("PUT /up HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n0123456789")},
		{BYTES("GET / HTTP/1.0\r\n" HOST "\r\n")},
		{BYTES("GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n" GOOD)},
		{BYTES("GET / HTTP/1.1\r\nhost:api.example.com\r\n\r\n")},
		{BYTES("GET / HTTP/1.1\r\nHOST: API.Example.COM:80\r\nAccept: */*\r\n\r\n")},
		{BYTES("GET http://api.example.com/x HTTP/1.1\r\n" HOST "\r\n")},
		{BYTES("GET http://api.example.com:80?x=http://other/ HTTP/1.1\r\nHost: api.example.com:80\r\n\r\n")},
		{BYTES("GET HTTP://API.EXAMPLE.COM HTTP/1.1\r\n" HOST "\r\n")},
		{BYTES("GET //double//slashes?to=http://evil.example HTTP/1.1\r\n" HOST "Referer: http://evil.example/\r\n\r\n")},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Cookie: n=\xc3\xa4\x85; empty=\r\nX-Empty:\r\nX-Tab: a\tb\r\nTE: trailers\r\n\r\n")},
		{BYTES(POST "Content-Length: 11\r\n\r\nhello world" GOOD)},
		{BYTES(POST "Content-Length: 0\r\n\r\n" GOOD GOOD GOOD)},
		{BYTES(CHUNKED "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n" GOOD)},
		{BYTES(CHUNKED "0\r\n\r\n")},
		{BYTES(CHUNKED "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0A\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n" GOOD)},
		{BYTES(CHUNKED "00000001\r\na\r\n0000\r\n\r\n" GOOD)},
		/* bodies may say what they like */
		{BYTES(POST "Content-Length: 49\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n0\r\n\r\n\0\n\n\r\r\xff" GOOD)},
		{BYTES(CHUNKED "26\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n\r\n0\r\n\r\n" GOOD)},
		{BYTES(POST "Connection: close\r\nContent-Length: 1\r\n\r\nx")},
		{BYTES("POST /git-upload-pack HTTP/1.1\r\n" HOST
	               "User-Agent: git/2.39.5\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		must_pass(NAME, 80, table[i].text, table[i].len);
}

static void test_a_port_other_than_80_must_be_named(void **state)
{
	static const struct {
		const char *host;
		uint16_t port;
		bool passes;
	} table[] = {
		{"api.example.com:8080", 8080, true},   {"API.example.com:8080", 8080, true},   {"api.example.com", 8080, false},
		{"api.example.com:80", 8080, false},    {"api.example.com:80800", 8080, false}, {"api.example.com:808", 8080, false},
		{"api.example.com:08080", 8080, false}, {"api.example.com:", 80, false},        {"api.example.com:080", 80, false},
		{"api.example.com:443", 80, false},     {"api.example.com:80:80", 80, false},   {"api.example.com:+80", 80, false},
		{"api.example.com:80 ", 80, false},     {"api.example.com:65536", 0, false},    {"api.example.com", 443, false},
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		size_t n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", table[i].host);

		if (table[i].passes)
			must_pass(NAME, table[i].port, text, n);
		else
			must_refuse(NAME, table[i].port, text, n, "Host", 0, false);
	}
}

static void test_addresses_are_hosts_too(void **state)
{
	static const struct {
		const char *name, *host;
		bool passes;
	} table[] = {
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.4", false},
		{"10.1.2.3", "167838211", false},
		{"fd00::1", "[fd00::1]", true},
		{"fd00::1", "[FD00:0:0::1]:80", true},
		{"fd00::1", "[fd00::2]", false},
		{"fd00::1", "fd00::1", false},
		{"fd00::1", "[fd00::1", false},
		{"fd00::1", "[fd00::1%eth0]", false},
		{"fd00::1", "[fd00::1]:8", false},
		{"fd00::1", "[]", false},
		{"fd00::1", "[fd00::1]x", false},
		{"fd00::1", "[0000000000000000000000000000000000000000000000000fd00::1]", false},
		{"fd00::1", "", false},
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		size_t n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", table[i].host);

		if (table[i].passes)
			must_pass(table[i].name, 80, text, n);
		else
			must_refuse(table[i].name, 80, text, n, "Host", 0, false);
	}
}

static void test_a_long_body_passes_as_it_comes(void **state)
{
	enum { SIZE = 300000 };
	static char text[SIZE + 1024];
	size_t n = (size_t)snprintf(text, sizeof(text), POST "Content-Length: %d\r\n\r\n", SIZE);

	for (size_t i = 0; i < SIZE; i++)
		text[n + i] = (char)(i * 7 + i / 256);
	memcpy(text + n + SIZE, GOOD, sizeof(GOOD) - 1);
	struct outcome o = feed_new(NAME, 80, text, n + SIZE + sizeof(GOOD) - 1, 1000, 1000);
	assert_int_equal(o.verdict, HTTP_PASS);
	assert_int_equal(o.passed, n + SIZE + sizeof(GOOD) - 1);
	/* every piece goes at once: nothing of a body is kept */
	o = feed_new(NAME, 80, text, n + 777, n, 1);
	assert_int_equal(o.passed, n + 777);
}

/* ---- attacks ------------------------------------------------------------------------------------------------------------------- */

struct attack {
	const char *text;
	size_t len;
	const char *reason;
};

static void refuse_all(const struct attack *table, size_t count, size_t before, bool in_body)
{
	for (size_t i = 0; i < count; i++)
		must_refuse(NAME, 80, table[i].text, table[i].len, table[i].reason, before, in_body);
}

static void test_other_hosts_are_refused(void **state)
{
	static const struct attack table[] = {
		{BYTES("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\n\r\n"), "no Host"},
		{BYTES("GET / HTTP/1.0\r\n\r\n"), "no Host"},
		{BYTES("GET / HTTP/1.1\r\nHost:\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: \r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\n" HOST HOST "\r\n"), "several Host"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Host: evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: evil.example\r\n" HOST "\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com, evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com.\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com.evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.co\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: xapi.example.com\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: user@api.example.com\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com@evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com:80@evil.example\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com/evil\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com\0.evil.example\r\n\r\n"), "control character"},
		{BYTES("GET / HTTP/1.1\r\nHost: evil.example\0api.example.com\r\n\r\n"), "control character"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com \r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\nHost:  api.example.com\r\n\r\n"), "white space"},
		{BYTES("GET / HTTP/1.1\r\nHost:\tapi.example.com\r\n\r\n"), "white space"},
		{BYTES("GET / HTTP/1.1\r\nHost : api.example.com\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES("GET / HTTP/1.1\r\nHost\t: api.example.com\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES("GET / HTTP/1.1\r\n Host: api.example.com\r\n\r\n"), "folded"},
		{BYTES("GET / HTTP/1.1\r\nHost: evil.example\r\n api.example.com\r\n\r\n"), "folded"},
		{BYTES("GET / HTTP/1.1\r\nHost:\r\n api.example.com\r\n\r\n"), "folded"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: y\r\n\tHost: evil.example\r\n\r\n"), "folded"},
		{BYTES("GET / HTTP/1.1\r\nX-Host: api.example.com\r\n\r\n"), "no Host"},
		{BYTES("GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n"), "Host is another"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Connection: Host\r\n\r\n"), "Connection names"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Connection: close ,\thost , x\r\n\r\n"), "Connection names"},
		{BYTES("GET http://evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://api.example.com@evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://user@api.example.com/ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://api.example.com:81/ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://api.example.com./ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://api.example.com.evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target is at another"},
		{BYTES("GET http://api.example.com\\@evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET http:///evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET http:api.example.com HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET https://api.example.com/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET ftp://api.example.com/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET ftps://api.example.com/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET api.example.com:80 HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET evil.example HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET @evil.example/ HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET * HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET ?x HTTP/1.1\r\n" HOST "\r\n"), "target"},
		{BYTES("GET http://api.example.com/ HTTP/1.1\r\n\r\n"), "no Host"},
	};

	refuse_all(table, ARRAY_SIZE(table), 0, false);
}

static void test_what_is_not_http_1_is_refused(void **state)
{
	static const struct attack table[] = {
		{BYTES("CONNECT evil.example:443 HTTP/1.1\r\n" HOST "\r\n"), "CONNECT"},
		{BYTES("CONNECT api.example.com:80 HTTP/1.1\r\n" HOST "\r\n"), "CONNECT"},
		{BYTES("connect evil.example:443 HTTP/1.1\r\n" HOST "\r\n"), "CONNECT"},
		{BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), "HTTP/2"},
		{BYTES("PRI * HTTP/1.1\r\n" HOST "\r\n"), "not"},
		{BYTES("GET / HTTP/2.0\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / HTTP/1.2\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / HTTP/0.9\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / HTTP/1.10\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / HTTP/01.1\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / http/1.1\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("GET / HTTP/1.1 \r\n" HOST "\r\n"), "spaces"},
		{BYTES("GET /\r\n"), "not an HTTP/1"},
		{BYTES("GET /\r\n\r\n"), "not an HTTP/1"},
		{BYTES("GET\r\n"), "not an HTTP/1"},
		{BYTES("DESCRIBE / RTSP/1.0\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("SOURCE / ICE/1.0\r\n" HOST "\r\n"), "not an HTTP/1"},
		{BYTES("NONSENSE / HTTP/1.1\r\n" HOST "\r\n"), "method"},
		{BYTES("get / HTTP/1.1\r\n" HOST "\r\n"), "method"},
		{BYTES("GETX / HTTP/1.1\r\n" HOST "\r\n"), "method"},
		{BYTES("\r\n" GOOD), "empty line"},
		{BYTES("\n" GOOD), "line feed"},
		{BYTES(" " GOOD), "white space"},
		{BYTES("GET  / HTTP/1.1\r\n" HOST "\r\n"), "spaces"},
		{BYTES("GET /  HTTP/1.1\r\n" HOST "\r\n"), "spaces"},
		{BYTES("GET / HTTP/1.1 HTTP/1.1\r\n" HOST "\r\n"), "spaces"},
		{BYTES("GET /a b HTTP/1.1\r\n" HOST "\r\n"), "spaces"},
		{BYTES("GET\t/ HTTP/1.1\r\n" HOST "\r\n"), "request line"},
		{BYTES("GET /\tHTTP/1.1\r\n" HOST "\r\n"), "request line"},
		{BYTES("GET /\xa0HTTP/1.1 HTTP/1.1\r\n" HOST "\r\n"), "request line"},
		{BYTES("GET /\x0bx HTTP/1.1\r\n" HOST "\r\n"), "control character"},
		{BYTES("GET /\x7f HTTP/1.1\r\n" HOST "\r\n"), "control character"},
		{BYTES("GET /\0 HTTP/1.1\r\n" HOST "\r\n"), "control character"},
		/* said as soon as the first line is there: the other side might wait */
		{BYTES("SSH-2.0-OpenSSH_9.2p1\r\n"), "not an HTTP/1"},
		{BYTES("EHLO api.example.com\r\n"), "not an HTTP/1"},
		{BYTES("\x16\x03\x01"), "control character"},
		{BYTES("HTTP/1.1 200 OK\r\n"), "not an HTTP/1"},
	};

	refuse_all(table, ARRAY_SIZE(table), 0, false);
}

static void test_lines_that_not_everybody_ends_in_the_same_place_are_refused(void **state)
{
	static const struct attack table[] = {
		{BYTES("GET / HTTP/1.1\n" HOST "\r\n"), "line feed"},
		{BYTES("GET / HTTP/1.1\r\nHost: api.example.com\n\r\n"), "line feed"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "\n"), "line feed"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: y\nHost: evil.example\r\n\r\n"), "line feed"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: y\rHost: evil.example\r\n\r\n"), "carriage return"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: y\r\r\nHost: evil.example\r\n\r\n"), "carriage return"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "\r\r\n\r\n"), "carriage return"},
		{BYTES("GET / HTTP/1.1\r" HOST "\r\n"), "carriage return"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: \x85\x0b y\r\n\r\n"), "control character"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X: \0\r\n\r\n"), "control character"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES("GET / HTTP/1.1\r\n" HOST ": y\r\n\r\n"), ""},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X Y: z\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X\xc3\xa4: z\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "X(y): z\r\n\r\n"), "not as HTTP/1.1 demands"},
	};

	refuse_all(table, ARRAY_SIZE(table), 0, false);
}

/* Where one sees the end of a body, and another does not. */
static void test_heads_with_a_doubtful_length_are_refused(void **state)
{
	static const struct attack table[] = {
		{BYTES(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL), ""},
		{BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" EVIL), ""},
		{BYTES(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345"), "two lengths"},
		{BYTES(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345" EVIL), ""},
		{BYTES(POST "Content-Length: 5, 5\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: +5\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: -5\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 0x5\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 5 \r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 5 0\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 5;\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 5.0\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length: 010\r\n\r\n12345678"), "Content-Length"},
		{BYTES(POST "Content-Length: 00\r\n\r\n"), "Content-Length"},
		{BYTES(POST "Content-Length:\r\n\r\n"), "Content-Length"},
		{BYTES(POST "Content-Length: \r\n\r\n"), "Content-Length"},
		{BYTES(POST "Content-Length: 18446744073709551621\r\n\r\n12345"), ""},
		{BYTES(POST "Content-Length: 4294967296000000000\r\n\r\n12345"), "Content-Length"},
		{BYTES(POST "Content-Length:\t5\r\n\r\n12345"), "white space"},
		{BYTES(POST "Content-Length:  5\r\n\r\n12345"), "white space"},
		{BYTES(POST "Content-Length : 5\r\n\r\n12345"), "not as HTTP/1.1 demands"},
		{BYTES(POST "Content_Length: 5\r\n\r\n12345"), "_"},
		{BYTES(POST "Content-Length: 5\r\nContent_Length: 6\r\n\r\n12345"), "_"},
		{BYTES(POST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding:  chunked\r\n\r\n0\r\n\r\n"), "white space"},
		{BYTES(POST "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"), "white space"},
		{BYTES(POST "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: \x0b"
	                    "chunked\r\n\r\n0\r\n\r\n"),
	         "control character"},
		{BYTES(POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: identity\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: gzip\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding:\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
		{BYTES(POST "Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n"), "folded"},
		{BYTES(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), "folded"},
		{BYTES(POST "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "folded"},
		{BYTES(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), "not as HTTP/1.1 demands"},
		{BYTES(POST "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n"), "_"},
		{BYTES(POST "transfer_encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n"), "_"},
		{BYTES(POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "line feed"},
		{BYTES(POST "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "carriage return"},
		{BYTES("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "HTTP/1.0"},
		{BYTES(POST "Content-Length: 5\r\nConnection: Content-Length\r\n\r\n12345"), "Connection names"},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n12345"), "with a body"},
		{BYTES("HEAD / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "with a body"},
		{BYTES(POST "Transfer-Encoding: chunked\r\nConnection: keep-alive, transfer-encoding\r\n\r\n0\r\n\r\n"),
	         "Connection names"},
	};

	refuse_all(table, ARRAY_SIZE(table), 0, false);
}

static void test_chunks_that_are_read_in_several_ways_are_refused(void **state)
{
	static const struct attack table[] = {
		{BYTES(CHUNKED "5;ext\r\nhello\r\n0\r\n\r\n"), "chunk extension"},
		{BYTES(CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n"), "chunk extension"},
		{BYTES(CHUNKED "5;\"\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "5;\nevil\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "0;\r\n\r\n"), ""},
		{BYTES(CHUNKED "5 \r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED " 5\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "+5\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "-5\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "g\r\n"), ""},
		{BYTES(CHUNKED "5\nhello\r\n0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\rhello\r\n0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\r\nhello0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\r\nhello\n0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\r\nhello\r0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\r\nhelloXX0\r\n\r\n" EVIL), ""},
		{BYTES(CHUNKED "0\n\n" EVIL), ""},
		{BYTES(CHUNKED "0\r\n\n" EVIL), ""},
		{BYTES(CHUNKED "0\r\n\n" GOOD), ""},
		{BYTES(CHUNKED "0\r\n\r" EVIL), ""},
		{BYTES(CHUNKED "000000005\r\nhello\r\n0\r\n\r\n"), "digits"},
		{BYTES(CHUNKED "100000005\r\nhello\r\n0\r\n\r\n"), "digits"},
		{BYTES(CHUNKED "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n"), ""},
		{BYTES(CHUNKED "0\r\nHost: evil.example\r\n\r\n"), "trailers"},
		{BYTES(CHUNKED "0\r\nA: evil\r\n\r\n"), "trailers"},
		{BYTES(CHUNKED "0\r\nabc: evil\r\n\r\n"), "trailers"},
		{BYTES(CHUNKED "0\r\nabc:\r\n\r\n"), "trailers"},
		{BYTES(CHUNKED "0\r\n" EVIL), ""},
		{BYTES(CHUNKED "5\r\nhello\r\n0\r\n\r\n\r\n" EVIL), "empty line"},
	};

	refuse_all(table, ARRAY_SIZE(table), sizeof(CHUNKED) - 1, true);
}

/* llhttp says no to these as well, and before it comes to that; but whether it does must not matter. */
static void test_doubtful_lengths_are_refused_whatever_llhttp_thinks(void **state)
{
	static const struct {
		const char *first[2], *second[2];
	} table[] = {
		{{"Content-Length", "5"}, {"Content-Length", "5"}},
		{{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
		{{"Transfer-Encoding", "chunked"}, {"Content-Length", "5"}},
		{{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
		{{"Content-Length", ""}, {"X", "y"}},
		{{"Transfer-Encoding", ""}, {"X", "y"}},
	};
	const struct http_target target = {NAME, 80, false};
	char lines[2][64];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct http_head head = {.hosts = 1};
		const char *why = NULL;

		for (size_t k = 0; k < 2 && !why; k++) {
			const char *const *field = k ? table[i].second : table[i].first;

			snprintf(lines[k], sizeof(lines[k]), "%s: %s", field[0], field[1]);
			why = http_head_field(&head, &target, (struct http_text){lines[k], strlen(field[0])},
			                      (struct http_text){lines[k] + strlen(field[0]) + 2, strlen(field[1])});
		}
		if (!why && !http_head_end(&head, &target, (struct http_text){"/", 1}, false, false))
			fail_msg("row %zu is not refused", i);
	}
}

/* What no length announces is a request. */
static void test_the_second_request_is_held_to_the_same_name(void **state)
{
	static const struct text firsts[] = {
		{BYTES(GOOD)},
		{BYTES("HEAD / HTTP/1.1\r\n" HOST "\r\n")},
		{BYTES("GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n")},
		{BYTES("GET / HTTP/1.0\r\n" HOST "\r\n")},
		{BYTES(POST "\r\n")},
		{BYTES(POST "Content-Length: 0\r\n\r\n")},
		{BYTES(POST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")},
		{BYTES(CHUNKED "3\r\nabc\r\n0\r\n\r\n")},
		{BYTES("OPTIONS * HTTP/1.1\r\n" HOST "\r\n" GOOD GOOD)},
	};
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(firsts); i++) {
		const size_t before = firsts[i].len, len = before + sizeof(EVIL) - 1;

		memcpy(text, firsts[i].text, before);
		memcpy(text + before, EVIL, sizeof(EVIL));
		must_refuse(NAME, 80, text, len, "Host is another", before, false);
		for (size_t cut = 1; cut < len; cut++) {
			struct outcome o = feed_new(NAME, 80, text, len, cut, len);

			assert_int_equal(o.verdict, HTTP_REFUSED);
			assert_int_equal(o.passed, before);
		}
	}
}

static void test_a_head_passes_when_it_is_whole_and_not_before(void **state)
{
	static const char text[] = POST "Content-Length: 4\r\n\r\nbody";
	const size_t len = sizeof(text) - 1, head = len - 4;

	for (size_t n = 1; n <= len; n++) {
		struct outcome o = feed_new(NAME, 80, text, n, 1, 1);

		assert_int_equal(o.verdict, HTTP_PASS);
		assert_int_equal(o.passed, n < head ? 0 : n);
	}
}

static void test_a_head_may_have_so_many_bytes(void **state)
{
	static const char begin[] = "GET / HTTP/1.1\r\n" HOST "X: ";
	static char text[HTTP_HEAD_MAX + 16];

	for (size_t more = 0; more < 2; more++) {
		const size_t len = HTTP_HEAD_MAX + more;

		memset(text, 'a', len);
		memcpy(text, begin, sizeof(begin) - 1);
		memcpy(text + len - 4, "\r\n\r\n", 4);
		for (size_t i = 0; i < 2; i++) {
			struct outcome o = feed_new(NAME, 80, text, len, i ? 1 : len, 1);

			assert_int_equal(o.verdict, more ? HTTP_REFUSED : HTTP_PASS);
			assert_int_equal(o.passed, more ? 0 : len);
		}
	}
}

static void test_a_refusal_is_final(void **state)
{
	struct http_check *h = http_check_new(NAME, 80);
	const char *why = NULL;
	size_t n = sizeof(GOOD) - 1;

	assert_int_equal(feed(h, BYTES(EVIL), SIZE_MAX / 2, 1).verdict, HTTP_REFUSED);
	assert_int_equal(http_check_request(h, GOOD, &n, &why), HTTP_REFUSED);
	assert_int_equal(n, 0);
	assert_non_null(strstr(why, "Host is another"));
	assert_false(http_check_responses_free(h) || http_check_requests_free(h));
	n = 4;
	assert_int_equal(http_check_response(h, "HTTP", &n, &why), HTTP_REFUSED);
	assert_int_equal(n, 0);
	http_check_free(h);
	http_check_free(NULL);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_requests_of_every_day_pass),
		TEST(test_a_port_other_than_80_must_be_named),
		TEST(test_addresses_are_hosts_too),
		TEST(test_a_long_body_passes_as_it_comes),
		TEST(test_other_hosts_are_refused),
		TEST(test_what_is_not_http_1_is_refused),
		TEST(test_lines_that_not_everybody_ends_in_the_same_place_are_refused),
		TEST(test_heads_with_a_doubtful_length_are_refused),
		TEST(test_chunks_that_are_read_in_several_ways_are_refused),
		TEST(test_doubtful_lengths_are_refused_whatever_llhttp_thinks),
		TEST(test_the_second_request_is_held_to_the_same_name),
		TEST(test_a_head_passes_when_it_is_whole_and_not_before),
		TEST(test_a_head_may_have_so_many_bytes),
		TEST(test_a_refusal_is_final),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
