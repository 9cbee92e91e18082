/* SPDX-License-Identifier: Apache-2.0 */
/* Which job is next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static void finish(const char *id)
{
	assert_int_equal(store_job_finish(store, "node", id, STORE_SUCCEEDED, NULL, NULL, 0, NOW, &err), 0);
}

/* ---- claimed ------------------------------------------------------------------------------------------------------------------- */

static void test_a_claimed_job_is_its_nodes_with_everything(void **state)
{
	static char request[] = "echo";
	const char *a = tenant_new("a");
	struct store_job j;

	job_new_with(a, (struct store_job){.request = request, .request_len = 4, .tries_max = 2});
	assert_int_equal(store_job_claim(store, "node-1", MINUTE, NOW + 3, &j, &err), 1);
	assert_int_equal(j.state, STORE_RUNNING);
	assert_string_equal(j.node, "node-1");
	assert_int_equal(j.lease_ms, NOW + 3 + MINUTE);
	assert_int_equal(j.started_ms, NOW + 3);
	assert_int_equal(j.tries, 1);
	assert_int_equal(j.request_len, 4);
	assert_memory_equal(j.request, "echo", 4);
	store_job_clear(&j);
	assert_counts(a, 0, 1, 0, 0);
}

static void test_a_claimed_job_is_not_claimed_twice(void **state)
{
	job_new(tenant_new("a"));
	assert_string_not_equal(claim(NOW), "");
	assert_string_equal(claim(NOW), "");
	assert_string_equal(claim(NOW + DAY), ""); /* nor when the lease is over, before it is recovered */
}

static void test_nothing_waits_in_an_empty_store(void **state)
{
	struct store_job j;

	assert_int_equal(store_job_claim(store, "node", MINUTE, NOW, &j, &err), 0);
	assert_null(j.request);
	assert_string_equal(j.id, "");
}

static void test_a_claim_needs_a_node_and_a_time(void **state)
{
	struct store_job j;
	char longest[STORE_NAME_MAX + 2];

	memset(longest, 'n', sizeof(longest) - 1);
	longest[STORE_NAME_MAX + 1] = '\0';
	assert_error(store_job_claim(store, "", MINUTE, NOW, &j, &err), CORDON_ERR_INPUT, "the node is missing");
	assert_error(store_job_claim(store, NULL, MINUTE, NOW, &j, &err), CORDON_ERR_INPUT, "the node is missing");
	assert_error(store_job_claim(store, longest, MINUTE, NOW, &j, &err), CORDON_ERR_INPUT, "the node is longer than 64 bytes");
	assert_error(store_job_claim(store, "n\xff", MINUTE, NOW, &j, &err), CORDON_ERR_INPUT, "the node is not UTF-8");
	assert_error(store_job_claim(store, "n", -1, NOW, &j, &err), CORDON_ERR_INPUT, "the lease: -1 ms");
	assert_error(store_job_claim(store, "n", MINUTE, INT64_MAX, &j, &err), CORDON_ERR_INPUT, "the time");
}

/* ---- order --------------------------------------------------------------------------------------------------------------------- */

static void test_the_highest_priority_is_first_then_the_oldest(void **state)
{
	const char *a = tenant_new("a");
	const char *low = job_new_with(a, (struct store_job){.priority = -1}), *first = job_new_with(a, (struct store_job){.priority = 5}),
		   *second = job_new_with(a, (struct store_job){.priority = 5}), *middle = job_new(a);

	assert_string_equal(claim(NOW), first);
	assert_string_equal(claim(NOW), second);
	assert_string_equal(claim(NOW), middle);
	assert_string_equal(claim(NOW), low);
}

