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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* ---- the network namespace ---------------------------------------------------------------------------------------------------- */

/*
 * The helper is a process that shares memory and descriptors with its parent, which is cheaper than a copy of them and saves a socket: it
 * makes the namespace, opens it, leaves the descriptor here and ends. It calls nothing but the kernel, and stops at the first failure, so that all it
 * could disturb is its parent's errno, in the moment when both have failed anyway. One that makes an airlock goes on after some failures: it has memory of its own, but
 * for this structure, which is in memory that is shared.
 */
static struct network_helper {
	_Alignas(16) char stack[(size_t)16 << 10];
	pid_t pid;
	bool loopback;  /* bring it up */
	bool made_here; /* there is none: the caller has made its own */
	const struct airlock_spec *airlock;
	struct airlock made;
	int fd;
	int error;        /* errno, 0: all went well */
	const char *what; /* was being done then */
} plain_helper, *helper = &plain_helper;

static int loopback_up(void)
{
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};
	memcpy(ifr.ifr_name, "lo", 3);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &ifr);
	if (fd >= 0)
		close(fd);
	return r;
}

static int network_helper(void *arg)
{
	struct network_helper *h = arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	h->what = "create a network namespace";
	if (unshare(CLONE_NEWNET) < 0)
		goto fail;
	if (h->airlock->port_count && airlock_make(h->airlock, &h->made, &h->what) < 0)
		goto fail;
	h->what = "bring up the loopback interface";
	if (h->loopback && loopback_up() < 0)
		goto fail;
	h->what = "open the network namespace";
	h->fd = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (h->fd >= 0)
		return 0;
fail:
	h->error = errno;
	return 1;
}

/* Both are to run at the same time; the scheduler would rather keep a child that is so short where its parent is. */
static void send_elsewhere(pid_t pid)
{
	cpu_set_t set;
	int here = sched_getcpu();
	if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	CPU_CLR(here, &set);
	if (CPU_COUNT(&set) > 0)
		sched_setaffinity(pid, sizeof(set), &set);
}

int namespaces_network_make(bool loopback, struct cordon_error *err)
{
	helper->made_here = true;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(err, "cannot create a network namespace");
	return loopback && loopback_up() < 0 ? err_sys(err, "cannot bring up the loopback interface") : 0;
}

int namespaces_network_begin(bool loopback, const struct airlock_spec *airlock, struct cordon_error *err)
{
	if (airlock->port_count) {
		helper = mmap(NULL, sizeof(*helper), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (helper == MAP_FAILED)
			return err_sys(err, "cannot make room for the process that makes the network namespace");
	}
	const int memory = airlock->port_count ? 0 : CLONE_VM;
	helper->loopback = loopback;
	helper->airlock = airlock;
	helper->fd = -1;
	helper->pid = clone(network_helper, helper->stack + sizeof(helper->stack), memory | CLONE_FILES | SIGCHLD, helper);
	if (helper->pid < 0)
		return err_sys(err, "cannot start the process that makes the network namespace");
	send_elsewhere(helper->pid);
	return 0;
}

int namespaces_network_join(struct airlock *out, struct cordon_error *err)
{
	if (helper->made_here)
		return 0;
	while (waitpid(helper->pid, NULL, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot wait for the network namespace");
	_cleanup_fd_ int fd = helper->fd;
	if (fd < 0 && !helper->error)
		return err_set(err, CORDON_ERR_SYSTEM, "the process that makes the network namespace died");
	if (fd < 0) {
		errno = helper->error;
		return err_sys(err, "cannot %s", helper->what);
	}
	*out = helper->made;
	return setns(fd, CLONE_NEWNET) < 0 ? err_sys(err, "cannot enter the network namespace") : 0;
}
