/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries are read strictly: one question, in class IN, perhaps EDNS (RFC 6891), and not a byte more. What a client's resolver never sends (compressed names, records in a
 * query, two OPT records, bytes behind the end) is a format error. The question is repeated byte by byte, in the case that it came in: clients compare it.
 *
 * Negative answers have the root's SOA record, so that they are kept for a while (RFC 2308): for all that is known inside, this is where the root zone is.
 */
#include "egress/dns.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "egress/addresses.h"
#include "egress/names.h"
#include "policy/host.h"

#define HEADER_LEN 12
#define NAME_MAX_LEN 255 /* RFC 1035 2.3.4, with the lengths of its labels and the root */
#define LABEL_MAX_LEN 63
#define CLASS_IN 1
#define EDNS_SIZE 1232       /* what fits into one packet anywhere */
#define NEGATIVE_TTL_S 10    /* rules may change while a sandbox lives */
#define QUESTION_NAME 0xc00c /* a pointer to the name in the question: it always begins behind the header */

enum { TYPE_A = 1, TYPE_SOA = 6, TYPE_PTR = 12, TYPE_AAAA = 28, TYPE_OPT = 41, TYPE_IXFR = 251, TYPE_AXFR = 252, TYPE_ANY = 255 };
enum rcode { NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 16 };

/* Bits of a message's third and fourth byte. */
enum { FLAG_QR = 0x8000, FLAG_OPCODE = 0x7800, FLAG_AA = 0x0400, FLAG_TC = 0x0200, FLAG_RD = 0x0100, FLAG_RA = 0x0080, FLAG_CD = 0x0010 };
#define EDNS_DO 0x8000

/* No answer needs to be truncated. A name is in an answer only where the question is an address backwards: "f." 32 times, "ip6.arpa". */
#define QUESTION_LEN(name) ((name) + 4)
#define RECORD_LEN(data) (2 + 10 + (data))
#define SOA_DATA_LEN (1 + 1 + 5 * 4)
#define OPT_LEN (1 + 10)
_Static_assert(HEADER_LEN + QUESTION_LEN(NAME_MAX_LEN) + RECORD_LEN(SOA_DATA_LEN) + OPT_LEN <= DNS_ANSWER_MAX, "a negative answer fits");
_Static_assert(HEADER_LEN + QUESTION_LEN(32 * 2 + 4 + 5 + 1) + RECORD_LEN(NAME_MAX_LEN) + OPT_LEN <= DNS_ANSWER_MAX, "a name fits");

struct query {
	const uint8_t *data;
	size_t len, at;
	uint16_t flags;
	size_t question_end; /* 0: it was not understood */
	struct dns_question question;
	uint16_t class;
	bool edns, dnssec_ok;
	uint8_t edns_version;
};

struct answer {
	enum rcode rcode;
	uint16_t type; /* of the one record; 0: there is none */
	uint8_t data[NAME_MAX_LEN];
	size_t len;
};

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static bool has(const struct query *q, size_t n)
{
	return q->len - q->at >= n;
}

/* The caller has seen that there are two bytes. */
static uint16_t take16(struct query *q)
{
	const uint8_t *p = q->data + q->at;

	q->at += 2;
	return (uint16_t)(p[0] << 8 | p[1]);
}

static bool is_plain(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* One label as text; there is room for any name (see below). */
static char *add_label(char *to, const uint8_t *label, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = label[i] >= 'A' && label[i] <= 'Z' ? (uint8_t)(label[i] - 'A' + 'a') : label[i];

		if (is_plain(c))
			*to++ = (char)c;
		else
			to += snprintf(to, sizeof("\\255"), "\\%03u", (unsigned)c);
	}
	return to;
}
_Static_assert(4 * NAME_MAX_LEN < DNS_NAME_TEXT_MAX, "any name fits as text");

static bool take_name(struct query *q, char text[DNS_NAME_TEXT_MAX])
{
	const size_t start = q->at;
	char *to = text;

	while (has(q, 1)) {
		const size_t len = q->data[q->at++];

		if (len == 0) {
			if (to == text)
				*to++ = '.';
			*to = '\0';
			return true;
		}
		/* Longer lengths are pointers, or kinds of labels that nobody uses (RFC 6891 5). The root must still fit. */
		if (len > LABEL_MAX_LEN || !has(q, len) || q->at + len + 1 - start > NAME_MAX_LEN)
			return false;
		if (to != text)
			*to++ = '.';
		to = add_label(to, q->data + q->at, len);
		q->at += len;
	}
	return false;
}

