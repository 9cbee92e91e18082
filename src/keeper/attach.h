/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exec in a live sandbox, as the command that asked for it sees it: its output as it comes, its input, its end. The sandbox becomes
 * live by it if it was not.
 */
#ifndef CORDON_KEEPER_ATTACH_H
#define CORDON_KEEPER_ATTACH_H

#include "keeper/protocol.h"

struct keeper_exec;

struct keeper_exec_options {
	const struct keeper_request *request; /* verb KEEPER_EXEC; with KEEPER_NO_WAIT, a sandbox that is busy is an error */
	bool keep_output;                     /* for the result */
	void (*on_output)(void *user, enum cordon_stream stream, const void *data, size_t len);
	void (*on_denial)(void *user, const struct cordon_denial *denial); /* as in struct cordon_exec_options */
	void *user;
	/* Called when it has waited for a while; who has the sandbox. May be NULL. */
	void (*waiting)(void *user, const char *who);
	void *waiting_user;
};

/* Returns when it has started (or, a service, was left to itself). Release with keeper_exec_free(), which cancels what still runs. */
int keeper_exec_start(const char *home, const char *id, const struct keeper_exec_options *options, struct keeper_exec **out,
                      struct cordon_error *err);
const char *keeper_exec_id(const struct keeper_exec *e);

int keeper_exec_fd(const struct keeper_exec *e); /* to poll for reading, then step */
/* 1: still running, 0: finished, -1. */
int keeper_exec_step(struct keeper_exec *e, struct cordon_error *err);
/* Bytes taken; 0: no room yet; -1: the command no longer reads. */
ssize_t keeper_exec_write(struct keeper_exec *e, const void *data, size_t len);
/* POLLOUT: there is room; POLLERR: nobody reads any more. */
short keeper_exec_sink(const struct keeper_exec *e);
void keeper_exec_close_stdin(struct keeper_exec *e);
int keeper_exec_cancel(struct keeper_exec *e, struct cordon_error *err);
int keeper_exec_resize(struct keeper_exec *e, unsigned short rows, unsigned short cols);
/* Once it has finished. */
const struct cordon_result *keeper_exec_result(const struct keeper_exec *e);
void keeper_exec_free(struct keeper_exec *e);

#define KEEPER_NOT_LIVE (-2)
/* A descriptor that becomes readable when a service (or exec) ends, or the keeper; KEEPER_NOT_LIVE, or -1. To be closed. */
int keeper_await(const char *home, const char *id, const char *target, struct cordon_error *err);

#endif
