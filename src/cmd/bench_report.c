/* SPDX-License-Identifier: Apache-2.0 */
/* The figures for people: on a terminal, and as a part of a document. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/bench.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "cordon.h"

#define BAR 16

const char *bench_who(void)
{
	return geteuid() ? "user" : "root";
}

const char *bench_kernel(char *text, size_t size)
{
	struct utsname host;

	uname(&host);
	snprintf(text, size, "%.*s", (int)strspn(host.release, "0123456789."), host.release);
	return text;
}

static void print_setting(const struct bench *b)
{
	struct utsname host;
	char kernel[32];

	uname(&host);
	printf("cordon %s as %s, Linux %s on %s, %ld CPUs, %.0f GiB; load %.2f before, %.2f after.\n", cordon_version(),
	       geteuid() ? "an ordinary user" : "root", bench_kernel(kernel, sizeof(kernel)), host.machine, b->cpus,
	       (double)bench_machine_memory() / (1 << 30), b->load_before[0], b->load_after[0]);
}

/* How much cordon takes, as a multiple of what this one takes. */
static void format_ratio(const struct bench_section *s, double p50, char *text, size_t size)
{
	double cordon = bench_figures(bench_row_find(s, "cordon")).p50;

	if (cordon > 0 && p50 > 0)
		snprintf(text, size, cordon / p50 < 0.095 ? "%.3fx" : "%.2fx", cordon / p50);
	else
		snprintf(text, size, "-");
}

/* What this one takes, as a length; the longest is the whole width. */
static void format_bar(double p50, double longest, char *text, size_t size)
{
	size_t len = longest > 0 ? (size_t)(p50 / longest * BAR + 0.5) : 0;
	bool utf8 = terminal_utf8();

	*text = '\0';
	for (size_t i = 0; i < MAX(len, (size_t)1); i++)
		snprintf(text + strlen(text), size - strlen(text), "%s", utf8 ? (len ? "█" : "▏") : (len ? "#" : "."));
}

static double longest_of(const struct bench_section *s)
{
	double longest = 0;

	for (size_t i = 0; i < s->count; i++)
		longest = MAX(longest, bench_figures(&s->rows[i]).p50);
	return longest;
}

static const char *trouble(const struct bench_row *r)
{
	return r->error.code == CORDON_OK ? "not measured" : r->error.message;
}

/* ---- terminal ------------------------------------------------------------------------------------------------------------------- */

static void print_rows(const struct bench_section *s, struct colours c)
{
	const struct bench_measure *m = s->measure;
	const struct table_column columns[] = {{.title = m->unit},
	                                       {.title = "p50", .right = true},
	                                       {.title = "p10", .right = true},
	                                       {.title = "p90", .right = true},
	                                       {.title = "p99", .right = true},
	                                       {.title = "runs", .right = true},
	                                       {.title = "cordon/it", .right = true},
	                                       {.title = ""}};
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns)};
	double longest = longest_of(s);

	for (size_t i = 0; i < s->count; i++) {
		const struct bench_row *r = &s->rows[i];
		struct bench_figures f = bench_figures(r);
		char ratio[32], bar[BAR * 4];
		const double figures[] = {f.p50, f.p10, f.p90, f.p99};

		if (!r->count)
			continue;
		format_ratio(s, f.p50, ratio, sizeof(ratio));
		format_bar(f.p50, longest, bar, sizeof(bar));
		table_add(&t, c.name, "%s", r->name);
		for (size_t k = 0; k < ARRAY_SIZE(figures); k++)
			table_add(&t, k ? c.dim : c.bold, "%.*f", (int)m->decimals, figures[k]);
		table_add(&t, c.dim, "%zu", r->count);
		table_add(&t, NULL, "%s", ratio);
		table_add(&t, strncmp(r->name, "cordon", 6) == 0 ? c.good : c.dim, "%s", bar);
	}
	if (t.used)
		table_print(&t, stdout);
}

static void print_section(const struct bench_section *s, struct colours c)
{
	printf("\n%s%s%s  %s%s%s\n", c.bold, s->measure->title, c.off, c.dim, s->measure->name, c.off);
	print_rows(s, c);
	for (size_t i = 0; i < s->count; i++) {
		const struct bench_row *r = &s->rows[i];

		if (r->failures)
			printf("%s%s: %zu runs failed; the last: %s%s\n", c.bad, r->name, r->failures, r->error.message, c.off);
		else if (!r->count)
			printf("%s%s: %s%s\n", c.dim, r->name, trouble(r), c.off);
	}
	if (*s->note)
		printf("%s%s%s\n", c.dim, s->note, c.off);
	if (s->error.code != CORDON_OK)
		printf("%s%s: %s%s\n", c.bad, s->measure->name, s->error.message, c.off);
}

