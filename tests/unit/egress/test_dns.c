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

/* ---- names ---- */

static void test_an_allowed_name_has_the_addresses_of_its_number(void **state)
{
	assert_answered(BYTES(HEAD API "\0\1" IN),
	                BYTES(ID "\x85\x80\0\1\0\1\0\0\0\0" API "\0\1" IN "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\xc6\x12\x12\x34"));
	assert_int_equal(said.count, 1);
	assert_string_equal(said.last.name, "api.example.com");
	assert_true(said.last.type == ns_t_a && said.last.is_host);
	assert_answered(BYTES(HEAD API "\0\x1c" IN),
	                BYTES(ID "\x85\x80\0\1\0\1\0\0\0\0" API "\0\x1c" IN
	                         "\xc0\x0c\0\x1c\0\1\0\0\0\x1e\0\x10\xfd\0\0\xc0\0\0\0\0\0\0\0\0\0\0\x12\x34"));
}

static void test_a_name_that_is_not_allowed_does_not_exist(void **state)
{
	said.verdict = DNS_DENIED;
	assert_answered(BYTES(HEAD API "\0\1" IN), BYTES(ID "\x85\x83\0\1\0\0\0\1\0\0" API "\0\1" IN SOA_RECORD));
	assert_int_equal(said.count, 1);
	assert_int_equal(query("db", ns_t_aaaa), NXDOMAIN);
	assert_int_equal(query("_dmarc.example.com", 16), NXDOMAIN);
	assert_true(said.last.is_host && said.last.type == 16);
	assert_true(got.soa_minimum > 0 && got.soa_minimum <= 60 && ns_rr_ttl(got.soa) == got.soa_minimum);
	assert_string_equal(ns_rr_name(got.soa), ".");
}

static void test_an_allowed_name_has_nothing_but_addresses(void **state)
{
	static const uint16_t types[] = {ns_t_ns, 5,  6,  ns_t_ptr, 13,    15, 16,  29,  33,  35,    43,
	                                 46,      48, 52, 64,       HTTPS, 99, 127, 256, 257, 32768, 65535};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		query("api.example.com", types[i]);
		assert_no_data();
		assert_true(said.count == 1 && said.last.type == types[i]);
	}
	assert_answered(BYTES(HEAD API "\0\x41" IN), BYTES(ID "\x85\x80\0\1\0\0\0\1\0\0" API "\0\x41" IN SOA_RECORD));
}

static void test_who_wants_anything_gets_one_address(void **state)
{
	query("api.example.com", ns_t_any);
	assert_address("\xc6\x12\x12\x34", 4);
}

static void test_without_ipv6_there_are_no_such_addresses(void **state)
{
	from.no_ipv6 = true;
	query("api.example.com", ns_t_aaaa);
	assert_no_data();
	query("localhost", ns_t_aaaa);
	assert_no_data();
	query("api.example.com", ns_t_a);
	assert_address("\xc6\x12\x12\x34", 4);
}

static void test_no_room_now_is_no_lie(void **state)
{
	said.verdict = DNS_BUSY;
	assert_answered(BYTES(HEAD API "\0\1" IN), BYTES(ID "\x81\x82\0\1\0\0\0\0\0\0" API "\0\1" IN));
	said.verdict = DNS_NUMBER;
	for (said.number = 0; said.number < AIRLOCK_NAME_FIRST; said.number++)
		assert_int_equal(query("api.example.com", ns_t_a), SERVFAIL);
	said.number = 0x10000 + AIRLOCK_NAME_FIRST;
	assert_int_equal(query("api.example.com", ns_t_a), SERVFAIL);
	said.number = AIRLOCK_NAME_LAST + 1;
	assert_int_equal(query("api.example.com", HTTPS), SERVFAIL);
}

static void test_case_is_repeated_and_does_not_matter(void **state)
{
	assert_int_equal(query("aPi.EXAMPLE.cOm", ns_t_a), NOERROR); /* compares the question, byte by byte */
	assert_string_equal(said.last.name, "api.example.com");
	assert_true(said.last.is_host);
	assert_int_equal(query("A-Z.Az09_.xn--BCHER-kva", ns_t_a), NOERROR);
	assert_string_equal(said.last.name, "a-z.az09_.xn--bcher-kva");
}

