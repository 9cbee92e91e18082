/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching the keeper. Whoever finds no keeper starts one, and the sandbox's lock decides among several: the losers find it taken, and
 * wait until the winner's socket appears or its lock goes. Both are changes in the sandbox's directory, which inotify tells; the short
 * timeout beside it is for the moment between a change and its effect (closing a file is told before its lock is released).
 */
#include "keeper/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/live.h"
#include "policy/maps.h"

#define KEEPER_MS 30000 /* for a keeper to start or to end */
#define RETRY_MS 50
#define HIGH_FD 10
#define BIRTH_FD 3

extern char **environ;

static int64_t clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- taking turns ------------------------------------------------------------------------------------------------------------ */

int turn_begin(struct turn *t, struct store *store, const char *id, struct cordon_error *err)
{
	char path[32];
	*t = (struct turn){.store = store, .id = id, .changes = -1, .deadline_ms = clock_ms() + KEEPER_MS};
	t->dir = box_open_dir(store, id, err);
	if (t->dir < 0)
		return -1;
	t->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->dir);
	if (t->changes >= 0 && inotify_add_watch(t->changes, path, IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE | IN_ONLYDIR) < 0) {
		close(t->changes); /* a user may have too many watches: without, it takes a little longer */
		t->changes = -1;
	}
	return 0;
}

void turn_end(struct turn *t)
{
	cleanup_fd(&t->dir);
	cleanup_fd(&t->changes);
	t->dir = t->changes = -1;
}

static void wait_for_change(const struct turn *t)
{
	char events[4096];
	struct pollfd p = {.fd = t->changes, .events = POLLIN};
	if (poll(&p, 1, RETRY_MS) > 0)
		while (read(t->changes, events, sizeof(events)) > 0)
			;
}

/* Behind whoever works on a stopped sandbox; a lock tells nobody but who waits for it. */
static int wait_for_lock(struct turn *t, struct cordon_error *err)
{
	const char *who = strstr(err->message, "busy: ");
	if (t->waiting)
		t->waiting(t->user, who ? who + strlen("busy: ") : err->message);
	int lock = box_lock(t->store, t->id, "a command that waits", true, err);
	cleanup_fd(&lock);
	t->deadline_ms = clock_ms() + KEEPER_MS;
	return lock < 0 ? -1 : 0;
}

bool link_try_again(const struct cordon_error *err)
{
	return err->code == CORDON_ERR_BUSY && err->sys_errno == ESHUTDOWN;
}

int turn_wait(struct turn *t, struct cordon_error *err)
{
	bool keeper = link_try_again(err) || strstr(err->message, "busy: keeper") || strstr(err->message, "busy: a command that waits");
	if (err->code != CORDON_ERR_DENIED && err->code != CORDON_ERR_BUSY)
		return -1;
	err->code = CORDON_ERR_BUSY;
	if (keeper && clock_ms() >= t->deadline_ms)
		return -1;
	if (!keeper)
		return t->wait ? wait_for_lock(t, err) : -1;
	wait_for_change(t);
	return 0;
}

/* ---- connecting -------------------------------------------------------------------------------------------------------------- */

/* 0, LINK_NONE if it went away first, or -1. */
static int wait_for_greeting(int fd, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct cordon_error why = {0};
	int r = wire_recv(fd, &msg, &why);
	if (r == 0)
		return LINK_NONE;
	if (r > 0 && msg.type == WIRE_READY)
		return 0;
	if (r > 0)
		err_set(&why, CORDON_ERR_SYSTEM, "unexpected message from the sandbox's keeper");
	if (err)
		*err = why;
	return -1;
}

int link_connect(const struct turn *t, struct cordon_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, "socket");
	const struct timeval patience = {.tv_sec = t->patience_ms / 1000, .tv_usec = t->patience_ms % 1000 * 1000};
	if (t->patience_ms && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return err_sys(err, "socket");
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" KEEPER_SOCKET, t->dir);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno == ENOENT || errno == ECONNREFUSED || errno == ECONNRESET)
			return LINK_NONE;
		return err_sys(err, "cannot reach the keeper of sandbox %s", t->id);
	}
	int r = wait_for_greeting(fd, err);
	return r < 0 ? r : steal_fd(&fd);
}

/* ---- starting one ------------------------------------------------------------------------------------------------------------ */

