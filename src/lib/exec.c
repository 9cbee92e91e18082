/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command, from the caller's side: an epoll set over its output pipes and its socket to init. cordon_exec_step() empties what is
 * there; an exec is over when its end was reported and both pipes are at their end. Output past the limit is read and dropped, so
 * the command never blocks on a full pipe.
 */
#include "lib/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/broker.h"
#include "lib/egress.h"
#include "lib/events.h"
#include "lib/gate.h"
#include "sandbox/trace.h"

#define READ_CHUNK ((size_t)16 << 10) /* on the stack, which may be a small thread's */
#define PIPE_MOST ((size_t)1 << 20)   /* what a pipe can hold (pipe(7)) */

uint64_t exec_clock_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- starting ---------------------------------------------------------------------------------------------------------------- */

/* The policy, and what this exec wants otherwise. */
static int apply_settings(struct cordon_exec *e, const struct cordon_exec_options *o, struct cordon_error *err)
{
	const struct cordon_policy *p = &e->sandbox->policy;
	e->timeout_ms = o->timeout_ms == 0 ? p->limits.timeout_ms : o->timeout_ms < 0 ? 0 : (uint64_t)o->timeout_ms;
	e->on_exit = p->transaction.exit;
	e->on_abort = p->transaction.abort;
	e->on_denial = p->transaction.denial;
	memcpy(e->ok, o->ok ? o->ok : p->transaction.ok, sizeof(e->ok));
	if ((o->flags & CORDON_EXEC_ENDLESS) && !(o->flags & CORDON_EXEC_DISCARD))
		return err_set(err, CORDON_ERR_INPUT, "CORDON_EXEC_ENDLESS needs CORDON_EXEC_DISCARD");
	if (!o->on_failure)
		return 0;
	for (unsigned i = 0; i < TX_ACTION_COUNT; i++)
		if (strcmp(o->on_failure, tx_action_names[i]) == 0) {
			e->on_exit = e->on_abort = (enum tx_action)i;
			return 0;
		}
	return err_set(err, CORDON_ERR_INPUT, "on_failure is '%.60s'; rollback and keep are known", o->on_failure);
}

/* Everything but the gate. */
static int begin(struct cordon_sandbox *sandbox, const struct cordon_exec_options *options, struct exec_code *code, const char *id,
                 struct cordon_exec **out, struct cordon_error *err)
{
	struct cordon_error why = {0};
	struct cordon_exec *e = calloc(1, sizeof(*e));
	if (!e)
		return err_sys(err, "cannot start a command");
	e->sandbox = sandbox;
	atomic_fetch_add(&sandbox->refs, 1);
	e->epoll = e->sock = e->input = e->out.fd = e->err_stream.fd = e->wake = -1;
	e->flags = options->flags;
	e->tty = options->flags & CORDON_EXEC_TTY;
	e->out.kept.cap = e->err_stream.kept.cap = (size_t)sandbox->policy.limits.max_output;
	e->on_output = options->on_output;
	e->denied = options->on_denial;
	e->user = options->user;
	e->holds_code = code->holds;
	code->holds = false;
	snprintf(e->result.id, sizeof(e->result.id), "%s", id);
	egress_prepare(sandbox);
	int r = apply_settings(e, options, &why);
	if (r == 0)
		r = events_exec_start(e, options, &why);
	if (r == 0)
		r = exec_transaction_begin(e, options->argv, &why);
	if (r == 0)
		r = exec_launch(e, options, &code->program, &why);
	if (r < 0) {
		if (why.code == CORDON_ERR_NOT_FOUND && code->program.language)
			language_missing(code->program.language, &why);
		events_exec_failed(e, options->argv ? options->argv[0] : NULL, &why);
		if (err)
			*err = why;
		cordon_exec_free(e);
		return -1;
	}
	*out = e;
	return 0;
}

int cordon_exec_start(struct cordon_sandbox *sandbox, const struct cordon_exec_options *options, struct cordon_exec **out,
                      struct cordon_error *err)
{
	if (!options || options->size != sizeof(*options))
		return err_set(err, CORDON_ERR_INPUT, "cordon_exec_options.size is not set, or the header is of another version");
	char id[ID_LEN + 1];
	id_new(id);
	struct cordon_exec_options o = *options;
	struct exec_code code;
	int r = exec_code_take(sandbox, &o, id, &code, err);
	if (r == 0) {
		const struct gate_for who = {sandbox->ctx, &sandbox->policy, cordon_sandbox_id(sandbox), id};
		const struct gate_command command = {o.argv, o.language, o.code, o.code_len};
		r = gate_check(&who, &command, NULL, err) < 0 ? -1 : begin(sandbox, &o, &code, id, out, err);
	}
	exec_code_clear(sandbox, &code);
	return r;
}

