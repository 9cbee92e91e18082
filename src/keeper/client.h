/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands' side of a live sandbox: talking to its keeper over $CORDON_HOME/sandboxes/ID/keeper (a SOCK_SEQPACKET socket that only its owner
 * can reach), starting one when there is none.
 */
#ifndef CORDON_KEEPER_CLIENT_H
#define CORDON_KEEPER_CLIENT_H

#include "keeper/ops.h"

enum box_state { BOX_STOPPED, BOX_LIVE, BOX_PAUSED };
extern const char *const box_state_names[]; /* "stopped", "live", "paused" */

/* The truth about a sandbox now: asks its keeper; a socket that nobody listens on (a keeper that was killed) means stopped. */
int keeper_state(const char *home, const char *id, enum box_state *out, struct cordon_error *err);
/* The ports that it publishes now, as "INSIDE HOST" each; added to out. None if it is stopped, or too busy to answer. */
int keeper_published(const char *home, const char *id, struct strlist *out, struct cordon_error *err);

/* Through the keeper if the sandbox is live, else by itself under the lock. wait: queue behind an exec that runs; else CORDON_ERR_BUSY and the message says by whom it is used. */
int keeper_op(const char *home, const char *what, const struct op_request *request, bool wait, struct op_reply *reply,
              struct cordon_error *err);

/* Ends it: services get SIGTERM, a few seconds later everything is killed; its changes stay. No error if it is stopped already. */
int keeper_stop(const char *home, const char *id, struct cordon_error *err);
int keeper_pause(const char *home, const char *id, bool paused, struct cordon_error *err);

/* Services, execs that run and execs that wait for their turn. */
struct keeper_process {
	char id[24];
	char name[64]; /* of a service; "": an exec */
	char *command;
	int64_t started_ms; /* or, while it is queued, asked for */
	bool running;
	int exit_code; /* once it is over */
	bool queued;   /* not running yet */
};
struct keeper_processes {
	struct keeper_process *items;
	size_t count;
};
int keeper_ps(const char *home, const char *id, struct keeper_processes *out, struct cordon_error *err);
void keeper_processes_free(struct keeper_processes *p);
/* target: a service's name or an exec's id (or unique beginning). */
int keeper_kill(const char *home, const char *id, const char *target, int signo, struct cordon_error *err);

#endif
