/* SPDX-License-Identifier: Apache-2.0 */
/* A question to the person at the terminal. */
#ifndef CORDON_CMD_ASK_H
#define CORDON_CMD_ASK_H

#include <stdbool.h>

/* Whether there is somebody to ask: stdin and stderr are terminals. */
bool ask_possible(void);

/*
 * Prints the question on stderr and waits for one key out of `keys`; no line feed is needed. Return gives the fallback, and so does the end of input
 * or Ctrl-C. What was typed before the question is dropped: it was meant for something else.
 */
char ask_key(const char *question, const char *keys, char fallback);

#endif
