/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks inside a test guest need and busybox does not have. Static, tiny.
 *
 *   qemu-guest hog MB [COUNT]    COUNT processes (1) that take MB megabytes each, all at once, and keep them
 *   qemu-guest memfd MB          fills memory files, which no process has mapped
 *   qemu-guest forks N           up to N children; prints how many there could be, and ends
 *   qemu-guest spin COUNT        COUNT processes that do nothing but run
 *   qemu-guest as UID CMD…       as that user and group
 *   qemu-guest box DIR CMD…      in the cgroup DIR, which becomes the root of a cgroup namespace and is what /sys/fs/cgroup shows: a container
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)

static int failed(const char *what)
{
	perror(what);
	return 1;
}

static int hog(size_t megabytes, long count)
{
	while (--count > 0 && fork() > 0)
		;
	for (size_t i = 0; i < megabytes; i++) {
		char *p = malloc(MEGABYTE);
		if (!p)
			return failed("malloc");
		memset(p, 1, MEGABYTE);
	}
	pause();
	return 0;
}

static int fill_memory_files(size_t megabytes)
{
	static char data[MEGABYTE];
	int fd = (int)syscall(SYS_memfd_create, "hog", 0u);

	memset(data, 1, sizeof(data));
	for (size_t i = 0; i < megabytes; i++)
		if (fd < 0 || write(fd, data, sizeof(data)) != (ssize_t)sizeof(data))
			return failed("memfd");
	puts("survived");
	return 0;
}

static int count_forks(long most)
{
	long n = 0;

	for (pid_t pid; n < most && (pid = fork()) >= 0; n++)
		if (pid == 0) {
			pause();
			_exit(0);
		}
	printf("%ld\n", n);
	return 0;
}

static int spin(long count)
{
	while (--count > 0 && fork() > 0)
		;
	for (volatile unsigned i = 0;; i++)
		;
}

static int as_user(unsigned id, char **argv)
{
	if (setgroups(0, NULL) < 0 || setgid(id) < 0 || setuid(id) < 0)
		return failed("setuid");
	execvp(argv[0], argv);
	return failed(argv[0]);
}

static int in_box(const char *dir, char **argv)
{
	if (chdir(dir) < 0)
		return failed(dir);
	int fd = open("cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1 || unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0)
		return failed("cannot enter the cgroup");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || umount2("/sys/fs/cgroup", MNT_DETACH) < 0 ||
	    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0 || chdir("/") < 0)
		return failed("mount");
	execvp(argv[0], argv);
	return failed(argv[0]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

	if (strcmp(what, "hog") == 0)
		return hog((size_t)n, argc > 3 ? strtol(argv[3], NULL, 10) : 1);
	if (strcmp(what, "memfd") == 0)
		return fill_memory_files((size_t)n);
	if (strcmp(what, "forks") == 0)
		return count_forks(n);
	if (strcmp(what, "spin") == 0)
		return spin(n);
	if (strcmp(what, "as") == 0 && argc > 3)
		return as_user((unsigned)n, argv + 3);
	if (strcmp(what, "box") == 0 && argc > 3)
		return in_box(argv[2], argv + 3);
	fputs("usage: see the top of qemu-guest.c\n", stderr);
	return 2;
}
