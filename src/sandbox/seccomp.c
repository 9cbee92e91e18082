/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the table of syscalls.c to a classic BPF program, see seccomp(2) and Documentation/userspace-api/seccomp_filter.rst.
 *
 * Theory of operation
 *
 * The price of a filter is paid at each sandbox's start, and grows with its length: 78 instructions load in 0.09 ms, 340 in 0.29 ms.
 * Running it costs next to nothing: since Linux 5.11 the kernel finds out at load time which numbers are always allowed, and never
 * runs the filter for those. So the program is made short rather than shallow:
 *
 *	load the architecture; another than ours: kill
 *	load the number
 *	binary search over segments of numbers, each ending in
 *		a few "is it exactly n?" exceptions, and
 *		the outcome of all other numbers of the segment
 *	argument checks, one short block per rule
 *	the returns
 *
 * A segment is a run of numbers with one outcome but for single numbers in it; such an exception costs one instruction, a segment of
 * its own would cost two.
 *
 * BPF jumps only go forward, and a conditional one reaches no further than 255 instructions. The program is therefore written from its
 * end to its beginning: every target is already in place when a jump to it is made, and where it lies too far, an unconditional jump
 * (32 bits wide) is put in between.
 *
 * Arguments are 64 bits wide in struct seccomp_data. Where the kernel takes an int, it drops the upper half, and so must the check:
 * bubblewrap compared all 64 bits, and ioctl(fd, TIOCSTI | 1UL << 32) passed (CVE-2019-10063). All checks here look at the lower half
 * only. For the arguments that are longs to the kernel (clone's flags, ptrace's request), the upper half carries nothing.
 */
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/seccomp.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "cordon knows the system calls of x86_64 and arm64 only (and counts on little endian)"
#endif

/* Older headers lack these. */
#ifndef PTRACE_SEIZE
#define PTRACE_SEIZE 0x4206
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* Linux 6.3 */
#endif
#ifndef SHM_EXEC
#define SHM_EXEC 0100000
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

/* How far a conditional jump may go. The unit tests build with a few instructions only, to force the long way. */
#ifndef SECCOMP_NEAR
#define SECCOMP_NEAR 254
#endif

/* More exceptions than this in one segment would make the search linear. */
#define EXCEPTIONS_MAX 6

/* Above the highest number that the table may hold; everything from there on is unknown. */
#define NUMBERS 512

/* x32 calls come with the x86_64 architecture and this bit, see <asm/unistd.h>. */
#define X32_BIT 0x40000000u

/* The outcomes of the search are the table's rules and this one. */
enum { OUTCOME_KILL = RULE_SECCOMP + 1, OUTCOMES };

struct assembler {
	struct sock_filter *insns; /* SECCOMP_MAX_INSNS of them, filled from the end */
	unsigned at;               /* the first one in use */
	bool full;
};

/* ---- instructions: each function puts one in front of the program and returns its index, the label to jump to ---- */

static unsigned put(struct assembler *as, unsigned code, unsigned jt, unsigned jf, uint32_t k)
{
	if (as->at == 0) {
		as->full = true;
		return 0;
	}
	as->insns[--as->at] = (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
	return as->at;
}

static unsigned put_return(struct assembler *as, uint32_t action)
{
	return put(as, BPF_RET | BPF_K, 0, 0, action);
}

static unsigned put_errno(struct assembler *as, int error)
{
	return put_return(as, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA));
}

