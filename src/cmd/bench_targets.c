/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures should be: ratios within one section where that is possible, since those carry over to other machines. */
#include <string.h>

#include "base/util.h"
#include "cmd/bench.h"

enum stat { P50, FAILURES };

static const struct {
	const char *what, *section, *row, *than; /* than: the row that it is divided by; NULL: the figure itself counts */
	enum stat stat;
	double limit;
	bool at_least;
} targets[] = {
	{.what = "cold start against bubblewrap", .section = "cold", .row = "cordon", .than = "bwrap", .limit = 1},
	{.what = "cold start against crun", .section = "cold", .row = "cordon", .than = "crun", .limit = 0.4},
	{.what = "cold start against runc", .section = "cold", .row = "cordon", .than = "runc", .limit = 0.15},
	{.what = "warm /bin/true against bare fork and exec", .section = "warm", .row = "cordon", .than = "bare", .limit = 2},
	{.what = "warm static no-op", .section = "static", .row = "cordon", .limit = 0.5},
	{.what = "second command in a live sandbox against bare", .section = "second", .row = "cordon", .than = "bare", .limit = 1.5},
	{.what = "warm Python one-liner against bare python3 -c pass", .section = "python", .row = "cordon", .than = "bare", .limit = 0.1},
	{.what = "snapshot and rollback", .section = "snapshot", .row = "cordon", .limit = 5},
	{.what = "cp -a of the tree against that", .section = "snapshot", .row = "cp -a", .than = "cordon", .limit = 300, .at_least = true},
	{.what = "private memory of a parked sandbox", .section = "memory", .row = "cordon", .limit = 1024},
	{.what = "sandboxes per second", .section = "rate", .row = "cordon", .limit = 500, .at_least = true},
	{.what = "burst of 100, median", .section = "burst", .row = "cordon", .limit = 50},
	{.what = "burst of 100, errors", .section = "burst", .row = "cordon", .stat = FAILURES, .limit = 0},
};

static const struct bench_section *section(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->count; i++)
		if (strcmp(b->sections[i]->measure->name, name) == 0)
			return b->sections[i];
	return NULL;
}

bool bench_target(const struct bench *b, size_t at, struct bench_verdict *v)
{
	if (at >= ARRAY_SIZE(targets))
		return false;
	const struct bench_section *s = section(b, targets[at].section);
	const struct bench_row *row = bench_row_find(s, targets[at].row),
			       *than = targets[at].than ? bench_row_find(s, targets[at].than) : NULL;
	double figure = bench_figures(row).p50, by = bench_figures(than).p50;

	*v = (struct bench_verdict){.what = targets[at].what, .limit = targets[at].limit, .at_least = targets[at].at_least, .unit = "x"};
	v->measured = row && row->count && (!targets[at].than || by > 0);
	if (!v->measured)
		return true;
	if (targets[at].stat == FAILURES) {
		v->unit = "";
		v->figure = (double)row->failures;
	} else if (targets[at].than) {
		v->figure = figure / by;
	} else {
		v->unit = s->measure->unit;
		v->figure = figure;
	}
	v->met = v->at_least ? v->figure >= v->limit : v->figure <= v->limit;
	return true;
}
