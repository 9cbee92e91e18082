/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call filter, twice: by an interpreter of classic BPF over every number and many arguments, and for real in children that
 * load it. Built a second time with short jumps (SECCOMP_NEAR), so that the long ones are tested too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/personality.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/seccomp.h"

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

#define ALLOWED SECCOMP_RET_ALLOW
#define KILLED SECCOMP_RET_KILL_PROCESS
#define HANDED_OVER SECCOMP_RET_USER_NOTIF
#define FAILS(error) (SECCOMP_RET_ERRNO | (error))

/* Loading costs time by the instruction (DESIGN 4.2): a table that outgrows this wants a second look, not a higher bound. */
#ifdef SECCOMP_NEAR
#define LENGTH_MAX SECCOMP_MAX_INSNS
#else
#define LENGTH_MAX 164
#endif
/* What a policy asks for that is not the default may cost a little. */
#define LENGTH_ASKED 24

#define GARBAGE 0xdeadbeef00000000u
#define ASKED (SECCOMP_ALONE | SECCOMP_LISTED | SECCOMP_NO_NATIVE | SECCOMP_ONE_ID)
#define ALL_FLAGS                                                                                                             \
	(SECCOMP_PIN_CPUS | SECCOMP_ALLOW_USERNS | SECCOMP_NO_SETID | SECCOMP_NOTIFY | SECCOMP_TRACE | ASKED | SECCOMP_MDWE | \
	 SECCOMP_READER)

extern char **environ;

static struct seccomp_program program;

static void compile(unsigned flags)
{
	struct cordon_error err = {0};

	assert_int_equal(seccomp_compile(flags, &program, &err), 0);
}

/* ---- the interpreter ---- */

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	assert_true(offset <= sizeof(*data) - sizeof(word) && offset % sizeof(word) == 0);
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

static uint32_t run(const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (unsigned pc = 0; pc < program.len; pc++) {
		const struct sock_filter *i = &program.insns[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(data, i->k);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %u has the unknown code 0x%x", pc, i->code);
		}
	}
	fail_msg("the program runs off its end");
	return 0;
}

static uint32_t verdict4(long nr, uint64_t arg0, uint64_t arg1, uint64_t arg2, uint64_t arg3)
{
	struct seccomp_data data = {.nr = (int)nr, .arch = NATIVE, .args = {arg0, arg1, arg2, arg3}};

	return run(&data);
}

static uint32_t verdict(long nr, uint64_t arg0, uint64_t arg1, uint64_t arg2)
{
	return verdict4(nr, arg0, arg1, arg2, 0);
}

/* ---- the compiled program ---- */

static void test_program_is_short_and_every_jump_lands_inside(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		compile(flags);
		assert_in_range(program.len, 1, flags & ASKED && LENGTH_MAX < SECCOMP_MAX_INSNS ? LENGTH_MAX + LENGTH_ASKED : LENGTH_MAX);
		for (unsigned pc = 0; pc < program.len; pc++) {
			const struct sock_filter *i = &program.insns[pc];

			if (i->code == (BPF_JMP | BPF_JA)) {
				assert_true(i->k < program.len - pc - 1);
			} else if (BPF_CLASS(i->code) == BPF_JMP) {
				assert_true(i->jt < program.len - pc - 1);
				assert_true(i->jf < program.len - pc - 1);
			}
		}
		assert_int_equal(BPF_CLASS(program.insns[program.len - 1].code), BPF_RET);
	}
}

static void test_table_names_no_number_twice(void **state)
{
	for (size_t i = 0; i < syscall_table_len; i++)
		for (size_t k = i + 1; k < syscall_table_len; k++)
			if (syscall_table[i].nr == syscall_table[k].nr)
				fail_msg("%s and %s have the number %d", syscall_table[i].name, syscall_table[k].name, syscall_table[i].nr);
}

