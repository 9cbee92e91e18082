/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel offers to this caller: namespaces, system calls, file systems inside namespaces, filters. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/doctor.h"
#include "sandbox/landlock.h"
#include "sandbox/mount_syscalls.h"
#include "sandbox/namespaces.h"
#include "sandbox/seccomp.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1ul << 3)
#endif
#define PROBE_SECONDS 5 /* a probe on a dead NFS server must not hang the doctor */

/* ---- trying things in a child ------------------------------------------------------------------------------------------------ */

typedef int (*probe_function)(struct cordon_error *err);

_Noreturn static void probe_child(int sock, const struct idmap *ids, uint64_t flags, probe_function function)
{
	struct cordon_error err = {0};
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (read(sock, &go, 1) != 1)
		_exit(1);
	if ((flags & CLONE_NEWUSER) && ids->mode != IDMAP_SELF &&
	    (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0))
		err_sys(&err, "cannot become the namespace's root");
	else if (function(&err) == 0)
		err.code = CORDON_OK;
	_exit(send(sock, &err, sizeof(err), MSG_NOSIGNAL) != sizeof(err));
}

/* Runs a function in a new process; with CLONE_NEWUSER among the flags it has the id map of a sandbox and is its root, as init will be. */
static int try_in_child(struct doctor *d, uint64_t flags, probe_function function, struct cordon_error *err)
{
	const struct timeval patience = {.tv_sec = PROBE_SECONDS};
	struct idmap ids = {.mode = IDMAP_SELF};
	struct cordon_error answer;
	int pair[2], result = -1;

	if ((flags & CLONE_NEWUSER) && idmap_take(&d->ids, UINT32_MAX, UINT32_MAX, false, &ids, err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_sys(err, "socketpair");
		goto release;
	}
	pid_t pid = flags ? namespaces_clone(flags, -1, NULL, err) : fork();
	if (pid == 0) {
		close(pair[0]);
		probe_child(pair[1], &ids, flags, function);
	}
	if (pid < 0 && !flags)
		err_sys(err, "fork");
	close(pair[1]);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (pid > 0 && (!(flags & CLONE_NEWUSER) || idmap_write(&ids, pid, err) == 0)) {
		if (send(pair[0], "g", 1, MSG_NOSIGNAL) != 1 || recv(pair[0], &answer, sizeof(answer), 0) != sizeof(answer))
			err_set(err, CORDON_ERR_SYSTEM, "the probe was killed or did not answer");
		else if (answer.code == CORDON_OK)
			result = 0;
		else
			*err = answer;
	}
	close(pair[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
release:
	idmap_release(&d->ids, &ids);
	return result;
}

/* ---- what the host is -------------------------------------------------------------------------------------------------------- */

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

static bool kernel_at_least(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned have_major = 0, have_minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%u.%u", &have_major, &have_minor) == 2 &&
	       (have_major > major || (have_major == major && have_minor >= minor));
}

static void check_kernel(struct doctor *d, const struct check *check, struct finding *f)
{
	struct utsname u = {0};
	char by[sizeof(f->by)];

	(void)d;
	(void)check;
	uname(&u);
	snprintf(by, sizeof(by), "Linux %.48s", u.release);
	found(f, CHECK_INFO, by, "%s, %s %u%s", u.machine, geteuid() ? "as uid" : "as root, uid", (unsigned)geteuid(),
	      in_container() ? ", in a container" : "");
}

/* ---- namespaces -------------------------------------------------------------------------------------------------------------- */

/* -1: there is no such setting. */
static long read_setting(const char *path)
{
	char text[32];

	return fs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : -1;
}

/* Ubuntu lets a namespace be made and takes its capabilities away: only using one shows it. */
static int use_capability(struct cordon_error *err)
{
	return chroot("/") == 0 ? 0 : err_sys(err, "no capabilities in the new namespace");
}

/* The settings that forbid user namespaces, in the order in which they are likely to be the reason. */
static const struct {
	const char *path;
	long value;
	bool users_only;
	const char *fix;
} userns_settings[] = {
	{"/proc/sys/user/max_user_namespaces", 0, false, "sudo sysctl -w user.max_user_namespaces=15000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", 0, true, "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1, true,
         "sudo make install APPARMOR=yes   (or: sudo install -m 644 deploy/apparmor/cordon /etc/apparmor.d/ && sudo apparmor_parser -r "
         "/etc/apparmor.d/cordon)"},
};

static void userns_fix(struct finding *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(userns_settings); i++)
		if (read_setting(userns_settings[i].path) == userns_settings[i].value &&
		    (!userns_settings[i].users_only || geteuid() != 0)) {
			found_fix(f, "%s", userns_settings[i].fix);
			return;
		}
	if (in_container())
		found_fix(f, "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
		             "--security-opt systempaths=unconfined …");
	else
		found_fix(f,
		          "not from inside a chroot; a kernel with CONFIG_USER_NS; in a container, one without a seccomp filter on clone");
}

static void check_userns(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (try_in_child(d, CLONE_NEWUSER, use_capability, &err) == 0) {
		d->namespaces = true;
		found(f, CHECK_YES, "CLONE_NEWUSER", "%s", check->about);
		return;
	}
	found(f, CHECK_NO, "", "%s", err.message);
	userns_fix(f);
}

static int do_nothing(struct cordon_error *err)
{
	(void)err;
	return 0;
}

/* Things that need the user namespace are not tried without it: one cause, one fix. */
static bool needs_userns(const struct doctor *d, struct finding *f)
{
	if (!d->namespaces)
		found(f, CHECK_NO, "", "not tried: it needs a user namespace");
	return !d->namespaces;
}

static void check_namespace(struct doctor *d, const struct check *check, struct finding *f)
{
	static const struct {
		uint64_t flag;
		const char *by, *sysctl;
	} kinds[] = {
		{CLONE_NEWPID, "CLONE_NEWPID", "user.max_pid_namespaces"},
		{CLONE_NEWNS, "CLONE_NEWNS", "user.max_mnt_namespaces"},
		{CLONE_NEWNET, "CLONE_NEWNET", "user.max_net_namespaces"},
		{CLONE_NEWIPC, "CLONE_NEWIPC", "user.max_ipc_namespaces"},
		{CLONE_NEWUTS, "CLONE_NEWUTS", "user.max_uts_namespaces"},
		{CLONE_NEWCGROUP, "CLONE_NEWCGROUP", "user.max_cgroup_namespaces"},
	};
	struct cordon_error err = {0};

	if (needs_userns(d, f))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].flag != check->flag)
			continue;
		if (try_in_child(d, CLONE_NEWUSER | check->flag, do_nothing, &err) == 0)
			found(f, CHECK_YES, kinds[i].by, "%s", check->about);
		else {
			found(f, CHECK_NO, "", "%s", err.message);
			found_fix(f, "%s%s%s",
			          err.sys_errno == ENOSPC ? "sudo sysctl -w " : "a kernel built with namespaces of this kind (",
			          kinds[i].sysctl, err.sys_errno == ENOSPC ? "=15000" : ")");
		}
	}
}

