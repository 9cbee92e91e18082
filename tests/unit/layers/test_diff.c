/* SPDX-License-Identifier: Apache-2.0 */
/* The text part of differences: hunks, what is said to terminals, and that every difference leads from the one text to the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/util.h"
#include "layers/diff_parts.h"
#include "listing.h"
#include "unified.h"

static void assert_diff(const char *a, const char *b, unsigned context, const char *expected)
{
	_cleanup_buf_ struct buf out = {0};
	size_t added, removed;

	assert_true(diff_text(&out, a, strlen(a), b, strlen(b), context, false, &added, &removed));
	assert_string_equal(out.len ? out.data : "", expected);
}

/* ---- hunks -------------------------------------------------------------------------------------------------------------------- */

static void test_equal_texts_have_no_hunks(void **state)
{
	assert_diff("", "", 3, "");
	assert_diff("a\nb", "a\nb", 3, "");
}

static void test_a_changed_line_has_context_around_it(void **state)
{
	assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", 3,
	            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
	assert_diff("1\n2\n3\n", "1\n3\n", 0, "@@ -2 +1,0 @@\n-2\n");
	assert_diff("1\n3\n", "1\n2\n3\n", 0, "@@ -1,0 +2 @@\n+2\n");
}

static void test_changes_that_are_near_share_a_hunk(void **state)
{
	assert_diff("1\n2\n3\n4\n5\n", "x\n2\n3\ny\n5\n", 1, "@@ -1,5 +1,5 @@\n-1\n+x\n 2\n 3\n-4\n+y\n 5\n");
	assert_diff("1\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\ny\n6\n", 1, "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -4,3 +4,3 @@\n 4\n-5\n+y\n 6\n");
}

