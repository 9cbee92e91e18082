/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody who is asked, and queries, which are bytes as RFC 1035 has them; answers are compared byte by byte, or read with the C library's parser. For tests that have
 * included cmocka.h.
 */
#ifndef CORDON_TESTS_DNS_FIXTURE_H
#define CORDON_TESTS_DNS_FIXTURE_H

#include "base/util.h"
#include "dns_reader.h"
#include "egress/addresses.h"
#include "egress/dns.h"
#include "egress/names.h"

#define BADVERS 16
#define HTTPS 65

/* A string literal's bytes and how many; its NUL is not one of them. */
#define BYTES(s) (s), sizeof(s) - 1
#define ID "\x5e\xed"
#define HEAD ID "\1\0\0\1\0\0\0\0\0\0"      /* a question, recursion desired */
#define HEAD_EDNS ID "\1\0\0\1\0\0\0\0\0\1" /* and something additional */
#define API "\3api\7example\3com\0"
#define IN "\0\1"
#define OPT_RECORD "\0\0\x29\4\xd0\0\0\0\0\0\0" /* of 1232 bytes */
#define SOA_RECORD "\0\0\6\0\1\0\0\0\x0a\0\x16\0\0\0\0\0\1\0\0\x0e\x10\0\0\2\x58\0\1\x51\x80\0\0\0\x0a"

/* Who is asked. */
static struct {
	enum dns_verdict verdict;
	uint32_t number;
	unsigned count;
	struct dns_question last;
	const char *name; /* of that number */
} said;
static struct dns_source from;
static uint8_t out[DNS_ANSWER_MAX];
static struct dns_reading got;

static enum dns_verdict ask(void *arg, const struct dns_question *q, uint32_t *number)
{
	assert_ptr_equal(arg, &said);
	said.count++;
	said.last = *q;
	*number = said.number;
	return said.verdict;
}

static const char *name_of(void *arg, uint32_t number)
{
	assert_ptr_equal(arg, &said);
	return number == said.number ? said.name : NULL;
}

static int set_up(void **state)
{
	memset(&said, 0, sizeof(said));
	said.verdict = DNS_NUMBER;
	said.number = 0x1234;
	from = (struct dns_source){.ask = ask, .name_of = name_of, .arg = &said};
	return 0;
}

/* What is true of each answer. The query is in memory of its own length, so that reading past its end is noticed. */
static inline size_t answer(const void *query, size_t len)
{
	_cleanup_free_ uint8_t *exact = malloc(len + !len);
	size_t n;

	assert_non_null(exact);
	memcpy(exact, query, len);
	memset(out, 0xaa, sizeof(out));
	said.count = 0;
	n = dns_answer(exact, len, &from, out);
	assert_true(said.count <= 1);
	if (n == 0)
		return 0;
	assert_true(n >= 12 && n <= sizeof(out));
	assert_true(n <= len + 44); /* an address or a SOA record: not worth to be sent to anybody else */
	if (!dns_read(out, n, &got))
		fail_msg("the answer cannot be read");
	assert_memory_equal(out, query, 2);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_qr), 1);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_tc), 0);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_ra), 1);
	assert_int_equal(ns_msg_getflag(got.msg, ns_f_ad), 0);
	assert_int_equal(got.has_soa, (got.rcode == NOERROR || got.rcode == NXDOMAIN) && !got.has_answer);
	assert_true(!got.has_answer || got.rcode == NOERROR);
	return n;
}

static inline void assert_answered(const void *query, size_t len, const void *expected, size_t expected_len)
{
	size_t n = answer(query, len);

	assert_int_equal(n, expected_len);
	assert_memory_equal(out, expected, n);
}

static inline size_t put_name(uint8_t *to, const char *name)
{
	size_t at = 0;

	for (; *name; name += strspn(name, ".")) {
		size_t len = strcspn(name, ".");

		to[at++] = (uint8_t)len;
		memcpy(to + at, name, len);
		at += len;
		name += len;
	}
	to[at++] = 0;
	return at;
}

/* A query about a name written with dots. Returns the answer's rcode. */
static inline unsigned query(const char *name, uint16_t type)
{
	uint8_t q[DNS_MESSAGE_MAX] = HEAD;
	size_t len = 12 + put_name(q + 12, name);

	q[len++] = (uint8_t)(type >> 8);
	q[len++] = (uint8_t)type;
	q[len++] = 0;
	q[len++] = 1;
	assert_true(answer(q, len) > 0);
	assert_true(got.has_question && ns_rr_type(got.question) == type && ns_rr_class(got.question) == 1);
	assert_memory_equal(out + 12, q + 12, len - 12);
	return got.rcode;
}

static inline void assert_no_data(void)
{
	assert_true(got.rcode == NOERROR && !got.has_answer && got.has_soa);
}

static inline void assert_address(const void *data, size_t len)
{
	assert_true(got.rcode == NOERROR && got.has_answer);
	assert_int_equal(ns_rr_type(got.answer), len == 4 ? ns_t_a : ns_t_aaaa);
	assert_int_equal(ns_rr_ttl(got.answer), NAMES_TTL_S);
	assert_string_equal(ns_rr_name(got.answer), ns_rr_name(got.question));
	assert_int_equal(ns_rr_rdlen(got.answer), len);
	assert_memory_equal(ns_rr_rdata(got.answer), data, len);
}

#endif
