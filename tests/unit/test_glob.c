/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/glob.h"
#include "base/util.h"

struct sample {
	const char *pattern, *path;
	bool matches;
};

static void check(const struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (glob_match(samples[i].pattern, samples[i].path) != samples[i].matches)
			fail_msg("'%s' %s '%s'", samples[i].pattern, samples[i].matches ? "misses" : "matches", samples[i].path);
}

static void test_literal_patterns_match_themselves_only(void **state)
{
	static const struct sample samples[] = {
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{".coverage", ".coverage", true},
		{".coverage", "xcoverage", false},
		{".coverage", ".coverage2", false},
		{".coverage", "a/.coverage", false},
		{"a/b", "a/b", true},
		{"a/b", "a", false},
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{"\\*", "*", false},
		{"\\*", "\\x", true},
		{"a\nb", "a\nb", true},
	};

	check(samples, ARRAY_SIZE(samples));
}

static void test_one_star_and_question_mark_stay_within_a_component(void **state)
{
	static const struct sample samples[] = {
		{"*", "a", true},
		{"*", "", true},
		{"*", ".hidden", true},
		{"*", "a/b", false},
		{"*/b", "a/b", true},
		{"*/b", "a/a/b", false},
		{"*.log", ".log", true},
		{"*.log", "x.log", true},
		{"*.log", "x.logs", false},
		{"*.log", "d/x.log", false},
		{"a*c*e", "abcde", true},
		{"a*c*e", "ace", true},
		{"a*c*e", "aec", false},
		{"a*b/c*d", "axxb/cd", true},
		{"a*b/c*d", "a/b/cd", false},
		{"?", "a", true},
		{"?", "", false},
		{"?", "/", false},
		{"a?c", "a/c", false},
		{"??", "a", false},
		{"*?", "a", true},
		{"?*", "", false},
	};

	check(samples, ARRAY_SIZE(samples));
}

static void test_two_stars_cross_slashes(void **state)
{
	static const struct sample samples[] = {
		{"**", "", true},
		{"**", "a/b/c", true},
		{"build/**", "build/a", true},
		{"build/**", "build/a/b", true},
		{"build/**", "build", false},
		{"build/**", "builds/a", false},
		{"**/x", "x", true},
		{"**/x", "a/x", true},
		{"**/x", "a/b/x", true},
		{"**/x", "ax", false},
		{"**/x", "a/bx", false},
		{"**/x", "x/a", false},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a/**/b", "a/xb", false},
		{"a/**/b", "ab", false},
		{"a/**/**/b", "a/b", true},
		{"**/*.log", "x.log", true},
		{"**/*.log", "a/b/x.log", true},
		{"**/*.log", "a/b/x.log/y", false},
		{"a**b", "a/x/b", true},
		{"a**b", "ab", true},
		{"a**/b", "a/b", true},
		{"a**/b", "axx/yy/b", true},
		{"a**/b", "ab", false},
		{"***", "a/b", true},
		{"**a*/b", "x/a/a1/b", true},
		{"**/a/*/c", "a/a/a/b/c", true},
		{"**/a/*/c", "a/b/b/c", false},
	};

	check(samples, ARRAY_SIZE(samples));
}

static void test_a_question_mark_is_a_character_and_not_a_byte(void **state)
{
	static const struct sample samples[] = {
		{"?", "\xc3\xa9", true}, /* é */
		{"??", "\xc3\xa9", false},
		{"?", "\xe2\x82\xac", true},     /* € */
		{"?", "\xf0\x9f\x8e\x89", true}, /* beyond 16 bits */
		{"caf?", "caf\xc3\xa9", true},
		{"caf\xc3\xa9", "caf\xc3\xa9", true},
		{"?", "\xff", true}, /* no UTF-8 */
		{"??", "\xc3\xc3", true},
		{"?", "\xc3", true},          /* cut off */
		{"*\xa9", "\xc3\xa9", false}, /* half of a character is not found */
		{"?", "\xf4\x8f\xbf\xbf", true},
		{"\xff\xff\xff\x01", "a", false}, /* and does not turn into a star */
	};

	check(samples, ARRAY_SIZE(samples));
}

