/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying and sealing: each way to tamper with a log is found, and named by file, line and record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit_fixture.h"
#include "base/util.h"
#include "verify_fixture.h"

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

/* ---- good ones --------------------------------------------------------------------------------------------------------------- */

static void test_a_whole_log_is_good_with_and_without_seals(void **state)
{
	fill(*state);
	struct audit_verified v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_int_equal(v.records, 38);
	assert_int_equal(v.segments, 4);
	assert_int_equal(v.sealed, 0);
	assert_int_equal(v.last, 38);
	assert_string_equal(v.key, "");

	struct audit_sealed s = seal(*state, NULL);
	assert_int_equal(s.sealed, 4); /* the one that was being written, too */
	v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_int_equal(v.records, 39);
	assert_int_equal(v.segments, 5);
	assert_int_equal(v.sealed, 4);
	assert_string_equal(v.key, s.key);
	assert_int_equal(seal(*state, NULL).sealed, 0); /* nothing to do, and nothing new */
	assert_false(file_exists(*state, "000006.jsonl"));

	struct audit *a = open_log(*state, &by_seal);
	put(a, "more");
	audit_close(a);
	assert_good(*state);
}

static void test_an_empty_log_is_good(void **state)
{
	struct cordon_error err = {0};
	struct audit_verified v;

	assert_int_equal(audit_verify(*state, NULL, &v, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	audit_close(open_log(*state, NULL));
	assert_good(*state);
	assert_int_equal(seal(*state, NULL).sealed, 0);
	assert_good(*state);
}

static void test_a_torn_end_is_no_break(void **state)
{
	size_t len;

	fill(*state);
	_cleanup_free_ char *text = file_read(*state, "000004.jsonl", &len);
	file_write(*state, "000004.jsonl", text, len - 7);
	struct audit_verified v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_int_equal(v.records, 37);
	assert_true(v.torn_bytes > 100);
	struct audit *a = open_log(*state, &by_seal);
	put(a, "next");
	audit_close(a);
	v = verified(*state, NULL);
	assert_false(v.broken.found);
	assert_int_equal(v.torn, 1);
	assert_int_equal(v.torn_bytes, 0);
}

/* ---- tampering --------------------------------------------------------------------------------------------------------------- */

/* Every byte of a sealed segment, and of one that is not: found, and in the line where it is. */
static void tamper_everywhere(void **state, const char *name)
{
	size_t len, line = 1;
	_cleanup_free_ char *text = file_read(*state, name, &len);

	for (size_t i = 0; i < len; i++) {
		const char kept = text[i];

		if (i % 3 == 0 || kept == '\n') {
			text[i] = kept == '\n' ? 'x' : (char)(kept ^ 1);
			file_write(*state, name, text, len);
			struct audit_verified v = verified(*state, NULL);
			/* the last line feed of a segment that is being written: its line may be one that has not ended yet */
			const bool open_end = strcmp(name, "000004.jsonl") == 0 && i + 1 == len;
			if (!v.broken.found && !open_end)
				fail_msg("%s: byte %zu", name, i);
			if (!open_end && i + 1 < len) {
				assert_string_equal(v.broken.file, name);
				assert_int_equal(v.broken.line, line);
			}
		}
		text[i] = kept;
		line += kept == '\n';
	}
	file_write(*state, name, text, len);
}

static void test_a_changed_byte_is_found_in_its_line(void **state)
{
	fill(*state);
	tamper_everywhere(state, "000002.jsonl");
	tamper_everywhere(state, "000004.jsonl");
	seal(*state, NULL);
	tamper_everywhere(state, "000002.jsonl");
	assert_good(*state);
}

static void test_deleted_doubled_and_moved_records_are_found(void **state)
{
	fill(*state);
	struct lines l = lines_read(*state, "000002.jsonl");

	assert_int_equal(l.count, 11);
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 1, 2, 4, 5, 6, 7, 8, 9, 10));
	assert_broken(*state, "000002.jsonl", 4, 16, "it follows record 14: 1 missing in between");
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 1, 2, 6, 7, 8, 9, 10));
	assert_broken(*state, "000002.jsonl", 4, 18, "3 missing in between");
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10));
	assert_broken(*state, "000002.jsonl", 2, 14, "1 missing in between");
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
	assert_broken(*state, "000002.jsonl", 3, 13, "out of order");
	lines_write(*state, "000002.jsonl", &l, ORDER(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
	assert_broken(*state, "000002.jsonl", 1, 13, "it should be record 12");
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
	assert_broken(*state, "000002.jsonl", 10, 21, "the end of the segment is missing");
	lines_write(*state, "000002.jsonl", &l, ORDER(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
	assert_good(*state);
	file_write(*state, "000002.jsonl", l.text, l.total - 5);
	assert_broken(*state, "000002.jsonl", 11, 0, "something follows the last record");
	free(l.text);
}

static void test_missing_and_swapped_segments_are_found(void **state)
{
	fill(*state);
	file_rename(*state, "000002.jsonl", "kept");
	assert_broken(*state, "000002.jsonl", 0, 0, "it is missing");
	file_rename(*state, "kept", "000002.jsonl");
	file_rename(*state, "000001.jsonl", "kept");
	assert_broken(*state, "000001.jsonl", 0, 0, "it is missing");
	file_rename(*state, "kept", "000001.jsonl");
	file_rename(*state, "000004.jsonl", "kept"); /* the newest: the writers have noted that it was there */
	assert_broken(*state, "000004.jsonl", 0, 0, "it is missing");
	file_rename(*state, "kept", "000004.jsonl");
	assert_good(*state);
	file_rename(*state, "000001.jsonl", "kept");
	file_rename(*state, "000002.jsonl", "000001.jsonl");
	file_rename(*state, "kept", "000002.jsonl");
	assert_broken(*state, "000001.jsonl", 1, 12, "it should be record 1");
}

static void test_forged_records_are_found_where_the_chain_breaks(void **state)
{
	fill(*state);
	forge(*state, "000002.jsonl", 4, false);
	assert_broken(*state, "000002.jsonl", 6, 17, "one of them was replaced");
}

static void test_a_segment_that_was_rewritten_does_not_fit_the_next(void **state)
{
	fill(*state);
	forge(*state, "000002.jsonl", 4, true);
	assert_broken(*state, "000003.jsonl", 1, 23, "it does not follow the segment before");
}

/* Without the key even a chain that is forged up to the end does not pass. */
static void test_a_forged_chain_does_not_fit_its_seal(void **state)
{
	fill(*state);
	seal(*state, NULL);
	forge(*state, "000003.jsonl", 0, true);
	assert_broken(*state, "000003.seal", 0, 0, "not the one that was sealed");
}

static void test_forged_and_foreign_seals_are_found(void **state)
{
	size_t len;

	fill(*state);
	seal(*state, NULL);
	_cleanup_free_ char *text = file_read(*state, "000002.seal", &len);
	for (size_t i = 0; i < len; i++) {
		const char kept = text[i];

		text[i] = (char)(kept ^ 1);
		file_write(*state, "000002.seal", text, len);
		struct audit_verified v = verified(*state, NULL);
		if (!v.broken.found || strcmp(v.broken.file, "000002.seal") != 0)
			fail_msg("byte %zu of a seal", i);
		text[i] = kept;
	}
	file_write(*state, "000002.seal", text, len);
	assert_good(*state);
	file_write(*state, "000002.seal", text, len - 1);
	assert_broken(*state, "000002.seal", 0, 0, "not in the form of a seal");
	_cleanup_free_ char *other = file_read(*state, "000001.seal", &len);
	file_write(*state, "000002.seal", other, len);
	assert_broken(*state, "000002.seal", 0, 0, "the seal of another segment");
	file_remove(*state, "000002.seal"); /* one that is missing could not have been made yet */
	assert_good(*state);
}

/* Somebody forges everything and signs it with a key of his own: the copy of the right key tells. */
static void test_a_key_that_was_kept_elsewhere_tells(void **state)
{
	struct audit_verify_options o = {0};
	struct cordon_error err = {0};
	struct audit_verified v;
	char copy[4096];

	fill(*state);
	seal(*state, NULL);
	snprintf(copy, sizeof(copy), "%s/copy.pub", (char *)*state);
	o.pub = copy;
	_cleanup_free_ char *pub = file_read(*state, "key.pub", NULL);
	FILE *f = fopen(copy, "w");
	assert_true(f && fputs(pub, f) >= 0 && fclose(f) == 0);
	v = verified(*state, &o);
	assert_false(v.broken.found);

	static const char *const files[] = {"key", "key.pub", "000001.seal", "000002.seal", "000003.seal", "000004.seal"};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		file_remove(*state, files[i]);
	seal(*state, NULL);
	assert_good(*state);
	v = verified(*state, &o);
	assert_true(v.broken.found);
	assert_string_equal(v.broken.file, "000001.seal");
	assert_string_equal(v.broken.what, "it was made with another key");

	file_remove(*state, "key.pub");
	assert_broken(*state, "key.pub", 0, 0, "the seals cannot be checked");
	o.pub = "/nonexistent";
	assert_int_equal(audit_verify(*state, &o, &v, &err), -1);
	snprintf(copy, sizeof(copy), "%s/audit/lock", (char *)*state);
	o.pub = copy;
	assert_int_equal(audit_verify(*state, &o, &v, &err), -1);
}

static void test_a_lost_key_is_not_replaced_silently(void **state)
{
	struct cordon_error err = {0};
	struct audit_sealed s;
	char path[4096];

	fill(*state);
	seal(*state, NULL);
	snprintf(path, sizeof(path), "%s/audit/key", (char *)*state);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(audit_seal(*state, NULL, &s, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_DENIED);
	file_remove(*state, "key");
	assert_int_equal(audit_seal(*state, NULL, &s, &err), -1);
	assert_non_null(strstr(err.message, "key is gone"));
}

static void test_a_noted_head_tells_of_a_log_that_was_cut_or_rewritten(void **state)
{
	struct audit_verify_options o = {0};
	struct audit_verified v;

	fill(*state);
	v = verified(*state, NULL);
	o.expect.seq = v.last;
	memcpy(o.expect.hash, v.head, sizeof(o.expect.hash));
	assert_false(verified(*state, &o).broken.found);
	struct audit *a = open_log(*state, &by_seal);
	put(a, "more");
	audit_close(a);
	assert_false(verified(*state, &o).broken.found);

	struct lines l = lines_read(*state, "000004.jsonl");
	lines_write(*state, "000004.jsonl", &l, ORDER(0, 1, 2)); /* the newest segment, cut: whole in itself */
	assert_good(*state);
	v = verified(*state, &o);
	assert_true(v.broken.found);
	assert_non_null(strstr(v.broken.what, "record 38, which was noted, is missing: the log ends with record 36"));
	lines_write(*state, "000004.jsonl", &l, ORDER(0, 1, 2, 3, 4, 5));
	forge(*state, "000004.jsonl", 2, true); /* or rewritten */
	assert_good(*state);
	v = verified(*state, &o);
	assert_true(v.broken.found);
	assert_string_equal(v.broken.file, "000004.jsonl");
	assert_int_equal(v.broken.line, 5);
	assert_non_null(strstr(v.broken.what, "another one than was noted"));
	free(l.text);
}

static void test_a_broken_segment_is_not_sealed(void **state)
{
	struct cordon_error err = {0};
	struct audit_sealed s;

	fill(*state);
	forge(*state, "000002.jsonl", 4, false);
	assert_int_equal(audit_seal(*state, NULL, &s, &err), -1);
	assert_non_null(strstr(err.message, "000002.jsonl, line 6"));
	assert_true(file_exists(*state, "000001.seal"));
	assert_false(file_exists(*state, "000002.seal"));
}

/* ---- large ------------------------------------------------------------------------------------------------------------------- */

/* Several pieces and threads: what is wrong is still the first thing, by its line. */
static void test_a_large_segment_is_checked_by_pieces(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &by_seal);
	enum { COUNT = 20000 };
	size_t len;

	for (int i = 0; i < COUNT; i++)
		assert_int_equal(audit_add(a, &(struct audit_event){.action = "start", .target = "x"}, &err), 0);
	assert_int_equal(audit_commit(a, &err), 0);
	audit_close(a);
	_cleanup_free_ char *text = file_read(*state, "000001.jsonl", &len);
	assert_true(len > 5 << 20);
	for (unsigned threads = 1; threads <= 4; threads++) {
		const struct audit_verify_options o = {.threads = threads};
		size_t at = len / 5 * threads, line = 1;

		for (size_t i = 0; i < at; i++)
			line += text[i] == '\n';
		text[at] ^= 1;
		text[len - 500] ^= 1; /* a later one does not hide it */
		file_write(*state, "000001.jsonl", text, len);
		struct audit_verified v = verified(*state, &o);
		assert_true(v.broken.found);
		assert_int_equal(v.broken.line, line);
		text[at] ^= 1;
		text[len - 500] ^= 1;
		file_write(*state, "000001.jsonl", text, len);
		v = verified(*state, &o);
		assert_false(v.broken.found);
		assert_int_equal(v.records, COUNT);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_whole_log_is_good_with_and_without_seals),
		TEST(test_an_empty_log_is_good),
		TEST(test_a_torn_end_is_no_break),
		TEST(test_a_changed_byte_is_found_in_its_line),
		TEST(test_deleted_doubled_and_moved_records_are_found),
		TEST(test_missing_and_swapped_segments_are_found),
		TEST(test_forged_records_are_found_where_the_chain_breaks),
		TEST(test_a_segment_that_was_rewritten_does_not_fit_the_next),
		TEST(test_a_forged_chain_does_not_fit_its_seal),
		TEST(test_forged_and_foreign_seals_are_found),
		TEST(test_a_key_that_was_kept_elsewhere_tells),
		TEST(test_a_lost_key_is_not_replaced_silently),
		TEST(test_a_noted_head_tells_of_a_log_that_was_cut_or_rewritten),
		TEST(test_a_broken_segment_is_not_sealed),
		TEST(test_a_large_segment_is_checked_by_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
