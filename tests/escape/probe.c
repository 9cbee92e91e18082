/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the escape tests try from inside and a shell cannot: raw system calls, sockets, terminals, IPC. Each attempt prints one line
 * "NAME RESULT", where RESULT is "ok" (it worked), the name of an errno, or of the signal that ended it.
 *
 *   probe calls NAME…        system calls by name or number, with arguments that are harmless where the call is allowed
 *   probe namespaces         every way to a new namespace
 *   probe families           the socket families (and netlink protocols) that can be opened, one line: "families 1 2 10"
 *   probe abis               int 0x80 and x32
 *   probe ioctls FD          TIOCSTI and TIOCLINUX, plain and with high bits set
 *   probe open FLAGS PATH…   r, w, rw or p (O_PATH)
 *   probe openat FD NAME     through a descriptor that should not be there
 *   probe serve TOKEN        lays TOKEN out in everything that sandboxes could share, says "ready", waits for the end of its input
 *   probe visit              looks for what serve laid out: NAME and the token, or an errno
 *   probe ids                real, effective, saved user and group ids
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define KEY ((key_t)0x5ec2e7)

static const char *errno_text(int error)
{
	static const struct {
		int value;
		const char *name;
	} names[] = {
		{EPERM, "EPERM"},     {ENOENT, "ENOENT"}, {EACCES, "EACCES"},   {ENOSYS, "ENOSYS"},
		{EINVAL, "EINVAL"},   {EFAULT, "EFAULT"}, {EBADF, "EBADF"},     {ENOTTY, "ENOTTY"},
		{ENXIO, "ENXIO"},     {EROFS, "EROFS"},   {ETXTBSY, "ETXTBSY"}, {EAFNOSUPPORT, "EAFNOSUPPORT"},
		{EAGAIN, "EAGAIN"},   {ENOSPC, "ENOSPC"}, {EUSERS, "EUSERS"},   {ECONNREFUSED, "ECONNREFUSED"},
		{EIO, "EIO"},         {ELOOP, "ELOOP"},   {ENOTDIR, "ENOTDIR"}, {EOPNOTSUPP, "EOPNOTSUPP"},
		{ENODEV, "ENODEV"},   {EIDRM, "EIDRM"},   {ENOMSG, "ENOMSG"},   {EPROTONOSUPPORT, "EPROTONOSUPPORT"},
		{ESRCH, "ESRCH"},     {EEXIST, "EEXIST"}, {ENOKEY, "ENOKEY"},   {ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"},
		{ENOTSUP, "ENOTSUP"}, {EISDIR, "EISDIR"}, {ENODATA, "ENODATA"}, {ENETUNREACH, "ENETUNREACH"},
	};
	static char other[16];

	for (size_t i = 0; i < COUNT(names); i++)
		if (names[i].value == error)
			return names[i].name;
	snprintf(other, sizeof(other), "E%d", error);
	return other;
}

static void say(const char *name, long result)
{
	printf("%s %s\n", name, result < 0 ? errno_text(errno) : "ok");
	fflush(stdout);
}

/* Runs a function in a child, since what it tries may be answered by a signal. */
static void try_in_child(const char *name, int (*attempt)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(attempt() < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		printf("%s cannot-fork\n", name);
	else if (WIFSIGNALED(status))
		printf("%s %s\n", name, WTERMSIG(status) == SIGSYS ? "SIGSYS" : WTERMSIG(status) == SIGSEGV ? "SIGSEGV" : "signal");
	else
		printf("%s %s\n", name, WEXITSTATUS(status) ? errno_text(WEXITSTATUS(status)) : "ok");
	fflush(stdout);
}

/* ---- system calls ---- */

static const struct {
	const char *name;
	long nr;
} calls[] = {
	{"mount", SYS_mount},
	{"umount2", SYS_umount2},
	{"pivot_root", SYS_pivot_root},
	{"chroot", SYS_chroot},
	{"open_tree", 428},
	{"move_mount", 429},
	{"fsopen", 430},
	{"fsconfig", 431},
	{"fsmount", 432},
	{"fspick", 433},
	{"mount_setattr", 442},
	{"open_tree_attr", 467},
	{"statmount", 457},
	{"listmount", 458},
	{"io_uring_setup", 425},
	{"io_uring_enter", 426},
	{"io_uring_register", 427},
	{"clone3", 435},
	{"setns", SYS_setns},
	{"bpf", SYS_bpf},
	{"userfaultfd", SYS_userfaultfd},
	{"add_key", SYS_add_key},
	{"request_key", SYS_request_key},
	{"keyctl", SYS_keyctl},
	{"process_vm_readv", SYS_process_vm_readv},
	{"open_by_handle_at", SYS_open_by_handle_at},
	{"kexec_load", SYS_kexec_load},
};

static void try_calls(char **names)
{
	for (; *names; names++) {
		char *end;
		long nr = strtol(*names, &end, 0);

		if (*end != '\0')
			for (size_t i = 0; i < COUNT(calls); i++)
				if (strcmp(calls[i].name, *names) == 0)
					nr = calls[i].nr, end = (char *)(uintptr_t) "";
		if (*end != '\0') {
			printf("%s unknown\n", *names);
			continue;
		}
		/* -1 and NULL: whatever the call is, it finds nothing to work on */
		errno = 0;
		say(*names, syscall(nr, -1L, 0L, 0L, 0L, 0L, 0L));
	}
}

static long flags_to_try;

static int try_unshare(void)
{
	return unshare((int)flags_to_try);
}

static int try_clone(void)
{
	long pid = syscall(SYS_clone, flags_to_try | SIGCHLD, 0L, 0L, 0L, 0L);

	if (pid == 0)
		_exit(0);
	return pid < 0 ? -1 : 0;
}

static void try_namespaces(void)
{
	static const struct {
		const char *name;
		long flag;
	} kinds[] = {
		{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},  {"pid", CLONE_NEWPID},       {"net", CLONE_NEWNET},
		{"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"user+mnt", CLONE_NEWUSER | CLONE_NEWNS}};
	char name[64];

	for (size_t i = 0; i < COUNT(kinds); i++) {
		flags_to_try = kinds[i].flag;
		snprintf(name, sizeof(name), "unshare-%s", kinds[i].name);
		try_in_child(name, try_unshare);
		snprintf(name, sizeof(name), "clone-%s", kinds[i].name);
		try_in_child(name, try_clone);
	}
	flags_to_try = CLONE_NEWUSER | 1L << 40; /* the kernel looks at the lower half */
	try_in_child("clone-user-high-bits", try_clone);
	flags_to_try = 0x80; /* CLONE_NEWTIME */
	try_in_child("unshare-time", try_unshare);
}

static void try_families(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_PACKET};

	printf("families");
	for (int family = 0; family < 64; family++) {
		int works = 0;

		for (size_t i = 0; i < COUNT(types) && family != AF_NETLINK; i++) {
			int fd = socket(family, types[i], 0);

			works |= fd >= 0;
			if (fd >= 0)
				close(fd);
		}
		if (works)
			printf(" %d", family);
	}
	printf("\nnetlink");
	for (int protocol = 0; protocol < 32; protocol++) {
		int fd = socket(AF_NETLINK, SOCK_RAW, protocol);

		if (fd >= 0) {
			printf(" %d", protocol);
			close(fd);
		}
	}
	printf("\n");
	/* a family in the upper half is not seen by the kernel, and must not fool the filter */
	say("family-high-bits", syscall(SYS_socket, 38L | 1L << 32, 5L, 0L));
	say("sock-packet", syscall(SYS_socket, (long)AF_INET, (long)SOCK_PACKET, 3L));
	say("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int try_int80(void)
{
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory", "cc", "r8", "r9", "r10", "r11");
	if (result < 0) {
		errno = (int)-result;
		return -1;
	}
	return 0;
#else
	errno = ENOSYS;
	return -1;
#endif
}

static int try_x32(void)
{
	return syscall(0x40000000L | 39 /* getpid */) < 0 ? -1 : 0;
}

/* ---- terminals and files ---- */

static void try_ioctls(int fd)
{
	char letter = 'x', paste = 3;

	say("TIOCSTI", syscall(SYS_ioctl, (long)fd, 0x5412L, &letter));
	say("TIOCSTI-high-bits", syscall(SYS_ioctl, (long)fd, 0x5412L | 1L << 32, &letter));
	say("TIOCSTI-all-high-bits", syscall(SYS_ioctl, (long)fd, (long)(0xffffffff00000000UL | 0x5412), &letter));
	say("TIOCLINUX", syscall(SYS_ioctl, (long)fd, 0x541cL, &paste));
	say("TIOCLINUX-high-bits", syscall(SYS_ioctl, (long)fd, 0x541cL | 1L << 33, &paste));
	say("TIOCSETD-high-bits", syscall(SYS_ioctl, (long)fd, 0x5423L | 1L << 34, &letter));
}

static void try_open(const char *how, char **paths)
{
	int flags = strcmp(how, "r") == 0 ? O_RDONLY : strcmp(how, "w") == 0 ? O_WRONLY : strcmp(how, "p") == 0 ? O_PATH : O_RDWR;

	for (; *paths; paths++) {
		int fd = open(*paths, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		say(*paths, fd);
		if (fd >= 0)
			close(fd);
	}
}

/* ---- what two sandboxes could share ---- */

static socklen_t abstract_name(struct sockaddr_un *name)
{
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(name->sun_path + 1, "escape-test", 11);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 12);
}

static void leave_file(const char *path, const char *token)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || write(fd, token, strlen(token)) < 0)
		printf("cannot lay out %s: %s\n", path, errno_text(errno));
	if (fd >= 0) {
		fchmod(fd, 0666);
		close(fd);
	}
}

static const char *const files[] = {"/dev/shm/escape-test", "/tmp/escape-test", "/run/escape-test", "/home/user/escape-test",
                                    "/app/escape-test"};

static int listen_on(const struct sockaddr *addr, socklen_t len)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, addr, len) < 0 || listen(fd, 8) < 0)
		printf("cannot listen: %s\n", errno_text(errno));
	return fd;
}

