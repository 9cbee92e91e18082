/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy's permissions cost, and what they do not reach: for people, by `cordon policy explain`. */
#ifndef CORDON_POLICY_COSTS_H
#define CORDON_POLICY_COSTS_H

#include "policy/policy.h"

/* One line each, no full stop; none for the default policy. Added to `out`. */
int policy_costs(const struct cordon_policy *p, struct strlist *out, struct cordon_error *err);

#endif
