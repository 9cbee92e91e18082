/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what patterns of a policy stand for in a tree as it is mounted now.
 *
 * The tree may hold whatever ran in a sandbox before, so no link is followed, nothing outside `root` is reached, and there are bounds on how many
 * entries are looked at and how deep they lie: beyond them it is an error, never a part of the answer.
 */
#ifndef CORDON_SANDBOX_EXPAND_H
#define CORDON_SANDBOX_EXPAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/spec.h"

#define EXPAND_ENTRIES 1000000u
#define EXPAND_DEPTH 400

struct expand_entry {
	int dir; /* directory that holds it, and its name in there; an empty name: dir itself */
	const char *name;
	const char *path; /* absolute, by the name under which the start is known */
	bool is_dir;
};

struct expand {
	int root;
	const char *start;                       /* relative to root, "." is root itself; one that is not there holds nothing */
	const char *name;                        /* its absolute path, with which patterns are compared */
	struct string_list patterns, keep, skip; /* as in struct op_find */
	bool dots;                               /* names that begin with a dot are found, too, unless `keep` spells them out */
	bool within;                             /* what lies in something that was found is looked at as well */
	bool hiding;                             /* to hide it: see expand() */
	int (*found)(void *arg, const struct expand_entry *e, struct cordon_error *err); /* 0, or -1 with err set to stop */
	void *arg;
};

/*
 * Links are not followed and not found: what they lead to has a path of its own. What is to be hidden is found generously: what a path without wildcards
 * leads to, through whatever links inside the root, and directories whose names cannot be read where one of them might have to be hidden. What is to be
 * skipped is not entered by a search, and neither it nor what leads to it is found.
 */
int expand(const struct expand *x, struct cordon_error *err);

#endif
