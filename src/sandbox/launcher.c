/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher: a small, single-threaded, static program that makes sandboxes for one caller.
 *
 * Theory of operation. libcordon carries this program inside itself and starts it once per context, so that a large or threaded caller
 * never forks. It inherits one socket (descriptor 3). Each CREATE message on it makes a sandbox: cgroups, scratch directory, id range,
 * then one clone into all namespaces; the child builds the file system and becomes the sandbox's init, which talks to the library over the
 * sandbox's own socket. From then on the launcher only waits: when an init dies it removes what was outside the sandbox. When the library's end of the
 * socket closes (also by kill -9), it kills what is left, cleans up, removes leftovers of launchers that were killed themselves, and exits. It runs in
 * its own session, so that a Ctrl-C meant for the caller does not stop the cleaning.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/create.h"
#include "sandbox/launcher.h"
#include "sandbox/owner.h"
#include "sandbox/wire.h"

#define MAX_SANDBOXES 8192
#define RETRY_MS 2

struct launcher {
	int requests; /* -1 once the library has gone */
	int signals;
	bool stop;                  /* told to by a signal */
	struct cordon_error failed; /* what went wrong at the start; the answer to every request */
	struct host host;
	struct sandbox *list;
	size_t count, size;
};

static struct sandbox *new_slot(struct launcher *l)
{
	if (l->count == l->size) {
		size_t size = l->size ? l->size * 2 : 4;
		struct sandbox *list = size > MAX_SANDBOXES ? NULL : realloc(l->list, size * sizeof(*list));
		if (!list)
			return NULL;
		l->list = list;
		l->size = size;
	}
	return &l->list[l->count];
}

static void reply_error(int sock, const struct cordon_error *err)
{
	_cleanup_buf_ struct buf b = {0};
	error_encode(err, &b);
	wire_send(sock, WIRE_ERROR, &b, NULL, 0, NULL);
}

static struct sandbox *find(struct launcher *l, const char *id, struct cordon_error *err)
{
	for (size_t i = 0; i < l->count; i++)
		if (!l->list[i].dead && strcmp(l->list[i].id, id) == 0)
			return &l->list[i];
	err_set(err, CORDON_ERR_SYSTEM, "the sandbox is gone");
	return NULL;
}

static int relayer(struct launcher *l, struct wire_msg *msg, int sock, struct cordon_error *err)
{
	struct sandbox_spec spec;
	if (sandbox_spec_decode(msg->body, msg->len, &spec, err) < 0)
		return -1;
	struct sandbox *s = find(l, spec.id, err);
	if (s)
		sandbox_relayer(&l->host, s, &spec, sock);
	sandbox_spec_free(&spec);
	return s ? 0 : -1;
}

static int freeze(struct launcher *l, struct wire_msg *msg, int sock, struct cordon_error *err)
{
	struct freeze_msg m;
	if (fixed_decode(msg->body, msg->len, &m, sizeof(m), err) < 0)
		return -1;
	m.id[sizeof(m.id) - 1] = '\0';
	struct sandbox *s = find(l, m.id, err);
	if (!s || limits_freeze(&l->host.limits, &s->limits, m.frozen, err) < 0)
		return -1;
	return wire_send(sock, WIRE_READY, NULL, NULL, 0, err);
}

/* From now on somebody writes to it: its watcher, if it needs one, is due. */
static void unpark(struct launcher *l, const struct wire_msg *msg)
{
	struct freeze_msg m;
	if (fixed_decode(msg->body, msg->len, &m, sizeof(m), NULL) < 0)
		return;
	m.id[sizeof(m.id) - 1] = '\0';
	struct sandbox *s = find(l, m.id, NULL);
	if (s)
		sandbox_unpark(s);
}

static void handle_request(struct launcher *l, struct wire_msg *msg)
{
	struct cordon_error err = {0};
	struct sandbox_spec spec;
	_cleanup_fd_ int sock = wire_take_fd(msg, 0);
	if (msg->type == WIRE_UNPARK)
		unpark(l, msg);
	if (sock < 0)
		return;
	if (msg->type == WIRE_RELAYER || msg->type == WIRE_FREEZE) {
		if ((msg->type == WIRE_RELAYER ? relayer : freeze)(l, msg, sock, &err) < 0)
			reply_error(sock, &err);
		return;
	}
	if (msg->type != WIRE_CREATE)
		return;
	if (l->failed.code != CORDON_OK) {
		reply_error(sock, &l->failed);
		return;
	}
	struct sandbox *s = new_slot(l);
	if (!s) {
		err_set(&err, CORDON_ERR_SYSTEM, "too many sandboxes (at most %d per context)", MAX_SANDBOXES);
		reply_error(sock, &err);
		return;
	}
	if (sandbox_spec_decode(msg->body, msg->len, &spec, &err) < 0) {
		reply_error(sock, &err);
		return;
	}
	*s = (struct sandbox){0};
	l->host.births = 0;
	for (size_t i = 0; i < l->count; i++)
		l->host.births += l->list[i].handshake >= 0;
	if (sandbox_create(&l->host, &spec, sock, s, &err) < 0)
		reply_error(sock, &err);
	if (s->name[0]) /* it got far enough to leave something behind */
		l->count++;
	sandbox_spec_free(&spec);
}

static void reap(struct launcher *l)
{
	struct signalfd_siginfo si;
	pid_t pid;
	while (read(l->signals, &si, sizeof(si)) > 0)
		l->stop = l->stop || si.ssi_signo != SIGCHLD;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (size_t i = 0; i < l->count; i++) {
			struct sandbox *s = &l->list[i];
			if (s->pid == pid) {
				s->pid = 0;
				s->dead = true;
			} else if (s->watcher == pid) {
				s->watcher = 0;
			} else if (s->scratch.remover == pid) {
				s->scratch.remover = 0;
			}
		}
	}
}

