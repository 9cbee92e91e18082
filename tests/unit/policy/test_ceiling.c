/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy within a ceiling allows nothing that the ceiling does not: key by key, and, with many policies put together at random, for every path, program and
 * host that these tests know (as policy/match.h sees them).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/ceiling.h"
#include "policy/items.h"
#include "policy/match.h"

static void policy_cleanup(struct cordon_policy *p)
{
	policy_clear(p);
}
#define _cleanup_policy_ __attribute__((cleanup(policy_cleanup)))

static void begin(struct cordon_policy *p)
{
	*p = (struct cordon_policy){0};
	assert_int_equal(policy_init(p, NULL), 0);
}

/* Values with " | " between them; of a list they are all of it. */
static void set(struct cordon_policy *p, const char *name, const char *values)
{
	const struct policy_key *key = policy_key_find(name);
	char text[512];

	assert_non_null(key);
	snprintf(text, sizeof(text), "%s", values);
	if (policy_key_is_list(key))
		policy_empty(p, key);
	for (char *at = text, *next; at && *at; at = next) {
		struct cordon_error err = {0};
		next = strstr(at, " | ");
		if (next) {
			*next = '\0';
			next += 3;
		}
		if (policy_set(p, name, at, &err) < 0)
			fail_msg("%s=%s: %s", name, at, err.message);
	}
}

struct example {
	const char *key, *ceiling, *within, *beyond; /* NULL: there is nothing beyond it */
};

static const struct example examples[] = {
	{"limits.timeout", "30s", "30s", "31s"},
	{"limits.memory", "256M", "4M", "257M"},
	{"limits.cpus", "0.5", "0.5", "0.51"},
	{"limits.pids", "10", "9", "11"},
	{"limits.max_output", "1K", "1", "1025"},
	{"limits.disk", "1G", "1M", "2G"},
	{"limits.files", "100", "100", "101"},
	{"limits.strict", "true", "true", "false"},
	{"limits.strict", "false", "true", NULL},
	{"env.allow", "LANG | TERM", "TERM", "TERM | HOME"},
	{"env.allow", "", "", "LANG"},
	{"env.set", "A=1", "B=2 | C=3", NULL},
	{"root", "readonly", "readonly", "layered"},
	{"root", "layered", "readonly", NULL},
	{"files.read", "/app/**", "/app/**", "/**"},
	{"files.read", "/app/**", "/app/src/*.c | /app/x", "/app/** | /data"},
	{"files.read", "/app/src*", "/app/src*", "/app/src1"},
	{"files.read", "/app/*.c", "/app/*.c", "/app/x.c"},
	{"files.read", "/app", "/app/**", "/application"},
	{"files.read", "/**", "/** | /x/**", NULL},
	{"files.write", "/app/** | /tmp/**", "/tmp/x", "/home/user/**"},
	{"files.deny", "/app/secret", "/app/secret | /x", "/x"},
	{"files.deny", "/app/secret/a*", "/app/secret", "/app/secret/b*"},
	{"files.hidden", "false", "false", "true"},
	{"network.outbound", "host=*.example.com;ports=443,80", "host=a.b.example.com;ports=443", "host=example.com;ports=443"},
	{"network.outbound", "host=*.example.com;ports=443", "host=*.b.example.com;ports=443", "host=*.com;ports=443"},
	{"network.outbound", "host=a.example;ports=443", "host=a.example;ports=443", "host=a.example;ports=443,444"},
	{"network.outbound", "host=a.example;ports=443", "host=a.example;ports=443", "host=a.example;ports=443;protocol=tcp"},
	{"network.outbound", "host=a.example;ports=22;protocol=tcp", "host=a.example;ports=22", "host=b.example;ports=22"},
	{"network.outbound", "host=10.0.0.0/8;ports=80", "host=10.1.0.0/16;ports=80", "host=11.0.0.0/8;ports=80"},
	{"network.outbound", "host=10.0.0.0/8;ports=80", "host=10.0.0.0/8;ports=80", "host=8.0.0.0/6;ports=80"},
	{"network.outbound", "", "", "host=a.example"},
	{"network.deny", "*.bad.example", "*.bad.example | x.example", "x.bad.example"},
	{"network.deny", "x.bad.example", "*.bad.example", "bad.example"},
	{"network.deny", "10.1.0.0/16", "10.0.0.0/8", "10.1.2.0/24"},
	{"network.inbound", "port=3000", "port=3000", "port=3001"},
	{"network.inbound", "port=3000", "", "port=3000;host_port=4000"},
	{"network.localhost", "false", "false", "true"},
	{"network.connections", "10", "10", "11"},
	{"network.bandwidth", "1M", "1K", "unlimited"},
	{"network.bandwidth", "unlimited", "1K", NULL},
	{"process.subprocess", "false", "false", "true"},
	{"process.shell", "false", "false", "true"},
	{"process.allow", "git* | python3", "git-lfs | python3", "python3.11"},
	{"process.allow", "git*", "git*", "git-*"},
	{"process.allow", "/app/**", "/app/x", "git"},
	{"process.allow", "git", "git", "/usr/bin/git"},
	{"process.allow", "*", "* | /app/**", NULL},
	{"process.deny", "dd | mkfs*", "mkfs* | dd | x", "dd"},
	{"process.deny", "mkfs.ext4", "mkfs*", "mkfs.x*"},
	{"process.native", "false", "false", "true"},
	{"process.max", "10", "10", "11"},
	{"patterns.use", "python-dangerous", "python-dangerous | shell-destructive", "shell-destructive"},
	{"patterns.add", "language=python;match=socket", "language=python;match=socket", "language=python;match=other"},
	{"patterns.action", "deny", "deny", "warn"},
	{"patterns.action", "allow", "deny", NULL},
	{"patterns.unproven", "deny", "deny", "allow"},
	{"mounts.read", "/srv | /data", "/data", "/srv/link"},
	{"mounts.read", "", "", "/srv"},
	{"mounts.write", "/srv/w", "/srv/w", "/srv"},
	{"mounts.forbid", "/srv/keys", "/srv/keys | /x", "/srv"},
	{"transaction.exit", "rollback", "keep", NULL},
	{"transaction.abort", "rollback", "keep", NULL},
	{"transaction.denial", "rollback", "keep", NULL},
	{"transaction.ok", "0", "0,1", NULL},
	{"transaction.preserve", "a", "b | c", NULL},
	{"secrets", "from=store:a;hosts=a.example;header=Authorization", "from=store:a;hosts=a.example;header=Authorization",
         "from=store:b;hosts=a.example;header=Authorization"},
	{"secrets", "from=store:a;hosts=a.example;header=Authorization", "", "from=store:a;hosts=b.example;header=Authorization"},
	{"audit.sync", "result", "result", "seal"},
	{"audit.sync", "seal", "seal", "result"},
	{"audit.retain_age", "1h", "1h", "2s"},
	{"audit.retain_size", "10M", "10M", "1M"},
	{"audit.max_entries", "10", "10", "9"},
	{"weak.allow", "memory", "", "memory | pids"},
};

