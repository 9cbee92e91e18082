/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/broker.h"
#include "sandbox/landlock.h"

#define NOBODY 65534
#define MEMORY ((rlim_t)1 << 30)

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

/* The rest answers EPERM. */
static const int allowed[] = {
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	SYS_epoll_pwait,     SYS_epoll_ctl,    SYS_accept4,       SYS_connect,    SYS_shutdown,     SYS_getsockname,
	SYS_getsockopt,      SYS_sendto,       SYS_sendmsg,       SYS_recvfrom,   SYS_recvmsg,      SYS_read,
	SYS_readv,           SYS_write,        SYS_writev,        SYS_splice,     SYS_pipe2,        SYS_close,
	SYS_fstat,           SYS_munmap,       SYS_mremap,        SYS_madvise,    SYS_brk,          SYS_futex,
	SYS_getpid,          SYS_gettimeofday, SYS_clock_gettime, SYS_getrandom,  SYS_rt_sigreturn, SYS_rt_sigprocmask,
	SYS_restart_syscall, SYS_exit,         SYS_exit_group,
#ifdef __SANITIZE_ADDRESS__ /* what its runtime needs */
	SYS_sched_yield,     SYS_gettid,       SYS_sigaltstack,   SYS_readlinkat, SYS_prctl,        SYS_sched_getaffinity,
	SYS_openat,          SYS_newfstatat,   SYS_rt_sigaction,
#endif
};

/* (argument & mask) must be one of these. */
struct condition {
	uint8_t argument, count;
	uint32_t mask, values[5];
};
#define ANY_OF(n) .mask = UINT32_MAX, .count = (n)

/* System calls that are allowed with some arguments only. */
static const struct limited {
	int nr;
	struct condition conditions[3];
} limited[] = {
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

#define LIMITED_INSNS (2 + 3 * (3 + 5)) /* of one entry, at most */

struct program {
	struct sock_filter insns[ARRAY_SIZE(allowed) + ARRAY_SIZE(limited) * LIMITED_INSNS + 8];
	unsigned short len;
};

static void add(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	p->insns[p->len++] = (struct sock_filter){code, yes, no, k};
}

static void add_condition(struct program *p, const struct condition *c)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8u * c->argument), 0, 0); /* its low half */
	add(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	for (uint8_t i = 0; i < c->count; i++)
		add(p, BPF_JMP | BPF_JEQ | BPF_K, c->values[i], (uint8_t)(c->count - i), 0);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void add_limited(struct program *p, const struct limited *l)
{
	const unsigned short at = p->len;
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)l->nr, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(l->conditions) && l->conditions[i].count; i++)
		add_condition(p, &l->conditions[i]);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	p->insns[at].jf = (uint8_t)(p->len - at - 1);
}

static int load_filter(void)
{
	struct program p = {.len = 0};
	const uint8_t count = ARRAY_SIZE(allowed);
	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	add(&p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(limited); i++)
		add_limited(&p, &limited[i]);
	for (uint8_t i = 0; i < count; i++)
		add(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], (uint8_t)(count - i), 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	const struct sock_fprog prog = {.len = p.len, .filter = p.insns};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

/* As root of a user namespace there may be no other user to become: then its capabilities are what can be given up. */
static int give_up_user(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	    setresuid(NOBODY, NOBODY, NOBODY) == 0)
		return 0;
	return (int)syscall(SYS_capset, &header, none);
}

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
#ifdef __SANITIZE_ADDRESS__
	const struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY}; /* its shadow is a matter of terabytes */
	const struct rlimit files = memory;                          /* and it writes its reports somewhere */
#else
	const struct rlimit memory = {MEMORY, MEMORY}, files = {0, 0};
#endif
	const struct rlimit none = {0, 0};
	_cleanup_fd_ int ruleset = landlock_abi() > 0 ? landlock_ruleset(NULL, 0, err) : -1;
	if (give_up_user() < 0)
		return err_sys(err, "the broker cannot give up its user");
	if (chdir("/") < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &files) < 0 || setrlimit(RLIMIT_AS, &memory) < 0 ||
	    setrlimit(RLIMIT_NPROC, &none) < 0 || (ruleset >= 0 && landlock_restrict(ruleset) < 0))
		return err_sys(err, "the broker cannot lock itself in");
	return load_filter() < 0 ? err_sys(err, "the broker cannot load its filter") : 0;
}
