/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon run`: one command in a fresh sandbox, its output as it comes, its exit status as ours. */
#include "cmd/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/policy_file.h"
#include "cmd/published.h"
#include "cmd/run_changes.h"
#include "cmd/tree.h"
#include "lib/exec.h"
#include "lib/gate.h"
#include "lib/publish.h"
#include "lib/context.h"
#include "lib/pool.h"

struct run {
	struct run_options o;
	struct cordon_policy *policy;
	struct strlist settings; /* what options set in it */
	struct run_program program;
	struct cordon_mount *mounts;
	char *workspace, *cwd;
	struct cordon *ctx;
	struct cordon_sandbox *sandbox;
	struct cordon_exec *exec;
	struct run_io io;
	struct run_report report;
	char kept[LAYER_ID_LEN + 1]; /* the sandbox of --keep; "": none */
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
	return tree_recover(r->workspace, err);
}

static int check_user(const char *user, struct cordon_error *err)
{
	size_t digits = strspn(user, "0123456789"), more = user[digits] == ':' ? strspn(user + digits + 1, "0123456789") : 0;

	if (digits == 0 || user[digits + (more ? more + 1 : 0)] != '\0')
		return err_set(err, CORDON_ERR_INPUT, "--user: '%s' is not of the form UID or UID:GID, in numbers", user);
	return 0;
}

static int check_options(struct run *r, struct cordon_error *err)
{
	const struct run_options *o = &r->o;

	if (run_check_output(o, err) < 0)
		return -1;
	if (o->policy_file && policy_file_for_run(o->policy_file, NULL, &r->settings, r->policy, err) < 0)
		return -1;
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
	if (apply_env(r, err) < 0 || apply_mounts(r, err) < 0)
		return -1;
	run_note_env(o);
	return 0;
}

/* ---- starting it ------------------------------------------------------------------------------------------------------------- */

/* --keep: one that stays. */
static int open_kept(struct run *r, struct cordon_error *err)
{
	const struct run_keep keep = {&r->o, r->workspace, &r->settings, r->mounts, r->o.mounts.count};

	if (run_keep_create(&keep, r->kept, err) < 0) {
		r->kept[0] = '\0';
		return -1;
	}
	return sandbox_open(r->ctx, r->kept, "run", &r->sandbox, err);
}

static int make_sandbox(struct run *r, struct cordon_error *err)
{
	if (r->o.keep)
		return open_kept(r, err);
	struct cordon_sandbox_options options = {
		.size = sizeof(options),
		.flags = CORDON_SANDBOX_LAZY,
		.image = r->o.image,
		.workspace = r->workspace,
		.hostname = r->o.hostname,
		.user = r->o.user,
		.mounts = r->mounts,
		.mount_count = r->o.mounts.count,
		.files = r->program.made.files,
		.file_count = r->program.by_library ? 0 : r->program.made.file_count,
	};

	pool_expect(r->ctx->pool, r->program.by_library ? r->o.lang : NULL);
	return cordon_sandbox_create(r->ctx, r->policy, &options, &r->sandbox, err);
}

static int tell_start(struct run *r, struct cordon_error *err)
{
	struct strlist published = {0};
	int done = publish_list(r->sandbox, &published, err);

	if (done == 0)
		done = run_start_event(&r->io, cordon_sandbox_id(r->sandbox), r->program.argv, &published, err);
	strlist_free(&published);
	return done;
}

static int start(struct run *r, struct cordon_error *err)
{
	const struct run_options *o = &r->o;
	enum run_output mode = o->json ? RUN_OUTPUT_NONE : o->events ? RUN_OUTPUT_EVENTS : RUN_OUTPUT_LIVE;
	bool feed = run_feeds_stdin(o, &r->program), raw = o->interactive && o->tty && mode == RUN_OUTPUT_LIVE && isatty(STDIN_FILENO);
	struct cordon_exec_options options = {.size = sizeof(options),
	                                      .cwd = r->cwd,
	                                      .on_output = run_io_output,
	                                      .on_denial = run_io_denial,
	                                      .user = &r->io,
	                                      .on_failure = o->on_failure};

	if (o->tty && !getenv("TERM") && !run_env_given(o, "TERM") && strlist_add(&r->program.env, "TERM=xterm", err) < 0)
		return -1;
	/* The launcher is started before signals are blocked, so that it does not inherit our mask. */
	if (context_open_once(&r->ctx, err) < 0 || run_io_begin(&r->io, mode, feed, o->tty, err) < 0 || make_sandbox(r, err) < 0)
		return -1;
	run_note_copied(o, r->o.keep ? NULL : sandbox_copied(r->sandbox)); /* one that stays is started by the command */
	run_program_options(&r->program, &options);
	options.env = (const char *const *)r->program.env.items;
	options.flags = (o->tty ? CORDON_EXEC_TTY : 0u) | (feed ? CORDON_EXEC_STDIN : 0u) |
	                (mode == RUN_OUTPUT_NONE || o->result ? 0u : CORDON_EXEC_DISCARD);
	if (o->tty)
		run_io_window(&options.rows, &options.cols);
	char id[ID_LEN + 1];
	id_new(id);
	/* while the launcher makes the sandbox */
	const struct gate_for who = {r->ctx, &r->sandbox->policy, cordon_sandbox_id(r->sandbox), id};
	if (run_program_check(&r->program, &who, &r->report.refused, err) < 0)
		return -1;
	if (exec_start(r->sandbox, &options, id, &r->exec, err) < 0) {
		if (err->code == CORDON_ERR_NOT_FOUND)
			run_program_missing(&r->program, o->image, err);
		return -1;
	}
	if (o->keep)
		run_note_copied(o, sandbox_copied(r->sandbox));
	published_note(o, r->sandbox);
	if (o->events && tell_start(r, err) < 0)
		return -1;
	return raw ? run_io_raw(&r->io, err) : 0;
}

/* Its changes first, since the report tells of them. */
static int finish(struct run *r)
{
	struct cordon_result result = *cordon_exec_result(r->exec);
	struct run_commit commit = {0};
	struct cordon_error err = {0};

	r->report.max_output = r->policy->limits.max_output;
	if (r->o.commit) {
		run_io_flush(&r->io);
		run_io_cook(&r->io);
		run_commit(&r->o, r->exec, &result, &commit);
	}
	int status = run_finish(&r->report, &result);
	if (r->o.commit)
		run_commit_notes(&r->o, r->workspace, &result, &commit);
	if (!r->kept[0])
		return status;
	if (sandbox_stop(r->sandbox, &err) < 0) {
		report_error("cordon", &err);
		status = EXIT_CORDON_FAILED;
	}
	if (!r->o.quiet && !r->o.json && !r->o.events)
		fprintf(stderr, "cordon: kept as %s\n", r->o.name ? r->o.name : r->kept);
	return status;
}

static int run(struct run *r, int count, char **operands, struct cordon_error *err)
{
	if (check_options(r, err) < 0 || run_program_prepare(&r->o, count, operands, &r->program, err) < 0 ||
	    run_changes_check(&r->o, &r->program, err) < 0)
		return -1;
	r->report.begun = true;
	if (start(r, err) < 0 || run_io_pump(&r->io, &run_target_local, r->exec, err) < 0) {
		run_io_flush(&r->io);
		return -1;
	}
	return finish(r);
}

static void run_clear(struct run *r)
{
	const bool failed = !r->exec; /* it never ran: there is nothing to keep */

	run_io_end(&r->io); /* first: whatever the rest does, the terminal is the user's again */
	if (r->exec)
		cordon_exec_free(r->exec);
	if (r->sandbox)
		cordon_sandbox_destroy(r->sandbox);
	if (r->ctx)
		cordon_release(r->ctx);
	if (r->kept[0] && failed)
		cordon_remove(r->kept, NULL);
	for (size_t i = 0; r->mounts && i < r->o.mounts.count; i++)
		free((char *)(uintptr_t)r->mounts[i].host);
	free(r->mounts);
	free(r->workspace);
	free(r->cwd);
	run_program_clear(&r->program);
	denials_free(&r->report.refused);
	strlist_free(&r->settings);
	strlist_free(&r->o.env);
	strlist_free(&r->o.mounts);
	cordon_policy_free(r->policy);
}

int cmd_run(int argc, char **argv)
{
	const struct command *command = command_find("run");
	struct run r = {.policy = cordon_policy_new(), .io = {.signals = -1, .out.fd = STDOUT_FILENO, .err.fd = STDERR_FILENO}};
	r.report = (struct run_report){.who = "cordon run", .o = &r.o, .io = &r.io};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	int status;

	if (!r.policy) {
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		status = run_fail(&r.report, &err);
	} else if (options_parse_settings(command, argc, argv, &r.o, r.policy, &r.settings, &parsed) < 0 && !parsed.help) {
		status = run_fail(&r.report, &parsed.err);
		if (parsed.usage)
			fputs("see: cordon run --help\n", stderr);
	} else if (parsed.help) {
		options_help(command, stdout);
		status = EXIT_OK;
	} else if (!policy_file_hand_over(r.o.policy_file, argc, argv, &status)) {
		status = run(&r, argc - parsed.first, argv + parsed.first, &err);
		if (status < 0)
			status = run_fail(&r.report, &err);
	}
	run_clear(&r);
	return status;
}
