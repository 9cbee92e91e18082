/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: what it leaves on disk, and when the disk is full. write(2) and fdatasync(2) are stood in for, to fail and to count. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/record.h"
#include "audit_fixture.h"
#include "base/util.h"

/* ---- system calls that fail and count ---------------------------------------------------------------------------------------- */

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static long room = -1; /* bytes that still fit on the "disk"; -1: all */
static int syncs;      /* how many there were */
static int sync_errno; /* what they answer */

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	if (room == 0) {
		errno = ENOSPC;
		return -1;
	}
	if (room > 0) {
		len = MIN(len, (size_t)room);
		room -= (long)len;
	}
	return __real_write(fd, data, len);
}

int __wrap_fdatasync(int fd)
{
	syncs++;
	if (sync_errno) {
		errno = sync_errno;
		return -1;
	}
	return __real_fdatasync(fd);
}

static int setup(void **state)
{
	room = -1;
	syncs = sync_errno = 0;
	return home_setup(state);
}

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

static const struct audit_event event = {.level = AUDIT_INFO, .category = AUDIT_EXEC, .action = "start", .target = "x"};

/* ---- plain ------------------------------------------------------------------------------------------------------------------- */

static void test_records_form_a_chain_in_a_private_place(void **state)
{
	struct audit *a = open_log(*state, NULL);
	char path[4096];
	struct stat st;

	put(a, "one");
	put(a, "two");
	audit_close(a);
	a = open_log(*state, NULL);
	put(a, "three");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
	snprintf(path, sizeof(path), "%s/audit", (char *)*state);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/audit/000001.jsonl", (char *)*state);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_a_directory_that_others_may_write_is_refused(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);
	char path[4096];

	audit_close(a);
	snprintf(path, sizeof(path), "%s/audit", (char *)*state);
	assert_int_equal(chmod(path, 0770), 0);
	assert_int_equal(audit_open(&a, *state, NULL, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_DENIED);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(audit_open(&a, *state, NULL, &err), -1);
	assert_int_equal(unlink(path), 0);
}

static void test_what_is_added_is_written_by_the_commit(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);

	for (int i = 0; i < 10; i++)
		assert_int_equal(audit_add(a, &event, &err), 0);
	assert_false(file_exists(*state, "000001.jsonl"));
	assert_int_equal(audit_commit(a, &err), 0);
	assert_int_equal(assert_chain(*state), 10);
	assert_int_equal(syncs, 1);
	assert_int_equal(audit_commit(a, &err), 0); /* nothing to do */
	assert_int_equal(syncs, 1);
	assert_int_equal(audit_add(a, &event, &err), 0);
	audit_close(a);
	assert_int_equal(assert_chain(*state), 11);
}

static void test_mode_seal_does_not_sync(void **state)
{
	struct audit *a = open_log(*state, &by_seal);

	put(a, "x");
	audit_close(a);
	assert_int_equal(syncs, 0);
	assert_int_equal(assert_chain(*state), 1);
}

static void test_the_logs_own_actions_are_taken(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);

	assert_int_equal(audit_add(a, &(struct audit_event){.category = AUDIT_SYSTEM, .action = AUDIT_ROTATE}, &err), -1);
	assert_int_equal(audit_add(a, &(struct audit_event){.category = AUDIT_SYSTEM, .action = AUDIT_RECOVER}, &err), -1);
	assert_int_equal(audit_add(a, &(struct audit_event){.category = AUDIT_EXEC, .action = AUDIT_ROTATE}, &err), 0);
	audit_close(a);
}

/* ---- segments ---------------------------------------------------------------------------------------------------------------- */

static void test_a_full_segment_ends_and_the_next_goes_on(void **state)
{
	const struct audit_options small = {.max_segment = 2000, .sync = AUDIT_SYNC_SEAL};
	struct audit *a = open_log(*state, &small);
	size_t len;

	assert_false(audit_wants_seal(a));
	for (int i = 0; i < 30; i++)
		put(a, "x");
	assert_true(audit_wants_seal(a));
	audit_close(a);
	assert_true(file_exists(*state, "000003.jsonl"));
	assert_true(assert_chain(*state) > 30);
	free(file_read(*state, "000001.jsonl", &len));
	assert_true(len > 1000 && len < 2000 + 500);
	_cleanup_free_ char *hint = file_read(*state, "lock", NULL), *first = file_read(*state, "000001.jsonl", NULL);
	assert_true(strcmp(hint, "000003\n") >= 0);
	assert_non_null(strstr(first, "\"action\":\"rotate\",\"target\":\"000002.jsonl\""));
}

