/* SPDX-License-Identifier: Apache-2.0 */
/* Redirections and here-documents of a command. */
#ifndef CORDON_GATE_SHELL_REDIRECT_H
#define CORDON_GATE_SHELL_REDIRECT_H

#include "gate/shell.h"

/* What the grammar puts inside a here-document although it comes after it on the line. */
struct after {
	uint32_t pipe, right; /* nodes; 0: none */
	struct fields args;
};

/* All redirections among the children of n. */
void redirects(struct shell *sh, uint32_t n, struct command *c, struct after *after);

#endif
