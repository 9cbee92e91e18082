/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: how they are added, found, listed, cancelled and removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static int add_to(const char *tenant, struct store_job *j, uint64_t queue_max)
{
	snprintf(j->tenant, sizeof(j->tenant), "%s", tenant);
	return store_job_add(store, j, queue_max, NOW, &err);
}

/* ---- added --------------------------------------------------------------------------------------------------------------------- */

static void test_a_job_is_kept_as_it_was_given(void **state)
{
	static char request[] = "do\0this";
	const char *tenant = tenant_new("a");
	struct store_key k = {.scopes = STORE_SCOPE_RUN};
	struct store_job j = {.priority = -100,
	                      .tries_max = 3,
	                      .repeatable = true,
	                      .keep_ms = 5,
	                      .request = request,
	                      .request_len = sizeof(request)},
			 found;

	snprintf(k.tenant, sizeof(k.tenant), "%s", tenant);
	assert_fine(store_key_add(store, &k, NOW, &err));
	memcpy(j.key, k.id, sizeof(j.key));
	assert_fine(add_to(tenant, &j, 1));
	assert_ptr_equal(j.request, request);
	assert_int_equal(j.state, STORE_QUEUED);
	assert_int_equal(store_job_get(store, NULL, j.id, &found, &err), 1);
	assert_int_equal(found.request_len, sizeof(request));
	assert_memory_equal(found.request, request, sizeof(request));
	assert_null(found.result);
	assert_string_equal(found.tenant, tenant);
	assert_string_equal(found.key, k.id);
	assert_int_equal(found.state, STORE_QUEUED);
	assert_int_equal(found.priority, -100);
	assert_int_equal(found.tries, 0);
	assert_int_equal(found.tries_max, 3);
	assert_true(found.repeatable);
	assert_false(found.cancel);
	assert_int_equal(found.keep_ms, 5);
	assert_int_equal(found.created_ms, NOW);
	assert_int_equal(found.seq, j.seq);
	store_job_clear(&found);
	assert_null(found.request);
}

static void test_ids_are_random_uuids(void **state)
{
	const char *tenant = tenant_new("a"), *first = job_new(tenant), *second = job_new(tenant);
	static const char form[] = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx";

	assert_string_not_equal(first, second);
	assert_int_equal(strlen(first), STORE_UUID_LEN);
	for (size_t i = 0; i < STORE_UUID_LEN; i++)
		if (form[i] == 'x')
			assert_non_null(strchr("0123456789abcdef", first[i]));
		else if (form[i] == 'v')
			assert_non_null(strchr("89ab", first[i]));
		else
			assert_int_equal(first[i], form[i]);
}

static void test_a_job_without_bytes_is_one_too(void **state)
{
	struct store_job found;

	assert_int_equal(store_job_get(store, NULL, job_new(tenant_new("a")), &found, &err), 1);
	assert_non_null(found.request);
	assert_int_equal(found.request_len, 0);
	assert_int_equal(found.tries_max, 1);
	store_job_clear(&found);
}

static void test_jobs_that_are_not_right_are_refused(void **state)
{
	const char *tenant = tenant_new("a"), *other = tenant_new("b");
	struct store_key k = {.scopes = STORE_SCOPE_RUN};
	struct store_job j = {.priority = 101};

	assert_error(add_to(tenant, &j, 0), CORDON_ERR_INPUT, "the priority is from -100 to 100");
	j = (struct store_job){.keep_ms = -1};
	assert_error(add_to(tenant, &j, 0), CORDON_ERR_INPUT, "how long the result is kept");
	j = (struct store_job){.request_len = 1};
	assert_error(add_to(tenant, &j, 0), CORDON_ERR_INPUT, "the request is missing");
	j = (struct store_job){0};
	assert_error(add_to("nobody", &j, 0), CORDON_ERR_NOT_FOUND, "there is no tenant");
	snprintf(k.tenant, sizeof(k.tenant), "%s", other);
	assert_fine(store_key_add(store, &k, NOW, &err));
	j = (struct store_job){0};
	memcpy(j.key, k.id, sizeof(j.key));
	assert_error(add_to(tenant, &j, 0), CORDON_ERR_NOT_FOUND, "has no key with the id");
	assert_string_equal(j.id, "");
	assert_int_equal(ask("SELECT count(*) FROM jobs"), 0);
}

