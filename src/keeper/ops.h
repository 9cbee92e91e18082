/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a sandbox's layer tree as a request and a reply of plain strings, so that it is the same whether the sandbox is stopped (the command does
 * it itself, under the lock) or live (its keeper does it, which holds the lock and the mounts).
 */
#ifndef CORDON_KEEPER_OPS_H
#define CORDON_KEEPER_OPS_H

#include "lib/live.h"

enum op_verb {
	OP_SNAPSHOT, /* name, note ("" each: none)        → "id ID" */
	OP_RESTORE,  /* snapshot                          → "id ID" */
	OP_FORK,     /* snapshot ("": the present), name  → "id ID" */
	OP_TX_BEGIN, /*                                   → "depth N" */
	OP_TX_COMMIT,
	OP_TX_ROLLBACK,
	OP_COMMIT,  /* "path PATH": only these, "force PATH": even if the host changed them; flags: enum commit_flags
	                                                     → "applied N", "times N", "conflict WHY\tPATH", "autorun WHY\tPATH", "kind WHY\tPATH", "executable PATH" */
	OP_DISCARD, /*                                   → "changes N", "before ID": the layer it stood on, if it had one */
	OP_VERB_COUNT,
};

struct op_request {
	enum op_verb verb;
	unsigned flags;
	struct strlist args;
	/* Of a commit; from time to time. May be NULL. */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};

struct op_reply {
	int status;           /* 0, or 1: refused (a commit with conflicts) */
	struct strlist items; /* "key value"; values are raw bytes without NUL */
};
void op_request_free(struct op_request *r);
void op_reply_free(struct op_reply *r);
/* The value of the first item with this key; NULL: there is none. */
const char *op_reply_get(const struct op_reply *r, const char *key);

/* Does it on an opened sandbox. Nothing may have its transaction in it. */
int op_run(struct live *l, const struct op_request *request, struct op_reply *reply, struct cordon_error *err);

#endif
