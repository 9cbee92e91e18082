/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How our own processes that read hostile bytes give up what they do not need, all of them the same way: their user, every file, every capability, and every system call
 * but those of a table. What cannot be given up is an error; Landlock is left out where the kernel has none, since no call that opens a file is left either.
 */
#ifndef CORDON_SANDBOX_LOCKDOWN_H
#define CORDON_SANDBOX_LOCKDOWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"

#define LOCKDOWN_CALLS_MAX 64
#define LOCKDOWN_LIMITED_MAX 8
#define LOCKDOWN_CONDITIONS 3
#define LOCKDOWN_VALUES 5

/* (argument & mask) must be one of these; only its low half is looked at. */
struct lockdown_condition {
	uint8_t argument, count;
	uint32_t mask, values[LOCKDOWN_VALUES];
};

/* A system call that is allowed with some arguments only. */
struct lockdown_limited {
	int nr;
	struct lockdown_condition conditions[LOCKDOWN_CONDITIONS];
};

struct lockdown {
	const char *who;  /* "the gate" */
	const int *calls; /* the rest answers EPERM */
	size_t call_count;
	const struct lockdown_limited *limited;
	size_t limited_count;
	rlim_t memory; /* bytes of address space */
	rlim_t files;  /* bytes that may be written to one, which a memfd is, too */
};

/* Once, when everything that is needed is open. */
int lockdown(const struct lockdown *l, struct cordon_error *err);

#endif