static void check_ids(struct doctor *d, const struct check *check, struct finding *f)
{
	(void)check;
	if (d->ids.mode == IDMAP_RANGE) {
		found(f, CHECK_YES, "65,536 ids each", "no id inside equals an id of the host or of another sandbox");
	} else if (d->ids.mode == IDMAP_SMALL) {
		found(f, CHECK_WEAKER, "3 ids each", "our own user namespace has too few ids for ranges of 65,536");
	} else {
		found(f, CHECK_WEAKER, "your own id", "processes inside have uid %u, as you outside: only namespaces stand between%s%.80s",
		      (unsigned)geteuid(), d->ids_error.message[0] ? "; " : "", d->ids_error.message);
	}
	if (d->ids.mode != IDMAP_RANGE)
		found_fix(f, "%s",
		          geteuid() ? "sudo cordon run …" : "docker run --userns=host …, or run cordon outside this user namespace");
}

/* ---- system calls ------------------------------------------------------------------------------------------------------------ */

static int try_openat2(void)
{
	_cleanup_fd_ int fd = fs_open(AT_FDCWD, "/", O_PATH, 0, FS_ANYWHERE);
	return fd < 0 ? -1 : 0;
}

static int try_clone3(void)
{
	/* a size of 0 is refused by a kernel that knows the call, without anything being made */
	return syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL ? -1 : 0;
}

static int try_pidfd(void)
{
	struct cordon_error err = {0};
	int pidfd = -1;
	pid_t pid = namespaces_clone(0, -1, &pidfd, &err);

	if (pid == 0) {
		pause();
		_exit(0);
	}
	int r = pid < 0 || pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), saved = errno;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	cleanup_fd(&pidfd);
	errno = pid < 0 ? err.sys_errno : saved;
	return r;
}

