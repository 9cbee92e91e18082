/* SPDX-License-Identifier: Apache-2.0 */
/* Packs of rules: what is wrong with one is said with its place; what is right holds for its examples. */
#include <stdlib.h>
#include <unistd.h>

#include "gate/pack.h"
#include "gate_case.h"

static char dir[] = "/tmp/cordon-test-packs.XXXXXX";
static char path[sizeof(dir) + 16];
static struct cordon_error err;

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/pack.yaml", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static int open_file(const char *text, struct gate **g)
{
	FILE *f = fopen(path, "we");
	const char *packs[] = {path};
	struct gate_config config = {.packs = packs, .pack_count = 1};
	assert_non_null(f);
	assert_int_equal(fputs(text, f) >= 0 && fclose(f) == 0, 1);
	err = (struct cordon_error){0};
	return gate_open(g, &config, &err);
}

#define HEAD "pack: mine\nabout: a test\nlanguage: shell\ninclude: [shell-commands]\n"
#define RULE "rules:\n  - name: r\n    reason: because\n    command: [frob]\n    match: ['frob x']\n    not: ['ls']\n"

static void a_pack_of_ones_own_is_used(void **state)
{
	struct gate *g = NULL;
	if (open_file(HEAD RULE, &g) < 0)
		fail_msg("%s", err.message);
	static const struct gate_case cases[] = {DENY("sudo sh -c 'frob y'", "r"), ALLOW("echo frob"), ALLOW("rm -rf /")};
	check_cases(g, GATE_SHELL, cases, ARRAY_SIZE(cases));
	assert_true(gate_reads(g, GATE_SHELL));
	assert_false(gate_reads(g, GATE_PYTHON));
	gate_close(g);
}