/* Cleans up after the dead, starts due watchers; returns how long to wait for the next such thing, -1 for ever. */
static int tend(struct launcher *l)
{
	int timeout = -1;
	uint64_t now = clock_ms();
	for (size_t i = 0; i < l->count;) {
		struct sandbox *s = &l->list[i];
		if (s->dead && sandbox_clean_up(&l->host, s)) {
			*s = l->list[--l->count];
			continue;
		}
		if (s->dead && !s->watcher && !s->scratch.remover) {
			timeout = RETRY_MS; /* a cgroup that is still busy, or a tree that could not be removed at once */
		} else if (!s->dead && s->watch_at_ms != UINT64_MAX) {
			if (!s->watcher && s->watch_at_ms <= now)
				sandbox_start_watcher(s);
			const uint64_t left = s->watch_at_ms > now ? s->watch_at_ms - now : RETRY_MS; /* the old one is about to be gone */
			if (s->watch_at_ms != UINT64_MAX && (timeout < 0 || left < (uint64_t)timeout))
				timeout = (int)left;
		}
		i++;
	}
	return timeout;
}

static void library_gone(struct launcher *l)
{
	close(l->requests);
	l->requests = -1;
	for (size_t i = 0; i < l->count; i++)
		if (!l->list[i].dead)
			sandbox_kill(&l->list[i]);
}

/* One turn of the loop over the request socket, child signals, and handshakes of sandboxes that are being watched. */
static void turn(struct launcher *l, int timeout)
{
	static struct pollfd p[2 + MAX_SANDBOXES];
	nfds_t n = 2;
	p[0] = (struct pollfd){.fd = l->requests, .events = POLLIN};
	p[1] = (struct pollfd){.fd = l->signals, .events = POLLIN};
	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].handshake >= 0)
			p[n++] = (struct pollfd){.fd = l->list[i].handshake, .events = POLLIN};
	if (poll(p, n, timeout) < 0 && errno != EINTR)
		_exit(125);
	for (nfds_t k = 2; k < n; k++)
		for (size_t i = 0; p[k].revents && i < l->count; i++)
			if (l->list[i].handshake == p[k].fd) {
				sandbox_handshake(&l->list[i]);
				break;
			}
	if (p[1].revents)
		reap(l);
	if (l->requests >= 0 && p[0].revents) {
		_cleanup_msg_ struct wire_msg msg;
		int r = wire_recv(l->requests, &msg, NULL);
		if (r > 0)
			handle_request(l, &msg);
		else if (r == 0)
			library_gone(l);
		/* else it could not be taken in (out of descriptors or memory): the library sees its socket close */
	}
	if (l->stop && l->requests >= 0)
		library_gone(l);
}

/* What making sandboxes needs, and nothing else of what root can do. */
static void drop_privileges(void)
{
	__attribute__((unused)) const uint64_t keep =
		1ull << CAP_SYS_ADMIN | 1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE |
		1ull << CAP_FOWNER | 1ull << CAP_KILL |
		1ull << CAP_SETFCAP; /* to map id 0 of our own namespace, where we have no other (user_namespaces(7)) */
#ifndef CORDON_TEST_HOOKS            /* a sandbox without a user namespace of its own, which only those builds can make, lives on ours */
	if (geteuid() == 0)
		confine_capabilities(keep);
#endif
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* About a dozen descriptors per sandbox; and commands can be given a core limit of 1 (confine.c) only if ours is not lower. */
static void raise_limits(void)
{
	const struct rlimit one = {1, 1};
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	setrlimit(RLIMIT_CORE, &one);
}

static void start(struct launcher *l)
{
	int keep[] = {0, 1, 2, LAUNCHER_FD};
	confine_close_except(keep, ARRAY_SIZE(keep));
	fcntl(LAUNCHER_FD, F_SETFD, FD_CLOEXEC);
	setsid();
	prctl(PR_SET_NAME, "cordon-launcher", 0, 0, 0);
	/* a caller's SIG_IGN would be inherited by every command; by number, since C libraries keep some signals to themselves */
	const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} dfl = {0};
	for (int s = 1; s <= 64; s++)
		syscall(SYS_rt_sigaction, s, &dfl, NULL, sizeof(dfl.mask));
	sigset_t set;
	sigemptyset(&set);
	const int watched[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		sigaddset(&set, watched[i]);
	sigprocmask(SIG_SETMASK, &set, NULL);
	umask(0);
	raise_limits();
	drop_privileges();
	*l = (struct launcher){.requests = LAUNCHER_FD, .signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)};
	l->host.scratch = SCRATCH_HOST;
	l->host.cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

int main(void)
{
	static struct launcher l;
	start(&l);
	struct stat st;
	if (fstat(LAUNCHER_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
		return 125; /* started by somebody else */
	if (l.signals < 0)
		return 125; /* the library sees the closed socket */
	if (!owner_stamp(l.host.stamp, sizeof(l.host.stamp)))
		err_set(&l.failed, CORDON_ERR_SYSTEM, "/proc is not that of this pid namespace");
	else
		idmap_pool_open(&l.host.ids, &l.failed);
	for (;;) {
		int timeout = tend(&l);
		if (l.requests < 0 && l.count == 0)
			break;
		turn(&l, timeout);
	}
	if (l.host.limits_probed)
		limits_sweep(&l.host.limits); /* first: what still runs in a dead launcher's sandbox must not see its tree removed */
	scratch_sweep(&l.host.scratch);
	return 0;
}
