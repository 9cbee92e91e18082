/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/util.h"

#define BYTE_BASE 0xef00u /* the character that stands for a byte */

/* ---- characters -------------------------------------------------------------------------------------------------------------- */

/* The length of the character at s, 0 if there is none (RFC 3629: no overlong forms, surrogates or > U+10FFFF). */
static size_t utf8_next(const unsigned char *s, size_t left, uint32_t *c)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} forms[] = {{0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		size_t len = form + 2;

		if ((s[0] & forms[form].mask) != forms[form].lead)
			continue;
		if (left < len)
			return 0;
		*c = s[0] & (unsigned char)~forms[form].mask;
		for (size_t i = 1; i < len; i++) {
			if ((s[i] & 0xc0) != 0x80)
				return 0;
			*c = *c << 6 | (s[i] & 0x3f);
		}
		return *c < forms[form].least || *c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff) ? 0 : len;
	}
	return 0;
}

static void utf8_add(struct buf *out, uint32_t c)
{
	if (c < 0x80)
		buf_add(out, (const char[]){(char)c}, 1);
	else if (c < 0x800)
		buf_add(out, (const char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, 2);
	else /* escapes have four digits: there is nothing above U+FFFF */
		buf_add(out, (const char[]){(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)), (char)(0x80 | (c & 0x3f))}, 3);
}

static bool stands_for_byte(uint32_t c)
{
	return c == BYTE_BASE || (c >= BYTE_BASE + 0x80 && c <= BYTE_BASE + 0xff);
}

/* Characters beyond ASCII that are escaped nevertheless. */
static bool is_odd(uint32_t c)
{
	return (c >= 0x80 && c <= 0x9f) || c == 0x2028 || c == 0x2029;
}

static const char short_from[] = "\"\\\n\r\t\b\f", short_to[] = "\"\\nrtbf", hex[] = "0123456789abcdef";

/* ---- encoding ---------------------------------------------------------------------------------------------------------------- */

/* ASCII that goes out as it is. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static size_t escape(char out[6], uint32_t c)
{
	const char *short_form = c && c < 0x80 ? strchr(short_from, (int)c) : NULL;

	if (short_form) {
		out[0] = '\\';
		out[1] = short_to[short_form - short_from];
		return 2;
	}
	memcpy(out, (const char[]){'\\', 'u', hex[c >> 12 & 15], hex[c >> 8 & 15], hex[c >> 4 & 15], hex[c & 15]}, 6);
	return 6;
}

/* One step: how many bytes at s are taken, and what they become. */
static size_t encode_next(const unsigned char *s, size_t left, char out[6], size_t *out_len)
{
	uint32_t c = s[0];
	size_t len = 1;

	if (c >= 0x80) {
		len = utf8_next(s, left, &c);
		if (len == 0 || stands_for_byte(c)) {
			c = BYTE_BASE + s[0];
			len = 1;
		} else if (!is_odd(c)) {
			memcpy(out, s, len);
			*out_len = len;
			return len;
		}
	} else if (c == 0) {
		c = BYTE_BASE;
	}
	*out_len = escape(out, c);
	return len;
}

/* As much of it as fits into max bytes; returns how much that is. */
static size_t encode_most(struct buf *out, const unsigned char *s, size_t len, size_t max)
{
	size_t i = 0;

	while (i < len) {
		char code[6];
		size_t n = 0, take;

		while (n < max && i + n < len && is_plain(s[i + n]))
			n++;
		if (n) {
			buf_add(out, s + i, n);
			take = n;
		} else {
			take = encode_next(s + i, len - i, code, &n);
			if (n > max)
				break;
			buf_add(out, code, n);
		}
		i += take;
		max -= n;
	}
	return i;
}

size_t audit_encode(struct buf *out, const char *s, size_t len, size_t max)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t begin = out->len;

	if (encode_most(out, p, len, max) == len)
		return 0;
	if (!out->failed)
		out->len = begin;
	size_t kept = encode_most(out, p, len, max - strlen(AUDIT_CUT_MARK));
	buf_add_str(out, AUDIT_CUT_MARK);
	return len - kept;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------------------- */

/* The character behind "\u"; -1 if it is none that audit_encode() writes so. */
static int32_t escaped_char(const char *digits, size_t left)
{
	uint32_t c = 0;

	if (left < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		const char *digit = digits[i] ? strchr(hex, digits[i]) : NULL;

		if (!digit)
			return -1;
		c = c << 4 | (uint32_t)(digit - hex);
	}
	if ((c > 0 && c < 0x20 && !strchr(short_from, (int)c)) || c == 0x7f || is_odd(c) || stands_for_byte(c))
		return (int32_t)c;
	return -1;
}

