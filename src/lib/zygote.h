/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters that wait in a parked sandbox for code to run. A zygote is an exec that was started early (sandbox/init_parked.c): `python3
 * /run/code/main.py`, with everything that confines a command, stopped by a hook (src/interpreters) just before it would open that file. When there
 * is code, init writes the file and passes on what else the interpreter has to know: arguments, environment, working directory, standard input.
 * Then the hook makes everything look as if the interpreter had been started that moment, and goes; the interpreter itself opens the file and runs
 * it.
 *
 * Each is a process of its own from its first instruction, and none is a copy of another: address space layout, hash seed and random state are its
 * own. It is used once. What does not fit (another language, name or terminal, or an environment that an interpreter reads while it starts), what
 * is not ready and what has died is started in the ordinary way: a zygote makes code faster, never different, and never makes it fail.
 *
 * The message to the hook: fields that each end with a NUL: "null" or "pipe" (standard input), the working directory, the number of arguments, the
 * arguments behind the path of the code, and then the environment.
 */
#ifndef CORDON_LIB_ZYGOTE_H
#define CORDON_LIB_ZYGOTE_H

#include "lib/exec.h"
#include "lib/language.h"

/* Starts one; does not wait for it. preload: modules that it imports ahead (may be NULL). A sandbox has one at most: an earlier one goes. */
int zygote_park(struct cordon_sandbox *s, const char *language, const struct strlist *preload, struct cordon_error *err);

/* True if there is a hook for the language (a name or an alias). */
bool zygote_possible(const char *language);

enum zygote_state {
	ZYGOTE_NONE,     /* there is none */
	ZYGOTE_STARTING, /* it is on its way; zygote_fd() tells when to look again */
	ZYGOTE_READY,
	ZYGOTE_FAILED, /* it did not start, or died; *err says why, if that is known */
};
enum zygote_state zygote_look(struct cordon_sandbox *s, struct cordon_error *err);
/* To poll for reading, while it is starting; -1: there is none. */
int zygote_fd(const struct cordon_sandbox *s);

/* Ends it, if there is one. */
void zygote_drop(struct cordon_sandbox *s);

/* What an exec is about to start. */
struct zygote_request {
	const struct language_program *program;
	const struct cordon_exec_options *options;
	const struct exec_spec *spec;
	const struct strlist *env;
};

/* True if the sandbox has one for this; it need not be ready. */
bool zygote_fits(const struct cordon_sandbox *s, const struct zygote_request *r);
/*
 * Hands the request to the sandbox's zygote, whose descriptors become the exec's; how it went is what comes over e->sock next: STARTED, ERROR, or
 * EXITED if it was dead. False: there is none that could do it (and none any more), nothing has happened.
 */
bool zygote_go(struct cordon_exec *e, const struct zygote_request *r);

#endif
