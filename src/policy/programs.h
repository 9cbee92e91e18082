/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.allow and process.deny name programs, but what is allowed or denied in the end is a file: where one file goes by several names (busybox, vim
 * and vi), what is said about one holds for all. This finds the names that a policy did not mean. Part of cordon-full only.
 */
#ifndef CORDON_POLICY_PROGRAMS_H
#define CORDON_POLICY_PROGRAMS_H

#include "policy/load.h"

/*
 * Looks at the programs in these directories below `root` (NULL: this machine's own). A denied file that process.allow lists by another name, or that is
 * also the shell `sh` although shells may run, is a problem: nothing would work as it reads. Other names that go with a denied file are
 * told to `remark`. Returns how many problems there are, or -1 with err set.
 */
int policy_check_programs(const struct cordon_policy *p, const struct policy_origins *o, const char *root, policy_problem_fn *report,
                          policy_problem_fn *remark, void *user, struct cordon_error *err);

#endif
