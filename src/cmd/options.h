/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options as tables: one row per option gives the parser, the help text, the man page and the shell completions, so that
 * none of them can go stale.
 */
#ifndef CORDON_CMD_OPTIONS_H
#define CORDON_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct command;
struct strlist;

/* What the shell offers after an option (or as an operand). */
enum complete {
	COMPLETE_NONE,
	COMPLETE_FILE,
	COMPLETE_DIR,
	COMPLETE_WORDS,    /* the row's `words` */
	COMPLETE_PROGRAM,  /* a program, then files: the operands of `run` */
	COMPLETE_COMMAND,  /* the name of a subcommand */
	COMPLETE_VARIABLE, /* the name of an environment variable */
	COMPLETE_SANDBOX,
	COMPLETE_SNAPSHOT, /* of the sandbox that is the first operand */
	COMPLETE_SERVICE,  /* the same */
	COMPLETE_PLACE,    /* SANDBOX:PATH, or a file */
	COMPLETE_SECRET,
	COMPLETE_IMAGE, /* of `cordon image`: a file where it imports one */
};

/*
 * Where a value goes: with a policy_key to cordon_policy_set() (a flag sets "true"); else to `offset` in the command's own options:
 * a bool for a flag, a const char * for a value (the last one wins), a struct strlist where `repeat` is set.
 */
struct option_def {
	const char *name;       /* without the dashes; NULL ends a table */
	char letter;            /* 0: no short form */
	const char *argument;   /* "SIZE"; NULL: a flag */
	const char *policy_key; /* "limits.memory" or NULL */
	size_t offset;
	bool repeat;
	const char *help;
	enum complete complete;
	const char *words;    /* "python javascript" */
	const char *group;    /* starts a new heading in the help */
	const char *fallback; /* the default that the help shows; NULL: that of the policy key; "": none */
};

struct parsed_options {
	int first;               /* index of the first operand in argv; argc if there is none */
	int dashes;              /* index of the first operand that came after "--"; argc if there is none */
	bool help;               /* --help was given: nothing else counts */
	bool usage;              /* the error is one of spelling: worth a pointer to --help */
	struct cordon_error err; /* code CORDON_OK: none */
};

/*
 * Reads the options in front of the first operand (or "--"), so that options of a command to be run are never eaten. Commands that run
 * nothing (`mixed`) may have them behind operands, too; argv is then put in order, options first. After an error it
 * reads on and keeps the first one: flags that say how to report it (--json) count wherever they stand. Nothing is printed. `policy` may
 * be NULL if the table has no policy keys. Returns 0, or -1 with out->err set.
 */
int options_parse(const struct command *command, int argc, char **argv, void *target, struct cordon_policy *policy,
                  struct parsed_options *out);
/* The same; what was set in the policy is also added to `settings`, as "limits.memory=1G", for the record of a sandbox. */
int options_parse_settings(const struct command *command, int argc, char **argv, void *target, struct cordon_policy *policy,
                           struct strlist *settings, struct parsed_options *out);

/*
 * For commands with nothing special to do: prints the help (status 0) or the error (125) and returns false, or returns true to go on.
 */
bool options_accept(const struct command *command, const struct parsed_options *parsed, int *status);

/* cordon_policy_set() whose errors name the option (`shown`) that the user wrote instead of the policy key behind it. */
int options_set_policy(struct cordon_policy *policy, const char *key, const char *shown, const char *value, struct cordon_error *err);

/* "--memory SIZE", "-t, --tty": as help and man page show it. */
void options_label(const struct option_def *o, char *buf, size_t size);
/* The default of the policy key behind an option, in the form a user would write it; NULL if there is none to show. */
const char *options_fallback(const struct option_def *o);

/* Escape sequences, or empty strings where the stream is no terminal or NO_COLOR is set. */
struct colours {
	const char *bold, *name, *good, *bad, *dim, *off;
};
struct colours colours_for(int fd);

/* The long help of a command; colours if `out` is a terminal. */
void options_help(const struct command *command, FILE *out);
/* The same as Markdown: the source of the man page's options. */
void options_markdown(const struct command *command, FILE *out);

/* The options of every command that makes a sandbox. */
/* clang-format off */
#define NETWORK_ROWS \
	{.group = "Network", .name = "allow-host", .argument = "HOST[:PORT]", .policy_key = "network.outbound", \
	 .help = "let it reach a name, *.SUFFIX or ADDRESS/BITS by TLS or HTTP, on ports 80 and 443 or PORT,...; may be repeated"}, \
	{.name = "publish", .argument = "[HOSTPORT:]PORT", .policy_key = "network.inbound", \
	 .help = "let this host reach a port inside by 127.0.0.1:HOSTPORT and [::1]:HOSTPORT; 0: any free one; may be repeated"}
/* clang-format on */

#endif
