/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands. Each lives in its own file, takes its own argv (argv[0] is the subcommand's name), prints, and returns the exit
 * status. The work is done by the library.
 */
#ifndef CORDON_CMD_CMD_H
#define CORDON_CMD_CMD_H

#include <stddef.h>

#include "cmd/options.h"

/* Exit statuses of cordon itself, see cordon(1); the others are the command's own. */
enum exit_status {
	EXIT_OK = 0,
	EXIT_WEAKER = 1, /* doctor, selftest: not everything holds here */
	EXIT_TIMED_OUT = 124,
	EXIT_CORDON_FAILED = 125,
	EXIT_NOT_ALLOWED = 126, /* refused by policy, or not executable */
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL = 128, /* + its number */
};

struct example {
	const char *line;
	const char *what;
};

struct command {
	const char *name;
	const char *operands; /* "[--] CMD [ARG...]", one line per form; "" if it takes none */
	const char *summary;  /* one line, for the overview */
	const char *about;    /* a few lines for --help; NULL: the summary says it all */
	int (*run)(int argc, char **argv);
	const struct option_def *options; /* ends with a row without name; NULL: none but --help */
	const struct example *examples;   /* ends with a row without line; NULL: none */
	enum complete complete;           /* its first operand */
	const char *words;
	enum complete then; /* its other operands */
	bool mixed;         /* options may come behind operands, too */
};

extern const struct command commands[];
extern const size_t command_count;
const struct command *command_find(const char *name);

int cmd_run(int argc, char **argv);
int cmd_try(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_tx(int argc, char **argv);
int cmd_commit(int argc, char **argv);
int cmd_discard(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_full(int argc, char **argv); /* any of those that are in cordon-full only */
int cmd_help(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* The tables that live with their commands. */
extern const struct option_def exec_options[], shell_options[], stop_options[], ps_options[], logs_options[], kill_options[];
extern const char exec_about[], shell_about[], stop_about[], pause_about[], resume_about[], ps_about[], logs_about[];
extern const struct example exec_examples[], shell_examples[], logs_examples[], kill_examples[];
extern const struct option_def secret_options[];
extern const char secret_about[];
extern const struct example secret_examples[];
extern const struct option_def image_options[];
extern const char image_about[];
extern const struct example image_examples[];
extern const struct option_def policy_options[];
extern const char policy_about[];
extern const struct example policy_examples[];
extern const struct option_def audit_options[];
extern const char audit_about[];
extern const struct example audit_examples[];
extern const struct option_def doctor_options[], selftest_options[], bench_options[];
extern const char doctor_about[], selftest_about[], bench_about[];
extern const struct example bench_examples[];
extern const struct option_def try_options[], create_options[], ls_options[], info_options[], rm_options[], cp_options[],
	snapshot_options[], restore_options[], fork_options[], history_options[], diff_options[], tx_options[], commit_options[],
	discard_options[];
extern const char try_about[], create_about[], cp_about[], restore_about[], fork_about[], history_about[], diff_about[], tx_about[],
	commit_about[], discard_about[];
extern const struct example try_examples[], create_examples[], cp_examples[], snapshot_examples[], fork_examples[], diff_examples[],
	tx_examples[], commit_examples[];

/* "cordon: MESSAGE" on stderr, and its hint on a second line. */
void report_error(const char *who, const struct cordon_error *err);

#endif
