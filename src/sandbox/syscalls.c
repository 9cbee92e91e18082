/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of a sandboxed command, by group. This is the file to read when you ask "may a program inside do X?", and the only
 * one to edit when the answer should change.
 *
 * Theory of operation
 *
 * The list is an allow list. What general developer work needs (compilers, git, Python, Node, Ruby, Go, Rust, the JVM, Chromium with
 * --no-sandbox, PostgreSQL, gdb) is ALLOWed. What is refused on purpose is named too, as DENY, because there a program should be told
 * EPERM and a reader should find the reason. Everything else, including what future kernels add, answers ENOSYS: a deny list missed
 * the new mount calls of Linux 5.2 (CVE-2021-41133), and C libraries and runtimes know how to fall back from ENOSYS but not from EPERM.
 *
 * Four other walls stand behind this one, so a call is not refused here merely because it is privileged: capabilities are dropped
 * (mknod, chown, setuid, setgroups can do nothing that the owner could not), namespaces are private (SysV IPC, message queues, pids),
 * rlimits hold (mlock, nice, file sizes), and Landlock guards the paths. Refused here is what reaches other processes' memory, the
 * host's kernel configuration, or a large and young piece of kernel code for little use.
 *
 * On the order: none. seccomp.c indexes by number, and tests/unit/sandbox/test_seccomp.c fails on duplicates.
 */
#include <asm/unistd.h>

#include "base/util.h"
#include "sandbox/seccomp.h"

/*
 * Numbers that Debian 12's headers (Linux 6.1) do not know. From 403 on, all architectures share their numbers (Linux 5.1,
 * scripts/syscall.tbl).
 */
#ifndef __NR_cachestat
#define __NR_cachestat 451 /* Linux 6.5 */
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452 /* 6.6 */
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453 /* 6.6 */
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454 /* 6.7 */
#endif
#ifndef __NR_futex_wait
#define __NR_futex_wait 455 /* 6.7 */
#endif
#ifndef __NR_futex_requeue
#define __NR_futex_requeue 456 /* 6.7 */
#endif
#ifndef __NR_statmount
#define __NR_statmount 457 /* 6.8 */
#endif
#ifndef __NR_listmount
#define __NR_listmount 458 /* 6.8 */
#endif
#ifndef __NR_mseal
#define __NR_mseal 462 /* 6.10 */
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463 /* 6.13 */
#endif
#ifndef __NR_getxattrat
#define __NR_getxattrat 464 /* 6.13 */
#endif
#ifndef __NR_listxattrat
#define __NR_listxattrat 465 /* 6.13 */
#endif
#ifndef __NR_removexattrat
#define __NR_removexattrat 466 /* 6.13 */
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467 /* 6.15 */
#endif
#ifdef __x86_64__
#ifndef __NR_uretprobe
#define __NR_uretprobe 335 /* 6.11 */
#endif
#ifndef __NR_uprobe
#define __NR_uprobe 336 /* 6.18 */
#endif
#endif

/* Not in terms of each other: musl defines pread64 and others as macros, which a second expansion would replace. */
#define RULE(name, rule)                        \
	{                                       \
		__NR_##name, RULE_##rule, #name \
	}
#define ALLOW(name)                            \
	{                                      \
		__NR_##name, RULE_ALLOW, #name \
	}
#define DENY(name)                            \
	{                                     \
		__NR_##name, RULE_DENY, #name \
	}

