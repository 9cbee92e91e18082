/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/record.h"
#include "audit_fixture.h"
#include "base/util.h"

static const struct audit_options by_seal = {.sync = AUDIT_SYNC_SEAL};

void fill(const char *home)
{
	struct audit *a = open_log(home, &by_seal);
	struct cordon_error err = {0};

	for (int segment = 0; segment < 3; segment++) {
		for (int i = 0; i < 10; i++)
			put(a, "x");
		assert_int_equal(audit_rotate(a, &err), 0);
	}
	for (int i = 0; i < 5; i++)
		put(a, "y");
	audit_close(a);
}

struct audit_verified verified(const char *home, const struct audit_verify_options *o)
{
	struct cordon_error err = {0};
	struct audit_verified v;

	if (audit_verify(home, o, &v, &err) < 0)
		fail_msg("%s", err.message);
	return v;
}

void assert_good(const char *home)
{
	struct audit_verified v = verified(home, NULL);

	if (v.broken.found)
		fail_msg("%s, line %d, record %d: %s", v.broken.file, (int)v.broken.line, (int)v.broken.seq, v.broken.what);
}

void assert_broken(const char *home, const char *file, uint64_t line, uint64_t seq, const char *what)
{
	struct audit_verified v = verified(home, NULL);

	if (!v.broken.found)
		fail_msg("not found: %s", what);
	if (strcmp(v.broken.file, file) != 0 || v.broken.line != line || v.broken.seq != seq || !strstr(v.broken.what, what))
		fail_msg("%s, line %d, record %d: %s; not: %s, line %d, record %d: %s", v.broken.file, (int)v.broken.line,
		         (int)v.broken.seq, v.broken.what, file, (int)line, (int)seq, what);
}

struct audit_sealed seal(const char *home, const struct audit_retention *keep)
{
	struct cordon_error err = {0};
	struct audit_sealed s;

	if (audit_seal(home, keep, &s, &err) < 0)
		fail_msg("%s", err.message);
	return s;
}

/* ---- lines of a segment ------------------------------------------------------------------------------------------------------ */

struct lines lines_read(const char *home, const char *name)
{
	struct lines l = {0};

	l.text = file_read(home, name, &l.total);
	for (char *s = l.text; *s; s = strchr(s, '\n') + 1)
		l.at[l.count++] = s;
	return l;
}

static size_t line_len(const struct lines *l, size_t i)
{
	return (size_t)(strchr(l->at[i], '\n') + 1 - l->at[i]);
}

void lines_write(const char *home, const char *name, const struct lines *l, const int *order)
{
	_cleanup_buf_ struct buf out = {0};

	for (; *order >= 0; order++)
		buf_add(&out, l->at[*order], line_len(l, (size_t)*order));
	file_write(home, name, out.data ? out.data : "", out.len);
}
void forge(const char *home, const char *name, size_t i, bool all)
{
	struct lines l = lines_read(home, name);
	char hash[AUDIT_HASH + 1] = "";

	for (size_t k = 0; k < l.count; k++) {
		char *line = l.at[k];
		size_t record = line_len(&l, k) - 1 - AUDIT_TAIL;

		if (k == i)
			memcpy(strstr(line, "\"start\""), "\"stork\"", 7);
		if (k > i && all)
			memcpy(line + record + 9, hash, AUDIT_HASH);
		if (k == i || (k > i && all)) {
			audit_hash(line + record + 9, line, record, hash);
			memcpy(line + record + 9 + AUDIT_HASH + 10, hash, AUDIT_HASH);
		}
	}
	file_write(home, name, l.text, l.total);
	free(l.text);
}
