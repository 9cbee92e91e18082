/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pump of `cordon run` and `cordon exec`. Theory of operation:
 *
 * One poll(2) loop carries our stdin to the command, its output to ours, and signals to whom they concern. Nothing in it may block, or
 * Ctrl-C would go unheard: signals are blocked and arrive through a signalfd. Our own stdout is not ours alone (the terminal or pipe is
 * shared with whoever started us), so O_NONBLOCK is not ours to set; instead we write only as much as a descriptor that polls writable
 * is bound to take, and queue the rest. While a queue is long the command's output stays in its pipe or terminal, and the command waits
 * as it would for any slow reader; its time limit is kept by the sandbox's init, not by us.
 *
 * Standard input is read only while the command can take more, so that what it leaves unread stays for the next reader of a file or
 * terminal (up to one buffer). Whether stdin ever ends is of no interest once the command has.
 */
#include "cmd/run.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/util.h"
#include "lib/exec.h"

enum {
	INPUT_SIZE = 64 << 10,
	QUEUE_LONG = 8 << 20,
	CHUNK = 4096, /* a pipe that polls writable has a free page: pipe(7), PIPE_BUF */
};

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int other_signals[] = {SIGWINCH, SIGCONT};

/* Those that would end us without a word while the terminal is in raw mode. */
static const int fatal_signals[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT, SIGSYS,    SIGTRAP,
                                    SIGALRM, SIGXCPU, SIGXFSZ, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF};

/* Global since a handler of a fatal signal has nothing else to go by. Written once, before the handlers are installed. */
static struct termios cooked;

/* ---- whom it pumps for ------------------------------------------------------------------------------------------------------ */

static int local_fd(void *exec)
{
	return cordon_exec_fd(exec);
}

static int local_step(void *exec, struct cordon_error *err)
{
	return cordon_exec_step(exec, err);
}

static ssize_t local_write(void *exec, const void *data, size_t len)
{
	return cordon_exec_write(exec, data, len);
}

static int local_stdin_fd(void *exec)
{
	return cordon_exec_stdin_fd(exec);
}

static void local_close_stdin(void *exec)
{
	cordon_exec_close_stdin(exec);
}

static int local_cancel(void *exec, struct cordon_error *err)
{
	return cordon_exec_cancel(exec, err);
}

static int local_resize(void *exec, unsigned short rows, unsigned short cols)
{
	return cordon_exec_resize(exec, rows, cols);
}

const struct run_target run_target_local = {
	.fd = local_fd,
	.step = local_step,
	.write = local_write,
	.stdin_fd = local_stdin_fd,
	.close_stdin = local_close_stdin,
	.cancel = local_cancel,
	.resize = local_resize,
};

/* ---- the terminal ------------------------------------------------------------------------------------------------------------ */

static void restore_and_die(int signo)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
	raise(signo); /* SA_RESETHAND: the default action this time */
}

static void set_raw(void)
{
	struct termios raw = cooked;

	cfmakeraw(&raw); /* the terminal inside does the line editing, the echo and the \r\n */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

int run_io_raw(struct run_io *io, struct cordon_error *err)
{
	struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	if (tcgetattr(STDIN_FILENO, &cooked) < 0)
		return err_sys(err, "cannot read the settings of the terminal");
	for (size_t i = 0; i < ARRAY_SIZE(fatal_signals); i++)
		sigaction(fatal_signals[i], &action, NULL);
	io->raw = true;
	set_raw();
	return 0;
}

void run_io_cook(struct run_io *io)
{
	if (io->raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &cooked); /* not TCSADRAIN: a stopped terminal (Ctrl-S) would hold us here */
	io->raw = false;
}

bool run_io_window(unsigned short *rows, unsigned short *cols)
{
	static const int fds[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
	struct winsize size;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
			*rows = size.ws_row;
			*cols = size.ws_col;
			return true;
		}
	return false;
}

/* ---- our output -------------------------------------------------------------------------------------------------------------- */

static void channel_open(struct run_channel *c, int fd)
{
	struct stat st;

	*c = (struct run_channel){.fd = fd, .chunk = CHUNK, .queue = {.cap = SIZE_MAX / 2}};
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		c->chunk = 0;
}

static bool writable_now(const struct run_channel *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLOUT};

	return c->chunk == 0 || poll(&p, 1, 0) > 0; /* also true for errors: the write will name them */
}

