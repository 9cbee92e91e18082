/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver that a sandbox has: it knows the names that the policy allows, each under the address of its number (names.h), and nothing else. No question is ever passed
 * on, so nothing leaves by asking. It reads one query, which may be anything, and writes one answer.
 *
 *   A, AAAA of an allowed name      its address, for NAMES_TTL_S; ANY gets the A alone (RFC 8482)
 *   any other type of it            no data: neither SVCB nor HTTPS records (RFC 9460), which would bring keys for encrypted ClientHellos and addresses of their own
 *   a name that is not allowed      there is no such name
 *   localhost and names below       127.0.0.1, ::1 (RFC 6761), nobody is asked
 *   PTR of a name's address         the name
 */
#ifndef CORDON_EGRESS_DNS_H
#define CORDON_EGRESS_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_MESSAGE_MAX 4096 /* the longest query that is read */
#define DNS_ANSWER_MAX 512   /* no answer is longer, over UDP or TCP: none is ever truncated */

#define DNS_NAME_TEXT_MAX (1024 + 1)

/* What somebody wants to know about a name: in lower case, without a dot at the end (the root is "."); bytes that no host name has are "\DDD", as zone files have it. */
struct dns_question {
	char name[DNS_NAME_TEXT_MAX];
	uint16_t type;
	bool is_host; /* it has the form of policy/host.h, and could be a host's */
};

enum dns_verdict {
	DNS_NUMBER, /* *number is its number */
	DNS_DENIED, /* there is no such name, for all that they know inside */
	DNS_BUSY,   /* not now: SERVFAIL */
};

/*
 * Called once per well-formed question, of whatever type. A name that is not is_host is asked about only so that it can be recorded: it does not exist, whatever the verdict
 * (addresses backwards, as in 4.3.2.1.in-addr.arpa, are such names). Nobody is asked about localhost, nor about the airlock's own addresses backwards.
 */
typedef enum dns_verdict dns_ask(void *arg, const struct dns_question *q, uint32_t *number);
/* The name of a number, as names_of(); NULL: nobody has it. */
typedef const char *dns_name_of(void *arg, uint32_t number);

struct dns_source {
	dns_ask *ask;
	dns_name_of *name_of;
	void *arg;
	bool no_ipv6; /* names have no AAAA: the sandbox could not connect there */
};

/*
 * The answer to a query of len bytes; over TCP without the two bytes of its length. Returns the answer's length, 0: there is none to be given (it is not a query, or too short to
 * have an id). `out` holds DNS_ANSWER_MAX bytes and does not overlap the query.
 */
size_t dns_answer(const void *query, size_t len, const struct dns_source *from, void *out);

#endif
