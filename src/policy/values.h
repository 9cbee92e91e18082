/* SPDX-License-Identifier: Apache-2.0 */
/* Single values of a policy: from text to what the structure holds, and back. For the files of policy/ only. */
#ifndef CORDON_POLICY_VALUES_H
#define CORDON_POLICY_VALUES_H

#include "base/buf.h"
#include "policy/policy.h"

#define POLICY_LIST_MAX ((size_t)1024)
#define VALUE_TEXT_MAX 32

/* Each puts the value there, or leaves it as it was. */
int value_parse_number(const struct policy_key *key, const char *text, uint64_t *out, struct cordon_error *err);
int value_parse_bool(const struct policy_key *key, const char *text, bool *out, struct cordon_error *err);
int value_parse_word(const char *const *words, const char *text, unsigned *out,
                     struct cordon_error *err); /* without the key in the message */
int value_parse_statuses(const struct policy_key *key, const char *text, uint8_t out[32], size_t *last, struct cordon_error *err);

/* "512M", "1.5", "forever"; parses back to the same value. Returns buf. */
const char *value_format_number(const struct policy_key *key, uint64_t n, char buf[VALUE_TEXT_MAX]);
/* "rollback or keep" */
void value_join_words(const char *const *words, size_t count, struct buf *out);
size_t value_word_count(const char *const *words);

#endif