static void test_what_is_no_hosts_name_is_recorded_and_does_not_exist(void **state)
{
	static const struct {
		const char *query;
		size_t len;
		const char *name;
	} table[] = {
		{BYTES(HEAD "\0"
	                    "\0\2" IN),
	         "."},
		{BYTES(HEAD "\7a b.c\0d\3com\0"
	                    "\0\1" IN),
	         "a\\032b\\046c\\000d.com"},
		{BYTES(HEAD "\3a\\b\0"
	                    "\0\1" IN),
	         "a\\092b"},
		{BYTES(HEAD "\1*\7example\3com\0"
	                    "\0\1" IN),
	         "\\042.example.com"},
		{BYTES(HEAD "\4\xff\x80\n\x7f\0"
	                    "\0\1" IN),
	         "\\255\\128\\010\\127"},
		{BYTES(HEAD "\17api.example.com\0"
	                    "\0\1" IN),
	         "api\\046example\\046com"},
		{BYTES(HEAD "\1"
	                    "1\1"
	                    "2\1"
	                    "3\1"
	                    "4\0"
	                    "\0\1" IN),
	         "1.2.3.4"},
		{BYTES(HEAD "\003127\1"
	                    "1\0"
	                    "\0\1" IN),
	         "127.1"},
		{BYTES(HEAD "\4"
	                    "0x7f\1"
	                    "1\0"
	                    "\0\1" IN),
	         "0x7f.1"},
		{BYTES(HEAD "\3::1\0"
	                    "\0\x1c" IN),
	         "\\058\\0581"},
		{BYTES(HEAD "\2-a\3com\0"
	                    "\0\1" IN),
	         "-a.com"},
		{BYTES(HEAD "\2\xc3\xbc\3com\0"
	                    "\0\1" IN),
	         "\\195\\188.com"},
		{BYTES(HEAD "\1[\1@\1`\1{\1/\1:\0"
	                    "\0\1" IN),
	         "\\091.\\064.\\096.\\123.\\047.\\058"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		answer(table[i].query, table[i].len);
		assert_int_equal(got.rcode, NXDOMAIN);
		assert_int_equal(said.count, 1);
		assert_string_equal(said.last.name, table[i].name);
		assert_false(said.last.is_host);
	}
}

static void test_localhost_is_the_sandbox(void **state)
{
	static const char *const names[] = {"localhost", "LocalHost", "a.localhost", "x.y.localhost"};
	static const uint8_t six[16] = {[15] = 1};

	said.verdict = DNS_DENIED;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		query(names[i], ns_t_a);
		assert_address("\x7f\0\0\1", 4);
		query(names[i], ns_t_aaaa);
		assert_address(six, 16);
		query(names[i], HTTPS);
		assert_no_data();
		assert_int_equal(said.count, 0);
	}
	assert_int_equal(query("notlocalhost", ns_t_a), NXDOMAIN);
	assert_int_equal(query("localhost.example.com", ns_t_a), NXDOMAIN);
	assert_int_equal(said.count, 1);
}

static void test_the_hosts_loopback_is_a_name_like_others(void **state)
{
	query("host.cordon.internal", ns_t_a);
	assert_int_equal(said.count, 1);
	assert_address("\xc6\x12\x12\x34", 4);
}

/* ---- lengths ---- */

/* Labels of these lengths, of the letter x. */
static size_t put_labels(uint8_t *q, const uint8_t *lens)
{
	size_t at = 12;

	memcpy(q, HEAD, 12);
	for (; *lens; lens++) {
		q[at++] = *lens;
		memset(q + at, 'x', *lens);
		at += *lens;
	}
	memcpy(q + at, "\0\0\1\0\1", 5);
	return at + 5;
}

static void test_names_are_as_long_as_names_may_be(void **state)
{
	static const struct {
		uint8_t labels[6];
		unsigned rcode;
	} table[] = {
		{{63}, NOERROR},
		{{64}, FORMERR},
		{{63, 63, 63, 61}, NOERROR},
		{{63, 63, 63, 62}, FORMERR},
		{{63, 63, 63, 63}, FORMERR},
		{{63, 63, 63, 61, 1}, FORMERR},
	};
	uint8_t q[512], many[12 + 300];
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		answer(q, put_labels(q, table[i].labels));
		assert_int_equal(got.rcode, table[i].rcode);
		assert_int_equal(said.count, got.rcode == NOERROR);
	}
	answer(q, put_labels(q, (const uint8_t[]){63, 63, 63, 61, 0}));
	assert_int_equal(strlen(said.last.name), 253);

	/* 127 labels of one byte are 255 bytes; 128 are too many. */
	memcpy(many, HEAD, 12);
	for (len = 12; len < 12 + 2 * 127; len += 2)
		memcpy(many + len, "\1x", 2);
	memcpy(many + len, "\0\0\1\0\1", 5);
	answer(many, len + 5);
	assert_int_equal(got.rcode, NOERROR);
	memcpy(many + len, "\1x\0\0\1\0\1", 7);
	answer(many, len + 7);
	assert_int_equal(got.rcode, FORMERR);
}

static void test_the_longest_name_of_odd_bytes_is_text(void **state)
{
	uint8_t q[512];
	size_t len = put_labels(q, (const uint8_t[]){63, 63, 63, 61, 0});

	for (size_t i = 12; i < len - 5; i++)
		if (q[i] == 'x')
			q[i] = 0xfe;
	answer(q, len);
	assert_int_equal(got.rcode, NXDOMAIN);
	assert_int_equal(strlen(said.last.name), 4 * 250 + 3);
	assert_memory_equal(said.last.name, "\\254\\254", 8);
}

