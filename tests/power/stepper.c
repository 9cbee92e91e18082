/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
#include "power.h"

static const struct {
	const char *name;
	unsigned number;
} syncing_calls[] = {
	{"fsync", SYS_fsync},
	{"fdatasync", SYS_fdatasync},
	{"syncfs", SYS_syncfs},
	{"sync", SYS_sync},
	{"sync_file_range", SYS_sync_file_range},
};

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *word = list; *word; word += strcspn(word, ","), word += *word == ',')
		if (strcspn(word, ",") == len && strncmp(word, name, len) == 0)
			return true;
	return false;
}

/* "Error 0": the call is not made, and succeeds. */
static void switch_off(const char *without)
{
	struct sock_filter code[2 + 2 * ARRAY_SIZE(syncing_calls)];
	unsigned short n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_SIZE(syncing_calls); i++) {
		if (!listed(without, syncing_calls[i].name))
			continue;
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, syncing_calls[i].number, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {n, code};
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static pid_t start(int (*act)(int base), int base, const char *without)
{
	fflush(NULL);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid > 0)
		return pid;
	if (*without)
		switch_off(without);
	MUST(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	raise(SIGSTOP);
	int result = act(base);
	fflush(NULL);
	_exit(result);
}

static int await(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	return status;
}

static void make_noise(struct stepping *s)
{
	if (s->noise && rng_below(&s->rng, s->noise) == 0)
		MUST(pwrite(s->noise_fd, "noise", 5, (off_t)rng_below(&s->rng, 3 * BLOCK)) == 5 && fsync(s->noise_fd) == 0);
}

static bool counts(pid_t pid, const struct stepping *s)
{
	static const unsigned long renames[] = {
		SYS_renameat2,
#ifdef SYS_renameat
		SYS_renameat,
#endif
#ifdef SYS_rename
		SYS_rename,
#endif
	};
	struct __ptrace_syscall_info info = {0};
	if (!s->kill_renames)
		return true;
	MUST(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(renames); i++)
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == renames[i])
			return true;
	return false;
}

int run_stepped(int (*act)(int base), int base, struct stepping *s)
{
	pid_t pid = start(act, base, s->without);
	int status = await(pid);
	MUST(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	MUST(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
	for (s->stops = 0; s->stops < s->kill_at;) {
		make_noise(s);
		MUST(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
		status = await(pid);
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		MUST(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)); /* anything else: it crashed */
		s->stops += counts(pid, s);
	}
	MUST(kill(pid, SIGKILL) == 0);
	status = await(pid);
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return KILLED;
}
