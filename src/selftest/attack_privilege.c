/* SPDX-License-Identifier: Apache-2.0 */
/* Rights that a process has or gains: capabilities, ids, writes below /proc, and being in namespaces of the host's. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

/* An id other than one's own; root's, for who is not root. */
static unsigned other_id(void)
{
	return getuid() == 0 ? 1 : 0;
}

int attack_read_mode_0000(const struct decoys *d)
{
	char path[256];
	int fd = open(scratch_path(d, "closed", path, sizeof(path)), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	unlink(path);
	return r;
}

int attack_raw_socket(const struct decoys *d)
{
	return socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP) < 0 ? -errno : 0;
}

int attack_low_port(const struct decoys *d)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(81)};
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
}

int attack_change_network(const struct decoys *d)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_mtu = 65535};
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 || ioctl(fd, SIOCSIFMTU, &ifr) < 0 ? -errno : 0;
}

int attack_become_root(const struct decoys *d)
{
	uid_t id = other_id();

	if (setresuid(id, id, id) < 0)
		return -errno;
	return getuid() == id ? 0 : -ENOTSEEN;
}

int attack_chown_other(const struct decoys *d)
{
	char path[256];
	int fd = open(scratch_path(d, "given", path, sizeof(path)), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;

	if (fd < 0)
		return -errno;
	r = fchown(fd, other_id(), (gid_t)-1) < 0 ? -errno : 0;
	close(fd);
	unlink(path);
	return r;
}

int attack_forge_credentials(const struct decoys *d)
{
	struct ucred claim = {.pid = getpid(), .uid = other_id(), .gid = getgid()};
	struct iovec iov = {.iov_base = &(char){'x'}, .iov_len = 1};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(struct ucred))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int pair[2];

	control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(claim)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS};
	memcpy(CMSG_DATA(&control.header), &claim, sizeof(claim));
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	return sendmsg(pair[0], &msg, 0) < 0 ? -errno : 0;
}

/* ---- setuid programs ---- */

/* The effective and the real user id of a process differ. */
static int has_gained(pid_t pid)
{
	char path[64], text[4096];
	const char *line;
	unsigned real, effective;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	r = read_text(path, text, sizeof(text));
	if (r < 0)
		return r;
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u", &real, &effective) != 2)
		return -EINVAL;
	return real != effective ? 0 : -EPERM;
}

/* Runs a program whose output nobody takes, so that it is still there to be looked at. */
static int run_setuid(const char *program)
{
	int out[2], started[2], r;
	char byte;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(started, O_CLOEXEC) < 0)
		return -errno;
	while (write(out[1], "x", 1) == 1)
		;
	fcntl(out[1], F_SETFL, 0);
	pid = fork();
	if (pid == 0) {
		char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--help", NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(out[1], STDOUT_FILENO) < 0 || dup2(out[1], STDERR_FILENO) < 0)
			_exit(125);
		execve(program, argv, (char *[]){NULL});
		byte = (char)errno;
		if (write(started[1], &byte, 1) != 1)
			_exit(125);
		_exit(125);
	}
	close(started[1]);
	if (pid < 0)
		return -errno;
	/* The write end closes when the program was executed; else the reason comes. */
	r = read(started[0], &byte, 1) == 1 ? -byte : has_gained(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}

int attack_setuid_program(const struct decoys *d)
{
	/* Those that print their help before they give rights up again. */
	static const char *const programs[] = {"/usr/bin/su", "/usr/bin/passwd", "/usr/bin/newgrp", "/usr/bin/gpasswd", "/usr/bin/chsh"};
	struct stat st;

	if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (stat(programs[i], &st) == 0 && (st.st_mode & S_ISUID))
			return run_setuid(programs[i]);
	return -ENOENT;
}

/* ---- writes below /proc, which the mounts must leave writable ---- */

static const volatile char constant[16] = "read-only";

int attack_write_own_memory(const struct decoys *d)
{
	_cleanup_fd_ int fd = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);

	/* The kernel forces the write (FOLL_FORCE), as a debugger needs it. */
	if (fd < 0 || pwrite(fd, "X", 1, (off_t)(uintptr_t)constant) < 0)
		return -errno;
	return constant[0] == 'X' ? 0 : -ENOTSEEN;
}

