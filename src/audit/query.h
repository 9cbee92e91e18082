/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for records in the segments. */
#ifndef CORDON_AUDIT_QUERY_H
#define CORDON_AUDIT_QUERY_H

#include "audit/scan.h"

/* Everything that is set must hold. Zero: every record. */
struct audit_filter {
	enum audit_level level; /* this one or a more severe one */
	unsigned categories;    /* bits, 1 << AUDIT_EXEC …; 0: any */
	bool denied;            /* only what was not allowed */
	const char *tenant;
	const char *sandbox, *exec; /* an id, or how it begins */
	const char *target;         /* a glob (base/glob.h) */
	const char *action;         /* a glob */
	char since[TEXT_TIME + 1];  /* "": since ever; this moment is included */
	char until[TEXT_TIME + 1];  /* "": for ever; this moment is not */
};
bool audit_matches(const struct audit_filter *f, const struct audit_line *l);

/* "2026-01-31T12:00:00Z" (also with fractions, an offset, or the date alone), or "90m", "2d": that long ago. */
int audit_parse_time(const char *text, int64_t now_us, char out[TEXT_TIME + 1], struct cordon_error *err);

/* Return -1 to end it, with err set. */
typedef int audit_visitor(void *arg, const struct audit_line *l, struct cordon_error *err);

struct audit_found {
	uint64_t matched;
	uint64_t damaged; /* lines that are no records, and were left out */
	bool more;        /* there are older ones than `limit` let through */
};
/*
 * Visits the last `limit` (0: all) records that match, oldest first. A line that has no end yet is left out: it is being written. -1 with
 * CORDON_ERR_NOT_FOUND if there is no log.
 */
int audit_query(const char *home, const struct audit_filter *f, uint64_t limit, audit_visitor *visit, void *arg, struct audit_found *found,
                struct cordon_error *err);

/* ---- following --------------------------------------------------------------------------------------------------------------- */

/* Where a reader is that waits for more. */
struct audit_reader {
	int dir, fd, events; /* events: inotify, readable when there may be more */
	unsigned number;
	off_t at;
	struct buf rest;
	uint64_t damaged;
};
/* Begins at the end of the log as it is now. Also where there is none yet, if `home` exists. */
int audit_reader_open(struct audit_reader *r, const char *home, struct cordon_error *err);
void audit_reader_close(struct audit_reader *r);
/* Visits what has come since and matches. */
int audit_reader_next(struct audit_reader *r, const struct audit_filter *f, audit_visitor *visit, void *arg, struct cordon_error *err);
/* Waits until there may be more. 1: yes; 0: a signal came; -1. */
int audit_reader_wait(struct audit_reader *r, struct cordon_error *err);

#endif
