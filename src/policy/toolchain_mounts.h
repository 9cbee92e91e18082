/* SPDX-License-Identifier: Apache-2.0 */
/* What of the host may be shown inside without being asked for: the part of toolchains.c that says no. */
#ifndef CORDON_POLICY_TOOLCHAIN_MOUNTS_H
#define CORDON_POLICY_TOOLCHAIN_MOUNTS_H

#include "policy/toolchains.h"

#define NEVER_SHOWN "it is, or lies in, a directory that is never shown"

struct toolchain_mounts {
	struct strlist forbid;    /* under the names they have, and under their real ones */
	struct strlist workspace; /* the same */
	struct strlist split;     /* directories that are shown child by child, because of credentials in them */
	struct toolchain_list *out;
};

int toolchain_mounts_init(struct toolchain_mounts *m, const struct toolchain_search *what, const char *home, struct toolchain_list *out,
                          struct cordon_error *err);
void toolchain_mounts_free(struct toolchain_mounts *m);
/* One more directory that is never shown. */
int toolchain_forbid(struct toolchain_mounts *m, const char *path, struct cordon_error *err);

/* Will this path exist inside, as a part of the system, of the workspace or of what is shown? */
bool toolchain_shown(const struct toolchain_mounts *m, const char *path);
/* Is it shown, or anything in it? */
bool toolchain_shown_in_part(const struct toolchain_mounts *m, const char *path);
bool toolchain_in_system(const char *path);
bool toolchain_in_workspace(const struct toolchain_mounts *m, const char *path);
/* Does it lie in a directory that is never shown? */
bool toolchain_forbidden(const struct toolchain_mounts *m, const char *path);

/*
 * Shows a file or directory (absolute, normalised) without the credentials in it: those that are known everywhere, and `secrets`, patterns
 * relative to it with spaces between them, where "*" stands for one name; NULL: none. What must not be shown is noted in `skipped`, what does
 * not exist is not. -1 only for lack of memory.
 */
int toolchain_show(struct toolchain_mounts *m, const char *path, const char *secrets, struct cordon_error *err);

/* One "PATH: why" for the user, once. */
int toolchain_skip(struct toolchain_mounts *m, const char *path, const char *why, struct cordon_error *err);

#endif
