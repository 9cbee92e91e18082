/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/host.h"

static struct cordon_error err;

static void assert_canonical(const char *text, const char *expected)
{
	_cleanup_free_ char *host = host_canonical(text, HOST_ANY, &err);

	if (!host)
		fail_msg("'%s' was refused: %s", text, err.message);
	assert_string_equal(host, expected);
	_cleanup_free_ char *again = host_canonical(host, HOST_ANY, &err);
	assert_non_null(again);
	assert_string_equal(again, expected); /* one form: it is its own */
}

static void assert_refused(const char *text, unsigned kinds)
{
	err = (struct cordon_error){0};
	_cleanup_free_ char *host = host_canonical(text, kinds, &err);

	if (host)
		fail_msg("'%s' became '%s'", text, host);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_true(err.message[0]);
}

static bool matches(const char *pattern, const char *host)
{
	struct host_target target;
	_cleanup_free_ char *canonical = host_canonical(pattern, HOST_ANY, &err);

	assert_non_null(canonical);
	assert_int_equal(host_target_parse(host, &target, &err), 0);
	return host_matches(canonical, &target);
}

/* ---- tests ---- */

static void test_each_host_has_one_form(void **state)
{
	assert_canonical("api.openai.com", "api.openai.com");
	assert_canonical("API.OpenAI.com", "api.openai.com");
	assert_canonical("api.openai.com.", "api.openai.com");
	assert_canonical("*.GitHub.com", "*.github.com");
	assert_canonical("db", "db");
	assert_canonical("_dmarc.example.com", "_dmarc.example.com");
	assert_canonical("xn--bcher-kva.example", "xn--bcher-kva.example");
	assert_canonical("1password.com", "1password.com");
	assert_canonical("10.0.0.0/8", "10.0.0.0/8");
	assert_canonical("192.168.1.7", "192.168.1.7/32");
	assert_canonical("FD00::/8", "fd00::/8");
	assert_canonical("2001:DB8:0:0::1", "2001:db8::1/128");
	assert_canonical("::ffff:10.0.0.0/104", "10.0.0.0/8");
	assert_canonical("::ffff:1.2.3.4", "1.2.3.4/32");
	assert_canonical("0.0.0.0/0", "0.0.0.0/0");
}

static void test_what_is_no_host_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",           ".",          "..",          "a..b",       ".a",       "a.b..",     "-a.b",        "a-.b",
		"a b",        "a,b",        "a\tb",        "a\nb",       "*",        "*.",        "**.a",        "a.*",
		"*a.b",       "*.*.a",      "https://a.b", "a.b/c",      "a.b:443",  "user@a.b",  "[::1]",       "b\u00fccher.example",
		"\xff.a",     "a%2eb",      "a\\b",        "(a)",        "127.1",    "0x7f.1",    "0x7f000001",  "2130706433",
		"1.2.3.4.5",  "256.1.1.1",  "01.2.3.4",    "1.2.3",      "a.0x1",    "example.1", "10.0.0.0/33", "10.0.0.0/",
		"10.0.0.0/x", "10.0.0.1/8", "fd00::1/8",   "fd00::/129", "::1%eth0", "localhost", "x.localhost", "*.localhost",
		"localhost.",
	};
	char long_label[80], long_name[300];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_refused(wrong[i], HOST_ANY);
	memset(long_label, 'a', sizeof(long_label));
	long_label[64] = '\0';
	assert_refused(long_label, HOST_ANY);
	long_label[63] = '\0';
	assert_canonical(long_label, long_label);
	for (size_t i = 0; i < sizeof(long_name); i++)
		long_name[i] = i % 10 == 9 ? '.' : 'a';
	long_name[254] = '\0';
	assert_refused(long_name, HOST_ANY);
	long_name[253] = '\0';
	assert_canonical(long_name, long_name);
}

static void test_the_message_helps(void **state)
{
	assert_refused("b\u00fccher.example", HOST_ANY);
	assert_non_null(strstr(err.hint, "punycode"));
	assert_refused("https://api.example.com/v1", HOST_ANY);
	assert_non_null(strstr(err.hint, "host of this URL"));
	assert_refused("api.example.com:443", HOST_ANY);
	assert_non_null(strstr(err.hint, "port"));
	assert_refused("10.1.2.3/8", HOST_ANY);
	assert_string_equal(err.hint, "did you mean 10.0.0.0/8?");
	assert_refused("localhost", HOST_ANY);
	assert_non_null(strstr(err.message, "network.localhost"));
}