/* With backtracking, each of these takes longer than the age of the universe; a hang is how this test fails. */
static void test_hostile_patterns_take_no_time(void **state)
{
	static const char *const units[] = {"*a", "**a", "**/a*", "**/", "*?", "a*/**/"};
	char pattern[GLOB_MAX + 1], path[16384];

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (int slashes = 0; slashes < 2; slashes++) {
		for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
			size_t len = 0, unit = strlen(units[i]);

			for (; len + unit + 1 < sizeof(pattern); len += unit)
				memcpy(pattern + len, units[i], unit);
			pattern[len] = 'b';
			pattern[len + 1] = '\0';
			assert_false(glob_match(pattern, path));
		}
		for (size_t i = 1; i < sizeof(path) - 2; i += 2)
			path[i] = '/';
	}
}

static void test_patterns_beyond_the_cap_match_nothing(void **state)
{
	char pattern[GLOB_MAX + 2];

	memset(pattern, 'a', sizeof(pattern) - 1);
	pattern[GLOB_MAX] = '\0';
	assert_true(glob_match(pattern, pattern));
	pattern[GLOB_MAX] = 'a';
	pattern[GLOB_MAX + 1] = '\0';
	assert_false(glob_match(pattern, pattern));
	memset(pattern, '*', GLOB_MAX + 1);
	assert_false(glob_match(pattern, "a"));
}

/* ---- against the obvious way to do it ---- */

static bool slow_match(const char *p, const char *s, bool at_start)
{
	if (!*p)
		return !*s;
	if (p[0] == '*' && p[1] == '*') {
		const char *rest = p + strspn(p, "*");
		bool dirs = at_start && *rest == '/';

		for (const char *end = s;; end++) {
			bool boundary = end == s ? at_start : end[-1] == '/';
			if ((!dirs || boundary) && slow_match(rest + dirs, end, boundary))
				return true;
			if (!*end)
				return false;
		}
	}
	if (p[0] == '*') {
		for (const char *end = s;; end++) {
			if (slow_match(p + 1, end, false))
				return true;
			if (!*end || *end == '/')
				return false;
		}
	}
	if (!*s || (*p == '?' ? *s == '/' : *p != *s))
		return false;
	return slow_match(p + 1, s + 1, *p == '/');
}

static void random_text(const char *alphabet, size_t letters, char *out, size_t max)
{
	size_t len = (size_t)rand() % max;

	for (size_t i = 0; i < len; i++)
		out[i] = alphabet[(size_t)rand() % letters];
	out[len] = '\0';
}

static void test_agrees_with_a_backtracking_matcher_on_random_patterns(void **state)
{
	char pattern[9], path[10];
	int matched = 0;

	srand(1);
	for (int i = 0; i < 300000; i++) {
		bool expected;

		random_text("ab/*?", 5, pattern, sizeof(pattern));
		random_text("ab/", 3, path, sizeof(path));
		expected = slow_match(pattern, path, true);
		matched += expected;
		if (glob_match(pattern, path) != expected)
			fail_msg("'%s' and '%s'", pattern, path);
	}
	assert_true(matched > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_literal_patterns_match_themselves_only),
		cmocka_unit_test(test_one_star_and_question_mark_stay_within_a_component),
		cmocka_unit_test(test_two_stars_cross_slashes),
		cmocka_unit_test(test_a_question_mark_is_a_character_and_not_a_byte),
		cmocka_unit_test(test_hostile_patterns_take_no_time),
		cmocka_unit_test(test_patterns_beyond_the_cap_match_nothing),
		cmocka_unit_test(test_agrees_with_a_backtracking_matcher_on_random_patterns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