/* What a rule says of a call whose arguments are all zero. */
static uint32_t expected(enum syscall_rule rule, unsigned flags)
{
	switch (rule) {
	case RULE_ALLOW:
	case RULE_UNSHARE:
	case RULE_SECCOMP:
	case RULE_IOCTL:
	case RULE_MMAP: /* PROT_NONE */
	case RULE_MPROTECT:
	case RULE_SHMAT:
	case RULE_PERSONALITY:
	case RULE_SETRLIMIT: /* RLIMIT_CPU */
	case RULE_PRLIMIT:
	case RULE_MODE1:
	case RULE_MODE2:
	case RULE_OPEN:
	case RULE_OPENAT:
		return ALLOWED;
	case RULE_OPENAT2:
		return flags & SECCOMP_NO_SETID ? FAILS(ENOSYS) : ALLOWED;
	case RULE_DENY:
		return FAILS(EPERM);
	case RULE_NOSYS:
		return FAILS(ENOSYS);
	case RULE_SOCKET: /* AF_UNSPEC */
	case RULE_SOCKETPAIR:
		return FAILS(EAFNOSUPPORT);
	case RULE_PRCTL: /* there is no option 0 */
		return FAILS(EINVAL);
	case RULE_AFFINITY:
		return flags & SECCOMP_PIN_CPUS ? FAILS(EPERM) : ALLOWED;
	case RULE_NOTIFY:
		return flags & SECCOMP_NOTIFY ? HANDED_OVER : ALLOWED;
	case RULE_EXEC:
		return flags & SECCOMP_TRACE ? HANDED_OVER : ALLOWED;
	case RULE_IDS:
		return flags & SECCOMP_ONE_ID ? FAILS(0) : ALLOWED;
	case RULE_READER:
		return flags & SECCOMP_READER ? ALLOWED : FAILS(EPERM);
	case RULE_CLONE:
	case RULE_FORK:
		return !(flags & SECCOMP_ALONE) ? ALLOWED : flags & SECCOMP_TRACE ? HANDED_OVER : FAILS(EPERM);
	case RULE_PTRACE: /* PTRACE_TRACEME */
		return flags & SECCOMP_NO_NATIVE ? FAILS(EPERM) : ALLOWED;
	case RULE_MEMFD:
		return flags & SECCOMP_NO_NATIVE ? FAILS(ENOSYS) : flags & SECCOMP_LISTED ? FAILS(EACCES) : ALLOWED;
	}
	return KILLED;
}

static void test_every_entry_gets_what_its_rule_says(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		compile(flags);
		for (size_t i = 0; i < syscall_table_len; i++) {
			const struct syscall_entry *e = &syscall_table[i];

			if (verdict(e->nr, 0, 0, 0) != expected(e->rule, flags))
				fail_msg("%s (%d) gets 0x%x under flags %u", e->name, e->nr, verdict(e->nr, 0, 0, 0), flags);
		}
	}
}

static void test_the_core_limit_cannot_be_changed_and_nobody_notices(void **state)
{
	const uint64_t high_only = 1ull << 40;

	compile(0);
	assert_int_equal(verdict(__NR_setrlimit, RLIMIT_CORE, 0x1000, 0), FAILS(0));
	assert_int_equal(verdict(__NR_setrlimit, RLIMIT_CORE | 7ull << 32, 0x1000, 0), FAILS(0));
	assert_int_equal(verdict(__NR_setrlimit, RLIMIT_NOFILE, 0x1000, 0), ALLOWED);
	assert_int_equal(verdict(__NR_prlimit64, 0, RLIMIT_CORE, 0x1000), FAILS(0));
	assert_int_equal(verdict(__NR_prlimit64, 0, RLIMIT_CORE, high_only), FAILS(0));
	assert_int_equal(verdict(__NR_prlimit64, 0, RLIMIT_CORE, 0), ALLOWED);
	assert_int_equal(verdict(__NR_prlimit64, 0, RLIMIT_STACK, 0x1000), ALLOWED);
	assert_int_equal(verdict(__NR_prlimit64, 1, RLIMIT_CPU, 0x1000), FAILS(EPERM));
	assert_int_equal(verdict(__NR_prlimit64, 1, RLIMIT_CPU, high_only), FAILS(EPERM));
	assert_int_equal(verdict(__NR_prlimit64, 1, RLIMIT_CPU, 0), ALLOWED);
	assert_int_equal(verdict(__NR_prlimit64, 5, RLIMIT_CPU, 0x1000), ALLOWED);
}

