/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `cordon try` share: try.c (running it), try_end.c (what becomes of the changes). */
#ifndef CORDON_CMD_TRY_H
#define CORDON_CMD_TRY_H

#include "cmd/commit.h"
#include "cmd/making.h"
#include "cmd/run.h"
#include "lib/exec.h"

struct try_options {
	struct run_options run; /* first: json, quiet, line, env, mounts */
	bool yes, no, keep, autorun, force, no_toolchains;
	const char *name, *on_failure;
};

struct
try {
	struct try_options o;
	struct making making;
	struct run_program program;
	struct run_io io;
	struct run_report report;
	char *home, *directory;
	char id[LAYER_ID_LEN + 1]; /* of the sandbox; "": none yet */
	bool stays;                /* it is not removed at the end */
	bool tty;
	struct cordon *ctx;
	struct cordon_sandbox *sandbox;
	struct cordon_exec *exec;
};

/*
 * After the command: shows what changed, asks or goes by the flags, does it. Returns the exit status, or -1 with err set. The sandbox is stopped, and still
 * ours.
 */
int try_end(struct try *t, struct cordon_error *err);

#endif