static void test_what_is_more_than_the_ceiling_is_refused_key_by_key(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		const struct example *e = &examples[i];
		_cleanup_policy_ struct cordon_policy ceiling, asked;
		struct cordon_error err = {0};

		begin(&ceiling);
		begin(&asked);
		if (strcmp(e->key, "files.read") == 0) { /* what may be written may be read, and that is everything */
			set(&ceiling, "files.write", "");
			set(&asked, "files.write", "");
		}
		set(&ceiling, e->key, e->ceiling);
		set(&asked, e->key, e->within);
		if (policy_within(&asked, &ceiling, &err) < 0)
			fail_msg("%s=%s is within %s: %s", e->key, e->within, e->ceiling, err.message);
		if (!e->beyond)
			continue;
		set(&asked, e->key, e->beyond);
		if (policy_within(&asked, &ceiling, &err) == 0)
			fail_msg("%s=%s is beyond %s", e->key, e->beyond, e->ceiling);
		assert_int_equal(err.code, CORDON_ERR_DENIED);
		/* process.max is another name of limits.pids */
		if (!strstr(err.message, strcmp(e->key, "process.max") ? e->key : "limits.pids"))
			fail_msg("%s is not named: %s", e->key, err.message);
		assert_int_equal(policy_narrow(&asked, &ceiling, &err), 0);
		if (policy_within(&asked, &ceiling, &err) < 0)
			fail_msg("%s=%s, narrowed to %s: %s", e->key, e->beyond, e->ceiling, err.message);
	}
}

static void test_every_key_is_in_the_examples(void **state)
{
	(void)state;
	for (size_t k = 0; k < policy_key_count; k++) {
		bool found = false;
		for (size_t i = 0; i < ARRAY_SIZE(examples); i++)
			found |= strcmp(examples[i].key, policy_keys[k].name) == 0;
		if (!found)
			fail_msg("%s has no example here: is it in the table of policy/ceiling.c?", policy_keys[k].name);
	}
}

static void test_a_dot_that_is_spelled_out_is_not_covered_by_wildcards_that_match_none(void **state)
{
	_cleanup_policy_ struct cordon_policy ceiling, asked;
	(void)state;
	begin(&ceiling);
	begin(&asked);
	set(&ceiling, "files.hidden", "false");
	set(&asked, "files.hidden", "false");
	set(&ceiling, "files.read", "/app/** | /app/.env");
	set(&ceiling, "files.write", "");
	set(&asked, "files.write", "");
	set(&asked, "files.read", "/app/.git/**");
	assert_int_equal(policy_within(&asked, &ceiling, NULL), -1);
	set(&asked, "files.read", "/app/.env");
	assert_int_equal(policy_within(&asked, &ceiling, NULL), 0);
	set(&asked, "files.read", "/app/src/**");
	assert_int_equal(policy_within(&asked, &ceiling, NULL), 0);
}

