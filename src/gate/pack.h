/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack of rules as it is in memory. docs/gate.md explains every key; the tables in pack_schema.c say how a key becomes a field. A pack comes from a YAML
 * file (pack_read.c), or was compiled into this program: then gate-pack has read it, checked its examples and written it down as C (pack_emit.c).
 * Everything here is constant once made.
 */
#ifndef CORDON_GATE_PACK_H
#define CORDON_GATE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/arena.h"
#include "gate/gate.h"

struct gate_strs {
	const char *const *items;
	size_t count;
};
#define GATE_LIST(type)            \
	struct {                   \
		const type *items; \
		size_t count;      \
	}

/* A set of paths. ${workspace} and ${home} may stand in patterns. */
struct gate_class {
	const char *name;
	struct gate_strs paths; /* exactly these */
	struct gate_strs below; /* these and everything below */
	struct gate_strs except;
	unsigned taint; /* 1 << enum text_mark: of what is read from there */
};

/* What an argument is, of code. */
enum gate_kind { KIND_STRING, KIND_LIST, KIND_DICT, KIND_FUNCTION, KIND_NUMBER, KIND_TRUE, KIND_FALSE, KIND_NONE, KIND_NAME, KIND_UNKNOWN };

enum gate_at {
	/* of a command */
	AT_OPERAND, /* any operand, or the one with `index` */
	AT_LAST,
	AT_OPTION, /* the value of one of the options `of` */
	AT_WORD,   /* any word behind the name */
	AT_NAME,   /* the command's name as it was written */
	AT_SCRIPT, /* what is in the file that it runs */
	AT_CODE,   /* what it is given as code: sh -c, eval */
	AT_STDIN,
	AT_READ, /* paths that it … */
	AT_WRITE,
	AT_DELETE,
	AT_CHANGE,
	AT_SEND,
	AT_VALUE, /* what is assigned */
	AT_BY,    /* the command that runs it: find, awk … */
	/* of a call */
	AT_ARG,     /* `index`; or any */
	AT_KEYWORD, /* the named argument or key `of` */
	AT_SELF,    /* what the method belongs to */
	AT_COUNT,
};

struct gate_test {
	enum gate_at at;
	int index; /* -1: any */
	struct gate_strs of;
	const char *prefix;      /* must be there, and is taken off */
	struct gate_strs in;     /* classes of paths */
	struct gate_strs text;   /* patterns */
	struct gate_strs except; /* patterns of text that do not count */
	unsigned kind;           /* 1 << enum gate_kind */
	unsigned taint;          /* 1 << enum text_mark */
	bool absent;             /* there is no such thing */
	bool known;              /* it is known to the last byte */
};
typedef GATE_LIST(struct gate_test) gate_tests;

enum gate_dynamic { DYNAMIC_IGNORE, DYNAMIC_UNPROVEN, DYNAMIC_DENY };

/* What only the shape of a text shows. */
enum gate_shape {
	SHAPE_SELF_SPAWN,    /* a function, or the script itself, that starts itself beside itself */
	SHAPE_ENDLESS_SPAWN, /* a loop without end that starts processes and waits for none */
	SHAPE_SPIN,          /* a loop without end that never waits and never leaves */
	SHAPE_SELF_APPEND,   /* a file is read and written behind its end */
	SHAPE_COUNT,
};

struct gate_rule {
	const char *name, *reason;
	enum gate_severity severity;
	unsigned needs; /* enum gate_permission: moot where one of these is granted */
	enum gate_verdict verdict;
	enum gate_dynamic dynamic; /* what it means if only what is not known keeps it from matching, or could make it match */
	/* shell */
	struct gate_strs command; /* "rm", "mkfs*", "git push", "@role"; empty: any */
	struct gate_strs options; /* each "-r -R --recursive": one of these is given */
	struct gate_strs without; /* none of these is given */
	struct gate_strs assigns; /* names of variables */
	unsigned shape;           /* 1 << enum gate_shape */
	/* code */
	struct gate_strs names;   /* it is mentioned at all */
	struct gate_strs calls;   /* it is called, and the arguments fit */
	struct gate_strs imports; /* it is imported */
	struct gate_strs except;  /* names that do not count */
	/* both */
	gate_tests args;              /* all of these hold */
	gate_tests any;               /* one of these holds */
	struct gate_strs match, not ; /* examples */
};