static unsigned put_load(struct assembler *as, size_t offset)
{
	return put(as, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* The lower half of an argument; both architectures are little endian. */
static unsigned put_load_arg(struct assembler *as, unsigned n)
{
	return put_load(as, offsetof(struct seccomp_data, args) + n * sizeof(uint64_t));
}

/* A label that an 8-bit jump put next can reach, even when one more instruction comes in between. */
static unsigned nearby(struct assembler *as, unsigned target)
{
	if (target - as->at <= SECCOMP_NEAR)
		return target;
	return put(as, BPF_JMP | BPF_JA, 0, 0, target - as->at);
}

/* test is BPF_JEQ, BPF_JGE or BPF_JSET of the accumulator against k. */
static unsigned put_jump(struct assembler *as, unsigned test, uint32_t k, unsigned yes, unsigned no)
{
	no = nearby(as, no);
	yes = nearby(as, yes);
	return put(as, BPF_JMP | test | BPF_K, yes - as->at, no - as->at, k);
}

/* ---- argument checks: each puts a block in front and returns its label ---- */

/* Jumps to yes if the accumulator is one of the values, else to no. */
static unsigned put_one_of(struct assembler *as, const uint32_t *values, size_t count, unsigned yes, unsigned no)
{
	while (count-- > 0)
		no = put_jump(as, BPF_JEQ, values[count], yes, no);
	return no;
}

/*
 * TIOCSTI types into the terminal's input (CVE-2017-5226), TIOCLINUX does so on a console, TIOCSETD loads line disciplines, old drivers
 * that nobody uses but exploits do (CVE-2017-2636).
 */
static unsigned put_ioctl_check(struct assembler *as, unsigned allow, unsigned deny)
{
	static const uint32_t denied[] = {TIOCSTI, TIOCLINUX, TIOCSETD};

	put_one_of(as, denied, ARRAY_SIZE(denied), deny, allow);
	return put_load_arg(as, 1);
}

/* Tracing begins with PTRACE_TRACEME, or with a fork of a traced process: one's own children. */
static unsigned put_ptrace_check(struct assembler *as, unsigned allow, unsigned deny)
{
	static const uint32_t denied[] = {PTRACE_ATTACH, PTRACE_SEIZE};

	put_one_of(as, denied, ARRAY_SIZE(denied), deny, allow);
	return put_load_arg(as, 0);
}

/* ADDR_NO_RANDOMIZE is gdb's. Not READ_IMPLIES_EXEC, not the emulations of other systems (CVE-2009-1895). */
static unsigned put_personality_check(struct assembler *as, unsigned allow, unsigned deny)
{
	static const uint32_t allowed[] = {PER_LINUX, ADDR_NO_RANDOMIZE, 0xffffffff};

	put_one_of(as, allowed, ARRAY_SIZE(allowed), allow, deny);
	return put_load_arg(as, 0);
}

/*
 * Families by allow list: AF_ALG wrote to the shared page cache (CVE-2026-31431), AF_VSOCK talks to the hypervisor, and a rare family
 * loads its module on first use. The answer is EAFNOSUPPORT, what a kernel without the family says and programs are prepared for.
 * Of netlink only NETLINK_ROUTE, for getifaddrs(3). SOCK_PACKET turns AF_INET into AF_PACKET inside the kernel (packet(7)), so it is
 * a family in disguise.
 */
static unsigned put_socket_check(struct assembler *as, unsigned allow, unsigned no_family)
{
	static const uint32_t families[] = {AF_UNIX, AF_INET6};
	unsigned netlink, inet, other;

	put_jump(as, BPF_JEQ, NETLINK_ROUTE, allow, no_family);
	netlink = put_load_arg(as, 2);

	put_jump(as, BPF_JEQ, SOCK_PACKET, no_family, allow);
	put(as, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf); /* SOCK_TYPE_MASK of linux/net.h: the rest is SOCK_CLOEXEC, SOCK_NONBLOCK */
	inet = put_load_arg(as, 1);

	other = put_one_of(as, families, ARRAY_SIZE(families), allow, no_family);
	other = put_jump(as, BPF_JEQ, AF_NETLINK, netlink, other);
	put_jump(as, BPF_JEQ, AF_INET, inet, other);
	return put_load_arg(as, 0);
}

static unsigned put_socketpair_check(struct assembler *as, unsigned allow, unsigned no_family)
{
	put_jump(as, BPF_JEQ, AF_UNIX, allow, no_family);
	return put_load_arg(as, 0);
}

/*
 * For clone and unshare. Refused are all namespaces; with SECCOMP_ALLOW_USERNS those remain refused that a browser's own sandbox does
 * without. Mount namespaces are among them: a user namespace alone gives no mounts, as the mount calls are denied anyway.
 * CLONE_NEWTIME only exists for unshare; in clone's flags the bit is part of the exit signal.
 */
static unsigned put_namespace_check(struct assembler *as, unsigned flags, bool is_unshare, unsigned allow, unsigned deny)
{
	uint32_t refused = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS;

	if (!(flags & SECCOMP_ALLOW_USERNS))
		refused |= CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC;
	if (is_unshare)
		refused |= CLONE_NEWTIME;
	put_jump(as, BPF_JSET, refused, deny, allow);
	return put_load_arg(as, 0);
}

/*
 * An allow list, for the same reason as the table: an option that nobody here has read must not become available by a kernel update.
 * The answer is EINVAL, what prctl(2) says of an option that the kernel does not know. Ranges in ascending order; between them:
 *	35      PR_SET_MM: rewrites /proc/self/exe and the memory layout that the watcher reads
 *	57, 58  PR_SET_IO_FLUSHER and its query: takes from the reserves of memory
 *	59      PR_SET_SYSCALL_USER_DISPATCH: catches system calls before seccomp sees them
 *	62      PR_SCHED_CORE: keeps other tenants off the sibling hyperthreads
 *	67, 68  PR_SET_MEMORY_MERGE and its query: merged pages are a side channel between sandboxes
 *	77..    PR_TIMER_CREATE_RESTORE_IDS (CRIU's), PR_FUTEX_HASH (kernel memory by request), and the future
 */
static unsigned put_prctl_check(struct assembler *as, unsigned allow, unsigned unknown)
{
	static const struct {
		uint32_t first, last;
	} allowed[] = {
		{PR_SET_PDEATHSIG, 34},       /* to PR_MCE_KILL_GET: names, dumpable, seccomp, bounding set, securebits, timer slack */
		{PR_SET_CHILD_SUBREAPER, 56}, /* to PR_GET_TAGGED_ADDR_CTRL: no_new_privs, ambient capabilities, SVE, speculation */
#ifdef __aarch64__
		{60, 61}, /* PR_PAC_SET_ENABLED_KEYS, PR_PAC_GET_ENABLED_KEYS */
		{63, 66}, /* PR_SME_*, PR_SET_MDWE, PR_GET_MDWE */
		{74, 76}, /* PR_*_SHADOW_STACK_STATUS */
#else
		{65, 66}, /* PR_SET_MDWE, PR_GET_MDWE: memory is never writable and executable */
#endif
		{0x41555856, 0x41555856},         /* PR_GET_AUXV */
		{0x53564d41, 0x53564d41},         /* PR_SET_VMA: names of anonymous memory (JVM, glibc) */
		{PR_SET_PTRACER, PR_SET_PTRACER}, /* Yama: crash handlers name their debugger */
	};
	unsigned next = unknown;

	for (size_t i = ARRAY_SIZE(allowed); i-- > 0;) {
		if (allowed[i].first == allowed[i].last) {
			next = put_jump(as, BPF_JEQ, allowed[i].first, allow, next);
		} else { /* what lies below the first was asked before, or is in no range */
			next = put_jump(as, BPF_JGE, allowed[i].last + 1, next, allow);
			next = put_jump(as, BPF_JGE, allowed[i].first, next, unknown);
		}
	}
	return put_load_arg(as, 0);
}

/*
 * The limit on core dumps is 1 (confine.c), the one value for which the kernel starts no handler where core_pattern is a pipe; lower ones
 * start it, outside and as root. So programs may ask for another value, and are told that they have it.
 */
static unsigned put_setrlimit_check(struct assembler *as, unsigned allow, unsigned done)
{
	put_jump(as, BPF_JEQ, RLIMIT_CORE, done, allow);
	return put_load_arg(as, 0);
}

/* Jumps to set if argument 2, a pointer to a new limit, is not NULL. */
static unsigned put_has_new_limit(struct assembler *as, unsigned set, unsigned unset)
{
	unsigned high;

	put_jump(as, BPF_JEQ, 0, unset, set);
	high = put_load(as, offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t) + sizeof(uint32_t));
	put_jump(as, BPF_JEQ, 0, high, set);
	return put_load_arg(as, 2);
}

/* And nobody sets the limits of pid 1, which runs under the same id where there is only one. */
static unsigned put_prlimit_check(struct assembler *as, unsigned allow, unsigned deny, unsigned done)
{
	unsigned core = put_has_new_limit(as, done, allow), init = put_has_new_limit(as, deny, allow), other;

	put_jump(as, BPF_JEQ, 1, init, allow);
	other = put_load_arg(as, 0);
	put_jump(as, BPF_JEQ, RLIMIT_CORE, core, other);
	return put_load_arg(as, 1);
}

/*
 * A mount that is writable inside maps its owner to the sandbox's user: a set-user-id file made there would be one of the owner's, root's
 * perhaps, on the host. nosuid on the mount only keeps it from working inside.
 */
static unsigned put_mode_check(struct assembler *as, unsigned argument, unsigned allow, unsigned deny)
{
	put_jump(as, BPF_JSET, S_ISUID | S_ISGID, deny, allow);
	return put_load_arg(as, argument);
}

/* The mode of open(2) means something only when a file is made; else its register holds anything. */
static unsigned put_open_check(struct assembler *as, unsigned flags, unsigned allow, unsigned deny)
{
	unsigned mode = put_mode_check(as, flags + 1, allow, deny);

	put_jump(as, BPF_JSET, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), mode, allow);
	return put_load_arg(as, flags);
}