static void test_no_answer_needs_to_be_truncated(void **state)
{
	uint8_t q[600];
	size_t len = put_labels(q, (const uint8_t[]){63, 63, 63, 61, 0});
	static const enum dns_verdict verdicts[] = {DNS_NUMBER, DNS_DENIED, DNS_BUSY};
	static const uint8_t types[] = {ns_t_a, ns_t_aaaa, HTTPS, ns_t_any};

	q[11] = 1;
	memcpy(q + len, "\0\0\x29\0\0\0\0\0\0\0\0", 11); /* a client that says it takes nothing takes 512 bytes */
	for (size_t v = 0; v < ARRAY_SIZE(verdicts); v++)
		for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
			said.verdict = verdicts[v];
			q[len - 3] = types[t];
			assert_in_range(answer(q, len + 11), 12 + 259 + 11, 512);
			assert_true(got.has_opt && got.has_question);
		}
}

/* ---- flags and EDNS ---- */

static void test_flags_are_repeated_or_ours(void **state)
{
	answer(BYTES(ID "\0\0\0\1\0\0\0\0\0\0" API "\0\1" IN));
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_rd), 0);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_aa), 1);
	answer(BYTES(ID "\5\x7f\0\1\0\0\0\0\0\0" API "\0\1" IN)); /* all that do not matter are set */
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_rd), 1);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_cd), 1);
	assert_int_equal(out[3], 0x90); /* and the reserved one is not */
	assert_int_equal(got.rcode, NOERROR);
}

static void test_edns_is_answered_in_kind(void **state)
{
	assert_answered(BYTES(HEAD_EDNS API "\0\1" IN OPT_RECORD),
	                BYTES(ID "\x85\x80\0\1\0\1\0\0\0\1" API "\0\1" IN "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\xc6\x12\x12\x34" OPT_RECORD));
	answer(BYTES(HEAD API "\0\1" IN));
	assert_false(got.has_opt);
	/* DNSSEC OK is repeated, other flags and options are not: a cookie, a client's subnet, one that nobody knows */
	answer(BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\xff\xff\0\x1b\0\x0a\0\x08"
	                           "12345678"
	                           "\0\x08\0\7\0\1\x18\0\x7f\0\0"
	                           "\xff\xff\0\0"));
	assert_int_equal(got.rcode, NOERROR);
	assert_int_equal(ns_rr_ttl(got.opt), 0x8000);
	assert_int_equal(ns_rr_rdlen(got.opt), 0);
}

static void test_errors_have_edns_too(void **state)
{
	said.verdict = DNS_DENIED;
	answer(BYTES(HEAD_EDNS API "\0\1" IN OPT_RECORD));
	assert_true(got.rcode == NXDOMAIN && got.has_opt && got.has_soa);
	answer(BYTES(HEAD_EDNS API "\0\1"
	                           "\0\3" OPT_RECORD));
	assert_true(got.rcode == REFUSED && got.has_opt && got.has_question);
	/* … but not where theirs was not understood */
	answer(BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\0\5\0\x0a\0\0x"));
	assert_true(got.rcode == FORMERR && !got.has_opt && got.has_question);
}

static void test_later_versions_of_edns_are_told_so(void **state)
{
	assert_answered(BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\1\0\0\0\0"),
	                BYTES(ID "\x81\x80\0\1\0\0\0\0\0\1" API "\0\1" IN "\0\0\x29\4\xd0\1\0\0\0\0\0"));
	assert_int_equal(got.rcode, BADVERS);
	assert_int_equal(said.count, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_allowed_name_has_the_addresses_of_its_number),
		TEST(test_a_name_that_is_not_allowed_does_not_exist),
		TEST(test_an_allowed_name_has_nothing_but_addresses),
		TEST(test_who_wants_anything_gets_one_address),
		TEST(test_without_ipv6_there_are_no_such_addresses),
		TEST(test_no_room_now_is_no_lie),
		TEST(test_case_is_repeated_and_does_not_matter),
		TEST(test_what_is_no_hosts_name_is_recorded_and_does_not_exist),
		TEST(test_localhost_is_the_sandbox),
		TEST(test_the_hosts_loopback_is_a_name_like_others),
		TEST(test_names_are_as_long_as_names_may_be),
		TEST(test_the_longest_name_of_odd_bytes_is_text),
		TEST(test_no_answer_needs_to_be_truncated),
		TEST(test_flags_are_repeated_or_ours),
		TEST(test_edns_is_answered_in_kind),
		TEST(test_errors_have_edns_too),
		TEST(test_later_versions_of_edns_are_told_so),
	};

	return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
