/* SPDX-License-Identifier: Apache-2.0 */
/* Limits by the cgroups that this host really has; everything happens in cgroups of our own below `cordon`. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/limits.h"

#define MB ((size_t)1 << 20)
#define SKIP(reason)                                   \
	do {                                           \
		print_message("# SKIP: %s\n", reason); \
		skip();                                \
	} while (0)

static struct cordon_error err;

/* The best mechanism of this host, if that is a cgroup; skips the test otherwise. */
static struct limits_host cgroup_host(void)
{
	struct limits_host host;

	assert_int_equal(limits_probe(NULL, &host, &err), 0);
	if (host.memory == LIMIT_RLIMIT || host.pids == LIMIT_RLIMIT) {
		print_message("# SKIP: %s\n", host.why);
		limits_host_close(&host);
		skip();
	}
	return host;
}

static const char *test_name(const char *what)
{
	static char name[LIMITS_NAME_MAX];

	snprintf(name, sizeof(name), "test-%d.%s", (int)getpid(), what);
	return name;
}

/* Both halves; what the first did is undone if the second fails. */
static int create(const struct limits_host *host, const struct limits_request *req, const char *name, struct limits *l,
                  struct cordon_error *e)
{
	if (limits_begin(host, req, name, l, e) < 0)
		return -1;
	if (limits_complete(host, req, l, e) == 0)
		return 0;
	limits_destroy(host, l);
	return -1;
}

static bool enter(const struct limits *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->enter_fds); i++)
		if (l->enter_fds[i] >= 0 && write(l->enter_fds[i], "0", 1) < 0)
			return false;
	return true;
}

/* A child inside the limits: v2 from its first moment on, v1 by its first act. Its exit status is body's result. */
static pid_t start_inside(const struct limits *l, int (*body)(int), int arg)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	if (l->v2_fd >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)l->v2_fd;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(enter(l) ? body(arg) : 99);
	return pid;
}

static int wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static uint64_t read_number(int fd, const char *after)
{
	char text[1024] = "", *p = text;

	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	if (after) {
		p = strstr(text, after);
		assert_non_null(p);
		p += strlen(after);
	}
	return strtoull(p, NULL, 10);
}

static bool exists_below(int subtree, const char *name)
{
	struct stat st;

	return subtree >= 0 && fstatat(subtree, name, &st, 0) == 0;
}

static bool exists(const struct limits_host *h, const char *name)
{
	return exists_below(h->v2_fd, name) || exists_below(h->memory_fd, name) || exists_below(h->pids_fd, name) ||
	       exists_below(h->cpu_fd, name);
}

static int allocate(int megabytes)
{
	volatile char *p = mmap(NULL, (size_t)megabytes * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < (size_t)megabytes * MB; i += 4096)
		p[i] = 1;
	return 7;
}

/* Forks until it fails; how often it worked. */
static int count_forks(int unused)
{
	int hold[2], n = 0;
	char c;

	(void)unused;
	if (pipe(hold) < 0)
		return 98;
	for (pid_t pid; n < 50 && (pid = fork()) >= 0; n++)
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &c, 1) != 0); /* until the parent is gone */
		}
	close(hold[1]);
	while (wait(NULL) > 0)
		;
	return n;
}

static int wait_for_close(int fd)
{
	char c;

	return read(fd, &c, 1) == 0 ? 7 : 98;
}

static void test_unknown_mechanism_is_refused_by_name(void **state)
{
	struct limits_host host;

	(void)state;
	assert_int_equal(limits_probe("cgroup3", &host, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_non_null(strstr(err.message, "cgroup3"));
}

static void test_forced_mechanism_is_used_or_refused_with_a_reason(void **state)
{
	static const struct {
		const char *name;
		enum limit_method method;
	} forced[] = {{"cgroup2", LIMIT_CGROUP2}, {"cgroup1", LIMIT_CGROUP1}};
	struct limits_host host;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forced); i++) {
		if (limits_probe(forced[i].name, &host, &err) == 0) {
			assert_int_equal(host.memory, forced[i].method);
			assert_int_equal(host.pids, forced[i].method);
		} else {
			assert_int_equal(err.code, CORDON_ERR_WEAK_HOST);
			print_message("# %s\n", err.message);
		}
		limits_host_close(&host);
	}
}

static void test_rlimit_touches_no_cgroup(void **state)
{
	struct limits_host host;
	struct limits l;
	const struct limits_request req = {.memory = 64 * MB, .pids = 4, .cpus_milli = 500};

	(void)state;
	assert_int_equal(limits_probe("rlimit", &host, &err), 0);
	assert_int_equal(host.memory, LIMIT_RLIMIT);
	assert_int_equal(host.v2_fd, -1);
	assert_int_equal(create(&host, &req, test_name("none"), &l, &err), 0);
	assert_int_equal(l.memory, LIMIT_RLIMIT);
	assert_int_equal(l.v2_fd, -1);
	for (size_t i = 0; i < ARRAY_SIZE(l.enter_fds); i++)
		assert_int_equal(l.enter_fds[i], -1);
	assert_int_equal(limits_destroy(&host, &l), 0);
	assert_string_equal(limit_method_name(l.memory, "rlimit+watch"), "rlimit+watch");
}

