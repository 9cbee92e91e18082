/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/confine.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/broker.h"
#include "sandbox/lockdown.h"

#define MEMORY ((rlim_t)1 << 30)

/* The rest answers EPERM. bind: to find out whether an address is the host's (nearby.c); without listen it takes no connections. */
static const int allowed[] = {
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	SYS_epoll_pwait,    SYS_epoll_ctl,       SYS_accept4,      SYS_connect,       SYS_bind,      SYS_shutdown,
	SYS_getsockname,    SYS_getsockopt,      SYS_sendto,       SYS_sendmsg,       SYS_recvfrom,  SYS_recvmsg,
	SYS_read,           SYS_readv,           SYS_write,        SYS_writev,        SYS_splice,    SYS_pipe2,
	SYS_close,          SYS_fstat,           SYS_munmap,       SYS_mremap,        SYS_madvise,   SYS_brk,
	SYS_futex,          SYS_getpid,          SYS_gettimeofday, SYS_clock_gettime, SYS_getrandom, SYS_rt_sigreturn,
	SYS_rt_sigprocmask, SYS_restart_syscall, SYS_exit,         SYS_exit_group,
#ifdef ADDRESS_SANITIZER /* what its runtime needs */
	SYS_sched_yield,    SYS_gettid,          SYS_sigaltstack,  SYS_readlinkat,    SYS_prctl,     SYS_sched_getaffinity,
	SYS_openat,         SYS_newfstatat,      SYS_rt_sigaction,
#endif
};

#define ANY_OF(n) .mask = UINT32_MAX, .count = (n)

/* System calls that are allowed with some arguments only. */
static const struct lockdown_limited limited[] = {
	{SYS_socket,
         {{.argument = 0, ANY_OF(2), .values = {AF_INET, AF_INET6}},
          {.argument = 1, .mask = (uint32_t) ~(SOCK_NONBLOCK | SOCK_CLOEXEC), .count = 2, .values = {SOCK_STREAM, SOCK_DGRAM}},
          {.argument = 2, ANY_OF(3), .values = {0, IPPROTO_TCP, IPPROTO_UDP}}}},
	{SYS_setsockopt, {{.argument = 1, ANY_OF(2), .values = {SOL_SOCKET, IPPROTO_TCP}}}},
	{SYS_fcntl, {{.argument = 1, ANY_OF(5), .values = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_SETPIPE_SZ}}}},
	{SYS_ioctl, {{.argument = 1, ANY_OF(1), .values = {FIONREAD}}}},
	{SYS_mmap, {{.argument = 2, .mask = PROT_EXEC, .count = 1, .values = {0}}}},
	{SYS_mprotect, {{.argument = 2, .mask = PROT_EXEC, .count = 1, .values = {0}}}},
};

/* As root a higher limit can be set, else the one that there is; fewer descriptors mean fewer connections. */
uint32_t confine_descriptors(uint32_t wanted)
{
	const rlim_t needed = (rlim_t)wanted * BROKER_FDS_EACH + BROKER_FDS_OTHER;
	struct rlimit now, higher = {needed, needed};
	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return 1;
	if (now.rlim_max < needed && setrlimit(RLIMIT_NOFILE, &higher) == 0)
		return wanted;
	now.rlim_cur = now.rlim_max = MIN(now.rlim_max, needed);
	if (setrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_cur <= BROKER_FDS_OTHER)
		return MAX((uint32_t)(now.rlim_cur / (2 * BROKER_FDS_EACH)), 1u);
	return MAX((uint32_t)((now.rlim_cur - BROKER_FDS_OTHER) / BROKER_FDS_EACH), 1u);
}

/*
 * It ends when the library does, by the end of the socket between them. PR_SET_PDEATHSIG would be of no use: it is cleared when the user changes, and it means the thread that
 * started this process, which may end long before the library (prctl(2)).
 */
int confine(struct cordon_error *err)
{
	const struct lockdown l = {.who = "the broker",
	                           .calls = allowed,
	                           .call_count = ARRAY_SIZE(allowed),
	                           .limited = limited,
	                           .limited_count = ARRAY_SIZE(limited),
	                           .memory = MEMORY};
	return lockdown(&l, err);
}
