/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoy process: lays out things worth stealing on the host, says where they are, serves them, and takes them away again when its
 * standard input ends. That happens when `cordon selftest` is done, and also when it is killed: nothing has to be caught there.
 *
 * It is a decoy itself, too: its command line carries a marker, its environment a secret. What cannot be made here (no IPv6, no message
 * queues) is left out; attacks on it then have no control.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

enum { TCP4, TCP6, UDP4, UDP6, ABSTRACT, PATH, SERVICES };

struct decoy {
	const char *token;
	int services[SERVICES]; /* -1: not there */
	int shm, msg, sem;      /* ids, -1: not there */
	char dir[64];           /* "": not made; likewise the others */
	char secret[96], drop[96], socket[96], program[96];
	char home[256], shmfile[96], mq[64], cgroup[320];
};

static void say(const char *key, const char *value)
{
	dprintf(STDOUT_FILENO, "%s=%s\n", key, value);
}

static void say_number(const char *key, long value)
{
	dprintf(STDOUT_FILENO, "%s=%ld\n", key, value);
}

/* By which a file of the host is told from one that is called the same inside. */
static void say_identity(const char *key, const char *path)
{
	struct stat st;
	char text[64];

	if (stat(path, &st) < 0)
		return;
	snprintf(text, sizeof(text), "%lld.%lld.%ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
	say(key, text);
}

/* ---- files ---- */

/* A file with the token in it, that anyone may read. */
static bool leave_file(const char *path, const char *token)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd >= 0 && fchmod(fd, 0644) == 0 && write(fd, token, strlen(token)) == (ssize_t)strlen(token);
}

/* This program, for a sandbox that sees the host's files instead of its own. */
static bool leave_program(const char *path)
{
	_cleanup_fd_ int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return false;
	for (off_t done = 0; done < st.st_size;)
		if (sendfile(to, from, &done, (size_t)(st.st_size - done)) <= 0)
			return false;
	return true;
}

static void lay_out_files(struct decoy *y)
{
	const char *home = getenv("HOME");

	snprintf(y->dir, sizeof(y->dir), "/tmp/cordon-selftest-XXXXXX");
	if (!mkdtemp(y->dir)) {
		y->dir[0] = '\0';
		return;
	}
	chmod(y->dir, 0755);
	snprintf(y->secret, sizeof(y->secret), "%s/secret", y->dir);
	if (leave_file(y->secret, y->token))
		say("secret", y->secret);
	snprintf(y->program, sizeof(y->program), "%s/attacks", y->dir);
	if (leave_program(y->program))
		say("program", y->program);
	snprintf(y->drop, sizeof(y->drop), "%s/drop", y->dir);
	if (mkdir(y->drop, 0777) == 0 && chmod(y->drop, 0777) == 0)
		say("drop", y->drop);
	snprintf(y->shmfile, sizeof(y->shmfile), "/dev/shm/%s", y->dir + strlen("/tmp/"));
	if (leave_file(y->shmfile, y->token))
		say("shmfile", y->shmfile);
	else
		y->shmfile[0] = '\0';
	snprintf(y->home, sizeof(y->home), "%s/.%s", home && home[0] == '/' ? home : "/var/tmp", y->dir + strlen("/tmp/"));
	if (!leave_file(y->home, y->token)) {
		snprintf(y->home, sizeof(y->home), "/var/tmp/.%s", y->dir + strlen("/tmp/"));
		if (!leave_file(y->home, y->token))
			y->home[0] = '\0';
	}
	if (y->home[0])
		say("home", y->home);
	say_identity("passwd", "/etc/passwd");
	say_identity("shadow", "/etc/shadow");
}

/* ---- services ---- */

static void serve(struct decoy *y, int service, int type, const void *addr, socklen_t len, const char *key)
{
	const struct sockaddr *sa = addr;
	struct sockaddr_storage bound = {0};
	socklen_t bound_len = sizeof(bound);
	_cleanup_fd_ int fd = socket(sa->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, sa, len) < 0 || (type == SOCK_STREAM && listen(fd, 8) < 0))
		return;
	if (key && getsockname(fd, (struct sockaddr *)&bound, &bound_len) == 0)
		say_number(key, ntohs(sa->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
		                                                : ((struct sockaddr_in *)&bound)->sin_port));
	y->services[service] = steal_fd(&fd);
}