/* Writes what can be written without blocking; returns how much. */
static size_t channel_push(struct run_channel *c, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len && writable_now(c)) {
		ssize_t n = write(c->fd, data + done, c->chunk ? MIN(len - done, c->chunk) : len - done);

		if (n >= 0) {
			done += (size_t)n;
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			c->error = errno;
			break;
		}
	}
	return done;
}

static size_t channel_queued(const struct run_channel *c)
{
	return c->error ? 0 : c->queue.len - c->sent;
}

static void channel_drain(struct run_channel *c)
{
	c->sent += channel_push(c, c->queue.data + c->sent, c->queue.len - c->sent);
	if (c->sent == c->queue.len)
		c->sent = c->queue.len = 0;
}

static void channel_write(struct run_channel *c, const char *data, size_t len)
{
	size_t done = 0;

	if (c->error || len == 0)
		return;
	if (c->queue.len == 0)
		done = channel_push(c, data, len);
	if (done == len || c->error)
		return;
	buf_add(&c->queue, data + done, len - done);
	if (c->queue.failed)
		c->error = ENOMEM;
}

int run_io_error(const struct run_io *io)
{
	return io->out.error ? io->out.error : io->err.error;
}

void run_io_line(struct run_io *io, const char *text)
{
	channel_write(&io->out, text, strlen(text));
	channel_write(&io->out, "\n", 1);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

/* How many bytes at the end are the start of a UTF-8 character that is not complete yet. */
static size_t unfinished(const char *data, size_t len)
{
	for (size_t back = 1; back <= MIN(len, (size_t)3); back++) {
		unsigned char c = (unsigned char)data[len - back];

		if ((c & 0xc0) == 0x80)
			continue;
		size_t need = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
		return need > back ? back : 0;
	}
	return 0;
}

static void print_event(struct run_io *io, enum cordon_stream stream, const char *data, size_t len)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_kstr(&j, "event", stream == CORDON_STDOUT ? "stdout" : "stderr");
	json_key(&j, "data");
	json_kstr(&j, "encoding", json_bytes(&j, data, len));
	json_end(&j);
	if (line.failed)
		io->out.error = ENOMEM;
	else
		run_io_line(io, line.data);
}

/* A character that arrives in two pieces must not turn text into base64: its first part waits for the rest. */
static void add_event(struct run_io *io, enum cordon_stream stream, const char *data, size_t len)
{
	size_t which = stream == CORDON_STDERR, keep;
	_cleanup_buf_ struct buf all = {0};

	buf_add(&all, io->tail[which], io->tail_len[which]);
	buf_add(&all, data, len);
	if (all.failed) {
		io->out.error = ENOMEM;
		return;
	}
	keep = unfinished(all.data, all.len);
	memcpy(io->tail[which], all.data + all.len - keep, keep);
	io->tail_len[which] = keep;
	if (all.len > keep)
		print_event(io, stream, all.data, all.len - keep);
}

static void end_events(struct run_io *io)
{
	static const enum cordon_stream streams[] = {CORDON_STDOUT, CORDON_STDERR};

	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		if (io->tail_len[i])
			print_event(io, streams[i], io->tail[i], io->tail_len[i]);
	io->tail_len[0] = io->tail_len[1] = 0;
}

void run_io_output(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct run_io *io = user;

	if (io->mode == RUN_OUTPUT_EVENTS)
		add_event(io, stream, data, len);
	if (io->mode == RUN_OUTPUT_LIVE && len) {
		io->mid_line = ((const char *)data)[len - 1] != '\n';
		channel_write(stream == CORDON_STDERR ? &io->err : &io->out, data, len);
	}
}

