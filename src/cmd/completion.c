/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts for bash, zsh and fish, written from the tables of commands and options. What the three have in common: after the
 * first operand of `run` the shell completes the inner command, and cordon's own options are not offered any more.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cmd/cmd.h"

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
		fputs("_cordon_program \"$first\"", stdout);
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
	printf("|'\n\t\t_cordon_first\n\t\t((%sended)) || case $prev in\n", command->mixed ? "" : "first || ");
	for (const struct option_def *o = command->options; o && o->name; o++)
		if (o->argument) {
			fputs("\t\t", stdout);
			bash_pattern(o);
			fputs(") ", stdout);
			bash_action(o->complete, o->words);
			fputs("; return ;;\n", stdout);
		}
	printf("\t\tesac\n\t\tif ((%s!ended)) && [[ $cur == -* ]]; then\n\t\t\t_cordon_words \"$options\"\n\t\telse\n\t\t\t",
	       command->mixed ? "" : "!first && ");
	bash_action(command->complete, command->words);
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
	      "# Sets `first` to the index of the first operand before the cursor, 0 if there is none. bash splits --lang=x at the '='.\n"
	      "_cordon_first() {\n"
	      "\tlocal i\n"
	      "\tfirst=0\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in\n"
	      "\t\t--) ((i + 1 < COMP_CWORD)) && first=$((i + 1)); ended=1; return ;;\n"
	      "\t\t-*) [[ $valued == *\"|${COMP_WORDS[i]}|\"* ]] && { i=$((i + 1)); [[ ${COMP_WORDS[i]} == '=' ]] && i=$((i + 1)); } ;;\n"
	      "\t\t*) first=$i; return ;;\n"
	      "\t\tesac\n"
	      "\tdone\n"
	      "}\n"
	      "_cordon() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} first=0 ended=0 options valued\n"
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

static void zsh_command(const struct command *command)
{
	printf("\t\t%s)\n\t\t\t_arguments -s -S%s '(-)'{-h,--help}'[show help]'", command->name, command->mixed ? "" : " -A '-*'");
	for (const struct option_def *o = command->options; o && o->name; o++) {
		char letter[2] = {o->letter, 0};

		zsh_spec(o, "--", o->name);
		if (o->letter)
			zsh_spec(o, "-", letter);
	}
	if (command->complete == COMPLETE_PROGRAM) {
		fputs(" \\\n\t\t\t'(-)1:command:{_command_names -e || _files}' '*::argument:_normal'", stdout);
	} else if (command->complete != COMPLETE_NONE) {
		fputs(" \\\n\t\t\t'1: :", stdout);
		zsh_action(command->complete, command->words);
		putchar('\'');
	}
	fputs(" ;;\n", stdout);
}

static void print_zsh(void)
{
	fputs("#compdef cordon\n"
	      "# zsh completion for cordon; written by `cordon completion zsh`\n"
	      "_cordon() {\n"
	      "\tlocal context state line curcontext=\"$curcontext\"\n"
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
	case COMPLETE_VARIABLE:
		fputs(" -x -a '(set -xn)'", stdout);
		break;
	case COMPLETE_NONE:
		fputs(" -x", stdout);
		break;
	}
}

static void fish_command(const struct command *command)
{
	const char *when = command->mixed ? "command" : "options"; /* anywhere, or in front of the first operand */

	printf("complete -c cordon -n '__cordon_%s %s' -s h -l help -d 'show help'\n", when, command->name);
	for (const struct option_def *o = command->options; o && o->name; o++) {
		printf("complete -c cordon -n '__cordon_%s %s' -l %s", when, command->name, o->name);
		if (o->letter)
			printf(" -s %c", o->letter);
		if (o->argument)
			fish_action(o->complete, o->words);
		fputs(" -d '", stdout);
		print_escaped(o->help, "\\");
		fputs("'\n", stdout);
	}
	if (command->complete != COMPLETE_NONE) {
		printf("complete -c cordon -n '__cordon_command %s'", command->name);
		fish_action(command->complete, command->words);
		putchar('\n');
	}
}

static void print_fish(void)
{
	fputs("# fish completion for cordon; written by `cordon completion fish`\n"
	      "function __cordon_command\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -ge 2; and test $words[2] = $argv[1]\n"
	      "end\n"
	      "# The operands before the cursor, the inner command first; a \"--\" in front of them is kept.\n"
	      "function __cordon_operands\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l i 3\n"
	      "\twhile test $i -le (count $words)\n"
	      "\t\tswitch $words[$i]\n"
	      "\t\t\tcase --\n"
	      "\t\t\t\techo --\n"
	      "\t\t\t\tstring join \\n -- $words[(math $i + 1)..]\n"
	      "\t\t\t\treturn\n"
	      "\t\t\tcase",
	      stdout);
	for (size_t i = 0; i < command_count; i++)
		for (const struct option_def *o = commands[i].options; o && o->name; o++)
			if (o->argument) {
				printf(" --%s", o->name);
				if (o->letter)
					printf(" -%c", o->letter);
			}
	fputs("\n\t\t\t\tset i (math $i + 1)\n"
	      "\t\t\tcase '-*'\n"
	      "\t\t\tcase '*'\n"
	      "\t\t\t\tstring join \\n -- $words[$i..]\n"
	      "\t\t\t\treturn\n"
	      "\t\tend\n"
	      "\t\tset i (math $i + 1)\n"
	      "\tend\n"
	      "end\n"
	      "function __cordon_options\n"
	      "\t__cordon_command $argv[1]; and test (count (__cordon_operands)) -eq 0\n"
	      "end\n"
	      "# The inner command, completed as if it stood alone.\n"
	      "function __cordon_program\n"
	      "\tset -l words (__cordon_operands)\n"
	      "\ttest \"$words[1]\" = --; and set -e words[1]\n"
	      "\tset -l token (commandline -ct)\n"
	      "\tif test (count $words) -eq 0\n"
	      "\t\tstring match -q -- '-*' $token; and return\n"
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
