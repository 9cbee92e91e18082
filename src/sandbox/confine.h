/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up power: capabilities, no_new_privs, resource limits. All of it async-signal-safe, for use between clone and exec. */
#ifndef CORDON_SANDBOX_CONFINE_H
#define CORDON_SANDBOX_CONFINE_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

/* Keeps, of those we have, the capabilities in `keep` (bit = number); none inheritable or ambient. 0 or -errno. */
int confine_capabilities(uint64_t keep);

/*
 * What package managers need of root, over the files and processes of the sandbox's own user namespace: owners and modes, to become other users, to signal them. Nothing
 * that mounts, traces, loads, makes devices or configures.
 */
#define CONFINE_ROOT                                                                                                                      \
	(1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_FSETID | 1ull << CAP_KILL | 1ull << CAP_SETGID | \
	 1ull << CAP_SETUID)

/* Empties the bounding set but for `keep`, so that no exec can ever gain another capability. Needs CAP_SETPCAP. 0 or -errno. */
int confine_bounding_set(uint64_t keep);

/* For the test-only weakened build: keeps every capability across a change of user and an exec. */
int confine_keep_all_capabilities(void);

struct confine_limits {
	uint64_t files; /* open files per process */
	uint64_t disk;  /* largest file */
	uint64_t data;  /* 0: none; bytes of private memory per process */
	uint64_t procs; /* 0: none; processes of this user in this user namespace */
};
int confine_rlimits(const struct confine_limits *l);

/*
 * For this process and all that it becomes: memory that was not executable when it was mapped never will be, and none is writable and executable
 * (PR_SET_MDWE, Linux 6.3). confine_has_no_exec_gain(): the kernel has it. 0 or -errno.
 */
bool confine_has_no_exec_gain(void);
int confine_no_exec_gain(void);

/* Closes every descriptor from `first` up. 0 or -errno. */
int confine_close_from(unsigned first);

/* Closes every descriptor but those listed (sorted in place; duplicates and -1 are fine). */
int confine_close_except(int *keep, unsigned count);

#endif
