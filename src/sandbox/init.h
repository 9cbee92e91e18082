/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pid 1 of a sandbox.
 *
 * Theory of operation. The launcher's child has built the namespaces and the file system and calls init_run(), which never returns. Init
 * listens on one socket: it starts commands, passes signals on, ends a command's whole tree when its time is up, reaps everything and reports.
 * When the library's end of the socket closes, init leaves, and the kernel kills all that is left in the pid namespace; when the launcher
 * dies, PR_SET_PDEATHSIG does the same.
 *
 * Init is not dumpable and keeps three capabilities over its own namespace (kill, setuid, setgid; a fourth, ptrace, for supervisor.h), so that it can start commands as an
 * unprivileged user and end whatever they become; commands have none, cannot ptrace it, and signals they send to pid 1 are dropped by the
 * kernel. A command is started by a fork; a pipe that closes on exec carries a failure. Init never waits for it: until it has become the
 * command the child has the command's user already, and another command could stop it.
 */
#ifndef CORDON_SANDBOX_INIT_H
#define CORDON_SANDBOX_INIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/idmap.h"
#include "sandbox/seccomp.h"
#include "sandbox/spec.h"

struct init_config {
	int sock;
	int landlock_fd;                  /* -1: none */
	const struct sandbox_spec *rules; /* what landlock_fd was made from, to be made again when mounts were exchanged; NULL: never */
	int inbox;                        /* see inbox.h; -1: none */
	int trees[2];                     /* handles to be sent with READY and then closed; -1: none */
	const struct seccomp_program *seccomp; /* NULL: none (weakened builds only) */
	unsigned supervisor_filter;            /* enum seccomp_flags: the same without what is handed over or would keep it from its work */
	struct idmap ids;
	uint64_t disk;
	uint64_t data_limit; /* RLIMIT_DATA, 0: none */
	uint64_t proc_limit; /* RLIMIT_NPROC, 0: none */
	uint32_t weaken;
	uint32_t flags; /* enum spec_flags */
	bool renames;   /* the program hands renames over (renames.h), not just execve */
};

_Noreturn void init_run(struct init_config *config);

#endif