static void test_no_file_gets_a_set_id_bit_where_that_is_asked_for(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		const uint32_t refused = flags & SECCOMP_NO_SETID ? FAILS(EPERM) : ALLOWED;

		compile(flags);
		for (unsigned bit = 02000; bit <= 04000; bit *= 2) {
			assert_int_equal(verdict(__NR_fchmod, 3, 0755 | bit, 0), refused);
			assert_int_equal(verdict(__NR_fchmodat, 3, 0x1000, 0755 | bit), refused);
			assert_int_equal(verdict(452 /* fchmodat2 */, 3, 0x1000, 0755 | bit), refused);
			assert_int_equal(verdict(__NR_mknodat, 3, 0x1000, S_IFREG | 0755 | bit), refused);
			assert_int_equal(verdict4(__NR_openat, 3, 0x1000, O_CREAT | O_WRONLY, 0755 | bit), refused);
			assert_int_equal(verdict4(__NR_openat, 3, 0x1000, O_TMPFILE | O_WRONLY, 0755 | bit), refused);
			assert_int_equal(verdict4(__NR_openat, 3, 0x1000, O_DIRECTORY, 0755 | bit), ALLOWED);
		}
		assert_int_equal(verdict(__NR_fchmod, 3, 01777, 0), ALLOWED);
		assert_int_equal(verdict4(__NR_openat, 3, 0x1000, O_CREAT, 0644), ALLOWED);
	}
}

static void test_renames_are_handed_over_where_that_is_asked_for(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		const uint32_t want = flags & SECCOMP_NOTIFY ? HANDED_OVER : ALLOWED;

		compile(flags);
#ifdef __NR_rename
		assert_int_equal(verdict(__NR_rename, 0x1000, 0x2000, 0), want);
#endif
		assert_int_equal(verdict4(__NR_renameat, 3, 0x1000, 4, 0x2000), want);
		assert_int_equal(verdict4(__NR_renameat2, 3, 0x1000, 4, 0x2000), want);
		assert_int_equal(verdict(__NR_landlock_restrict_self, 3, 0, 0), want);
		assert_int_equal(verdict4(__NR_linkat, 3, 0x1000, 4, 0x2000), ALLOWED);
		seccomp_allow_notified(&program);
		assert_int_equal(verdict4(__NR_renameat2, 3, 0x1000, 4, 0x2000), ALLOWED);
		assert_int_equal(verdict(__NR_mount, 0, 0, 0), FAILS(EPERM));
		assert_int_equal(verdict(5000, 0, 0, 0), FAILS(ENOSYS));
	}
}

static void test_programs_are_handed_over_where_that_is_asked_for(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		const uint32_t want = flags & SECCOMP_TRACE ? HANDED_OVER : ALLOWED;

		compile(flags);
		assert_int_equal(verdict(__NR_execve, 0x1000, 0x2000, 0x3000), want);
		assert_int_equal(verdict(__NR_execveat, GARBAGE | 3, 0x1000, 0x2000), want);
		seccomp_allow_notified(&program);
		assert_int_equal(verdict(__NR_execve, 0x1000, 0x2000, 0x3000), ALLOWED);
	}
}

static uint32_t verdict_with_password(long nr, uint64_t word)
{
	struct seccomp_data data = {.nr = (int)nr, .arch = NATIVE, .args = {0x1000, 0x2000, 0x3000, word, word, word}};

	return run(&data);
}

static void test_a_password_opens_execve_alone(void **state)
{
	const uint64_t word = 0x0123456789abcdef;

	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		const uint32_t without = flags & SECCOMP_TRACE ? HANDED_OVER : ALLOWED;

		compile(flags);
		const unsigned len = program.len;
		const uint32_t denied = verdict_with_password(__NR_mount, word);
		assert_true(seccomp_add_password(&program, word));
		assert_in_range(program.len, len + 1, len + 9);
		assert_int_equal(verdict_with_password(__NR_execve, word), ALLOWED);
		assert_int_equal(verdict_with_password(__NR_execveat, word), without);
		assert_int_equal(verdict_with_password(__NR_mount, word), denied);
		for (unsigned bit = 0; bit < 64; bit++)
			assert_int_equal(verdict_with_password(__NR_execve, word ^ (uint64_t)1 << bit), without);
		assert_int_equal(verdict_with_password(__NR_execve, 0), without);
	}
	program.len = SECCOMP_MAX_INSNS - 3;
	assert_false(seccomp_add_password(&program, word));
}

