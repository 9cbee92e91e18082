/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the first bytes of a TLS connection, which are passed on untouched: for whom does the client think it is? The name must be there, once, readable, and the one
 * whose address was dialled. An encrypted ClientHello is refused: what it asks for, nobody here can tell. One that only pretends to be (GREASE, RFC 9849 6.2) cannot be
 * told from it, and is refused as well.
 *
 * A server may ask for a second ClientHello (HelloRetryRequest), and some believe that one: it must be looked at, too. So what a client sends behind its first one is
 * kept back until hello_answer() knows what the server said.
 */
#ifndef CORDON_EGRESS_HELLO_H
#define CORDON_EGRESS_HELLO_H

#include <stdbool.h>
#include <stddef.h>

#define HELLO_MAX ((size_t)64 << 10) /* a ClientHello that is longer is refused */

enum hello_verdict {
	HELLO_MORE,    /* it goes on */
	HELLO_OK,      /* it is for this name */
	HELLO_REFUSED, /* *why says why, one line without a full stop */
};

/* A TLS connection begins with this byte, a plain HTTP request never does. */
static inline bool hello_is_tls(unsigned char first)
{
	return first == 0x16;
}

/*
 * data: all that the client has sent so far. name: in the one form of policy/host.h; of an address (a rule with a block): its text, for which there need not be a name in
 * the ClientHello. Cheap until the ClientHello is whole: then OpenSSL reads it, once. HELLO_MORE is never said about HELLO_MAX bytes or more.
 */
enum hello_verdict hello_check(const void *data, size_t len, const char *name, const char **why);
/* Of that which hello_check() was content with: how many bytes it has. What is behind them comes after the server's answer. */
size_t hello_length(const void *data, size_t len);

/* What the server said first; data: all that it has sent so far. */
enum hello_answer {
	HELLO_ANSWER_MORE,  /* not known yet; never said about HELLO_ANSWER_MAX bytes or more */
	HELLO_ANSWER_FINAL, /* no second ClientHello can follow: the rest is between the two */
	HELLO_ANSWER_RETRY, /* what the client sends from here on is for hello_check_again() */
};
#define HELLO_ANSWER_MAX 128
enum hello_answer hello_answer(const void *data, size_t len);

/* The second ClientHello. data: all that the client has sent behind the first. */
enum hello_verdict hello_check_again(const void *data, size_t len, const char *name, const char **why);

/* Has OpenSSL load what it needs, which later, when a process has been locked down, it could not. Done by the first check otherwise. */
void hello_warm_up(void);

#endif
