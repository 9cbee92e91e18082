/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock rules, tried for real by children that bind themselves to a ruleset. Older ABIs are forced by standing in for syscall(2)
 * (the linker's --wrap): the kernel's answer to "which ABI?" is replaced, everything else goes through.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/landlock.h"

/* ---- the stand-in ---- */

static int forced_abi = -1; /* -1: the kernel's own */
static uint64_t seen_handled, seen_net, seen_scoped, seen_allowed;

long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == __NR_landlock_create_ruleset) {
		if (a == 0 && forced_abi >= 0) {
			errno = EOPNOTSUPP;
			return forced_abi > 0 ? forced_abi : -1;
		}
		if (a != 0) {
			uint64_t attr[3];

			assert_int_equal(b, sizeof(attr));
			memcpy(attr, (const void *)(uintptr_t)a, sizeof(attr));
			seen_handled = attr[0];
			seen_net = attr[1];
			seen_scoped = attr[2];
		}
	} else if (nr == __NR_landlock_add_rule) {
		uint64_t allowed;

		memcpy(&allowed, (const void *)(uintptr_t)c, sizeof(allowed));
		seen_allowed |= allowed;
	}
	return __real_syscall(nr, a, b, c, d, e, f);
}

/* ---- the playground: DIR/in, DIR/out, and a program to run ---- */

static char dir[] = "/tmp/cordon-landlock-XXXXXX";
static char in[64], out[64];

static const char *path(const char *base, const char *name)
{
	static char joined[4][128];
	static unsigned next;
	char *p = joined[next++ % ARRAY_SIZE(joined)];

	snprintf(p, sizeof(joined[0]), "%s/%s", base, name);
	return p;
}

static void copy_program(const char *from, const char *to)
{
	_cleanup_fd_ int src = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int dst = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	char buf[65536];
	ssize_t n;

	assert_true(src >= 0 && dst >= 0);
	while ((n = read(src, buf, sizeof(buf))) > 0)
		assert_int_equal(write(dst, buf, (size_t)n), n);
	assert_int_equal(n, 0);
}

static int make_playground(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(in, sizeof(in), "%s/in", dir);
	snprintf(out, sizeof(out), "%s/out", dir);
	if (mkdir(in, 0755) < 0 || mkdir(out, 0755) < 0 || mkdir(path(in, "a"), 0755) < 0 || mkdir(path(in, "b"), 0755) < 0)
		return -1;
	copy_program("/bin/true", path(in, "true"));
	copy_program("/bin/true", path(out, "file"));
	return 0;
}

