/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/fsuid.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/birth.h"
#include "sandbox/command.h"
#include "sandbox/inbox.h"
#include "sandbox/init_parts.h"
#include "sandbox/reaper.h"
#include "sandbox/spec.h"
#include "sandbox/supervisor.h"
#include "sandbox/trace.h"
#include "sandbox/wire.h"

#define KILL_PASSES 16
#define CLOSING_US 1000000u /* what a supervisor has at the end to tell what it knows */

enum { AT_CONTROL, AT_SIGNALS, AT_DOOR, AT_EXECS }; /* in turn()'s poll set */

static uint64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A library that no longer listens is seen as end of file on the socket, so failures to report need no care of their own. */
static void report_error(int sock, const struct cordon_error *e)
{
	_cleanup_buf_ struct buf b = {0};
	error_encode(e, &b);
	wire_send(sock, WIRE_ERROR, &b, NULL, 0, NULL);
}

/* ---- starting a command ------------------------------------------------------------------------------------------------------ */

/* A terminal of the sandbox's own devpts; the slave belongs to the user. */
static int open_terminal(const struct init_config *c, const struct exec_spec *s, int *slave, struct cordon_error *err)
{
	int unlock = 0;
	setfsuid(c->ids.uid);
	setfsgid(c->ids.gid);
	_cleanup_fd_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	setfsuid(geteuid());
	setfsgid(getegid());
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* the change of ids took it away */
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(err, "cannot open a terminal inside");
	*slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*slave < 0)
		return err_sys(err, "cannot open a terminal inside");
	struct winsize ws = {.ws_row = (unsigned short)(s->rows ? s->rows : 24), .ws_col = (unsigned short)(s->cols ? s->cols : 80)};
	ioctl(*slave, TIOCSWINSZ, &ws);
	return steal_fd(&master);
}

