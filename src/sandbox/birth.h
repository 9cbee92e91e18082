/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first moments of a sandbox, inside its new namespaces: wait for the order, build the file system, join network and cgroups, give up power,
 * become init. The process may be born before anybody has asked for a sandbox: its network namespace, which takes longest, is made meanwhile. The
 * launcher's half runs at the same time and hands over what can only be made outside, in this order: the order, when the id maps are
 * written; the mounts (mounts.h); the v1 cgroups' task files.
 */
#ifndef CORDON_SANDBOX_BIRTH_H
#define CORDON_SANDBOX_BIRTH_H

#include "sandbox/idmap.h"
#include "sandbox/limits.h"
#include "sandbox/spec.h"

/* What to become. */
struct birth_order {
	struct idmap ids;
	enum limit_method memory, pids, cpu; /* by what the limits are held */
	const char *scratch;                 /* path */
	const void *spec;                    /* a struct sandbox_spec, encoded */
	size_t spec_len;
};
int birth_send(int handshake, const struct birth_order *o, int sock, struct cordon_error *err);

/* Runs in the new process and becomes its init; a failure is reported over the order's socket. network: it gets one of its own. */
_Noreturn void birth_run(int handshake, bool network);

/* The Landlock ruleset that the spec asks for, over the paths as they are now; a descriptor. */
int birth_ruleset(const struct sandbox_spec *spec, struct cordon_error *err);

#endif
