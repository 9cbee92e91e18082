/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, their keys, and what they have used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* ---- tenants ------------------------------------------------------------------------------------------------------------------- */

static int add_named(const char *name)
{
	struct store_tenant t = {0};

	snprintf(t.name, sizeof(t.name), "%s", name);
	return store_tenant_add(store, &t, NOW, &err);
}

static void test_a_tenant_is_found_by_id_and_by_name(void **state)
{
	const struct store_quota quota = {1, 2, 3, 4, 5, 6, 7, 8};
	struct store_tenant t = {.name = "team-1", .quota = quota}, found;

	assert_fine(store_tenant_add(store, &t, NOW, &err));
	assert_true(id_valid(t.id));
	assert_int_equal(t.created_ms, NOW);
	assert_int_equal(store_tenant_get(store, "team-1", &found, &err), 1);
	assert_memory_equal(&found.quota, &quota, sizeof(quota));
	assert_string_equal(found.id, t.id);
	assert_int_equal(found.created_ms, NOW);
	assert_int_equal(store_tenant_get(store, t.id, &found, &err), 1);
	assert_string_equal(found.name, "team-1");
	assert_int_equal(store_tenant_get(store, "team", &found, &err), 0);
	assert_int_equal(store_tenant_get(store, "", &found, &err), 0);
}

static void test_a_name_is_taken_once(void **state)
{
	assert_fine(add_named("a"));
	assert_error(add_named("a"), CORDON_ERR_INPUT, "there is a tenant \"a\" already");
}