/* Threads share their process and its program; everything else that clone makes could become another. */
static unsigned put_thread_check(struct assembler *as, unsigned allow, unsigned deny)
{
	put_jump(as, BPF_JSET, CLONE_THREAD, allow, deny);
	return put_load_arg(as, 0);
}

static unsigned put_memfd_check(struct assembler *as, unsigned allow, unsigned refuse)
{
	put_jump(as, BPF_JSET, MFD_NOEXEC_SEAL, allow, refuse);
	return put_load_arg(as, 1);
}

/*
 * What is executable comes from a file, and nobody could have written to it: not through this mapping, and not through a second one of the same pages. Anonymous
 * memory that is shared can be mapped a second time (mremap(2) of size 0) and made writable there, and so can /dev/zero; nothing but that needs
 * executable memory that is shared. What else could be written, the mounts do not let be executed.
 */
static unsigned put_mmap_check(struct assembler *as, unsigned allow, unsigned refuse)
{
	unsigned executable;

	put_jump(as, BPF_JSET, MAP_SHARED | MAP_ANONYMOUS, refuse, allow); /* MAP_SHARED_VALIDATE has the bit of MAP_SHARED */
	executable = put_load_arg(as, 3);
	executable = put_jump(as, BPF_JSET, PROT_WRITE, refuse, executable);
	put_jump(as, BPF_JSET, PROT_EXEC, executable, allow);
	return put_load_arg(as, 2);
}

