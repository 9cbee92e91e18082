/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon bench --layers: what a snapshot and a rollback cost, against copying the tree and against git, over the same tree and the same
 * changes: 20 edits, 10 new files, 5 deletions, a chmod and a removed directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

#define FILES_PER_DIR 100
#define FILE_BYTES 20480
#define SLOW_RUNS 3 /* of what takes a second or more each */

static const char changes[] = "for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo x >>d$i/f0; done\n"
			      "for i in 0 1 2 3 4 5 6 7 8 9; do echo new >d$i/new; done\n"
			      "rm d20/f1 d20/f2 d20/f3 d20/f4 d20/f5 && chmod 600 d21/f1 && rm -r d22\n";

struct row {
	const char *name;
	double *ms;
	size_t count;
};

enum { ROW_SNAPSHOT, ROW_ROLLBACK, ROW_FAILED, ROW_COPY, ROW_GIT_SAVE, ROW_GIT_RESET, ROW_COUNT };

struct layers_bench {
	struct bench_layers_options o;
	char dir[128];
	int dir_fd;
	struct row rows[ROW_COUNT];
};

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void add(struct layers_bench *b, int row, double ms)
{
	if (b->rows[row].ms && b->rows[row].count < b->o.runs)
		b->rows[row].ms[b->rows[row].count++] = ms;
}

/* ---- the tree ---------------------------------------------------------------------------------------------------------------- */

static int make_tree(struct layers_bench *b, struct cordon_error *err)
{
	static char data[FILE_BYTES];
	uint64_t x = 88172645463325252ull; /* xorshift: contents that do not compress, the same each time */
	for (size_t i = 0; i < b->o.files; i++) {
		char path[64];
		if (i % FILES_PER_DIR == 0) {
			snprintf(path, sizeof(path), "tree/d%zu", i / FILES_PER_DIR);
			if (fs_mkdirs(b->dir_fd, path, 0755, err) < 0)
				return -1;
		}
		for (size_t k = 0; k + sizeof(x) <= sizeof(data); k += sizeof(x)) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(data + k, &x, sizeof(x));
		}
		snprintf(path, sizeof(path), "tree/d%zu/f%zu", i / FILES_PER_DIR, i % FILES_PER_DIR);
		if (fs_write_file(b->dir_fd, path, data, sizeof(data), 0644, err) < 0)
			return -1;
	}
	return 0;
}

/* A shell line in the bench's directory, without output; its time. */
static int shell(struct layers_bench *b, const char *line, double *ms, struct cordon_error *err)
{
	extern char **environ;
	char full[2048];
	snprintf(full, sizeof(full), "cd '%s' && %s", b->dir, line);
	char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, full, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status, r;
	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
	double begin = now_ms();
	r = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r) {
		errno = r;
		return err_sys(err, "cannot run sh");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (ms)
		*ms = now_ms() - begin;
	return status == 0 ? 0 : err_set(err, CORDON_ERR_SYSTEM, "failed: %.200s", line);
}

/* ---- cordon ------------------------------------------------------------------------------------------------------------------ */

/* A command inside; *beyond: what the transaction added after the command had ended. */
static int exec_inside(struct cordon_sandbox *s, const char *line, const char *on_failure, double *beyond, struct cordon_error *err)
{
	const char *const argv[] = {"sh", "-c", line, NULL};
	struct cordon_exec *e;
	double begin = now_ms();
	if (cordon_exec_start(
		    s, &(struct cordon_exec_options){.size = sizeof(struct cordon_exec_options), .argv = argv, .on_failure = on_failure},
		    &e, err) < 0)
		return -1;
	int r = cordon_exec_wait(e, err);
	if (r == 0 && beyond)
		*beyond = now_ms() - begin - cordon_exec_result(e)->duration_ms;
	cordon_exec_free(e);
	return r;
}

