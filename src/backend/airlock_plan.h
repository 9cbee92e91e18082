/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy's network.outbound asks of the airlock. */
#ifndef CORDON_BACKEND_AIRLOCK_PLAN_H
#define CORDON_BACKEND_AIRLOCK_PLAN_H

#include "policy/policy.h"
#include "sandbox/airlock.h"

/* No rules: no ports, and so no airlock. */
int airlock_plan(const struct cordon_policy *policy, struct airlock_spec *out, struct cordon_error *err);

/* What the sandbox has in /etc/resolv.conf. */
const char *airlock_resolver(const struct airlock_spec *a);

#endif
