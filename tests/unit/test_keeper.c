/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's messages and the logs of its services. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "keeper/keeper.h"

int64_t keeper_time_ms(void)
{
	return 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------------------- */

static const char *words[] = {"sh", "-c", "", NULL}, *env[] = {"A=b", NULL};

static struct keeper_request exec_request(void)
{
	return (struct keeper_request){.verb = KEEPER_EXEC,
	                               .flags = KEEPER_TTY | KEEPER_STDIN | KEEPER_HAS_OK,
	                               .timeout_ms = -1,
	                               .on_failure = 1 + TX_KEEP,
	                               .ok = {[31] = 0x80},
	                               .rows = 24,
	                               .cols = 80,
	                               .cwd = "/app",
	                               .argv = {words, 3},
	                               .env = {env, 1}};
}

static int decode(const struct keeper_request *r, struct buf *body, struct keeper_request *out, struct cordon_error *err)
{
	buf_free(body);
	request_encode(r, body);
	return request_decode(body->data, body->len, out, err);
}

static void test_a_request_arrives_as_it_was_sent(void **state)
{
	_cleanup_buf_ struct buf body = {0};
	struct keeper_request sent = exec_request(), got;
	(void)state;
	assert_int_equal(decode(&sent, &body, &got, NULL), 0);
	assert_int_equal(got.verb, KEEPER_EXEC);
	assert_int_equal(got.flags, sent.flags);
	assert_int_equal(got.timeout_ms, -1);
	assert_int_equal(got.on_failure, 1 + TX_KEEP);
	assert_memory_equal(got.ok, sent.ok, sizeof(sent.ok));
	assert_int_equal(got.rows, 24);
	assert_int_equal(got.cols, 80);
	assert_string_equal(got.cwd, "/app");
	assert_null(got.name);
	assert_int_equal(got.argv.count, 3);
	assert_string_equal(got.argv.items[2], "");
	assert_null(got.argv.items[3]);
	assert_string_equal(got.env.items[0], "A=b");
	request_free(&got);
}

static void test_a_request_cut_anywhere_is_refused(void **state)
{
	_cleanup_buf_ struct buf body = {0};
	const struct keeper_request sent = exec_request();
	(void)state;
	request_encode(&sent, &body);
	for (size_t len = 0; len < body.len; len++) {
		struct keeper_request got;
		_cleanup_free_ char *copy = malloc(len + 1);
		memcpy(copy, body.data, len);
		assert_int_equal(request_decode(copy, len, &got, NULL), -1);
	}
}

static void test_requests_that_make_no_sense_are_refused(void **state)
{
	_cleanup_buf_ struct buf body = {0};
	struct keeper_request bad[10], got;
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = exec_request();
	bad[0].verb = 0;
	bad[1].verb = KEEPER_VERB_COUNT;
	bad[2].flags = KEEPER_FLAGS_ALL + 1;
	bad[3].argv.count = 0;
	bad[4].cwd = "app";
	bad[5].name = "web"; /* not a service */
	bad[6].flags = KEEPER_DETACH | KEEPER_TTY;
	bad[7].on_failure = 1 + TX_ACTION_COUNT;
	bad[8].timeout_ms = -2;
	bad[9] = (struct keeper_request){.verb = KEEPER_KILL, .name = "web", .signo = 65};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(decode(&bad[i], &body, &got, NULL), -1);
}

static void test_names_of_services_are_names_of_files(void **state)
{
	static const char *const good[] = {"web", "a", "Web-2.0_x"}, *const evil[] = {"",        ".",  "..",  "../x", "a/b",
	                                                                              ".hidden", "-f", "a b", "a\n",  "\xff"};
	_cleanup_buf_ struct buf body = {0};
	struct keeper_request got;
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		const struct keeper_request r = {.verb = KEEPER_EXEC, .flags = KEEPER_DETACH, .name = good[i], .argv = {words, 1}};
		assert_int_equal(decode(&r, &body, &got, NULL), 0);
		request_free(&got);
	}
	for (size_t i = 0; i < ARRAY_SIZE(evil); i++) {
		struct cordon_error err = {0};
		const struct keeper_request r = {.verb = KEEPER_EXEC, .flags = KEEPER_DETACH, .name = evil[i], .argv = {words, 1}};
		assert_int_equal(decode(&r, &body, &got, &err), -1);
		assert_non_null(strstr(err.message, "no name for a service"));
	}
}

