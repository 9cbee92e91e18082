/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain HTTP connection. An input is one kind byte, and: what the client sends; or what both send, in pieces, each after a byte that says whose it is and how long.
 * Besides memory errors, the target fails when the same bytes in other pieces have another outcome, when of what passed llhttp, at its most lenient, can read a request
 * for another host, and when a connection becomes opaque without a server that agreed to it.
 */
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "egress/http.h"
#include "fuzz_seeds.h"
#include "must.h"

#define NAME "a.example"

enum kind { KIND_REQUESTS, KIND_BOTH, KIND_COUNT };

/* ---- another reader ------------------------------------------------------------------------------------------------------------ */

struct reader {
	char name[8], value[32];
	size_t name_len, value_len;
};

static void append(char *to, size_t size, size_t *len, const char *at, size_t n)
{
	for (size_t i = 0; i < n; i++, (*len)++)
		if (*len < size)
			to[*len] = at[i];
}

static int on_name(llhttp_t *p, const char *at, size_t n)
{
	struct reader *r = p->data;

	append(r->name, sizeof(r->name), &r->name_len, at, n);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
	struct reader *r = p->data;

	append(r->value, sizeof(r->value), &r->value_len, at, n);
	return 0;
}

static int on_field(llhttp_t *p)
{
	struct reader *r = p->data;

	if (r->name_len == 4 && strncasecmp(r->name, "host", 4) == 0) {
		const size_t n = strlen(NAME);
		const bool port = r->value_len == n + 3 && memcmp(r->value + n, ":80", 3) == 0;

		MUST((r->value_len == n || port) && strncasecmp(r->value, NAME, n) == 0);
	}
	r->name_len = r->value_len = 0;
	return 0;
}

static int on_head(llhttp_t *p)
{
	MUST(p->method != HTTP_CONNECT);
	return 0;
}

