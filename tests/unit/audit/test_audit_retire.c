/* SPDX-License-Identifier: Apache-2.0 */
/* Old segments are removed, and what is left can still be verified from the first record on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit_fixture.h"
#include "base/util.h"
#include "verify_fixture.h"

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

static void test_old_segments_go_and_the_chain_stays_provable(void **state)
{
	const struct audit_retention size = {.max_bytes = 9000}, age = {.max_age_ms = 1};
	struct audit_verified v;

	fill(*state);
	file_write(*state, "000001.torn-4", "torn", 4);
	struct audit_sealed s = seal(*state, &size);
	assert_true(s.retired > 0 && s.retired < 4);
	assert_false(file_exists(*state, "000001.jsonl"));
	assert_false(file_exists(*state, "000001.seal"));
	assert_false(file_exists(*state, "000001.torn-4"));
	v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_int_equal(v.retired, s.retired);
	assert_int_equal(v.first, s.retired * 11 + 1);
	assert_true(has_target(*state, "000001.jsonl")); /* it is on record */

	seal(*state, &age);
	v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_true(v.records > 0);
	struct audit *a = open_log(*state, &by_seal);
	put(a, "goes on");
	audit_close(a);
	assert_good(*state);
	seal(*state, &age);
	a = open_log(*state, &by_seal); /* the chain can always be continued */
	put(a, "and on");
	audit_close(a);
	assert_good(*state);
}

static void test_what_is_young_and_small_stays(void **state)
{
	const struct audit_retention keep = {.max_bytes = 1 << 30, .max_age_ms = 3600000};

	fill(*state);
	assert_int_equal(seal(*state, &keep).retired, 0);
	assert_true(file_exists(*state, "000001.jsonl"));
}

static void test_tampering_with_what_is_retired_is_found(void **state)
{
	const struct audit_retention size = {.max_bytes = 9000};
	size_t len;

	fill(*state);
	struct audit_sealed s = seal(*state, &size);
	assert_int_equal(s.retired, 2);
	_cleanup_free_ char *text = file_read(*state, "retired", &len), *again = strdup(text);
	for (size_t i = 0; i + 1 < len; i += 7) {
		again[i] ^= 1;
		file_write(*state, "retired", again, len);
		struct audit_verified v = verified(*state, NULL);
		if (!v.broken.found)
			fail_msg("byte %zu of the retired seals", i);
		again[i] = text[i];
	}
	const char *second = strchr(text, '\n') + 1;
	file_write(*state, "retired", second, len - (size_t)(second - text));
	assert_broken(*state, "retired", 1, 12, "it does not follow the one before");
	file_write(*state, "retired", text, (size_t)(second - text));
	assert_broken(*state, "000002.jsonl", 0, 0, "it is missing");
	file_remove(*state, "retired");
	assert_broken(*state, "000001.jsonl", 0, 0, "it is missing");
	file_write(*state, "retired", text, len);
	assert_good(*state);
}

/* Killed in the middle of the note. */
static void test_an_interrupted_note_is_written_again(void **state)
{
	const struct audit_retention size = {.max_bytes = 9000};
	_cleanup_buf_ struct buf torn = {0};
	size_t len;

	fill(*state);
	assert_int_equal(seal(*state, &size).retired, 2);
	_cleanup_free_ char *text = file_read(*state, "retired", &len);
	buf_add(&torn, text, len);
	buf_add(&torn, text, len / 3);
	file_write(*state, "retired", torn.data, torn.len);
	assert_good(*state);
	struct audit *a = open_log(*state, &by_seal);
	for (int i = 0; i < 20; i++)
		put(a, "z");
	audit_close(a);
	assert_true(seal(*state, &size).retired > 0);
	assert_good(*state);
}

/* Killed after it was noted and before the files were gone. */
static void test_a_segment_that_is_noted_but_still_there_is_removed(void **state)
{
	const struct audit_retention size = {.max_bytes = 1};
	size_t seal_len;

	fill(*state);
	seal(*state, NULL);
	_cleanup_free_ char *sealed = file_read(*state, "000001.seal", &seal_len);
	_cleanup_buf_ struct buf note = {0};
	for (size_t i = 0; i < seal_len; i++)
		buf_add(&note, sealed[i] == '\n' ? "\t" : sealed + i, 1);
	buf_add(&note, "\n", 1);
	file_write(*state, "retired", note.data, note.len);
	assert_good(*state); /* the files count while they are there */
	seal(*state, &size);
	assert_false(file_exists(*state, "000001.jsonl"));
	assert_good(*state);
	assert_false(has_target(*state, "000001.jsonl")); /* it was on record before, in this story */
}

static void test_a_forged_segment_is_not_removed(void **state)
{
	const struct audit_retention size = {.max_bytes = 1};
	struct cordon_error err = {0};
	struct audit_sealed s;

	fill(*state);
	seal(*state, NULL);
	forge(*state, "000001.jsonl", 0, true);
	assert_int_equal(audit_seal(*state, &size, &s, &err), -1);
	assert_non_null(strstr(err.message, "000001.jsonl is not the segment that was sealed"));
	assert_true(file_exists(*state, "000001.jsonl"));
	assert_false(file_exists(*state, "retired"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_old_segments_go_and_the_chain_stays_provable),
		TEST(test_what_is_young_and_small_stays),
		TEST(test_tampering_with_what_is_retired_is_found),
		TEST(test_an_interrupted_note_is_written_again),
		TEST(test_a_segment_that_is_noted_but_still_there_is_removed),
		TEST(test_a_forged_segment_is_not_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