/* For mprotect and shmat: a bit of argument 2. */
static unsigned put_no_bit_check(struct assembler *as, uint32_t bit, unsigned allow, unsigned refuse)
{
	put_jump(as, BPF_JSET, bit, refuse, allow);
	return put_load_arg(as, 2);
}

static unsigned put_seccomp_check(struct assembler *as, unsigned allow, unsigned busy)
{
	put_jump(as, BPF_JSET, SECCOMP_FILTER_FLAG_NEW_LISTENER, busy, allow);
	return put_load_arg(as, 1);
}

/* ---- the search over numbers ---- */

struct range {
	uint32_t first; /* and up to the next range's first */
	uint8_t outcome;
};

/* The range at .range; single numbers at .range + 1, + 3, …, its exceptions; and more of the same outcome in between. */
struct segment {
	uint16_t range;
	uint8_t exceptions;
};

#define RANGES_MAX (NUMBERS + 3)

/* Runs of numbers with the same outcome, from 0 to 2^32 - 1. */
static size_t find_ranges(const uint8_t outcomes[NUMBERS], struct range ranges[RANGES_MAX])
{
	size_t count = 0;

	for (uint32_t nr = 0; nr < NUMBERS; nr++)
		if (count == 0 || ranges[count - 1].outcome != outcomes[nr])
			ranges[count++] = (struct range){nr, outcomes[nr]};
	if (ranges[count - 1].outcome != RULE_NOSYS)
		ranges[count++] = (struct range){NUMBERS, RULE_NOSYS};
#ifdef __x86_64__
	/* -1 is no x32 call but what a tracer writes to skip a call (ptrace(2)); strace's fault injection does. */
	ranges[count++] = (struct range){X32_BIT, OUTCOME_KILL};
	ranges[count++] = (struct range){UINT32_MAX, RULE_NOSYS};
#endif
	return count;
}

