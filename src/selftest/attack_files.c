/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's file system, devices and /proc hold, and descriptors left open into it. Doors are opened, never walked through. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

int attack_read_secret(const struct decoys *d)
{
	return read_token(decoy_get(d, "secret"), d);
}

int attack_read_home(const struct decoys *d)
{
	return read_token(decoy_get(d, "home"), d);
}

int attack_host_shm(const struct decoys *d)
{
	return read_token(decoy_get(d, "shmfile"), d);
}

int attack_write_drop(const struct decoys *d)
{
	const char *dir = decoy_get(d, "drop");
	char path[256];
	int fd;

	if (!dir)
		return -ENODECOY;
	snprintf(path, sizeof(path), "%s/planted", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	unlink(path);
	return 0;
}

int attack_path_socket(const struct decoys *d)
{
	const char *path = decoy_get(d, "socket"), *token = decoy_get(d, "token");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char text[128] = "";
	_cleanup_fd_ int fd = -1;

	if (!path || !token)
		return -ENODECOY;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return -errno;
	return strstr(text, token) ? 0 : -ENOTSEEN;
}

/* A sandbox has an /etc/passwd too, and an image its own /etc/shadow: the host's is known by its size and time of change. */
static int is_host_file(const struct decoys *d, const char *key, const char *path)
{
	const char *size = decoy_get(d, key);
	struct stat st;
	char seen[64];

	if (!size)
		return -ENODECOY;
	if (stat(path, &st) < 0)
		return -errno;
	snprintf(seen, sizeof(seen), "%lld.%lld.%ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
	return strcmp(seen, size) == 0 ? 0 : -ENOTSEEN;
}

int attack_host_passwd(const struct decoys *d)
{
	return is_host_file(d, "passwd", "/etc/passwd");
}

static int can_read(const char *path)
{
	char text[64];
	int r = read_text(path, text, sizeof(text));

	return r < 0 ? r : 0;
}

static int can_open(const char *path, int flags)
{
	_cleanup_fd_ int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : 0;
}

int attack_host_shadow(const struct decoys *d)
{
	int r = can_read("/etc/shadow");

	return r < 0 ? r : is_host_file(d, "shadow", "/etc/shadow");
}

int attack_climb_out(const struct decoys *d)
{
	const char *secret = decoy_get(d, "secret");
	char path[512] = "";
	size_t len = 0;

	if (!secret)
		return -ENODECOY;
	for (int i = 0; i < 32; i++)
		len += (size_t)snprintf(path + len, sizeof(path) - len, "../");
	snprintf(path + len, sizeof(path) - len, "%s", secret + 1);
	return read_token(path, d);
}

int attack_leaked_fd(const struct decoys *d)
{
	/* Before this one has opened anything. */
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	return -EBADF;
}

/* ---- changing what programs of others will use ---- */

static int plant(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	close(fd);
	unlink(path);
	return 0;
}

int attack_write_usr(const struct decoys *d)
{
	return plant("/usr/local/cordon-selftest");
}

int attack_write_etc(const struct decoys *d)
{
	return plant("/etc/ld.so.preload");
}

/* ---- devices ---- */

int attack_block_device(const struct decoys *d)
{
	const char *disk = decoy_get(d, "disk");

	return disk ? can_read(disk) : -ENODECOY;
}

int attack_kmsg(const struct decoys *d)
{
	_cleanup_fd_ int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char record[1024];

	if (fd < 0)
		return -errno;
	return read(fd, record, sizeof(record)) < 0 ? -errno : 0;
}

int attack_dev_mem(const struct decoys *d)
{
	return can_open("/dev/mem", O_RDONLY);
}

int attack_mknod(const struct decoys *d)
{
	char path[256];

	if (mknod(scratch_path(d, "device", path, sizeof(path)), S_IFCHR | 0600, makedev(1, 5)) < 0)
		return -errno;
	unlink(path);
	return 0;
}

/* ---- entries of /proc about the machine, not about processes ---- */

int attack_kallsyms(const struct decoys *d)
{
	return can_read("/proc/kallsyms");
}

int attack_interrupts(const struct decoys *d)
{
	return can_read("/proc/interrupts");
}

int attack_boot_line(const struct decoys *d)
{
	return can_read("/proc/cmdline");
}

int attack_keyrings(const struct decoys *d)
{
	return can_read("/proc/keys");
}

int attack_key_users(const struct decoys *d)
{
	return can_read("/proc/key-users");
}

int attack_timer_list(const struct decoys *d)
{
	return can_read("/proc/timer_list");
}

int attack_kcore(const struct decoys *d)
{
	return can_read("/proc/kcore");
}

int attack_core_pattern(const struct decoys *d)
{
	return can_open("/proc/sys/kernel/core_pattern", O_WRONLY);
}

int attack_sysrq(const struct decoys *d)
{
	return can_open("/proc/sysrq-trigger", O_WRONLY);
}
