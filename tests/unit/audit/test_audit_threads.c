/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads and processes that write at the same time, and those who watch them. fdatasync(2) is stood in for, to count and to wait. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/query.h"
#include "audit_fixture.h"
#include "base/util.h"

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static atomic_int syncs;          /* how many there were */
static atomic_bool hold, holding; /* the next one waits until hold is false */

int __wrap_fdatasync(int fd)
{
	syncs++;
	while (hold) {
		holding = true;
		sched_yield();
	}
	return __real_fdatasync(fd);
}

static int setup(void **state)
{
	syncs = 0;
	hold = holding = false;
	return home_setup(state);
}

static const struct audit_event event = {.level = AUDIT_INFO, .category = AUDIT_EXEC, .action = "start", .target = "x"};

/* ---- many at once ------------------------------------------------------------------------------------------------------------ */

struct many {
	struct audit *audit;
	int process, thread, count;
};

static void *write_many(void *arg)
{
	const struct many *m = arg;
	struct cordon_error err = {0};

	for (int i = 0; i < m->count; i++) {
		char target[64];

		snprintf(target, sizeof(target), "%d-%d-%d", m->process, m->thread, i);
		if (audit_add(m->audit,
		              &(struct audit_event){.level = AUDIT_INFO, .category = AUDIT_FILE, .action = "write", .target = target},
		              &err) < 0 ||
		    (i % 7 == 6 && audit_commit(m->audit, &err) < 0))
			return (void *)"failed";
	}
	return audit_commit(m->audit, &err) < 0 ? (void *)"failed" : NULL;
}

enum { PROCESSES = 2, THREADS = 4, EACH = 2500 };

static int be_a_process(const char *home, int process)
{
	const struct audit_options small = {.max_segment = 300000, .sync = process ? AUDIT_SYNC_SEAL : AUDIT_SYNC_RESULT};
	struct audit *a;
	pthread_t threads[THREADS];
	struct many many[THREADS];
	int failed = audit_open(&a, home, &small, NULL) < 0;

	for (int i = 0; i < THREADS && !failed; i++) {
		many[i] = (struct many){a, process, i, EACH};
		failed = pthread_create(&threads[i], NULL, write_many, &many[i]) != 0;
	}
	for (int i = 0; i < THREADS && !failed; i++) {
		void *result;

		failed = pthread_join(threads[i], &result) != 0 || result;
	}
	if (!failed)
		audit_close(a);
	return failed;
}

/* Every record once, those of a thread in their order. */
struct order {
	int next[PROCESSES][THREADS];
};

static int in_order(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	struct order *o = arg;
	char target[64] = "";
	int process, thread, i;

	memcpy(target, l->target.at, MIN(l->target.len, sizeof(target) - 1));
	assert_int_equal(sscanf(target, "%d-%d-%d", &process, &thread, &i), 3);
	assert_int_equal(o->next[process][thread]++, i);
	return 0;
}

static void test_processes_and_threads_append_without_a_gap(void **state)
{
	struct cordon_error err = {0};
	struct order order = {0};
	struct audit_found found;
	pid_t pids[PROCESSES];

	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(be_a_process(*state, i));
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_chain(*state);
	assert_int_equal(audit_query(*state, &(struct audit_filter){.action = "write"}, 0, in_order, &order, &found, &err), 0);
	assert_int_equal(found.matched, PROCESSES * THREADS * EACH);
	assert_true(file_exists(*state, "000010.jsonl"));
}

static size_t count_lines(const char *home)
{
	if (!file_exists(home, "000001.jsonl"))
		return 0;
	_cleanup_free_ char *text = file_read(home, "000001.jsonl", NULL);
	size_t n = 0;

	for (const char *s = text; (s = strchr(s, '\n')); s++)
		n++;
	return n;
}

/* While the first one's sync waits, all others get written; then one sync is enough for them together. */
static void test_commits_at_the_same_time_share_a_sync(void **state)
{
	enum { OTHERS = 5 };
	struct audit *a = open_log(*state, NULL);
	pthread_t threads[OTHERS + 1];
	struct many many[OTHERS + 1];

	put(a, "x");
	syncs = 0;
	hold = true;
	for (int i = 0; i <= OTHERS; i++) {
		many[i] = (struct many){a, 0, i, 1};
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &many[i]), 0);
		while (!holding)
			sched_yield();
	}
	while (count_lines(*state) < OTHERS + 2)
		sched_yield();
	assert_int_equal(syncs, 1);
	hold = false;
	for (int i = 0; i <= OTHERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(syncs, 2);
	audit_close(a);
	assert_int_equal(assert_chain(*state), OTHERS + 2);
}

