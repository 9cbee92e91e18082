/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as lists of settings, which is how the record of a sandbox keeps them; profiles and origins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../alloc.h"
#include "base/util.h"
#include "policy/profiles.h"

static struct cordon_error err;

static int tear_down(void **state)
{
	allocations_left = -1;
	err = (struct cordon_error){0};
	return 0;
}

static void init(struct cordon_policy *p, const char *profile)
{
	assert_int_equal(policy_init_profile(p, profile, &err), 0);
}

static void set(struct cordon_policy *p, const char *key, const char *value)
{
	if (policy_set(p, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static void apply(struct cordon_policy *p, const struct strlist *settings)
{
	for (size_t i = 0; i < settings->count; i++) {
		_cleanup_free_ char *key = strdup(settings->items[i]);
		char *value = strchr(key, '=');

		assert_non_null(value);
		*value++ = '\0';
		set(p, key, value);
	}
}

static void assert_same(const struct cordon_policy *a, const struct cordon_policy *b)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_same(a, b, &policy_keys[i], &err) != 1)
			fail_msg("%s is another", policy_keys[i].name);
}

/* Every key away from every profile's value. */
static void change_everything(struct cordon_policy *p)
{
	static const char *const changes[][2] = {
		{"limits.timeout", "7s"},
		{"limits.memory", "1234567890"},
		{"limits.cpus", "0.015"},
		{"limits.pids", "77"},
		{"limits.max_output", "77"},
		{"limits.disk", "1.5G"},
		{"limits.files", "77"},
		{"limits.strict", "true"},
		{"clear", "env.allow"},
		{"env.set", "A=b=c\n%;"},
		{"root", "layered"},
		{"clear", "files.read"},
		{"clear", "files.write"},
		{"files.write", "/x y/**"},
		{"files.deny", "/a"},
		{"files.hidden", "false"},
		{"network.outbound", "a.b:1,2"},
		{"network.outbound", "10.0.0.0/8"},
		{"network.deny", "*.c.d"},
		{"network.inbound", "3000"},
		{"network.inbound", "8080:80"},
		{"network.inbound", "0:80"},
		{"network.localhost", "false"},
		{"network.connections", "10"},
		{"network.bandwidth", "1M"},
		{"process.subprocess", "false"},
		{"process.shell", "false"},
		{"process.allow", "git"},
		{"process.deny", "mkfs*"},
		{"process.native", "false"},
		{"clear", "patterns.use"},
		{"patterns.add", "language=ruby;match=a;reason=%25 %3B"},
		{"patterns.action", "allow"},
		{"patterns.unproven", "deny"},
		{"mounts.read", "/r"},
		{"mounts.write", "/w"},
		{"mounts.forbid", "/f"},
		{"transaction.exit", "keep"},
		{"transaction.exit", "rollback"},
		{"transaction.abort", "keep"},
		{"transaction.denial", "rollback"},
		{"clear", "transaction.ok"},
		{"transaction.ok", "3,255"},
		{"transaction.preserve", "x"},
		{"secrets", "from=env:K;hosts=a.b"},
		{"audit.sync", "seal"},
		{"audit.retain_age", "30d"},
		{"audit.retain_size", "1G"},
		{"audit.max_entries", "5"},
		{"weak.allow", "memory"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		set(p, changes[i][0], changes[i][1]);
}

/* ---- tests ---- */

static void test_settings_turn_one_policy_into_another(void **state)
{
	static const char *const profiles[] = {"default", "locked", "dev"};

	for (size_t from = 0; from < ARRAY_SIZE(profiles); from++) {
		for (size_t to = 0; to <= ARRAY_SIZE(profiles); to++) {
			struct cordon_policy base, wanted;
			struct strlist settings = {0};

			init(&base, profiles[from]);
			init(&wanted, to < ARRAY_SIZE(profiles) ? profiles[to] : NULL);
			if (to == ARRAY_SIZE(profiles))
				change_everything(&wanted);
			assert_int_equal(policy_settings(&wanted, &base, &settings, &err), 0);
			assert_true(to == from ? settings.count == 0 : settings.count > 0);
			apply(&base, &settings);
			assert_same(&base, &wanted);
			strlist_free(&settings);
			policy_clear(&base);
			policy_clear(&wanted);
		}
	}
}

static void test_every_key_is_told_from_its_default(void **state)
{
	struct cordon_policy p;

	init(&p, NULL);
	for (size_t i = 0; i < policy_key_count; i++)
		if (!policy_is_default(&p, &policy_keys[i]))
			fail_msg("%s", policy_keys[i].name);
	change_everything(&p);
	for (size_t i = 0; i < policy_key_count; i++)
		if (strcmp(policy_keys[i].name, "transaction.exit") != 0 && policy_is_default(&p, &policy_keys[i]))
			fail_msg("%s", policy_keys[i].name);
	policy_clear(&p);
}

static void test_clear_empties_lists_only(void **state)
{
	struct cordon_policy p;

	init(&p, NULL);
	set(&p, "clear", "env.set");
	set(&p, "clear", "process.allow");
	set(&p, "clear", "transaction.ok");
	assert_int_equal(p.env_set.count + p.process.allow.count, 0);
	assert_false(policy_status_ok(&p, 0));
	assert_int_equal(policy_set(&p, "clear", "limits.memory", &err), -1);
	assert_string_equal(err.message, "clear: limits.memory is not a list");
	assert_int_equal(policy_set(&p, "clear", "env.alow", &err), -1);
	assert_string_equal(err.hint, "did you mean 'env.allow'?");
	policy_clear(&p);
}

static void test_process_max_is_limits_pids(void **state)
{
	struct cordon_policy p;

	init(&p, NULL);
	set(&p, "process.max", "9");
	assert_int_equal(p.limits.pids, 9);
	assert_int_equal(policy_set(&p, "process.max", "x", &err), -1);
	assert_non_null(strstr(err.message, "process.max: 'x'"));
	policy_clear(&p);
}

/* A root that can be written to holds no list of paths or programs. */
static void test_what_is_not_enforced_is_refused_by_name(void **state)
{
	struct cordon_policy p;
	const struct policy_key *key;

	init(&p, "dev");
	assert_int_equal(policy_check_enforced(&p, &err), 0);
	set(&p, "root", "layered");
	assert_int_equal(policy_check_enforced(&p, &err), 0);
	set(&p, "process.deny", "dd");
	key = policy_not_enforced(&p);
	assert_non_null(key);
	assert_string_equal(key->name, "process.deny");
	assert_int_equal(policy_check_enforced(&p, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_non_null(strstr(err.message, "process.deny"));
	set(&p, "root", "readonly");
	assert_int_equal(policy_check_enforced(&p, &err), 0);
	policy_clear(&p);
}

static void test_a_secret_for_nobody_is_refused(void **state)
{
	static const struct {
		const char *hosts, *outbound;
		int allowed;
	} cases[] = {
		{"a.b", "c.d", -1},      {"a.b", "a.b", 0},      {"a.b", "a.b:7;protocol=tcp", -1},
		{"a.b", "*.b", 0},       {"b.c", "*.b.c", -1},   {"*.b.c", "a.b.c", 0},
		{"*.b.c", "*.c", 0},     {"*.b.c", "xb.c", -1},  {"*.b.c", "*.b.c", 0},
		{"*.b.c", "*.a.b.c", 0}, {"a.b,c.d", "a.b", -1}, {"a.b", "0.0.0.0/0", -1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cordon_policy p;
		char secret[64];

		init(&p, "dev");
		snprintf(secret, sizeof(secret), "from=store:x;hosts=%s", cases[i].hosts);
		set(&p, "secrets", secret);
		set(&p, "network.outbound", strchr(cases[i].outbound, ';') ? "host=a.b;ports=7;protocol=tcp" : cases[i].outbound);
		if (policy_check_enforced(&p, &err) != cases[i].allowed)
			fail_msg("%s with %s", cases[i].hosts, cases[i].outbound);
		policy_clear(&p);
	}
}

static void test_origins_tell_the_profile_from_the_default_it_is_put_on(void **state)
{
	struct policy_origins o = {0};
	struct cordon_policy p;
	const struct policy_key *write = policy_key_find("files.write"), *memory = policy_key_find("limits.memory");

	assert_int_equal(policy_init_profile_noted(&p, "locked", &o, &err), 0);
	assert_string_equal(o.profile, "locked");
	assert_string_equal(origins_of_key(&o, memory)->name, "default");
	assert_string_equal(origins_of(&o, write, 0)->name, "locked");
	assert_int_equal(origins_of(&o, write, 1)->kind, ORIGIN_NONE);
	assert_string_equal(origins_of_key(&o, policy_key_find("files.read"))->name, "locked");
	assert_string_equal(origins_of(&o, policy_key_find("transaction.ok"), 0)->name, "default");
	const struct policy_origin option = {.kind = ORIGIN_OPTION, .name = "--pids"};
	assert_int_equal(policy_put_from(&p, policy_key_find("process.max"), "5", &o, &option, &err), 0);
	assert_string_equal(origins_of_key(&o, policy_key_find("limits.pids"))->name, "--pids");
	assert_int_equal(policy_put_from(&p, policy_key_find("env.set"), "USER=x", &o, &option, &err), 0);
	assert_string_equal(origins_of(&o, policy_key_find("env.set"), 2)->name, "--pids"); /* in the place of the old one */
	assert_string_equal(origins_of(&o, policy_key_find("env.set"), 1)->name, "default");
	policy_clear(&p);
	origins_free(&o);
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	int rc = -1;
	long n = 0;

	for (; rc < 0 && n < 2000; n++) {
		struct policy_origins o = {0};
		struct cordon_policy p = {0}, base = {0};
		struct strlist settings = {0};

		allocations_left = n;
		rc = policy_init_profile_noted(&p, "locked", &o, &err) < 0 || policy_init(&base, &err) < 0 ||
		                     policy_settings(&p, &base, &settings, &err) < 0
		             ? -1
		             : 0;
		allocations_left = -1;
		if (rc < 0)
			assert_non_null(strstr(err.message, "out of memory"));
		policy_clear(&p);
		policy_clear(&base);
		strlist_free(&settings);
		origins_free(&o);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 1);
}

#define TEST(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_settings_turn_one_policy_into_another),
		TEST(test_every_key_is_told_from_its_default),
		TEST(test_clear_empties_lists_only),
		TEST(test_process_max_is_limits_pids),
		TEST(test_what_is_not_enforced_is_refused_by_name),
		TEST(test_a_secret_for_nobody_is_refused),
		TEST(test_origins_tell_the_profile_from_the_default_it_is_put_on),
		TEST(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
