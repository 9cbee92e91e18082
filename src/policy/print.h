/* SPDX-License-Identifier: Apache-2.0 */
/* Policies, and what is known about them, as text. All of it comes out of the table of keys. Part of cordon-full only. */
#ifndef CORDON_POLICY_PRINT_H
#define CORDON_POLICY_PRINT_H

#include "base/json.h"
#include "policy/origins.h"
#include "policy/policy.h"

/* The effective policy as a policy file, each value with what it does and where it comes from. */
void policy_print_yaml(const struct cordon_policy *p, const struct policy_origins *o, struct buf *out);
/* The same as an array of JSON objects. */
void policy_print_json(const struct cordon_policy *p, const struct policy_origins *o, struct json *j);
/* A policy file that changes nothing: every key with its help and the value of the profile, commented out. */
int policy_print_template(const char *profile, struct buf *out, struct cordon_error *err);
/* The JSON schema (draft 2020-12) of the policy file. */
void policy_print_schema(struct buf *out);
/* The reference, as a table per section in Markdown. */
void policy_print_markdown(struct buf *out);

/* The name of the section; its length. 0: the key has none. */
size_t policy_section(const struct policy_key *key);
/* The name inside its section. */
const char *policy_short_name(const struct policy_key *key);
/* A text as YAML writes it: in quotes where they are needed. */
void policy_print_scalar(const char *text, struct buf *out);
/* The value of a key that is no list of structures, as YAML writes it on one line. */
void policy_print_value(const struct cordon_policy *p, const struct policy_key *key, struct buf *out);

#endif
