/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/permit.h"
#include "base/fs.h"
#include "base/util.h"
#include "policy/profiles.h"
#include "sandbox/landlock.h"

static char home[] = "/tmp/cordon-permit.XXXXXX";
static struct cordon_policy policy;
static struct cordon_error err;
static struct plan plan;
static uint32_t flags;

static void set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static int set_up(void **state)
{
	memcpy(home + strlen(home) - 6, "XXXXXX", 6);
	if (!mkdtemp(home) || policy_init(&policy, &err) < 0)
		return -1;
	flags = 0;
	image_host_plan(&plan, &(const struct plan_names){"cordon", "", 1000, 1000});
	plan_op(&plan, OP_SCRATCH, "home/user", "home", 0);
	plan_op(&plan, OP_LAYERED, "app", "/srv/ws", OP_CHECKED);
	plan_op(&plan, OP_ALIAS, "srv/ws", "app", OP_CAREFUL);
	plan_op(&plan, OP_BIND, "data", "/usr/share", OP_CHECKED | OP_CAREFUL);
	return 0;
}

static int tear_down(void **state)
{
	plan_free(&plan);
	policy_clear(&policy);
	return fs_remove_tree(AT_FDCWD, home, NULL);
}

static void apply(bool layers_only)
{
	if (permit_plan(&plan, &policy, home, NULL, layers_only, &flags, &err) < 0)
		fail_msg("%s", err.message);
}

/* All rights of the rules for this very path, with that pattern. */
static bool has(const char *path, uint32_t access, const char *pattern)
{
	for (uint32_t i = 0; i < plan.rule_count; i++)
		if (strcmp(plan.rules[i].path, path) == 0 && plan.rules[i].access == access &&
		    (pattern ? plan.rules[i].pattern && strcmp(plan.rules[i].pattern, pattern) == 0 : !plan.rules[i].pattern))
			return true;
	return false;
}

static bool mentions(const char *path)
{
	for (uint32_t i = 0; i < plan.rule_count; i++)
		if (strcmp(plan.rules[i].path, path) == 0)
			return true;
	return false;
}

static int op_at(enum op_kind kind, const char *target, const char *source)
{
	for (uint32_t i = 0; i < plan.op_count; i++)
		if (plan.ops[i].kind == kind && strcmp(plan.ops[i].target, target) == 0 &&
		    (!source || strcmp(plan.ops[i].source, source) == 0))
			return (int)i;
	return -1;
}

static bool noexec(const char *target)
{
	for (uint32_t i = 0; i < plan.op_count; i++)
		if (strcmp(plan.ops[i].target, target) == 0 && (plan.ops[i].flags & OP_NOEXEC))
			return true;
	return false;
}

static void only(const char *read, const char *write)
{
	set("clear", "files.read");
	set("clear", "files.write");
	if (read)
		set("files.read", read);
	if (write)
		set("files.write", write);
}

static void test_the_default_policy_changes_nothing(void **state)
{
	const uint32_t ops = plan.op_count, rules = plan.rule_count;
	_cleanup_free_ struct setup_op *before = malloc(ops * sizeof(*before));

	memcpy(before, plan.ops, ops * sizeof(*before));
	set("limits.pids", "7");
	apply(false);
	assert_int_equal(plan.op_count, ops);
	assert_int_equal(plan.rule_count, rules);
	assert_memory_equal(before, plan.ops, ops * sizeof(*before));
	assert_int_equal(flags, 0);
}

static void test_only_what_is_granted_has_a_rule(void **state)
{
	only("/data/pub/**", "/app/**");
	apply(false);
	assert_true(flags & SPEC_PERMITS);
	assert_false(mentions("/"));
	assert_true(has("/usr", LANDLOCK_RX, NULL) && has("/etc", LANDLOCK_RX, NULL));
	assert_true(has("/app", LANDLOCK_RWX, NULL));
	assert_true(has("/data/pub", LANDLOCK_RX, NULL));
	assert_false(mentions("/tmp") || mentions("/home/user") || mentions("/dev/shm") || mentions("/data") || mentions("/run"));
	assert_true(has("/dev/null", LANDLOCK_DEV, NULL));
}

