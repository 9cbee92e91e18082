/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "gate/classes.h"
#include "gate/text.h"

static jmp_buf stop;
static int out_of_memory_was;
static struct arena arena;

static void full(struct arena *a, int out_of_memory) __attribute__((noreturn));
static void full(struct arena *a, int out_of_memory)
{
	(void)a;
	out_of_memory_was = out_of_memory;
	longjmp(stop, 1);
}

static int make_arena(void **state)
{
	arena = (struct arena){.limit = (size_t)8 << 20, .fail = full};
	return 0;
}

static int free_arena(void **state)
{
	arena_free(&arena);
	return 0;
}

static void assert_text(struct text t, const char *expected)
{
	char *got = arena_text(&arena, t.s, t.n);
	assert_string_equal(got, expected);
}

/* ---- arena ------------------------------------------------------------------------------------------------------------------- */

static void arena_hands_out_zeroed_memory_and_stops_at_its_limit(void **state)
{
	char *p = arena_alloc(&arena, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	assert_int_equal((uintptr_t)p % sizeof(void *), 0);
	if (setjmp(stop) == 0) {
		for (size_t i = 0; i < 100; i++)
			arena_alloc(&arena, (size_t)1 << 20);
		fail_msg("there is no limit");
	}
	assert_int_equal(out_of_memory_was, 0);
	assert_true(arena.used <= arena.limit);
}

static void lists_in_an_arena_grow_and_keep_what_they_hold(void **state)
{
	int *list = NULL;
	size_t n = 0;
	for (int i = 0; i < 1000; i++)
		ARENA_PUSH(&arena, list, n, i);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(list[i], i);
}

static void maps_find_what_was_put_in_and_nothing_else(void **state)
{
	struct map m = {0};
	for (uintptr_t i = 1; i <= 2000; i++)
		*map_put(&m, &arena, text_of(arena_printf(&arena, "key %zu", (size_t)i))) = (void *)i;
	for (uintptr_t i = 1; i <= 2000; i++)
		assert_ptr_equal(map_get(&m, text_of(arena_printf(&arena, "key %zu", (size_t)i))), (void *)i);
	assert_null(map_get(&m, TEXT("key 0")));
	assert_null(map_get(&m, TEXT("")));
}

/* ---- paths ------------------------------------------------------------------------------------------------------------------- */

static void paths_become_absolute_and_normal(void **state)
{
	static const struct {
		const char *base, *path, *is;
	} cases[] = {
		{"/app", "x", "/app/x"},
		{"/app", "./x//y/.", "/app/x/y"},
		{"/app", "..", "/"},
		{"/app", "../../..", "/"},
		{"/app", "/etc/../usr", "/usr"},
		{"/app", "", "/app"},
		{"/app", "a/../b", "/app/b"},
		{"/", "/", "/"},
		{"/app", "\1/x", "\1/x"},
		{"/app", "x/\1/..", "/app/x"},
		{"/app", "\2", "/app/\2"},
		{"/app", "\1/..", "\1"},
		{"/app", "\1\1/../x", "\1\1/x"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_text(path_resolve(&arena, text_of(cases[i].base), text_of(cases[i].path)), cases[i].is);
}

static void directories_and_names_of_paths_are_as_the_programs_say(void **state)
{
	assert_text(path_dir(TEXT("/a/b")), "/a");
	assert_text(path_dir(TEXT("/a")), "/");
	assert_text(path_dir(TEXT("a")), ".");
	assert_text(path_dir(TEXT("/a/b/")), "/a");
	assert_text(path_base(TEXT("/a/b")), "b");
	assert_text(path_base(TEXT("b")), "b");
	assert_text(path_parent(TEXT("/app/\1")), "/app/\1");
	assert_text(path_parent(TEXT("/app/x")), "/app");
}

/* ---- patterns ---------------------------------------------------------------------------------------------------------------- */

struct pattern_case {
	const char *pattern, *text;
	enum sure is;
};

static void check_patterns(const struct pattern_case *cases, size_t count, enum sure (*match)(const char *, struct text))
{
	int wrong = 0;
	for (size_t i = 0; i < count; i++) {
		enum sure got = match(cases[i].pattern, text_of(cases[i].text));
		if (got != cases[i].is) {
			print_error("%s on \"%s\": %d, not %d\n", cases[i].pattern, cases[i].text, (int)got, (int)cases[i].is);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void patterns_of_paths_stop_at_slashes(void **state)
{
	static const struct pattern_case cases[] = {
		{"/etc", "/etc", YES},
		{"/etc", "/et", NO},
		{"/etc", "/etcx", NO},
		{"/home/*", "/home/x", YES},
		{"/home/*", "/home/x/y", NO},
		{"/home/**", "/home/x/y", YES},
		{"**/.ssh", "/home/x/.ssh", YES},
		{"**/.ssh", "/home/x.ssh", NO},
		{"/a?c", "/abc", YES},
		{"/a?c", "/a/c", NO},
		{"**/a/*/b", "/x/a/y/b", YES},
		{"/*/*/c", "/a/b/c", YES},
	};
	check_patterns(cases, ARRAY_SIZE(cases), pattern_match);
}

static void what_is_not_known_may_match_and_files_that_may_be_meant_do(void **state)
{
	static const struct pattern_case cases[] = {
		{"/etc", "/\1", MAYBE},          {"/etc", "\1", MAYBE}, {"/etc", "/x\1", NO},   {"/home/**", "/home/\1", YES},
		{"/home/*", "/home/\1", MAYBE},  {"/etc", "/\2", YES},  {"/etc", "/e\3c", YES}, {"/etc", "/\3\3\3", YES},
		{"/etc", "/\3\3", NO},           {"/etc", "/x\2", NO},  {"**/id", "/h/\2", NO}, {"**/id", "/h/\1/id", YES},
		{"**/*.pem", "/\1/\2.pem", YES},
	};
	check_patterns(cases, ARRAY_SIZE(cases), pattern_match);
}

static void patterns_of_text_pass_slashes_and_do_not_look_at_case(void **state)
{
	static const struct pattern_case cases[] = {
		{"*drop table*", "x; DROP TABLE y/z", YES},
		{"*drop table*", "drop", NO},
		{"a*b*c", "a/b/c", YES},
		{"exec:*", "EXEC:sh", YES},
		{"*x*", "\1", MAYBE},
		{"", "", YES},
		{"?*", "", NO},
		{"*stratum+*", "-o stratum+tcp://x", YES},
		{"*.tgz", "x.tgz", YES},
		{"*.tgz", "x.tgz.sig", NO},
		{"*a*a*", "ba", NO},
		{"*a*a*", "aa", YES},
	};
	check_patterns(cases, ARRAY_SIZE(cases), pattern_match_text);
}

static void long_texts_and_patterns_end_soon(void **state)
{
	enum { LEN = 100000 };
	char *text = arena_alloc(&arena, LEN);
	for (size_t i = 0; i < LEN; i++)
		text[i] = 'a';
	assert_int_equal(pattern_match_text("*a*a*a*a*a*a*a*a*a*b", (struct text){text, LEN}), NO);
	assert_int_equal(pattern_match("**/a*a*a*a*a*a*b", (struct text){text, LEN}), NO);
}

static void a_pattern_covers_what_it_matches_whatever_is_meant(void **state)
{
	assert_true(pattern_covers("/tmp/**", TEXT("/tmp/\1")));
	assert_false(pattern_covers("/tmp/*", TEXT("/tmp/\1")));
	assert_true(pattern_covers("/tmp/*", TEXT("/tmp/\2")));
	assert_false(pattern_covers("/tmp/x", TEXT("/tmp/\1")));
}

/* ---- classes ----------------------------------------------------------------------------------------------------------------- */

static const char *same(void *data, const char *pattern)
{
	return pattern;
}

static const struct classes *two_classes(void)
{
	static const char *const system[] = {"/etc"}, *const but[] = {"/etc/skel"}, *const keys[] = {"**/.ssh"},
				 *const homes[] = {"/home/*"};
	static const struct gate_class list[] = {
		{.name = "system", .below = {system, 1}, .except = {but, 1}},
		{.name = "keys", .below = {keys, 1}},
		{.name = "homes", .paths = {homes, 1}},
	};
	struct classes *c = ARENA_NEW(&arena, struct classes);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		assert_true(classes_add(c, &arena, &list[i], same, NULL));
	classes_index(c, &arena);
	return c;
}

static void a_path_is_in_the_classes_that_name_it_or_what_is_above(void **state)
{
	const struct classes *c = two_classes();
	assert_int_equal(class_find(c, "keys"), 1);
	assert_int_equal(class_find(c, "x"), -1);
	assert_int_equal(classes_of(c, TEXT("/etc/passwd"), true).yes, 1);
	assert_int_equal(classes_of(c, TEXT("/etc"), true).yes, 1);
	assert_int_equal(classes_of(c, TEXT("/etcx"), true).yes, 0);
	assert_int_equal(classes_of(c, TEXT("/etc/skel/x"), true).yes, 0);
	assert_int_equal(classes_of(c, TEXT("/home/x/.ssh/id"), true).yes, 2);
	assert_int_equal(classes_of(c, TEXT("/etc/.ssh/id"), true).yes, 3);
}

static void a_path_that_is_not_known_is_perhaps_in_classes(void **state)
{
	const struct classes *c = two_classes();
	assert_int_equal(classes_of(c, TEXT("\1"), true).maybe, 7);
	assert_int_equal(classes_of(c, TEXT("/srv/\1"), true).maybe, 2);
	assert_int_equal(classes_of(c, TEXT("/srv/\1"), false).maybe, 0);
	assert_int_equal(classes_of(c, TEXT("/\2"), true).yes, 1);
	assert_int_equal(classes_of(c, TEXT("/home/\2"), true).yes, 4);
	assert_int_equal(classes_of(c, TEXT("/srv/\1/.ssh"), false).yes, 2);
}

static uint64_t seed = 88172645463325252u;

static size_t below(size_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (size_t)(seed >> 20) % n;
}

static size_t made_up(char *to, size_t most, const char *letters)
{
	size_t n = below(most);
	for (size_t i = 0; i < n; i++)
		to[i] = letters[below(strlen(letters))];
	to[n] = '\0';
	return n;
}

/* What is left out by a look at letters, or because only certainty counts, is what a comparison would have said. */
static void a_short_cut_says_what_the_long_way_says(void **state)
{
	size_t certain = 0, possible = 0;
	for (size_t i = 0; i < 200000; i++) {
		char pattern[16], bytes[16];
		made_up(pattern, 9, "ab/*?A*");
		struct text t = {bytes, made_up(bytes, 9, i % 2 ? "abA/" : "ab\1\2\3/A")};
		bool miss = letters_miss(pattern_letters(pattern), text_letters(t));
		enum sure path = pattern_match(pattern, t), text = pattern_match_text(pattern, t);
		assert_int_equal(pattern_match_certain(pattern, t), path == YES);
		if (miss && text_known(t))
			assert_int_equal(text, NO);
		if (miss && (text_known(t) || text_marks(t) & MARKS_DYNAMIC))
			assert_int_not_equal(path, YES);
		if (miss)
			assert_false(pattern_covers(pattern, t));
		certain += path == YES;
		possible += path == MAYBE;
	}
	assert_true(certain > 2000 && possible > 2000);
	/* and it does leave out what has nothing in common */
	assert_true(letters_miss(pattern_letters("*.ssh/*"), text_letters(TEXT("/app/build/main.o"))));
	assert_false(letters_miss(pattern_letters("*.SSH/*"), text_letters(TEXT("/home/u/.ssh/id"))));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)
	const struct CMUnitTest tests[] = {
		TEST(arena_hands_out_zeroed_memory_and_stops_at_its_limit),
		TEST(lists_in_an_arena_grow_and_keep_what_they_hold),
		TEST(maps_find_what_was_put_in_and_nothing_else),
		TEST(paths_become_absolute_and_normal),
		TEST(directories_and_names_of_paths_are_as_the_programs_say),
		TEST(patterns_of_paths_stop_at_slashes),
		TEST(what_is_not_known_may_match_and_files_that_may_be_meant_do),
		TEST(patterns_of_text_pass_slashes_and_do_not_look_at_case),
		TEST(long_texts_and_patterns_end_soon),
		TEST(a_pattern_covers_what_it_matches_whatever_is_meant),
		TEST(a_short_cut_says_what_the_long_way_says),
		TEST(a_path_is_in_the_classes_that_name_it_or_what_is_above),
		TEST(a_path_that_is_not_known_is_perhaps_in_classes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
