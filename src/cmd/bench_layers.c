/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot: what a snapshot and a rollback cost, against copying the tree and against git, over the same tree and the same
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

enum { ROW_BOTH, ROW_SNAPSHOT, ROW_ROLLBACK, ROW_FAILED, ROW_COPY, ROW_GIT_SAVE, ROW_GIT_RESET, ROW_COUNT };

static const struct {
	const char *name, *how;
	bool peer;
} row_table[ROW_COUNT] = {
	[ROW_BOTH] = {"cordon", "snapshot and rollback together", false},
	[ROW_SNAPSHOT] = {"cordon-snapshot", "naming the present state", false},
	[ROW_ROLLBACK] = {"cordon-rollback", "going back to it after the changes", false},
	[ROW_FAILED] = {"cordon-failed-exec", "what undoing a failed command adds after it has ended; its record is written to the disk",
                        false},
	[ROW_COPY] = {"cp -a", "of the tree, one way", true},
	[ROW_GIT_SAVE] = {"git-commit", "git add -A, git commit", true},
	[ROW_GIT_RESET] = {"git-reset", "git reset --hard, git clean -fdx", true},
};

struct layers_bench {
	struct bench *bench;
	int dir_fd;
	struct bench_row *rows[ROW_COUNT];
};

static void add(struct layers_bench *b, int row, double ms)
{
	if (b->rows[row])
		bench_row_value(b->rows[row], ms);
}

/* ---- the tree ---------------------------------------------------------------------------------------------------------------- */

static int make_tree(struct layers_bench *b, struct cordon_error *err)
{
	static char data[FILE_BYTES];
	uint64_t x = 88172645463325252ull; /* xorshift: contents that do not compress, the same each time */
	for (size_t i = 0; i < b->bench->o.files; i++) {
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
	snprintf(full, sizeof(full), "cd '%s' && %s", b->bench->dir, line);
	char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, full, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status, r;
	posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
	double begin = bench_now_ms();
	r = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r) {
		errno = r;
		return err_sys(err, "cannot run sh");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (ms)
		*ms = bench_now_ms() - begin;
	return status == 0 ? 0 : err_set(err, CORDON_ERR_SYSTEM, "failed: %.200s", line);
}

/* ---- cordon ------------------------------------------------------------------------------------------------------------------ */

/* A command inside; *beyond: what the transaction added after the command had ended. */
static int exec_inside(struct cordon_sandbox *s, const char *line, const char *on_failure, double *beyond, struct cordon_error *err)
{
	const char *const argv[] = {"sh", "-c", line, NULL};
	struct cordon_exec *e;
	double begin = bench_now_ms();
	if (cordon_exec_start(
		    s, &(struct cordon_exec_options){.size = sizeof(struct cordon_exec_options), .argv = argv, .on_failure = on_failure},
		    &e, err) < 0)
		return -1;
	int r = cordon_exec_wait(e, err);
	if (r == 0 && beyond)
		*beyond = bench_now_ms() - begin - cordon_exec_result(e)->duration_ms;
	cordon_exec_free(e);
	return r;
}

static int one_round(struct layers_bench *b, struct cordon_sandbox *s, const char *failing, bool count, struct cordon_error *err)
{
	char id[21];
	double begin = bench_now_ms(), beyond;
	if (cordon_sandbox_snapshot(s, NULL, NULL, id, err) < 0)
		return -1;
	double saved = bench_now_ms();
	if (exec_inside(s, changes, NULL, NULL, err) < 0)
		return -1;
	double changed = bench_now_ms();
	if (cordon_sandbox_restore(s, id, err) < 0)
		return -1;
	double restored = bench_now_ms();
	if (exec_inside(s, failing, "rollback", &beyond, err) < 0)
		return -1;
	if (count) {
		add(b, ROW_BOTH, saved - begin + restored - changed);
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
	for (size_t i = 0; i < b->bench->o.depth; i++) {
		char line[64];
		snprintf(line, sizeof(line), "echo %zu >layer", i);
		if (exec_inside(s, line, NULL, NULL, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < b->bench->o.runs + 2 && !bench_interrupted(); i++) { /* two to warm up */
		bench_progress("snapshot", i, b->bench->o.runs + 2);
		if (one_round(b, s, failing, i >= 2, err) < 0)
			return -1;
	}
	bench_progress(NULL, 0, 0);
	return 0;
}

static int bench_cordon(struct layers_bench *b, struct cordon_error *err)
{
	struct cordon_sandbox *s = NULL;
	struct cordon *c = NULL;
	char tree[160], id[21];
	snprintf(tree, sizeof(tree), "%s/tree", b->bench->dir);
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
	if (access("/usr/bin/git", X_OK) < 0) {
		err_set(&b->rows[ROW_GIT_SAVE]->error, CORDON_ERR_NOT_FOUND, "not installed");
		return 0;
	}
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

int bench_snapshot(struct bench *bench, struct bench_section *s, struct cordon_error *err)
{
	struct layers_bench b = {.bench = bench, .dir_fd = bench->dir_fd};

	for (size_t i = 0; i < ROW_COUNT; i++)
		if (bench_wanted(bench, row_table[i].peer ? row_table[i].name : "cordon", row_table[i].peer))
			b.rows[i] = bench_row_add(s, row_table[i].name, row_table[i].how);
	snprintf(s->note, sizeof(s->note), "%zu files of %d bytes, 37 changes, %zu layers below; %d runs of what is slow.", bench->o.files,
	         FILE_BYTES, bench->o.depth, SLOW_RUNS);
	bench_progress("making a tree of files", 0, 0);
	int r = make_tree(&b, err);
	if (r == 0 && b.rows[ROW_BOTH])
		r = bench_cordon(&b, err);
	if (r == 0 && b.rows[ROW_COPY])
		r = bench_copy(&b, err);
	if (r == 0 && b.rows[ROW_GIT_SAVE])
		r = bench_git(&b, err);
	bench_progress(NULL, 0, 0);
	return r;
}