/* The one with a hundred jobs waits no less than the one with two. */
static void test_tenants_take_turns_whatever_they_have_queued(void **state)
{
	const char *many = tenant_new("many"), *some = tenant_new("some"), *few = tenant_new("few");
	int served[3] = {0};

	for (int i = 0; i < 100; i++)
		job_new_with(many, (struct store_job){.priority = 100}); /* a priority is among one's own only */
	for (int i = 0; i < 10; i++)
		job_new(some);
	for (int i = 0; i < 2; i++)
		job_new(few);
	for (int round = 0; round < 2; round++) { /* all run on: the fewest running are served */
		for (int i = 0; i < 3; i++) {
			const char *t = claim_tenant(NOW);
			served[0] += strcmp(t, many) == 0;
			served[1] += strcmp(t, some) == 0;
			served[2] += strcmp(t, few) == 0;
		}
		for (int i = 0; i < 3; i++)
			assert_int_equal(served[i], round + 1);
	}
	for (int i = 0; i < 8; i++) {
		const char *t = claim_tenant(NOW);
		served[0] += strcmp(t, many) == 0;
		served[1] += strcmp(t, some) == 0;
	}
	assert_int_equal(served[0], 6);
	assert_int_equal(served[1], 6);
	assert_consistent();
}

static void test_among_equals_the_one_served_longest_ago_is_next(void **state)
{
	const char *tenants[3] = {tenant_new("a"), tenant_new("b"), tenant_new("c")};
	char order[7] = "";

	for (int i = 0; i < 12; i++)
		job_new(tenants[i % 3]);
	for (int i = 0; i < 6; i++) { /* each ends before the next is claimed: all have none running */
		struct store_job j;
		assert_int_equal(store_job_claim(store, "node", MINUTE, NOW, &j, &err), 1);
		for (int t = 0; t < 3; t++)
			if (strcmp(tenants[t], j.tenant) == 0)
				order[i] = (char)('a' + t);
		finish(j.id);
		store_job_clear(&j);
	}
	order[6] = '\0';
	assert_memory_equal(order, order + 3, 3);                                          /* the same turn twice … */
	assert_true(order[0] != order[1] && order[1] != order[2] && order[0] != order[2]); /* … with each in it */
}

static void test_who_comes_later_is_served_before_those_that_run(void **state)
{
	const char *a = tenant_new("a");

	for (int i = 0; i < 5; i++)
		job_new(a);
	for (int i = 0; i < 3; i++)
		assert_string_equal(claim_tenant(NOW), a);
	const char *b = tenant_new("b");
	for (int i = 0; i < 4; i++)
		job_new(b);
	for (int i = 0; i < 3; i++)
		assert_string_equal(claim_tenant(NOW), b);
	assert_string_equal(claim_tenant(NOW), a); /* three of each run, and it was served longer ago */
	assert_string_equal(claim_tenant(NOW), b);
}

/* ---- quotas -------------------------------------------------------------------------------------------------------------------- */

static void test_a_tenants_quota_of_running_jobs_holds(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b"), *first;

	limit_running(a, 1);
	for (int i = 0; i < 3; i++)
		job_new(a);
	first = claim(NOW);
	assert_string_not_equal(first, "");
	assert_string_equal(claim(NOW), "");
	job_new(b);
	job_new(b);
	assert_string_equal(claim_tenant(NOW), b);
	assert_string_equal(claim_tenant(NOW), b);
	finish(first);
	assert_string_equal(claim_tenant(NOW), a);
	assert_string_equal(claim(NOW), "");
	limit_running(a, 2);
	assert_string_equal(claim_tenant(NOW), a);
	assert_string_equal(claim(NOW), "");
	limit_running(a, 0);
	job_new(a);
	assert_string_equal(claim_tenant(NOW), a);
}

/* ---- plans --------------------------------------------------------------------------------------------------------------------- */

