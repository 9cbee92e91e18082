/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a shell text is followed as a shell would, as far as it is static. Each word becomes a list of fields, texts in which what
 * is not known is marked (text.h); each command becomes a name, options and operands, by what the packs say about it; then it is compared with the rules,
 * and what it runs itself (sudo, xargs, sh -c, find -exec) is looked at in the same way. A command also has an output: `echo` and `printf` give text,
 * `mktemp` a path below /tmp, `base64 -d` text that was encoded. So what a pipe carries into a shell is known, or it is known where it came from.
 *
 * Nothing is executed and nothing is looked up on this machine. Both sides of every condition are taken, loops once; a variable that is assigned on one
 * side only has several values, and a command is looked at for each.
 */
#ifndef CORDON_GATE_SHELL_H
#define CORDON_GATE_SHELL_H

#include "gate/index.h"
#include "gate/tree.h"

enum shell_kind {
	S_OTHER,
	S_LIST, /* a && b || c */
	S_PIPELINE,
	S_COMMAND,
	S_COMMAND_NAME,
	S_WORD, /* and everything else that is text without quotes */
	S_STRING,
	S_STRING_CONTENT,
	S_RAW,
	S_ANSI,
	S_TRANSLATED,
	S_CONCAT,
	S_SIMPLE,       /* $x */
	S_EXPANSION,    /* ${x} */
	S_SUBSTITUTION, /* $(x) */
	S_PROCESS,      /* <(x) */
	S_ARITHMETIC,
	S_ASSIGN,
	S_VARIABLE, /* its name */
	S_SUBSCRIPT,
	S_ARRAY,
	S_DECLARE,
	S_UNSET,
	S_TEST,
	S_NEGATED,
	S_SUBSHELL,
	S_GROUP, /* statements: { }, do … done, then … */
	S_IF,
	S_FOR,
	S_C_FOR,
	S_WHILE,
	S_CASE,
	S_CASE_ITEM,
	S_FUNCTION,
	S_REDIRECTED,
	S_FILE_REDIRECT,
	S_HEREDOC,
	S_HERESTRING,
	S_HEREDOC_START,
	S_HEREDOC_BODY,
	S_HEREDOC_END,
	S_DESCRIPTOR,
	S_AMP,
	S_OR, /* || */
	S_DOLLAR,
};
extern const struct tree_kind shell_kinds[];

struct fields {
	struct text *v;
	size_t n;
};

#define ALTS 6      /* values of one variable */
#define FIELDS 4096 /* that one word becomes */
#define TEXT_CAP 65536

struct var {
	struct fields alts[ALTS];
	size_t count; /* 0: not set */
	bool list;    /* an array */
};

struct function_def {
	const struct tree *tree;
	struct source *source;
	uint32_t body;
	bool active;
	unsigned calls;
	unsigned pipes, conditions; /* how many were open where it was called */
};

struct undo {
	struct var *var;
	struct var old;
};

struct shell {
	struct run *run;
	struct arena *arena;
	const struct gate *gate;
	const struct language *language;
	const struct tree *tree;
	struct map vars;      /* struct var */
	struct map functions; /* struct function_def */
	struct map aliases;   /* struct text: what it stands for */
	struct map files;     /* struct text: what was written there */
	struct map links;     /* struct text: the path that a path was made another name of */
	struct map opened;    /* struct text: the path that a descriptor was opened on, by its number */
	struct undo *undo;
	size_t undo_count;
	struct text cwd, oldpwd;
	struct fields positional;
	bool positional_known;
	struct text in; /* standard input; s == NULL: nothing was said about it */
	/* How often anything was changed: what a process of its own changes is counted apart, as it is taken back. */
	unsigned long changes, own_changes;
	struct map seen; /* struct seen: statements that change nothing and have nothing in them that was found */
	unsigned subshells, conditions, pipes;
	unsigned maybes;                     /* right sides of && and || that are being looked at */
	bool background;                     /* what is being looked at goes on by itself */
	bool endless, spawned, paused, left; /* of the loop that is being looked at */
	size_t alt, alt_max;                 /* which of the values of variables is taken */
	bool in_alt;
	uint32_t last; /* a command of the tree that has more words: */
	struct fields last_words;
	unsigned descriptors; /* /dev/fd/N that were handed out */
};

/* ---- state (shell_state.c) */
struct var *var_find(struct shell *sh, struct text name);
void var_set(struct shell *sh, struct text name, struct fields value, bool list);
void var_set_text(struct shell *sh, struct text name, struct text value);
void var_unset(struct shell *sh, struct text name);
/* The value that is looked at now; false if nothing is known of it. */
bool var_value(struct shell *sh, struct text name, struct fields *out);
struct saved {
	size_t undo;
	unsigned long own_changes;
	struct text cwd, oldpwd, in;
	struct fields positional;
	bool positional_known;
};
/* Around what happens in a process of its own. */
struct saved shell_fork(struct shell *sh);
void shell_join(struct shell *sh, struct saved s);
void file_put(struct shell *sh, struct text path, struct text content, bool append);
/* What a read of the file gives: what was written, or where it would come from; `known` says if it was written here. */
struct text file_get(struct shell *sh, struct text path, bool *known);
/* What was fetched has been compared with what was expected. */
void files_verified(struct shell *sh);
struct text shell_path(struct shell *sh, struct text path);
/* A link that was made here; and what a path is behind such links: nothing if there are none on its way. */
void link_put(struct shell *sh, struct text path, struct text target);
struct text link_get(struct shell *sh, struct text path);

