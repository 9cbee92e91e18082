/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/csv.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"

void audit_csv_titles(struct buf *out)
{
	buf_add_str(out, "seq,ts,tenant,sandbox,exec,level,category,action,target,allowed,rule,detail,prev,hash\r\n");
}

/* A cell that begins with one of = + - @ is a formula to spreadsheets, also behind blanks and controls: an apostrophe in front makes it text. */
static void add_cell(struct buf *out, const char *s, size_t len)
{
	size_t blanks = 0;

	buf_add(out, ",\"", 2);
	while (blanks < len && (unsigned char)s[blanks] <= ' ')
		blanks++;
	if (blanks < len && strchr("=+-@", s[blanks]))
		buf_add(out, "'", 1);
	for (size_t i = 0; i < len;) {
		const char *quote = memchr(s + i, '"', len - i);
		size_t n = quote ? (size_t)(quote - s) + 1 - i : len - i;

		buf_add(out, s + i, n);
		if (quote)
			buf_add(out, "\"", 1);
		i += n;
	}
	buf_add(out, "\"", 1);
}

static void add_string(struct buf *out, struct slice s)
{
	_cleanup_buf_ struct buf text = {0};

	if (!s.at) {
		buf_add(out, ",", 1);
		return;
	}
	audit_decode(&text, s, TEXT_UNICODE);
	add_cell(out, text.data, text.len);
	out->failed = out->failed || text.failed;
}

void audit_csv_add(struct buf *out, const struct audit_line *l)
{
	buf_addf(out, "%" PRIu64 ",%.*s", l->seq, TEXT_TIME, l->ts);
	add_string(out, l->tenant);
	add_string(out, l->sandbox);
	add_string(out, l->exec);
	buf_addf(out, ",%s,%s", audit_level_names[l->level], audit_category_names[l->category]);
	add_string(out, l->action);
	add_string(out, l->target);
	buf_addf(out, ",%s", l->allowed == AUDIT_NEITHER ? "" : audit_allowed_names[l->allowed]);
	add_string(out, l->rule);
	if (l->detail.at)
		add_cell(out, l->detail.at, l->detail.len);
	else
		buf_add(out, ",", 1);
	buf_addf(out, ",%.*s,%.*s\r\n", AUDIT_HASH, l->prev, AUDIT_HASH, l->hash);
}