/* ---- watching ---------------------------------------------------------------------------------------------------------------- */

struct seen {
	struct audit *audit;
	uint64_t count, last;
	int id;
};

static void see(void *arg, const char *line, size_t len)
{
	struct seen *s = arg;
	struct audit_line l;

	assert_int_equal(strlen(line), len);
	assert_null(audit_scan(line, len, &l));
	assert_int_equal(l.seq, s->last + 1);
	s->last = l.seq;
	s->count++;
}

static void test_callbacks_see_every_committed_record_in_order(void **state)
{
	const struct audit_options small = {.max_segment = 20000, .sync = AUDIT_SYNC_SEAL};
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &small);
	struct seen seen = {0};
	pthread_t threads[THREADS];
	struct many many[THREADS];

	int id = audit_subscribe(a, see, &seen, &err);
	assert_true(id >= 0);
	assert_int_equal(audit_add(a, &event, &err), 0);
	assert_int_equal(seen.count, 0);
	assert_int_equal(audit_commit(a, &err), 0);
	assert_int_equal(seen.count, 1);
	for (int i = 0; i < THREADS; i++) {
		many[i] = (struct many){a, 0, i, 200};
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &many[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	audit_unsubscribe(a, id); /* waits for the last one */
	assert_int_equal(seen.count, assert_chain(*state));
	put(a, "unseen");
	assert_int_equal(seen.count + 1, assert_chain(*state));
	audit_close(a);
}

/* A callback may use the log itself, and leave. */
static void answer(void *arg, const char *line, size_t len)
{
	struct seen *s = arg;

	see(s, line, len);
	if (s->count == 1)
		put(s->audit, "from the callback");
	if (s->count == 2)
		audit_unsubscribe(s->audit, s->id);
}

static void test_a_callback_may_write_and_unsubscribe(void **state)
{
	struct cordon_error err = {0};
	struct seen seen = {.audit = open_log(*state, NULL)};

	seen.id = audit_subscribe(seen.audit, answer, &seen, &err);
	put(seen.audit, "x");
	put(seen.audit, "y");
	assert_int_equal(seen.count, 2);
	audit_close(seen.audit);
	assert_int_equal(assert_chain(*state), 3);
}

static void test_there_is_a_limit_of_callbacks(void **state)
{
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, NULL);
	int n = 0, id = 0;

	while ((id = audit_subscribe(a, see, NULL, &err)) >= 0)
		n++;
	assert_int_equal(n, 16);
	audit_unsubscribe(a, 3);
	assert_true(audit_subscribe(a, see, NULL, &err) >= 0);
	audit_close(a);
}

static void test_recent_records_are_kept_and_filtered(void **state)
{
	const struct audit_options some = {.max_entries = 5, .sync = AUDIT_SYNC_SEAL};
	struct cordon_error err = {0};
	struct audit *a = open_log(*state, &some);
	_cleanup_buf_ struct buf all = {0}, last = {0}, odd = {0};

	for (int i = 0; i < 12; i++) {
		char target[16];

		snprintf(target, sizeof(target), "t%d", i);
		put(a, target);
	}
	assert_int_equal(audit_recent(a, NULL, 0, &all, &err), 0);
	assert_null(strstr(all.data, "\"t6\""));
	assert_non_null(strstr(all.data, "\"t7\""));
	assert_non_null(strstr(all.data, "\"t11\""));
	assert_int_equal(audit_recent(a, NULL, 1, &last, &err), 0);
	assert_null(strstr(last.data, "\"t10\""));
	assert_non_null(strstr(last.data, "\"t11\""));
	assert_int_equal(audit_recent(a, &(struct audit_filter){.target = "t?"}, 0, &odd, &err), 0);
	assert_null(strstr(odd.data, "\"t10\""));
	assert_non_null(strstr(odd.data, "\"t9\""));
	audit_close(a);
	const struct audit_options far_too_many = {.max_entries = SIZE_MAX / 2};
	assert_int_equal(audit_open(&a, *state, &far_too_many, &err), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_processes_and_threads_append_without_a_gap),
		TEST(test_commits_at_the_same_time_share_a_sync),
		TEST(test_callbacks_see_every_committed_record_in_order),
		TEST(test_a_callback_may_write_and_unsubscribe),
		TEST(test_there_is_a_limit_of_callbacks),
		TEST(test_recent_records_are_kept_and_filtered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
