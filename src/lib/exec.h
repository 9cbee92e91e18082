/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of a sandbox and an exec, shared by the files of this folder. */
#ifndef CORDON_LIB_EXEC_H
#define CORDON_LIB_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "cordon.h"

struct cordon_sandbox {
	struct cordon *ctx;
	const struct backend *backend;
	struct backend_sandbox state;
	struct cordon_policy policy;
	pthread_mutex_t lock;       /* over waiting for it to be ready */
	struct cordon_error failed; /* why it never will be */
	atomic_uint refs;           /* the caller's, and one for each exec: results can be read after the sandbox was destroyed */
};

void sandbox_unref(struct cordon_sandbox *s);

/* Waits for a lazily created sandbox; the same answer for every caller. */
int sandbox_ready(struct cordon_sandbox *s, struct cordon_error *err);

/* One output stream of a command. */
struct stream {
	int fd; /* -1: at its end */
	struct buf kept;
	uint64_t seen; /* bytes that arrived */
	bool truncated;
};

struct cordon_exec {
	struct cordon_sandbox *sandbox;
	int epoll;
	int sock;  /* the exec's own, to init */
	int input; /* the command's stdin (or the terminal's master), non-blocking; -1: closed */
	bool tty;
	unsigned flags;
	void (*on_output)(void *user, enum cordon_stream stream, const void *data, size_t len);
	void *user;
	struct stream out, err_stream;
	uint64_t started_us;
	atomic_bool over; /* its end was seen; cordon_exec_signal() may ask from another thread */
	bool exited;      /* the report of its end came */
	bool lost;        /* the sandbox went away without one */
	struct exited_msg end;
	bool done;
	struct cordon_result result;
	char error_text[256], hint_text[128], weak_text[64];
};

/* Microseconds of the clock that started_us is on. */
uint64_t exec_clock_us(void);

/* Fills in e->result from what is known once the exec is over. */
void result_fill(struct cordon_exec *e);

#endif
