/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of the keeper, shared by its files:
 *
 *   keeper.c        start, the loop, the end
 *   keeper_conn.c   clients: receiving, answering, queues of what could not be sent yet
 *   keeper_serve.c  what clients ask for
 *   keeper_job.c    execs, services and operations: their queue and their lives
 *   keeper_log.c    the output of services, on disk
 */
#ifndef CORDON_KEEPER_KEEPER_H
#define CORDON_KEEPER_KEEPER_H

#include <poll.h>

#include "keeper/ops.h"
#include "keeper/protocol.h"
#include "lib/exec.h"

struct keeper;
struct job;

/* ---- keeper_conn.c ----------------------------------------------------------------------------------------------------------- */

struct message {
	struct message *next;
	enum wire_type type;
	struct buf body;
};

struct conn {
	struct conn *next;
	int fd;
	int slot;                     /* in the loop's poll set, -1: not in it */
	bool asked;                   /* it has made its request */
	bool stops;                   /* it waits for the end of the keeper */
	bool closing;                 /* the last word is said; it goes when that is sent */
	bool dead;                    /* to be removed at the end of this round */
	struct job *job;              /* the exec (or operation) that it asked for */
	char awaits[ID_LEN + 1];      /* the exec whose end it waits for; "": none */
	struct message *first, *last; /* not sent yet */
	size_t queued;                /* bytes of them */
};

/* fd becomes the connection's; it is closed if it cannot be taken. */
void conn_add(struct keeper *k, int fd);
/* Everybody who knocks. */
void conn_accept(struct keeper *k);
/* Sends now, or later. Whatever goes wrong is the end of that client only. */
void conn_send(struct conn *c, enum wire_type type, const struct buf *body);
void conn_reply(struct conn *c, const struct keeper_reply *r);
/* The last word. */
void conn_ok(struct conn *c, uint32_t status, const struct string_list *items);
void conn_error(struct conn *c, const struct cordon_error *err);
/* Its descriptor is ready. */
void conn_step(struct keeper *k, struct conn *c, short revents);
void conn_sweep(struct keeper *k);
/* Sends what is queued even if that means to wait a moment. */
void conn_flush(struct conn *c);

/* ---- keeper_serve.c ---------------------------------------------------------------------------------------------------------- */

/* One message of a client; the body belongs to msg, which may be taken over. */
void serve(struct keeper *k, struct conn *c, struct wire_msg *msg);

/* ---- keeper_log.c ------------------------------------------------------------------------------------------------------------ */

struct keeper_log {
	int fd; /* -1: none */
	int dir;
	uint64_t size;
	char file[ID_LEN + 8];
};

/* ID.log in dir, and NAME.log as a link to it; old ones are removed. dir must outlive it. */
int log_open(struct keeper_log *l, int dir, const char *id, const char *name, struct cordon_error *err);
void log_write(struct keeper_log *l, const void *data, size_t len);
void log_close(struct keeper_log *l);
/* A line of the keeper's own in keeper.log: nobody may be there to be told. */
void log_note(int dir, const char *what, const struct cordon_error *err);

/* ---- keeper_job.c ------------------------------------------------------------------------------------------------------------ */

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_OVER };

struct job {
	struct job *next;
	char id[ID_LEN + 1];
	char name[KEEPER_NAME_MAX + 1]; /* of a service; "": none */
	char *command;                  /* one line, for people */
	enum job_state state;
	bool service;            /* outlives its client */
	bool own;                /* needs the transaction */
	bool gone;               /* to be removed at the end of this round */
	struct wire_msg message; /* that the request points into, until it starts */
	struct keeper_request request;
	struct conn *client; /* NULL: none, or gone */
	struct cordon_exec *exec;
	int64_t started_ms;
	int exit_code;
	struct keeper_log log;
	struct buf input; /* from the client, not yet taken by the command */
	size_t input_sent;
	bool feeds;     /* the client's input goes to it */
	bool room_told; /* the client knows that there is room, and has not used it */
	bool input_ended;
	int slot, sink_slot; /* in the loop's poll set: its exec, its input */
	int64_t told_ms;     /* when its client was last told how far it is, monotonic */
};

/* A request that needs the sandbox: starts it, queues it, or refuses it. Takes msg and request over. */
void job_add(struct keeper *k, struct conn *c, struct wire_msg *msg, struct keeper_request *request);
/* Starts what has waited, if it is its turn. */
void job_run_next(struct keeper *k);
/* Adds what it has to wait for. */
void job_poll(struct job *j, struct pollfd *set, nfds_t *count);
void job_step(struct keeper *k, struct job *j, const struct pollfd *set);
void job_input(struct job *j, const void *data, size_t len);
void job_end_input(struct job *j);
/* It will not run: its client is told why. */
void job_refuse(struct keeper *k, struct job *j, const struct cordon_error *err);
/* Its client is gone, or wants it ended. */
void job_abandon(struct keeper *k, struct job *j);
/* By name of a service, id or unique beginning of one. NULL with err set if there is none. over: also one that has ended. */
struct job *job_find(struct keeper *k, const char *what, bool over, struct cordon_error *err);
unsigned job_count(const struct keeper *k, enum job_state state);
void job_sweep(struct keeper *k);
void job_free(struct job *j);

/* ---- keeper.c ---------------------------------------------------------------------------------------------------------------- */

enum keeper_stage {
	STAGE_LIVE,
	STAGE_ENDING, /* services were asked to end */
	STAGE_KILLING,
	STAGE_OVER,
};

struct keeper {
	char id[ID_LEN + 1];
	struct cordon *ctx;
	struct cordon_sandbox *sandbox;
	int dir, logs; /* of the sandbox */
	int listener, signals;
	struct conn *conns;
	unsigned conn_count;
	struct job *jobs;  /* in the order they came */
	struct job *alone; /* has the transaction */
	enum keeper_stage stage;
	int64_t deadline_ms; /* of the stage, on the monotonic clock */
	int64_t idle_ms, idle_since_ms;
	int64_t expires_ms; /* since the epoch; INT64_MAX: never */
	int64_t saved_ms;   /* when the time of the last use was last written, monotonic */
	bool expired;       /* remove the sandbox when it is stopped */
	bool crashed;       /* pid 1 of the sandbox died under a transaction: leave it to recovery */
};

int64_t keeper_clock_ms(void); /* monotonic */
int64_t keeper_time_ms(void);  /* since the epoch */
/* An exec began or ended. */
void keeper_used(struct keeper *k);
/* What a client is told whom this keeper cannot serve any more: the next one will. */
void keeper_try_again(const struct keeper *k, struct cordon_error *err);
/* Begins the end. */
void keeper_end(struct keeper *k);

/* The process `cordon keeper ID`; see keeper.c. */
int keeper_main(int argc, char **argv);

#endif
