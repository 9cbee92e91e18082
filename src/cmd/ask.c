/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/ask.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/util.h"

enum { CTRL_C = 3, CTRL_D = 4, ESCAPE = 27 };

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Does nothing but end a wait; who was it is asked of the kernel. */
static void on_signal(int signo)
{
	(void)signo;
}

bool ask_possible(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* One key. 0: none that means anything. `during`: the signals that are let through while nothing else happens. */
static char wait_key(const struct question *q, const sigset_t *during)
{
	for (;;) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		char c;

		if (ppoll(&p, 1, NULL, during) < 0)
			return q->fallback; /* a signal */
		ssize_t n = read(STDIN_FILENO, &c, 1);
		if (n <= 0 || c == CTRL_C || c == CTRL_D)
			return q->fallback;
		if (c == '\r' || c == '\n')
			return q->enter;
		if (c == ESCAPE) { /* an arrow or the like: its rest is no answer either */
			tcflush(STDIN_FILENO, TCIFLUSH);
			continue;
		}
		c = (char)tolower((unsigned char)c);
		return c && strchr(q->keys, c) ? c : '\0';
	}
}

char ask_key(const struct question *q)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct sigaction old[ARRAY_SIZE(ending)];
	struct termios before, now;
	sigset_t blocked, mask, during;

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return q->fallback;
	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		sigaddset(&blocked, ending[i]);
		sigaction(ending[i], &action, &old[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, &mask);
	during = mask;
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigdelset(&during, ending[i]);
	now = before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &now); /* before the question: what is typed from then on is an answer */
	fputs(q->text, stderr);
	fflush(stderr);
	char c;
	while (!(c = wait_key(q, &during)))
		fprintf(stderr, "\n%s", q->text); /* a slip of the finger decides nothing */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigaction(ending[i], &old[i], NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	fprintf(stderr, "%c\n", c);
	return c;
}