/* What the library asks the environment for. The variables of a command travel with each exec. */
static bool keeper_needs(const char *variable)
{
	static const char *const names[] = {"HOME=",         "PATH=",          "XDG_STATE_HOME=",     "CORDON_LIMITS=", "CORDON_LAYERS=",
	                                    "CORDON_TEST_",  "CORDON_HOSTS=",  "CORDON_RESOLV_CONF=", "SSL_CERT_FILE=", "HTTPS_PROXY=",
	                                    "https_proxy=",  "ALL_PROXY=",     "all_proxy=",          "NO_PROXY=",      "no_proxy=",
	                                    "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Secrets of its policy that come from variables are those of who starts it. One that is not there is the library's to complain about. */
static int add_secrets(const struct turn *t, struct strlist *out, struct cordon_error *err)
{
	static const char from[] = "env:";
	_cleanup_box_ struct box b = {0};
	if (box_load(t->store, t->id, &b, err) < 0)
		return -1;
	struct cordon_policy *p = live_policy(&b, err);
	int r = p ? 0 : -1;
	for (size_t i = 0; r == 0 && i < p->secrets.count; i++) {
		const struct policy_secret *s = maplist_item(&p->secrets, &map_secret, i);
		const char *name = strncmp(s->from, from, strlen(from)) == 0 ? s->from + strlen(from) : NULL;
		_cleanup_free_ char *entry = NULL;
		if (!name || !getenv(name))
			continue;
		if (asprintf(&entry, "%s=%s", name, getenv(name)) < 0)
			entry = NULL;
		r = entry ? strlist_assign(out, entry, err) : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	cordon_policy_free(p);
	return r;
}

static int keeper_environment(const struct turn *t, struct strlist *out, struct cordon_error *err)
{
	_cleanup_free_ char *state = NULL;
	if (asprintf(&state, "CORDON_HOME=%s", t->store->home) < 0) {
		state = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (add_secrets(t, out, err) < 0)
		return -1;
	for (char **e = environ; *e; e++)
		if (keeper_needs(*e) && strlist_add(out, *e, err) < 0)
			return -1;
	return strlist_add(out, state, err);
}

static int spawn_process(const char *id, int sock, char *const *env, pid_t *pid)
{
	char program[] = "cordon", verb[] = "keeper", copy[LAYER_ID_LEN + 1];
	char *const argv[] = {program, verb, copy, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	snprintf(copy, sizeof(copy), "%s", id);
	int r = posix_spawn_file_actions_init(&actions);
	if (r)
		return r;
	if ((r = posix_spawnattr_init(&attr))) {
		posix_spawn_file_actions_destroy(&actions);
		return r;
	}
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!(r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, 0, 1)) && !(r = posix_spawn_file_actions_adddup2(&actions, 0, 2)) &&
	    !(r = posix_spawn_file_actions_adddup2(&actions, sock, BIRTH_FD)))
		r = posix_spawn(pid, "/proc/self/exe", &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* The socket to a keeper that has the sandbox, or -1 and why not. */
static int start_keeper(const struct turn *t, struct cordon_error *err)
{
	struct strlist env = {0};
	int pair[2];
	pid_t pid;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	_cleanup_fd_ int ours = pair[0], low = pair[1];
	_cleanup_fd_ int theirs = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
	int r = theirs < 0 ? err_sys(err, "dup") : keeper_environment(t, &env, err);
	if (r == 0 && (errno = spawn_process(t->id, theirs, env.items, &pid)))
		r = err_sys(err, "cannot start the keeper of sandbox %s", t->id);
	strlist_free(&env);
	if (r < 0)
		return -1;
	cleanup_fd(&low);
	cleanup_fd(&theirs);
	low = theirs = -1;
	_cleanup_msg_ struct wire_msg msg = {0};
	r = wire_recv(ours, &msg, err);
	if (r > 0 && msg.type == WIRE_READY)
		return steal_fd(&ours);
	if (r > 0 && msg.type == WIRE_ERROR)
		error_decode(msg.body, msg.len, err);
	else
		err_set(err, CORDON_ERR_SYSTEM, "the keeper of sandbox %s died while it started", t->id);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -1;
}

int link_reach(struct turn *t, struct cordon_error *err)
{
	for (;;) {
		int fd = link_connect(t, err);
		if (fd == LINK_NONE)
			fd = start_keeper(t, err);
		if (fd >= 0)
			return fd;
		if (turn_wait(t, err) < 0)
			return -1;
	}
}

/* ---- talking ----------------------------------------------------------------------------------------------------------------- */

static int keeper_gone(struct cordon_error *err)
{
	err_set(err, CORDON_ERR_SYSTEM, "the sandbox's keeper is gone");
	if (err)
		err->sys_errno = ECONNRESET;
	return err_hint(err, "it was killed; the next command starts the sandbox anew");
}

int link_send(int fd, const struct keeper_request *request, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {.cap = WIRE_MAX};
	request_encode(request, &body);
	if (body.failed)
		return err_set(err, CORDON_ERR_INPUT, "the command and its environment are too long (at most %zuM)", WIRE_MAX >> 20);
	if (wire_send(fd, WIRE_REQUEST, &body, NULL, 0, err) == 0)
		return 0;
	if (!err || (err->sys_errno != EPIPE && err->sys_errno != ECONNRESET))
		return -1;
	err_set(err, CORDON_ERR_BUSY, "the sandbox's keeper has ended"); /* it heard nothing of this: the next one will */
	err->sys_errno = ESHUTDOWN;
	return -1;
}

int link_receive(int fd, struct wire_msg *msg, struct keeper_reply *reply, struct cordon_error *err)
{
	int r = wire_recv(fd, msg, err);
	*reply = (struct keeper_reply){0};
	if (r == 0)
		return keeper_gone(err);
	if (r < 0)
		return -1;
	if (msg->type == WIRE_ERROR) {
		error_decode(msg->body, msg->len, err);
		return -1;
	}
	if (msg->type != WIRE_REPLY)
		return err_set(err, CORDON_ERR_SYSTEM, "unexpected message from the sandbox's keeper");
	return reply_decode(msg->body, msg->len, reply, err);
}
