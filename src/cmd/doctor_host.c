/* SPDX-License-Identifier: Apache-2.0 */
/* What holds the limits here, where state and workspaces can lie, and whether a sandbox as a whole works. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/doctor.h"
#include "image/build.h"
#include "cordon.h"
#include "lib/context.h"
#include "sandbox/mount_syscalls.h"

/* ---- limits ------------------------------------------------------------------------------------------------------------------ */

#define CGROUP_ROOT "/sys/fs/cgroup"
#define DELEGATE_FILE "/etc/systemd/system/user@.service.d/delegate.conf"

static bool on_cgroup2(void)
{
	struct statfs fs;
	return statfs(CGROUP_ROOT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* From the facts that limits_probe() decides by: who asks, what is mounted, and who else is in our cgroup. */
static void limits_fix(struct finding *f, bool some_delegated)
{
	const char *forced = getenv("CORDON_LIMITS");

	if (forced && *forced)
		found_fix(f, "unset CORDON_LIMITS");
	else if (geteuid() != 0 && on_cgroup2() && access("/run/systemd/system", F_OK) == 0 && some_delegated)
		found_fix(f, "sudo mkdir -p ${F%%/*}; printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee $F   (F=" DELEGATE_FILE
		             "; then log in again)");
	else if (geteuid() != 0 && on_cgroup2() && access("/run/systemd/system", F_OK) == 0)
		found_fix(f, "systemd-run --user --scope -p Delegate=yes -- cordon run …");
	else if (geteuid() != 0)
		found_fix(f, "sudo cordon run …");
	else if (access(CGROUP_ROOT, F_OK) < 0)
		found_fix(f, "mkdir -p " CGROUP_ROOT " && mount -t cgroup2 cgroup2 " CGROUP_ROOT);
	else if (access(CGROUP_ROOT, W_OK) < 0)
		found_fix(f, "docker run --privileged --cgroupns=private …, or mount -o remount,rw " CGROUP_ROOT);
	else if (on_cgroup2() && access(CGROUP_ROOT "/cgroup.type", F_OK) == 0) /* not the real root: it may have no processes of its own */
		found_fix(f, "cd " CGROUP_ROOT " && mkdir -p init && xargs -rn1 <cgroup.procs >init/cgroup.procs");
	else
		found_fix(f, "boot with cgroup_enable=memory, or mount the missing controller below " CGROUP_ROOT);
}

/* The row's flag is an index into this. */
enum { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPU };

static void check_limit(struct doctor *d, const struct check *check, struct finding *f)
{
	const struct {
		enum limit_method method;
		const char *fallback, *weaker;
	} limits[] = {
		[LIMIT_MEMORY] = {d->limits.memory, "rlimit+watch", "looked at every 5 ms, can be outrun for milliseconds"},
		[LIMIT_PIDS] = {d->limits.pids, "rlimit", "RLIMIT_NPROC, counted in its own user namespace"},
		[LIMIT_CPU] = {d->limits.cpu, "affinity", "whole CPUs only"},
	};
	size_t i = check->flag;

	if (!d->limits_known) {
		found(f, CHECK_NO, "", "%s", d->limits_error.message);
		limits_fix(f, false);
	} else if (limits[i].method == LIMIT_RLIMIT) {
		found(f, CHECK_WEAKER, limits[i].fallback, "%s%s%s", limits[i].weaker, d->why_said ? "" : "; ",
		      d->why_said ? "" : d->limits.why);
		d->why_said = true;
		limits_fix(f, d->limits.memory == LIMIT_CGROUP2);
	} else {
		found(f, CHECK_YES, limit_method_name(limits[i].method, ""), "%s", check->about);
	}
}

static void check_freeze(struct doctor *d, const struct check *check, struct finding *f)
{
	bool killable = d->limits.v2_fd >= 0 && faccessat(d->limits.v2_fd, "cgroup.kill", W_OK, 0) == 0;
	bool freezable = d->limits.v2_fd >= 0 && faccessat(d->limits.v2_fd, "cgroup.freeze", W_OK, 0) == 0;

	if (killable && freezable) {
		found(f, CHECK_YES, "cgroup2", "%s", check->about);
		return;
	}
	found(f, CHECK_WEAKER, "pid namespace", "killing pid 1 ends them all, one by one; %s",
	      d->limits.v2_fd < 0 ? "no cgroup v2 subtree that we may write" : "cgroup.kill needs Linux 5.14");
	if (d->limits.v2_fd >= 0)
		found_fix(f, "Linux 5.14 or later");
	else
		limits_fix(f, false);
}

static void check_disk(struct doctor *d, const struct check *check, struct finding *f)
{
	char by[sizeof(f->by)];

	(void)check;
	snprintf(by, sizeof(by), "rlimit+%.32s", d->disk_by ? d->disk_by : "watch");
	found(f, CHECK_WEAKER, by, "RLIMIT_FSIZE for each file; the sum is watched and can be outrun (so on every host)");
	if (d->ctx)
		found_fix(f, "a hard bound for all together: a file system of its own for %s", d->ctx->home);
	f->everywhere = true;
}

/* ---- running something ------------------------------------------------------------------------------------------------------- */

struct trial {
	double ms;
	int exit_code;
	char out[4096];
	const char *disk_by;
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run_in(struct cordon_sandbox *s, const char *const *argv, struct trial *out, struct cordon_error *err)
{
	const struct cordon_exec_options options = {.size = sizeof(options), .argv = argv};
	struct cordon_exec *e = NULL;

	if (cordon_exec_start(s, &options, &e, err) < 0)
		return -1;
	int r = cordon_exec_wait(e, err);
	const struct cordon_result *result = r < 0 ? NULL : cordon_exec_result(e);
	if (result) {
		out->exit_code = result->exit_code;
		out->disk_by = result->usage.disk_by;
		snprintf(out->out, sizeof(out->out), "%.*s", (int)MIN(result->stdout_len, sizeof(out->out) - 1), result->stdout_data);
		if (result->error)
			r = err_set(err, CORDON_ERR_SYSTEM, "%s", result->error);
		else if (result->exit_code)
			r = err_set(err, CORDON_ERR_SYSTEM, "%s: %.200s", argv[0], result->stderr_data);
	}
	cordon_exec_free(e);
	return r;
}

/* One command in a sandbox of its own, under the default policy, with one key (or NULL) set. 0 if it succeeded. */
static int run_set(struct doctor *d, const char *workspace, const char *key, const char *value, const char *const *argv, struct trial *out,
                   struct cordon_error *err)
{
	const struct cordon_sandbox_options options = {.size = sizeof(options), .workspace = workspace};
	struct cordon_policy *policy = cordon_policy_new();
	struct cordon_sandbox *s = NULL;
	double start = now_ms();
	int r = -1;

	*out = (struct trial){0};
	if (!d->ctx)
		*err = d->ctx_error;
	else if (!policy)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	else if ((!key || cordon_policy_set(policy, key, value, err) == 0) && cordon_sandbox_create(d->ctx, policy, &options, &s, err) == 0)
		r = run_in(s, argv, out, err);
	out->ms = now_ms() - start;
	cordon_sandbox_destroy(s);
	cordon_policy_free(policy);
	return r;
}

static int run_sandboxed(struct doctor *d, const char *workspace, const char *const *argv, struct trial *out, struct cordon_error *err)
{
	return run_set(d, workspace, NULL, NULL, argv, out, err);
}

int doctor_run_with(struct doctor *d, const char *key, const char *value, struct cordon_error *err)
{
	static const char *const argv[] = {"/bin/true", NULL};
	struct trial t;

	return run_set(d, NULL, key, value, argv, &t, err);
}

static void failed(struct finding *f, const struct cordon_error *err)
{
	found(f, CHECK_NO, "", "%.200s", err->message);
	/* hints that send people to the doctor are of no use here */
	found_fix(f, "%s", strstr(err->hint, "cordon doctor") ? "" : err->hint);
}

static void check_sandbox(struct doctor *d, const struct check *check, struct finding *f)
{
	(void)check;
	if (d->sandboxes)
		found(f, CHECK_YES, "process backend", "/bin/true ran in one; %.1f ms", d->sandbox_ms);
	else
		failed(f, &d->sandbox_error);
	if (!d->sandboxes && !f->fix[0])
		found_fix(f, "the reason should be among the rows above; if not, please report it with cordon doctor --json");
}

static bool needs_sandbox(const struct doctor *d, struct finding *f)
{
	if (!d->sandboxes)
		found(f, CHECK_NO, "", "not tried: no sandbox starts");
	return !d->sandboxes;
}

/*
 * A handler behind a pipe is started by the kernel, outside, whatever RLIMIT_CORE says, unless that is 1 (fs/coredump.c); and a limit of 1
 * helps only if it cannot be lowered. A handler behind a socket ("@", Linux 6.16) does not look at the limit.
 */
static void check_core(struct doctor *d, const struct check *check, struct finding *f)
{
	static const char show[] = "sh -c 'ulimit -c 0 && exec cat /proc/self/limits' 2>/dev/null || cat /proc/self/limits";
	static const char *const argv[] = {"/bin/sh", "-c", show, NULL};
	struct cordon_error err = {0};
	struct trial t;
	char pattern[128] = "";
	unsigned long limit = 0;

	if (needs_sandbox(d, f))
		return;
	const char *line = run_sandboxed(d, NULL, argv, &t, &err) < 0 ? NULL : strstr(t.out, "Max core file size");
	if (!line || sscanf(line, "Max core file size %lu", &limit) != 1 || limit > 1) {
		found(f, CHECK_NO, "", "RLIMIT_CORE is not 0 inside%s%.100s", err.message[0] ? ": " : "", err.message);
		return;
	}
	fs_read_small(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
	pattern[strcspn(pattern, "\n ")] = '\0';
	if (pattern[0] == '@' || (pattern[0] == '|' && limit == 0)) {
		found(f, CHECK_WEAKER, "RLIMIT_CORE", "no files, but %.80s outside is handed every crash inside", pattern + 1);
		found_fix(f, "sudo sysctl -w kernel.core_pattern=core");
		return;
	}
	found(f, CHECK_YES, "RLIMIT_CORE", "%s", check->about);
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

static const char *filesystem_name(long type)
{
	static const struct {
		long type;
		const char *name;
	} names[] = {
		{0xef53, "ext4"},          {0x58465342, "xfs"}, {0x9123683e, "btrfs"},      {0x01021994, "tmpfs"},
		{0x794c7630, "overlayfs"}, {0x6969, "NFS"},     {0x65735546, "FUSE"},       {0x2fc12fc1, "zfs"},
		{0xf2f52010, "f2fs"},      {0x01021997, "9p"},  {(long)0xff534d42, "CIFS"}, {(long)0xfe534d42, "SMB"},
		{0xca451a4e, "bcachefs"},  {0x4d44, "FAT"},     {0x858458f6, "ramfs"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((unsigned)names[i].type == (unsigned)type)
			return names[i].name;
	return "another file system";
}

static const char *home_filesystem(const struct doctor *d)
{
	struct statfs fs;
	return statfs(d->ctx->home, &fs) == 0 ? filesystem_name((long)fs.f_type) : "?";
}

static void check_home(struct doctor *d, const struct check *check, struct finding *f)
{
	char path[PATH_MAX], size[32];
	struct cordon_error err = {0};
	struct statfs fs;

	(void)check;
	if (!d->ctx) {
		failed(f, &d->ctx_error);
	} else if ((size_t)snprintf(path, sizeof(path), "%s/scratch", d->ctx->home) >= sizeof(path)) {
		found(f, CHECK_NO, "", "CORDON_HOME is too long");
	} else if (fs_mkdirs(AT_FDCWD, path, 0700, &err) < 0) {
		failed(f, &err);
	} else if (access(path, W_OK | X_OK) < 0 || statfs(path, &fs) < 0) {
		found(f, CHECK_NO, "", "%.200s: %s", path, strerror(errno));
	} else {
		uint64_t space = ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize) >> 30 << 30;
		found(f, CHECK_YES, filesystem_name((long)fs.f_type), "%.150s, %s free", d->ctx->home,
		      space ? units_format_size(space, size) : "less than 1G");
		d->home = true;
		return;
	}
	found_fix(f, "export CORDON_HOME=/a/directory/that/you/can/write");
}

static bool needs_home(const struct doctor *d, struct finding *f)
{
	if (!d->home)
		found(f, CHECK_NO, "", "not tried: no state directory");
	return !d->home;
}

static void check_idmapped(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};
	struct idmap ids;

	if (d->ids.mode == IDMAP_SELF) {
		found(f, CHECK_INFO, "not needed", "files inside have your own id");
		return;
	}
	if (d->ids.mode != IDMAP_RANGE) {
		found(f, CHECK_NO, "", "they need the ranges of ids that are missing above");
		return;
	}
	if (needs_home(d, f))
		return;
	if (!d->namespaces) {
		found(f, CHECK_NO, "", "not tried: it needs a user namespace");
		return;
	}
	if (idmap_take(&d->ids, UINT32_MAX, UINT32_MAX, false, &ids, &err) < 0) {
		failed(f, &err);
		return;
	}
	_cleanup_fd_ int userns = idmap_mount_userns(&ids, geteuid(), getegid(), false, &err);
	_cleanup_fd_ int tree = userns < 0 ? -1 : sys_open_tree(AT_FDCWD, d->ctx->home, OPEN_TREE_CLONE);
	if (userns < 0)
		failed(f, &err);
	else if (tree < 0 || sys_mount_setattr(tree, 0, MOUNT_ATTR_IDMAP, 0, userns) < 0)
		found(f, CHECK_NO, "", "refused on %s: %s", home_filesystem(d), strerror(errno));
	else
		found(f, CHECK_YES, "mount_setattr", "%s (tried on %s)", check->about, home_filesystem(d));
	if (f->status == CHECK_NO)
		found_fix(f, "workspaces, mounts and CORDON_HOME on ext4, xfs, btrfs or tmpfs, and Linux 5.12 or later (tmpfs 6.3)");
	idmap_release(&d->ids, &ids);
}

/*
 * What matters is where the changes go: the upper directory, in $CORDON_HOME. The lower one, which is only shown, could be any; /usr/share
 * is on every host, and nothing of it has to be cleaned up.
 */
static void check_overlay(struct doctor *d, const struct check *check, struct finding *f)
{
	static const char *const argv[] = {"/bin/sh", "-c", "echo x >/app/cordon-doctor && cat /app/cordon-doctor", NULL};
	struct cordon_error err = {0};
	struct trial t;

	if (needs_home(d, f) || needs_sandbox(d, f))
		return;
	if (run_sandboxed(d, "/usr/share", argv, &t, &err) == 0 && strcmp(t.out, "x\n") == 0) {
		found(f, CHECK_YES, "overlayfs", "%s (changes go to %s)", check->about, home_filesystem(d));
		return;
	}
	found(f, CHECK_NO, "", "%.160s (on %s)", err.message[0] ? err.message : "the change was lost", home_filesystem(d));
	found_fix(f, "export CORDON_HOME=/a/directory/on/ext4-xfs-btrfs-or-tmpfs   (in Docker: workspaces and CORDON_HOME on volumes)");
}

/* ---- for information --------------------------------------------------------------------------------------------------------- */

static long read_setting(const char *path, long missing)
{
	char text[32];
	return fs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : missing;
}

static void check_tiocsti(struct doctor *d, const struct check *check, struct finding *f)
{
	(void)d;
	(void)check;
	if (read_setting("/proc/sys/dev/tty/legacy_tiocsti", 1) == 0) {
		found(f, CHECK_INFO, "off", "nobody here can type into a terminal by TIOCSTI");
		return;
	}
	found(f, CHECK_INFO, "on", "TIOCSTI is on for this host's own programs; the filter refuses it inside");
	if (access("/proc/sys/dev/tty/legacy_tiocsti", F_OK) == 0)
		found_fix(f, "sudo sysctl -w dev.tty.legacy_tiocsti=0");
}

static void check_memfd(struct doctor *d, const struct check *check, struct finding *f)
{
	long value = read_setting("/proc/sys/vm/memfd_noexec", 0);

	(void)check;
	if (value < 2) {
		found(f, CHECK_INFO, value ? "1" : "0", "vm.memfd_noexec: the launcher is run from sealed memory");
	} else if (d->ctx) {
		found(f, CHECK_INFO, "2", "vm.memfd_noexec: the launcher is run from its file, which only root should be able to write");
	} else {
		found(f, CHECK_NO, "", "vm.memfd_noexec=2, and no launcher is installed: %.120s", d->ctx_error.message);
		found_fix(f, "sudo make install, or sudo sysctl -w vm.memfd_noexec=1");
	}
}

static const struct {
	const char *language, *package;
	const char *paths[4];
} interpreters[] = {
	{"python", "python3", {"/usr/bin/python3"}},
	{"javascript", "nodejs", {"/usr/bin/node"}},
	{"typescript",
         "esbuild",
         {"/usr/bin/esbuild", "/usr/share/nodejs/typescript", "/usr/lib/node_modules/typescript",
          "/usr/local/lib/node_modules/typescript"}},
	{"ruby", "ruby", {"/usr/bin/ruby"}},
	{"bash", "bash", {"/usr/bin/bash", "/bin/bash"}},
};

/* Node transforms TypeScript itself since 22.7. */
static bool node_knows_typescript(struct doctor *d)
{
	static const char *const argv[] = {"/usr/bin/node", "--version", NULL};
	unsigned major = 0, minor = 0;
	struct trial t;

	return access(argv[0], X_OK) == 0 && d->sandboxes && run_sandboxed(d, NULL, argv, &t, NULL) == 0 &&
	       sscanf(t.out, "v%u.%u", &major, &minor) == 2 && (major > 22 || (major == 22 && minor >= 7));
}

static bool has_language(struct doctor *d, size_t i)
{
	for (size_t k = 0; k < ARRAY_SIZE(interpreters[i].paths) && interpreters[i].paths[k]; k++)
		if (access(interpreters[i].paths[k], F_OK) == 0)
			return true;
	return strcmp(interpreters[i].language, "typescript") == 0 && node_knows_typescript(d);
}

/* --lang: what the host image, which is this machine's /usr, can run. */
static void check_languages(struct doctor *d, const struct check *check, struct finding *f)
{
	char have[128] = "", missing[128] = "", packages[128] = "";

	(void)check;
	for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++) {
		bool there = has_language(d, i);
		char *list = there ? have : missing;
		size_t len = strlen(list), p = strlen(packages);

		snprintf(list + len, sizeof(have) - len, "%s%s", len ? ", " : "", interpreters[i].language);
		if (!there)
			snprintf(packages + p, sizeof(packages) - p, " %s", interpreters[i].package);
	}
	found(f, CHECK_INFO, "/usr", "%s%s%s", have[0] ? have : "none", missing[0] ? "; missing: " : "", missing);
	if (missing[0])
		found_fix(f, "sudo apt-get install%s", packages);
}

/* cordon image build: what makes root file systems here. */
static void check_images(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};
	enum build_mode mode;

	(void)d;
	(void)check;
	if (build_find_mode(&mode, &err) == 0) {
		found(f, CHECK_INFO, mode == BUILD_DEBOOTSTRAP ? "debootstrap" : "mmdebstrap", "cordon image build works here (%s)",
		      build_mode_names[mode]);
		return;
	}
	found(f, CHECK_INFO, "", "cordon image import works; %.180s", err.message);
	found_fix(f, "%s", err.hint);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

void doctor_open(struct doctor *d)
{
	static const char *const argv[] = {"/bin/true", NULL};
	struct trial t;

	*d = (struct doctor){.limits = {.v2_fd = -1}};
	if (context_open_once(&d->ctx, &d->ctx_error) < 0)
		d->ctx = NULL;
	if (idmap_pool_open(&d->ids, &d->ids_error) < 0)
		d->ids.mode = IDMAP_SELF;
	d->limits_known = limits_probe(getenv("CORDON_LIMITS"), &d->limits, &d->limits_error) == 0;
	/* last in the table, first in time: what else needs a sandbox is not tried if this one does not start */
	d->sandboxes = run_sandboxed(d, NULL, argv, &t, &d->sandbox_error) == 0;
	d->sandbox_ms = t.ms;
	d->disk_by = t.disk_by;
}

void doctor_close(struct doctor *d)
{
	if (d->limits_known)
		limits_host_close(&d->limits);
	if (d->ids.lock_fd >= 0)
		close(d->ids.lock_fd);
	cordon_close(d->ctx);
}

/* A table is read by its rows. */
/* clang-format off */
const struct check doctor_host_checks[] = {
	{"Limits", "memory limit", check_limit, LIMIT_MEMORY, "held by the kernel, for all processes together"},
	{NULL, "process limit", check_limit, LIMIT_PIDS, "held by the kernel, for all processes together"},
	{NULL, "CPU limit", check_limit, LIMIT_CPU, "held by the kernel, in fractions of a CPU"},
	{NULL, "kill and freeze as one", check_freeze, 0, "cgroup.kill and cgroup.freeze, for whatever was forked"},
	{NULL, "disk limit", check_disk, 0, NULL},
	{NULL, "no core dumps", check_core, 0, "nothing of a crash inside gets out"},
	{"Files", "state directory", check_home, 0, NULL},
	{NULL, "id-mapped mounts", check_idmapped, 0, "files of the host belong to the user inside"},
	{NULL, "workspace layers", check_overlay, 0, "changes never reach the seed directory"},
	{"More", "TIOCSTI", check_tiocsti, 0, NULL},
	{NULL, "launcher in memory", check_memfd, 0, NULL},
	{NULL, "languages", check_languages, 0, NULL},
	{NULL, "images", check_images, 0, NULL},
	{"All together", "a sandbox starts", check_sandbox, 0, NULL},
	{0},
};
/* clang-format on */
