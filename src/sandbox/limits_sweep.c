/* SPDX-License-Identifier: Apache-2.0 */
/* Killing what is left in a sandbox's cgroups, and removing the cgroups of launchers that were killed before they could do so. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/util.h"
#include "sandbox/limits.h"

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

/* Up to size - 1 bytes as a string; the length or -1. */
static ssize_t read_all(const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[MAX(n, 0)] = '\0';
	return n;
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
	if (pidfd >= 0 && read_all(path, text, sizeof(text)) > 0 && strstr(text, name))
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

/* "PIDNSINODE-PID-STARTTIME.ID" of our pid namespace, and no such process with that start time any more. In doubt: not dead. */
static bool owner_is_dead(const char *name, uint64_t pidns)
{
	char path[PATH_SIZE], stat_line[1024], pid_text[24], *end;
	size_t pid_len;

	if (name[0] < '0' || name[0] > '9' || strtoull(name, &end, 10) != pidns || *end != '-')
		return false;
	const char *pid = end + 1;
	pid_len = strspn(pid, "0123456789");
	if (pid_len == 0 || pid_len >= sizeof(pid_text) || pid[pid_len] != '-' || strspn(pid + pid_len + 1, "0123456789") == 0)
		return false;
	uint64_t start = strtoull(pid + pid_len + 1, &end, 10);
	if (*end != '.')
		return false;
	memcpy(pid_text, pid, pid_len);
	pid_text[pid_len] = '\0';

	concat(path, "/proc/", pid_text, "/stat");
	if (read_all(path, stat_line, sizeof(stat_line)) < 0)
		return errno == ENOENT || errno == ESRCH;
	const char *p = strrchr(stat_line, ')'); /* the name before it may contain anything; state, field 3, follows (proc(5)) */
	if (!p || p[1] != ' ')
		return false;
	p += 2;
	if (*p == 'Z' || *p == 'X') /* launchers have one thread; where nobody reaps, their zombies stay for ever */
		return true;
	for (int field = 3; field < 22 && p; field++)
		if ((p = strchr(p, ' ')))
			p++;
	return p && strtoull(p, NULL, 10) != start;
}

static void remove_cgroup(int parent, const char *name)
{
	for (int i = 0; unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno == EBUSY && i < RMDIR_TRIES; i++) {
		kill_cgroup(parent, name);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* v1 has no event that tells when the last one is gone */
	}
}

static void sweep_hierarchy(int subtree, uint64_t pidns)
{
	int fd = subtree < 0 ? -1 : openat(subtree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		cleanup_fd(&fd);
		return;
	}
	for (struct dirent *e; (e = readdir(dir));)
		if (strlen(e->d_name) < LIMITS_NAME_MAX && owner_is_dead(e->d_name, pidns))
			remove_cgroup(subtree, e->d_name);
}

void limits_sweep(const struct limits_host *host)
{
	struct stat ns;
	char self[24];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	/* With a /proc of another pid namespace, live owners would look dead. */
	if (n <= 0 || (self[n] = '\0', strtol(self, NULL, 10)) != getpid() || stat("/proc/self/ns/pid", &ns) < 0)
		return;
	/* v2 first: there one write kills all members at once, and the other hierarchies are empty then. */
	sweep_hierarchy(host->v2_fd, ns.st_ino);
	sweep_hierarchy(host->pids_fd, ns.st_ino);
	sweep_hierarchy(host->memory_fd, ns.st_ino);
	sweep_hierarchy(host->cpu_fd, ns.st_ino);
}