static void serve_sockets(const char *token)
{
	struct sockaddr_un abstract, path = {.sun_family = AF_UNIX, .sun_path = "/tmp/escape-socket"};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(47123), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = abstract_name(&abstract);
	int fds[] = {listen_on((struct sockaddr *)&abstract, len), listen_on((struct sockaddr *)&path, sizeof(path)),
	             listen_on((struct sockaddr *)&in, sizeof(in))};

	for (size_t i = 0; i < COUNT(fds); i++) {
		if (fork() == 0) {
			for (;;) {
				int peer = accept(fds[i], NULL, NULL);

				if (peer >= 0 && write(peer, token, strlen(token)) > 0)
					close(peer);
			}
		}
	}
}

static void serve_ipc(const char *token)
{
	struct {
		long type;
		char text[64];
	} letter = {.type = 1};
	struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64};
	int shm = shmget(KEY, 4096, IPC_CREAT | 0666), msg = msgget(KEY, IPC_CREAT | 0666), sem = semget(KEY, 1, IPC_CREAT | 0666);
	char *memory = shm < 0 ? MAP_FAILED : shmat(shm, NULL, 0);
	mqd_t mq = mq_open("/escape-test", O_RDWR | O_CREAT, 0666, &attr);

	snprintf(letter.text, sizeof(letter.text), "%s", token);
	if (memory != MAP_FAILED)
		memcpy(memory, letter.text, sizeof(letter.text));
	for (int i = 0; i < 2; i++)
		if (msg < 0 || msgsnd(msg, &letter, strlen(token), IPC_NOWAIT) < 0)
			printf("cannot send: %s\n", errno_text(errno));
	if (sem < 0 || mq == (mqd_t)-1 || mq_send(mq, token, strlen(token), 0) < 0)
		printf("cannot lay out IPC: %s\n", errno_text(errno));
}

