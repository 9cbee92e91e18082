/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's resolver. An input is one byte and a query: the byte says what is thought of the names that are asked for. Besides memory errors, the target fails when an answer
 * cannot be read by the C library, is none to this query, is longer than promised, or says something about a name that it should not: an address of another number, a
 * record of another type, a name that was never allowed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/egress/dns_reader.h"
#include "base/util.h"
#include "egress/dns.h"
#include "egress/names.h"
#include "fuzz_seeds.h"
#include "policy/host.h"
#include "must.h"

#define NAME_NUMBER 0x1234
#define NAME "api.example.com"

/* Bits of the first byte; the lowest two are the verdict. */
enum { VERDICT = 3, NO_IPV6 = 4 };

struct asked {
	enum dns_verdict verdict;
	unsigned count;
	struct dns_question question;
};

static enum dns_verdict ask(void *arg, const struct dns_question *q, uint32_t *number)
{
	struct asked *asked = arg;
	struct host_target target;

	MUST(memchr(q->name, '\0', sizeof(q->name)) && q->name[0]);
	for (const char *s = q->name; *s; s++)
		MUST((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || strchr("-_.\\", *s));
	if (q->is_host)
		MUST(host_target_parse(q->name, &target, NULL) == 0 && !target.is_address && !host_is_loopback(&target) &&
		     !strcmp(target.name, q->name));
	asked->count++;
	asked->question = *q;
	*number = NAME_NUMBER;
	return asked->verdict;
}

static const char *name_of(void *arg, uint32_t number)
{
	return number == NAME_NUMBER ? NAME : NULL;
}

static bool is_data(const struct dns_reading *r, const void *data, size_t len)
{
	return ns_rr_rdlen(r->answer) == len && memcmp(ns_rr_rdata(r->answer), data, len) == 0;
}

static void check_record(const struct dns_reading *r, const struct asked *asked)
{
	static const uint8_t loopback4[4] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};
	const ns_type wanted = ns_rr_type(r->question), is = ns_rr_type(r->answer);
	uint8_t four[4], six[16];
	char name[NS_MAXDNAME];

	names_address4(NAME_NUMBER, four);
	names_address6(NAME_NUMBER, six);
	MUST(r->rcode == ns_r_noerror && r->has_question && (wanted == is || wanted == ns_t_any));
	MUST(strcmp(ns_rr_name(r->answer), ns_rr_name(r->question)) == 0 && ns_rr_ttl(r->answer) == NAMES_TTL_S);
	if (is == ns_t_a) {
		MUST(asked->count ? is_data(r, four, 4) : is_data(r, loopback4, 4));
	} else if (is == ns_t_aaaa) {
		MUST(asked->count ? is_data(r, six, 16) : is_data(r, loopback6, 16));
	} else {
		MUST(is == ns_t_ptr && asked->count == 0);
		MUST(dn_expand(ns_msg_base(r->msg), ns_msg_end(r->msg), ns_rr_rdata(r->answer), name, sizeof(name)) ==
		     ns_rr_rdlen(r->answer));
		MUST(strcmp(name, NAME) == 0 || strcmp(name, "localhost") == 0);
	}
}

