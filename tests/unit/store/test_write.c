/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that writes: who shares a transaction, and whose failure is whose. The disk is full in several ways. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "fixture.h"

/* ---- calls that wait for each other --------------------------------------------------------------------------------------------- */

static sem_t go;
static atomic_bool held;
static atomic_int commits;

static int count_commit(void *arg)
{
	(void)arg;
	commits++;
	return 0;
}

/* Holds the thread that writes until it is let go: meanwhile calls gather. */
static int hold(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	sqlite3_commit_hook(db->handle, count_commit, NULL);
	const int r = db_exec(db, "UPDATE totals SET checks = 1000", e);
	held = true;
	while (sem_wait(&go) < 0)
		;
	return r;
}

struct call {
	pthread_t thread;
	store_fn *fn;
	int result;
	struct cordon_error err;
};

static void *be_a_caller(void *arg)
{
	struct call *c = arg;

	c->result = store_write(store, c->fn, c, &c->err);
	return NULL;
}

static void start(struct call *c, store_fn *fn)
{
	*c = (struct call){.fn = fn};
	assert_int_equal(pthread_create(&c->thread, NULL, be_a_caller, c), 0);
}

static void wait_for_waiting(size_t count)
{
	size_t now;

	do {
		sched_yield();
		pthread_mutex_lock(&store->writer.mutex);
		now = store->writer.waiting;
		pthread_mutex_unlock(&store->writer.mutex);
	} while (now < count);
}

static struct call holder;

static void hold_the_writer(void)
{
	held = false;
	start(&holder, hold);
	while (!held)
		sched_yield();
}

static void let_go(void)
{
	sem_post(&go);
	assert_int_equal(pthread_join(holder.thread, NULL), 0);
	assert_int_equal(holder.result, 0);
}

/* All of them wait together, and are done when it returns. */
static void run_together(struct call *calls, size_t count, store_fn *(*which)(size_t i))
{
	hold_the_writer();
	for (size_t i = 0; i < count; i++) {
		start(&calls[i], which(i));
		wait_for_waiting(i + 1); /* in their order */
	}
	commits = 0;
	let_go();
	for (size_t i = 0; i < count; i++)
		assert_int_equal(pthread_join(calls[i].thread, NULL), 0);
}

static int setup(void **state)
{
	sem_init(&go, 0, 0);
	return store_setup(state);
}

/* ---- what they do --------------------------------------------------------------------------------------------------------------- */

static int add_one(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	return db_exec(db, "UPDATE totals SET checks = checks + 1", e);
}

static int add_hundred_and_fail(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	if (db_exec(db, "UPDATE totals SET checks = checks + 100", e) < 0)
		return -1;
	return err_set(e, CORDON_ERR_INPUT, "I changed my mind");
}

/* What SQLite does by itself after some errors. */
static int undo_everything(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	db_exec(db, "UPDATE totals SET checks = checks + 10000; ROLLBACK", NULL);
	return err_set(e, CORDON_ERR_SYSTEM, "I took all with me");
}

/* Found only by COMMIT: a key of a tenant that there is not. */
static int spoil_the_commit(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	return db_exec(
		db,
		"PRAGMA defer_foreign_keys = ON;"
		"INSERT INTO keys (id, tenant, hash, label, scopes, created_ms, expires_ms) VALUES ('k', 'nobody', zeroblob(32), '', 1, 0, 0)",
		e);
}

static int return_seven(struct db *db, void *arg, struct cordon_error *e)
{
	(void)db;
	(void)arg;
	(void)e;
	return 7;
}

static store_fn *all_good(size_t i)
{
	(void)i;
	return add_one;
}

static store_fn *third_fails(size_t i)
{
	return i == 2 ? add_hundred_and_fail : add_one;
}

static store_fn *third_undoes(size_t i)
{
	return i == 2 ? undo_everything : i == 3 ? add_hundred_and_fail : add_one;
}

static store_fn *third_spoils(size_t i)
{
	return i == 2 ? spoil_the_commit : i == 3 ? add_hundred_and_fail : add_one;
}

