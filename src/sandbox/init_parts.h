/* SPDX-License-Identifier: Apache-2.0 */
/* What the init*.c share; nobody else needs it. */
#ifndef CORDON_SANDBOX_INIT_PARTS_H
#define CORDON_SANDBOX_INIT_PARTS_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/command.h"
#include "sandbox/init.h"
#include "sandbox/spec.h"
#include "sandbox/trace.h"
#include "sandbox/wire.h"

#define MAX_EXECS 64

struct running {
	int sock;  /* the exec's own; closed by the library to end it */
	pid_t pid; /* 0: free slot; also its session and process group */
	uint64_t started_us, deadline_us;
	bool exited, timed_out, cancelled;
	bool reaped; /* the reaper is gone */
	bool alone;  /* … or as good as that: nobody is below it */
	int status;
	pid_t reaper;               /* tracked execs: whose child the command is; 0: ours */
	int words;                  /* the reaper's pipe; -1: none */
	int starting;               /* the pipe that closes when the exec succeeded; -1 once it has */
	int terminal;               /* master side, to be sent with the word that it runs; -1: none */
	int listener;               /* where its calls wait for a supervisor (supervisor.h); -1: none */
	int rules;                  /* the Landlock ruleset it was started with, for the supervisor; -1: none */
	pid_t supervisor;           /* 0: none yet, or killed */
	unsigned supervisors;       /* how many there were */
	int leash;                  /* closed to end the supervisor; -1: none */
	uint64_t closing_us;        /* when it has to have ended; 0: it was not asked to */
	struct trace_table *traces; /* what the supervisors wrote down; NULL: there was none yet */
	uint64_t lost;              /* programs that nobody wrote down */
	bool untraced;              /* the kernel has no listener for us */
	bool reporting;             /* all is over, and the library has to read before more can be said */
	struct exited_msg end;      /* the last thing to say */
	char name[128], cwd[128];   /* for the message if it does not start */
	struct buf code;            /* names of its files (inbox.h) */
	int channel;                /* to a parked interpreter (init_parked.c); -1: it is none, or no more */
	bool parked;                /* … which has said that it waits */
	bool tells_end;             /* its exit_group is handed over (init_leave.c) */
	bool cwd_checked;           /* the usual working directory can be entered */
};

/*
 * A child that is on its way to become a command before there is one: session, limits, user, capabilities, Landlock and filter are done, which is most of what a start costs,
 * and it waits for the rest. It lives only while no command runs, so that none can meddle with it, and is used once.
 */
struct spare {
	pid_t pid; /* 0: none; of a tracked one its reaper's */
	bool tracked;
	int request, report, words; /* our ends; as those of struct running */
};

struct init {
	struct init_config *config;
	struct running execs[MAX_EXECS];
	unsigned active;
	unsigned starts;            /* of commands, so far */
	uint64_t cpu_us, maxrss_kb; /* of everything reaped */
	int signals;                /* signalfd for SIGCHLD */
	int rename_lock;            /* for the supervisors of renames, -1: not made yet */
	int door;                   /* to the broker (init_door.c), -1: none */
	int loadavg;                /* /proc/loadavg, -1: not opened yet */
	pid_t leaving;              /* a command that was reported as ended, and whose memory is still being freed; 0: none */
	bool childless;             /* when it was looked last, before anything was ended; to be read there only */
	bool wants_spare;           /* another command is likely */
	bool tracks;                /* … and of this kind */
	struct spare spare;
};

/* A child of init on its way to become a command. report, words: our ends of what it tells. The pid, or -1. */
pid_t init_fork_command(const struct init *in, struct command *l, bool tracked, int *report, int *words, struct cordon_error *err);

/* Makes one, if it is wanted and nothing runs. */
void init_spare_make(struct init *in);
/* Hands it the command. False: there is none that fits (and none any more). The descriptors of msg stay. */
bool init_spare_use(struct init *in, const struct exec_spec *s, const struct wire_msg *msg, struct spare *out);
/* Ends it. */
void init_spare_drop(struct init *in);
/* It ended before it was used. */
void init_spare_died(struct init *in);

/* Makes the socket to an interpreter; theirs: its end, the caller's to close. */
int init_park(struct running *e, int *theirs, struct cordon_error *err);
/* It says something. */
void init_parked(struct init *in, struct running *e);
void init_parked_close(struct running *e);
/* WIRE_GO: files and message are passed on, and its time begins now. 1: it runs; 0: it is dead, or as good as that; -1: the request was wrong. */
int init_go(struct init *in, struct running *e, const struct wire_msg *msg, uint64_t now, struct cordon_error *err);

/* A call waits: if it is exit_group it is answered, and the exec may be over with it. False: it is another one. */
bool init_leave(struct init *in, struct running *e, const struct seccomp_notif *n);
/* The last one, if there is one, is gone for good. */
void init_leave_wait(struct init *in);

/* The exec is over, by e->status. */
void init_finish(struct init *in, struct running *e);

/* The pipe has something: the end of file (it runs) or why not. False if the exec is gone. */
bool init_started(struct init *in, struct running *e);

/* A call waits at the listener, or (no POLLIN) nobody is left who could make one. */
void init_supervise(struct init *in, struct running *e, short revents);

/* A door has come; it takes the place of an earlier one. */
void init_door_take(struct init *in, struct wire_msg *msg);
/* Somebody is at the door. */
void init_door_answer(struct init *in);

#endif
