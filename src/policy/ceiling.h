/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy that others must stay below. Whoever hands out the right to ask (a key of the server's) may bind a policy to it; a request then starts from what
 * it would get anyway, narrowed to that ceiling, and what it asks for on top of that is refused where it is more.
 *
 * "Not more" is decided key by key, by the table in ceiling.c, and errs on the safe side: a pattern counts as covered only if that can be seen from the two
 * texts. Whatever a policy below the ceiling allows (policy/match.h), the ceiling allows, too.
 */
#ifndef CORDON_POLICY_CEILING_H
#define CORDON_POLICY_CEILING_H

#include "policy/policy.h"

/* 0, or CORDON_ERR_DENIED with the first key, and what of it is too much. */
int policy_within(const struct cordon_policy *asked, const struct cordon_policy *ceiling, struct cordon_error *err);
/* The same of one key; the row of the table (policy_keys) says which. */
int policy_key_within(const struct cordon_policy *asked, const struct cordon_policy *ceiling, const struct policy_key *key,
                      struct cordon_error *err);

/* Makes it so, in every key where it is not: the smaller of two limits, what both lists grant, what either denies. */
int policy_narrow(struct cordon_policy *p, const struct cordon_policy *ceiling, struct cordon_error *err);

#endif
