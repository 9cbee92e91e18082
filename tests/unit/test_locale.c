/* SPDX-License-Identifier: Apache-2.0 */
/* A program that embeds libcordon may have set a locale with a decimal comma; neither JSON nor units may follow it. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

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

static bool set_locale_with_a_decimal_comma(void)
{
	static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (setlocale(LC_ALL, names[i]) && *localeconv()->decimal_point == ',')
			return true;
	return false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_doubles_keep_the_decimal_point),
		cmocka_unit_test(test_units_keep_the_decimal_point),
	};

	if (!set_locale_with_a_decimal_comma()) {
		/* cmocka's own skip() prints "not ok", which meson counts as a failure */
		puts("1..0 # SKIP no locale with a decimal comma is installed");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
