/* SPDX-License-Identifier: Apache-2.0 */
/* A context: one launcher and where state lives. */
#ifndef CORDON_LIB_CONTEXT_H
#define CORDON_LIB_CONTEXT_H

#include <sys/types.h>

struct cordon {
	int requests; /* socket to the launcher; a message is one atomic send, so threads need no lock */
	pid_t launcher;
	char *home; /* $CORDON_HOME, absolute */
};

/* A random id, [a-z0-9]{20}. */
void id_new(char id[21]);

#endif
