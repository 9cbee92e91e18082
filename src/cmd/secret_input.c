/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a secret from outside: standard input, a file, a variable, or somebody at the terminal. At the terminal it is read key by key and not by line, since a line
 * there ends at 4095 bytes without a word (termios(3)), and an access token can be longer.
 */
#include "cmd/secret_input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/util.h"

enum { CTRL_C = 3, CTRL_D = 4, BACKSPACE = 8, LINE_FEED = 10, RETURN = 13, CTRL_U = 21, FIRST_PRINTABLE = 32, DELETE = 127 };

/* ---- at the terminal ------------------------------------------------------------------------------------------------------------ */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static volatile sig_atomic_t ended_by;

static void on_signal(int signo)
{
	ended_by = signo;
}

struct terminal {
	struct termios before;
	struct sigaction actions[ARRAY_SIZE(ending)];
	sigset_t mask, during; /* the signals are let in only while nothing else happens, so none is missed */
};

static int begin_hidden(struct terminal *t)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct termios now;
	sigset_t blocked;

	if (tcgetattr(STDIN_FILENO, &t->before) < 0)
		return -1;
	ended_by = 0;
	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		sigaddset(&blocked, ending[i]);
		sigaction(ending[i], &action, &t->actions[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, &t->mask);
	t->during = t->mask;
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigdelset(&t->during, ending[i]);
	now = t->before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSAFLUSH, &now);
}

static void end_hidden(const struct terminal *t)
{
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->before); /* what is behind the value is not for the shell either */
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigaction(ending[i], &t->actions[i], NULL);
	sigprocmask(SIG_SETMASK, &t->mask, NULL);
}

/* One byte; -1: there are no more, or a signal came. */
static int next_key(const struct terminal *t)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char c;
	ssize_t n = -1;

	if (ppoll(&p, 1, NULL, &t->during) > 0)
		n = read(STDIN_FILENO, &c, 1);
	return n == 1 ? c : -1;
}

/* A character, all of its bytes. */
static void erase_one(struct secret *s)
{
	while (s->len > 0 && ((unsigned char)s->data[s->len - 1] & 0xc0) == 0x80)
		s->len--;
	if (s->len > 0)
		s->len--;
}

/* Takes keys up to the end of the line. False: there was one that nobody can mean. */
static bool take_keys(const struct terminal *t, struct secret *s)
{
	bool fine = true;

	for (;;) {
		int c = next_key(t);

		if (c == CTRL_C)
			ended_by = SIGINT;
		if (c < 0 || c == CTRL_C || c == CTRL_D || c == RETURN || c == LINE_FEED)
			return fine;
		if (c == BACKSPACE || c == DELETE)
			erase_one(s);
		else if (c == CTRL_U)
			s->len = 0;
		else if (c < FIRST_PRINTABLE && c != '\t')
			fine = false; /* an arrow, say: what follows it would be taken for a part of the value */
		else if (s->len <= SECRET_VALUE_MAX)
			s->data[s->len++] = (char)c;
	}
}

static int ask(const char *name, struct secret *out, int *signo, struct cordon_error *err)
{
	struct terminal t;

	if (secret_begin(out, err) < 0)
		return -1;
	if (begin_hidden(&t) < 0)
		return err_sys(err, "cannot use the terminal");
	fprintf(stderr, "value of %s (it is not shown): ", name);
	fflush(stderr);
	bool fine = take_keys(&t, out);
	end_hidden(&t);
	fputc('\n', stderr);
	*signo = ended_by;
	if (*signo)
		return -1;
	if (fine) {
		out->data[MIN(out->len, SECRET_VALUE_MAX)] = '\0';
		return secret_check(out, "what was typed", err);
	}
	err_set(err, CORDON_ERR_INPUT, "there was a control character in what was typed; nothing was stored");
	return err_hint(err, "--from-file, or standard input from a pipe, takes any bytes but NUL");
}

/* ---- the others ---------------------------------------------------------------------------------------------------------------- */

static int from_file(const char *path, struct secret *out, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? err_sys(err, "cannot open %s", path) : secret_read(out, fd, "the file", err);
}

static int from_variable(const char *name, struct secret *out, struct cordon_error *err)
{
	char *value = getenv(name);

	if (!value) {
		err_set(err, CORDON_ERR_NOT_FOUND, "the variable is not set");
		return err_hint(err, "--from-env takes the name of an exported variable, not a value");
	}
	int r = secret_copy(out, value, "the variable", err);
	explicit_bzero(value, strlen(value)); /* /proc/PID/environ shows it, too */
	return r;
}

int secret_input(const struct secret_source *from, const char *name, struct secret *out, int *signo, struct cordon_error *err)
{
	*signo = 0;
	if (from->file)
		return from_file(from->file, out, err);
	if (from->variable)
		return from_variable(from->variable, out, err);
	if (isatty(STDIN_FILENO))
		return ask(name, out, signo, err);
	return secret_read(out, STDIN_FILENO, "standard input", err);
}
