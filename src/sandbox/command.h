/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of init on its way to become a command: session, limits, user, capabilities, Landlock, filter, exec. Async-signal-safe all the way.
 */
#ifndef CORDON_SANDBOX_COMMAND_H
#define CORDON_SANDBOX_COMMAND_H

#include "base/err.h"
#include "sandbox/init.h"
#include "sandbox/spec.h"

struct command {
	const struct init_config *config;
	const struct exec_spec *spec; /* NULL: yet to come, over `request` */
	int stdio[3];
	int tty; /* slave side, -1: none */
	int request; /* of a child that was made ahead (init_spare.c): where spec and stdio come from, when all else is done; -1: they are known */
	int channel;     /* of an interpreter that is to wait (init_parked.c), -1: none */
	bool unobserved; /* nobody else runs inside who could read its memory */
	int report; /* a socket that closes on exec: the listener is sent there, and a struct command_failure if something goes wrong */
};

#define PARKED_FD 3 /* the number that `channel` has for the command */

struct command_failure {
	unsigned stage;
	int error;
};

_Noreturn void command_become(struct command *c);

/* What to tell of one. */
void command_failed(const struct command_failure *f, const char *name, const char *cwd, struct cordon_error *err);

/* The same for a working directory that cannot be entered. Returns -1. */
int command_no_cwd(const char *cwd, int error, struct cordon_error *err);

/* The user that commands have, for the calling process. 0 or -errno. */
int command_user(const struct init_config *c);

#endif
