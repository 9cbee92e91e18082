/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

/* clone(2) takes the stack before the flags' companions in an order that differs by architecture; for a plain fork only flags and pidfd count. */
static pid_t clone_fallback(uint64_t flags, int *pidfd)
{
#if defined(__x86_64__) || defined(__aarch64__)
	return (pid_t)syscall(SYS_clone, (unsigned long)flags | SIGCHLD, 0, pidfd, 0, 0);
#else
#error "argument order of clone(2) not known for this architecture"
#endif
}

/* As good as CLONE_INTO_CGROUP, only slower: nothing of the command runs before it. */
static int enter_cgroup(int cgroup_fd)
{
	_cleanup_fd_ int fd = openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, "0", 1) == 1 ? 0 : -1;
}

static int clone_error(struct cordon_error *err)
{
	int e = errno;
	err_sys(err, "cannot create namespaces");
	if (e == EPERM || e == EACCES)
		err_hint(err, "this host restricts user namespaces; `cordon doctor` says how to allow them");
	else if (e == ENOSPC || e == EUSERS)
		err_hint(err, "the limit on namespaces is reached; raise user.max_user_namespaces and its siblings with sysctl");
	return -1;
}

pid_t namespaces_clone(uint64_t flags, int cgroup_fd, int *pidfd, struct cordon_error *err)
{
	struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
	if (pidfd) {
		args.flags |= CLONE_PIDFD;
		args.pidfd = (uint64_t)(uintptr_t)pidfd;
	}
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0 && errno == ENOSYS) { /* before 5.3, or a container's filter that cannot look into clone3's arguments */
		pid = clone_fallback(flags | (pidfd ? CLONE_PIDFD : 0), pidfd);
		if (pid == 0 && cgroup_fd >= 0 && enter_cgroup(cgroup_fd) < 0)
			_exit(125);
	}
	return pid < 0 ? clone_error(err) : pid;
}

int namespaces_loopback_up(struct cordon_error *err)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};
	memcpy(ifr.ifr_name, "lo", 3);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(err, "cannot bring up the loopback interface");
	return 0;
}
