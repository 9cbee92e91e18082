/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's body. llhttp says what belongs to it and where it ends; the bytes between the pieces of a chunked one are looked at once more,
 * as llhttp is generous about them in ways that differ between its versions.
 */
#include <string.h>

#include "base/util.h"
#include "server/http_parts.h"

#define CHUNK_DIGITS_MAX 15
#define CHUNK_LINE_MAX ((size_t)1024)      /* an extension, or a trailer */
#define CHUNK_EXTRA_MAX ((size_t)16 << 10) /* all of them together: a body may have a million chunks */

/* ---- between chunks ------------------------------------------------------------------------------------------------------------ */

static bool size_byte(struct http_exchange *x, char c)
{
	struct chunk_lines *f = &x->chunks;

	if (memchr("0123456789abcdefABCDEF", c, 22)) {
		f->zero = f->zero && c == '0';
		return ++f->digits <= CHUNK_DIGITS_MAX || problem_bad(x, "the body has a chunk size of too many digits");
	}
	if (c != ';' || f->digits == 0)
		return problem_bad(x, "the body has a chunk size that is not one");
	f->at = FRAMING_EXTENSION;
	return true;
}

static bool framing_line_end(struct http_exchange *x)
{
	struct chunk_lines *f = &x->chunks;

	if (f->at == FRAMING_SIZE && f->digits == 0)
		return problem_bad(x, "the body has a chunk without a size");
	if (f->at == FRAMING_DATA_END)
		f->at = FRAMING_SIZE;
	else if (f->at == FRAMING_TRAILER)
		f->at = f->line ? FRAMING_TRAILER : FRAMING_OVER;
	else
		f->at = f->zero ? FRAMING_TRAILER : FRAMING_DATA_END;
	f->line = f->digits = 0;
	f->zero = true;
	return true;
}

static bool framing_byte(struct http_exchange *x, char c)
{
	struct chunk_lines *f = &x->chunks;

	if ((f->last == '\r') != (c == '\n'))
		return problem_bad(x, "the body has a line between its chunks that does not end in CR LF");
	f->last = c;
	if (c == '\r')
		return true;
	if (c == '\n')
		return framing_line_end(x);
	f->line++;
	if ((unsigned char)c < 0x20 || c == 0x7f)
		return problem_bad(x, "the body has a control character between its chunks");
	if (f->at == FRAMING_SIZE)
		return size_byte(x, c);
	if (f->at == FRAMING_DATA_END || f->at == FRAMING_OVER)
		return problem_bad(x, "the body has a chunk that is longer than its size");
	if (f->line == 1 && c == ' ')
		return problem_bad(x, "the body has a folded trailer");
	if (f->line > CHUNK_LINE_MAX || ++f->extra > CHUNK_EXTRA_MAX)
		return problem_bad(x, "the body has chunk extensions or trailers that are too long");
	return true;
}

static bool check_framing(struct http_exchange *x, const char *end)
{
	for (; x->codings && x->cursor < end; x->cursor++)
		if (!framing_byte(x, *x->cursor))
			return false;
	return true;
}

/* ---- pieces -------------------------------------------------------------------------------------------------------------------- */

static bool too_large(struct http_exchange *x)
{
	return problem_set(x, 413, "body_too_large", "the request's body is too large");
}

static bool keep(struct http_exchange *x, const char *at, size_t len)
{
	if (x->collected && (len > x->collect_cap || x->body.len > x->collect_cap - len))
		return too_large(x);
	buf_add(&x->body, at, len);
	if (x->body.failed)
		x->conn->broken = true;
	return !x->body.failed;
}

int body_on_piece(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;

	if (!check_framing(x, at))
		return -1;
	x->cursor = at + len;
	x->body_seen += len;
	if (x->answer == ANSWER_DONE || x->conn->broken)
		return 0; /* nobody wants it any more */
	if (x->collected || x->paused || x->body.len)
		return keep(x, at, len) ? 0 : -1;
	x->piece(x->body_arg, x, at, len, false);
	return 0;
}

bool body_feed(struct http_exchange *x)
{
	const char *data = x->in + x->pos;
	size_t read = x->filled - x->pos;

	x->cursor = data;
	const llhttp_errno_t error = llhttp_execute(&x->parser, data, read);
	if (error == HPE_PAUSED && x->body_done)
		read = (size_t)(llhttp_get_error_pos(&x->parser) - data);
	else if (error != HPE_OK)
		return x->problem.status ? false : problem_bad(x, "the request's body is not as HTTP/1.1 demands");
	if (!check_framing(x, data + read))
		return false;
	x->pos += read;
	return true;
}

static void tell_held(struct http_exchange *x)
{
	struct buf held = x->body;

	x->body = (struct buf){0};
	x->piece(x->body_arg, x, held.data, held.len, false);
	x->body = (struct buf){.data = held.data, .size = held.size};
}

static void tell_end(struct http_exchange *x)
{
	x->body_told = true;
	if (x->collected) {
		buf_add(&x->body, NULL, 0); /* "" has memory, too */
		if (x->body.failed)
			x->conn->broken = true;
		else
			x->collected(x->body_arg, x, x->body.data, x->body.len);
	} else {
		x->piece(x->body_arg, x, "", 0, true);
	}
}

bool body_tell(struct http_exchange *x)
{
	if (x->paused || x->answer == ANSWER_DONE || x->conn->broken || !(x->collected || x->piece))
		return false;
	if (x->piece && x->body.len)
		tell_held(x);
	else if (x->body_done && !x->body_told)
		tell_end(x);
	else
		return false;
	return true;
}

bool body_wanted(const struct http_exchange *x)
{
	return !x->body_done && (x->answer == ANSWER_DONE || ((x->collected || x->piece) && !x->paused));
}

/* ---- for handlers -------------------------------------------------------------------------------------------------------------- */

/* Some clients wait to be asked for the body (RFC 9110, 10.1.1). */
static void ask_for_body(struct http_exchange *x)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (x->expects && x->request.minor == 1 && !x->body_done && x->pos == x->filled && x->answer == ANSWER_NONE)
		buf_add(&x->conn->out, go_on, sizeof(go_on) - 1);
	x->expects = false;
	conn_wake(x->conn);
}

void http_collect(struct http_exchange *x, size_t cap, void (*done)(void *arg, struct http_exchange *x, char *body, size_t len), void *arg)
{
	if (x->collected || x->piece || x->raw)
		return;
	x->collected = done;
	x->collect_cap = cap;
	x->body_arg = arg;
	if (x->request.length > 0 && (uint64_t)x->request.length > cap) {
		too_large(x); /* and the connection's turn will find it */
		conn_wake(x->conn);
		return;
	}
	x->body.cap = MIN(MAX(cap, (size_t)1), SIZE_MAX - 1);
	ask_for_body(x);
}

void http_stream_body(struct http_exchange *x, http_piece_fn *piece, void *arg)
{
	if (x->collected)
		return;
	x->piece = piece;
	x->body_arg = arg;
	ask_for_body(x);
}

void http_pause(struct http_exchange *x)
{
	x->paused = true;
}

void http_resume(struct http_exchange *x)
{
	x->paused = false;
	conn_wake(x->conn);
}
