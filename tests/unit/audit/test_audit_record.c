/* SPDX-License-Identifier: Apache-2.0 */
/* Records: their exact form, what is cut, what is redacted, and that the scanner accepts these and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/csv.h"
#include "audit/record.h"
#include "audit/scan.h"
#include "base/sha256.h"
#include "base/util.h"

#define NOON 1769860800000000 /* 2026-01-31T12:00:00Z */

/* The line of an event as the first of a chain, without line feed. */
static char *line_of(const struct audit_event *e, const struct redactor *r)
{
	struct chain_head head = {.hash = AUDIT_NO_HASH};
	_cleanup_buf_ struct buf body = {0};
	struct buf line = {0};
	struct cordon_error err = {0};

	if (audit_body(&body, e, r, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(body.len <= RECORD_BODY_MAX);
	audit_chain(&line, &head, body.data, body.len);
	assert_int_equal(head.seq, 1);
	char *s = buf_steal(&line);
	assert_non_null(s);
	assert_int_equal(s[strlen(s) - 1], '\n');
	s[strlen(s) - 1] = '\0';
	return s;
}

static void scan(const char *line, struct audit_line *l)
{
	const char *why = audit_scan(line, strlen(line), l);

	if (why)
		fail_msg("%s: %s", why, line);
	assert_true(audit_line_intact(l));
}

static void test_the_form_is_exactly_that_of_the_header(void **state)
{
	const struct audit_event e = {.level = AUDIT_WARNING,
	                              .category = AUDIT_NETWORK,
	                              .allowed = AUDIT_DENIED,
	                              .tenant = "acme",
	                              .sandbox = "abc",
	                              .exec = "def",
	                              .action = "connect",
	                              .target = "evil.example:443",
	                              .rule = "network.outbound",
	                              .detail = (const struct audit_field[]){AUDIT_INT("n", -1), AUDIT_END},
	                              .time_us = NOON};
	_cleanup_free_ char *line = line_of(&e, NULL);
	static const char record[] =
		"{\"seq\":1,\"ts\":\"2026-01-31T12:00:00.000000Z\",\"tenant\":\"acme\",\"sandbox\":\"abc\",\"exec\":\"def\",\"level\":\"warning\","
		"\"category\":\"network\",\"action\":\"connect\",\"target\":\"evil.example:443\",\"allowed\":false,\"rule\":\"network.outbound\","
		"\"detail\":{\"n\":-1}";
	unsigned char digest[SHA256_SIZE];
	char hash[SHA256_HEX], wanted[2000];
	struct sha256 s;

	sha256_begin(&s);
	sha256_add(&s, AUDIT_NO_HASH, 64);
	sha256_add(&s, record, sizeof(record) - 1);
	sha256_add(&s, "}", 1);
	sha256_end(&s, digest);
	sha256_hex(digest, hash);
	snprintf(wanted, sizeof(wanted), "%s,\"prev\":\"" AUDIT_NO_HASH "\",\"hash\":\"%s\"}", record, hash);
	assert_string_equal(line, wanted);
	assert_int_equal(strlen(wanted) - strlen(record), AUDIT_TAIL);
}

static void test_what_is_not_known_is_null(void **state)
{
	_cleanup_free_ char *line =
		line_of(&(struct audit_event){.level = AUDIT_INFO, .category = AUDIT_SYSTEM, .action = "x", .time_us = NOON}, NULL);
	struct audit_line l;

	assert_non_null(strstr(
		line,
		"\"tenant\":null,\"sandbox\":null,\"exec\":null,\"level\":\"info\",\"category\":\"system\",\"action\":\"x\",\"target\":null,"
		"\"allowed\":null,\"rule\":null,\"detail\":null,\"prev\""));
	scan(line, &l);
	assert_null(l.tenant.at);
	assert_null(l.target.at);
	assert_null(l.detail.at);
	assert_int_equal(l.allowed, AUDIT_NEITHER);
}

static void test_detail_holds_every_type(void **state)
{
	const struct audit_field inner[] = {AUDIT_TEXT("a", "x\ny"), AUDIT_END}, empty[] = {AUDIT_END};
	const struct audit_field *const objects[] = {inner, empty, NULL};
	const char *const texts[] = {"one", "", "\xff", NULL};
	const struct audit_field detail[] = {
		AUDIT_NULL("null"),           AUDIT_BOOL("yes", true),       AUDIT_INT("int", INT64_MIN),       AUDIT_REAL("real", -1.0625),
		AUDIT_REAL("nan", 0.0 / 0.0), AUDIT_TEXT("text", "t"),       AUDIT_TEXT("none", NULL),          AUDIT_TEXTS("texts", texts),
		AUDIT_TEXTS("nothing", NULL), AUDIT_OBJECT("object", inner), AUDIT_OBJECTS("objects", objects), AUDIT_END};
	_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .detail = detail}, NULL);
	struct audit_line l;

	scan(line, &l);
	assert_non_null(strstr(
		line,
		"\"detail\":{\"null\":null,\"yes\":true,\"int\":-9223372036854775808,\"real\":-1.063,\"nan\":null,\"text\":\"t\",\"none\":null,"
		"\"texts\":[\"one\",\"\",\"\\uefff\"],\"nothing\":[],\"object\":{\"a\":\"x\\ny\"},\"objects\":[{\"a\":\"x\\ny\"},{}]},\"prev\""));
}

