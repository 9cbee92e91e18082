/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `cordon policy` share: policy_table.c (its options, in every program), policy.c, policy_explain.c (in cordon-full). */
#ifndef CORDON_CMD_POLICY_H
#define CORDON_CMD_POLICY_H

#include "base/buf.h"
#include "cmd/cmd.h"
#include "policy/policy.h"

struct policy_options {
	const char *profile, *policy, *ceiling;
	const char *path, *host, *command, *code, *lang;
	struct strlist set;
	bool json, force, write, execute, markdown;
};

/* Prints an error, with --json as an object on stdout, too. Returns 125. */
int policy_fail(const struct policy_options *o, const struct cordon_error *err);
/* Prints what was written; 125 if memory ran out, else status. */
int policy_show(const struct policy_options *o, struct buf *out, int status);

/* `cordon policy explain` */
int policy_explain(const struct policy_options *o);

#endif