static void test_names_that_leave_the_subtree_are_refused(void **state)
{
	static const char *const names[] = {"", "..", ".x", "a/b"};
	struct limits_host host;
	struct limits l;

	(void)state;
	assert_int_equal(limits_probe(NULL, &host, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(create(&host, &(struct limits_request){.pids = 1}, names[i], &l, &err), -1);
	limits_host_close(&host);
}

static void test_allocation_past_the_memory_limit_is_killed(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits l;
	int status;

	(void)state;
	assert_int_equal(create(&host, &(struct limits_request){.memory = 64 * MB, .pids = 10}, test_name("memory"), &l, &err), 0);
	status = wait_for(start_inside(&l, allocate, 32));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	status = wait_for(start_inside(&l, allocate, 128));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(read_number(l.usage_oom_fd, "oom_kill ") >= 1); /* killing the group counts as one more */
	if (l.usage_memory_fd >= 0) {
		assert_true(read_number(l.usage_memory_fd, NULL) > 32 * MB);
		assert_true(read_number(l.usage_memory_fd, NULL) <= 64 * MB);
	}
	assert_int_equal(limits_destroy(&host, &l), 0);
	assert_false(exists(&host, l.name));
	limits_host_close(&host);
}

static void test_fork_past_the_pids_limit_fails(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits l;

	(void)state;
	assert_int_equal(create(&host, &(struct limits_request){.memory = 64 * MB, .pids = 4}, test_name("pids"), &l, &err), 0);
	int status = wait_for(start_inside(&l, count_forks, 0));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 4); /* the child stands for pid 1 */
	if (l.usage_pids_fd >= 0)
		assert_int_equal(read_number(l.usage_pids_fd, NULL), 5);
	assert_int_equal(limits_destroy(&host, &l), 0);
	limits_host_close(&host);
}

static void test_cpu_quota_is_set(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits l;
	char path[LIMITS_NAME_MAX + 32];

	(void)state;
	if (host.cpu == LIMIT_RLIMIT) {
		limits_host_close(&host);
		SKIP("no cpu controller");
	}
	assert_int_equal(create(&host, &(struct limits_request){.cpus_milli = 500}, test_name("cpu"), &l, &err), 0);
	snprintf(path, sizeof(path), "%s/%s", l.name, host.cpu == LIMIT_CGROUP1 ? "cpu.cfs_quota_us" : "cpu.max");
	_cleanup_fd_ int fd = openat(host.cpu == LIMIT_CGROUP1 ? host.cpu_fd : host.v2_fd, path, O_RDONLY);
	assert_int_equal(read_number(fd, NULL), 50000);
	assert_int_equal(limits_destroy(&host, &l), 0);
	limits_host_close(&host);
}

static void test_destroy_of_a_busy_cgroup_can_be_repeated(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits l;
	int hold[2];

	(void)state;
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	assert_int_equal(
		create(&host, &(struct limits_request){.memory = 64 * MB, .pids = 4, .freezes = true}, test_name("busy"), &l, &err), 0);
	pid_t pid = start_inside(&l, wait_for_close, hold[0]);
	char path[LIMITS_NAME_MAX + 32];
	snprintf(path, sizeof(path), "%s/cgroup.procs", l.name);
	for (char text[64] = ""; !text[0];) { /* until it has joined */
		_cleanup_fd_ int fd = openat(host.pids == LIMIT_CGROUP1 ? host.pids_fd : host.v2_fd, path, O_RDONLY);
		assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	}
	assert_int_equal(limits_destroy(&host, &l), 1);
	assert_true(exists(&host, l.name));
	if (host.v2_fd >= 0)
		limits_kill(&host, &l);
	else
		kill(pid, SIGKILL);
	int status = wait_for(pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(hold[0]);
	close(hold[1]);
	assert_int_equal(limits_destroy(&host, &l), 0);
	assert_false(exists(&host, l.name));
	limits_host_close(&host);
}

static void test_create_does_not_take_over_a_name(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits a, b;

	(void)state;
	if (host.v2_fd < 0) {
		limits_host_close(&host);
		SKIP("no cgroup2 hierarchy, which reserves the name");
	}
	assert_int_equal(
		create(&host, &(struct limits_request){.memory = 64 * MB, .pids = 4, .freezes = true}, test_name("twice"), &a, &err), 0);
	assert_int_equal(create(&host, &(struct limits_request){.memory = 64 * MB, .pids = 4, .freezes = true}, a.name, &b, &err), -1);
	assert_int_equal(err.sys_errno, EEXIST);
	assert_true(exists(&host, a.name));
	assert_int_equal(limits_destroy(&host, &a), 0);
	assert_false(exists(&host, a.name));
	limits_host_close(&host);
}

static void test_a_v2_cgroup_is_made_only_for_what_it_holds_or_freezes(void **state)
{
	struct limits_host host = cgroup_host();
	struct limits l;

	(void)state;
	if (host.v2_fd < 0) {
		limits_host_close(&host);
		SKIP("no cgroup2 hierarchy");
	}
	const bool holds = host.memory == LIMIT_CGROUP2 || host.pids == LIMIT_CGROUP2;
	for (int freezes = 0; freezes <= 1; freezes++) {
		const struct limits_request req = {.memory = 64 * MB, .pids = 4, .freezes = freezes};
		assert_int_equal(create(&host, &req, test_name("v2"), &l, &err), 0);
		assert_int_equal(exists_below(host.v2_fd, l.name), holds || freezes);
		assert_int_equal(limits_destroy(&host, &l), 0);
		assert_false(exists(&host, l.name));
	}
	limits_host_close(&host);
}

/* "PIDNSINODE-PID-STARTTIME.ID" of a process that is alive */
static void owner_name(char name[LIMITS_NAME_MAX], pid_t pid, const char *id)
{
	char path[64], text[1024] = "";
	struct stat ns;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_fd_ int fd = open(path, O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	char *p = strrchr(text, ')') + 2;
	for (int field = 3; field < 22; field++)
		p = strchr(p, ' ') + 1;
	assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
	snprintf(name, LIMITS_NAME_MAX, "%llu-%d-%llu.%s", (unsigned long long)ns.st_ino, (int)pid, strtoull(p, NULL, 10), id);
}

static void test_sweep_removes_what_dead_owners_left_and_nothing_else(void **state)
{
	struct limits_host host = cgroup_host();
	const struct limits_request req = {.memory = 64 * MB, .pids = 4, .cpus_milli = 1000};
	char dead[LIMITS_NAME_MAX], live[LIMITS_NAME_MAX], foreign[LIMITS_NAME_MAX];
	struct limits l_dead, l_live, l_foreign;
	int hold[2];

	(void)state;
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(wait_for_close(hold[0])); /* never: it holds the other end itself */
	owner_name(dead, pid, "x1");
	owner_name(live, getpid(), "x2");
	snprintf(foreign, sizeof(foreign), "1-%s", strchr(dead, '-') + 1);
	assert_int_equal(create(&host, &req, dead, &l_dead, &err), 0);
	assert_int_equal(create(&host, &req, live, &l_live, &err), 0);
	assert_int_equal(create(&host, &req, foreign, &l_foreign, &err), 0);
	pid_t left = start_inside(&l_dead, wait_for_close, hold[0]);
	limits_sweep(&host);
	assert_true(exists(&host, dead)); /* its owner lives */

	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_for(pid);
	limits_sweep(&host);
	int status = wait_for(left);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	limits_sweep(&host);
	assert_false(exists(&host, dead));
	assert_true(exists(&host, live));
	assert_true(exists(&host, foreign));
	limits_destroy(&host, &l_dead); /* closes what is open */
	assert_int_equal(limits_destroy(&host, &l_live), 0);
	assert_int_equal(limits_destroy(&host, &l_foreign), 0);
	close(hold[0]);
	close(hold[1]);
	limits_host_close(&host);
}

static void test_ordinary_user_is_told_why_there_is_no_cgroup(void **state)
{
	(void)state;
	if (geteuid() != 0)
		SKIP("not root, cannot become another user");
	pid_t pid = fork();
	if (pid == 0) {
		struct limits_host host;
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 || limits_probe("", &host, NULL) < 0)
			_exit(1);
		_exit(host.memory == LIMIT_RLIMIT && strstr(host.why, "65534") ? 0 : 2);
	}
	assert_int_equal(wait_for(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_mechanism_is_refused_by_name),
		cmocka_unit_test(test_forced_mechanism_is_used_or_refused_with_a_reason),
		cmocka_unit_test(test_rlimit_touches_no_cgroup),
		cmocka_unit_test(test_names_that_leave_the_subtree_are_refused),
		cmocka_unit_test(test_allocation_past_the_memory_limit_is_killed),
		cmocka_unit_test(test_fork_past_the_pids_limit_fails),
		cmocka_unit_test(test_cpu_quota_is_set),
		cmocka_unit_test(test_destroy_of_a_busy_cgroup_can_be_repeated),
		cmocka_unit_test(test_create_does_not_take_over_a_name),
		cmocka_unit_test(test_a_v2_cgroup_is_made_only_for_what_it_holds_or_freezes),
		cmocka_unit_test(test_sweep_removes_what_dead_owners_left_and_nothing_else),
		cmocka_unit_test(test_ordinary_user_is_told_why_there_is_no_cgroup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
