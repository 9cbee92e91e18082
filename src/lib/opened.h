/* SPDX-License-Identifier: Apache-2.0 */
/* The connections that a broker has told of as opened and not yet as closed, so that their end can be on record if it dies and never tells. */
#ifndef CORDON_LIB_OPENED_H
#define CORDON_LIB_OPENED_H

#include "egress/messages.h"

#define OPENED_MAX 2048 /* more than a broker has at a time: who claims more loses those of which it told first */

struct opened; /* a set; NULL is empty */

/* Takes notice of what a broker says. -1: out of memory. */
int opened_follow(struct opened **set, const struct broker_event *e);

/* Takes one out, as an event of its end without numbers; out->target, … are good until the next call. False: there is none, and the set's memory is free. */
bool opened_take(struct opened **set, struct broker_event *out);

#endif
