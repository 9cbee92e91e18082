/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of one live sandbox: `cordon keeper ID`, started by the first command that needs the sandbox to live.
 *
 * Theory of operation. It holds the sandbox's lock, the launcher that made it, and the socket over which commands reach it. One thread,
 * one poll(2) over the socket, its clients and the execs. It ends when nobody has needed it for a while, when the sandbox's time is over,
 * when it is told to, or when pid 1 of the sandbox dies; the open layer is sealed then, and nothing of the sandbox is left but what is on
 * disk. Killed without warning, it takes the launcher and so the whole sandbox with it; the socket that nobody listens on and the open
 * layer are found by whoever opens the sandbox next.
 *
 * The socket gets its name when it listens and loses it before the keeper stops listening, and a client counts as heard only when it was
 * greeted; so a command either reaches a keeper that will serve it or sees that it has to start one. Who started the keeper is its first
 * client, over the socket that it was born with.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/cmd.h"
#include "lib/context.h"

#define BIRTH_FD 3    /* the socket to whoever started us */
#define IDLE_MS 60000 /* where the record does not say */
#define GRACE_MS 5000 /* for services to end by themselves, and then for the rest to be killed */
#define SAVE_MS 60000 /* how old the time of the last use on disk may be */
#define LONGEST_MS 3600000
#define SOCKET_NEW ".keeper-new"

/* ---- time -------------------------------------------------------------------------------------------------------------------- */

static int64_t clock_of(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t keeper_clock_ms(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

int64_t keeper_time_ms(void)
{
	return clock_of(CLOCK_REALTIME);
}

static void save_use(struct keeper *k)
{
	struct live *l = k->sandbox->live;
	struct cordon_error err = {0};
	k->saved_ms = keeper_clock_ms();
	if (box_save(&l->store, &l->box, &err) < 0)
		log_note(k->logs, "cannot note the time of use", &err);
}

/* Written with every layer that is sealed, at the end, and now and then: an exec that changes nothing costs no fsync. */
void keeper_used(struct keeper *k)
{
	k->sandbox->live->box.used_ms = keeper_time_ms();
	if (keeper_clock_ms() - k->saved_ms > SAVE_MS)
		save_use(k);
}

/* ---- the socket -------------------------------------------------------------------------------------------------------------- */

/* Through /proc, since a socket's path has 107 bytes at most. */
static int listen_here(struct keeper *k, struct cordon_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NEW, k->dir);
	unlinkat(k->dir, SOCKET_NEW, 0);
	k->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->listener < 0 || bind(k->listener, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(k->listener, 128) < 0 ||
	    fchmodat(k->dir, SOCKET_NEW, 0600, 0) < 0 || renameat(k->dir, SOCKET_NEW, k->dir, KEEPER_SOCKET) < 0)
		return err_sys(err, "cannot make the socket of sandbox %s", k->id);
	return 0;
}

/* Whoever knocked and was not greeted sees the connection reset and asks for a new keeper. */
static void stop_listening(struct keeper *k)
{
	if (k->listener < 0)
		return;
	unlinkat(k->dir, KEEPER_SOCKET, 0);
	close(k->listener);
	k->listener = -1;
}

void keeper_try_again(const struct keeper *k, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_BUSY, "sandbox %s is being stopped", k->id);
	err->sys_errno = ESHUTDOWN; /* link_try_again() */
}

/* ---- ending ------------------------------------------------------------------------------------------------------------------ */

static void refuse_waiting(struct keeper *k)
{
	struct cordon_error err = {0};
	err_set(&err, CORDON_ERR_BUSY, "sandbox %s was stopped", k->id);
	for (struct job *j = k->jobs; j; j = j->next)
		if (j->state == JOB_QUEUED && !j->gone)
			job_refuse(k, j, &err);
}

void keeper_end(struct keeper *k)
{
	struct cordon_error err = {0};
	if (k->stage != STAGE_LIVE)
		return;
	stop_listening(k);
	k->stage = STAGE_ENDING;
	k->deadline_ms = keeper_clock_ms() + GRACE_MS;
	if (k->sandbox->frozen && cordon_sandbox_freeze(k->sandbox, 0, &err) < 0)
		log_note(k->logs, "stop", &err);
	refuse_waiting(k);
	for (struct job *j = k->jobs; j; j = j->next) {
		if (j->state != JOB_RUNNING || j->gone)
			continue;
		if (!j->service || cordon_exec_signal(j->exec, SIGTERM, NULL) < 0)
			job_abandon(k, j);
	}
}

/* The next step, if it is time for it. */
static void go_on_ending(struct keeper *k)
{
	if (k->stage == STAGE_LIVE)
		return;
	if (job_count(k, JOB_RUNNING) == 0) {
		k->stage = STAGE_OVER;
	} else if (keeper_clock_ms() >= k->deadline_ms) {
		for (struct job *j = k->jobs; j; j = j->next)
			if (j->state == JOB_RUNNING && !j->gone)
				job_abandon(k, j);
		k->stage = k->stage == STAGE_ENDING ? STAGE_KILLING : STAGE_OVER;
		k->deadline_ms = keeper_clock_ms() + GRACE_MS;
	}
}