static void read_leniently(const char *data, size_t len)
{
	static const llhttp_settings_t calls = {.on_header_field = on_name,
	                                        .on_header_value = on_value,
	                                        .on_header_value_complete = on_field,
	                                        .on_headers_complete = on_head};
	struct reader r = {.name_len = 0};
	llhttp_t parser;
	llhttp_errno_t error = HPE_OK;

	llhttp_init(&parser, HTTP_REQUEST, &calls);
	parser.data = &r;
	llhttp_set_lenient_headers(&parser, 1);
	llhttp_set_lenient_chunked_length(&parser, 1);
	llhttp_set_lenient_keep_alive(&parser, 1);
	while (len) {
		error = llhttp_execute(&parser, data, len);
		if (error != HPE_PAUSED_UPGRADE)
			break;
		const size_t done = (size_t)(llhttp_get_error_pos(&parser) - data);
		data += done;
		len -= done;
		llhttp_resume_after_upgrade(&parser);
	}
	MUST(error == HPE_OK || error == HPE_PAUSED_UPGRADE);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------------ */

/* One direction of a connection: what came and was not passed on yet is shown again with what comes next. */
struct way {
	char *data;
	size_t there, passed;
	bool refused;
};

typedef enum http_verdict look(struct http_check *h, const void *data, size_t *len, const char **why);

static void show(struct http_check *h, look *which, struct way *w)
{
	const size_t len = w->there - w->passed;
	size_t n = len;
	const char *why = NULL;
	char *copy;

	if (w->refused || !(copy = malloc(len ? len : 1)))
		return;
	memcpy(copy, w->data + w->passed, len);
	w->refused = which(h, copy, &n, &why) == HTTP_REFUSED;
	free(copy);
	MUST(n <= len);
	MUST(w->refused == (why && why[0]));
	w->passed += n;
	MUST(w->refused || which != http_check_request || w->there - w->passed < HTTP_HEAD_MAX + 1);
}

static struct way feed(const char *data, size_t len, size_t step)
{
	struct http_check *h = http_check_new(NAME, 80);
	struct way w = {.data = (char *)(uintptr_t)data};

	if (!h)
		abort();
	while (w.there < len && !w.refused) {
		w.there = MIN(len, w.there + step);
		show(h, http_check_request, &w);
	}
	MUST(!http_check_requests_free(h));
	http_check_free(h);
	return w;
}

static void try_requests(const char *data, size_t len)
{
	const struct way once = feed(data, len, len ? len : 1);

	for (size_t step = 1; step < 20; step = step * 2 + 1) {
		const struct way w = feed(data, len, step);

		MUST(w.refused == once.refused);
		MUST(w.passed == once.passed || (w.refused && w.passed > once.passed)); /* a body that is in order may have begun to go */
		read_leniently(data, w.passed);
	}
	read_leniently(data, once.passed);
}

/* ---- both ---------------------------------------------------------------------------------------------------------------------- */

static bool has(const struct way *w, const char *word)
{
	for (size_t i = 0; i + strlen(word) <= w->passed; i++)
		if (strncasecmp(w->data + i, word, strlen(word)) == 0)
			return true;
	return false;
}

static void try_both(const char *data, size_t len)
{
	struct http_check *h = http_check_new(NAME, 80);
	struct way client = {.data = malloc(len + 1)}, server = {.data = malloc(len + 1)};
	size_t opaque = SIZE_MAX;

	if (!h || !client.data || !server.data)
		abort();
	while (len) {
		const unsigned char how = (unsigned char)*data++;
		struct way *w = how & 1 ? &server : &client;
		const size_t n = MIN(len - 1, (size_t)how >> 1);

		len--;
		memcpy(w->data + w->there, data, n);
		w->there += n;
		data += n;
		len -= n;
		show(h, w == &server ? http_check_response : http_check_request, w);
		show(h, http_check_request, &client);
		MUST(http_check_requests_free(h) || opaque == SIZE_MAX || client.refused || server.refused);
		if (http_check_requests_free(h) && opaque == SIZE_MAX) {
			opaque = client.passed;
			MUST(has(&server, " 101") && has(&server, "websocket") && has(&client, "websocket"));
		}
	}
	if (opaque == SIZE_MAX)
		read_leniently(client.data, client.passed);
	http_check_free(h);
	free(client.data);
	free(server.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > 4096)
		return 0;
	if (data[0] % KIND_COUNT == KIND_REQUESTS)
		try_requests((const char *)data + 1, size - 1);
	else
		try_both((const char *)data + 1, size - 1);
	return 0;
}

/* ---- seeds --------------------------------------------------------------------------------------------------------------------- */

#define HOST "Host: a.example\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define ASK "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define AGREE "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

static void seed_both(const char *dir, const char *name, const char *asks, const char *answers)
{
	char data[1024];
	size_t n = 0;
	const char *says[] = {asks, answers, "\x81\x01x"};

	for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
		for (const char *at = says[i]; *at;) {
			const size_t part = MIN(strlen(at), 64);

			data[n++] = (char)(part << 1 | (i == 1));
			memcpy(data + n, at, part);
			n += part;
			at += part;
		}
	}
	seed_write(dir, name, KIND_BOTH, data, n);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const requests[] = {
		GOOD GOOD,
		"GET http://a.example:80/x HTTP/1.1\r\nHost: A.example:80\r\n\r\n",
		"OPTIONS * HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n",
		POST "Content-Length: 5\r\n\r\nhello" GOOD,
		POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" GOOD,
		POST "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
		POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"CONNECT b.example:443 HTTP/1.1\r\n" HOST "\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		GOOD "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n",
		"GET / HTTP/1.1\nHost: a.example\n folded\n\n",
	};
	const char *dir = seeds_directory(*argc, *argv);
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		snprintf(name, sizeof(name), "requests-%zu", i);
		seed_write(dir, name, KIND_REQUESTS, requests[i], strlen(requests[i]));
	}
	seed_both(dir, "upgrade", ASK, AGREE);
	seed_both(dir, "interim", ASK, "HTTP/1.1 100 Continue\r\n\r\n" AGREE);
	seed_both(dir, "refused", ASK GOOD, "HTTP/1.1 426 No\r\n\r\n");
	return 0;
}