static void test_any_call_can_be_handed_over(void **state)
{
	compile(SECCOMP_TRACE);
	assert_int_equal(verdict(__NR_exit_group, 0, 0, 0), ALLOWED);
	assert_true(seccomp_add_handover(&program, __NR_exit_group));
	assert_int_equal(verdict(__NR_exit_group, 0, 0, 0), HANDED_OVER);
	assert_int_equal(verdict(__NR_exit, 0, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_mount, 0, 0, 0), FAILS(EPERM));
	program.len = SECCOMP_MAX_INSNS - 2;
	assert_false(seccomp_add_handover(&program, __NR_exit_group));
}

static void test_tracing_programs_costs_a_few_instructions(void **state)
{
	compile(SECCOMP_NO_SETID | SECCOMP_NOTIFY);
	const unsigned before = program.len;
	compile(SECCOMP_NO_SETID | SECCOMP_NOTIFY | SECCOMP_TRACE);
#ifndef SECCOMP_NEAR
	assert_in_range(program.len, before, before + 6);
#else
	assert_true(program.len >= before);
#endif
}

static void test_who_is_alone_has_threads_only(void **state)
{
	static const uint32_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;

	for (unsigned traced = 0; traced <= SECCOMP_TRACE; traced += SECCOMP_TRACE) {
		const uint32_t refused = traced ? HANDED_OVER : FAILS(EPERM);

		compile(SECCOMP_ALONE | traced);
		assert_int_equal(verdict(__NR_clone, thread, 0, 0), ALLOWED);
		assert_int_equal(verdict(__NR_clone, thread | CLONE_NEWPID, 0, 0), FAILS(EPERM));
		assert_int_equal(verdict(__NR_clone, SIGCHLD, 0, 0), refused);
		assert_int_equal(verdict(__NR_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0), refused);
		assert_int_equal(verdict(__NR_clone, (uint64_t)CLONE_THREAD << 32 | SIGCHLD, 0, 0), refused);
		assert_int_equal(verdict(__NR_clone3, 0x1000, 88, 0), FAILS(ENOSYS));
#ifdef __NR_fork
		assert_int_equal(verdict(__NR_fork, 0, 0, 0), refused);
		assert_int_equal(verdict(__NR_vfork, 0, 0, 0), refused);
#endif
		/* who loaded it has its own to make */
		assert_int_equal(verdict(__NR_execve, 0x1000, 0, 0), traced ? HANDED_OVER : ALLOWED);
	}
}

static void test_listed_programs_are_not_joined_by_memory(void **state)
{
	const unsigned cloexec = 1, sealing = 2, noexec = 8, exec = 0x10;

	compile(SECCOMP_LISTED);
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, 0, 0), FAILS(EACCES));
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, cloexec | sealing | exec, 0), FAILS(EACCES));
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, GARBAGE | cloexec, 0), FAILS(EACCES));
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, (uint64_t)noexec << 32, 0), FAILS(EACCES));
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, noexec | cloexec, 0), ALLOWED);
	compile(SECCOMP_LISTED | SECCOMP_NO_NATIVE);
	assert_int_equal(verdict(__NR_memfd_create, 0x1000, noexec, 0), FAILS(ENOSYS));
}

static void test_without_native_code_memory_never_becomes_executable(void **state)
{
	static const uint32_t shared[] = {MAP_SHARED, MAP_SHARED_VALIDATE};
	const uint64_t high = GARBAGE;

	compile(SECCOMP_NO_NATIVE);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE), ALLOWED);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE), ALLOWED);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS), ALLOWED);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS), ALLOWED);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE), FAILS(EACCES));
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, high | PROT_WRITE | PROT_EXEC, high | MAP_PRIVATE), FAILS(EACCES));
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS), FAILS(EACCES));
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_EXEC, shared[i]), FAILS(EACCES));
		assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_READ | PROT_EXEC, high | shared[i] | MAP_ANONYMOUS), FAILS(EACCES));
	}
	for (int k = 0; k < 2; k++) {
		const long nr = k ? __NR_pkey_mprotect : __NR_mprotect;
		assert_int_equal(verdict(nr, 0x1000, 4096, PROT_READ | PROT_WRITE), ALLOWED);
		assert_int_equal(verdict(nr, 0x1000, 4096, PROT_READ | PROT_EXEC), FAILS(EACCES));
		assert_int_equal(verdict(nr, 0x1000, 4096, high | PROT_EXEC), FAILS(EACCES));
	}
	assert_int_equal(verdict(__NR_shmat, 1, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_shmat, 1, 0, SHM_RDONLY), ALLOWED);
	assert_int_equal(verdict(__NR_shmat, 1, 0, SHM_EXEC | SHM_RDONLY), FAILS(EACCES));
	assert_int_equal(verdict(__NR_shmat, 1, 0, high | SHM_EXEC), FAILS(EACCES));
	for (int request = 0; request < 0x4300; request++)
		assert_int_equal(verdict(__NR_ptrace, (uint64_t)request, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_process_vm_writev, 0, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_personality, READ_IMPLIES_EXEC, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_userfaultfd, 0, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_io_uring_setup, 0, 0, 0), FAILS(EPERM));
	compile(0);
	assert_int_equal(verdict4(__NR_mmap, 0, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS), ALLOWED);
	assert_int_equal(verdict(__NR_mprotect, 0x1000, 4096, PROT_READ | PROT_EXEC), ALLOWED);
}

