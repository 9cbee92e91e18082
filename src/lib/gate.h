/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the gate (gate/gate.h) about a command before it runs. The gate is a process of its own, cordon-gate, started when it is first needed and kept as long as
 * the context, or until a policy asks for other rules. Programs that no rule knows are not asked about, and neither is what passed without a finding a moment ago: the
 * same rules find nothing in the same bytes.
 */
#ifndef CORDON_LIB_GATE_H
#define CORDON_LIB_GATE_H

#include "audit/audit.h"
#include "cordon.h"
#include "lib/context.h"
#include "lib/denials.h"
#include "policy/policy.h"

/* Who asks, for the audit. */
struct gate_for {
	struct cordon *ctx;
	const struct cordon_policy *policy;
	const char *sandbox, *exec; /* NULL: not known */
};

/* What is to run: argv; and if it is code that a file or standard input brings, that. */
struct gate_command {
	const char *const *argv;
	const char *language; /* of the code: "python", "bash" … NULL: no code */
	const void *code;
	size_t len;
};

/*
 * 0: it may run; what was found is in the audit. -1 with CORDON_ERR_DENIED: it may not, and `refused` (may be NULL) has the findings. -1 with another code: nobody
 * could be asked, so it may not run either.
 */
int gate_check(const struct gate_for *who, const struct gate_command *command, struct denials *refused, struct cordon_error *err);

/* It is not needed any more for now: it ends by itself. */
void gate_dismiss(struct cordon *ctx);
/* Ends it, if there is one, and waits for that. Nobody else may be using the context, or by its lock. */
void gate_end(struct cordon *ctx);

#endif
