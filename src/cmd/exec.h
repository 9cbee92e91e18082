/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a sandbox that stays: what `exec` and `shell` share. */
#ifndef CORDON_CMD_EXEC_H
#define CORDON_CMD_EXEC_H

#include "cmd/options.h"
#include "cmd/run.h"
#include "sandbox/spec.h"

struct exec_options {
	struct run_options run; /* first: rows of both tables point into it */
	bool detach, parallel, no_wait;
	const char *name, *timeout, *on_failure, *ok;
};

struct exec {
	struct exec_options o;
	const struct command *command;
	struct run_program program;
	int count; /* operands: what to run */
	char **operands;
	struct run_io io;
	struct run_report report;
	int64_t timeout_ms; /* 0: the sandbox's, -1: none */
};
void exec_begin(struct exec *x, const char *command, const char *who);
void exec_clear(struct exec *x);

/*
 * Reads the options, which may stand before and behind the sandbox: "exec ID --json -- ls", "exec --json ID ls". False: all was said.
 * what: the sandbox; the words behind it start at argv[*first].
 */
bool exec_parse(struct exec *x, int argc, char **argv, const char **what, int *first, int *status);

/* Runs x->program, or if there is none what the options and the operands say, in the sandbox and reports; returns our exit status, or -1 with err set if it never ran. */
int exec_in_sandbox(struct exec *x, const char *what, struct cordon_error *err);

/* ---- exec_code.c: code into a live sandbox ------------------------------------------------------------------------------------- */

#define EXEC_CODE_DIR_MAX 64
struct exec_place {
	const char *home, *sandbox;
	const struct string_list *env; /* of the command */
};
/* A name of its own for this exec. */
int exec_code_dir(char out[EXEC_CODE_DIR_MAX], struct cordon_error *err);
int exec_code_place(const struct exec_place *place, const struct run_program *p, struct cordon_error *err);
void exec_code_remove(const struct exec_place *place, const char *dir);

#endif