/* ---- together ------------------------------------------------------------------------------------------------------------------- */

static void test_what_waits_together_shares_one_commit(void **state)
{
	struct call calls[8];

	run_together(calls, 8, all_good);
	for (int i = 0; i < 8; i++)
		assert_int_equal(calls[i].result, 0);
	assert_int_equal(commits, 2); /* the holder's, and theirs */
	assert_int_equal(ask("SELECT checks FROM totals"), 1008);
}

static void test_there_is_an_end_to_who_shares_one(void **state)
{
	static struct call calls[WRITE_TOGETHER + 1];

	run_together(calls, WRITE_TOGETHER + 1, all_good);
	assert_int_equal(commits, 3);
	assert_int_equal(ask("SELECT checks FROM totals"), 1000 + WRITE_TOGETHER + 1);
}

static void test_one_that_fails_undoes_only_itself(void **state)
{
	struct call calls[5];

	run_together(calls, 5, third_fails);
	for (int i = 0; i < 5; i++)
		assert_int_equal(calls[i].result, i == 2 ? -1 : 0);
	assert_string_equal(calls[2].err.message, "I changed my mind");
	assert_int_equal(commits, 2);
	assert_int_equal(ask("SELECT checks FROM totals"), 1004);
}

static void test_one_that_takes_the_transaction_with_it_fails_alone(void **state)
{
	struct call calls[6];

	run_together(calls, 6, third_undoes);
	for (int i = 0; i < 6; i++)
		assert_int_equal(calls[i].result, i == 2 || i == 3 ? -1 : 0);
	assert_string_equal(calls[2].err.message, "I took all with me");
	assert_string_equal(calls[3].err.message, "I changed my mind");
	assert_int_equal(ask("SELECT checks FROM totals"), 1004);
}

static void test_a_commit_that_fails_fails_all_of_them(void **state)
{
	struct call calls[5];

	run_together(calls, 5, third_spoils);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(calls[i].result, -1);
		assert_non_null(strstr(calls[i].err.message, i == 3 ? "I changed my mind" : "FOREIGN KEY constraint failed"));
	}
	assert_int_equal(ask("SELECT checks FROM totals"), 1000); /* the holder's */
	assert_int_equal(ask("SELECT count(*) FROM keys"), 0);
	assert_fine(store_check(store, &err)); /* it goes on */
	assert_int_equal(ask("SELECT checks FROM totals"), 1001);
}

static void test_what_a_call_returns_comes_back(void **state)
{
	assert_int_equal(store_write(store, return_seven, NULL, &err), 7);
	assert_int_equal(store_write(store, add_hundred_and_fail, NULL, NULL), -1); /* without an error to fill */
}

/* ---- beside it ------------------------------------------------------------------------------------------------------------------ */

static int checks_of(struct db *db, void *arg, struct cordon_error *e)
{
	_cleanup_query_ struct query q = query_new(db, "SELECT checks FROM totals");

	(void)arg;
	return query_next(&q, e) < 0 ? -1 : (int)query_int_at(&q, 0);
}

static void test_who_reads_does_not_wait_for_who_writes(void **state)
{
	hold_the_writer();
	assert_int_equal(store_read(store, checks_of, NULL, &err), 0); /* what is not stored yet is not seen */
	let_go();
	assert_int_equal(store_read(store, checks_of, NULL, &err), 1000);
}

static int do_not_wait(struct db *db, void *arg, struct cordon_error *e)
{
	(void)arg;
	(void)e;
	sqlite3_busy_timeout(db->handle, 0);
	return 0;
}

static void test_another_program_that_holds_it_is_told_of(void **state)
{
	_cleanup_db_ struct db other = {0};

	assert_fine(store_write(store, do_not_wait, NULL, &err));
	assert_fine(db_open(&other, path_of("store.db"), SQLITE_OPEN_READWRITE, &err));
	assert_fine(db_exec(&other, "BEGIN IMMEDIATE", &err));
	assert_error(store_check(store, &err), CORDON_ERR_BUSY, "is held by another program");
	assert_int_equal(store_read(store, checks_of, NULL, &err), 0);
	assert_fine(db_exec(&other, "COMMIT", &err));
	assert_fine(store_check(store, &err));
}