static void test_malformed_names_are_refused(void **state)
{
	static const char *const bad[] = {"", "-a", "A", "a_b", "a b", "a/b", "\xc3\xa4", "a\n", "a'; DROP TABLE tenants; --"};
	char longest[STORE_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_error(add_named(bad[i]), CORDON_ERR_INPUT, "a tenant's name");
	memset(longest, 'a', STORE_NAME_MAX);
	longest[STORE_NAME_MAX] = '\0';
	assert_fine(add_named(longest));
	assert_fine(add_named("0-"));
}

/* Who is named as another's id would be found in its place. */
static void test_a_name_cannot_be_somebodys_id(void **state)
{
	assert_error(add_named(tenant_new("a")), CORDON_ERR_INPUT, "has the form of an id");
}

static void test_quotas_can_be_changed(void **state)
{
	const char *id = tenant_new("a");
	struct store_tenant found;

	assert_fine(store_tenant_quota(store, id, &(struct store_quota){.egress_bytes = INT64_MAX}, &err));
	assert_int_equal(store_tenant_get(store, "a", &found, &err), 1);
	assert_int_equal(found.quota.egress_bytes, INT64_MAX);
	assert_int_equal(found.quota.running, 0);
	assert_error(store_tenant_quota(store, id, &(struct store_quota){.cpu_ms = UINT64_MAX}, &err), CORDON_ERR_INPUT,
	             "a quota: 18446744073709551615");
	assert_error(store_tenant_quota(store, "nobody", &(struct store_quota){0}, &err), CORDON_ERR_NOT_FOUND, "there is no tenant");
}

static void test_a_tenant_goes_with_all_that_it_has(void **state)
{
	const char *id = tenant_new("a"), *other = tenant_new("b");
	struct store_key k = {.scopes = STORE_SCOPE_RUN}, of_other = {.scopes = STORE_SCOPE_RUN, .hash = {1}};
	enum store_repeat what;
	void *answer;
	size_t len;

	snprintf(k.tenant, sizeof(k.tenant), "%s", id);
	snprintf(of_other.tenant, sizeof(of_other.tenant), "%s", other);
	assert_fine(store_key_add(store, &k, NOW, &err));
	assert_fine(store_key_add(store, &of_other, NOW, &err));
	assert_fine(store_usage_add(store, id, &(struct store_usage){.jobs = 1}, NOW, &err));
	assert_fine(store_repeat_begin(store, id, "key", k.hash, NOW, &what, &answer, &len, &err));
	job_new(id);
	assert_error(store_tenant_remove(store, id, &err), CORDON_ERR_BUSY, "has jobs that are not over");
	const char *job = claim(NOW);
	assert_error(store_tenant_remove(store, id, &err), CORDON_ERR_BUSY, "has jobs that are not over");
	assert_fine(store_job_finish(store, "node", job, STORE_SUCCEEDED, NULL, "r", 1, NOW, &err));
	assert_fine(store_tenant_remove(store, id, &err));
	assert_error(store_tenant_remove(store, id, &err), CORDON_ERR_NOT_FOUND, "there is no tenant");
	assert_error(store_tenant_remove(store, "x", &err), CORDON_ERR_NOT_FOUND, "there is no tenant");
	assert_counts(NULL, 0, 0, 0, 0);
	assert_int_equal(ask("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM requests) + (SELECT count(*) FROM results)"
	                     " + (SELECT count(*) FROM repeats) + (SELECT count(*) FROM usage)"),
	                 0);
	assert_int_equal(ask("SELECT count(*) FROM keys"), 1);
	assert_consistent();
}

struct names {
	char text[4096];
	unsigned count, stop_after;
};

static int add_name(void *user, const struct store_tenant *t)
{
	struct names *n = user;
	struct store_tenant same;

	/* the store can be used meanwhile */
	assert_int_equal(store_tenant_get(store, t->id, &same, &err), 1);
	assert_string_equal(same.name, t->name);
	strncat(n->text, t->name, sizeof(n->text) - strlen(n->text) - 1);
	strncat(n->text, " ", sizeof(n->text) - strlen(n->text) - 1);
	return ++n->count == n->stop_after ? 42 : 0;
}

static void test_tenants_are_listed_by_name(void **state)
{
	struct names n = {.stop_after = 0}, stopped = {.stop_after = 2};

	assert_fine(store_tenant_list(store, add_name, &n, &err));
	assert_string_equal(n.text, "");
	tenant_new("c");
	tenant_new("a");
	tenant_new("b");
	assert_int_equal(store_tenant_list(store, add_name, &n, &err), 0);
	assert_string_equal(n.text, "a b c ");
	assert_int_equal(store_tenant_list(store, add_name, &stopped, &err), 42);
	assert_string_equal(stopped.text, "a b ");
}

static void test_many_tenants_are_each_listed_once(void **state)
{
	struct names n = {.stop_after = 0};
	char name[16], all[4096] = "";

	for (int i = 0; i < 2 * STORE_PAGE; i++) {
		snprintf(name, sizeof(name), "t%03d", i);
		tenant_new(name);
		strncat(all, name, sizeof(all) - strlen(all) - 1);
		strncat(all, " ", sizeof(all) - strlen(all) - 1);
	}
	assert_fine(store_tenant_list(store, add_name, &n, &err));
	assert_string_equal(n.text, all);
}

/* ---- keys ---------------------------------------------------------------------------------------------------------------------- */

static struct store_key key_of(const char *tenant, unsigned char first)
{
	struct store_key k = {.hash = {first}, .scopes = STORE_SCOPE_RUN | STORE_SCOPE_READ, .label = "laptop", .expires_ms = NOW + DAY};

	snprintf(k.tenant, sizeof(k.tenant), "%s", tenant);
	return k;
}

static void test_a_key_is_found_by_its_hash(void **state)
{
	struct store_key k = key_of(tenant_new("a"), 7), found;

	k.ceiling = (char *)(uintptr_t) "limits:\n  memory: 1G\n";
	assert_fine(store_key_add(store, &k, NOW, &err));
	assert_true(id_valid(k.id));
	assert_int_equal(k.created_ms, NOW);
	assert_int_equal(store_key_find(store, k.hash, &found, &err), 1);
	assert_string_equal(found.id, k.id);
	assert_string_equal(found.tenant, k.tenant);
	assert_memory_equal(found.hash, k.hash, STORE_KEY_HASH);
	assert_string_equal(found.label, "laptop");
	assert_int_equal(found.scopes, k.scopes);
	assert_string_equal(found.ceiling, k.ceiling);
	assert_int_equal(found.created_ms, NOW);
	assert_int_equal(found.expires_ms, NOW + DAY);
	assert_int_equal(found.revoked_ms, 0);
	store_key_clear(&found);
	assert_null(found.ceiling);
	k.hash[31] = 1;
	assert_int_equal(store_key_find(store, k.hash, &found, &err), 0);
	assert_null(found.ceiling);
}

static void test_keys_that_are_not_right_are_refused(void **state)
{
	const char *tenant = tenant_new("a");
	struct store_key k = key_of(tenant, 1);

	assert_fine(store_key_add(store, &k, NOW, &err));
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "there is such a key already");
	k = key_of("nobody", 2);
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_NOT_FOUND, "there is no tenant");
	k = key_of(tenant, 3);
	k.scopes = 0;
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "one or more of the scopes");
	k.scopes = 8;
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "one or more of the scopes");
	k = key_of(tenant, 3);
	snprintf(k.label, sizeof(k.label), "\xff");
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "the label is not UTF-8");
	snprintf(k.label, sizeof(k.label), "a\x1b[2J");
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "the label has control characters");
	k = key_of(tenant, 3);
	k.ceiling = (char *)(uintptr_t) "\xc0\x80";
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "the ceiling is not UTF-8");
	_cleanup_free_ char *large = malloc(STORE_CEILING_MAX + 2);
	memset(large, 'x', STORE_CEILING_MAX + 1);
	large[STORE_CEILING_MAX + 1] = '\0';
	k.ceiling = large;
	assert_error(store_key_add(store, &k, NOW, &err), CORDON_ERR_INPUT, "the ceiling is longer");
	large[STORE_CEILING_MAX] = '\0';
	assert_fine(store_key_add(store, &k, NOW, &err));
	k = key_of(tenant, 4);
	assert_error(store_key_add(store, &k, -1, &err), CORDON_ERR_INPUT, "the time: -1 ms");
}

