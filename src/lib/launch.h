/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a launcher (sandbox/launcher.h). There are two ways, and each program is linked with one of them: the library executes the
 * launcher that it carries within itself (launch_exec.c), whatever its caller is like; the command, small and with a single thread, forks (cmd/launch_fork.c), which
 * saves an exec at every start.
 */
#ifndef CORDON_LIB_LAUNCH_H
#define CORDON_LIB_LAUNCH_H

#include <sys/types.h>

#include "base/err.h"

/* sock: the launcher's end of the request socket, which stays the caller's. */
int launch(int sock, pid_t *pid, struct cordon_error *err);

#endif