/* clang-format off */
const struct syscall_entry syscall_table[] = {
	/* ---- files: open, read, write ---- */
	ALLOW(read), ALLOW(write), ALLOW(close), ALLOW(lseek), ALLOW(pread64), ALLOW(pwrite64), ALLOW(readv), ALLOW(writev),
	ALLOW(preadv), ALLOW(pwritev), ALLOW(preadv2), ALLOW(pwritev2), RULE(openat, OPENAT), RULE(openat2, OPENAT2), ALLOW(close_range), ALLOW(dup),
	ALLOW(dup3), ALLOW(fcntl), ALLOW(flock), ALLOW(fsync), ALLOW(fdatasync), ALLOW(sync), ALLOW(syncfs), ALLOW(sync_file_range),
	ALLOW(truncate), ALLOW(ftruncate), ALLOW(fallocate), ALLOW(fadvise64), ALLOW(readahead), ALLOW(sendfile), ALLOW(splice),
	ALLOW(tee), ALLOW(vmsplice), ALLOW(copy_file_range),
	RULE(ioctl, IOCTL),
#ifdef __x86_64__
	RULE(open, OPEN), RULE(creat, MODE1), ALLOW(dup2),
#endif

	/* ---- files: names, directories, metadata. mknod and chown are bounded by capabilities, paths by Landlock. ---- */
	ALLOW(getcwd), ALLOW(chdir), ALLOW(fchdir), ALLOW(umask), ALLOW(getdents64), ALLOW(mkdirat), RULE(mknodat, MODE2), ALLOW(unlinkat),
	ALLOW(symlinkat), ALLOW(linkat), RULE(renameat, NOTIFY), RULE(renameat2, NOTIFY), ALLOW(readlinkat), ALLOW(faccessat), ALLOW(faccessat2),
	RULE(fchmod, MODE1), RULE(fchmodat, MODE2), RULE(fchmodat2, MODE2), RULE(fchown, IDS), RULE(fchownat, IDS), ALLOW(fstat), ALLOW(newfstatat), ALLOW(statx),
	ALLOW(statfs), ALLOW(fstatfs), ALLOW(utimensat),
#ifdef __x86_64__
	ALLOW(stat), ALLOW(lstat), ALLOW(access), ALLOW(getdents), RULE(rename, NOTIFY), ALLOW(mkdir), ALLOW(rmdir), ALLOW(link), ALLOW(unlink),
	ALLOW(symlink), ALLOW(readlink), RULE(chmod, MODE1), RULE(chown, IDS), RULE(lchown, IDS), RULE(mknod, MODE1), ALLOW(utime), ALLOW(utimes),
	ALLOW(futimesat),
#endif
	ALLOW(setxattr), ALLOW(lsetxattr), ALLOW(fsetxattr), ALLOW(getxattr), ALLOW(lgetxattr), ALLOW(fgetxattr), ALLOW(listxattr),
	ALLOW(llistxattr), ALLOW(flistxattr), ALLOW(removexattr), ALLOW(lremovexattr), ALLOW(fremovexattr), ALLOW(setxattrat),
	ALLOW(getxattrat), ALLOW(listxattrat), ALLOW(removexattrat),
	ALLOW(name_to_handle_at), /* a handle is only a name: what would turn it into a file is refused next */
	DENY(open_by_handle_at),  /* walks past every mount and path check (the "shocker" escape of 2014); CAP_DAC_READ_SEARCH */

	/* ---- files: waiting for them ---- */
	ALLOW(ppoll), ALLOW(pselect6), ALLOW(epoll_create1), ALLOW(epoll_ctl), ALLOW(epoll_pwait), ALLOW(epoll_pwait2), ALLOW(eventfd2),
	ALLOW(inotify_init1), ALLOW(inotify_add_watch), ALLOW(inotify_rm_watch), ALLOW(pipe2),
#ifdef __x86_64__
	ALLOW(poll), ALLOW(select), ALLOW(epoll_create), ALLOW(epoll_wait), ALLOW(eventfd), ALLOW(inotify_init), ALLOW(pipe),
#endif
	DENY(fanotify_init), DENY(fanotify_mark), /* watches a whole file system; inotify is there for the rest */
	/* Native AIO (MySQL, libaio): small and old, unlike its successor below. */
	ALLOW(io_setup), ALLOW(io_destroy), ALLOW(io_submit), ALLOW(io_cancel), ALLOW(io_getevents), ALLOW(io_pgetevents),
	/* Its operations bypass seccomp altogether (socket(AF_VSOCK) behind our back), and it leads the list of kernel exploits. */
	DENY(io_uring_setup), DENY(io_uring_enter), DENY(io_uring_register),

	/* ---- memory ---- */
	ALLOW(brk), RULE(mmap, MMAP), ALLOW(munmap), ALLOW(mremap), RULE(mprotect, MPROTECT), ALLOW(madvise), ALLOW(process_madvise), ALLOW(msync),
	ALLOW(mincore), ALLOW(mlock), ALLOW(mlock2), ALLOW(munlock), ALLOW(mlockall), ALLOW(munlockall), ALLOW(mseal),
	ALLOW(remap_file_pages), RULE(memfd_create, MEMFD), ALLOW(membarrier), ALLOW(pkey_alloc), ALLOW(pkey_free), RULE(pkey_mprotect, MPROTECT),
	ALLOW(map_shadow_stack), ALLOW(mbind), ALLOW(set_mempolicy), ALLOW(get_mempolicy), ALLOW(set_mempolicy_home_node),
	ALLOW(process_mrelease),
	DENY(move_pages), DENY(migrate_pages), /* take a pid, and tell of shared pages where they lie */
	DENY(memfd_secret), /* memory that neither the watcher nor a core dump can see; unswappable */
	DENY(userfaultfd),  /* stalls the kernel in the middle of a copy: the standard helper of race exploits */
	/*
	 * Which pages of a file are cached tells one sandbox what another reads from the image they share. mincore(2) answers only for
	 * files one could write (CVE-2019-5489, Linux 5.2); cachestat did so only from 6.14 on. Nothing needs it yet.
	 */
	RULE(cachestat, NOSYS),

	/* ---- processes and threads ---- */
	RULE(clone, CLONE),
	RULE(clone3, NOSYS), /* its flags lie in memory, where a filter cannot look; C libraries fall back to clone */
	RULE(unshare, UNSHARE),
	DENY(setns),
	RULE(execve, EXEC), RULE(execveat, EXEC), ALLOW(exit), ALLOW(exit_group), ALLOW(wait4), ALLOW(waitid), ALLOW(getpid), ALLOW(getppid),
	ALLOW(gettid), ALLOW(set_tid_address), ALLOW(setpgid), ALLOW(getpgid), ALLOW(setsid), ALLOW(getsid), ALLOW(pidfd_open),
	ALLOW(futex), ALLOW(futex_waitv), ALLOW(futex_wake), ALLOW(futex_wait), ALLOW(futex_requeue), ALLOW(set_robust_list),
	ALLOW(get_robust_list), ALLOW(rseq), ALLOW(restart_syscall),
	RULE(prctl, PRCTL),
	RULE(personality, PERSONALITY),
#ifdef __x86_64__
	RULE(fork, FORK), RULE(vfork, FORK), ALLOW(getpgrp), ALLOW(arch_prctl), ALLOW(set_thread_area), ALLOW(get_thread_area),
	/* Made by the trampoline of a probe that the host's administrator set; without them the probed program dies. */
	ALLOW(uretprobe), ALLOW(uprobe),
	DENY(modify_ldt), /* 16-bit segments, for DOS programs only: CVE-2015-3290, CVE-2017-17053 */
#endif

	/* ---- other processes: gdb and strace trace their own children, nobody reads another's memory or descriptors ---- */
	RULE(ptrace, PTRACE),
	RULE(process_vm_readv, READER), DENY(process_vm_writev), DENY(pidfd_getfd), DENY(kcmp),

	/* ---- scheduling and limits ---- */
	ALLOW(sched_yield), ALLOW(sched_getaffinity), ALLOW(sched_setparam), ALLOW(sched_getparam), ALLOW(sched_setscheduler),
	ALLOW(sched_getscheduler), ALLOW(sched_get_priority_max), ALLOW(sched_get_priority_min), ALLOW(sched_rr_get_interval),
	ALLOW(sched_setattr), ALLOW(sched_getattr), ALLOW(getpriority), ALLOW(setpriority), ALLOW(ioprio_set), ALLOW(ioprio_get),
	ALLOW(getcpu), RULE(prlimit64, PRLIMIT), ALLOW(getrlimit), RULE(setrlimit, SETRLIMIT), ALLOW(getrusage), ALLOW(times), ALLOW(sysinfo), ALLOW(uname),
	RULE(sched_setaffinity, AFFINITY),

	/* ---- users and privileges: capabilities and no_new_privs decide what these may do ---- */
	ALLOW(getuid), ALLOW(geteuid), ALLOW(getgid), ALLOW(getegid), ALLOW(getresuid), ALLOW(getresgid), ALLOW(getgroups), RULE(setuid, IDS),
	RULE(setgid, IDS), RULE(setreuid, IDS), RULE(setregid, IDS), RULE(setresuid, IDS), RULE(setresgid, IDS), ALLOW(setfsuid), ALLOW(setfsgid),
	RULE(setgroups, IDS), ALLOW(capget), ALLOW(capset),
	/* Programs may narrow themselves further. Of several filters the strictest answer counts, see seccomp(2). */
	RULE(seccomp, SECCOMP), ALLOW(landlock_create_ruleset), ALLOW(landlock_add_rule), RULE(landlock_restrict_self, NOTIFY),
	/* Keyrings belong to the user, not to the sandbox, and have a history (CVE-2016-0728, CVE-2017-7472). */
	DENY(add_key), DENY(request_key), DENY(keyctl),

	/* ---- signals ---- */
	ALLOW(rt_sigaction), ALLOW(rt_sigprocmask), ALLOW(rt_sigreturn), ALLOW(rt_sigpending), ALLOW(rt_sigsuspend),
	ALLOW(rt_sigtimedwait), ALLOW(rt_sigqueueinfo), ALLOW(rt_tgsigqueueinfo), ALLOW(sigaltstack), ALLOW(kill), ALLOW(tkill),
	ALLOW(tgkill), ALLOW(pidfd_send_signal), ALLOW(signalfd4),
#ifdef __x86_64__
	ALLOW(pause), ALLOW(signalfd),
#endif

	/* ---- time: read it and wait for it; setting it would be the host's ---- */
	ALLOW(clock_gettime), ALLOW(clock_getres), ALLOW(clock_nanosleep), ALLOW(nanosleep), ALLOW(gettimeofday), ALLOW(getitimer),
	ALLOW(setitimer), ALLOW(timer_create), ALLOW(timer_settime), ALLOW(timer_gettime), ALLOW(timer_getoverrun), ALLOW(timer_delete),
	ALLOW(timerfd_create), ALLOW(timerfd_settime), ALLOW(timerfd_gettime),
#ifdef __x86_64__
	ALLOW(alarm), ALLOW(time),
#endif
	DENY(clock_settime), DENY(clock_adjtime), DENY(settimeofday), DENY(adjtimex),

	/* ---- network: the family is checked where a socket is made ---- */
	RULE(socket, SOCKET), RULE(socketpair, SOCKETPAIR),
	ALLOW(bind), ALLOW(listen), ALLOW(accept), ALLOW(accept4), ALLOW(connect), ALLOW(getsockname), ALLOW(getpeername), ALLOW(sendto),
	ALLOW(recvfrom), ALLOW(sendmsg), ALLOW(recvmsg), ALLOW(sendmmsg), ALLOW(recvmmsg), ALLOW(setsockopt), ALLOW(getsockopt),
	ALLOW(shutdown),

	/* ---- System V IPC and message queues, in the sandbox's own IPC namespace (PostgreSQL, Chromium) ---- */
	ALLOW(shmget), RULE(shmat, SHMAT), ALLOW(shmdt), ALLOW(shmctl), ALLOW(semget), ALLOW(semop), ALLOW(semtimedop), ALLOW(semctl),
	ALLOW(msgget), ALLOW(msgsnd), ALLOW(msgrcv), ALLOW(msgctl), ALLOW(mq_open), ALLOW(mq_unlink), ALLOW(mq_timedsend),
	ALLOW(mq_timedreceive), ALLOW(mq_notify), ALLOW(mq_getsetattr),

	/* ---- entropy ---- */
	ALLOW(getrandom),

	/* ---- mounts, old and new: the view of the file system is made before the command runs and does not change ---- */
	DENY(mount), DENY(umount2), DENY(pivot_root), DENY(chroot), DENY(open_tree), DENY(open_tree_attr), DENY(move_mount), DENY(fsopen),
	DENY(fsconfig), DENY(fsmount), DENY(fspick), DENY(mount_setattr),
	RULE(statmount, NOSYS), RULE(listmount, NOSYS), /* would show the host paths behind the binds */
	DENY(quotactl), DENY(quotactl_fd), DENY(swapon), DENY(swapoff),

	/* ---- the kernel and the machine ---- */
	DENY(bpf), DENY(perf_event_open), DENY(lookup_dcookie), DENY(syslog), DENY(acct), DENY(reboot), DENY(vhangup),
	DENY(sethostname), DENY(setdomainname), DENY(init_module), DENY(finit_module), DENY(delete_module), DENY(kexec_load),
	DENY(kexec_file_load),
#ifdef __x86_64__
	DENY(iopl), DENY(ioperm),
	DENY(create_module), DENY(get_kernel_syms), DENY(query_module), DENY(_sysctl), /* gone from Linux since 2.6 and 5.5 */
#endif
};
/* clang-format on */

const size_t syscall_table_len = ARRAY_SIZE(syscall_table);
