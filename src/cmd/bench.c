/* SPDX-License-Identifier: Apache-2.0 */
/* cordon bench: the command, and what it can measure. */
#include "cmd/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cordon.h"

#define RUNS_DEFAULT 200
#define RUNS_MAX 100000

struct bench_flags {
	bool peers, json, markdown;
	const char *runs, *files, *depth, *density, *save, *threshold;
	struct strlist only;
};

#define FLAG(member) offsetof(struct bench_flags, member)

/* For the table of commands (main.c), too: help and completion find them there. */
/* clang-format off */
const struct option_def bench_options[] = {
	{.name = "runs", .argument = "N", .offset = FLAG(runs), .help = "runs of each candidate (default 200)"},
	{.name = "peers", .offset = FLAG(peers),
	 .help = "compare with bwrap, crun, runc, firejail, nspawn, runsc, podman, docker, cp and git, where installed"},
	{.name = "only", .argument = "NAME", .offset = FLAG(only), .repeat = true, .complete = COMPLETE_WORDS,
	 .words = "bare cordon bwrap crun crun-lean crun-no-cgroup runc runc-lean firejail nspawn runsc podman docker",
	 .help = "measure this candidate; may be repeated"},
	{.name = "files", .argument = "N", .offset = FLAG(files), .help = "snapshot: files of 20 KB in the workspace (default 10000)"},
	{.name = "depth", .argument = "N", .offset = FLAG(depth), .help = "snapshot: layers below (default 0)"},
	{.name = "density", .argument = "N", .offset = FLAG(density), .help = "density: sandboxes to park at most (default 1000)"},
	{.name = "json", .offset = FLAG(json), .help = "print JSON"},
	{.name = "markdown", .offset = FLAG(markdown), .help = "print a part of a document"},
	{.name = "save", .argument = "FILE", .offset = FLAG(save), .complete = COMPLETE_FILE, .help = "write JSON to FILE as well, for compare"},
	{.name = "threshold", .argument = "PERCENT", .offset = FLAG(threshold), .help = "compare: what is less is no difference (default 10)"},
	{0},
};

const char bench_about[] =
	"Measures, in turn with the bare program and other sandboxes, and shows medians and their spread. Without MEASUREMENT: all of\n"
	"  cold      /bin/true from the command line, in a sandbox that did not exist before\n"
	"  warm      /bin/true in a parked sandbox, through the library\n"
	"  static    the same for a program that does nothing\n"
	"  second    a second command in a sandbox\n"
	"  python    a line of Python, from an interpreter that is ready\n"
	"  rate      sandboxes per second\n"
	"  burst     100 requests at once\n"
	"  memory    what a parked sandbox takes\n"
	"  density   how many fit in 4 GiB\n"
	"  snapshot  naming a state of many files and going back to it\n"
	"Compare the figures of one session only, on a machine that does nothing else; run it as root and as a user: both work, and\n"
	"differ. A peer that does not work here is listed with its error. Everything it makes lies in one temporary directory.\n"
	"\n"
	"compare says which medians of B are worse than in A by more than PERCENT and by more than both spread (p10 to p90); the exit\n"
	"status is then 1.";

const struct example bench_examples[] = {
	{"cordon bench", "everything, against the bare program"},
	{"cordon bench --peers --markdown cold python", "two of them against the others, for a document"},
	{"cordon bench snapshot --peers --runs 50", "what a snapshot and a rollback cost"},
	{"cordon bench cold --only cordon --only bwrap --runs 1000", "two candidates, more closely"},
	{"cordon bench --save before.json; ...; cordon bench --save after.json", "figures before and after a change"},
	{"cordon bench compare before.json after.json", "... and what became slower"},
	{0},
};

const struct bench_measure bench_measures[] = {
	{"cold", "Cold start of " BENCH_PROGRAM, "ms", 2, false,
	 "From the command line, in a sandbox that did not exist before and does not afterwards, by the wall clock from fork to wait.", bench_cold},
	{"warm", "Warm start of " BENCH_PROGRAM, "ms", 3, false,
	 "Through libcordon in one process, with sandboxes parked; bare: vfork, exec and wait in the same process.", bench_warm},
	{"static", "Warm start of a program that does nothing", "ms", 3, false,
	 "As above with a static program without a C library that exits at once: what the sandbox itself takes.", bench_static},
	{"second", "Second command in a sandbox", "ms", 3, false,
	 "A command in a sandbox that is there and has run others; peers: exec in a container that runs.", bench_second},
	{"python", "Python one-liner", "ms", 3, false,
	 "python3 -c pass: cordon takes the code to a parked interpreter, the others start one, in a new sandbox.", bench_python},
	{"rate", "Sandboxes per second", "per s", 0, true, "Made, used for " BENCH_PROGRAM " and removed, twice as many at a time as there are CPUs.", bench_rate},
	{"burst", "Burst of 100", "ms", 1, false, "More requests at once than sandboxes are parked: the rest is made cold, and none may fail.", bench_burst},
	{"memory", "Memory of a parked sandbox", "KiB", 0, false, "Private memory of its processes, and what the machine has less.", bench_memory},
	{"density", "Parked sandboxes in 4 GiB", "", 0, true, "Parked until MemAvailable has shrunk by 4 GiB, or as many as --density says.", bench_density},
	{"snapshot", "Snapshot and rollback", "ms", 2, false,
	 "20 files are edited, 10 made, 5 removed, one changes its mode and a directory goes; then the state before is restored, through the library.", bench_snapshot},
};
/* clang-format on */
const size_t bench_measure_count = ARRAY_SIZE(bench_measures);
_Static_assert(ARRAY_SIZE(bench_measures) <= BENCH_SECTIONS_MAX, "more measurements than places");

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