static void test_what_may_be_written_may_be_read(void **state)
{
	_cleanup_policy_ struct cordon_policy ceiling, asked;
	(void)state;
	begin(&ceiling);
	begin(&asked);
	set(&ceiling, "files.read", "");
	set(&ceiling, "files.write", "/app/**");
	set(&asked, "files.write", "");
	set(&asked, "files.read", "/app/x");
	assert_int_equal(policy_within(&asked, &ceiling, NULL), 0);
	set(&asked, "files.write", "/tmp/**");
	assert_int_equal(policy_within(&asked, &ceiling, NULL), -1);
}

static void test_a_request_that_asks_for_nothing_gets_the_smaller_of_both(void **state)
{
	_cleanup_policy_ struct cordon_policy ceiling, p;
	(void)state;
	begin(&ceiling);
	begin(&p);
	set(&ceiling, "limits.memory", "64M");
	set(&ceiling, "limits.timeout", "1h");
	set(&ceiling, "files.read", "/app/** | /data/**");
	set(&ceiling, "files.write", "/app/**");
	set(&ceiling, "files.deny", "/data/keys");
	set(&ceiling, "process.allow", "python3 | git*");
	set(&ceiling, "network.outbound", "host=a.example");
	assert_int_equal(policy_narrow(&p, &ceiling, NULL), 0);
	assert_int_equal(p.limits.memory, 64 << 20);
	assert_int_equal(p.limits.timeout_ms, 60000); /* the default is less */
	assert_int_equal(p.files.read.count, 2);
	assert_string_equal(p.files.deny.items[0], "/data/keys");
	assert_int_equal(p.process.allow.count, 2);
	assert_int_equal(p.network.outbound.count, 0); /* a ceiling grants nothing by itself */
	assert_int_equal(policy_within(&p, &ceiling, NULL), 0);
}

/* ---- at random ---------------------------------------------------------------------------------------------------------------- */

static uint64_t dice = 1;

static size_t throw(size_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (size_t)(dice % sides);
}

static const char *const patterns[] = {"/**",       "/app/**",     "/app",         "/app/*", "/app/src/**", "/app/src/*.c", "/app/.git/**",
                                       "/app/.env", "/app/**/x.c", "/app/src/x.c", "/data",  "/data/a?/**", "/data/secret", "/d*/**",
                                       "/data/s*",  "/*"};
static const char *const programs[] = {"*",       "git",       "git*",         "git-?",      "python3",   "py*",
                                       "/app/**", "/app/tool", "/usr/bin/git", "/usr/bin/*", "/opt/x/**", "sh"};
static const char *const hosts[] = {"*.example.com", "a.example.com", "*.a.example.com", "b.a.example.com", "example.com",
                                    "10.0.0.0/8",    "10.1.0.0/16",   "10.1.2.3/32",     "fd00::/8"};
static const char *const ports[] = {"443", "80,443", "22", "443,22,80"};
static const char *const paths[] = {"/app",
                                    "/app/x",
                                    "/app/src",
                                    "/app/src/x.c",
                                    "/app/src/y.c",
                                    "/app/src/d/x.c",
                                    "/app/.git",
                                    "/app/.git/config",
                                    "/app/.env",
                                    "/app/tool",
                                    "/data",
                                    "/data/a1",
                                    "/data/a1/f",
                                    "/data/secret",
                                    "/data/secret/k",
                                    "/data/s1",
                                    "/usr/bin/git",
                                    "/usr/bin/git-x",
                                    "/opt/x/y",
                                    "/opt/x",
                                    "/x",
                                    "/usr/bin/sh",
                                    "/usr/bin/dd",
                                    "/app/git",
                                    "/usr/bin/python3"};
static const char *const targets[] = {"a.example.com", "b.a.example.com", "example.com", "c.example.com", "10.1.2.3",
                                      "10.1.9.9",      "10.9.9.9",        "11.0.0.1",    "fd00::1"};

static void set_some(struct cordon_policy *p, const char *key, const char *const *from, size_t count, size_t most)
{
	policy_empty(p, policy_key_find(key));
	for (size_t n = throw(most + 1); n > 0; n--)
		assert_int_equal(policy_set(p, key, from[throw(count)], NULL), 0);
}