/* The length of the escape at s, 0 if there is none that audit_encode() writes; and what it stands for. */
static size_t unescape(const char *s, size_t left, uint32_t *c)
{
	const char *letter = left >= 2 && s[1] ? strchr(short_to, s[1]) : NULL;
	int32_t wide;

	if (letter) {
		*c = (unsigned char)short_from[letter - short_to];
		return 2;
	}
	if (left < 6 || s[1] != 'u' || (wide = escaped_char(s + 2, left - 2)) < 0)
		return 0;
	*c = (uint32_t)wide;
	return 6;
}

/* Bytes that stand for themselves, or 0. */
static size_t check_raw(const unsigned char *s, size_t left)
{
	uint32_t c;

	if (s[0] < 0x80)
		return is_plain(s[0]);
	size_t n = utf8_next(s, left, &c);
	return n && (is_odd(c) || stands_for_byte(c)) ? 0 : n;
}

/*
 * Bytes that \uefxx stand for must not be UTF-8 together: audit_encode() would have written the character itself. `run` holds what
 * came so far.
 */
struct byte_run {
	unsigned char bytes[4];
	size_t count;
};

/* Adds a byte; false if one of the characters that end with it is one that would have been written as it is. */
static bool run_add(struct byte_run *run, unsigned char byte)
{
	uint32_t c;

	if (run->count == sizeof(run->bytes))
		memmove(run->bytes, run->bytes + 1, --run->count);
	run->bytes[run->count++] = byte;
	for (size_t from = 0; from + 1 < run->count; from++)
		if (utf8_next(run->bytes + from, run->count - from, &c) == run->count - from && !stands_for_byte(c))
			return false;
	return true;
}

ptrdiff_t audit_check(const char *s, size_t len)
{
	struct byte_run run = {.count = 0};

	for (size_t i = 0, n; i < len; i += n) {
		uint32_t c = 0;

		if (is_plain((unsigned char)s[i])) { /* nearly all */
			run.count = 0;
			n = 1;
			continue;
		}
		if (s[i] == '"')
			return (ptrdiff_t)i;
		n = s[i] == '\\' ? unescape(s + i, len - i, &c) : check_raw((const unsigned char *)s + i, len - i);
		if (n == 0)
			return -1;
		if (!stands_for_byte(c))
			run.count = 0;
		else if (!run_add(&run, (unsigned char)(c - BYTE_BASE)))
			return -1;
	}
	return -1;
}

void audit_decode(struct buf *out, struct slice s, enum text_form form)
{
	for (size_t i = 0, n; i < s.len; i += n) {
		const char *stop = memchr(s.at + i, '\\', s.len - i);
		uint32_t c = 0;

		n = stop ? (size_t)(stop - s.at) - i : s.len - i;
		if (n) {
			buf_add(out, s.at + i, n);
			continue;
		}
		n = unescape(s.at + i, s.len - i, &c);
		if (n == 0) { /* not one of ours: as it is */
			buf_add(out, s.at + i, 1);
			n = 1;
		} else if (stands_for_byte(c) && form == TEXT_BYTES) {
			buf_add(out, (const char[]){(char)(c - BYTE_BASE)}, 1);
		} else if (stands_for_byte(c) && form == TEXT_PEOPLE) {
			buf_addf(out, "\\x%02x", c - BYTE_BASE);
		} else {
			utf8_add(out, c);
		}
	}
}

/* ---- time -------------------------------------------------------------------------------------------------------------------- */

#define YEAR_0 (-62167219200LL) /* seconds since 1970 */
#define YEAR_10000 253402300800LL

static void digits(char *out, unsigned value, size_t count)
{
	while (count--) {
		out[count] = (char)('0' + value % 10);
		value /= 10;
	}
}

void audit_time(int64_t us, char out[TEXT_TIME + 1])
{
	int64_t seconds = us / 1000000, rest = us % 1000000;
	struct tm tm = {0};

	if (rest < 0) {
		rest += 1000000;
		seconds--;
	}
	if (seconds < YEAR_0 || seconds >= YEAR_10000) {
		rest = seconds < 0 ? 0 : 999999;
		seconds = seconds < 0 ? YEAR_0 : YEAR_10000 - 1;
	}
	gmtime_r(&(time_t){(time_t)seconds}, &tm);
	memcpy(out, "0000-00-00T00:00:00.000000Z", TEXT_TIME + 1);
	digits(out, (unsigned)(tm.tm_year + 1900), 4);
	digits(out + 5, (unsigned)(tm.tm_mon + 1), 2);
	digits(out + 8, (unsigned)tm.tm_mday, 2);
	digits(out + 11, (unsigned)tm.tm_hour, 2);
	digits(out + 14, (unsigned)tm.tm_min, 2);
	digits(out + 17, (unsigned)tm.tm_sec, 2);
	digits(out + 20, (unsigned)rest, 6);
}

bool audit_time_valid(const char *s)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";

	for (size_t i = 0; i < TEXT_TIME; i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
			return false;
	return true;
}
