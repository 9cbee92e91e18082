/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "assert_list.h"
#include "policy/policy.h"

static struct cordon_policy policy;
static struct cordon_error err;

static int set_up(void **state)
{
	err = (struct cordon_error){0};
	return policy_init(&policy, &err);
}

static int tear_down(void **state)
{
	policy_clear(&policy);
	return 0;
}

static void test_environment_takes_only_what_the_policy_names(void **state)
{
	const char *const host[] = {"TERMINFO=/x", "TERM=xterm", "SECRET=1", "LANG=C", "TERM=second", "PATH=/evil", "LANGUAGE=x", NULL};
	struct strlist env;

	assert_int_equal(policy_environment(&policy, (char *const *)host, NULL, &env, &err), 0);
	ASSERT_LIST(&env, "LANG=C", "TERM=xterm", "HOME=/home/user", "PATH=/usr/local/bin:/usr/bin:/bin", "USER=user", "LOGNAME=user",
	            "SHELL=/bin/sh", "TMPDIR=/tmp");
	strlist_free(&env);
}

static void test_environment_prefers_extra_over_set_over_host(void **state)
{
	const char *const host[] = {"TERM=host", "LANG=host", NULL};
	const char *const extra[] = {"LANG=extra", "USER=extra", "NEW=", "NEW=last", NULL};
	struct strlist env;

	assert_int_equal(policy_set(&policy, "env.set", "TERM=set", &err), 0);
	assert_int_equal(policy_set(&policy, "env.set", "LANG=set", &err), 0);
	assert_int_equal(policy_environment(&policy, (char *const *)host, extra, &env, &err), 0);
	ASSERT_LIST(&env, "LANG=extra", "TERM=set", "HOME=/home/user", "PATH=/usr/local/bin:/usr/bin:/bin", "USER=extra", "LOGNAME=user",
	            "SHELL=/bin/sh", "TMPDIR=/tmp", "NEW=last");
	strlist_free(&env);
}

