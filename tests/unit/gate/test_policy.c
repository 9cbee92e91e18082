/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy makes of a verdict, and what it says about it. */
#include "gate_case.h"
#include "policy/gate.h"
#include "policy/gate_policy.h"
#include "policy/profiles.h"

static struct cordon_policy policy;
static struct cordon_error err;

static void start(const char *profile)
{
	err = (struct cordon_error){0};
	if (policy_init_profile(&policy, profile, &err) < 0)
		fail_msg("%s", err.message);
}

static void set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s", err.message);
}

static void expect(const char *text, enum policy_language language, const char *verdict, bool allowed)
{
	struct gate_answer a = {0};
	struct gate_question q = {text, strlen(text), language, "text"};
	if (gate_explain(&policy, &q, &a, &err) < 0)
		fail_msg("%s", err.message);
	if (strcmp(a.verdict, verdict) != 0 || a.allowed != allowed)
		fail_msg("%s: %s (%s), not %s", text, a.verdict, a.reasons.count ? a.reasons.items[0] : "nothing", verdict);
	strlist_free(&a.reasons);
}

static int end(void **state)
{
	policy_clear(&policy);
	return 0;
}

static void the_default_profile_warns(void **state)
{
	start("default");
	expect("rm -rf /", LANGUAGE_BASH, "warn", true);
	expect("$X", LANGUAGE_BASH, "unproven", true);
	expect("ls", LANGUAGE_BASH, "allow", true);
	expect("import os\nos.system('ls')", LANGUAGE_PYTHON, "allow", true); /* granted */
	expect("import requests", LANGUAGE_PYTHON, "warn", true);
	expect("eval('1')", LANGUAGE_PYTHON, "warn", true);
}

static void the_locked_profile_refuses(void **state)
{
	start("locked");
	expect("rm -rf /", LANGUAGE_BASH, "deny", false);
	expect("import os\nos.system('ls')", LANGUAGE_PYTHON, "deny", false);
	expect("open('/etc/hosts')", LANGUAGE_PYTHON, "deny", false);
	expect("open('x')", LANGUAGE_PYTHON, "allow", true);
}

static void the_policy_says_what_findings_mean(void **state)
{
	start("default");
	set("patterns.action", "deny");
	expect("rm -rf /", LANGUAGE_BASH, "deny", false);
	expect("$X", LANGUAGE_BASH, "unproven", true);
	set("patterns.unproven", "deny");
	expect("$X", LANGUAGE_BASH, "unproven", false);
	set("patterns.action", "allow");
	expect("rm -rf /; $X", LANGUAGE_BASH, "unproven", false);
	set("patterns.unproven", "allow");
	expect("rm -rf /etc/x", LANGUAGE_BASH, "unproven", true);
}

static void what_is_granted_is_not_found(void **state)
{
	start("locked");
	set("process.subprocess", "true");
	expect("import os\nos.system('ls')", LANGUAGE_PYTHON, "allow", true);
	expect("import os\nos.system('rm -rf /')", LANGUAGE_PYTHON, "deny", false);
	set("files.read", "/data/**");
	expect("open('/data/x')", LANGUAGE_PYTHON, "allow", true);
}

static void reasons_have_place_rule_and_text(void **state)
{
	static const char text[] = "ls\nrm -rf /";
	struct gate_question q = {text, sizeof(text) - 1, LANGUAGE_BASH, "command"};
	struct gate_answer a = {0};
	start("default");
	assert_int_equal(gate_explain(&policy, &q, &a, &err), 0);
	assert_true(a.reasons.count > 0);
	assert_string_equal(
		a.reasons.items[0],
		"2:1: shell-files/delete-vital (critical): deletes a system directory, a home directory or the whole workspace: rm -rf /");
	strlist_free(&a.reasons);
}

static void a_language_that_no_pack_is_about_is_said_to_be_unread(void **state)
{
	struct gate_question q = {"x", 1, LANGUAGE_RUBY, "x.rb"};
	struct gate_answer a = {0};
	start("default");
	assert_int_equal(gate_explain(&policy, &q, &a, &err), 0);
	assert_true(a.allowed);
	assert_int_equal(a.reasons.count, 1);
	assert_non_null(strstr(a.reasons.items[0], "nothing was looked at"));
	strlist_free(&a.reasons);
}

static void a_pack_that_is_not_there_is_an_error(void **state)
{
	struct gate_question q = {"x", 1, LANGUAGE_BASH, "command"};
	struct gate_answer a = {0};
	start("default");
	set("patterns.use", "nothing");
	assert_int_equal(gate_explain(&policy, &q, &a, &err), -1);
	assert_non_null(strstr(err.message, "nothing"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_default_profile_warns, end),
		cmocka_unit_test_teardown(the_locked_profile_refuses, end),
		cmocka_unit_test_teardown(the_policy_says_what_findings_mean, end),
		cmocka_unit_test_teardown(what_is_granted_is_not_found, end),
		cmocka_unit_test_teardown(reasons_have_place_rule_and_text, end),
		cmocka_unit_test_teardown(a_language_that_no_pack_is_about_is_said_to_be_unread, end),
		cmocka_unit_test_teardown(a_pack_that_is_not_there_is_an_error, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