/* Folds single numbers between two ranges of the same outcome into one segment with an exception. */
static size_t find_segments(const struct range *ranges, size_t count, struct segment *segments)
{
	size_t made = 0;

	for (size_t i = 0; i < count; i++) {
		struct segment *s = &segments[made++];

		*s = (struct segment){.range = (uint16_t)i};
		while (i + 2 < count && ranges[i + 2].outcome == ranges[i].outcome && ranges[i + 2].first == ranges[i + 1].first + 1 &&
		       s->exceptions < EXCEPTIONS_MAX) {
			s->exceptions++;
			i += 2;
		}
	}
	return made;
}

static unsigned put_segment(struct assembler *as, const struct range *ranges, const struct segment *s, const unsigned labels[OUTCOMES])
{
	const struct range *r = &ranges[s->range];
	unsigned next = labels[r->outcome];

	for (unsigned i = s->exceptions; i-- > 0;)
		next = put_jump(as, BPF_JEQ, r[2 * i + 1].first, labels[r[2 * i + 1].outcome], next);
	return next;
}

static unsigned put_search(struct assembler *as, const struct range *ranges, const struct segment *segments, size_t count,
                           const unsigned labels[OUTCOMES])
{
	size_t middle = count / 2;
	unsigned lower, upper;

	if (count == 1)
		return put_segment(as, ranges, segments, labels);
	upper = put_search(as, ranges, segments + middle, count - middle, labels);
	lower = put_search(as, ranges, segments, middle, labels);
	return put_jump(as, BPF_JGE, ranges[segments[middle].range].first, upper, lower);
}

/* ---- the program ---- */

/* What the rule of a call comes down to: most rules mean RULE_ALLOW unless a flag asks for more. */
static enum syscall_rule outcome_of(enum syscall_rule rule, unsigned flags)
{
	const bool native = !(flags & SECCOMP_NO_NATIVE);

	if (rule >= RULE_MODE1 && rule <= RULE_OPENAT2)
		return flags & SECCOMP_NO_SETID ? rule : RULE_ALLOW;
	if (rule == RULE_AFFINITY)
		return flags & SECCOMP_PIN_CPUS ? RULE_DENY : RULE_ALLOW;
	if (rule == RULE_NOTIFY)
		return flags & SECCOMP_NOTIFY ? RULE_NOTIFY : RULE_ALLOW;
	if (rule == RULE_EXEC)
		return flags & SECCOMP_TRACE ? RULE_NOTIFY : RULE_ALLOW;
	if (rule == RULE_IDS)
		return flags & SECCOMP_ONE_ID ? RULE_IDS : RULE_ALLOW;
	if (rule == RULE_READER)
		return flags & SECCOMP_READER ? RULE_ALLOW : RULE_DENY;
	if (rule == RULE_FORK)
		return !(flags & SECCOMP_ALONE) ? RULE_ALLOW : flags & SECCOMP_TRACE ? RULE_NOTIFY : RULE_DENY;
	if (rule == RULE_MEMFD)
		return !native ? RULE_NOSYS : flags & SECCOMP_LISTED ? RULE_MEMFD : RULE_ALLOW;
#ifdef __aarch64__
	/* ld.so makes its code BTI-protected by mprotect; where the kernel has PR_SET_MDWE, that tells old code from new */
	if (rule == RULE_MPROTECT && (flags & SECCOMP_MDWE))
		return RULE_ALLOW;
#endif
	if (rule == RULE_MMAP || rule == RULE_MPROTECT || rule == RULE_SHMAT)
		return native ? RULE_ALLOW : rule;
	if (rule == RULE_PTRACE)
		return native ? RULE_PTRACE : RULE_DENY;
	return rule;
}

