/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a policy. This table is what the options, the C API, the policy file, its schema and its reference are made from. */
#include <string.h>

#include "base/util.h"
#include "policy/items.h"
#include "policy/maps.h"
#include "policy/policy.h"

#define KB ((uint64_t)1024)
#define MB (KB * 1024)
#define GB (MB * 1024)
#define PB (GB * 1024 * 1024)
#define YEAR_MS ((uint64_t)365 * 24 * 3600 * 1000)
#define FIELD(member) offsetof(struct cordon_policy, member)

const char *const tx_action_names[] = {[TX_ROLLBACK] = "rollback", [TX_KEEP] = "keep", [TX_ACTION_COUNT] = NULL};
static const char *const root_names[] = {[ROOT_READONLY] = "readonly", [ROOT_LAYERED] = "layered", [ROOT_COUNT] = NULL};
static const char *const action_names[] = {[ACTION_ALLOW] = "allow", [ACTION_WARN] = "warn", [ACTION_DENY] = "deny", [ACTION_COUNT] = NULL};
static const char *const unproven_names[] = {[UNPROVEN_ALLOW] = "allow", [UNPROVEN_DENY] = "deny", [UNPROVEN_COUNT] = NULL};
static const char *const sync_names[] = {[SYNC_RESULT] = "result", [SYNC_SEAL] = "seal", [SYNC_COUNT] = NULL};
static const char *const for_ever[] = {"forever", NULL}, *const no_limit[] = {"unlimited", NULL};

