/* SPDX-License-Identifier: Apache-2.0 */
/* Finding records: filters, times, limits, in pieces of any size, while others write; and counting them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/chunk.h"
#include "audit/query.h"
#include "audit/summary.h"
#include "audit_fixture.h"
#include "base/util.h"

#define NOON 1769860800000000 /* 2026-01-31T12:00:00Z */

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

static int collect(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	struct buf *out = arg;

	buf_addf(out, "%s%llu", out->len ? " " : "", (unsigned long long)l->seq);
	return 0;
}

static void assert_found(const char *home, const struct audit_filter *f, uint64_t limit, const char *wanted)
{
	_cleanup_buf_ struct buf out = {0};
	struct cordon_error err = {0};
	struct audit_found found;

	if (audit_query(home, f, limit, collect, &out, &found, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(out.len ? out.data : "", wanted);
	assert_int_equal(found.damaged, 0);
}
#define FOUND(wanted, limit, ...) assert_found(*state, &(struct audit_filter){__VA_ARGS__}, limit, wanted)

static void add(struct audit *a, const struct audit_event *e)
{
	struct cordon_error err = {0};

	if (audit_add(a, e, &err) < 0)
		fail_msg("%s", err.message);
}

static void fill(const char *home)
{
	const struct audit_event events[] = {
		{.level = AUDIT_DEBUG,
	         .category = AUDIT_EXEC,
	         .action = "start",
	         .sandbox = "abcdefgh",
	         .exec = "e1",
	         .target = "/usr/bin/make",
	         .time_us = NOON},
		{.level = AUDIT_INFO,
	         .category = AUDIT_FILE,
	         .action = "write",
	         .sandbox = "abcdefgh",
	         .exec = "e1",
	         .target = "/app/src/a.c",
	         .allowed = AUDIT_ALLOWED,
	         .time_us = NOON + 1},
		{.level = AUDIT_WARNING,
	         .category = AUDIT_NETWORK,
	         .action = "connect",
	         .sandbox = "abzzzzzz",
	         .exec = "e2",
	         .target = "evil.example:443",
	         .allowed = AUDIT_DENIED,
	         .rule = "network.outbound",
	         .time_us = NOON + 1000000},
		{.level = AUDIT_ERROR,
	         .category = AUDIT_POLICY,
	         .action = "deny",
	         .tenant = "acme",
	         .target = "r\xe9sum\xe9",
	         .allowed = AUDIT_DENIED,
	         .time_us = NOON + 3600000000},
		{.level = AUDIT_CRITICAL, .category = AUDIT_SYSTEM, .action = "stop", .tenant = "acme2", .time_us = NOON + 86400000000},
	};
	struct cordon_error err = {0};
	struct audit *a = open_log(home, &by_seal);

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		add(a, &events[i]);
	assert_int_equal(audit_commit(a, &err), 0);
	audit_close(a);
}

static void test_every_filter(void **state)
{
	fill(*state);
	FOUND("1 2 3 4 5", 0, .denied = false);
	FOUND("3 4 5", 0, .level = AUDIT_WARNING);
	FOUND("5", 0, .level = AUDIT_CRITICAL);
	FOUND("3", 0, .categories = 1u << AUDIT_NETWORK);
	FOUND("1 2", 0, .categories = 1u << AUDIT_EXEC | 1u << AUDIT_FILE);
	FOUND("3 4", 0, .denied = true);
	FOUND("1 2", 0, .sandbox = "abcdefgh");
	FOUND("1 2 3", 0, .sandbox = "ab");
	FOUND("", 0, .sandbox = "abcdefghi");
	FOUND("3", 0, .exec = "e2");
	FOUND("4", 0, .tenant = "acme");
	FOUND("3", 0, .action = "connect");
	FOUND("1 5", 0, .action = "st*");
	FOUND("2", 0, .target = "/app/**");
	FOUND("", 0, .target = "/app/*");
	FOUND("4", 0, .target = "r\xe9sum?");
	FOUND("", 0, .target = "nothing");
	FOUND("1 2 3 4", 0, .target = "**");
	FOUND("3 4 5", 0, .since = "2026-01-31T12:00:01.000000Z");
	FOUND("1 2", 0, .until = "2026-01-31T12:00:01.000000Z");
	FOUND("3", 0, .since = "2026-01-31T12:00:00.500000Z", .until = "2026-01-31T13:00:00.000000Z");
	FOUND("3", 0, .level = AUDIT_WARNING, .denied = true, .sandbox = "ab");
	FOUND("5", 1, .denied = false);
	FOUND("3 4", 2, .denied = true);
	FOUND("4", 1, .denied = true);
	FOUND("1 2 3 4 5", 100, .denied = false);
}

static void test_times_are_read_and_nonsense_is_not(void **state)
{
	static const struct {
		const char *text, *wanted;
	} good[] = {
		{"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"},
		{"2026-01-31t12:00:00z", "2026-01-31T12:00:00.000000Z"},
		{"2026-01-31 12:00:00", "2026-01-31T12:00:00.000000Z"},
		{"2026-01-31T12:00", "2026-01-31T12:00:00.000000Z"},
		{"2026-01-31T12:00:00.25Z", "2026-01-31T12:00:00.250000Z"},
		{"2026-01-31T12:00:00.1234567899Z", "2026-01-31T12:00:00.123456Z"},
		{"2026-01-31T12:00:00+02:30", "2026-01-31T09:30:00.000000Z"},
		{"2026-01-31T23:00:00-02:00", "2026-02-01T01:00:00.000000Z"},
		{"2026-01-31", "2026-01-31T00:00:00.000000Z"},
		{"2024-02-29", "2024-02-29T00:00:00.000000Z"},
		{"1h", "2026-01-31T11:00:00.000000Z"},
		{"90m", "2026-01-31T10:30:00.000000Z"},
		{"2d", "2026-01-29T12:00:00.000000Z"},
		{"500ms", "2026-01-31T11:59:59.500000Z"},
	};
	static const char *const bad[] = {"",
	                                  "yesterday",
	                                  "2026",
	                                  "2026-13-01",
	                                  "2026-02-29",
	                                  "2026-01-32",
	                                  "2026-00-10",
	                                  "2026-01-31T24:00:00Z",
	                                  "2026-01-31T12:61Z",
	                                  "2026-01-31T12:00:00X",
	                                  "2026-01-31T12:00:00Z ",
	                                  "2026-01-31T",
	                                  "1",
	                                  "3600",
	                                  "-1h",
	                                  "1y",
	                                  "1h ago",
	                                  "2026-01-31T12:00:00.Z",
	                                  "2026-01-31T12:00:00+2"};
	struct cordon_error err;
	char out[TEXT_TIME + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		if (audit_parse_time(good[i].text, NOON, out, &err) < 0)
			fail_msg("%s", err.message);
		assert_string_equal(out, good[i].wanted);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (audit_parse_time(bad[i], NOON, out, &err) == 0)
			fail_msg("accepted: %s as %s", bad[i], out);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------------ */

/* Lines of many lengths, so that they lie across the pieces' edges in every way. */
static void test_the_pieces_of_a_segment_are_all_of_its_lines(void **state)
{
	_cleanup_buf_ struct buf text = {0}, joined = {0}, buffer = {0};
	char path[4096];

	srandom(3);
	while (text.len < 5 * (size_t)CHUNK) {
		size_t len = (size_t)random() % 3 ? (size_t)random() % 300 : (size_t)random() % 60000;

		for (size_t i = 0; i < len; i++)
			buf_add(&text, "x", 1);
		buf_add(&text, "\n", 1);
	}
	buf_add_str(&text, "t");
	for (size_t end = text.len - 4; end <= text.len; end++) {
		snprintf(path, sizeof(path), "%s/lines", (char *)*state);
		FILE *f = fopen(path, "w+");
		assert_non_null(f);
		assert_int_equal(fwrite(text.data, 1, end, f), end);
		assert_int_equal(fflush(f), 0);
		joined.len = 0;
		size_t torn = 0;
		for (uint64_t k = 0; k < chunk_count((off_t)end); k++) {
			struct chunk_lines c;

			assert_int_equal(chunk_read(fileno(f), (off_t)end, k, &buffer, &c), 0);
			if (c.len)
				assert_int_equal(c.begin, joined.len);
			buf_add(&joined, c.data, c.len);
			assert_false(c.overlong);
			torn += c.torn;
		}
		assert_int_equal(joined.len + torn, end);
		assert_memory_equal(joined.data, text.data, joined.len);
		fclose(f);
	}
}

static void test_lines_longer_than_a_piece_are_no_records_and_no_harm(void **state)
{
	struct audit *a = open_log(*state, &by_seal);
	_cleanup_buf_ struct buf text = {0}, out = {0};
	struct cordon_error err = {0};
	struct audit_found found;
	size_t len;

	put(a, "one");
	audit_close(a);
	_cleanup_free_ char *one = file_read(*state, "000001.jsonl", &len);
	buf_add(&text, one, len);
	while (text.len < 3 * (size_t)CHUNK)
		buf_add_str(&text, "no line feed for a long time ");
	buf_add(&text, "\n", 1);
	buf_add(&text, one, len);
	file_write(*state, "000001.jsonl", text.data, text.len);
	assert_int_equal(audit_query(*state, NULL, 0, collect, &out, &found, &err), 0);
	assert_string_equal(out.data, "1 1");
	assert_int_equal(found.damaged, 1);
}

static void test_limits_hold_across_pieces_and_segments(void **state)
{
	const struct audit_options small = {.max_segment = 3 << 20, .sync = AUDIT_SYNC_SEAL};
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &small);
	_cleanup_buf_ struct buf pad = {0};
	enum { COUNT = 9000 };

	for (int i = 0; i < 500; i++)
		buf_add(&pad, "p", 1);
	const struct audit_field detail[] = {AUDIT_TEXT("pad", pad.data), AUDIT_END};
	for (int i = 0; i < COUNT; i++)
		add(a, &(struct audit_event){.category = i % 3 ? AUDIT_EXEC : AUDIT_FILE, .action = "x", .detail = detail});
	assert_int_equal(audit_commit(a, &err), 0);
	audit_close(a);
	assert_true(file_exists(*state, "000003.jsonl"));
	static const uint64_t limits[] = {1, 2, 10, 999, 1000, 1500, 2999, 3000, 3001, 0};
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		_cleanup_buf_ struct buf all = {0}, some = {0};
		const struct audit_filter f = {.categories = 1u << AUDIT_FILE};
		struct audit_found found;

		assert_int_equal(audit_query(*state, &f, 0, collect, &all, &found, &err), 0);
		assert_int_equal(found.matched, COUNT / 3);
		assert_int_equal(audit_query(*state, &f, limits[i], collect, &some, &found, &err), 0);
		assert_int_equal(found.matched, limits[i] ? MIN(limits[i], (uint64_t)COUNT / 3) : COUNT / 3);
		assert_string_equal(some.data, all.data + all.len - some.len); /* the last ones, in their order */
		assert_int_equal(found.more, limits[i] && limits[i] < COUNT / 3);
	}
}

static void test_no_log_is_said_so(void **state)
{
	struct cordon_error err = {0};

	assert_int_equal(audit_query(*state, NULL, 0, collect, NULL, NULL, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
}

static void test_a_line_that_is_being_written_is_left_out(void **state)
{
	size_t len;

	fill(*state);
	_cleanup_free_ char *all = file_read(*state, "000001.jsonl", &len);
	file_write(*state, "000001.jsonl", all, len - 10);
	FOUND("1 2 3 4", 0, .denied = false);
}

/* ---- following --------------------------------------------------------------------------------------------------------------- */

static void assert_next(struct audit_reader *r, const char *wanted)
{
	static const struct audit_filter any = {0};
	_cleanup_buf_ struct buf out = {0};
	struct cordon_error err = {0};

	assert_int_equal(audit_reader_next(r, &any, collect, &out, &err), 0);
	assert_string_equal(out.len ? out.data : "", wanted);
}

static void test_a_reader_follows_into_new_segments(void **state)
{
	struct cordon_error err = {0};
	struct audit_reader r;

	assert_int_equal(audit_reader_open(&r, *state, &err), 0); /* before there is anything */
	assert_next(&r, "");
	struct audit *a = open_log(*state, &by_seal);
	put(a, "one");
	assert_int_equal(audit_reader_wait(&r, &err), 1);
	assert_next(&r, "1");
	assert_next(&r, "");
	put(a, "two");
	assert_int_equal(audit_rotate(a, &err), 0);
	put(a, "three");
	assert_int_equal(audit_rotate(a, &err), 0);
	put(a, "four");
	assert_int_equal(audit_reader_wait(&r, &err), 1);
	assert_next(&r, "2 3 4 5 6");
	audit_reader_close(&r);
	assert_int_equal(audit_reader_open(&r, *state, &err), 0); /* from the end on */
	assert_next(&r, "");
	put(a, "five");
	assert_next(&r, "7");
	audit_close(a);
	audit_reader_close(&r);
}

static void test_a_reader_waits_for_the_end_of_a_line(void **state)
{
	struct cordon_error err = {0};
	struct audit_reader r;
	size_t len;

	fill(*state);
	_cleanup_free_ char *all = file_read(*state, "000001.jsonl", &len);
	file_write(*state, "000001.jsonl", all, len - 10);
	assert_int_equal(audit_reader_open(&r, *state, &err), 0);
	assert_next(&r, "");
	file_write(*state, "000001.jsonl", all, len);
	assert_next(&r, "5");
	assert_int_equal(r.damaged, 0);
	audit_reader_close(&r);
}

/* ---- summary ----------------------------------------------------------------------------------------------------------------- */

static int sum(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	return audit_summary_add(arg, l);
}

static void test_a_summary_counts(void **state)
{
	struct cordon_error err = {0};
	struct audit_summary s = {0};
	struct audit *a;

	fill(*state);
	a = open_log(*state, &by_seal);
	for (int i = 0; i < 3; i++)
		put(a, "often");
	audit_close(a);
	assert_int_equal(audit_query(*state, NULL, 0, sum, &s, NULL, &err), 0);
	audit_summary_finish(&s);
	assert_int_equal(s.records, 8);
	assert_int_equal(s.levels[AUDIT_INFO], 4);
	assert_int_equal(s.levels[AUDIT_CRITICAL], 1);
	assert_int_equal(s.categories[AUDIT_EXEC], 4);
	assert_int_equal(s.allowed[AUDIT_DENIED], 2);
	assert_int_equal(s.allowed[AUDIT_NEITHER], 5);
	assert_string_equal(s.first, "2026-01-31T12:00:00.000000Z");
	assert_int_equal(s.targets.used, 5);
	assert_string_equal(s.targets.slots[0].key, "often");
	assert_int_equal(s.targets.slots[0].count, 3);
	assert_int_equal(s.sandboxes.used, 2);
	assert_string_equal(s.sandboxes.slots[0].key, "abcdefgh");
	assert_int_equal(s.sandboxes.slots[1].denied, 1);
	audit_summary_free(&s);
}

/* More different targets than are told apart: no more memory, and the rest is counted. */
static void test_a_summary_is_bounded(void **state)
{
	struct audit_summary s = {0};
	char target[32];

	for (int i = 0; i < 100000; i++) {
		int n = snprintf(target, sizeof(target), "t%d", i);
		const struct audit_line l = {.ts = "2026-01-31T12:00:00.000000Z", .target = {target, (size_t)n}};

		assert_int_equal(audit_summary_add(&s, &l), 0);
	}
	audit_summary_finish(&s);
	assert_int_equal(s.targets.used, 65536);
	assert_int_equal(s.targets.others, 100000 - 65536);
	audit_summary_free(&s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_filter),
		TEST(test_times_are_read_and_nonsense_is_not),
		TEST(test_the_pieces_of_a_segment_are_all_of_its_lines),
		TEST(test_lines_longer_than_a_piece_are_no_records_and_no_harm),
		TEST(test_limits_hold_across_pieces_and_segments),
		TEST(test_no_log_is_said_so),
		TEST(test_a_line_that_is_being_written_is_left_out),
		TEST(test_a_reader_follows_into_new_segments),
		TEST(test_a_reader_waits_for_the_end_of_a_line),
		TEST(test_a_summary_counts),
		TEST(test_a_summary_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
