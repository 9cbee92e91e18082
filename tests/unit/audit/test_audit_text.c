/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of records: any bytes in, the same bytes out, and one spelling for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/text.h"
#include "base/util.h"

static char *encode(const char *s, size_t len, size_t max, size_t *cut)
{
	struct buf out = {0};
	size_t missing = audit_encode(&out, s, len, max);

	if (cut)
		*cut = missing;
	char *text = buf_steal(&out);
	assert_non_null(text);
	return text;
}

static void assert_encodes(const char *s, size_t len, const char *wanted)
{
	_cleanup_free_ char *text = encode(s, len, 1000, NULL);

	assert_string_equal(text, wanted);
}
#define ENCODES(s, wanted) assert_encodes(s, sizeof(s) - 1, wanted)

static void test_text_is_written_as_the_header_says(void **state)
{
	ENCODES("", "");
	ENCODES("/usr/bin/make -j2", "/usr/bin/make -j2");
	ENCODES("a\"b\\c", "a\\\"b\\\\c");
	ENCODES("\n\r\t\b\f", "\\n\\r\\t\\b\\f");
	ENCODES("\x1b[2J\x01\x7f", "\\u001b[2J\\u0001\\u007f");
	ENCODES("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	ENCODES("\xc2\x9b\xe2\x80\xa8\xe2\x80\xa9", "\\u009b\\u2028\\u2029");
}

static void test_bytes_that_are_no_text_are_kept(void **state)
{
	ENCODES("r\xe9sum\xe9", "r\\uefe9sum\\uefe9");
	ENCODES("a\0b", "a\\uef00b");
	ENCODES("\xc3", "\\uefc3");
	ENCODES("\xc0\xaf", "\\uefc0\\uefaf");                           /* overlong */
	ENCODES("\xed\xa0\x80", "\\uefed\\uefa0\\uef80");                /* a surrogate */
	ENCODES("\xf4\x90\x80\x80", "\\ueff4\\uef90\\uef80\\uef80");     /* above U+10FFFF */
	ENCODES("\xee\xbe\x80", "\\uefee\\uefbe\\uef80");                /* U+EF80 itself */
	ENCODES("\xee\xbc\x80", "\\uefee\\uefbc\\uef80");                /* U+EF00 itself */
	ENCODES("\xee\xbc\x81\xee\xbd\xbf", "\xee\xbc\x81\xee\xbd\xbf"); /* their neighbours */
}

static void assert_round_trip(const char *s, size_t len)
{
	_cleanup_free_ char *text = encode(s, len, SIZE_MAX, NULL);
	_cleanup_buf_ struct buf quoted = {0}, back = {0};

	buf_addf(&quoted, "%s\"", text);
	assert_int_equal(audit_check(quoted.data, quoted.len), strlen(text));
	audit_decode(&back, (struct slice){text, strlen(text)}, TEXT_BYTES);
	assert_int_equal(back.len, len);
	if (len)
		assert_memory_equal(back.data, s, len);
}

static void test_every_pair_and_many_random_strings_come_back(void **state)
{
	char s[24];

	for (unsigned i = 0; i < 65536; i++) {
		s[0] = (char)(i >> 8);
		s[1] = (char)i;
		assert_round_trip(s, 2);
	}
	srandom(1);
	for (unsigned i = 0; i < 100000; i++) {
		static const unsigned char likely[] = {0xee, 0xbe, 0xbc, 0x80, 0xbf, 0xe2, 0x80, 0xa8, 0xc2, 0x9b,
		                                       0xf0, 0x9f, '\\', '"',  0,    'u',  'e',  'f',  '8',  '0'};
		size_t len = (size_t)random() % sizeof(s);

		for (size_t k = 0; k < len; k++)
			s[k] = (char)(random() % 2 ? likely[(size_t)random() % sizeof(likely)] : random());
		assert_round_trip(s, len);
	}
}

/* What is accepted is what would have been written: a text has one spelling. */
static void test_other_spellings_are_refused(void **state)
{
	static const char *const bad[] = {
		"\\u0041\"",
		"\\u000a\"",
		"\\u0000\"",
		"\\/\"",
		"\\a\"",
		"\\u00\"",
		"\\uEFE9\"",
		"\\ud83d\\ude00\"",
		"\\ud800\"",
		"\n\"",
		"\x7f\"",
		"\xff\"",
		"\xc3\"",
		"\xc2\x9b\"",
		"\xe2\x80\xa8\"",
		"\xee\xbe\x80\"",
		"\\uefc3\\uefbc\"",
		"x\\uefe2\\uef82\\uefac\"",
		"\\",
		"\\u",
		"x",
		"",
		"\\\"",
		"\\uef01\"",
		"\\uef7f\"",
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (audit_check(bad[i], strlen(bad[i])) >= 0)
			fail_msg("accepted: %s", bad[i]);
	srandom(2);
	for (unsigned i = 0; i < 200000; i++) {
		static const char likely[] = "\\\"uef0123456789abcdefx\xc3\xbc\xee\xbe\x80";
		_cleanup_buf_ struct buf back = {0};
		char s[16];

		for (size_t k = 0; k < sizeof(s); k++)
			s[k] = likely[(size_t)random() % (sizeof(likely) - 1)];
		ptrdiff_t len = audit_check(s, sizeof(s));
		if (len < 0)
			continue;
		audit_decode(&back, (struct slice){s, (size_t)len}, TEXT_BYTES);
		_cleanup_free_ char *again = encode(back.data, back.len, SIZE_MAX, NULL);
		assert_int_equal(strlen(again), len);
		assert_memory_equal(again, s, (size_t)len);
	}
}

static void test_for_people_bytes_are_shown_in_hexadecimal(void **state)
{
	_cleanup_buf_ struct buf out = {0};

	static const char text[] = "r\\uefe9s\\n\\uef00";

	audit_decode(&out, (struct slice){text, strlen(text)}, TEXT_PEOPLE);
	assert_string_equal(out.data, "r\\xe9s\n\\x00");
	out.len = 0;
	audit_decode(&out, (struct slice){"r\\uefe9", 7}, TEXT_UNICODE);
	assert_string_equal(out.data, "r\xee\xbf\xa9");
}

static void test_what_is_cut_is_marked_counted_and_whole_characters(void **state)
{
	static const char *const texts[] = {"0123456789abcdef0123", "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac",
	                                    "\n\n\n\n\n\n\n\n\n\n\n\n", "\xff\xff\xff\xff\xff",
	                                    "ab\xc3\xbc\x01\xff\"xyz\\\xf0\x9f\x98\x80"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t len = strlen(texts[i]), cut;
		_cleanup_free_ char *whole = encode(texts[i], len, SIZE_MAX, NULL);

		for (size_t max = 8; max <= strlen(whole) + 2; max++) {
			_cleanup_free_ char *text = encode(texts[i], len, max, &cut);
			_cleanup_buf_ struct buf back = {0}, quoted = {0};

			assert_true(strlen(text) <= max);
			assert_int_equal(cut == 0, strlen(whole) <= max);
			if (!cut)
				continue;
			assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
			buf_addf(&quoted, "%s\"", text);
			assert_int_equal(audit_check(quoted.data, quoted.len), strlen(text));
			audit_decode(&back, (struct slice){text, strlen(text) - 3}, TEXT_BYTES);
			assert_int_equal(back.len, len - cut);
			if (back.len)
				assert_memory_equal(back.data, texts[i], back.len);
		}
	}
}

static void test_times_have_microseconds_and_a_range(void **state)
{
	static const struct {
		int64_t us;
		const char *text;
	} times[] = {
		{0, "1970-01-01T00:00:00.000000Z"},         {1769860800123456, "2026-01-31T12:00:00.123456Z"},
		{-1, "1969-12-31T23:59:59.999999Z"},        {INT64_MAX, "9999-12-31T23:59:59.999999Z"},
		{INT64_MIN, "0000-01-01T00:00:00.000000Z"},
	};
	char out[TEXT_TIME + 1];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		audit_time(times[i].us, out);
		assert_string_equal(out, times[i].text);
		assert_true(audit_time_valid(out));
	}
	assert_false(audit_time_valid("2026-01-31 12:00:00.123456Z"));
	assert_false(audit_time_valid("2026-01-31T12:00:00.12345xZ"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_written_as_the_header_says),
		cmocka_unit_test(test_bytes_that_are_no_text_are_kept),
		cmocka_unit_test(test_every_pair_and_many_random_strings_come_back),
		cmocka_unit_test(test_other_spellings_are_refused),
		cmocka_unit_test(test_for_people_bytes_are_shown_in_hexadecimal),
		cmocka_unit_test(test_what_is_cut_is_marked_counted_and_whole_characters),
		cmocka_unit_test(test_times_have_microseconds_and_a_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
