/* SPDX-License-Identifier: Apache-2.0 */
/* Records as bytes: what is known of one before its place in the chain is, and how it is put there. */
#ifndef CORDON_AUDIT_RECORD_H
#define CORDON_AUDIT_RECORD_H

#include "audit/audit.h"
#include "audit/redact.h"

/* Actions of category system that the writer itself uses. */
#define AUDIT_ROTATE "rotate"
#define AUDIT_RECOVER "recover"

/* {"seq":18446744073709551615 in front, the tail and a line feed behind */
#define RECORD_BODY_MAX (AUDIT_LINE_MAX - 27 - AUDIT_TAIL - 1)

/* Adds the part from ,"ts": up to the end of detail. -1: not a valid event, or out of memory. */
int audit_body(struct buf *out, const struct audit_event *e, const struct redactor *r, struct cordon_error *err);

/* The last record of the chain. */
struct chain_head {
	uint64_t seq;
	char hash[AUDIT_HASH + 1];
};
/* Adds the line of a body with its line feed, and moves the head on to it. */
void audit_chain(struct buf *out, struct chain_head *head, const char *body, size_t len);

/* hash = SHA-256(prev ‖ record ‖ "}"), where `record` is the line without its tail. */
void audit_hash(const char *prev, const char *record, size_t len, char hash[AUDIT_HASH + 1]);

/* Now, in microseconds since 1970. */
int64_t audit_now(void);

#endif
