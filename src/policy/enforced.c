/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy is never weaker than it reads: what this version can only write down is refused before anything runs, not passed over.
 */
#include <string.h>

#include "base/util.h"
#include "policy/policy.h"

/* Keys whose default is what the sandbox does anyway, and whose other values nothing holds yet. Whoever builds that takes the key out. */
static const char *const not_held[] = {
	"root",
	"network.inbound",
	"secrets",
};

const struct policy_key *policy_not_enforced(const struct cordon_policy *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_held); i++) {
		const struct policy_key *key = policy_key_find(not_held[i]);

		if (!policy_is_default(p, key))
			return key;
	}
	return NULL;
}

int policy_check_enforced(const struct cordon_policy *p, struct cordon_error *err)
{
	const struct policy_key *key = policy_not_enforced(p);

	if (!key)
		return 0;
	err_set(err, CORDON_ERR_WEAK_HOST, "the policy sets %s to what this version cannot enforce", key->name);
	return err_hint(err, "nothing was run; cordon policy explain shows where it is set");
}
