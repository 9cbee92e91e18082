/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the keeper of a sandbox: found, or started. Shared by the files of the commands' side. */
#ifndef CORDON_KEEPER_LINK_H
#define CORDON_KEEPER_LINK_H

#include "keeper/protocol.h"
#include "layers/box.h"

#define LINK_NONE (-2) /* there is no keeper */

/* Somebody who wants the sandbox, and may have to wait for it. */
struct turn {
	struct store *store;
	const char *id;
	int dir;             /* of the sandbox */
	int changes;         /* inotify on it, -1: none */
	int64_t deadline_ms; /* for a keeper to come or go */
	bool wait;           /* also for whoever works on it without a keeper */
	int patience_ms;     /* for an answer; then EAGAIN in err->sys_errno. 0: as long as it takes, it may be sealing a large layer */
	void (*waiting)(void *user, const char *who); /* called before it waits for long; may be NULL */
	void *user;
};
int turn_begin(struct turn *t, struct store *store, const char *id, struct cordon_error *err);
void turn_end(struct turn *t);
#define _cleanup_turn_ __attribute__((cleanup(turn_end)))

/* err says that somebody else holds the sandbox: waits until it is worth trying again (0), or it is an error (-1). Any other error
 * stays one. */
int turn_wait(struct turn *t, struct cordon_error *err);

/* Connects to the keeper that is there: a socket that was greeted, LINK_NONE, or -1. */
int link_connect(const struct turn *t, struct cordon_error *err);
/* … or starts one. */
int link_reach(struct turn *t, struct cordon_error *err);
/* True if the keeper was about to end and the request has to be made again. */
bool link_try_again(const struct cordon_error *err);

int link_send(int fd, const struct keeper_request *request, struct cordon_error *err);
/* The next word: reply points into msg. -1 also if the keeper said why not, or is gone (ECONNRESET in err->sys_errno). */
int link_receive(int fd, struct wire_msg *msg, struct keeper_reply *reply, struct cordon_error *err);

#endif
