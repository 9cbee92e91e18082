/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/cover.h"
#include "policy/costs.h"
#include "policy/helpers.h"
#include "policy/profiles.h"

static void test_a_tree_stands_for_its_directory(void **state)
{
	assert_true(cover_names("/data/**", "/data"));
	assert_true(cover_names("/data/**", "/data/a"));
	assert_true(cover_names("/**", "/"));
	assert_false(cover_names("/data/**", "/database"));
	assert_false(cover_names("/data/*", "/data"));
	assert_true(cover_names("/data", "/data"));
	assert_false(cover_names("/data", "/data/a"));
}

static void test_what_is_below_goes_with_a_tree_and_with_what_is_denied(void **state)
{
	assert_true(cover_path("/data", "/data/a/b", false));
	assert_false(cover_path("/data/*", "/data/a/b", false));
	assert_true(cover_path("/data/*", "/data/a/b", true));
	assert_true(cover_path("/**/.env", "/a/b/.env/c", true));
	assert_true(cover_path("/", "/a", true));
}

static void test_where_a_pattern_can_lead(void **state)
{
	static const struct {
		const char *pattern, *directory;
		bool below;
	} cases[] = {
		{"/app/x", "/", true},           {"/app/x", "/app", true},     {"/app/x", "/app/x", false},
		{"/app/x", "/usr", false},       {"/app/*/x", "/app/a", true}, {"/app/*/x", "/app/a/b", false},
		{"/app/**/x", "/app/a/b", true}, {"/app/**", "/app", true},    {"/**/x", "/usr/lib", true},
		{"/a*/x", "/app", true},         {"/a*/x", "/usr", false},     {"/app/a**b/x", "/app/aXX/b", true},
		{"/app", "/app", false},         {"/app/**", "/ap", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (cover_below(cases[i].pattern, cases[i].directory) != cases[i].below)
			fail_msg("%s below %s", cases[i].pattern, cases[i].directory);
}

static void test_parts_of_a_pattern(void **state)
{
	assert_int_equal(cover_plain_part("/data/x*"), 5);
	assert_int_equal(cover_plain_part("/data/**"), 5);
	assert_int_equal(cover_plain_part("/data/x"), 7);
	assert_int_equal(cover_plain_part("/*/x"), 0);
	assert_int_equal(cover_stem("/data/**"), 5);
	assert_int_equal(cover_stem("/data/**/**"), 5);
	assert_int_equal(cover_stem("/data/x"), 7);
	assert_int_equal(cover_stem("/**"), 0);
	assert_true(cover_is_tree("/data/x") && cover_is_tree("/data/*/**") && cover_is_tree("/d*/x"));
	assert_false(cover_is_tree("/data/*") || cover_is_tree("/data/**.txt"));
}

static void test_names_with_a_dot(void **state)
{
	assert_int_equal(cover_hidden_part("/app/x.y"), 0);
	assert_int_equal(cover_hidden_part("/app/.git/config"), 9);
	assert_int_equal(cover_hidden_part("/.a/b/.c/d"), 8);
	assert_true(cover_spells("/app/.git/**", "/app/.git/config", 9));
	assert_false(cover_spells("/app/**", "/app/.git/config", 9));
	assert_false(cover_spells("/app/.gitx/**", "/app/.git/config", 9));
	assert_false(cover_spells("/app/.gi?", "/app/.git", 9));
}

static bool told(const struct strlist *costs, const char *words)
{
	for (size_t i = 0; i < costs->count; i++)
		if (strstr(costs->items[i], words))
			return true;
	return false;
}

static void test_costs_are_those_of_the_policy(void **state)
{
	struct cordon_policy p;
	struct strlist costs = {0};

	assert_int_equal(policy_init(&p, NULL), 0);
	assert_int_equal(policy_costs(&p, &costs, NULL), 0);
	assert_int_equal(costs.count, 0);
	assert_int_equal(policy_set(&p, "files.deny", "/app/**/x", NULL), 0);
	assert_int_equal(policy_costs(&p, &costs, NULL), 0);
	assert_true(told(&costs, "mounted trees") && !told(&costs, "all of /usr") && !told(&costs, "TMPDIR"));
	strlist_free(&costs);
	policy_clear(&p);
	assert_int_equal(policy_init_profile(&p, "locked", NULL), 0);
	assert_int_equal(policy_costs(&p, &costs, NULL), 0);
	assert_true(told(&costs, "TMPDIR") && told(&costs, "--jitless"));
	strlist_free(&costs);
	policy_clear(&p);
}

/* What the table holds must be what process.allow could. */
static void test_helpers_are_well_formed(void **state)
{
	struct cordon_policy p;

	assert_int_equal(policy_init(&p, NULL), 0);
	for (const struct policy_helper *row = policy_helpers; row->programs; row++) {
		assert_non_null(row->programs[0]);
		assert_non_null(row->helpers[0]);
		for (size_t i = 0; row->programs[i]; i++)
			assert_null(strchr(row->programs[i], '/'));
		for (size_t i = 0; row->helpers[i]; i++)
			assert_int_equal(policy_set(&p, "process.allow", row->helpers[i], NULL), 0);
	}
	policy_clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tree_stands_for_its_directory),
		cmocka_unit_test(test_what_is_below_goes_with_a_tree_and_with_what_is_denied),
		cmocka_unit_test(test_where_a_pattern_can_lead),
		cmocka_unit_test(test_parts_of_a_pattern),
		cmocka_unit_test(test_names_with_a_dot),
		cmocka_unit_test(test_costs_are_those_of_the_policy),
		cmocka_unit_test(test_helpers_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
