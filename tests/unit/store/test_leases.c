/* SPDX-License-Identifier: Apache-2.0 */
/* How jobs end, and what becomes of those whose node has died. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static const char *tenant;

static int setup(void **state)
{
	if (store_setup(state) < 0)
		return -1;
	tenant = tenant_new("a");
	return 0;
}

static int finish_as(const char *node, const char *id, const char *result, int64_t now_ms)
{
	return store_job_finish(store, node, id, STORE_SUCCEEDED, "", result, result ? strlen(result) : 0, now_ms, &err);
}

static void assert_result(const char *id, const char *want)
{
	struct store_job j;

	assert_int_equal(store_job_get(store, NULL, id, &j, &err), 1);
	if (want) {
		assert_int_equal(j.result_len, strlen(want));
		assert_memory_equal(j.result, want, strlen(want));
	} else {
		assert_null(j.result);
	}
	store_job_clear(&j);
}

static const char *repeatable(unsigned tries)
{
	return job_new_with(tenant, (struct store_job){.tries_max = tries, .repeatable = true, .keep_ms = MINUTE});
}

static void assert_recovered(const char *node, int64_t now_ms, uint64_t want_again, uint64_t want_failed)
{
	uint64_t again = 99, failed = 99;

	assert_fine(store_job_recover(store, node, now_ms, &again, &failed, &err));
	assert_int_equal(again, want_again);
	assert_int_equal(failed, want_failed);
}

/* ---- finish -------------------------------------------------------------------------------------------------------------------- */

static void test_a_finished_job_keeps_its_result(void **state)
{
	struct store_job j;
	const char *id = job_new(tenant);

	claim(NOW);
	assert_result(id, NULL);
	assert_int_equal(store_job_finish(store, "node", id, STORE_FAILED, "timeout", "out\0put", 7, NOW + 9, &err), 0);
	assert_job(id, STORE_FAILED, "timeout");
	assert_int_equal(store_job_get(store, tenant, id, &j, &err), 1);
	assert_int_equal(j.result_len, 7);
	assert_memory_equal(j.result, "out\0put", 7);
	assert_int_equal(j.ended_ms, NOW + 9);
	assert_int_equal(j.lease_ms, 0);
	assert_string_equal(j.node, "node");
	store_job_clear(&j);
	assert_counts(tenant, 0, 0, 0, 1);
}

static void test_no_result_is_not_an_empty_one(void **state)
{
	const char *without = job_new(tenant), *empty = job_new(tenant);

	claim(NOW);
	claim(NOW);
	assert_int_equal(finish_as("node", without, NULL, NOW), 0);
	assert_int_equal(finish_as("node", empty, "", NOW), 0);
	assert_result(without, NULL);
	assert_result(empty, "");
}

static void test_a_job_ends_once(void **state)
{
	const char *id = job_new(tenant);

	assert_int_equal(finish_as("node", id, "early", NOW), 1); /* nobody has it */
	claim(NOW);
	assert_int_equal(finish_as("other", id, "not mine", NOW), 1);
	assert_int_equal(finish_as("node", id, "first", NOW), 0);
	assert_int_equal(finish_as("node", id, "second", NOW), 1);
	assert_int_equal(finish_as("node", "00000000-0000-4000-8000-000000000000", "nothing", NOW), 1);
	assert_result(id, "first");
	assert_consistent();
}

static void test_ends_that_are_not_right_are_refused(void **state)
{
	const char *id = job_new(tenant);
	char reason[33];

	claim(NOW);
	memset(reason, 'r', 32);
	reason[32] = '\0';
	assert_error(store_job_finish(store, "node", id, STORE_QUEUED, "", NULL, 0, NOW, &err), CORDON_ERR_INPUT,
	             "ends as succeeded or failed");
	assert_error(store_job_finish(store, "node", id, STORE_FAILED, reason, NULL, 0, NOW, &err), CORDON_ERR_INPUT,
	             "the reason is longer than 31");
	assert_error(store_job_finish(store, "node", id, STORE_FAILED, "\x80", NULL, 0, NOW, &err), CORDON_ERR_INPUT,
	             "the reason is not UTF-8");
	assert_error(store_job_finish(store, "node", id, STORE_FAILED, "", "x", STORE_BLOB_MAX + 1, NOW, &err), CORDON_ERR_INPUT,
	             "the result has 8388609");
	assert_error(store_job_finish(store, "", id, STORE_FAILED, "", NULL, 0, NOW, &err), CORDON_ERR_INPUT, "the node is missing");
	assert_job(id, STORE_RUNNING, "");
	assert_int_equal(store_job_finish(store, "node", id, STORE_FAILED, reason + 1, NULL, 0, NOW, &err), 0);
	assert_job(id, STORE_FAILED, reason + 1);
}

/* ---- leases -------------------------------------------------------------------------------------------------------------------- */

