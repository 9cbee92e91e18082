/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who belongs to which exec, in a sandbox where several live side by side. Each tracked exec runs below a reaper of its own: a process that does nothing but
 * collect the orphans of what it started (PR_SET_CHILD_SUBREAPER) and say when the main process ended. Whatever a command does, double forks and setsid included,
 * its processes stay descendants of its reaper; should the reaper be killed they become children of init that init does not know. Both can be found and ended.
 */
#ifndef CORDON_SANDBOX_REAPER_H
#define CORDON_SANDBOX_REAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What a reaper writes to its pipe: once when the main process was started (ended 0), once when it ended. */
struct reaper_word {
	pid_t pid;
	int ended, status;
	int alone; /* … and nobody else is left: the reaper ends by itself, at once */
};

/* In a new child of init: forks the main process and returns there; the caller itself stays here for the rest of its life. */
void reaper_become(int pipe);

/*
 * Sends SIGKILL to everything below `reaper` until nothing is left there but zombies. True if it succeeded; a fork bomb can win against this,
 * and then everything has to go.
 */
bool reaper_kill_below(pid_t reaper);

/* The same for children of init itself that are not in `known`, and what is below them. */
bool reaper_kill_strays(const pid_t *known, size_t count);

#endif