static void test_bad_events_are_refused(void **state)
{
	static const char *const actions[] = {
		NULL, "", "Start", "1st", "two words", "a\"b", "x\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	struct cordon_error err;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		_cleanup_buf_ struct buf body = {0};

		err = (struct cordon_error){0};
		assert_int_equal(audit_body(&body, &(struct audit_event){.action = actions[i]}, NULL, &err), -1);
		assert_int_equal(err.code, CORDON_ERR_INPUT);
	}
	const struct audit_event odd[] = {{.action = "x", .level = AUDIT_LEVEL_COUNT},
	                                  {.action = "x", .category = AUDIT_CATEGORY_COUNT},
	                                  {.action = "x", .allowed = AUDIT_ALLOWED_COUNT}};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		_cleanup_buf_ struct buf body = {0};

		assert_int_equal(audit_body(&body, &odd[i], NULL, &err), -1);
	}
}

static void test_secrets_never_get_into_a_record(void **state)
{
	const char *const argv[] = {"curl", "-u", "me:hunter2", "--token", "hunter2", "https://u:hunter2@x.example/?api_key=hunter2", NULL};
	const char *const env[] = {"DB_PASSWORD=hunter2 and more", "PATH=/bin", NULL};
	const struct audit_field detail[] = {AUDIT_ARGV("argv", argv),
	                                     AUDIT_ENV("env", env),
	                                     AUDIT_TEXT("password", "hunter2"),
	                                     AUDIT_TEXT("line", "X_TOKEN=hunter2 run"),
	                                     AUDIT_INT("api_key", 4711),
	                                     AUDIT_TEXT("note", "the known one"),
	                                     AUDIT_END};
	const struct redactor r = {.values = (const char *const[]){"known one", NULL}};
	_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .target = "mysql -phunter2", .detail = detail}, &r);

	assert_null(strstr(line, "hunter2"));
	assert_null(strstr(line, "4711"));
	assert_null(strstr(line, "known one"));
	assert_non_null(strstr(line, "\"target\":\"mysql -p[redacted]\""));
	assert_non_null(strstr(line, "\"env\":[\"DB_PASSWORD=[redacted]\",\"PATH=/bin\"]"));
	assert_non_null(strstr(line, "\"password\":\"[redacted]\""));
}

/* A token whose end would be cut off is found nevertheless. */
static void test_redaction_comes_before_cutting(void **state)
{
	_cleanup_buf_ struct buf text = {0};
	struct audit_line l;

	for (int i = 0; i < 16370; i++)
		buf_add(&text, ".", 1);
	buf_add_str(&text, " ghp_a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8 ");
	for (int i = 0; i < 1000; i++)
		buf_add(&text, ".", 1);
	_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .target = text.data}, NULL);
	scan(line, &l);
	assert_null(strstr(line, "ghp_"));
	assert_non_null(strstr(line, "\"detail\":{\"cut\":"));
}

