/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/address.h"

static struct cordon_policy policy;
static struct cordon_error err;
static const char *why;

static int set_up(void **state)
{
	return policy_init(&policy, &err);
}

static int tear_down(void **state)
{
	policy_clear(&policy);
	return 0;
}

static void set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static const struct sockaddr *address(const char *text)
{
	static union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} a;

	memset(&a, 0, sizeof(a));
	if (inet_pton(AF_INET, text, &a.four.sin_addr) == 1)
		a.any.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &a.six.sin6_addr) == 1)
		a.any.sa_family = AF_INET6;
	else
		fail_msg("'%s' is no address", text);
	return &a.any;
}

static bool may(const char *text, uint16_t port)
{
	bool allowed;

	why = "unset";
	allowed = address_allowed(&policy, address(text), port, &why);
	if (allowed)
		assert_null(why);
	else
		assert_true(why && why[0] && !strchr(why, '\n') && strcmp(why, "unset") != 0);
	return allowed;
}

/* ---- what is special ---- */

struct expected {
	const char *address, *why; /* a part of it; NULL: public */
};

static void assert_judged(const struct expected *e, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *is = address_special(address(e[i].address));

		if (!is != !e[i].why || (is && !strstr(is, e[i].why)))
			fail_msg("%s is %s, not %s", e[i].address, is ? is : "public", e[i].why ? e[i].why : "public");
		if (!e[i].why)
			assert_true(may(e[i].address, 443));
		else if (may(e[i].address, 443))
			fail_msg("%s could be reached", e[i].address);
	}
}