static void test_kinds_can_be_left_out(void **state)
{
	assert_refused("10.0.0.0/8", HOST_NAME | HOST_SUFFIX);
	assert_refused("1.2.3.4", HOST_NAME);
	assert_refused("*.a.b", HOST_NAME | HOST_BLOCK);
	assert_refused("a.b", HOST_BLOCK);
}

static void test_names_match_themselves_and_suffixes_what_is_below(void **state)
{
	assert_true(matches("github.com", "github.com"));
	assert_true(matches("github.com", "GITHUB.com."));
	assert_false(matches("github.com", "api.github.com"));
	assert_false(matches("github.com", "evilgithub.com"));
	assert_true(matches("*.github.com", "api.github.com"));
	assert_true(matches("*.github.com", "a.b.github.com"));
	assert_false(matches("*.github.com", "github.com"));
	assert_false(matches("*.github.com", "evilgithub.com"));
	assert_false(matches("*.github.com", "github.com.evil.example"));
}

static void test_addresses_match_blocks_and_never_names(void **state)
{
	assert_true(matches("10.0.0.0/8", "10.255.0.1"));
	assert_false(matches("10.0.0.0/8", "11.0.0.1"));
	assert_true(matches("10.1.2.128/25", "10.1.2.200"));
	assert_false(matches("10.1.2.128/25", "10.1.2.127"));
	assert_true(matches("10.0.0.0/8", "::ffff:10.1.1.1"));
	assert_true(matches("0.0.0.0/0", "8.8.8.8"));
	assert_false(matches("0.0.0.0/0", "2001:db8::1"));
	assert_false(matches("::/0", "8.8.8.8"));
	assert_true(matches("fd00::/8", "fdff::1"));
	assert_false(matches("fd00::/8", "fe80::1"));
	assert_false(matches("a.b", "1.2.3.4"));
	assert_false(matches("1.2.3.4", "a.b"));
}

/* A resolver would cut the name at the NUL; here it cannot even be written, and what is near it is refused. */
static void test_targets_are_checked_like_hosts(void **state)
{
	static const char *const wrong[] = {"",      "evil.example ", "evil.example/", "evil.example#.google.com",
	                                    "127.1", "0177.0.0.1",    "a..b",          "*.a"};
	struct host_target target;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(host_target_parse(wrong[i], &target, &err), -1);
	assert_int_equal(host_target_parse("EXAMPLE.com.", &target, &err), 0);
	assert_string_equal(target.name, "example.com");
	assert_false(target.is_address);
	assert_int_equal(host_target_parse("::FFFF:127.0.0.1", &target, &err), 0);
	assert_string_equal(target.name, "127.0.0.1");
	assert_true(target.is_address);
}

static void test_loopback_is_known_by_all_its_names(void **state)
{
	static const char *const loopback[] = {"localhost", "LOCALHOST.", "a.localhost",     "127.0.0.1",
	                                       "127.9.9.9", "::1",        "::ffff:127.0.0.1"};
	static const char *const other[] = {"notlocalhost", "localhost.example", "128.0.0.1", "::2", "10.0.0.1"};
	struct host_target target;

	for (size_t i = 0; i < ARRAY_SIZE(loopback); i++) {
		assert_int_equal(host_target_parse(loopback[i], &target, &err), 0);
		assert_true(host_is_loopback(&target));
	}
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		assert_int_equal(host_target_parse(other[i], &target, &err), 0);
		assert_false(host_is_loopback(&target));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_host_has_one_form),
		cmocka_unit_test(test_what_is_no_host_is_refused),
		cmocka_unit_test(test_the_message_helps),
		cmocka_unit_test(test_kinds_can_be_left_out),
		cmocka_unit_test(test_names_match_themselves_and_suffixes_what_is_below),
		cmocka_unit_test(test_addresses_match_blocks_and_never_names),
		cmocka_unit_test(test_targets_are_checked_like_hosts),
		cmocka_unit_test(test_loopback_is_known_by_all_its_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
