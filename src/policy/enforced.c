/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy is never weaker than it reads: what this version can only write down is refused before anything runs, not passed over.
 */
#include <string.h>

#include "base/util.h"
#include "policy/host.h"
#include "policy/maps.h"
#include "policy/policy.h"

/*
 * Under root: layered whoever is root inside can put any program anywhere, and change what any path is: nothing could hold a list of programs or paths.
 */
static const char *const not_held[] = {"files.read",    "files.write",   "files.deny",   "files.hidden",  "process.subprocess",
                                       "process.shell", "process.allow", "process.deny", "process.native"};

const struct policy_key *policy_not_enforced(const struct cordon_policy *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_held) && p->root == ROOT_LAYERED; i++) {
		const struct policy_key *key = policy_key_find(not_held[i]);

		if (!policy_is_default(p, key))
			return key;
	}
	return NULL;
}

/* Whether connections to some of these hosts can be looked into; a suffix is taken for what it may be. */
static bool is_looked_into(const struct cordon_policy *p, const char *host)
{
	const char *below = host[0] == '*' ? host + 1 : NULL; /* ".example.com" */
	struct host_target target;

	for (size_t i = 0; i < p->network.outbound.count; i++) {
		const struct policy_outbound *o = maplist_item(&p->network.outbound, &map_outbound, i);
		const size_t len = strlen(o->host), tail = below ? strlen(below) : 0;

		if (o->protocol != PROTOCOL_WEB)
			continue;
		if (strcmp(o->host, host) == 0 || (below && len > tail && strcmp(o->host + len - tail, below) == 0))
			return true;
		if (host_target_parse(below ? host + 2 : host, &target, NULL) == 0 && host_matches(o->host, &target))
			return true;
	}
	return false;
}

/* A secret for a host that is not reached, or not by a protocol that has headers, would never be sent: somebody forgot something. */
static int check_secrets(const struct cordon_policy *p, struct cordon_error *err)
{
	for (size_t i = 0; i < p->secrets.count; i++) {
		const struct policy_secret *s = maplist_item(&p->secrets, &map_secret, i);

		for (size_t k = 0; k < s->hosts.count; k++) {
			if (is_looked_into(p, s->hosts.items[k]))
				continue;
			err_set(err, CORDON_ERR_INPUT,
			        "the secret %s is for %s, which network.outbound does not allow, or not with protocol web", s->from,
			        s->hosts.items[k]);
			return err_hint(err, "--allow-host %s", s->hosts.items[k]);
		}
	}
	return 0;
}

int policy_check_enforced(const struct cordon_policy *p, struct cordon_error *err)
{
	const struct policy_key *key = policy_not_enforced(p);

	if (!key)
		return check_secrets(p, err) < 0 ? -1 : policy_check_inbound(p, err);
	err_set(err, CORDON_ERR_INPUT, "the policy sets %s, which cannot be enforced with root: layered", key->name);
	return err_hint(err, "nothing was run; cordon policy explain shows where it is set");
}
