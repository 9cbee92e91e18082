/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the changes of `cordon run`: --commit writes them to the host's directory, --keep makes a sandbox that stays. */
#ifndef CORDON_CMD_RUN_CHANGES_H
#define CORDON_CMD_RUN_CHANGES_H

#include "cmd/run.h"

/* Options that exclude each other. */
int run_changes_check(const struct run_options *o, const struct run_program *p, struct cordon_error *err);

/*
 * Makes the sandbox that `run --keep` runs in: the policy is that of any other `run`. settings: what the options set; env: those of --env are
 * part of it. mounts: as the library takes them.
 */
struct run_keep {
	const struct run_options *o;
	const char *workspace;
	const struct strlist *settings;
	const struct cordon_mount *mounts;
	size_t mount_count;
};
int run_keep_create(const struct run_keep *k, char id[21], struct cordon_error *err);

/* For a person: that the workspace is a copy, and why. NULL: it is none. */
void run_note_copied(const struct run_options *o, const char *why);

/* After the command, with --commit: does it, and puts what came of it into the result (a copy, whose strings point into the exec or into *text). */
struct run_commit {
	struct cordon_error error;
	bool refused;
};
void run_commit(const struct run_options *o, struct cordon_exec *exec, struct cordon_result *result, struct run_commit *c);
/* For a person, once the terminal is ours again. */
void run_commit_notes(const struct run_options *o, const char *workspace, const struct cordon_result *result, const struct run_commit *c);

#endif