static void test_every_other_number_answers_enosys(void **state)
{
	static const uint32_t beyond[] = {5000, 0xffff, 0x3fffffff, 0xffffffff};
	bool named[1024] = {false};

	for (size_t i = 0; i < syscall_table_len; i++) {
		assert_in_range(syscall_table[i].nr, 0, ARRAY_SIZE(named) - 1);
		named[syscall_table[i].nr] = true;
	}
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		compile(flags);
		for (int nr = 0; nr < (int)ARRAY_SIZE(named); nr++)
			if (!named[nr] && verdict(nr, 0, 0, 0) != FAILS(ENOSYS))
				fail_msg("number %d gets 0x%x", nr, verdict(nr, 0, 0, 0));
		for (size_t i = 0; i < ARRAY_SIZE(beyond); i++)
			assert_int_equal(verdict((int)beyond[i], 0, 0, 0), FAILS(ENOSYS));
	}
}

static void test_other_architectures_are_killed(void **state)
{
	struct seccomp_data data = {0};

	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		compile(flags);
		data.args[5] = 7; /* nor does what stands in front of the program know them */
		assert_true(seccomp_add_password(&program, 7) && seccomp_add_handover(&program, __NR_exit_group));
		for (data.nr = 0; data.nr < 1024; data.nr++) {
			data.arch = FOREIGN;
			assert_int_equal(run(&data), KILLED);
			data.arch = 0;
			assert_int_equal(run(&data), KILLED);
		}
	}
}

static void test_nobody_has_a_listener_of_his_own(void **state)
{
	for (unsigned flags = 0; flags <= ALL_FLAGS; flags++) {
		compile(flags);
		assert_int_equal(verdict(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0x1000), FAILS(EBUSY));
		assert_int_equal(verdict(__NR_seccomp, SECCOMP_SET_MODE_FILTER, GARBAGE | SECCOMP_FILTER_FLAG_NEW_LISTENER | 1, 0x1000),
		                 FAILS(EBUSY));
		assert_int_equal(verdict(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, 0x1000), ALLOWED);
	}
}

static void test_x32_calls_are_killed(void **state)
{
#ifdef __x86_64__
	compile(0);
	for (int nr = 0; nr < 1024; nr++)
		assert_int_equal(verdict(0x40000000 | nr, 0, 0, 0), KILLED);
	assert_int_equal(verdict(0x7fffffff, 0, 0, 0), KILLED);
	assert_int_equal(verdict((int)0xc0000000, 0, 0, 0), KILLED);
#else
	skip(); /* x32 exists on x86_64 only */
#endif
}

static void test_terminal_injection_is_denied_whatever_the_upper_half_says(void **state)
{
	static const unsigned denied[] = {TIOCSTI, 0x541c /* TIOCLINUX */, TIOCSETD};
	static const unsigned allowed[] = {TCGETS, TIOCGWINSZ, TIOCSCTTY, FIONREAD, FIOCLEX};

	compile(0);
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
		assert_int_equal(verdict(__NR_ioctl, 0, denied[i], 0), FAILS(EPERM));
		assert_int_equal(verdict(__NR_ioctl, 0, GARBAGE | denied[i], 0), FAILS(EPERM));
	}
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		assert_int_equal(verdict(__NR_ioctl, 0, allowed[i], 0), ALLOWED);
}

