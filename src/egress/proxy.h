/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy by which the host itself gets out: it is asked, by CONNECT, for a connection to a name or address. */
#ifndef CORDON_EGRESS_PROXY_H
#define CORDON_EGRESS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/host.h"

struct proxy {
	struct host_target host;
	uint16_t port;
	char *credentials; /* in base64; NULL: none */
	char *except;      /* hosts for which it is not asked, as in NO_PROXY; NULL: none */
};

/* "[http://][USER:PASSWORD@]HOST:PORT[/]", with %XX in user and password. except may be NULL. */
int proxy_parse(const char *url, const char *except, struct proxy *out, struct cordon_error *err);
void proxy_clear(struct proxy *p);

/* Is it not asked for this one? By its list, as curl reads it: names with all below them, addresses, blocks, or "*". */
bool proxy_is_passed_by(const struct proxy *p, const struct host_target *target);

/* What is to be sent to it. */
void proxy_request(const struct proxy *p, const struct host_target *target, uint16_t port, struct buf *out);

/* Its answer, as it comes in. */
struct proxy_answer;
struct proxy_answer *proxy_answer_new(void); /* NULL: out of memory */
void proxy_answer_free(struct proxy_answer *a);
enum proxy_verdict { PROXY_MORE, PROXY_CONNECTED, PROXY_REFUSED };
/* *len: how many of these bytes belong to the answer; what follows comes from the other end. *status: what it said, 0: no HTTP at all. */
enum proxy_verdict proxy_answer_read(struct proxy_answer *a, const void *data, size_t *len, unsigned *status);

#endif
