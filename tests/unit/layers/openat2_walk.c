/* SPDX-License-Identifier: Apache-2.0 */
/*
 * valgrind (up to 3.20) does not know openat2(2) and answers ENOSYS. Tests that are linked with --wrap=syscall and this file go on, with
 * a walk by hand in its place: good enough to look for leaks and wild reads, not for security.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static long mount_of(int fd)
{
	char path[48], text[256] = "";
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	int info = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(info, text, sizeof(text) - 1);
	const char *id = n > 0 ? strstr(text, "mnt_id:") : NULL;
	close(info);
	return id ? strtol(id + strlen("mnt_id:"), NULL, 10) : -1;
}

static int walk(int dir, const char *path, const struct open_how *how)
{
	char name[NAME_MAX + 1];
	int at = dir;
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
		if ((how->resolve & RESOLVE_NO_XDEV) && mount_of(dir) != mount_of(next)) {
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

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	long r = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r >= 0 || errno != ENOSYS || number != SYS_openat2 || ((const char *)a[1])[0] == '/')
		return r;
	return walk((int)a[0], (const char *)a[1], (const struct open_how *)a[2]);
}
