/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon bench: how long a cold start takes, against the bare program and against other sandboxes.
 *
 * Candidates alternate: each round runs each of them once, in another order, so that a change of the machine's load or clock, and what a run
 * leaves for the kernel to tidy up, hits them all alike. What is compared are medians of one such session, never those of two.
 */
#include "cmd/bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cordon.h"

#define RUNS_DEFAULT 200
#define RUNS_MAX 100000

/* For the table of commands (main.c), too: help and completion find them there. */

struct bench_flags {
	bool peers, json, markdown, layers;
	const char *runs, *files, *depth;
	struct strlist only;
};

#define FLAG(member) offsetof(struct bench_flags, member)

const struct option_def bench_options[] = {
	{.name = "runs", .argument = "N", .offset = FLAG(runs), .help = "runs of each candidate (default 200)"},
	{.name = "peers", .offset = FLAG(peers), .help = "compare with bwrap, crun, runc and firejail, where installed"},
	{.name = "only",
         .argument = "NAME",
         .offset = FLAG(only),
         .repeat = true,
         .complete = COMPLETE_WORDS,
         .words = "bare cordon bwrap crun crun-lean crun-no-cgroup runc runc-lean firejail",
         .help = "measure this candidate; may be repeated"},
	{.name = "layers", .offset = FLAG(layers), .help = "snapshot and rollback instead; --peers: against cp -a and git"},
	{.name = "files", .argument = "N", .offset = FLAG(files), .help = "with --layers: files of 20 KB in the workspace (default 10000)"},
	{.name = "depth", .argument = "N", .offset = FLAG(depth), .help = "with --layers: layers below (default 0)"},
	{.name = "json", .offset = FLAG(json), .help = "print JSON"},
	{.name = "markdown", .offset = FLAG(markdown), .help = "print a Markdown table"},
	{0},
};

const char bench_about[] =
	"Measures the cold start: from nothing to /bin/true done and everything about it gone, by the wall clock, from posix_spawn to\n"
	"waitpid. Candidates alternate; compare the medians of one session only, on a machine that does nothing else. Run it as root\n"
	"and as a user: both work, and differ. A peer that does not work here is listed with its error.";

const struct example bench_examples[] = {
	{"cordon bench", "cordon against the bare program"},
	{"cordon bench --peers --markdown", "and against the others, for a document"},
	{"cordon bench --layers --peers --runs 50", "what a snapshot and a rollback cost"},
	{"cordon bench --only cordon --only bwrap --runs 1000", "two of them, more closely"},
	{0},
};

/* What the figures depend on besides the candidates. */
struct session {
	struct utsname host;
	long cpus;
	double load_before[3], load_after[3];
	uint64_t runs;
	size_t rounds; /* done */
	double cordon; /* its median, 0: not measured */
};

struct figures {
	double median, p10, p90, min;
};

/* ---- signals ----------------------------------------------------------------------------------------------------------------- */

/* The only state that a handler can reach. */
static volatile sig_atomic_t last_signal, signal_count;

static void on_signal(int signo)
{
	last_signal = signo;
	signal_count++;
}

int bench_interrupted(void)
{
	return signal_count;
}

/* Candidates get the default back by their exec. */
static void catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	const struct sigaction action = {.sa_handler = on_signal};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

/* ---- measuring --------------------------------------------------------------------------------------------------------------- */

static void measure(struct bench *b, struct candidate *c)
{
	struct cordon_error err = {0};
	double ms;

	if (bench_run(b, c, &ms, &err) == 0) {
		c->ms[c->count++] = ms;
	} else if (!bench_interrupted()) {
		c->failures++;
		c->error = err;
	}
}

/* Another order in each round (Fisher and Yates): nobody always runs in the wake of the same other. */
static void shuffle(size_t *order, size_t count, unsigned *seed)
{
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count; i > 1; i--) {
		size_t k = (size_t)rand_r(seed) % i, swapped = order[i - 1];

		order[i - 1] = order[k];
		order[k] = swapped;
	}
}

