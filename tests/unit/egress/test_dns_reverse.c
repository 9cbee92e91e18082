/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dns_fixture.h"

/* ---- addresses backwards ---- */

#define ZEROS "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0."

static void assert_pointer(const char *to)
{
	char name[NS_MAXDNAME];

	assert_true(got.rcode == NOERROR && got.has_answer && ns_rr_type(got.answer) == ns_t_ptr);
	assert_true(dn_expand(ns_msg_base(got.msg), ns_msg_end(got.msg), ns_rr_rdata(got.answer), name, sizeof(name)) ==
	            ns_rr_rdlen(got.answer));
	assert_string_equal(name, to);
	assert_int_equal(said.count, 0);
}

static void test_a_names_address_has_the_name(void **state)
{
	said.name = "api.example.com";
	assert_answered(BYTES(HEAD "\00252\00218\00218\003198\7in-addr\4arpa\0"
	                           "\0\x0c" IN),
	                BYTES(ID "\x85\x80\0\1\0\1\0\0\0\0"
	                         "\00252\00218\00218\003198\7in-addr\4arpa\0"
	                         "\0\x0c" IN "\xc0\x0c\0\x0c\0\1\0\0\0\x1e\0\x11" API));
	query("4.3.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa", ns_t_ptr);
	assert_pointer("api.example.com");
	query("4.3.2.1." ZEROS "0.C.0.0.0.0.D.F.IP6.Arpa", ns_t_ptr);
	assert_pointer("api.example.com");
	query("52.18.18.198.in-addr.arpa", ns_t_any);
	assert_pointer("api.example.com");
	query("52.18.18.198.in-addr.arpa", ns_t_a);
	assert_no_data();
	assert_int_equal(said.count, 0);
}

static void test_loopback_addresses_are_localhost(void **state)
{
	query("1.0.0.127.in-addr.arpa", ns_t_ptr);
	assert_pointer("localhost");
	query("1.0.0.0." ZEROS "0.0.0.0.0.0.0.0.ip6.arpa", ns_t_ptr);
	assert_pointer("localhost");
}

static void test_the_airlocks_other_addresses_have_no_name_and_nobody_is_asked(void **state)
{
	static const char *const names[] = {
		"1.0.18.198.in-addr.arpa",
		"15.0.18.198.in-addr.arpa",
		"53.18.18.198.in-addr.arpa",
		"253.255.19.198.in-addr.arpa",
		"255.255.18.198.in-addr.arpa",
		"1.0.0.0." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
		"5.3.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
		"1.0.0.0." ZEROS "1.c.0.0.0.0.d.f.ip6.arpa",
	};

	said.name = "api.example.com";
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(query(names[i], ns_t_ptr), NXDOMAIN);
		assert_int_equal(said.count, 0);
	}
}

/* Whoever asks, and whatever rules there are: *.arpa opens nothing. */
static void test_other_addresses_have_no_name(void **state)
{
	static const char *const names[] = {
		"8.8.8.8.in-addr.arpa",
		"4.3.2.1." ZEROS "1.c.0.0.0.0.d.e.ip6.arpa",
		/* no addresses, or not as they are written */
		"in-addr.arpa",
		"ip6.arpa",
		"18.198.in-addr.arpa",
		"052.18.18.198.in-addr.arpa",
		"52.18.18.198.1.in-addr.arpa",
		"308.18.18.198.in-addr.arpa",
		"52.18.18.0198.in-addr.arpa",
		"x.52.18.18.198.in-addr.arpa",
		"0x34.18.18.198.in-addr.arpa",
		"52-18.18.198.in-addr.arpa",
		"1.18.18.1198.in-addr.arpa",
		"4.3.2.1." ZEROS "0.c.0.0.0.0.d.f.0.ip6.arpa",
		"d.f.ip6.arpa",
		"4.3.2.1.0." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
		"3.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
		"g.3.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
		"43.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa",
	};

	said.name = "api.example.com";
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (query(names[i], ns_t_ptr) != NXDOMAIN)
			fail_msg("%s exists", names[i]);
		assert_int_equal(said.count, 1);
		assert_false(said.last.is_host);
	}
	query("notin-addr.arpa", ns_t_ptr); /* this is one like others */
	assert_no_data();
	assert_true(said.last.is_host);
}

