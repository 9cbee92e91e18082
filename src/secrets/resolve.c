/* SPDX-License-Identifier: Apache-2.0 */
/* Where a policy's secrets come from. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "policy/policy.h"
#include "secrets/store.h"

static int from_store(const char *home, const char *name, struct secret *out, struct cordon_error *err)
{
	return secrets_get(home, name, out, err);
}

static int from_env(const char *home, const char *name, struct secret *out, struct cordon_error *err)
{
	const char *value = getenv(name);

	(void)home;
	if (value && *value)
		return secret_copy(out, value, "the variable", err);
	err_set(err, CORDON_ERR_NOT_FOUND, "the variable %s is %s", name, value ? "empty" : "not set");
	return err_hint(err, "export it where cordon is started; or keep it with cordon secret set, and write from: store:NAME");
}

int secrets_resolve(const char *home, const struct policy_secret *rule, struct secret *out, struct cordon_error *err)
{
	static const struct {
		const char *prefix;
		int (*get)(const char *home, const char *name, struct secret *out, struct cordon_error *err);
	} places[] = {{"store:", from_store}, {"env:", from_env}};

	*out = (struct secret){0};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		size_t len = strlen(places[i].prefix);

		if (strncmp(rule->from, places[i].prefix, len) != 0)
			continue;
		if (places[i].get(home, rule->from + len, out, err) == 0 && secret_check_header(out, err) == 0)
			return 0;
		secret_wipe(out);
		return err_wrap(err, "secret %s for %s", rule->from, rule->hosts.count ? rule->hosts.items[0] : "no host");
	}
	/* not what was written: it may be the secret itself */
	return err_set(err, CORDON_ERR_INPUT, "this is not where a secret comes from (write store:NAME or env:NAME)");
}
