/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher against real processes in user, pid, mount and ipc namespaces of their own; works as root and as an ordinary user. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/watch.h"

#define MB ((size_t)1 << 20)
#define LIMIT (64 * MB)

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

/* A sandbox as far as the watcher is concerned. */
struct box {
	pid_t pid, watcher;
	int pidfd, proc_fd, record_fd, sock; /* sock: one byte from us, and pid 1 goes on */
	const volatile struct watch_record *record;
};

static char tree[] = "/tmp/cordon-watch-XXXXXX"; /* a writable tree for the disk tests */

static bool write_file(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) > 0;
}

static void pid1(int sock, unsigned uid, unsigned gid, int (*body)(int))
{
	char map[32];
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = map, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};

	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	bool ok = write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	ok = ok && write_file("/proc/self/gid_map", map) && setsid() >= 0;
	ok = ok && mount("", "/", "", MS_REC | MS_PRIVATE, NULL) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0;
	if (uid != 0) /* as watch.h asks for */
		setpriority(PRIO_PROCESS, 0, 19);
	int proc_fd = ok ? open("/proc", O_RDONLY | O_DIRECTORY) : -1;
	if (proc_fd < 0)
		_exit(97);
	memcpy(CMSG_DATA(&control.head), &proc_fd, sizeof(int));
	if (sendmsg(sock, &msg, 0) != 1)
		_exit(96);
	_exit(body(sock));
}

static struct box start(int (*body)(int), struct watch_request req)
{
	struct box b = {.pidfd = -1};
	int pair[2];
	char byte;
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	unsigned uid = geteuid(), gid = getegid();

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b.pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PIDFD | SIGCHLD, 0, &b.pidfd, 0,
	                       0);
	if (b.pid == 0) {
		close(pair[0]);
		pid1(pair[1], uid, gid, body);
	}
	close(pair[1]);
	if (b.pid < 0 || recvmsg(pair[0], &msg, 0) <= 0) {
		print_message("# SKIP: no user, pid and mount namespaces with a /proc here\n");
		skip();
	}
	memcpy(&b.proc_fd, CMSG_DATA(&control.head), sizeof(int));
	b.sock = pair[0];
	b.record_fd = watch_record_new(NULL);
	assert_true(b.record_fd >= 0);
	b.record = mmap(NULL, 4096, PROT_READ, MAP_SHARED, b.record_fd, 0);
	assert_ptr_not_equal(b.record, MAP_FAILED);
	req.init_pidfd = b.pidfd;
	req.proc_fd = b.proc_fd;
	req.record_fd = b.record_fd;
	b.watcher = fork();
	if (b.watcher == 0) {
		watch_run(&req);
		_exit(0);
	}
	return b;
}

static void go(const struct box *b)
{
	assert_int_equal(send(b->sock, "g", 1, MSG_NOSIGNAL), 1);
}

/* Waits for both; the status of pid 1. */
static int finish(struct box *b, struct watch_record *record)
{
	struct pollfd p = {.fd = b->pidfd, .events = POLLIN};
	int status, watcher_status;

	if (poll(&p, 1, 30000) == 0)
		kill(b->pid, SIGKILL);
	assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
	assert_int_equal(waitpid(b->watcher, &watcher_status, 0), b->watcher);
	assert_int_equal(watcher_status, 0);
	*record = (struct watch_record){.memory_peak = b->record->memory_peak,
	                                .disk_peak = b->record->disk_peak,
	                                .over_memory = b->record->over_memory,
	                                .over_disk = b->record->over_disk};
	munmap((void *)(uintptr_t)b->record, 4096);
	close(b->sock);
	close(b->pidfd);
	close(b->proc_fd);
	close(b->record_fd);
	return status;
}

/* ---- what pid 1 does ------------------------------------------------------------------------------------------------------------ */

static void touch(size_t bytes, int flags)
{
	volatile char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
}

static int wait_for_byte(int fd)
{
	char c;

	return read(fd, &c, 1) == 1 ? 7 : 95;
}

static int fifty_hogs(int sock)
{
	int start_line[2];
	char c;

	if (pipe(start_line) < 0)
		return 95;
	for (int i = 0; i < 50; i++)
		if (fork() == 0) {
			close(start_line[1]);
			if (read(start_line[0], &c, 1) == 0)
				touch(8 * MB, MAP_PRIVATE);
			pause();
		}
	wait_for_byte(sock);
	close(start_line[1]);
	pause();
	return 95;
}