static void test_socket_families_are_an_allow_list(void **state)
{
	compile(0);
	for (unsigned family = 0; family < 64; family++) {
		bool ip = family == AF_INET || family == AF_INET6;
		uint32_t want = ip || family == AF_UNIX || family == AF_NETLINK ? ALLOWED : FAILS(EAFNOSUPPORT);

		assert_int_equal(verdict(__NR_socket, family, SOCK_STREAM | SOCK_CLOEXEC, 0), want);
		assert_int_equal(verdict(__NR_socket, GARBAGE | family, SOCK_STREAM, 0), want);
		assert_int_equal(verdict(__NR_socketpair, family, SOCK_STREAM, 0), family == AF_UNIX ? ALLOWED : FAILS(EAFNOSUPPORT));
	}
	assert_int_equal(verdict(__NR_socket, AF_INET, SOCK_STREAM, 6), ALLOWED);
	assert_int_equal(verdict(__NR_socket, AF_INET6, SOCK_DGRAM, 17), ALLOWED);
}

static void test_netlink_is_for_routes_only(void **state)
{
	compile(0);
	for (unsigned protocol = 0; protocol < 32; protocol++)
		assert_int_equal(verdict(__NR_socket, AF_NETLINK, SOCK_RAW, GARBAGE | protocol),
		                 protocol == NETLINK_ROUTE ? ALLOWED : FAILS(EAFNOSUPPORT));
}

/* packet(7): the kernel makes an AF_PACKET socket of it. */
static void test_sock_packet_is_no_way_around_the_families(void **state)
{
	compile(SECCOMP_ALLOW_USERNS);
	assert_int_equal(verdict(__NR_socket, AF_INET, SOCK_PACKET, 0), FAILS(EAFNOSUPPORT));
	assert_int_equal(verdict(__NR_socket, AF_INET, GARBAGE | SOCK_PACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), FAILS(EAFNOSUPPORT));
	assert_int_equal(verdict(__NR_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), ALLOWED);
}

static const uint32_t namespaces[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET};

static void test_clone_makes_processes_and_threads_but_no_namespaces(void **state)
{
	static const uint32_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
	                               CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;

	compile(0);
	assert_int_equal(verdict(__NR_clone, SIGCHLD, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_clone, thread, 0, 0), ALLOWED);
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		assert_int_equal(verdict(__NR_clone, namespaces[i] | SIGCHLD, 0, 0), FAILS(EPERM));
		assert_int_equal(verdict(__NR_clone, GARBAGE | namespaces[i], 0, 0), FAILS(EPERM));
		assert_int_equal(verdict(__NR_unshare, namespaces[i], 0, 0), FAILS(EPERM));
		assert_int_equal(verdict(__NR_unshare, GARBAGE | namespaces[i] | CLONE_FS, 0, 0), FAILS(EPERM));
	}
	assert_int_equal(verdict(__NR_unshare, 0x80 /* CLONE_NEWTIME */, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_unshare, CLONE_FS | CLONE_FILES, 0, 0), ALLOWED);
}

static void test_allow_userns_gives_user_namespaces_but_no_mount_namespaces(void **state)
{
	compile(SECCOMP_ALLOW_USERNS);
	assert_int_equal(verdict(__NR_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | SIGCHLD, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_unshare, CLONE_NEWUSER, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_unshare, CLONE_NEWUSER | CLONE_NEWNS, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_mount, 0, 0, 0), FAILS(EPERM));
}

static void test_only_own_children_are_traced(void **state)
{
	compile(0);
	assert_int_equal(verdict(__NR_ptrace, PTRACE_TRACEME, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_ptrace, PTRACE_PEEKDATA, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_ptrace, PTRACE_CONT, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_ptrace, PTRACE_ATTACH, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_ptrace, PTRACE_SEIZE, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_ptrace, GARBAGE | PTRACE_ATTACH, 0, 0), FAILS(EPERM));
}

static void test_personality_keeps_memory_protection(void **state)
{
	compile(0);
	assert_int_equal(verdict(__NR_personality, 0xffffffff, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_personality, UINT64_MAX, 0, 0), ALLOWED); /* the query, sign-extended */
	assert_int_equal(verdict(__NR_personality, ADDR_NO_RANDOMIZE, 0, 0), ALLOWED);
	assert_int_equal(verdict(__NR_personality, READ_IMPLIES_EXEC, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_personality, GARBAGE | READ_IMPLIES_EXEC, 0, 0), FAILS(EPERM));
	assert_int_equal(verdict(__NR_personality, ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC, 0, 0), FAILS(EPERM));
}

