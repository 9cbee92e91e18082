/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations fail, ours and SQLite's, from each one on in turn: every call says so, and the store is as it was, or as it was to be. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../alloc.h"
#include "fixture.h"

/* ---- SQLite's ------------------------------------------------------------------------------------------------------------------- */

static sqlite3_mem_methods real;
static atomic_long sqlite_left = -1; /* -1: no limit */
static atomic_bool hit;

static bool sqlite_fails(void)
{
	if (sqlite_left < 0)
		return false;
	if (sqlite_left > 0) {
		sqlite_left--;
		return false;
	}
	hit = true;
	return true;
}

static void *sqlite_malloc(int size)
{
	return sqlite_fails() ? NULL : real.xMalloc(size);
}

static void *sqlite_realloc(void *p, int size)
{
	return sqlite_fails() ? NULL : real.xRealloc(p, size);
}

static int configure_sqlite(void)
{
	sqlite3_mem_methods ours;

	if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
		return -1;
	ours = real;
	ours.xMalloc = sqlite_malloc;
	ours.xRealloc = sqlite_realloc;
	/* without memory of its own in reserve more of them come to us */
	return sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK && sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK ? 0
	                                                                                                                              : -1;
}

/* ---- what is done with too little of it ----------------------------------------------------------------------------------------- */

static const char *tenant;
static struct cordon_error failure;

/* -1 must come with a reason. */
static int said(int r)
{
	if (r < 0) {
		assert_int_not_equal(failure.code, CORDON_OK);
		assert_string_not_equal(failure.message, "");
	}
	return r;
}

static int count_row(void *user, const struct store_job *j)
{
	(void)j;
	++*(int *)user;
	return 0;
}

static int ignore_key(void *user, const struct store_key *k)
{
	(void)user;
	return k->ceiling ? 0 : 1;
}

static int ignore_tenant(void *user, const struct store_tenant *t)
{
	(void)user;
	return t->name[0] ? 0 : 1;
}

static void hear(void *user, const char *id)
{
	(void)user;
	assert_int_equal(strlen(id), STORE_UUID_LEN);
}

/* Returns at the first failure; what it leaves half done is for the store to have got right. */
static int live(int round)
{
	struct store_job j = {.request = (void *)(uintptr_t) "request", .request_len = 7, .tries_max = 3, .repeatable = true}, got;
	struct store_key k = {.scopes = STORE_SCOPE_RUN, .ceiling = (char *)(uintptr_t) "x: y"}, found;
	struct store_usage usage = {.jobs = 1};
	enum store_repeat what;
	void *answer;
	size_t len;
	uint64_t removed;
	int rows = 0, r;

	snprintf(j.tenant, sizeof(j.tenant), "%s", tenant);
	snprintf(k.tenant, sizeof(k.tenant), "%s", tenant);
	memcpy(k.hash, &round, sizeof(round));
	if (said(store_key_add(store, &k, NOW, &failure)) < 0 || said(store_key_find(store, k.hash, &found, &failure)) < 0)
		return -1;
	store_key_clear(&found);
	if (said(store_key_list(store, tenant, ignore_key, NULL, &failure)) < 0 ||
	    said(store_tenant_list(store, ignore_tenant, NULL, &failure)) < 0)
		return -1;
	if (said(store_job_add(store, &j, 0, NOW, &failure)) < 0)
		return -1;
	if (said(r = store_job_claim(store, "node", MINUTE, NOW, &got, &failure)) < 0)
		return -1;
	assert_int_equal(r, 1);
	assert_memory_equal(got.request, "request", 7);
	store_job_clear(&got);
	if (said(store_job_cancel(store, tenant, j.id, NOW, &failure)) < 0 ||
	    said(store_job_renew(store, "node", MINUTE, NOW, hear, NULL, &failure)) < 0 ||
	    said(store_job_finish(store, "node", j.id, STORE_SUCCEEDED, "", "result", 6, NOW, &failure)) < 0 ||
	    said(store_job_get(store, tenant, j.id, &got, &failure)) < 0)
		return -1;
	store_job_clear(&got);
	if (said(store_job_list(store, NULL, 0, 0, 10, count_row, &rows, &failure)) < 0 ||
	    said(store_repeat_begin(store, tenant, "k", k.hash, NOW, &what, &answer, &len, &failure)) < 0)
		return -1;
	free(answer);
	if (said(store_repeat_forget(store, tenant, "k", &failure)) < 0 ||
	    said(store_usage_add(store, tenant, &usage, NOW, &failure)) < 0 ||
	    said(store_usage_get(store, tenant, NOW, &usage, &failure)) < 0)
		return -1;
	return said(store_expire(store, NOW + DAY, &removed, &failure));
}

static void tidy_up(void)
{
	uint64_t removed;

	assert_fine(store_job_recover(store, "node", NOW, NULL, NULL, &err));
	for (const char *id; *(id = claim(NOW));)
		assert_fine(store_job_finish(store, "node", id, STORE_FAILED, "", NULL, 0, NOW, &err));
	assert_fine(store_repeat_recover(store, &err));
	do
		assert_fine(store_expire(store, NOW + DAY, &removed, &err));
	while (removed);
	assert_fine(execute("DELETE FROM keys"));
}

static void test_a_store_without_memory_fails_and_goes_on(void **state)
{
	int failures = 0, r;
	long n = 0;

	tenant = tenant_new("a");
	do {
		hit = false;
		failure = (struct cordon_error){0};
		if (n % 20 == 0) /* the statements are prepared anew, which takes the most of it */
			reopen();
		sqlite_left = n;
		r = live((int)n);
		sqlite_left = -1;
		failures += r < 0;
		tidy_up();
		n += n < 200 ? 1 : 7;
	} while (r < 0 || hit);
	assert_true(failures > 50);
	assert_consistent();
}

static void test_our_own_allocations_fail_in_turn(void **state)
{
	int failures = 0, r;
	long n = 0;

	tenant = tenant_new("a");
	do {
		reopen();
		failure = (struct cordon_error){0};
		allocations_left = n;
		r = live((int)n);
		allocations_left = -1;
		failures += r < 0;
		tidy_up();
		n++;
	} while (r < 0);
	assert_true(failures > 20);
	assert_consistent();
}

static void test_a_store_that_cannot_be_opened_says_so(void **state)
{
	int failures = 0, r;
	long n = 0;

	do {
		char name[32];
		struct store *s;

		hit = false;
		failure = (struct cordon_error){0};
		snprintf(name, sizeof(name), "s%ld.db", n);
		sqlite_left = n;
		r = said(store_open(path_of(name), &s, &failure));
		sqlite_left = -1;
		failures += r < 0;
		if (r < 0)
			assert_fine(store_open(path_of(name), &s, &err)); /* nothing half was left behind */
		assert_fine(store_check(s, &err));
		store_close(s);
		n += n < 100 ? 3 : 37;
	} while (r < 0 || hit);
	assert_true(failures > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_store_without_memory_fails_and_goes_on, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_our_own_allocations_fail_in_turn, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_a_store_that_cannot_be_opened_says_so, home_setup, store_teardown),
	};
	if (configure_sqlite() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