static int remove_playground(void **state)
{
	static const char *const names[] = {"in/a/file", "in/b/file", "in/a",     "in/b", "in/fifo",
	                                    "in/new",    "in/true",   "out/file", "in",   "out"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		remove(path(dir, names[i]));
	return rmdir(dir);
}

static int forget_stand_in(void **state)
{
	forced_abi = -1;
	seen_handled = seen_net = seen_scoped = seen_allowed = 0;
	return 0;
}

static void skip_below_abi(int abi)
{
	if (landlock_abi() < abi) {
		print_message("SKIP: this kernel has Landlock ABI %d, the test needs %d\n", landlock_abi(), abi);
		skip();
	}
}

/* ---- children ---- */

#define SYSTEM_RULES                                                                                                           \
	{"/usr", LANDLOCK_RX, false}, {"/bin", LANDLOCK_RX, true}, {"/lib", LANDLOCK_RX, true}, {"/lib64", LANDLOCK_RX, true}, \
		{"/etc", LANDLOCK_RX, true},                                                                                   \
	{                                                                                                                      \
		"/proc", LANDLOCK_RX, false                                                                                    \
	}

#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)
#define CHECK_FAILS(error, call) CHECK((errno = 0, (call)) == -1 && errno == (error))

/* body runs in a child under the rules; it returns 0 or the line that failed. */
static void in_restricted_child(const struct landlock_rule *rules, size_t count, int (*body)(void))
{
	struct cordon_error err = {0};
	int status, fd = landlock_ruleset(rules, count, &err);
	pid_t pid;

	if (fd < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int line = -1;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && landlock_restrict(fd) == 0)
			line = body();
		if (line != 0)
			fprintf(stderr, "# the child failed in line %d: %s\n", line, strerror(errno));
		_exit(line != 0);
	}
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int touch(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* 0, or -1 with errno of execv. */
static int execute(const char *program)
{
	char *argv[] = {(char *)(uintptr_t) "true", NULL};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(program, argv);
		_exit(errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	errno = WEXITSTATUS(status);
	return errno == 0 ? 0 : -1;
}

static int try_writes(void)
{
	CHECK(touch(path(in, "new")) == 0);
	CHECK_FAILS(EACCES, touch(path(out, "new")));
	CHECK_FAILS(EACCES, open(path(out, "file"), O_WRONLY | O_CLOEXEC));
	CHECK_FAILS(EACCES, open(path(out, "file"), O_RDONLY | O_CLOEXEC)); /* no rule names it at all */
	CHECK_FAILS(EACCES, unlink(path(out, "file")));
	CHECK_FAILS(EACCES, mkdir(path(dir, "new"), 0755));
	CHECK(mkfifo(path(in, "fifo"), 0644) == 0);
	CHECK(unlink(path(in, "new")) == 0);
	return 0;
}

static void test_writes_work_inside_and_fail_outside(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES, {in, LANDLOCK_RW, false}};

	skip_below_abi(1);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_writes);
}

static int try_reads_only(void)
{
	CHECK(open(path(out, "file"), O_RDONLY | O_CLOEXEC) >= 0);
	CHECK_FAILS(EACCES, open(path(out, "file"), O_WRONLY | O_CLOEXEC));
	CHECK_FAILS(EACCES, touch(path(out, "new")));
	CHECK(execute(path(out, "file")) == 0);
	return 0;
}

static void test_rx_tree_is_read_and_run_but_not_written(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES, {out, LANDLOCK_RX, false}};

	skip_below_abi(1);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_reads_only);
}

static int try_truncate(void)
{
	CHECK_FAILS(EACCES, truncate(path(out, "file"), 1));
	CHECK(touch(path(in, "new")) == 0);
	CHECK(truncate(path(in, "new"), 1) == 0);
	CHECK(open(path(in, "new"), O_WRONLY | O_TRUNC | O_CLOEXEC) >= 0);
	return 0;
}

static void test_truncation_is_a_write(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES, {in, LANDLOCK_RW, false}, {out, LANDLOCK_RX, false}};

	skip_below_abi(3);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_truncate);
}

static int try_exec_denied(void)
{
	CHECK(execute("/bin/true") == 0);
	CHECK_FAILS(EACCES, execute(path(in, "true")));
	return 0;
}

static int try_exec_allowed(void)
{
	CHECK(execute(path(in, "true")) == 0);
	CHECK(touch(path(in, "new")) == 0);
	return 0;
}

static void test_programs_run_in_an_rwx_tree_but_not_in_an_rw_tree(void **state)
{
	const struct landlock_rule rw[] = {SYSTEM_RULES, {in, LANDLOCK_RW, false}};
	const struct landlock_rule rwx[] = {SYSTEM_RULES, {in, LANDLOCK_RWX, false}};

	skip_below_abi(1);
	in_restricted_child(rw, ARRAY_SIZE(rw), try_exec_denied);
	in_restricted_child(rwx, ARRAY_SIZE(rwx), try_exec_allowed);
}

static int try_rename(void)
{
	CHECK(touch(path(in, "a/file")) == 0);
	CHECK(rename(path(in, "a/file"), path(in, "b/file")) == 0);
	CHECK(rename(path(in, "b/file"), path(out, "moved")) == -1 && (errno == EACCES || errno == EXDEV));
	return 0;
}

static void test_renames_stay_inside(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES, {in, LANDLOCK_RW, false}, {out, LANDLOCK_RX, false}};

	skip_below_abi(2);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_rename);
}