enum gate_style { STYLE_GNU, STYLE_WORDS, STYLE_ASSIGN, STYLE_BUNDLED };
enum gate_runs { RUNS_NOTHING, RUNS_REST, RUNS_JOINED, RUNS_EXEC, RUNS_APPENDED, RUNS_OPERAND };
enum gate_builtin {
	BUILTIN_NONE,
	BUILTIN_CD,
	BUILTIN_ASSIGN,
	BUILTIN_ALIAS,
	BUILTIN_READ,
	BUILTIN_SET,
	BUILTIN_SOURCE,
	BUILTIN_TRUE,   /* always succeeds: a loop on it has no end */
	BUILTIN_WAIT,   /* takes time */
	BUILTIN_VERIFY, /* what was fetched is compared with what was expected */
	BUILTIN_LINK,   /* another name of a path */
	BUILTIN_LEAVE,  /* leaves a loop, a function or the shell */
};
enum gate_output {
	OUTPUT_UNKNOWN,
	OUTPUT_ARGS,     /* its operands, as echo */
	OUTPUT_FORMAT,   /* as printf */
	OUTPUT_STDIN,    /* what it reads: its files, else standard input */
	OUTPUT_CWD,      /* the working directory */
	OUTPUT_OPERANDS, /* paths: those of its operands, or below them */
	OUTPUT_DIR,      /* dirname of its operand */
	OUTPUT_BASE,     /* basename of it */
	OUTPUT_PATH,     /* the operand as a path */
	OUTPUT_PROGRAM,  /* where a program of that name is */
	OUTPUT_NAMES,    /* the names of everything that is there */
	OUTPUT_TEXT,     /* `text` */
	OUTPUT_MAPPED,   /* as tr */
	OUTPUT_REVERSED, /* as rev */
	OUTPUT_BASE64,   /* decoded */
	OUTPUT_HEX,
	OUTPUT_SAME, /* everything that it reads, if that is everything there is */
};

struct gate_code {
	struct gate_strs at;   /* places */
	struct gate_strs text; /* it matches one of these, if there are any */
	const char *after;     /* what is in front of this is no part of it */
	enum gate_language language;
};

/* What the words of a command mean. Entries with the same name add up; the first one without `when` says how options are written. */
struct gate_command {
	struct gate_strs names;
	struct gate_strs when;   /* only with one of these options */
	struct gate_strs unless; /* only without all of these */
	bool bare;               /* only without operands */
	struct gate_strs roles;
	enum gate_style style;
	struct gate_strs values; /* options that take a value */
	enum gate_runs runs;
	int skip;                         /* operands before the command that is run */
	bool assigns;                     /* NAME=VALUE before it */
	struct gate_strs exec;            /* RUNS_EXEC: options that begin a command */
	GATE_LIST(struct gate_code) code; /* places that hold code */
	enum gate_language stdin_code;    /* what it takes from standard input when it has no operand; GATE_LANGUAGES: none */
	struct gate_strs stdin_with;      /* options that make it take that although there are operands */
	enum gate_language script;        /* of the file that is its first operand */
	enum gate_builtin builtin;
	struct gate_strs read, write, remove, change, send; /* places: see docs/gate.md */
	struct gate_strs narrow;                            /* options that choose among what is below its operands */
	enum gate_output output;
	struct gate_strs keeps; /* OUTPUT_SAME: only if its first operand is one of these */
	const char *text;
	unsigned taint; /* of what it writes */
};

/* A variable whose value is code, or comes from somewhere. */
struct gate_variable {
	struct gate_strs names;
	enum gate_language language; /* GATE_LANGUAGES: no code */
	unsigned taint;              /* of what it holds when the text does not set it */
};

/* Another name of the same thing; "" as `to` takes it away. */
struct gate_alias {
	const char *from, *to;
};

