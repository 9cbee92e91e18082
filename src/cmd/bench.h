/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cordon bench`: a table of measurements, each of which fills in a section of rows, one row per candidate (bare, cordon, bwrap …).
 *
 *   bench.c           the command, and the table of measurements
 *   bench_section.c   rows, rounds in shuffled order, quantiles
 *   bench_report.c    text and Markdown; bench_json.c: JSON; bench_targets.c: what the figures should be
 *   bench_compare.c   two files of JSON (cordon-full)
 *   bench_spawn.c     starts the programs that are measured
 *   bench_peers.c     the other sandboxes; bench_oci.c: bundles for crun, runc, runsc; bench_engine.c: docker and podman
 *   bench_library.c   sandboxes through libcordon
 *   bench_start.c     cold, warm, static, second, python   bench_load.c   rate, burst   bench_memory.c   memory, density   bench_layers.c   snapshot
 *   bench_noop.c      the program that does nothing
 */
#ifndef CORDON_CMD_BENCH_H
#define CORDON_CMD_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"

#define BENCH_PROGRAM "/bin/true"
#define BENCH_ROWS_MAX 24
#define BENCH_SECTIONS_MAX 16
#define BENCH_ID "cordon-bench-0000000000-0000000000" /* room for the id of a container */
#define BENCH_UNIFIED "/sys/fs/cgroup/unified"

struct bench;
struct bench_row;
struct bench_section;

/* ---- programs that are started ------------------------------------------------------------------------------------------------ */

struct bench_command {
	const char *program; /* path */
	struct strlist argv; /* argv[0] included */
	int id_at;           /* this argument, a copy of BENCH_ID at first, has to be another one each time; 0: none */
	int mount_ns;        /* run it in this mount namespace, -1: in ours */
};
void bench_command_free(struct bench_command *c);
int bench_add_words(struct strlist *argv, const char *const *words, struct cordon_error *err);

/* Starts it, waits, and says how long that took. Fails if it does not exit with status 0, with the first line that it said on stderr. */
int bench_spawn_once(struct bench *b, struct bench_command *c, double *ms, struct cordon_error *err);
/* Only starts it: its pid, or -1. Standard output and error are `out` and `errors`, -1: /dev/null. */
pid_t bench_spawn(struct bench *b, struct bench_command *c, int out, int errors, struct cordon_error *err);
/* Waits for a program of bench_spawn(); errors: where it wrote, for the message; -1: nowhere. */
int bench_spawn_wait(pid_t pid, int errors, struct cordon_error *err);
/* Runs it and puts the first line that it prints into `line`; NULL: away. */
int bench_spawn_line(struct bench *b, struct bench_command *c, char *line, size_t size, struct cordon_error *err);
/* The same for words[0], a path, and its arguments. */
int bench_spawn_words(struct bench *b, const char *const *words, char *line, size_t size, struct cordon_error *err);

/* ---- figures ------------------------------------------------------------------------------------------------------------------ */

struct bench_row {
	char name[32];
	const char *how; /* the configuration, for people; may be NULL */
	char version[96];
	/* One run and its figure; NULL: another row's run fills this one in as well. */
	int (*once)(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err);
	void *context; /* for once */
	struct bench_command command;
	double *values;
	size_t count, room;
	size_t failures;           /* runs that failed although the first ones worked; `error` tells of the last */
	double spent;              /* ms */
	struct cordon_error error; /* with no value at all: why this does not work here */
};

struct bench_figures {
	double p50, p10, p90, p99, min, max;
};

struct bench_measure {
	const char *name; /* as on the command line */
	const char *title;
	const char *unit;
	unsigned decimals;
	bool more;          /* is better */
	const char *method; /* a sentence or two */
	int (*run)(struct bench *b, struct bench_section *s, struct cordon_error *err);
};
extern const struct bench_measure bench_measures[];
extern const size_t bench_measure_count;

struct bench_section {
	const struct bench_measure *measure;
	struct bench_row rows[BENCH_ROWS_MAX];
	size_t count;
	char note[512];            /* what else there is to know; may be empty */
	struct cordon_error error; /* why there is nothing, or not all */
};

/* A row at the end; NULL when there is no place left. */
struct bench_row *bench_row_add(struct bench_section *s, const char *name, const char *how);
void bench_row_value(struct bench_row *r, double value);
void bench_row_failed(struct bench_row *r, const struct cordon_error *err);
const struct bench_row *bench_row_find(const struct bench_section *s, const char *name);
struct bench_figures bench_figures(const struct bench_row *r); /* all 0 without a value */

/* Runs every row that works `rounds` times, in another order in each round; stops when interrupted. */
void bench_rounds(struct bench *b, struct bench_section *s, size_t rounds);

/* ---- the session -------------------------------------------------------------------------------------------------------------- */

struct bench_options {
	size_t runs, files, depth, density;
	bool peers;
	const struct strlist *only; /* candidates; empty: all */
};

struct bench {
	struct bench_options o;
	char dir[96];     /* everything that is made lies here */
	int dir_fd;       /* the same */
	char tools[128];  /* a directory with `noop`, a static program that does nothing */
	int errors;       /* a memfd: what a candidate says on stderr */
	unsigned serial;  /* of ids */
	bool bundles;     /* the root file system for the peers is there */
	pid_t engine;     /* dockerd, 0: not started */
	bool engine_dead; /* it would not start; why: */
	struct cordon_error engine_error;
	bool podman_image;
	long cpus;
	double load_before[3], load_after[3];
	struct bench_section *sections[BENCH_SECTIONS_MAX];
	size_t count;
};

bool bench_wanted(const struct bench *b, const char *candidate, bool peer);
double bench_now_ms(void);
/* "round 3 of 200" on a terminal; NULL wipes it away. */
void bench_progress(const char *what, size_t done, size_t of);
/* How many signals asked us to end: after one the current run is waited for, after two it is killed. */
int bench_interrupted(void);

/* ---- reports ------------------------------------------------------------------------------------------------------------------ */

void bench_print_text(const struct bench *b);
void bench_print_markdown(const struct bench *b);
void bench_put_json(const struct bench *b, struct buf *out);
/* The kernel's version without what its maker adds, "6.1.0". */
const char *bench_kernel(char *text, size_t size);
/* "root", "user": who is measured here. */
const char *bench_who(void);
/* Memory of this machine in bytes. */
uint64_t bench_machine_memory(void);

struct bench_verdict {
	const char *what, *unit;
	double figure, limit;
	bool at_least; /* the limit is a lower one */
	bool measured, met;
};
/* The target at this place of the table; false: there are no more. */
bool bench_target(const struct bench *b, size_t at, struct bench_verdict *v);

/* cordon bench compare A B (in cordon-full): 1 if something is worse, 0 if not. */
int bench_compare(const char *before, const char *after, double threshold, bool json, struct cordon_error *err);

/* ---- candidates --------------------------------------------------------------------------------------------------------------- */

/* All names, also of what is not installed here; NULL-terminated. */
extern const char *const bench_names[];

/*
 * Rows for bare, cordon (cold) and the peers that are wanted, which all run `payload` in a sandbox that they make for it; each was tried twice. Some
 * may be left out.
 */
enum { BENCH_NO_CORDON = 1, BENCH_NO_PEERS = 2 };
void bench_add_candidates(struct bench *b, struct bench_section *s, const char *const *payload, int without);
/* Rows for the peers that can start a second command in a container: `payload` in one that was started here. Ended by bench_end_held(). */
void bench_add_held(struct bench *b, struct bench_section *s, const char *const *payload);
void bench_end_held(struct bench *b, struct bench_section *s);
/* A word among the arguments of what the engine runs for the container behind such a row, and the file with its pid (the file: crun, runc and runsc only); false: there is none. */
bool bench_held_of(const struct bench_row *r, const char **id, const char **pid_file);

/* ---- for the files of the candidates ------------------------------------------------------------------------------------------ */

/* /bin, /lib and so on: links into /usr on most hosts, directories on others. NULL-terminated, without the slash. */
extern const char *const bench_top_dirs[];
/* 1: a link, to `target`; 0: a directory; -1: not there. */
int bench_top_link(const char *name, char *target, size_t size);

/* A root file system without anything but what the host's /usr gives, at DIR/rootfs; made once. */
int bench_rootfs(struct bench *b, struct cordon_error *err);

enum bench_strength {
	BENCH_FULL, /* cordon's filter and, as root, limits */
	BENCH_LEAN, /* neither */
	BENCH_NEW,  /* gVisor has a kernel of its own between: no filter of ours, no user namespace */
};
/* A bundle for crun, runc or runsc that runs `payload`; its directory. */
int bench_bundle(struct bench *b, const char *const *payload, enum bench_strength strength, char dir[160], struct cordon_error *err);

/* Makes the command run where BENCH_UNIFIED is not mounted. CORDON_ERR_INPUT: that is of no use on this host. */
int bench_private_view(struct bench_command *c, struct cordon_error *err);

/* The beginnings of command lines for an engine that was started, or only set up, here, with an image of DIR/rootfs called "cordon-bench". */
int bench_docker(struct bench *b, struct strlist *argv, struct cordon_error *err);
int bench_podman(struct bench *b, struct strlist *argv, struct cordon_error *err);
void bench_engine_stop(struct bench *b);

/* ---- the library ---------------------------------------------------------------------------------------------------------------- */

/* A context, a policy and what sandboxes are made with. */
struct bench_library {
	struct cordon *context;
	struct cordon_policy *policy;
	struct cordon_sandbox_options options;
	struct cordon_mount mount; /* options.mounts points here where there is one */
	unsigned parked;           /* how many are kept parked, 0: every sandbox is made when it is asked for */
	const char *language;      /* with an interpreter of it ready; NULL: without */
};
/* tools: this directory of the host is shown at BENCH_TOOLS; NULL: none is. */
int bench_library_open(struct bench_library *l, unsigned parked, const char *language, const char *tools, struct cordon_error *err);
void bench_library_close(struct bench_library *l);
/* Waits until all that should be parked are. */
int bench_library_refill(struct bench_library *l, struct cordon_error *err);
/* A sandbox, one command in it, and its removal; when the command had ended, and when all had. Any thread may call it. */
int bench_library_run(struct bench_library *l, const struct cordon_exec_options *exec, double *answered, double *gone,
                      struct cordon_error *err);
/* One command; fails unless it succeeds. */
int bench_library_exec(struct cordon_sandbox *s, const struct cordon_exec_options *exec, struct cordon_error *err);
#define BENCH_TOOLS "/opt/cordon-bench"
extern const struct cordon_exec_options bench_exec_true;

/* ---- measurements ------------------------------------------------------------------------------------------------------------- */

int bench_cold(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_python(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_warm(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_static(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_second(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_rate(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_burst(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_memory(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_density(struct bench *b, struct bench_section *s, struct cordon_error *err);
int bench_snapshot(struct bench *b, struct bench_section *s, struct cordon_error *err);

#endif
