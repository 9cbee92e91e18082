/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a command that was an interpreter in waiting. To free its memory takes the kernel as long as a small program runs, and its parent hears of the end only then. But
 * from exit_group(2) there is no way back: the call waits at the listener, where only SIGKILL interrupts it, so the status that it asks for is what it will be, and if nobody
 * else runs inside, that is the end of the command. It is reported, and the process gets a SIGKILL where it waits; whatever comes next into the sandbox waits until it is gone.
 *
 * Nobody else: no other exec, now or before, and no process or thread was made after this one, by the last number that was given away in this pid namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/init_parts.h"
#include "sandbox/notify.h"

/* Of the CPU. A clock for each process: see clock_getcpuclockid(3). */
static uint64_t used_us(pid_t pid)
{
	struct timespec t;
	clockid_t clock;
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* What getrusage(2) would tell, where no cgroup does. */
static uint64_t peak_kb(pid_t pid)
{
	char path[32], text[4096];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	const char *p = fs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 ? strstr(text, "\nVmHWM:") : NULL;
	return p ? strtoull(p + 7, NULL, 10) : 0;
}

/* The last field of /proc/loadavg. 0: not known. */
static uint64_t newest(struct init *in)
{
	char text[128];
	if (in->loadavg < 0)
		in->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	const ssize_t n = in->loadavg < 0 ? -1 : pread(in->loadavg, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *last = strrchr(text, ' ');
	return last ? strtoull(last, NULL, 10) : 0;
}

bool init_leave(struct init *in, struct running *e, const struct seccomp_notif *n)
{
	if (!seccomp_is_ours(&n->data, SYS_exit_group))
		return false;
	const bool last = (pid_t)n->pid == e->pid && in->starts == 1 && !e->parked && !e->exited && !e->supervisors && getpid() == 1;
	if (!last || newest(in) != (uint64_t)e->pid) {
		notify_go_on(e->listener, n->id);
		return true;
	}
	_cleanup_fd_ int listener = steal_fd(&e->listener); /* while it is open, the call waits */
	(void)listener;                                     /* for clang, which does not count the closing */
	in->leaving = e->pid;
	in->cpu_us += used_us(e->pid);
	in->maxrss_kb = MAX(in->maxrss_kb, in->config->data_limit ? peak_kb(e->pid) : 0);
	e->exited = e->alone = true;
	e->status = (int)(n->data.args[0] & 0xff) << 8;
	init_finish(in, e);
	kill(in->leaving, SIGKILL);
	return true;
}

void init_leave_wait(struct init *in)
{
	while (in->leaving && waitpid(in->leaving, NULL, __WALL) < 0 && errno == EINTR)
		;
	in->leaving = 0;
}
