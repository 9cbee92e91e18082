/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cordon try`: a command over the current directory, as if it ran there, but the directory does not change until its owner has seen what would.
 *
 * It is a sandbox that stays, made for this one command: so its changes can be looked at, committed by the same rules as any, or kept. It has a time to live
 * until it is kept on purpose, so that one whose `try` was killed does not stay for ever.
 */
#include "cmd/try.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/policy_file.h"
#include "cmd/published.h"
#include "cmd/run_changes.h"
#include "lib/exec.h"
#include "lib/gate.h"
#include "lib/context.h"

#define ORPHAN_MS ((int64_t)24 * 3600 * 1000)
#define OPTION(member) offsetof(struct try_options, member)

/* clang-format off */
const struct option_def try_options[] = {
	{.group = "What to run", .name = "command", .letter = 'c', .argument = "LINE", .offset = OPTION(run.line),
	 .help = "a shell line instead of CMD"},
	{.name = "policy", .argument = "FILE", .offset = OPTION(run.policy_file), .complete = COMPLETE_FILE,
	 .help = "what it may do, from a policy file; other options win over it (see cordon policy)"},
	{.name = "env", .argument = "NAME[=VALUE]", .offset = OPTION(run.env), .repeat = true, .complete = COMPLETE_VARIABLE,
	 .help = "set a variable, or take it over from here; may be repeated"},
	{.name = "mount", .argument = "HOST:GUEST[:rw]", .offset = OPTION(run.mounts), .repeat = true, .complete = COMPLETE_FILE,
	 .help = "show a host path inside, read-only unless :rw; may be repeated"},
	{.name = "image", .argument = "NAME", .offset = OPTION(run.image), .complete = COMPLETE_IMAGE,
	 .help = "root file system: an imported image, or host (default)"},
	{.name = "no-toolchains", .offset = OPTION(no_toolchains), .help = "do not show the compilers and interpreters on your PATH inside"},
	{.group = "Its changes", .name = "yes", .letter = 'y', .offset = OPTION(yes), .help = "do not ask: commit them, if the command succeeds"},
	{.name = "no", .letter = 'n', .offset = OPTION(no), .help = "do not ask: discard them"},
	{.name = "keep", .letter = 'k', .offset = OPTION(keep), .help = "do not ask: keep the sandbox, to look at it or commit it later"},
	{.name = "name", .argument = "NAME", .offset = OPTION(name), .help = "what a kept sandbox is called"},
	{.name = "allow-autorun", .offset = OPTION(autorun),
	 .help = "also commit files that other programs run by themselves: .git/hooks, .envrc ..."},
	{.name = "force", .letter = 'f', .offset = OPTION(force), .help = "also commit over what was changed on the host meanwhile"},
	{.name = "on-failure", .argument = "ACTION", .offset = OPTION(on_failure), .complete = COMPLETE_WORDS, .words = "rollback keep",
	 .help = "with --yes, if the command fails: rollback (default), or keep: commit all the same"},
	{.name = "ok", .argument = "LIST", .policy_key = "transaction.ok", .help = "exit statuses that are no failure: 0,1"},
	MAKING_LIMIT_ROWS,
	{.group = "Output", .name = "json", .offset = OPTION(run.json), .help = "print one JSON object, as cordon run does; never asks"},
	{.name = "quiet", .letter = 'q', .offset = OPTION(run.quiet), .help = "no remarks, only errors"},
	{0},
};
/* clang-format on */

const struct example try_examples[] = {
	{"cordon try -- ./migrate.py --all", "see what it does to the project, then decide"},
	{"cordon try -c './configure && make'", "a shell line"},
	{"cordon try --yes -- make format", "commit what it changed if it succeeds, without asking"},
	{0},
};

const char try_about[] =
	"Runs the command over a view of this directory, at the same path, with the tools on your PATH and no network. Afterwards\n"
	"shows what changed and asks: commit it to the directory, discard it, or keep the sandbox. Without a terminal, and without --yes, --no\n"
	"or --keep, changes are discarded. The exit status is the command's own; 125 if a commit was refused. On a terminal there is no\n"
	"time limit unless --timeout sets one.";

/* ---- beforehand -------------------------------------------------------------------------------------------------------------- */

static int check_options(const struct try_options *o, struct cordon_error *err)
{
	if (o->yes + o->no + o->keep > 1)
		return err_set(err, CORDON_ERR_INPUT, "--yes, --no and --keep exclude each other");
	if (o->name && o->no)
		return err_set(err, CORDON_ERR_INPUT, "--name is for a sandbox that is kept: --no removes it");
	if (o->on_failure && strcmp(o->on_failure, "rollback") != 0 && strcmp(o->on_failure, "keep") != 0)
		return err_set(err, CORDON_ERR_INPUT, "--on-failure: '%.60s' is unknown; give rollback or keep", o->on_failure);
	return 0;
}

static int check_directory(struct try *t, struct cordon_error *err)
{
	_cleanup_free_ char *user = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;

	t->directory = realpath(".", NULL);
	if (!t->directory)
		return err_sys(err, "the current directory");
	if (user && strcmp(t->directory, user) == 0) {
		err_set(err, CORDON_ERR_INPUT, "this is your home directory: it holds keys and settings that no sandbox should see");
		return err_hint(err, "change to the directory of a project");
	}
	if (user && strcmp(user, "/") != 0 && fs_path_within(user, t->directory)) {
		err_set(err, CORDON_ERR_INPUT, "%s holds your home directory", t->directory);
		return err_hint(err, "change to the directory of a project");
	}
	return tree_check_workspace(t->directory, t->home, err) < 0 ? -1 : tree_recover(t->directory, err);
}

/* The changes of a command that fails or is ended are shown like any others: nothing is rolled back before it was looked at. */
static int make_sandbox(struct try *t, struct cordon_error *err)
{
	struct cordon_create_options o = {
		.size = sizeof(o), .name = t->o.name, .image = t->o.run.image, .workspace = t->directory, .ttl_ms = ORPHAN_MS};

	if ((making_wants_toolchains(t->o.no_toolchains, t->o.run.image) && making_toolchains(&t->making, t->directory, err) < 0) ||
	    making_on_failure(&t->making, "keep", err) < 0)
		return -1;
	for (size_t i = 0; i < t->o.run.mounts.count; i++)
		if (making_mount(&t->making, t->o.run.mounts.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < t->o.run.env.count; i++)
		if (making_env(&t->making, t->o.run.env.items[i], err) < 0)
			return -1;
	o.policy = (const char *const *)t->making.settings.items;
	o.env = (const char *const *)t->making.env.items;
	o.mounts = t->making.mounts;
	o.mount_count = t->making.mount_count;
	if (cordon_create(&o, t->id, err) < 0) {
		t->id[0] = '\0';
		return -1;
	}
	return 0;
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static bool has_time_limit(const struct try *t)
{
	static const char key[] = "limits.timeout=";

	for (size_t i = 0; i < t->making.settings.count; i++)
		if (strncmp(t->making.settings.items[i], key, sizeof(key) - 1) == 0)
			return true;
	return false;
}

static int start(struct try *t, struct cordon_error *err)
{
	const bool feed = t->tty || run_feeds_stdin(&t->o.run, &t->program);
	struct cordon_exec_options options = {.size = sizeof(options),
	                                      .argv = t->program.argv,
	                                      .cwd = backend_shows_at_own_path(t->directory) ? t->directory : NULL,
	                                      .on_output = run_io_output,
	                                      .user = &t->io};

	if (t->tty && !getenv("TERM") && strlist_add(&t->program.env, "TERM=xterm", err) < 0)
		return -1;
	if (context_open_once(&t->ctx, err) < 0 ||
	    run_io_begin(&t->io, t->o.run.json ? RUN_OUTPUT_NONE : RUN_OUTPUT_LIVE, feed, t->tty, err) < 0 ||
	    sandbox_open(t->ctx, t->id, "try", &t->sandbox, err) < 0)
		return -1;
	options.env = (const char *const *)t->program.env.items;
	options.flags = (t->tty ? CORDON_EXEC_TTY : 0u) | (feed ? CORDON_EXEC_STDIN : 0u) | (t->o.run.json ? 0u : CORDON_EXEC_DISCARD);
	options.timeout_ms = t->tty && !has_time_limit(t) ? -1 : 0;
	if (t->tty)
		run_io_window(&options.rows, &options.cols);
	char id[ID_LEN + 1];
	id_new(id);
	const struct gate_for who = {t->ctx, &t->sandbox->policy, t->id, id};
	if (run_program_check(&t->program, &who, &t->report.refused, err) < 0)
		return -1;
	if (exec_start(t->sandbox, &options, id, &t->exec, err) < 0) {
		if (err->code == CORDON_ERR_NOT_FOUND)
			run_program_missing(&t->program, t->o.run.image, err);
		return -1;
	}
	run_note_copied(&t->o.run, sandbox_copied(t->sandbox));
	published_note(&t->o.run, t->sandbox);
	return t->tty ? run_io_raw(&t->io, err) : 0;
}

static int run(struct try *t, int count, char **operands, struct cordon_error *err)
{
	if (check_options(&t->o, err) < 0 || (t->o.run.policy_file && making_policy(&t->making, t->o.run.policy_file, "dev", err) < 0) ||
	    run_program_prepare(&t->o.run, count, operands, &t->program, err) < 0)
		return -1;
	t->home = context_find_home(err);
	if (!t->home || check_directory(t, err) < 0)
		return -1;
	t->report.begun = true;
	t->tty = !t->o.run.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (make_sandbox(t, err) < 0)
		return -1;
	int r = start(t, err);
	if (r == 0)
		r = run_io_pump(&t->io, &run_target_local, t->exec, err);
	run_io_flush(&t->io);
	if (r == 0)
		r = sandbox_stop(t->sandbox, err);
	return r < 0 ? -1 : try_end(t, err);
}

static void clear(struct try *t)
{
	run_io_end(&t->io); /* first: whatever the rest does, the terminal is the user's again */
	if (t->exec)
		cordon_exec_free(t->exec);
	if (t->sandbox)
		cordon_sandbox_destroy(t->sandbox);
	if (t->ctx)
		cordon_release(t->ctx);
	if (t->id[0] && !t->stays)
		cordon_remove(t->id, NULL); /* its time to live takes care of what cannot be removed now */
	making_free(&t->making);
	run_program_clear(&t->program);
	denials_free(&t->report.refused);
	strlist_free(&t->o.run.env);
	strlist_free(&t->o.run.mounts);
	free(t->home);
	free(t->directory);
}

int cmd_try(int argc, char **argv)
{
	const struct command *command = command_find("try");
	struct cordon_policy *scratch = cordon_policy_new(); /* what settings are checked against */
	struct try t = {.io = {.signals = -1, .out.fd = STDOUT_FILENO, .err.fd = STDERR_FILENO}};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	int status;

	t.report = (struct run_report){.who = "cordon try", .o = &t.o.run, .io = &t.io};
	if (!scratch) {
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		status = run_fail(&t.report, &err);
	} else if (options_parse_settings(command, argc, argv, &t.o, scratch, &t.making.settings, &parsed) < 0 && !parsed.help) {
		status = run_fail(&t.report, &parsed.err);
		if (parsed.usage)
			fputs("see: cordon try --help\n", stderr);
	} else if (parsed.help) {
		options_help(command, stdout);
		status = EXIT_OK;
	} else if (!policy_file_hand_over(t.o.run.policy_file, argc, argv, &status)) {
		status = run(&t, argc - parsed.first, argv + parsed.first, &err);
		if (status < 0)
			status = run_fail(&t.report, &err);
	}
	clear(&t);
	cordon_policy_free(scratch);
	return status;
}