static void test_one_batch_may_fill_several_segments(void **state)
{
	const struct audit_options small = {.max_segment = 3000};
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &small);

	for (int i = 0; i < 100; i++)
		assert_int_equal(audit_add(a, &event, &err), 0);
	assert_int_equal(audit_commit(a, &err), 0);
	audit_close(a);
	assert_true(file_exists(*state, "000010.jsonl"));
	assert_int_equal(count_action(*state, "start"), 100);
	assert_chain(*state);
}

static void test_rotate_ends_a_segment_that_holds_something(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);

	assert_int_equal(audit_rotate(a, &err), 0);
	assert_false(file_exists(*state, "000002.jsonl"));
	put(a, "x");
	assert_int_equal(audit_rotate(a, &err), 0);
	assert_true(file_exists(*state, "000002.jsonl"));
	assert_int_equal(audit_rotate(a, &err), 0);
	assert_false(file_exists(*state, "000003.jsonl"));
	put(a, "y");
	audit_close(a);
	assert_int_equal(assert_chain(*state), 3);
}

/* Another writer ends the segment that this one knows. */
static void test_writers_notice_each_other(void **state)
{
	const struct audit_options small = {.max_segment = 3000};
	struct audit *a = open_log(*state, &small), *b = open_log(*state, &small);

	for (int i = 0; i < 40; i++) {
		put(i % 3 ? a : b, "x");
		put(b, "y");
	}
	audit_close(a);
	audit_close(b);
	assert_int_equal(count_action(*state, "start"), 80);
	assert_chain(*state);
}

static void test_a_segment_that_ended_without_a_next_one_is_left(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);

	put(a, "x");
	assert_int_equal(audit_rotate(a, &err), 0);
	audit_close(a);
	file_remove(*state, "000002.jsonl"); /* killed in between */
	a = open_log(*state, NULL);
	put(a, "y");
	audit_close(a);
	assert_true(file_exists(*state, "000002.jsonl"));
	assert_int_equal(assert_chain(*state), 3);
}

static void test_a_lost_or_wrong_hint_does_no_harm(void **state)
{
	static const char *const hints[] = {"", "garbage", "000001\n", "000009\n", "0000010\n", "999999999999999\n"};
	const struct audit_options small = {.max_segment = 1000};
	uint64_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		struct audit *a = open_log(*state, &small);

		for (int k = 0; k < 5; k++)
			put(a, "x");
		audit_close(a);
		count += 5;
		file_write(*state, "lock", hints[i], strlen(hints[i]));
		assert_int_equal(count_action(*state, "start"), count);
		assert_chain(*state);
	}
}

static void test_a_log_whose_past_is_gone_is_not_continued(void **state)
{
	const struct audit_options small = {.max_segment = 1000};
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &small);

	put(a, "x");
	assert_int_equal(audit_rotate(a, &err), 0);
	audit_close(a);
	file_rename(*state, "000001.jsonl", "kept");
	a = open_log(*state, NULL); /* the newest is empty, and what it should follow is not there */
	assert_int_equal(audit_record(a, &event, &err), -1);
	assert_non_null(strstr(err.message, "000001.jsonl is missing"));
	audit_close(a);
	file_remove(*state, "000002.jsonl");
	a = open_log(*state, NULL);
	assert_int_equal(audit_record(a, &event, &err), -1);
	assert_non_null(strstr(err.message, "segments are gone"));
	audit_close(a);
}

/* ---- a full disk ------------------------------------------------------------------------------------------------------------- */

