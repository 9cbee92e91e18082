/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy says about one path, program or host. Enforcement and `cordon policy explain` both ask here, so that what is explained is what
 * happens.
 *
 * Paths. A rule matches a path if its pattern (base/glob.h) does; "X/" "**" stands for X as well, so that a directory whose contents may be read
 * can be listed. A pattern whose last name has no wildcard, and any of a list that denies, matches all that is below as well. files.deny wins over
 * everything; files.write allows reading, too. What the system consists of (policy_system_paths) can be read without a rule. With files.hidden false, wildcards of files.read and files.write do not match
 * names that begin with a dot: every such name of the path must be spelled out in the pattern, before its first wildcard.
 *
 * Programs. A rule without a slash is matched with the file's name, where commands can write nothing (what they bring along does not run for its name); one
 * with slashes is matched with the path. process.deny wins over process.allow; process.shell false denies the shells (policy_shells).
 *
 * Hosts. network.deny wins over network.outbound; the sandbox's own loopback is a matter of network.localhost alone.
 */
#ifndef CORDON_POLICY_MATCH_H
#define CORDON_POLICY_MATCH_H

#include "policy/host.h"
#include "policy/policy.h"

enum policy_access { ACCESS_READ, ACCESS_WRITE, ACCESS_EXECUTE };

struct policy_verdict {
	bool allowed;
	const char *key;  /* "files.deny": what decided */
	const char *rule; /* the entry of that list, pointing into the policy; NULL: none of them did, or it is no list */
	size_t index;     /* of the entry */
	const char *why;  /* one line, no full stop */
};

/* path: absolute and normal, as policy_normal_path() makes it (policy/items.h). */
void policy_match_path(const struct cordon_policy *p, const char *path, enum policy_access access, struct policy_verdict *out);

/* May this file be started as a program? By process.* only; policy_match_path() with ACCESS_EXECUTE asks files.*, too. */
void policy_match_program(const struct cordon_policy *p, const char *path, struct policy_verdict *out);

void policy_match_host(const struct cordon_policy *p, const struct host_target *host, uint16_t port, struct policy_verdict *out);

/* Trees that every program needs to start at all. NULL-terminated. */
extern const char *const policy_system_paths[];
/* Those of them (devices, terminals) that can be written without a rule; nothing in /proc can, with or without one. NULL-terminated. */
extern const char *const policy_system_writable[];
/* Where programs lie inside; some may be links to others. NULL-terminated. */
extern const char *const policy_program_dirs[];
/* Trees of the sandbox that commands can write to: programs there are what somebody brought. NULL-terminated. */
extern const char *const policy_brought_paths[];
/* process.allow names no program, but "*". */
bool policy_runs_anything(const struct cordon_policy *p);
/* File names of shells. NULL-terminated. */
extern const char *const policy_shells[];

#endif