static void serve(const char *token)
{
	char byte;

	for (size_t i = 0; i < COUNT(files); i++)
		leave_file(files[i], token);
	serve_sockets(token);
	serve_ipc(token);
	syscall(SYS_add_key, "user", "escape-test", token, strlen(token), -4 /* user keyring */);
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	kill(0, SIGKILL);
}

static void show(const char *name, const char *text, ssize_t len)
{
	if (len < 0)
		printf("%s %s\n", name, errno_text(errno));
	else
		printf("%s %.*s\n", name, (int)len, text);
}

static void visit_socket(const char *name, const struct sockaddr *addr, socklen_t len)
{
	char text[64] = "";
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n = fd < 0 || connect(fd, addr, len) < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	show(name, text, n);
	if (fd >= 0)
		close(fd);
}

static void visit_ipc(void)
{
	struct {
		long type;
		char text[64];
	} letter = {0};
	char text[128];
	int shm = shmget(KEY, 0, 0), msg = msgget(KEY, 0);
	char *memory = shm < 0 ? MAP_FAILED : shmat(shm, NULL, SHM_RDONLY);
	mqd_t mq;

	show("sysv-shm", memory == MAP_FAILED ? "" : memory, memory == MAP_FAILED ? -1 : (ssize_t)strlen(memory));
	show("sysv-msg", letter.text, msg < 0 ? -1 : msgrcv(msg, &letter, sizeof(letter.text), 0, IPC_NOWAIT));
	say("sysv-sem", semget(KEY, 1, 0));
	mq = mq_open("/escape-test", O_RDONLY | O_NONBLOCK);
	show("posix-mq", text, mq == (mqd_t)-1 ? -1 : mq_receive(mq, text, sizeof(text), NULL));
}

