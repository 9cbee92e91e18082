/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon shell`: a shell in a sandbox that stays, beside whatever else runs there. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/exec.h"

#define OPTION(member) offsetof(struct exec_options, member)

/* clang-format off */
const struct option_def shell_options[] = {
	{.name = "cwd", .argument = "DIR", .offset = OPTION(run.cwd), .help = "working directory inside, also relative to /app (default /app)"},
	{.name = "env", .argument = "NAME[=VALUE]", .offset = OPTION(run.env), .repeat = true, .complete = COMPLETE_VARIABLE,
	 .help = "set a variable, or take it over from here; may be repeated"},
	{.name = "timeout", .argument = "TIME", .offset = OPTION(timeout), .help = "end it after this long (default: never)"},
	{.name = "quiet", .offset = OPTION(run.quiet), .help = "no remarks, only errors"},
	{0},
};
/* clang-format on */

const char shell_about[] =
	"Your own shell if the sandbox has it, else bash or sh. It runs beside other commands (as exec --parallel does), so\n"
	"that it holds nobody up: what you change belongs to no transaction, and is kept. Everything you start in it ends with\n"
	"it.";

const struct example shell_examples[] = {
	{"cordon shell box", "a shell in the sandbox called box"},
	{"echo 'ls -l' | cordon shell box", "without a terminal it reads commands from its input"},
	{0},
};

/* The choice is made inside, where it is known what there is. */
static const char choose_shell[] =
	"for shell in \"$1\" bash sh; do\n"
	"	command -v \"$shell\" >/dev/null 2>&1 && SHELL=$(command -v \"$shell\") && export SHELL && exec \"$shell\"\n"
	"done\n"
	"echo 'cordon: there is no shell in this sandbox' >&2\n"
	"exit 127";

static int use_shell(struct exec *x, struct cordon_error *err)
{
	const char *shell = getenv("SHELL"), *slash = shell ? strrchr(shell, '/') : NULL;
	const char *const words[] = {"/bin/sh", "-c", choose_shell, "sh", slash ? slash + 1 : "sh"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlist_add(&x->program.words, words[i], err) < 0)
			return -1;
	x->program.argv = (const char *const *)x->program.words.items;
	x->o.parallel = true;
	x->o.run.interactive = true;
	x->o.run.tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	x->timeout_ms = -1; /* somebody sits in front of it */
	return 0;
}

int cmd_shell(int argc, char **argv)
{
	struct exec x;
	struct cordon_error err = {0};
	const char *what;
	int first, status;

	exec_begin(&x, "shell", "cordon shell");
	if (exec_parse(&x, argc, argv, &what, &first, &status)) {
		if (first < argc) {
			err_set(&err, CORDON_ERR_INPUT, "'%s' is one word too many", argv[first]);
			err_hint(&err, "to run a command: cordon exec %s -- %s", what, argv[first]);
			status = -1;
		} else {
			status = use_shell(&x, &err);
		}
		if (status == 0)
			status = exec_in_sandbox(&x, what, &err);
		if (status < 0)
			status = run_fail(&x.report, &err);
	}
	exec_clear(&x);
	return status;
}
