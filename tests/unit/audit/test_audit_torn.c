/* SPDX-License-Identifier: Apache-2.0 */
/* What writers leave that were interrupted, and how the next one goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit_fixture.h"
#include "base/util.h"

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

static void test_a_torn_end_is_put_aside_wherever_it_was_torn(void **state)
{
	struct audit *a = open_log(*state, &by_seal);
	size_t len, last;

	put(a, "one");
	audit_close(a);
	free(file_read(*state, "000001.jsonl", &last));
	a = open_log(*state, &by_seal);
	put(a, "two");
	audit_close(a);
	_cleanup_free_ char *two = file_read(*state, "000001.jsonl", &len);
	for (size_t cut = last + 1; cut < len; cut += 5) {
		size_t torn_len;

		file_write(*state, "000001.jsonl", two, cut);
		a = open_log(*state, &by_seal);
		put(a, "three");
		audit_close(a);
		assert_int_equal(assert_chain(*state), 3);
		_cleanup_free_ char *torn = file_read(*state, "000001.torn-2", &torn_len);
		assert_int_equal(torn_len, cut - last);
		assert_memory_equal(torn, two + last, torn_len);
		assert_true(has_target(*state, "000001.torn-2"));
		assert_true(has_target(*state, "three"));
		assert_false(has_target(*state, "two"));
		file_remove(*state, "000001.torn-2");
	}
}

static void test_a_torn_first_record_and_garbage_are_put_aside_too(void **state)
{
	static const char *const ends[] = {"{\"se", "garbage\n", "{\"seq\":1}\ngarbage\n\n\n", "\n"};
	char zeros[5000] = {0};

	for (size_t i = 0; i <= ARRAY_SIZE(ends); i++) {
		struct audit *a = open_log(*state, &by_seal);

		if (i) {
			put(a, "x");
			audit_close(a);
			a = open_log(*state, &by_seal);
		} else {
			audit_close(a);
			a = open_log(*state, &by_seal);
		}
		size_t len = 0;
		_cleanup_free_ char *old = i ? file_read(*state, "000001.jsonl", &len) : NULL;
		_cleanup_buf_ struct buf damaged = {0};
		buf_add(&damaged, old ? old : "", len);
		if (i < ARRAY_SIZE(ends))
			buf_add_str(&damaged, ends[i]);
		else
			buf_add(&damaged, zeros, sizeof(zeros)); /* as some file systems leave it when the power fails */
		file_write(*state, "000001.jsonl", damaged.data, damaged.len);
		put(a, "y");
		audit_close(a);
		assert_chain(*state);
		assert_int_equal(count_action(*state, "recover"), i + 1);
	}
}

/* One that looks like a record, but is not the one that was written. */
static void test_a_last_record_that_does_not_fit_its_hash_is_put_aside(void **state)
{
	struct audit *a = open_log(*state, &by_seal);
	size_t len;

	put(a, "one");
	put(a, "two");
	audit_close(a);
	_cleanup_free_ char *text = file_read(*state, "000001.jsonl", &len);
	memcpy(strstr(text, "\"two\""), "\"owt\"", 5);
	file_write(*state, "000001.jsonl", text, len);
	a = open_log(*state, &by_seal);
	put(a, "three");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
	assert_true(has_target(*state, "000001.torn-2"));
}

/* Two interrupted writers at the same record, and one that was interrupted while it cleaned up. */
static void test_an_interrupted_recovery_is_finished(void **state)
{
	struct audit *a = open_log(*state, &by_seal);
	size_t len;

	put(a, "one");
	audit_close(a);
	_cleanup_free_ char *one = file_read(*state, "000001.jsonl", &len);
	file_write(*state, "000001.torn-2", "abc", 3); /* put aside and cut, but not noted */
	a = open_log(*state, &by_seal);
	put(a, "two");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
	assert_int_equal(count_action(*state, "recover"), 1);

	_cleanup_buf_ struct buf torn = {0};
	buf_add(&torn, one, len);
	buf_add_str(&torn, "xyz");
	file_write(*state, "000001.jsonl", torn.data, torn.len); /* put aside, not cut; and there is an older one of the same name */
	a = open_log(*state, &by_seal);
	put(a, "two");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
	_cleanup_free_ char *first = file_read(*state, "000001.torn-2", NULL), *second = file_read(*state, "000001.torn-2.2", NULL);
	assert_string_equal(first, "abc");
	assert_string_equal(second, "xyz");
}

/* A writer that knows the end by heart still sees that another one was torn. */
static void test_a_torn_end_is_seen_by_a_writer_that_was_there_before(void **state)
{
	struct audit *a = open_log(*state, NULL);
	size_t len;

	put(a, "one");
	_cleanup_free_ char *one = file_read(*state, "000001.jsonl", &len);
	_cleanup_buf_ struct buf torn = {0};
	buf_add(&torn, one, len);
	buf_add_str(&torn, "{\"seq\":2,\"ts\":");
	file_write(*state, "000001.jsonl", torn.data, torn.len);
	put(a, "two");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
	assert_true(file_exists(*state, "000001.torn-2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_torn_end_is_put_aside_wherever_it_was_torn),
		TEST(test_a_torn_first_record_and_garbage_are_put_aside_too),
		TEST(test_a_last_record_that_does_not_fit_its_hash_is_put_aside),
		TEST(test_an_interrupted_recovery_is_finished),
		TEST(test_a_torn_end_is_seen_by_a_writer_that_was_there_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
