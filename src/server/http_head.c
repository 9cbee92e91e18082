/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's head. Its bytes are looked at first, one by one as they come: only such pass that every reader of HTTP takes for the same. When
 * its end is there, llhttp reads it, in one piece and with a parser of its own, and must find the same end. Then the fields are checked that
 * say where the request ends and for whom it is.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "server/http_parts.h"

#if LLHTTP_VERSION_MAJOR < 6
#error "llhttp 6 or later is needed"
#endif

#define METHOD_MAX 24 /* longer than any that there is */

bool problem_set(struct http_exchange *x, int status, const char *code, const char *message)
{
	x->problem = (struct http_problem){.status = status, .code = code, .message = message};
	return false;
}

bool problem_bad(struct http_exchange *x, const char *message)
{
	return problem_set(x, 400, "bad_request", message);
}

static const struct http_limits *limits_of(const struct http_exchange *x)
{
	return &x->conn->loop->limits;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------------------- */

/* "METHOD TARGET HTTP/1.x": each space counts, as some split the line at any white space, others at the first and the last. */
static bool first_line_byte(struct http_exchange *x, unsigned char c)
{
	struct head_scan *s = &x->scan;

	if (c == '\t' || c >= 0x80)
		return problem_bad(x, "the request line has a byte that does not belong there");
	if (c == ' ')
		return ++s->spaces <= 2 || problem_bad(x, "the request line has too many spaces");
	if (s->spaces == 0 && ((c < 'A' || c > 'Z') && c != '-'))
		return problem_bad(x, "this does not begin with an HTTP method");
	if (s->spaces == 0 && ++s->method > METHOD_MAX)
		return problem_set(x, 501, "not_implemented", "the method is not known");
	if (s->spaces == 1 && ++s->target > limits_of(x)->target_bytes)
		return problem_set(x, 414, "uri_too_long", "the request's target is too long");
	if (s->spaces == 2 && s->line - s->method - s->target > strlen("  HTTP/1.x"))
		return problem_bad(x, "the request line does not end in an HTTP version");
	return true;
}

static bool scan_byte(struct http_exchange *x, unsigned char c)
{
	struct head_scan *s = &x->scan;

	if (c == '\n')
		return s->last == '\r' || problem_bad(x, "the request has a line feed without a carriage return");
	if (s->last == '\r')
		return problem_bad(x, "the request has a carriage return without a line feed");
	if (c == '\r')
		return true;
	if ((c < 0x20 && c != '\t') || c == 0x7f)
		return problem_bad(x, "the request has a control character");
	if (s->line++ == 0 && (c == ' ' || c == '\t'))
		return problem_bad(x, s->first ? "the request has a folded line" : "the request begins with white space");
	return s->first || first_line_byte(x, c);
}

static bool check_version(struct http_exchange *x)
{
	const char *v = x->in + x->start + x->scan.line - strlen("HTTP/1.x");

	if (x->scan.spaces != 2 || x->scan.line != x->scan.method + x->scan.target + strlen("  HTTP/1.x") || x->scan.target == 0)
		return problem_bad(x, "the request line is not \"METHOD TARGET HTTP/1.1\"");
	if (memcmp(v, "HTTP/1.1", 8) == 0 || memcmp(v, "HTTP/1.0", 8) == 0)
		return true;
	if (memcmp(v, "HTTP/", 5) == 0 && v[5] >= '0' && v[5] <= '9' && v[6] == '.' && v[7] >= '0' && v[7] <= '9')
		return problem_set(x, 505, "version_not_supported", "only HTTP/1.1 and HTTP/1.0 are spoken here");
	return problem_bad(x, "the request line does not end in an HTTP version");
}

/* *whole: the head's length, if this was its last line. */
static bool scan_line_end(struct http_exchange *x, size_t *whole)
{
	struct head_scan *s = &x->scan;

	if (s->line == 0 && !s->first)
		return problem_bad(x, "the request begins with an empty line");
	if (s->line == 0)
		*whole = s->seen + 1;
	else if (!s->first && !check_version(x))
		return false;
	else if (!s->first)
		s->first = s->seen + 1;
	else if (++s->lines > limits_of(x)->headers)
		return problem_set(x, 431, "headers_too_large", "the request has too many headers");
	s->line = 0;
	return true;
}

static bool scan(struct http_exchange *x, size_t *whole)
{
	struct head_scan *s = &x->scan;
	const char *data = x->in + x->start;
	const size_t len = x->filled - x->start, most = limits_of(x)->head_bytes;

	for (*whole = 0; !*whole && s->seen < len; s->seen++) {
		if (s->seen == most)
			return problem_set(x, 431, "headers_too_large", "the request's head is too long");
		const char c = data[s->seen];
		if (!scan_byte(x, (unsigned char)c) || (c == '\n' && !scan_line_end(x, whole)))
			return false;
		s->last = c;
	}
	return true;
}

/* ---- fields -------------------------------------------------------------------------------------------------------------------- */

static bool text_is(struct text t, const char *word)
{
	return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static struct text trimmed(struct text t)
{
	while (t.len && (t.at[0] == ' ' || t.at[0] == '\t'))
		t.at++, t.len--;
	while (t.len && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
		t.len--;
	return t;
}

/* The next word of a list with commas; false: there is none. */
static bool next_word(struct text *list, struct text *word)
{
	if (!list->at)
		return false;
	char *comma = list->len ? memchr(list->at, ',', list->len) : NULL;
	const size_t n = comma ? (size_t)(comma - list->at) : list->len;
	*word = trimmed((struct text){list->at, n});
	*list = comma ? (struct text){comma + 1, list->len - n - 1} : (struct text){0};
	return true;
}

static bool is_token(struct text t)
{
	for (size_t i = 0; i < t.len; i++)
		if ((unsigned char)t.at[i] <= ' ' || (unsigned char)t.at[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", t.at[i]))
			return false;
	return t.len > 0;
}

static bool on_host(struct http_exchange *x, struct text value)
{
	if (++x->hosts > 1)
		return problem_bad(x, "the request has several Host headers");
	x->request.host = value.at;
	return host_valid(value.at, value.len) || problem_bad(x, "the request's Host is not a host");
}

/* Digits, of which the first is no zero (some take it for octal), and not too many for anybody. */
static bool on_length(struct http_exchange *x, struct text value)
{
	int64_t n = 0;

	if (++x->lengths > 1)
		return problem_bad(x, "the request has several Content-Length headers");
	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9' || i == 18)
			return problem_bad(x, "the request's Content-Length is not a number");
		n = n * 10 + (value.at[i] - '0');
	}
	if (value.len == 0 || (value.len > 1 && value.at[0] == '0'))
		return problem_bad(x, "the request's Content-Length is not a plain number");
	x->request.length = n;
	return true;
}

/* In these letters: who does not know "Chunked" would not see a body. Other codings are refused as unknown, if they can be meant seriously. */
static bool on_coding(struct http_exchange *x, struct text value)
{
	struct text list = value, word;
	bool last_chunked = false;

	if (++x->codings == 1 && value.len == 7 && memcmp(value.at, "chunked", 7) == 0)
		return true;
	while (next_word(&list, &word)) {
		if (!is_token(word) || last_chunked || x->codings > 1)
			return problem_bad(x, "the request's Transfer-Encoding is not \"chunked\"");
		last_chunked = text_is(word, "chunked");
		if (last_chunked && memcmp(word.at, "chunked", 7) != 0)
			return problem_bad(x, "the request's Transfer-Encoding is not \"chunked\" in small letters");
	}
	return problem_set(x, 501, "not_implemented", "the request's Transfer-Encoding is not known");
}

/* Proxies take out the fields that are named here: not those that say for whom a request is, and where it ends. */
static bool on_connection(struct http_exchange *x, struct text value)
{
	static const char *const kept[] = {"host", "content-length", "transfer-encoding"};
	struct text word;

	while (next_word(&value, &word)) {
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (text_is(word, kept[i]))
				return problem_bad(x, "the request's Connection names a header that must stay");
		x->close_asked = x->close_asked || text_is(word, "close");
		x->keep_asked = x->keep_asked || text_is(word, "keep-alive");
		x->upgrade_asked = x->upgrade_asked || text_is(word, "upgrade");
	}
	return true;
}

static bool on_expect(struct http_exchange *x, struct text value)
{
	x->expects = text_is(value, "100-continue");
	return x->expects || problem_set(x, 417, "expectation_failed", "the request expects something else than 100-continue");
}

static const struct field {
	const char *name;
	bool (*check)(struct http_exchange *x, struct text value);
	bool plain; /* only as "Name: value": whoever reads "\tchunked" differently reads another request */
} fields[] = {
	{"host", on_host, true},
	{"content-length", on_length, true},
	{"transfer-encoding", on_coding, true},
	{"connection", on_connection, false},
	{"expect", on_expect, false},
};

/* To some "_" is "-": what comes out of CGI has only one of them. */
static bool same_field(struct text name, const char *field)
{
	if (name.len != strlen(field))
		return false;
	for (size_t i = 0; i < name.len; i++)
		if ((name.at[i] == '_' ? '-' : (name.at[i] | 0x20)) != field[i] && name.at[i] != field[i])
			return false;
	return true;
}

static bool check_field(struct http_exchange *x, struct text name, struct text raw, struct text value)
{
	if (name.len == 0)
		return problem_bad(x, "the request has a header without a name"); /* llhttp 8 has nothing against it */
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!same_field(name, fields[i].name))
			continue;
		if (!text_is(name, fields[i].name))
			return problem_bad(x, "the request has a header name with \"_\" for \"-\"");
		const char *plain = name.at + name.len + 1;
		if (fields[i].plain && value.len &&
		    (value.len != raw.len || (value.at != plain && !(value.at == plain + 1 && *plain == ' '))))
			return problem_bad(x, "the request has white space around a value that must be plain");
		return fields[i].check(x, value);
	}
	return true;
}

/* ---- what llhttp calls --------------------------------------------------------------------------------------------------------- */

/* It may give a text in pieces, one behind the other; they stand in x->in, where we may write. */
static int extend(struct http_exchange *x, struct text *t, const char *at, size_t len)
{
	char *here = x->in + (at - x->in);

	if (!t->at)
		t->at = here;
	t->len = (size_t)(here + len - t->at);
	return 0;
}

static int on_target(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;
	return extend(x, &x->target, at, len);
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;
	return x->head_done ? 0 : extend(x, &x->name, at, len); /* trailers are of no use to anybody here */
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	struct http_exchange *x = p->data;
	return x->head_done ? 0 : extend(x, &x->value, at, len);
}

static int on_field(llhttp_t *p)
{
	struct http_exchange *x = p->data;
	const struct text name = x->name, raw = x->value;

	if (x->head_done)
		return 0;
	x->name = x->value = (struct text){0};
	const struct text value = raw.at ? trimmed(raw) : raw;
	if (!name.at || x->request.header_count == limits_of(x)->headers || !check_field(x, name, raw, value)) {
		if (!x->problem.status)
			problem_bad(x, "the request has a header without a name");
		return -1;
	}
	x->headers[x->request.header_count++] = (struct http_header){name.at, value.len ? value.at : ""};
	return 0;
}

static int on_head(llhttp_t *p)
{
	((struct http_exchange *)p->data)->head_done = true;
	return 0;
}

static int on_done(llhttp_t *p)
{
	((struct http_exchange *)p->data)->body_done = true;
	return HPE_PAUSED; /* what follows is another message's, which gets another parser */
}

const llhttp_settings_t http_parser_calls = {
	.on_url = on_target,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_field,
	.on_headers_complete = on_head,
	.on_body = body_on_piece,
	.on_message_complete = on_done,
};

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

static bool refused_by_parser(struct http_exchange *x, llhttp_errno_t error)
{
	static const struct {
		llhttp_errno_t error;
		const char *message;
	} reasons[] = {
		{HPE_INVALID_URL, "the request's target cannot be read"},
		{HPE_UNEXPECTED_CONTENT_LENGTH, "the request has two lengths"},
		{HPE_INVALID_CONTENT_LENGTH, "the request's Content-Length is not a number"},
		{HPE_INVALID_TRANSFER_ENCODING, "the request's Transfer-Encoding is not \"chunked\""},
		{HPE_INVALID_HEADER_TOKEN, "the request has a header with a byte that does not belong there"},
	};

	if (x->problem.status)
		return false;
	if (error == HPE_INVALID_METHOD)
		return problem_set(x, 501, "not_implemented", "the method is not known");
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].error == error)
			return problem_bad(x, reasons[i].message);
	return problem_bad(x, "the request is not as HTTP/1.1 demands");
}

