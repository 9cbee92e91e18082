/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon bench compare A B: what became worse. Two sessions are never quite alike, so a difference counts only if it is larger than a threshold and if the medians lie
 * further apart than either session's own spread: the median of each is outside of the other's p10 to p90. Memory has hardly any spread, times on a busy machine much.
 * JSON is read as the YAML that it also is.
 * Where both sessions have measured the bare program in the same section, times are compared as multiples of it: another machine, or a busy one, is then no regression.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/util.h"
#include "cmd/bench.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "policy/ytree.h"

struct result {
	const char *name, *unit;
	bool more; /* is better */
	double p50, p10, p90, errors;
};

enum verdict { SAME, BETTER, WORSE, VERDICTS };
static const char *const verdicts[VERDICTS] = {"same", "better", "worse"};

static const struct ynode *member(const struct ynode *map, const char *key)
{
	for (size_t i = 0; map && map->type == YNODE_MAP && i + 1 < map->count; i += 2)
		if (strcmp(map->items[i].text, key) == 0)
			return &map->items[i + 1];
	return NULL;
}

static const char *text_of(const struct ynode *map, const char *key)
{
	const struct ynode *n = member(map, key);
	return n && n->type == YNODE_SCALAR && !n->plain ? n->text : NULL;
}

static bool number_of(const struct ynode *map, const char *key, double *out)
{
	const struct ynode *n = member(map, key);
	char *end;

	if (!n || n->type != YNODE_SCALAR || !n->plain || !*n->text)
		return false;
	*out = strtod(n->text, &end);
	return !*end && isfinite(*out);
}

static int load(const char *path, struct ynode *root, const struct ynode **results, struct cordon_error *err)
{
	_cleanup_free_ char *text = malloc(YTREE_SIZE_MAX + 2);
	struct ytree_problem problem;
	double schema;

	if (!text)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	ssize_t len = fs_read_small(AT_FDCWD, path, text, YTREE_SIZE_MAX + 2);
	if (len < 0)
		return err_sys(err, "cannot read %s", path);
	if (ytree_parse(text, (size_t)len, root, &problem) < 0) {
		*err = problem.error;
		return err_wrap(err, "%s:%u:%u", path, problem.line, problem.column);
	}
	*results = member(root, "results");
	if (number_of(root, "schema", &schema) && schema == 1 && *results && (*results)->type == YNODE_LIST)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s is not from cordon bench --json: there is no \"schema\": 1 with \"results\"", path);
}

static int parse(const struct ynode *item, const char *path, struct result *r, struct cordon_error *err)
{
	static const char *const keys[] = {"p50", "p10", "p90"};
	const char *better = text_of(item, "better");
	double *const to[] = {&r->p50, &r->p10, &r->p90};

	*r = (struct result){.name = text_of(item, "name"), .unit = text_of(item, "unit")};
	if (!r->name || !r->unit)
		return err_set(err, CORDON_ERR_INPUT, "%s:%u: a result without \"name\" or \"unit\"", path, item->line);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!number_of(item, keys[i], to[i]))
			return err_set(err, CORDON_ERR_INPUT, "%s: %s has no \"%s\"", path, r->name, keys[i]);
	r->more = better && strcmp(better, "more") == 0;
	if (!number_of(item, "errors", &r->errors))
		r->errors = 0;
	return 0;
}

/* The result of that name: 0; 1: there is none; -1. */
static int find(const struct ynode *results, const char *name, const char *path, struct result *r, struct cordon_error *err)
{
	for (size_t i = 0; i < results->count; i++) {
		const char *here = text_of(&results->items[i], "name");

		if (here && strcmp(here, name) == 0)
			return parse(&results->items[i], path, r, err);
	}
	return 1;
}

static void divide(struct result *r, double by)
{
	r->p50 /= by;
	r->p10 /= by;
	r->p90 /= by;
	r->unit = "x bare";
}

/* Makes multiples of the bare program's time of both, where both sessions have it. */
static int normalize(const struct ynode *const results[2], const char *const paths[2], struct result r[2], struct cordon_error *err)
{
	char bare[80];
	struct result base[2];

	snprintf(bare, sizeof(bare), "%.*s/bare", (int)strcspn(r[0].name, "/"), r[0].name);
	if (strcmp(bare, r[0].name) == 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		int found = find(results[i], bare, paths[i], &base[i], err);

		if (found)
			return found < 0 ? -1 : 0;
		if (base[i].p50 <= 0)
			return 0;
	}
	for (int i = 0; i < 2; i++)
		divide(&r[i], base[i].p50);
	return 0;
}