/* Every outcome's block; the returns come last in the program, so first here. */
static void put_outcomes(struct assembler *as, unsigned flags, unsigned labels[OUTCOMES])
{
	unsigned kill = put_return(as, SECCOMP_RET_KILL_PROCESS);
	unsigned done = put_errno(as, 0);
	unsigned no_option = put_errno(as, EINVAL);
	unsigned no_family = put_errno(as, EAFNOSUPPORT);
	unsigned nosys = put_errno(as, ENOSYS);
	unsigned deny = put_errno(as, EPERM);
	unsigned allow = put_return(as, SECCOMP_RET_ALLOW);
	unsigned refuse = deny, thread = allow;

	labels[OUTCOME_KILL] = kill;
	labels[RULE_NOSYS] = nosys;
	labels[RULE_DENY] = deny;
	labels[RULE_ALLOW] = allow;
	labels[RULE_IDS] = done;
	labels[RULE_AFFINITY] = flags & SECCOMP_PIN_CPUS ? deny : allow;
	if (flags & (SECCOMP_NOTIFY | SECCOMP_TRACE))
		labels[RULE_NOTIFY] = put_return(as, SECCOMP_RET_USER_NOTIF);
	if (flags & (SECCOMP_LISTED | SECCOMP_NO_NATIVE))
		refuse = put_errno(as, EACCES);
	if (flags & SECCOMP_ALONE)
		thread = put_thread_check(as, allow, labels[outcome_of(RULE_FORK, flags)]);
	labels[RULE_CLONE] = put_namespace_check(as, flags, false, thread, deny);
	labels[RULE_UNSHARE] = put_namespace_check(as, flags, true, allow, deny);
	labels[RULE_SOCKET] = put_socket_check(as, allow, no_family);
	labels[RULE_SOCKETPAIR] = put_socketpair_check(as, allow, no_family);
	labels[RULE_IOCTL] = put_ioctl_check(as, allow, deny);
	labels[RULE_PTRACE] = put_ptrace_check(as, allow, deny);
	labels[RULE_PERSONALITY] = put_personality_check(as, allow, deny);
	labels[RULE_PRCTL] = put_prctl_check(as, allow, no_option);
	labels[RULE_SETRLIMIT] = put_setrlimit_check(as, allow, done);
	labels[RULE_PRLIMIT] = put_prlimit_check(as, allow, deny, done);
	labels[RULE_SECCOMP] = put_seccomp_check(as, allow, put_errno(as, EBUSY));
	labels[RULE_OPENAT2] = nosys;
	if (flags & SECCOMP_NO_SETID) {
		labels[RULE_MODE1] = put_mode_check(as, 1, allow, deny);
		labels[RULE_MODE2] = put_mode_check(as, 2, allow, deny);
		labels[RULE_OPEN] = put_open_check(as, 1, allow, deny);
		labels[RULE_OPENAT] = put_open_check(as, 2, allow, deny);
	}
	if (flags & SECCOMP_LISTED)
		labels[RULE_MEMFD] = put_memfd_check(as, allow, refuse);
	if (flags & SECCOMP_NO_NATIVE) {
		labels[RULE_MMAP] = put_mmap_check(as, allow, refuse);
		labels[RULE_MPROTECT] = put_no_bit_check(as, PROT_EXEC, allow, refuse);
		labels[RULE_SHMAT] = put_no_bit_check(as, SHM_EXEC, allow, refuse);
	}
}

