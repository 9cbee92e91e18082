/* SPDX-License-Identifier: Apache-2.0 */
/* The host's network and its System V and POSIX IPC, by what the decoy process serves there. Never beyond loopback. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

/* Connects, says a word and expects the token in the answer. */
static int converse(const struct decoys *d, int type, const struct sockaddr *addr, socklen_t len)
{
	const char *token = decoy_get(d, "token");
	struct timeval patience = {.tv_sec = 2};
	char text[128] = "";
	_cleanup_fd_ int fd = socket(addr->sa_family, type | SOCK_CLOEXEC, 0);

	if (!token)
		return -ENODECOY;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 || connect(fd, addr, len) < 0 ||
	    send(fd, "hello", 5, MSG_NOSIGNAL) < 0 || recv(fd, text, sizeof(text) - 1, 0) < 0)
		return -errno;
	return strstr(text, token) ? 0 : -ENOTSEEN;
}

static int converse_ipv4(const struct decoys *d, int type, const char *key)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)decoy_num(d, key, 0)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return addr.sin_port ? converse(d, type, (struct sockaddr *)&addr, sizeof(addr)) : -ENODECOY;
}

static int converse_ipv6(const struct decoys *d, int type, const char *key)
{
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)decoy_num(d, key, 0)), .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	return addr.sin6_port ? converse(d, type, (struct sockaddr *)&addr, sizeof(addr)) : -ENODECOY;
}

int attack_tcp4(const struct decoys *d)
{
	return converse_ipv4(d, SOCK_STREAM, "tcp4");
}
int attack_udp4(const struct decoys *d)
{
	return converse_ipv4(d, SOCK_DGRAM, "udp4");
}
int attack_tcp6(const struct decoys *d)
{
	return converse_ipv6(d, SOCK_STREAM, "tcp6");
}
int attack_udp6(const struct decoys *d)
{
	return converse_ipv6(d, SOCK_DGRAM, "udp6");
}

int attack_abstract_socket(const struct decoys *d)
{
	const char *name = decoy_get(d, "abstract");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len;

	if (!name)
		return -ENODECOY;
	len = strlen(name);
	if (len > sizeof(addr.sun_path) - 1)
		return -ENAMETOOLONG;
	memcpy(addr.sun_path + 1, name, len);
	return converse(d, SOCK_STREAM, (struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len));
}

int attack_list_sockets(const struct decoys *d)
{
	char text[65536], wanted[64];
	long port = decoy_num(d, "tcp4", 0);
	int r;

	if (port == 0)
		return -ENODECOY;
	r = read_text("/proc/net/tcp", text, sizeof(text));
	if (r < 0)
		return r;
	snprintf(wanted, sizeof(wanted), "0100007F:%04lX 00000000:0000 0A", port); /* 0A: listening */
	return strstr(text, wanted) ? 0 : -ENOTSEEN;
}

int attack_interfaces(const struct decoys *d)
{
	struct if_nameindex *all = if_nameindex();
	int r = -ENOTSEEN;

	if (!all)
		return -errno;
	for (struct if_nameindex *i = all; i->if_index != 0; i++)
		if (strcmp(i->if_name, "lo") != 0)
			r = 0;
	if_freenameindex(all);
	return r;
}

/* ---- IPC; what is taken is put back, as the next run wants to find it too ---- */

struct letter {
	long type;
	char text[128];
};

int attack_sysv_shm(const struct decoys *d)
{
	const char *token = decoy_get(d, "token");
	key_t key = (key_t)decoy_num(d, "shmkey", 0);
	const char *memory;
	int id;

	if (!token || key == 0)
		return -ENODECOY;
	id = shmget(key, 0, 0);
	if (id < 0)
		return -errno;
	memory = shmat(id, NULL, SHM_RDONLY);
	if (memory == (void *)-1)
		return -errno;
	return strncmp(memory, token, strlen(token)) == 0 ? 0 : -ENOTSEEN;
}

int attack_sysv_msg(const struct decoys *d)
{
	const char *token = decoy_get(d, "token");
	key_t key = (key_t)decoy_num(d, "msgkey", 0);
	struct letter l = {0};
	ssize_t len;
	int id;

	if (!token || key == 0)
		return -ENODECOY;
	id = msgget(key, 0);
	if (id < 0)
		return -errno;
	len = msgrcv(id, &l, sizeof(l.text) - 1, 0, IPC_NOWAIT);
	if (len < 0 || msgsnd(id, &l, (size_t)len, IPC_NOWAIT) < 0)
		return -errno;
	return strstr(l.text, token) ? 0 : -ENOTSEEN;
}

int attack_sysv_sem(const struct decoys *d)
{
	key_t key = (key_t)decoy_num(d, "semkey", 0);
	struct sembuf up = {.sem_op = 1, .sem_flg = IPC_NOWAIT};
	int id;

	if (key == 0)
		return -ENODECOY;
	id = semget(key, 1, 0);
	return id < 0 || semop(id, &up, 1) < 0 ? -errno : 0;
}

int attack_posix_mq(const struct decoys *d)
{
	const char *name = decoy_get(d, "mq"), *token = decoy_get(d, "token");
	char text[256] = "";
	ssize_t len;
	mqd_t q;

	if (!name || !token)
		return -ENODECOY;
	q = mq_open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (q == (mqd_t)-1)
		return -errno;
	len = mq_receive(q, text, sizeof(text), NULL);
	if (len < 0 || mq_send(q, text, (size_t)len, 0) < 0)
		return -errno;
	text[MIN((size_t)len, sizeof(text) - 1)] = '\0';
	return strstr(text, token) ? 0 : -ENOTSEEN;
}

int attack_list_sysv(const struct decoys *d)
{
	char text[65536], *line = text;
	long key = decoy_num(d, "shmkey", 0);
	int r;

	if (key == 0)
		return -ENODECOY;
	r = read_text("/proc/sysvipc/shm", text, sizeof(text));
	if (r < 0)
		return r;
	while ((line = strchr(line, '\n')))
		if (strtol(++line, NULL, 10) == key)
			return 0;
	return -ENOTSEEN;
}
