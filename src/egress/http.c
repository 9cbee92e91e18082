/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's bytes, in turns:
 *
 *   HEAD    until a head is whole, nothing goes; then it is read by llhttp at once, and must end where http_lines_scan() says that it does
 *   BODY    goes as it comes; llhttp says where it ends
 *   WAIT    the first request asked for an upgrade, and is whole: what comes behind it stays until the server has answered
 *   OPAQUE  the server has agreed
 *
 * Each message gets a parser of its own: none is in a state that an earlier one has left behind.
 */
#include "egress/http.h"

#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "egress/http_head.h"

#if LLHTTP_VERSION_MAJOR < 6
#error "llhttp 6 or later is needed"
#endif

enum phase { PHASE_HEAD, PHASE_BODY, PHASE_WAIT, PHASE_OPAQUE };
enum upgrade { UPGRADE_NONE, UPGRADE_ASKED, UPGRADE_AGREED };

/* A message under way. Heads are given to llhttp in one piece, so that these texts stay where they are until it is done with them. */
struct message {
	struct http_check *check;
	struct http_lines lines;
	llhttp_t parser;
	struct http_text url, name, value;
	bool head_done, done;
};

struct http_check {
	struct http_target target;
	char *name;
	const char *refused; /* why, for good */
	enum phase phase;
	struct message request, answer;
	struct http_head head; /* the request's */
	struct http_part part; /* of the last step */
	const char *cursor;    /* of a body's bytes: those before it have been looked at */
	char last;             /* of these, if it was not of the body's content */
	unsigned digits;       /* of a chunk's size, so far */
	enum upgrade upgrade;
	bool later; /* the first request has been passed on, or the server spoke before it: too late for an upgrade */
	bool asked_websocket;
	unsigned upgrades; /* Upgrade fields of the answer */
	bool websocket;    /* … say this */
};

/* ---- what llhttp calls --------------------------------------------------------------------------------------------------------- */

/* llhttp may give a text in pieces, one behind the other. */
static int extend(struct http_text *t, const char *at, size_t len)
{
	if (!t->at)
		t->at = at;
	t->len = (size_t)(at + len - t->at);
	return 0;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
	return extend(&((struct message *)p->data)->url, at, len);
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	return extend(&((struct message *)p->data)->name, at, len);
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	return extend(&((struct message *)p->data)->value, at, len);
}

static int on_done(llhttp_t *p)
{
	((struct message *)p->data)->done = true;
	return HPE_PAUSED;
}

static int deny(struct http_check *h, const char *why)
{
	if (!why)
		return 0;
	h->refused = why;
	return -1;
}

static int on_field(llhttp_t *p)
{
	struct message *m = p->data;
	struct http_check *h = m->check;
	const struct http_text name = m->name, value = m->value;

	m->name = m->value = (struct http_text){0};
	if (m->head_done)
		return deny(h, "the request has trailers");
	return deny(h, http_head_field(&h->head, &h->target, name, value));
}

static int on_head(llhttp_t *p)
{
	struct message *m = p->data;
	struct http_check *h = m->check;

	m->head_done = true;
	if ((p->method == HTTP_GET || p->method == HTTP_HEAD) && (p->content_length || p->flags & F_TRANSFER_ENCODING))
		return deny(h, "the request is a GET or HEAD with a body, which some servers take for the next request");
	return deny(h, http_head_end(&h->head, &h->target, m->url, p->method == HTTP_OPTIONS, p->http_minor == 0));
}

/* Between the pieces of a chunked body only sizes and line ends: no extensions, which are read in as many ways as there are servers, and no trailers. */
static const char *check_framing(struct http_check *h, const char *end)
{
	for (; h->cursor < end; h->cursor++) {
		const char c = *h->cursor;

		if ((h->last == '\r') != (c == '\n'))
			return "the request's chunks have a line that does not end in CR LF";
		h->last = c;
		if (c == '\r' || c == '\n')
			h->digits = 0;
		else if (!memchr("0123456789abcdefABCDEF", c, 22))
			return "the request has a chunk extension or trailers";
		else if (++h->digits > 8)
			return "the request has a chunk size of too many digits";
	}
	return NULL;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	struct http_check *h = ((struct message *)p->data)->check;
	const char *why = check_framing(h, at);

	h->cursor = at + len;
	return deny(h, why);
}

static int on_answer_field(llhttp_t *p)
{
	struct message *m = p->data;
	struct http_check *h = m->check;

	if (m->name.len == strlen("Upgrade") && strncasecmp(m->name.at, "Upgrade", m->name.len) == 0) {
		h->upgrades++;
		h->websocket = m->value.at && http_is_websocket(m->value);
	}
	m->name = m->value = (struct http_text){0};
	return 0;
}

/* Whatever follows an answer's head is not looked at here: to llhttp it ends. */
static int on_answer_head(llhttp_t *p)
{
	((struct message *)p->data)->head_done = true;
	return 1;
}