static void test_nothing_half_stays_when_the_disk_is_full(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);
	size_t before, len;

	put(a, "one");
	free(file_read(*state, "000001.jsonl", &before));
	for (long left = 0; left < 200; left += 50) {
		room = left;
		assert_int_equal(audit_record(a, &event, &err), -1);
		assert_int_equal(err.sys_errno, ENOSPC);
		assert_non_null(strstr(err.message, "cannot write to the audit"));
		assert_non_null(strstr(err.hint, "make room"));
		free(file_read(*state, "000001.jsonl", &len));
		assert_int_equal(len, before);
	}
	room = -1;
	assert_int_equal(audit_commit(a, &err), 0); /* what was added is not lost */
	audit_close(a);
	assert_int_equal(assert_chain(*state), 5);
}

static void test_a_full_disk_at_the_end_of_a_segment_loses_and_doubles_nothing(void **state)
{
	const struct audit_options small = {.max_segment = 1500, .sync = AUDIT_SYNC_SEAL};

	for (long left = 0; left < 12000; left += 397) {
		struct cordon_error err = {0};
		struct audit *a = open_log(*state, &small);
		const uint64_t before = file_exists(*state, "000001.jsonl") ? count_action(*state, "start") : 0;

		for (int i = 0; i < 20; i++)
			assert_int_equal(audit_add(a, &event, &err), 0);
		room = left;
		int r = audit_commit(a, &err);
		room = -1;
		if (r < 0)
			assert_chain(*state);
		assert_int_equal(audit_commit(a, &err), 0);
		audit_close(a);
		assert_int_equal(count_action(*state, "start"), before + 20);
	}
	assert_chain(*state);
}

/* The kernel's own limit, which ends a write in the middle. */
static void test_a_limit_on_file_sizes_is_an_error_too(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &by_seal);
	struct rlimit old, tight;
	size_t len, after;

	put(a, "one");
	free(file_read(*state, "000001.jsonl", &len));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = len + 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	assert_int_equal(audit_record(a, &event, &err), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(err.sys_errno, EFBIG);
	free(file_read(*state, "000001.jsonl", &after));
	assert_int_equal(after, len);
	audit_close(a); /* has another try */
	assert_int_equal(assert_chain(*state), 2);
}

static void test_too_much_that_waits_is_refused(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &by_seal);
	_cleanup_buf_ struct buf big = {0};
	int n = 0;

	for (int i = 0; i < 60000; i++)
		buf_add(&big, "a", 1);
	const struct audit_field detail[] = {AUDIT_TEXT("big", big.data), AUDIT_END};
	const struct audit_event e = {.action = "x", .detail = detail};
	while (audit_add(a, &e, &err) == 0)
		n++;
	assert_true(n > 200 && n < 400);
	assert_non_null(strstr(err.message, "wait to be written"));
	assert_int_equal(audit_commit(a, &err), 0);
	assert_int_equal(audit_add(a, &e, &err), 0);
	audit_close(a);
	assert_int_equal(assert_chain(*state), n + 1);
}

static void test_a_sync_that_failed_is_never_forgotten(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);

	put(a, "one");
	sync_errno = EIO;
	assert_int_equal(audit_record(a, &event, &err), -1);
	assert_int_equal(err.sys_errno, EIO);
	sync_errno = 0; /* the kernel tells it once, and then forgets */
	assert_int_equal(audit_record(a, &event, &err), -1);
	assert_non_null(strstr(err.message, "could not be synced before"));
	audit_close(a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_records_form_a_chain_in_a_private_place),
		TEST(test_a_directory_that_others_may_write_is_refused),
		TEST(test_what_is_added_is_written_by_the_commit),
		TEST(test_mode_seal_does_not_sync),
		TEST(test_the_logs_own_actions_are_taken),
		TEST(test_a_full_segment_ends_and_the_next_goes_on),
		TEST(test_one_batch_may_fill_several_segments),
		TEST(test_rotate_ends_a_segment_that_holds_something),
		TEST(test_writers_notice_each_other),
		TEST(test_a_segment_that_ended_without_a_next_one_is_left),
		TEST(test_a_lost_or_wrong_hint_does_no_harm),
		TEST(test_a_log_whose_past_is_gone_is_not_continued),
		TEST(test_nothing_half_stays_when_the_disk_is_full),
		TEST(test_a_full_disk_at_the_end_of_a_segment_loses_and_doubles_nothing),
		TEST(test_a_limit_on_file_sizes_is_an_error_too),
		TEST(test_too_much_that_waits_is_refused),
		TEST(test_a_sync_that_failed_is_never_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
