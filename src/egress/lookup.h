/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a name, outside: by the host's hosts file, or by asking the servers of its resolv.conf, over UDP, and over TCP where the answer does not fit. Nothing is kept: who asks again gets
 * what is true then; who asks while somebody else does gets the same answer. Nobody else is asked, and for no other name.
 */
#ifndef CORDON_EGRESS_LOOKUP_H
#define CORDON_EGRESS_LOOKUP_H

#include <event2/event.h>
#include <stddef.h>

#include "base/err.h"
#include "egress/reply.h"

#define LOOKUPS_MAX 256 /* different questions that are under way at a time; others wait for them */

struct lookups;
/* Reads the files; NULL: the usual ones, which need not be there. */
struct lookups *lookups_new(struct event_base *base, const char *resolv, const char *hosts, struct cordon_error *err);
/* The contents of resolv.conf are others now: who is not answered yet asks these servers the next time. */
void lookups_renew(struct lookups *all, const char *resolv);
void lookups_free(struct lookups *all); /* when there is no lookup any more */

struct lookup;
/* why: NULL if the name's servers have answered, be it that it has no addresses (of this family). */
typedef void lookup_done(void *arg, int family, const struct reply *found, const char *why);
/* `done` is called once, and never out of lookup_start(). Takes as long as it takes: who cannot wait cancels it. NULL: out of memory. */
struct lookup *lookup_start(struct lookups *all, const char *name, int family, lookup_done *done, void *arg);
/* Before it is done: it never will be. NULL is none. */
void lookup_cancel(struct lookup *l);

#endif
