/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: looks at a command or at code before it runs, and says what it found.
 *
 * It explains and catches mistakes; it is not the boundary. The text is parsed with a real grammar and followed as far as it is static; what it does is
 * compared with rules, which are data (rules/ and docs/gate.md). The verdict is
 *
 *   allow      nothing was found, and all that matters is known from the text
 *   unproven   nothing was found, but what would run is not known (a command name out of a variable, code out of a file that was just fetched, a text
 *              that does not parse, one that is too large or too deep), and the finding says where
 *   deny       a rule matched, and the finding names it
 *
 * A gate is made once from packs of rules and the permissions that are granted, and may then be used from any number of threads. Whatever the text is,
 * a check ends within limit_ms and limit_bytes: past these the verdict is unproven.
 */
#ifndef CORDON_GATE_GATE_H
#define CORDON_GATE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum gate_language { GATE_SHELL, GATE_PYTHON, GATE_JAVASCRIPT, GATE_TYPESCRIPT, GATE_RUBY, GATE_PERL, GATE_PHP, GATE_AWK, GATE_LANGUAGES };
extern const char *const gate_language_names[GATE_LANGUAGES + 1]; /* "shell", "python" …, NULL */

/* "bash", "sh", "js", "ts", "py", "rb" and the names above; -1 if there is no such language. */
int gate_language_find(const char *name);

enum gate_verdict { GATE_ALLOW, GATE_UNPROVEN, GATE_DENY };
extern const char *const gate_verdict_names[]; /* "allow", "unproven", "deny" */

enum gate_severity { GATE_LOW, GATE_MEDIUM, GATE_HIGH, GATE_CRITICAL };
extern const char *const gate_severity_names[];

/* Permissions: a rule that is there because one of them is missing is moot where it is granted. */
enum gate_permission {
	GATE_SUBPROCESS = 1 << 0, /* other programs may be started */
	GATE_NETWORK = 1 << 1,    /* something outside may be reached */
	GATE_FILES = 1 << 2,      /* files outside the workspace */
	GATE_DYNAMIC = 1 << 3,    /* code that is made at run time: eval, loading by name, native code */
};

/* A rule of the policy (patterns.add): a name or dotted name ("socket", "os.system"); for the shell a command with options ("git push --force"). */
struct gate_addition {
	enum gate_language language;
	const char *match;
	const char *reason; /* NULL: "matches a pattern of the policy" */
};

struct gate_config {
	const char *const *packs; /* names of built-in packs, or paths (with a slash in them) of pack files */
	size_t pack_count;
	const struct gate_addition *additions;
	size_t addition_count;
	unsigned granted;      /* enum gate_permission */
	const char *workspace; /* NULL: "/app"; also where a command starts */
	const char *home;      /* NULL: "/home/user" */
	unsigned limit_ms;     /* 0: 2000 */
	size_t limit_bytes;    /* of memory for one check; 0: 256 MiB */
};

struct gate_finding {
	enum gate_verdict verdict; /* GATE_DENY or GATE_UNPROVEN */
	const char *rule;          /* "delete-vital"; of an unproven one also "dynamic-command", "parse-error", "limit" … */
	const char *pack;          /* NULL: the gate itself */
	const char *reason;
	enum gate_severity severity;
	uint32_t line, column; /* from 1; of the outermost text: what `sh -c` runs is where its word is */
	const char *snippet;   /* the piece of text, at most GATE_SNIPPET bytes of valid UTF-8 on one line */
};

#define GATE_SNIPPET 160
#define GATE_FINDINGS 64

struct gate_result {
	enum gate_verdict verdict;
	struct gate_finding *items; /* in the order of the text; deny and unproven mixed */
	size_t count;
	bool more;    /* there were more than GATE_FINDINGS */
	void *memory; /* of everything above */
};
void gate_result_free(struct gate_result *r);
/* The finding that explains the verdict: the first one of its kind. NULL if the verdict is allow. */
const struct gate_finding *gate_result_first(const struct gate_result *r);

struct gate;

/*
 * The names and texts of the configuration are copied. An unknown pack (with a suggestion), a pack file that is not well-formed and one whose own
 * examples do not hold are errors that say where.
 */
int gate_open(struct gate **out, const struct gate_config *config, struct cordon_error *err);
void gate_close(struct gate *g);

/* Some pack or addition is about this language: what is in another one is not looked at. */
bool gate_reads(const struct gate *g, enum gate_language language);

/*
 * Each fills *result, to be released with gate_result_free(). -1 only if memory ran out: everything else that goes wrong with the text is a finding.
 * The text may hold any bytes and need not end with NUL.
 */
int gate_shell(const struct gate *g, const char *text, size_t len, struct gate_result *result, struct cordon_error *err);
/* One command as it would be executed: no expansion takes place, but wrappers, `sh -c` and the like are looked through. */
int gate_argv(const struct gate *g, const char *const *argv, struct gate_result *result, struct cordon_error *err);
int gate_code(const struct gate *g, enum gate_language language, const char *text, size_t len, struct gate_result *result,
              struct cordon_error *err);

/* The built-in packs, for listings: the name of the one with this number, from 0; NULL behind the last. */
const char *gate_pack_name(size_t n);
/* One line about a built-in pack; NULL if there is no such pack. */
const char *gate_pack_about(const char *name);

#endif
