/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/spec.h"
#include "sandbox/wire.h"

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

static int loopback_up(struct cordon_error *err)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};
	memcpy(ifr.ifr_name, "lo", 3);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(err, "cannot bring up the loopback interface");
	return 0;
}

static void network_helper(int sock)
{
	struct cordon_error err = {0};
	_cleanup_buf_ struct buf b = {0};
	int fd = -1;
	if (unshare(CLONE_NEWNET) < 0)
		err_sys(&err, "cannot create a network namespace");
	else if (loopback_up(&err) == 0 && (fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		err_sys(&err, "cannot open the network namespace");
	if (fd < 0)
		error_encode(&err, &b);
	wire_send(sock, fd < 0 ? WIRE_ERROR : WIRE_READY, &b, &fd, fd < 0 ? 0 : 1, NULL);
}

int namespaces_network_begin(struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	pid_t pid = namespaces_clone(0, -1, NULL, err);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		network_helper(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0)
		close(pair[0]);
	return pid < 0 ? -1 : pair[0];
}

int namespaces_network_join(int helper, struct cordon_error *err)
{
	_cleanup_fd_ int sock = helper;
	_cleanup_msg_ struct wire_msg msg;
	int r = wire_recv(sock, &msg, err);
	if (r == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the process that makes the network namespace died");
	if (r < 0)
		return -1;
	if (msg.type != WIRE_READY || msg.fd_count != 1) {
		error_decode(msg.body, msg.len, err);
		return -1;
	}
	if (setns(msg.fds[0], CLONE_NEWNET) < 0)
		return err_sys(err, "cannot enter the network namespace");
	while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
		; /* the helper, our only child so far */
	return 0;
}