static void test_a_key_is_revoked_by_its_tenant(void **state)
{
	const char *tenant = tenant_new("a"), *other = tenant_new("b");
	struct store_key k = key_of(tenant, 1), found;

	assert_fine(store_key_add(store, &k, NOW, &err));
	assert_int_equal(store_key_revoke(store, other, k.id, NOW, &err), 0);
	assert_int_equal(store_key_find(store, k.hash, &found, &err), 1);
	assert_int_equal(found.revoked_ms, 0);
	assert_int_equal(store_key_revoke(store, tenant, k.id, NOW + 1, &err), 1);
	assert_int_equal(store_key_revoke(store, NULL, k.id, NOW + 2, &err), 1);
	assert_int_equal(store_key_find(store, k.hash, &found, &err), 1);
	assert_int_equal(found.revoked_ms, NOW + 1); /* when it was first */
	assert_int_equal(store_key_revoke(store, NULL, "aaaaaaaaaaaaaaaaaaaa", NOW, &err), 0);
	assert_int_equal(store_key_revoke(store, NULL, "x", NOW, &err), 0);
	k = key_of(tenant, 2);
	assert_fine(store_key_add(store, &k, NOW, &err));
	assert_int_equal(store_key_revoke(store, NULL, k.id, 0, &err), 1); /* by a clock that has not begun: revoked, all the same */
	assert_int_equal(store_key_find(store, k.hash, &found, &err), 1);
	assert_true(found.revoked_ms != 0);
}

struct hashes {
	unsigned char first[256];
	unsigned count, stop_after;
};

static int add_hash(void *user, const struct store_key *k)
{
	struct hashes *h = user;

	h->first[h->count++] = k->hash[0];
	assert_string_equal(k->ceiling, "gate: off");
	return h->count == h->stop_after ? -7 : 0;
}

static void test_the_keys_of_a_tenant_are_listed_in_their_order(void **state)
{
	const char *tenant = tenant_new("a"), *other = tenant_new("b");
	struct hashes all = {.stop_after = 0}, stopped = {.stop_after = 3};

	for (unsigned i = 0; i < STORE_PAGE + 6; i++) {
		struct store_key k = key_of(i == 5 ? other : tenant, (unsigned char)(200 - i));
		k.ceiling = (char *)(uintptr_t) "gate: off";
		assert_fine(store_key_add(store, &k, NOW, &err));
	}
	assert_int_equal(store_key_list(store, tenant, add_hash, &all, &err), 0);
	assert_int_equal(all.count, STORE_PAGE + 5);
	for (unsigned i = 1; i < all.count; i++)
		assert_true(all.first[i] < all.first[i - 1]);
	assert_int_equal(store_key_list(store, tenant, add_hash, &stopped, &err), -7);
	assert_int_equal(stopped.count, 3);
}

