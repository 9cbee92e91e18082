/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles for crun, runc and runsc, over a root file system that has nothing but the host's /usr. */
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

static void put_namespaces(struct json *j, enum bench_strength strength)
{
	static const char *const kinds[] = {"pid", "mount", "network", "ipc", "uts", "cgroup", "user"};

	json_key(j, "namespaces");
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(kinds) - (strength == BENCH_NEW ? 2 : 0); i++) {
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

static void put_linux(struct json *j, enum bench_strength strength)
{
	/* what `runc spec` masks */
	static const char *const masked[] = {
		"/proc/acpi",       "/proc/asound",      "/proc/kcore",       "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", NULL};
	static const char *const readonly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL};

	json_key(j, "linux");
	json_object(j);
	put_namespaces(j, strength);
	if (strength != BENCH_NEW) {
		put_map(j, "uidMappings", geteuid());
		put_map(j, "gidMappings", geteuid() ? getegid() : 0);
	}
	put_words(j, "maskedPaths", masked);
	put_words(j, "readonlyPaths", readonly);
	if (strength == BENCH_FULL) {
		put_limits(j);
		put_filter(j);
	}
	json_end(j);
}

static void put_config(struct json *j, const char *rootfs, const char *const *payload, enum bench_strength strength)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

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
	put_words(j, "args", payload);
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
	put_linux(j, strength);
	json_end(j);
}

int bench_rootfs(struct bench *b, struct cordon_error *err)
{
	static const char *const dirs[] = {"state",      "rootfs/usr", "rootfs/proc", "rootfs/dev",
	                                   "rootfs/sys", "rootfs/tmp", "rootfs/run",  "rootfs/etc"};

	if (b->bundles)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (fs_mkdirs(b->dir_fd, dirs[i], 0755, err) < 0)
			return -1;
	for (size_t i = 0; bench_top_dirs[i]; i++) {
		char target[128], path[64];
		int kind = bench_top_link(bench_top_dirs[i], target, sizeof(target));

		snprintf(path, sizeof(path), "rootfs/%s", bench_top_dirs[i]);
		if (kind >= 0 && (kind ? symlinkat(target, b->dir_fd, path) : mkdirat(b->dir_fd, path, 0755)) < 0)
			return err_sys(err, "%s/%s", b->dir, path);
	}
	b->bundles = true;
	return 0;
}

int bench_bundle(struct bench *b, const char *const *payload, enum bench_strength strength, char dir[160], struct cordon_error *err)
{
	_cleanup_buf_ struct buf config = {0};
	struct json j = {.out = &config};
	char rootfs[160], name[64], file[96];

	if (bench_rootfs(b, err) < 0)
		return -1;
	snprintf(rootfs, sizeof(rootfs), "%s/rootfs", b->dir);
	snprintf(name, sizeof(name), "bundle-%u", b->serial++);
	snprintf(file, sizeof(file), "%s/config.json", name);
	snprintf(dir, 160, "%s/%s", b->dir, name);
	put_config(&j, rootfs, payload, strength);
	if (config.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (fs_mkdirs(b->dir_fd, name, 0755, err) < 0)
		return -1;
	return fs_write_file(b->dir_fd, file, config.data, config.len, 0644, err);
}

int bench_private_view(struct bench_command *c, struct cordon_error *err)
{
	struct statfs fs;
	char path[64];
	int ready[2];

	if (geteuid() != 0 || statfs(BENCH_UNIFIED, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return err_set(err, CORDON_ERR_INPUT, "a private view without " BENCH_UNIFIED " is of no use here");
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
