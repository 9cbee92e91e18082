/* SPDX-License-Identifier: Apache-2.0 */
/* What a broker that was taken over can still do: nothing but what it is for. Each attempt is made in a process of its own, which confines itself first. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/broker.h"
#include "egress/confine.h"

enum outcome { DID = 1, REFUSED, OTHER, NOT_CONFINED };

typedef long attempt(void);

static pid_t parent; /* asking for it is refused, too */

static int outcome_of(attempt *try)
{
	int status;
	parent = getpid();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (confine(NULL) < 0)
			_exit(NOT_CONFINED);
		errno = 0;
		_exit(try() >= 0 ? DID : errno == EPERM || errno == EACCES ? REFUSED : OTHER);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static long open_file(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static long execute(void)
{
	char *const argv[] = {(char[]){"true"}, NULL};
	return execve("/bin/true", argv, argv + 1);
}

static long fork_off(void)
{
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static long trace(void)
{
	return ptrace(PTRACE_ATTACH, parent, NULL, NULL);
}

static long read_others(void)
{
	char c;
	struct iovec to = {&c, 1}, from = {&c, 1};
	return syscall(SYS_process_vm_readv, parent, &to, 1, &from, 1, 0);
}

static long signal_others(void)
{
	return kill(parent, 0);
}

static long listen_outside(void)
{
	return syscall(SYS_listen, 0, 1);
}

static long unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long raw_socket(void)
{
	return socket(AF_INET, SOCK_RAW, 1);
}

static long ping_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
}

static long multipath_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 262); /* IPPROTO_MPTCP */
}

static long packet_socket(void)
{
	return socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static long netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long executable_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long make_executable(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static long leave_namespace(void)
{
	return syscall(SYS_unshare, 0x10000000); /* CLONE_NEWUSER */
}

static long control_device(void)
{
	return syscall(SYS_ioctl, 0, 0x5412, NULL); /* TIOCSTI */
}

static void test_what_it_is_not_for_is_refused(void **state)
{
	static attempt *const attempts[] = {
		open_file,      execute,           fork_off,        trace,           read_others,      signal_others,
		listen_outside, unix_socket,       raw_socket,      ping_socket,     multipath_socket, packet_socket,
		netlink_socket, executable_memory, make_executable, leave_namespace, control_device};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		int outcome = outcome_of(attempts[i]);
		if (outcome != REFUSED)
			print_error("attempt %zu: %d\n", i, outcome);
		assert_int_equal(outcome, REFUSED);
	}
}

static long tcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static long tcp_socket_by_name(void)
{
	return socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP);
}

static long udp6_socket(void)
{
	return socket(AF_INET6, SOCK_DGRAM, 0);
}

static long large_pipe(void)
{
	int fds[2];
	return pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0 ? -1 : fcntl(fds[1], F_SETPIPE_SZ, 4096);
}

static long plain_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static void test_what_it_is_for_is_allowed(void **state)
{
	static attempt *const attempts[] = {tcp_socket, tcp_socket_by_name, udp6_socket, large_pipe, plain_memory};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		assert_int_equal(outcome_of(attempts[i]), DID);
}

static void test_few_descriptors_mean_few_connections(void **state)
{
	static const struct {
		rlim_t limit;
		uint32_t wanted;
	} samples[] = {{4096, 500}, {BROKER_FDS_OTHER + 600, 1000}, {64, 1000}};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		int status;
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			const struct rlimit limit = {samples[i].limit, samples[i].limit};
			struct rlimit now;
			/* not root: it could have more than it is given */
			if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0))
				_exit(2);
			const uint32_t n = confine_descriptors(samples[i].wanted);
			getrlimit(RLIMIT_NOFILE, &now);
			_exit(n >= 1 && n <= samples[i].wanted && (n == 1 || n * 2 <= now.rlim_cur) && now.rlim_cur <= limit.rlim_max ? 0
			                                                                                                              : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_is_not_for_is_refused),
		cmocka_unit_test(test_what_it_is_for_is_allowed),
		cmocka_unit_test(test_few_descriptors_mean_few_connections),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
