/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to become two processes, or another program. Each line of output is NAME RESULT: "worked", or the errno. alone NAME…: these; alone --list: their names.
 * Those that become another program say "worked" through it, if they do; so each is tried in a run of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *const again[] = {(char *)(uintptr_t) "alone", (char *)(uintptr_t) "--worked", NULL};
static const char *self = "/proc/self/exe";

/* In the child nothing is done; the parent says how it went. */
static int born(long pid)
{
	if (pid == 0)
		_exit(0);
	return pid < 0 ? errno : 0;
}

#define CLONE(name, flags)                                                                       \
	static int name(void)                                                                    \
	{                                                                                        \
		return born(syscall(SYS_clone, (unsigned long)(flags), NULL, NULL, NULL, NULL)); \
	}
CLONE(clone_plain, SIGCHLD)
CLONE(clone_no_signal, 0)
CLONE(clone_files, CLONE_FILES | CLONE_FS | SIGCHLD)
CLONE(clone_parent, CLONE_PARENT | SIGCHLD)
CLONE(clone_vfork, CLONE_VFORK | SIGCHLD)
CLONE(clone_high_thread, (unsigned long)CLONE_THREAD << 32 | SIGCHLD)

static char stack[65536] __attribute__((aligned(16)));

static int nothing(void *arg)
{
	(void)arg;
	_exit(0);
}

static int clone_vm(void)
{
	return clone(nothing, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) < 0 ? errno : 0;
}

static int clone_vm_vfork(void)
{
	return clone(nothing, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL) < 0 ? errno : 0;
}

static int clone_sighand(void)
{
	return clone(nothing, stack + sizeof(stack), CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL) < 0 ? errno : 0;
}

static int clone3_plain(void)
{
	uint64_t args[8] = {0, 0, 0, 0, SIGCHLD};
	return born(syscall(SYS_clone3, args, sizeof(args)));
}

static int by_fork(void)
{
#ifdef SYS_fork
	return born(syscall(SYS_fork));
#else
	return born(fork());
#endif
}

static int by_vfork(void)
{
#ifdef SYS_vfork
	pid_t pid = vfork();
	if (pid == 0)
		_exit(0);
	return pid < 0 ? errno : 0;
#else
	return born(syscall(SYS_clone, CLONE_VFORK | CLONE_VM | SIGCHLD, NULL, NULL, NULL, NULL));
#endif
}

static int by_posix_spawn(void)
{
	pid_t pid;
	int status, error = posix_spawn(&pid, "/bin/true", NULL, NULL, again, environ);
	return error ? error : waitpid(pid, &status, 0) == pid ? 0 : errno;
}

/* ---- another program ---- */

static int by_execve(void)
{
	execve(self, again, environ);
	return errno;
}

static int by_execveat(void)
{
	syscall(SYS_execveat, AT_FDCWD, self, again, environ, 0);
	return errno;
}

static int by_fexecve(void)
{
	int fd = open(self, O_RDONLY | O_CLOEXEC);
	syscall(SYS_execveat, fd, "", again, environ, AT_EMPTY_PATH);
	return errno;
}

static int by_memfd(void)
{
	char block[65536];
	ssize_t n;
	int from = open(self, O_RDONLY | O_CLOEXEC), to = (int)syscall(SYS_memfd_create, "x", 0u);
	while (from >= 0 && to >= 0 && (n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			return errno;
	syscall(SYS_execveat, to, "", again, environ, AT_EMPTY_PATH);
	return errno;
}

static void *in_thread(void *arg)
{
	*(int *)arg = by_execve();
	return NULL;
}

static int by_thread(void)
{
	pthread_t t;
	int error = 0;
	if (pthread_create(&t, NULL, in_thread, &error) != 0)
		return ENOEXEC; /* threads must work */
	pthread_join(t, NULL);
	return error;
}

/* All at once, over and over: nobody may take one for the first. */
static int by_many_threads(void)
{
	pthread_t t[8];
	int errors[8];
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 8; i++)
			if (pthread_create(&t[i], NULL, in_thread, &errors[i]) != 0)
				return ENOEXEC;
		for (int i = 0; i < 8; i++) {
			pthread_join(t[i], NULL);
			if (errors[i] != EPERM)
				return errors[i] ? errors[i] : ENOEXEC;
		}
	}
	return EPERM;
}

static void beat(int signo)
{
	(void)signo;
}

/* Signals interrupt the wait for an answer; it is asked for again, and the answer is the same. */
static int under_signals(void)
{
	struct sigaction a = {.sa_handler = beat, .sa_flags = SA_RESTART};
	timer_t timer;
	const struct itimerspec often = {{0, 50000}, {0, 50000}};
	sigaction(SIGALRM, &a, NULL);
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	if (timer_create(CLOCK_MONOTONIC, &e, &timer) < 0 || timer_settime(timer, 0, &often, NULL) < 0)
		return ENOEXEC;
	for (int i = 0; i < 500; i++) {
		int error = by_execve();
		if (error != EPERM)
			return error;
	}
	return EPERM;
}

static const struct {
	const char *name;
	int (*run)(void);
} ways[] = {
#define WAY(f)        \
	{             \
#f, f \
	}
	WAY(by_fork),       WAY(by_vfork),     WAY(clone_plain),       WAY(clone_no_signal), WAY(clone_files),
	WAY(clone_parent),  WAY(clone_vfork),  WAY(clone_high_thread), WAY(clone_vm),        WAY(clone_vm_vfork),
	WAY(clone_sighand), WAY(clone3_plain), WAY(by_posix_spawn),    WAY(by_execve),       WAY(by_execveat),
	WAY(by_fexecve),    WAY(by_memfd),     WAY(by_thread),         WAY(by_many_threads), WAY(under_signals),
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--worked") == 0) {
		puts("worked");
		return 0;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (argc > 1 && strcmp(argv[1], "--list") == 0)
			puts(ways[i].name);
		if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
			int error = ways[i].run();
			puts(error == 0 ? "worked" : error == EPERM ? "EPERM" : error == ENOSYS ? "ENOSYS" : strerror(error));
		}
	}
	return 0;
}
