/* SPDX-License-Identifier: Apache-2.0 */
/* The policy file: YAML → validated policy, with the place of everything that is wrong with it. Needs libyaml: part of cordon-full only. */
#ifndef CORDON_POLICY_LOAD_H
#define CORDON_POLICY_LOAD_H

#include "policy/origins.h"
#include "policy/policy.h"

#define POLICY_FILE_VERSION "1"
#define POLICY_EXTENDS_MAX 8   /* files in a chain */
#define POLICY_PROBLEMS_MAX 50 /* that are reported of one file and what it extends */

/* One thing that is wrong. The texts are one line each, without control characters, and live until the callback returns. */
struct policy_problem {
	const char *file;
	unsigned line, column; /* from 1; 0: the file as a whole */
	const char *message;
	const char *hint; /* "": none */
};
typedef void policy_problem_fn(void *user, const struct policy_problem *problem);

/* "FILE:LINE:COLUMN: message (hint)" */
void policy_problem_text(const struct policy_problem *problem, struct buf *out);

/*
 * Reads a policy file over `profile` (NULL: "default"), or over what the file itself extends. Overwrites *p, which is empty after a failure; release with
 * policy_clear(). o (may be NULL) gets the origin of each value. err: the first problem, as policy_problem_text() writes it, without a hint of its own.
 */
int policy_load(struct cordon_policy *p, const char *path, const char *profile, struct policy_origins *o, struct cordon_error *err);

/* The same over a policy instead of a profile, whose values get no origin. */
int policy_load_over(struct cordon_policy *p, const char *path, const struct cordon_policy *base, struct policy_origins *o,
                     struct cordon_error *err);

/* Reports everything that is wrong with a file. 0, how many problems there are, or -1 with err set when out of memory; *p as above. */
int policy_check(struct cordon_policy *p, const char *path, const char *profile, struct policy_origins *o, policy_problem_fn *report,
                 void *user, struct cordon_error *err);

/* The same for a text that is in memory, called `name` in messages. */
int policy_check_text(struct cordon_policy *p, const char *name, const char *text, size_t len, const char *profile,
                      struct policy_origins *o, policy_problem_fn *report, void *user, struct cordon_error *err);

#endif