static void test_the_largest_request_fits_and_no_larger_one(void **state)
{
	const char *tenant = tenant_new("a");
	_cleanup_free_ char *large = malloc(STORE_BLOB_MAX + 1);
	struct store_job j = {.request = large, .request_len = STORE_BLOB_MAX + 1}, found;

	memset(large, 0xff, STORE_BLOB_MAX + 1);
	assert_error(add_to(tenant, &j, 0), CORDON_ERR_INPUT, "the request has 8388609 bytes, and there may be 8388608");
	j.request_len = STORE_BLOB_MAX;
	assert_fine(add_to(tenant, &j, 0));
	assert_int_equal(store_job_get(store, tenant, j.id, &found, &err), 1);
	assert_int_equal(found.request_len, STORE_BLOB_MAX);
	assert_memory_equal(found.request, large, STORE_BLOB_MAX);
	store_job_clear(&found);
}

static void test_a_queue_that_is_full_takes_no_more(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b");
	struct store_job j = {0};

	assert_fine(add_to(a, &j, 2));
	assert_fine(add_to(b, &j, 2));
	assert_error(add_to(b, &j, 2), CORDON_ERR_BUSY, "2 jobs in all wait already");
	assert_string_not_equal(claim(NOW), "");
	assert_fine(add_to(b, &j, 2)); /* those that run do not wait */
	assert_fine(add_to(b, &j, 0));
}

static void test_a_tenants_quota_of_waiting_jobs_holds(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b");
	struct store_job j = {0};

	assert_fine(store_tenant_quota(store, a, &(struct store_quota){.queued = 1}, &err));
	const char *first = job_new(a);
	assert_error(add_to(a, &j, 0), CORDON_ERR_BUSY, "1 jobs of this tenant wait already");
	assert_fine(add_to(b, &j, 0));
	assert_int_equal(store_job_cancel(store, a, first, NOW, &err), 1);
	assert_fine(add_to(a, &j, 0));
}

/* ---- found --------------------------------------------------------------------------------------------------------------------- */

static void test_a_job_is_found_by_its_tenant_only(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b"), *id = job_new(a);
	struct store_job found;

	assert_int_equal(store_job_get(store, a, id, &found, &err), 1);
	store_job_clear(&found);
	assert_int_equal(store_job_get(store, b, id, &found, &err), 0);
	assert_null(found.request);
	assert_int_equal(store_job_get(store, NULL, "00000000-0000-4000-8000-000000000000", &found, &err), 0);
	assert_int_equal(store_job_get(store, NULL, "x", &found, &err), 0);
	assert_int_equal(store_job_get(store, NULL, "", &found, &err), 0);
}

/* ---- listed -------------------------------------------------------------------------------------------------------------------- */

struct listed {
	uint64_t seqs[512];
	size_t count, stop_after;
};

static int add_seq(void *user, const struct store_job *j)
{
	struct listed *l = user;
	struct store_job_counts c;

	assert_null(j->request);
	assert_null(j->result);
	assert_fine(store_job_count(store, j->tenant, &c, &err)); /* the store can be used meanwhile */
	l->seqs[l->count++] = j->seq;
	return l->count == l->stop_after ? 3 : 0;
}

static struct listed list(const char *tenant, enum store_job_state state, uint64_t before, size_t limit)
{
	struct listed l = {.count = 0};

