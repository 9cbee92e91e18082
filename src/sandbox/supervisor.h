/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who answers the system calls that the filter hands over (SECCOMP_RET_USER_NOTIF): execve for the audit (execs.h), rename for directories of lower layers
 * (renames.h).
 *
 * Theory of operation. The child that becomes a command loads the filter last and sends the listener to init. Its own execve waits there: as long as the pipe
 * that tells of its success is open, it is the only one who can call, and init lets the call go on itself (supervisor_first). While no other command runs, even that is
 * spared: the filter lets an execve pass that has a password, which the child made up and which is gone with its memory when the call succeeds. (Beside others it might be
 * read by them, and be told to what runs behind the filter.) When the next call waits, init forks a supervisor, one per exec. That ends when told to (the leash), or with
 * the exec's last process: the listener hangs up.
 *
 * What depends on it. Nothing is allowed because a supervisor says so: an execve goes on or is refused by what init was told at the start, and a call that
 * nobody answers waits. Killing or stopping the supervisor, which a command of the same user can where Landlock has no signal scope (before Linux 6.12), costs
 * records, and leaves renames to the kernel. A memory read can block it (a FUSE mount), but never init.
 *
 * Limits. Programs inside can have no listeners of their own (EBUSY). A signal with a handler interrupts the wait for an answer: with SA_RESTART the call comes
 * again; without it the caller sees EINTR, also from execve, which knows none otherwise (dash does in "x & exec y" if x ends at that very moment: SIGCHLD). Where
 * a sandbox cannot be frozen, that can happen only until the call was received (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19); who waits
 * like that cannot be frozen once the supervisor is, which rules it out for those that live on.
 */
#ifndef CORDON_SANDBOX_SUPERVISOR_H
#define CORDON_SANDBOX_SUPERVISOR_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/seccomp.h"
#include "sandbox/trace.h"

/* What a command's child loads last before exec. */
struct supervisor_filter {
	const struct seccomp_program *program;
	uint64_t password; /* what an execve has to have to go on unasked; 0: there is none */
	bool exits;        /* exit_group is handed over as well (init_leave.c), where only SIGKILL interrupts the wait for an answer */
	bool freezable;    /* it may be frozen, so it must not wait like that */
	bool needed;       /* all depends on answers: without a listener there is no command */
};
/* Loads it and sends the listener over a SOCK_SEQPACKET. Where the kernel has no listener for us the plain filter is loaded. 0 or -errno. */
int supervisor_load(const struct supervisor_filter *f, int sock);

/* In init: as recv(2) from the other end; a listener that arrives is put into *listener. */
ssize_t supervisor_receive(int sock, void *data, size_t len, int *listener);

/* In init, after POLLIN: the command's own first execve goes on. */
void supervisor_first(int listener);

/*
 * In init, when there can be no supervisor: the call that waits goes on; with `alone`, what execs.h is for is refused. n: that call; NULL: it was not received yet, but POLLIN
 * has told of it. True if it was one of execs.h.
 */
bool supervisor_decline(int listener, const struct seccomp_notif *n, bool alone);

struct supervisor_config {
	int listener;
	int landlock_fd; /* -1: none */
	int lock;        /* a file that all supervisors of a sandbox share */
	int sock;        /* the exec's own, to the library */
	int leash;       /* the supervisor ends when this hangs up */
	unsigned filter; /* enum seccomp_flags of its own */
	struct trace_table *traces;
	bool renames;  /* renames are handed over as well */
	bool distrust; /* an earlier one was killed */
	bool listed, alone;
	const struct seccomp_notif *first; /* that was received already; NULL: none */
};

/* In a child of init that has the command's user and limits, and CAP_SYS_PTRACE. */
_Noreturn void supervisor_run(const struct supervisor_config *config);

#endif