pid_t init_fork_command(const struct init *in, struct command *l, bool tracked, int *report, int *words, struct cordon_error *err)
{
	int pair[2], pipe_words[2] = {-1, -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(err, "socketpair");
	if (tracked && pipe2(pipe_words, O_CLOEXEC | O_NONBLOCK) < 0) {
		close(pair[0]);
		close(pair[1]);
		return err_sys(err, "pipe");
	}
	pid_t pid = fork();
	if (pid == 0) {
		if (tracked)
			reaper_become(pipe_words[1]);
		l->report = pair[1];
		command_become(l);
	}
	close(pair[1]);
	cleanup_fd(&pipe_words[1]);
	if (pid < 0) {
		close(pair[0]);
		cleanup_fd(&pipe_words[0]);
		return err_sys(err, "cannot start a process");
	}
	*report = pair[0];
	*words = pipe_words[0];
	return pid;
}

static void undo_start(struct init *in, struct running *made)
{
	init_parked_close(made);
	inbox_remove(in->config->inbox, &made->code);
}

static int start(struct init *in, const struct exec_spec *s, struct wire_msg *msg, struct cordon_error *err)
{
	struct running *slot = NULL;
	for (size_t i = 0; i < MAX_EXECS && !slot; i++)
		if (in->execs[i].pid == 0)
			slot = &in->execs[i];
	if (!slot)
		return err_set(err, CORDON_ERR_INPUT, "at most %d commands can run in one sandbox at a time", MAX_EXECS);

	struct command l = {
		.config = in->config, .spec = s, .tty = -1, .request = -1, .channel = -1, .unobserved = in->active == 0 && getpid() == 1};
	struct running made = {.channel = -1};
	_cleanup_fd_ int master = -1, slave = -1, channel = -1;
	if (s->tty) {
		master = open_terminal(in->config, s, &slave, err);
		if (master < 0)
			return -1;
		l.tty = slave;
	} else if (msg->fd_count != 4) {
		return err_set(err, CORDON_ERR_INPUT, "malformed exec request: %zu descriptors", msg->fd_count);
	} else {
		memcpy(l.stdio, msg->fds + 1, sizeof(l.stdio));
	}
	if ((s->parked && init_park(&made, &channel, err) < 0) ||
	    inbox_put(in->config->inbox, s->code, s->code_count, &made.code, err) < 0) {
		undo_start(in, &made);
		return -1;
	}
	l.channel = channel;
	init_leave_wait(in);
	uint64_t started = now_us();
	struct spare child;
	if (!init_spare_use(in, s, msg, &child)) {
		child.pid = init_fork_command(in, &l, s->tracked, &child.report, &child.words, err);
		if (child.pid < 0) {
			undo_start(in, &made);
			return -1;
		}
	}
	*slot = (struct running){.sock = wire_take_fd(msg, 0),
	                         .code = made.code,
	                         .channel = made.channel,
	                         .pid = child.pid,
	                         .reaper = s->tracked ? child.pid : 0,
	                         .words = child.words,
	                         .started_us = started,
	                         .starting = child.report,
	                         .terminal = steal_fd(&master),
	                         .listener = -1,
	                         .leash = -1,
	                         .tells_end = s->parked,
	                         .rules = fcntl(in->config->landlock_fd, F_DUPFD_CLOEXEC, 0)};
	slot->deadline_us = s->timeout_ms ? started + s->timeout_ms * 1000 : UINT64_MAX;
	snprintf(slot->name, sizeof(slot->name), "%s", s->argv.items[0]);
	snprintf(slot->cwd, sizeof(slot->cwd), "%s", s->cwd);
	in->wants_spare = s->more;
	in->tracks = s->tracked;
	in->starts++;
	if (in->active++ == 0)
		in->cpu_us = in->maxrss_kb = 0;
	return 0;
}

static void free_slot(struct init *in, struct running *e)
{
	cleanup_fd(&e->sock);
	cleanup_fd(&e->starting);
	cleanup_fd(&e->terminal);
	cleanup_fd(&e->words);
	cleanup_fd(&e->listener);
	cleanup_fd(&e->rules);
	cleanup_fd(&e->leash);
	init_parked_close(e);
	inbox_remove(in->config->inbox, &e->code);
	if (e->supervisor)
		kill(e->supervisor, SIGKILL);
	if (e->traces)
		munmap(e->traces, sizeof(*e->traces));
	*e = (struct running){0};
	in->active--;
	init_spare_make(in);
}

bool init_started(struct init *in, struct running *e)
{
	struct command_failure f;
	ssize_t n = supervisor_receive(e->starting, &f, sizeof(f), &e->listener);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == (ssize_t)sizeof(f)) {
		struct cordon_error err = {0};
		command_failed(&f, e->name, e->cwd, &err);
		report_error(e->sock, &err);
		const pid_t child = e->reaper ? e->reaper : e->pid;
		if (!e->exited || e->reaper) {
			kill(child, SIGKILL); /* its exit may have to wait for our answer */
			waitpid(child, NULL, 0);
		}
		free_slot(in, e);
		return false;
	}
	cleanup_fd(&e->starting);
	e->starting = -1;
	e->untraced = e->listener < 0;
	wire_send(e->sock, WIRE_STARTED, NULL, &e->terminal, e->terminal >= 0 ? 1 : 0, NULL);
	cleanup_fd(&e->terminal);
	e->terminal = -1;
	return true;
}

/* ---- ending one -------------------------------------------------------------------------------------------------------------- */

/* The reaper says which process is the command, or that it ended. */
static void hear(struct running *e)
{
	struct reaper_word w;
	while (read(e->words, &w, sizeof(w)) == (ssize_t)sizeof(w)) {
		e->pid = w.pid;
		if (w.ended && !e->exited) {
			e->exited = true;
			e->status = w.status;
			e->alone = w.alone;
		}
	}
}

static void reap(struct init *in, pid_t pid, int status, const struct rusage *ru)
{
	if (!WIFEXITED(status) && !WIFSIGNALED(status))
		return; /* a stop: who asks to be traced has us as its tracer */
	in->cpu_us +=
		(uint64_t)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1000000 + (uint64_t)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
	in->maxrss_kb = MAX(in->maxrss_kb, (uint64_t)ru->ru_maxrss);
	if (in->spare.pid == pid)
		init_spare_died(in);
	if (in->leaving == pid)
		in->leaving = 0;
	for (size_t i = 0; i < MAX_EXECS; i++) {
		struct running *e = &in->execs[i];
		if (e->supervisor == pid)
			e->supervisor = 0;
		if (e->pid == pid && !e->reaper && !e->exited) {
			e->exited = true;
			e->status = status;
		} else if (e->reaper == pid && pid) {
			hear(e);        /* its last word may have come since we looked */
			if (!e->exited) /* somebody inside killed it */
				e->status = SIGKILL;
			e->exited = e->reaped = true;
		}
	}
}

