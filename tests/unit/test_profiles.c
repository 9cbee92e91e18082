/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/profiles.h"
#include "alloc.h"

static struct cordon_policy policy;
static struct cordon_error err;

static int tear_down(void **state)
{
	allocations_left = -1;
	policy_clear(&policy);
	err = (struct cordon_error){0};
	return 0;
}

static void test_the_default_profile_is_what_policy_init_makes(void **state)
{
	static const char *const names[] = {"default", NULL};
	struct cordon_policy plain;

	assert_int_equal(policy_init(&plain, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(policy_init_profile(&policy, names[i], &err), 0);
		assert_memory_equal(&policy.limits, &plain.limits, sizeof(plain.limits));
		assert_int_equal(policy.transaction.exit, TX_ROLLBACK);
		assert_int_equal(policy.env_set.count, plain.env_set.count);
		policy_clear(&policy);
	}
	policy_clear(&plain);
}

static void test_dev_has_the_documented_values(void **state)
{
	struct sysinfo info;
	cpu_set_t cpus[8];

	assert_int_equal(sysinfo(&info), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(cpus), cpus), 0);
	assert_int_equal(policy_init_profile(&policy, "dev", &err), 0);
	assert_int_equal(policy.limits.timeout_ms, 600000);
	assert_int_equal(policy.limits.cpus_milli, 1000 * CPU_COUNT_S(sizeof(cpus), cpus));
	assert_int_equal(policy.limits.pids, 1024);
	assert_int_equal(policy.limits.max_output, 16 << 20);
	assert_int_equal(policy.limits.disk, (uint64_t)10 << 30);
	assert_int_equal(policy.limits.files, 1024);
	/* half of the machine, or less where a container has less */
	assert_true(policy.limits.memory <= (uint64_t)info.totalram * info.mem_unit / 2);
	assert_true(policy.limits.memory >= 4 << 20);
	assert_int_equal(policy.limits.memory % (1 << 20), 0);
	assert_int_equal(policy.transaction.exit, TX_KEEP);
	assert_int_equal(policy.transaction.abort, TX_ROLLBACK);
	assert_int_equal(policy.transaction.denial, TX_KEEP);
	assert_true(policy_status_ok(&policy, 0));
	assert_false(policy_status_ok(&policy, 1));
	assert_int_equal(policy.mounts_read.count, 0);
}

static void test_locked_has_the_documented_values(void **state)
{
	struct cordon_policy plain;

	assert_int_equal(policy_init(&plain, &err), 0);
	assert_int_equal(policy_init_profile(&policy, "locked", &err), 0);
	assert_memory_equal(&policy.limits, &plain.limits, sizeof(plain.limits));
	assert_int_equal(policy.files.read.count, 0);
	assert_int_equal(policy.files.write.count, 1);
	assert_string_equal(policy.files.write.items[0], "/app/**");
	assert_int_equal(policy.network.outbound.count + policy.network.inbound.count, 0);
	assert_false(policy.network.localhost);
	assert_false(policy.process.subprocess);
	assert_false(policy.process.native);
	assert_int_equal(policy.patterns.action, ACTION_DENY);
	assert_int_equal(policy.transaction.denial, TX_ROLLBACK);
	assert_int_equal(policy.transaction.exit, TX_ROLLBACK);
	policy_clear(&plain);
}

static void test_dev_counts_only_the_cpus_that_this_process_may_use(void **state)
{
	cpu_set_t all[8], one[8];
	size_t first = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(all), all), 0);
	while (!CPU_ISSET_S(first, sizeof(all), all))
		first++;
	CPU_ZERO_S(sizeof(one), one);
	CPU_SET_S(first, sizeof(one), one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), one), 0);
	assert_int_equal(policy_init_profile(&policy, "dev", &err), 0);
	assert_int_equal(policy.limits.cpus_milli, 1000);
	assert_int_equal(sched_setaffinity(0, sizeof(all), all), 0);
}

static void test_unknown_profiles_are_refused_with_the_nearest_one(void **state)
{
	static const struct {
		const char *name, *hint;
	} wrong[] = {
		{"defualt", "did you mean 'default'?"},
		{"devel", "did you mean 'dev'?"},
		{"", "the profiles are default, locked, dev"},
		{"zzzzzz", "the profiles are default, locked, dev"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char message[64];

		snprintf(message, sizeof(message), "there is no profile '%s'", wrong[i].name);
		assert_int_equal(policy_init_profile(&policy, wrong[i].name, &err), -1);
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_string_equal(err.message, message);
		assert_string_equal(err.hint, wrong[i].hint);
		assert_null(policy.env_set.items);
		assert_null(cordon_policy_new_profile(wrong[i].name, &err));
	}
}

static void test_every_profile_can_be_made_and_says_what_it_is_for(void **state)
{
	for (size_t i = 0; i < policy_profile_count; i++) {
		struct cordon_policy *p = cordon_policy_new_profile(policy_profiles[i].name, &err);

		assert_non_null(p);
		assert_true(policy_profiles[i].help[0]);
		policy_clear(p);
		free(p);
	}
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	int rc = -1;
	long n = 0;

	for (; rc < 0 && n < 1000; n++) {
		allocations_left = n;
		rc = policy_init_profile(&policy, "dev", &err);
		allocations_left = -1;
		if (rc < 0) {
			assert_int_equal(err.code, CORDON_ERR_SYSTEM);
			assert_non_null(strstr(err.message, "out of memory"));
			assert_null(policy.env_set.items);
		}
	}
	assert_int_equal(rc, 0);
	assert_true(n > 1);
}

#define TEST(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_default_profile_is_what_policy_init_makes),
		TEST(test_dev_has_the_documented_values),
		TEST(test_locked_has_the_documented_values),
		TEST(test_dev_counts_only_the_cpus_that_this_process_may_use),
		TEST(test_unknown_profiles_are_refused_with_the_nearest_one),
		TEST(test_every_profile_can_be_made_and_says_what_it_is_for),
		TEST(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