static void test_a_result_that_comes_after_the_lease_is_not_kept(void **state)
{
	const char *id = repeatable(2);

	claim(NOW);
	assert_int_equal(finish_as("node", id, "late", NOW + MINUTE), 1);
	assert_job(id, STORE_RUNNING, "");
	assert_result(id, NULL);
	assert_int_equal(finish_as("node", id, "in time", NOW + MINUTE - 1), 0);
	assert_result(id, "in time");
}

static void test_a_result_does_not_overwrite_that_of_the_next_node(void **state)
{
	const char *id = repeatable(2);
	struct store_job j;

	claim(NOW);
	assert_recovered(NULL, NOW + MINUTE - 1, 0, 0);
	assert_recovered(NULL, NOW + MINUTE, 1, 0);
	assert_int_equal(finish_as("node", id, "late", NOW + MINUTE), 1);
	assert_int_equal(store_job_claim(store, "next", MINUTE, NOW + MINUTE, &j, &err), 1);
	assert_string_equal(j.id, id);
	assert_int_equal(j.tries, 2);
	store_job_clear(&j);
	assert_int_equal(finish_as("node", id, "late", NOW + MINUTE), 1);
	assert_int_equal(finish_as("next", id, "good", NOW + MINUTE), 0);
	assert_int_equal(finish_as("node", id, "late", NOW + MINUTE), 1);
	assert_result(id, "good");
	assert_job(id, STORE_SUCCEEDED, "");
}

static void test_a_renewed_lease_holds(void **state)
{
	const char *id = job_new(tenant);

	claim(NOW);
	assert_fine(store_job_renew(store, "node", MINUTE, NOW + MINUTE - 1, NULL, NULL, &err));
	assert_recovered(NULL, NOW + MINUTE, 0, 0);
	assert_fine(store_job_renew(store, "other", DAY, NOW + MINUTE, NULL, NULL, &err)); /* not its */
	assert_recovered(NULL, NOW + 2 * MINUTE - 1, 0, 1);
	assert_job(id, STORE_FAILED, "interrupted");
}

/* Its node may have dropped it when a result was refused: it would be renewed for ever. */
static void test_a_lease_that_is_over_is_not_renewed(void **state)
{
	const char *id = job_new(tenant);

	claim(NOW);
	assert_fine(store_job_renew(store, "node", MINUTE, NOW + MINUTE, NULL, NULL, &err));
	assert_int_equal(finish_as("node", id, "late", NOW + MINUTE), 1);
	assert_recovered(NULL, NOW + MINUTE, 0, 1);
}

/* ---- recover ------------------------------------------------------------------------------------------------------------------- */

static void test_what_may_be_repeated_is_and_the_rest_has_failed(void **state)
{
	const char *again = repeatable(2), *used_up = repeatable(1), *once = job_new(tenant), *cancelled = repeatable(9);
	struct store_job j;

	for (int i = 0; i < 4; i++)
		claim(NOW);
	assert_int_equal(store_job_cancel(store, tenant, cancelled, NOW, &err), 1);
	assert_recovered(NULL, NOW + DAY, 1, 3);
	assert_job(again, STORE_QUEUED, "");
	assert_job(used_up, STORE_FAILED, "interrupted");
	assert_job(once, STORE_FAILED, "interrupted");
	assert_job(cancelled, STORE_FAILED, "cancelled");
	assert_int_equal(store_job_get(store, tenant, again, &j, &err), 1);
	assert_int_equal(j.tries, 1);
	assert_string_equal(j.node, "");
	assert_int_equal(j.lease_ms, 0);
	store_job_clear(&j);
	assert_counts(tenant, 1, 0, 0, 3);
	assert_recovered(NULL, NOW + DAY, 0, 0);
	assert_string_equal(claim(NOW + DAY), again);
	assert_recovered(NULL, NOW + 2 * DAY, 0, 1); /* the second and last try */
	assert_job(again, STORE_FAILED, "interrupted");
	assert_consistent();
}

static void test_a_node_that_starts_anew_runs_nothing(void **state)
{
	const char *its = repeatable(2), *others;
	struct store_job j;

	claim(NOW);
	others = repeatable(2);
	assert_int_equal(store_job_claim(store, "other", MINUTE, NOW, &j, &err), 1);
	store_job_clear(&j);
	assert_recovered("node", NOW, 1, 0); /* its lease would hold for a minute */
	assert_job(its, STORE_QUEUED, "");
	assert_job(others, STORE_RUNNING, "");
	assert_recovered("nobody", NOW, 0, 0);
	assert_error(store_job_recover(store, "", NOW, NULL, NULL, &err), CORDON_ERR_INPUT, "the node is missing");
	assert_fine(store_job_recover(store, "other", NOW, NULL, NULL, &err));
	assert_job(others, STORE_QUEUED, "");
}

static void test_what_runs_is_there_after_a_restart(void **state)
{
	const char *id = repeatable(2);

	claim(NOW);
	reopen();
	assert_job(id, STORE_RUNNING, "");
	assert_recovered("node", NOW, 1, 0);
	assert_string_equal(claim(NOW), id);
}

