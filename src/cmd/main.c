/* SPDX-License-Identifier: Apache-2.0 */
/* The front door: the tables of subcommands and options, the overview, help and version. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/run.h"
#include "cordon.h"
#include "keeper/keeper.h"
#include "policy/policy.h"

#define RUN(member) offsetof(struct run_options, member)

/* A table is read by its rows. */
/* clang-format off */
static const struct option_def run_options[] = {
	{.group = "What to run", .name = "command", .letter = 'c', .argument = "LINE", .offset = RUN(line),
	 .help = "a shell line (or code, with --lang) instead of CMD"},
	{.name = "lang", .argument = "LANG", .offset = RUN(lang), .complete = COMPLETE_WORDS, .words = language_words,
	 .help = "run code: python, javascript, typescript, ruby or bash; from -c, FILE or stdin"},
	{.name = "policy", .argument = "FILE", .offset = RUN(policy_file), .complete = COMPLETE_FILE,
	 .help = "what it may do, from a policy file; other options win over it (see cordon policy)"},
	{.group = "Around it", .name = "workspace", .argument = "DIR", .offset = RUN(workspace), .complete = COMPLETE_DIR,
	 .help = "/app starts as a view of DIR; DIR itself is never written"},
	{.name = "cwd", .argument = "DIR", .offset = RUN(cwd),
	 .help = "working directory inside, also relative to /app (default /app)"},
	{.name = "mount", .argument = "HOST:GUEST[:rw]", .offset = RUN(mounts), .repeat = true, .complete = COMPLETE_FILE,
	 .help = "show a host path inside, read-only unless :rw; may be repeated"},
	{.name = "env", .argument = "NAME[=VALUE]", .offset = RUN(env), .repeat = true, .complete = COMPLETE_VARIABLE,
	 .help = "set a variable, or take it over from here; may be repeated"},
	{.name = "user", .argument = "UID[:GID]", .offset = RUN(user),
	 .help = "who the command is inside (default: an unprivileged user)"},
	{.name = "hostname", .argument = "NAME", .offset = RUN(hostname), .help = "host name inside (default cordon)"},
	{.name = "image", .argument = "NAME", .offset = RUN(image), .complete = COMPLETE_IMAGE,
	 .help = "root file system: an imported image (cordon image ls), or host: this machine's, read-only (default)"},
	{.name = "root", .argument = "MODE", .policy_key = "root", .complete = COMPLETE_WORDS, .words = "readonly layered",
	 .help = "readonly (default), or layered: commands are root inside an image and can install packages"},
	{.name = "backend", .argument = "NAME", .offset = RUN(backend), .complete = COMPLETE_WORDS, .words = "auto process",
	 .help = "how it is isolated: process, or auto (default)"},
	{.group = "Its changes", .name = "commit", .offset = RUN(commit),
	 .help = "write them to the directory of --workspace if it succeeds: all of them or none"},
	{.name = "allow-autorun", .offset = RUN(autorun),
	 .help = "also files that other programs run by themselves: .git/hooks, .envrc, .vscode ..."},
	{.name = "keep", .offset = RUN(keep), .help = "keep the sandbox, for cordon exec, diff, commit ..."},
	{.name = "name", .argument = "NAME", .offset = RUN(name), .help = "what a kept sandbox is called"},
	{.name = "on-failure", .argument = "ACTION", .offset = RUN(on_failure), .complete = COMPLETE_WORDS, .words = "rollback keep",
	 .help = "with --commit or --keep, if it fails: rollback (default), or keep"},
	{.name = "ok", .argument = "LIST", .policy_key = "transaction.ok", .help = "exit statuses that are no failure: 0,1"},
	NETWORK_ROWS,
	{.group = "Limits", .name = "timeout", .argument = "TIME", .policy_key = "limits.timeout",
	 .help = "end it after this long"},
	{.name = "memory", .argument = "SIZE", .policy_key = "limits.memory", .help = "memory of all its processes together"},
	{.name = "cpus", .argument = "N", .policy_key = "limits.cpus", .help = "CPUs; 0.5 is half of one"},
	{.name = "pids", .argument = "N", .policy_key = "limits.pids", .help = "processes and threads at a time"},
	{.name = "max-output", .argument = "SIZE", .policy_key = "limits.max_output",
	 .help = "output of each stream; what is beyond is cut"},
	{.name = "disk", .argument = "SIZE", .policy_key = "limits.disk", .help = "what it may write to /app and its home"},
	{.name = "strict", .policy_key = "limits.strict", .help = "refuse limits that this host holds only in a weaker form"},
	{.name = "allow-weak", .argument = "NAME", .policy_key = "weak.allow", .complete = COMPLETE_WORDS,
	 .words = "memory pids cpu disk landlock",
	 .help = "accept a guarantee in a weaker form (see cordon doctor); may be repeated"},
	{.group = "Terminal and output", .name = "interactive", .letter = 'i', .offset = RUN(interactive),
	 .help = "pass standard input on even if it is a terminal"},
	{.name = "tty", .letter = 't', .offset = RUN(tty), .help = "give the command a terminal; -it for a shell"},
	{.name = "json", .offset = RUN(json), .help = "print one JSON object with output and usage at the end"},
	{.name = "events", .offset = RUN(events), .help = "print a line of JSON per event: start, stdout, stderr, denial, end"},
	{.name = "result", .argument = "FILE", .offset = RUN(result), .complete = COMPLETE_FILE,
	 .help = "write the JSON object to FILE; stdout stays live"},
	{.name = "quiet", .offset = RUN(quiet), .help = "no remarks, only errors"},
	{0},
};
/* clang-format on */

