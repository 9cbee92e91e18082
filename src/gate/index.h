/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate is inside: its packs put together for each language, with every name where it is found by one look. Nothing of it changes after gate_open().
 */
#ifndef CORDON_GATE_INDEX_H
#define CORDON_GATE_INDEX_H

#include "gate/classes.h"
#include "gate/map.h"
#include "gate/pack.h"
#include "gate/tree.h"

struct test {
	const struct gate_test *t;
	uint64_t in;                         /* classes, one bit each */
	const struct letters *text, *except; /* of the patterns of the same names in t */
};

struct rule {
	const struct gate_rule *r;
	const char *pack;
	struct test *args, *any; /* r->args.count and r->any.count of them */
	unsigned facts;          /* shell: 1 << enum gate_at: without one of these it cannot match */
	bool one_word;           /* shell: no command of it is "git push": who finds it by a known name has found what it is for */
};

/* What is known by one name: rules, commands, results … */
struct entry {
	const void **items;
	size_t count;
};

/* Names with a pattern in them are few, and tried one after the other. */
struct pattern_entry {
	const char *pattern;
	const void *item;
};

struct lookup {
	struct map exact;
	struct pattern_entry *patterns;
	size_t pattern_count;
};

struct language {
	bool used;   /* some pack is about it */
	bool direct; /* … that was asked for: others are for code inside other code only */
	struct grammar *grammar;
	struct rule **all;
	size_t rule_count;
	/* shell */
	struct lookup commands;  /* struct gate_command, by name */
	struct lookup rules;     /* by name of command, or by "@role" */
	struct lookup variables; /* struct gate_variable */
	struct rule **any_command;
	size_t any_command_count;
	struct rule **assigns;
	size_t assigns_count;
	struct rule **shapes;
	size_t shape_count;
	/* code: by the first part of a dotted name, or by the last one of "*.name" */
	struct lookup names, members;
	struct lookup results, member_results;
	struct lookup runs, member_runs;
	struct map aliases;                       /* const char *, by name */
	const struct gate_alias **alias_patterns; /* those that begin with "*." */
	size_t alias_pattern_count;
};

struct added {
	const struct gate_pack *pack;
	enum gate_language language;
};

struct gate {
	struct arena arena;
	struct added *added;
	size_t added_count;
	unsigned granted;
	struct text workspace, home;
	unsigned limit_ms;
	size_t limit_bytes;
	struct classes classes;
	struct language languages[GATE_LANGUAGES];
};

unsigned gate_limit_ms(const struct gate *g);
size_t gate_limit_bytes(const struct gate *g);

/* Everything known by this name, exactly or by pattern: a list in the arena. */
size_t lookup_all(const struct lookup *l, struct arena *a, struct text name, const void ***out);
/* True if there is anything: cheap. */
bool lookup_has(const struct lookup *l, struct text name);

/* What the additions of a policy become. */
int index_add_addition(struct gate *g, const struct gate_addition *a, size_t n, struct cordon_error *err);
int index_add_pack(struct gate *g, const struct gate_pack *pack, const struct gate_pack *const *known, struct cordon_error *err);
/* Only what a pack says about commands, not as rules of its own language. */
int index_add_tables(struct gate *g, enum gate_language language, const struct gate_pack *pack, const struct gate_pack *const *known,
                     struct cordon_error *err);
/* When all packs are there. */
void index_finish(struct gate *g);

#endif