void run_io_denial(void *user, const struct cordon_denial *denial)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};
	struct run_io *io = user;

	if (io->mode != RUN_OUTPUT_EVENTS)
		return;
	json_object(&j);
	json_kstr(&j, "event", "denial");
	json_key(&j, "denial");
	denial_json(&j, denial);
	json_end(&j);
	if (line.failed)
		io->out.error = ENOMEM;
	else
		run_io_line(io, line.data);
	io->denials_told++;
}

/* ---- the command's input ----------------------------------------------------------------------------------------------------- */

static void stop_feeding(struct run_io *io)
{
	io->feed = false;
	io->input_len = io->input_sent = 0;
}

static void give_input(struct run_io *io)
{
	while (io->input_sent < io->input_len) {
		ssize_t n = io->target->write(io->exec, io->input + io->input_sent, io->input_len - io->input_sent);

		if (n < 0) {
			stop_feeding(io); /* the command has closed its stdin: what is left is nobody's */
			return;
		}
		if (n == 0)
			return;
		io->input_sent += (size_t)n;
	}
	io->input_len = io->input_sent = 0;
}

/* A pipe is closed; a terminal has no end but the one that is typed: Ctrl-D. After an incomplete line it takes three: one hands
 * that line over, one ends it, and one ends the input of a shell that took the second for the line's. */
static void end_input(struct run_io *io)
{
	io->input_ended = true;
	if (!io->tty) {
		io->target->close_stdin(io->exec);
		stop_feeding(io);
		return;
	}
	memset(io->input, 'D' & 0x1f, 3);
	io->input_len = io->line_open ? 3 : 1;
}

static void take_input(struct run_io *io)
{
	ssize_t n = read(STDIN_FILENO, io->input, INPUT_SIZE);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	io->room = false;
	if (n <= 0) {
		/* An error (a directory, a terminal that went away) is an end like any other: the command sees the end of its input. */
		end_input(io);
		return;
	}
	io->input_len = (size_t)n;
	io->line_open = io->input[n - 1] != '\n';
	give_input(io);
}

/* The command's stdin changed: it takes more, or nobody reads it any more. */
static void sink_changed(struct run_io *io, short revents)
{
	if (revents & (POLLERR | POLLHUP | POLLNVAL)) {
		stop_feeding(io);
		return;
	}
	io->room = true;
	give_input(io);
	if (io->input_len)
		io->room = false;
}

/* ---- signals and the loop ---------------------------------------------------------------------------------------------------- */

static int handle_signal(struct run_io *io, int signo, struct cordon_error *err)
{
	unsigned short rows, cols;

	if (signo == SIGWINCH || signo == SIGCONT) {
		if (signo == SIGCONT && io->raw)
			set_raw(); /* the shell has had the terminal meanwhile */
		if (io->exec && run_io_window(&rows, &cols))
			io->target->resize(io->exec, rows, cols); /* does nothing without a terminal */
		return 0;
	}
	if (io->ended_by)
		return 0; /* the tree is being ended already */
	io->ended_by = signo;
	return io->exec ? io->target->cancel(io->exec, err) : 0;
}