static int try_close_range(void)
{
	return syscall(SYS_close_range, ~0u, ~0u, 0) < 0 ? -1 : 0;
}

/* The row's flag is an index into this. */
enum { CALL_OPENAT2, CALL_CLONE3, CALL_PIDFD, CALL_CLOSE_RANGE };
static const struct {
	const char *by;
	int (*try)(void);
	unsigned minor;       /* in Linux 5.x since */
	const char *fallback; /* NULL: none; else one of the same strength */
} calls[] = {
	[CALL_OPENAT2] = {"openat2", try_openat2, 6, NULL},
	[CALL_CLONE3] = {"clone3", try_clone3, 3, "clone"},
	[CALL_PIDFD] = {"CLONE_PIDFD", try_pidfd, 2, NULL},
	[CALL_CLOSE_RANGE] = {"close_range", try_close_range, 9, NULL},
};

static void kernel_fix(struct finding *f, unsigned major, unsigned minor)
{
	if (kernel_at_least(major, minor))
		found_fix(f, "this kernel has it, so a filter hides it: docker run --security-opt seccomp=unconfined …");
	else
		found_fix(f, "Linux %u.%u or later", major, minor);
}

static void check_call(struct doctor *d, const struct check *check, struct finding *f)
{
	size_t i = check->flag;

	(void)d;
	if (calls[i].try() == 0) {
		found(f, CHECK_YES, calls[i].by, "%s", check->about);
	} else if (calls[i].fallback) {
		found(f, CHECK_YES, calls[i].fallback, "%s is refused (%s); as strong, only slower", calls[i].by, strerror(errno));
	} else {
		found(f, CHECK_NO, "", "%s: %s", calls[i].by, strerror(errno));
		kernel_fix(f, 5, calls[i].minor);
	}
}

/* ---- mounts inside namespaces ------------------------------------------------------------------------------------------------ */

static int new_mount(const char *type, struct cordon_error *err)
{
	_cleanup_fd_ int fs = sys_fsopen(type);

	if (fs < 0)
		return err_sys(err, "fsopen %s", type);
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return err_sys(err, "fsconfig %s", type);
	int mnt = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return mnt >= 0 ? mnt : err_sys(err, "fsmount %s", type);
}

static int use_mount_api(struct cordon_error *err)
{
	_cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), tmpfs = new_mount("tmpfs", err);

	if (tmpfs < 0)
		return -1;
	if (root < 0 || sys_move_mount(tmpfs, root, "tmp") < 0)
		return err_sys(err, "move_mount");
	_cleanup_fd_ int tree = sys_open_tree(tmpfs, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
	if (tree < 0)
		return err_sys(err, "open_tree");
	return sys_mount_setattr(tree, 0, MOUNT_ATTR_RDONLY, 0, -1) == 0 ? 0 : err_sys(err, "mount_setattr");
}

static int use_proc(struct cordon_error *err)
{
	_cleanup_fd_ int proc = new_mount("proc", err);
	return proc < 0 ? -1 : 0;
}

static void check_mount_api(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (needs_userns(d, f))
		return;
	if (try_in_child(d, CLONE_NEWUSER | CLONE_NEWNS, use_mount_api, &err) == 0) {
		found(f, CHECK_YES, "fsopen, mount_setattr", "%s", check->about);
		return;
	}
	found(f, CHECK_NO, "", "%s", err.message);
	kernel_fix(f, 5, 12);
}

static void check_proc(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (needs_userns(d, f))
		return;
	if (try_in_child(d, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, use_proc, &err) == 0) {
		found(f, CHECK_YES, "procfs", "%s", check->about);
	} else if (err.sys_errno == EPERM) {
		/* mount_too_revealing(): a new one may not show more than the one that is visible here */
		found(f, CHECK_NO, "", "%s: /proc is masked here, as container engines do", err.message);
		found_fix(f, "docker run --security-opt systempaths=unconfined …; podman run --security-opt unmask=ALL …");
	} else {
		found(f, CHECK_NO, "", "%s", err.message);
		kernel_fix(f, 5, 2);
	}
}

/* ---- filters ----------------------------------------------------------------------------------------------------------------- */

