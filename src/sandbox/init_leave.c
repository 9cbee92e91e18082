/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a command that was an interpreter in waiting. To free its memory takes the kernel as long as a small program runs, and its parent hears of the end only then. But
 * from exit_group(2) there is no way back: the call waits at the listener, where only SIGKILL interrupts it, so the status that it asks for is what it will be, and if nobody
 * else runs inside, that is the end of the command. It is reported before the call goes on; whatever comes next into the sandbox waits until the process is gone.
 *
 * Nobody else: no other exec, and no process or thread was made since this one was told what to run, by the last number that was given away in this pid namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/init_parts.h"
#include "sandbox/notify.h"

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

void init_leave_begin(struct init *in, struct running *e)
{
	e->newest = e->tells_end ? newest(in) : 0;
}

bool init_leave(struct init *in, struct running *e, const struct seccomp_notif *n)
{
	if (n->data.nr != SYS_exit_group)
		return false;
	const bool last = (pid_t)n->pid == e->pid && in->active == 1 && !e->exited && !e->supervisors && getpid() == 1;
	if (!last || !e->newest || newest(in) != e->newest) {
		notify_go_on(e->listener, n->id);
		return true;
	}
	_cleanup_fd_ int listener = steal_fd(&e->listener);
	in->leaving = e->pid;
	e->exited = e->alone = true;
	e->status = (int)(n->data.args[0] & 0xff) << 8;
	init_finish(in, e);
	notify_go_on(listener, n->id);
	return true;
}

void init_leave_wait(struct init *in)
{
	while (in->leaving && waitpid(in->leaving, NULL, __WALL) < 0 && errno == EINTR)
		;
	in->leaving = 0;
}