/* ---- use ----------------------------------------------------------------------------------------------------------------------- */

static struct store_usage usage_since(const char *tenant, int64_t since_ms)
{
	struct store_usage u;

	assert_fine(store_usage_get(store, tenant, since_ms, &u, &err));
	return u;
}

static void test_use_is_added_up_by_day(void **state)
{
	const int64_t midnight = NOW / DAY * DAY;
	const char *id = tenant_new("a"), *other = tenant_new("b");
	const struct store_usage one = {1, 10, 100, 1000, 10000, 100000};

	assert_fine(store_usage_add(store, id, &one, midnight - 1, &err));
	assert_fine(store_usage_add(store, id, &one, midnight, &err));
	assert_fine(store_usage_add(store, id, &one, midnight + DAY - 1, &err));
	assert_fine(store_usage_add(store, id, &one, midnight + DAY, &err));
	assert_fine(store_usage_add(store, other, &one, midnight, &err));
	const struct store_usage today = usage_since(id, midnight + DAY + 5), two_days = usage_since(id, midnight + 5),
				 all = usage_since(id, 0);
	assert_memory_equal(&today, &one, sizeof(one));
	assert_int_equal(two_days.cpu_ms, 3);
	assert_int_equal(two_days.egress_bytes, 30);
	assert_int_equal(two_days.requests, 300);
	assert_int_equal(two_days.commands, 3000);
	assert_int_equal(two_days.jobs, 30000);
	assert_int_equal(two_days.sandboxes, 300000);
	assert_int_equal(all.cpu_ms, 4);
	assert_int_equal(usage_since(id, midnight + 2 * DAY).cpu_ms, 0);
	assert_int_equal(ask("SELECT count(*) FROM usage"), 4);
}

static void test_use_stops_at_the_largest_number(void **state)
{
	const char *id = tenant_new("a");

	assert_fine(store_usage_add(store, id, &(struct store_usage){.cpu_ms = UINT64_MAX, .jobs = 1}, NOW, &err));
	assert_fine(store_usage_add(store, id, &(struct store_usage){.cpu_ms = 5, .jobs = 2}, NOW, &err));
	assert_fine(store_usage_add(store, id, &(struct store_usage){.cpu_ms = 5}, NOW + DAY, &err));
	assert_int_equal(usage_since(id, NOW).cpu_ms, INT64_MAX);
	assert_int_equal(usage_since(id, NOW).jobs, 3);
	assert_int_equal(usage_since(id, NOW + DAY).cpu_ms, 5);
}

static void test_use_of_nobody_is_refused(void **state)
{
	assert_error(store_usage_add(store, "nobody", &(struct store_usage){.jobs = 1}, NOW, &err), CORDON_ERR_NOT_FOUND,
	             "there is no tenant");
	assert_int_equal(usage_since("nobody", 0).jobs, 0);
	assert_error(store_usage_add(store, "nobody", &(struct store_usage){.jobs = 1}, -5, &err), CORDON_ERR_INPUT, "the time");
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_a_tenant_is_found_by_id_and_by_name),
		A_TEST(test_a_name_is_taken_once),
		A_TEST(test_malformed_names_are_refused),
		A_TEST(test_a_name_cannot_be_somebodys_id),
		A_TEST(test_quotas_can_be_changed),
		A_TEST(test_a_tenant_goes_with_all_that_it_has),
		A_TEST(test_tenants_are_listed_by_name),
		A_TEST(test_many_tenants_are_each_listed_once),
		A_TEST(test_a_key_is_found_by_its_hash),
		A_TEST(test_keys_that_are_not_right_are_refused),
		A_TEST(test_a_key_is_revoked_by_its_tenant),
		A_TEST(test_the_keys_of_a_tenant_are_listed_in_their_order),
		A_TEST(test_use_is_added_up_by_day),
		A_TEST(test_use_stops_at_the_largest_number),
		A_TEST(test_use_of_nobody_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
