/* SPDX-License-Identifier: Apache-2.0 */
/* What `cordon bench` compares: ways to run /bin/true once, from nothing. */
#ifndef CORDON_CMD_BENCH_H
#define CORDON_CMD_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "policy/policy.h"

#define BENCH_PROGRAM "/bin/true"
#define BENCH_CANDIDATES_MAX 16
#define BENCH_ID "cordon-bench-0000000000-0000000000" /* room for the id of a container */
#define BENCH_UNIFIED "/sys/fs/cgroup/unified"

struct candidate {
	const char *name;
	const char *program;       /* path */
	struct strlist argv;       /* argv[0] included */
	bool unique_id;            /* the last argument has to be another one each time */
	int mount_ns;              /* run it in this mount namespace, -1: in ours */
	const char *how;           /* the configuration, for people */
	char version[96];          /* empty: none */
	struct cordon_error error; /* code CORDON_OK: it works; else it was not measured */
	double *ms;                /* one per run that succeeded */
	size_t count;
	size_t failures; /* runs that failed although the first ones worked; `error` then tells of the last */
};

struct bench {
	char dir[128]; /* for bundles and states of runtimes; empty until it is needed */
	int errors;    /* a memfd: what a candidate says on stderr */
	int own_ns;    /* our own mount namespace; -1 until it is needed */
	unsigned serial;
	struct candidate candidates[BENCH_CANDIDATES_MAX];
	size_t count;
};

/* All names, also of what is not installed here; NULL-terminated. */
extern const char *const bench_names[];

/*
 * Fills in the candidates that were asked for (wanted(arg, name)), makes what they need, and tries each once. What does not work stays in
 * the list with its error. Fails only if cordon itself cannot go on.
 */
int bench_prepare(struct bench *b, bool (*wanted)(const void *arg, const char *name, bool peer), const void *arg, struct cordon_error *err);

/* Removes everything that was made. */
void bench_clean_up(struct bench *b);

/* Runs a candidate once, by posix_spawn and waitpid; the time between in *ms. Fails if it does not exit with status 0. */
int bench_run(struct bench *b, struct candidate *c, double *ms, struct cordon_error *err);

struct bench_layers_options {
	size_t runs, files, depth;
	bool peers, markdown;
};
/* Measures snapshots and rollbacks, and prints. */
int bench_layers(const struct bench_layers_options *o, struct cordon_error *err);

/* ---- for the files of the candidates ----------------------------------------------------------------------------------------- */

/* /bin, /lib and so on: links into /usr on most hosts, directories on others. NULL-terminated, without the slash. */
extern const char *const bench_top_dirs[];
/* 1: a link, to `target`; 0: a directory; -1: not there. */
int bench_top_link(const char *name, char *target, size_t size);

int bench_add_words(struct strlist *argv, const char *const *words, struct cordon_error *err);

/* The command line for crun or runc, with a global option (or NULL), and a bundle for it; lean: without filter and limits. */
int bench_oci_argv(struct bench *b, struct candidate *c, const char *option, bool lean, struct cordon_error *err);

/* Makes the candidate run where BENCH_UNIFIED is not mounted. CORDON_ERR_INPUT: that is of no use on this host. */
int bench_private_view(struct bench *b, struct candidate *c, struct cordon_error *err);

/* How many signals asked us to end: after one the current run is waited for, after two it is killed. */
int bench_interrupted(void);

#endif
