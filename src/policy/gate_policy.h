/* SPDX-License-Identifier: Apache-2.0 */
/* The gate that a policy asks for: its packs and own rules, with what it grants; and what its verdicts mean. */
#ifndef CORDON_POLICY_GATE_POLICY_H
#define CORDON_POLICY_GATE_POLICY_H

#include "gate/gate.h"
#include "policy/policy.h"

/* Points into the policy, but for `additions`, which is the caller's to free. */
int gate_config_of(const struct cordon_policy *p, struct gate_config *out, struct cordon_error *err);

enum gate_language gate_language_of(enum policy_language language);

/* What a result means under the policy. */
struct gate_decision {
	bool allowed;
	const char *verdict; /* "allow", "warn", "deny", "unproven" */
};
struct gate_decision gate_decide(const struct cordon_policy *p, const struct gate_result *result);

#endif