static int one_round(struct layers_bench *b, struct cordon_sandbox *s, const char *failing, bool count, struct cordon_error *err)
{
	char id[21];
	double begin = now_ms(), beyond;
	if (cordon_sandbox_snapshot(s, NULL, NULL, id, err) < 0)
		return -1;
	double saved = now_ms();
	if (exec_inside(s, changes, NULL, NULL, err) < 0)
		return -1;
	double changed = now_ms();
	if (cordon_sandbox_restore(s, id, err) < 0)
		return -1;
	double restored = now_ms();
	if (exec_inside(s, failing, "rollback", &beyond, err) < 0)
		return -1;
	if (count) {
		add(b, ROW_SNAPSHOT, saved - begin);
		add(b, ROW_ROLLBACK, restored - changed);
		add(b, ROW_FAILED, beyond);
	}
	return 0;
}

static int bench_sandbox(struct layers_bench *b, struct cordon_sandbox *s, struct cordon_error *err)
{
	char failing[sizeof(changes) + 16];
	snprintf(failing, sizeof(failing), "%sexit 1\n", changes);
	for (size_t i = 0; i < b->o.depth; i++) {
		char line[64];
		snprintf(line, sizeof(line), "echo %zu >layer", i);
		if (exec_inside(s, line, NULL, NULL, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < b->o.runs + 2 && !bench_interrupted(); i++) /* two to warm up */
		if (one_round(b, s, failing, i >= 2, err) < 0)
			return -1;
	return 0;
}

static int bench_cordon(struct layers_bench *b, struct cordon_error *err)
{
	struct cordon_sandbox *s = NULL;
	struct cordon *c = NULL;
	char tree[160], state[160], id[21];
	snprintf(tree, sizeof(tree), "%s/tree", b->dir);
	snprintf(state, sizeof(state), "%s/state", b->dir);
	setenv("CORDON_HOME", state, 1);
	int r = cordon_create(&(struct cordon_create_options){.size = sizeof(struct cordon_create_options), .workspace = tree}, id, err);
	if (r == 0)
		r = cordon_open(&c, err);
	if (r == 0)
		r = cordon_sandbox_open(c, id, &s, err);
	if (r == 0)
		r = bench_sandbox(b, s, err);
	cordon_sandbox_destroy(s);
	cordon_close(c);
	return r;
}

/* ---- the others -------------------------------------------------------------------------------------------------------------- */

static int bench_copy(struct layers_bench *b, struct cordon_error *err)
{
	double ms;
	for (int i = 0; i < SLOW_RUNS && !bench_interrupted(); i++) {
		if (shell(b, "cp -a tree copy", &ms, err) < 0 || shell(b, "rm -rf copy", NULL, err) < 0)
			return -1;
		add(b, ROW_COPY, ms);
	}
	return 0;
}

static int bench_git(struct layers_bench *b, struct cordon_error *err)
{
	static const char git[] = "cd tree && git -c user.name=bench -c user.email=bench@localhost -c commit.gpgsign=false ";
	char save[256], inside[sizeof(changes) + 32];
	double ms;
	if (access("/usr/bin/git", X_OK) < 0)
		return 0;
	snprintf(save, sizeof(save), "%s add -A && %s commit -q --allow-empty -m x", git, strstr(git, "git"));
	snprintf(inside, sizeof(inside), "cd tree && { %s}", changes);
	if (shell(b, "cd tree && git init -q .", NULL, err) < 0 || shell(b, save, NULL, err) < 0)
		return -1;
	for (int i = 0; i < SLOW_RUNS && !bench_interrupted(); i++) {
		if (shell(b, inside, NULL, err) < 0 || shell(b, save, &ms, err) < 0)
			return -1;
		add(b, ROW_GIT_SAVE, ms);
		if (shell(b, "cd tree && git reset -q --hard HEAD~1 && git clean -qfdx", NULL, err) < 0 ||
		    shell(b, inside, NULL, err) < 0 || shell(b, "cd tree && git reset -q --hard && git clean -qfdx", &ms, err) < 0)
			return -1;
		add(b, ROW_GIT_RESET, ms);
	}
	return 0;
}

/* ---- the report -------------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(struct row *r)
{
	if (!r->count)
		return 0;
	qsort(r->ms, r->count, sizeof(*r->ms), by_size);
	return r->ms[r->count / 2];
}

static void print_row(const struct layers_bench *b, const struct row *r, double m, double ratio)
{
	const double p90 = r->ms[r->count * 9 / 10];
	if (b->o.markdown)
		printf("| %s | %.2f | %.2f | %.1f |\n", r->name, m, p90, ratio);
	else
		printf("%-28s %10.2f %10.2f %9.1fx\n", r->name, m, p90, ratio);
}

static void print_rows(struct layers_bench *b)
{
	double load[3] = {0};
	if (getloadavg(load, 1) < 1)
		load[0] = 0;
	double both = median(&b->rows[ROW_SNAPSHOT]) + median(&b->rows[ROW_ROLLBACK]);
	printf("Snapshot and rollback, %zu files of %d bytes, 37 changes, %zu layers below, %s; %zu runs (of slow ones %d); load %.2f; cordon %s.\n\n",
	       b->o.files, FILE_BYTES, b->o.depth, geteuid() ? "as an ordinary user" : "as root", b->o.runs, SLOW_RUNS, load[0],
	       cordon_version());
	if (b->o.markdown)
		puts("| what | median ms | p90 | ÷ cordon |\n|---|--:|--:|--:|");
	else
		printf("%-28s %10s %10s %10s\n", "ms", "median", "p90", "/cordon");
	for (size_t i = 0; i < ROW_COUNT; i++) {
		struct row *r = &b->rows[i];
		double m = median(r);
		if (r->count)
			print_row(b, r, m, both > 0 ? m / both : 0);
	}
	if (b->o.markdown)
		printf("| cordon snapshot and rollback | %.2f | | 1.0 |\n", both);
	else
		printf("%-28s %10.2f %10s %9.1fx\n", "cordon snapshot + rollback", both, "", 1.0);
}

int bench_layers(const struct bench_layers_options *o, struct cordon_error *err)
{
	struct layers_bench b = {.o = *o,
	                         .dir_fd = -1,
	                         .rows = {[ROW_SNAPSHOT] = {.name = "cordon snapshot"},
	                                  [ROW_ROLLBACK] = {.name = "cordon rollback"},
	                                  [ROW_FAILED] = {.name = "cordon failed exec, undone"},
	                                  [ROW_COPY] = {.name = "cp -a"},
	                                  [ROW_GIT_SAVE] = {.name = "git add -A, commit"},
	                                  [ROW_GIT_RESET] = {.name = "git reset --hard, clean"}}};
	const char *tmp = getenv("TMPDIR");
	snprintf(b.dir, sizeof(b.dir), "%s/cordon-bench-XXXXXX", tmp && *tmp == '/' && strlen(tmp) < 80 ? tmp : "/tmp");
	if (!mkdtemp(b.dir))
		return err_sys(err, "cannot make %s", b.dir);
	b.dir_fd = open(b.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = b.dir_fd < 0 ? err_sys(err, "cannot open %s", b.dir) : 0;
	for (size_t i = 0; r == 0 && i < ROW_COUNT; i++)
		if (!(b.rows[i].ms = calloc(o->runs, sizeof(double))))
			r = err_sys(err, "cannot keep the figures");
	if (r == 0)
		r = make_tree(&b, err);
	if (r == 0)
		r = bench_cordon(&b, err);
	if (r == 0 && o->peers)
		r = bench_copy(&b, err) < 0 || bench_git(&b, err) < 0 ? -1 : 0;
	if (r == 0)
		print_rows(&b);
	for (size_t i = 0; i < ROW_COUNT; i++)
		free(b.rows[i].ms);
	cleanup_fd(&b.dir_fd);
	_cleanup_fd_ int parent = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs_remove_tree(parent, b.dir + 1, r < 0 ? NULL : err) < 0)
		r = -1;
	return r;
}
