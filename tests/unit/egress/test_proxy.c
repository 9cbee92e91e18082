/* SPDX-License-Identifier: Apache-2.0 */
/* The host's proxy: how it is written, what it is asked, and for whom it is not asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/util.h"
#include "egress/proxy.h"

static struct proxy proxy;
static struct cordon_error err;

static int tear_down(void **state)
{
	(void)state;
	proxy_clear(&proxy);
	return 0;
}

static void test_urls_with_and_without_a_scheme(void **state)
{
	static const char *const urls[] = {"http://proxy.example:3128", "proxy.example:3128", "HTTP://proxy.example:3128/",
	                                   "http://me:p%40ss@proxy.example:3128", "me:p%40ss@proxy.example:3128/"};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct host_target t;
		if (proxy_parse(urls[i], NULL, &proxy, &err) < 0)
			fail_msg("%s: %s", urls[i], err.message);
		assert_string_equal(proxy.host.name, "proxy.example");
		assert_int_equal(proxy.port, 3128);
		assert_int_equal(host_target_parse("api.example", &t, NULL), 0);
		proxy_request(&proxy, &t, 443, &b);
		assert_non_null(strstr(b.data, "CONNECT api.example:443 HTTP/1.1\r\n"));
		assert_int_equal(strstr(b.data, "Basic bWU6cEBzcw==\r\n") != NULL, strchr(urls[i], '@') != NULL);
		proxy_clear(&proxy);
	}
}

static void test_others_are_refused_without_their_password(void **state)
{
	static const char *const urls[] = {"socks5://me:secret@proxy.example:1080",
	                                   "https://me:secret@proxy.example:3128",
	                                   "http://me:secret@proxy.example",
	                                   "http://me:secret@proxy.example:0",
	                                   "http://me:secret@proxy.example:3128/path",
	                                   "http://me:%zz@proxy.example:3128",
	                                   "://a:1",
	                                   ""};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		err = (struct cordon_error){0};
		assert_int_equal(proxy_parse(urls[i], "*", &proxy, &err), -1);
		assert_null(strstr(err.message, "secret"));
		assert_null(proxy.except);
	}
}

static bool passed_by(const char *list, const char *target)
{
	struct host_target t;
	assert_int_equal(host_target_parse(target, &t, NULL), 0);
	assert_int_equal(proxy_parse("proxy.example:3128", list, &proxy, &err), 0);
	const bool r = proxy_is_passed_by(&proxy, &t);
	proxy_clear(&proxy);
	return r;
}

static void test_hosts_that_are_reached_without_it(void **state)
{
	static const struct {
		const char *list, *target;
		bool direct;
	} cases[] = {
		{NULL, "a.example", false},
		{"", "a.example", false},
		{" , ,", "a.example", false},
		{"*", "a.example", true},
		{"*", "10.0.0.1", true},
		{"b.example,a.example", "a.example", true},
		{"b.example a.example", "a.example", true},
		{"A.Example.", "a.example", true},
		{"example", "a.example", true},
		{".example", "a.example", true},
		{".a.example", "a.example", true},
		{"a.example", "x.a.example", true},
		{"a.example", "xa.example", false},
		{"x.a.example", "a.example", false},
		{"*.example", "a.example", false},
		{".", "a.example", false},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.0/8", "10.9.9.9", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.0.0.0/99", "10.0.0.1", false},
		{"10.0.0.0/8", "a.example", false},
		{"2620:fe::/48", "2620:fe::1", true},
		{"[2620:fe::1]", "2620:fe::1", true},
		{"[2620:fe::1]", "2620:fe::2", false},
		{"0.0.1", "10.0.0.1", false},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (passed_by(cases[i].list, cases[i].target) != cases[i].direct)
			fail_msg("'%s' and %s", cases[i].list ? cases[i].list : "(null)", cases[i].target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_urls_with_and_without_a_scheme, tear_down),
		cmocka_unit_test_teardown(test_others_are_refused_without_their_password, tear_down),
		cmocka_unit_test_teardown(test_hosts_that_are_reached_without_it, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