	assert_fine(store_job_list(store, tenant, state, before, limit, add_seq, &l, &err));
	for (size_t i = 1; i < l.count; i++)
		assert_true(l.seqs[i] < l.seqs[i - 1]);
	return l;
}

static void test_jobs_are_listed_newest_first(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b");
	struct listed l;

	for (int i = 0; i < 20; i++)
		job_new(i % 4 ? a : b);
	claim(NOW);
	claim(NOW);
	assert_int_equal(list(NULL, 0, 0, 100).count, 20);
	assert_int_equal(list(a, 0, 0, 100).count, 15);
	assert_int_equal(list(b, STORE_QUEUED, 0, 100).count, 4);
	assert_int_equal(list(NULL, STORE_RUNNING, 0, 100).count, 2);
	assert_int_equal(list(NULL, STORE_FAILED, 0, 100).count, 0);
	assert_int_equal(list("nobody", 0, 0, 100).count, 0);
	assert_int_equal(list(NULL, 0, 0, 0).count, 0);
	l = list(NULL, 0, 0, 7);
	assert_int_equal(l.count, 7);
	assert_int_equal(list(NULL, 0, l.seqs[6], 100).count, 13);
	l = (struct listed){.stop_after = 4};
	assert_int_equal(store_job_list(store, NULL, 0, 0, 100, add_seq, &l, &err), 3);
	assert_int_equal(l.count, 4);
}

static void test_long_lists_have_each_job_once(void **state)
{
	const char *a = tenant_new("a");

	for (int i = 0; i < 2 * STORE_PAGE + 1; i++)
		job_new(a);
	assert_int_equal(list(a, STORE_QUEUED, 0, 500).count, 2 * STORE_PAGE + 1);
	assert_int_equal(list(a, 0, 0, 2 * STORE_PAGE).count, 2 * STORE_PAGE);
	assert_int_equal(list(NULL, 0, 0, STORE_PAGE + 1).count, STORE_PAGE + 1);
	assert_int_equal(list(NULL, 0, UINT64_MAX, 500).count, 2 * STORE_PAGE + 1);
}

/* A cursor must not meet other jobs after those that it stood at were removed. */
static void test_numbers_are_never_given_again(void **state)
{
	const char *a = tenant_new("a");
	uint64_t removed;
	const char *last = job_new_with(a, (struct store_job){0});
	const uint64_t seq = list(a, 0, 0, 1).seqs[0];

	assert_int_equal(store_job_cancel(store, a, last, NOW, &err), 1);
	assert_fine(store_expire(store, NOW, &removed, &err));
	assert_int_equal(removed, 1);
	job_new(a);
	assert_true(list(a, 0, 0, 1).seqs[0] > seq);
}

/* ---- cancelled ----------------------------------------------------------------------------------------------------------------- */

static void test_a_waiting_job_is_cancelled_at_once(void **state)
{
	const char *a = tenant_new("a"), *b = tenant_new("b"), *id = job_new(a);
	struct store_job found;

	assert_int_equal(store_job_cancel(store, b, id, NOW, &err), 0);
	assert_job(id, STORE_QUEUED, "");
	assert_int_equal(store_job_cancel(store, a, id, NOW + 5, &err), 1);
	assert_job(id, STORE_FAILED, "cancelled");
	assert_int_equal(store_job_get(store, a, id, &found, &err), 1);
	assert_int_equal(found.ended_ms, NOW + 5);
	store_job_clear(&found);
	assert_int_equal(store_job_cancel(store, a, id, NOW + 6, &err), 0); /* it is over */
	assert_string_equal(claim(NOW), "");
	assert_counts(a, 0, 0, 0, 1);
	assert_int_equal(store_job_cancel(store, NULL, "nothing", NOW, &err), 0);
	assert_consistent();
}

static void remember(void *user, const char *id)
{
	strncat(user, id, STORE_UUID_LEN);
	strncat(user, " ", 2);
}