/* The variable may be let in, and hold the secret itself: what is inside stands for it. Who sets it, means it. */
static void test_environment_has_placeholders_of_secrets(void **state)
{
	const char *const host[] = {"KEY=real", "SOURCE=real", "SSL_CERT_FILE=/host.pem", NULL};
	const char *const extra[] = {"OWN=chosen", "GIVEN=real", NULL};
	struct strlist env;

	assert_int_equal(policy_set(&policy, "env.allow", "KEY", &err), 0);
	assert_int_equal(policy_set(&policy, "env.allow", "SSL_CERT_FILE", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=env:KEY;hosts=a.b;env=KEY", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=store:other;hosts=a.b;env=OWN", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=store:third;hosts=a.b", &err), 0);
	assert_int_equal(policy_set(&policy, "env.allow", "SOURCE", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=env:SOURCE;hosts=a.b", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=env:GIVEN;hosts=a.b;env=OTHER", &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", "from=env:ABSENT;hosts=a.b", &err), 0);
	assert_int_equal(policy_environment(&policy, (char *const *)host, extra, &env, &err), 0);
	assert_true(strlist_has(&env, "KEY=cordon-secret-KEY"));
	assert_true(strlist_has(&env, "OWN=chosen"));
	assert_true(strlist_has(&env, "SOURCE=cordon-secret-SOURCE") && strlist_has(&env, "GIVEN=cordon-secret-GIVEN"));
	assert_false(strlist_has(&env, "ABSENT=cordon-secret-ABSENT"));
	assert_true(strlist_has(&env, "SSL_CERT_FILE=" POLICY_TRUST_INSIDE));
	assert_true(strlist_has(&env, "NODE_EXTRA_CA_CERTS=" POLICY_AUTHORITY_INSIDE));
	for (size_t i = 0; i < env.count; i++)
		assert_null(strstr(env.items[i], "real"));
	strlist_free(&env);
}

static void test_environment_never_takes_injecting_names_from_the_host(void **state)
{
	const char *const host[] = {"LD_PRELOAD=/evil.so", NULL};
	struct strlist env;

	assert_int_equal(strlist_add(&policy.env_allow, "LD_PRELOAD", &err), 0); /* past policy_set() */
	assert_int_equal(policy_environment(&policy, (char *const *)host, NULL, &env, &err), 0);
	assert_false(strlist_has(&env, "LD_PRELOAD=/evil.so"));
	strlist_free(&env);
}

static void test_environment_refuses_malformed_extra_without_showing_values(void **state)
{
	const char *const no_value[] = {"OK=1", "NOVALUE", NULL}, *const bad_name[] = {"A B=secret", NULL};
	struct strlist env;

	assert_int_equal(policy_environment(&policy, NULL, no_value, &env, &err), -1);
	assert_string_equal(err.message, "environment: 'NOVALUE' is not an assignment (write NAME=VALUE)");
	assert_null(env.items);
	assert_int_equal(policy_environment(&policy, NULL, bad_name, &env, &err), -1);
	assert_non_null(strstr(err.message, "'A B' is not a variable name"));
	assert_null(strstr(err.message, "secret"));
}

static void test_environment_has_a_cap(void **state)
{
	static char entries[4097][16];
	static const char *extra[4098];
	struct strlist env;

	for (int i = 0; i < 4097; i++) {
		snprintf(entries[i], sizeof(entries[i]), "V%d=", i);
		extra[i] = entries[i];
	}
	assert_int_equal(policy_environment(&policy, NULL, extra, &env, &err), -1);
	assert_string_equal(err.message, "environment: more than 4096 variables");
	assert_null(env.items);
	extra[4096 - 6] = NULL; /* the six of env.set count too */
	assert_int_equal(policy_environment(&policy, NULL, extra, &env, &err), 0);
	assert_int_equal(env.count, 4096);
	strlist_free(&env);
}

static void test_environment_lets_node_start_without_new_native_code(void **state)
{
	struct strlist out;

	assert_int_equal(policy_environment(&policy, NULL, NULL, &out, NULL), 0);
	assert_false(strlist_has(&out, "NODE_OPTIONS=--jitless"));
	strlist_free(&out);
	assert_int_equal(policy_set(&policy, "process.native", "false", NULL), 0);
	assert_int_equal(policy_environment(&policy, NULL, NULL, &out, NULL), 0);
	assert_true(strlist_has(&out, "NODE_OPTIONS=--jitless"));
	strlist_free(&out);
	assert_int_equal(policy_set(&policy, "env.set", "NODE_OPTIONS=-x", NULL), 0);
	assert_int_equal(policy_environment(&policy, NULL, NULL, &out, NULL), 0);
	assert_true(strlist_has(&out, "NODE_OPTIONS=-x"));
	assert_false(strlist_has(&out, "NODE_OPTIONS=--jitless"));
	strlist_free(&out);
}

static void test_nearest_word_forgives_slips_and_prefixes_only(void **state)
{
	static const char *const words[] = {"run", "doctor", "selftest", "bench", "completion", "ls"};
	static const struct {
		const char *word, *nearest;
	} cases[] = {
		{"rnu", "run"},
		{"run", "run"},
		{"RUN", "run"},
		{"docter", "doctor"},
		{"dotcor", "doctor"},
		{"slefetst", "selftest"},
		{"self", "selftest"},
		{"comp", "completion"},
		{"benchmark", "bench"},
		{"sl", "ls"},
		{"x", NULL},
		{"xy", NULL},
		{"", NULL},
		{"be", NULL},
		{"elephant", NULL},
		{"completion-completion-completion-completion-completion-completion", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *got = nearest_word(cases[i].word, words, ARRAY_SIZE(words));

		if (cases[i].nearest) {
			assert_non_null(got);
			assert_string_equal(got, cases[i].nearest);
		} else {
			assert_null(got);
		}
	}
	assert_null(nearest_word(NULL, words, ARRAY_SIZE(words)));
	assert_null(nearest_word("run", NULL, 0));
}

#define WITH_POLICY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_POLICY(test_environment_takes_only_what_the_policy_names),
		WITH_POLICY(test_environment_prefers_extra_over_set_over_host),
		WITH_POLICY(test_environment_has_placeholders_of_secrets),
		WITH_POLICY(test_environment_never_takes_injecting_names_from_the_host),
		WITH_POLICY(test_environment_refuses_malformed_extra_without_showing_values),
		WITH_POLICY(test_environment_has_a_cap),
		WITH_POLICY(test_environment_lets_node_start_without_new_native_code),
		WITH_POLICY(test_nearest_word_forgives_slips_and_prefixes_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