enum gate_gives {
	GIVES_TEXT,      /* `text` */
	GIVES_ARG,       /* argument `arg`, unchanged */
	GIVES_SELF,      /* what the method belongs to */
	GIVES_JOIN,      /* the argument's items, with what it belongs to between them */
	GIVES_PATH,      /* all arguments as one path */
	GIVES_HOME_PATH, /* the argument with ~ for the home directory */
	GIVES_ENV,       /* the variable that the argument names */
	GIVES_MODULE,    /* the module that the argument names */
	GIVES_MEMBER,    /* argument 1 of argument 0 */
	GIVES_GLOBAL,    /* what the argument names */
	GIVES_SEND,      /* what a method gives that the argument names */
	GIVES_BELOW,     /* something below the argument */
	GIVES_DIR,
	GIVES_BASE,
	GIVES_FORMAT,  /* what it belongs to, with arguments in it */
	GIVES_OBJECT,  /* an object that stands for a path: its arguments joined */
	GIVES_DECODED, /* text that was encoded */
	GIVES_NEW,     /* what the method belongs to, as an object of it */
	GIVES_BOUND,   /* the function that is its argument */
	GIVES_METHODS, /* nothing; but the class has methods of the names that are its arguments */
};

struct gate_result_of {
	struct gate_strs calls;
	enum gate_gives gives;
	int arg;
	const char *text;
};

/* Calls that run commands: what is known of these is looked at by the rules of the shell. */
struct gate_runs_of {
	struct gate_strs calls;
	int shell;                 /* the argument that is a line for the shell; -1: none */
	int argv;                  /* … that is a list of words, or the first of them; -1: none */
	struct gate_strs shell_if; /* a named argument that makes argv a line for the shell */
};

struct gate_pack {
	const char *name, *about;
	enum gate_language language; /* GATE_LANGUAGES: none, it is there to be included */
	struct gate_strs include;
	struct gate_strs also; /* packs of other languages, for code inside this one's */
	GATE_LIST(struct gate_class) classes;
	GATE_LIST(struct gate_command) commands;
	GATE_LIST(struct gate_variable) variables;
	GATE_LIST(struct gate_alias) aliases;
	GATE_LIST(struct gate_result_of) results;
	GATE_LIST(struct gate_runs_of) runs;
	GATE_LIST(struct gate_rule) rules;
};

/* ---- the form of a pack, as tables ---- */

enum pack_type {
	PACK_STR,
	PACK_STRS,     /* a list, or one text */
	PACK_PATTERNS, /* a list of patterns: of bounded length */
	PACK_WORD,     /* one of `words`; an enum */
	PACK_FLAGS,    /* a list of `words`; a set of bits, `bits` says which */
	PACK_BOOL,
	PACK_INT,
	PACK_LIST, /* of `of` */
};

struct pack_field {
	const char *key;
	const char *c_name; /* of the field, where it is not the key */
	enum pack_type type;
	size_t offset;
	const char *const *words;
	const unsigned *bits; /* of PACK_FLAGS, in the order of words; NULL: 1 << n */
	const struct pack_shape *of;
	bool required;
	long fallback; /* of what is not given: of PACK_WORD and PACK_INT */
};

struct pack_shape {
	const char *type; /* as C writes it */
	const char *noun;
	size_t size;
	const struct pack_field *fields;
	size_t count;
};
extern const struct pack_shape pack_shape;

#define PACK_BYTES_MAX ((size_t)1 << 20)
#define PACK_TEXT_MAX 240 /* of a pattern */
#define PACK_ITEMS_MAX 4096

/* Reads one file, or `text` if it is not NULL. Everything is in the arena. */
int pack_read(struct arena *a, const char *path, const char *text, size_t len, struct gate_pack **out, struct cordon_error *err);

/* All the examples of a pack, with a gate that has this one and what it includes. `packs`: where includes are found, NULL-terminated. */
int pack_check(const struct gate_pack *pack, const struct gate_pack *const *packs, struct cordon_error *err);

/* gate_open() with packs that are given instead of named. */
int gate_open_packs(struct gate **out, const struct gate_config *config, const struct gate_pack *const *packs, size_t count,
                    const struct gate_pack *const *known, struct cordon_error *err);

/* The packs that are part of this program: written by gate-pack at build time. NULL-terminated. */
extern const struct gate_pack *const gate_builtin_packs[];

#endif
