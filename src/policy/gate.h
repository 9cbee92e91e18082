/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gate would say about a command line or code, for `cordon policy explain`. The gate provides it; a program that is built without one has no such
 * function (it is weak: compare it with NULL), and says so.
 */
#ifndef CORDON_POLICY_GATE_H
#define CORDON_POLICY_GATE_H

#include "policy/policy.h"

struct gate_question {
	const char *text; /* a shell line, or code */
	size_t len;
	enum policy_language language;
	const char *name; /* what messages call it */
};

struct gate_answer {
	bool allowed;           /* it would run */
	const char *verdict;    /* "allow", "warn", "deny", "unproven" */
	struct strlist reasons; /* one line each, with place and rule; release with strlist_free() */
};

int gate_explain(const struct cordon_policy *p, const struct gate_question *question, struct gate_answer *answer, struct cordon_error *err)
	__attribute__((weak));

#endif
