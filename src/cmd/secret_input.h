/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CMD_SECRET_INPUT_H
#define CORDON_CMD_SECRET_INPUT_H

#include "secrets/store.h"

/* Where the value of a secret comes from, if not from standard input; at most one is set. */
struct secret_source {
	const char *variable, *file;
};

/*
 * Begins `out` with the value of the secret `name`: asks for it, without showing it, where standard input is a terminal. *signo: the signal that ended the question, 0: none;
 * the result is -1 then, without an error.
 */
int secret_input(const struct secret_source *from, const char *name, struct secret *out, int *signo, struct cordon_error *err);

#endif
