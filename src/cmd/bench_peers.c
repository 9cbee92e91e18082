/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The candidates. Each peer gets every namespace that it has, a read-only root made from this host's /usr, no network, no capabilities and
 * no_new_privs. crun and runc, which can, also get cordon's limits and system call filter (equal strength but for Landlock), and a second
 * time neither ("lean": in a cgroup, as they come); crun can also do without a cgroup. A configuration is tried before it is measured; the
 * first that works is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/bench.h"

extern char **environ;

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* What was written to the memfd, up to the end of its first line that says something. */
static void first_line(int fd, char *line, size_t size)
{
	char text[1024];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[MAX(n, 0)] = '\0';
	const char *start = text + strspn(text, "\n ");
	snprintf(line, size, "%.*s", (int)strcspn(start, "\n"), start);
}

static int spawn(const char *program, char *const *argv, int out, int errors, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	if ((r = posix_spawnattr_init(&attr))) {
		posix_spawn_file_actions_destroy(&actions);
		return r;
	}
	/* Ctrl-C is for us: a runtime that is killed half-way leaves containers behind, and we wait for it to end */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	if (!(r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, out < 0 ? 0 : out, 1)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, errors, 2)))
		r = posix_spawn(pid, program, &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static int wait_for(pid_t pid, int errors, struct cordon_error *err)
{
	char line[256];
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_sys(err, "waitpid");
		if (bench_interrupted() > 1)
			kill(-pid, SIGKILL);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	first_line(errors, line, sizeof(line));
	return err_set(err, CORDON_ERR_SYSTEM, "%s %d%s%s", WIFEXITED(status) ? "exit status" : "signal",
	               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), *line ? ": " : "", line);
}

int bench_run(struct bench *b, struct candidate *c, double *ms, struct cordon_error *err)
{
	pid_t pid;

	if (c->unique_id)
		snprintf(c->argv.items[c->argv.count - 1], sizeof(BENCH_ID), "cordon-bench-%d-%u", (int)getpid(), b->serial++);
	if (ftruncate(b->errors, 0) < 0 || lseek(b->errors, 0, SEEK_SET) < 0)
		return err_sys(err, "cannot empty a memory file");
	if (c->mount_ns >= 0 && setns(c->mount_ns, CLONE_NEWNS) < 0)
		return err_sys(err, "setns");
	double start = now_ms();
	int r = spawn(c->program, c->argv.items, -1, b->errors, &pid);
	if (r == 0)
		r = wait_for(pid, b->errors, err);
	else
		r = (errno = r, err_sys(err, "%s", c->program));
	*ms = now_ms() - start;
	if (c->mount_ns >= 0 && setns(b->own_ns, CLONE_NEWNS) < 0)
		return err_sys(err, "setns");
	return r;
}

static void find_version(struct bench *b, struct candidate *c)
{
	char version[] = "--version", *argv[] = {(char *)(uintptr_t)c->program, version, NULL};
	pid_t pid;

	if (ftruncate(b->errors, 0) < 0 || lseek(b->errors, 0, SEEK_SET) < 0 || spawn(c->program, argv, b->errors, b->errors, &pid) != 0)
		return;
	if (wait_for(pid, b->errors, NULL) == 0)
		first_line(b->errors, c->version, sizeof(c->version));
}

/* ---- command lines ----------------------------------------------------------------------------------------------------------- */

int bench_add_words(struct strlist *argv, const char *const *words, struct cordon_error *err)
{
	for (size_t i = 0; words[i]; i++)
		if (strlist_add(argv, words[i], err) < 0)
			return -1;
	return 0;
}

/* /bin, /lib and so on are links into /usr on most hosts, and directories on others. */
const char *const bench_top_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

int bench_top_link(const char *name, char *target, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/%s", name);
	ssize_t n = readlink(path, target, size - 1);
	target[MAX(n, 0)] = '\0';
	return n > 0 ? 1 : access(path, F_OK) == 0 ? 0 : -1;
}

static int plain_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const words[] = {BENCH_PROGRAM, NULL};
	(void)b;
	return bench_add_words(&c->argv, words, err);
}

