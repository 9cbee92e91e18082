/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls a sandboxed command may make: a table (syscalls.c) that is compiled once into a small BPF program (seccomp.c).
 *
 * An allow list by number: what the table does not name answers ENOSYS, as an older kernel would, so that programs fall back; what it
 * forbids by name answers EPERM; another ABI (i386, x32) kills the process.
 */
#ifndef CORDON_SANDBOX_SECCOMP_H
#define CORDON_SANDBOX_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SECCOMP_MAX_INSNS 1024

enum seccomp_flags {
	SECCOMP_PIN_CPUS = 1 << 0,     /* sched_setaffinity answers EPERM: the CPU limit is an affinity mask */
	SECCOMP_ALLOW_USERNS = 1 << 1, /* nested user namespaces (for browsers), off by default */
	SECCOMP_NO_SETID = 1 << 2,     /* no file gets a set-user-id or set-group-id bit: a directory of the host is writable inside */
	SECCOMP_NOTIFY = 1 << 3,       /* RULE_NOTIFY: a supervisor answers (renames.h) */
	SECCOMP_TRACE = 1 << 4,        /* RULE_EXEC: the same for execve (execs.h) */
	SECCOMP_ALONE = 1 << 5,        /* no new processes, threads only; who tries is handed over as well, to be told of (execs.h) */
	SECCOMP_LISTED = 1 << 6,       /* no program is made up in memory: memfd_create only with MFD_NOEXEC_SEAL */
	SECCOMP_NO_NATIVE = 1 << 7,    /* no machine code but from files: nothing that was written becomes executable */
	SECCOMP_MDWE = 1 << 8,         /* … and the kernel sees to that, too (PR_SET_MDWE) */
	SECCOMP_READER = 1 << 9,       /* for the supervisor: it reads the memory of others */
	SECCOMP_ONE_ID =
		1 << 10, /* root has one id only: calls that would give files to others, or become others, succeed and do nothing */
};

struct seccomp_program {
	struct sock_filter insns[SECCOMP_MAX_INSNS];
	unsigned short len;
};

/* What the table says of one system call. */
enum syscall_rule {
	RULE_ALLOW,
	RULE_DENY,       /* EPERM */
	RULE_NOSYS,      /* ENOSYS, said on purpose (clone3: its flags lie in memory, so clone's must be used) */
	RULE_CLONE,      /* argument 0 without CLONE_NEW*, but for what SECCOMP_ALLOW_USERNS opens; with CLONE_THREAD under SECCOMP_ALONE */
	RULE_SOCKET,     /* argument 0: AF_UNIX, AF_INET, AF_INET6 (no SOCK_PACKET), AF_NETLINK with NETLINK_ROUTE; else EAFNOSUPPORT */
	RULE_SOCKETPAIR, /* argument 0: AF_UNIX */
	RULE_IOCTL,      /* argument 1, low 32 bits: not TIOCSTI, TIOCLINUX or TIOCSETD */
	RULE_PTRACE,     /* argument 0: not PTRACE_ATTACH, not PTRACE_SEIZE; RULE_DENY under SECCOMP_NO_NATIVE */
	RULE_PERSONALITY, /* argument 0: 0 (PER_LINUX), 0xffffffff (query), ADDR_NO_RANDOMIZE */
	RULE_PRCTL,       /* argument 0: an allow list; others EINVAL, as from a kernel that does not know the option */
	RULE_SETRLIMIT,   /* argument 0: RLIMIT_CORE answers success and changes nothing */
	RULE_PRLIMIT,     /* argument 1: the same, where argument 2 is a new limit; EPERM for a new limit of pid 1 */
	RULE_MODE1,       /* under SECCOMP_NO_SETID: argument 1 is a mode without S_ISUID and S_ISGID */
	RULE_MODE2,       /* … argument 2 */
	RULE_OPEN,        /* … argument 2, where argument 1 creates a file */
	RULE_OPENAT,      /* … argument 3, where argument 2 creates a file */
	RULE_OPENAT2,     /* … ENOSYS: its mode lies in memory */
	RULE_AFFINITY,    /* RULE_DENY under SECCOMP_PIN_CPUS, else RULE_ALLOW */
	RULE_NOTIFY,      /* handed to a supervisor under SECCOMP_NOTIFY, else RULE_ALLOW */
	RULE_EXEC,        /* the same under SECCOMP_TRACE */
	RULE_FORK,        /* RULE_DENY under SECCOMP_ALONE, or RULE_NOTIFY with SECCOMP_TRACE; else RULE_ALLOW */
	RULE_MEMFD,       /* SECCOMP_NO_NATIVE: ENOSYS; SECCOMP_LISTED: EACCES unless argument 1 has MFD_NOEXEC_SEAL */
	RULE_MMAP,        /* SECCOMP_NO_NATIVE: EACCES for PROT_EXEC but of a private, unwritable mapping of a file */
	RULE_MPROTECT,    /* … EACCES for PROT_EXEC in argument 2 */
	RULE_SHMAT,       /* … EACCES for SHM_EXEC in argument 2 */
	RULE_READER,      /* RULE_ALLOW under SECCOMP_READER, else RULE_DENY */
	RULE_IDS,         /* answers success and does nothing under SECCOMP_ONE_ID, else RULE_ALLOW */
	RULE_UNSHARE,     /* EPERM for CLONE_NEW*, unless SECCOMP_ALLOW_USERNS allows CLONE_NEWUSER */
	RULE_SECCOMP,     /* EBUSY for a listener (argument 1): it could answer what is to be handed over to us */
};

struct syscall_entry {
	int nr;
	enum syscall_rule rule;
	const char *name;
};

/* The table, in any order; duplicates are an error of the build's own test. */
extern const struct syscall_entry syscall_table[];
extern const size_t syscall_table_len;

/* Compiles the table. Never fails for the built-in table (the unit tests prove it fits). */
int seccomp_compile(unsigned flags, struct seccomp_program *out, struct cordon_error *err);

/* Loads it into the calling thread; needs no_new_privs. Async-signal-safe, allocates nothing. 0 or -errno. */
int seccomp_load(const struct seccomp_program *prog);

/*
 * The same for a program that hands calls over: returns the listener (O_CLOEXEC) or -errno. Callers wait interruptibly for their answer; killable: once it was received, only
 * SIGKILL interrupts (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV; -EINVAL before Linux 5.19), and who waits so cannot be frozen once the answering process is.
 */
int seccomp_load_listener(const struct seccomp_program *prog, bool killable);

/* Puts in front of a compiled program: an execve whose sixth argument, which the kernel ignores, is this word is allowed. False: it is full. */
bool seccomp_add_password(struct seccomp_program *prog, uint64_t word);
/* The same: this call is handed over, whatever the table says. */
bool seccomp_add_handover(struct seccomp_program *prog, unsigned nr);
/* Whether what was handed over is this call. */
bool seccomp_is_ours(const struct seccomp_data *data, unsigned nr);

/* Makes what a compiled program hands over mean RULE_ALLOW: for the supervisor itself, and for kernels without listeners. */
void seccomp_allow_notified(struct seccomp_program *prog);

#endif