static int try_proc_mem(void)
{
	CHECK_FAILS(EACCES, open("/proc/self/mem", O_RDWR | O_CLOEXEC));
	CHECK_FAILS(EACCES, open("/proc/self/mem", O_WRONLY | O_CLOEXEC));
	CHECK(open("/proc/self/maps", O_RDONLY | O_CLOEXEC) >= 0);
	return 0;
}

static void test_own_memory_is_not_writable_through_proc(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES};

	skip_below_abi(1);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_proc_mem);
}

static int try_devices(void)
{
	CHECK(open("/dev/null", O_RDWR | O_TRUNC | O_CLOEXEC) >= 0); /* as the shell's "> /dev/null" */
	CHECK_FAILS(EACCES, open("/dev/zero", O_WRONLY | O_CLOEXEC));
	CHECK(mknod(path(in, "node"), S_IFCHR | 0600, makedev(1, 3)) == -1 && (errno == EACCES || errno == EPERM));
	CHECK(mknod(path(in, "node"), S_IFBLK | 0600, makedev(7, 0)) == -1 && (errno == EACCES || errno == EPERM));
	return 0;
}

static void test_a_rule_may_name_a_single_device_and_nobody_makes_one(void **state)
{
	const struct landlock_rule rules[] = {
		SYSTEM_RULES, {in, LANDLOCK_RW, false}, {"/dev/null", LANDLOCK_DEV, false}, {"/dev/zero", LANDLOCK_RX, false}};

	skip_below_abi(1);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_devices);
}

static int try_files(void)
{
	CHECK(open(path(out, "file"), O_RDWR | O_CLOEXEC) >= 0);
	CHECK_FAILS(EACCES, unlink(path(out, "file")));
	CHECK_FAILS(EACCES, execute(path(out, "file")));
	return 0;
}

static void test_a_rule_may_name_a_single_file(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES, {path(out, "file"), LANDLOCK_RW, false}};

	skip_below_abi(1);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_files);
}

static int try_terminals(void)
{
	struct termios t;
	unsigned number;
	char name[32];
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), fd, unlock = 0;

	CHECK(master >= 0);
	CHECK(ioctl(master, TIOCSPTLCK, &unlock) == 0 && ioctl(master, TIOCGPTN, &number) == 0);
	snprintf(name, sizeof(name), "/dev/pts/%u", number);
	fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(fd >= 0 && tcgetattr(fd, &t) == 0);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_FAILS(EACCES, ioctl(fd, TCGETS, &t)); /* without Landlock: ENOTTY */
	return 0;
}

static void test_device_ioctls_are_for_terminals(void **state)
{
	const struct landlock_rule rules[] = {
		SYSTEM_RULES, {"/dev/null", LANDLOCK_DEV, false}, {"/dev/ptmx", LANDLOCK_TTY, false}, {"/dev/pts", LANDLOCK_TTY, false}};

	skip_below_abi(5);
	if (access("/dev/ptmx", R_OK | W_OK) < 0 || access("/dev/pts/ptmx", F_OK) < 0) {
		print_message("SKIP: no devpts here\n");
		skip();
	}
	in_restricted_child(rules, ARRAY_SIZE(rules), try_terminals);
}

static const struct sockaddr_un abstract = {.sun_family = AF_UNIX, .sun_path = "\0cordon-landlock-test"};

static int try_to_reach_the_parent(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_FAILS(EPERM, connect(fd, (const struct sockaddr *)&abstract, sizeof(abstract)));
	CHECK_FAILS(EPERM, kill(getppid(), 0));
	CHECK(kill(getpid(), 0) == 0);
	return 0;
}

static void test_signals_and_abstract_sockets_stay_inside(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES};
	_cleanup_fd_ int fd = -1;

	skip_below_abi(6);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&abstract, sizeof(abstract)), 0);
	assert_int_equal(listen(fd, 1), 0);
	in_restricted_child(rules, ARRAY_SIZE(rules), try_to_reach_the_parent);
}