static int take_signals(struct run_io *io, struct cordon_error *err)
{
	struct signalfd_siginfo info;

	while (read(io->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (handle_signal(io, (int)info.ssi_signo, err) < 0)
			return -1;
	return 0;
}

/* One round: 1 while the command runs, 0 once it has ended, -1 on failure. */
static int pump_once(struct run_io *io, struct cordon_error *err)
{
	enum { EXEC, SIGNALS, SOURCE, SINK, OUT, ERR, COUNT };
	bool want_input = io->feed && io->room && io->input_len == 0 && !io->input_ended;
	bool sink = io->feed && !(io->input_ended && io->input_len == 0);
	/* Once it is being ended, it is seen to its end whoever reads. */
	bool hold = !io->ended_by && !run_io_error(io) && (channel_queued(&io->out) > QUEUE_LONG || channel_queued(&io->err) > QUEUE_LONG);
	/* Once there is room, waiting for more of it would spin; errors are reported anyway. */
	short sink_events = want_input ? 0 : POLLOUT;
	short sink_told = sink && io->target->sink ? (short)(io->target->sink(io->exec) & (sink_events | POLLERR)) : 0;
	struct pollfd p[COUNT] = {
		[EXEC] = {.fd = hold ? -1 : io->target->fd(io->exec), .events = POLLIN},
		[SIGNALS] = {.fd = io->signals, .events = POLLIN},
		[SOURCE] = {.fd = want_input ? STDIN_FILENO : -1, .events = POLLIN},
		[SINK] = {.fd = sink && io->target->stdin_fd ? io->target->stdin_fd(io->exec) : -1, .events = sink_events},
		[OUT] = {.fd = channel_queued(&io->out) ? io->out.fd : -1, .events = POLLOUT},
		[ERR] = {.fd = channel_queued(&io->err) ? io->err.fd : -1, .events = POLLOUT},
	};

	if (poll(p, COUNT, sink_told ? 0 : -1) < 0)
		return errno == EINTR ? 1 : err_sys(err, "cannot wait for the command");
	if (p[SIGNALS].revents && take_signals(io, err) < 0)
		return -1;
	if (p[OUT].revents)
		channel_drain(&io->out);
	if (p[ERR].revents)
		channel_drain(&io->err);
	if (p[SOURCE].revents)
		take_input(io);
	if ((p[SINK].revents || sink_told) && io->feed)
		sink_changed(io, (short)(p[SINK].revents | sink_told));
	return p[EXEC].revents ? io->target->step(io->exec, err) : 1;
}

int run_io_pump(struct run_io *io, const struct run_target *target, void *exec, struct cordon_error *err)
{
	bool cancelled = false;
	int running = 1;

	io->target = target;
	io->exec = exec;
	while (running > 0) {
		running = pump_once(io, err);
		/* Nobody hears the command any more: it ends as a writer into a closed pipe would. */
		if (running > 0 && run_io_error(io) && !cancelled) {
			cancelled = true;
			if (target->cancel(exec, err) < 0)
				running = -1;
		}
	}
	io->exec = NULL;
	if (running < 0)
		return -1;
	end_events(io);
	return 0;
}

void run_io_flush(struct run_io *io)
{
	while (channel_queued(&io->out) || channel_queued(&io->err)) {
		struct pollfd p[] = {
			{.fd = io->signals, .events = POLLIN},
			{.fd = channel_queued(&io->out) ? io->out.fd : -1, .events = POLLOUT},
			{.fd = channel_queued(&io->err) ? io->err.fd : -1, .events = POLLOUT},
		};

		/* After Ctrl-C take what is taken at once, and wait for no one. */
		int ready = poll(p, ARRAY_SIZE(p), io->ended_by ? 0 : -1);
		if (ready == 0 || (ready < 0 && errno != EINTR))
			return;
		if (ready < 0)
			continue;
		if (p[0].revents)
			take_signals(io, NULL);
		if (p[1].revents)
			channel_drain(&io->out);
		if (p[2].revents)
			channel_drain(&io->err);
	}
}

int run_io_begin(struct run_io *io, enum run_output mode, bool feed, bool tty, struct cordon_error *err)
{
	sigset_t set;

	*io = (struct run_io){.mode = mode, .feed = feed, .tty = tty, .signals = -1};
	channel_open(&io->out, STDOUT_FILENO);
	channel_open(&io->err, STDERR_FILENO);
	if (feed && !(io->input = malloc(INPUT_SIZE)))
		return err_sys(err, "cannot set up standard input");
	signal(SIGPIPE, SIG_IGN); /* a closed stdout is an errno here */
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ending_signals); i++)
		sigaddset(&set, ending_signals[i]);
	for (size_t i = 0; i < ARRAY_SIZE(other_signals); i++)
		sigaddset(&set, other_signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (io->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(err, "cannot set up signals");
	return 0;
}

void run_io_end(struct run_io *io)
{
	run_io_cook(io);
	if (io->signals >= 0)
		close(io->signals);
	io->signals = -1;
	buf_free(&io->out.queue);
	buf_free(&io->err.queue);
	free(steal_ptr(&io->input));
}
