/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the host's resolvers for the addresses of a name, and their answers, which may be anything (RFC 1035 4). */
#ifndef CORDON_EGRESS_REPLY_H
#define CORDON_EGRESS_REPLY_H

#include <stddef.h>
#include <stdint.h>

#define REPLY_QUESTION_MAX (12 + 255 + 4)
#define REPLY_ADDRESSES_MAX 32 /* more of them are left out */
#define REPLY_ALIASES_MAX 16   /* from the name that was asked for to the one that has addresses */
#define REPLY_JUMPS_MAX 127    /* pointers in one name: no name has more labels */
#define REPLY_RECORDS_MAX 512  /* what is behind these is not looked at */

/* Writes the question for the addresses of one family (AF_INET, AF_INET6) of a name. Its length; 0: DNS has no such names. */
size_t reply_question(const char *name, int family, uint16_t id, unsigned char out[REPLY_QUESTION_MAX]);

enum reply_kind {
	REPLY_FOREIGN,   /* not an answer to this question */
	REPLY_TRUNCATED, /* there is more of it, over TCP */
	REPLY_ADDRESSES, /* that there are: none, perhaps */
	REPLY_NO_NAME,   /* there is no such name */
	REPLY_FAILED,    /* the resolver could not say, or what it says makes no sense */
};

struct reply {
	size_t count;
	unsigned char addresses[REPLY_ADDRESSES_MAX][16]; /* of IPv4: the first four bytes */
};

/* `out` is filled in for REPLY_ADDRESSES. */
enum reply_kind reply_read(const void *message, size_t len, const unsigned char *question, size_t question_len, struct reply *out);

#endif