static void test_a_missing_line_feed_is_said(void **state)
{
	assert_diff("a", "a\n", 3, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	assert_diff("a\n", "a", 3, "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
	assert_diff("x\na", "y\na", 3, "@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n");
}

static void test_carriage_returns_are_text(void **state)
{
	assert_diff("a\r\nb\r\n", "a\r\nb\n", 3, "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n");
}

static void test_an_empty_text_has_line_zero(void **state)
{
	assert_diff("", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n");
	assert_diff("a\n", "", 3, "@@ -1 +0,0 @@\n-a\n");
}

static void test_an_added_function_ends_with_its_own_brace(void **state)
{
	assert_diff("f() {\n\tx\n}\n", "f() {\n\tx\n}\ng() {\n\tx\n}\n", 1, "@@ -3 +3,4 @@ f() {\n }\n+g() {\n+\tx\n+}\n");
	assert_diff("x\nf() {\n}\n", "y\nf() {\n}\ng() {\n}\n", 0, "@@ -1 +1 @@\n-x\n+y\n@@ -3,0 +4,2 @@ f() {\n+g() {\n+}\n");
	assert_diff("x\nf() {\n}\ng() {\n}\n", "y\nf() {\n}\n", 0, "@@ -1 +1 @@\n-x\n+y\n@@ -4,2 +3,0 @@ f() {\n-g() {\n-}\n");
}

static void test_a_hunk_names_the_function_it_is_in(void **state)
{
	assert_diff("int f(void)   \n{\n\t1;\n\t2;\n\t3;\n}\n", "int f(void)   \n{\n\t1;\n\t2;\n\tx;\n}\n", 1,
	            "@@ -4,3 +4,3 @@ int f(void)\n \t2;\n-\t3;\n+\tx;\n }\n");
}

/* ---- terminals ---------------------------------------------------------------------------------------------------------------- */

static void test_colours_are_gits_and_what_a_terminal_would_obey_is_shown(void **state)
{
	_cleanup_buf_ struct buf out = {0};
	const char a[] = "same \x1b[2J\nold\n", b[] = "same \x1b[2J\nnew\t\x7f\x9b\xc2\x9b\xe2\x80\xae\xc3\xa9\r\n";
	size_t added, removed;

	assert_true(diff_text(&out, a, sizeof(a) - 1, b, sizeof(b) - 1, 3, true, &added, &removed));
	assert_string_equal(out.data, "\033[36m@@ -1,2 +1,2 @@\033[m\n same ^[[2J\n\033[31m-old\033[m\n"
	                              "\033[32m+new\t^?<9B><U+009B><U+202E>\xc3\xa9^M\033[m\n");
}

static void assert_name(const char *name, const char *expected)
{
	_cleanup_buf_ struct buf out = {0};

	escape_name(&out, "a/", name);
	assert_string_equal(out.data, expected);
}

static void test_unusual_names_are_quoted_as_git_does(void **state)
{
	assert_name("plain name", "a/plain name");
	assert_name("\xc3\xa9", "a/\xc3\xa9");
	assert_name("a\tb\n\"c\\", "\"a/a\\tb\\n\\\"c\\\\\"");
	assert_name("\x01\x1b\x7f\xff", "\"a/\\001\\033\\177\\377\"");
	assert_name("\xe2\x80\xae", "\"a/\\342\\200\\256\"");
	assert_name("\xc3", "\"a/\\303\"");
}

/* ---- random texts ------------------------------------------------------------------------------------------------------------- */

static void check(const struct buf *a, const struct buf *b, unsigned context)
{
	_cleanup_buf_ struct buf hunks = {0}, result = {0};
	size_t added, removed, added_there, removed_there;

	assert_true(diff_text(&hunks, a->data, a->len, b->data, b->len, context, false, &added, &removed));
	assert_true(unified_apply(a->data, a->len, &hunks, &result, &added_there, &removed_there));
	assert_int_equal(result.len, b->len);
	assert_memory_equal(result.data, b->data, b->len);
	assert_int_equal(added, added_there);
	assert_int_equal(removed, removed_there);
	assert_true(diff_text(NULL, a->data, a->len, b->data, b->len, context, false, &added_there, &removed_there));
	assert_int_equal(added, added_there);
	assert_int_equal(removed, removed_there);
}

static void random_text(struct rng *r, struct buf *out, unsigned lines, unsigned words)
{
	buf_add_str(out, "");
	for (unsigned i = 0; i < lines; i++)
		buf_addf(out, "%u\n", rng_below(r, words));
	if (out->len && rng_below(r, 3) == 0)
		out->data[--out->len] = '\0';
}

static void test_every_difference_leads_from_one_text_to_the_other(void **state)
{
	for (unsigned i = 0; i < 3000; i++) {
		struct rng r = {.state = 0x1234567u + i};
		_cleanup_buf_ struct buf a = {0}, b = {0};
		unsigned words = 1 + rng_below(&r, 12);

		random_text(&r, &a, rng_below(&r, 30), words);
		random_text(&r, &b, rng_below(&r, 30), words);
		check(&a, &b, rng_below(&r, 4));
	}
}

#ifndef DIFF_COST_MAX /* with a small one they are not */
/* Of one-character lines, by the textbook's table. */
static size_t shortest(const char *a, size_t n, const char *b, size_t m)
{
	size_t table[32][32] = {{0}};

	for (size_t i = n; i-- > 0;)
		for (size_t k = m; k-- > 0;)
			table[i][k] = a[i] == b[k] ? table[i + 1][k + 1] + 1 : MAX(table[i + 1][k], table[i][k + 1]);
	return n + m - 2 * table[0][0];
}

static void test_differences_are_as_short_as_can_be(void **state)
{
	for (unsigned i = 0; i < 3000; i++) {
		struct rng r = {.state = 0x777u + i};
		char a[31], b[31], text_a[64] = "", text_b[64] = "";
		size_t n = rng_below(&r, 31), m = rng_below(&r, 31), added, removed;
		unsigned words = 1 + rng_below(&r, 5);

		for (size_t k = 0; k < n; k++)
			snprintf(text_a + 2 * k, 3, "%c\n", a[k] = (char)('a' + rng_below(&r, words)));
		for (size_t k = 0; k < m; k++)
			snprintf(text_b + 2 * k, 3, "%c\n", b[k] = (char)('a' + rng_below(&r, words)));
		assert_true(diff_text(NULL, text_a, 2 * n, text_b, 2 * m, 0, false, &added, &removed));
		assert_int_equal(added + removed, shortest(a, n, b, m));
	}
}

#endif

/* Where the search is cut short the result must still be right: a few thousand lines in another order. */
static void test_texts_that_differ_everywhere_still_compare(void **state)
{
	for (unsigned words = 2; words < 5000; words *= 7) {
		struct rng r = {.state = 99 + words};
		_cleanup_buf_ struct buf a = {0}, b = {0};

		random_text(&r, &a, 4000, words);
		random_text(&r, &b, 3000, words);
		check(&a, &b, 3);
	}
}

static void test_what_cannot_be_compared_in_reasonable_time_is_given_up(void **state)
{
	_cleanup_buf_ struct buf a = {0};
	size_t added, removed, size = 1000001;

	memset(buf_reserve(&a, size), '\n', size);
	a.len = size;
	assert_false(diff_text(NULL, a.data, a.len, "", 0, 3, false, &added, &removed));
	assert_true(diff_text(NULL, a.data, a.len - 1, "", 0, 3, false, &added, &removed));
	assert_int_equal(removed, size - 1);
}

static void test_a_buffer_that_is_full_is_told(void **state)
{
	_cleanup_buf_ struct buf out = {.cap = 20};
	size_t added, removed;

	assert_false(diff_text(&out, "a\nb\nc\nd\n", 8, "e\nf\ng\nh\n", 8, 3, false, &added, &removed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_texts_have_no_hunks),
		cmocka_unit_test(test_a_changed_line_has_context_around_it),
		cmocka_unit_test(test_changes_that_are_near_share_a_hunk),
		cmocka_unit_test(test_a_missing_line_feed_is_said),
		cmocka_unit_test(test_carriage_returns_are_text),
		cmocka_unit_test(test_an_empty_text_has_line_zero),
		cmocka_unit_test(test_an_added_function_ends_with_its_own_brace),
		cmocka_unit_test(test_a_hunk_names_the_function_it_is_in),
		cmocka_unit_test(test_colours_are_gits_and_what_a_terminal_would_obey_is_shown),
		cmocka_unit_test(test_unusual_names_are_quoted_as_git_does),
		cmocka_unit_test(test_every_difference_leads_from_one_text_to_the_other),
#ifndef DIFF_COST_MAX
		cmocka_unit_test(test_differences_are_as_short_as_can_be),
#endif
		cmocka_unit_test(test_texts_that_differ_everywhere_still_compare),
		cmocka_unit_test(test_what_cannot_be_compared_in_reasonable_time_is_given_up),
		cmocka_unit_test(test_a_buffer_that_is_full_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
