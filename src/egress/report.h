/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library is told. It is sent before the sandbox gets its answer, and if the library is slow, the broker waits: nothing happens that is not on record.
 *
 * Refusals and failures cost a sandbox nothing, so that it could have millions of them. Each target is told of once a minute, command and rule at most, and how often it
 * was refused after that is told within another; all refusals together (and all failures) at a rate that a person could read; what is left out is counted, and the count is told. What is
 * opened and closed is told each time: how often that can be, broker.c limits.
 */
#ifndef CORDON_EGRESS_REPORT_H
#define CORDON_EGRESS_REPORT_H

#include <event2/event.h>

#include "egress/messages.h"

#define REPORT_AGAIN_S 60        /* for which a target that was refused is not told of again */
#define REPORT_TARGETS 1024      /* that are remembered */
#define REPORT_BURST 200         /* refusals at once … */
#define REPORT_RATE 20           /* … and per second afterwards */
#define REPORT_LEFT_OUT_S 10     /* how often the count of those left out is told */
#define REPORT_OTHERS "(others)" /* the target of that count */

struct reporter;
/* Sends over fd; when that fails, the loop is broken off: there is nobody left to work for. NULL: out of memory. */
struct reporter *reporter_new(struct event_base *base, int fd);
void reporter_free(struct reporter *r);

void report(struct reporter *r, const struct broker_event *e);
void report_limited(struct reporter *r, const struct broker_event *e); /* as above: BROKER_DENIED, BROKER_FAILED */
/* What was refused so far is told again when it is refused again. */
void report_afresh(struct reporter *r);
/* Tells all that was counted and not told, if there is any. */
void report_rest(struct reporter *r);

#endif