static void lay_out_services(struct decoy *y)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_un path = {.sun_family = AF_UNIX}, abstract = {.sun_family = AF_UNIX};
	int len;

	serve(y, TCP4, SOCK_STREAM, &in4, sizeof(in4), "tcp4");
	serve(y, UDP4, SOCK_DGRAM, &in4, sizeof(in4), "udp4");
	serve(y, TCP6, SOCK_STREAM, &in6, sizeof(in6), "tcp6");
	serve(y, UDP6, SOCK_DGRAM, &in6, sizeof(in6), "udp6");

	len = snprintf(abstract.sun_path + 1, sizeof(abstract.sun_path) - 1, "cordon-selftest-%d", (int)getpid());
	serve(y, ABSTRACT, SOCK_STREAM, &abstract, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len), NULL);
	if (y->services[ABSTRACT] >= 0)
		say("abstract", abstract.sun_path + 1);

	if (!y->dir[0])
		return;
	snprintf(y->socket, sizeof(y->socket), "%s/socket", y->dir);
	memcpy(path.sun_path, y->socket, sizeof(y->socket));
	serve(y, PATH, SOCK_STREAM, &path, sizeof(path), NULL);
	if (y->services[PATH] >= 0 && chmod(y->socket, 0777) == 0)
		say("socket", y->socket);
}

/* Everyone who knocks is told the secret. */
static void answer(const struct decoy *y, int service)
{
	int fd = y->services[service];

	if (service == UDP4 || service == UDP6) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		char word[64];

		if (recvfrom(fd, word, sizeof(word), 0, (struct sockaddr *)&from, &len) >= 0)
			sendto(fd, y->token, strlen(y->token), MSG_NOSIGNAL, (struct sockaddr *)&from, len);
	} else {
		_cleanup_fd_ int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		char word[64];

		if (peer < 0)
			return;
		send(peer, y->token, strlen(y->token), MSG_NOSIGNAL);
		/* What the peer says is read, if it is there already: closing over unread bytes would reset the connection and lose the answer. */
		shutdown(peer, SHUT_WR);
		poll(&(struct pollfd){.fd = peer, .events = POLLIN}, 1, 100);
		while (recv(peer, word, sizeof(word), 0) > 0)
			;
	}
}

static void serve_until_end(const struct decoy *y)
{
	struct pollfd fds[SERVICES + 1];

	for (int i = 0; i < SERVICES; i++)
		fds[i] = (struct pollfd){.fd = y->services[i], .events = POLLIN}; /* poll(2) ignores negative ones */
	fds[SERVICES] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	for (;;) {
		if (poll(fds, SERVICES + 1, -1) < 0 && errno != EINTR)
			return;
		for (int i = 0; i < SERVICES; i++)
			if (fds[i].revents)
				answer(y, i);
		if (fds[SERVICES].revents)
			return;
	}
}

/* ---- IPC ---- */

static void lay_out_ipc(struct decoy *y)
{
	key_t key = (key_t)(0x5e1f0000 + (getpid() & 0xffff)); /* one that nobody else uses */
	struct {
		long type;
		char text[64];
	} letter = {.type = 1};
	struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 128};
	mqd_t q;

	y->shm = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666);
	if (y->shm >= 0) {
		char *memory = shmat(y->shm, NULL, 0);

		if (memory != (void *)-1) {
			memcpy(memory, y->token, strlen(y->token) + 1);
			shmdt(memory);
			say_number("shmkey", key);
		}
	}
	y->msg = msgget(key, IPC_CREAT | IPC_EXCL | 0666);
	snprintf(letter.text, sizeof(letter.text), "%s", y->token);
	if (y->msg >= 0 && msgsnd(y->msg, &letter, strlen(letter.text), IPC_NOWAIT) == 0)
		say_number("msgkey", key);
	y->sem = semget(key, 1, IPC_CREAT | IPC_EXCL | 0666);
	if (y->sem >= 0)
		say_number("semkey", key);

	snprintf(y->mq, sizeof(y->mq), "/cordon-selftest-%d", (int)getpid());
	q = mq_open(y->mq, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666, &attr);
	if (q == (mqd_t)-1) {
		y->mq[0] = '\0';
		return;
	}
	if (mq_send(q, y->token, strlen(y->token), 0) == 0)
		say("mq", y->mq);
	mq_close(q);
}

