/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an answer, as bytes. */
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/util.h"
#include "server/http_parts.h"

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{200, "OK"},
	{201, "Created"},
	{202, "Accepted"},
	{204, "No Content"},
	{206, "Partial Content"},
	{301, "Moved Permanently"},
	{302, "Found"},
	{303, "See Other"},
	{304, "Not Modified"},
	{307, "Temporary Redirect"},
	{308, "Permanent Redirect"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{410, "Gone"},
	{411, "Length Required"},
	{412, "Precondition Failed"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"},
	{417, "Expectation Failed"},
	{422, "Unprocessable Content"},
	{423, "Locked"},
	{424, "Failed Dependency"},
	{425, "Too Early"},
	{426, "Upgrade Required"},
	{428, "Precondition Required"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{502, "Bad Gateway"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
	{505, "HTTP Version Not Supported"},
	{507, "Insufficient Storage"},
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

/* ---- what a handler may say ---------------------------------------------------------------------------------------------------- */

static bool is_name(const char *s)
{
	const char *at = s;

	for (; *at; at++)
		if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", *at))
			return false;
	return at > s;
}

static bool is_value(const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

bool compose_allowed(const struct http_answer *a)
{
	static const char *const ours[] = {"content-length", "transfer-encoding", "connection", "date",
	                                   "server",         "content-type",      "keep-alive", "upgrade"};

	if (a->status < 200 || a->status > 599 || (a->type && !is_value(a->type)))
		return false;
	for (size_t i = 0; i < a->header_count; i++) {
		if (!a->headers[i].name || !a->headers[i].value || !is_name(a->headers[i].name) || !is_value(a->headers[i].value))
			return false;
		for (size_t k = 0; k < ARRAY_SIZE(ours); k++)
			if (strcasecmp(a->headers[i].name, ours[k]) == 0)
				return false;
	}
	return true;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------------------- */

#define ADD(b, literal) buf_add(b, literal, sizeof(literal) - 1)

static void add_number(struct buf *b, uint64_t n)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	buf_add(b, at, (size_t)(digits + sizeof(digits) - at));
}

static void add_header(struct buf *b, const char *name, const char *value)
{
	buf_add_str(b, name);
	ADD(b, ": ");
	buf_add_str(b, value);
	ADD(b, "\r\n");
}

/* Made once a second. Not with strftime(), which would write the month in the language of the environment. */
static void add_date(struct http_loop *l, struct buf *b)
{
	static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	struct timespec now;
	struct tm t;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (now.tv_sec != l->date_at && gmtime_r(&now.tv_sec, &t)) {
		struct buf made = {0};
		buf_addf(&made, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday, months[t.tm_mon],
		         t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
		if (!made.failed && made.len < sizeof(l->date)) {
			memcpy(l->date, made.data, made.len + 1);
			l->date_at = now.tv_sec;
		}
		buf_free(&made);
	}
	buf_add_str(b, l->date);
}

static void add_status(struct buf *b, int status)
{
	if (status == 200) {
		ADD(b, "HTTP/1.1 200 OK\r\n");
		return;
	}
	ADD(b, "HTTP/1.1 ");
	add_number(b, (uint64_t)status);
	ADD(b, " ");
	buf_add_str(b, reason_of(status));
	ADD(b, "\r\n");
}

/* RFC 9110, 8.6: none of these has a length, nor a body. */
static void add_framing(struct http_exchange *x, struct buf *b, int status, int64_t length)
{
	if (status == 204 || status == 304)
		return;
	if (length >= 0) {
		ADD(b, "Content-Length: ");
		add_number(b, (uint64_t)length);
		ADD(b, "\r\n");
	} else if (x->request.minor == 1) {
		ADD(b, "Transfer-Encoding: chunked\r\n");
	}
}

void compose_head(struct http_exchange *x, const struct http_answer *a, int64_t length, bool gzip, bool vary)
{
	struct buf *b = &x->conn->out;

	if (!b->data)
		loop_take_buf(x->conn->loop, b);
	add_status(b, a->status);
	ADD(b, "Server: cordon\r\n");
	add_date(x->conn->loop, b);
	if (a->type)
		add_header(b, "Content-Type", a->type);
	if (gzip)
		ADD(b, "Content-Encoding: gzip\r\n");
	if (vary)
		ADD(b, "Vary: Accept-Encoding\r\n");
	add_framing(x, b, a->status, length);
	if (x->close)
		ADD(b, "Connection: close\r\n");
	else if (x->request.minor == 0)
		ADD(b, "Connection: keep-alive\r\n");
	for (size_t i = 0; i < a->header_count; i++)
		add_header(b, a->headers[i].name, a->headers[i].value);
	ADD(b, "\r\n");
}