/* ---- retry --------------------------------------------------------------------------------------------------------------------- */

static void test_a_retried_job_waits_for_its_time(void **state)
{
	const char *id = repeatable(3), *other;

	claim(NOW);
	assert_int_equal(store_job_retry(store, "node", id, NOW + MINUTE, NOW, &err), 0);
	assert_job(id, STORE_QUEUED, "");
	assert_counts(tenant, 1, 0, 0, 0);
	assert_string_equal(claim(NOW + MINUTE - 1), "");
	other = job_new(tenant); /* younger, but not in its shadow */
	assert_string_equal(claim(NOW + MINUTE - 1), other);
	assert_consistent();
	assert_string_equal(claim(NOW + MINUTE), id);
	assert_int_equal(store_job_retry(store, "node", id, 0, NOW + MINUTE, &err), 0); /* at once */
	assert_string_equal(claim(NOW + MINUTE), id);
	assert_consistent();
}

static void test_many_that_become_due_together_are_all_served(void **state)
{
	enum { MANY = 130 };

	for (int i = 0; i < MANY; i++) {
		const char *id = repeatable(2);
		assert_string_equal(claim(NOW), id);
		assert_int_equal(store_job_retry(store, "node", id, NOW + 1, NOW, &err), 0);
	}
	assert_string_equal(claim(NOW), "");
	for (int i = 0; i < MANY; i++)
		assert_string_not_equal(claim(NOW + 1), "");
	assert_string_equal(claim(NOW + 1), "");
	assert_counts(tenant, 0, MANY, 0, 0);
	assert_consistent();
}

static void test_a_delayed_job_counts_as_waiting(void **state)
{
	const char *id = repeatable(3);
	struct store_job j = {0};

	claim(NOW);
	assert_int_equal(store_job_retry(store, "node", id, NOW + DAY, NOW, &err), 0);
	snprintf(j.tenant, sizeof(j.tenant), "%s", tenant);
	assert_error(store_job_add(store, &j, 1, NOW, &err), CORDON_ERR_BUSY, "wait already");
	assert_int_equal(store_job_cancel(store, tenant, id, NOW, &err), 1);
	assert_job(id, STORE_FAILED, "cancelled");
	assert_fine(store_job_add(store, &j, 1, NOW, &err));
	assert_consistent();
}

static void test_only_who_has_a_job_can_retry_it(void **state)
{
	const char *id = repeatable(3);

	assert_int_equal(store_job_retry(store, "node", id, NOW, NOW, &err), 1);
	claim(NOW);
	assert_int_equal(store_job_retry(store, "other", id, NOW, NOW, &err), 1);
	assert_int_equal(store_job_retry(store, "node", id, NOW, NOW + MINUTE, &err), 1); /* too late */
	assert_job(id, STORE_RUNNING, "");
}

static void test_there_are_no_more_tries_than_allowed(void **state)
{
	const char *id = job_new(tenant);

	claim(NOW);
	assert_error(store_job_retry(store, "node", id, NOW, NOW, &err), CORDON_ERR_INPUT, "has no tries left of 1");
	assert_job(id, STORE_RUNNING, "");
	assert_int_equal(finish_as("node", id, NULL, NOW), 0);
}

static void test_a_cancelled_job_is_not_tried_again(void **state)
{
	const char *id = repeatable(3);

	claim(NOW);
	assert_int_equal(store_job_cancel(store, tenant, id, NOW, &err), 1);
	assert_int_equal(store_job_retry(store, "node", id, NOW, NOW, &err), 0);
	assert_job(id, STORE_FAILED, "cancelled");
	assert_string_equal(claim(NOW), "");
	assert_consistent();
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_a_finished_job_keeps_its_result),
		A_TEST(test_no_result_is_not_an_empty_one),
		A_TEST(test_a_job_ends_once),
		A_TEST(test_ends_that_are_not_right_are_refused),
		A_TEST(test_a_result_that_comes_after_the_lease_is_not_kept),
		A_TEST(test_a_result_does_not_overwrite_that_of_the_next_node),
		A_TEST(test_a_renewed_lease_holds),
		A_TEST(test_a_lease_that_is_over_is_not_renewed),
		A_TEST(test_what_may_be_repeated_is_and_the_rest_has_failed),
		A_TEST(test_a_node_that_starts_anew_runs_nothing),
		A_TEST(test_what_runs_is_there_after_a_restart),
		A_TEST(test_a_retried_job_waits_for_its_time),
		A_TEST(test_many_that_become_due_together_are_all_served),
		A_TEST(test_a_delayed_job_counts_as_waiting),
		A_TEST(test_only_who_has_a_job_can_retry_it),
		A_TEST(test_there_are_no_more_tries_than_allowed),
		A_TEST(test_a_cancelled_job_is_not_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