static bool within(double value, const struct result *r)
{
	return value >= r->p10 && value <= r->p90;
}

static enum verdict judge(const struct result *a, const struct result *b, double threshold, double *percent)
{
	*percent = a->p50 != 0 ? (b->p50 / a->p50 - 1) * 100 : b->p50 != 0 ? INFINITY : 0;
	if (b->errors > a->errors)
		return WORSE;
	if (fabs(*percent) <= threshold || within(b->p50, a) || within(a->p50, b))
		return SAME;
	return (b->p50 > a->p50) == a->more ? BETTER : WORSE;
}

/* ---- the report ----------------------------------------------------------------------------------------------------------------- */

struct report {
	struct table table;
	struct json *json; /* NULL: for people */
	struct colours colours;
	size_t counts[VERDICTS];
};

static void report_one(struct report *out, const struct result *a, const struct result *b, enum verdict v, double percent)
{
	const char *style = v == WORSE ? out->colours.bad : v == BETTER ? out->colours.good : out->colours.dim;
	bool failed = b->errors > a->errors;

	out->counts[v]++;
	if (out->json) {
		json_object(out->json);
		json_kstr(out->json, "name", a->name);
		json_kstr(out->json, "unit", a->unit);
		json_kdouble(out->json, "before", a->p50);
		json_kdouble(out->json, "after", b->p50);
		json_kdouble(out->json, "percent", percent);
		json_kstr(out->json, "verdict", verdicts[v]);
		json_end(out->json);
		return;
	}
	table_add(&out->table, out->colours.name, "%s", a->name);
	table_add(&out->table, NULL, "%.3f", a->p50);
	table_add(&out->table, NULL, "%.3f", b->p50);
	table_add(&out->table, out->colours.dim, "%s", a->unit);
	table_add(&out->table, style, "%+.1f %%", percent);
	table_add(&out->table, style, "%s%s", verdicts[v], failed ? ": more errors" : "");
}

static int compare_all(const struct ynode *const results[2], const char *const paths[2], double threshold, struct report *out,
                       struct cordon_error *err)
{
	for (size_t i = 0; i < results[0]->count; i++) {
		struct result r[2];
		double percent;

		if (parse(&results[0]->items[i], paths[0], &r[0], err) < 0)
			return -1;
		int found = find(results[1], r[0].name, paths[1], &r[1], err);
		if (found < 0 || (found == 0 && normalize(results, paths, r, err) < 0))
			return -1;
		if (found)
			continue; /* only one of them has it */
		enum verdict v = judge(&r[0], &r[1], threshold, &percent);
		report_one(out, &r[0], &r[1], v, percent);
	}
	return out->counts[SAME] + out->counts[BETTER] + out->counts[WORSE]
	               ? 0
	               : err_set(err, CORDON_ERR_INPUT, "the files have no result in common");
}

static int print(struct report *out, struct buf *text, struct cordon_error *err)
{
	struct json *j = out->json;

	if (!j) {
		table_print(&out->table, stdout);
		printf("\n%zu worse, %zu better, %zu same\n", out->counts[WORSE], out->counts[BETTER], out->counts[SAME]);
		return 0;
	}
	json_end(j);
	for (int i = 0; i < VERDICTS; i++)
		json_kint(j, verdicts[i], (int64_t)out->counts[i]);
	json_end(j);
	if (text->failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	puts(text->data);
	return 0;
}

int bench_compare(const char *before, const char *after, double threshold, bool json, struct cordon_error *err)
{
	static const struct table_column columns[] = {
		{.title = "p50"}, {.title = "before", .right = true}, {.title = "after", .right = true},
		{.title = ""},    {.title = "change", .right = true}, {.title = ""}};
	const char *const paths[2] = {before, after};
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};
	struct report out = {
		.table = {.columns = columns, .count = ARRAY_SIZE(columns)}, .json = json ? &j : NULL, .colours = colours_for(1)};
	struct ynode roots[2] = {0};
	const struct ynode *results[2];
	int r = load(before, &roots[0], &results[0], err) < 0 ? -1 : load(after, &roots[1], &results[1], err);

	if (json) {
		json_object(&j);
		json_kint(&j, "schema", 1);
		json_key(&j, "changes");
		json_array(&j);
	}
	if (r == 0)
		r = compare_all(results, paths, threshold, &out, err);
	if (r == 0)
		r = print(&out, &text, err);
	table_free(&out.table);
	ynode_free(&roots[0]);
	ynode_free(&roots[1]);
	return r < 0 ? -1 : out.counts[WORSE] > 0;
}