int attack_write_comm(const struct decoys *d)
{
	return write_text("/proc/self/comm", "sshd");
}

int attack_steer_oom(const struct decoys *d)
{
	char path[64];
	pid_t pid = fork();
	int r;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	r = write_text(path, "1000");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}

int attack_clear_refs(const struct decoys *d)
{
	return write_text("/proc/self/clear_refs", "1");
}

/* ---- whose ids, names and namespaces these are ---- */

int attack_all_ids(const struct decoys *d)
{
	char text[4096], *line = text;
	unsigned long long inside, outside, count, total = 0;
	int r = read_text("/proc/self/uid_map", text, sizeof(text));

	if (r < 0)
		return r;
	for (; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
		if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) == 3)
			total += count;
	return total > 0xffffff ? 0 : -ENOTSEEN; /* a sandbox has 65,536 at most */
}

int attack_owner_root(const struct decoys *d)
{
	struct stat st;

	/* One's own id says nothing. */
	if (getuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return -errno;
	if (stat("/proc/sys/kernel", &st) < 0) /* always the host's root's; never idmapped */
		return -errno;
	return st.st_uid == 0 ? 0 : -ENOTSEEN;
}

/* The decoy process says which namespaces are the host's. */
static int same_namespace(const struct decoys *d, const char *kind)
{
	const char *host = decoy_get(d, kind);
	char path[64], own[64];
	ssize_t len;

	if (!host)
		return -ENODECOY;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	len = readlink(path, own, sizeof(own) - 1);
	if (len < 0)
		return -errno;
	own[len] = '\0';
	return strcmp(own, host) == 0 ? 0 : -ENOTSEEN;
}

int attack_same_userns(const struct decoys *d)
{
	return same_namespace(d, "user");
}
int attack_same_mntns(const struct decoys *d)
{
	return same_namespace(d, "mnt");
}
int attack_same_pidns(const struct decoys *d)
{
	return same_namespace(d, "pid");
}
int attack_same_netns(const struct decoys *d)
{
	return same_namespace(d, "net");
}
int attack_same_ipcns(const struct decoys *d)
{
	return same_namespace(d, "ipc");
}
int attack_same_utsns(const struct decoys *d)
{
	return same_namespace(d, "uts");
}
int attack_same_cgroupns(const struct decoys *d)
{
	return same_namespace(d, "cgroup");
}

int attack_hostname_uname(const struct decoys *d)
{
	const char *host = decoy_get(d, "hostname");
	struct utsname name;

	if (!host)
		return -ENODECOY;
	if (uname(&name) < 0)
		return -errno;
	return strcmp(name.nodename, host) == 0 ? 0 : -ENOTSEEN;
}

int attack_hostname_proc(const struct decoys *d)
{
	const char *host = decoy_get(d, "hostname");
	char text[128];
	int r;

	if (!host)
		return -ENODECOY;
	r = read_text("/proc/sys/kernel/hostname", text, sizeof(text));
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, host) == 0 ? 0 : -ENOTSEEN;
}

/* Lines are ID:CONTROLLERS:PATH; a line of the root cgroup ends in ":/". */
bool cgroups_all_root(const char *text)
{
	for (const char *line = text; *line;) {
		const char *end = strchr(line, '\n');

		if (!end)
			end = line + strlen(line);
		if (end - line >= 2 && memcmp(end - 2, ":/", 2) != 0)
			return false;
		line = *end ? end + 1 : end;
	}
	return true;
}

static int cgroup_path(const char *file)
{
	char text[8192];
	int r = read_text(file, text, sizeof(text));

	if (r < 0)
		return r;
	return cgroups_all_root(text) ? -ENOTSEEN : 0;
}

int attack_cgroup_self(const struct decoys *d)
{
	return cgroup_path("/proc/self/cgroup");
}

int attack_cgroup_parent(const struct decoys *d)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)getppid());
	return cgroup_path(path);
}
