/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One check of one text. Everything that it needs is in its arena; whatever goes past a limit jumps back to where the check began (run_stop()), with
 * the findings that there are and one more that says why.
 */
#ifndef CORDON_GATE_RUN_H
#define CORDON_GATE_RUN_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <tree_sitter/api.h>

#include "gate/arena.h"
#include "gate/classes.h"
#include "gate/gate.h"
#include "gate/text.h"

struct gate_rule;

#define RUN_NESTING 12     /* texts within texts: sh -c 'sh -c …' */
#define RUN_DEPTH 400      /* of calls that follow the nesting of a text, all texts together; a frame is below 1 KiB */
#define RUN_NODES 4000000  /* of all trees together */
#define RUN_STEPS 20000000 /* nodes looked at, with what is looked at more than once */

/* Where a text is in the one that the caller gave: nested ones are at the place of the word that holds them. */
struct source {
	const char *text;
	size_t len;
	bool nested;
	uint32_t line, column; /* of nested ones */
	/* the last place that was asked for: places are mostly asked for in order */
	uint32_t seen_offset, seen_line, seen_start;
};

#define RUN_CACHE 16

struct run_cache {
	struct text value, base;
	struct class_set set;
};

struct run_letters {
	struct text value;
	struct letters letters;
	unsigned marks;
};

struct run {
	struct arena arena;
	const struct gate *gate;
	jmp_buf stop;
	int out_of_memory;
	const char *limit; /* what was exceeded */
	uint64_t deadline; /* CLOCK_MONOTONIC, in nanoseconds */
	unsigned depth, nesting;
	uint32_t nodes, steps;
	struct text by; /* the command that runs what is looked at; empty: nobody in between */
	bool quiet;     /* findings are not kept: a first pass that only learns */
	struct source *source;
	struct run_cache cache[RUN_CACHE];
	struct run_letters letters[RUN_CACHE];
	struct map classes; /* struct class_set, by path */
	struct map trees;   /* of tree.c, by text */
	TSParser *parser;
	TSTree *tree; /* while it is read, and so is this: */
	TSTreeCursor cursors[2];
	unsigned cursor_count;
	struct gate_finding *findings;
	uint64_t *finding_keys; /* rule and place, so that nothing is said twice */
	size_t count;
	bool more;
	enum gate_verdict verdict;
};

/* Abandons the check; the verdict is at least unproven. */
void run_stop(struct run *r, const char *limit) __attribute__((noreturn));

/* Counts one piece of work, and looks at the clock now and then. */
void run_tick(struct run *r);
static inline void run_step(struct run *r)
{
	if ((++r->steps & 1023) == 0)
		run_tick(r);
}

/* Around what follows the nesting of a text: false means it is too deep, which has been noted. */
bool run_enter(struct run *r, uint32_t offset);
static inline void run_leave(struct run *r)
{
	r->depth--;
}

/* Notes a finding at a place of the current source. */
void run_find(struct run *r, const struct gate_rule *rule, const char *pack, enum gate_verdict verdict, uint32_t start, uint32_t end);
/* One of the gate's own: always unproven. The name and reason must outlive the result. */
void run_unproven(struct run *r, const char *name, const char *reason, uint32_t start, uint32_t end);

/* A text within the current one, at the place [start, …). NULL if there are too many within each other, which has been noted. */
struct source *run_nest(struct run *r, struct text text, uint32_t start, uint32_t end);
void run_unnest(struct run *r, struct source *outer);

/* Runs check(r, data) with all limits in force, and fills the result. */
int run_check(const struct gate *g, void (*check)(struct run *r, void *data), void *data, struct gate_result *result,
              struct cordon_error *err);

/* The checks themselves: of the current source. */
void shell_check(struct run *r);
void code_check(struct run *r, enum gate_language language);
/* Code in another language within the current text; what is not known of it is marked. */
void run_code(struct run *r, enum gate_language language, struct text code, uint32_t start, uint32_t end);
void run_argv(struct run *r, const struct text *words, size_t count, uint32_t start, uint32_t end);

#endif