static bool take_question(struct query *q)
{
	struct host_target target;

	if (!take_name(q, q->question.name) || !has(q, 4))
		return false;
	q->question.type = take16(q);
	q->class = take16(q);
	q->question.is_host = host_target_parse(q->question.name, &target, NULL) == 0 && !target.is_address;
	q->question_end = q->at;
	return true;
}

/* An OPT record, whose options are of no interest, but must be whole (RFC 6891 6.1.2). Its class is how much the client takes: more than there ever is. */
static bool take_opt(struct query *q)
{
	size_t end;

	if (!has(q, OPT_LEN) || q->data[q->at++] != 0 || take16(q) != TYPE_OPT)
		return false;
	q->at += 2 + 1; /* the class; the upper half of an answer's rcode */
	q->edns_version = q->data[q->at++];
	q->dnssec_ok = take16(q) & EDNS_DO;
	end = take16(q);
	if (!has(q, end))
		return false;
	for (end += q->at; end - q->at >= 4;) {
		size_t len;

		q->at += 2;
		len = take16(q);
		if (end - q->at < len)
			return false;
		q->at += len;
	}
	q->edns = q->at == end;
	return q->edns;
}

/* Types that only make sense in questions (RFC 6895 3.1), or nowhere; ANY is answered. */
static enum rcode check_type(uint16_t type)
{
	static const struct {
		uint16_t first, last;
		enum rcode rcode;
	} odd[] = {{0, 0, FORMERR}, {TYPE_OPT, TYPE_OPT, FORMERR}, {TYPE_IXFR, TYPE_AXFR, REFUSED}, {128, TYPE_ANY - 1, NOTIMP}};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		if (type >= odd[i].first && type <= odd[i].last)
			return odd[i].rcode;
	return NOERROR;
}

/* The header has been seen to be there; its id is not read: it is repeated. */
static enum rcode parse(struct query *q)
{
	uint16_t questions, answers, authorities, additional;

	q->at = 4;
	questions = take16(q);
	answers = take16(q);
	authorities = take16(q);
	additional = take16(q);
	if (q->flags & FLAG_OPCODE)
		return NOTIMP;
	if (q->len > DNS_MESSAGE_MAX || (q->flags & FLAG_TC) || questions != 1 || answers || authorities || additional > 1)
		return FORMERR;
	if (!take_question(q) || (additional && !take_opt(q)) || q->at != q->len)
		return FORMERR;
	if (q->edns_version > 0)
		return BADVERS;
	return q->class == CLASS_IN ? check_type(q->question.type) : REFUSED;
}

/* ---- answering ---------------------------------------------------------------------------------------------------------------- */

static void give(struct answer *a, uint16_t type, const uint8_t *data, size_t len)
{
	a->type = type;
	memcpy(a->data, data, len);
	a->len = len;
}

/* six: NULL if it has none. Who wants anything gets one of all records (RFC 8482 4.1). */
static void give_address(struct answer *a, uint16_t type, const uint8_t four[4], const uint8_t *six)
{
	if (type == TYPE_A || type == TYPE_ANY)
		give(a, TYPE_A, four, 4);
	else if (type == TYPE_AAAA && six)
		give(a, TYPE_AAAA, six, 16);
}

/* name: of a host. */
static void give_name(struct answer *a, const char *name)
{
	size_t at = 0;

	for (;;) {
		size_t len = strcspn(name, ".");

		if (len == 0 || len > LABEL_MAX_LEN || at + 1 + len + 1 > sizeof(a->data)) {
			a->rcode = SERVFAIL;
			return;
		}
		a->data[at++] = (uint8_t)len;
		memcpy(a->data + at, name, len);
		at += len;
		if (!name[len])
			break;
		name += len + 1;
	}
	a->data[at++] = 0;
	a->type = TYPE_PTR;
	a->len = at;
}

