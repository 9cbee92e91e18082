/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of a policy with their values, and which of them a request gets: of the rules for its host those whose methods and paths it has, and of several for the same
 * header the first. A host with rules is reached by no request that gets none: it would not be what the policy's author had in mind.
 */
#ifndef CORDON_EGRESS_KEYRING_H
#define CORDON_EGRESS_KEYRING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "egress/http_head.h"
#include "egress/mask.h"
#include "policy/host.h"
#include "policy/policy.h"
#include "secrets/store.h"

#define KEYRING_MAX MASK_MOST
#define KEYRING_WHY 320
#define KEYRING_PATH_MAX 4096 /* bytes of a path that is held against patterns, which takes time */

struct key {
	const struct policy_secret *rule;
	struct secret value; /* the only place where it is, but for what is on its way */
};

struct keyring {
	struct key keys[KEYRING_MAX];
	size_t count; /* of rules */
	size_t given; /* of values */
};

/* policy: outlives it. To be cleared in any case. */
int keyring_init(struct keyring *k, const struct cordon_policy *policy, struct cordon_error *err);
void keyring_clear(struct keyring *k); /* values are overwritten */
/* The next rule's value: all that the descriptor gives up to its end. */
int keyring_read(struct keyring *k, int fd, struct cordon_error *err);

bool keyring_is_for(const struct keyring *k, size_t i, const struct host_target *host); /* this rule names the host */
bool keyring_has(const struct keyring *k, const struct host_target *host);              /* a rule names it */

struct keyring_request {
	const struct host_target *host;
	const char *method;
	struct http_text target; /* as it stands in the request */
};
/* Which keys it gets, by their numbers; 0: none, and `why` says why. */
size_t keyring_choose(const struct keyring *k, const struct keyring_request *r, size_t chosen[KEYRING_MAX], char why[KEYRING_WHY]);

/*
 * Whether a path means the same to everybody, so that it can be held against patterns: none of what one server takes for a step upwards or for a slash, and another does not. Returns the reason why
 * not. Without the query.
 */
const char *keyring_path_check(struct http_text path);
/* Whether its query has a parameter that somebody takes for this name, which is in lower case. */
bool keyring_query_has(struct http_text target, const char *name);

#endif
