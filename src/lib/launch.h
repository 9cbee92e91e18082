/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a launcher (sandbox/launcher.h), which the library carries within itself. */
#ifndef CORDON_LIB_LAUNCH_H
#define CORDON_LIB_LAUNCH_H

#include <sys/types.h>

#include "base/err.h"

/* sock: the launcher's end of the request socket, which stays the caller's. */
int launch(int sock, pid_t *pid, struct cordon_error *err);

#endif