static void at_random(struct cordon_policy *p)
{
	begin(p);
	set_some(p, "files.read", patterns, ARRAY_SIZE(patterns), 3);
	set_some(p, "files.write", patterns, ARRAY_SIZE(patterns), 2);
	set_some(p, "files.deny", patterns + 1, ARRAY_SIZE(patterns) - 1, 1);
	set_some(p, "process.allow", programs, ARRAY_SIZE(programs), 3);
	set_some(p, "process.deny", programs + 1, ARRAY_SIZE(programs) - 1, 1);
	set_some(p, "network.deny", hosts, ARRAY_SIZE(hosts), 1);
	p->files.hidden = throw(2);
	p->process.shell = throw(2);
	p->process.native = throw(2);
	policy_empty(p, policy_key_find("network.outbound"));
	for (size_t n = throw(3); n > 0; n--) {
		char rule[128];
		snprintf(rule, sizeof(rule), "host=%s;ports=%s%s", hosts[throw(ARRAY_SIZE(hosts))], ports[throw(ARRAY_SIZE(ports))],
		         throw(4) ? "" : ";protocol=tcp");
		assert_int_equal(policy_set(p, "network.outbound", rule, NULL), 0);
	}
}

/* The same but for one list, so that many are within it, and not by being empty. */
static void nearly(struct cordon_policy *p, const struct cordon_policy *other)
{
	*p = (struct cordon_policy){0};
	assert_int_equal(policy_copy(p, other, NULL), 0);
	switch (throw(4)) {
	case 0:
		set_some(p, "files.read", patterns, ARRAY_SIZE(patterns), 2);
		break;
	case 1:
		set_some(p, "files.write", patterns, ARRAY_SIZE(patterns), 2);
		break;
	case 2:
		set_some(p, "process.allow", programs, ARRAY_SIZE(programs), 2);
		break;
	default:
		p->files.hidden = p->process.shell = false;
	}
}

/* Whatever the smaller one allows, the larger one does. How much that was goes to *allowed. */
static void must_be_below(const struct cordon_policy *small, const struct cordon_policy *large, size_t *allowed)
{
	struct policy_verdict a, b;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (enum policy_access access = ACCESS_READ; access <= ACCESS_EXECUTE; access++) {
			policy_match_path(small, paths[i], access, &a);
			policy_match_path(large, paths[i], access, &b);
			if (a.allowed && !b.allowed)
				fail_msg("%s (%d): allowed by %s %s, not by %s", paths[i], (int)access, a.key, a.rule ? a.rule : "", b.key);
			*allowed += a.allowed;
		}
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		for (size_t n = 0; n < 3; n++) {
			const uint16_t port = (const uint16_t[]){443, 80, 22}[n];
			struct host_target host;
			assert_int_equal(host_target_parse(targets[i], &host, NULL), 0);
			policy_match_host(small, &host, port, &a);
			policy_match_host(large, &host, port, &b);
			if (a.allowed && !b.allowed)
				fail_msg("%s:%u: allowed by %s, not by %s", targets[i], port, a.rule ? a.rule : a.key, b.key);
			*allowed += a.allowed;
		}
}

static void test_policies_at_random_allow_nothing_that_their_ceiling_does_not(void **state)
{
	const size_t rounds = getenv("UNDER_VALGRIND") ? 1000 : 20000;
	size_t within = 0, allowed = 0, left = 0;
	(void)state;
	for (size_t i = 0; i < rounds; i++) {
		_cleanup_policy_ struct cordon_policy ceiling, asked, before;
		struct cordon_error err = {0};

		at_random(&ceiling);
		if (i % 2)
			at_random(&asked);
		else
			nearly(&asked, &ceiling);
		before = (struct cordon_policy){0};
		assert_int_equal(policy_copy(&before, &asked, NULL), 0);
		if (policy_within(&asked, &ceiling, NULL) == 0) {
			within++;
			must_be_below(&asked, &ceiling, &allowed);
		}
		assert_int_equal(policy_narrow(&asked, &ceiling, &err), 0);
		if (policy_within(&asked, &ceiling, &err) < 0)
			fail_msg("narrowed: %s", err.message);
		must_be_below(&asked, &ceiling, &left);
		must_be_below(&asked, &before, &left);
	}
	/* … and that was not for want of anything to allow */
	assert_true(within > rounds / 8);
	assert_true(allowed > 3 * rounds);
	assert_true(left > 15 * rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_more_than_the_ceiling_is_refused_key_by_key),
		cmocka_unit_test(test_every_key_is_in_the_examples),
		cmocka_unit_test(test_a_dot_that_is_spelled_out_is_not_covered_by_wildcards_that_match_none),
		cmocka_unit_test(test_what_may_be_written_may_be_read),
		cmocka_unit_test(test_a_request_that_asks_for_nothing_gets_the_smaller_of_both),
		cmocka_unit_test(test_policies_at_random_allow_nothing_that_their_ceiling_does_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
