/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which the broker speaks TLS as the hosts that secrets are for: an authority of this sandbox alone, which is believed by nobody but the sandbox (it gets the
 * certificate), and whose key stays with the broker and the library. Certificates of hosts are made when they are first needed.
 */
#ifndef CORDON_EGRESS_AUTHORITY_H
#define CORDON_EGRESS_AUTHORITY_H

#include <openssl/ssl.h>

#include "base/err.h"
#include "egress/messages.h"

#define AUTHORITY_DAYS 3650      /* the sandbox cannot be given another one, and may live long */
#define AUTHORITY_LEAF_DAYS 90   /* certificates of hosts … */
#define AUTHORITY_RENEW_DAYS 30  /* … of which none is used that is older than this */
#define AUTHORITY_LEAVES_MAX 128 /* that are kept; beyond, the one that was made first goes */

struct authority;
/* earlier: one that authority_pem() of an earlier broker gave; without a certificate in it a new one is made. */
struct authority *authority_new(const struct broker_authority *earlier, struct cordon_error *err);
void authority_free(struct authority *a);

/* Both in PEM; valid as long as the authority is. */
struct broker_authority authority_pem(const struct authority *a);

/* What speaks as this host (a name in the one form of policy/host.h): TLS 1.2 or later, HTTP/1.1 and nothing else. NULL: out of memory. Valid until the next call. */
SSL_CTX *authority_context(struct authority *a, const char *name);

#endif