/* The first and the last of each block, and their neighbours outside of it. */
static void test_ipv4_blocks_begin_and_end_where_they_should(void **state)
{
	static const struct expected table[] = {
		{"0.0.0.0", "this host"},
		{"0.255.255.255", "this host"},
		{"1.0.0.0", NULL},
		{"9.255.255.255", NULL},
		{"10.0.0.0", "private"},
		{"10.255.255.255", "private"},
		{"11.0.0.0", NULL},
		{"100.63.255.255", NULL},
		{"100.64.0.0", "shared"},
		{"100.127.255.255", "shared"},
		{"100.128.0.0", NULL},
		{"100.100.100.199", "shared"},
		{"100.100.100.200", "metadata"},
		{"126.255.255.255", NULL},
		{"127.0.0.0", "loopback"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.255", "loopback"},
		{"128.0.0.0", NULL},
		{"168.63.129.15", NULL},
		{"168.63.129.16", "metadata"},
		{"168.63.129.17", NULL},
		{"169.253.255.255", NULL},
		{"169.254.0.0", "link-local"},
		{"169.254.169.253", "link-local"},
		{"169.254.169.254", "metadata"},
		{"169.254.255.255", "link-local"},
		{"169.255.0.0", NULL},
		{"172.15.255.255", NULL},
		{"172.16.0.0", "private"},
		{"172.31.255.255", "private"},
		{"172.32.0.0", NULL},
		{"191.255.255.255", NULL},
		{"192.0.0.0", "protocols"},
		{"192.0.0.192", "metadata"},
		{"192.0.0.255", "protocols"},
		{"192.0.1.0", NULL},
		{"192.0.1.255", NULL},
		{"192.0.2.0", "documentation"},
		{"192.0.2.255", "documentation"},
		{"192.0.3.0", NULL},
		{"192.88.98.255", NULL},
		{"192.88.99.0", "reserved"},
		{"192.88.99.255", "reserved"},
		{"192.88.100.0", NULL},
		{"192.167.255.255", NULL},
		{"192.168.0.0", "private"},
		{"192.168.255.255", "private"},
		{"192.169.0.0", NULL},
		{"198.17.255.255", NULL},
		{"198.18.0.0", "benchmark"},
		{"198.18.0.16", "benchmark"},
		{"198.19.255.255", "benchmark"},
		{"198.20.0.0", NULL},
		{"198.51.99.255", NULL},
		{"198.51.100.0", "documentation"},
		{"198.51.100.255", "documentation"},
		{"198.51.101.0", NULL},
		{"203.0.112.255", NULL},
		{"203.0.113.0", "documentation"},
		{"203.0.113.255", "documentation"},
		{"203.0.114.0", NULL},
		{"223.255.255.255", NULL},
		{"224.0.0.0", "multicast"},
		{"239.255.255.255", "multicast"},
		{"240.0.0.0", "reserved"},
		{"255.255.255.254", "reserved"},
		{"255.255.255.255", "broadcast"},
		{"8.8.8.8", NULL},
	};

	assert_judged(table, ARRAY_SIZE(table));
}

static void test_ipv6_blocks_begin_and_end_where_they_should(void **state)
{
	static const struct expected table[] = {
		{"::", "unspecified"},
		{"::1", "loopback"},
		{"::2", "compatible"},
		{"::ffff:ffff", "compatible"},
		{"::1:0:0", "reserved"},
		{"64:ff9a:ffff::1", "reserved"},
		{"64:ff9b:0:0:0:1::", "reserved"}, /* behind the /96 */
		{"64:ff9b:1::", "NAT64"},
		{"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "NAT64"},
		{"64:ff9b:1::8.8.8.8", "NAT64"}, /* a local translator may lead anywhere */
		{"64:ff9b:2::1", "reserved"},
		{"100::", "discard"},
		{"100::ffff:ffff:ffff:ffff", "discard"},
		{"100:0:0:1::", "reserved"},
		{"1fff:ffff::1", "reserved"},
		{"2000::", NULL},
		{"2000:ffff::", NULL},
		{"2001::", "Teredo"},
		{"2001:0:ffff:ffff::1", "Teredo"},
		{"2001:1::1", "protocols"},
		{"2001:20::1", "protocols"}, /* ORCHIDv2 */
		{"2001:1ff:ffff::1", "protocols"},
		{"2001:200::1", NULL},
		{"2001:db7:ffff::1", NULL},
		{"2001:db8::", "documentation"},
		{"2001:db8:ffff::1", "documentation"},
		{"2001:db9::", NULL},
		{"2001:4860:4860::8888", NULL},
		{"2606:4700::1111", NULL},
		{"3ffe:ffff::1", NULL},
		{"3fff::", "documentation"},
		{"3fff:fff:ffff::1", "documentation"},
		{"3fff:1000::1", NULL},
		{"4000::", "reserved"},
		{"5f00::1", "reserved"},
		{"8000::1", "reserved"},
		{"fbff:ffff::1", "reserved"},
		{"fc00::", "unique local"},
		{"fd00:c0::10", "unique local"},
		{"fd00:ec2::253", "unique local"},
		{"fd00:ec2::254", "metadata"},
		{"fd20:ce::254", "metadata"},
		{"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique local"},
		{"fe00::1", "reserved"},
		{"fe7f:ffff::1", "reserved"},
		{"fe80::1", "link-local"},
		{"febf:ffff::1", "link-local"},
		{"fec0::1", "site-local"},
		{"feff:ffff::1", "site-local"},
		{"ff00::", "multicast"},
		{"ff02::1", "multicast"},
	};

	assert_judged(table, ARRAY_SIZE(table));
}

static void test_ipv4_in_ipv6_is_what_it_leads_to(void **state)
{
	static const struct expected table[] = {
		/* mapped */
		{"::ffff:127.0.0.1", "loopback"},
		{"::ffff:10.1.2.3", "private"},
		{"::ffff:169.254.169.254", "metadata"},
		{"::ffff:0.0.0.0", "this host"},
		{"::ffff:8.8.8.8", NULL},
		/* compatible, translated (RFC 2765): nobody has these */
		{"::127.0.0.1", "compatible"},
		{"::8.8.8.8", "compatible"},
		{"::ffff:0:8.8.8.8", "reserved"},
		/* NAT64 */
		{"64:ff9b::127.0.0.1", "loopback"},
		{"64:ff9b::192.168.0.1", "private"},
		{"64:ff9b::169.254.169.254", "metadata"},
		{"64:ff9b::8.8.8.8", NULL},
		/* 6to4 */
		{"2002:7f00:1::1", "loopback"},
		{"2002:a01:203::1", "private"},
		{"2002:a9fe:a9fe::1", "metadata"},
		{"2002:c612:10::1", "benchmark"},
		{"2002:808:808::1", NULL},
		{"2001:ffff:a01:203::1", NULL}, /* … and this is none */
		/* ISATAP */
		{"2600::5efe:127.0.0.1", "loopback"},
		{"2600::200:5efe:10.0.0.1", "private"},
		{"2600:1:2:3:0:5efe:169.254.169.254", "metadata"},
		{"2600::5efe:8.8.8.8", NULL},
		{"2600::100:5efe:10.0.0.1", NULL}, /* only the bit for universal identifiers may be set */
		{"2600::5eff:10.0.0.1", NULL},
		{"fe80::5efe:8.8.8.8", "link-local"},
		/* two at once */
		{"2002:808:808::5efe:10.0.0.1", "private"},
		{"2002:a01:203::5efe:8.8.8.8", "private"},
	};

	assert_judged(table, ARRAY_SIZE(table));
}

static void test_what_is_not_of_the_internet_is_never_reached(void **state)
{
	const struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/run/x/docker.sock"} /* read as IPv6, it would be public */;
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	set("network.outbound", "0.0.0.0/0:443");
	set("network.outbound", "[::/0]:443");
	assert_non_null(address_special((const struct sockaddr *)&local));
	assert_non_null(address_special(&none));
	assert_false(address_allowed(&policy, (const struct sockaddr *)&local, 443, &why));
	assert_false(address_allowed(&policy, &none, 443, &why));
}

/* ---- by policy ---- */

static void test_a_public_address_needs_no_rule_of_its_own(void **state)
{
	assert_true(may("8.8.8.8", 443));
	assert_true(may("2606:4700::1111", 1));
	set("network.outbound", "api.example.com:443");
	assert_true(may("8.8.8.8", 443));
	assert_false(may("10.0.0.1", 443));
}

static void test_a_block_rule_opens_its_addresses_and_ports(void **state)
{
	set("network.outbound", "10.0.0.0/8:443,8443");
	set("network.outbound", "[fd00:1::/32]:443");
	assert_true(may("10.0.0.1", 443));
	assert_true(may("10.255.255.255", 8443));
	assert_true(may("::ffff:10.0.0.1", 443)); /* the same address */
	assert_true(may("fd00:1::5", 443));
	assert_false(may("10.0.0.1", 80));
	assert_false(may("fd00:1::5", 8443));
	assert_false(may("fd00:2::5", 443));
	assert_false(may("192.168.0.1", 443));
	assert_false(may("127.0.0.1", 443));
	assert_false(may("64:ff9b::10.0.0.1", 443)); /* it is another way to get there */
	assert_false(may("2002:a00:1::1", 443));
}

static void test_a_single_address_is_a_block_of_one(void **state)
{
	set("network.outbound", "192.168.7.9:5432");
	set("network.outbound", "127.0.0.1:8080");
	set("network.outbound", "[::1]:8080");
	assert_true(may("192.168.7.9", 5432));
	assert_false(may("192.168.7.8", 5432));
	assert_true(may("127.0.0.1", 8080));
	assert_false(may("127.0.0.2", 8080));
	assert_true(may("::1", 8080));
	assert_false(may("::", 8080));
}

static void test_a_rule_for_everything_names_nothing_special(void **state)
{
	static const char *const special[] = {"127.0.0.1",
	                                      "0.0.0.0",
	                                      "10.0.0.1",
	                                      "169.254.169.254",
	                                      "224.0.0.1",
	                                      "::1",
	                                      "::",
	                                      "fe80::1",
	                                      "fd00::1",
	                                      "ff02::1",
	                                      "::ffff:10.0.0.1",
	                                      "64:ff9b::10.0.0.1",
	                                      "4000::1",
	                                      "2002:a00:1::",
	                                      "2600::5efe:10.0.0.1"};

	set("network.outbound", "0.0.0.0/0:443");
	set("network.outbound", "[::/0]:443");
	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		if (may(special[i], 443))
			fail_msg("%s could be reached", special[i]);
	assert_true(may("8.8.8.8", 443));
}

static void test_the_metadata_service_must_be_named_itself(void **state)
{
	set("network.outbound", "169.254.0.0/16:80");
	assert_true(may("169.254.1.1", 80));
	assert_false(may("169.254.169.254", 80));
	set("network.outbound", "169.254.169.254:80");
	assert_true(may("169.254.169.254", 80));
	assert_false(may("169.254.169.254", 443));
}

static void test_translated_addresses_are_opened_by_their_own_block(void **state)
{
	set("network.outbound", "[64:ff9b::/96]:443");
	set("network.outbound", "[2002:a00::/32]:443");
	set("network.outbound", "[2600::/64]:443");
	assert_true(may("64:ff9b::10.0.0.1", 443));
	assert_false(may("64:ff9b::10.0.0.1", 80));
	assert_true(may("2002:a00:1::1", 443));
	assert_false(may("2002:a01:1::1", 443));
	assert_true(may("2600::5efe:10.0.0.1", 443));
	assert_false(may("2600:0:0:1:0:5efe:10.0.0.1", 443));
}

static void test_deny_wins(void **state)
{
	set("network.outbound", "10.0.0.0/8:443");
	set("network.deny", "10.1.0.0/16");
	set("network.deny", "8.8.0.0/16");
	set("network.deny", "2606:4700::/32");
	assert_true(may("10.2.0.1", 443));
	assert_false(may("10.1.0.1", 443));
	assert_non_null(strstr(why, "network.deny"));
	assert_false(may("::ffff:10.1.0.1", 443));
	assert_false(may("8.8.8.8", 443));
	assert_true(may("8.9.8.8", 443));
	assert_false(may("2606:4700::1111", 443));
	assert_true(may("2606:4701::1111", 443));
}

static void test_deny_sees_through_ipv6(void **state)
{
	set("network.deny", "8.8.0.0/16");
	assert_false(may("::ffff:8.8.8.8", 443));
	assert_false(may("64:ff9b::8.8.8.8", 443));
	assert_false(may("2002:808:808::1", 443));
	assert_false(may("2600::5efe:8.8.8.8", 443));
	assert_true(may("64:ff9b::8.9.8.8", 443));
}

static void test_names_that_are_denied_deny_no_address(void **state)
{
	set("network.deny", "*.example.com");
	set("network.deny", "ads.example");
	assert_true(may("8.8.8.8", 443));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ipv4_blocks_begin_and_end_where_they_should),
		TEST(test_ipv6_blocks_begin_and_end_where_they_should),
		TEST(test_ipv4_in_ipv6_is_what_it_leads_to),
		TEST(test_what_is_not_of_the_internet_is_never_reached),
		TEST(test_a_public_address_needs_no_rule_of_its_own),
		TEST(test_a_block_rule_opens_its_addresses_and_ports),
		TEST(test_a_single_address_is_a_block_of_one),
		TEST(test_a_rule_for_everything_names_nothing_special),
		TEST(test_the_metadata_service_must_be_named_itself),
		TEST(test_translated_addresses_are_opened_by_their_own_block),
		TEST(test_deny_wins),
		TEST(test_deny_sees_through_ipv6),
		TEST(test_names_that_are_denied_deny_no_address),
	};

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
