/* SPDX-License-Identifier: Apache-2.0 */
/* Init's side of supervisor.h: it answers the first call itself, and forks a supervisor for the rest. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/command.h"
#include "sandbox/confine.h"
#include "sandbox/execs.h"
#include "sandbox/init_parts.h"
#include "sandbox/notify.h"
#include "sandbox/supervisor.h"

#define MAX_SUPERVISORS 3 /* of one exec, if the command kills them */

/* The command's user and limits, and the right to read its memory. */
_Noreturn static void supervisor_main(const struct init *in, const struct running *e, const struct seccomp_notif *first, int leash)
{
	const struct init_config *c = in->config;
	/* no limit of its own on memory: it is our code, which needs little; the watcher counts it with the rest */
	const struct confine_limits limits = {.files = 1024, .disk = c->disk, .procs = c->proc_limit};
	const struct supervisor_config config = {
		.listener = e->listener,
		.landlock_fd = e->rules,
		.lock = in->rename_lock,
		.sock = e->sock,
		.leash = leash,
		.filter = c->supervisor_filter,
		.traces = e->traces,
		.renames = c->renames,
		.distrust = e->supervisors > 0,
		.listed = c->flags & SPEC_LISTED,
		.alone = c->flags & SPEC_NO_SUBPROCESS,
		.first = first,
	};
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || command_user(c) < 0 || confine_capabilities(1ull << CAP_SYS_PTRACE) < 0 ||
	    confine_rlimits(&limits) < 0)
		_exit(1);
	supervisor_run(&config);
}

/* The pid, or -1: there can be none. */
static pid_t fork_supervisor(struct init *in, struct running *e, const struct seccomp_notif *first)
{
	const bool confinable = e->rules >= 0 || in->config->landlock_fd < 0;
	int leash[2];
	if (in->config->renames && in->rename_lock < 0)
		in->rename_lock = (int)syscall(SYS_memfd_create, "renames", 1u /* MFD_CLOEXEC */);
	if (!e->traces) {
		void *p = mmap(NULL, sizeof(*e->traces), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		e->traces = p == MAP_FAILED ? NULL : p;
	}
	if (!confinable || !e->traces || e->supervisors == MAX_SUPERVISORS || pipe2(leash, O_CLOEXEC) < 0)
		return -1;
	if (first && execs_is_call(first->data.nr))
		e->traces->answering = first->id; /* should the supervisor not get to it, the next one does */
	madvise(e->traces, sizeof(*e->traces), MADV_DOFORK);
	pid_t pid = fork();
	if (pid == 0)
		supervisor_main(in, e, first, leash[0]);
	madvise(e->traces, sizeof(*e->traces), MADV_DONTFORK); /* nobody else has to have it */
	close(leash[0]);
	cleanup_fd(&e->leash);
	e->leash = leash[1];
	return pid;
}

/* While its pipe is open the command's child is on its way, and nobody but it can call. */
static bool is_starting(const struct running *e)
{
	char byte;
	return e->starting >= 0 && recv(e->starting, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void init_supervise(struct init *in, struct running *e, short revents)
{
	if (!(revents & POLLIN)) {
		cleanup_fd(&e->listener);
		e->listener = -1;
		return;
	}
	if (is_starting(e)) {
		supervisor_first(e->listener);
		return;
	}
	if (e->starting >= 0 && !init_started(in, e))
		return;
	union notification n;
	const struct seccomp_notif *first = NULL;
	if (e->tells_end) {
		if (!notify_receive(e->listener, &n) || init_leave(in, e, &n.n))
			return;
		first = &n.n;
	}
	pid_t pid = fork_supervisor(in, e, first);
	if (pid < 0) {
		e->lost += supervisor_decline(e->listener, first, in->config->flags & SPEC_NO_SUBPROCESS);
		return;
	}
	e->supervisor = pid;
	e->supervisors++;
}
