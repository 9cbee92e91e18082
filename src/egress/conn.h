/* SPDX-License-Identifier: Apache-2.0 */
/* A connection out of the sandbox: accepted, looked at, dialled, relayed. */
#ifndef CORDON_EGRESS_CONN_H
#define CORDON_EGRESS_CONN_H

#include "egress/broker.h"

#define CONN_HEAD_S 30       /* for which its first bytes may take */
#define CONN_WAITING_MAX 256 /* connections without these; beyond, the one that waits longest goes */
#define CONN_PIECES_MAX 256  /* in which they may come: each costs a look at all of them */

void conn_accepted(struct broker *b, int fd); /* takes it over */
void conn_close_all(struct broker *b);        /* each is told of */

#endif