/* ---- what the host is ---- */

static void say_namespaces(void)
{
	static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	char path[64], name[64];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		len = readlink(path, name, sizeof(name) - 1);
		if (len > 0) {
			name[len] = '\0';
			say(kinds[i], name);
		}
	}
}

/* The first disk that has a size and a node. */
static void say_disk(void)
{
	char text[8192], *line = text, name[64], path[80];
	unsigned long long blocks;
	struct stat st;

	if (read_text("/proc/partitions", text, sizeof(text)) < 0)
		return;
	while ((line = strchr(line, '\n'))) {
		line++;
		if (sscanf(line, " %*u %*u %llu %63s", &blocks, name) != 2 || blocks == 0)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", name);
		if (stat(path, &st) == 0 && S_ISBLK(st.st_mode)) {
			say("disk", path);
			return;
		}
	}
}

/* As root, where the caller is in the root cgroups, makes one in the v2 hierarchy for the controls to be in. */
static void lay_out_cgroup(struct decoy *y)
{
	char text[65536], *line = text, point[256];

	if (geteuid() != 0 || read_text("/proc/self/cgroup", text, sizeof(text)) < 0 || !cgroups_all_root(text) ||
	    read_text("/proc/self/mountinfo", text, sizeof(text)) < 0)
		return;
	for (; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		char *end = strchr(line, '\n'), *kind;

		if (end)
			*end = '\0';
		kind = strstr(line, " - cgroup2 ");
		if (kind && sscanf(line, "%*s %*s %*s %*s %255s", point) == 1) {
			snprintf(y->cgroup, sizeof(y->cgroup), "%s/cordon-selftest-%d", point, (int)getpid());
			if (mkdir(y->cgroup, 0755) == 0)
				say("cgroupdir", y->cgroup);
			else
				y->cgroup[0] = '\0';
			return;
		}
		if (end)
			*end = '\n';
	}
}

static void say_host(const char *marker, const char *token)
{
	struct utsname name;

	say("marker", marker);
	say("token", token);
	say_number("process", getpid());
	say_number("nice", getpriority(PRIO_PROCESS, 0));
	if (uname(&name) == 0)
		say("hostname", name.nodename);
	say_namespaces();
	say_disk();
}

/* What attacks left there, when they were killed over it. */
static void empty_drop(const char *path)
{
	_cleanup_dir_ DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		unlinkat(dirfd(dir), e->d_name, 0); /* "." and ".." are directories, and stay */
}

static void take_away(const struct decoy *y)
{
	const char *const files[] = {y->secret, y->socket, y->program, y->shmfile, y->home};

	if (y->shm >= 0)
		shmctl(y->shm, IPC_RMID, NULL);
	if (y->msg >= 0)
		msgctl(y->msg, IPC_RMID, NULL);
	if (y->sem >= 0)
		semctl(y->sem, 0, IPC_RMID);
	if (y->mq[0])
		mq_unlink(y->mq);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i][0])
			unlink(files[i]);
	if (y->drop[0]) {
		empty_drop(y->drop);
		rmdir(y->drop);
	}
	if (y->dir[0])
		rmdir(y->dir);
	if (y->cgroup[0])
		rmdir(y->cgroup);
}

int decoy_main(const char *marker, const char *token)
{
	struct decoy y = {.token = token, .shm = -1, .msg = -1, .sem = -1};

	for (int i = 0; i < SERVICES; i++)
		y.services[i] = -1;
	/* Out of reach of a Ctrl-C, which is meant for cordon; and with marks by which it is known, see is_decoy(). */
	setsid();
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setpriority(PRIO_PROCESS, 0, MIN(getpriority(PRIO_PROCESS, 0) + 7, 19));
	umask(0);
	lay_out_files(&y);
	lay_out_services(&y);
	lay_out_ipc(&y);
	lay_out_cgroup(&y);
	say_host(marker, token);
	dprintf(STDOUT_FILENO, "ready\n");
	serve_until_end(&y);
	take_away(&y);
	return 0;
}