/* ---- the session ------------------------------------------------------------------------------------------------------------- */

bool bench_wanted(const struct bench *b, const char *candidate, bool peer)
{
	if (!b->o.only->count)
		return !peer || b->o.peers;
	return strlist_has(b->o.only, candidate) || (strncmp(candidate, "cordon-", 7) == 0 && strlist_has(b->o.only, "cordon"));
}

static void read_load(double load[3])
{
	char text[64];

	if (fs_read_small(-1, "/proc/loadavg", text, sizeof(text)) < 0 || sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
		load[0] = load[1] = load[2] = 0;
}

extern const char bench_noop_blob[], bench_noop_blob_end[];

/* Its own directory and its own $CORDON_HOME: a benchmark is no part of anybody's audit. Podman, too, has no other place for what it writes. */
static int session_open(struct bench *b, struct cordon_error *err)
{
	const char *base = getenv("TMPDIR");
	static const char *const places[] = {"HOME", "TMPDIR", "XDG_RUNTIME_DIR"};
	char home[128];

	b->dir_fd = -1;
	b->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if ((b->errors = memfd_create("cordon-bench", MFD_CLOEXEC)) < 0)
		return err_sys(err, "memfd_create");
	if (!base || *base != '/' || strlen(base) > 64)
		base = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp"; /* a disk, where there is one */
	snprintf(b->dir, sizeof(b->dir), "%s/cordon-bench-XXXXXX", base);
	if (!mkdtemp(b->dir)) {
		err_sys(err, "cannot create %s", b->dir);
		b->dir[0] = '\0';
		return -1;
	}
	/* the root of a container is another uid, and has to get at its root file system */
	b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->dir_fd < 0 || fchmod(b->dir_fd, 0755) < 0)
		return err_sys(err, "%s", b->dir);
	snprintf(home, sizeof(home), "%s/home", b->dir);
	setenv("CORDON_HOME", home, 1);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		setenv(places[i], b->dir, 1);
	snprintf(b->tools, sizeof(b->tools), "%s/tools", b->dir);
	if (fs_mkdirs(b->dir_fd, "tools", 0755, err) < 0)
		return -1;
	return fs_write_file(b->dir_fd, "tools/noop", bench_noop_blob, (size_t)(bench_noop_blob_end - bench_noop_blob), 0755, err);
}

static void session_close(struct bench *b)
{
	bench_engine_stop(b);
	for (size_t i = 0; i < b->count; i++) {
		for (size_t k = 0; k < b->sections[i]->count; k++) {
			bench_command_free(&b->sections[i]->rows[k].command);
			free(b->sections[i]->rows[k].values);
		}
		free(b->sections[i]);
	}
	cleanup_fd(&b->errors);
	cleanup_fd(&b->dir_fd);
	_cleanup_fd_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*b->dir && root >= 0)
		fs_remove_tree(root, b->dir + 1, NULL);
}

static int measure_one(struct bench *b, const struct bench_measure *m, struct cordon_error *err)
{
	struct bench_section *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	s->measure = m;
	b->sections[b->count++] = s;
	if (m->run(b, s, &s->error) < 0 && s->error.code == CORDON_OK)
		err_set(&s->error, CORDON_ERR_SYSTEM, "failed");
	return 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static int find_word(const char *kind, const char *word, const char *const *words, size_t count, struct cordon_error *err)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(word, words[i]) == 0)
			return (int)i;
	const char *near = nearest_word(word, words, count);
	err_set(err, CORDON_ERR_INPUT, "no %s is called '%s'%s%s%s", kind, word, near ? " (did you mean " : "", near ? near : "",
	        near ? "?)" : "");
	return err_hint(err, "cordon bench --help lists them");
}

