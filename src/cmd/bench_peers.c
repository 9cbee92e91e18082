/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The candidates. Each peer gets the fastest configuration that is fair: every namespace that it has, a read-only root made from this
 * host's /usr, no network, no capabilities, no_new_privs. Where it could leave something out that cordon does (cgroup limits, a system call
 * filter, Landlock), it does, so that figures err on the peer's side. A configuration is tried before it is measured; what works is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/util.h"
#include "cmd/bench.h"

#define UNIFIED "/sys/fs/cgroup/unified"
#define ID_TEMPLATE "cordon-bench-0000000000-0000000000"
#define CONTAINER_IDS 100000 /* the first of the ids that most hosts keep for containers */
#define WORDS_MAX 48

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
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	if (!(r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, out < 0 ? 0 : out, 1)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, errors, 2)))
		r = posix_spawn(pid, program, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static int wait_for(pid_t pid, const char *name, int errors, struct cordon_error *err)
{
	char line[256];
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	first_line(errors, line, sizeof(line));
	return err_set(err, CORDON_ERR_SYSTEM, "%s: %s %d%s%s", name, WIFEXITED(status) ? "exit status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), *line ? ": " : "", line);
}

int bench_run(struct bench *b, struct candidate *c, double *ms, struct cordon_error *err)
{
	pid_t pid;

	if (c->unique_id)
		snprintf(c->argv.items[c->argv.count - 1], sizeof(ID_TEMPLATE), "cordon-bench-%d-%u", (int)getpid(), b->serial++);
	if (ftruncate(b->errors, 0) < 0 || lseek(b->errors, 0, SEEK_SET) < 0)
		return err_sys(err, "cannot empty a memory file");
	if (c->mount_ns >= 0 && setns(c->mount_ns, CLONE_NEWNS) < 0)
		return err_sys(err, "setns");
	double start = now_ms();
	int r = spawn(c->program, c->argv.items, -1, b->errors, &pid);
	if (r == 0)
		r = wait_for(pid, c->name, b->errors, err);
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
	if (wait_for(pid, c->name, b->errors, NULL) == 0)
		first_line(b->errors, c->version, sizeof(c->version));
}

/* ---- command lines ----------------------------------------------------------------------------------------------------------- */

static int add_words(struct strlist *argv, const char *const *words, struct cordon_error *err)
{
	for (size_t i = 0; words[i]; i++)
		if (strlist_add(argv, words[i], err) < 0)
			return -1;
	return 0;
}

/* /bin, /lib and so on are links into /usr on most hosts, and directories on others. */
static const char *const top_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

static int read_top_link(const char *name, char *target, size_t size)
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
	return add_words(&c->argv, words, err);
}

static int cordon_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const words[] = {"cordon", "run", "--", BENCH_PROGRAM, NULL};
	(void)b;
	return add_words(&c->argv, words, err);
}

static int bwrap_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const first[] = {"bwrap",  "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
					    "--ro-bind", "/usr", "/usr", NULL};
	static const char *const last[] = {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/", "--", BENCH_PROGRAM, NULL};

	(void)b;
	if (add_words(&c->argv, first, err) < 0)
		return -1;
	for (size_t i = 0; top_dirs[i]; i++) {
		char target[128], path[32];
		int kind = read_top_link(top_dirs[i], target, sizeof(target));
		const char *words[] = {kind ? "--symlink" : "--ro-bind", kind ? target : path, path, NULL};

		snprintf(path, sizeof(path), "/%s", top_dirs[i]);
		if (kind >= 0 && add_words(&c->argv, words, err) < 0)
			return -1;
	}
	return add_words(&c->argv, last, err);
}

static int firejail_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	static const char *const words[] = {"firejail", "--quiet", "--noprofile", "--net=none", "--private", "--private-dev", "--ipc-namespace",
					    "--caps.drop=all", "--nonewprivs", "--", BENCH_PROGRAM, NULL};
	(void)b;
	return add_words(&c->argv, words, err);
}

/* ---- OCI bundles ------------------------------------------------------------------------------------------------------------- */

static void put_words(struct json *j, const char *key, const char *const *words)
{
	json_key(j, key);
	json_array(j);
	for (size_t i = 0; words[i]; i++)
		json_str(j, words[i]);
	json_end(j);
}

static void put_mount(struct json *j, const char *target, const char *type, const char *source, const char *options)
{
	char list[128], *save = NULL;

	json_object(j);
	json_kstr(j, "destination", target);
	json_kstr(j, "type", type);
	json_kstr(j, "source", source);
	json_key(j, "options");
	json_array(j);
	snprintf(list, sizeof(list), "%s", options);
	for (char *o = strtok_r(list, ",", &save); o; o = strtok_r(NULL, ",", &save))
		json_str(j, o);
	json_end(j);
	json_end(j);
}

static void put_mounts(struct json *j)
{
	static const struct {
		const char *target, *type, *source, *options;
	} mounts[] = {
		{"/usr", "bind", "/usr", "rbind,ro,nosuid,nodev"},
		{"/proc", "proc", "proc", "nosuid,nodev,noexec"},
		{"/dev", "tmpfs", "tmpfs", "nosuid,mode=755,size=64k"},
		{"/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"},
		{"/dev/shm", "tmpfs", "shm", "nosuid,nodev,noexec,mode=1777"},
		{"/tmp", "tmpfs", "tmpfs", "nosuid,nodev,mode=1777"},
	};

	json_key(j, "mounts");
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
		put_mount(j, mounts[i].target, mounts[i].type, mounts[i].source, mounts[i].options);
	for (size_t i = 0; top_dirs[i]; i++) {
		char target[128], path[32];

		snprintf(path, sizeof(path), "/%s", top_dirs[i]);
		if (read_top_link(top_dirs[i], target, sizeof(target)) == 0)
			put_mount(j, path, "bind", path, "rbind,ro,nosuid,nodev");
	}
	json_end(j);
}