/* The default of a list is written as its items with ", " between them; no item of a default contains that. */
/* clang-format off */
const struct policy_key policy_keys[] = {
	{.name = "limits.timeout", .type = POLICY_DURATION, .offset = FIELD(limits.timeout_ms), .min = 1, .max = YEAR_MS, .fallback = "60s",
	 .help = "time a command may take"},
	{.name = "limits.memory", .type = POLICY_SIZE, .offset = FIELD(limits.memory), .min = 4 * MB, .max = PB, .fallback = "512M",
	 .help = "memory of everything in the sandbox together"},
	{.name = "limits.cpus", .type = POLICY_CPUS, .offset = FIELD(limits.cpus_milli), .min = 10, .max = 1024 * 1000, .fallback = "1",
	 .help = "CPUs, in whole or in part (0.5)"},
	{.name = "limits.pids", .type = POLICY_COUNT, .offset = FIELD(limits.pids), .min = 1, .max = 100000, .fallback = "50",
	 .help = "processes and threads at a time"},
	{.name = "limits.max_output", .type = POLICY_SIZE, .offset = FIELD(limits.max_output), .min = 1, .max = GB, .fallback = "1M",
	 .help = "output that is kept of each stream"},
	{.name = "limits.disk", .type = POLICY_SIZE, .offset = FIELD(limits.disk), .min = MB, .max = PB, .fallback = "1G",
	 .help = "what may be written to the workspace and the home together"},
	{.name = "limits.files", .type = POLICY_COUNT, .offset = FIELD(limits.files), .min = 16, .max = 1048576, .fallback = "1024",
	 .help = "open files of one process"},
	{.name = "limits.strict", .type = POLICY_BOOL, .offset = FIELD(limits.strict), .max = 1, .fallback = "false",
	 .help = "refuse limits that this host can only hold in a weaker form"},

	{.name = "env.allow", .type = POLICY_LIST, .offset = FIELD(env_allow), .fallback = "LANG, TERM, PYTHONUNBUFFERED", .item = &item_variable,
	 .help = "variables taken over from the caller's environment"},
	{.name = "env.set", .type = POLICY_ASSIGN_LIST, .offset = FIELD(env_set),
	 .fallback = "HOME=/home/user, PATH=" POLICY_PATH ", USER=user, LOGNAME=user, SHELL=/bin/sh, TMPDIR=/tmp",
	 .help = "variables with a value, as NAME=VALUE"},

	{.name = "root", .type = POLICY_WORD, .offset = FIELD(root), .fallback = "readonly", .words = root_names,
	 .help = "the system inside: readonly, or layered: packages can be installed, and stay with the sandbox"},

	{.name = "files.read", .type = POLICY_LIST, .offset = FIELD(files.read), .fallback = "/**", .item = &item_inside_glob,
	 .help = "paths inside that may be read, besides the system's own (/usr, /etc, /proc, /dev ...)"},
	{.name = "files.write", .type = POLICY_LIST, .offset = FIELD(files.write), .fallback = "/**", .item = &item_inside_glob,
	 .help = "paths inside that may be written (and read), where what is mounted there is writable"},
	{.name = "files.deny", .type = POLICY_LIST, .offset = FIELD(files.deny), .item = &item_inside_glob, .accumulates = true,
	 .help = "paths inside that may be neither read nor written, whatever else is said"},
	{.name = "files.hidden", .type = POLICY_BOOL, .offset = FIELD(files.hidden), .max = 1, .fallback = "true",
	 .help = "wildcards of files.read and files.write match names that begin with a dot, too"},

	{.name = "network.outbound", .type = POLICY_MAPS, .offset = FIELD(network.outbound), .map = &map_outbound,
	 .help = "hosts that may be reached"},
	{.name = "network.deny", .type = POLICY_LIST, .offset = FIELD(network.deny), .item = &item_host, .accumulates = true,
	 .help = "hosts that may not be reached, whatever network.outbound says"},
	{.name = "network.inbound", .type = POLICY_MAPS, .offset = FIELD(network.inbound), .map = &map_inbound,
	 .help = "ports inside that are published on the host's loopback"},
	{.name = "network.localhost", .type = POLICY_BOOL, .offset = FIELD(network.localhost), .max = 1, .fallback = "true",
	 .help = "servers and clients inside may talk to each other over the sandbox's own loopback"},
	{.name = "network.connections", .type = POLICY_COUNT, .offset = FIELD(network.connections), .min = 1, .max = 1000, .fallback = "1000",
	 .help = "connections to others at a time; more of them wait"},
	{.name = "network.bandwidth", .type = POLICY_SIZE, .offset = FIELD(network.bandwidth), .min = KB, .max = PB, .fallback = "unlimited",
	 .words = no_limit, .help = "bytes per second of all connections together, both ways"},

	{.name = "process.subprocess", .type = POLICY_BOOL, .offset = FIELD(process.subprocess), .max = 1, .fallback = "true",
	 .help = "a command may start others"},
	{.name = "process.shell", .type = POLICY_BOOL, .offset = FIELD(process.shell), .max = 1, .fallback = "true",
	 .help = "shells (sh, bash, dash, zsh ...) may run"},
	{.name = "process.allow", .type = POLICY_LIST, .offset = FIELD(process.allow), .fallback = "*", .item = &item_program,
	 .help = "programs that may run: names, patterns of names, or patterns of absolute paths"},
	{.name = "process.deny", .type = POLICY_LIST, .offset = FIELD(process.deny), .item = &item_program, .accumulates = true,
	 .help = "programs that may neither run nor be read, whatever process.allow says"},
	{.name = "process.native", .type = POLICY_BOOL, .offset = FIELD(process.native), .max = 1, .fallback = "true",
	 .help = "native code may come from elsewhere than the image; false costs Node its JIT and keeps native modules out of /app"},
	{.name = "process.max", .type = POLICY_COUNT, .offset = FIELD(limits.pids), .min = 1, .max = 100000, .alias = "limits.pids",
	 .help = "another name of limits.pids; only one of the two may be given"},

	{.name = "patterns.use", .type = POLICY_LIST, .offset = FIELD(patterns.use), .fallback = "python-dangerous, shell-destructive",
	 .item = &item_pack, .help = "rule packs that commands and code are checked against before they run"},
	{.name = "patterns.add", .type = POLICY_MAPS, .offset = FIELD(patterns.add), .map = &map_pattern, .help = "rules of your own"},
	{.name = "patterns.action", .type = POLICY_WORD, .offset = FIELD(patterns.action), .fallback = "warn", .words = action_names,
	 .help = "what a finding does: allow, warn (run and audit it) or deny (do not run)"},
	{.name = "patterns.unproven", .type = POLICY_WORD, .offset = FIELD(patterns.unproven), .fallback = "allow", .words = unproven_names,
	 .help = "what becomes of a text that cannot be judged: allow (the kernel holds all the same) or deny"},

	{.name = "mounts.read", .type = POLICY_LIST, .offset = FIELD(mounts_read), .item = &item_host_path,
	 .help = "host paths that may be mounted read-only"},
	{.name = "mounts.write", .type = POLICY_LIST, .offset = FIELD(mounts_write), .item = &item_host_path,
	 .help = "host paths that may be mounted writable"},
	{.name = "mounts.forbid", .type = POLICY_LIST, .offset = FIELD(mounts_forbid), .item = &item_host_path, .accumulates = true,
	 .help = "host paths that may not be mounted, besides the built-in ones"},

	{.name = "transaction.exit", .type = POLICY_WORD, .offset = FIELD(transaction.exit), .fallback = "rollback", .words = tx_action_names,
	 .help = "changes of a command that fails"},
	{.name = "transaction.abort", .type = POLICY_WORD, .offset = FIELD(transaction.abort), .fallback = "rollback", .words = tx_action_names,
	 .help = "changes of a command that is ended from outside"},
	{.name = "transaction.denial", .type = POLICY_WORD, .offset = FIELD(transaction.denial), .fallback = "keep", .words = tx_action_names,
	 .help = "changes of a command that was refused something"},
	{.name = "transaction.ok", .type = POLICY_STATUSES, .offset = FIELD(transaction.ok), .fallback = "0",
	 .help = "exit statuses that do not count as failure"},
	{.name = "transaction.preserve", .type = POLICY_LIST, .offset = FIELD(transaction.preserve), .item = &item_project_glob,
	 .help = "patterns of paths in the workspace that survive a rollback"},

	{.name = "secrets", .type = POLICY_MAPS, .offset = FIELD(secrets), .map = &map_secret,
	 .help = "secrets that requests to certain hosts get on their way out; they never enter the sandbox"},

	{.name = "audit.sync", .type = POLICY_WORD, .offset = FIELD(audit.sync), .fallback = "result", .words = sync_names,
	 .help = "when records are on disk for certain: before a result is reported, or when a segment is sealed"},
	{.name = "audit.retain_age", .type = POLICY_DURATION, .offset = FIELD(audit.retain_age_ms), .min = 1000, .max = YEAR_MS,
	 .fallback = "forever", .words = for_ever, .help = "how long sealed segments are kept"},
	{.name = "audit.retain_size", .type = POLICY_SIZE, .offset = FIELD(audit.retain_size), .min = MB, .max = PB, .fallback = "unlimited",
	 .words = no_limit, .help = "how much room sealed segments may take; the oldest go first"},
	{.name = "audit.max_entries", .type = POLICY_COUNT, .offset = FIELD(audit.max_entries), .min = 1, .max = 1000000, .fallback = "10000",
	 .help = "records that are kept in memory for those who subscribe"},

	{.name = "weak.allow", .type = POLICY_LIST, .offset = FIELD(weak_allow), .item = &item_guarantee,
	 .help = "guarantees that may be weaker: memory, pids, cpu, disk, landlock"},
};
/* clang-format on */
const size_t policy_key_count = ARRAY_SIZE(policy_keys);
_Static_assert(ARRAY_SIZE(policy_keys) <= POLICY_KEYS_MAX, "origins have room for every key");

const struct policy_key *policy_key_find(const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (!strcmp(policy_keys[i].name, name))
			return &policy_keys[i];
	return NULL;
}

bool policy_key_is_list(const struct policy_key *key)
{
	return key->type == POLICY_LIST || key->type == POLICY_ASSIGN_LIST || key->type == POLICY_STATUSES || key->type == POLICY_MAPS;
}
