/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes: those of the host, pid 1 of the sandbox (in a control: of the control's pid namespace), and too many of one's own. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* ---- processes of the host, by the decoy process ---- */

/*
 * A sandbox has pids of its own, and one may be equal to the decoy's. The decoy is therefore a session leader with an odd nice value, which
 * anyone who sees a process can ask for.
 */
static bool is_decoy(const struct decoys *d, pid_t pid)
{
	errno = 0;
	return getpriority(PRIO_PROCESS, (id_t)pid) == decoy_num(d, "nice", 99) && errno == 0 && getsid(pid) == pid;
}

int attack_see_process(const struct decoys *d)
{
	pid_t pid = (pid_t)decoy_num(d, "process", 0);

	if (pid == 0)
		return -ENODECOY;
	if (kill(pid, 0) < 0 && errno == ESRCH)
		return -ESRCH;
	return is_decoy(d, pid) ? 0 : -ESRCH;
}

int attack_pidfd_process(const struct decoys *d)
{
	pid_t pid = (pid_t)decoy_num(d, "process", 0);

	if (pid == 0)
		return -ENODECOY;
	if (syscall(SYS_pidfd_open, pid, 0) < 0)
		return -errno;
	return is_decoy(d, pid) ? 0 : -ESRCH;
}

int attack_signal_process(const struct decoys *d)
{
	pid_t pid = (pid_t)decoy_num(d, "process", 0);

	if (pid == 0)
		return -ENODECOY;
	if (kill(pid, SIGWINCH) < 0) /* ignored by default */
		return -errno;
	return is_decoy(d, pid) ? 0 : -ESRCH;
}

/* The strings of these files are separated by NULs: they are joined, to be searched as one. */
static int find_in_proc(const char *pid, const char *file, const char *wanted)
{
	char path[300], text[16384];
	int len;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
	len = read_text(path, text, sizeof(text));
	if (len < 0)
		return len;
	for (int i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return strstr(text, wanted) ? 0 : -ENOTSEEN;
}

int attack_read_cmdline(const struct decoys *d)
{
	const char *pid = decoy_get(d, "process"), *marker = decoy_get(d, "marker");

	return pid && marker ? find_in_proc(pid, "cmdline", marker) : -ENODECOY;
}

int attack_read_environ(const struct decoys *d)
{
	const char *pid = decoy_get(d, "process"), *token = decoy_get(d, "token");

	return pid && token ? find_in_proc(pid, "environ", token) : -ENODECOY;
}

int attack_list_processes(const struct decoys *d)
{
	const char *marker = decoy_get(d, "marker");
	_cleanup_dir_ DIR *dir = opendir("/proc");
	char own[16];
	struct dirent *e;

	if (!marker)
		return -ENODECOY;
	if (!dir)
		return -errno;
	snprintf(own, sizeof(own), "%d", (int)getpid());
	while ((e = readdir(dir))) {
		char text[64];

		/* This program was told the marker as a coordinate: only a process whose second argument begins with it is the decoy. */
		if (!isdigit((unsigned char)e->d_name[0]) || strcmp(e->d_name, own) == 0)
			continue;
		snprintf(text, sizeof(text), "--decoy %s", marker);
		if (find_in_proc(e->d_name, "cmdline", text) == 0)
			return 0;
	}
	return -ENOTSEEN;
}

/* ---- what the caller leaves to its children ---- */

int attack_env_secret(const struct decoys *d)
{
	const char *token = decoy_get(d, "token"), *value = getenv("CORDON_SELFTEST_SECRET");

	if (!token)
		return -ENODECOY;
	return value && strcmp(value, token) == 0 ? 0 : -ENOTSEEN;
}

int attack_caller_terminal(const struct decoys *d)
{
	_cleanup_fd_ int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/* ---- limits ---- */

int attack_fork_bomb(const struct decoys *d)
{
	long limit = decoy_num(d, "pids", 50), wanted = 2 * limit + 1, started = 0;
	int hold[2], r = 0;

	if (pipe2(hold, O_CLOEXEC) < 0)
		return -errno;
	for (; started < wanted; started++) {
		pid_t pid = fork();

		if (pid == 0) {
			char byte;

			close(hold[1]);
			_exit((int)read(hold[0], &byte, 1)); /* until the write end is closed, or its holder dies */
		}
		if (pid < 0) {
			r = -errno;
			break;
		}
	}
	close(hold[1]);
	while (wait(NULL) > 0)
		;
	return r;
}

/* ---- pid 1 ---- */

/* The control's pid 1 is this program forked, so that this lies at the same address there. */
static const char landmark[16] = "landmark";

int attack_ptrace_init(const struct decoys *d)
{
	return ptrace(PTRACE_SEIZE, 1, 0, 0) < 0 ? -errno : 0;
}

int attack_read_init_memory(const struct decoys *d)
{
	char copy[sizeof(landmark)];
	struct iovec local = {copy, sizeof(copy)}, remote = {(void *)(uintptr_t)landmark, sizeof(copy)};

	/* EFAULT: the permission was given, only the address is of another program. */
	return syscall(SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0) < 0 && errno != EFAULT ? -errno : 0;
}

int attack_open_init_mem(const struct decoys *d)
{
	_cleanup_fd_ int fd = open("/proc/1/mem", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

int attack_init_environ(const struct decoys *d)
{
	char text[64];
	int r = read_text("/proc/1/environ", text, sizeof(text));

	return r < 0 ? r : 0;
}

int attack_steal_init_fd(const struct decoys *d)
{
	_cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	int error = EBADF;

	if (pidfd < 0)
		return -errno;
	for (int fd = 0; fd < 16; fd++) {
		if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
			return 0;
		if (errno != EBADF)
			error = errno;
	}
	return -error;
}

int attack_join_init(const struct decoys *d)
{
	_cleanup_fd_ int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);

	return fd < 0 || setns(fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

int attack_init_root(const struct decoys *d)
{
	const char *secret = decoy_get(d, "secret");
	char path[512];

	snprintf(path, sizeof(path), "/proc/1/root%s", secret ? secret : "");
	return read_token(secret ? path : NULL, d);
}

/*
 * ETXTBSY comes after all checks of permission: the attacker would wait for the program's end, and write then. The mode is no hurdle for
 * the file's owner.
 */
static int overwrite(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = errno;

	if (fd < 0 && error == EACCES && chmod(path, 0755) == 0) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		error = errno;
	}
	return fd < 0 && error != ETXTBSY ? -error : 0;
}

int attack_overwrite_init(const struct decoys *d)
{
	return overwrite("/proc/1/exe");
}

int attack_overwrite_self(const struct decoys *d)
{
	return overwrite("/proc/self/exe");
}
