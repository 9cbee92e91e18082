/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets on their way. An input is one kind byte, and: what a client sends, which is checked and rewritten as a courier does it; or what a server says, in pieces, each after a byte
 * that says how long it is, with "$" for the secret.
 *
 * Besides memory errors, the target fails when the secret is anywhere but in its own header lines, when llhttp reads other requests out of what came out than out of what went
 * in (but for these headers), when a request without a right to it gets it, when the same bytes in other pieces come out differently, and when a server's word with the secret
 * in it gets through in one piece, is changed where there is none, or is not passed on at once.
 */
#include <fcntl.h>
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/answered.h"
#include "egress/http.h"
#include "egress/rewrite.h"
#include "fuzz_seeds.h"
#include "must.h"

#define NAME "a.example"
#define VALUE "abcabcabd~abc" /* begins like itself, and ends so */
#define LINE "Authorization: Bearer " VALUE "\r\n"
#define LINE2 "X-Key: " VALUE "\r\n"

enum kind { KIND_REQUESTS, KIND_ANSWERS, KIND_COUNT };

static struct cordon_policy policy;
static struct keyring keys;
static struct host_target host;

static void make_keys(void)
{
	static const char *const rules[] = {"from=env:A;hosts=" NAME,
	                                    "from=env:B;hosts=" NAME ";header=X-Key;format={};methods=POST;paths=/v1/**"};

	MUST(policy_init(&policy, NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		MUST(policy_set(&policy, "secrets", rules[i], NULL) == 0);
	MUST(keyring_init(&keys, &policy, NULL) == 0 && host_target_parse(NAME, &host, NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		int pipe[2];

		MUST(pipe2(pipe, O_CLOEXEC) == 0 && write(pipe[1], VALUE, strlen(VALUE)) == (ssize_t)strlen(VALUE));
		close(pipe[1]);
		MUST(keyring_read(&keys, pipe[0], NULL) == 0);
		close(pipe[0]);
	}
}

/* ---- another reader ------------------------------------------------------------------------------------------------------------ */

/* All that is said in a stream of requests, in one text, without the fields that are replaced. */
struct reader {
	struct buf said, name, value;
};

static int on_text(llhttp_t *p, const char *at, size_t n)
{
	buf_add(&((struct reader *)p->data)->said, at, n);
	return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t n)
{
	buf_add(&((struct reader *)p->data)->name, at, n);
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
	buf_add(&((struct reader *)p->data)->value, at, n);
	return 0;
}

static bool is_replaced(const struct buf *name)
{
	const struct http_text text = {name->data ? name->data : "", name->len};

	return http_same_field(text, "authorization") || http_same_field(text, "x-key") || http_same_field(text, "accept-encoding");
}

static int on_field(llhttp_t *p)
{
	struct reader *r = p->data;

	if (!is_replaced(&r->name)) {
		buf_add(&r->said, r->name.data, r->name.len);
		buf_add_str(&r->said, "=");
		buf_add(&r->said, r->value.data, r->value.len);
		buf_add_str(&r->said, "\n");
	}
	buf_free(&r->name);
	buf_free(&r->value);
	return 0;
}

static int on_method(llhttp_t *p)
{
	buf_addf(&((struct reader *)p->data)->said, "[%s]", llhttp_method_name((llhttp_method_t)p->method));
	return 0;
}

static int on_end(llhttp_t *p)
{
	buf_add_str(&((struct reader *)p->data)->said, "[end]");
	return 0;
}

static char *read_all(const char *data, size_t len)
{
	static const llhttp_settings_t calls = {.on_url = on_text,
	                                        .on_header_field = on_name,
	                                        .on_header_value = on_value,
	                                        .on_header_value_complete = on_field,
	                                        .on_headers_complete = on_method,
	                                        .on_body = on_text,
	                                        .on_message_complete = on_end};
	struct reader r = {0};
	llhttp_t parser;
	llhttp_errno_t error = HPE_OK;

	llhttp_init(&parser, HTTP_REQUEST, &calls);
	parser.data = &r;
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
	buf_addf(&r.said, "(%d)", error == HPE_PAUSED_UPGRADE ? 0 : (int)error);
	buf_free(&r.name);
	buf_free(&r.value);
	return buf_steal(&r.said);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------------ */

struct outcome {
	struct buf out;
	size_t passed; /* of the input */
	bool refused, denied;
};

static size_t count(const char *data, size_t len, const char *what)
{
	size_t n = 0;

	for (const char *at = data, *hit; at && (hit = memmem(at, len - (size_t)(at - data), what, strlen(what))); at = hit + 1)
		n++;
	return n;
}

static bool is_for_second(const struct http_part *part)
{
	const char *query = memchr(part->target.at, '?', part->target.len);
	const size_t len = query ? (size_t)(query - part->target.at) : part->target.len;

	return strcmp(part->method, "POST") == 0 && len >= 4 && memcmp(part->target.at, "/v1/", 4) == 0 &&
	       !count(part->target.at, len, "/../") && !count(part->target.at, len, "%2e") && !count(part->target.at, len, "%2F");
}

/* How many fields of a head have this name. */
static size_t count_fields(const struct buf *head, const char *name)
{
	size_t n = 0;

	for (const char *line = head->data, *end; (end = strstr(line, "\r\n")); line = end + 2) {
		const char *colon = memchr(line, ':', (size_t)(end - line));

		n += colon && http_same_field((struct http_text){line, (size_t)(colon - line)}, name);
	}
	return n;
}

/* One head: the secret is in its lines, once each, and in the second only if it is a POST below /v1. */
static void check_head(const struct http_part *part, const struct buf *head)
{
	const size_t first = count(head->data, head->len, "\r\n" LINE), second = count(head->data, head->len, "\r\n" LINE2);

	MUST(first == 1 && second <= 1);
	MUST(count(head->data, head->len, VALUE) == first + second);
	MUST(head->len > 4 && memcmp(head->data + head->len - 4, "\r\n\r\n", 4) == 0);
	MUST(!second || is_for_second(part));
	MUST(count_fields(head, "authorization") == 1 && (!second || count_fields(head, "x-key") == 1));
	MUST(count_fields(head, "accept-encoding") == 1 && count(head->data, head->len, "\r\nAccept-Encoding: identity\r\n") == 1);
}

/* One step of what is there; false: nothing more goes. */
static bool step(struct http_check *h, struct outcome *o, const char *data, size_t there)
{
	const struct rewrite how = {&keys, &host, false};
	struct buf head = {0};
	struct http_part part;
	size_t len = there - o->passed;
	const char *why = NULL;
	char reason[KEYRING_WHY] = "";
	char *copy = malloc(len ? len : 1);

	MUST(copy);
	memcpy(copy, data + o->passed, len);
	o->refused = http_check_step(h, copy, &len, &part, &why) == HTTP_REFUSED;
	MUST(len <= there - o->passed && (!o->refused || len == 0));
	if (len && part.is_head) {
		o->denied = rewrite_head(&how, &part, copy, len, &head, reason) != REWRITE_OK;
		MUST(!o->denied || reason[0]);
		if (!o->denied) {
			check_head(&part, &head);
			buf_add(&o->out, head.data, head.len);
		}
		rewrite_wipe(&head);
	} else {
		buf_add(&o->out, copy, len);
	}
	free(copy);
	o->passed += o->denied ? 0 : len;
	return len && !o->refused && !o->denied;
}

static struct outcome feed(const char *data, size_t len, size_t piece)
{
	struct http_check *h = http_check_new_secure(NAME, 443);
	struct outcome o = {0};

	MUST(h);
	for (size_t there = 0; there < len && !o.refused && !o.denied;) {
		there = MIN(len, there + piece);
		while (o.passed < there && step(h, &o, data, there))
			;
	}
	http_check_free(h);
	return o;
}

static void try_requests(const char *data, size_t len)
{
	if (memmem(data, len, VALUE, strlen(VALUE)))
		return; /* nobody inside knows it */
	struct outcome once = feed(data, len, len ? len : 1);
	char *before = read_all(data, once.passed), *after = read_all(once.out.data, once.out.len);

	MUST(before && after && strcmp(before, after) == 0);
	for (size_t piece = 1; piece < 20; piece = piece * 2 + 1) {
		struct outcome o = feed(data, len, piece);

		MUST(o.refused == once.refused && o.denied == once.denied);
		MUST(o.passed == once.passed || (o.refused && o.passed > once.passed)); /* a body that is in order may have begun to go */
		MUST(o.out.len >= once.out.len && (once.out.len == 0 || memcmp(o.out.data, once.out.data, once.out.len) == 0));
		buf_free(&o.out);
	}
	free(before);
	free(after);
	buf_free(&once.out);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------- */

/* One piece, and all that came before it: stars where the secret is in it, and where it is the end of one. Found by looking everywhere. */
static void mask_simply(const char *in, size_t before, size_t len, char *out)
{
	memcpy(out, in + before, len);
	for (size_t i = 0; i + strlen(VALUE) <= before + len; i++) {
		const size_t end = i + strlen(VALUE), from = MAX(i, before);

		if (end > before && memcmp(in + i, VALUE, strlen(VALUE)) == 0)
			memset(out + (from - before), '*', end - from);
	}
}

static void check_piece(struct mask *m, const struct buf *in, size_t before, size_t len)
{
	struct buf out = {0};
	char *wanted = malloc(len + 1);

	MUST(wanted);
	mask_simply(in->data, before, len, wanted);
	MUST(mask_feed(m, in->data + before, len, &out) == 0);
	MUST(out.len == len && memcmp(out.data, wanted, len) == 0);
	free(wanted);
	buf_free(&out);
}

/* They are followed as well, as answers to a GET and a HEAD: whatever they are, in pieces or not, as many of them are found. */
static void count_answers(const struct buf *in, const size_t *pieces, size_t n)
{
	struct answered whole, cut;

	answered_init(&whole);
	answered_init(&cut);
	for (int i = 0; i < 2; i++) {
		answered_request(&whole, i ? "HEAD" : "GET");
		answered_request(&cut, i ? "HEAD" : "GET");
	}
	answered_feed(&whole, in->data, in->len);
	for (size_t i = 0, at = 0; i < n; at += pieces[i++])
		answered_feed(&cut, in->data + at, pieces[i]);
	MUST(answered_state(&whole) == answered_state(&cut));
}

static void try_answers(const char *data, size_t len)
{
	struct mask m = {0};
	struct buf in = {0};
	size_t pieces[64] = {0}, count_of = 0;

	MUST(mask_add(&m, VALUE, strlen(VALUE)));
	while (len && count_of < ARRAY_SIZE(pieces)) {
		const size_t n = MIN(len - 1, (size_t)(unsigned char)*data), before = in.len;

		for (size_t i = 1; i <= n; i++)
			buf_add(&in, data[i] == '$' ? VALUE : data + i, data[i] == '$' ? strlen(VALUE) : 1);
		pieces[count_of++] = in.len - before;
		data += n + 1;
		len -= n + 1;
	}
	for (size_t i = 0, at = 0; in.len && i < count_of; at += pieces[i++]) {
		/* cut in the middle as well: a piece ends within the secret */
		const size_t half = pieces[i] / 2;

		check_piece(&m, &in, at, half);
		check_piece(&m, &in, at + half, pieces[i] - half);
	}
	if (in.len)
		count_answers(&in, pieces, count_of);
	mask_clear(&m);
	buf_free(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > 4096)
		return 0;
	if (data[0] % KIND_COUNT == KIND_REQUESTS)
		try_requests((const char *)data + 1, size - 1);
	else
		try_answers((const char *)data + 1, size - 1);
	return 0;
}

/* ---- seeds --------------------------------------------------------------------------------------------------------------------- */

#define HOST "Host: " NAME "\r\n"
#define GOOD "GET / HTTP/1.1\r\n" HOST "\r\n"
#define POST "POST /v1/x HTTP/1.1\r\n" HOST

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const requests[] = {
		GOOD GOOD,
		"GET / HTTP/1.1\r\nauthorization: x\r\n" HOST "AUTHORIZATION:\r\nX_Key: y\r\n\r\n" GOOD,
		POST "Content-Length: 5\r\n\r\nhello" GOOD,
		POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" GOOD,
		POST "X-Key: a\r\nContent-Length: 2\r\n\r\n\r\n" GOOD,
		"POST /v1/../x HTTP/1.1\r\n" HOST "\r\n",
		"POST /v1/%2e%2e/x?a HTTP/1.1\r\n" HOST "X-HTTP-Method-Override: PUT\r\n\r\n",
		"GET https://a.example/x HTTP/1.1\r\n" HOST "\r\n",
		"TRACE / HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nx",
	};
	static const char *const answers[] = {"\x05"
	                                      "a$b$c"
	                                      "\x03"
	                                      "abc"
	                                      "\x03"
	                                      "abc"
	                                      "\x07"
	                                      "abd~abc",
	                                      "\x02"
	                                      "$$"
	                                      "\x01"
	                                      "a"
	                                      "\x01"
	                                      "b",
	                                      "\x30"
	                                      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1."
	                                      "\x24"
	                                      "1 200 OK\r\nContent-Length: 3\r\n\r\n"};
	const char *dir = seeds_directory(*argc, *argv);
	char name[32];

	make_keys();
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		snprintf(name, sizeof(name), "requests-%zu", i);
		seed_write(dir, name, KIND_REQUESTS, requests[i], strlen(requests[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		snprintf(name, sizeof(name), "answers-%zu", i);
		seed_write(dir, name, KIND_ANSWERS, answers[i], strlen(answers[i]));
	}
	return 0;
}
