/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code instead of a command: which interpreter runs it, under which name it finds it, and what it needs around it. The code becomes a read-only
 * file inside (not an argument: tracebacks then have line numbers, and there is no limit but CODE_MAX).
 */
#ifndef CORDON_LIB_LANGUAGE_H
#define CORDON_LIB_LANGUAGE_H

#include <stdbool.h>

#include "cordon.h"
#include "policy/policy.h"

#define CODE_DIR "/run/code"       /* OP_INBOX of sandbox/spec.h */
#define CODE_MAX ((size_t)8 << 20) /* it travels in one message to the launcher, which has a cap of its own */
#define CODE_FILES_MAX 3

struct language {
	const char *name;
	const char *aliases[3];
	const char *extension;
	const char *command[3]; /* what the path of the code is put behind */
	const char *env;        /* lets code find the modules of the workspace; a variable of that name that is set otherwise wins */
	const char *package;    /* Debian's, for the message when it is missing */
	bool shell;             /* a line can be passed on as it is, with -c */
	bool driver;            /* runs through src/interpreters/typescript */
};

extern const char language_words[]; /* "python javascript …", for completion and messages */

/* By name or alias; NULL: there is none. */
const struct language *language_find(const char *name);
int language_unknown(const char *name, struct cordon_error *err);

/* What is started. */
struct language_program {
	const struct language *language; /* NULL: nothing */
	struct strlist argv;
	struct cordon_file files[CODE_FILES_MAX]; /* to be there before it starts; those that are not the caller's are static */
	size_t file_count;
	char *paths[CODE_FILES_MAX]; /* of the files, owned */
};

/* `path` is where the code lies inside; NULL: it is a file of the program, and called `name` (NULL: main and the language's extension) in `dir`. */
struct language_code {
	const char *dir; /* where files are put */
	const char *path, *name;
	const void *data;
	size_t len;
	const char *const *args; /* NULL-terminated; may be NULL */
};

/* To be cleared also after a failure. What it points to in `code` has to live as long. */
int language_program(const struct language *l, const struct language_code *code, struct language_program *out, struct cordon_error *err);
void language_program_clear(struct language_program *p);

/* Adds what the language needs to an environment, unless it is set there. */
int language_environment(const struct language *l, struct strlist *env, struct cordon_error *err);

/* The interpreter was not found inside: says which package has it. Returns -1. */
int language_missing(const struct language *l, struct cordon_error *err);

#endif
