/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts for bash, zsh and fish, written from the tables of commands and options. What the three have in common: after the
 * first operand of `run` (the second one of `exec`) the shell completes the inner command, and cordon's own options are not offered any
 * more. Which sandboxes there are is asked of cordon itself, see completion_list.c.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/completion.h"

/* `text` with a backslash before each character of `special`; a single quote ends the shell's string, adds one and begins it again. */
static void print_escaped(const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", stdout);
			continue;
		}
		if (strchr(special, *text))
			putchar('\\');
		putchar(*text);
	}
}

static void print_commands(const char *separator)
{
	for (size_t i = 0; i < command_count; i++)
		printf("%s%s", i ? separator : "", commands[i].name);
}

/* With so many operands the options are over; 0: they never are. A sandbox comes before what is run in it. */
static int last_operand(const struct command *command)
{
	return command->mixed ? 0 : command->complete == COMPLETE_SANDBOX ? 2 : 1;
}

/* ---- bash -------------------------------------------------------------------------------------------------------------------- */

/* "--lang" and, where there is one, "|-l". */
static void bash_pattern(const struct option_def *o)
{
	printf("--%s", o->name);
	if (o->letter)
		printf("|-%c", o->letter);
}

static void bash_action(enum complete complete, const char *words)
{
	switch (complete) {
	case COMPLETE_FILE:
		fputs("_cordon_files -f", stdout);
		break;
	case COMPLETE_DIR:
		fputs("_cordon_files -d", stdout);
		break;
	case COMPLETE_WORDS:
		printf("_cordon_words '%s'", words);
		break;
	case COMPLETE_COMMAND:
		fputs("_cordon_words '", stdout);
		print_commands(" ");
		putchar('\'');
		break;
	case COMPLETE_PROGRAM:
		fputs("_cordon_program \"$inner\"", stdout);
		break;
	case COMPLETE_SANDBOX:
		fputs("_cordon_list sandboxes", stdout);
		break;
	case COMPLETE_SNAPSHOT:
		fputs("if ((ended)); then _cordon_files -f; else _cordon_list snapshots \"${operands[0]}\"; fi", stdout);
		break;
	case COMPLETE_SERVICE:
		fputs("_cordon_list services \"${operands[0]}\"", stdout);
		break;
	case COMPLETE_SECRET:
		fputs("_cordon_list secrets", stdout);
		break;
	case COMPLETE_IMAGE:
		fputs("if [[ ${operands[0]} == import ]]; then _cordon_files -f; else _cordon_list images \"${operands[0]}\"; fi", stdout);
		break;
	case COMPLETE_PLACE:
		fputs("_cordon_place", stdout);
		break;
	case COMPLETE_VARIABLE:
		fputs("mapfile -t COMPREPLY < <(compgen -e -- \"$cur\")", stdout);
		break;
	case COMPLETE_NONE:
		putchar(':');
		break;
	}
}

static void bash_command(const struct command *command)
{
	printf("\t%s)\n\t\toptions='--help -h", command->name);
	for (const struct option_def *o = command->options; o && o->name; o++)
		printf(" --%s", o->name);
	fputs("'\n\t\tvalued='", stdout);
	for (const struct option_def *o = command->options; o && o->name; o++)
		if (o->argument) {
			printf("|--%s", o->name);
			if (o->letter)
				printf("|-%c", o->letter);
		}
	printf("|'\n\t\t_cordon_operands %d\n\t\t((inner || ended)) || case $prev in\n", last_operand(command));
	for (const struct option_def *o = command->options; o && o->name; o++)
		if (o->argument) {
			fputs("\t\t", stdout);
			bash_pattern(o);
			fputs(") ", stdout);
			bash_action(o->complete, o->words);
			fputs("; return ;;\n", stdout);
		}
	fputs("\t\tesac\n\t\tif ((!inner && !ended)) && [[ $cur == -* ]]; then\n\t\t\t_cordon_words \"$options\"\n"
	      "\t\telif ((${#operands[@]} == 0)); then\n\t\t\t",
	      stdout);
	bash_action(command->complete, command->words);
	fputs("\n\t\telse\n\t\t\t", stdout);
	bash_action(command->then, command->words);
	fputs("\n\t\tfi ;;\n", stdout);
}