/* The ways to a row by which no other is passed. jobs_state is none of them: all that wait are behind one of its values. */
static bool is_direct(const char *step)
{
	/* how they begin and end: whether an index is a covering one is for SQLite to find out */
	static const char *const ways[][2] = {
		{"SEARCH jobs USING ", "INTEGER PRIMARY KEY (rowid=?)"},
		{"SEARCH jobs USING ", "INDEX jobs_delayed (not_before_ms<?)"},
		{"SEARCH jobs USING ", "INDEX jobs_next (tenant=?)"},
		{"SCAN tenants USING ", "INDEX tenants_next"}, /* of which only the first is taken */
		{"SEARCH tenants USING ", "INDEX sqlite_autoindex_tenants_1 (id=?)"},
		{"SEARCH totals USING ", "INTEGER PRIMARY KEY (rowid=?)"},
		{"SEARCH requests USING ", "INTEGER PRIMARY KEY (rowid=?)"},
		{"SEARCH results USING ", "INTEGER PRIMARY KEY (rowid=?)"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const char *end = strstr(step, ways[i][1]);
		if (end && strcmp(end, ways[i][1]) == 0 && strncmp(step, ways[i][0], strlen(ways[i][0])) == 0)
			return true;
	}
	return strstr(step, "SUBQUERY");
}

static void assert_plan(struct db *db, const char *sql)
{
	sqlite3_stmt *stmt;
	char text[1024];
	int steps = 0;

	snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", sql);
	assert_int_equal(sqlite3_prepare_v2(db->handle, text, -1, &stmt, NULL), SQLITE_OK);
	for (; sqlite3_step(stmt) == SQLITE_ROW; steps++) {
		const char *step = (const char *)sqlite3_column_text(stmt, 3);
		if (!is_direct(step))
			fail_msg("\"%s\" is in the plan of: %s", step, sql);
	}
	sqlite3_finalize(stmt);
	assert_true(steps > 0);
}

static void test_a_claim_looks_at_no_more_than_it_needs(void **state)
{
	_cleanup_db_ struct db db = {0};
	size_t n = 0;

	assert_fine(db_open(&db, path_of("store.db"), SQLITE_OPEN_READONLY, &err));
	for (; store_claim_queries[n]; n++)
		assert_plan(&db, store_claim_queries[n]);
	assert_int_equal(n, 7);
}

/* The same by counting: as many steps of SQLite's machine with twenty waiting jobs as with twenty times as many. */
struct steps {
	const char *sql;
	const char *tenant; /* NULL: what is bound is the time */
	int count;
};

static int count_steps(struct db *db, void *arg, struct cordon_error *e)
{
	struct steps *s = arg;
	_cleanup_query_ struct query q = query_new(db, s->sql);

	if (s->tenant)
		query_text(&q, s->tenant);
	else if (sqlite3_bind_parameter_count(q.stmt))
		query_int(&q, NOW);
	sqlite3_stmt_status(q.stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
	if (query_next(&q, e) < 0)
		return -1;
	s->count = sqlite3_stmt_status(q.stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
	return 0;
}

static int steps_of(const char *sql, const char *tenant)
{
	struct steps s = {sql, tenant, 0};

	assert_fine(store_write(store, count_steps, &s, &err));
	assert_true(s.count > 0);
	return s.count;
}

static void test_a_claim_costs_the_same_however_many_wait(void **state)
{
	const char *a = tenant_new("a");

	for (int i = 0; i < 20; i++)
		job_new(a);
	const int due = steps_of(store_claim_queries[0], NULL), whose = steps_of(store_claim_queries[1], NULL),
		  which = steps_of(store_claim_queries[2], a);
	for (int i = 0; i < 380; i++)
		job_new_with(a, (struct store_job){.priority = i % 100});
	assert_int_equal(steps_of(store_claim_queries[0], NULL), due);
	assert_int_equal(steps_of(store_claim_queries[1], NULL), whose);
	assert_int_equal(steps_of(store_claim_queries[2], a), which);
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_a_claimed_job_is_its_nodes_with_everything),
		A_TEST(test_a_claimed_job_is_not_claimed_twice),
		A_TEST(test_nothing_waits_in_an_empty_store),
		A_TEST(test_a_claim_needs_a_node_and_a_time),
		A_TEST(test_the_highest_priority_is_first_then_the_oldest),
		A_TEST(test_tenants_take_turns_whatever_they_have_queued),
		A_TEST(test_among_equals_the_one_served_longest_ago_is_next),
		A_TEST(test_who_comes_later_is_served_before_those_that_run),
		A_TEST(test_a_tenants_quota_of_running_jobs_holds),
		A_TEST(test_a_claim_looks_at_no_more_than_it_needs),
		A_TEST(test_a_claim_costs_the_same_however_many_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
