/* SPDX-License-Identifier: Apache-2.0 */
/* A question to the person at the terminal. */
#ifndef CORDON_CMD_ASK_H
#define CORDON_CMD_ASK_H

#include <stdbool.h>

/* Whether there is somebody to ask: stdin and stderr are terminals. */
bool ask_possible(void);

struct question {
	const char *text;
	const char *keys; /* one of these is an answer */
	char enter;       /* what Return stands for; 0: nothing */
	char fallback;    /* what the end of input, Ctrl-C or a signal stand for */
};

/*
 * Prints the question on stderr and waits for one key; no line feed is needed. Where the key is no answer, it is asked again. What was typed before the
 * question is dropped: it was meant for something else.
 */
char ask_key(const struct question *q);

#endif
