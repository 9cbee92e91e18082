/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount security (D2). The check is made on an open descriptor, and that same descriptor is what gets mounted: between the check and the
 * mount there is no path to swap.
 */
#ifndef CORDON_SANDBOX_MOUNT_RULES_H
#define CORDON_SANDBOX_MOUNT_RULES_H

#include <stdbool.h>

#include "base/err.h"
#include "sandbox/spec.h"

/* Refuses what is forbidden by its name alone, for objects that cannot be opened. 0 if the name says nothing. */
int mount_rules_check_name(const char *name, const struct string_list *forbid, struct cordon_error *err);

/*
 * May the object behind fd (O_PATH) be mounted? Refused if it is a forbidden path, lies below one, contains one, or is the same inode
 * under another name; and unless it lies within an entry of `read` (`write` when writable). `name` is what the user wrote, for messages.
 */
int mount_rules_check(int fd, const char *name, bool writable, const struct string_list *forbid, const struct string_list *read,
                      const struct string_list *write, struct cordon_error *err);

#endif
