/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command and the keeper of a live sandbox say to each other, over SOCK_SEQPACKET in wire.h's framing.
 *
 *   keeper ── READY ──▶ client                            on accept: from here on requests are heard
 *   client ── REQUEST(verb) ──▶ keeper                    one per connection, and what belongs to it
 *   keeper ── REPLY(OK | QUEUED | STARTED | OUTPUT | ROOM | NO_ROOM | END | PROGRESS) or ERROR ──▶ client
 *
 * An attached exec: EXEC → QUEUED*, STARTED, then OUTPUT and ROOM as they come, END last. The client sends one INPUT, of at most
 * KEEPER_INPUT_MAX bytes, for each ROOM; so neither side ever waits for the other with a message in hand. A client that goes away cancels
 * its exec.
 *
 * Requests and replies each have one form, whatever the verb: what a verb has no use for is empty. That costs a few dozen bytes a message
 * and makes one decoder that can be read, and fuzzed, as a whole.
 */
#ifndef CORDON_KEEPER_PROTOCOL_H
#define CORDON_KEEPER_PROTOCOL_H

#include "cordon.h"
#include "sandbox/spec.h"

#define KEEPER_SOCKET "keeper" /* in the directory of the sandbox */
#define KEEPER_LOGS "logs"
#define KEEPER_INPUT_MAX ((size_t)64 << 10)
#define KEEPER_CHUNK ((size_t)7 << 10) /* of output in one message: it stays below WIRE_INLINE, so no memfd is made for it */
#define KEEPER_NAME_MAX 63             /* of a service */

enum keeper_verb {
	KEEPER_EXEC = 1,
	KEEPER_OP,     /* op, op_flags, args: ops.h                         → OK with status and items */
	KEEPER_STATE,  /*                                                   → OK, items: state, keeper's pid, its published ports */
	KEEPER_PS,     /*                                                   → OK, items: KEEPER_PS_FIELDS for each process */
	KEEPER_KILL,   /* name: a service or exec; signo                    → OK */
	KEEPER_WAIT,   /* name                                              → OK with its exit status, once it is over; items: id */
	KEEPER_PAUSE,  /*                                                   → OK */
	KEEPER_RESUME, /*                                                   → OK */
	KEEPER_STOP,   /*                                                   → OK once it is stopped; then the keeper ends */
	/* for the exec that this client started */
	KEEPER_INPUT, /* data */
	KEEPER_INPUT_END,
	KEEPER_RESIZE, /* rows, cols */
	KEEPER_CANCEL,
	KEEPER_VERB_COUNT,
};

enum keeper_flags {
	KEEPER_TTY = 1 << 0,
	KEEPER_STDIN = 1 << 1,
	KEEPER_DETACH = 1 << 2,   /* a service: outlives the client */
	KEEPER_PARALLEL = 1 << 3, /* beside others, without a transaction */
	KEEPER_NO_WAIT = 1 << 4,  /* busy is an error */
	KEEPER_HAS_OK = 1 << 5,   /* `ok` counts */
	KEEPER_TELL = 1 << 6,     /* an operation that takes long tells how far it is */
	KEEPER_FLAGS_ALL = (1 << 7) - 1,
};

enum { KEEPER_STATE_FIELDS = 2 }; /* state and pid; published ports follow */

enum { KEEPER_PS_FIELDS = 6 }; /* id, name, command, started (ms since the epoch), "queued", "running" or "over", exit status */

struct keeper_request {
	enum keeper_verb verb;
	uint32_t flags;
	int64_t timeout_ms;  /* 0: the policy's, -1: none */
	uint32_t on_failure; /* 0: the policy's, else 1 + enum tx_action */
	uint8_t ok[32];      /* exit statuses that count as success, one bit each */
	uint32_t rows, cols;
	uint32_t signo;
	uint32_t op, op_flags;
	const char *name; /* NULL: none */
	const char *cwd;  /* NULL: /app */
	struct string_list argv, env, args;
	const void *data;
	size_t len;
};

void request_encode(const struct keeper_request *r, struct buf *out);
/* What is returned points into the body, which must outlive it. Nothing is to be released after a failure. */
int request_decode(const void *body, size_t len, struct keeper_request *out, struct cordon_error *err);
void request_free(struct keeper_request *r);

enum keeper_event {
	KEEPER_OK = 1,   /* the last word; status, items */
	KEEPER_QUEUED,   /* text: behind whom */
	KEEPER_STARTED,  /* text: id of the exec */
	KEEPER_OUTPUT,   /* status: enum cordon_stream; data */
	KEEPER_ROOM,     /* the command takes input */
	KEEPER_NO_ROOM,  /* … and never will again */
	KEEPER_END,      /* data: a result */
	KEEPER_PROGRESS, /* of an operation, only with KEEPER_TELL; data: progress_encode() */
	KEEPER_DENIAL,   /* of a command that runs; data: denial_encode() */
	KEEPER_EVENT_COUNT,
};

struct keeper_reply {
	enum keeper_event event;
	uint32_t status;
	const char *text; /* NULL: none */
	struct string_list items;
	const void *data;
	size_t len;
};

void reply_encode(const struct keeper_reply *r, struct buf *out);
int reply_decode(const void *body, size_t len, struct keeper_reply *out, struct cordon_error *err);
void reply_free(struct keeper_reply *r);

/* How far an operation is. What is too busy to be told is not told again. */
void progress_encode(uint64_t done, uint64_t total, struct buf *out);
int progress_decode(const void *body, size_t len, uint64_t *done, uint64_t *total, struct cordon_error *err);

/* What a command was refused. Points into the body. */
void denial_encode(const struct cordon_denial *d, struct buf *out);
int denial_decode(const void *body, size_t len, struct cordon_denial *out, struct cordon_error *err);

/* A result without its output, which went before. */
struct keeper_result {
	struct cordon_result result;
	struct cordon_change *changes;
	struct cordon_denial *denials;
	struct string_list services;
};
void result_encode(const struct cordon_result *r, struct buf *out);
int result_decode(const void *body, size_t len, struct keeper_result *out, struct cordon_error *err);
void keeper_result_free(struct keeper_result *r);

#endif
