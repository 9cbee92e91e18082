/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `cordon audit` share. */
#ifndef CORDON_CMD_AUDIT_H
#define CORDON_CMD_AUDIT_H

#include <stdbool.h>

#include "audit/query.h"
#include "audit/summary.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "policy/policy.h"

struct audit_flags {
	const char *sandbox, *exec, *tenant, *level, *action, *target, *since, *until, *limit;
	struct strlist categories;
	const char *export_to, *format, *pub, *expect, *max_age, *max_size;
	bool denied, summary, follow, verify, seal, json;
};

/* Records as a table, a page at a time. */
struct audit_page {
	struct table table;
	struct colours colours;
	bool utf8;
	size_t rows;
	bool continued; /* not the first page: no titles */
};
void audit_page_begin(struct audit_page *p);
/* An audit_visitor; arg is the page. */
int audit_page_add(void *arg, const struct audit_line *l, struct cordon_error *err);
int audit_page_end(struct audit_page *p, struct cordon_error *err);

/* One record on a line of its own, as they come in. An audit_visitor; arg is a page. */
int audit_print_line(void *arg, const struct audit_line *l, struct cordon_error *err);

int audit_print_summary(const struct audit_summary *s, const struct audit_found *found, struct cordon_error *err);
void audit_json_summary(const struct audit_summary *s, const struct audit_found *found, struct buf *out);

#endif
