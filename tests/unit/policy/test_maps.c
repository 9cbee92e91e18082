/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../alloc.h"
#include "../assert_list.h"
#include "base/util.h"
#include "policy/maps.h"

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

static void assert_set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static void assert_refused(const char *key, const char *value, const char *message)
{
	err = (struct cordon_error){0};
	if (policy_set(&policy, key, value, &err) == 0)
		fail_msg("%s=%s was accepted", key, value);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	if (message)
		assert_string_equal(err.message, message);
}

/* The last item as one string. */
static void assert_item(const char *key, const char *expected)
{
	struct strlist values = {0};

	assert_int_equal(policy_values(&policy, policy_key_find(key), &values, &err), 0);
	assert_true(values.count > 0);
	assert_string_equal(values.items[values.count - 1], expected);
	strlist_free(&values);
}

/* ---- tests ---- */

static void test_outbound_rules_are_understood_in_their_short_forms(void **state)
{
	static const char *const forms[][2] = {
		{"api.openai.com", "host=api.openai.com;ports=80,443;protocol=web"},
		{"API.openai.com:443", "host=api.openai.com;ports=443;protocol=web"},
		{"*.github.com:443,22", "host=*.github.com;ports=443,22;protocol=web"},
		{"10.0.0.0/8:5432", "host=10.0.0.0/8;ports=5432;protocol=web"},
		{"fd00::/8", "host=fd00::/8;ports=80,443;protocol=web"},
		{"[fd00::/8]:5432", "host=fd00::/8;ports=5432;protocol=web"},
		{"[fd00::/8]", "host=fd00::/8;ports=80,443;protocol=web"},
		{"host=db.example;protocol=tcp;ports=5432", "host=db.example;ports=5432;protocol=tcp"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		assert_set("network.outbound", forms[i][0]);
		assert_item("network.outbound", forms[i][1]);
		assert_set("network.outbound", forms[i][1]); /* its own form is read again */
		assert_item("network.outbound", forms[i][1]);
	}
	assert_int_equal(policy.network.outbound.count, 2 * ARRAY_SIZE(forms));
	const struct policy_outbound *rule = maplist_item(&policy.network.outbound, &map_outbound, 4);
	assert_string_equal(rule->host, "*.github.com");
	assert_int_equal(rule->ports.count, 2);
	assert_int_equal(rule->ports.items[1], 22);
	assert_int_equal(rule->protocol, PROTOCOL_WEB);
}

static void test_malformed_rules_change_nothing(void **state)
{
	static const char *const wrong[] = {
		"",
		":443",
		"a.b:0",
		"a.b:65536",
		"a.b:x",
		"a.b:",
		"a.b:80,",
		"[fd00::/8",
		"[fd00::/8]x",
		"host=a.b;ports=",
		"host=a.b;port=80",
		"host=a.b;host=c.d",
		"host=a.b;protocol=udp",
		"ports=80",
		"host=",
		"host=a.b;",
		"host=a.b;ports=80;ports=81",
		"host=a.b%",
		"host=a.b%00",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_refused("network.outbound", wrong[i], NULL);
	assert_int_equal(policy.network.outbound.count, 0);
	assert_refused("network.outbound", "a.b:99999", "network.outbound: '99999' is not a port (write 1 to 65535)");
	assert_refused("network.inbound", "0", "network.inbound: '0' is not a port (write 1 to 65535)");
	assert_refused(
		"network.outbound", "ports=80",
		"network.outbound: 'host' is missing (a name, a *.suffix (without the bare suffix) or ADDRESS/PREFIX; private addresses "
		"only by the latter)");
}

static void test_a_rule_has_a_cap_of_ports_and_ignores_double_ones(void **state)
{
	char text[512] = "a.b:1,1,1";
	const struct policy_outbound *rule;

	for (int i = 2; i <= POLICY_PORTS_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ",%d", i);
	assert_set("network.outbound", text);
	rule = policy.network.outbound.items;
	assert_int_equal(rule->ports.count, POLICY_PORTS_MAX);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), ",999");
	assert_refused("network.outbound", text, "network.outbound: more than 32 ports");
}

