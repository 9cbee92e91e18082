/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be looked at in a connection of protocol `web`: its first byte says whether it is TLS (hello.h), of which the beginning is looked at, or plain HTTP (http.h), of
 * which every request is.
 */
#ifndef CORDON_EGRESS_INSPECT_H
#define CORDON_EGRESS_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include "egress/relay.h"

struct inspect;
struct inspect *inspect_new(const char *name, uint16_t port); /* NULL: out of memory */
void inspect_free(struct inspect *i);

enum inspect_verdict { INSPECT_MORE, INSPECT_OK, INSPECT_REFUSED };
/* data: all that the client has sent so far. INSPECT_OK: it is for this name, and *passed bytes may go; the rest, and what follows, is for inspect_check(). */
enum inspect_verdict inspect_first(struct inspect *i, const void *data, size_t len, size_t *passed);
/* A relay_check; arg is the struct inspect. */
enum relay_verdict inspect_check(void *arg, enum relay_way way, const void *data, size_t *len);

const char *inspect_protocol(const struct inspect *i); /* "tls", "http"; "tcp" while nothing is known */
const char *inspect_why(const struct inspect *i);      /* what was refused: one line */

#endif
