/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/ytree.h"

static struct ytree_problem problem;

static void parse(const char *text, struct ynode *root)
{
	if (ytree_parse(text, strlen(text), root, &problem) < 0)
		fail_msg("%u:%u: %s", problem.line, problem.column, problem.error.message);
}

static void assert_refused_bytes(const char *text, size_t len, unsigned line, unsigned column, const char *message)
{
	struct ynode root;

	assert_int_equal(ytree_parse(text, len, &root, &problem), -1);
	if (!strstr(problem.error.message, message))
		fail_msg("'%s' instead of '%s'", problem.error.message, message);
	assert_int_equal(problem.line, line);
	assert_int_equal(problem.column, column);
	assert_int_equal(problem.error.code, CORDON_ERR_INPUT);
	assert_int_equal(root.count, 0);
}

static void assert_refused(const char *text, unsigned line, unsigned column, const char *message)
{
	assert_refused_bytes(text, strlen(text), line, column, message);
}

/* ---- tests ---- */

static void test_a_tree_remembers_where_everything_stood(void **state)
{
	struct ynode root;

	parse("a: 1\nb:\n  - x\n  - {c: \"y\", d: [~, '']}\n", &root);
	assert_int_equal(root.type, YNODE_MAP);
	assert_int_equal(root.count, 4);
	assert_string_equal(root.items[0].text, "a");
	assert_string_equal(root.items[1].text, "1");
	assert_int_equal(root.items[1].column, 4);
	const struct ynode *b = &root.items[3];
	assert_int_equal(b->type, YNODE_LIST);
	assert_int_equal(b->count, 2);
	assert_int_equal(b->items[0].line, 3);
	assert_int_equal(b->items[0].column, 5);
	assert_true(b->items[0].plain);
	const struct ynode *map = &b->items[1];
	assert_int_equal(map->type, YNODE_MAP);
	assert_false(map->items[1].plain);
	assert_string_equal(map->items[1].text, "y");
	assert_true(ynode_is_null(&map->items[3].items[0]));
	assert_false(ynode_is_null(&map->items[3].items[1])); /* '' is a text */
	ynode_free(&root);
}

static void test_line_ends_byte_order_marks_and_markers_do_not_matter(void **state)
{
	static const char *const same[] = {"a: 1\nb: 2\n",         "a: 1\r\nb: 2\r\n",       "a: 1\rb: 2",
	                                   "\ufeffa: 1\nb: 2\n",   "---\na: 1\nb: 2\n...\n", "%YAML 1.1\n---\na: 1\nb: 2\n",
	                                   "# c\n\na: 1 # x\nb: 2"};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		struct ynode root;

		parse(same[i], &root);
		assert_int_equal(root.count, 4);
		assert_string_equal(root.items[2].text, "b");
		assert_string_equal(root.items[3].text, "2");
		ynode_free(&root);
	}
}

static void test_what_makes_small_files_large_is_refused(void **state)
{
	assert_refused("a: &x [1]\nb: *x\n", 1, 4, "an anchor");
	assert_refused("a: &x 1\n", 1, 4, "an anchor");
	assert_refused("a: *x\n", 1, 4, "an alias");
	assert_refused("&x a: 1\n", 1, 1, "an anchor");
	assert_refused("a: {<<: {b: 1}}\n", 1, 5, "a merge key");
	assert_refused("a: !!str 1\n", 1, 4, "a tag");
	assert_refused("a: !x [1]\n", 1, 4, "a tag");
	assert_refused("a: 1\n---\nb: 2\n", 2, 1, "a second document");
	assert_refused("[a]: 1\n", 1, 1, "a key that is not a word");
	assert_refused("? {a: 1}\n: 2\n", 1, 3, "a key that is not a word");
}

static void test_depth_and_number_are_capped(void **state)
{
	char deep[200] = "";
	struct ynode root;

	memset(deep, '[', 16);
	memset(deep + 16, ']', 16);
	parse(deep, &root);
	ynode_free(&root);
	memset(deep, '[', 17);
	memset(deep + 17, ']', 17);
	assert_refused(deep, 1, 17, "nested too deeply");
	_cleanup_free_ char *many = malloc(400000);
	assert_non_null(many);
	for (size_t i = 0; i < 400000; i++)
		many[i] = i % 2 ? ',' : i ? '1' : '[';
	many[1] = '1';
	assert_int_equal(ytree_parse(many, 400000, &root, &problem), -1);
	assert_non_null(strstr(problem.error.message, "too many values"));
	_cleanup_free_ char *large = malloc(YTREE_SIZE_MAX + 1);
	assert_non_null(large);
	memset(large, ' ', YTREE_SIZE_MAX + 1);
	assert_refused_bytes(large, YTREE_SIZE_MAX + 1, 1, 1, "larger than a policy can be");
	assert_refused_bytes(large, YTREE_SIZE_MAX, 1, 1, "the file is empty");
}

static void test_bytes_that_are_no_text_are_refused_at_their_place(void **state)
{
	assert_refused_bytes("a: 1\nb: \0", 9, 2, 4, "a NUL byte");
	assert_refused("a: \xff\n", 1, 4, "not UTF-8");
	assert_refused("\xc3\xa4: \xc3\xa4\xc3\n", 1, 5, "not UTF-8");
	assert_refused("a: 1\nb: \xed\xa0\x80\n", 2, 4, "not UTF-8"); /* half of a pair of UTF-16 */
	assert_refused("\xff\xfe"
	               "a",
	               1, 1, "UTF-16");
	assert_refused("a: \x01\n", 1, 4, "control characters");
	assert_refused("a: \"x\\0y\"\n", 1, 4, "a NUL in it");
}

static void test_mistakes_are_told_with_their_place(void **state)
{
	assert_refused("a:\n\tb: 1\n", 2, 1, "a tab where only spaces");
	assert_refused("a: [1\n", 2, 1, "this is not YAML");
	assert_refused("a: 1\n b: 2\n", 2, 3, "this is not YAML");
	assert_refused("a: \"x\n", 2, 1, "this is not YAML");
	assert_string_equal(problem.error.hint, "it begins in line 1");
	assert_refused("a: }\n", 1, 4, "this is not YAML");
	assert_refused("", 1, 1, "the file is empty");
	assert_refused("# nothing\n", 1, 1, "the file is empty");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tree_remembers_where_everything_stood),
		cmocka_unit_test(test_line_ends_byte_order_marks_and_markers_do_not_matter),
		cmocka_unit_test(test_what_makes_small_files_large_is_refused),
		cmocka_unit_test(test_depth_and_number_are_capped),
		cmocka_unit_test(test_bytes_that_are_no_text_are_refused_at_their_place),
		cmocka_unit_test(test_mistakes_are_told_with_their_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