static void put_map(struct json *j, const char *key, unsigned own)
{
	json_key(j, key);
	json_array(j);
	json_object(j);
	json_kint(j, "containerID", 0);
	json_kint(j, "hostID", own ? own : CONTAINER_IDS);
	json_kint(j, "size", own ? 1 : 65536);
	json_end(j);
	json_end(j);
}

static void put_linux(struct json *j)
{
	static const char *const kinds[] = {"user", "pid", "mount", "network", "ipc", "uts", "cgroup"};
	/* what `runc spec` masks */
	static const char *const masked[] = {"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
					     "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", NULL};
	static const char *const readonly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL};

	json_key(j, "linux");
	json_object(j);
	json_key(j, "namespaces");
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		json_object(j);
		json_kstr(j, "type", kinds[i]);
		json_end(j);
	}
	json_end(j);
	put_map(j, "uidMappings", geteuid());
	put_map(j, "gidMappings", geteuid() ? getegid() : 0);
	put_words(j, "maskedPaths", masked);
	put_words(j, "readonlyPaths", readonly);
	json_end(j);
}

static void put_config(struct json *j)
{
	static const char *const args[] = {BENCH_PROGRAM, NULL}, *const env[] = {"PATH=/usr/bin:/bin", NULL};

	json_object(j);
	json_kstr(j, "ociVersion", "1.0.2");
	json_key(j, "process");
	json_object(j);
	json_kbool(j, "terminal", false);
	json_key(j, "user");
	json_object(j);
	json_kint(j, "uid", 0);
	json_kint(j, "gid", 0);
	json_end(j);
	put_words(j, "args", args);
	put_words(j, "env", env);
	json_kstr(j, "cwd", "/");
	json_key(j, "capabilities");
	json_object(j);
	json_end(j);
	json_kbool(j, "noNewPrivileges", true);
	json_end(j);
	json_key(j, "root");
	json_object(j);
	json_kstr(j, "path", "rootfs");
	json_kbool(j, "readonly", true);
	json_end(j);
	json_kstr(j, "hostname", "bench");
	put_mounts(j);
	put_linux(j);
	json_end(j);
}

/* DIR/bundle and DIR/state, for crun and runc alike; made once. */
static int make_bundle(struct bench *b, struct cordon_error *err)
{
	static const char *const dirs[] = {"state", "bundle/rootfs/usr", "bundle/rootfs/proc", "bundle/rootfs/dev", "bundle/rootfs/tmp"};
	const char *base = getenv("TMPDIR");
	_cleanup_buf_ struct buf config = {0};
	struct json j = {.out = &config};

	if (*b->dir)
		return 0;
	if ((size_t)snprintf(b->dir, sizeof(b->dir), "%s/cordon-bench-XXXXXX", base && *base == '/' ? base : "/tmp") >= sizeof(b->dir) ||
	    !mkdtemp(b->dir)) {
		err_sys(err, "cannot create %s", b->dir);
		b->dir[0] = '\0';
		return -1;
	}
	/* the container's root is another uid, and has to get at its root file system */
	_cleanup_fd_ int dir = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0755) < 0)
		return err_sys(err, "%s", b->dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (fs_mkdirs(dir, dirs[i], 0755, err) < 0)
			return -1;
	for (size_t i = 0; top_dirs[i]; i++) {
		char target[128], path[64];
		int kind = read_top_link(top_dirs[i], target, sizeof(target));

		snprintf(path, sizeof(path), "bundle/rootfs/%s", top_dirs[i]);
		if (kind >= 0 && (kind ? symlinkat(target, dir, path) : mkdirat(dir, path, 0755)) < 0)
			return err_sys(err, "%s/%s", b->dir, path);
	}
	put_config(&j);
	if (config.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return fs_write_file(dir, "bundle/config.json", config.data, config.len, 0644, err);
}

static int oci_argv(struct bench *b, struct candidate *c, const char *option, struct cordon_error *err)
{
	char state[160], bundle[160];

	if (make_bundle(b, err) < 0)
		return -1;
	snprintf(state, sizeof(state), "%s/state", b->dir);
	snprintf(bundle, sizeof(bundle), "%s/bundle", b->dir);
	const char *const words[] = {c->name, "--root", state, option ? option : "run", option ? "run" : "--bundle",
				     option ? "--bundle" : bundle, option ? bundle : ID_TEMPLATE, option ? ID_TEMPLATE : NULL, NULL};
	c->unique_id = true;
	return add_words(&c->argv, words, err);
}

static int runc_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return oci_argv(b, c, NULL, err);
}

static int crun_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	return oci_argv(b, c, "--cgroup-manager=disabled", err);
}

/* crun (before 1.9, say) refuses hosts with v1 controllers and a v2 hierarchy beside them; in a view without the latter it works. */
static int crun_private_argv(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	struct statfs fs;
	char path[64];
	int ready[2];

	if (geteuid() != 0 || statfs(UNIFIED, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return err_set(err, CORDON_ERR_INPUT, "not a case for this");
	if (b->own_ns < 0 && (b->own_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) < 0)
		return err_sys(err, "cannot open our own mount namespace");
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		bool ok = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && umount2(UNIFIED, MNT_DETACH) == 0;
		if (write(ready[1], ok ? "y" : "n", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	char answer = 'n';
	close(ready[1]);
	if (pid > 0 && read(ready[0], &answer, 1) == 1 && answer == 'y') {
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
		c->mount_ns = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(ready[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return c->mount_ns < 0 ? err_set(err, CORDON_ERR_SYSTEM, "cannot make a view without " UNIFIED) : crun_argv(b, c, err);
}
