/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "crash.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit architecture"
#endif

/* Every call that can change a file system. What arm64 does not have has an -at form there. */
static const int writing_calls[] = {
	SYS_write,     SYS_writev,      SYS_pwrite64,     SYS_pwritev,      SYS_pwritev2,        SYS_copy_file_range,
	SYS_sendfile,  SYS_splice,      SYS_ioctl,        SYS_ftruncate,    SYS_truncate,        SYS_fallocate,
	SYS_fsync,     SYS_fdatasync,   SYS_sync,         SYS_syncfs,       SYS_sync_file_range, SYS_mkdirat,
	SYS_mknodat,   SYS_symlinkat,   SYS_linkat,       SYS_unlinkat,     SYS_renameat2,       SYS_fchmod,
	SYS_fchmodat,  SYS_fchown,      SYS_fchownat,     SYS_utimensat,    SYS_setxattr,        SYS_lsetxattr,
	SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_mount,           SYS_umount2,
#ifdef SYS_fchmodat2
	SYS_fchmodat2,
#endif
#ifdef SYS_renameat
	SYS_renameat,
#endif
#ifdef SYS_rename
	SYS_rename,    SYS_mkdir,       SYS_rmdir,        SYS_mknod,        SYS_symlink,         SYS_link,
	SYS_unlink,    SYS_chmod,       SYS_chown,        SYS_lchown,       SYS_creat,           SYS_utime,
	SYS_utimes,    SYS_futimesat,
#endif
};

/* Opening a file counts if it may create one. The argument that holds the flags: */
static const struct {
	int number;
	unsigned argument;
} opening_calls[] = {
	{SYS_openat, 2},
#ifdef SYS_open
	{SYS_open, 1},
#endif
};

static void install_filter(void)
{
	struct sock_filter code[16 + ARRAY_SIZE(writing_calls) * 2 + ARRAY_SIZE(opening_calls) * 6];
	unsigned short n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_SIZE(writing_calls); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)writing_calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	}
	for (size_t i = 0; i < ARRAY_SIZE(opening_calls); i++) {
		unsigned low = (unsigned)(offsetof(struct seccomp_data, args) + 8 * opening_calls[i].argument); /* little-endian, both */
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)opening_calls[i].number, 0, 4);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low);
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {n, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(125);
}

static pid_t start(int (*act)(int base), int base)
{
	fflush(NULL);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid > 0)
		return pid;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(126);
	raise(SIGSTOP);
	install_filter();
	_exit(act(base));
}

static void await(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0)
		MUST(errno == EINTR);
}

static bool at_call(int status)
{
	return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8);
}

static int run_undisturbed(int (*act)(int base), int base)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(act(base));
	await(pid, &status);
	MUST(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int run_and_kill(int (*act)(int base), int base, unsigned long k, unsigned long *calls)
{
	int status;
	*calls = 0;
	if (k == NEVER)
		return run_undisturbed(act, base);
	pid_t pid = start(act, base);
	await(pid, &status);
	MUST(!WIFEXITED(status));
	MUST(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	MUST(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL) == 0);
	for (;;) {
		MUST(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
		await(pid, &status);
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		MUST(at_call(status)); /* anything else is a signal: the operation crashed */
		if (*calls == k)
			break;
		++*calls;
	}
	MUST(kill(pid, SIGKILL) == 0);
	await(pid, &status);
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return KILLED;
}

static int write_once(int base)
{
	return write(base, "", 0) < 0 ? 7 : 0;
}

bool can_kill(void)
{
	unsigned long calls;
	_cleanup_fd_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t pid = fork();
	int status;
	if (pid == 0) { /* in a child: run_and_kill() dies where this is not allowed */
		fclose(stderr);
		_exit(run_and_kill(write_once, null, 0, &calls) == KILLED ? 0 : 1);
	}
	await(pid, &status);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