static void answer_host(const struct dns_question *q, const struct dns_source *from, struct answer *a)
{
	uint32_t number = 0;
	enum dns_verdict verdict = from->ask(from->arg, q, &number);
	uint8_t four[4], six[16];

	if (verdict == DNS_DENIED || !q->is_host) {
		a->rcode = NXDOMAIN;
		return;
	}
	names_address4(number, four);
	names_address6(number, six);
	if (verdict != DNS_NUMBER || number == 0 || names_number_of4(four) != number) /* a number of no name: nobody would answer there */
		a->rcode = SERVFAIL;
	else
		give_address(a, q->type, four, from->no_ipv6 ? NULL : six);
}

static void answer_localhost(const struct dns_question *q, const struct dns_source *from, struct answer *a)
{
	static const uint8_t four[4] = {127, 0, 0, 1}, six[16] = {[15] = 1};

	give_address(a, q->type, four, from->no_ipv6 ? NULL : six);
}

/* ---- addresses backwards ------------------------------------------------------------------------------------------------------ */

struct reverse {
	size_t len; /* of the address: 4, 16; 0: it is none, or only a part of one */
	uint8_t address[16];
};

/* "1.0.18.198" */
static bool reverse4(const char *s, const char *end, uint8_t address[4])
{
	for (int i = 3; i >= 0; i--) {
		unsigned value = 0;
		int digits = 0;

		for (; s < end && *s >= '0' && *s <= '9' && digits < 3; digits++)
			value = value * 10 + (unsigned)(*s++ - '0');
		if (digits == 0 || value > 255 || (digits > 1 && s[-digits] == '0') || (i > 0 && (s == end || *s++ != '.')))
			return false;
		address[i] = (uint8_t)value;
	}
	return s == end;
}

/* "1.0.0.….0.d.f" */
static bool reverse6(const char *s, const char *end, uint8_t address[16])
{
	static const char hex[] = "0123456789abcdef";

	if (end - s != 32 * 2 - 1)
		return false;
	for (unsigned i = 0; i < 32; i++) {
		const char *digit = strchr(hex, s[2 * i]);

		if (!digit || (i < 31 && s[2 * i + 1] != '.'))
			return false;
		address[15 - i / 2] |= (uint8_t)((digit - hex) << (i % 2 * 4));
	}
	return true;
}

/* False: it is not about an address. */
static bool parse_reverse(const char *name, struct reverse *out)
{
	static const struct {
		const char *zone;
		size_t len;
		bool (*parse)(const char *s, const char *end, uint8_t *address);
	} zones[] = {{"in-addr.arpa", 4, reverse4}, {"ip6.arpa", 16, reverse6}};
	const size_t len = strlen(name);

	*out = (struct reverse){0};
	for (size_t i = 0; i < ARRAY_SIZE(zones); i++) {
		const size_t zone = strlen(zones[i].zone);
		const char *tail = name + len - MIN(len, zone);

		if (strcmp(tail, zones[i].zone) != 0 || (tail > name && tail[-1] != '.'))
			continue;
		if (tail > name && zones[i].parse(name, tail - 1, out->address))
			out->len = zones[i].len;
		return true;
	}
	return false;
}

/* The airlock's blocks and its link: programs look up their own address, and the resolver's. */
static bool is_own(const struct reverse *r)
{
	static const struct {
		size_t len, prefix;
		uint8_t address[16];
	} own[] = {{4, AIRLOCK_BLOCK4_BITS / 8, {AIRLOCK_BLOCK4}},
	           {4, AIRLOCK_LINK4_BITS / 8, {AIRLOCK_LINK4_INSIDE}},
	           {16, AIRLOCK_BLOCK6_BITS / 8, {AIRLOCK_BLOCK6}},
	           {16, AIRLOCK_LINK6_BITS / 8, {AIRLOCK_LINK6_INSIDE}}};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (r->len == own[i].len && memcmp(r->address, own[i].address, own[i].prefix) == 0)
			return true;
	return false;
}

static const char *reverse_name(const struct reverse *r, const struct dns_source *from)
{
	static const uint8_t loopback4[4] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};
	uint32_t number = 0;

	if (r->len == 4 && memcmp(r->address, loopback4, 4) == 0)
		return "localhost";
	if (r->len == 16 && memcmp(r->address, loopback6, 16) == 0)
		return "localhost";
	if (r->len == 4)
		number = names_number_of4(r->address);
	else if (r->len == 16)
		number = names_number_of6(r->address);
	return number ? from->name_of(from->arg, number) : NULL;
}

