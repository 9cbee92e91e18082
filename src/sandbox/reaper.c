/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/reaper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/confine.h"

#define MAX_PROCESSES 65536
#define MAX_PASSES 1000

static bool is_alone(void)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
		;
	return pid < 0 && errno == ECHILD;
}

_Noreturn static void collect(int pipe, pid_t main_pid)
{
	const struct reaper_word begun = {.pid = main_pid};
	int status;
	if (write(pipe, &begun, sizeof(begun)) < 0)
		_exit(1);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno != EINTR)
			_exit(0); /* nobody left */
		if (pid != main_pid || (!WIFEXITED(status) && !WIFSIGNALED(status)))
			continue;
		const struct reaper_word ended = {.pid = main_pid, .ended = 1, .status = status, .alone = is_alone()};
		if (write(pipe, &ended, sizeof(ended)) < 0)
			_exit(1);
	}
}

void reaper_become(int pipe)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "cordon-reaper", 0, 0, 0);
	pid_t pid = fork();
	if (pid == 0)
		return;
	int keep[] = {pipe};
	confine_close_except(keep, ARRAY_SIZE(keep));
	confine_capabilities(0);
	if (pid < 0)
		_exit(1);
	collect(pipe, pid);
}

/* ---- finding and ending them ------------------------------------------------------------------------------------------------- */

struct process {
	pid_t pid, parent;
	bool zombie, doomed;
};

/* "PID (COMM) STATE PPID …": the name may hold anything, so the last parenthesis counts. */
static bool read_process(int proc, const char *name, struct process *out)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "%.20s/stat", name);
	if (fs_read_small(proc, path, text, sizeof(text)) <= 0)
		return false;
	const char *p = strrchr(text, ')');
	char state;
	int parent;
	if (!p || sscanf(p + 1, " %c %d", &state, &parent) != 2)
		return false;
	*out = (struct process){.pid = (pid_t)strtol(name, NULL, 10), .parent = parent, .zombie = state == 'Z' || state == 'X'};
	return true;
}

static size_t list_processes(struct process *list, size_t max)
{
	size_t n = 0;
	struct dirent *e;
	_cleanup_dir_ DIR *proc = opendir("/proc");
	while (proc && n < max && (e = readdir(proc)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && read_process(dirfd(proc), e->d_name, &list[n]))
			n++;
	return n;
}

/* Marks everything below what is marked. */
static void mark_below(struct process *list, size_t n)
{
	for (bool again = true; again;) {
		again = false;
		for (size_t i = 0; i < n; i++) {
			for (size_t k = 0; !list[i].doomed && k < n; k++) {
				if (list[k].doomed && list[i].parent == list[k].pid)
					list[i].doomed = again = true;
			}
		}
	}
}

static unsigned kill_marked(const struct process *list, size_t n, pid_t except)
{
	unsigned killed = 0;
	for (size_t i = 0; i < n; i++)
		if (list[i].doomed && !list[i].zombie && list[i].pid != except && list[i].pid != 1 && kill(list[i].pid, SIGKILL) == 0)
			killed++;
	return killed;
}

/* Again for those that were being forked; who has a SIGKILL pending cannot fork any more. */
static bool kill_below(void (*mark)(struct process *list, size_t n, const void *arg), const void *arg, pid_t except)
{
	static struct process list[MAX_PROCESSES];
	for (int pass = 0; pass < MAX_PASSES; pass++) {
		size_t n = list_processes(list, MAX_PROCESSES);
		mark(list, n, arg);
		mark_below(list, n);
		if (kill_marked(list, n, except) == 0)
			return true;
		/* those that were killed need the CPU to die, and on a busy machine we may have the only one */
		nanosleep(&(const struct timespec){.tv_nsec = pass < 8 ? 100000 : 5000000}, NULL);
	}
	return false;
}

static void mark_reaper(struct process *list, size_t n, const void *arg)
{
	for (size_t i = 0; i < n; i++)
		list[i].doomed = list[i].pid == *(const pid_t *)arg;
}

bool reaper_kill_below(pid_t reaper)
{
	return kill_below(mark_reaper, &reaper, reaper);
}

struct known {
	const pid_t *pids;
	size_t count;
};

static void mark_strays(struct process *list, size_t n, const void *arg)
{
	const struct known *known = arg;
	for (size_t i = 0; i < n; i++) {
		list[i].doomed = list[i].parent == 1;
		for (size_t k = 0; k < known->count; k++)
			if (list[i].pid == known->pids[k])
				list[i].doomed = false;
	}
}

bool reaper_kill_strays(const pid_t *known, size_t count)
{
	const struct known k = {known, count};
	return kill_below(mark_strays, &k, 0);
}
