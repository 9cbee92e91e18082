/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../alloc.h"
#include "../assert_list.h"
#include "base/util.h"
#include "policy/load.h"
#include "policy/maps.h"

/* ---- fixture: a directory for files, a policy and its origins, the problems that were reported ---- */

static char dir[] = "/tmp/cordon-test-load.XXXXXX";
static struct cordon_policy policy;
static struct policy_origins origins;
static struct cordon_error err;
static struct buf reported;

static int make_dir(void **state)
{
	return mkdtemp(dir) ? chdir(dir) : -1;
}

static int remove_dir(void **state)
{
	static const char *const files[] = {"a.yaml", "b.yaml", "c.yaml", "sub/d.yaml", "fifo"};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(files[i]);
	for (char name[] = "1.yml"; name[0] <= '9'; name[0]++)
		unlink(name);
	rmdir("sub");
	return chdir("/") < 0 || rmdir(dir) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	allocations_left = -1;
	policy_clear(&policy);
	origins_free(&origins);
	buf_free(&reported);
	err = (struct cordon_error){0};
	return 0;
}

static void report(void *user, const struct policy_problem *problem)
{
	policy_problem_text(problem, &reported);
	buf_add_str(&reported, "\n");
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int check(const char *text)
{
	tear_down(NULL);
	return policy_check_text(&policy, "p", text, strlen(text), NULL, &origins, report, NULL, &err);
}

static void accept(const char *text)
{
	if (check(text) != 0)
		fail_msg("%s", reported.data ? reported.data : err.message);
}

static void refuse(const char *text, const char *problems)
{
	assert_true(check(text) > 0);
	assert_string_equal(reported.data, problems);
	assert_null(policy.env_set.items);
}

static void assert_origin(const char *key, size_t index, const char *expected)
{
	_cleanup_buf_ struct buf text = {0};

	origin_text(origins_of(&origins, policy_key_find(key), index), &text);
	assert_string_equal(text.data ? text.data : "", expected);
}

/* ---- tests ---- */

/* The example of the design document. */
static const char whole[] =
	"version: 1\n"
	"extends: default\n"
	"limits:  {timeout: 60s, memory: 512M, cpus: 1.0, pids: 51, max_output: 1M, disk: 1G}\n"
	"env:     {allow: [LANG, TERM, PYTHONUNBUFFERED], set: {HOME: /home/user}}\n"
	"root:    readonly\n"
	"files:   {read: [\"/data/**\"], write: [\"/app/**\"], deny: [\"/data/secrets/**\"], hidden: false}\n"
	"network: {outbound: [{host: api.openai.com, ports: [443]}, {host: \"*.github.com\"}], deny: [\"*.malware.example\"], inbound: [{port: 3000}], "
	"localhost: true}\n"
	"process: {subprocess: true, shell: true, allow: [\"*\"], deny: [dd, \"mkfs*\"], native: true}\n"
	"patterns: {use: [python-dangerous, shell-destructive], add: [{language: python, match: \"socket\", reason: \"…\"}], action: deny, unproven: "
	"allow}\n"
	"mounts:  {read: [/srv/data], write: [], forbid: [/srv/data/keys]}\n"
	"transaction: {exit: rollback, abort: rollback, denial: keep, ok: [0], preserve: []}\n"
	"secrets: [{from: \"store:openai\", hosts: [api.openai.com], header: Authorization, format: \"Bearer {}\", env: OPENAI_API_KEY}]\n"
	"audit: {sync: seal, retain_age: 30d, retain_size: unlimited, max_entries: 7}\n";

static void test_the_whole_file_becomes_a_policy(void **state)
{
	accept(whole);
	assert_int_equal(policy.limits.pids, 51);
	ASSERT_LIST(&policy.files.read, "/data/**");
	ASSERT_LIST(&policy.files.write, "/app/**");
	ASSERT_LIST(&policy.files.deny, "/data/secrets/**");
	assert_false(policy.files.hidden);
	assert_int_equal(policy.network.outbound.count, 2);
	const struct policy_outbound *rule = policy.network.outbound.items;
	assert_string_equal(rule[0].host, "api.openai.com");
	assert_int_equal(rule[0].ports.count, 1);
	assert_int_equal(rule[1].ports.count, 2);
	ASSERT_LIST(&policy.network.deny, "*.malware.example");
	const struct policy_inbound *inbound = policy.network.inbound.items;
	assert_int_equal(inbound->port.items[0], 3000);
	ASSERT_LIST(&policy.process.deny, "dd", "mkfs*");
	const struct policy_pattern *pattern = policy.patterns.add.items;
	assert_string_equal(pattern->match, "socket");
	assert_int_equal(policy.patterns.action, ACTION_DENY);
	ASSERT_LIST(&policy.mounts_read, "/srv/data");
	const struct policy_secret *secret = policy.secrets.items;
	assert_string_equal(secret->env, "OPENAI_API_KEY");
	assert_int_equal(policy.audit.sync, SYNC_SEAL);
	assert_int_equal(policy.audit.max_entries, 7);
	assert_int_equal(policy.env_set.count, 6); /* a map is merged */
}

static void test_absent_and_empty_are_different_things(void **state)
{
	accept("version: 1\n");
	ASSERT_LIST(&policy.process.allow, "*");
	ASSERT_LIST(&policy.files.read, "/**");
	accept("version: 1\nprocess: {allow: []}\nfiles: {read: [], write: []}\nenv: {allow: []}\ntransaction: {ok: []}\n");
	ASSERT_LIST(&policy.process.allow);
	ASSERT_LIST(&policy.files.read);
	ASSERT_LIST(&policy.env_allow);
	assert_false(policy_status_ok(&policy, 0));
	accept("version: 1\nlimits:\nfiles:\n  # read: []\nnetwork: ~\n"); /* a section whose keys are all commented out */
	ASSERT_LIST(&policy.files.read, "/**");
	refuse("version: 1\nfiles: {read: }\n",
	       "p:2:15: files.read: a list is wanted here, and this is nothing (an empty list, which grants nothing, "
	       "is written []; to keep the default, leave the key out)\n");
}

static void test_lists_replace_maps_merge_and_denials_accumulate(void **state)
{
	write_file("a.yaml", "version: 1\n"
	                     "extends: b.yaml\n"
	                     "env: {allow: [X], set: {A: a2, C: c}}\n"
	                     "files: {deny: [/y]}\n"
	                     "network: {deny: [y.example], outbound: [{host: y.example}]}\n"
	                     "process: {deny: [y], allow: [y]}\n"
	                     "mounts: {forbid: [/y], read: [/y]}\n"
	                     "limits: {pids: 3}\n");
	write_file("b.yaml", "version: 1\n"
	                     "extends: dev\n"
	                     "env: {allow: [Y, Z], set: {A: a1, B: b}}\n"
	                     "files: {deny: [/x]}\n"
	                     "network: {deny: [x.example], outbound: [{host: x.example}]}\n"
	                     "process: {deny: [x], allow: [x]}\n"
	                     "mounts: {forbid: [/x], read: [/x]}\n"
	                     "limits: {files: 99}\n");
	assert_int_equal(policy_load(&policy, "a.yaml", NULL, &origins, &err), 0);
	ASSERT_LIST(&policy.env_allow, "X");
	assert_true(strlist_has(&policy.env_set, "A=a2") && strlist_has(&policy.env_set, "B=b") && strlist_has(&policy.env_set, "C=c"));
	assert_int_equal(policy.env_set.count, 9);
	ASSERT_LIST(&policy.files.deny, "/x", "/y");
	ASSERT_LIST(&policy.network.deny, "x.example", "y.example");
	assert_int_equal(policy.network.outbound.count, 1);
	ASSERT_LIST(&policy.process.deny, "x", "y");
	ASSERT_LIST(&policy.process.allow, "y");
	ASSERT_LIST(&policy.mounts_forbid, "/x", "/y");
	ASSERT_LIST(&policy.mounts_read, "/y");
	assert_int_equal(policy.limits.pids, 3);
	assert_int_equal(policy.limits.files, 99);
	assert_int_equal(policy.limits.timeout_ms, 600000);
	assert_string_equal(origins.profile, "dev");
	assert_origin("files.deny", 0, "b.yaml:4");
	assert_origin("files.deny", 1, "a.yaml:4");
	assert_origin("limits.pids", 0, "a.yaml:8");
	assert_origin("limits.files", 0, "b.yaml:8");
	assert_origin("limits.timeout", 0, "profile dev");
	assert_origin("limits.strict", 0, "profile default");
	assert_origin("env.allow", 0, "a.yaml:3");
	assert_origin("env.allow", 1, "");
	assert_origin("env.set", 0, "profile default");
	assert_origin("env.set", 6, "a.yaml:3"); /* A, where b.yaml had put it */
	assert_origin("env.set", 7, "b.yaml:3");
	assert_origin("network.outbound", 0, "a.yaml:5");
}

static void test_a_file_that_extends_nothing_is_put_on_the_profile_or_policy_of_the_caller(void **state)
{
	struct cordon_policy base;

	write_file("a.yaml", "version: 1\nlimits: {pids: 3}\n");
	assert_int_equal(policy_load(&policy, "a.yaml", "dev", &origins, &err), 0);
	assert_int_equal(policy.limits.timeout_ms, 600000);
	assert_string_equal(origins.profile, "dev");
	tear_down(NULL);
	assert_int_equal(policy_init(&base, &err), 0);
	assert_int_equal(policy_set(&base, "limits.timeout", "7s", &err), 0);
	assert_int_equal(policy_load_over(&policy, "a.yaml", &base, &origins, &err), 0);
	assert_int_equal(policy.limits.timeout_ms, 7000);
	assert_int_equal(policy.limits.pids, 3);
	assert_origin("limits.timeout", 0, "");
	assert_origin("limits.pids", 0, "a.yaml:2");
	policy_clear(&base);
	tear_down(NULL);
	assert_int_equal(policy_load(&policy, "a.yaml", "none", &origins, &err), -1);
	assert_string_equal(err.message, "there is no profile 'none'");
}

static void test_paths_that_are_extended_are_relative_to_the_file(void **state)
{
	mkdir("sub", 0755);
	write_file("sub/d.yaml", "version: 1\nextends: ../b.yaml\n");
	write_file("b.yaml", "version: 1\nlimits: {pids: 4}\n");
	write_file("a.yaml", "version: 1\nextends: ./sub/d.yaml\n");
	assert_int_equal(policy_load(&policy, "a.yaml", NULL, &origins, &err), 0);
	assert_int_equal(policy.limits.pids, 4);
	assert_origin("limits.pids", 0, "./sub/../b.yaml:2");
	tear_down(NULL);
	char path[128];
	snprintf(path, sizeof(path), "%s/a.yaml", dir);
	assert_int_equal(policy_load(&policy, path, NULL, NULL, &err), 0);
	assert_int_equal(policy.limits.pids, 4);
}

static void test_chains_end(void **state)
{
	write_file("a.yaml", "version: 1\nextends: b.yaml\n");
	write_file("b.yaml", "version: 1\nextends: ./c.yaml\n");
	write_file("c.yaml", "version: 1\n\nextends: a.yaml\n");
	assert_int_equal(policy_load(&policy, "a.yaml", NULL, &origins, &err), -1);
	assert_string_equal(
		err.message,
		"./c.yaml:3:10: extends: a circle: ./a.yaml is being read already (extended by ./c.yaml:3, by b.yaml:2, by a.yaml:2)");
	for (int i = 1; i <= 9; i++) {
		char name[] = "1.yml", text[64];

		name[0] = (char)('0' + i);
		snprintf(text, sizeof(text), "version: 1\nextends: %s%s\n", i < 9 ? "" : "default",
		         i < 9 ? (char[]){(char)('1' + i), '.', 'y', 'm', 'l', 0} : "");
		write_file(name, text);
	}
	tear_down(NULL);
	assert_int_equal(policy_load(&policy, "2.yml", NULL, &origins, &err), 0);
	tear_down(NULL);
	assert_int_equal(policy_load(&policy, "1.yml", NULL, &origins, &err), -1);
	assert_non_null(strstr(err.message, "8.yml:2:10: extends: more than 8 files"));
}

static void test_files_that_cannot_be_read_are_named_with_those_that_want_them(void **state)
{
	write_file("a.yaml", "version: 1\nextends: none.yaml\nlimits: {pids: x}\n");
	assert_int_equal(policy_check(&policy, "a.yaml", NULL, &origins, report, NULL, &err), 2);
	assert_string_equal(reported.data,
	                    "a.yaml:2:10: extends: none.yaml: cannot open it: No such file or directory (extended by a.yaml:2)\n"
	                    "a.yaml:3:16: limits.pids: 'x' is not a whole number (write digits only; 1 to 100000)\n");
	tear_down(NULL);
	assert_int_equal(policy_load(&policy, "missing.yaml", NULL, &origins, &err), -1);
	assert_string_equal(err.message, "missing.yaml: cannot open it: No such file or directory");
	tear_down(NULL);
	assert_int_equal(policy_load(&policy, ".", NULL, &origins, &err), -1);
	assert_string_equal(err.message, ".: it is a directory, not a regular file");
	tear_down(NULL);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(policy_load(&policy, "fifo", NULL, &origins, &err), -1); /* and does not wait */
	tear_down(NULL);
	write_file("b.yaml", "version: 1\nlimits: {pids: y}\n");
	write_file("a.yaml", "version: 1\nextends: b.yaml\nlimits: {pids: z}\n");
	assert_int_equal(policy_check(&policy, "a.yaml", NULL, &origins, report, NULL, &err), 2);
	assert_non_null(strstr(reported.data, "b.yaml:2:16: "));
	assert_non_null(strstr(reported.data, "a.yaml:3:16: "));
}

static void test_everything_that_is_wrong_is_told_at_its_place(void **state)
{
	refuse("version: 1\nlimits: {memroy: 1G, pids: 0}\nenv: []\nbogus: 1\nmemory: 1G\n",
	       "p:2:10: limits: unknown key 'memroy' (did you mean 'memory'?)\n"
	       "p:2:28: limits.pids: '0' is out of range (write digits only; 1 to 100000)\n"
	       "p:3:6: env: a map is wanted here, and this is a list (write KEY: VALUE, indented)\n"
	       "p:4:1: unknown key 'bogus' (write version, extends, limits, env, root, files, network, process, patterns, mounts, transaction, secrets, "
	       "audit or weak)\n"
	       "p:5:1: unknown key 'memory' (did you mean limits.memory?)\n");
	refuse("version: 1\nlimits: {pids: 3, pids: 4}\nlimits: {}\n",
	       "p:3:1: 'limits' is here for the second time (the first is in line 2)\n"
	       "p:2:19: 'pids' is here for the second time (the first is in line 2)\n");
	refuse("version: 1\nlimits: {pids: 3}\nprocess: {max: 3}\n",
	       "p:3:11: process.max and limits.pids are two names of one value (keep one of them; the other is in line 2)\n");
	refuse("limits: {pids: 3}\n", "p:1:1: the version is missing (write version: 1)\n");
	refuse("version: 2\n", "p:1:10: version: this is not a version that this cordon reads (write version: 1)\n");
	refuse("version: \"1\"\n", "p:1:10: version: this is not a version that this cordon reads (write version: 1)\n");
	refuse("[version, 1]\n", "p:1:1: this is not a policy (write KEY: VALUE, beginning with version: 1)\n");
	refuse("version: 1\nextends: [default]\n", "p:2:10: extends: this is not the name of a profile or a path (write one word)\n");
	refuse("version: 1\nextends: lokced\n", "p:2:10: extends: there is no profile 'lokced' (did you mean 'locked'?)\n");
	refuse("version: 1\nextends: zzzzzzz\n",
	       "p:2:10: extends: there is no profile 'zzzzzzz' (the profiles are default, locked and dev; a file is "
	       "written with its path: ./zzzzzzz)\n");
}

static void test_types_are_not_guessed(void **state)
{
	refuse("version: 1\nlimits: {pids: \"3\", strict: \"true\", timeout: [60s]}\nfiles: {read: /x, hidden: yes}\n",
	       "p:2:16: limits.pids: '3' is a text (write it without quotes)\n"
	       "p:2:29: limits.strict: 'true' is a text (write it without quotes)\n"
	       "p:2:46: limits.timeout: a single value is wanted here, and this is a list (only one, without brackets)\n"
	       "p:3:15: files.read: a list is wanted here, and this is a single value (write [/x])\n"
	       "p:3:27: files.hidden: 'yes' is neither true nor false\n");
	refuse("version: 1\nenv: {set: [A=b], allow: [[X], ~]}\n",
	       "p:2:12: env.set: a map is wanted here, and this is a list (write NAME: VALUE)\n"
	       "p:2:27: env.allow: a single value is wanted here, and this is a list (only one, without brackets)\n"
	       "p:2:32: env.allow: a single value is wanted here, and this is nothing (an empty text is written \"\"; to keep the default, leave the key "
	       "out)\n");
	accept("version: 1\nenv: {set: {A: 1.10, B: yes, C: \"\", D: 'x: y', E: 0x1F}}\nlimits: {memory: \"1G\", timeout: 90}\n");
	assert_true(strlist_has(&policy.env_set, "A=1.10") && strlist_has(&policy.env_set, "B=yes") && strlist_has(&policy.env_set, "C=") &&
	            strlist_has(&policy.env_set, "D=x: y") && strlist_has(&policy.env_set, "E=0x1F"));
	assert_int_equal(policy.limits.timeout_ms, 90000);
}

static void test_structures_are_checked_field_by_field(void **state)
{
	refuse("version: 1\nnetwork:\n  outbound:\n    - host: a.b\n      prots: [80]\n    - ports: [80]\n    - {host: a.b, ports: []}\n    - {host: a.b, ports: "
	       "[80, 0, \"1\"]}\n    - {host: a.b, ports: 80}\n    - a.b\n    - {host: a.b, host: c.d}\n    - {host: a.b, protocol: udp}\n",
	       "p:5:7: network.outbound: unknown key 'prots' (did you mean 'ports'?)\n"
	       "p:6:7: network.outbound: 'host' is missing (a name, a *.suffix (without the bare suffix) or ADDRESS/PREFIX; private addresses only by the "
	       "latter)\n"
	       "p:7:26: network.outbound: ports: an empty list would make a rule that grants nothing (leave it out for the default)\n"
	       "p:8:31: network.outbound: ports: '0' is not a port (write 1 to 65535)\n"
	       "p:8:34: network.outbound: ports: '1' is a text (write it without quotes)\n"
	       "p:9:26: network.outbound: ports: a list is wanted here, and this is a single value (write [80])\n"
	       "p:10:7: network.outbound: a map is wanted here, and this is a single value (each item is one: {FIELD: VALUE})\n"
	       "p:11:19: 'host' is here for the second time (the first is in line 11)\n"
	       "p:12:29: network.outbound: protocol: 'udp' is not known (write web or tcp) (did you mean 'tcp'?)\n");
	refuse("version: 1\nsecrets: [{from: sk-1234, hosts: [a.b]}]\n",
	       "p:2:18: secrets: from: this is not where a secret comes from (write store:NAME or env:NAME)\n");
}

/* Nothing in a file can forge lines of a log, or talk to the terminal of whoever reads the message. */
static void test_messages_stay_on_their_line(void **state)
{
	assert_true(check("version: 1\nroot: \"a\\nb\\e[2J\\x9b\"\n\"k\\r\\n\": 1\nenv: {set: {\"A\\nB\": x}}\n") == 3);
	for (size_t i = 0; i < reported.len; i++)
		assert_true(reported.data[i] == '\n' || (unsigned char)reported.data[i] >= 0x20);
	assert_null(strchr(reported.data, '\033'));
	assert_null(strstr(reported.data, "\xc2\x9b"));
	size_t lines = 0;
	for (size_t i = 0; i < reported.len; i++)
		lines += reported.data[i] == '\n';
	assert_int_equal(lines, 3);
	buf_free(&reported);
	assert_int_equal(policy_check_text(&policy, "p\nforged.yaml:1:1: \033", "version: 2\n", 11, NULL, NULL, report, NULL, &err), 1);
	assert_non_null(strstr(reported.data, "p?forged.yaml:1:1: ?:1:10: version"));
}

static void test_there_is_an_end_to_problems_and_entries(void **state)
{
	_cleanup_buf_ struct buf text = {0};

	buf_add_str(&text, "version: 1\nfiles: {read: [");
	for (int i = 0; i < 200; i++)
		buf_addf(&text, "x%d, ", i);
	buf_add_str(&text, "]}\n");
	assert_int_equal(policy_check_text(&policy, "p", text.data, text.len, NULL, NULL, report, NULL, &err), POLICY_PROBLEMS_MAX);
	tear_down(NULL);
	text.len = 0;
	buf_add_str(&text, "version: 1\nenv: {set: {");
	for (int i = 0; i < 1025; i++)
		buf_addf(&text, "V%d: 1, ", i);
	buf_add_str(&text, "}}\n");
	assert_int_equal(policy_check_text(&policy, "p", text.data, text.len, NULL, NULL, report, NULL, &err), 1);
	assert_string_equal(reported.data, "p:2:12: env.set: more than 1024 entries\n");
	tear_down(NULL);
	text.len = 0;
	buf_add_str(&text, "version: 1\nprocess: {allow: [");
	for (int i = 0; i < 1025; i++)
		buf_addf(&text, "p%d, ", i);
	buf_add_str(&text, "]}\n");
	assert_int_equal(policy_check_text(&policy, "p", text.data, text.len, NULL, NULL, report, NULL, &err), 1);
	assert_string_equal(reported.data, "p:2:18: process.allow: more than 1024 entries\n");
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	int rc = -1;
	long n = 0;

	for (; rc != 0 && n < 5000; n++) {
		tear_down(NULL);
		allocations_left = n;
		rc = policy_check_text(&policy, "p", whole, strlen(whole), NULL, &origins, report, NULL, &err);
		allocations_left = -1;
		if (rc != 0) {
			assert_int_equal(rc, -1);
			assert_non_null(strstr(err.message, "out of memory"));
			assert_null(policy.env_set.items);
		}
	}
	assert_int_equal(rc, 0);
	assert_true(n > 100);
}

#define TEST(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_whole_file_becomes_a_policy),
		TEST(test_absent_and_empty_are_different_things),
		TEST(test_lists_replace_maps_merge_and_denials_accumulate),
		TEST(test_a_file_that_extends_nothing_is_put_on_the_profile_or_policy_of_the_caller),
		TEST(test_paths_that_are_extended_are_relative_to_the_file),
		TEST(test_chains_end),
		TEST(test_files_that_cannot_be_read_are_named_with_those_that_want_them),
		TEST(test_everything_that_is_wrong_is_told_at_its_place),
		TEST(test_types_are_not_guessed),
		TEST(test_structures_are_checked_field_by_field),
		TEST(test_messages_stay_on_their_line),
		TEST(test_there_is_an_end_to_problems_and_entries),
		TEST(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