static void *close_it(void *arg)
{
	store_close(arg);
	return NULL;
}

static void test_nobody_hangs_when_it_is_closed(void **state)
{
	struct call calls[4];
	pthread_t closer;
	bool closing;

	hold_the_writer();
	for (size_t i = 0; i < 4; i++)
		start(&calls[i], add_one);
	wait_for_waiting(4);
	assert_int_equal(pthread_create(&closer, NULL, close_it, store), 0);
	do {
		sched_yield();
		pthread_mutex_lock(&store->door);
		closing = store->closing;
		pthread_mutex_unlock(&store->door);
	} while (!closing);
	assert_error(store_check(store, &err), CORDON_ERR_BUSY, "the store is being closed");
	assert_error(store_read(store, checks_of, NULL, &err), CORDON_ERR_BUSY, "the store is being closed");
	let_go();
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(calls[i].thread, NULL), 0);
		assert_int_equal(calls[i].result, 0);
	}
	assert_int_equal(pthread_join(closer, NULL), 0);
	store = NULL;
	assert_int_equal(ask("SELECT checks FROM totals"), 1004);
}

static int hold_and_read(struct db *db, void *arg, struct cordon_error *e)
{
	held = true;
	while (sem_wait(&go) < 0)
		;
	return checks_of(db, arg, e);
}

static void *be_a_reader(void *arg)
{
	struct call *c = arg;

	c->result = store_read(store, hold_and_read, NULL, &c->err);
	return NULL;
}

static void test_it_is_not_closed_under_who_reads(void **state)
{
	struct call reader = {0};
	pthread_t closer;

	held = false;
	assert_fine(store_check(store, &err));
	assert_int_equal(pthread_create(&reader.thread, NULL, be_a_reader, &reader), 0);
	while (!held)
		sched_yield();
	assert_int_equal(pthread_create(&closer, NULL, close_it, store), 0);
	for (int i = 0; i < 5000; i++) { /* as often as we look, it waits */
		assert_int_equal(pthread_tryjoin_np(closer, NULL), EBUSY);
		sched_yield();
	}
	sem_post(&go);
	assert_int_equal(pthread_join(reader.thread, NULL), 0);
	assert_int_equal(pthread_join(closer, NULL), 0);
	store = NULL;
	assert_int_equal(reader.result, 1);
}

/* ---- a full disk ---------------------------------------------------------------------------------------------------------------- */

static int add_large(const char *tenant, size_t len)
{
	_cleanup_free_ char *request = malloc(len);
	struct store_job j = {.request = request, .request_len = len};

	memset(request, 'x', len);
	snprintf(j.tenant, sizeof(j.tenant), "%s", tenant);
	return store_job_add(store, &j, 0, NOW, &err);
}

static void test_a_database_that_cannot_grow_keeps_what_it_has(void **state)
{
	const char *tenant = tenant_new("a");
	uint64_t added = 0;
	char limit[64];

	snprintf(limit, sizeof(limit), "PRAGMA max_page_count = %d", (int)ask("PRAGMA page_count") + 600);
	assert_fine(execute(limit));
	while (add_large(tenant, 500000) == 0)
		added++;
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_non_null(strstr(err.hint, "make room"));
	assert_error(-1, CORDON_ERR_SYSTEM, "store.db cannot grow: No space left on device");
	assert_true(added >= 2);
	assert_counts(tenant, added, 0, 0, 0);
	assert_consistent();
	assert_fine(add_large(tenant, 10)); /* what is small may still fit */
	assert_fine(execute("PRAGMA max_page_count = 1000000"));
	assert_fine(add_large(tenant, 500000));
	assert_counts(tenant, added + 2, 0, 0, 0);
	reopen();
	assert_counts(tenant, added + 2, 0, 0, 0);
	assert_consistent();
}