static void what_is_wrong_with_a_pack_is_said_with_its_place(void **state)
{
	static const struct {
		const char *text, *place, *says;
	} cases[] = {
		{"", "", "empty"},
		{"pack: [", ":", ""},
		{"- a\n", ":1:1", "map"},
		{HEAD "ruls: []\n", ":5:1", "ruls"},
		{HEAD "about: again\n", ":5:1", "twice"},
		{"about: x\nlanguage: shell\n", ":1:1", "pack"},
		{"pack: x\nabout: y\nlanguage: cobol\n", ":3:11", "cobol"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    match: [a]\n", ":6:5", "not"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    args: [{at: nowhere}]\n    match: [a]\n    not: [b]\n", ":8:17", "nowhere"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    args: [{at: operand, index: -4}]\n    match: [a]\n    not: [b]\n", ":8:33",
	         "-4"},
		{HEAD "rules:\n  - name: r\n    reason: [x]\n", ":7:13", "text"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gate *g = NULL;
		assert_int_equal(open_file(cases[i].text, &g), -1);
		if (!strstr(err.message, cases[i].place) || !strstr(err.message, cases[i].says) || !strstr(err.message, "pack.yaml"))
			fail_msg("'%s' (expected %s, %s)", err.message, cases[i].place, cases[i].says);
	}
}

static void examples_that_do_not_hold_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{HEAD "rules:\n  - name: r\n    reason: x\n    command: [frob]\n    match: ['ls']\n    not: ['ls']\n",
	         "does not match its example: ls"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    command: [frob]\n    match: ['frob']\n    not: ['sudo frob']\n",
	         "must not match, and does, its example: sudo frob"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    command: [frob]\n    match: []\n    not: []\n", "no example"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    match: ['frob']\n    not: ['ls']\n", "says nothing"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    calls: [frob]\n    match: ['frob']\n    not: ['ls']\n", "not for shell"},
		{HEAD
	         "rules:\n  - {name: r, reason: x, command: [a], match: [a], not: [b]}\n  - {name: r, reason: x, command: [a], match: [a], not: [b]}\n",
	         "two rules"},
		{HEAD "rules:\n  - name: r\n    reason: x\n    args: [{at: read, in: nothing}]\n    match: ['a']\n    not: ['b']\n",
	         "no class"},
		{"pack: x\nabout: y\nlanguage: shell\ninclude: [nothing]\n", "not there"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gate *g = NULL;
		assert_int_equal(open_file(cases[i].text, &g), -1);
		if (!strstr(err.message, cases[i].says))
			fail_msg("'%s' (expected: %s)", err.message, cases[i].says);
	}
}

static void an_unknown_pack_gets_a_suggestion(void **state)
{
	const char *packs[] = {"python-dangerus"};
	struct gate_config config = {.packs = packs, .pack_count = 1};
	struct gate *g = NULL;
	err = (struct cordon_error){0};
	assert_int_equal(gate_open(&g, &config, &err), -1);
	assert_non_null(strstr(err.message, "python-dangerus"));
	assert_non_null(strstr(err.hint, "python-dangerous"));
}

static void built_in_packs_are_listed_and_each_opens_by_itself(void **state)
{
	size_t n = 0;
	for (const char *name; (name = gate_pack_name(n)); n++) {
		struct gate_config config = {.packs = &name, .pack_count = 1};
		struct gate *g = NULL;
		err = (struct cordon_error){0};
		assert_non_null(gate_pack_about(name));
		if (gate_open(&g, &config, &err) < 0)
			fail_msg("%s: %s", name, err.message);
		gate_close(g);
	}
	assert_true(n >= 10);
	assert_null(gate_pack_about("nothing"));
}

static void rules_of_a_policy_hold_behind_wrappers_and_in_code(void **state)
{
	static const struct gate_addition additions[] = {
		{GATE_SHELL, "git push -f", "not here"},
		{GATE_SHELL, "frob", NULL},
		{GATE_PYTHON, "socket", NULL},
		{GATE_PYTHON, "os.getenv", NULL},
	};
	struct gate_config config = {.additions = additions, .addition_count = ARRAY_SIZE(additions)};
	struct gate *g = NULL;
	assert_int_equal(gate_open(&g, &config, &err), 0);
	static const struct gate_case shell[] = {
		DENY("git push -f", "patterns.add[0]"),
		DENY("sudo git -C x push origin -uf", "patterns.add[0]"),
		DENY("sh -c 'git push -f'", "patterns.add[0]"),
		DENY("find . -exec frob {} +", "patterns.add[1]"),
		ALLOW("git push"),
		ALLOW("echo frob"),
		ALLOW("rm -rf /"),
	};
	static const struct gate_case python[] = {
		DENY("import socket", "patterns.add[2]"),
		DENY("from os import getenv as g\ng('x')", "patterns.add[3]"),
		ALLOW("print('socket')"),
		ALLOW("eval('1')"),
	};
	check_cases(g, GATE_SHELL, shell, ARRAY_SIZE(shell));
	check_cases(g, GATE_PYTHON, python, ARRAY_SIZE(python));
	gate_close(g);
}

static void a_rule_of_a_policy_that_makes_no_sense_is_refused(void **state)
{
	static const struct gate_addition wrong[] = {{GATE_SHELL, "-f", NULL}, {GATE_SHELL, "", NULL}, {GATE_PYTHON, "", NULL}};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct gate_config config = {.additions = &wrong[i], .addition_count = 1};
		struct gate *g = NULL;
		err = (struct cordon_error){0};
		assert_int_equal(gate_open(&g, &config, &err), -1);
		assert_non_null(strstr(err.message, "patterns.add"));
	}
}

static void a_rule_that_needs_a_permission_is_moot_where_it_is_granted(void **state)
{
	static const char text[] =
		HEAD "rules:\n  - name: r\n    reason: x\n    needs: network\n    command: [frob]\n    match: ['frob']\n    not: ['ls']\n";
	static const struct gate_case strict[] = {DENY("frob", "r")}, granted[] = {ALLOW("frob")};
	const char *packs[] = {path};
	struct gate_config config = {.packs = packs, .pack_count = 1, .granted = GATE_NETWORK};
	struct gate *g = NULL;
	assert_int_equal(open_file(text, &g), 0);
	check_cases(g, GATE_SHELL, strict, 1);
	gate_close(g);
	assert_int_equal(gate_open(&g, &config, &err), 0);
	check_cases(g, GATE_SHELL, granted, 1);
	gate_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pack_of_ones_own_is_used),
		cmocka_unit_test(what_is_wrong_with_a_pack_is_said_with_its_place),
		cmocka_unit_test(examples_that_do_not_hold_are_refused),
		cmocka_unit_test(an_unknown_pack_gets_a_suggestion),
		cmocka_unit_test(built_in_packs_are_listed_and_each_opens_by_itself),
		cmocka_unit_test(rules_of_a_policy_hold_behind_wrappers_and_in_code),
		cmocka_unit_test(a_rule_of_a_policy_that_makes_no_sense_is_refused),
		cmocka_unit_test(a_rule_that_needs_a_permission_is_moot_where_it_is_granted),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