static void test_the_longest_name_of_an_address_fits(void **state)
{
	char name[253 + 1];
	uint8_t q[512] = HEAD_EDNS;
	size_t len = 12 + put_name(q + 12, "4.3.2.1." ZEROS "0.c.0.0.0.0.d.f.ip6.arpa");
	size_t n;

	memset(name, 'x', sizeof(name) - 1);
	name[63] = name[127] = name[191] = '.';
	name[253] = '\0';
	said.name = name;
	memcpy(q + len, "\0\x0c\0\1" OPT_RECORD, 15);
	n = dns_answer(q, len + 15, &from, out);
	assert_int_equal(n, 12 + 74 + 4 + 12 + 255 + 11);
	assert_true(dns_read(out, n, &got));
	assert_pointer(name);
}

/* names_of() does not say such things, but what if: */
static void test_a_name_that_is_none_is_not_written(void **state)
{
	static char longest[300];
	const char *const names[] = {"", ".", "a..b", "a.", longest};

	memset(longest, 'x', sizeof(longest) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		said.name = names[i];
		assert_int_equal(query("52.18.18.198.in-addr.arpa", ns_t_ptr), SERVFAIL);
	}
	for (size_t i = 63; i < sizeof(longest) - 1; i += 64)
		longest[i] = '.';
	said.name = longest;
	assert_int_equal(query("52.18.18.198.in-addr.arpa", ns_t_ptr), SERVFAIL);
	longest[254] = '\0'; /* one more than the longest */
	assert_int_equal(query("52.18.18.198.in-addr.arpa", ns_t_ptr), SERVFAIL);
}

/* ---- with the table of names ---- */

static struct names *table;

static enum dns_verdict ask_table(void *arg, const struct dns_question *q, uint32_t *number)
{
	*number = names_number(table, q->name, 0);
	return *number ? DNS_NUMBER : DNS_BUSY;
}

static const char *name_in_table(void *arg, uint32_t number)
{
	return names_of(table, number);
}

static void test_names_go_to_addresses_and_back(void **state)
{
	static const char *const names[] = {"api.example.com", "a.b.c.d.e.f", "db", "_x.example"};
	uint8_t address[4];
	char reverse[64];

	table = names_new(3);
	assert_non_null(table);
	from = (struct dns_source){.ask = ask_table, .name_of = name_in_table};
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(query(names[i], ns_t_a), NOERROR);
		memcpy(address, ns_rr_rdata(got.answer), 4);
		assert_string_equal(names_of(table, names_number_of4(address)), names[i]);
		snprintf(reverse, sizeof(reverse), "%u.%u.%u.%u.in-addr.arpa", address[3], address[2], address[1], address[0]);
		query(reverse, ns_t_ptr);
		assert_pointer(names[i]);
		query(names[i], ns_t_aaaa);
		assert_int_equal(names_number_of6(ns_rr_rdata(got.answer)), names_number_of4(address));
	}
	assert_int_equal(query(names[3], ns_t_a), SERVFAIL); /* there is no room */
	names_free(table);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_names_address_has_the_name),
		TEST(test_loopback_addresses_are_localhost),
		TEST(test_the_airlocks_other_addresses_have_no_name_and_nobody_is_asked),
		TEST(test_other_addresses_have_no_name),
		TEST(test_the_longest_name_of_an_address_fits),
		TEST(test_a_name_that_is_none_is_not_written),
		TEST(test_names_go_to_addresses_and_back),
	};

	return cmocka_run_group_tests_name("dns_reverse", tests, NULL, NULL);
}
