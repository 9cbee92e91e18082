/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of a sandbox and an exec, shared by the files of this folder. */
#ifndef CORDON_LIB_EXEC_H
#define CORDON_LIB_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "cordon.h"
#include "lib/denials.h"
#include "lib/language.h"
#include "lib/live.h"

struct cordon_sandbox {
	struct cordon *ctx;
	const struct backend *backend;
	struct backend_sandbox state;
	struct cordon_policy policy;
	pthread_mutex_t lock;       /* over waiting for it to be ready */
	struct cordon_error failed; /* why it never will be */
	struct live *live;          /* one that stays on disk; NULL: none */
	struct live *copy;          /* one that does not, and whose workspace had to be copied (live_start_scratch()); NULL: none */
	bool started;               /* a live one runs */
	bool stopped;               /* … and was ended */
	bool frozen;
	struct cordon_exec *alone; /* the exec that has its transaction now */
	_Atomic(struct egress *)
		egress; /* its broker (lib/egress.h); NULL: there was none so far. Not by the lock: whoever ends a sandbox may have that */
	atomic_bool resting;             /* it comes from the pool, and nobody was told yet that it is used (backend.unpark) */
	atomic_uint execs;               /* that were started in it */
	atomic_bool unfinished;          /* one of them was given up before its end was seen */
	_Atomic(struct zygote *) zygote; /* an interpreter that waits in it (lib/zygote.h); NULL: none */
	atomic_bool code_taken;          /* an exec has its code right in CODE_DIR */
	int64_t birth_ns;                /* CLOCK_REALTIME when it was made */
	unsigned kind;                   /* of the pool that it came from; 0: none */
	atomic_uint refs;                /* the caller's, and one for each exec: results can be read after the sandbox was destroyed */
};

void sandbox_unref(struct cordon_sandbox *s);
/* What cordon_sandbox_destroy() does, at once. */
void sandbox_end(struct cordon_sandbox *s);
/* Ends everything inside one that stays, and waits for it; the next exec starts it anew. */
void sandbox_halt(struct cordon_sandbox *s);

/* As cordon_sandbox_open(); who: what others are told who want it. */
int sandbox_open(struct cordon *ctx, const char *what, const char *who, struct cordon_sandbox **out, struct cordon_error *err);
/* Why its workspace is a copy, NULL: it is none. */
const char *sandbox_copied(const struct cordon_sandbox *s);
/* Ends a live one and seals what it holds; what cordon_sandbox_destroy() does without telling how it went. */
int sandbox_stop(struct cordon_sandbox *s, struct cordon_error *err);

/* Asks for one that is to be parked (lib/pool.h); sandbox_ready() waits for it. */
int sandbox_park(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                 struct cordon_sandbox **out, struct cordon_error *err);

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
	uint64_t timeout_ms; /* 0: none */
	enum tx_action on_exit, on_abort, on_denial;
	uint8_t ok[32];
	void (*on_output)(void *user, enum cordon_stream stream, const void *data, size_t len);
	void (*denied)(void *user, const struct cordon_denial *denial); /* on_denial of its options */
	void *user;
	struct stream out, err_stream;
	uint64_t started_us;
	bool running;     /* it was started: there will be an end to see */
	atomic_bool over; /* its end was seen; cordon_exec_signal() may ask from another thread */
	bool exited;      /* the report of its end came */
	bool lost;        /* the sandbox went away without one */
	struct exited_msg end;
	uint64_t traced; /* the last event (sandbox/trace.h) that was seen */
	bool done;
	struct cordon_result result;
	bool holds_code; /* see code_taken */
	bool warm;       /* an interpreter that waited runs it */
	struct live_tx tx;
	bool begun;                   /* tx was begun and not ended */
	struct changes changes;       /* of a sandbox that does not stay */
	struct cordon_change *listed; /* what the result points to */
	char *command;                /* for the history and the audit */
	struct denials denials;
	size_t denials_told;           /* of them */
	int wake;                      /* eventfd: there are egress_denials; -1: nobody wants to know while it runs */
	struct denials egress_denials; /* this and the following by the broker's lock, see lib/egress.c */
	struct cordon_exec *egress_next;
	bool egress_entered;
	bool recorded;               /* the audit has its start, and not its end */
	unsigned waiting;            /* records that were added and not written */
	bool unrecorded;             /* one could not be */
	int64_t oom_before;          /* kills of earlier execs */
	struct commit_report report; /* of cordon_exec_commit() */
	struct cordon_conflict *conflicts;
	char error_text[256], hint_text[128], weak_text[64];
};

/* As cordon_exec_start(), of a command that the gate has passed; id: by which it is known already. */
int exec_start(struct cordon_sandbox *sandbox, const struct cordon_exec_options *options, const char *id, struct cordon_exec **out,
               struct cordon_error *err);

/* ---- exec_start.c ---- */

/* What comes of options that have code instead of a command. */
struct exec_code {
	struct language_program program;
	bool holds; /* the sandbox's code_taken, until an exec has it */
};
/* Fills in argv, if there is none. To be cleared also after a failure. */
int exec_code_take(struct cordon_sandbox *s, struct cordon_exec_options *o, const char *id, struct exec_code *out,
                   struct cordon_error *err);
void exec_code_clear(struct cordon_sandbox *s, struct exec_code *c);

/* Starts it and waits until it runs. */
int exec_launch(struct cordon_exec *e, const struct cordon_exec_options *o, const struct language_program *program,
                struct cordon_error *err);

/* Socket and pipes of a command; one side of them. -1: none. */
struct exec_ends {
	int sock;
	int stdio[3];
};
#define EXEC_NO_ENDS ((struct exec_ends){-1, {-1, -1, -1}})
/* feed: with a pipe to its standard input, else that is /dev/null. To be closed also after a failure. */
int exec_make_ends(bool feed, struct exec_ends *ours, struct exec_ends *theirs, struct cordon_error *err);
void exec_close_ends(struct exec_ends *t);

/* What a command gets as its environment; language: that of its code, NULL: none. */
int exec_environment(const struct cordon_sandbox *s, const char *const *extra, const struct language *language, struct strlist *out,
                     struct cordon_error *err);

/* Programs that were started inside. */
int exec_take_traces(struct cordon_exec *e, const struct wire_msg *msg, struct cordon_error *err);

/* Microseconds of the clock that started_us is on. */
uint64_t exec_clock_us(void);

/* Before the command starts, and once it is over: its transaction. */
int exec_transaction_begin(struct cordon_exec *e, const char *const *argv, struct cordon_error *err);
int exec_transaction_end(struct cordon_exec *e, struct cordon_error *err);
/* While the command runs: makes ready what the end will need. */
void exec_prepare_end(struct cordon_exec *e);
/* Of one that does not stay: its workspace, before and after. To be closed also after a failure. */
int scratch_views(struct cordon_sandbox *sandbox, struct view *before, struct view *after, struct cordon_error *err);
/* Once it is over: whether it succeeded, and whether its changes are kept, by its transaction's settings. */
bool exec_succeeded(const struct cordon_exec *e);
bool exec_keeps(const struct cordon_exec *e);
/* Kills by the kernel for want of memory, in this sandbox so far. */
int64_t result_oom_kills(const struct backend_sandbox *s);

struct json;
/* One element of the result's `denials`. */
void denial_json(struct json *j, const struct cordon_denial *d);

/* Fills in e->result from what is known once the exec is over. */
void result_fill(struct cordon_exec *e);

#endif
