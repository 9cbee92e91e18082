/* SPDX-License-Identifier: Apache-2.0 */
/* crun and runc: a bundle for /bin/true with every namespace, and the commands that run it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/util.h"
#include "cmd/bench.h"
#include "sandbox/seccomp.h"

#define CONTAINER_IDS 100000 /* the first of the ids that most hosts keep for containers */

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
	for (size_t i = 0; bench_top_dirs[i]; i++) {
		char target[128], path[32];

		snprintf(path, sizeof(path), "/%s", bench_top_dirs[i]);
		if (bench_top_link(bench_top_dirs[i], target, sizeof(target)) == 0)
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

static void put_namespaces(struct json *j)
{
	static const char *const kinds[] = {"user", "pid", "mount", "network", "ipc", "uts", "cgroup"};

	json_key(j, "namespaces");
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		json_object(j);
		json_kstr(j, "type", kinds[i]);
		json_end(j);
	}
	json_end(j);
}

/* The limits of the default policy. Only root may set them, as only root may have cordon hold them by cgroups on a host without systemd. */
static void put_limits(struct json *j)
{
	struct cordon_policy policy;

	if (geteuid() != 0 || policy_init(&policy, NULL) < 0)
		return;
	json_key(j, "resources");
	json_object(j);
	json_key(j, "memory");
	json_object(j);
	json_kint(j, "limit", (int64_t)policy.limits.memory);
	json_end(j);
	json_key(j, "pids");
	json_object(j);
	json_kint(j, "limit", (int64_t)policy.limits.pids);
	json_end(j);
	json_key(j, "cpu");
	json_object(j);
	json_kint(j, "quota", (int64_t)policy.limits.cpus_milli * 100);
	json_kint(j, "period", 100000);
	json_end(j);
	json_end(j);
	policy_clear(&policy);
}

/* The names of cordon's own table, without its checks of arguments: a filter that is no longer than cordon's. */
static void put_filter(struct json *j)
{
	json_key(j, "seccomp");
	json_object(j);
	json_kstr(j, "defaultAction", "SCMP_ACT_ERRNO");
	json_kint(j, "defaultErrnoRet", ENOSYS);
	json_key(j, "syscalls");
	json_array(j);
	json_object(j);
	json_key(j, "names");
	json_array(j);
	for (size_t i = 0; i < syscall_table_len; i++)
		if (syscall_table[i].rule != RULE_DENY && syscall_table[i].rule != RULE_NOSYS)
			json_str(j, syscall_table[i].name);
	json_end(j);
	json_kstr(j, "action", "SCMP_ACT_ALLOW");
	json_end(j);
	json_end(j);
	json_end(j);
}

static void put_linux(struct json *j, bool lean)
{
	/* what `runc spec` masks */
	static const char *const masked[] = {
		"/proc/acpi",       "/proc/asound",      "/proc/kcore",       "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", NULL};
	static const char *const readonly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL};

	json_key(j, "linux");
	json_object(j);
	put_namespaces(j);
	put_map(j, "uidMappings", geteuid());
	put_map(j, "gidMappings", geteuid() ? getegid() : 0);
	put_words(j, "maskedPaths", masked);
	put_words(j, "readonlyPaths", readonly);
	if (!lean) {
		put_limits(j);
		put_filter(j);
	}
	json_end(j);
}

static void put_config(struct json *j, const char *rootfs, bool lean)
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
	json_kstr(j, "path", rootfs);
	json_kbool(j, "readonly", true);
	json_end(j);
	json_kstr(j, "hostname", "bench");
	put_mounts(j);
	put_linux(j, lean);
	json_end(j);
}

static int write_config(const struct bench *b, int dir, const char *path, bool lean, struct cordon_error *err)
{
	_cleanup_buf_ struct buf config = {0};
	struct json j = {.out = &config};
	char rootfs[160];

	snprintf(rootfs, sizeof(rootfs), "%s/rootfs", b->dir);
	put_config(&j, rootfs, lean);
	if (config.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return fs_write_file(dir, path, config.data, config.len, 0644, err);
}

/* A root file system, two bundles around it, and a place for the state of the runtimes; made once. */
static int make_bundles(struct bench *b, struct cordon_error *err)
{
	static const char *const dirs[] = {"state", "full", "lean", "rootfs/usr", "rootfs/proc", "rootfs/dev", "rootfs/tmp"};
	const char *base = getenv("TMPDIR");

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
	for (size_t i = 0; bench_top_dirs[i]; i++) {
		char target[128], path[64];
		int kind = bench_top_link(bench_top_dirs[i], target, sizeof(target));

		snprintf(path, sizeof(path), "rootfs/%s", bench_top_dirs[i]);
		if (kind >= 0 && (kind ? symlinkat(target, dir, path) : mkdirat(dir, path, 0755)) < 0)
			return err_sys(err, "%s/%s", b->dir, path);
	}
	if (write_config(b, dir, "full/config.json", false, err) < 0)
		return -1;
	return write_config(b, dir, "lean/config.json", true, err);
}

int bench_oci_argv(struct bench *b, struct candidate *c, const char *option, bool lean, struct cordon_error *err)
{
	char state[160], bundle[160];

	if (make_bundles(b, err) < 0)
		return -1;
	snprintf(state, sizeof(state), "%s/state", b->dir);
	snprintf(bundle, sizeof(bundle), "%s/%s", b->dir, lean ? "lean" : "full");
	const char *const first[] = {c->program, "--root", state, option, NULL}, *const last[] = {"run", "--bundle", bundle, BENCH_ID,
	                                                                                          NULL};
	c->unique_id = true;
	return bench_add_words(&c->argv, first, err) < 0 ? -1 : bench_add_words(&c->argv, last, err);
}

int bench_private_view(struct bench *b, struct candidate *c, struct cordon_error *err)
{
	struct statfs fs;
	char path[64];
	int ready[2];

	if (geteuid() != 0 || statfs(BENCH_UNIFIED, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return err_set(err, CORDON_ERR_INPUT, "a private view without " BENCH_UNIFIED " is of no use here");
	if (b->own_ns < 0 && (b->own_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) < 0)
		return err_sys(err, "cannot open our own mount namespace");
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		bool ok = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		          umount2(BENCH_UNIFIED, MNT_DETACH) == 0;
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
	return c->mount_ns < 0 ? err_set(err, CORDON_ERR_SYSTEM, "cannot make a view without " BENCH_UNIFIED) : 0;
}