static int fill_memfds(int sock)
{
	static char block[MB];

	memset(block, 1, sizeof(block));
	wait_for_byte(sock);
	for (int i = 0; i < 64; i++) {
		int fd = (int)syscall(SYS_memfd_create, "filler", 0U);
		for (int k = 0; k < 8; k++)
			if (write(fd, block, sizeof(block)) < 0)
				return 95;
	}
	pause();
	return 95;
}

static int fill_segments(int sock)
{
	wait_for_byte(sock);
	for (int i = 0; i < 64; i++) {
		int id = shmget(IPC_PRIVATE, 8 * MB, IPC_CREAT | 0600);
		char *p = shmat(id, NULL, 0);
		if (p == (void *)-1)
			return 95;
		memset(p, 1, 8 * MB);
		shmdt(p);
	}
	pause();
	return 95;
}

/* Two thirds in a memfd and two thirds in a shared mapping: each alone is fine. */
static int memfd_and_shared_mapping(int sock)
{
	static char block[MB];
	int fd = (int)syscall(SYS_memfd_create, "half", 0U);

	memset(block, 1, sizeof(block));
	wait_for_byte(sock);
	for (size_t i = 0; i < LIMIT / 3 * 2 / MB; i++)
		if (write(fd, block, sizeof(block)) < 0)
			return 95;
	touch(LIMIT / 3 * 2, MAP_SHARED);
	pause();
	return 95;
}

/* Two thirds of the limit in one memfd that is open and mapped: seen twice, there once. */
static int mapped_memfd(int sock)
{
	int fd = (int)syscall(SYS_memfd_create, "mapped", 0U);
	size_t size = LIMIT / 3 * 2;

	if (ftruncate(fd, (off_t)size) < 0)
		return 95;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 1, size);
	return wait_for_byte(sock);
}

static int half_the_limit(int sock)
{
	touch(LIMIT / 2, MAP_PRIVATE);
	return wait_for_byte(sock);
}

/* 40 MB that four children share, copy on write. */
static int forked_copies(int sock)
{
	touch(LIMIT / 8 * 5, MAP_PRIVATE);
	for (int i = 0; i < 4; i++)
		if (fork() == 0)
			pause();
	return wait_for_byte(sock);
}

enum how { NAMED, UNLINKED, EMPTY };

/* 256 quarters of a megabyte: in files of their own, in one that has lost its name; or as many empty files. */
static int write_files(int sock, enum how how)
{
	static char block[MB / 4];
	char path[sizeof(tree) + 64];
	int fd = -1;

	memset(block, 1, sizeof(block));
	wait_for_byte(sock);
	for (int i = 0; i < 256; i++) {
		if (how != UNLINKED || i == 0) {
			snprintf(path, sizeof(path), "%s/%d", tree, i);
			close(fd);
			fd = open(path, O_WRONLY | O_CREAT, 0600);
		}
		if (fd < 0 || (how == UNLINKED && i == 0 && unlink(path) < 0) || (how != EMPTY && write(fd, block, sizeof(block)) < 0))
			return 95;
	}
	pause();
	return 95;
}

static int fill_disk(int sock)
{
	return write_files(sock, NAMED);
}

static int fill_disk_without_a_name(int sock)
{
	return write_files(sock, UNLINKED);
}

static int make_many_files(int sock)
{
	return write_files(sock, EMPTY);
}

static int write_a_little(int sock)
{
	char path[sizeof(tree) + 80];

	/* deeper than the walk keeps descriptors for */
	size_t len = (size_t)snprintf(path, sizeof(path), "%s/d", tree);
	for (int n = 0; n < 30; n++, len += 2) {
		if (mkdir(path, 0700) < 0)
			return 95;
		memcpy(path + len, "/d", 3);
	}
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT, 0600);
	static char block[MB];
	memset(block, 1, sizeof(block));
	if (write(fd, block, sizeof(block)) < 0)
		return 95;
	return wait_for_byte(sock);
}

/* ---- tests ----------------------------------------------------------------------------------------------------------------------- */

static const struct watch_request memory_only = {.memory = LIMIT, .tmpfs_fd = -1, .tree_fds = {-1, -1, -1}};

/* Killed for memory; how far over, in percent of the limit. */
static int killed_for_memory(int (*body)(int))
{
	struct watch_record record;
	struct box b = start(body, memory_only);

	go(&b);
	int status = finish(&b, &record);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(record.over_memory, 1);
	assert_int_equal(record.over_disk, 0);
	int over = (int)((double)record.memory_peak * 100 / (double)LIMIT) - 100;
	print_message("# overshoot %d %%\n", over);
	return over;
}

