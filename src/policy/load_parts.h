/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the loader share: load.c (files and what they extend), load_keys.c (what is in them). */
#ifndef CORDON_POLICY_LOAD_PARTS_H
#define CORDON_POLICY_LOAD_PARTS_H

#include <sys/types.h>

#include "policy/load.h"
#include "policy/ytree.h"

/* A file that is being read. */
struct load_file {
	const char *name; /* as messages show it */
	dev_t dev;
	ino_t ino;
	unsigned extends_line;           /* where it names the next one of the chain */
	unsigned given[POLICY_KEYS_MAX]; /* the line of each key that it has */
};

struct loader {
	struct cordon_policy *p;
	struct policy_origins *o; /* NULL: not wanted */
	const char *profile;
	const struct cordon_policy *base; /* in its place; NULL: none */
	policy_problem_fn *report;
	void *user;
	int problems;
	struct load_file chain[POLICY_EXTENDS_MAX]; /* the file itself first */
	size_t depth;
	struct cordon_error fatal; /* out of memory: nothing more can be said */
};

/* Nothing more is to be read. */
bool load_stopped(const struct loader *l);
/* Reports what *err says about this place, and clears it. */
void load_problem(struct loader *l, const char *file, unsigned line, unsigned column, struct cordon_error *err);
/* The same about a node of the innermost file. */
void load_problem_at(struct loader *l, const struct ynode *n, struct cordon_error *err);

/* The value of a key of a map; NULL: none. */
const struct ynode *load_find(const struct ynode *map, const char *name);
/* Everything in the file but version and extends. */
void load_keys(struct loader *l, const struct ynode *root);

#endif