static bool is_idle(const struct keeper *k)
{
	return !k->conns && !k->sandbox->frozen && job_count(k, JOB_RUNNING) == 0 && job_count(k, JOB_QUEUED) == 0;
}

static void check_clocks(struct keeper *k)
{
	const int64_t now = keeper_clock_ms();
	if (k->stage != STAGE_LIVE)
		return;
	if (keeper_time_ms() >= k->expires_ms) {
		k->expired = true;
		keeper_end(k);
	} else if (!is_idle(k)) {
		k->idle_since_ms = INT64_MAX;
	} else if (k->idle_since_ms == INT64_MAX) {
		k->idle_since_ms = now;
	}
	/* one that could not be started is not worth waiting for */
	if (k->idle_since_ms != INT64_MAX && (now - k->idle_since_ms >= k->idle_ms || !k->sandbox->started))
		keeper_end(k);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------------- */

static int next_timeout(const struct keeper *k)
{
	int64_t left = LONGEST_MS;
	if (k->stage != STAGE_LIVE)
		left = MIN(left, k->deadline_ms - keeper_clock_ms());
	else if (k->idle_since_ms != INT64_MAX)
		left = MIN(left, k->idle_since_ms + k->idle_ms - keeper_clock_ms());
	if (k->stage == STAGE_LIVE && k->expires_ms != INT64_MAX)
		left = MIN(left, k->expires_ms - keeper_time_ms());
	return (int)MAX(left, (int64_t)0);
}

static void take_signals(struct keeper *k)
{
	struct signalfd_siginfo info;
	while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		keeper_end(k);
}

/* Its execs will see their sockets closed; what is open now cannot be told from what the last one left half done. */
static void init_died(struct keeper *k)
{
	k->crashed = k->crashed || (k->alone && k->stage == STAGE_LIVE);
	if (k->stage == STAGE_LIVE)
		log_note(k->logs, "pid 1 of the sandbox died", NULL);
	keeper_end(k);
}

enum { FIXED_LISTENER, FIXED_SIGNALS, FIXED_INIT, FIXED_COUNT };

static nfds_t fill_set(struct keeper *k, struct pollfd *set)
{
	nfds_t n = FIXED_COUNT;
	set[FIXED_LISTENER] = (struct pollfd){.fd = k->listener, .events = POLLIN};
	set[FIXED_SIGNALS] = (struct pollfd){.fd = k->signals, .events = POLLIN};
	set[FIXED_INIT] = (struct pollfd){.fd = k->stage == STAGE_LIVE ? k->sandbox->state.fds[CREATED_PIDFD] : -1, .events = POLLIN};
	for (struct conn *c = k->conns; c; c = c->next) {
		c->slot = (int)n;
		set[n++] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (c->first ? POLLOUT : 0))};
	}
	for (struct job *j = k->jobs; j; j = j->next)
		job_poll(j, set, &n);
	return n;
}

/* Nothing is freed before the end of the round. What is added in it has no slot yet. */
static void handle(struct keeper *k, const struct pollfd *set)
{
	if (set[FIXED_SIGNALS].revents)
		take_signals(k);
	if (set[FIXED_INIT].revents)
		init_died(k);
	for (struct job *j = k->jobs; j; j = j->next)
		job_step(k, j, set);
	for (struct conn *c = k->conns; c; c = c->next)
		if (c->slot >= 0 && set[c->slot].revents)
			conn_step(k, c, set[c->slot].revents);
	if (set[FIXED_LISTENER].revents && k->listener >= 0)
		conn_accept(k);
}

static int round_once(struct keeper *k, struct cordon_error *err)
{
	size_t jobs = 0;
	for (const struct job *j = k->jobs; j; j = j->next)
		jobs++;
	_cleanup_free_ struct pollfd *set = calloc(FIXED_COUNT + k->conn_count + 2 * jobs, sizeof(*set));
	if (!set)
		return err_sys(err, "poll");
	nfds_t n = fill_set(k, set);
	if (poll(set, n, next_timeout(k)) < 0)
		return errno == EINTR ? 0 : err_sys(err, "poll");
	handle(k, set);
	conn_sweep(k);
	job_run_next(k);
	conn_sweep(k);
	job_sweep(k);
	check_clocks(k);
	go_on_ending(k);
	return 0;
}

/* ---- start and end ----------------------------------------------------------------------------------------------------------- */

static int check_expiry(struct keeper *k, struct cordon_error *err)
{
	const struct box *b = &k->sandbox->live->box;
	k->expires_ms = b->ttl_ms > 0 && b->created_ms < INT64_MAX - b->ttl_ms ? b->created_ms + b->ttl_ms : INT64_MAX;
	k->expired = keeper_time_ms() >= k->expires_ms;
	return k->expired ? err_set(err, CORDON_ERR_NOT_FOUND, "the time of sandbox %s is over (--ttl)", k->id) : 0;
}