static void answer_reverse(struct dns_question *q, const struct reverse *r, const struct dns_source *from, struct answer *a)
{
	const char *name = reverse_name(r, from);

	if (name) {
		if (q->type == TYPE_PTR || q->type == TYPE_ANY)
			give_name(a, name);
		return;
	}
	a->rcode = NXDOMAIN;
	q->is_host = false;
	if (!is_own(r))
		answer_host(q, from, a);
}

static void answer(struct dns_question *q, const struct dns_source *from, struct answer *a)
{
	struct host_target target;
	struct reverse reverse;

	if (parse_reverse(q->name, &reverse))
		answer_reverse(q, &reverse, from, a);
	else if (q->is_host && host_target_parse(q->name, &target, NULL) == 0 && host_is_loopback(&target))
		answer_localhost(q, from, a);
	else
		answer_host(q, from, a);
}

/* ---- writing: the static assertions above say why everything fits ------------------------------------------------------------- */

static uint8_t *put16(uint8_t *p, unsigned value)
{
	*p++ = (uint8_t)(value >> 8);
	*p++ = (uint8_t)value;
	return p;
}

static uint8_t *put32(uint8_t *p, uint32_t value)
{
	return put16(put16(p, value >> 16), value & 0xffff);
}

static uint8_t *put_record(uint8_t *p, const struct answer *a)
{
	p = put16(p, QUESTION_NAME);
	p = put16(p, a->type);
	p = put16(p, CLASS_IN);
	p = put32(p, NAMES_TTL_S);
	p = put16(p, (unsigned)a->len);
	memcpy(p, a->data, a->len);
	return p + a->len;
}

static uint8_t *put_soa(uint8_t *p)
{
	static const uint32_t numbers[] = {1, 3600, 600, 86400, NEGATIVE_TTL_S}; /* serial, refresh, retry, expire, minimum */

	*p++ = 0;
	p = put16(p, TYPE_SOA);
	p = put16(p, CLASS_IN);
	p = put32(p, NEGATIVE_TTL_S);
	p = put16(p, SOA_DATA_LEN);
	*p++ = 0; /* no name server, nobody responsible */
	*p++ = 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		p = put32(p, numbers[i]);
	return p;
}

static uint8_t *put_opt(uint8_t *p, const struct query *q, enum rcode rcode)
{
	*p++ = 0;
	p = put16(p, TYPE_OPT);
	p = put16(p, EDNS_SIZE);
	p = put16(p, (unsigned)rcode >> 4 << 8);  /* and the version, 0 */
	p = put16(p, q->dnssec_ok ? EDNS_DO : 0); /* RFC 3225 3 */
	return put16(p, 0);
}

static size_t write_answer(const struct query *q, const struct answer *a, uint8_t *out)
{
	const bool ours = a->rcode == NOERROR || a->rcode == NXDOMAIN, negative = ours && !a->type;
	const size_t question = q->question_end ? q->question_end - HEADER_LEN : 0;
	const unsigned repeated = q->flags & (FLAG_OPCODE | FLAG_RD | FLAG_CD);
	uint8_t *p = out;

	memcpy(p, q->data, 2);
	p = put16(p + 2, FLAG_QR | FLAG_RA | (ours ? FLAG_AA : 0u) | repeated | ((unsigned)a->rcode & 15));
	p = put16(p, question > 0);
	p = put16(p, a->type != 0);
	p = put16(p, negative);
	p = put16(p, q->edns);
	memcpy(p, q->data + HEADER_LEN, question);
	p += question;
	if (a->type)
		p = put_record(p, a);
	if (negative)
		p = put_soa(p);
	if (q->edns)
		p = put_opt(p, q, a->rcode);
	return (size_t)(p - out);
}

size_t dns_answer(const void *query, size_t len, const struct dns_source *from, void *out)
{
	struct query q = {.data = query, .len = len, .at = 2};
	struct answer a = {0};

	if (len < HEADER_LEN)
		return 0;
	q.flags = take16(&q);
	if (q.flags & FLAG_QR) /* two resolvers must not answer each other's answers */
		return 0;
	a.rcode = parse(&q);
	if (a.rcode == NOERROR)
		answer(&q.question, from, &a);
	return write_answer(&q, &a, out);
}