static void test_a_running_job_hears_of_it_at_the_next_renewal(void **state)
{
	const char *a = tenant_new("a"), *id = job_new(a);
	char heard[256] = "", want[64];

	job_new(a);
	assert_string_equal(claim(NOW), id);
	claim(NOW);
	assert_fine(store_job_renew(store, "node", MINUTE, NOW, remember, heard, &err));
	assert_string_equal(heard, "");
	assert_int_equal(store_job_cancel(store, a, id, NOW, &err), 1);
	assert_job(id, STORE_RUNNING, "");
	assert_fine(store_job_renew(store, "other", MINUTE, NOW, remember, heard, &err));
	assert_string_equal(heard, "");
	assert_fine(store_job_renew(store, "node", MINUTE, NOW, remember, heard, &err));
	snprintf(want, sizeof(want), "%s ", id);
	assert_string_equal(heard, want);
	assert_int_equal(store_job_finish(store, "node", id, STORE_FAILED, "cancelled", NULL, 0, NOW, &err), 0);
	assert_job(id, STORE_FAILED, "cancelled");
	assert_fine(store_job_renew(store, "node", MINUTE, NOW, remember, heard, &err));
	assert_string_equal(heard, want); /* no more */
}

/* ---- removed ------------------------------------------------------------------------------------------------------------------- */

static void test_jobs_are_removed_when_their_time_is_over(void **state)
{
	const char *a = tenant_new("a"), *id = job_new(a), *longer;
	uint64_t removed;

	longer = job_new_with(a, (struct store_job){.keep_ms = DAY});
	job_new(a);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_job_finish(store, "node", claim(NOW), STORE_SUCCEEDED, "", "r", 1, NOW, &err), 0);
	assert_fine(store_expire(store, NOW + MINUTE - 1, &removed, &err));
	assert_int_equal(removed, 0);
	assert_fine(store_expire(store, NOW + MINUTE, &removed, &err));
	assert_int_equal(removed, 1);
	struct store_job found;
	assert_int_equal(store_job_get(store, a, id, &found, &err), 0);
	assert_job(longer, STORE_SUCCEEDED, "");
	assert_counts(a, 1, 0, 1, 0);
	assert_int_equal(ask("SELECT count(*) FROM requests"), 2);
	assert_int_equal(ask("SELECT count(*) FROM results"), 1);
	assert_consistent();
}

static void test_a_few_are_removed_at_a_time(void **state)
{
	const char *a = tenant_new("a");
	uint64_t removed, sum = 0;
	int calls = 0;

	for (int i = 0; i < 150; i++)
		assert_int_equal(store_job_cancel(store, a, job_new(a), NOW, &err), 1);
	do {
		assert_fine(store_expire(store, NOW + DAY, &removed, &err));
		sum += removed;
		calls++;
	} while (removed);
	assert_int_equal(sum, 150);
	assert_int_equal(calls, 3);
	assert_consistent();
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_a_job_is_kept_as_it_was_given),
		A_TEST(test_ids_are_random_uuids),
		A_TEST(test_a_job_without_bytes_is_one_too),
		A_TEST(test_jobs_that_are_not_right_are_refused),
		A_TEST(test_the_largest_request_fits_and_no_larger_one),
		A_TEST(test_a_queue_that_is_full_takes_no_more),
		A_TEST(test_a_tenants_quota_of_waiting_jobs_holds),
		A_TEST(test_a_job_is_found_by_its_tenant_only),
		A_TEST(test_jobs_are_listed_newest_first),
		A_TEST(test_long_lists_have_each_job_once),
		A_TEST(test_numbers_are_never_given_again),
		A_TEST(test_a_waiting_job_is_cancelled_at_once),
		A_TEST(test_a_running_job_hears_of_it_at_the_next_renewal),
		A_TEST(test_jobs_are_removed_when_their_time_is_over),
		A_TEST(test_a_few_are_removed_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
