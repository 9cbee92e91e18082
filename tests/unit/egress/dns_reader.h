/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a DNS message with the C library's own parser, which knows nothing of ours. */
#ifndef CORDON_TESTS_DNS_READER_H
#define CORDON_TESTS_DNS_READER_H

#include "base/util.h" /* first: <resolv.h> brings a MIN and MAX of its own */

#include <arpa/nameser.h>
#include <resolv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dns_reading {
	ns_msg msg;
	unsigned rcode; /* with EDNS's part */
	bool has_question, has_answer, has_soa, has_opt;
	ns_rr question, answer, soa, opt;
	uint32_t soa_minimum;
};

/* At most one record of each kind, and nothing else, up to the last byte; or false. */
static inline bool dns_read(const void *data, size_t len, struct dns_reading *out)
{
	*out = (struct dns_reading){0};
	if (ns_initparse(data, (int)len, &out->msg) < 0)
		return false;
	const unsigned counts[4] = {ns_msg_count(out->msg, ns_s_qd), ns_msg_count(out->msg, ns_s_an), ns_msg_count(out->msg, ns_s_ns),
	                            ns_msg_count(out->msg, ns_s_ar)};
	bool *const has[4] = {&out->has_question, &out->has_answer, &out->has_soa, &out->has_opt};
	ns_rr *const records[4] = {&out->question, &out->answer, &out->soa, &out->opt};

	for (int i = 0; i < 4; i++) {
		if (counts[i] > 1 || (counts[i] == 1 && ns_parserr(&out->msg, (ns_sect)i, 0, records[i]) < 0))
			return false;
		*has[i] = counts[i] == 1;
	}
	out->rcode = ns_msg_getflag(out->msg, ns_f_rcode);
	if (out->has_opt) {
		if (ns_rr_type(out->opt) != ns_t_opt || ns_rr_name(out->opt)[0] != '.')
			return false;
		out->rcode |= ns_rr_ttl(out->opt) >> 24 << 4;
	}
	if (out->has_soa) {
		char name[NS_MAXDNAME];
		const uint8_t *p = ns_rr_rdata(out->soa), *end = p + ns_rr_rdlen(out->soa);

		if (ns_rr_type(out->soa) != ns_t_soa || ns_rr_class(out->soa) != ns_c_in)
			return false;
		for (int i = 0; i < 2; i++) {
			int n = dn_expand(data, (const uint8_t *)data + len, p, name, sizeof(name));

			if (n < 0)
				return false;
			p += n;
		}
		if (end - p != 20)
			return false;
		out->soa_minimum = (uint32_t)ns_get32(p + 16);
	}
	return true;
}

#endif
