/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/util.h"

/* ---- err ---- */

static void test_error_set_fills_code_and_message_and_clears_the_rest(void **state)
{
	struct cordon_error err = {.sys_errno = 5, .hint = "old"};

	assert_int_equal(err_set(&err, CORDON_ERR_INPUT, "bad %s %d", "thing", 7), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_string_equal(err.message, "bad thing 7");
	assert_string_equal(err.hint, "");
	assert_int_equal(err.sys_errno, 0);
}

static void test_error_sys_keeps_errno_and_appends_its_text(void **state)
{
	struct cordon_error err = {0};

	errno = EROFS;
	assert_int_equal(err_sys(&err, "rename %s", "a.c"), -1);
	assert_int_equal(err.code, CORDON_ERR_SYSTEM);
	assert_int_equal(err.sys_errno, EROFS);
	assert_int_equal(errno, EROFS);
	assert_string_equal(err.message, "rename a.c: Read-only file system");
}

static void test_error_wrap_puts_context_in_front_and_keeps_code_and_hint(void **state)
{
	struct cordon_error err = {0};

	err_set(&err, CORDON_ERR_DENIED, "inner");
	err_hint(&err, "try %s", "this");
	assert_int_equal(err_wrap(&err, "cannot commit %s", "/srv/x"), -1);
	assert_string_equal(err.message, "cannot commit /srv/x: inner");
	assert_string_equal(err.hint, "try this");
	assert_int_equal(err.code, CORDON_ERR_DENIED);
}

static void test_error_arguments_may_point_into_the_error_itself(void **state)
{
	struct cordon_error err = {0};

	err_set(&err, CORDON_ERR_INPUT, "first");
	err_set(&err, CORDON_ERR_INPUT, "again %s", err.message);
	assert_string_equal(err.message, "again first");
	err_wrap(&err, "in %s", err.message);
	assert_string_equal(err.message, "in again first: again first");
}

static void test_error_null_is_allowed_everywhere(void **state)
{
	assert_int_equal(err_set(NULL, CORDON_ERR_INPUT, "x"), -1);
	assert_int_equal(err_sys(NULL, "x"), -1);
	assert_int_equal(err_wrap(NULL, "x"), -1);
	assert_int_equal(err_hint(NULL, "x"), -1);
}

static void test_error_text_stays_on_one_line_without_control_characters(void **state)
{
	struct cordon_error err = {0};

	err_set(&err, CORDON_ERR_INPUT, "'%s'", "a\nb\033[2Jc\x7f");
	assert_string_equal(err.message, "'a?b?[2Jc?'");
}

static void test_error_that_is_too_long_is_cut_with_a_mark_between_characters(void **state)
{
	struct cordon_error err = {0};
	char text[2000];

	for (size_t i = 0; i < sizeof(text) - 1; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[sizeof(text) - 2] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		size_t len;

		err_set(&err, CORDON_ERR_INPUT, "%s%s", shift ? "x" : "", text);
		len = strlen(err.message);
		assert_in_range(len, sizeof(err.message) - 3, sizeof(err.message) - 1);
		assert_string_equal(err.message + len - 3, "...");
		assert_true(utf8_valid(err.message, len));
	}
}

static void test_error_cause_survives_a_long_context(void **state)
{
	struct cordon_error err = {0};
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	errno = ENOENT;
	err_sys(&err, "%s", text);
	assert_non_null(strstr(err.message, "...: No such file or directory"));
	err_set(&err, CORDON_ERR_INPUT, "cause");
	err_wrap(&err, "%s", text);
	assert_non_null(strstr(err.message, "...: cause"));
}

/* ---- buf ---- */

static void test_buffer_grows_and_stays_terminated(void **state)
{
	_cleanup_buf_ struct buf b = {0};

	for (int i = 0; i < 1000; i++) {
		buf_addf(&b, "%03d", i);
		assert_int_equal(b.data[b.len], '\0');
	}
	buf_add(&b, "a\0b", 3);
	buf_add_str(&b, "!");
	assert_false(b.failed);
	assert_int_equal(b.len, 3004);
	assert_memory_equal(b.data, "000001002", 9);
	assert_memory_equal(b.data + 3000, "a\0b!", 5);
}

static void test_buffer_takes_exactly_its_cap_and_not_one_byte_more(void **state)
{
	_cleanup_buf_ struct buf b = {.cap = 4};

	buf_add_str(&b, "abcd");
	assert_false(b.failed);
	buf_add(&b, "", 0);
	assert_false(b.failed);
	buf_add_str(&b, "e");
	assert_true(b.failed);
	assert_string_equal(b.data, "abcd");
}

static void test_buffer_ignores_appends_after_a_failure(void **state)
{
	_cleanup_buf_ struct buf b = {.cap = 4};

	buf_add_str(&b, "ab");
	buf_addf(&b, "%s", "cde");
	assert_true(b.failed);
	buf_add_str(&b, "c");
	assert_null(buf_reserve(&b, 1));
	assert_string_equal(b.data, "ab");
	assert_null(buf_steal(&b));
	assert_true(b.failed);
	assert_null(b.data);
}

static void test_buffer_refuses_lengths_that_would_overflow(void **state)
{
	_cleanup_buf_ struct buf b = {.cap = SIZE_MAX};

	buf_add_str(&b, "x");
	assert_null(buf_reserve(&b, SIZE_MAX));
	assert_true(b.failed);
}

static void test_buffer_default_cap_is_applied(void **state)
{
	_cleanup_buf_ struct buf b = {0};

	assert_null(buf_reserve(&b, BUF_CAP + 1));
	assert_true(b.failed);
}

static void test_buffer_reserve_leaves_a_terminated_buffer_wherever_the_caller_stops(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	char *room;

	buf_add_str(&b, "1234567890");
	b.len = 2;
	room = buf_reserve(&b, 100);
	assert_non_null(room);
	memcpy(room, "xy", 2);
	b.len += 2;
	assert_string_equal(b.data, "12xy");
	room = buf_reserve(&b, 5);
	memcpy(room, "54321", 5);
	b.len += 5;
	assert_string_equal(b.data, "12xy54321");
	b.len = 2;
	room = buf_reserve(&b, 3);
	memcpy(room, "abc", 3);
	b.len += 3;
	assert_string_equal(b.data, "12abc");
}

static void test_buffer_steal_hands_over_and_empties(void **state)
{
	struct buf b = {.cap = 10};
	_cleanup_free_ char *empty = buf_steal(&b);
	_cleanup_free_ char *full = NULL;

	assert_string_equal(empty, "");
	buf_add_str(&b, "full");
	full = buf_steal(&b);
	assert_string_equal(full, "full");
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.cap, 10);
}