static int cordon_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const words[] = {"cordon", "run", "--", BENCH_PROGRAM, NULL};
	(void)b;
	return bench_add_words(&c->argv, words, err);
}

static int bwrap_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const first[] = {
		"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", NULL};
	static const char *const last[] = {"--proc",  "/proc", "--dev", "/dev",        "--tmpfs", "/tmp",
	                                   "--chdir", "/",     "--",    BENCH_PROGRAM, NULL};

	(void)b;
	if (bench_add_words(&c->argv, first, err) < 0)
		return -1;
	for (size_t i = 0; bench_top_dirs[i]; i++) {
		char target[128], path[32];
		int kind = bench_top_link(bench_top_dirs[i], target, sizeof(target));
		const char *words[] = {kind ? "--symlink" : "--ro-bind", kind ? target : path, path, NULL};

		snprintf(path, sizeof(path), "/%s", bench_top_dirs[i]);
		if (kind >= 0 && bench_add_words(&c->argv, words, err) < 0)
			return -1;
	}
	return bench_add_words(&c->argv, last, err);
}

static int firejail_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const words[] = {
		"firejail",        "--quiet",         "--noprofile",  "--net=none", "--private",   "--private-dev",
		"--ipc-namespace", "--caps.drop=all", "--nonewprivs", "--",         BENCH_PROGRAM, NULL};
	(void)b;
	return bench_add_words(&c->argv, words, err);
}

static int runc_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_oci_argv(b, c, NULL, false, err);
}

static int runc_lean_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_oci_argv(b, c, NULL, true, err);
}

/* An ordinary user has no cgroups to manage. */
static const char *crun_cgroups(void)
{
	return geteuid() ? "--cgroup-manager=disabled" : "--cgroup-manager=cgroupfs";
}

static int crun_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_oci_argv(b, c, crun_cgroups(), false, err);
}

static int crun_lean_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_oci_argv(b, c, crun_cgroups(), true, err);
}

static int crun_no_cgroup_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_oci_argv(b, c, "--cgroup-manager=disabled", true, err);
}

/* crun refuses hosts with v1 controllers and a v2 hierarchy beside them. */
static int crun_private_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_private_view(b, c, err) < 0 ? -1 : crun_argv(b, c, err);
}

static int crun_lean_private_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_private_view(b, c, err) < 0 ? -1 : crun_lean_argv(b, c, err);
}

static int crun_no_cgroup_private_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return bench_private_view(b, c, err) < 0 ? -1 : crun_no_cgroup_argv(b, c, err);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

#define OCI_HOW \
	"all 7 namespaces, read-only root from /usr, masked /proc, no capabilities, cordon's list of system calls, its limits (as root)"
#define LEAN_HOW "the same without filter and limits"
#define HIDDEN ", where " BENCH_UNIFIED " is out of sight"

/* A table is read by its rows. */
/* clang-format off */
static const struct {
	const char *name;
	bool peer;
	const char *programs[3]; /* the first that exists */
	struct {
		int (*make)(struct bench *b, struct candidate *c, struct cordon_error *err);
		const char *how;
	} ways[2]; /* the first that works */
} table[] = {
	{"bare", false, {BENCH_PROGRAM}, {{plain_argv, "posix_spawn of " BENCH_PROGRAM ", no isolation"}}},
	{"cordon", false, {"/proc/self/exe"}, {{cordon_argv, "cordon run -- " BENCH_PROGRAM ", default policy"}}},
	{"bwrap", true, {"/usr/bin/bwrap", "/usr/local/bin/bwrap"},
	 {{bwrap_argv, "--unshare-all, read-only /usr, --proc, --dev, tmpfs /tmp, no capabilities; no filter, no limits"}}},
	{"crun", true, {"/usr/bin/crun", "/usr/local/bin/crun"},
	 {{crun_argv, "run; " OCI_HOW}, {crun_private_argv, "run" HIDDEN "; " OCI_HOW}}},
	{"crun-lean", true, {"/usr/bin/crun", "/usr/local/bin/crun"},
	 {{crun_lean_argv, "run; " LEAN_HOW}, {crun_lean_private_argv, "run" HIDDEN "; " LEAN_HOW}}},
	{"crun-no-cgroup", true, {"/usr/bin/crun", "/usr/local/bin/crun"},
	 {{crun_no_cgroup_argv, "run --cgroup-manager=disabled; " LEAN_HOW ", and without a cgroup"},
	  {crun_no_cgroup_private_argv, "run --cgroup-manager=disabled" HIDDEN "; " LEAN_HOW ", and without a cgroup"}}},
	{"runc", true, {"/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"}, {{runc_argv, "run; " OCI_HOW}}},
	{"runc-lean", true, {"/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"}, {{runc_lean_argv, "run; " LEAN_HOW}}},
	{"firejail", true, {"/usr/bin/firejail", "/usr/local/bin/firejail"},
	 {{firejail_argv, "--noprofile --net=none --private --private-dev --ipc-namespace, no capabilities; no filter, no limits"}}},
};
/* clang-format on */
_Static_assert(ARRAY_SIZE(table) <= BENCH_CANDIDATES_MAX, "more candidates than places");