/* Not killed, though the watcher has seen `least` bytes. */
static void left_alone(int (*body)(int), uint64_t least)
{
	struct watch_record record;
	struct box b = start(body, memory_only);
	struct pollfd p = {.fd = b.pidfd, .events = POLLIN};

	for (int ms = 0; b.record->memory_peak < least; ms++) {
		assert_true(ms < 30000);
		assert_int_equal(poll(&p, 1, 1), 0);
	}
	go(&b);
	int status = finish(&b, &record);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(record.over_memory, 0);
	assert_true(record.memory_peak <= LIMIT);
}

static void test_fifty_hogs_together_are_killed_in_time(void **state)
{
	int over = 100;

	(void)state;
	for (int i = 0; i < 3 && over > 25; i++) /* the machine may be busy with something else; not three times in a row */
		over = killed_for_memory(fifty_hogs);
	if (!SANITIZED) /* which makes the watcher slower and the hogs bigger */
		assert_in_range(over, 0, 25);
}

static void test_memfds_that_nobody_maps_count(void **state)
{
	(void)state;
	killed_for_memory(fill_memfds);
}

static void test_system_v_segments_that_nobody_maps_count(void **state)
{
	(void)state;
	killed_for_memory(fill_segments);
}

static void test_memfd_and_shared_mapping_add_up(void **state)
{
	(void)state;
	killed_for_memory(memfd_and_shared_mapping);
}

static void test_half_the_limit_is_left_alone(void **state)
{
	(void)state;
	left_alone(half_the_limit, LIMIT / 16 * 7);
}

static void test_mapped_memfd_counts_once(void **state)
{
	(void)state;
	left_alone(mapped_memfd, LIMIT / 2);
}

static void test_pages_shared_after_fork_count_once(void **state)
{
	(void)state;
	left_alone(forked_copies, LIMIT / 2);
}

static int make_tree(void **state)
{
	(void)state;
	memcpy(tree + sizeof(tree) - 7, "XXXXXX", 6);
	return mkdtemp(tree) ? 0 : -1;
}

static int remove_tree(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		execlp("rm", "rm", "-rf", "--one-file-system", tree, (char *)NULL);
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct watch_record run_on_disk(int (*body)(int), bool dies)
{
	struct watch_record record;
	_cleanup_fd_ int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct box b = start(body, (struct watch_request){.disk = 8 * MB, .inodes = 100, .tmpfs_fd = -1, .tree_fds = {fd, -1, -1}});
	struct pollfd p = {.fd = b.pidfd, .events = POLLIN};

	for (int ms = 0; !dies && b.record->disk_peak < MB; ms++) {
		assert_true(ms < 30000);
		assert_int_equal(poll(&p, 1, 1), 0);
	}
	go(&b);
	int status = finish(&b, &record);
	assert_int_equal(WIFSIGNALED(status), dies);
	assert_int_equal(record.over_disk, dies);
	return record;
}

static void test_disk_filler_is_killed(void **state)
{
	(void)state;
	assert_true(run_on_disk(fill_disk, true).disk_peak > 8 * MB);
}

static void test_unlinked_file_counts_while_it_is_open(void **state)
{
	(void)state;
	assert_true(run_on_disk(fill_disk_without_a_name, true).disk_peak > 8 * MB);
}

static void test_too_many_files_are_too_many(void **state)
{
	(void)state;
	assert_true(run_on_disk(make_many_files, true).disk_peak < 8 * MB);
}

static void test_small_deep_tree_is_left_alone(void **state)
{
	(void)state;
	assert_true(run_on_disk(write_a_little, false).disk_peak >= MB);
}

static void test_watcher_ends_with_the_sandbox(void **state)
{
	struct watch_record record;
	struct box b = start(wait_for_byte, memory_only);

	(void)state;
	go(&b);
	int status = finish(&b, &record);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watcher_ends_with_the_sandbox),
		cmocka_unit_test(test_fifty_hogs_together_are_killed_in_time),
		cmocka_unit_test(test_memfds_that_nobody_maps_count),
		cmocka_unit_test(test_system_v_segments_that_nobody_maps_count),
		cmocka_unit_test(test_memfd_and_shared_mapping_add_up),
		cmocka_unit_test(test_half_the_limit_is_left_alone),
		cmocka_unit_test(test_mapped_memfd_counts_once),
		cmocka_unit_test(test_pages_shared_after_fork_count_once),
		cmocka_unit_test_setup_teardown(test_disk_filler_is_killed, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(test_unlinked_file_counts_while_it_is_open, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(test_too_many_files_are_too_many, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(test_small_deep_tree_is_left_alone, make_tree, remove_tree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
