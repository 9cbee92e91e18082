/* SPDX-License-Identifier: Apache-2.0 */
/* Where each value of a policy comes from: a profile, a line of a file, an option. Kept beside the policy by whoever wants to explain it. */
#ifndef CORDON_POLICY_ORIGINS_H
#define CORDON_POLICY_ORIGINS_H

#include "base/buf.h"
#include "policy/policy.h"

enum origin_kind { ORIGIN_NONE, ORIGIN_PROFILE, ORIGIN_FILE, ORIGIN_OPTION };

struct policy_origin {
	enum origin_kind kind;
	const char *name; /* of the profile, file or option; lives as long as the origins */
	unsigned line, column;
};

struct policy_origins {
	struct origin_key {
		struct policy_origin whole;  /* the last one that had to do with the key */
		struct policy_origin *items; /* of each item of a list, by its place; of exit statuses by the status */
		size_t count;
	} keys[POLICY_KEYS_MAX];
	struct strlist names;
	const char *profile; /* that everything else was put on; NULL: none yet */
};
void origins_free(struct policy_origins *o);

/* A copy of the text that lives as long as the origins; NULL with err set. */
const char *origins_name(struct policy_origins *o, const char *text, struct cordon_error *err);
/* The item at this place now comes from there. */
int origins_note(struct policy_origins *o, const struct policy_key *key, size_t index, const struct policy_origin *from,
                 struct cordon_error *err);
/* The list was emptied. */
void origins_forget(struct policy_origins *o, const struct policy_key *key, const struct policy_origin *from);
const struct policy_origin *origins_of(const struct policy_origins *o, const struct policy_key *key, size_t index);
const struct policy_origin *origins_of_key(const struct policy_origins *o, const struct policy_key *key);

/* policy_put(), and a note of it. o may be NULL. */
int policy_put_from(struct cordon_policy *p, const struct policy_key *key, const char *value, struct policy_origins *o,
                    const struct policy_origin *from, struct cordon_error *err);

/* "profile dev", "FILE:LINE", "--set" */
void origin_text(const struct policy_origin *from, struct buf *out);

#endif