static const llhttp_settings_t request_calls = {
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_field,
	.on_headers_complete = on_head,
	.on_body = on_body,
	.on_message_complete = on_done,
};
static const llhttp_settings_t answer_calls = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_answer_field,
	.on_headers_complete = on_answer_head,
	.on_message_complete = on_done,
};

/* ---- requests ------------------------------------------------------------------------------------------------------------------ */

static void message_begin(struct http_check *h, struct message *m)
{
	const bool answer = m == &h->answer;

	*m = (struct message){.check = h, .lines = {.answer = answer}};
	llhttp_init(&m->parser, answer ? HTTP_RESPONSE : HTTP_REQUEST, answer ? &answer_calls : &request_calls);
	m->parser.data = m;
}

static void next_request(struct http_check *h)
{
	message_begin(h, &h->request);
	h->head = (struct http_head){0};
	h->last = '\0';
	h->digits = 0;
	h->phase = PHASE_HEAD;
}

/* In words, where it is not "not as HTTP/1.1 demands". */
static const char *reason_of(llhttp_errno_t error)
{
	static const struct {
		llhttp_errno_t error;
		const char *why;
	} reasons[] = {
		{HPE_INVALID_METHOD, "the request has a method that nobody knows"},
		{HPE_INVALID_URL, "the request's target cannot be read"},
		{HPE_INVALID_CHUNK_SIZE, "the request has a chunk size that is not one"},
		{HPE_UNEXPECTED_CONTENT_LENGTH, "the request has two lengths"},
		{HPE_INVALID_CONTENT_LENGTH, "the request's Content-Length is not a number"},
		{HPE_INVALID_TRANSFER_ENCODING, "the request's Transfer-Encoding is not just \"chunked\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].error == error)
			return reasons[i].why;
	return "the request is not as HTTP/1.1 demands";
}

/* The first line tells whether it is HTTP at all, and is looked at when it is there: a client that speaks something else might wait for an answer to it. */
static const char *check_first_line(struct http_check *h, const char *data)
{
	const size_t len = h->request.lines.first;
	llhttp_t probe;
	llhttp_settings_t none;
	const char *why = http_line_check(data, len);

	if (why)
		return why;
	llhttp_settings_init(&none);
	llhttp_init(&probe, HTTP_REQUEST, &none);
	llhttp_errno_t error = llhttp_execute(&probe, data, len);
	return error == HPE_OK ? NULL : reason_of(error);
}

/* llhttp has read the message's bytes, and no more: all of them, unless the message ended before. */
static bool message_read(struct message *m, const char *data, size_t len, size_t *read, const char **why)
{
	const llhttp_errno_t error = llhttp_execute(&m->parser, data, len);

	*read = len;
	if (error == HPE_PAUSED && m->done)
		*read = (size_t)(llhttp_get_error_pos(&m->parser) - data);
	else if (error != HPE_OK || m->done) {
		*why = reason_of(error);
		return false;
	}
	return true;
}

static const char *upgrade_begin(struct http_check *h)
{
	if (h->head.upgrade && !h->later) {
		h->upgrade = UPGRADE_ASKED;
		h->asked_websocket = h->head.websocket;
	} else if (h->head.websocket) {
		return "an upgrade must be the first request of its connection";
	}
	h->later = true;
	return NULL;
}

static void request_end(struct http_check *h)
{
	const enum upgrade upgrade = h->upgrade;

	next_request(h);
	if (upgrade != UPGRADE_NONE)
		h->phase = PHASE_WAIT;
}

/* All of these return the reason for a refusal; *gone: how many bytes may go, 0: no more for now. */

static const char *take_head(struct http_check *h, const char *data, size_t len, size_t *gone)
{
	struct message *m = &h->request;
	const bool had_line = m->lines.first;
	size_t whole, read;
	const char *why = http_lines_scan(&m->lines, data, len, &whole);

	*gone = 0;
	if (why)
		return why;
	if (!had_line && m->lines.first && (why = check_first_line(h, data)))
		return why;
	if (!whole)
		return NULL;
	if (!message_read(m, data, whole, &read, &why))
		return h->refused ? h->refused : why;
	if (!m->head_done || read != whole)
		return "the request's head does not end where it seems to";
	if ((why = upgrade_begin(h)))
		return why;
	*gone = whole;
	h->part = (struct http_part){true, llhttp_method_name(m->parser.method), m->url};
	h->phase = PHASE_BODY;
	if (m->done)
		request_end(h);
	return NULL;
}

static const char *take_body(struct http_check *h, const char *data, size_t len, size_t *gone)
{
	const char *why;
	size_t read;

	*gone = 0;
	h->cursor = data;
	if (!message_read(&h->request, data, len, &read, &why))
		return h->refused ? h->refused : why;
	if ((why = check_framing(h, data + read)))
		return why;
	*gone = read;
	if (h->request.done)
		request_end(h);
	return NULL;
}

static const char *take_waiting(struct http_check *h, size_t len, size_t *gone)
{
	*gone = 0;
	if (h->upgrade == UPGRADE_AGREED) {
		h->phase = PHASE_OPAQUE;
		*gone = len;
	}
	return NULL;
}

static const char *take(struct http_check *h, const char *data, size_t len, size_t *gone)
{
	h->part = (struct http_part){0};
	if (h->phase == PHASE_WAIT && h->upgrade == UPGRADE_NONE)
		h->phase = PHASE_HEAD;
	switch (h->phase) {
	case PHASE_HEAD:
		return take_head(h, data, len, gone);
	case PHASE_BODY:
		return take_body(h, data, len, gone);
	case PHASE_WAIT:
		return take_waiting(h, len, gone);
	case PHASE_OPAQUE:
	default:
		*gone = len;
		return NULL;
	}
}

enum http_verdict http_check_request(struct http_check *h, const void *data, size_t *len, const char **why)
{
	size_t done = 0, gone = 1;

	while (!h->refused && gone && done < *len) {
		const char *no = take(h, (const char *)data + done, *len - done, &gone);

		done += gone;
		if (no)
			h->refused = no;
	}
	*len = done;
	*why = h->refused;
	return h->refused ? HTTP_REFUSED : HTTP_PASS;
}

enum http_verdict http_check_step(struct http_check *h, const void *data, size_t *len, struct http_part *part, const char **why)
{
	size_t gone = 0;
	const char *no = *len && !h->refused ? take(h, data, *len, &gone) : NULL;

	if (no)
		h->refused = no;
	*len = gone;
	*part = gone ? h->part : (struct http_part){0};
	*why = h->refused;
	return h->refused ? HTTP_REFUSED : HTTP_PASS;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------- */

/* Agreed, not agreed, or one of those that only come before the answer (1xx). */
static const char *answer_end(struct http_check *h)
{
	const int status = llhttp_get_status_code(&h->answer.parser);
	const bool websocket = h->asked_websocket && h->websocket && h->upgrades == 1 && llhttp_get_upgrade(&h->answer.parser);

	if (status == 101 && !websocket)
		return "the server wants to go on in a protocol that may be for any host";
	if (status == 101)
		h->upgrade = UPGRADE_AGREED;
	else if (status < 100 || status > 199)
		h->upgrade = UPGRADE_NONE;
	return NULL;
}

/* A head as long as an upgrade has been asked for and not been answered. What cannot be read agrees to nothing, and goes. */
static const char *take_answer(struct http_check *h, const char *data, size_t len, size_t *gone)
{
	struct message *m = &h->answer;
	size_t whole, read;
	const char *ignored;

	*gone = 0;
	if (http_lines_scan(&m->lines, data, len, &whole)) {
		h->upgrade = UPGRADE_NONE;
		return NULL;
	}
	if (!whole)
		return NULL;
	if (!message_read(m, data, whole, &read, &ignored) || !m->done || read != whole) {
		h->upgrade = UPGRADE_NONE;
		return NULL;
	}
	const char *why = answer_end(h);
	if (why)
		return why;
	*gone = whole;
	h->upgrades = 0;
	message_begin(h, m);
	return NULL;
}

enum http_verdict http_check_response(struct http_check *h, const void *data, size_t *len, const char **why)
{
	size_t done = 0, gone = 1;

	if (*len)
		h->later = true;
	while (!h->refused && h->upgrade == UPGRADE_ASKED && gone && done < *len) {
		h->refused = take_answer(h, (const char *)data + done, *len - done, &gone);
		done += gone;
	}
	if (h->refused || h->upgrade == UPGRADE_ASKED)
		*len = done;
	*why = h->refused;
	return h->refused ? HTTP_REFUSED : HTTP_PASS;
}

bool http_check_responses_free(const struct http_check *h)
{
	return !h->refused && h->later && h->upgrade != UPGRADE_ASKED;
}

bool http_check_requests_free(const struct http_check *h)
{
	return !h->refused && h->phase == PHASE_OPAQUE;
}

bool http_check_waits(const struct http_check *h)
{
	return !h->refused && h->phase == PHASE_WAIT && h->upgrade == UPGRADE_ASKED;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

static struct http_check *make(const char *name, uint16_t port, bool secure)
{
	struct http_check *h = calloc(1, sizeof(*h));

	if (!h || !(h->name = strdup(name))) {
		free(h);
		return NULL;
	}
	h->target = (struct http_target){h->name, port, secure};
	next_request(h);
	message_begin(h, &h->answer);
	return h;
}

struct http_check *http_check_new(const char *name, uint16_t port)
{
	return make(name, port, false);
}

struct http_check *http_check_new_secure(const char *name, uint16_t port)
{
	return make(name, port, true);
}

void http_check_free(struct http_check *h)
{
	if (!h)
		return;
	free(h->name);
	free(h);
}
