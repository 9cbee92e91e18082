/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes: what they say, and which line is wrong; and the commands that are made of them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/build.h"

static char dir[64];

static int set_up(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/test-recipe.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return fs_remove_tree(AT_FDCWD, dir, NULL);
}

static const char *put(const char *name, const char *text, char path[128])
{
	snprintf(path, 128, "%s/%s", dir, name);
	unlink(path);
	assert_int_equal(fs_write_file(AT_FDCWD, path, text, strlen(text), 0644, NULL), 0);
	return path;
}

static void test_everything_that_a_recipe_can_say(void **state)
{
	(void)state;
	_cleanup_recipe_ struct recipe r = {0};
	struct cordon_error err = {0};
	char path[128];
	put("all",
	    "# a comment\r\n"
	    "summary: a thing: it has a colon\n"
	    "\n"
	    "suite: bookworm\n  variant :  minbase  \n"
	    "packages: python3-pip, git  g++\npackages: git libc6:arm64 curl=8.1\n"
	    "pip: numpy uv>=0.4\nuser: app:1000\nworkdir: /app\n"
	    "env: A=b c\nenv: B=\npreload: numpy os.path\n"
	    "run: echo a: b\nrun: ls\n",
	    path);
	assert_int_equal(recipe_read(path, &r, &err), 0);
	assert_string_equal(r.name, "all");
	assert_string_equal(r.summary, "a thing: it has a colon");
	assert_string_equal(r.suite, "bookworm");
	assert_string_equal(r.variant, "minbase");
	assert_int_equal(r.packages.count, 5);
	assert_string_equal(r.packages.items[4], "curl=8.1");
	assert_int_equal(r.pip.count, 2);
	assert_string_equal(r.user, "app:1000");
	assert_string_equal(r.workdir, "/app");
	assert_int_equal(r.env.count, 2);
	assert_int_equal(r.preload.count, 2);
	assert_int_equal(r.run.count, 2);
	assert_string_equal(r.run.items[0], "echo a: b");
}

static void test_the_line_that_is_wrong_is_named(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"package: git\n", "1: unknown key 'package' (did you mean packages?)"},
		{"suite: bookworm\nwhat\n", "2: 'what' is not of the form key: value"},
		{"packages: git --danger\n", "'--danger' is not names of packages"},
		{"packages: a;b\n", "is not names of packages"},
		{"packages:\n", "packages: there is no value"},
		{"pip: --index-url=x\n", "pip: '--index-url=x'"},
		{"variant: extract\n", "variant: 'extract' is not one of essential, apt"},
		{"user: Root\n", "user: 'Root'"},
		{"user: app:0\n", "user: 'app:0'"},
		{"user: app:70000\n", "user: 'app:70000'"},
		{"workdir: app\n", "workdir: 'app'"},
		{"workdir: /a/../b\n", "workdir: '/a/../b'"},
		{"env: 1=2\n", "env: '1=2'"},
		{"env: A\n", "env: 'A'"},
		{"preload: a-b\n", "preload: 'a-b'"},
		{"suite: -x\n", "suite: '-x'"},
		{"include: ../x\n", "include: '../x' is not the name of a recipe"},
		{"include: nothing-of-that-name\n", "there is no recipe"},
		{"include: wrong\n", "more than 8 deep"},
		{"pip: numpy\n", "needs the package python3-pip"},
	};
	char path[128];
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct recipe r;
		struct cordon_error err = {0};
		put("wrong", wrong[i].text, path);
		assert_int_equal(recipe_read(path, &r, &err), -1);
		if (!strstr(err.message, wrong[i].says))
			fail_msg("'%s' instead of '%s'", err.message, wrong[i].says);
	}
}

static void test_a_recipe_that_is_none(void **state)
{
	(void)state;
	struct recipe r;
	struct cordon_error err = {0};
	char path[128];
	assert_int_equal(recipe_read(dir, &r, &err), -1);
	assert_non_null(strstr(err.message, "is not a recipe"));
	snprintf(path, sizeof(path), "%s/nul", dir);
	assert_int_equal(fs_write_file(AT_FDCWD, path, "a\0b", 3, 0644, NULL), 0);
	assert_int_equal(recipe_read(path, &r, &err), -1);
	assert_non_null(strstr(err.message, "NUL"));
	snprintf(path, sizeof(path), "%s/none", dir);
	assert_int_equal(recipe_read(path, &r, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
}

static void test_an_included_recipe_comes_first(void **state)
{
	(void)state;
	_cleanup_recipe_ struct recipe r = {0};
	char path[128];
	put("below", "summary: below\npackages: git\nworkdir: /a\n", path);
	put("above", "summary: above\ninclude: below\npackages: curl\nworkdir: /b\n", path);
	assert_int_equal(recipe_read(path, &r, NULL), 0);
	assert_string_equal(r.summary, "below"); /* the later line counts */
	assert_string_equal(r.workdir, "/b");
	assert_int_equal(r.packages.count, 2);
	assert_string_equal(r.packages.items[0], "git");
}

static void test_the_command_of_a_recipe(void **state)
{
	(void)state;
	_cleanup_recipe_ struct recipe r = {0};
	struct strlist argv = {0}, env = {0};
	struct cordon_error err = {0};
	char path[128];
	put("x", "suite: some-other\npackages: git curl\nrun: a\nrun: b c\nuser: app\n", path);
	assert_int_equal(recipe_read(path, &r, NULL), 0);
	assert_int_equal(build_command(BUILD_UNSHARE, &r, "-", &argv, &err), 0);
	assert_string_equal(argv.items[0], "mmdebstrap");
	assert_true(strlist_has(&argv, "--mode=unshare"));
	assert_true(strlist_has(&argv, "--include=git,curl"));
	assert_string_equal(argv.items[argv.count - 2], "some-other"); /* no sources of this machine for another release */
	assert_string_equal(argv.items[argv.count - 1], "-");
	strlist_free(&argv);
	assert_int_equal(build_command(BUILD_DEBOOTSTRAP, &r, "/t", &argv, &err), 0);
	assert_string_equal(argv.items[0], "debootstrap");
	assert_string_equal(argv.items[argv.count - 1], "/t");
	strlist_free(&argv);
	setenv("RECIPE_PIP", "from outside", 1);
	assert_int_equal(build_environment(&r, "/f", "/t", &env, &err), 0);
	assert_true(strlist_has(&env, "RECIPE_RUN=a\nb c"));
	assert_true(strlist_has(&env, "RECIPE_USER=app"));
	assert_true(strlist_has(&env, "RECIPE_FINISH=/f"));
	assert_true(strlist_has(&env, "TMPDIR=/t"));
	assert_false(strlist_has(&env, "RECIPE_PIP=from outside"));
	strlist_free(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_everything_that_a_recipe_can_say, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_line_that_is_wrong_is_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_recipe_that_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_an_included_recipe_comes_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_command_of_a_recipe, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