/* Sends a signal to every process of one exec's session: its main process called setsid(). Returns how many there were. */
static unsigned signal_session(pid_t session, int signo)
{
	unsigned found = 0;
	_cleanup_dir_ DIR *proc = opendir("/proc");
	struct dirent *e;
	while (proc && (e = readdir(proc))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		if (*end == '\0' && pid > 1 && getsid((pid_t)pid) == session && kill((pid_t)pid, signo) == 0)
			found++;
	}
	return found;
}

/* What is below its reaper, and what its reaper left us if it was killed. The others can only be spared if that succeeds. */
static void kill_tracked(struct init *in, const struct running *e)
{
	pid_t known[2 * MAX_EXECS];
	size_t n = 0;
	for (size_t i = 0; i < MAX_EXECS; i++) {
		if (in->execs[i].supervisor)
			known[n++] = in->execs[i].supervisor;
		if (in->execs[i].pid && !in->execs[i].reaped)
			known[n++] = in->execs[i].reaper ? in->execs[i].reaper : in->execs[i].pid;
	}
	if ((!e->reaped && !reaper_kill_below(e->reaper)) || !reaper_kill_strays(known, n))
		kill(-1, SIGKILL);
}

/*
 * Everything an exec started dies with it. While it is the only one, that is everything but init, and one kill(-1) is atomic against
 * fork (a process with a pending SIGKILL cannot fork); with others running, its session, whose members cannot leave it unseen except by
 * setsid, and those end with the last exec.
 */
static void kill_tree(struct init *in, const struct running *e)
{
	/* without a pid namespace (weakened builds only) "all" would be the host */
	if (in->active == 1 && getpid() == 1) {
		kill(-1, SIGKILL);
	} else if (e->reaper) {
		kill_tracked(in, e);
	} else {
		if (!e->exited) /* one that was stopped before it had a session of its own */
			kill(e->pid, SIGKILL);
		for (int pass = 0; pass < KILL_PASSES && signal_session(e->pid, SIGKILL); pass++)
			; /* again for those that were being forked */
	}
}

/* Whatever was not sent yet, and then the last word. Called again when the library has read, until all is said. */
static void report_end(struct init *in, struct running *e)
{
	_cleanup_buf_ struct buf b = {0};
	const uint64_t lost = e->lost + (e->traces ? e->traces->lost : 0);
	size_t sent = 0;
	if (e->traces && !trace_send(e->sock, e->traces, &sent))
		return;
	if (lost || e->untraced) {
		trace_put_lost(&b, e->traces ? e->traces->seq + 1 : 1, lost);
		wire_send(e->sock, WIRE_TRACE, &b, NULL, 0, NULL);
		b.len = 0;
	}
	buf_add(&b, &e->end, sizeof(e->end));
	wire_send(e->sock, WIRE_EXITED, &b, NULL, 0, NULL);
	free_slot(in, e);
}

static void end_rest(struct init *in, struct running *e)
{
	struct rusage ru;
	int status;
	kill_tree(in, e);
	if (e->reaper && !e->reaped && in->active > 1) {
		kill(e->reaper, SIGKILL);
		if (wait4(e->reaper, &status, __WALL, &ru) == e->reaper)
			reap(in, e->reaper, status, &ru);
	}
	if (in->active == 1) {
		pid_t pid;
		while ((pid = wait4(-1, &status, __WALL, &ru)) > 0 || (pid < 0 && errno == EINTR))
			if (pid > 0)
				reap(in, pid, status, &ru);
	}
}

void init_finish(struct init *in, struct running *e)
{
	/* everybody inside descends from init: without a child it is alone */
	if (!in->childless && !e->alone)
		end_rest(in, e);
	e->end = (struct exited_msg){
		.status = e->status,
		.timed_out = e->timed_out,
		.cancelled = e->cancelled,
		.cpu_us = in->cpu_us,
		.duration_us = now_us() - e->started_us,
		.maxrss_kb = in->maxrss_kb,
	};
	if (e->traces)
		trace_close(e->traces, now_us());
	e->reporting = true;
	report_end(in, e);
}

/* The command has ended. Its supervisor, if there is one, has a moment to tell what it knows; when it is gone the rest is ended. */
static void ended(struct init *in, struct running *e)
{
	if (!e->supervisor) {
		init_finish(in, e);
	} else if (!e->closing_us) {
		e->closing_us = now_us() + CLOSING_US;
		cleanup_fd(&e->leash);
		e->leash = -1;
	}
}