static bool parse(struct http_exchange *x)
{
	const char *head = x->in + x->start;

	llhttp_init(&x->parser, HTTP_REQUEST, &http_parser_calls);
	x->parser.data = x;
	x->request.headers = x->headers;
	x->request.length = -1;
	const llhttp_errno_t error = llhttp_execute(&x->parser, head, x->head_len);
	if (error != (x->body_done ? HPE_PAUSED : HPE_OK))
		return refused_by_parser(x, error);
	if (!x->head_done || !x->target.at || (x->body_done && llhttp_get_error_pos(&x->parser) != head + x->head_len))
		return problem_bad(x, "the request's head does not end where it seems to");
	return true;
}

/*
 * Not before the parser is through: it reads a line's end once more. Between a name and its colon there is nothing, and between a value and
 * its line's end only white space.
 */
static void end_texts(struct http_exchange *x)
{
	for (size_t i = 0; i < x->request.header_count; i++) {
		char *name = x->in + (x->headers[i].name - x->in), *end;

		*strchrnul(name, ':') = '\0';
		if (!x->headers[i].value[0])
			continue;
		end = strchrnul(x->in + (x->headers[i].value - x->in), '\r');
		while (end[-1] == ' ' || end[-1] == '\t')
			end--;
		*end = '\0';
	}
}

