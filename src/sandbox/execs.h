/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that are started inside, as the supervisor of an exec sees them (supervisor.h): each execve is handed over, looked at, written down (trace.h)
 * and goes on. Where the policy allows no second program and no second process (SPEC_NO_SUBPROCESS) it is refused instead, and so is fork.
 *
 * Whether an execve succeeded the kernel tells nobody. What does not exist, or whose interpreter does not, and what cannot be executed by its mode or its
 * mount is known before (exec_check.h). Whether Landlock lets it be executed, a child under the command's own rules is asked, if the policy lists programs;
 * where that has no answer, the process shows it: it has the stack that it had, or never left its first program
 * (PF_FORKNOEXEC). That is looked at when it calls again and when it has ended; if its parent was faster then, the event says that it was started. So it does
 * for what fails otherwise: too many arguments, a file that is being written, a broken one.
 *
 * The status of a process that ended is read from its pidfd (PIDFD_INFO_EXIT, Linux 6.15) once its parent has fetched it, or from /proc before that.
 */
#ifndef CORDON_SANDBOX_EXECS_H
#define CORDON_SANDBOX_EXECS_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/trace.h"

struct execs_config {
	int listener;
	int landlock_fd; /* -1: none */
	int sock;        /* where events are sent */
	struct trace_table *table;
	bool listed; /* SPEC_LISTED: what cannot be executed is a denial */
	bool alone;  /* SPEC_NO_SUBPROCESS */
};

bool execs_is_call(int nr);

struct execs;
/* NULL: no memory, or no epoll. */
struct execs *execs_begin(const struct execs_config *config);

/* Answers one notification. */
void execs_handle(struct execs *x, const struct seccomp_notif *n);

/* Readable when processes have ended; execs_look() then takes note of them. last: the status of those whose parents do not care is read as well. */
int execs_fd(const struct execs *x);
void execs_look(struct execs *x, bool last);

/* How many events wait to be sent. Few are waited for, until more come; with half of the table full it is time to stop and wait for the library. */
size_t execs_waiting(const struct execs *x);
size_t execs_open(const struct execs *x);
/* Of the open ones: they have ended, and it is to be looked again how. */
size_t execs_dying(const struct execs *x);
#define EXECS_FEW 24u
#define EXECS_MANY (TRACE_SLOTS / 2)

/* Sends what waits. False: the library has to read first (POLLOUT). */
bool execs_send(struct execs *x);

#endif
