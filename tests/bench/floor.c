/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel itself takes for a sandbox: /bin/true per second, four at a time, first alone and then with one more kind of kernel object around it in each
 * step, made with the cheapest calls there are for it, and removed again. No filter, no Landlock, no record, no overlay, no message to anybody: no sandbox can be faster than the
 * last line for long, whatever it does. Needs root. Prints the median of a few rounds, whose steps alternate.
 *
 *	floor [SECONDS]	(default 1 for each step of each of the 5 rounds)
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

#define ROUNDS 5
#define AT_A_TIME 4
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

enum step { ALONE, WITH_NAMESPACES, WITH_CGROUPS, WITH_ROOT, WITH_INIT, STEPS };

static const char *const said[STEPS] = {
	"a program and nothing around it", "in 6 namespaces, with an id map", "and in cgroups for memory, cpu, pids and killing",
	"and with a root of 4 mounts",     "and with an init of its own",
};

static const char *const hierarchies[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"};
#define V1_COUNT (ARRAY_SIZE(hierarchies) - 1)

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		give_up(path);
}

static void make_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("floor", "/mnt", "tmpfs", 0, "size=1m") < 0)
		give_up("/mnt");
	for (const char *const *d = (const char *const[]){"/mnt/usr", "/mnt/proc", "/mnt/tmp", NULL}; *d; d++)
		if (mkdir(*d, 0755) < 0)
			give_up(*d);
	for (const char *const *l = (const char *const[]){"bin", "lib", "lib64", NULL}; *l; l++) {
		char to[64];
		snprintf(to, sizeof(to), "usr/%.40s", *l);
		if (chdir("/mnt") < 0 || symlink(to, *l) < 0)
			give_up(*l);
	}
	if (mount("/usr", "/mnt/usr", NULL, MS_BIND | MS_REC, NULL) < 0 || mount("proc", "/mnt/proc", "proc", 0, NULL) < 0 ||
	    mount("floor", "/mnt/tmp", "tmpfs", 0, NULL) < 0 || chdir("/mnt") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0)
		give_up("the root");
}

static _Noreturn void inside(enum step step, int go, const int tasks[V1_COUNT])
{
	char byte;
	if (read(go, &byte, 1) != 1)
		give_up("read");
	for (size_t i = 0; step >= WITH_CGROUPS && i < V1_COUNT;
	     i++) /* by itself: no lock over its threads is taken, as it is for another's pid */
		if (write(tasks[i], "0", 1) != 1)
			give_up("tasks");
	if (step >= WITH_NAMESPACES && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		give_up("the ids");
	if (step >= WITH_ROOT)
		make_root();
	pid_t child = step >= WITH_INIT ? fork() : 0;
	if (child == 0) {
		execl("/bin/true", "true", NULL);
		give_up("/bin/true");
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		give_up("fork");
	_exit(status != 0);
}

/* The v2 one is where the child is born; into the others it goes by itself. */
static int make_cgroups(char cgroups[][128], int tasks[V1_COUNT])
{
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		char path[256];
		snprintf(path, sizeof(path), "%.127s/tasks", cgroups[i]);
		if (mkdir(cgroups[i], 0755) < 0 || (i < V1_COUNT && (tasks[i] = open(path, O_WRONLY | O_CLOEXEC)) < 0))
			give_up(cgroups[i]);
	}
	int fd = open(cgroups[V1_COUNT], O_PATH | O_CLOEXEC | O_DIRECTORY);
	if (fd < 0)
		give_up(cgroups[V1_COUNT]);
	return fd;
}

static void one(enum step step, char cgroups[][128])
{
	struct clone_args how = {.flags = step >= WITH_NAMESPACES ? NAMESPACES : 0, .exit_signal = SIGCHLD};
	int go[2], tasks[V1_COUNT], status;
	char path[64];

	if (pipe2(go, O_CLOEXEC) < 0)
		give_up("pipe");
	if (step >= WITH_CGROUPS) {
		how.cgroup = (uint64_t)make_cgroups(cgroups, tasks);
		how.flags |= CLONE_INTO_CGROUP;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof(how));
	if (pid == 0)
		inside(step, go[0], tasks);
	if (pid < 0)
		give_up("clone3");
	for (const char *const *m = (const char *const[]){"uid", "gid", NULL}; step >= WITH_NAMESPACES && *m; m++) {
		snprintf(path, sizeof(path), "/proc/%d/%.3s_map", (int)pid, *m);
		put(path, "0 100000 65536");
	}
	if (write(go[1], "g", 1) != 1 || waitpid(pid, &status, 0) < 0 || status != 0)
		give_up("a run");
	close(go[0]);
	close(go[1]);
	for (size_t i = 0; step >= WITH_CGROUPS && i < ARRAY_SIZE(hierarchies); i++) {
		close(i < V1_COUNT ? tasks[i] : (int)how.cgroup);
		if (rmdir(cgroups[i]) < 0)
			give_up(cgroups[i]);
	}
}

static void name_cgroup(char out[128], size_t i, pid_t worker)
{
	snprintf(out, 128, "%s/cordon-floor-%d", hierarchies[i], (int)worker);
}

/* Of a worker that gave up. */
static void clear(pid_t worker)
{
	char path[128];
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		name_cgroup(path, i, worker);
		rmdir(path);
	}
}

static double rate(enum step step, double seconds)
{
	int ends[2], total = 0, part, status;
	bool failed = false;
	pid_t workers[AT_A_TIME];

	if (pipe2(ends, O_CLOEXEC) < 0)
		give_up("pipe");
	for (int w = 0; w < AT_A_TIME; w++) {
		if ((workers[w] = fork()) < 0)
			give_up("fork");
		if (workers[w] > 0)
			continue;
		char cgroups[ARRAY_SIZE(hierarchies)][128];
		for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++)
			name_cgroup(cgroups[i], i, getpid());
		int count = 0;
		for (double end = now() + seconds; now() < end; count++)
			one(step, cgroups);
		_exit(write(ends[1], &count, sizeof(count)) != sizeof(count));
	}
	close(ends[1]);
	while (read(ends[0], &part, sizeof(part)) == sizeof(part))
		total += part;
	close(ends[0]);
	for (int w = 0; w < AT_A_TIME; w++) {
		failed |= waitpid(workers[w], &status, 0) < 0 || status != 0;
		clear(workers[w]);
	}
	if (failed)
		exit(1);
	return total / seconds;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	double found[STEPS][ROUNDS];
	enum step last = STEPS;

	if (seconds <= 0 || geteuid() != 0) {
		fprintf(stderr, "usage: floor [SECONDS], as root\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++)
		if (access(hierarchies[i], W_OK) < 0) {
			fprintf(stderr, "floor: %s is missing: steps with cgroups are left out\n", hierarchies[i]);
			last = WITH_CGROUPS;
			break;
		}
	for (int r = 0; r < ROUNDS; r++)
		for (enum step i = 0; i < last; i++) {
			const enum step s = r % 2 ? last - 1 - i : i;
			found[s][r] = rate(s, seconds);
		}
	for (enum step s = 0; s < last; s++) {
		qsort(found[s], ROUNDS, sizeof(double), by_size);
		printf("%-52s %6.0f per s   (%.0f to %.0f)\n", said[s], found[s][ROUNDS / 2], found[s][0], found[s][ROUNDS - 1]);
	}
	return 0;
}