static void test_a_rule_grants_no_more_than_the_place_has(void **state)
{
	only(NULL, "/data");
	set("files.write", "/proc/**");
	set("files.write", "/dev/**");
	apply(false);
	assert_true(has("/data", LANDLOCK_RX, NULL)); /* mounted for reading */
	assert_true(has("/dev/shm", LANDLOCK_RW, NULL));
	assert_false(has("/proc", LANDLOCK_RWX, NULL) || has("/dev", LANDLOCK_RWX, NULL));
}

static void test_patterns_are_looked_for_where_they_can_match(void **state)
{
	only("/data/*/x", "/**/out");
	apply(false);
	assert_true(has("/data", LANDLOCK_RX, "/data/*/x"));
	assert_true(has("/app", LANDLOCK_RWX, "/**/out") && has("/tmp", LANDLOCK_RWX, "/**/out"));
	assert_false(has("/app", LANDLOCK_RWX, NULL));
}

static void test_reading_everything_and_writing_little(void **state)
{
	set("clear", "files.write");
	set("files.write", "/app/out");
	apply(false);
	assert_true(has("/", LANDLOCK_RX, NULL));
	assert_true(has("/app/out", LANDLOCK_RWX, NULL));
	assert_false(has("/app", LANDLOCK_RWX, NULL) || has("/tmp", LANDLOCK_RWX, NULL));
}

static void test_what_is_denied_is_masked_before_the_workspace_is_shown_again(void **state)
{
	set("files.deny", "/app/**/.env");
	set("files.deny", "/srv/ws/key");
	set("files.deny", "/data/secret");
	apply(false);
	const int app = op_at(OP_HIDE, "app", "/app"), other = op_at(OP_HIDE, "app", "/srv/ws"), rest = op_at(OP_HIDE, ".", "/");

	assert_true(op_at(OP_LAYERED, "app", NULL) < app && app < op_at(OP_ALIAS, "srv/ws", NULL));
	assert_true(op_at(OP_LAYERED, "app", NULL) < other && other < op_at(OP_ALIAS, "srv/ws", NULL));
	assert_true(rest > op_at(OP_BIND, "data", NULL));
	assert_int_equal(plan.ops[app].find.patterns.count, 1);
	assert_string_equal(plan.ops[app].find.patterns.items[0], "/app/**/.env");
	assert_string_equal(plan.ops[other].find.patterns.items[0], "/srv/ws/key");
	assert_true(has("/", LANDLOCK_RX, NULL)); /* masks are enough */
}

static void test_a_place_that_is_denied_as_a_whole_has_no_rule(void **state)
{
	set("files.deny", "/srv/ws/**"); /* the workspace, by its other path */
	set("files.deny", "/tmp");
	apply(false);
	assert_false(mentions("/") || mentions("/app") || mentions("/srv/ws") || mentions("/tmp"));
	assert_true(has("/home/user", LANDLOCK_RWX, NULL) && has("/data", LANDLOCK_RX, NULL) && has("/usr", LANDLOCK_RX, NULL));
	assert_int_equal(op_at(OP_HIDE, "app", NULL), -1);
}

static void test_with_a_list_only_its_programs_are_executed_and_read(void **state)
{
	set("clear", "process.allow");
	set("process.allow", "cat");
	apply(false);
	assert_true(has("/", LANDLOCK_LIST, NULL) && has("/usr", LANDLOCK_LIST, NULL));
	assert_true(has("/usr/bin/cat", LANDLOCK_RX, NULL) || has("/bin/cat", LANDLOCK_RX, NULL));
	assert_false(mentions("/usr/bin") || mentions("/usr/bin/env") || mentions("/bin/sh") || has("/usr", LANDLOCK_R, NULL));
	assert_true(has("/usr/share", LANDLOCK_R, NULL) || mentions("/usr/share/doc") || mentions("/usr/share/locale"));
	assert_true(has("/app", LANDLOCK_RW, NULL) && has("/data", LANDLOCK_R, NULL));
	for (uint32_t i = 0; i < plan.rule_count; i++)
		assert_true(plan.rules[i].access != LANDLOCK_RWX);
	assert_true(noexec("app") && noexec("tmp") && noexec("home/user") && noexec("data") && noexec("run"));
}

static void test_a_listed_part_of_the_workspace_can_be_executed(void **state)
{
	set("clear", "process.allow");
	set("process.allow", "/app/bin/*");
	set("process.allow", "/tmp/**");
	apply(false);
	assert_true(noexec("app") && !noexec("tmp"));
	assert_true(has("/app/bin", LANDLOCK_X, "/app/bin/*") && has("/tmp", LANDLOCK_X, NULL));
	const int exec = op_at(OP_EXEC, "app", "/app");
	assert_true(exec > op_at(OP_LAYERED, "app", NULL) && exec < op_at(OP_ALIAS, "srv/ws", NULL));
}

