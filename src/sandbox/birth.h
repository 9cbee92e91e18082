/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first moments of a sandbox, inside its new namespaces: build the file system, join network and cgroups, give up power, become init.
 * The launcher's half runs at the same time and hands over what can only be made outside, in this order: the word that the id maps are
 * written, the mounts (mounts.h), the v1 cgroups' task files.
 */
#ifndef CORDON_SANDBOX_BIRTH_H
#define CORDON_SANDBOX_BIRTH_H

#include "sandbox/idmap.h"
#include "sandbox/limits.h"
#include "sandbox/spec.h"

struct birth {
	const struct sandbox_spec *spec;
	const struct idmap *ids;
	const struct limits *limits;
	const char *scratch; /* path */
	bool queued;         /* see struct sandbox */
	int sock, handshake;
};

/* Runs in the new process and becomes its init; a failure is reported over sock. */
_Noreturn void birth_run(struct birth *b);

/* The Landlock ruleset that the spec asks for, over the paths as they are now and as the sandbox's user finds them; a descriptor. */
int birth_ruleset(const struct sandbox_spec *spec, const struct idmap *ids, struct cordon_error *err);

#endif
