/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon run`: one command in a fresh sandbox, its output as it comes, its exit status as ours. */
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
#include "base/util.h"
#include "cmd/cmd.h"

struct run {
	struct run_options o;
	struct cordon_policy *policy;
	struct run_program program;
	struct cordon_mount *mounts;
	char *workspace, *cwd;
	struct cordon *ctx;
	struct cordon_sandbox *sandbox;
	struct cordon_exec *exec;
	struct run_io io;
	bool begun; /* past the options: errors are no longer about how `run` was called */
};

bool run_env_given(const struct run_options *o, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < o->env.count; i++)
		if (strncmp(o->env.items[i], name, len) == 0 && (o->env.items[i][len] == '=' || !o->env.items[i][len]))
			return true;
	return false;
}

/* ---- from options to what the library takes ---------------------------------------------------------------------------------- */

static int apply_env(struct run *r, struct cordon_error *err)
{
	for (size_t i = 0; i < r->o.env.count; i++) {
		const char *item = r->o.env.items[i];

		if (options_set_policy(r->policy, strchr(item, '=') ? "env.set" : "env.allow", "--env", item, err) < 0)
			return -1;
	}
	return 0;
}

/* "HOST:GUEST", "HOST:GUEST:rw": read from the right, since a host path may have colons in it. */
static int parse_mount(char *item, struct cordon_mount *out, struct cordon_error *err)
{
	char *colon = strrchr(item, ':');

	*out = (struct cordon_mount){0};
	if (colon && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
		out->writable = colon[2] == 'w';
		*colon = '\0';
		colon = strrchr(item, ':');
	}
	if (!colon || colon == item || colon[1] != '/')
		return err_set(err, CORDON_ERR_INPUT, "'%s' is not of the form HOST:GUEST[:rw], with an absolute GUEST", item);
	*colon = '\0';
	out->guest = colon + 1;
	/* Links are resolved now: what the user grants is what this path means at this moment. */
	out->host = realpath(item, NULL);
	return out->host ? 0 : err_sys(err, "%s", item);
}

/* The flag is the user's own grant, so the policy has to know of it. What is forbidden stays so. */
static int apply_mounts(struct run *r, struct cordon_error *err)
{
	size_t count = r->o.mounts.count;

	if (count && !(r->mounts = calloc(count, sizeof(*r->mounts))))
		return err_sys(err, "--mount");
	for (size_t i = 0; i < count; i++) {
		struct cordon_mount *m = &r->mounts[i];

		if (parse_mount(r->o.mounts.items[i], m, err) < 0)
			return err_wrap(err, "--mount");
		if (options_set_policy(r->policy, m->writable ? "mounts.write" : "mounts.read", "--mount", m->host, err) < 0)
			return -1;
	}
	return 0;
}

static int check_backend(const struct run_options *o, struct cordon_error *err)
{
	static const char *const later[] = {"container", "microvm"}, *const now[] = {"process", "auto"};

	for (size_t i = 0; i < ARRAY_SIZE(now); i++)
		if (strcmp(o->backend, now[i]) == 0)
			return 0;
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		if (strcmp(o->backend, later[i]) == 0)
			return err_set(err, CORDON_ERR_INPUT, "--backend: '%s' is not available in this version; process is", o->backend);
	const char *near = nearest_word(o->backend, now, ARRAY_SIZE(now));
	return err_set(err, CORDON_ERR_INPUT, "--backend: unknown backend '%s'%s%s%s; give process or auto", o->backend,
	               near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int check_workspace(struct run *r, struct cordon_error *err)
{
	struct stat st;

	r->workspace = realpath(r->o.workspace, NULL);
	if (!r->workspace || stat(r->workspace, &st) < 0)
		return err_set(err, CORDON_ERR_INPUT, "--workspace: '%s': %s; give an existing directory", r->o.workspace, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "--workspace: '%s' is not a directory; give an existing directory", r->o.workspace);
	return 0;
}

static int check_user(const char *user, struct cordon_error *err)
{
	size_t digits = strspn(user, "0123456789"), more = user[digits] == ':' ? strspn(user + digits + 1, "0123456789") : 0;

	if (digits == 0 || user[digits + (more ? more + 1 : 0)] != '\0')
		return err_set(err, CORDON_ERR_INPUT, "--user: '%s' is not of the form UID or UID:GID, in numbers", user);
	return 0;
}

/*
 * A reader of FILE sees the old contents or the new, never half of them. What is no plain file (a pipe, a device, a link such as
 * /dev/stderr, which must not be replaced even if it leads to a plain file) is written in place, as the shell's > does.
 */
static bool replaceable(const char *file)
{
	struct stat st;

	return lstat(file, &st) < 0 ? errno == ENOENT : S_ISREG(st.st_mode);
}

/* Found out before the command runs, not after. */
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

static int check_options(struct run *r, struct cordon_error *err)
{
	const struct run_options *o = &r->o;

	if (o->json && o->events)
		return err_set(err, CORDON_ERR_INPUT, "--json and --events exclude each other; --events ends with the same object");
	if (o->json && o->tty)
		return err_set(err, CORDON_ERR_INPUT, "--json and -t exclude each other: what goes to a terminal is not kept");
	if (o->image && strcmp(o->image, "host") != 0)
		return err_set(err, CORDON_ERR_INPUT, "--image: '%s' is not available; this version has only 'host'", o->image);
	if (o->backend && check_backend(o, err) < 0)
		return -1;
	if (o->workspace && check_workspace(r, err) < 0)
		return -1;
	if (o->user && check_user(o->user, err) < 0)
		return -1;
	if (o->cwd && asprintf(&r->cwd, "%s%s", o->cwd[0] == '/' ? "" : "/app/", o->cwd) < 0) {
		r->cwd = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (o->result && check_result(o, err) < 0)
		return -1;
	return apply_env(r, err) < 0 || apply_mounts(r, err) < 0 ? -1 : 0;
}

/* ---- starting it ------------------------------------------------------------------------------------------------------------- */

/* Whether our standard input goes to the command. /dev/null is what it gets anyway. */
static bool feeds_stdin(const struct run *r)
{
	struct stat st;

	if (r->program.stdin_is_code || fstat(STDIN_FILENO, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return false;
	return r->o.interactive || !S_ISCHR(st.st_mode) || !isatty(STDIN_FILENO);
}

static int start_event(struct run *r, struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_kstr(&j, "event", "start");
	json_kstr(&j, "sandbox", cordon_sandbox_id(r->sandbox));
	json_key(&j, "command");
	json_array(&j);
	for (const char *const *arg = r->program.argv; *arg; arg++)
		json_str(&j, *arg);
	json_end(&j);
	json_end(&j);
	if (line.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	run_io_line(&r->io, line.data);
	return 0;
}

static int make_sandbox(struct run *r, struct cordon_error *err)
{
	struct cordon_sandbox_options options = {
		.size = sizeof(options),
		.flags = CORDON_SANDBOX_LAZY,
		.workspace = r->workspace,
		.hostname = r->o.hostname,
		.user = r->o.user,
		.mounts = r->mounts,
		.mount_count = r->o.mounts.count,
		.files = r->program.files,
		.file_count = r->program.file_count,
	};

	return cordon_sandbox_create(r->ctx, r->policy, &options, &r->sandbox, err);
}

static int start(struct run *r, struct cordon_error *err)
{
	const struct run_options *o = &r->o;
	enum run_output mode = o->json ? RUN_OUTPUT_NONE : o->events ? RUN_OUTPUT_EVENTS : RUN_OUTPUT_LIVE;
	bool feed = feeds_stdin(r), raw = o->interactive && o->tty && mode == RUN_OUTPUT_LIVE && isatty(STDIN_FILENO);
	struct cordon_exec_options options = {
		.size = sizeof(options), .argv = r->program.argv, .cwd = r->cwd, .on_output = run_io_output, .user = &r->io};

	if (o->tty && !getenv("TERM") && !run_env_given(o, "TERM") && strlist_add(&r->program.env, "TERM=xterm", err) < 0)
		return -1;
	/* The launcher is started before signals are blocked, so that it does not inherit our mask. */
	if (cordon_open(&r->ctx, err) < 0 || run_io_begin(&r->io, mode, feed, o->tty, err) < 0 || make_sandbox(r, err) < 0)
		return -1;
	options.env = (const char *const *)r->program.env.items;
	options.flags = (o->tty ? CORDON_EXEC_TTY : 0u) | (feed ? CORDON_EXEC_STDIN : 0u) |
	                (mode == RUN_OUTPUT_NONE || o->result ? 0u : CORDON_EXEC_DISCARD);
	if (o->tty)
		run_io_window(&options.rows, &options.cols);
	if (cordon_exec_start(r->sandbox, &options, &r->exec, err) < 0) {
		if (err->code == CORDON_ERR_NOT_FOUND)
			run_program_missing(&r->program, err);
		return -1;
	}
	if (o->events && start_event(r, err) < 0)
		return -1;
	return raw ? run_io_raw(&r->io, err) : 0;
}

/* ---- the report -------------------------------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, data + done, len - done);

		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

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
	if (write_all(fd, json, strlen(json)) < 0 || write_all(fd, "\n", 1) < 0 || (temp && rename(temp, file) < 0)) {
		err_sys(err, "--result: cannot write '%s'", file);
		if (temp)
			unlink(temp);
		return -1;
	}
	return 0;
}

/* The result as the options ask for it: on stdout, as the last event, in a file. */
static int print_result(struct run *r, const struct cordon_result *result, struct cordon_error *err)
{
	_cleanup_free_ char *json = NULL, *event = NULL;

	if (!r->o.json && !r->o.events && !r->o.result)
		return 0;
	json = cordon_result_json(result);
	if (!json || (r->o.events && asprintf(&event, "{\"event\":\"end\",\"result\":%s}", json) < 0))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (r->o.json || r->o.events)
		run_io_line(&r->io, event ? event : json);
	return r->o.result ? write_result(r->o.result, json, err) : 0;
}

static void note_cut(const struct run *r, const char *stream)
{
	char size[32];

	fprintf(stderr, "cordon: %s cut at %s (raise with --max-output)\n", stream, units_format_size(r->policy->limits.max_output, size));
}

/* On a terminal a note starts a line of its own, also after a prompt or a "^C". */
static void start_line(const struct run *r)
{
	if ((r->io.mid_line || r->io.ended_by == SIGINT) && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO))
		fputc('\n', stderr);
}

/* What a person wants to know and the output does not say. */
static void print_notes(const struct run *r, const struct cordon_result *result)
{
	struct colours c = colours_for(STDERR_FILENO);
	bool changed = r->o.workspace && result->changes > 0 && !r->o.quiet;

	if (r->o.json || r->o.events)
		return; /* it is all in there */
	if (result->error || result->stdout_truncated || result->stderr_truncated || changed)
		start_line(r);
	if (result->error)
		fprintf(stderr, "%scordon:%s %s%s%s%s\n", c.bad, c.off, result->error, result->hint ? " (" : "",
		        result->hint ? result->hint : "", result->hint ? ")" : "");
	if (result->stdout_truncated)
		note_cut(r, r->o.tty ? "output" : "stdout");
	if (result->stderr_truncated)
		note_cut(r, "stderr");
	if (changed)
		fprintf(stderr, "cordon: %" PRId64 " change%s discarded\n", result->changes, result->changes == 1 ? "" : "s");
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
		break;
	}
	return EXIT_CORDON_FAILED;
}

/* It did not run, or we lost it: the same object and exit status as ever, with the error in it. */
static int fail(struct run *r, const struct cordon_error *err)
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
		.changes = -1,
	};

	run_io_cook(&r->io);
	report_error(r->begun ? "cordon" : "cordon run", err);
	print_result(r, &result, &ignored);
	run_io_flush(&r->io);
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

static int finish(struct run *r)
{
	struct cordon_result result = *cordon_exec_result(r->exec);
	struct cordon_error err = {0};
	int printed, write_errno;

	if (r->io.ended_by)
		result.exit_code = EXIT_SIGNAL + r->io.ended_by;
	printed = print_result(r, &result, &err);
	run_io_flush(&r->io);
	write_errno = run_io_error(&r->io);
	run_io_end(&r->io); /* notes need a terminal that is not raw */
	if (printed < 0) {
		report_error("cordon", &err);
		return EXIT_CORDON_FAILED;
	}
	if (r->io.ended_by) {
		start_line(r);
		return EXIT_SIGNAL + r->io.ended_by;
	}
	if (write_errno)
		return fail_output(write_errno);
	print_notes(r, &result);
	return result.exit_code;
}

static int run(struct run *r, int count, char **operands, struct cordon_error *err)
{
	if (check_options(r, err) < 0 || run_program_prepare(&r->o, count, operands, &r->program, err) < 0)
		return -1;
	r->begun = true;
	if (start(r, err) < 0 || run_io_pump(&r->io, r->exec, err) < 0) {
		run_io_flush(&r->io);
		return -1;
	}
	return finish(r);
}

static void run_clear(struct run *r)
{
	run_io_end(&r->io); /* first: whatever the rest does, the terminal is the user's again */
	if (r->exec)
		cordon_exec_free(r->exec);
	if (r->sandbox)
		cordon_sandbox_destroy(r->sandbox);
	if (r->ctx)
		cordon_release(r->ctx);
	for (size_t i = 0; r->mounts && i < r->o.mounts.count; i++)
		free((char *)(uintptr_t)r->mounts[i].host);
	free(r->mounts);
	free(r->workspace);
	free(r->cwd);
	run_program_clear(&r->program);
	strlist_free(&r->o.env);
	strlist_free(&r->o.mounts);
	cordon_policy_free(r->policy);
}

int cmd_run(int argc, char **argv)
{
	const struct command *command = command_find("run");
	struct run r = {.policy = cordon_policy_new(), .io = {.signals = -1, .out.fd = STDOUT_FILENO, .err.fd = STDERR_FILENO}};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	int status;

	if (!r.policy) {
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		status = fail(&r, &err);
	} else if (options_parse(command, argc, argv, &r.o, r.policy, &parsed) < 0 && !parsed.help) {
		status = fail(&r, &parsed.err);
		if (parsed.usage)
			fputs("see: cordon run --help\n", stderr);
	} else if (parsed.help) {
		options_help(command, stdout);
		status = EXIT_OK;
	} else {
		status = run(&r, argc - parsed.first, argv + parsed.first, &err);
		if (status < 0)
			status = fail(&r, &err);
	}
	run_clear(&r);
	return status;
}