static const struct example run_examples[] = {
	{"cordon run -- id", "a program of this machine, with nothing of yours in reach"},
	{"cordon run -c 'curl -m 2 https://example.com; ls ~'", "a shell line: no network, and a home of its own"},
	{"cordon run --workspace . -- make test", "over a view of this directory; its changes are discarded"},
	{"cordon run --workspace . --commit -- make format", "… or written to it, if the command succeeds"},
	{"cordon run --lang python -c 'print(sum(range(10)))'", "code"},
	{"cordon run --lang typescript --mount ./data:/data main.ts /data/in.csv", "a file of code with an argument, and data to read"},
	{"cordon run --timeout 5 --memory 128M --json -- ls /usr", "other limits, and the result as JSON"},
	{"cordon run -it --timeout 1h -- bash", "a shell inside"},
	{0},
};

static const char run_about[] =
	"The command sees this machine's programs read-only, an empty /app, a private /tmp and home, and no network. Everything it\n"
	"starts ends with it. The exit status is the command's own; 128+N for signal N; 124 timed out; 125 cordon failed; 126 not\n"
	"executable or not allowed; 127 not found.\n"
	"\n"
	"With --lang, FILE is a path on the host (or - for stdin) and the ARGs go to the program. A FILE inside --workspace is run in\n"
	"place and finds its modules there. TypeScript is transpiled, offline; its types are not checked.";

struct help_flags {
	bool all, markdown;
};

static const struct option_def help_options[] = {
	{.name = "all", .offset = offsetof(struct help_flags, all), .help = "the help of every command"},
	{.name = "markdown", .offset = offsetof(struct help_flags, markdown), .help = "the same as Markdown, for the man page"},
	{0},
};

static const struct example completion_examples[] = {
	{"source <(cordon completion bash)", "bash, for this shell; in ~/.bashrc for all"},
	{"cordon completion zsh > ~/.zfunc/_cordon", "zsh, in a directory of your fpath"},
	{"cordon completion fish > ~/.config/fish/completions/cordon.fish", "fish"},
	{0},
};

/* What needs large libraries is handed over. */
#ifdef CORDON_FULL
#define IN_FULL(run) run
#else
#define IN_FULL(run) cmd_full
#endif

