/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/match.h"
#include "policy/profiles.h"

static struct cordon_policy policy;
static struct cordon_error err;
static struct policy_verdict verdict;

static int set_up(void **state)
{
	return policy_init(&policy, &err);
}

static int tear_down(void **state)
{
	policy_clear(&policy);
	return 0;
}

static void set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static bool may(enum policy_access access, const char *path)
{
	policy_match_path(&policy, path, access, &verdict);
	assert_non_null(verdict.key);
	assert_non_null(policy_key_find(verdict.key));
	assert_non_null(verdict.why);
	return verdict.allowed;
}

static bool reaches(const char *host, uint16_t port)
{
	struct host_target target;

	assert_int_equal(host_target_parse(host, &target, &err), 0);
	policy_match_host(&policy, &target, port, &verdict);
	assert_non_null(policy_key_find(verdict.key));
	return verdict.allowed;
}

static bool runs(const char *path)
{
	policy_match_program(&policy, path, &verdict);
	return verdict.allowed;
}

static void only_files(const char *read, const char *write)
{
	set("clear", "files.read");
	set("clear", "files.write");
	if (read)
		set("files.read", read);
	if (write)
		set("files.write", write);
}

/* ---- paths ---- */

static void test_the_default_denies_no_path(void **state)
{
	static const char *const paths[] = {"/", "/app", "/app/x/.git", "/data", "/usr/bin/env", "/home/user/.cache"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_true(may(ACCESS_READ, paths[i]) && may(ACCESS_WRITE, paths[i]) && may(ACCESS_EXECUTE, paths[i]));
}

static void test_empty_lists_grant_nothing_but_the_system(void **state)
{
	only_files(NULL, NULL);
	assert_false(may(ACCESS_READ, "/app/x"));
	assert_string_equal(verdict.key, "files.read");
	assert_null(verdict.rule);
	assert_false(may(ACCESS_WRITE, "/app/x"));
	assert_string_equal(verdict.key, "files.write");
	assert_false(may(ACCESS_READ, "/tmp/x"));
	assert_false(may(ACCESS_READ, "/home/user"));
	assert_true(may(ACCESS_READ, "/usr/lib/libc.so.6"));
	assert_true(may(ACCESS_READ, "/etc/passwd"));
	assert_false(may(ACCESS_READ, "/")); /* its names are not the system's alone */
	assert_false(may(ACCESS_WRITE, "/proc/self/mem"));
	assert_false(may(ACCESS_WRITE, "/usr/lib/x"));
	assert_false(may(ACCESS_WRITE, "/"));
	assert_false(may(ACCESS_READ, "/usrlocal"));
	assert_true(may(ACCESS_WRITE, "/dev/null"));
	assert_false(may(ACCESS_WRITE, "/dev/shm/x"));
}

static void test_rules_of_files_are_trees_or_patterns(void **state)
{
	only_files("/data/**", "/app");
	assert_true(may(ACCESS_READ, "/data"));
	assert_true(may(ACCESS_READ, "/data/a/b"));
	assert_string_equal(verdict.rule, "/data/**");
	assert_false(may(ACCESS_WRITE, "/data/a"));
	assert_false(may(ACCESS_READ, "/database"));
	assert_true(may(ACCESS_WRITE, "/app"));
	assert_true(may(ACCESS_WRITE, "/app/a/b"));
	assert_true(may(ACCESS_READ, "/app/a/b")); /* what may be written may be read */
	assert_string_equal(verdict.key, "files.write");
	only_files("/data/*", "/srv/*/out");
	assert_true(may(ACCESS_READ, "/data/a"));
	assert_false(may(ACCESS_READ, "/data/a/b")); /* a star is not a tree */
	assert_true(may(ACCESS_WRITE, "/srv/x/out/deep/file"));
	assert_false(may(ACCESS_WRITE, "/srv/x/other"));
}

static void test_what_is_denied_is_denied_with_all_below(void **state)
{
	set("files.deny", "/data/secrets/**");
	set("files.deny", "/app/*.key");
	set("files.deny", "/etc/passwd");
	assert_false(may(ACCESS_READ, "/data/secrets"));
	assert_false(may(ACCESS_READ, "/data/secrets/a/b"));
	assert_string_equal(verdict.key, "files.deny");
	assert_string_equal(verdict.rule, "/data/secrets/**");
	assert_int_equal(verdict.index, 0);
	assert_true(may(ACCESS_READ, "/data/secretsx"));
	assert_false(may(ACCESS_READ, "/app/a.key"));
	assert_int_equal(verdict.index, 1);
	assert_false(may(ACCESS_READ, "/app/a.key/inside"));
	assert_false(may(ACCESS_WRITE, "/app/a.key"));
	assert_false(may(ACCESS_READ, "/etc/passwd"));
	assert_true(may(ACCESS_READ, "/etc/hosts"));
}

static void test_hidden_names_must_be_spelled_out(void **state)
{
	only_files("/data/**", "/app/**");
	set("files.write", "/app/.cache/**");
	set("files.read", "/data/.config");
	set("files.hidden", "false");
	assert_true(may(ACCESS_WRITE, "/app/x.y"));
	assert_false(may(ACCESS_WRITE, "/app/.env"));
	assert_string_equal(verdict.key, "files.hidden");
	assert_false(may(ACCESS_READ, "/app/.git/config"));
	assert_false(may(ACCESS_READ, "/app/x/.git"));
	assert_true(may(ACCESS_WRITE, "/app/.cache/a/b"));
	assert_true(may(ACCESS_WRITE, "/app/.cache"));
	assert_false(may(ACCESS_WRITE, "/app/.cache/.hidden"));
	assert_false(may(ACCESS_WRITE, "/app/.cachex/a"));
	assert_true(may(ACCESS_READ, "/data/.config/x"));
	assert_true(may(ACCESS_READ, "/usr/lib/.build-id/x")); /* the system */
	set("files.deny", "/app/.cache/x*");
	assert_false(may(ACCESS_READ, "/app/.cache/x1"));
	set("files.hidden", "true");
	assert_true(may(ACCESS_WRITE, "/app/.env"));
}

static void test_long_paths_are_matched_to_the_end(void **state)
{
	char path[4096];

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 100 == 0 ? '/' : 'x';
	path[sizeof(path) - 1] = '\0';
	only_files("/xx*/**", NULL);
	assert_true(may(ACCESS_READ, path));
	set("files.deny", "/**/xxx*");
	assert_false(may(ACCESS_READ, path));
}

/* ---- programs ---- */

static void test_programs_go_by_name_and_by_path(void **state)
{
	set("clear", "process.allow");
	assert_false(runs("/usr/bin/git"));
	assert_string_equal(verdict.key, "process.allow");
	set("process.allow", "git");
	set("process.allow", "python3*");
	set("process.allow", "/usr/lib/git-core/*");
	set("process.allow", "/app/**");
	assert_true(runs("/usr/bin/git"));
	assert_true(runs("/opt/x/git"));
	assert_true(runs("/usr/bin/python3.11"));
	assert_false(runs("/usr/bin/python"));
	assert_true(runs("/usr/lib/git-core/git-remote-https"));
	assert_false(runs("/usr/lib/git-core/deep/x"));
	assert_true(runs("/app/a.out"));
	assert_true(runs("/app/node_modules/.bin/x"));
	assert_false(runs("/usr/bin/rm"));
	assert_false(runs("/tmp/git")); /* a name is not for what somebody brings along */
	assert_false(runs("/home/user/bin/git"));
	set("process.deny", "python3.1?");
	assert_false(runs("/usr/bin/python3.11"));
	assert_string_equal(verdict.rule, "python3.1?");
	assert_true(runs("/usr/bin/python3"));
	assert_false(may(ACCESS_EXECUTE, "/usr/bin/python3.11"));
	assert_true(may(ACCESS_READ, "/app/a.out"));
	set("files.deny", "/app/a.out");
	assert_false(may(ACCESS_EXECUTE, "/app/a.out"));
	assert_string_equal(verdict.key, "files.deny");
}

static void test_nothing_native_runs_from_where_files_can_be_written(void **state)
{
	assert_true(runs("/app/a.out"));
	set("process.native", "false");
	assert_false(runs("/app/a.out"));
	assert_string_equal(verdict.key, "process.native");
	assert_false(runs("/tmp/x"));
	assert_true(runs("/usr/bin/env"));
	assert_true(policy_runs_anything(&policy));
	set("clear", "process.allow");
	set("process.allow", "git");
	assert_false(policy_runs_anything(&policy));
}

static void test_shells_can_be_taken_away(void **state)
{
	assert_true(runs("/bin/sh"));
	set("process.shell", "false");
	assert_false(runs("/bin/sh"));
	assert_string_equal(verdict.key, "process.shell");
	assert_false(runs("/usr/bin/bash"));
	assert_true(runs("/usr/bin/bashful"));
	set("process.allow", "bash");
	assert_false(runs("/usr/bin/bash"));
}

/* ---- hosts ---- */

static void test_no_rule_reaches_nothing(void **state)
{
	assert_false(reaches("example.com", 443));
	assert_string_equal(verdict.key, "network.outbound");
	assert_false(reaches("8.8.8.8", 53));
	assert_false(reaches("169.254.169.254", 80));
}

static void test_rules_name_host_and_port(void **state)
{
	set("network.outbound", "api.openai.com:443");
	set("network.outbound", "*.github.com");
	set("network.outbound", "10.0.0.0/8:5432");
	assert_true(reaches("api.openai.com", 443));
	assert_string_equal(verdict.rule, "api.openai.com");
	assert_false(reaches("api.openai.com", 80));
	assert_string_equal(verdict.why, "no rule for this host has that port");
	assert_true(reaches("api.github.com", 80) && reaches("API.github.com.", 443));
	assert_int_equal(verdict.index, 1);
	assert_false(reaches("api.github.com", 22));
	assert_false(reaches("github.com", 443));
	assert_true(reaches("10.2.3.4", 5432));
	assert_false(reaches("11.2.3.4", 5432));
	set("network.deny", "*.evil.github.com");
	assert_false(reaches("x.evil.github.com", 443));
	assert_string_equal(verdict.key, "network.deny");
	set("network.deny", "10.1.0.0/16");
	assert_false(reaches("10.1.2.3", 5432));
	assert_true(reaches("10.2.2.3", 5432));
}

static void test_loopback_is_the_sandbox(void **state)
{
	set("network.outbound", "127.0.0.0/8");
	assert_true(reaches("localhost", 3000) && reaches("127.0.0.1", 80));
	assert_string_equal(verdict.key, "network.localhost");
	set("network.localhost", "false");
	assert_false(reaches("localhost", 3000) || reaches("::1", 80) || reaches("127.0.0.1", 80));
}

#define WITH_POLICY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_POLICY(test_the_default_denies_no_path),
		WITH_POLICY(test_empty_lists_grant_nothing_but_the_system),
		WITH_POLICY(test_rules_of_files_are_trees_or_patterns),
		WITH_POLICY(test_what_is_denied_is_denied_with_all_below),
		WITH_POLICY(test_hidden_names_must_be_spelled_out),
		WITH_POLICY(test_long_paths_are_matched_to_the_end),
		WITH_POLICY(test_programs_go_by_name_and_by_path),
		WITH_POLICY(test_shells_can_be_taken_away),
		WITH_POLICY(test_nothing_native_runs_from_where_files_can_be_written),
		WITH_POLICY(test_no_rule_reaches_nothing),
		WITH_POLICY(test_rules_name_host_and_port),
		WITH_POLICY(test_loopback_is_the_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