/* ---- words (shell_word.c, shell_expand.c) */
void fields_add(struct shell *sh, struct fields *f, struct text t);
/* A word with everything done to it: braces, expansions, splitting, patterns of files. */
void word_fields(struct shell *sh, uint32_t n, struct fields *out);
/* As on the right side of an assignment: one text. */
struct text word_text(struct shell *sh, uint32_t n);
/* A pattern or here-document: parts of a node between two places. */
struct text word_range(struct shell *sh, uint32_t n, uint32_t from, uint32_t to, bool quoted);
struct text fields_join(struct shell *sh, const struct fields *f);
void text_split(struct shell *sh, struct text t, struct text separators, struct fields *out);
/* $x and ${x…}; several fields for "$@" and arrays. */
void expand_variable(struct shell *sh, uint32_t n, bool quoted, struct fields *out);
void expand_arithmetic(struct shell *sh, uint32_t n);
struct text unescape_ansi(struct arena *a, struct text t);

/* ---- statements (shell_eval.c) */
/* What it writes to standard output. */
struct text shell_statement(struct shell *sh, uint32_t n);
struct text shell_statements(struct shell *sh, uint32_t n);
struct text shell_substitution(struct shell *sh, uint32_t n);
/* Another text, in the same shell. */
struct text shell_text(struct shell *sh, struct text text, uint32_t start, uint32_t end);
void shell_assign(struct shell *sh, uint32_t n);
/* The body of a function that is defined in the text. */
struct text shell_call(struct shell *sh, struct function_def *f, const struct text *argv, size_t n, uint32_t start, uint32_t end);

/* ---- commands (shell_command.c) */
struct write {
	struct text path;
	bool append;
};

struct command {
	struct text *argv;
	size_t n;
	uint32_t start, end;  /* where it is */
	struct write *writes; /* by redirection */
	size_t write_count;
	struct text *reads;
	size_t read_count;
	struct text in; /* s == NULL: nothing was said about it */
	bool to_file;   /* its output goes into the last of `writes` */
	bool self;      /* it is "$0": the script itself */
	unsigned depth; /* wrappers around it */
};
struct text command_run(struct shell *sh, struct command *c);

/* What was understood of the words of a command. */
struct option {
	struct text name, value; /* value.s == NULL: none */
};
struct parsed {
	const struct command *command;
	struct text name, full; /* without its directory; as it was written */
	const struct gate_command **descs;
	size_t desc_count;
	const struct gate_command *base; /* says how options are written; may be NULL */
	struct option *options;
	size_t option_count;
	struct text *operands;
	size_t *operand_at; /* in argv */
	size_t operand_count;
	size_t (*execs)[2]; /* find -exec: the words of each command, from and to */
	size_t exec_count;
	size_t rest;     /* in argv: the first operand */
	bool maybe_more; /* a word that is not known may be options or operands */
};

/* ---- options (shell_options.c) */
void command_words(struct shell *sh, struct parsed *p, const struct command *c, struct text name);
/* One of the spellings is given, as a long option perhaps shortened. */
enum sure option_given(const struct parsed *p, const char *spelling);
enum sure option_any(const struct parsed *p, const struct gate_strs *spellings);
/* The values at the places of a description: "operands", "first", "-o", "of=" … */
void place_values(struct shell *sh, const struct parsed *p, const struct gate_command *d, const struct gate_strs *places,
                  struct fields *out);
bool name_has_words(const char *pattern, const struct parsed *p);

/* ---- rules (shell_match.c) */
struct facts {
	struct fields at[AT_COUNT]; /* by place: what is there */
	unsigned set;               /* 1 << enum gate_at */
};
void match_command(struct shell *sh, const struct parsed *p, struct facts *facts);
void match_assignment(struct shell *sh, struct text name, struct text value, uint32_t start, uint32_t end);
void match_shape(struct shell *sh, enum gate_shape shape, uint32_t start, uint32_t end);

/* ---- texts that were made unreadable (shell_decode.c): what they are, with a mark that they were; not known: only the mark */
struct text decode_map(struct shell *sh, const struct parsed *p, struct text in);
struct text decode_reverse(struct shell *sh, struct text in);
struct text decode_base64(struct shell *sh, struct text in);
struct text decode_hex(struct shell *sh, struct text in);

/* ---- output (shell_output.c) */
struct text command_output(struct shell *sh, const struct parsed *p, const struct facts *facts);

#endif
