/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics over records. */
#ifndef CORDON_AUDIT_SUMMARY_H
#define CORDON_AUDIT_SUMMARY_H

#include "audit/scan.h"

/* How often something occurred. */
struct audit_count {
	char *key; /* as in the record; see audit_decode() */
	size_t len;
	enum audit_category category; /* of a target */
	uint64_t count, denied;
};

struct audit_counts {
	struct audit_count *slots; /* a hash table; after audit_summary_finish(): `used` items, the most frequent first */
	size_t size, used, bytes;
	uint64_t seed;
	uint64_t others; /* that did not fit: there were too many different ones */
};

struct audit_summary {
	uint64_t records;
	uint64_t levels[AUDIT_LEVEL_COUNT], categories[AUDIT_CATEGORY_COUNT], allowed[AUDIT_ALLOWED_COUNT];
	char first[TEXT_TIME + 1], last[TEXT_TIME + 1]; /* the earliest and the latest */
	struct audit_counts targets, sandboxes;
};
/* -1: out of memory. */
int audit_summary_add(struct audit_summary *s, const struct audit_line *l);
void audit_summary_finish(struct audit_summary *s);
void audit_summary_free(struct audit_summary *s);

#endif