/* A long text is not looked at to its end; a token that lies where the look ends does not come through by halves, however much was redacted before it. */
static void test_no_half_token_comes_through(void **state)
{
	for (int shift = 0; shift < 60; shift += 3) {
		_cleanup_buf_ struct buf text = {0};
		struct audit_line l;

		buf_add_str(&text, "password='");
		for (int i = 0; i < 20400 + shift; i++)
			buf_add(&text, "p", 1);
		buf_add_str(&text, "'&x=ghp_a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8");
		for (int i = 0; i < 100000; i++)
			buf_add(&text, ".", 1);
		_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .target = text.data}, NULL);
		scan(line, &l);
		assert_null(strstr(line, "ghp_"));
		assert_non_null(strstr(line, "\"cut\":"));
	}
}

static void test_what_is_too_long_is_cut_and_the_rest_stays(void **state)
{
	_cleanup_buf_ struct buf huge = {0};
	const char *many[30001] = {0};
	struct audit_line l;

	for (int i = 0; i < 150000; i++)
		buf_add(&huge, "a", 1);
	for (int i = 0; i < 30000; i++)
		many[i] = "word";
	const char *const longs[] = {huge.data, huge.data, huge.data, NULL};
	const struct audit_field *none[200];
	const struct audit_field inner[] = {AUDIT_TEXT("t", huge.data), AUDIT_END};
	for (size_t i = 0; i + 1 < ARRAY_SIZE(none); i++)
		none[i] = inner;
	none[ARRAY_SIZE(none) - 1] = NULL;
	const struct audit_field details[][4] = {
		{AUDIT_TEXT("big", huge.data), AUDIT_INT("exit_code", 7), AUDIT_END},
		{AUDIT_ARGV("argv", many), AUDIT_INT("exit_code", 7), AUDIT_END},
		{AUDIT_ARGV("argv", longs), AUDIT_TEXT("big", huge.data), AUDIT_INT("exit_code", 7), AUDIT_END},
		{AUDIT_OBJECTS("list", none), AUDIT_INT("exit_code", 7), AUDIT_END},
	};
	for (size_t i = 0; i < ARRAY_SIZE(details); i++) {
		const struct audit_event e = {.action = "x",
		                              .tenant = huge.data,
		                              .sandbox = huge.data,
		                              .exec = huge.data,
		                              .rule = huge.data,
		                              .target = huge.data,
		                              .detail = details[i]};
		_cleanup_free_ char *line = line_of(&e, NULL);

		assert_true(strlen(line) + 1 <= AUDIT_LINE_MAX);
		scan(line, &l);
		assert_non_null(strstr(line, "\"exit_code\":7,\"cut\":"));
		assert_non_null(strstr(line, "\xe2\x80\xa6"));
	}
	/* the number is exact for what can be counted */
	const struct audit_field one[] = {AUDIT_TEXT("big", huge.data), AUDIT_END};
	_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .detail = one}, NULL);
	scan(line, &l);
	const char *begin = strstr(line, "\"big\":\""), *cut = strstr(line, "\",\"cut\":");
	assert_non_null(cut);
	assert_int_equal(strtoul(cut + strlen("\",\"cut\":"), NULL, 10), huge.len - ((size_t)(cut - begin) - strlen("\"big\":\"") - 3));
	/* a string that is almost as long as a record is not cut */
	huge.data[60000] = '\0';
	_cleanup_free_ char *whole = line_of(&(struct audit_event){.action = "x", .detail = one}, NULL);
	assert_null(strstr(whole, "\"cut\""));
	assert_true(strlen(whole) > 60000);
}

/* So many fields that not even short ones fit: then nothing of detail does, and the record is still one. */
static void test_a_hopeless_detail_is_left_out(void **state)
{
	enum { COUNT = 6000 };
	struct audit_field *detail = calloc(COUNT + 1, sizeof(*detail));
	struct audit_line l;

	assert_non_null(detail);
	for (int i = 0; i < COUNT; i++)
		detail[i] = AUDIT_TEXT("a-key-that-is-long", "text");
	_cleanup_free_ char *line = line_of(&(struct audit_event){.action = "x", .detail = detail}, NULL);
	scan(line, &l);
	assert_non_null(strstr(line, "\"detail\":{\"cut\":1}"));
	free(detail);
}

