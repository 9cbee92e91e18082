/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads at once; and processes that are killed in the middle of what they do: what they were told is stored, is. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "fixture.h"

/* ---- many at once --------------------------------------------------------------------------------------------------------------- */

enum { ADDERS = 8, EACH = 200, NODES = 2, ALL = ADDERS * EACH };

static char tenants[3][ID_LEN + 1];
static atomic_int finished, ends[ALL];

struct worker {
	pthread_t thread;
	int number;
	struct cordon_error err; /* of what failed */
};

static void *add_jobs(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < EACH; i++) {
		int number = w->number * EACH + i;
		struct store_job j = {.request = &number, .request_len = sizeof(number), .priority = i % 5, .keep_ms = DAY};
		memcpy(j.tenant, tenants[i % 3], sizeof(j.tenant));
		if (store_job_add(store, &j, ALL, NOW, &w->err) < 0)
			return NULL;
	}
	return NULL;
}

static int finish_one(struct worker *w, const char *node, const struct store_job *j)
{
	int number = -1;

	if (j->request_len == sizeof(number))
		memcpy(&number, j->request, sizeof(number));
	if (number < 0 || number >= ALL || strcmp(j->node, node) != 0)
		return err_set(&w->err, CORDON_ERR_SYSTEM, "a job that nobody has added");
	const int r = store_job_finish(store, node, j->id, STORE_SUCCEEDED, "", &number, sizeof(number), NOW, &w->err);
	if (r == 0) {
		ends[number]++;
		finished++;
	}
	return r == 1 ? err_set(&w->err, CORDON_ERR_SYSTEM, "a job that was somebody else's") : r;
}

static void *run_jobs(void *arg)
{
	struct worker *w = arg;
	char node[16];
	int r = 0;

	snprintf(node, sizeof(node), "node-%d", w->number);
	while (r >= 0 && finished < ALL) {
		struct store_job j;
		r = store_job_claim(store, node, DAY, NOW, &j, &w->err);
		if (r == 0)
			sched_yield();
		if (r > 0)
			r = finish_one(w, node, &j);
		store_job_clear(&j);
	}
	return NULL;
}

static void start(struct worker *w, int number, void *(*what)(void *))
{
	*w = (struct worker){.number = number};
	assert_int_equal(pthread_create(&w->thread, NULL, what, w), 0);
}

static void test_each_of_many_jobs_ends_exactly_once(void **state)
{
	struct worker workers[ADDERS + NODES];

	for (int i = 0; i < 3; i++)
		memcpy(tenants[i], tenant_new((const char *[]){"a", "b", "c"}[i]), ID_LEN + 1);
	for (int i = 0; i < ADDERS + NODES; i++)
		start(&workers[i], i, i < ADDERS ? add_jobs : run_jobs);
	for (int i = 0; i < ADDERS + NODES; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_string_equal(workers[i].err.message, "");
	}
	for (int i = 0; i < ALL; i++)
		assert_int_equal(ends[i], 1);
	assert_counts(NULL, 0, 0, ALL, 0);
	assert_int_equal(ask("SELECT count(*) FROM results NATURAL JOIN requests"), ALL); /* each with its own number */
	assert_consistent();
}

/* ---- killed --------------------------------------------------------------------------------------------------------------------- */

#define ROUNDS 50
#define PATIENCE_S 10 /* for all of them; the machine may be slow */
#define ACK_LEN (1 + STORE_UUID_LEN)

struct doomed {
	int pipe;
	const char *tenant;
};

/* 'A' and the id: it was added; 'F': it was finished. */
static void tell(int fd, char what, const char *id)
{
	char ack[ACK_LEN];

	ack[0] = what;
	memcpy(ack + 1, id, STORE_UUID_LEN);
	if (write(fd, ack, sizeof(ack)) != (ssize_t)sizeof(ack))
		_exit(1);
}

static void *add_until_killed(void *arg)
{
	const struct doomed *d = arg;
	char request[3000];

	memset(request, 'q', sizeof(request));
	for (;;) {
		struct store_job j = {.request = request, .request_len = sizeof(request), .keep_ms = DAY};
		snprintf(j.tenant, sizeof(j.tenant), "%s", d->tenant);
		if (store_job_add(store, &j, 0, NOW, NULL) < 0)
			_exit(1);
		tell(d->pipe, 'A', j.id);
	}
}

