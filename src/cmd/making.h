/* SPDX-License-Identifier: Apache-2.0 */
/* What `create`, `try` and `run --keep` give a new sandbox that stays: lists made from options and from the caller's environment. */
#ifndef CORDON_CMD_MAKING_H
#define CORDON_CMD_MAKING_H

#include "cmd/options.h"
#include "cordon.h"
#include "policy/policy.h"

struct making {
	struct strlist settings; /* "limits.memory=1G" */
	struct strlist env;      /* "K=V" */
	struct cordon_mount *mounts;
	size_t mount_count;
	struct strlist own_env; /* env.set of a policy file: "K=V" */
	bool no_toolchains;     /* the policy file starts from a profile that has none */
};
void making_free(struct making *m);
#define _cleanup_making_ __attribute__((cleanup(making_free)))

/* "HOST:GUEST[:rw]", which the policy then allows. Links on the host's side are resolved now. */
int making_mount(struct making *m, const char *item, struct cordon_error *err);
/* "K=V", or "K" for the caller's own value. */
int making_env(struct making *m, const char *item, struct cordon_error *err);
/* "rollback" or "keep": for a command that fails, and for one that is ended from outside. NULL: nothing was said. */
int making_on_failure(struct making *m, const char *action, struct cordon_error *err);
/* A policy file, over the profile (NULL: default), below what options have set so far. */
int making_policy(struct making *m, const char *file, const char *profile, struct cordon_error *err);
/* Those of the host are no use on another root. */
bool making_wants_toolchains(bool no_toolchains, const char *image);
/* The programs on the caller's PATH that do not come with the system. workspace: seen inside anyway; NULL: none. */
int making_toolchains(struct making *m, const char *workspace, struct cordon_error *err);
int making_setting(struct making *m, const char *key, const char *value, struct cordon_error *err);

/* Their options; the defaults are those of the profile dev. */
/* clang-format off */
#define MAKING_LIMIT_ROWS \
	NETWORK_ROWS, \
	{.group = "Limits", .name = "timeout", .argument = "TIME", .policy_key = "limits.timeout", .fallback = "10m", \
	 .help = "end a command after this long"}, \
	{.name = "memory", .argument = "SIZE", .policy_key = "limits.memory", .fallback = "half of the machine's", \
	 .help = "memory of all its processes together"}, \
	{.name = "cpus", .argument = "N", .policy_key = "limits.cpus", .fallback = "all", .help = "CPUs; 0.5 is half of one"}, \
	{.name = "pids", .argument = "N", .policy_key = "limits.pids", .fallback = "1024", .help = "processes and threads at a time"}, \
	{.name = "max-output", .argument = "SIZE", .policy_key = "limits.max_output", .fallback = "16M", \
	 .help = "output of each stream; what is beyond is cut"}, \
	{.name = "disk", .argument = "SIZE", .policy_key = "limits.disk", .fallback = "10G", \
	 .help = "what it may write to /app and its home"}, \
	{.name = "strict", .policy_key = "limits.strict", .help = "refuse limits that this host holds only in a weaker form"}, \
	{.name = "allow-weak", .argument = "NAME", .policy_key = "weak.allow", .complete = COMPLETE_WORDS, \
	 .words = "memory pids cpu disk landlock", \
	 .help = "accept a guarantee in a weaker form (see cordon doctor); may be repeated"}
/* clang-format on */

#endif
