/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock as the second wall behind the mounts: what the policy does not make writable is not writable even if a mount were, nothing
 * under /proc can be written (so /proc/self/mem cannot patch read-only code), no device ioctls but on terminals, and signals and
 * abstract sockets stay inside the domain where the kernel can do that (ABI 6).
 */
#ifndef CORDON_SANDBOX_LANDLOCK_H
#define CORDON_SANDBOX_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct landlock_rule {
	const char *path; /* absolute; missing paths are skipped when optional */
	enum {
		LANDLOCK_RX,
		LANDLOCK_RW,
		LANDLOCK_RWX,
		LANDLOCK_TTY,
		LANDLOCK_DEV,
		LANDLOCK_R,
		LANDLOCK_X,    /* added to what another rule grants */
		LANDLOCK_LIST, /* names, no contents */
		LANDLOCK_ACCESS_COUNT
	} access;
	bool optional;
};

/* The ABI of the running kernel: 0 if Landlock is missing or off. */
int landlock_abi(void);

/* Builds a ruleset for the calling process's view of the file system; returns its descriptor (O_CLOEXEC) or -1. */
int landlock_ruleset(const struct landlock_rule *rules, size_t count, struct cordon_error *err);

/* Binds the calling thread to it; needs no_new_privs. Async-signal-safe. 0 or -errno. */
int landlock_restrict(int ruleset_fd);

#endif
