/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A value where a key belongs, one level too many: the caller's mistake. It must not become JSON that looks right. */
static bool misused(struct json *j)
{
	j->out->failed = true;
	return false;
}

static void comma(struct json *j)
{
	if (j->has_items[j->depth - 1])
		buf_add(j->out, ",", 1);
	j->has_items[j->depth - 1] = true;
}

static bool begin_value(struct json *j)
{
	if (j->out->failed)
		return false;
	if (j->after_key) {
		j->after_key = false;
		return true;
	}
	if (j->depth == 0)
		return true;
	if (!j->in_array[j->depth - 1])
		return misused(j);
	comma(j);
	return true;
}

static void open_level(struct json *j, bool array)
{
	if (!begin_value(j))
		return;
	if (j->depth == JSON_DEPTH) {
		misused(j);
		return;
	}
	buf_add(j->out, array ? "[" : "{", 1);
	j->in_array[j->depth] = array;
	j->has_items[j->depth] = false;
	j->depth++;
}

void json_object(struct json *j)
{
	open_level(j, false);
}

void json_array(struct json *j)
{
	open_level(j, true);
}

void json_end(struct json *j)
{
	if (j->out->failed)
		return;
	if (j->depth == 0 || j->after_key) {
		misused(j);
		return;
	}
	j->depth--;
	buf_add(j->out, j->in_array[j->depth] ? "]" : "}", 1);
}

static bool between(unsigned char c, unsigned char from, unsigned char to)
{
	return c >= from && c <= to;
}

/* The bytes of the character that starts at s, 0 if there is no valid one (RFC 3629: no overlong forms, surrogates or > U+10FFFF). */
static size_t utf8_length(const unsigned char *s, size_t left)
{
	unsigned char from = 0x80, to = 0xbf;
	size_t length;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		length = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		length = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		from = 0xa0;
	else if (s[0] == 0xed)
		to = 0x9f;
	else if (s[0] == 0xf0)
		from = 0x90;
	else if (s[0] == 0xf4)
		to = 0x8f;
	if (left < length || !between(s[1], from, to))
		return 0;
	for (size_t i = 2; i < length; i++)
		if (!between(s[i], 0x80, 0xbf))
			return 0;
	return length;
}

bool utf8_valid(const void *data, size_t len)
{
	const unsigned char *s = data;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_length(s + i, len - i);
		if (n == 0)
			return false;
	}
	return true;
}

static void add_escape(struct buf *b, unsigned char c)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf", hex[] = "0123456789abcdef";
	const char *short_form = c ? strchr(from, c) : NULL;

	if (c >= 0x80)
		buf_add_str(b, "\xef\xbf\xbd"); /* U+FFFD */
	else if (short_form)
		buf_add(b, (const char[]){'\\', to[short_form - from]}, 2);
	else
		buf_add(b, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

/* How many bytes at s can go out as they are; 0 if the first one needs an escape. DEL is legal JSON, but not for terminals. */
static size_t plain_length(const unsigned char *s, size_t left)
{
	if (s[0] < 0x20 || s[0] == '"' || s[0] == '\\' || s[0] == 0x7f)
		return 0;
	return utf8_length(s, left);
}

static void add_quoted(struct buf *b, const void *data, size_t len)
{
	const unsigned char *s = data;
	size_t start = 0, i = 0;

	buf_add(b, "\"", 1);
	while (i < len) {
		size_t n = plain_length(s + i, len - i);

		if (n > 0) {
			i += n;
			continue;
		}
		buf_add(b, s + start, i - start);
		add_escape(b, s[i]);
		start = ++i;
	}
	if (len > 0)
		buf_add(b, s + start, len - start);
	buf_add(b, "\"", 1);
}

void json_key(struct json *j, const char *key)
{
	if (j->out->failed)
		return;
	if (j->depth == 0 || j->in_array[j->depth - 1] || j->after_key) {
		misused(j);
		return;
	}
	comma(j);
	add_quoted(j->out, key, strlen(key));
	buf_add(j->out, ":", 1);
	j->after_key = true;
}

void json_int(struct json *j, int64_t v)
{
	if (begin_value(j))
		buf_addf(j->out, "%" PRId64, v);
}

/* Without "%f", because printf writes the decimal point of the caller's locale. */
static void add_thousandths(struct buf *b, uint64_t n)
{
	unsigned rest = (unsigned)(n % 1000);

	buf_addf(b, "%" PRIu64, n / 1000);
	if (rest == 0)
		return;
	if (rest % 100 == 0)
		buf_addf(b, ".%u", rest / 100);
	else if (rest % 10 == 0)
		buf_addf(b, ".%02u", rest / 10);
	else
		buf_addf(b, ".%03u", rest);
}

void json_double(struct json *j, double v)
{
	double size = v < 0 ? -v : v;
	uint64_t n;

	if (!begin_value(j))
		return;
	if (!isfinite(v)) {
		buf_add_str(j->out, "null");
		return;
	}
	if (size >= 1e15) { /* doubles of this size have no thousandths, and times 1000 would overflow */
		buf_addf(j->out, "%.0f", v);
		return;
	}
	n = (uint64_t)(size * 1000 + 0.5);
	if (v < 0 && n > 0)
		buf_add(j->out, "-", 1);
	add_thousandths(j->out, n);
}

void json_bool(struct json *j, bool v)
{
	if (begin_value(j))
		buf_add_str(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	if (begin_value(j))
		buf_add_str(j->out, "null");
}

void json_str(struct json *j, const char *s)
{
	if (!s)
		json_null(j);
	else if (begin_value(j))
		add_quoted(j->out, s, strlen(s));
}

static void add_base64(struct buf *b, const unsigned char *s, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t total = (len + 2) / 3 * 4;
	char *out = buf_reserve(b, total);

	if (!out)
		return;
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t group = (uint32_t)s[i] << 16 | (left > 1 ? (uint32_t)s[i + 1] << 8 : 0) | (left > 2 ? s[i + 2] : 0);

		*out++ = digits[group >> 18];
		*out++ = digits[group >> 12 & 63];
		*out++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*out++ = left > 2 ? digits[group & 63] : '=';
	}
	b->len += total;
}

const char *json_bytes(struct json *j, const void *data, size_t len)
{
	/* U+0000 is legal in JSON, but many readers end or refuse the string there: such data counts as binary. */
	bool text = len == 0 || (!memchr(data, '\0', len) && utf8_valid(data, len));

	if (begin_value(j)) {
		if (text) {
			add_quoted(j->out, data, len);
		} else {
			buf_add(j->out, "\"", 1);
			add_base64(j->out, data, len);
			buf_add(j->out, "\"", 1);
		}
	}
	return text ? "utf-8" : "base64";
}

void json_kint(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_int(j, v);
}

void json_kdouble(struct json *j, const char *key, double v)
{
	json_key(j, key);
	json_double(j, v);
}

void json_kbool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_kstr(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_kpath(struct json *j, const char *path)
{
	json_kstr(j, "path", path);
	if (path && !utf8_valid(path, strlen(path))) {
		json_key(j, "path_base64");
		json_bytes(j, path, strlen(path));
	}
}