static void test_a_result_arrives_as_it_was_sent(void **state)
{
	static const struct cordon_change changes[] = {{"add", "a\nb", 3}, {"delete", "c", 0}};
	static const char *const services[] = {"web", "db"};
	const struct cordon_result sent = {
		.id = "abcdefghij0123456789",
		.sandbox = "0123456789abcdefghij",
		.state = "failed",
		.reason = "timeout",
		.exit_code = 124,
		.signal = 9,
		.stderr_truncated = 1,
		.duration_ms = 1.25,
		.usage = {.cpu_ms = 0.5, .memory_peak_bytes = -1, .pids_peak = 3, .memory_by = "cgroup2"},
		.error = "timed out",
		.transaction = {.outcome = "rolled_back",
	                        .before = "x",
	                        .after = "x",
	                        .changes = changes,
	                        .change_count = 2,
	                        .changes_total = 1234,
	                        .services = services,
	                        .service_count = 2},
	};
	_cleanup_buf_ struct buf body = {0};
	struct keeper_result got;
	(void)state;
	result_encode(&sent, &body);
	assert_int_equal(result_decode(body.data, body.len, &got, NULL), 0);
	const struct cordon_result *r = &got.result;
	assert_string_equal(r->id, sent.id);
	assert_string_equal(r->reason, "timeout");
	assert_null(r->hint);
	assert_int_equal(r->exit_code, 124);
	assert_int_equal(r->stdout_truncated, 0);
	assert_int_equal(r->stderr_truncated, 1);
	assert_true(r->duration_ms == 1.25 && r->usage.cpu_ms == 0.5);
	assert_int_equal(r->usage.memory_peak_bytes, -1);
	assert_int_equal(r->transaction.changes_total, 1234);
	assert_string_equal(r->transaction.changes[0].path, "a\nb");
	assert_int_equal(r->transaction.service_count, 2);
	assert_string_equal(r->transaction.services[1], "db");
	keeper_result_free(&got);
	assert_int_equal(result_decode(body.data, body.len - 1, &got, NULL), -1);
}

/* ---- logs -------------------------------------------------------------------------------------------------------------------- */

static char place[] = "/tmp/cordon-keeper.XXXXXX";
static int dir = -1;

static int make_place(void **state)
{
	(void)state;
	return mkdtemp(place) && (dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0 ? 0 : -1;
}

static int remove_place(void **state)
{
	(void)state;
	close(dir);
	return fs_remove_tree(AT_FDCWD, place, NULL);
}

static off_t size_of(const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : -1;
}

static void test_a_log_is_rotated_once_and_stays_within_its_size(void **state)
{
	const char *id = "aaaaaaaaaaaaaaaaaaaa";
	static char chunk[64 << 10];
	struct keeper_log l;
	(void)state;
	assert_int_equal(log_open(&l, dir, id, "web", NULL), 0);
	for (int i = 0; i < 25 * 16; i++) { /* 25 MiB */
		memset(chunk, 'a' + i % 26, sizeof(chunk));
		log_write(&l, chunk, sizeof(chunk));
	}
	log_close(&l);
	assert_int_equal(size_of("aaaaaaaaaaaaaaaaaaaa.log"), 5 << 20);
	assert_int_equal(size_of("aaaaaaaaaaaaaaaaaaaa.log.1"), 10 << 20);
	assert_int_equal(size_of("aaaaaaaaaaaaaaaaaaaa.log.2"), -1);
	char last;
	_cleanup_fd_ int fd = openat(dir, "web.log", O_RDONLY | O_CLOEXEC); /* the link leads to the newest part */
	assert_int_equal(pread(fd, &last, 1, (5 << 20) - 1), 1);
	assert_int_equal(last, 'a' + (25 * 16 - 1) % 26);
}

static void test_the_name_leads_to_the_last_of_its_logs(void **state)
{
	char target[64] = "";
	struct keeper_log l;
	(void)state;
	assert_int_equal(log_open(&l, dir, "bbbbbbbbbbbbbbbbbbbb", "web", NULL), 0);
	log_close(&l);
	assert_true(readlinkat(dir, "web.log", target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "bbbbbbbbbbbbbbbbbbbb.log");
}

static void test_old_logs_are_removed_and_nothing_else(void **state)
{
	struct keeper_log quiet;
	(void)state;
	assert_int_equal(log_open(&quiet, dir, "dddddddddddddddddddd", "", NULL), 0);
	const struct timespec long_ago[] = {{.tv_sec = 1}, {.tv_sec = 1}};
	futimens(quiet.fd, long_ago);
	close(openat(dir, "notes", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	for (int i = 0; i < 60; i++) {
		char id[ID_LEN + 1];
		struct keeper_log l;
		snprintf(id, sizeof(id), "cccccccccccccccccc%02d", i);
		assert_int_equal(log_open(&l, dir, id, "", NULL), 0);
		const struct timespec times[] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
		futimens(l.fd, times);
		log_close(&l);
	}
	unsigned left = 0;
	for (int i = 0; i < 60; i++) {
		char name[ID_LEN + 8];
		snprintf(name, sizeof(name), "cccccccccccccccccc%02d.log", i);
		left += size_of(name) >= 0;
	}
	assert_in_range(left, 25, 32);
	assert_int_equal(size_of("cccccccccccccccccc59.log"), 0);
	assert_int_equal(size_of("cccccccccccccccccc00.log"), -1);
	assert_int_equal(size_of("dddddddddddddddddddd.log"), 0); /* old, but somebody writes to it */
	log_close(&quiet);
	assert_int_equal(size_of("notes"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_request_arrives_as_it_was_sent),
		cmocka_unit_test(test_a_request_cut_anywhere_is_refused),
		cmocka_unit_test(test_requests_that_make_no_sense_are_refused),
		cmocka_unit_test(test_names_of_services_are_names_of_files),
		cmocka_unit_test(test_a_result_arrives_as_it_was_sent),
		cmocka_unit_test(test_a_log_is_rotated_once_and_stays_within_its_size),
		cmocka_unit_test(test_the_name_leads_to_the_last_of_its_logs),
		cmocka_unit_test(test_old_logs_are_removed_and_nothing_else),
	};
	return cmocka_run_group_tests_name("keeper", tests, make_place, remove_place);
}
