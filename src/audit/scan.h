/* SPDX-License-Identifier: Apache-2.0 */
/* Reads records: a strict scanner of the format of audit.h, without copies and without a tree. */
#ifndef CORDON_AUDIT_SCAN_H
#define CORDON_AUDIT_SCAN_H

#include "audit/audit.h"
#include "audit/text.h"

/* A line taken apart; it points into the line. Strings are as they are in JSON, without the quotes: see audit_decode(). */
struct audit_line {
	const char *line; /* without its line feed */
	size_t len;
	uint64_t seq;
	const char *ts; /* TEXT_TIME bytes */
	struct slice tenant, sandbox, exec, action, target, rule;
	enum audit_level level;
	enum audit_category category;
	enum audit_allowed allowed;
	struct slice detail;     /* JSON; .at is NULL for null */
	const char *prev, *hash; /* AUDIT_HASH digits each */
	size_t record;           /* bytes of the line before ,"prev": what is hashed, without the last brace */
};

/* NULL, or what is wrong with the line: any byte that the writer would not have put there. */
const char *audit_scan(const char *line, size_t len, struct audit_line *out);

/* Does the record have the hash that it should have? */
bool audit_line_intact(const struct audit_line *l);

/* Whether this is the last record of a segment. */
bool audit_line_rotates(const struct audit_line *l);

#endif
