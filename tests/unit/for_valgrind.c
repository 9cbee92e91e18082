/* SPDX-License-Identifier: Apache-2.0 */
/*
 * valgrind (up to 3.20) does not know openat2(2) and pidfd_send_signal(2) and answers ENOSYS. Tests that are linked with --wrap=syscall and
 * this file go on: with a walk by hand, and with a signal to the process's number. Good enough to look for leaks and wild reads, not for security.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_ARGS 5 /* no call that comes here has more, and they are all in registers: there is nothing to read past what was given */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* The number behind `key` in what the kernel tells of a descriptor; -1: there is none. */
static long fd_info(int fd, const char *key)
{
	char path[48], text[256] = "";
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	int info = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(info, text, sizeof(text) - 1);
	const char *value = n > 0 ? strstr(text, key) : NULL;
	close(info);
	return value ? strtol(value + strlen(key), NULL, 10) : -1;
}

static int walk(int dir, const char *path, const struct open_how *how)
{
	char name[NAME_MAX + 1];
	int at = dir;
	long mount = how->resolve & RESOLVE_NO_XDEV ? fd_info(dir, "mnt_id:") : -1;
	for (;;) {
		size_t n = strcspn(path, "/");
		int last = path[n] == '\0';
		int flags = last ? (int)how->flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
		memcpy(name, path, n);
		name[n] = '\0';
		int next = openat(at, name, flags | O_NOFOLLOW, (mode_t)how->mode);
		int error = errno;
		if (at != dir)
			close(at);
		if (next < 0) {
			errno = error;
			return -1;
		}
		if (mount >= 0 && fd_info(next, "mnt_id:") != mount) {
			close(next);
			errno = EXDEV;
			return -1;
		}
		if (last)
			return next;
		at = next;
		path += n + 1;
	}
}

static int signal_process(int pidfd, int signal)
{
	long pid = fd_info(pidfd, "\nPid:");
	if (pid > 0)
		return kill((pid_t)pid, signal);
	errno = pid < 0 ? ENOSYS : ESRCH; /* a directory of /proc would do, too; not here */
	return -1;
}

static long in_another_way(long number, const long a[CALL_ARGS])
{
	if (number == SYS_pidfd_send_signal)
		return signal_process((int)a[0], (int)a[1]);
	if (((const char *)a[1])[0] != '/')
		return walk((int)a[0], (const char *)a[1], (const struct open_how *)a[2]);
	errno = ENOSYS;
	return -1;
}

long __wrap_syscall(long number, ...)
{
	static atomic_bool missing; /* asked once: valgrind writes five lines each time */
	bool replaced = number == SYS_openat2 || number == SYS_pidfd_send_signal;
	long a[CALL_ARGS];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < CALL_ARGS; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (replaced && atomic_load(&missing))
		return in_another_way(number, a);
	long r = __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
	if (r >= 0 || errno != ENOSYS || !replaced)
		return r;
	atomic_store(&missing, true);
	return in_another_way(number, a);
}