static int check_flags(const struct bench_flags *flags, struct bench_options *o, struct cordon_error *err)
{
	const struct {
		const char *name, *text;
		uint64_t min, max;
		size_t *to;
	} numbers[] = {
		{"--runs", flags->runs, 1, RUNS_MAX, &o->runs},
		{"--files", flags->files, 2300, 1000000, &o->files},
		{"--depth", flags->depth, 0, 1000, &o->depth},
		{"--density", flags->density, 1, 100000, &o->density},
	};
	size_t count = 0;

	while (bench_names[count])
		count++;
	for (size_t i = 0; i < flags->only.count; i++)
		if (find_word("candidate", flags->only.items[i], bench_names, count, err) < 0)
			return err_wrap(err, "--only");
	*o = (struct bench_options){.runs = RUNS_DEFAULT, .files = 10000, .density = 1000, .peers = flags->peers, .only = &flags->only};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint64_t n;

		if (!numbers[i].text)
			continue;
		if (units_parse_count(numbers[i].text, numbers[i].min, numbers[i].max, &n, err) < 0)
			return err_wrap(err, "%s", numbers[i].name);
		*numbers[i].to = (size_t)n;
	}
	if (flags->json && flags->markdown)
		return err_set(err, CORDON_ERR_INPUT, "--json and --markdown exclude each other");
	return 0;
}

static int report(const struct bench *b, const struct bench_flags *flags, struct cordon_error *err)
{
	_cleanup_buf_ struct buf out = {0};

	bench_put_json(b, &out);
	buf_add_str(&out, "\n");
	if (out.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (flags->save && fs_write_file(AT_FDCWD, flags->save, out.data, out.len, 0644, err) < 0)
		return -1;
	if (flags->json)
		fputs(out.data, stdout);
	else if (flags->markdown)
		bench_print_markdown(b);
	else
		bench_print_text(b);
	return fflush(stdout) ? err_sys(err, "cannot write the result") : 0;
}

/* Fails when nothing at all could be measured of cordon; a section that could not says so. */
static int bench_and_report(const struct bench_flags *flags, const struct bench_options *o, const bool *chosen, struct cordon_error *err)
{
	struct bench b = {.o = *o};
	size_t failed = 0;

	catch_signals();
	read_load(b.load_before);
	int r = session_open(&b, err);
	for (size_t i = 0; r == 0 && i < bench_measure_count && !bench_interrupted(); i++)
		if (chosen[i])
			r = measure_one(&b, &bench_measures[i], err);
	read_load(b.load_after);
	for (size_t i = 0; i < b.count; i++)
		failed += b.sections[i]->error.code != CORDON_OK;
	if (r == 0 && b.count)
		r = report(&b, flags, err);
	if (r == 0 && failed && !bench_interrupted()) {
		for (size_t i = b.count; i > 0; i--)
			if (b.sections[i - 1]->error.code != CORDON_OK)
				*err = b.sections[i - 1]->error;
		r = err_wrap(err, "%zu of %zu measurements failed; the first", failed, b.count);
	}
	session_close(&b);
	return r;
}

static int choose(int argc, char **argv, bool *chosen, struct cordon_error *err)
{
	const char *names[BENCH_SECTIONS_MAX];

	for (size_t i = 0; i < bench_measure_count; i++) {
		names[i] = bench_measures[i].name;
		chosen[i] = argc == 0;
	}
	for (int i = 0; i < argc; i++) {
		int at = find_word("measurement", argv[i], names, bench_measure_count, err);

		if (at < 0)
			return -1;
		chosen[at] = true;
	}
	return 0;
}

#ifdef CORDON_FULL
static int compare(int argc, char **argv, const struct bench_flags *flags, int *status, struct cordon_error *err)
{
	uint64_t percent = 10;

	if (argc != 2)
		return err_set(err, CORDON_ERR_INPUT, "compare takes two files of cordon bench --json");
	if (flags->threshold && units_parse_count(flags->threshold, 0, 10000, &percent, err) < 0)
		return err_wrap(err, "--threshold");
	int worse = bench_compare(argv[0], argv[1], (double)percent, flags->json, err);
	*status = worse > 0 ? EXIT_WEAKER : EXIT_OK;
	return worse < 0 ? -1 : 0;
}
#endif

int cmd_bench(int argc, char **argv)
{
	const struct command *command = command_find("bench");
	struct bench_flags flags = {0};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	struct bench_options o;
	bool chosen[BENCH_SECTIONS_MAX];
	int status = EXIT_OK;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "compare") == 0)
#ifdef CORDON_FULL
			break;
#else
			return cmd_full(argc, argv); /* it reads JSON */
#endif
	options_parse(command, argc, argv, &flags, NULL, &parsed);
	if (options_accept(command, &parsed, &status)) {
		int words = argc - parsed.first;
		char **word = argv + parsed.first;
#ifdef CORDON_FULL
		if (words && strcmp(*word, "compare") == 0)
			compare(words - 1, word + 1, &flags, &status, &err);
		else
#endif
			if (choose(words, word, chosen, &err) == 0 && check_flags(&flags, &o, &err) == 0)
			bench_and_report(&flags, &o, chosen, &err);
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