/* clang-format off */
const struct command commands[] = {
	{.name = "run", .operands = "[--] CMD [ARG...]\n-c LINE [ARG...]\n--lang LANG [-c CODE | FILE | -] [ARG...]",
	 .summary = "run one command in a fresh sandbox", .about = run_about, .run = cmd_run, .options = run_options,
	 .examples = run_examples, .complete = COMPLETE_PROGRAM, .then = COMPLETE_PROGRAM},
	{.name = "try", .operands = "[--] CMD [ARG...]\n-c LINE [ARG...]",
	 .summary = "run over this directory, look at the changes, then commit or discard them", .about = try_about, .run = cmd_try,
	 .options = try_options, .examples = try_examples, .complete = COMPLETE_PROGRAM, .then = COMPLETE_PROGRAM},
	{.name = "create", .operands = "", .summary = "make a sandbox that stays", .about = create_about, .run = cmd_create,
	 .options = create_options, .examples = create_examples, .mixed = true},
	{.name = "ls", .operands = "", .summary = "list the sandboxes that stay", .run = cmd_ls, .options = ls_options, .mixed = true},
	{.name = "info", .operands = "ID", .summary = "show everything about a sandbox", .run = cmd_info, .options = info_options,
	 .complete = COMPLETE_SANDBOX, .mixed = true},
	{.name = "exec", .operands = "ID [--] CMD [ARG...]\nID -c LINE [ARG...]\nID --lang LANG [-c CODE | FILE | -] [ARG...]\nID --detach [--name NAME] [--] CMD [ARG...]",
	 .summary = "run a command in a sandbox that stays", .about = exec_about, .run = cmd_exec, .options = exec_options,
	 .examples = exec_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_PROGRAM},
	{.name = "shell", .operands = "ID", .summary = "open a shell in a sandbox", .about = shell_about, .run = cmd_shell,
	 .options = shell_options, .examples = shell_examples, .complete = COMPLETE_SANDBOX},
	{.name = "ps", .operands = "[ID...]", .summary = "list services and running commands", .about = ps_about, .run = cmd_ps,
	 .options = ps_options, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SANDBOX, .mixed = true},
	{.name = "logs", .operands = "ID [SERVICE]", .summary = "show the output of a service", .about = logs_about, .run = cmd_logs,
	 .options = logs_options, .examples = logs_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SERVICE, .mixed = true},
	{.name = "kill", .operands = "ID SERVICE|EXEC", .summary = "send a signal to a service or a running command", .run = cmd_kill,
	 .options = kill_options, .examples = kill_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SERVICE, .mixed = true},
	{.name = "stop", .operands = "ID...", .summary = "end everything that runs in sandboxes; their files stay", .about = stop_about,
	 .run = cmd_stop, .options = stop_options, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SANDBOX, .mixed = true},
	{.name = "pause", .operands = "ID...", .summary = "freeze sandboxes", .about = pause_about, .run = cmd_pause, .options = stop_options,
	 .complete = COMPLETE_SANDBOX, .then = COMPLETE_SANDBOX, .mixed = true},
	{.name = "resume", .operands = "ID...", .summary = "let frozen sandboxes go on", .about = resume_about, .run = cmd_resume,
	 .options = stop_options, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SANDBOX, .mixed = true},
	{.name = "rm", .operands = "ID...", .summary = "remove sandboxes", .run = cmd_rm, .options = rm_options, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SANDBOX, .mixed = true},
	{.name = "cp", .operands = "ID:PATH PATH\nPATH ID:PATH", .summary = "copy files out of a sandbox or into it", .about = cp_about,
	 .run = cmd_cp, .options = cp_options, .examples = cp_examples, .complete = COMPLETE_PLACE, .then = COMPLETE_PLACE, .mixed = true},
	{.name = "snapshot", .operands = "ID", .summary = "name the present state of a sandbox", .run = cmd_snapshot,
	 .options = snapshot_options, .examples = snapshot_examples, .complete = COMPLETE_SANDBOX, .mixed = true},
	{.name = "restore", .operands = "ID SNAPSHOT", .summary = "go back (or forward) to a snapshot", .about = restore_about,
	 .run = cmd_restore, .options = restore_options, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SNAPSHOT, .mixed = true},
	{.name = "fork", .operands = "ID [SNAPSHOT]", .summary = "make new sandboxes from the state of another", .about = fork_about,
	 .run = cmd_fork, .options = fork_options, .examples = fork_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SNAPSHOT, .mixed = true},
	{.name = "history", .operands = "ID", .summary = "draw the history of a sandbox", .about = history_about, .run = cmd_history,
	 .options = history_options, .complete = COMPLETE_SANDBOX, .mixed = true},
	{.name = "diff", .operands = "ID [A] [B] [-- PATH...]", .summary = "show what two states differ in", .about = diff_about,
	 .run = cmd_diff, .options = diff_options, .examples = diff_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_SNAPSHOT, .mixed = true},
	{.name = "tx", .operands = "begin|commit|rollback ID", .summary = "group several commands into one transaction", .about = tx_about,
	 .run = cmd_tx, .options = tx_options, .examples = tx_examples, .complete = COMPLETE_WORDS, .then = COMPLETE_SANDBOX, .words = "begin commit rollback",
	 .mixed = true},
	{.name = "commit", .operands = "ID [PATH...]", .summary = "write a sandbox's changes to the directory it was made from",
	 .about = commit_about, .run = cmd_commit, .options = commit_options, .examples = commit_examples, .complete = COMPLETE_SANDBOX, .then = COMPLETE_FILE,
	 .mixed = true},
	{.name = "discard", .operands = "ID", .summary = "drop a sandbox's changes", .about = discard_about, .run = cmd_discard,
	 .options = discard_options, .complete = COMPLETE_SANDBOX, .mixed = true},
	{.name = "policy", .operands = "init [FILE]\ncheck FILE...\nexplain\nschema",
	 .summary = "write, check and explain files that say what a sandbox may do", .about = policy_about, .run = IN_FULL(cmd_policy),
	 .options = policy_options, .examples = policy_examples, .complete = COMPLETE_WORDS, .then = COMPLETE_FILE, .words = "init check explain schema", .mixed = true},
	{.name = "image", .operands = "ls\nimport SOURCE [NAME]\nbuild NAME\ncommit ID NAME\ninfo NAME\nrm NAME...", .summary = "keep root file systems for sandboxes: import, build, list, remove",
	 .about = image_about, .run = cmd_image, .options = image_options, .examples = image_examples, .complete = COMPLETE_WORDS, .then = COMPLETE_IMAGE,
	 .words = "ls import build commit info rm", .mixed = true},
	{.name = "secret", .operands = "set NAME\nls\nrm NAME...", .summary = "keep secrets that requests get on their way out of a sandbox",
	 .about = secret_about, .run = cmd_secret, .options = secret_options, .examples = secret_examples, .complete = COMPLETE_WORDS, .then = COMPLETE_SECRET,
	 .words = "set ls rm", .mixed = true},
	{.name = "audit", .operands = "", .summary = "show what happened, and check that the log of it is whole", .about = audit_about,
	 .run = IN_FULL(cmd_audit), .options = audit_options, .examples = audit_examples, .mixed = true},
	{.name = "doctor", .operands = "", .summary = "show what this host can enforce, and how to get the rest", .run = cmd_doctor,
	 .about = doctor_about, .options = doctor_options},
	{.name = "selftest", .operands = "", .summary = "attack the sandbox from the inside; every attempt must fail", .run = cmd_selftest,
	 .about = selftest_about, .options = selftest_options},
	{.name = "bench", .operands = "[MEASUREMENT...]\ncompare A.json B.json", .summary = "measure how fast sandboxes are here, and compare", .run = cmd_bench, .about = bench_about,
	 .options = bench_options, .examples = bench_examples, .complete = COMPLETE_WORDS, .then = COMPLETE_FILE, .mixed = true,
	 .words = "cold warm static second python rate burst memory density snapshot compare"},
	{.name = "completion", .operands = "bash|zsh|fish", .summary = "print a completion script for a shell", .run = cmd_completion,
	 .examples = completion_examples, .complete = COMPLETE_WORDS, .words = "bash zsh fish"},
	{.name = "help", .operands = "[COMMAND]", .summary = "show the help of a command", .run = cmd_help, .options = help_options,
	 .complete = COMPLETE_COMMAND},
	{.name = "version", .operands = "", .summary = "print the version", .run = cmd_version},
};
/* clang-format on */
const size_t command_count = ARRAY_SIZE(commands);

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < command_count; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

