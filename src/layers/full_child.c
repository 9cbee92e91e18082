/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the work on a copy is done. A command can close its files and directories to their owner, and an ordinary user is stopped by that where the
 * kernel, for overlayfs, is not. In a user namespace of his own he has every right over what is his, and no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/full_parts.h"

struct answer {
	int result;
	struct full_size size;
	struct cordon_error err;
};

static int write_own(const char *file, const char *text)
{
	_cleanup_fd_ int fd = open(file, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* Where there can be no namespace, what is closed stays closed, and is told when it is met. */
static int own_all_that_is_ours(struct cordon_error *err)
{
	char users[48], groups[48];
	snprintf(users, sizeof(users), "%u %u 1\n", geteuid(), geteuid());
	snprintf(groups, sizeof(groups), "%u %u 1\n", getegid(), getegid());
	if (unshare(CLONE_NEWUSER) < 0)
		return 0;
	if (write_own("/proc/self/setgroups", "deny") < 0 || write_own("/proc/self/uid_map", users) < 0 ||
	    write_own("/proc/self/gid_map", groups) < 0)
		return err_sys(err, "cannot set up a user namespace");
	return 0;
}

static _Noreturn void child(full_work work, void *job, int sock, pid_t parent)
{
	struct answer a = {0};
	a.result = own_all_that_is_ours(&a.err);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* who comes next must not meet us at work */
	if (getppid() != parent)
		_exit(1);
	if (a.result == 0)
		a.result = work(job, &a.size, &a.err);
	_exit(write(sock, &a, sizeof(a)) != sizeof(a)); /* less than PIPE_BUF: in one piece */
}

static int collect(pid_t pid, int sock, struct answer *out, struct cordon_error *err)
{
	ssize_t n;
	do
		n = read(sock, out, sizeof(*out));
	while (n < 0 && errno == EINTR);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return n == sizeof(*out) ? 0 : err_set(err, CORDON_ERR_SYSTEM, "the process that works on the copy was killed");
}

int full_do(full_work work, void *job, struct full_size *size, struct cordon_error *err)
{
	struct answer a = {0};
	struct full_size none;
	int ends[2];
	if (geteuid() == 0)
		return work(job, size ? size : &none, err);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	_cleanup_fd_ int ours = ends[0];
	const pid_t self = getpid(), pid = fork();
	if (pid == 0)
		child(work, job, ends[1], self);
	close(ends[1]);
	if (pid < 0)
		return err_sys(err, "cannot start a process");
	if (collect(pid, ours, &a, err) < 0)
		return -1;
	if (a.result < 0 && err)
		*err = a.err;
	if (size)
		*size = a.size;
	return a.result;
}