/* It takes too long: it was stopped, perhaps. But it may also have to wait until the library reads. */
static void hurry_supervisor(struct running *e, uint64_t now)
{
	struct pollfd p = {.fd = e->sock, .events = POLLOUT};
	if (poll(&p, 1, 0) != 0)
		kill(e->supervisor, SIGKILL);
	e->closing_us = now + CLOSING_US;
}

static void reap_all(struct init *in)
{
	struct signalfd_siginfo si;
	struct rusage ru;
	int status;
	pid_t pid;
	while (read(in->signals, &si, sizeof(si)) > 0)
		;
	for (size_t i = 0; i < MAX_EXECS; i++)
		if (in->execs[i].pid && in->execs[i].words >= 0)
			hear(&in->execs[i]);
	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &ru)) > 0)
		reap(in, pid, status, &ru);
	in->childless = pid < 0 && errno == ECHILD && getpid() == 1;
	for (size_t i = 0; i < MAX_EXECS; i++) {
		struct running *e = &in->execs[i];
		if (e->pid && e->exited && !e->reporting && (e->starting < 0 || init_started(in, e)))
			ended(in, e);
	}
}

/* Ends those whose time is up; returns milliseconds until the next one is, -1 for never. */
static int expire(struct init *in)
{
	uint64_t now = now_us(), next = UINT64_MAX;
	for (size_t i = 0; i < MAX_EXECS; i++) {
		struct running *e = &in->execs[i];
		if (e->pid && e->closing_us && !e->reporting) {
			if (e->closing_us <= now)
				hurry_supervisor(e, now);
			next = MIN(next, e->closing_us);
		}
		if (!e->pid || e->exited)
			continue;
		if (e->deadline_us <= now) {
			e->timed_out = true;
			e->deadline_us = UINT64_MAX;
			kill_tree(in, e);
		}
		next = MIN(next, e->deadline_us);
	}
	if (next == UINT64_MAX)
		return -1;
	return (int)MIN((next - now + 999) / 1000, (uint64_t)3600 * 1000);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------------- */

/*
 * Landlock's rules hold inodes: a mount that was put in the place of another has other ones, and so has what a pattern finds by now. What was made ahead has the old ones.
 */
static int refresh_rules(struct init *in, const struct exec_spec *s, struct cordon_error *err)
{
	struct init_config *c = in->config;
	bool changed = s->remounted;
	for (uint32_t i = 0; c->rules && i < c->rules->rule_count && !changed; i++)
		changed = c->rules->rules[i].pattern != NULL;
	if (!c->rules || c->landlock_fd < 0 || !changed)
		return 0;
	init_spare_drop(in);
	int fd = birth_ruleset(c->rules, &c->ids, err);
	if (fd < 0)
		return -1;
	close(c->landlock_fd);
	c->landlock_fd = fd;
	return 0;
}

static void handle_exec(struct init *in, struct wire_msg *msg)
{
	struct cordon_error err = {0};
	struct exec_spec spec;
	struct freeze_msg f;
	if (msg->type == WIRE_FREEZE && fixed_decode(msg->body, msg->len, &f, sizeof(f), NULL) == 0 && getpid() == 1)
		kill(-1, f.frozen ? SIGSTOP : SIGCONT);
	if (msg->type == WIRE_DOOR)
		init_door_take(in, msg);
	if (msg->type != WIRE_EXEC || msg->fd_count == 0)
		return;
	int sock = msg->fds[0]; /* start() takes it over when it succeeds */
	if (exec_spec_decode(msg->body, msg->len, &spec, &err) < 0) {
		report_error(sock, &err);
		return;
	}
	if (refresh_rules(in, &spec, &err) < 0 || start(in, &spec, msg, &err) < 0)
		report_error(sock, &err);
	exec_spec_free(&spec);
}

/* One that died meanwhile, or does not listen, has its end reported as ever: the library sees that it was before the beginning. */
static void handle_go(struct init *in, struct running *e, const struct wire_msg *msg)
{
	struct cordon_error err = {0};
	const int r = init_go(in, e, msg, now_us(), &err);
	if (r < 0)
		report_error(e->sock, &err);
	if (r <= 0)
		kill_tree(in, e);
}

static void handle_running(struct init *in, struct running *e)
{
	_cleanup_msg_ struct wire_msg msg;
	uint32_t signo;
	int r = wire_recv(e->sock, &msg, NULL);
	if (e->exited) { /* too late */
		e->cancelled = e->cancelled || r == 0;
	} else if (r > 0 && msg.type == WIRE_SIGNAL && fixed_decode(msg.body, msg.len, &signo, sizeof(signo), NULL) == 0) {
		if (signo < 65)
			kill(-e->pid, (int)signo);
	} else if (r > 0 && msg.type == WIRE_GO) {
		handle_go(in, e, &msg);
	} else if (r == 0 || (r > 0 && msg.type == WIRE_CANCEL)) {
		e->cancelled = true;
		kill_tree(in, e);
	}
}

_Noreturn static void leave(void)
{
	_exit(0); /* the kernel kills the rest of the pid namespace */
}

/* One turn: new commands, words about running ones, deaths. */
static void turn(struct init *in)
{
	struct pollfd p[AT_EXECS + 5 * MAX_EXECS];
	struct running *who[5 * MAX_EXECS];
	bool ended = false;
	nfds_t n = AT_EXECS;
	int timeout = expire(in);
	p[AT_CONTROL] = (struct pollfd){.fd = in->config->sock, .events = POLLIN};
	p[AT_SIGNALS] = (struct pollfd){.fd = in->signals, .events = POLLIN};
	p[AT_DOOR] = (struct pollfd){.fd = in->door, .events = POLLIN};
	for (size_t i = 0; i < MAX_EXECS; i++) {
		struct running *e = &in->execs[i];
		if (e->pid && (!e->cancelled || e->reporting)) {
			who[n - AT_EXECS] = e;
			p[n++] = (struct pollfd){.fd = e->sock,
			                         .events = (short)((e->cancelled ? 0 : POLLIN) | (e->reporting ? POLLOUT : 0))};
		}
		if (e->pid && e->starting >= 0) {
			who[n - AT_EXECS] = e;
			p[n++] = (struct pollfd){.fd = e->starting, .events = POLLIN};
		}
		if (e->pid && e->channel >= 0 && !e->parked && !e->exited) {
			who[n - AT_EXECS] = e;
			p[n++] = (struct pollfd){.fd = e->channel, .events = POLLIN};
		}
		if (e->pid && e->words >= 0 && !e->exited) {
			who[n - AT_EXECS] = e;
			p[n++] = (struct pollfd){.fd = e->words, .events = POLLIN};
		}
		if (e->pid && e->listener >= 0 && !e->supervisor && !e->exited) {
			who[n - AT_EXECS] = e;
			p[n++] = (struct pollfd){.fd = e->listener, .events = POLLIN};
		}
	}
	if (poll(p, n, timeout) < 0) {
		if (errno != EINTR)
			leave();
		return;
	}
	for (nfds_t i = AT_EXECS; i < n; i++) {
		struct running *e = who[i - AT_EXECS];
		if (!p[i].revents || !e->pid)
			continue;
		if (p[i].fd == e->words)
			ended = true;
		else if (p[i].fd == e->listener)
			init_supervise(in, e, p[i].revents);
		else if (p[i].fd == e->starting)
			init_started(in, e);
		else if (p[i].fd == e->channel)
			init_parked(in, e);
		else if (p[i].revents & POLLIN)
			handle_running(in, e);
		else if (e->reporting)
			report_end(in, e);
		else
			handle_running(in, e);
	}
	if (p[AT_DOOR].revents)
		init_door_answer(in);
	if (p[AT_SIGNALS].revents || ended)
		reap_all(in);
	if (p[AT_CONTROL].revents) {
		_cleanup_msg_ struct wire_msg msg;
		int r = wire_recv(in->config->sock, &msg, NULL);
		if (r == 0)
			leave();
		if (r > 0)
			handle_exec(in, &msg);
	}
}

_Noreturn void init_run(struct init_config *config)
{
	static struct init in; /* one per process; keeps the stack small */
	sigset_t set;
	in.config = config;
	in.rename_lock = in.door = in.loadavg = -1;
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	in.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (in.signals < 0)
		leave();
	prctl(PR_SET_NAME, "cordon-init", 0, 0, 0);
	if (wire_send(config->sock, WIRE_READY, NULL, config->trees, config->trees[0] >= 0 ? 2 : 0, NULL) < 0)
		leave();
	for (int i = 0; i < 2; i++)
		if (config->trees[i] >= 0)
			close(config->trees[i]);
	in.wants_spare = config->flags & SPEC_PARKED;
	in.tracks = config->flags & SPEC_LIVE;
	init_spare_make(&in);
	for (;;)
		turn(&in);
}
