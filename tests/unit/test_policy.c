/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/glob.h"
#include "base/util.h"
#include "assert_list.h"
#include "policy/policy.h"
#include "alloc.h"

/* ---- fixture: a default policy ---- */

static struct cordon_policy policy;
static struct cordon_error err;

static int set_up(void **state)
{
	err = (struct cordon_error){0};
	return policy_init(&policy, &err);
}

static int tear_down(void **state)
{
	allocations_left = -1;
	policy_clear(&policy);
	return 0;
}

static void assert_refused(const char *key, const char *value, const char *message)
{
	assert_int_equal(policy_set(&policy, key, value, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_string_equal(err.message, message);
}

/* ---- tests ---- */

static void test_default_policy_has_the_documented_values(void **state)
{
	assert_int_equal(policy.limits.timeout_ms, 60000);
	assert_int_equal(policy.limits.memory, 512 << 20);
	assert_int_equal(policy.limits.cpus_milli, 1000);
	assert_int_equal(policy.limits.pids, 50);
	assert_int_equal(policy.limits.max_output, 1 << 20);
	assert_int_equal(policy.limits.disk, 1 << 30);
	assert_int_equal(policy.limits.files, 1024);
	assert_false(policy.limits.strict);
	ASSERT_LIST(&policy.env_allow, "LANG", "TERM", "PYTHONUNBUFFERED");
	ASSERT_LIST(&policy.env_set, "HOME=/home/user", "PATH=/usr/local/bin:/usr/bin:/bin", "USER=user", "LOGNAME=user", "SHELL=/bin/sh",
	            "TMPDIR=/tmp");
	ASSERT_LIST(&policy.mounts_read);
	ASSERT_LIST(&policy.mounts_write);
	ASSERT_LIST(&policy.mounts_forbid);
	ASSERT_LIST(&policy.weak_allow);
	assert_int_equal(policy.transaction.exit, TX_ROLLBACK);
	assert_int_equal(policy.transaction.abort, TX_ROLLBACK);
	assert_int_equal(policy.transaction.denial, TX_KEEP);
	for (int status = -1; status <= 256; status++)
		assert_int_equal(policy_status_ok(&policy, status), status == 0);
	ASSERT_LIST(&policy.transaction.preserve);
	assert_int_equal(policy.root, ROOT_READONLY);
	ASSERT_LIST(&policy.files.read, "/**");
	ASSERT_LIST(&policy.files.write, "/**");
	ASSERT_LIST(&policy.files.deny);
	assert_true(policy.files.hidden);
	assert_int_equal(policy.network.outbound.count, 0);
	ASSERT_LIST(&policy.network.deny);
	assert_int_equal(policy.network.inbound.count, 0);
	assert_true(policy.network.localhost);
	assert_int_equal(policy.network.connections, 1000);
	assert_int_equal(policy.network.bandwidth, 0);
	assert_true(policy.process.subprocess && policy.process.shell && policy.process.native);
	ASSERT_LIST(&policy.process.allow, "*");
	ASSERT_LIST(&policy.process.deny);
	ASSERT_LIST(&policy.patterns.use, "python-dangerous", "shell-destructive");
	assert_int_equal(policy.patterns.add.count, 0);
	assert_int_equal(policy.patterns.action, ACTION_WARN);
	assert_int_equal(policy.patterns.unproven, UNPROVEN_ALLOW);
	assert_int_equal(policy.secrets.count, 0);
	assert_int_equal(policy.audit.sync, SYNC_RESULT);
	assert_int_equal(policy.audit.retain_age_ms, 0);
	assert_int_equal(policy.audit.retain_size, 0);
	assert_int_equal(policy.audit.max_entries, 10000);
}

static void test_every_key_is_found_by_its_name_and_has_help(void **state)
{
	assert_int_equal(policy_key_count, 45);
	for (size_t i = 0; i < policy_key_count; i++) {
		assert_ptr_equal(policy_key_find(policy_keys[i].name), &policy_keys[i]);
		assert_true(policy_keys[i].help && policy_keys[i].help[0]);
		assert_true(policy_keys[i].words || policy_keys[i].type != POLICY_WORD);
		assert_int_equal(policy_keys[i].item != NULL, policy_keys[i].type == POLICY_LIST);
		assert_int_equal(policy_keys[i].map != NULL, policy_keys[i].type == POLICY_MAPS);
		assert_true(policy_keys[i].fallback || policy_key_is_list(&policy_keys[i]) || policy_keys[i].alias);
	}
	assert_null(policy_key_find("limits"));
}

static void test_numbers_are_set_up_to_the_edges_of_their_range(void **state)
{
	static const struct {
		const char *key, *low, *high, *too_low, *too_high;
	} cases[] = {
		{"limits.timeout", "1ms", "365d", "0", "366d"},       {"limits.memory", "4M", "1P", "4194303", "1025T"},
		{"limits.cpus", "0.01", "1024", "0.009", "1024.1"},   {"limits.pids", "1", "100000", "0", "100001"},
		{"limits.max_output", "1B", "1G", "0", "1073741825"}, {"limits.disk", "1M", "1P", "1023K", "2P"},
		{"limits.files", "16", "1048576", "15", "1048577"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct policy_key *key = policy_key_find(cases[i].key);
		const uint64_t *now = (const void *)((const char *)&policy + key->offset);

		assert_int_equal(policy_set(&policy, cases[i].key, cases[i].low, &err), 0);
		assert_int_equal(*now, key->min);
		assert_int_equal(policy_set(&policy, cases[i].key, cases[i].high, &err), 0);
		assert_int_equal(policy_set(&policy, cases[i].key, cases[i].too_low, &err), -1);
		assert_int_equal(policy_set(&policy, cases[i].key, cases[i].too_high, &err), -1);
		assert_int_equal(*now, key->max);
	}
}

static void test_malformed_numbers_are_refused_for_every_limit(void **state)
{
	static const char *const wrong[] = {"0", "-1", "1Z", "99999999999G", "", " 5", "5 M", "1e3", "nan", "0x10"};

	for (size_t k = 0; k < policy_key_count; k++) {
		if (strncmp(policy_keys[k].name, "limits.", 7) != 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
			char quoted[64];

			err.code = CORDON_OK;
			assert_int_equal(policy_set(&policy, policy_keys[k].name, wrong[i], &err), -1);
			assert_int_equal(err.code, CORDON_ERR_INPUT);
			snprintf(quoted, sizeof(quoted), "%s: '%s' is ", policy_keys[k].name, wrong[i]);
			assert_ptr_equal(strstr(err.message, quoted), err.message);
		}
	}
}

static void test_number_errors_name_the_value_the_form_and_the_range(void **state)
{
	assert_refused("limits.memory", "1Z",
	               "limits.memory: '1Z' is not a size (write a number with B, K, M, G or T, such as 512M; 4M to 1P)");
	assert_refused("limits.memory", "1M",
	               "limits.memory: '1M' is out of range (write a number with B, K, M, G or T, such as 512M; 4M to 1P)");
	assert_refused("limits.timeout", "soon",
	               "limits.timeout: 'soon' is not a duration (write a number with ms, s, m, h or d, such as 60s; 1ms to 365d)");
	assert_refused("limits.cpus", "0", "limits.cpus: '0' is out of range (write a decimal number, such as 1 or 0.5; 0.01 to 1024)");
	assert_refused("limits.pids", "1.5", "limits.pids: '1.5' is not a whole number (write digits only; 1 to 100000)");
	assert_int_equal(policy.limits.memory, 512 << 20);
}

static void test_booleans_are_true_or_false(void **state)
{
	assert_int_equal(policy_set(&policy, "limits.strict", "true", &err), 0);
	assert_true(policy.limits.strict);
	assert_refused("limits.strict", "yes", "limits.strict: 'yes' is neither true nor false");
	assert_true(policy.limits.strict);
	assert_int_equal(policy_set(&policy, "limits.strict", "false", &err), 0);
	assert_false(policy.limits.strict);
}

static void test_unknown_key_suggests_the_nearest_one(void **state)
{
	assert_refused("limits.memroy", "1G", "unknown policy key 'limits.memroy'");
	assert_string_equal(err.hint, "did you mean 'limits.memory'?");
	assert_refused("memory", "1G", "unknown policy key 'memory'");
	assert_string_equal(err.hint, "did you mean 'limits.memory'?");
	assert_refused("qqqqqq", "1G", "unknown policy key 'qqqqqq'");
	assert_string_equal(err.hint,
	                    "the keys are in limits, env, root, files, network, process, patterns, mounts, transaction, secrets, audit, "
	                    "weak; cordon policy init - shows all");
	assert_refused("preserve", "x", "unknown policy key 'preserve'");
	assert_string_equal(err.hint, "did you mean 'transaction.preserve'?");
}

static void test_missing_key_or_value_is_an_error_and_not_a_crash(void **state)
{
	assert_int_equal(policy_set(&policy, NULL, "1", &err), -1);
	assert_int_equal(policy_set(&policy, "limits.pids", NULL, &err), -1);
	assert_int_equal(policy_set(&policy, "limits.pids", "x", NULL), -1);
}

static void test_lists_append_and_ignore_duplicates(void **state)
{
	assert_int_equal(policy_set(&policy, "env.allow", "CI", &err), 0);
	assert_int_equal(policy_set(&policy, "env.allow", "TERM", &err), 0);
	assert_int_equal(policy_set(&policy, "env.allow", "CI", &err), 0);
	ASSERT_LIST(&policy.env_allow, "LANG", "TERM", "PYTHONUNBUFFERED", "CI");
}

static void test_lists_have_a_cap(void **state)
{
	char path[32];

	for (int i = 0; i < 1024; i++) {
		snprintf(path, sizeof(path), "/p/%d", i);
		assert_int_equal(policy_set(&policy, "mounts.read", path, &err), 0);
	}
	assert_refused("mounts.read", "/one/more", "mounts.read: more than 1024 entries");
	assert_int_equal(policy.mounts_read.count, 1024);
}

static void test_assignments_replace_an_earlier_one_of_the_same_name(void **state)
{
	assert_int_equal(policy_set(&policy, "env.set", "USERS=", &err), 0);
	assert_int_equal(policy_set(&policy, "env.set", "USER=root=x", &err), 0);
	assert_int_equal(policy_set(&policy, "env.set", "TMP=/x", &err), 0);
	assert_int_equal(policy_set(&policy, "env.set", "LD_PRELOAD=/lib/x.so", &err), 0);
	ASSERT_LIST(&policy.env_set, "HOME=/home/user", "PATH=/usr/local/bin:/usr/bin:/bin", "USER=root=x", "LOGNAME=user", "SHELL=/bin/sh",
	            "TMPDIR=/tmp", "USERS=", "TMP=/x", "LD_PRELOAD=/lib/x.so");
}

static void test_assignments_need_a_proper_name_and_do_not_show_their_value(void **state)
{
	assert_refused("env.set", "TOKEN", "env.set: 'TOKEN' is not an assignment (write NAME=VALUE)");
	assert_refused("env.set", "MY-TOKEN=secret",
	               "env.set: 'MY-TOKEN' is not a variable name (write letters, digits and _, no digit first)");
	assert_refused("env.set", "=secret", "env.set: '' is not a variable name (write letters, digits and _, no digit first)");
	assert_refused("env.set", "1A=secret", "env.set: '1A' is not a variable name (write letters, digits and _, no digit first)");
	assert_refused("env.allow", "TOKEN=secret",
	               "env.allow: 'TOKEN' is not a variable name (write letters, digits and _, no digit first)");
	assert_string_equal(err.hint, "to give a variable a value use env.set");
	assert_int_equal(policy.env_set.count, 6);
}

static void test_assignments_longer_than_execve_takes_are_refused(void **state)
{
	static char entry[128 * 1024 + 1];

	memset(entry, 'x', sizeof(entry) - 1);
	memcpy(entry, "BIG=", 4);
	entry[128 * 1024 - 1] = '\0';
	assert_int_equal(policy_set(&policy, "env.set", entry, &err), 0);
	entry[128 * 1024 - 1] = 'x';
	assert_refused("env.set", entry, "env.set: the value of 'BIG' is too long (131071 bytes with the name at most)");
}

static void test_variables_that_inject_code_cannot_be_allowed(void **state)
{
	static const char *const names[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT",     "LD_",     "GLIBC_TUNABLES", "BASH_ENV", "ENV",
	                                    "IFS",        "PYTHONSTARTUP",   "NODE_OPTIONS", "RUBYOPT", "PERL5OPT"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(policy_set(&policy, "env.allow", names[i], &err), -1);
		assert_non_null(strstr(err.message, names[i]));
		assert_non_null(strstr(err.message, "use env.set instead"));
	}
	assert_int_equal(policy.env_allow.count, 3);
	assert_int_equal(policy_set(&policy, "env.allow", "OLD_ENV", &err), 0);
	assert_int_equal(policy_set(&policy, "env.allow", "LDFLAGS", &err), 0);
}

static void test_paths_are_normalised(void **state)
{
	static const char *const paths[] = {"/", "//", "/srv//data///", "/srv/data", "/srv/.hidden", "/srv/..x", "/srv/..."};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(policy_set(&policy, "mounts.write", paths[i], &err), 0);
	ASSERT_LIST(&policy.mounts_write, "/", "/srv/data", "/srv/.hidden", "/srv/..x", "/srv/...");
}

static void test_paths_that_are_relative_or_climb_are_refused(void **state)
{
	static const char *const keys[] = {"mounts.read", "mounts.write", "mounts.forbid"};
	static const char *const wrong[] = {"",         "srv",         "./srv",   "~/src",  "/.",   "/..",
	                                    "/srv/./x", "/srv/../etc", "/srv/..", "//../x", " /srv"};
	char path[4097];

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
		for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
			assert_int_equal(policy_set(&policy, keys[k], wrong[i], &err), -1);
	assert_refused("mounts.read", "/srv/../etc",
	               "mounts.read: '/srv/../etc' contains '..' (write an absolute path without . and .. in it)");
	assert_refused("mounts.read", "srv",
	               "mounts.read: 'srv' is not an absolute path (write one that starts with /, at most 4095 bytes)");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[4096] = '\0';
	assert_int_equal(policy_set(&policy, "mounts.read", path, &err), -1);
	path[4095] = '\0';
	assert_int_equal(policy_set(&policy, "mounts.read", path, &err), 0);
	assert_int_equal(policy.mounts_read.count, 1);
}

static void test_weak_guarantees_come_from_a_fixed_list(void **state)
{
	static const char *const known[] = {"memory", "pids", "cpu", "disk", "landlock"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(policy_set(&policy, "weak.allow", known[i], &err), 0);
	assert_int_equal(policy.weak_allow.count, ARRAY_SIZE(known));
	assert_refused("weak.allow", "memroy", "weak.allow: 'memroy' is not a guarantee (write memory, pids, cpu, disk or landlock)");
	assert_string_equal(err.hint, "did you mean 'memory'?");
	assert_refused("weak.allow", "seccomp", "weak.allow: 'seccomp' is not a guarantee (write memory, pids, cpu, disk or landlock)");
	assert_string_equal(err.hint, "");
}

static void test_words_come_from_the_list_of_their_key(void **state)
{
	static const struct {
		const char *key;
		const enum tx_action *now;
	} keys[] = {
		{"transaction.exit", &policy.transaction.exit},
		{"transaction.abort", &policy.transaction.abort},
		{"transaction.denial", &policy.transaction.denial},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_int_equal(policy_set(&policy, keys[i].key, "keep", &err), 0);
		assert_int_equal(*keys[i].now, TX_KEEP);
		assert_int_equal(policy_set(&policy, keys[i].key, "rollback", &err), 0);
		assert_int_equal(*keys[i].now, TX_ROLLBACK);
		assert_int_equal(policy_set(&policy, keys[i].key, "", &err), -1);
		assert_int_equal(policy_set(&policy, keys[i].key, "Keep", &err), -1);
		assert_int_equal(*keys[i].now, TX_ROLLBACK);
	}
	assert_refused("transaction.exit", "rolback", "transaction.exit: 'rolback' is not known (write rollback or keep)");
	assert_string_equal(err.hint, "did you mean 'rollback'?");
	assert_refused("transaction.exit", "commit", "transaction.exit: 'commit' is not known (write rollback or keep)");
	assert_string_equal(err.hint, "");
}

static void test_exit_statuses_are_added_one_by_one_or_with_commas(void **state)
{
	assert_int_equal(policy_set(&policy, "transaction.ok", "1", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.ok", "7,8, 255", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.ok", "0,1", &err), 0);
	for (int status = -1; status <= 300; status++)
		assert_int_equal(policy_status_ok(&policy, status),
		                 status == 0 || status == 1 || status == 7 || status == 8 || status == 255);
}

static void test_malformed_exit_statuses_change_nothing(void **state)
{
	static const char *const wrong[] = {"", "-1", "256", "1,", ",1", "1,,2", "1 ,2", " 1", "1;2", "x", "0x1", "1.5", "00000001", "3,x"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(policy_set(&policy, "transaction.ok", wrong[i], &err), -1);
	assert_refused("transaction.ok", "3,256,4", "transaction.ok: '256' is not an exit status (write 0 to 255, several as 0,1)");
	for (int status = 0; status <= 255; status++)
		assert_int_equal(policy_status_ok(&policy, status), status == 0);
}

static void test_patterns_to_preserve_are_relative_to_the_workspace(void **state)
{
	static const char *const right[] = {".coverage", "build//x/*.o", "**/*.log", "logs/", "..x/?", ".coverage"};
	static const char *const wrong[] = {"", "/app/x", ".", "..", "./x", "a/../b", "../x", "a/."};
	char pattern[GLOB_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_int_equal(policy_set(&policy, "transaction.preserve", right[i], &err), 0);
	ASSERT_LIST(&policy.transaction.preserve, ".coverage", "build/x/*.o", "**/*.log", "logs/**", "..x/?");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(policy_set(&policy, "transaction.preserve", wrong[i], &err), -1);
	assert_refused("transaction.preserve", "a/../b",
	               "transaction.preserve: 'a/../b' contains '..' (write a pattern without . and .. in it)");
	assert_refused(
		"transaction.preserve", "/app/x",
		"transaction.preserve: '/app/x' is not a pattern of paths in the workspace (write one such as .coverage or build/**, "
		"at most 1021 bytes)");
	assert_string_equal(err.hint, "it is relative to the workspace: no / at the beginning");
	memset(pattern, 'x', sizeof(pattern));
	pattern[GLOB_MAX - 1] = '\0';
	assert_int_equal(policy_set(&policy, "transaction.preserve", pattern, &err), -1);
	pattern[GLOB_MAX - 2] = '\0';
	pattern[GLOB_MAX - 3] = '/'; /* grows by two stars, and still fits */
	assert_int_equal(policy_set(&policy, "transaction.preserve", pattern, &err), 0);
	assert_int_equal(policy.transaction.preserve.count, 6);
	assert_int_equal(strlen(policy.transaction.preserve.items[5]), GLOB_MAX);
}

static void test_copy_is_independent_of_the_original(void **state)
{
	struct cordon_policy copy;

	assert_int_equal(policy_set(&policy, "limits.pids", "7", &err), 0);
	assert_int_equal(policy_set(&policy, "mounts.forbid", "/x", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.denial", "rollback", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.ok", "3", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.preserve", "a", &err), 0);
	assert_int_equal(policy_copy(&copy, &policy, &err), 0);
	assert_int_equal(policy_set(&policy, "limits.pids", "8", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.ok", "4", &err), 0);
	assert_int_equal(policy_set(&policy, "transaction.preserve", "b", &err), 0);
	assert_int_equal(copy.transaction.denial, TX_ROLLBACK);
	assert_true(policy_status_ok(&copy, 3));
	assert_false(policy_status_ok(&copy, 4));
	ASSERT_LIST(&copy.transaction.preserve, "a");
	assert_int_equal(policy_set(&policy, "env.set", "USER=other", &err), 0);
	assert_int_equal(copy.limits.pids, 7);
	ASSERT_LIST(&copy.mounts_forbid, "/x");
	ASSERT_LIST(&copy.env_allow, "LANG", "TERM", "PYTHONUNBUFFERED");
	assert_true(strlist_has(&copy.env_set, "USER=user"));
	assert_false(strlist_has(&copy.env_set, "USER=other"));
	policy_clear(&copy);
	assert_null(copy.env_set.items);
}

static void test_built_in_forbidden_mounts_cover_accounts_kernel_sockets_and_keys(void **state)
{
	static const char *const expected[] = {
		"/etc/shadow",
		"/etc/shadow-",
		"/etc/gshadow-",
		"/etc/gshadow",
		"/etc/passwd",
		"/etc/sudoers",
		"/etc/sudoers.d",
		"/root",
		"/proc",
		"/sys",
		"/dev",
		"/boot",
		"/run",
		"/run/docker.sock",
		"/var/run/docker.sock",
		"/run/podman",
		"/run/containerd",
		"/var/lib/docker",
		"/var/lib/cordon",
		"~/.ssh",
		"~/.aws",
		"~/.gnupg",
		"~/.config",
		"~/.kube",
		"~/.docker",
		"~/.netrc",
		"~/.local/state/cordon",
	};
	size_t count = 0;

	while (policy_forbidden_mounts[count])
		count++;
	assert_int_equal(count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < count; i++)
		assert_string_equal(policy_forbidden_mounts[i], expected[i]);
}

static int expect_empty(const struct cordon_policy *p)
{
	assert_null(p->env_allow.items);
	assert_null(p->env_set.items);
	assert_null(p->mounts_forbid.items);
	assert_null(p->transaction.preserve.items);
	return -1;
}

/* One operation of those that allocate. What failed must have left nothing to release. */
static int allocating_operation(int which)
{
	const char *const extra[] = {"NEW=1", "USER=extra", NULL};
	struct cordon_policy fresh;
	struct strlist env;
	int rc;

	switch (which) {
	case 0:
		if (policy_init(&fresh, &err) < 0)
			return expect_empty(&fresh);
		policy_clear(&fresh);
		return 0;
	case 1:
		if (policy_copy(&fresh, &policy, &err) < 0)
			return expect_empty(&fresh);
		policy_clear(&fresh);
		return 0;
	case 2:
		rc = policy_environment(&policy, NULL, extra, &env, &err);
		if (rc < 0)
			assert_null(env.items);
		else
			strlist_free(&env);
		return rc;
	case 3:
		return policy_set(&policy, "mounts.read", "/srv//x", &err);
	case 4:
		return policy_set(&policy, "env.set", "USER=other", &err);
	case 5:
		return policy_set(&policy, "transaction.preserve", "logs/", &err);
	default:
		return policy_set(&policy, "weak.allow", "memory", &err);
	}
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	for (int which = 0; which < 7; which++) {
		int rc = -1;
		long n = 0;

		for (; rc < 0 && n < 1000; n++) {
			err = (struct cordon_error){0};
			allocations_left = n;
			rc = allocating_operation(which);
			allocations_left = -1;
			if (rc < 0) {
				assert_int_equal(err.code, CORDON_ERR_SYSTEM);
				assert_non_null(strstr(err.message, "out of memory"));
			}
		}
		assert_int_equal(rc, 0);
		assert_true(n > 1); /* at least one allocation was made to fail */
	}
	ASSERT_LIST(&policy.mounts_read, "/srv/x");
	assert_int_equal(policy.env_set.count, 6);
}

#define WITH_POLICY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_POLICY(test_default_policy_has_the_documented_values),
		WITH_POLICY(test_every_key_is_found_by_its_name_and_has_help),
		WITH_POLICY(test_numbers_are_set_up_to_the_edges_of_their_range),
		WITH_POLICY(test_malformed_numbers_are_refused_for_every_limit),
		WITH_POLICY(test_number_errors_name_the_value_the_form_and_the_range),
		WITH_POLICY(test_booleans_are_true_or_false),
		WITH_POLICY(test_unknown_key_suggests_the_nearest_one),
		WITH_POLICY(test_missing_key_or_value_is_an_error_and_not_a_crash),
		WITH_POLICY(test_lists_append_and_ignore_duplicates),
		WITH_POLICY(test_lists_have_a_cap),
		WITH_POLICY(test_assignments_replace_an_earlier_one_of_the_same_name),
		WITH_POLICY(test_assignments_need_a_proper_name_and_do_not_show_their_value),
		WITH_POLICY(test_assignments_longer_than_execve_takes_are_refused),
		WITH_POLICY(test_variables_that_inject_code_cannot_be_allowed),
		WITH_POLICY(test_paths_are_normalised),
		WITH_POLICY(test_paths_that_are_relative_or_climb_are_refused),
		WITH_POLICY(test_weak_guarantees_come_from_a_fixed_list),
		WITH_POLICY(test_words_come_from_the_list_of_their_key),
		WITH_POLICY(test_exit_statuses_are_added_one_by_one_or_with_commas),
		WITH_POLICY(test_malformed_exit_statuses_change_nothing),
		WITH_POLICY(test_patterns_to_preserve_are_relative_to_the_workspace),
		WITH_POLICY(test_copy_is_independent_of_the_original),
		WITH_POLICY(test_built_in_forbidden_mounts_cover_accounts_kernel_sockets_and_keys),
		WITH_POLICY(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