const char *const bench_names[] = {"bare", "cordon", "bwrap", "crun", "crun-lean", "crun-no-cgroup", "runc", "runc-lean", "firejail", NULL};

static void candidate_reset(struct candidate *c)
{
	strlist_free(&c->argv);
	if (c->mount_ns >= 0)
		close(c->mount_ns);
	c->mount_ns = -1;
	c->unique_id = false;
}

/* Twice: what a first run leaves behind must not stop a second one, and both warm the caches. */
static int try_out(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	double ms;

	for (int i = 0; i < 2; i++)
		if (bench_run(b, c, &ms, err) < 0)
			return -1;
	return 0;
}

static void prepare_one(struct bench *b, size_t row)
{
	struct candidate *c = &b->candidates[b->count++];

	*c = (struct candidate){.name = table[row].name, .mount_ns = -1, .how = table[row].ways[0].how};
	for (size_t i = 0; i < ARRAY_SIZE(table[row].programs) && table[row].programs[i] && !c->program; i++)
		if (access(table[row].programs[i], X_OK) == 0)
			c->program = table[row].programs[i];
	if (!c->program) {
		err_set(&c->error, CORDON_ERR_NOT_FOUND, "not installed");
		return;
	}
	if (table[row].peer)
		find_version(b, c);
	for (size_t i = 0; i < ARRAY_SIZE(table[row].ways) && table[row].ways[i].make; i++) {
		struct cordon_error err = {0};

		if (table[row].ways[i].make(b, c, &err) == 0 && try_out(b, c, &err) == 0) {
			c->how = table[row].ways[i].how;
			c->error = (struct cordon_error){0};
			return;
		}
		if (i == 0 || err.code != CORDON_ERR_INPUT)
			c->error = err;
		candidate_reset(c);
	}
}

int bench_prepare(struct bench *b, bool (*wanted)(const void *arg, const char *name, bool peer), const void *arg, struct cordon_error *err)
{
	*b = (struct bench){.own_ns = -1, .errors = memfd_create("cordon-bench", MFD_CLOEXEC)};
	if (b->errors < 0)
		return err_sys(err, "memfd_create");
	for (size_t i = 0; i < ARRAY_SIZE(table) && !bench_interrupted(); i++)
		if (wanted(arg, table[i].name, table[i].peer))
			prepare_one(b, i);
	return 0;
}

void bench_clean_up(struct bench *b)
{
	for (size_t i = 0; i < b->count; i++) {
		candidate_reset(&b->candidates[i]);
		free(b->candidates[i].ms);
	}
	cleanup_fd(&b->errors);
	cleanup_fd(&b->own_ns);
	char *slash = strrchr(b->dir, '/');
	if (!slash)
		return;
	*slash = '\0';
	_cleanup_fd_ int parent = open(*b->dir ? b->dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent >= 0)
		fs_remove_tree(parent, slash + 1, NULL);
}