static void test_prctl_options_are_an_allow_list(void **state)
{
	static const uint32_t allowed[] = {
		PR_SET_PDEATHSIG,
		PR_SET_DUMPABLE,
		PR_SET_NAME,
		PR_SET_SECCOMP,
		PR_CAPBSET_DROP,
		PR_SET_SECUREBITS,
		PR_SET_TIMERSLACK,
		34,
		PR_SET_CHILD_SUBREAPER,
		PR_SET_NO_NEW_PRIVS,
		PR_SET_THP_DISABLE,
		PR_CAP_AMBIENT,
		53,
		56,
		65,
		66,
		0x41555856,
		0x53564d41,
		PR_SET_PTRACER,
	};
	static const uint32_t refused[] = {0, PR_SET_MM, 57, 58, 59, 62, 67, 68, 77, 78, 79, 1000, 0x41555855, 0x53564d42, 0xffffffff};

	compile(0);
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		if (verdict(__NR_prctl, GARBAGE | allowed[i], 0, 0) != ALLOWED)
			fail_msg("prctl option %u is refused", allowed[i]);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (verdict(__NR_prctl, GARBAGE | refused[i], 0, 0) != FAILS(EINVAL))
			fail_msg("prctl option %u is not refused", refused[i]);
}

/* ---- for real ---- */

/* In a child: the filter is loaded, then body runs; it returns 0 or the line that failed. */
static int in_filtered_child(int (*body)(void))
{
	int status;
	pid_t pid;

	compile(0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int line = -1;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && seccomp_load(&program) == 0)
			line = body();
		if (line != 0)
			fprintf(stderr, "# the child failed in line %d: %s\n", line, strerror(errno));
		_exit(line != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)
#define CHECK_FAILS(error, ...) CHECK((errno = 0, syscall(__VA_ARGS__)) == -1 && errno == (error))

static int try_forbidden_calls(void)
{
	CHECK(syscall(__NR_getpid) == getpid());
	CHECK_FAILS(EPERM, __NR_io_uring_setup, 1, NULL);
	CHECK_FAILS(EPERM, __NR_bpf, 0, NULL, 0);
	CHECK_FAILS(EPERM, __NR_keyctl, 0, 0, 0);
	CHECK_FAILS(EPERM, __NR_mount, NULL, NULL, NULL, 0, NULL);
	CHECK_FAILS(EPERM, __NR_unshare, CLONE_NEWUSER);
	CHECK_FAILS(EPERM, __NR_ioctl, -1, TIOCSTI | (1UL << 32), NULL);
	CHECK_FAILS(ENOSYS, 5000);
	CHECK_FAILS(ENOSYS, -1L);
	CHECK_FAILS(ENOSYS, __NR_clone3, NULL, 0);
	CHECK_FAILS(EAFNOSUPPORT, __NR_socket, 38 /* AF_ALG */, SOCK_SEQPACKET, 0);
	CHECK_FAILS(EAFNOSUPPORT, __NR_socket, 40 /* AF_VSOCK */, SOCK_STREAM, 0);
	CHECK_FAILS(EINVAL, __NR_prctl, PR_SET_MM, 0, 0, 0, 0);
	return 0;
}

static void test_forbidden_calls_fail_for_real(void **state)
{
	assert_int_equal(in_filtered_child(try_forbidden_calls), 0);
}

static void *thread_body(void *arg)
{
	*(int *)arg = 42;
	return NULL;
}

static int try_forks_threads_and_spawns(void)
{
	char *argv[] = {(char *)(uintptr_t) "true", NULL};
	pthread_t thread;
	int status, value = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(7);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(pthread_create(&thread, NULL, thread_body, &value) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && value == 42);
	CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_forks_threads_and_spawns_work_for_real(void **state)
{
	assert_int_equal(in_filtered_child(try_forks_threads_and_spawns), 0);
}

#ifdef __x86_64__
static int call_as_i386(void)
{
	long answer;

	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L /* getpid */) : "memory", "r8", "r9", "r10", "r11");
	return __LINE__;
}

static int call_as_x32(void)
{
	syscall(0x40000000 | __NR_getpid);
	return __LINE__;
}
#endif