static void test_a_target_may_hold_a_nul(void **state)
{
	_cleanup_free_ char *line =
		line_of(&(struct audit_event){.action = "x", .target = "evil.example\0.good.example", .target_len = 26}, NULL);
	_cleanup_buf_ struct buf back = {0};
	struct audit_line l;

	assert_non_null(strstr(line, "\"target\":\"evil.example\\uef00.good.example\""));
	scan(line, &l);
	audit_decode(&back, l.target, TEXT_BYTES);
	assert_int_equal(back.len, 26);
	assert_memory_equal(back.data, "evil.example\0.good.example", 26);
}

/* Whatever byte is changed to whatever: the scanner refuses it, or the hash does not fit. */
static void test_no_changed_byte_is_accepted(void **state)
{
	const struct audit_field detail[] = {AUDIT_TEXT("a", "b\xc3\xbc"), AUDIT_INT("n", 10), AUDIT_BOOL("t", true), AUDIT_REAL("r", 1.5),
	                                     AUDIT_END};
	_cleanup_free_ char *line =
		line_of(&(struct audit_event){.action = "x", .sandbox = "s", .target = "t\xff\n", .rule = "r", .detail = detail}, NULL);
	static const char changes[] = "12345678\"\\\n {}[],:0af\xc3"; /* the first eight: one bit each */
	const size_t len = strlen(line);

	for (size_t i = 0; i < len; i++) {
		const char kept = line[i];

		for (size_t k = 0; k < ARRAY_SIZE(changes); k++) {
			struct audit_line l;

			line[i] = k < 8 ? (char)(kept ^ 1 << k) : changes[k];
			if (line[i] != kept && !audit_scan(line, len, &l) && audit_line_intact(&l))
				fail_msg("byte %zu: '%c' changed to '%c' was accepted", i, kept, line[i]);
		}
		line[i] = kept;
	}
	for (size_t cut = 0; cut < len; cut++) { /* nor one that is missing, at the end or in the middle */
		struct audit_line l;

		assert_non_null(audit_scan(line, cut, &l));
		_cleanup_free_ char *less = strdup(line);
		memmove(less + cut, less + cut + 1, len - cut);
		assert_true(audit_scan(less, len - 1, &l) || !audit_line_intact(&l));
	}
}