void report_error(const char *who, const struct cordon_error *err)
{
	struct colours c = colours_for(STDERR_FILENO);

	fprintf(stderr, "%s%s:%s %s\n", c.bad, who, c.off, err->message);
	if (err->hint[0])
		fprintf(stderr, "%shint:%s %s\n", c.bold, c.off, err->hint);
}

static void print_overview(FILE *out)
{
	struct colours c = colours_for(fileno(out));

	fprintf(out, "%scordon%s %s: run untrusted commands where they can do no harm\n\n", c.bold, c.off, cordon_version());
	for (size_t i = 0; i < command_count; i++)
		fprintf(out, "  %scordon %-11s%s %s\n", c.name, commands[i].name, c.off, commands[i].summary);
	fprintf(out, "\n%sTry%s\n", c.bold, c.off);
	fprintf(out, "  cordon run -- id                                   %s# who you are inside%s\n", c.dim, c.off);
	fprintf(out, "  cordon run --lang python -c 'print(6 * 7)'         %s# code instead of a command%s\n", c.dim, c.off);
	fprintf(out, "  cordon run --help                                  %s# every option, with examples%s\n", c.dim, c.off);
}

static int unknown_command(const char *name)
{
	const char *candidates[ARRAY_SIZE(commands)], *near;
	struct cordon_error err = {0};

	for (size_t i = 0; i < command_count; i++)
		candidates[i] = commands[i].name;
	near = nearest_word(name, candidates, command_count);
	if (near)
		err_set(&err, CORDON_ERR_INPUT, "unknown command '%s' (did you mean %s?)", name, near);
	else
		err_set(&err, CORDON_ERR_INPUT, "unknown command '%s'; to run a program of that name: cordon run -- %s", name, name);
	report_error("cordon", &err);
	fputs("see: cordon --help\n", stderr);
	return EXIT_CORDON_FAILED;
}

