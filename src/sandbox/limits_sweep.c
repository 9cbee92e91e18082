/* SPDX-License-Identifier: Apache-2.0 */
/* Killing what is left in a sandbox's cgroups, and removing the cgroups of launchers that were killed before they could do so. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/limits.h"
#include "sandbox/owner.h"

#define PATH_SIZE (LIMITS_NAME_MAX + 48)
#define RMDIR_TRIES 100 /* of a millisecond each */

static void concat(char path[PATH_SIZE], const char *a, const char *b, const char *c)
{
	const char *const parts[] = {a, b, c};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (const char *s = parts[i]; *s && n + 1 < PATH_SIZE; s++)
			path[n++] = *s;
	path[n] = '\0';
}

/*
 * The number may belong to another process by now: the pidfd pins whoever has it, and /proc says whether that one is a member. If the
 * process dies in between, the signal goes nowhere.
 */
static void kill_member(const char *pid, const char *name)
{
	char path[PATH_SIZE], text[4096];
	_cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, strtol(pid, NULL, 10), 0);

	concat(path, "/proc/", pid, "/cgroup");
	if (pidfd >= 0 && fs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, name))
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* v1 has no cgroup.kill, and v2 only since 5.14: kill the members that are listed. Callers repeat this until the cgroup is empty. */
static void kill_members(int parent, const char *name)
{
	char path[PATH_SIZE], buf[4096], pid[24];
	size_t digits = 0;
	ssize_t n;

	concat(path, name, "/pids.max", "");
	_cleanup_fd_ int max = openat(parent, path, O_WRONLY | O_CLOEXEC);
	if (max < 0 || write(max, "0", 1) < 0) {
		/* Without it (another hierarchy) a fork bomb may outrun us for a while; the pids hierarchy is swept before those. */
	}
	concat(path, name, "/cgroup.procs", "");
	_cleanup_fd_ int procs = openat(parent, path, O_RDONLY | O_CLOEXEC);
	while (procs >= 0 && (n = read(procs, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9' && digits + 1 < sizeof(pid)) {
				pid[digits++] = buf[i];
			} else if (digits > 0) {
				pid[digits] = '\0';
				digits = 0;
				if (strcmp(pid, "0") != 0) /* a process of a pid namespace that we cannot see */
					kill_member(pid, name);
			}
		}
}

static void kill_cgroup(int parent, const char *name)
{
	char path[PATH_SIZE];

	concat(path, name, "/cgroup.kill", "");
	_cleanup_fd_ int fd = openat(parent, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) < 0)
		kill_members(parent, name);
}

void limits_kill(const struct limits_host *host, const struct limits *l)
{
	if (l->has_v2 && host->v2_fd >= 0)
		kill_cgroup(host->v2_fd, l->name);
}

static void remove_cgroup(int parent, const char *name)
{
	for (int i = 0; unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno == EBUSY && i < RMDIR_TRIES; i++) {
		kill_cgroup(parent, name);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* v1 has no event that tells when the last one is gone */
	}
}

static void sweep_hierarchy(int subtree)
{
	int fd = subtree < 0 ? -1 : openat(subtree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		cleanup_fd(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(dir));)
		if (strlen(e->d_name) < LIMITS_NAME_MAX && owner_is_dead(e->d_name))
			remove_cgroup(subtree, e->d_name);
}

void limits_sweep(const struct limits_host *host)
{
	/* v2 first: there one write kills all members at once, and the other hierarchies are empty then. */
	const int subtrees[] = {host->v2_fd, host->pids_fd, host->memory_fd, host->cpu_fd};
	for (size_t i = 0; i < ARRAY_SIZE(subtrees); i++)
		sweep_hierarchy(subtrees[i]);
}