int seccomp_compile(unsigned flags, struct seccomp_program *out, struct cordon_error *err)
{
	uint8_t outcomes[NUMBERS];
	struct range ranges[RANGES_MAX];
	struct segment segments[RANGES_MAX];
	struct assembler as = {.insns = out->insns, .at = SECCOMP_MAX_INSNS};
	unsigned labels[OUTCOMES], search;
	size_t count;

	memset(outcomes, RULE_NOSYS, sizeof(outcomes));
	for (size_t i = 0; i < syscall_table_len; i++) {
		const struct syscall_entry *e = &syscall_table[i];

		if (e->nr < 0 || e->nr >= NUMBERS)
			return err_set(err, CORDON_ERR_INPUT, "cannot compile the system call filter: %s has the number %d, above %d",
			               e->name, e->nr, NUMBERS - 1);
		/* Resolved here rather than by its label, so that it can merge with its neighbours. */
		outcomes[e->nr] = (uint8_t)outcome_of(e->rule, flags);
	}
	count = find_ranges(outcomes, ranges);
	count = find_segments(ranges, count, segments);

	put_outcomes(&as, flags, labels);
	search = put_search(&as, ranges, segments, count, labels);
	if (search != as.at) /* a table of one outcome only, or a long jump in between: the program must begin with the search */
		put(&as, BPF_JMP | BPF_JA, 0, 0, search - as.at);
	search = put_load(&as, offsetof(struct seccomp_data, nr));
	put_jump(&as, BPF_JEQ, NATIVE_ARCH, search, labels[OUTCOME_KILL]);
	put_load(&as, offsetof(struct seccomp_data, arch));
	if (as.full)
		return err_set(err, CORDON_ERR_INPUT, "cannot compile the system call filter: more than %d instructions",
		               SECCOMP_MAX_INSNS);

	out->len = (unsigned short)(SECCOMP_MAX_INSNS - as.at);
	memmove(out->insns, out->insns + as.at, out->len * sizeof(out->insns[0]));
	return 0;
}

static int load(const struct seccomp_program *prog, unsigned long flags)
{
	/* The kernel only reads the instructions; its type just is not const. */
	struct sock_fprog fprog = {.len = prog->len, .filter = (struct sock_filter *)(uintptr_t)prog->insns};
	long r = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &fprog);

	return r < 0 ? -errno : (int)r;
}

int seccomp_load(const struct seccomp_program *prog)
{
	return load(prog, 0);
}

int seccomp_load_listener(const struct seccomp_program *prog, bool killable)
{
	return load(prog, SECCOMP_FILTER_FLAG_NEW_LISTENER | (killable ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0));
}

/* What is to be done about one call, and only about that of our own architecture: numbers mean other calls in others. Jumps are relative: what stands in front changes none. */
static bool put_in_front(struct seccomp_program *prog, unsigned nr, const struct sock_filter *check, unsigned char count)
{
	const struct sock_filter is_it[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0, count + 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, count),
	};
	const size_t all = ARRAY_SIZE(is_it) + count;
	if (prog->len + all > SECCOMP_MAX_INSNS)
		return false;
	memmove(prog->insns + all, prog->insns, prog->len * sizeof(prog->insns[0]));
	memcpy(prog->insns, is_it, sizeof(is_it));
	memcpy(prog->insns + ARRAY_SIZE(is_it), check, count * sizeof(check[0]));
	prog->len += (unsigned short)all;
	return true;
}

bool seccomp_add_password(struct seccomp_program *prog, uint64_t word)
{
	const uint32_t at = offsetof(struct seccomp_data, args[5]);
	const struct sock_filter check[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)word, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4),   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(word >> 32), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return put_in_front(prog, __NR_execve, check, ARRAY_SIZE(check));
}

bool seccomp_add_handover(struct seccomp_program *prog, unsigned nr)
{
	const struct sock_filter check[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
	return put_in_front(prog, nr, check, ARRAY_SIZE(check));
}

bool seccomp_is_ours(const struct seccomp_data *data, unsigned nr)
{
	return data->arch == NATIVE_ARCH && (unsigned)data->nr == nr;
}

void seccomp_allow_notified(struct seccomp_program *prog)
{
	for (unsigned i = 0; i < prog->len; i++)
		if (prog->insns[i].code == (BPF_RET | BPF_K) && prog->insns[i].k == SECCOMP_RET_USER_NOTIF)
			prog->insns[i].k = SECCOMP_RET_ALLOW;
}