static void test_a_published_port_has_a_number_inside_and_one_outside(void **state)
{
	static const struct {
		const char *text, *item;
		unsigned inside, host;
	} good[] = {
		{"3000", "port=3000", 3000, 3000},
		{"8080:80", "port=80;host_port=8080", 80, 8080},
		{"0:3000", "port=3000;host_port=0", 3000, 0},
		{"65535:65535", "port=65535;host_port=65535", 65535, 65535},
		{"port=1;host_port=2", "port=1;host_port=2", 1, 2},
		{"host_port=2;port=1", "port=1;host_port=2", 1, 2},
	};
	static const char *const wrong[] = {"",      "0",     "65536",   ":80",    "80:",         "1:0",    "65536:1",
	                                    "1:2:3", "a:1",   "1 :2",    "80,81",  "host_port=1", "port=0", "port=1;host_port=",
	                                    "-1:1",  "+1:80", "[::1]:1", "::1:80", "127.0.0.1:80"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_set("network.inbound", good[i].text);
		const struct policy_inbound *rule = maplist_item(&policy.network.inbound, &map_inbound, i);
		assert_int_equal(rule->port.items[0], good[i].inside);
		assert_int_equal(policy_inbound_host_port(rule), good[i].host);
		assert_item("network.inbound", good[i].item);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_refused("network.inbound", wrong[i], NULL);
	assert_int_equal(policy.network.inbound.count, ARRAY_SIZE(good));
	assert_refused("network.inbound", "x:80", "network.inbound: 'x' is not a port (write 1 to 65535, or 0 for any)");
	assert_refused("network.inbound", "8080:0", "network.inbound: '0' is not a port (write 1 to 65535)");
}

static void test_published_ports_have_to_go_together(void **state)
{
	char text[32];

	assert_int_equal(policy_check_enforced(&policy, &err), 0);
	assert_set("network.inbound", "0:1");
	assert_set("network.inbound", "0:1"); /* two of any */
	assert_set("network.inbound", "80:8080");
	assert_set("network.inbound", "8080:80");
	assert_int_equal(policy_check_enforced(&policy, &err), 0);
	assert_set("network.inbound", "80");
	assert_int_equal(policy_check_enforced(&policy, &err), -1);
	assert_string_equal(err.message, "network.inbound: port 80 of the host is given twice");
	assert_string_equal(err.hint, "--publish 0:80 takes any free one");
	assert_set("clear", "network.inbound");
	assert_set("network.localhost", "false");
	assert_int_equal(policy_check_enforced(&policy, &err), 0);
	assert_set("network.inbound", "80");
	assert_int_equal(policy_check_enforced(&policy, &err), -1);
	assert_non_null(strstr(err.message, "network.localhost is false"));
	assert_set("network.localhost", "true");
	for (unsigned i = 1; i < POLICY_INBOUND_MAX; i++) {
		snprintf(text, sizeof(text), "%u", 1000 + i);
		assert_set("network.inbound", text);
	}
	assert_int_equal(policy_check_enforced(&policy, &err), 0);
	assert_set("network.inbound", "0:1");
	assert_int_equal(policy_check_enforced(&policy, &err), -1);
	assert_string_equal(err.message, "network.inbound: more than 32 ports");
}

static void test_text_of_any_kind_survives_the_one_string(void **state)
{
	assert_set("patterns.add", "language=python;match=os.system(%25d%3B a=b;reason=50%25 of them");
	const struct policy_pattern *rule = policy.patterns.add.items;
	assert_int_equal(rule->language, LANGUAGE_PYTHON);
	assert_string_equal(rule->match, "os.system(%d; a=b");
	assert_string_equal(rule->reason, "50% of them");
	assert_item("patterns.add", "language=python;match=os.system(%25d%3B a=b;reason=50%25 of them");
	assert_refused("patterns.add", "language=perl;match=x",
	               "patterns.add: language: 'perl' is not known (write python, javascript, typescript, ruby or bash)");
	assert_refused("patterns.add", "language=python;match=a\nb",
	               "patterns.add: match: a text with control characters (write one line)");
	assert_refused("patterns.add", "python", "patterns.add: 'match' is missing (what to look for)");
}

static void test_secrets_have_a_source_hosts_and_a_place(void **state)
{
	assert_set("secrets", "from=store:openai;hosts=api.openai.com,*.example.com");
	const struct policy_secret *s = policy.secrets.items;
	assert_string_equal(s->from, "store:openai");
	ASSERT_LIST(&s->hosts, "api.openai.com", "*.example.com");
	assert_string_equal(s->header, "Authorization");
	assert_string_equal(s->format, "Bearer {}");
	assert_null(s->env);
	assert_refused("secrets", "from=sk-abcdef;hosts=a.b",
	               "secrets: from: this is not where a secret comes from (write store:NAME or env:NAME)");
	assert_refused("secrets", "from=store:../x;hosts=a.b", NULL);
	assert_refused("secrets", "from=env:1;hosts=a.b", NULL);
	assert_refused("secrets", "from=store:x;hosts=10.0.0.0/8", "secrets: hosts: '10.0.0.0/8' is an address (write a name or *.SUFFIX)");
	assert_refused("secrets", "from=store:x;hosts=a.b;format=Bearer", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;format={} {}", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;header=X Y", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;env=A B", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;format={}\r\nX: y", NULL);
	assert_int_equal(s->methods.count + s->paths.count, 0);
	assert_set("secrets", "from=store:x;hosts=a.b;methods=GET,POST;paths=/v1/**,/models/");
	s = (const struct policy_secret *)policy.secrets.items + 1;
	ASSERT_LIST(&s->methods, "GET", "POST");
	ASSERT_LIST(&s->paths, "/v1/**", "/models/**");
	assert_refused("secrets", "from=store:x;hosts=a.b;methods=get",
	               "secrets: methods: 'get' is not a method (write one such as GET or POST)");
	assert_refused("secrets", "from=store:x;hosts=a.b;header=content-Length",
	               "secrets: header: 'content-Length' cannot carry a secret: it says what a request is");
	assert_refused("secrets", "from=store:x;hosts=a.b;header=HOST", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;header=Transfer_Encoding", NULL);
	assert_set("secrets", "from=store:x;hosts=a.b;header=Hosts");
	assert_refused("secrets", "from=store:x;hosts=a.b;paths=v1", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;paths=/v1/../x", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;paths=/v1?x=%253B", NULL);
	assert_refused("secrets", "from=store:x;hosts=a.b;paths=/%2525", NULL);
}

static void test_programs_are_names_or_absolute_patterns(void **state)
{
	static const char *const right[] = {"git", "mkfs*", "/usr/lib/git-core/*", "/app//**", "g++", "python3.?"};
	static const char *const wrong[] = {"", ".", "..", "bin/ls", "./a.out", "rm\n", "/a/../b", "~/x"};

	assert_int_equal(policy_set(&policy, "clear", "process.allow", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_set("process.allow", right[i]);
	ASSERT_LIST(&policy.process.allow, "git", "mkfs*", "/usr/lib/git-core/*", "/app/**", "g++", "python3.?");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_refused("process.allow", wrong[i], NULL);
	assert_refused("process.deny", "rm -rf", NULL);
	assert_string_equal(err.hint, "without its arguments");
}

static void test_files_are_absolute_patterns(void **state)
{
	static const char *const right[] = {"/data//x", "/logs/", "/", "//", "/a/**/b?"};
	static const char *const wrong[] = {"", "data", "~/x", "/a/./b", "/a/..", "./x"};

	assert_int_equal(policy_set(&policy, "clear", "files.read", &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_set("files.read", right[i]);
	ASSERT_LIST(&policy.files.read, "/data/x", "/logs/**", "/", "/a/**/b?");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_refused("files.read", wrong[i], NULL);
	assert_refused("files.read", "~/x", NULL);
	assert_string_equal(err.hint, "it is a path inside: the home is /home/user");
}

static void test_limits_without_a_limit_have_a_word(void **state)
{
	assert_set("audit.retain_age", "30d");
	assert_set("audit.retain_size", "1G");
	assert_int_equal(policy.audit.retain_age_ms, (uint64_t)30 * 24 * 3600 * 1000);
	assert_set("audit.retain_age", "forever");
	assert_set("audit.retain_size", "unlimited");
	assert_int_equal(policy.audit.retain_age_ms, 0);
	assert_int_equal(policy.audit.retain_size, 0);
	assert_refused("audit.retain_age", "0",
	               "audit.retain_age: '0' is out of range (write a number with ms, s, m, h or d, such as 60s; 1s to "
	               "365d; or forever)");
	assert_refused("limits.timeout", "forever", NULL);
}

static void test_copies_own_what_they_hold(void **state)
{
	struct cordon_policy copy;

	assert_set("secrets", "from=env:KEY;hosts=a.b;env=KEY");
	assert_set("network.outbound", "a.b");
	assert_int_equal(policy_copy(&copy, &policy, &err), 0);
	policy_empty(&policy, policy_key_find("secrets"));
	policy_empty(&policy, policy_key_find("network.outbound"));
	const struct policy_secret *s = copy.secrets.items;
	assert_int_equal(copy.secrets.count, 1);
	assert_string_equal(s->env, "KEY");
	assert_int_equal(copy.network.outbound.count, 1);
	policy_clear(&copy);
	assert_null(copy.secrets.items);
}

static int allocating_operation(int which)
{
	struct cordon_policy copy;
	struct strlist values = {0};
	int r;

	switch (which) {
	case 0:
		return policy_set(&policy, "secrets", "from=store:x;hosts=a.b,c.d;env=E;format=x {}", &err);
	case 1:
		return policy_set(&policy, "network.outbound", "a.b:80,81", &err);
	case 2:
		if ((r = policy_copy(&copy, &policy, &err)) == 0)
			policy_clear(&copy);
		return r;
	default:
		r = policy_values(&policy, policy_key_find("secrets"), &values, &err);
		strlist_free(&values);
		return r;
	}
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	for (int which = 0; which < 4; which++) {
		int rc = -1;
		long n = 0;

		for (; rc < 0 && n < 1000; n++) {
			err = (struct cordon_error){0};
			allocations_left = n;
			rc = allocating_operation(which);
			allocations_left = -1;
			if (rc < 0)
				assert_non_null(strstr(err.message, "out of memory"));
		}
		assert_int_equal(rc, 0);
		assert_true(n > 1);
	}
	assert_int_equal(policy.secrets.count, 1);
	assert_int_equal(policy.network.outbound.count, 1);
}

#define WITH_POLICY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_POLICY(test_outbound_rules_are_understood_in_their_short_forms),
		WITH_POLICY(test_malformed_rules_change_nothing),
		WITH_POLICY(test_a_rule_has_a_cap_of_ports_and_ignores_double_ones),
		WITH_POLICY(test_a_published_port_has_a_number_inside_and_one_outside),
		WITH_POLICY(test_published_ports_have_to_go_together),
		WITH_POLICY(test_text_of_any_kind_survives_the_one_string),
		WITH_POLICY(test_secrets_have_a_source_hosts_and_a_place),
		WITH_POLICY(test_programs_are_names_or_absolute_patterns),
		WITH_POLICY(test_files_are_absolute_patterns),
		WITH_POLICY(test_limits_without_a_limit_have_a_word),
		WITH_POLICY(test_copies_own_what_they_hold),
		WITH_POLICY(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