static void finish_until_killed(const struct doomed *d)
{
	for (;;) {
		struct store_job j;
		const int r = store_job_claim(store, "node", DAY, NOW, &j, NULL);
		if (r < 0 || (r > 0 && store_job_finish(store, "node", j.id, STORE_SUCCEEDED, "", j.id, STORE_UUID_LEN, NOW, NULL) != 0))
			_exit(1);
		if (r > 0)
			tell(d->pipe, 'F', j.id);
		store_job_clear(&j);
	}
}

static void be_killed(const struct doomed *d)
{
	pthread_t thread;

	if (store_open(path_of("store.db"), &store, NULL) < 0 || store_job_recover(store, "node", NOW, NULL, NULL, NULL) < 0 ||
	    pthread_create(&thread, NULL, add_until_killed, (void *)(uintptr_t)d) != 0)
		_exit(1);
	finish_until_killed(d);
}

struct acks {
	char (*list)[ACK_LEN];
	size_t count, room;
};

static bool read_ack(int fd, struct acks *a)
{
	if (a->count == a->room) {
		a->room = a->room ? 2 * a->room : 1024;
		a->list = realloc(a->list, a->room * sizeof(*a->list));
		assert_non_null(a->list);
	}
	if (fs_read_full(fd, a->list[a->count], ACK_LEN) != ACK_LEN)
		return false;
	a->count++;
	return true;
}

/* One is killed after so many answers: in the middle of what comes next. */
static void kill_one(const char *tenant, int answers, struct acks *acks)
{
	int pipe_ends[2], status;

	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_killed(&(struct doomed){pipe_ends[1], tenant});
	close(pipe_ends[1]);
	for (int i = 0; i < answers; i++)
		assert_true(read_ack(pipe_ends[0], acks));
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (read_ack(pipe_ends[0], acks)) /* those that it still got */
		;
	close(pipe_ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_acknowledged(const char *ack)
{
	char id[STORE_UUID_LEN + 1];
	struct store_job j;

	memcpy(id, ack + 1, STORE_UUID_LEN);
	id[STORE_UUID_LEN] = '\0';
	assert_int_equal(store_job_get(store, NULL, id, &j, &err), 1);
	assert_int_equal(j.request_len, 3000);
	if (ack[0] == 'F') {
		assert_int_equal(j.state, STORE_SUCCEEDED);
		assert_int_equal(j.result_len, STORE_UUID_LEN);
		assert_memory_equal(j.result, id, STORE_UUID_LEN);
	}
	store_job_clear(&j);
}

static void test_what_was_acknowledged_survives_kill_9(void **state)
{
	struct acks acks = {0};
	struct timespec begin, now;
	size_t checked = 0;
	int rounds = 0;
	char tenant[ID_LEN + 1];

	memcpy(tenant, tenant_new("a"), sizeof(tenant));
	srand((unsigned)getpid());
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		store_close(store);
		store = NULL;
		kill_one(tenant, rand() % 30, &acks); /* with none: while it opens */
		assert_fine(store_open(path_of("store.db"), &store, &err));
		for (; checked < acks.count; checked++)
			assert_acknowledged(acks.list[checked]);
		assert_consistent();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (++rounds < ROUNDS && now.tv_sec - begin.tv_sec < PATIENCE_S);
	for (size_t i = 0; i < acks.count; i++) /* nor has a later one lost what was there before */
		assert_acknowledged(acks.list[i]);
	assert_true(acks.count > 0);
	print_message("# killed %d times, %zu answers\n", rounds, acks.count);
	free(acks.list);
}

/* Killed before, while, or after the file takes its place. */
static void test_a_store_that_is_being_made_is_whole_or_not_there(void **state)
{
	for (int i = 0; i < 20; i++) {
		int status;
		char name[32];

		snprintf(name, sizeof(name), "new-%d.db", i);
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct store *s;
			_exit(store_open(path_of(name), &s, NULL) < 0);
		}
		for (volatile int spin = rand() % 2000000; spin > 0; spin--)
			;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		struct store *s;
		assert_fine(store_open(path_of(name), &s, &err));
		assert_fine(store_check(s, &err));
		store_close(s);
	}
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_each_of_many_jobs_ends_exactly_once),
		A_TEST(test_what_was_acknowledged_survives_kill_9),
		cmocka_unit_test_setup_teardown(test_a_store_that_is_being_made_is_whole_or_not_there, home_setup, store_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
