/* SPDX-License-Identifier: Apache-2.0 */
/* A program that embeds libcordon may have set a locale with a decimal comma; neither JSON nor units may follow it. */
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"

static void test_json_doubles_keep_the_decimal_point(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_double(&j, 1.5);
	assert_string_equal(b.data, "1.5");
}

static void test_units_keep_the_decimal_point(void **state)
{
	uint64_t bytes = 0;
	char buf[32];

	assert_int_equal(units_parse_size("1.5K", &bytes, NULL), 0);
	assert_int_equal(bytes, 1536);
	assert_int_equal(units_parse_size("1,5K", &bytes, NULL), -1);
	assert_string_equal(units_format_size(1536, buf), "1.5K");
}

static bool has_decimal_comma(const char *name)
{
	return setlocale(LC_ALL, name) && *localeconv()->decimal_point == ',';
}

/* Compiled into a directory of our own, so that the machine's locales do not matter; Debian's package `locales` has the source. */
static bool make_locale(char *dir)
{
	extern char **environ;
	char out[64], program[] = "localedef", i[] = "-i", source[] = "de_DE", f[] = "-f", charset[] = "UTF-8";
	char *const argv[] = {program, i, source, f, charset, out, NULL};
	pid_t pid;
	int status = -1;

	if (!mkdtemp(dir))
		return false;
	snprintf(out, sizeof(out), "%s/de_DE.UTF-8", dir);
	setenv("LOCPATH", dir, 1);
	return posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0 &&
	       has_decimal_comma("de_DE.UTF-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_doubles_keep_the_decimal_point),
		cmocka_unit_test(test_units_keep_the_decimal_point),
	};
	char dir[] = "/tmp/cordon-locale-XXXXXX";
	bool made = make_locale(dir);
	int result = 0;

	if (made)
		result = cmocka_run_group_tests(tests, NULL, NULL);
	else /* cmocka's own skip() prints "not ok", which meson counts as a failure */
		puts("1..0 # SKIP localedef cannot make de_DE.UTF-8 (package locales)");
	fs_remove_tree(AT_FDCWD, dir, NULL);
	return result;
}
