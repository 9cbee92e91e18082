/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/descriptor.h"
#include "sandbox/execs.h"
#include "sandbox/notify.h"
#include "sandbox/renames.h"

#define SEND_MS 50 /* how long a few events wait for others */

/* ---- the command's child, and init ---------------------------------------------------------------------------------------------- */

static int load_plain(const struct seccomp_program *prog)
{
	static struct seccomp_program plain;
	plain = *prog;
	seccomp_allow_notified(&plain);
	return seccomp_load(&plain);
}

static int load_listener(const struct supervisor_filter *f)
{
	static struct seccomp_program own, telling;
	own = *f->program;
	if (f->password)
		seccomp_add_password(&own, f->password); /* without it, it is asked about */
	telling = own;
	int listener = -EINVAL;
	if (f->exits && !f->freezable && seccomp_add_handover(&telling, SYS_exit_group))
		listener = seccomp_load_listener(&telling, true);
	if (listener == -EINVAL && !f->freezable)
		listener = seccomp_load_listener(&own, true);
	return listener == -EINVAL ? seccomp_load_listener(&own, false) : listener;
}

int supervisor_load(const struct supervisor_filter *f, int sock)
{
	int listener = load_listener(f);
	/* before Linux 5.0; or we run under somebody else's listener */
	if ((listener == -EINVAL || listener == -EBUSY) && !f->needed)
		return load_plain(f->program);
	if (listener < 0)
		return listener;
	int r = descriptor_send(sock, listener);
	close(listener); /* the command must never have it: it could answer its own calls */
	return r;
}

ssize_t supervisor_receive(int sock, void *data, size_t len, int *listener)
{
	ssize_t n;
	int fd = -1;
	while ((n = descriptor_receive(sock, data, len, &fd)) >= 0 && fd >= 0) {
		cleanup_fd(listener);
		*listener = fd;
		fd = -1;
		notify_wake_nearby(*listener);
	}
	return n;
}

void supervisor_first(int listener)
{
	union notification n;
	if (notify_receive(listener, &n))
		notify_go_on(listener, n.n.id);
}

bool supervisor_decline(int listener, const struct seccomp_notif *n, bool alone)
{
	union notification received;
	if (!n && !notify_receive(listener, &received))
		return false;
	n = n ? n : &received.n;
	const bool ours = execs_is_call(n->data.nr);
	if (ours && alone)
		notify_answer(listener, n->id, EPERM);
	else
		notify_go_on(listener, n->id);
	return ours;
}

/* ---- the supervisor ------------------------------------------------------------------------------------------------------------- */

struct supervisor {
	struct supervisor_config config;
	struct renames *renames; /* NULL: they are not handed over */
	struct execs *execs;
	bool hung_up; /* nobody is left who could call */
};

static void handle(struct supervisor *s, const struct seccomp_notif *n)
{
	if (execs_is_call(n->data.nr))
		execs_handle(s->execs, n);
	else if (s->renames && !seccomp_is_ours(&n->data, SYS_exit_group))
		renames_handle(s->renames, n);
	else
		notify_go_on(s->config.listener, n->id);
}

static void handle_next(struct supervisor *s)
{
	union notification n;
	if (notify_receive(s->config.listener, &n)) /* or its caller was killed */
		handle(s, &n.n);
}

/* The exec is over, or its last process is. What still runs is in the table, for init to send. */
static void end(struct supervisor *s)
{
	struct pollfd p = {.fd = s->config.sock, .events = POLLOUT};
	execs_look(s->execs, true);
	while (!execs_send(s->execs))
		poll(&p, 1, -1);
	_exit(0);
}

enum { LISTENER, LEASH, SOCK, ENDED, WORKERS };

static void turn(struct supervisor *s)
{
	struct pollfd p[WORKERS + RENAMES_MAX];
	const size_t waiting = execs_waiting(s->execs);
	const bool room = waiting < EXECS_MANY && (!s->renames || renames_has_room(s->renames));
	const size_t workers = s->renames ? renames_wait(s->renames, p + WORKERS) : 0;
	if (s->hung_up && workers == 0 && execs_open(s->execs) == 0)
		end(s);
	p[LISTENER] = (struct pollfd){.fd = room && !s->hung_up ? s->config.listener : -1, .events = POLLIN};
	p[LEASH] = (struct pollfd){.fd = s->config.leash};
	p[SOCK] = (struct pollfd){.fd = waiting >= EXECS_FEW ? s->config.sock : -1, .events = POLLOUT};
	p[ENDED] = (struct pollfd){.fd = execs_fd(s->execs), .events = POLLIN};
	const bool later = (waiting && waiting < EXECS_FEW) || execs_dying(s->execs);
	const int n = poll(p, WORKERS + workers, later ? SEND_MS : -1);
	if (n < 0)
		return;
	if (p[LEASH].revents)
		end(s);
	if (p[ENDED].revents)
		execs_look(s->execs, false);
	if (n == 0)
		execs_look(s->execs, true);
	if (n == 0 || p[SOCK].revents)
		execs_send(s->execs);
	renames_turn(s->renames, p + WORKERS, workers);
	if (p[LISTENER].revents & POLLIN)
		handle_next(s);
	else if (p[LISTENER].revents)
		s->hung_up = true;
}

static int load_own(unsigned flags)
{
	static struct seccomp_program own;
	return seccomp_compile(flags, &own, NULL) < 0 ? -1 : seccomp_load(&own);
}

_Noreturn void supervisor_run(const struct supervisor_config *config)
{
	static struct supervisor s;
	const struct execs_config execs = {.listener = config->listener,
	                                   .landlock_fd = config->landlock_fd,
	                                   .sock = config->sock,
	                                   .table = config->traces,
	                                   .listed = config->listed,
	                                   .alone = config->alone};
	int keep[] = {0, 1, 2, config->listener, config->landlock_fd, config->lock, config->sock, config->leash};
	s.config = *config;
	prctl(PR_SET_NAME, "cordon-renames", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (confine_close_except(keep, ARRAY_SIZE(keep)) < 0 || !notify_fits() || load_own(config->filter) < 0)
		_exit(1);
	if (config->renames)
		s.renames = renames_begin(config->listener, config->landlock_fd, config->lock, config->distrust);
	if (config->first)
		config->traces->answering = 0; /* by us, not by one before us */
	s.execs = execs_begin(&execs);
	if (!s.execs)
		_exit(1);
	if (config->first)
		handle(&s, config->first);
	for (;;)
		turn(&s);
}
