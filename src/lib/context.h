/* SPDX-License-Identifier: Apache-2.0 */
/* A context: one launcher and where state lives. */
#ifndef CORDON_LIB_CONTEXT_H
#define CORDON_LIB_CONTEXT_H

#include <pthread.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

#define GATE_REMEMBERS 32 /* questions that the gate had nothing to say about */

struct cordon {
	int requests; /* socket to the launcher; a message is one atomic send, so threads need no lock */
	pid_t launcher;
	char *home; /* $CORDON_HOME, absolute */
	pthread_mutex_t lock;
	int gate; /* socket to cordon-gate, -1: none; this and the following by the lock, see lib/gate.h */
	pid_t gate_pid;
	bool gate_open;         /* it has read its rules */
	struct buf gate_config; /* … which were these */
	struct buf gate_passed[GATE_REMEMBERS];
	unsigned gate_next;  /* the place that is used next */
	struct pool *pool;   /* NULL: none, see lib/pool.h */
	struct audit *audit; /* by the lock; NULL: not opened yet, see events_log() */
};

/* Without a launcher: no sandboxes, but an audit and a gate. To be closed with cordon_close(). */
int context_open_bare(struct cordon **out, struct cordon_error *err);

/* As cordon_open(), for a program that makes one sandbox and ends: nothing is made ahead unless CORDON_POOL asks for it. */
int context_open_once(struct cordon **out, struct cordon_error *err);

/* $CORDON_HOME, or where it is by default. To be released with free(). */
char *context_find_home(struct cordon_error *err);

#endif