static int run_rounds(struct bench *b, struct session *s, struct cordon_error *err)
{
	size_t order[BENCH_CANDIDATES_MAX];
	unsigned seed = 1; /* the same order in each session */
	bool show = isatty(STDERR_FILENO);

	for (size_t i = 0; i < b->count; i++)
		if (b->candidates[i].error.code == CORDON_OK && !(b->candidates[i].ms = calloc(s->runs, sizeof(double))))
			return err_sys(err, "cannot keep %llu figures", (unsigned long long)s->runs);
	for (; s->rounds < s->runs && !bench_interrupted(); s->rounds++) {
		if (show && s->rounds % 10 == 0)
			fprintf(stderr, "\r\033[Kround %zu of %llu", s->rounds, (unsigned long long)s->runs);
		shuffle(order, b->count, &seed);
		for (size_t i = 0; i < b->count && !bench_interrupted(); i++)
			if (b->candidates[order[i]].ms)
				measure(b, &b->candidates[order[i]]);
	}
	if (show)
		fputs("\r\033[K", stderr);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static struct figures figures_of(const struct candidate *c)
{
	if (c->count == 0)
		return (struct figures){0};
	qsort(c->ms, c->count, sizeof(double), compare);
	size_t n = c->count, half = n / 2;
	return (struct figures){
		.median = n % 2 ? c->ms[half] : (c->ms[half - 1] + c->ms[half]) / 2,
		.p10 = c->ms[(n - 1) / 10],
		.p90 = c->ms[(n - 1) * 9 / 10],
		.min = c->ms[0],
	};
}

static void read_load(double load[3])
{
	char text[64];

	if (fs_read_small(-1, "/proc/loadavg", text, sizeof(text)) < 0 || sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
		load[0] = load[1] = load[2] = 0;
}

/* ---- output ------------------------------------------------------------------------------------------------------------------ */

static const char *who(void)
{
	return geteuid() ? "as an ordinary user" : "as root";
}

static void print_setting(const struct session *s)
{
	printf("Cold start of " BENCH_PROGRAM
	       ", %zu runs each, alternating, %s. Linux %s, %ld CPUs; load %.2f before, %.2f after; cordon %s.\n",
	       s->rounds, who(), s->host.release, s->cpus, s->load_before[0], s->load_after[0], cordon_version());
}

/* How long cordon takes, as a multiple of what this one takes. */
static void format_ratio(const struct session *s, const struct figures *f, char *text, size_t size)
{
	if (s->cordon > 0 && f->median > 0)
		snprintf(text, size, "%.2fx", s->cordon / f->median);
	else
		snprintf(text, size, "-");
}

static void print_trouble(const struct candidate *c, const char *before)
{
	if (c->failures)
		printf("%s%s: %zu runs failed; the last: %s\n", before, c->name, c->failures, c->error.message);
}

static void print_text(const struct bench *b, const struct session *s)
{
	struct colours colours = colours_for(STDOUT_FILENO);

	print_setting(s);
	printf("\n%s%-15s %9s %9s %9s %11s%s\n", colours.bold, "ms", "median", "p10", "p90", "cordon/it", colours.off);
	for (size_t i = 0; i < b->count; i++) {
		const struct candidate *c = &b->candidates[i];
		struct figures f = figures_of(c);
		char ratio[32];

		if (!c->ms) {
			printf("%s%-15s%s %s\n", colours.bad, c->name, colours.off, c->error.message);
			continue;
		}
		format_ratio(s, &f, ratio, sizeof(ratio));
		printf("%s%-15s%s %9.2f %9.2f %9.2f %11s\n", colours.name, c->name, colours.off, f.median, f.p10, f.p90, ratio);
	}
	puts("");
	for (size_t i = 0; i < b->count; i++) {
		const struct candidate *c = &b->candidates[i];

		print_trouble(c, "");
		printf("%s%s%s%s%s%s: %s\n", colours.dim, c->name, *c->version ? " (" : "", c->version, *c->version ? ")" : "", colours.off,
		       c->how);
	}
}

static void print_markdown(const struct bench *b, const struct session *s)
{
	print_setting(s);
	puts("\n| candidate | median ms | p10 | p90 | cordon ÷ it | version |\n|---|--:|--:|--:|--:|---|");
	for (size_t i = 0; i < b->count; i++) {
		const struct candidate *c = &b->candidates[i];
		struct figures f = figures_of(c);
		char ratio[32];

		format_ratio(s, &f, ratio, sizeof(ratio));
		if (c->ms)
			printf("| %s | %.2f | %.2f | %.2f | %s | %s |\n", c->name, f.median, f.p10, f.p90, ratio, c->version);
		else
			printf("| %s | – | – | – | – | %s |\n", c->name, c->version);
	}
	puts("");
	for (size_t i = 0; i < b->count; i++) {
		const struct candidate *c = &b->candidates[i];

		if (c->ms)
			printf("- %s: %s\n", c->name, c->how);
		else
			printf("- %s: does not work here: %s\n", c->name, c->error.message);
		print_trouble(c, "- ");
	}
}

static void put_load(struct json *j, const char *key, const double load[3])
{
	json_key(j, key);
	json_array(j);
	for (int i = 0; i < 3; i++)
		json_double(j, load[i]);
	json_end(j);
}

static void put_candidate(struct json *j, const struct candidate *c, const struct session *s)
{
	struct figures f = figures_of(c);

	json_object(j);
	json_kstr(j, "name", c->name);
	json_kstr(j, "version", *c->version ? c->version : NULL);
	json_kstr(j, "how", c->how);
	json_kint(j, "runs", (int64_t)c->count);
	json_kint(j, "failures", (int64_t)c->failures);
	if (c->count) {
		json_kdouble(j, "median_ms", f.median);
		json_kdouble(j, "p10_ms", f.p10);
		json_kdouble(j, "p90_ms", f.p90);
		json_kdouble(j, "min_ms", f.min);
	}
	json_key(j, "cordon_ratio");
	if (s->cordon > 0 && f.median > 0)
		json_double(j, s->cordon / f.median);
	else
		json_null(j);
	json_kstr(j, "error", c->error.code == CORDON_OK ? NULL : c->error.message);
	json_end(j);
}

static int print_json(const struct bench *b, const struct session *s)
{
	_cleanup_buf_ struct buf out = {0};
	struct json j = {.out = &out};

	json_object(&j);
	json_kstr(&j, "benchmark", "cold_start");
	json_kstr(&j, "program", BENCH_PROGRAM);
	json_kstr(&j, "cordon", cordon_version());
	json_kint(&j, "uid", geteuid());
	json_kstr(&j, "kernel", s->host.release);
	json_kint(&j, "cpus", s->cpus);
	json_kint(&j, "rounds", (int64_t)s->rounds);
	put_load(&j, "load_before", s->load_before);
	put_load(&j, "load_after", s->load_after);
	json_key(&j, "candidates");
	json_array(&j);
	for (size_t i = 0; i < b->count; i++)
		put_candidate(&j, &b->candidates[i], s);
	json_end(&j);
	json_end(&j);
	return out.failed || puts(out.data) < 0 ? -1 : 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static bool wanted(const void *arg, const char *name, bool peer)
{
	const struct bench_flags *flags = arg;
	return flags->only.count ? strlist_has(&flags->only, name) : !peer || flags->peers;
}

static int check_flags(const struct bench_flags *flags, uint64_t *runs, struct cordon_error *err)
{
	size_t count = 0;

	while (bench_names[count])
		count++;
	for (size_t i = 0; i < flags->only.count; i++) {
		const char *name = flags->only.items[i], *near = nearest_word(name, bench_names, count);
		bool known = false;

		for (size_t k = 0; k < count; k++)
			known = known || strcmp(name, bench_names[k]) == 0;
		if (known)
			continue;
		err_set(err, CORDON_ERR_INPUT, "--only: no candidate is called '%s'%s%s%s", name, near ? " (did you mean " : "",
		        near ? near : "", near ? "?)" : "");
		return err_hint(err, "bare, cordon, bwrap, crun, crun-lean, crun-no-cgroup, runc, runc-lean, firejail");
	}
	*runs = RUNS_DEFAULT;
	if (flags->runs && units_parse_count(flags->runs, 1, RUNS_MAX, runs, err) < 0)
		return err_wrap(err, "--runs");
	if (flags->json && flags->markdown)
		return err_set(err, CORDON_ERR_INPUT, "--json and --markdown exclude each other");
	return 0;
}

static int layers_and_report(const struct bench_flags *flags, uint64_t runs, struct cordon_error *err)
{
	uint64_t files = 10000, depth = 0;
	if (flags->files && units_parse_count(flags->files, 2300, 1000000, &files, err) < 0)
		return err_wrap(err, "--files");
	if (flags->depth && units_parse_count(flags->depth, 0, 1000, &depth, err) < 0)
		return err_wrap(err, "--depth");
	if (flags->json)
		return err_set(err, CORDON_ERR_INPUT, "--layers prints a table or, with --markdown, a document");
	catch_signals();
	return bench_layers(
		&(struct bench_layers_options){
			.runs = runs, .files = files, .depth = depth, .peers = flags->peers, .markdown = flags->markdown},
		err);
}

static int bench_and_report(const struct bench_flags *flags, uint64_t runs, struct cordon_error *err)
{
	struct session s = {.cpus = sysconf(_SC_NPROCESSORS_ONLN), .runs = runs};
	struct bench b;
	int r;

	catch_signals();
	uname(&s.host);
	read_load(s.load_before);
	r = bench_prepare(&b, wanted, flags, err);
	if (r == 0)
		r = run_rounds(&b, &s, err);
	read_load(s.load_after);
	for (size_t i = 0; r == 0 && i < b.count; i++) {
		if (strcmp(b.candidates[i].name, "cordon") != 0)
			continue;
		s.cordon = figures_of(&b.candidates[i]).median;
		if (b.candidates[i].error.code != CORDON_OK) {
			*err = b.candidates[i].error;
			r = bench_interrupted() ? 0 : -1;
		}
	}
	if (r == 0 && s.rounds == 0)
		; /* interrupted before there was anything to tell */
	else if (r == 0 && flags->json)
		r = print_json(&b, &s) < 0 ? err_set(err, CORDON_ERR_SYSTEM, "cannot write the result") : 0;
	else if (r == 0)
		(flags->markdown ? print_markdown : print_text)(&b, &s);
	bench_clean_up(&b);
	return r;
}

int cmd_bench(int argc, char **argv)
{
	const struct command *command = command_find("bench");
	struct bench_flags flags = {0};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	uint64_t runs;
	int status = EXIT_OK;

	options_parse(command, argc, argv, &flags, NULL, &parsed);
	if (options_accept(command, &parsed, &status)) {
		if (parsed.first < argc)
			err_set(&err, CORDON_ERR_INPUT, "unexpected argument '%s'", argv[parsed.first]);
		else if (check_flags(&flags, &runs, &err) == 0)
			(flags.layers ? layers_and_report : bench_and_report)(&flags, runs, &err);
		status = EXIT_OK;
		if (err.code != CORDON_OK && !bench_interrupted()) {
			report_error("cordon bench", &err);
			status = EXIT_CORDON_FAILED;
		} else if (bench_interrupted()) {
			status = EXIT_SIGNAL + last_signal;
		}
	}
	strlist_free(&flags.only);
	return status;
}