static int load_filter(struct cordon_error *err)
{
	static struct seccomp_program program;
	int r;

	if (seccomp_compile(0, &program, err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, "no_new_privs");
	r = seccomp_load(&program);
	if (r < 0) {
		errno = -r;
		err_sys(err, "cannot load the filter");
	}
	/* the answer goes out through it: sendto is allowed */
	return r;
}

static void check_seccomp(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (try_in_child(d, 0, load_filter, &err) == 0) {
		found(f, CHECK_YES, "seccomp", "%s", check->about);
		return;
	}
	found(f, CHECK_NO, "", "%s", err.message);
	found_fix(f, "a kernel with CONFIG_SECCOMP_FILTER");
}

static int open_listener(struct cordon_error *err)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, "no_new_privs");
	_cleanup_fd_ int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return fd < 0 ? err_sys(err, "seccomp") : 0;
}

static void check_notify(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (try_in_child(d, 0, open_listener, &err) == 0)
		found(f, CHECK_INFO, "there", "%s", check->about);
	else
		found(f, CHECK_INFO, "missing", "%s (Linux 5.5 or later): renaming a directory of a workspace answers EXDEV", err.message);
}

static void check_landlock(struct doctor *d, const struct check *check, struct finding *f)
{
	static const struct {
		const char *adds, *since;
	} abis[] = {
		{"files", "5.13"},         {"links between directories", "5.19"},    {"truncate", "6.2"}, {"TCP ports", "6.7"},
		{"device ioctls", "6.10"}, {"signals and abstract sockets", "6.12"},
	};
	const int known = (int)ARRAY_SIZE(abis), needed = 3; /* before ABI 3 a write by truncate(2) gets past it */
	int abi = landlock_abi();
	char by[sizeof(f->by)], list[200] = "";
	size_t len = 0;

	(void)d;
	(void)check;
	if (abi == 0) {
		found(f, CHECK_NO, "", "no second wall behind the mounts; cordon refuses to run without --allow-weak landlock");
		found_fix(f, kernel_at_least(5, 13) ? "add landlock to the lsm= list on the kernel's command line, and boot"
		                                    : "Linux 5.13 or later");
		return;
	}
	for (int i = abi < known ? abi : 0; i < known; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, abi < known ? "%s%s (Linux %s)" : "%s%s", len ? ", " : "",
		                        abis[i].adds, abis[i].since);
	snprintf(by, sizeof(by), "Landlock ABI %d", abi);
	found(f, abi < needed ? CHECK_WEAKER : CHECK_YES, by, "%s%s", abi < known ? "does not cover: " : "", list);
	if (abi < needed)
		found_fix(f, "Linux 6.2 or later; until then only the read-only mounts stop truncate(2)");
}

/* A table is read by its rows. */
/* clang-format off */
const struct check doctor_kernel_checks[] = {
	{"This host", "kernel", check_kernel, 0, NULL},
	{"Isolation", "user namespace", check_userns, 0, "capabilities inside count for nothing outside"},
	{NULL, "pid namespace", check_namespace, CLONE_NEWPID, "no process of the host in sight; all end with pid 1"},
	{NULL, "mount namespace", check_namespace, CLONE_NEWNS, "a root file system of its own"},
	{NULL, "network namespace", check_namespace, CLONE_NEWNET, "no network but its own loopback"},
	{NULL, "ipc namespace", check_namespace, CLONE_NEWIPC, "no shared memory or message queue of the host"},
	{NULL, "uts namespace", check_namespace, CLONE_NEWUTS, "a host name of its own"},
	{NULL, "cgroup namespace", check_namespace, CLONE_NEWCGROUP, "the host's cgroup paths stay hidden"},
	{NULL, "distinct ids", check_ids, 0, NULL},
	{NULL, "system call filter", check_seccomp, 0, "an allow list, loaded here for a try"},
	{NULL, "file access rules", check_landlock, 0, NULL},
	{NULL, "private /proc", check_proc, 0, "mounted in a user namespace"},
	{NULL, "mounts by descriptor", check_mount_api, 0, "read-only, nosuid and nodev before they can be seen"},
	{NULL, "race-free paths", check_call, CALL_OPENAT2, "what was checked is what is opened"},
	{NULL, "birth in namespaces", check_call, CALL_CLONE3, "all at once, and inside its cgroup"},
	{NULL, "process handles", check_call, CALL_PIDFD, "a signal never hits a reused pid"},
	{NULL, "no leaked descriptors", check_call, CALL_CLOSE_RANGE, "all others are closed before a command starts"},
	{NULL, "seccomp notification", check_notify, 0, "directories of a workspace can be renamed, which overlayfs alone refuses"},
	{0},
};
/* clang-format on */
