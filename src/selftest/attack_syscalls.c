/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that a sandbox has no business to make. Made raw: the C library must not refuse, translate or cut them. Those that would do
 * harm when they work are made so that the kernel checks the permission and then fails on an argument.
 */
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_fsopen
#define SYS_fsopen 430
#endif

/* For calls that return a descriptor, a pid or 0. */
static int result(long r)
{
	return r < 0 ? -errno : 0;
}

int attack_io_uring(const struct decoys *d)
{
	uint8_t params[256] = {0}; /* struct io_uring_params, which older headers lack */

	return result(syscall(SYS_io_uring_setup, 2, params));
}

int attack_userfaultfd(const struct decoys *d)
{
	/* UFFD_USER_MODE_ONLY: what vm.unprivileged_userfaultfd = 0 leaves to everyone. */
	return result(syscall(SYS_userfaultfd, O_CLOEXEC | 1));
}

int attack_add_key(const struct decoys *d)
{
	return result(syscall(SYS_add_key, "user", "cordon-selftest", "x", 1, -2 /* KEY_SPEC_PROCESS_KEYRING */));
}

int attack_keyctl(const struct decoys *d)
{
	return result(syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3 /* KEY_SPEC_SESSION_KEYRING */, 1));
}

int attack_af_alg(const struct decoys *d)
{
	return result(syscall(SYS_socket, AF_ALG, SOCK_SEQPACKET, 0));
}

int attack_af_vsock(const struct decoys *d)
{
	return result(syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0));
}

int attack_uevents(const struct decoys *d)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = 1};
	_cleanup_fd_ int fd = (int)syscall(SYS_socket, AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT);

	return fd < 0 ? -errno : result(bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
}

int attack_af_packet(const struct decoys *d)
{
	return result(syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0x0300 /* htons(ETH_P_ALL) */));
}

int attack_personality(const struct decoys *d)
{
	long r = syscall(SYS_personality, 0x0400000UL /* READ_IMPLIES_EXEC */);

	if (r < 0)
		return -errno;
	return syscall(SYS_personality, 0xffffffffUL) & 0x0400000 ? 0 : -ENOTSEEN;
}

int attack_perf_event(const struct decoys *d)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1, .exclude_hv = 1};

	return result(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

int attack_fanotify(const struct decoys *d)
{
	/* FAN_CLASS_NOTIF | FAN_REPORT_FID: what Linux 5.13 opened to everyone. */
	return result(syscall(SYS_fanotify_init, 0x200, O_RDONLY));
}

int attack_bpf(const struct decoys *d)
{
	struct {
		uint32_t map_type, key_size, value_size, max_entries;
		uint8_t rest[112];
	} attr = {.map_type = 2 /* BPF_MAP_TYPE_ARRAY */, .key_size = 4, .value_size = 4, .max_entries = 1};

	return result(syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, &attr, 72));
}

int attack_syslog(const struct decoys *d)
{
	char buf[64];

	return result(syscall(SYS_syslog, 3 /* SYSLOG_ACTION_READ_ALL */, buf, sizeof(buf)));
}

int attack_load_module(const struct decoys *d)
{
	/* No module: ENOEXEC says that a real one would have been taken. */
	long r = syscall(SYS_init_module, "none", 4, "");

	return r < 0 && errno == ENOEXEC ? 0 : result(r);
}

int attack_reboot(const struct decoys *d)
{
	/* The permission is checked before the magic numbers, which are wrong here. */
	long r = syscall(SYS_reboot, 0, 0, 0, 0);

	return r < 0 && errno == EINVAL ? 0 : result(r);
}

int attack_iopl(const struct decoys *d)
{
#ifdef SYS_iopl
	return result(syscall(SYS_iopl, 3));
#else
	return -ENOSYS;
#endif
}

int attack_open_by_handle(const struct decoys *d)
{
	_cleanup_fd_ int mount_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct {
		uint32_t bytes;
		int32_t type;
		uint8_t data[128];
	} handle = {.bytes = sizeof(handle.data)};
	int mount_id;

	if (mount_fd < 0 || syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount_id, 0) < 0)
		return -errno;
	return result(syscall(SYS_open_by_handle_at, mount_fd, &handle, O_RDONLY));
}

/* ---- nested namespaces ---- */

int attack_unshare_userns(const struct decoys *d)
{
	return result(syscall(SYS_unshare, CLONE_NEWUSER));
}

int attack_clone_userns(const struct decoys *d)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return child_result(pid);
}

int attack_clone3_userns(const struct decoys *d)
{
	uint64_t args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD}; /* struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal … */
	pid_t pid = (pid_t)syscall(SYS_clone3, args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return child_result(pid);
}

int attack_nested_fsopen(const struct decoys *d)
{
	if (syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	return result(syscall(SYS_fsopen, "tmpfs", 0));
}

int attack_nested_mount(const struct decoys *d)
{
	if (syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	return result(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
}

/* ---- terminals ---- */

/* On a terminal of its own; that it may type into one at all is the point. */
static int type_into_terminal(unsigned long request)
{
	pid_t pid = fork();

	if (pid == 0) {
		int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, number = 0, terminal;
		char path[32];

		if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &number) < 0)
			_exit(errno);
		snprintf(path, sizeof(path), "/dev/pts/%d", number);
		terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (terminal < 0 || setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0)
			_exit(errno);
		_exit(syscall(SYS_ioctl, terminal, request, "x") < 0 ? errno : 0);
	}
	return child_result(pid);
}

int attack_tiocsti(const struct decoys *d)
{
	return type_into_terminal(TIOCSTI);
}

int attack_tiocsti_high_bits(const struct decoys *d)
{
	return type_into_terminal(TIOCSTI | 1UL << 32);
}

/* ---- other calling conventions ---- */

int attack_int80(const struct decoys *d)
{
#ifdef __x86_64__
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
	return r == getpid() ? 0 : -ENOSYS;
#else
	return -ENOSYS;
#endif
}

int attack_x32(const struct decoys *d)
{
#ifdef __x86_64__
	return result(syscall(0x40000000L + SYS_getpid));
#else
	return -ENOSYS;
#endif
}

/* ---- mounts and the machine's name; the control runs them in namespaces of its own ---- */

int attack_sethostname(const struct decoys *d)
{
	return result(syscall(SYS_sethostname, "pwned", 5));
}

int attack_mount_tmpfs(const struct decoys *d)
{
	return result(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
}

int attack_remount_usr(const struct decoys *d)
{
	if (syscall(SYS_mount, NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
		return -errno;
	return result(mkdir("/usr/cordon-selftest", 0700));
}

int attack_unmount_proc(const struct decoys *d)
{
	return result(syscall(SYS_umount2, "/proc", MNT_DETACH));
}

int attack_chroot(const struct decoys *d)
{
	return result(syscall(SYS_chroot, "/usr"));
}
