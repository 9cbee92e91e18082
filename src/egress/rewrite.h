/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts secrets into the head of a request: each field of the same name goes, whatever was in it (a placeholder, somebody's own), and one with the secret comes. So that a secret can
 * be seen if it is said back (mask.h), nothing compressed is accepted: Accept-Encoding becomes "identity". Everything else stays as it was. The head has passed the checks of http.h: its lines are what everybody takes for lines.
 */
#ifndef CORDON_EGRESS_REWRITE_H
#define CORDON_EGRESS_REWRITE_H

#include "egress/http.h"
#include "egress/keyring.h"

struct rewrite {
	const struct keyring *keys;
	const struct host_target *host;
	bool plain_port; /* the client means port 80, and gets 443: Host says neither */
};

enum rewrite_verdict {
	REWRITE_OK,
	REWRITE_DENIED, /* `why` says why */
	REWRITE_FAILED, /* out of memory */
};
/* out: empty; its bytes are to be wiped with rewrite_wipe(). They are never moved in memory: no copy of them stays anywhere. */
enum rewrite_verdict rewrite_head(const struct rewrite *r, const struct http_part *part, const char *head, size_t len, struct buf *out,
                                  char why[KEYRING_WHY]);
void rewrite_wipe(struct buf *out);

#endif
