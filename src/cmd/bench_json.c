/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures as JSON, for `cordon bench compare` and other programs:
 *
 *   {"schema":1, "cordon":VERSION, "machine":{…}, "load":{"before":[…],"after":[…]}, "settings":{…},
 *    "results":[{"name":"warm/cordon","unit":"ms","better":"less","runs":200,"errors":0,"p50":…,"p10":…,"p90":…,"p99":…,"min":…,"max":…,"ratio_to":{"bare":…}}],
 *    "missing":[{"name":"cold/docker","reason":…}], "targets":[{"what":…,"figure":…,"unit":…,"limit":…,"at_least":false,"met":true}]}
 *
 * Nothing in it tells whose machine it was.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/json.h"
#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

static void put_load(struct json *j, const char *key, const double load[3])
{
	json_key(j, key);
	json_array(j);
	for (int i = 0; i < 3; i++)
		json_double(j, load[i]);
	json_end(j);
}

static void put_name(struct json *j, const struct bench_section *s, const struct bench_row *r)
{
	char name[80];

	snprintf(name, sizeof(name), "%s/%s", s->measure->name, r->name);
	json_kstr(j, "name", name);
	json_kstr(j, "version", *r->version ? r->version : NULL);
	json_kstr(j, "how", r->how);
}

static void put_ratios(struct json *j, const struct bench_section *s, const struct bench_row *r, double p50)
{
	static const char *const to[] = {"bare", "cordon"};

	json_key(j, "ratio_to");
	json_object(j);
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		const struct bench_row *other = bench_row_find(s, to[i]);
		double by = bench_figures(other).p50;

		if (other && other != r && by > 0)
			json_kdouble(j, to[i], p50 / by);
	}
	json_end(j);
}

static void put_row(struct json *j, const struct bench_section *s, const struct bench_row *r)
{
	struct bench_figures f = bench_figures(r);
	const struct {
		const char *key;
		double value;
	} figures[] = {{"p50", f.p50}, {"p10", f.p10}, {"p90", f.p90}, {"p99", f.p99}, {"min", f.min}, {"max", f.max}};

	json_object(j);
	put_name(j, s, r);
	json_kstr(j, "unit", s->measure->unit);
	json_kstr(j, "better", s->measure->more ? "more" : "less");
	json_kint(j, "runs", (int64_t)r->count);
	json_kint(j, "errors", (int64_t)r->failures);
	json_kstr(j, "last_error", r->failures ? r->error.message : NULL);
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		json_kdouble(j, figures[i].key, figures[i].value);
	put_ratios(j, s, r, f.p50);
	json_end(j);
}

static void put_missing(struct json *j, const struct bench_section *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->rows[i].count)
			continue;
		json_object(j);
		put_name(j, s, &s->rows[i]);
		json_kstr(j, "reason", s->rows[i].error.code == CORDON_OK ? "not measured" : s->rows[i].error.message);
		json_end(j);
	}
	if (s->error.code == CORDON_OK)
		return;
	json_object(j);
	json_kstr(j, "name", s->measure->name);
	json_kstr(j, "reason", s->error.message);
	json_end(j);
}

static void put_targets(struct json *j, const struct bench *b)
{
	struct bench_verdict v;

	json_key(j, "targets");
	json_array(j);
	for (size_t i = 0; bench_target(b, i, &v); i++) {
		if (!v.measured)
			continue;
		json_object(j);
		json_kstr(j, "what", v.what);
		json_kdouble(j, "figure", v.figure);
		json_kstr(j, "unit", v.unit);
		json_kdouble(j, "limit", v.limit);
		json_kbool(j, "at_least", v.at_least);
		json_kbool(j, "met", v.met);
		json_end(j);
	}
	json_end(j);
}

static void put_machine(struct json *j, const struct bench *b)
{
	struct utsname host;
	char kernel[32];

	uname(&host);
	json_key(j, "machine");
	json_object(j);
	json_kint(j, "cpus", b->cpus);
	json_kstr(j, "architecture", host.machine);
	json_kstr(j, "kernel", bench_kernel(kernel, sizeof(kernel)));
	json_kint(j, "memory", (int64_t)bench_machine_memory());
	json_kstr(j, "user", bench_who());
	json_end(j);
	json_key(j, "load");
	json_object(j);
	put_load(j, "before", b->load_before);
	put_load(j, "after", b->load_after);
	json_end(j);
	json_key(j, "settings");
	json_object(j);
	json_kint(j, "runs", (int64_t)b->o.runs);
	json_kint(j, "files", (int64_t)b->o.files);
	json_kint(j, "depth", (int64_t)b->o.depth);
	json_kint(j, "density", (int64_t)b->o.density);
	json_end(j);
}

void bench_put_json(const struct bench *b, struct buf *out)
{
	struct json j = {.out = out};

	json_object(&j);
	json_kint(&j, "schema", 1);
	json_kstr(&j, "cordon", cordon_version());
	put_machine(&j, b);
	json_key(&j, "results");
	json_array(&j);
	for (size_t i = 0; i < b->count; i++)
		for (size_t k = 0; k < b->sections[i]->count; k++)
			if (b->sections[i]->rows[k].count)
				put_row(&j, b->sections[i], &b->sections[i]->rows[k]);
	json_end(&j);
	json_key(&j, "missing");
	json_array(&j);
	for (size_t i = 0; i < b->count; i++)
		put_missing(&j, b->sections[i]);
	json_end(&j);
	put_targets(&j, b);
	json_end(&j);
}
