/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of a connection that carries secrets have in common, as TLS. */
#ifndef CORDON_EGRESS_TLS_H
#define CORDON_EGRESS_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/err.h"

/* "http/1.1", as ALPN writes it: the only one. */
extern const unsigned char tls_protocols[];
#define TLS_PROTOCOLS_LEN 9

/* TLS 1.2 or later, nothing negotiated anew, memory given back while nothing happens. NULL: out of memory. */
SSL_CTX *tls_context_new(const SSL_METHOD *method);

/*
 * By which servers are verified. file: certificates in PEM; NULL: those that this host trusts, of the first place that there is. Read whole, and now: later no file can be opened.
 */
SSL_CTX *tls_trust_new(const char *file, struct cordon_error *err);
/* One connection to a server, which must have a certificate for this name. NULL: out of memory. */
SSL *tls_client_new(SSL_CTX *trust, const char *name);

/* Has OpenSSL load and compute whatever it does when it is first needed: shakes hands once, of `server` with itself. Nobody is contacted. false: it cannot. */
bool tls_warm_up(SSL_CTX *server, SSL_CTX *trust);

/* What OpenSSL says to the last error of this thread, in words; the queue is empty afterwards. */
const char *tls_reason(void);

#endif