static void test_without_native_code_nothing_that_is_written_is_executed(void **state)
{
	set("process.native", "false");
	set("process.allow", "/app/**");
	apply(false);
	assert_true(noexec("app") && noexec("tmp") && noexec("home/user") && noexec("var/tmp"));
	assert_false(noexec("data"));
	assert_int_equal(op_at(OP_EXEC, "app", NULL), -1);
}

static void test_denied_programs_are_masked_by_their_real_path(void **state)
{
	set("process.deny", "env");
	set("process.shell", "false");
	apply(false);
	const int hide = op_at(OP_HIDE, ".", "/");
	bool env = false, shell = false;

	assert_true(hide >= 0);
	for (uint32_t i = 0; i < plan.ops[hide].find.patterns.count; i++) {
		const char *path = plan.ops[hide].find.patterns.items[i];

		env = env || (strlen(path) > 4 && strcmp(path + strlen(path) - 4, "/env") == 0);
		shell = shell || strstr(path, "dash") || strstr(path, "bash");
	}
	assert_true(env && shell);
	assert_true(has("/", LANDLOCK_RX, NULL));
}

static void test_names_with_a_dot_are_hidden_in_each_place(void **state)
{
	set("files.hidden", "false");
	set("files.write", "/srv/ws/.cache/**");
	apply(false);
	const int app = op_at(OP_HIDE, "app", "/app");
	bool spelled = false;

	assert_true(app >= 0 && (plan.ops[app].flags & OP_DOTS));
	for (uint32_t i = 0; i < plan.ops[app].find.keep.count; i++)
		spelled = spelled || strcmp(plan.ops[app].find.keep.items[i], "/app/.cache/**") == 0;
	assert_true(spelled); /* by the path that the workspace has here */
	assert_true(op_at(OP_HIDE, "data", "/data") > op_at(OP_BIND, "data", NULL) && op_at(OP_HIDE, "home/user", NULL) >= 0);
	assert_int_equal(op_at(OP_HIDE, "app", "/srv/ws"), -1);
}

static void test_what_cannot_be_held_is_refused(void **state)
{
	set("files.deny", "/proc/*/mem");
	assert_int_equal(permit_plan(&plan, &policy, home, NULL, false, &flags, &err), -1);
	assert_non_null(strstr(err.message, "/proc/*/mem"));
	set("clear", "files.deny");
	set("files.deny", "/**");
	assert_int_equal(permit_plan(&plan, &policy, home, NULL, false, &flags, &err), -1);
}

static void test_masks_can_be_made_again_in_trees_that_stay(void **state)
{
	set("files.deny", "/app/**/.env");
	apply(true);
	permit_stay(&plan);
	assert_int_equal(plan.rule_count, 0);
	for (uint32_t i = 0; i < plan.op_count; i++)
		assert_int_equal(plan.ops[i].kind, OP_HIDE);
	assert_true(op_at(OP_HIDE, "app", "/app") >= 0 && op_at(OP_HIDE, "srv/ws", "/app") >= 0);
}

#define WITH_PLAN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PLAN(test_the_default_policy_changes_nothing),
		WITH_PLAN(test_only_what_is_granted_has_a_rule),
		WITH_PLAN(test_a_rule_grants_no_more_than_the_place_has),
		WITH_PLAN(test_patterns_are_looked_for_where_they_can_match),
		WITH_PLAN(test_reading_everything_and_writing_little),
		WITH_PLAN(test_what_is_denied_is_masked_before_the_workspace_is_shown_again),
		WITH_PLAN(test_a_place_that_is_denied_as_a_whole_has_no_rule),
		WITH_PLAN(test_with_a_list_only_its_programs_are_executed_and_read),
		WITH_PLAN(test_a_listed_part_of_the_workspace_can_be_executed),
		WITH_PLAN(test_without_native_code_nothing_that_is_written_is_executed),
		WITH_PLAN(test_denied_programs_are_masked_by_their_real_path),
		WITH_PLAN(test_names_with_a_dot_are_hidden_in_each_place),
		WITH_PLAN(test_what_cannot_be_held_is_refused),
		WITH_PLAN(test_masks_can_be_made_again_in_trees_that_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