/* ---- json ---- */

static void test_json_nests_objects_and_arrays_with_commas(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_object(&j);
	json_kint(&j, "n", INT64_MIN);
	json_kbool(&j, "t", true);
	json_kstr(&j, "none", NULL);
	json_key(&j, "list");
	json_array(&j);
	json_int(&j, 1);
	json_object(&j);
	json_end(&j);
	json_array(&j);
	json_end(&j);
	json_bool(&j, false);
	json_null(&j);
	json_end(&j);
	json_kdouble(&j, "d", 0.5);
	json_end(&j);
	assert_false(b.failed);
	assert_string_equal(b.data, "{\"n\":-9223372036854775808,\"t\":true,\"none\":null,\"list\":[1,{},[],false,null],\"d\":0.5}");
}

static void test_json_of_a_path_that_is_not_utf8_has_its_bytes_too(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_array(&j);
	for (size_t i = 0; i < 3; i++) {
		json_object(&j);
		json_kpath(&j, (const char *[]){"caf\xc3\xa9",
		                                "\xff"
		                                "a",
		                                NULL}[i]);
		json_end(&j);
	}
	json_end(&j);
	assert_string_equal(b.data, "[{\"path\":\"caf\xc3\xa9\"},{\"path\":\"\xef\xbf\xbd"
	                            "a\",\"path_base64\":\"/2E=\"},{\"path\":null}]");
}

static char *json_of_str(const char *s)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_str(&j, s);
	return buf_steal(&b);
}

static void test_json_strings_are_escaped_and_bad_bytes_replaced(void **state)
{
	static const char *const cases[][2] = {
		{"", "\"\""},
		{"plain", "\"plain\""},
		{"a\"b\\c\n\r\t\b\f", "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\""},
		{"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"a\xff z", "\"a\xef\xbf\xbd z\""},
		{"cut \xe2\x82", "\"cut \xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xc3\"", "\"\xef\xbf\xbd\\\"\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = json_of_str(cases[i][0]);

		assert_string_equal(got, cases[i][1]);
	}
}

static void test_json_doubles_have_three_decimals_at_most(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1, "1"},
		{1.5, "1.5"},
		{0.25, "0.25"},
		{12.3456, "12.346"},
		{-2.05, "-2.05"},
		{-0.0001, "0"},
		{0.9999, "1"},
		{1e15, "1000000000000000"},
		{-1e18, "-1000000000000000000"},
		{NAN, "null"},
		{INFINITY, "null"},
		{-INFINITY, "null"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct json j = {.out = &b};

		json_double(&j, cases[i].v);
		assert_string_equal(b.data, cases[i].text);
	}
}

