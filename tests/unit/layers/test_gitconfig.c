/* SPDX-License-Identifier: Apache-2.0 */
/* git's configuration files, read as git reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "layers/gitconfig.h"

static int add_text(void *arg, const struct git_setting *s, struct cordon_error *err)
{
	char *out = arg;
	size_t len = strlen(out);
	snprintf(out + len, 512 - len, "%s.%s=%s|", s->section, s->key, s->value);
	return 0;
}

static void test_configurations_are_read_as_git_reads_them(void **state)
{
	struct cordon_error e = {0};
	static const struct {
		const char *text, *settings;
	} cases[] = {
		{"", ""},
		{"[a]\nb=c", "a.b=c|"},
		{"\xef\xbb\xbf[A]\r\n  B-2 = c d  \r\n", "a.b-2=c d|"},
		{"[a] b = c # d\n;x\n#y\n[e]f", "a.b=c|e.f=|"},
		{"[a \"x ] \\\" y\"] b=1\n[a.Sub.s] c=2\n", "a.b=1|a.c=2|"},
		{"[a]\nb = \" c;#\" \"d\"\n", "a.b= c;# d|"},
		{"[a]\nb = x\\\n  y\\tz\\\\\\\"\n", "a.b=x  y\tz\\\"|"},
		{"[a]\nb = \\q\nc = \"open\nd = ok\n", "a.d=ok|"},
		{"[a\nb = 1\n[c] d = 2\n", ".b=1|c.d=2|"},
		{"[a]\nb c = 1\n= 2\nd = 3\\", "a.d=3|"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char out[512] = "";
		assert_int_equal(git_config_parse(cases[i].text, strlen(cases[i].text), add_text, out, &e), 0);
		assert_string_equal(out, cases[i].settings);
	}
}

static int stop_at_second(void *arg, const struct git_setting *s, struct cordon_error *err)
{
	return ++*(int *)arg == 2 ? 7 : 0;
}

static void test_reading_ends_when_it_is_told_to(void **state)
{
	static const char text[] = "[a]\nb = 1\nc = 2\nd = 3\n";
	struct cordon_error e = {0};
	int calls = 0;
	assert_int_equal(git_config_parse(text, strlen(text), stop_at_second, &calls, &e), 7);
	assert_int_equal(calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_configurations_are_read_as_git_reads_them),
		cmocka_unit_test(test_reading_ends_when_it_is_told_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