static void check_answer(const uint8_t *query, size_t len, const uint8_t *answer, size_t n, const struct asked *asked)
{
	struct dns_reading r;

	MUST(dns_read(answer, n, &r));
	MUST(memcmp(answer, query, 2) == 0 && ns_msg_getflag(r.msg, ns_f_qr) && !ns_msg_getflag(r.msg, ns_f_tc));
	if (r.has_question) {
		const size_t end = n - (r.has_answer ? 12u + ns_rr_rdlen(r.answer) : 0) - (r.has_soa ? 33 : 0) - (r.has_opt ? 11 : 0);

		MUST(end <= len && memcmp(answer + 12, query + 12, end - 12) == 0);
	}
	MUST(asked->count == 0 || r.rcode != ns_r_formerr);
	MUST(r.has_soa == (!r.has_answer && (r.rcode == ns_r_noerror || r.rcode == ns_r_nxdomain)));
	if (asked->count && (asked->verdict == DNS_DENIED || !asked->question.is_host))
		MUST(r.rcode == ns_r_nxdomain);
	else if (asked->count && asked->verdict == DNS_BUSY)
		MUST(r.rcode == ns_r_servfail);
	if (r.has_answer)
		check_record(&r, asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DNS_ANSWER_MAX];

	if (size == 0 || size > DNS_MESSAGE_MAX + 2)
		return 0;
	struct asked asked = {.verdict = (enum dns_verdict)((data[0] & VERDICT) % (DNS_BUSY + 1))};
	const struct dns_source from = {.ask = ask, .name_of = name_of, .arg = &asked, .no_ipv6 = data[0] & NO_IPV6};
	const size_t n = dns_answer(data + 1, size - 1, &from, out);

	MUST(n <= sizeof(out) && asked.count <= 1);
	if (n == 0)
		MUST(asked.count == 0 && (size - 1 < 12 || (data[3] & 0x80)));
	else
		check_answer(data + 1, size - 1, out, n, &asked);
	return 0;
}

#define BYTES(s) (s), sizeof(s) - 1
#define HEAD "\x5e\xed\1\0\0\1\0\0\0\0\0\0"
#define HEAD_EDNS "\x5e\xed\1\0\0\1\0\0\0\0\0\1"
#define OPT                                          \
	"\0\0\x29\4\xd0\0\0\x80\0\0\x0c\0\x0a\0\x08" \
	"12345678"
#define ZEROS \
	"\1"  \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0\1" \
	"0"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct {
		const char *name, *query;
		size_t len;
	} seeds[] = {
		{"a", BYTES(HEAD "\3api\7example\3com\0\0\1\0\1")},
		{"aaaa", BYTES(HEAD_EDNS "\3aPi\7eXample\3com\0\0\x1c\0\1" OPT)},
		{"https", BYTES(HEAD "\3api\7example\3com\0\0\x41\0\1")},
		{"any", BYTES(HEAD_EDNS "\3api\7example\3com\0\0\xff\0\1" OPT)},
		{"version", BYTES(HEAD "\7version\4bind\0\0\x10\0\3")},
		{"odd", BYTES(HEAD "\7a b.c\0d\4_tcp\0\0\x21\0\1")},
		{"pointer", BYTES(HEAD "\3api\xc0\x0c\0\1\0\1")},
		{"localhost", BYTES(HEAD "\1x\11localhost\0\0\x1c\0\1")},
		{"root", BYTES(HEAD "\0\0\2\0\1")},
		{"ptr4", BYTES(HEAD "\00252\00218\00218\003198\7in-addr\4arpa\0\0\x0c\0\1")},
		{"ptr6", BYTES(HEAD_EDNS "\1"
	                                 "4\1"
	                                 "3\1"
	                                 "2\1"
	                                 "1" ZEROS ZEROS "\1"
	                                 "0\1c\1"
	                                 "0\1"
	                                 "0\1"
	                                 "0\1"
	                                 "0\1d\1f\3ip6\4arpa\0\0\x0c\0\1" OPT)},
		{"loopback", BYTES(HEAD "\1"
	                                "1\1"
	                                "0\1"
	                                "0\003127\7in-addr\4arpa\0\0\x0c\0\1")},
		{"version1", BYTES(HEAD_EDNS "\3api\0\0\1\0\1\0\0\x29\2\0\0\1\0\0\0\0")},
		{"update", BYTES("\5\5\x28\0\0\1\0\0\0\0\0\0\3api\0\0\6\0\1")},
	};
	const char *dir = seeds_directory(*argc, *argv);
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++)
		for (uint8_t how = 0; how <= (VERDICT | NO_IPV6); how++) {
			snprintf(name, sizeof(name), "%s-%u", seeds[i].name, how);
			seed_write(dir, name, how, seeds[i].query, seeds[i].len);
		}
	return 0;
}