static void test_the_scanner_refuses_what_is_only_similar(void **state)
{
	static const char tail[] = ",\"prev\":\"" AUDIT_NO_HASH "\",\"hash\":\"" AUDIT_NO_HASH "\"}";
	static const char *const details[] = {"{}x",          "{\"a\"}",     "{\"a\":}",   "{\"a\":1,}",  "{,}",
	                                      "{\"a\":01}",   "{\"a\":1.5}", "{\"a\":+1}", "{\"a\":1e5}", "{\"a\":nul}",
	                                      "{\"a\":[1,]}", "{\"a\":[}",   "[]",         "\"text\"",    "1",
	                                      "{ }",          "{\"a\": 1}",  "{\"a\":1 }", "{\"a\":[1}",  "{\"a\":{\"b\":1}",
	                                      "{\"a\":1]}",   "{\"a\":tru}", "{\"a\":-}",  "{1:2}",       ""};
	static const char *const fine[] = {"{}", "null", "{\"a\":[]}", "{\"a\":[{},[],1,-0.250,\"x\",null,true,false]}"};
	char line[1000];
	struct audit_line l;

	for (size_t i = 0; i < ARRAY_SIZE(details) + ARRAY_SIZE(fine); i++) {
		bool good = i >= ARRAY_SIZE(details);
		const char *detail = good ? fine[i - ARRAY_SIZE(details)] : details[i];
		int n = snprintf(
			line, sizeof(line),
			"{\"seq\":1,\"ts\":\"2026-01-31T12:00:00.000000Z\",\"tenant\":null,\"sandbox\":null,\"exec\":null,\"level\":\"info\",\"category\":\"exec\","
			"\"action\":\"x\",\"target\":null,\"allowed\":true,\"rule\":null,\"detail\":%s%s",
			detail, tail);

		if ((audit_scan(line, (size_t)n, &l) == NULL) != good)
			fail_msg("%s: %s", good ? "refused" : "accepted", detail);
	}
	char deep[200] = "";
	for (int i = 0; i < 60; i++)
		strncat(deep, i ? "[" : "{\"a\":", sizeof(deep) - strlen(deep) - 1);
	snprintf(
		line, sizeof(line),
		"{\"seq\":1,\"ts\":\"2026-01-31T12:00:00.000000Z\",\"tenant\":null,\"sandbox\":null,\"exec\":null,\"level\":\"info\",\"category\":\"exec\","
		"\"action\":\"x\",\"target\":null,\"allowed\":true,\"rule\":null,\"detail\":%s",
		deep);
	assert_string_equal(audit_scan(line, strlen(line), &l), "detail is nested too deeply");
	static const char *const heads[] = {"",
	                                    "{",
	                                    "[]",
	                                    "{\"seq\":0",
	                                    "{\"seq\":01",
	                                    "{\"seq\":-1",
	                                    "{\"seq\":99999999999999999999,",
	                                    "{\"seq\":1,\"ts\":\"now\"",
	                                    "\xef\xbb\xbf{\"seq\":1"};
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		assert_non_null(audit_scan(heads[i], strlen(heads[i]), &l));
}

/* ---- CSV --------------------------------------------------------------------------------------------------------------------- */

static char *csv_of(const struct audit_event *e)
{
	_cleanup_free_ char *line = line_of(e, NULL);
	struct audit_line l;
	struct buf out = {0};

	scan(line, &l);
	audit_csv_add(&out, &l);
	return buf_steal(&out);
}

static void test_csv_is_quoted_and_no_formula(void **state)
{
	static const struct {
		const char *target, *cell;
	} cells[] = {
		{"plain", ",\"plain\","},
		{"a,b \"c\"", ",\"a,b \"\"c\"\"\","},
		{"two\nlines", ",\"two\nlines\","},
		{"=1+1", ",\"'=1+1\","},
		{"+1", ",\"'+1\","},
		{"-1", ",\"'-1\","},
		{"@SUM(A1)", ",\"'@SUM(A1)\","},
		{"\t=1", ",\"'\t=1\","},
		{" \r\n=cmd", ",\"' \r\n=cmd\","},
		{"", ",\"\","},
		{"r\xe9", ",\"r\xee\xbf\xa9\","},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
		_cleanup_free_ char *row = csv_of(&(struct audit_event){.action = "x", .target = cells[i].target, .time_us = NOON});

		if (!strstr(row, cells[i].cell))
			fail_msg("%s is not in %s", cells[i].cell, row);
		assert_int_equal(strncmp(row, "1,2026-01-31T12:00:00.000000Z,,,,debug,exec,\"x\",\"", 49), 0);
		assert_string_equal(row + strlen(row) - 2, "\r\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_form_is_exactly_that_of_the_header),
		cmocka_unit_test(test_what_is_not_known_is_null),
		cmocka_unit_test(test_detail_holds_every_type),
		cmocka_unit_test(test_bad_events_are_refused),
		cmocka_unit_test(test_secrets_never_get_into_a_record),
		cmocka_unit_test(test_redaction_comes_before_cutting),
		cmocka_unit_test(test_no_half_token_comes_through),
		cmocka_unit_test(test_what_is_too_long_is_cut_and_the_rest_stays),
		cmocka_unit_test(test_a_hopeless_detail_is_left_out),
		cmocka_unit_test(test_a_target_may_hold_a_nul),
		cmocka_unit_test(test_no_changed_byte_is_accepted),
		cmocka_unit_test(test_the_scanner_refuses_what_is_only_similar),
		cmocka_unit_test(test_csv_is_quoted_and_no_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
