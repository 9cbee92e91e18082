/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `cordon run` and `cordon exec` share: run_lang.c (code instead of a command), run_io.c (the pump), run_report.c (what came of it).
 * Whoever runs the command, libcordon in this process or the keeper of a live sandbox, is a struct run_target to them.
 */
#ifndef CORDON_CMD_RUN_H
#define CORDON_CMD_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cordon.h"
#include "lib/denials.h"
#include "lib/language.h"
#include "policy/policy.h"

struct run_options {
	bool interactive, tty, json, events, quiet;
	bool commit, autorun, keep;
	const char *code_dir; /* where code is to be found inside; NULL: /run/code */
	const char *line, *lang, *workspace, *image, *backend, *hostname, *user, *cwd, *result, *name, *on_failure, *policy_file;
	struct strlist env, mounts;
};

/* "K" or "K=V" was given with --env. */
bool run_env_given(const struct run_options *o, const char *name);

/* ---- run_lang.c -------------------------------------------------------------------------------------------------------------- */

/* What is started: argv, what it needs around it, and who to blame when it is not there. */
struct run_program {
	const struct language *language; /* NULL: a plain command */
	const char *const *argv;         /* points to the caller's operands, into `words` or into `made` */
	struct strlist words;            /* of a shell line, or the arguments of code */
	struct strlist env;
	struct language_program made; /* of code; its files are to be put there before it starts */
	struct buf code;
	char *path;         /* of code that is inside already; NULL: it is one of the files */
	char *name;         /* … which is called so; NULL: as ever */
	bool by_library;    /* the library can make all that of the code itself */
	bool stdin_is_code; /* standard input was read as the program: the command gets none */
};

/* Turns -c, --lang and the operands into a program. Release with run_program_clear() in any case. */
int run_program_prepare(const struct run_options *o, int count, char **operands, struct run_program *out, struct cordon_error *err);
void run_program_clear(struct run_program *p);
/* Fills in what is to be run. */
void run_program_options(const struct run_program *p, struct cordon_exec_options *o);
/* What the gate has to say about it. sandbox, exec: ids, NULL: not known. */
struct gate_for;
int run_program_check(const struct run_program *p, const struct gate_for *who, struct denials *refused, struct cordon_error *err);
/* The program was not found inside: says which package has it. */
void run_program_missing(const struct run_program *p, const char *image, struct cordon_error *err);

/* ---- run_io.c ---------------------------------------------------------------------------------------------------------------- */

enum run_output {
	RUN_OUTPUT_LIVE,   /* stdout to stdout, stderr to stderr */
	RUN_OUTPUT_EVENTS, /* both as lines of JSON on stdout */
	RUN_OUTPUT_NONE,   /* kept for the result */
};

/* Whoever runs the command; `exec` is its own. */
struct run_target {
	int (*fd)(void *exec); /* to poll for reading, then step() */
	int (*step)(void *exec, struct cordon_error *err);
	ssize_t (*write)(void *exec, const void *data, size_t len);
	int (*stdin_fd)(void *exec); /* to poll for writing; NULL: sink() tells */
	short (*sink)(void *exec);   /* POLLOUT, POLLERR: as poll(2) would report the command's stdin now */
	void (*close_stdin)(void *exec);
	int (*cancel)(void *exec, struct cordon_error *err);
	int (*resize)(void *exec, unsigned short rows, unsigned short cols);
};
extern const struct run_target run_target_local; /* struct cordon_exec */

/* One of our own output descriptors and what it could not take yet. */
struct run_channel {
	int fd;
	size_t chunk; /* most bytes that a descriptor which polls writable takes without blocking; 0: it never blocks */
	struct buf queue;
	size_t sent; /* of the queue */
	int error;   /* errno of a failed write: from then on everything is dropped */
};

struct run_io {
	enum run_output mode;
	bool feed; /* pass standard input on */
	bool tty;  /* the command has a terminal */
	bool raw;  /* the caller's terminal is in raw mode */
	bool room; /* the command's stdin polled writable, and nothing was written since */
	struct run_channel out, err;
	bool mid_line; /* what the command printed last did not end its line */
	int signals;   /* signalfd */
	int ended_by;  /* the first signal that asked us to end; 0: none */
	char *input;   /* read from standard input, not yet taken by the command */
	size_t input_len, input_sent;
	bool input_ended;
	bool line_open;  /* the last byte read was no line feed */
	char tail[2][4]; /* the start of a UTF-8 character whose end is still to come, per stream (events only) */
	size_t tail_len[2];
	size_t denials_told; /* as events */
	const struct run_target *target;
	void *exec;
};

/* From here on signals are seen by the pump only. Release with run_io_end(), which also restores the terminal. */
int run_io_begin(struct run_io *io, enum run_output mode, bool feed, bool tty, struct cordon_error *err);
void run_io_end(struct run_io *io);
/* Raw mode, from now until run_io_end() or the death of the process. */
int run_io_raw(struct run_io *io, struct cordon_error *err);
void run_io_cook(struct run_io *io);
bool run_io_window(unsigned short *rows, unsigned short *cols);
/* The on_output callback; user is the struct run_io. */
void run_io_output(void *user, enum cordon_stream stream, const void *data, size_t len);
/* The on_denial callback: an event, where events are asked for. */
void run_io_denial(void *user, const struct cordon_denial *denial);
/* Carries bytes both ways until the command has ended and its output is written, or could not be. */
int run_io_pump(struct run_io *io, const struct run_target *target, void *exec, struct cordon_error *err);
/* Writes a line of our own to stdout, behind what is queued there. */
void run_io_line(struct run_io *io, const char *text);
/* Waits until the queues are empty; gives up when a signal ended us. */
void run_io_flush(struct run_io *io);
/* errno of the write that failed, 0 if all were fine. */
int run_io_error(const struct run_io *io);

/* ---- run_report.c ------------------------------------------------------------------------------------------------------------ */

struct run_report {
	const char *who; /* "cordon run" */
	const struct run_options *o;
	struct run_io *io;
	uint64_t max_output;    /* for the note that output was cut */
	const char *raise_with; /* … and how to get more; NULL: --max-output */
	bool begun;             /* past the options: errors are no longer about how we were called */
	struct denials refused; /* why it was not run */
};

/* Found out before the command runs, not after: options about output that exclude each other, a --result that cannot be written. */
int run_check_output(const struct run_options *o, struct cordon_error *err);
/* Remarks on variables that are to be taken over from here, and are not set here. */
void run_note_env(const struct run_options *o);
/* Whether our standard input goes to the command. */
bool run_feeds_stdin(const struct run_options *o, const struct run_program *p);
/* The first line of --events. */
/* published: ports, see cmd/published.h; NULL: it is not told. */
int run_start_event(struct run_io *io, const char *sandbox, const char *const *argv, const struct strlist *published,
                    struct cordon_error *err);
/* The report of a command that ended; returns our exit status. */
int run_finish(struct run_report *r, const struct cordon_result *ended);
/* It did not run, or we lost it: the same object and exit status as ever, with the error in it. */
int run_fail(const struct run_report *r, const struct cordon_error *err);

#endif
