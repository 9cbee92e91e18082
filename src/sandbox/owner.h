/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owner stamps: what a launcher leaves in shared places (cgroups, scratch directories) is named "PIDNSINODE-PID-STARTTIME.ID", so that
 * anyone can tell whether its owner still lives, without a lock file and without being fooled by a reused pid or another pid namespace.
 */
#ifndef CORDON_SANDBOX_OWNER_H
#define CORDON_SANDBOX_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/* Our own stamp, "PIDNSINODE-PID-STARTTIME"; false if /proc does not tell. */
bool owner_stamp(char *buf, size_t size);

/* True only if the name carries a stamp of our pid namespace whose process is gone. */
bool owner_is_dead(const char *name);

#endif
