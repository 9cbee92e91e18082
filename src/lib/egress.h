/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out of a sandbox whose policy names hosts: a broker (egress/), a process of its own, at the other end of the airlock (sandbox/airlock.h). It is started with
 * the first command, told the policy's rules, and watched: what it reports goes to the audit and into the result of the commands that run, and if it dies
 * another one takes its place. The airlock's sockets stay here, so the sandbox does not notice but by the connections that were open. A broker that dies again and again
 * is not replaced any more: the sockets are closed, and nothing leads out.
 */
#ifndef CORDON_LIB_EGRESS_H
#define CORDON_LIB_EGRESS_H

#include "lib/exec.h"

/* A sandbox is about to be made: the broker may get ready meanwhile. Nothing to do where the policy lets nobody out; what fails is told by egress_enter(). */
void egress_prepare(struct cordon_sandbox *s);

/*
 * Where the policy has secrets: the certificate (PEM) that programs in the sandbox must believe, to be known before it is made. It stays until egress_free(); NULL: there
 * is none to be had.
 */
int egress_authority(struct cordon_sandbox *s, const char **certificate, struct cordon_error *err);

/* Before a command starts: its sandbox is ready, and the broker runs. */
int egress_enter(struct cordon_exec *e, struct cordon_error *err);
/* While it runs: what it was refused so far is among its denials. e->wake says when there is something. */
void egress_collect(struct cordon_exec *e);
/* The command is over, or was not started: what it was refused is among its denials. May be called more than once. */
void egress_leave(struct cordon_exec *e);

struct egress_port {
	uint16_t inside, host; /* the one of the sandbox is the other one of the host's loopback */
};
/* Port i of those that are published now, in the order of network.inbound; false: there are fewer. */
bool egress_published(struct cordon_sandbox *s, size_t i, struct egress_port *out);

/* Nothing runs inside any more. Waits until the end of all connections is on record. Any state; the next command starts another broker. */
void egress_end(struct cordon_sandbox *s);
/* Nobody will use it any more. */
void egress_free(struct cordon_sandbox *s);

#endif