static void check_bytes(const void *data, size_t len, const char *encoding, const char *text)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	assert_string_equal(json_bytes(&j, data, len), encoding);
	assert_string_equal(b.data, text);
}

static void test_json_bytes_are_text_if_they_can_be_and_base64_otherwise(void **state)
{
	check_bytes(NULL, 0, "utf-8", "\"\"");
	check_bytes("hi\n", 3, "utf-8", "\"hi\\n\"");
	check_bytes("a\0b", 3, "base64", "\"YQBi\"");
	check_bytes("\xff", 1, "base64", "\"/w==\"");
	check_bytes("\xff\xfe", 2, "base64", "\"//4=\"");
	check_bytes("\xff\xfe\xfd\xfb", 4, "base64", "\"//79+w==\"");
}

static void test_json_misuse_fails_the_buffer(void **state)
{
	static const char *const kinds[] = {"value without key", "key in array", "two keys", "end after key", "end of nothing", "too deep"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct json j = {.out = &b};

		switch (i) {
		case 0:
			json_object(&j);
			json_int(&j, 1);
			break;
		case 1:
			json_array(&j);
			json_key(&j, "k");
			break;
		case 2:
			json_object(&j);
			json_key(&j, "k");
			json_key(&j, "k");
			break;
		case 3:
			json_object(&j);
			json_key(&j, "k");
			json_end(&j);
			break;
		case 4:
			json_end(&j);
			break;
		default:
			for (int depth = 0; depth < JSON_DEPTH; depth++)
				json_array(&j);
			assert_false(b.failed);
			json_array(&j);
		}
		assert_true(b.failed);
		json_end(&j);
		json_str(&j, "ignored");
	}
}

static void test_utf8_refuses_overlong_surrogate_and_out_of_range_forms(void **state)
{
	static const char *const good[] = {
		"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\x80",
	                                  "\xc0\x80",
	                                  "\xc1\xbf",
	                                  "\xc2",
	                                  "\xc2\xc0",
	                                  "\xe0\x9f\xbf",
	                                  "\xed\xa0\x80",
	                                  "\xe2\x82",
	                                  "\xe2\x82\x41",
	                                  "\xf0\x8f\xbf\xbf",
	                                  "\xf4\x90\x80\x80",
	                                  "\xf5\x80\x80\x80",
	                                  "\xf0\x90\x80",
	                                  "\xff"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(utf8_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(utf8_valid(bad[i], strlen(bad[i])));
	assert_true(utf8_valid("a\0b", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_error_set_fills_code_and_message_and_clears_the_rest),
		cmocka_unit_test(test_error_sys_keeps_errno_and_appends_its_text),
		cmocka_unit_test(test_error_wrap_puts_context_in_front_and_keeps_code_and_hint),
		cmocka_unit_test(test_error_arguments_may_point_into_the_error_itself),
		cmocka_unit_test(test_error_null_is_allowed_everywhere),
		cmocka_unit_test(test_error_text_stays_on_one_line_without_control_characters),
		cmocka_unit_test(test_error_that_is_too_long_is_cut_with_a_mark_between_characters),
		cmocka_unit_test(test_error_cause_survives_a_long_context),
		cmocka_unit_test(test_buffer_grows_and_stays_terminated),
		cmocka_unit_test(test_buffer_takes_exactly_its_cap_and_not_one_byte_more),
		cmocka_unit_test(test_buffer_ignores_appends_after_a_failure),
		cmocka_unit_test(test_buffer_refuses_lengths_that_would_overflow),
		cmocka_unit_test(test_buffer_default_cap_is_applied),
		cmocka_unit_test(test_buffer_reserve_leaves_a_terminated_buffer_wherever_the_caller_stops),
		cmocka_unit_test(test_buffer_steal_hands_over_and_empties),
		cmocka_unit_test(test_json_nests_objects_and_arrays_with_commas),
		cmocka_unit_test(test_json_of_a_path_that_is_not_utf8_has_its_bytes_too),
		cmocka_unit_test(test_json_strings_are_escaped_and_bad_bytes_replaced),
		cmocka_unit_test(test_json_doubles_have_three_decimals_at_most),
		cmocka_unit_test(test_json_bytes_are_text_if_they_can_be_and_base64_otherwise),
		cmocka_unit_test(test_json_misuse_fails_the_buffer),
		cmocka_unit_test(test_utf8_refuses_overlong_surrogate_and_out_of_range_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