static void test_other_abis_die_for_real(void **state)
{
#ifdef __x86_64__
	int status = in_filtered_child(call_as_i386);

	/* SIGSEGV from a kernel without IA32 emulation */
	assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
	status = in_filtered_child(call_as_x32);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
#else
	skip(); /* int 0x80 and x32 exist on x86_64 only */
#endif
}

/* The child hands its descriptor number over a pipe; sharing the table of descriptors, its parent can use it. */
static void test_a_listener_sees_a_rename_and_answers_it_for_real(void **state)
{
	struct seccomp_notif n = {0};
	struct seccomp_notif_resp answer = {.error = -EDOM};
	int pipes[2], listener, status;

	compile(SECCOMP_NOTIFY);
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = (pid_t)syscall(__NR_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		listener = seccomp_load_listener(&program, *(const bool *)*state);
		if (write(pipes[1], &listener, sizeof(listener)) != (ssize_t)sizeof(listener))
			_exit(2);
		_exit(syscall(__NR_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", 0) != -1 || errno != EDOM);
	}
	assert_int_equal(read(pipes[0], &listener, sizeof(listener)), sizeof(listener));
	assert_true(listener >= 0);
	assert_int_equal(fcntl(listener, F_GETFD), FD_CLOEXEC);
	assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n), 0);
	assert_int_equal(n.data.nr, __NR_renameat2);
	answer.id = n.id;
	assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(listener);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_load_reports_the_error(void **state)
{
	static struct seccomp_program empty;

	assert_int_equal(seccomp_load(&empty), -EINVAL);
	assert_int_equal(seccomp_load_listener(&empty, false), -EINVAL);
	assert_int_equal(seccomp_load_listener(&empty, true), -EINVAL);
}

int main(void)
{
	static bool interruptible = false, killable = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program_is_short_and_every_jump_lands_inside),
		cmocka_unit_test(test_table_names_no_number_twice),
		cmocka_unit_test(test_every_entry_gets_what_its_rule_says),
		cmocka_unit_test(test_every_other_number_answers_enosys),
		cmocka_unit_test(test_the_core_limit_cannot_be_changed_and_nobody_notices),
		cmocka_unit_test(test_no_file_gets_a_set_id_bit_where_that_is_asked_for),
		cmocka_unit_test(test_renames_are_handed_over_where_that_is_asked_for),
		cmocka_unit_test(test_programs_are_handed_over_where_that_is_asked_for),
		cmocka_unit_test(test_a_password_opens_execve_alone),
		cmocka_unit_test(test_any_call_can_be_handed_over),
		cmocka_unit_test(test_tracing_programs_costs_a_few_instructions),
		cmocka_unit_test(test_who_is_alone_has_threads_only),
		cmocka_unit_test(test_listed_programs_are_not_joined_by_memory),
		cmocka_unit_test(test_without_native_code_memory_never_becomes_executable),
		cmocka_unit_test(test_other_architectures_are_killed),
		cmocka_unit_test(test_nobody_has_a_listener_of_his_own),
		cmocka_unit_test(test_x32_calls_are_killed),
		cmocka_unit_test(test_terminal_injection_is_denied_whatever_the_upper_half_says),
		cmocka_unit_test(test_socket_families_are_an_allow_list),
		cmocka_unit_test(test_netlink_is_for_routes_only),
		cmocka_unit_test(test_sock_packet_is_no_way_around_the_families),
		cmocka_unit_test(test_clone_makes_processes_and_threads_but_no_namespaces),
		cmocka_unit_test(test_allow_userns_gives_user_namespaces_but_no_mount_namespaces),
		cmocka_unit_test(test_only_own_children_are_traced),
		cmocka_unit_test(test_personality_keeps_memory_protection),
		cmocka_unit_test(test_prctl_options_are_an_allow_list),
		cmocka_unit_test(test_forbidden_calls_fail_for_real),
		cmocka_unit_test(test_forks_threads_and_spawns_work_for_real),
		cmocka_unit_test(test_other_abis_die_for_real),
		cmocka_unit_test_prestate(test_a_listener_sees_a_rename_and_answers_it_for_real, &interruptible),
		{"test_a_listener_whose_callers_can_only_be_killed_does_so_too", test_a_listener_sees_a_rename_and_answers_it_for_real,
	         NULL, NULL, &killable},
		cmocka_unit_test(test_load_reports_the_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
