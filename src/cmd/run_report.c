/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `exec` say about a command: its result as the options ask for it, notes for a person, and our exit status. */
#include "cmd/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/units.h"
#include "base/fs.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/published.h"
#include "layers/diff.h"
#include "lib/exec.h"

#define NOTED_DENIALS 5 /* on the terminal; the result lists more */

/* ---- beforehand --------------------------------------------------------------------------------------------------------------- */

/*
 * A reader of FILE sees the old contents or the new, never half of them. What is no plain file (a pipe, a device, a link such as
 * /dev/stderr, which must not be replaced even if it leads to a plain file) is written in place, as the shell's > does.
 */
static bool replaceable(const char *file)
{
	struct stat st;

	return lstat(file, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode);
}

static int check_result(const struct run_options *o, struct cordon_error *err)
{
	_cleanup_free_ char *copy = strdup(o->result);
	struct stat st;

	if (!copy)
		return err_sys(err, "--result");
	if (stat(o->result, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "--result: '%s' is a directory; give a file", o->result);
	if (!*o->result)
		return err_set(err, CORDON_ERR_INPUT, "--result: the name of the file is empty");
	if (replaceable(o->result) && access(dirname(copy), W_OK | X_OK) < 0)
		return err_sys(err, "--result: cannot write '%s'", o->result);
	return 0;
}

/* "-" is standard output elsewhere; here that is what --json is for. */
static bool names_no_file(const struct run_options *o)
{
	return o->result && strcmp(o->result, "-") == 0;
}

int run_check_output(const struct run_options *o, struct cordon_error *err)
{
	if (o->json && o->events)
		return err_set(err, CORDON_ERR_INPUT, "--json and --events exclude each other; --events ends with the same object");
	if (o->json && o->tty)
		return err_set(err, CORDON_ERR_INPUT, "--json and -t exclude each other: what goes to a terminal is not kept");
	if (names_no_file(o))
		return err_set(err, CORDON_ERR_INPUT, "--result: '-' is no file; --json prints the object to standard output");
	return o->result ? check_result(o, err) : 0;
}

void run_note_env(const struct run_options *o)
{
	for (size_t i = 0; i < o->env.count && !o->quiet && !o->json && !o->events; i++)
		if (!strchr(o->env.items[i], '=') && !getenv(o->env.items[i]))
			fprintf(stderr, "cordon: --env %s: it is not set here, so it is not set inside\n", o->env.items[i]);
}

/* Whether our standard input goes to the command. /dev/null is what it gets anyway. */
bool run_feeds_stdin(const struct run_options *o, const struct run_program *p)
{
	struct stat st;

	if (p->stdin_is_code || fstat(STDIN_FILENO, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return false;
	return o->interactive || !S_ISCHR(st.st_mode) || !isatty(STDIN_FILENO);
}

int run_start_event(struct run_io *io, const char *sandbox, const char *const *argv, const struct strlist *published,
                    struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_kstr(&j, "event", "start");
	json_kstr(&j, "sandbox", sandbox);
	json_key(&j, "command");
	json_array(&j);
	for (const char *const *arg = argv; *arg; arg++)
		json_str(&j, *arg);
	json_end(&j);
	if (published && published->count)
		published_json(&j, published);
	json_end(&j);
	if (line.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	run_io_line(io, line.data);
	return 0;
}

/* ---- afterwards --------------------------------------------------------------------------------------------------------------- */

static int write_result(const char *file, const char *json, struct cordon_error *err)
{
	_cleanup_free_ char *temp = NULL;
	_cleanup_fd_ int fd = -1;
	bool replace = replaceable(file);

	if (!replace) {
		/* /dev/stderr may be a log that others write to */
		int how = strncmp(file, "/dev/", 5) == 0 || strncmp(file, "/proc/", 6) == 0 ? O_APPEND : O_TRUNC;

		fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | how, 0666);
	} else {
		if (asprintf(&temp, "%s.XXXXXX", file) < 0)
			temp = NULL;
		fd = temp ? mkostemp(temp, O_CLOEXEC) : -1;
	}
	if (fd < 0)
		return err_sys(err, "--result: cannot write '%s'", file);
	if (replace) {
		mode_t mask = umask(0);

		umask(mask);
		fchmod(fd, 0666 & ~mask); /* as if it had been created by open(2) */
	}
	if (fs_write_full(fd, json, strlen(json)) < 0 || fs_write_full(fd, "\n", 1) < 0 || (temp && rename(temp, file) < 0)) {
		err_sys(err, "--result: cannot write '%s'", file);
		if (temp)
			unlink(temp);
		return -1;
	}
	return 0;
}

/* What was refused and is not known yet, before the end. */
static void denial_events(const struct run_report *r, const struct cordon_result *result)
{
	while (r->o->events && r->io->denials_told < result->denial_count)
		run_io_denial(r->io, &result->denials[r->io->denials_told]);
}

/* The result as the options ask for it: on stdout, as the last event, in a file. */
static int print_result(const struct run_report *r, const struct cordon_result *result, struct cordon_error *err)
{
	_cleanup_free_ char *json = NULL, *event = NULL;

	if (!r->o->json && !r->o->events && !r->o->result)
		return 0;
	json = cordon_result_json(result);
	denial_events(r, result);
	if (!json || (r->o->events && asprintf(&event, "{\"event\":\"end\",\"result\":%s}", json) < 0))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (r->o->json || r->o->events)
		run_io_line(r->io, event ? event : json);
	return r->o->result && !names_no_file(r->o) ? write_result(r->o->result, json, err) : 0;
}

static void note_cut(const struct run_report *r, const char *stream)
{
	char size[32];

	fprintf(stderr, "cordon: %s cut at %s (raise with %s)\n", stream, units_format_size(r->max_output, size),
	        r->raise_with ? r->raise_with : "--max-output");
}

/* On a terminal a note starts a line of its own, also after a prompt or a "^C". */
static void start_line(const struct run_report *r)
{
	if ((r->io->mid_line || r->io->ended_by == SIGINT) && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO))
		fputc('\n', stderr);
}

/* What became of its changes, where that is not what one would expect. */
static void note_changes(const struct cordon_transaction *t)
{
	const char *what = t->outcome && strcmp(t->outcome, "rolled_back") == 0 ? "rolled back" : "discarded";

	fprintf(stderr, "cordon: %" PRId64 " change%s %s\n", t->changes_total, t->changes_total == 1 ? "" : "s", what);
}

static bool worth_noting(const struct run_report *r, const struct cordon_transaction *t)
{
	bool undone = t->outcome ? strcmp(t->outcome, "rolled_back") == 0 : r->o->workspace != NULL;

	return undone && t->changes_total > 0 && !r->o->quiet && !r->o->json && !r->o->events;
}

static void note_denials(const struct cordon_result *result)
{
	struct colours c = colours_for(STDERR_FILENO);

	for (size_t i = 0; i < MIN(result->denial_count, (size_t)NOTED_DENIALS); i++) {
		const struct cordon_denial *d = &result->denials[i];
		_cleanup_buf_ struct buf target = {0};

		escape_name(&target, "", d->target); /* whoever was refused chose it */
		fprintf(stderr, "%scordon:%s refused: %s %s (%s)\n", c.bad, c.off, d->category, target.data ? target.data : "",
		        d->rule ? d->rule : "policy");
		if (d->hint && strncmp(d->hint, "--", 2) == 0) { /* an option: what it was refused is part of it, too */
			_cleanup_buf_ struct buf hint = {0};

			escape_name(&hint, "", d->hint);
			fprintf(stderr, "hint: %s allows it\n", hint.data ? hint.data : "");
		}
	}
	if (result->denial_count > NOTED_DENIALS)
		fprintf(stderr, "cordon: and %zu more, see cordon audit --denied\n", result->denial_count - NOTED_DENIALS);
}

/* What a person wants to know and the output does not say. */
static void print_notes(const struct run_report *r, const struct cordon_result *result)
{
	const struct cordon_transaction *t = &result->transaction;
	struct colours c = colours_for(STDERR_FILENO);
	bool changed = worth_noting(r, t);

	if (r->o->json || r->o->events)
		return; /* it is all in there */
	if (result->error || result->stdout_truncated || result->stderr_truncated || changed || (result->denial_count && !r->o->quiet))
		start_line(r);
	if (result->error)
		fprintf(stderr, "%scordon:%s %s%s%s%s\n", c.bad, c.off, result->error, result->hint ? " (" : "",
		        result->hint ? result->hint : "", result->hint ? ")" : "");
	if (result->stdout_truncated)
		note_cut(r, r->o->tty ? "output" : "stdout");
	if (result->stderr_truncated)
		note_cut(r, "stderr");
	if (changed)
		note_changes(t);
	if (!r->o->quiet)
		note_denials(result);
}

static int status_of_error(const struct cordon_error *err)
{
	switch (err->code) {
	case CORDON_ERR_NOT_FOUND:
		return EXIT_NOT_FOUND;
	case CORDON_ERR_NOT_RUNNABLE:
	case CORDON_ERR_DENIED:
		return EXIT_NOT_ALLOWED;
	case CORDON_OK:
	case CORDON_ERR_INPUT:
	case CORDON_ERR_WEAK_HOST:
	case CORDON_ERR_SYSTEM:
	case CORDON_ERR_BUSY:
		break;
	}
	return EXIT_CORDON_FAILED;
}

int run_fail(const struct run_report *r, const struct cordon_error *err)
{
	struct cordon_error ignored;
	struct cordon_result result = {
		.state = "failed",
		.reason = err->code == CORDON_ERR_DENIED ? "denied" : "error",
		.exit_code = status_of_error(err),
		.stdout_data = "",
		.stderr_data = "",
		.usage = {.memory_peak_bytes = -1, .pids_peak = -1},
		.error = err->message,
		.hint = err->hint[0] ? err->hint : NULL,
		.transaction = {.changes_total = -1},
		.denials = r->refused.items,
		.denial_count = r->refused.count,
	};

	run_io_cook(r->io);
	report_error(r->begun ? "cordon" : r->who, err);
	print_result(r, &result, &ignored);
	run_io_flush(r->io);
	return result.exit_code;
}

/* Our output could not be written. A reader that had enough is no error worth a word. */
static int fail_output(int write_errno)
{
	struct cordon_error err = {0};

	if (write_errno == EPIPE)
		return EXIT_SIGNAL + SIGPIPE;
	errno = write_errno;
	err_sys(&err, "cannot write the output");
	report_error("cordon", &err);
	return EXIT_CORDON_FAILED;
}

int run_finish(struct run_report *r, const struct cordon_result *ended)
{
	struct cordon_result result = *ended;
	struct cordon_error err = {0};
	int printed, write_errno;

	if (r->io->ended_by)
		result.exit_code = EXIT_SIGNAL + r->io->ended_by;
	printed = print_result(r, &result, &err);
	run_io_flush(r->io);
	write_errno = run_io_error(r->io);
	run_io_end(r->io); /* notes need a terminal that is not raw */
	if (printed < 0) {
		report_error("cordon", &err);
		return EXIT_CORDON_FAILED;
	}
	if (r->io->ended_by) {
		start_line(r);
		if (worth_noting(r, &result.transaction))
			note_changes(&result.transaction);
		return EXIT_SIGNAL + r->io->ended_by;
	}
	if (write_errno)
		return fail_output(write_errno);
	print_notes(r, &result);
	return result.exit_code;
}