static void visit(void)
{
	struct sockaddr_un abstract, path = {.sun_family = AF_UNIX, .sun_path = "/tmp/escape-socket"};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(47123), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = abstract_name(&abstract);
	char text[64];

	for (size_t i = 0; i < COUNT(files); i++) {
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);

		show(files[i], text, fd < 0 ? -1 : read(fd, text, sizeof(text)));
		if (fd >= 0)
			close(fd);
	}
	visit_socket("abstract-socket", (struct sockaddr *)&abstract, len);
	visit_socket("path-socket", (struct sockaddr *)&path, sizeof(path));
	visit_socket("loopback", (struct sockaddr *)&in, sizeof(in));
	visit_ipc();
	say("keyring", syscall(SYS_request_key, "user", "escape-test", NULL, -4));
}

static void say_ids(void)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	getresuid(&r, &e, &s);
	getresgid(&gr, &ge, &gs);
	printf("ids %u %u %u %u %u %u\n", r, e, s, gr, ge, gs);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "calls") == 0)
		try_calls(argv + 2);
	else if (strcmp(what, "namespaces") == 0)
		try_namespaces();
	else if (strcmp(what, "families") == 0)
		try_families();
	else if (strcmp(what, "abis") == 0)
		try_in_child("int80", try_int80), try_in_child("x32", try_x32);
	else if (strcmp(what, "ioctls") == 0 && argc > 2)
		try_ioctls((int)strtol(argv[2], NULL, 10));
	else if (strcmp(what, "open") == 0 && argc > 2)
		try_open(argv[2], argv + 3);
	else if (strcmp(what, "openat") == 0 && argc > 3)
		say("openat", openat((int)strtol(argv[2], NULL, 10), argv[3], O_RDONLY));
	else if (strcmp(what, "serve") == 0 && argc > 2)
		serve(argv[2]);
	else if (strcmp(what, "visit") == 0)
		visit();
	else if (strcmp(what, "ids") == 0)
		say_ids();
	else
		return 2;
	return 0;
}
