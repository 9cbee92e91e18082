/* SPDX-License-Identifier: Apache-2.0 */
/* Named policies to start from. What a profile does not name is as in `default`, whose values are in the table of keys. */
#ifndef CORDON_POLICY_PROFILES_H
#define CORDON_POLICY_PROFILES_H

#include "policy/origins.h"
#include "policy/policy.h"

struct policy_profile {
	const char *name;
	const char *help;
};
extern const struct policy_profile policy_profiles[];
extern const size_t policy_profile_count;

/* NULL is "default". Overwrites *p, which is empty after a failure. Release with policy_clear(). */
int policy_init_profile(struct cordon_policy *p, const char *profile, struct cordon_error *err);
/* The same, with a note of where each value comes from; o may be NULL. */
int policy_init_profile_noted(struct cordon_policy *p, const char *profile, struct policy_origins *o, struct cordon_error *err);
/* What the profiles are, and the nearest to a name that is none. Returns -1. */
int policy_profile_unknown(const char *name, struct cordon_error *err);
bool policy_profile_known(const char *name);

#endif