/* What the fields say together. */
static bool check_request(struct http_exchange *x)
{
	struct http_request *r = &x->request;

	if (x->lengths && x->codings)
		return problem_bad(x, "the request has two lengths");
	if (x->codings && r->minor == 0)
		return problem_bad(x, "the request is HTTP/1.0, which knows no chunks");
	if (x->hosts == 0 && r->minor == 1)
		return problem_bad(x, "the request has no Host header");
	if (x->parser.method == HTTP_CONNECT || !target_take(x))
		return x->problem.status ? false : problem_bad(x, "CONNECT is for proxies");
	return true;
}

static void describe(struct http_exchange *x)
{
	struct http_request *r = &x->request;

	r->method = llhttp_method_name((llhttp_method_t)x->parser.method);
	r->minor = x->parser.http_minor;
	r->has_body = !x->body_done;
	if (x->body_done)
		r->length = 0;
	r->keep_alive = !x->close_asked && (r->minor == 1 || x->keep_asked);
	r->peer = x->conn->peer;
	x->no_body = x->parser.method == HTTP_HEAD;
	if (!r->host)
		r->host = "";
}

enum head_result head_take(struct http_exchange *x)
{
	const size_t size = exchange_in_size(x->conn->loop);
	size_t whole;

	if (!scan(x, &whole))
		return HEAD_REFUSED;
	if (!whole)
		return HEAD_MORE;
	x->head_len = whole;
	/* its texts stay where they are from now on, and a body needs room behind it */
	if (x->start && size - x->start - whole < ROOM_FOR_BODY) {
		memmove(x->in, x->in + x->start, x->filled - x->start);
		x->filled -= x->start;
		x->start = 0;
	}
	x->pos = x->start + whole;
	if (!parse(x))
		return HEAD_REFUSED;
	end_texts(x);
	describe(x);
	return check_request(x) ? HEAD_WHOLE : HEAD_REFUSED;
}
