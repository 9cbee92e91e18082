/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs on the caller's PATH that do not come with the system (nvm, cargo, pyenv, conda, /opt, /nix …), for the `dev` profile: which
 * directories of the host have to be shown inside for them to work, which PATH then finds them, and what they must be told. Nothing is run and
 * nothing is written; the answer depends on the environment that is passed in, the user database and the file system.
 *
 * Credentials stay outside: directories of the forbidden list are never shown, of a toolchain's home only the parts that its programs need, and
 * known files with credentials are left out of whatever is shown.
 */
#ifndef CORDON_POLICY_TOOLCHAINS_H
#define CORDON_POLICY_TOOLCHAINS_H

#include "policy/policy.h"

struct toolchain_search {
	char *const *env;             /* the caller's environment: PATH, HOME, VIRTUAL_ENV … */
	const char *workspace;        /* absolute; what lies in it is seen inside anyway, at the same path. NULL: none */
	const struct strlist *forbid; /* the policy's mounts.forbid; NULL: none */
};

#define TOOLCHAIN_MOUNTS_MAX 40 /* the rest of what a sandbox can take is for the caller's own mounts */

struct toolchain_list {
	struct strlist mounts;  /* directories and files: to be mounted read-only, each at its own path. None lies in another */
	struct strlist env;     /* for env.set: first "PATH=…", then what else the programs need (RUSTUP_HOME=…) */
	struct strlist skipped; /* "DIRECTORY: why it is not shown", for people who wonder */
};

/* Fills in *out; release with toolchains_free(), also after a failure. The only failure is lack of memory. */
int toolchains_find(const struct toolchain_search *what, struct toolchain_list *out, struct cordon_error *err);
void toolchains_free(struct toolchain_list *l);

/* Lets a policy grant them: adds to mounts.read and env.set. The mounts themselves are the caller's to ask for. */
int toolchains_apply(const struct toolchain_list *l, struct cordon_policy *p, struct cordon_error *err);

#endif