static atomic_bool full;
static sqlite3_syscall_ptr real_writes[3];
static const char *const write_calls[3] = {"write", "pwrite", "pwrite64"};

static ssize_t refuse_write(int fd, const void *data, size_t len)
{
	if (full) {
		errno = ENOSPC;
		return -1;
	}
	return write(fd, data, len);
}

static ssize_t refuse_pwrite(int fd, const void *data, size_t len, off_t at)
{
	if (full) {
		errno = ENOSPC;
		return -1;
	}
	return pwrite(fd, data, len, at);
}

/* SQLite calls these in the place of the system's. */
static void stand_in(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	const sqlite3_syscall_ptr ours[3] = {(sqlite3_syscall_ptr)refuse_write, (sqlite3_syscall_ptr)refuse_pwrite,
	                                     (sqlite3_syscall_ptr)refuse_pwrite};

	for (int i = 0; i < 3; i++) {
		real_writes[i] = vfs->xGetSystemCall(vfs, write_calls[i]);
		if (real_writes[i])
			assert_int_equal(vfs->xSetSystemCall(vfs, write_calls[i], ours[i]), SQLITE_OK);
	}
}

static int full_setup(void **state)
{
	full = false;
	stand_in();
	return setup(state);
}

static int full_teardown(void **state)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	for (int i = 0; i < 3; i++)
		if (real_writes[i])
			vfs->xSetSystemCall(vfs, write_calls[i], real_writes[i]);
	return store_teardown(state);
}

static void test_a_full_disk_fails_what_is_written_and_nothing_else(void **state)
{
	const char *tenant = tenant_new("a"), *id = job_new(tenant);

	full = true;
	assert_error(store_check(store, &err), CORDON_ERR_SYSTEM, "the store cannot be used: ");
	assert_error(add_large(tenant, 100), CORDON_ERR_SYSTEM, "No space left on device");
	assert_error(store_job_claim(store, "node", MINUTE, NOW, &(struct store_job){0}, &err), CORDON_ERR_SYSTEM,
	             "No space left on device");
	assert_job(id, STORE_QUEUED, ""); /* it can be read */
	assert_counts(tenant, 1, 0, 0, 0);
	full = false;
	assert_fine(add_large(tenant, 100));
	assert_string_equal(claim(NOW), id);
	assert_counts(tenant, 1, 1, 0, 0);
	reopen();
	assert_counts(tenant, 1, 1, 0, 0);
	assert_consistent();
}

static void test_a_disk_that_is_full_from_the_start_leaves_nothing(void **state)
{
	struct store *s;

	full = true;
	assert_error(store_open(path_of("second.db"), &s, &err), CORDON_ERR_SYSTEM, "No space left on device");
	full = false;
	assert_fine(store_open(path_of("second.db"), &s, &err));
	assert_fine(store_check(s, &err));
	store_close(s);
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, setup, store_teardown)
#define A_FULL_TEST(name) cmocka_unit_test_setup_teardown(name, full_setup, full_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_what_waits_together_shares_one_commit),
		A_TEST(test_there_is_an_end_to_who_shares_one),
		A_TEST(test_one_that_fails_undoes_only_itself),
		A_TEST(test_one_that_takes_the_transaction_with_it_fails_alone),
		A_TEST(test_a_commit_that_fails_fails_all_of_them),
		A_TEST(test_what_a_call_returns_comes_back),
		A_TEST(test_who_reads_does_not_wait_for_who_writes),
		A_TEST(test_another_program_that_holds_it_is_told_of),
		A_TEST(test_nobody_hangs_when_it_is_closed),
		A_TEST(test_it_is_not_closed_under_who_reads),
		A_TEST(test_a_database_that_cannot_grow_keeps_what_it_has),
		A_FULL_TEST(test_a_full_disk_fails_what_is_written_and_nothing_else),
		A_FULL_TEST(test_a_disk_that_is_full_from_the_start_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
