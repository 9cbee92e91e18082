/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two connected sockets, and what each sends goes to the other. Where nothing has to be looked at, bytes go from socket to pipe to socket and never come into this
 * process's memory (splice(2)); else they are read, shown to a check, and sent as far as it lets them. A socket that somebody else has, too,
 * who can make it block, is never waited for: see `copied`.
 *
 * Nothing is read from one side that the other has not taken yet, so that whoever is slow slows the other down. The end of one direction is passed on while the other one
 * goes on; a reset is passed on as a reset.
 */
#ifndef CORDON_EGRESS_RELAY_H
#define CORDON_EGRESS_RELAY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RELAY_IDLE_S 3600               /* without a byte either way */
#define RELAY_MEMORY ((size_t)32 << 20) /* that all relays may have for bytes to be looked at, and a little more each */

enum relay_way { RELAY_UP, RELAY_DOWN }; /* to the server, to the client */

enum relay_end {
	RELAY_DONE,    /* both sides have ended */
	RELAY_RESET,   /* one of them broke off */
	RELAY_IDLE,    /* nothing happened for too long */
	RELAY_REFUSED, /* the check did not let it go on */
};

/*
 * What may go of the bytes that have not gone yet: *len is how many there are, then how many may go. Called again with the rest when more has come, and for RELAY_UP when
 * the server has answered.
 */
enum relay_verdict {
	RELAY_PASS,
	RELAY_WAIT, /* … and no more is needed before the server answers (RELAY_UP) */
	RELAY_FREE, /* … and nothing that comes this way needs to be looked at any more */
	RELAY_STOP, /* neither these nor any more: RELAY_REFUSED */
};
typedef enum relay_verdict relay_check(void *arg, enum relay_way way, const void *data, size_t *len);
/* It is over; to be followed by relay_free(), which may be called at once. Never called out of relay_start(). */
typedef void relay_over(void *arg, enum relay_end how);

struct relays;                                                          /* what they share: pipes, the limit on bytes per second */
struct relays *relays_new(struct event_base *base, uint64_t bandwidth); /* NULL: out of memory */
void relays_free(struct relays *s);
struct bucket *relays_bucket(struct relays *s); /* that limit, for others that move bytes */

struct relay_spec {
	int client, server; /* do not block (or `copied`); taken over */
	struct buf *first;  /* what the client has sent already; taken over */
	size_t passed;      /* how many of these have been looked at, and may go */
	relay_check *check; /* NULL: nothing is looked at from here on */
	bool copied;        /* bytes go by memory though nothing is looked at: splice(2) waits if a file says so, whatever the call says */
	void *check_arg;
	relay_over *over;
	void *over_arg;
};

struct relay;
struct relay *relay_start(struct relays *s, const struct relay_spec *spec); /* NULL: out of memory, and nothing was taken over */
uint64_t relay_bytes(const struct relay *r, enum relay_way way);
/* Closes both sockets; reset: so that both sides see that it was not the regular end. */
void relay_free(struct relay *r, bool reset);

#endif