static void print_bash(void)
{
	fputs("# bash completion for cordon; written by `cordon completion bash`\n"
	      "_cordon_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
	      "_cordon_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\"); }\n"
	      "# The program to be run, then whatever that program completes.\n"
	      "_cordon_program() {\n"
	      "\tif (($1 == 0)); then\n"
	      "\t\tcompopt -o filenames; mapfile -t COMPREPLY < <(compgen -c -- \"$cur\"; compgen -f -- \"$cur\")\n"
	      "\telif declare -F _command_offset >/dev/null; then\n"
	      "\t\t_command_offset \"$1\"\n"
	      "\telse\n"
	      "\t\t_cordon_files -f\n"
	      "\tfi\n"
	      "}\n"
	      "# What there is to name, from cordon itself: the one that is being called.\n"
	      "_cordon_list() {\n"
	      "\tlocal word rest\n"
	      "\twhile IFS=$'\\t' read -r word rest; do\n"
	      "\t\t[[ $word == \"$cur\"* ]] && COMPREPLY+=(\"$word\")\n"
	      "\tdone < <({ command \"${COMP_WORDS[0]}\" completion --list \"$@\" || command cordon completion --list \"$@\"; } 2>/dev/null)\n"
	      "}\n"
	      "# SANDBOX:, or a file.\n"
	      "_cordon_place() {\n"
	      "\t[[ $cur == ':' || $prev == ':' ]] && return\n"
	      "\t_cordon_list sandboxes\n"
	      "\tCOMPREPLY=(\"${COMPREPLY[@]/%/:}\")\n"
	      "\t((${#COMPREPLY[@]})) && compopt -o nospace\n"
	      "\tlocal found=(\"${COMPREPLY[@]}\")\n"
	      "\t_cordon_files -f\n"
	      "\tCOMPREPLY+=(\"${found[@]}\")\n"
	      "}\n"
	      "# Sets `operands` to those before the cursor, and `inner` to the index of the last of so many, after which nothing is ours any\n"
	      "# more; 0 if there is none. bash splits --lang=x at the '='.\n"
	      "_cordon_operands() {\n"
	      "\tlocal i\n"
	      "\tfor ((i = 2; i < COMP_CWORD && !inner; i++)); do\n"
	      "\t\tif ((!ended)); then\n"
	      "\t\t\tcase ${COMP_WORDS[i]} in\n"
	      "\t\t\t--) ended=1; continue ;;\n"
	      "\t\t\t-*) [[ $valued == *\"|${COMP_WORDS[i]}|\"* ]] && { i=$((i + 1)); [[ ${COMP_WORDS[i]} == '=' ]] && i=$((i + 1)); }; continue ;;\n"
	      "\t\t\tesac\n"
	      "\t\tfi\n"
	      "\t\toperands+=(\"${COMP_WORDS[i]}\")\n"
	      "\t\t((${#operands[@]} == $1)) && inner=$i\n"
	      "\tdone\n"
	      "}\n"
	      "_cordon() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} inner=0 ended=0 options valued operands=()\n"
	      "\tCOMPREPLY=()\n"
	      "\t[[ $cur == '=' ]] && cur=\n"
	      "\t[[ $prev == '=' ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	      "\tif ((COMP_CWORD == 1)); then _cordon_words '",
	      stdout);
	print_commands(" ");
	fputs(" --help --version'; return; fi\n\tcase ${COMP_WORDS[1]} in\n", stdout);
	for (size_t i = 0; i < command_count; i++)
		bash_command(&commands[i]);
	fputs("\tesac\n}\ncomplete -F _cordon cordon\n", stdout);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------------------- */

static void zsh_action(enum complete complete, const char *words)
{
	switch (complete) {
	case COMPLETE_FILE:
		fputs("_files", stdout);
		break;
	case COMPLETE_DIR:
		fputs("_files -/", stdout);
		break;
	case COMPLETE_WORDS:
		printf("(%s)", words);
		break;
	case COMPLETE_COMMAND:
		putchar('(');
		print_commands(" ");
		putchar(')');
		break;
	case COMPLETE_VARIABLE:
		fputs("_parameters -g \"*export*\"", stdout);
		break;
	case COMPLETE_SANDBOX:
		fputs(" _cordon_list sandboxes", stdout);
		break;
	case COMPLETE_SNAPSHOT:
		fputs(" _cordon_list snapshots $line[1]", stdout);
		break;
	case COMPLETE_SERVICE:
		fputs(" _cordon_list services $line[1]", stdout);
		break;
	case COMPLETE_SECRET:
		fputs(" _cordon_list secrets", stdout);
		break;
	case COMPLETE_IMAGE:
		fputs(" _cordon_list images $line[1]", stdout);
		break;
	case COMPLETE_PLACE:
		fputs(" _cordon_place", stdout);
		break;
	case COMPLETE_PROGRAM: /* handled by the command */
	case COMPLETE_NONE:
		putchar(' ');
		break;
	}
}

static void zsh_spec(const struct option_def *o, const char *dashes, const char *name)
{
	printf(" \\\n\t\t\t'%s%s%s%s[", o->repeat ? "*" : "", dashes, name, !o->argument ? "" : dashes[1] ? "=" : "+");
	print_escaped(o->help, "[]\\");
	putchar(']');
	if (o->argument) {
		putchar(':');
		print_escaped(o->argument, ":\\");
		putchar(':');
		zsh_action(o->complete, o->words);
	}
	putchar('\'');
}

/* The first operand, or all that follow it. */
static void zsh_operand(const struct command *command, int number, enum complete complete)
{
	if (complete == COMPLETE_NONE || (number == 2 && command->complete == COMPLETE_PROGRAM))
		return;
	if (complete == COMPLETE_PROGRAM) {
		printf(" \\\n\t\t\t'(-)%d:command:{_command_names -e || _files}' '*::argument:_normal'", number);
		return;
	}
	printf(" \\\n\t\t\t'%s: :", number == 1 ? "1" : "*");
	zsh_action(complete, command->words);
	putchar('\'');
}

static void zsh_command(const struct command *command)
{
	printf("\t\t%s)\n", command->name);
	if (last_operand(command) == 2) /* behind an operand, _arguments takes a "--" for one */
		fputs("\t\t\tif (( ${words[(i)--]} < CURRENT )); then words[(i)--]=(); (( CURRENT-- )); fi\n", stdout);
	printf("\t\t\t_arguments -s -S%s '(-)'{-h,--help}'[show help]'", last_operand(command) == 1 ? " -A '-*'" : "");
	for (const struct option_def *o = command->options; o && o->name; o++) {
		char letter[2] = {o->letter, 0};

		zsh_spec(o, "--", o->name);
		if (o->letter)
			zsh_spec(o, "-", letter);
	}
	zsh_operand(command, 1, command->complete);
	zsh_operand(command, 2, command->then);
	fputs(" ;;\n", stdout);
}

static void print_zsh(void)
{
	fputs("#compdef cordon\n"
	      "# zsh completion for cordon; written by `cordon completion zsh`\n"
	      "# What there is to name, from cordon itself: the one that is being called.\n"
	      "_cordon_list() {\n"
	      "\tlocal kind=$1 word about\n"
	      "\tlocal -a found\n"
	      "\tif (( ${words[(I)--]} && ${words[(I)--]} < CURRENT )) && [[ $kind == snapshots ]]; then _files; return; fi\n"
	      "\tif [[ $kind == images && $2 == import ]]; then _files; return; fi\n"
	      "\twhile IFS=$'\\t' read -r word about; do\n"
	      "\t\tfound+=(\"$word:$about\")\n"
	      "\tdone < <({ command \"${(Q)cordon}\" completion --list $1 $2 || command cordon completion --list $1 $2 } 2>/dev/null)\n"
	      "\t_describe -t $kind $kind found \"${@[3,-1]}\"\n"
	      "}\n"
	      "# SANDBOX:, or a file.\n"
	      "_cordon_place() {\n"
	      "\tcompset -P '*:' && return 1\n"
	      "\t_alternative 'sandboxes:sandbox:_cordon_places' 'files:file:_files'\n"
	      "}\n"
	      "_cordon_places() { _cordon_list sandboxes '' -S : }\n"
	      "_cordon() {\n"
	      "\tlocal context state line curcontext=\"$curcontext\" cordon=$words[1]\n"
	      "\ttypeset -A opt_args\n"
	      "\t_arguments -C '(-)'{-h,--help}'[show help]' '(-)--version[print the version]' \\\n"
	      "\t\t'1:command:->command' '*::argument:->argument'\n"
	      "\tcase $state in\n"
	      "\tcommand)\n"
	      "\t\tlocal -a names=(",
	      stdout);
	for (size_t i = 0; i < command_count; i++) {
		printf("\n\t\t\t'%s:", commands[i].name);
		print_escaped(commands[i].summary, "\\");
		putchar('\'');
	}
	fputs(")\n\t\t_describe command names ;;\n\targument)\n\t\tcase $words[1] in\n", stdout);
	for (size_t i = 0; i < command_count; i++)
		zsh_command(&commands[i]);
	fputs("\t\tesac ;;\n\tesac\n}\n"
	      "# Autoloaded from fpath the file is the function; sourced it has to be registered.\n"
	      "if [[ $funcstack[1] == _cordon ]]; then _cordon \"$@\"; else compdef _cordon cordon; fi\n",
	      stdout);
}

/* ---- fish -------------------------------------------------------------------------------------------------------------------- */

static void fish_action(enum complete complete, const char *words)
{
	switch (complete) {
	case COMPLETE_FILE:
		fputs(" -r -F", stdout);
		break;
	case COMPLETE_DIR:
		fputs(" -x -a '(__fish_complete_directories)'", stdout);
		break;
	case COMPLETE_WORDS:
		printf(" -x -a '%s'", words);
		break;
	case COMPLETE_COMMAND:
		fputs(" -x -a '", stdout);
		print_commands(" ");
		putchar('\'');
		break;
	case COMPLETE_PROGRAM:
		fputs(" -x -a '(__cordon_program)'", stdout);
		break;
	case COMPLETE_SANDBOX:
		fputs(" -x -a '(__cordon_list sandboxes)'", stdout);
		break;
	case COMPLETE_SNAPSHOT:
		fputs(" -x -a '(__cordon_list snapshots)'", stdout);
		break;
	case COMPLETE_SERVICE:
		fputs(" -x -a '(__cordon_list services)'", stdout);
		break;
	case COMPLETE_SECRET:
		fputs(" -x -a '(__cordon_list secrets)'", stdout);
		break;
	case COMPLETE_IMAGE:
		fputs(" -x -a '(__cordon_list images)'", stdout);
		break;
	case COMPLETE_PLACE:
		fputs(" -F -a '(__cordon_list sandboxes | string replace \\t :\\t)'", stdout);
		break;
	case COMPLETE_VARIABLE:
		fputs(" -x -a '(set -xn)'", stdout);
		break;
	case COMPLETE_NONE:
		fputs(" -x", stdout);
		break;
	}
}

static void fish_operand(const struct command *command, const char *which, enum complete complete)
{
	if (complete == COMPLETE_NONE)
		return;
	printf("complete -c cordon -n '__cordon_operand %s %s'", command->name, which);
	fish_action(complete, command->words);
	putchar('\n');
}

static void fish_command(const struct command *command)
{
	printf("complete -c cordon -n '__cordon_options %s' -s h -l help -d 'show help'\n", command->name);
	for (const struct option_def *o = command->options; o && o->name; o++) {
		printf("complete -c cordon -n '__cordon_options %s' -l %s", command->name, o->name);
		if (o->letter)
			printf(" -s %c", o->letter);
		if (o->argument)
			fish_action(o->complete, o->words);
		fputs(" -d '", stdout);
		print_escaped(o->help, "\\");
		fputs("'\n", stdout);
	}
	fish_operand(command, "first", command->complete);
	fish_operand(command, "more", command->then);
}

/* What the functions have to know of each command. */
static void fish_tables(void)
{
	fputs("function __cordon_valued\n\tswitch $argv[1]\n", stdout);
	for (size_t i = 0; i < command_count; i++) {
		printf("\t\tcase %s\n\t\t\tstring join \\n --", commands[i].name);
		for (const struct option_def *o = commands[i].options; o && o->name; o++)
			if (o->argument) {
				printf(" --%s", o->name);
				if (o->letter)
					printf(" -%c", o->letter);
			}
		putchar('\n');
	}
	fputs("\tend\nend\n# With so many operands the options are over.\nfunction __cordon_last\n\tswitch $argv[1]\n", stdout);
	for (size_t i = 0; i < command_count; i++)
		if (last_operand(&commands[i]))
			printf("\t\tcase %s\n\t\t\techo %d\n", commands[i].name, last_operand(&commands[i]));
	fputs("\t\tcase '*'\n\t\t\techo 0\n\tend\nend\n", stdout);
}

static void print_fish(void)
{
	fputs("# fish completion for cordon; written by `cordon completion fish`\n"
	      "function __cordon_command\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -ge 2; and test $words[2] = $argv[1]\n"
	      "end\n",
	      stdout);
	fish_tables();
	fputs("# Whether a \"--\" was seen (1 or 0), then the operands before the cursor.\n"
	      "function __cordon_operands\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l valued (__cordon_valued $words[2])\n"
	      "\tset -l last (__cordon_last $words[2])\n"
	      "\tset -l ended 0\n"
	      "\tset -l found\n"
	      "\tset -l i 3\n"
	      "\twhile test $i -le (count $words)\n"
	      "\t\tif test $ended = 1; or test $last -gt 0 -a (count $found) -ge $last\n"
	      "\t\t\tset -a found $words[$i]\n"
	      "\t\telse if test \"x$words[$i]\" = x--\n"
	      "\t\t\tset ended 1\n"
	      "\t\telse if contains -- $words[$i] $valued\n"
	      "\t\t\tset i (math $i + 1)\n"
	      "\t\telse if not string match -q -- '-?*' $words[$i]\n"
	      "\t\t\tset -a found $words[$i]\n"
	      "\t\tend\n"
	      "\t\tset i (math $i + 1)\n"
	      "\tend\n"
	      "\tstring join \\n -- $ended $found\n"
	      "end\n"
	      "function __cordon_options\n"
	      "\t__cordon_command $argv[1]; or return\n"
	      "\tset -l seen (__cordon_operands)\n"
	      "\tset -l last (__cordon_last $argv[1])\n"
	      "\ttest $seen[1] = 0; and test $last -eq 0 -o (count $seen) -le $last\n"
	      "end\n"
	      "function __cordon_operand\n"
	      "\t__cordon_command $argv[1]; or return\n"
	      "\tset -l seen (__cordon_operands)\n"
	      "\tif test $argv[2] = first\n"
	      "\t\ttest (count $seen) -eq 1\n"
	      "\telse\n"
	      "\t\ttest (count $seen) -gt 1\n"
	      "\tend\n"
	      "end\n"
	      "# What there is to name, from cordon itself: the one that is being called.\n"
	      "function __cordon_list\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l seen (__cordon_operands)\n"
	      "\tif test $argv[1] = snapshots -a $seen[1] = 1; or test $argv[1] = images -a \"$seen[2]\" = import\n"
	      "\t\t__fish_complete_path (commandline -ct)\n"
	      "\t\treturn\n"
	      "\tend\n"
	      "\tcommand $words[1] completion --list $argv[1] \"$seen[2]\" 2>/dev/null\n"
	      "\tor command cordon completion --list $argv[1] \"$seen[2]\" 2>/dev/null\n"
	      "end\n"
	      "# The inner command, completed as if it stood alone.\n"
	      "function __cordon_program\n"
	      "\tset -l words (__cordon_operands)\n"
	      "\tset -l ended $words[1]\n"
	      "\tset -l skip (__cordon_last (commandline -opc)[2])\n"
	      "\tset -l token (commandline -ct)\n"
	      "\twhile test $skip -gt 0\n"
	      "\t\tset -e words[1]\n"
	      "\t\tset skip (math $skip - 1)\n"
	      "\tend\n"
	      "\tif test (count $words) -eq 0\n"
	      "\t\ttest $ended = 0; and string match -q -- '-*' $token; and return\n"
	      "\t\t__fish_complete_path $token\n"
	      "\tend\n"
	      "\tset -l line (string join ' ' -- $words $token)\n"
	      "\tcomplete --do-complete=$line\n"
	      "end\n"
	      "complete -c cordon -f\n",
	      stdout);
	for (size_t i = 0; i < command_count; i++) {
		printf("complete -c cordon -n __fish_use_subcommand -a %s -d '", commands[i].name);
		print_escaped(commands[i].summary, "\\");
		fputs("'\n", stdout);
	}
	for (size_t i = 0; i < command_count; i++)
		fish_command(&commands[i]);
}

static const struct {
	const char *name;
	void (*print)(void);
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

int cmd_completion(int argc, char **argv)
{
	const struct command *command = command_find("completion");
	struct parsed_options parsed;
	int status;

	if (argc > 1 && strcmp(argv[1], "--list") == 0)
		return completion_list(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
	options_parse(command, argc, argv, NULL, NULL, &parsed);
	if (!options_accept(command, &parsed, &status))
		return status;
	for (size_t i = 0; parsed.first < argc && i < ARRAY_SIZE(shells); i++)
		if (strcmp(argv[parsed.first], shells[i].name) == 0) {
			shells[i].print();
			return EXIT_OK;
		}
	parsed.usage = true;
	if (parsed.first < argc)
		err_set(&parsed.err, CORDON_ERR_INPUT, "no completion for '%s'; give bash, zsh or fish", argv[parsed.first]);
	else
		err_set(&parsed.err, CORDON_ERR_INPUT, "for which shell? give bash, zsh or fish");
	options_accept(command, &parsed, &status);
	return status;
}