static int open_all(struct keeper *k, const char *id, struct cordon_error *err)
{
	char who[64];
	snprintf(who, sizeof(who), "keeper %d", (int)getpid());
	if (context_open_once(&k->ctx, err) < 0 || sandbox_open(k->ctx, id, who, &k->sandbox, err) < 0)
		return -1;
	struct live *l = k->sandbox->live;
	memcpy(k->id, l->box.id, sizeof(k->id));
	k->dir = box_open_dir(&l->store, k->id, err);
	if (k->dir < 0)
		return -1;
	if (mkdirat(k->dir, KEEPER_LOGS, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "cannot make the directory of logs");
	k->logs = openat(k->dir, KEEPER_LOGS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (k->logs < 0)
		return err_sys(err, "cannot open the directory of logs");
	k->idle_ms = l->box.idle_ms > 0 ? l->box.idle_ms : IDLE_MS;
	k->saved_ms = keeper_clock_ms();
	return check_expiry(k, err) < 0 || listen_here(k, err) < 0 ? -1 : 0;
}

/* The sandbox's own end, with what it holds put away. */
static int close_sandbox(struct keeper *k, struct cordon_error *err)
{
	int r = 0;
	if (k->crashed || k->alone) {
		/* as if we had been killed: what a dead transaction left is set aside by whoever opens the sandbox next */
		log_note(k->logs, "a transaction was interrupted", NULL);
		_exit(EXIT_CORDON_FAILED);
	}
	if (k->sandbox->started) {
		r = sandbox_stop(k->sandbox, err);
		if (r < 0)
			log_note(k->logs, "stop", err);
		save_use(k);
	} else if (k->sandbox->live->box.open[0] && !k->sandbox->live->box.copy) {
		r = live_stop(k->sandbox->live, err); /* it was halted, and nobody needed it again */
		if (r < 0)
			log_note(k->logs, "stop", err);
	}
	while (k->jobs) {
		struct job *next = k->jobs->next;
		if (k->jobs->client)
			k->jobs->client->job = NULL;
		job_free(k->jobs);
		k->jobs = next;
	}
	return r;
}

static void remove_expired(const char *home, const char *id)
{
	struct store s;
	if (store_open(&s, home, NULL) < 0)
		return;
	if (live_remove(&s, id, "expire", NULL) == 0)
		store_collect(&s, keeper_time_ms(), NULL);
	store_close(&s);
}

static void tell_stopped(struct keeper *k, int result, const struct cordon_error *err)
{
	struct cordon_error again = {0};
	keeper_try_again(k, &again);
	for (struct conn *c = k->conns; c; c = c->next) {
		if (c->dead || c->closing)
			continue;
		if (c->stops && result == 0)
			conn_ok(c, 0, NULL);
		else if (c->stops)
			conn_error(c, err);
		else if (!c->asked)
			conn_error(c, &again); /* what it may have sent by now was not read */
	}
	for (struct conn *c = k->conns; c; c = c->next) {
		conn_flush(c);
		c->dead = true;
	}
	conn_sweep(k);
}

static void close_all(struct keeper *k)
{
	_cleanup_free_ char *home = k->ctx ? strdup(k->ctx->home) : NULL;
	struct cordon_error err = {0};
	int r = 0;
	stop_listening(k);
	if (k->sandbox) {
		r = close_sandbox(k, &err);
		cordon_sandbox_destroy(k->sandbox);
	}
	cordon_close(k->ctx); /* waits until the launcher has removed what it made */
	if (k->expired && home)
		remove_expired(home, k->id);
	tell_stopped(k, r, &err);
}

/* Nothing of whoever started us: no terminal, no descriptor, no signal mask, no directory that could not be unmounted. */
static int detach(struct keeper *k, struct cordon_error *err)
{
	sigset_t set;
	setsid();
	umask(077);
	if (chdir("/") < 0)
		return err_sys(err, "/");
	if (syscall(SYS_close_range, (unsigned)BIRTH_FD + 1, ~0u, 0) < 0 && errno != ENOSYS) /* the launcher says what that means */
		return err_sys(err, "close_range");
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 || (k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(err, "signals");
	return 0;
}

static void report_failure(const struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	error_encode(err, &body);
	wire_send(BIRTH_FD, WIRE_ERROR, &body, NULL, 0, NULL);
}

int keeper_main(int argc, char **argv)
{
	struct keeper k = {.dir = -1, .logs = -1, .listener = -1, .signals = -1, .idle_since_ms = INT64_MAX};
	struct cordon_error err = {0};
	struct stat st;
	if (argc != 2 || fstat(BIRTH_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fputs("cordon keeper: this is started by cordon exec, not by hand\n", stderr);
		return EXIT_CORDON_FAILED;
	}
	fcntl(BIRTH_FD, F_SETFD, FD_CLOEXEC);
	if (detach(&k, &err) < 0 || open_all(&k, argv[1], &err) < 0) {
		close_all(&k);
		report_failure(&err);
		return EXIT_CORDON_FAILED;
	}
	conn_add(&k, BIRTH_FD);
	while (k.stage != STAGE_OVER)
		if (round_once(&k, &err) < 0) {
			log_note(k.logs, "the keeper gives up", &err);
			break;
		}
	close_all(&k);
	return EXIT_OK;
}
