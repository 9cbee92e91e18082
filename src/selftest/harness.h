/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the attacks outside and inside a sandbox, and judges what happened. */
#ifndef CORDON_SELFTEST_HARNESS_H
#define CORDON_SELFTEST_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "selftest/attack.h"

enum control_result {
	CONTROL_WORKED,
	CONTROL_MISSING, /* it could not be tried outside; control_detail says why */
	CONTROL_FAILED,  /* it should have worked outside and did not: the attack proves nothing */
};

struct verdict {
	const struct attack *attack;
	enum control_result control;
	char control_detail[96];
	bool tried; /* false: not asked for */
	bool blocked;
	char detail[24];        /* the errno or signal that the attack met inside; "" if it worked */
	const char *blocked_by; /* NULL if it was not */
};

/* Without functions: those are in the program that runs inside. */
extern const struct attack selftest_attacks[];
extern const size_t selftest_attack_count;

/* Takes the first protection, in the order in which they come to bear, out of a mask of enum stopped_by: its name; NULL if none is left. */
const char *protection_next(unsigned *mask);

/*
 * Tries all attacks, or the one called `only`, in a sandbox on `image` (NULL: the host's); fills selftest_attack_count verdicts. Sets an environment variable of the process, and
 * forks: to be called before there are threads.
 */
int selftest_run(const char *only, const char *image, struct verdict *verdicts, struct cordon_error *err);

#endif