static void test_missing_paths_are_skipped_only_when_optional(void **state)
{
	const struct landlock_rule optional[] = {{"/nonexistent", LANDLOCK_RX, true}, {"/etc/passwd/below", LANDLOCK_RX, true}};
	const struct landlock_rule needed[] = {{"/nonexistent", LANDLOCK_RX, false}};
	struct cordon_error err = {0};
	int fd;

	skip_below_abi(1);
	fd = landlock_ruleset(optional, ARRAY_SIZE(optional), &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(landlock_ruleset(needed, ARRAY_SIZE(needed), &err), -1);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent"));
}

static void test_older_abis_are_asked_only_for_what_they_know(void **state)
{
	static const struct {
		int abi;
		uint64_t handled, scoped;
	} known[] = {{1, 0x1fff, 0}, {2, 0x3fff, 0}, {3, 0x7fff, 0}, {4, 0x7fff, 0},
	             {5, 0xffff, 0}, {6, 0xffff, 3}, {7, 0xffff, 3}, {99, 0xffff, 3}};
	const struct landlock_rule rules[] = {
		{in, LANDLOCK_RWX, false}, {in, LANDLOCK_TTY, false}, {path(out, "file"), LANDLOCK_RW, false}};
	int real;

	skip_below_abi(1);
	real = landlock_abi();
	for (size_t i = 0; i < ARRAY_SIZE(known) && (known[i].abi <= real || real >= 6); i++) {
		struct cordon_error err = {0};
		int fd;

		forced_abi = known[i].abi;
		seen_allowed = 0;
		fd = landlock_ruleset(rules, ARRAY_SIZE(rules), &err);
		if (fd < 0)
			fail_msg("ABI %d: %s", forced_abi, err.message);
		close(fd);
		assert_int_equal(seen_handled, known[i].handled);
		assert_int_equal(seen_scoped, known[i].scoped);
		assert_int_equal(seen_net, 0);
		assert_int_equal(seen_allowed & ~known[i].handled, 0);
		assert_int_equal(seen_allowed & (1u << 6 | 1u << 11), 0); /* MAKE_CHAR, MAKE_BLOCK */
	}
}

static void test_missing_landlock_is_a_weak_host(void **state)
{
	const struct landlock_rule rules[] = {SYSTEM_RULES};
	struct cordon_error err = {0};

	forced_abi = 0;
	assert_int_equal(landlock_abi(), 0);
	assert_int_equal(landlock_ruleset(rules, ARRAY_SIZE(rules), &err), -1);
	assert_int_equal(err.code, CORDON_ERR_WEAK_HOST);
	assert_true(err.hint[0] != '\0');
	assert_true(landlock_restrict(-1) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_writes_work_inside_and_fail_outside, forget_stand_in),
		cmocka_unit_test_setup(test_rx_tree_is_read_and_run_but_not_written, forget_stand_in),
		cmocka_unit_test_setup(test_truncation_is_a_write, forget_stand_in),
		cmocka_unit_test_setup(test_programs_run_in_an_rwx_tree_but_not_in_an_rw_tree, forget_stand_in),
		cmocka_unit_test_setup(test_renames_stay_inside, forget_stand_in),
		cmocka_unit_test_setup(test_own_memory_is_not_writable_through_proc, forget_stand_in),
		cmocka_unit_test_setup(test_a_rule_may_name_a_single_device_and_nobody_makes_one, forget_stand_in),
		cmocka_unit_test_setup(test_a_rule_may_name_a_single_file, forget_stand_in),
		cmocka_unit_test_setup(test_device_ioctls_are_for_terminals, forget_stand_in),
		cmocka_unit_test_setup(test_signals_and_abstract_sockets_stay_inside, forget_stand_in),
		cmocka_unit_test_setup(test_missing_paths_are_skipped_only_when_optional, forget_stand_in),
		cmocka_unit_test_setup(test_older_abis_are_asked_only_for_what_they_know, forget_stand_in),
		cmocka_unit_test_setup(test_missing_landlock_is_a_weak_host, forget_stand_in),
	};

	return cmocka_run_group_tests(tests, make_playground, remove_playground);
}