static void format_verdict(const struct bench_verdict *v, char figure[48], char limit[48])
{
	const char *unit = v->unit, *gap = *unit && strcmp(unit, "x") != 0 ? " " : "";

	snprintf(figure, 48, "%.*f%s%s", v->figure >= 100 || !*unit ? 0 : 2, v->figure, gap, unit);
	snprintf(limit, 48, "%s %g%s%s", v->at_least ? ">=" : "<=", v->limit, gap, unit);
}

static void print_targets(const struct bench *b, struct colours c)
{
	static const struct table_column columns[] = {
		{.title = "target"}, {.title = "figure", .right = true}, {.title = "wanted", .right = true}, {.title = ""}};
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns)};
	struct bench_verdict v;
	char figure[48], limit[48];

	for (size_t i = 0; bench_target(b, i, &v); i++) {
		if (!v.measured)
			continue;
		format_verdict(&v, figure, limit);
		table_add(&t, NULL, "%s", v.what);
		table_add(&t, c.bold, "%s", figure);
		table_add(&t, c.dim, "%s", limit);
		table_add(&t, v.met ? c.good : c.bad, "%s", v.met ? "met" : "not met");
	}
	if (!t.used)
		return;
	putchar('\n');
	table_print(&t, stdout);
}

void bench_print_text(const struct bench *b)
{
	struct colours c = colours_for(STDOUT_FILENO);

	print_setting(b);
	for (size_t i = 0; i < b->count; i++)
		print_section(b->sections[i], c);
	print_targets(b, c);
}

/* ---- Markdown ------------------------------------------------------------------------------------------------------------------- */

static void markdown_rows(const struct bench_section *s)
{
	const struct bench_measure *m = s->measure;

	printf("| %s | p50 | p10 | p90 | p99 | runs | cordon ÷ it |\n|---|--:|--:|--:|--:|--:|--:|\n", m->unit);
	for (size_t i = 0; i < s->count; i++) {
		const struct bench_row *r = &s->rows[i];
		struct bench_figures f = bench_figures(r);
		const double figures[] = {f.p50, f.p10, f.p90, f.p99};
		char ratio[32];

		if (!r->count) {
			printf("| %s | – | – | – | – | – | – |\n", r->name);
			continue;
		}
		format_ratio(s, f.p50, ratio, sizeof(ratio));
		printf("| %s |", r->name);
		for (size_t k = 0; k < ARRAY_SIZE(figures); k++)
			printf(" %.*f |", (int)m->decimals, figures[k]);
		printf(" %zu | %s |\n", r->count, ratio);
	}
}

static void markdown_section(const struct bench_section *s)
{
	printf("\n### %s\n\n%s\n", s->measure->title, s->measure->method);
	if (*s->note)
		printf("%s\n", s->note);
	putchar('\n');
	if (s->error.code != CORDON_OK)
		printf("Not measured here, or not all: %s.\n\n", s->error.message);
	if (!s->count)
		return;
	markdown_rows(s);
	putchar('\n');
	for (size_t i = 0; i < s->count; i++) {
		const struct bench_row *r = &s->rows[i];

		if (!r->count)
			printf("- %s: %s\n", r->name, trouble(r));
		else
			printf("- %s%s%s%s: %s\n", r->name, *r->version ? " (" : "", r->version, *r->version ? ")" : "",
			       r->how ? r->how : "");
		if (r->count && r->failures)
			printf("- %s: %zu runs failed; the last: %s\n", r->name, r->failures, r->error.message);
	}
}

void bench_print_markdown(const struct bench *b)
{
	struct bench_verdict v;
	char figure[48], limit[48];

	print_setting(b);
	puts("\n| target | figure | wanted | |\n|---|--:|--:|---|");
	for (size_t i = 0; bench_target(b, i, &v); i++) {
		format_verdict(&v, figure, limit);
		printf("| %s | %s | %s | %s |\n", v.what, v.measured ? figure : "–", limit,
		       !v.measured ? "not measured"
		       : v.met     ? "met"
		                   : "**not met**");
	}
	for (size_t i = 0; i < b->count; i++)
		markdown_section(b->sections[i]);
}