/* Asks the command itself: it may have more to say than the table knows. */
static int help_for(const struct command *command)
{
	char *args[] = {(char *)(uintptr_t)command->name, (char *)(uintptr_t) "--help", NULL};

#ifndef CORDON_FULL
	if (command->run == cmd_full) { /* would not come back for those after it */
		options_help(command, stdout);
		return EXIT_OK;
	}
#endif
	return command->run(2, args);
}

static int help_for_all(bool markdown)
{
	for (size_t i = 0; i < command_count; i++) {
		if (i && !markdown)
			puts("");
		if (markdown)
			options_markdown(&commands[i], stdout);
		else
			help_for(&commands[i]);
	}
	return EXIT_OK;
}

int cmd_help(int argc, char **argv)
{
	struct help_flags flags = {0};
	struct parsed_options parsed;
	const struct command *about;
	int status;

	options_parse(command_find("help"), argc, argv, &flags, NULL, &parsed);
	if (!options_accept(command_find("help"), &parsed, &status))
		return status;
	if (flags.all || flags.markdown)
		return help_for_all(flags.markdown);
	if (parsed.first == argc) {
		print_overview(stdout);
		return EXIT_OK;
	}
	about = command_find(argv[parsed.first]);
	if (!about)
		return unknown_command(argv[parsed.first]);
	return help_for(about);
}

int cmd_version(int argc, char **argv)
{
	struct parsed_options parsed;
	int status;

	options_parse(command_find("version"), argc, argv, NULL, NULL, &parsed);
	if (!options_accept(command_find("version"), &parsed, &status))
		return status;
	printf("cordon %s\n", cordon_version());
	return EXIT_OK;
}

/* What is opened next must not become our stdin, stdout or stderr, and writing to one that was closed must fail. */
static void hold_standard_descriptors(void)
{
	int fd = -1;

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fcntl(i, F_GETFD) < 0 && errno == EBADF)
			fd = open("/dev/null", O_RDONLY); /* takes the lowest free number, which is i */
	(void)fd;
}

static int dispatch(int argc, char **argv)
{
	static const struct {
		const char *option, *command;
	} spelled[] = {{"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *command;
	struct cordon_error err = {0};

	if (!name) {
		print_overview(stdout);
		return EXIT_OK;
	}
	for (size_t i = 0; i < ARRAY_SIZE(spelled); i++)
		if (strcmp(name, spelled[i].option) == 0)
			name = argv[1] = (char *)(uintptr_t)spelled[i].command;
	if (strcmp(name, "keeper") == 0)
		return keeper_main(argc - 1, argv + 1); /* started by exec, not by people: in no table */
	command = command_find(name);
	if (!command && name[0] == '-') {
		err_set(&err, CORDON_ERR_INPUT, "unknown option '%s'; options come after a command: cordon run %s", name, name);
		report_error("cordon", &err);
		fputs("see: cordon --help\n", stderr);
		return EXIT_CORDON_FAILED;
	}
	if (!command)
		return unknown_command(name);
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	hold_standard_descriptors();
	status = dispatch(argc, argv);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "cordon: cannot write to standard output: %s\n", strerror(errno));
		return EXIT_CORDON_FAILED;
	}
	return status;
}