int exec_start(struct cordon_sandbox *sandbox, const struct cordon_exec_options *options, const char *id, struct cordon_exec **out,
               struct cordon_error *err)
{
	struct cordon_exec_options o = *options;
	struct exec_code code;
	int r = exec_code_take(sandbox, &o, id, &code, err);
	if (r == 0)
		r = begin(sandbox, &o, &code, id, out, err);
	exec_code_clear(sandbox, &code);
	return r;
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

/* Keeps and shows what is within the limit; the rest is counted and dropped. A terminal is for a person and has no limit. */
static int take_output(struct cordon_exec *e, struct stream *s, enum cordon_stream which, const char *data, size_t len,
                       struct cordon_error *err)
{
	uint64_t limit = e->tty || (e->flags & CORDON_EXEC_ENDLESS) ? UINT64_MAX : e->sandbox->policy.limits.max_output;
	uint64_t room = s->seen < limit ? limit - s->seen : 0;
	s->seen += len;
	if (len > room) {
		s->truncated = true;
		len = (size_t)room;
	}
	if (len == 0)
		return 0;
	if (!(e->flags & CORDON_EXEC_DISCARD) && !e->tty) {
		buf_add(&s->kept, data, len);
		if (s->kept.failed)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory while keeping output");
	}
	if (e->on_output)
		e->on_output(e->user, which, data, len);
	return 0;
}

/* Removed by hand: a copy of the descriptor in a process that the caller forked would keep it in the set. */
static void close_stream(struct cordon_exec *e, struct stream *s)
{
	if (s->fd < 0)
		return;
	epoll_ctl(e->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	close(s->fd);
	s->fd = -1;
}

static int drain(struct cordon_exec *e, struct stream *s, enum cordon_stream which, struct cordon_error *err)
{
	char chunk[READ_CHUNK];
	/* a bounded number of rounds: a flood on one stream must not starve the other or the caller */
	for (int round = 0; s->fd >= 0 && round < 16; round++) {
		ssize_t n = read(s->fd, chunk, sizeof(chunk));
		if (n > 0) {
			if (take_output(e, s, which, chunk, (size_t)n, err) < 0)
				return -1;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		/* end of file; on a terminal EIO, when the last process that had it open is gone */
		close_stream(e, s);
	}
	return 0;
}

/* Once the exec has ended: what is in the pipe now is all that counts. A process that outlives it (while another exec runs) may hold the
 * other end open. */
static int drain_rest(struct cordon_exec *e, struct stream *s, enum cordon_stream which, struct cordon_error *err)
{
	uint64_t before = s->seen, last;
	do {
		last = s->seen;
		if (drain(e, s, which, err) < 0)
			return -1;
	} while (s->fd >= 0 && s->seen != last && s->seen - before < PIPE_MOST);
	close_stream(e, s);
	return 0;
}

/* Programs that were started inside. One that was sent again, because its sender was killed over it, is known by its number. */
int exec_take_traces(struct cordon_exec *e, const struct wire_msg *msg, struct cordon_error *err)
{
	struct wire_reader r = {msg->body, msg->body + msg->len, false};
	struct trace_event t;
	int got;
	while ((got = trace_next(&r, &t)) > 0) {
		if (t.seq > e->traced) {
			e->traced = t.seq;
			events_traced(e, &t);
		}
		trace_event_free(&t);
	}
	return got < 0 ? err_set(err, CORDON_ERR_SYSTEM, "unexpected message from the sandbox") : 0;
}

/* What init says of it while it runs, and that it ended. */
static int receive_word(struct cordon_exec *e, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg;
	int r = wire_recv(e->sock, &msg, err);
	if (r < 0)
		return -1;
	if (r > 0 && msg.type == WIRE_TRACE)
		return exec_take_traces(e, &msg, err);
	if (r == 0)
		e->lost = true;
	else if (msg.type != WIRE_EXITED || fixed_decode(msg.body, msg.len, &e->end, sizeof(e->end), err) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "unexpected message from the sandbox");
	else
		e->exited = true;
	atomic_store(&e->over, true);
	epoll_ctl(e->epoll, EPOLL_CTL_DEL, e->sock, NULL);
	return 0;
}

static int handle(struct cordon_exec *e, int fd, struct cordon_error *err)
{
	if (fd == e->sock)
		return receive_word(e, err);
	if (fd == e->out.fd)
		return drain(e, &e->out, CORDON_STDOUT, err);
	if (fd == e->err_stream.fd)
		return drain(e, &e->err_stream, CORDON_STDERR, err);
	if (fd == e->wake)
		egress_collect(e);
	return 0;
}

static void tell_denials(struct cordon_exec *e)
{
	for (; e->denied && e->denials_told < e->denials.count; e->denials_told++)
		e->denied(e->user, &e->denials.items[e->denials_told]);
}

static int step(struct cordon_exec *e, int timeout, struct cordon_error *err)
{
	struct epoll_event ev[4];
	if (e->done)
		return 0;
	int n = epoll_wait(e->epoll, ev, ARRAY_SIZE(ev), timeout);
	if (n < 0 && errno != EINTR)
		return err_sys(err, "epoll_wait");
	for (int i = 0; i < n; i++)
		if (handle(e, ev[i].data.fd, err) < 0)
			return -1;
	tell_denials(e);
	if (!e->exited && !e->lost)
		return 1;
	if (drain_rest(e, &e->out, CORDON_STDOUT, err) < 0 || drain_rest(e, &e->err_stream, CORDON_STDERR, err) < 0)
		return -1;
	cordon_exec_close_stdin(e);
	egress_leave(e);
	tell_denials(e);
	result_fill(e);
	e->done = true;
	return exec_transaction_end(e, err) < 0 ? -1 : events_exec_end(e, err);
}

int cordon_exec_fd(const struct cordon_exec *e)
{
	return e->epoll;
}

int cordon_exec_step(struct cordon_exec *e, struct cordon_error *err)
{
	return step(e, 0, err);
}

int cordon_exec_wait(struct cordon_exec *e, struct cordon_error *err)
{
	int r;
	while ((r = step(e, -1, err)) > 0)
		;
	return r;
}

ssize_t cordon_exec_write(struct cordon_exec *e, const void *data, size_t len)
{
	if (e->input < 0)
		return -1;
	/* SIGPIPE would kill a caller that does not expect it; a write that would raise it is not made */
	struct pollfd p = {.fd = e->input, .events = POLLOUT};
	if (poll(&p, 1, 0) < 0)
		return 0;
	if (p.revents & (POLLERR | POLLHUP | POLLNVAL))
		return -1;
	if (!(p.revents & POLLOUT))
		return 0;
	sigset_t pipe_only, pending, old;
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
	ssize_t n = write(e->input, data, len);
	int saved = errno;
	if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE)) {
		const struct timespec now = {0, 0};
		while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (n < 0)
		return saved == EAGAIN || saved == EINTR ? 0 : -1;
	return n;
}

int cordon_exec_stdin_fd(const struct cordon_exec *e)
{
	return e->input;
}

void cordon_exec_close_stdin(struct cordon_exec *e)
{
	cleanup_fd(&e->input);
	e->input = -1;
}

int cordon_exec_signal(struct cordon_exec *e, int signo, struct cordon_error *err)
{
	if (signo <= 0 || signo > 64)
		return err_set(err, CORDON_ERR_INPUT, "%d is not a signal number", signo);
	if (atomic_load(&e->over))
		return err_set(err, CORDON_ERR_INPUT, "the command has ended");
	return e->sandbox->backend->signal(&e->sandbox->state, e->sock, signo, err);
}

int cordon_exec_cancel(struct cordon_exec *e, struct cordon_error *err)
{
	if (atomic_load(&e->over))
		return 0; /* nothing left to end */
	return e->sandbox->backend->signal(&e->sandbox->state, e->sock, 0, err);
}

int cordon_exec_resize(struct cordon_exec *e, unsigned short rows, unsigned short cols)
{
	struct winsize ws = {.ws_row = rows, .ws_col = cols};
	return e->tty && e->input >= 0 ? ioctl(e->input, TIOCSWINSZ, &ws) : -1;
}

const struct cordon_result *cordon_exec_result(const struct cordon_exec *e)
{
	return e->done ? &e->result : NULL;
}

void cordon_exec_free(struct cordon_exec *e)
{
	if (!e)
		return;
	if (e->begun && e->running && !e->done && cordon_exec_cancel(e, NULL) == 0)
		cordon_exec_wait(e, NULL); /* its layer cannot be put away before the last of its processes is gone */
	int *fds[] = {&e->epoll, &e->sock, &e->input, &e->out.fd, &e->err_stream.fd}; /* closing the socket ends the command */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cleanup_fd(fds[i]);
	if (!e->done)
		atomic_store(&e->sandbox->unfinished, true);
	egress_leave(e);
	cleanup_fd(&e->wake); /* which others use up to here */
	if (!e->done)
		exec_transaction_end(e, NULL);
	buf_free(&e->out.kept);
	buf_free(&e->err_stream.kept);
	live_tx_free(&e->tx);
	changes_free(&e->changes);
	free(e->listed);
	commit_report_free(&e->report);
	denials_free(&e->denials);
	free(e->conflicts);
	free(e->command);
	if (e->holds_code)
		atomic_store(&e->sandbox->code_taken, false);
	sandbox_unref(e->sandbox);
	free(e);
}
