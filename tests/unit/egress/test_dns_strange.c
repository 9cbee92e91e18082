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

/* ---- what is not a proper query ---- */

static void test_what_is_no_query_gets_no_answer(void **state)
{
	static const char query_bytes[] = HEAD API "\0\1" IN;
	char q[sizeof(query_bytes)];

	for (size_t n = 0; n < 12; n++)
		assert_int_equal(answer(query_bytes, n), 0);
	memcpy(q, query_bytes, sizeof(q));
	q[2] |= (char)0x80; /* it is an answer */
	assert_int_equal(answer(q, sizeof(q) - 1), 0);
	assert_int_equal(said.count, 0);
}

static void test_a_query_that_was_cut_off_is_refused(void **state)
{
	static const char q[] = HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\0\x0c\0\x0a\0\x08"
					      "12345678";

	answer(BYTES(q));
	assert_true(got.rcode == NOERROR && said.count == 1);
	for (size_t n = 12; n < sizeof(q) - 1; n++) {
		assert_true(answer(q, n) > 0);
		assert_int_equal(got.rcode, FORMERR);
		assert_int_equal(said.count, 0);
	}
}

static void test_strange_queries_are_refused(void **state)
{
	static const struct {
		const char *query;
		size_t len;
		unsigned rcode;
	} table[] = {
		/* numbers of questions and records */
		{BYTES(ID "\1\0\0\0\0\0\0\0\0\0"), FORMERR},
		{BYTES(ID "\1\0\0\2\0\0\0\0\0\0" API "\0\1" IN), FORMERR}, /* more are announced than there are */
		{BYTES(ID "\1\0\0\1\0\1\0\0\0\0" API "\0\1" IN), FORMERR},
		{BYTES(ID "\1\0\0\1\0\0\0\1\0\0" API "\0\1" IN), FORMERR},
		{BYTES(ID "\1\0\0\1\0\0\0\0\0\2" API "\0\1" IN OPT_RECORD), FORMERR},
		{BYTES(ID "\1\0\0\2\0\0\0\0\0\0" API "\0\1" IN API "\0\x1c" IN), FORMERR},
		{BYTES(ID "\1\0\xff\xff\xff\xff\xff\xff\xff\xff"), FORMERR},
		{BYTES(ID "\1\0\0\1\0\1\0\0\0\0" API "\0\1" IN "\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), FORMERR},
		{BYTES(ID "\1\0\0\1\0\0\0\1\0\0" API "\0\1" IN "\xc0\x0c\0\6\0\1\0\0\0\0\0\0"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4"), FORMERR}, /* additional, but no OPT */
		{BYTES(HEAD_EDNS API "\0\1" IN), FORMERR},
		{BYTES(HEAD API "\0\1" IN OPT_RECORD), FORMERR}, /* there is one, but it is not counted */
		{BYTES(ID "\1\0\0\1\0\0\0\0\0\2" API "\0\1" IN OPT_RECORD OPT_RECORD), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\1x\0\0\x29\4\xd0\0\0\0\0\0\0"), FORMERR}, /* OPT belongs to the root */
		{BYTES(HEAD_EDNS API "\0\1" IN "\1\0\x29\4\xd0\0\0\0\0\0\0"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\xc0\x0c\0\x29\4\xd0\0\0\0\0\0\0"), FORMERR},
		/* options that are longer than their record */
		{BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\0\3\0\x0a\0"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\0\5\0\x0a\0\2x"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\0\5\0\x0a\0\0x"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN "\0\0\x29\4\xd0\0\0\0\0\xff\xff"), FORMERR},
		/* names */
		{BYTES(HEAD "\xc0\x0c"
	                    "\0\1" IN),
	         FORMERR}, /* points at itself */
		{BYTES(HEAD "\3api\xc0\x0c"
	                    "\0\1" IN),
	         FORMERR},
		{BYTES(HEAD "\x80"
	                    "\0\1" IN),
	         FORMERR},
		{BYTES(HEAD "\x41\1"
	                    "\0\1" IN),
	         FORMERR}, /* a bit string, RFC 2673 */
		{BYTES(HEAD "\3ap"), FORMERR},
		/* bytes behind the end */
		{BYTES(HEAD API "\0\1" IN "\0"), FORMERR},
		{BYTES(HEAD_EDNS API "\0\1" IN OPT_RECORD "GET / HTTP/1.1"), FORMERR},
		/* other flags */
		{BYTES(ID "\3\0\0\1\0\0\0\0\0\0" API "\0\1" IN), FORMERR}, /* truncated, it says */
		/* other operations: inverse queries, status, notify, update */
		{BYTES(ID "\x08\0\0\1\0\0\0\0\0\0" API "\0\1" IN), NOTIMP},
		{BYTES(ID "\x10\0\0\0\0\0\0\0\0\0"), NOTIMP},
		{BYTES(ID "\x20\0\0\1\0\0\0\0\0\0" API "\0\6" IN), NOTIMP},
		{BYTES(ID "\x28\0\0\1\0\0\0\0\0\0" API "\0\6" IN), NOTIMP},
		{BYTES(ID "\x78\0\xff\xff\0\0\0\0\0\0"), NOTIMP},
		/* other classes: CHAOS (version.bind), HESIOD, NONE, any */
		{BYTES(HEAD "\7version\4bind\0"
	                    "\0\x10"
	                    "\0\3"),
	         REFUSED},
		{BYTES(HEAD API "\0\1"
	                        "\0\4"),
	         REFUSED},
		{BYTES(HEAD API "\0\1"
	                        "\0\xfe"),
	         REFUSED},
		{BYTES(HEAD API "\0\1"
	                        "\0\xff"),
	         REFUSED},
		{BYTES(HEAD API "\0\1"
	                        "\0\0"),
	         REFUSED},
		/* types that are none */
		{BYTES(HEAD API "\0\0" IN), FORMERR},
		{BYTES(HEAD API "\0\x29" IN), FORMERR},
		{BYTES(HEAD API "\0\xfb" IN), REFUSED}, /* transfers of a zone */
		{BYTES(HEAD API "\0\xfc" IN), REFUSED},
		{BYTES(HEAD API "\0\x80" IN), NOTIMP},
		{BYTES(HEAD API "\0\xf9" IN), NOTIMP}, /* TKEY */
		{BYTES(HEAD API "\0\xfa" IN), NOTIMP},
		{BYTES(HEAD API "\0\xfe" IN), NOTIMP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_true(answer(table[i].query, table[i].len) > 0);
		if (got.rcode != table[i].rcode)
			fail_msg("case %zu: rcode %u", i, got.rcode);
		assert_int_equal(said.count, 0);
		assert_int_equal(ns_msg_getflag(got.msg, ns_f_opcode), table[i].query[2] >> 3 & 15);
	}
}

static void test_a_query_longer_than_any_is_refused(void **state)
{
	static uint8_t q[DNS_MESSAGE_MAX + 1];
	const char head[] = HEAD_EDNS API "\0\1" IN;
	const size_t at = sizeof(head) - 1;

	for (size_t len = DNS_MESSAGE_MAX; len <= DNS_MESSAGE_MAX + 1; len++) {
		size_t options = len - at - 11;

		memcpy(q, head, at);
		memcpy(q + at, OPT_RECORD, 11);
		q[at + 9] = (uint8_t)(options >> 8);
		q[at + 10] = (uint8_t)options;
		q[at + 14] = (uint8_t)(options - 4);
		q[at + 13] = (uint8_t)((options - 4) >> 8);
		answer(q, len);
		assert_int_equal(got.rcode, len > DNS_MESSAGE_MAX ? FORMERR : NOERROR);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_no_query_gets_no_answer),
		TEST(test_a_query_that_was_cut_off_is_refused),
		TEST(test_strange_queries_are_refused),
		TEST(test_a_query_longer_than_any_is_refused),
	};

	return cmocka_run_group_tests_name("dns_strange", tests, NULL, NULL);
}
