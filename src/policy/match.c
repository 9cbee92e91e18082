/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match.h"

#include <string.h>

#include "base/fs.h"
#include "base/glob.h"
#include "policy/cover.h"
#include "policy/maps.h"

const char *const policy_system_paths[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev", "/run/code", NULL,
};
const char *const policy_system_writable[] = {
	"/dev/null", "/dev/zero", "/dev/full",  "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
	"/dev/pts",  "/dev/fd",   "/dev/stdin", "/dev/stdout", "/dev/stderr",  NULL,
};
const char *const policy_program_dirs[] = {
	"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", NULL,
};
const char *const policy_brought_paths[] = {
	"/app", "/home/user", "/tmp", "/var/tmp", "/run", "/dev/shm", NULL,
};
const char *const policy_shells[] = {
	"sh",   "bash", "rbash", "dash", "ash", "zsh", "ksh",    "ksh93", "mksh",  "lksh", "pdksh",   "csh",
	"tcsh", "fish", "yash",  "posh", "rc",  "es",  "elvish", "nu",    "xonsh", "pwsh", "busybox", NULL,
};

static void decide(struct policy_verdict *out, bool allowed, const char *key, const char *why)
{
	*out = (struct policy_verdict){.allowed = allowed, .key = key, .why = why};
}

static bool in_list(const char *const *list, const char *word)
{
	for (; *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static bool within_any(const char *const *list, const char *path)
{
	for (; *list; list++)
		if (fs_path_within(path, *list))
			return true;
	return false;
}

/* ---- paths -------------------------------------------------------------------------------------------------------------------- */

static bool find_rule(const struct strlist *list, const char *key, const char *path, size_t hidden, struct policy_verdict *out)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!cover_path(list->items[i], path, !out->allowed) || (hidden > 0 && !cover_spells(list->items[i], path, hidden)))
			continue;
		out->key = key;
		out->rule = list->items[i];
		out->index = i;
		return true;
	}
	return false;
}

static bool is_system(const char *path, enum policy_access access)
{
	return within_any(access == ACCESS_WRITE ? policy_system_writable : policy_system_paths, path);
}

static void match_files(const struct cordon_policy *p, const char *path, enum policy_access access, struct policy_verdict *out)
{
	const size_t hidden = p->files.hidden ? 0 : cover_hidden_part(path);
	const bool write = access == ACCESS_WRITE;

	decide(out, false, "files.deny", "it is denied by name");
	if (find_rule(&p->files.deny, "files.deny", path, 0, out))
		return;
	decide(out, true, NULL, "a rule allows it");
	if ((!write && find_rule(&p->files.read, "files.read", path, hidden, out)) ||
	    find_rule(&p->files.write, "files.write", path, hidden, out))
		return;
	if (is_system(path, access))
		decide(out, true, write ? "files.write" : "files.read", "it is part of the system inside");
	else if (hidden > 0)
		decide(out, false, "files.hidden", "a name in it begins with a dot, and no rule spells it out");
	else
		decide(out, false, write ? "files.write" : "files.read", "no rule allows it");
}

void policy_match_path(const struct cordon_policy *p, const char *path, enum policy_access access, struct policy_verdict *out)
{
	match_files(p, path, access, out);
	if (access == ACCESS_EXECUTE && out->allowed)
		policy_match_program(p, path, out);
}

/* ---- programs ----------------------------------------------------------------------------------------------------------------- */

/*
 * A name stands for a program of the system or of a toolchain, not for whatever has that name: a copy that a command brings along must not run because it
 * is called git.
 */
static bool rule_matches(const char *rule, const char *path, bool wide)
{
	const char *slash = strrchr(path, '/');

	if (rule[0] == '/')
		return cover_path(rule, path, wide);
	return strcmp(rule, "*") == 0 || (!within_any(policy_brought_paths, path) && glob_match(rule, slash ? slash + 1 : path));
}

static bool find_program(const struct strlist *list, const char *key, const char *path, struct policy_verdict *out)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!rule_matches(list->items[i], path, !out->allowed))
			continue;
		out->key = key;
		out->rule = list->items[i];
		out->index = i;
		return true;
	}
	return false;
}

void policy_match_program(const struct cordon_policy *p, const char *path, struct policy_verdict *out)
{
	const char *slash = strrchr(path, '/');

	decide(out, false, "process.deny", "it is denied by name: neither run nor read");
	if (find_program(&p->process.deny, "process.deny", path, out))
		return;
	if (!p->process.shell && !within_any(policy_brought_paths, path) && in_list(policy_shells, slash ? slash + 1 : path)) {
		decide(out, false, "process.shell", "it is a shell");
		return;
	}
	decide(out, true, "process.allow", "a rule allows it");
	if (!find_program(&p->process.allow, "process.allow", path, out))
		decide(out, false, "process.allow", "no rule lists it: neither run nor read");
	else if (!p->process.native && within_any(policy_brought_paths, path))
		decide(out, false, "process.native", "nothing runs from where files can be written");
}

bool policy_runs_anything(const struct cordon_policy *p)
{
	return strlist_has(&p->process.allow, "*");
}

/* ---- hosts -------------------------------------------------------------------------------------------------------------------- */

static bool has_port(const struct policy_ports *ports, uint16_t port)
{
	for (size_t i = 0; i < ports->count; i++)
		if (ports->items[i] == port)
			return true;
	return false;
}

static bool find_denied(const struct cordon_policy *p, const struct host_target *host, struct policy_verdict *out)
{
	for (size_t i = 0; i < p->network.deny.count; i++) {
		if (!host_matches(p->network.deny.items[i], host))
			continue;
		decide(out, false, "network.deny", "it is denied by name");
		out->rule = p->network.deny.items[i];
		out->index = i;
		return true;
	}
	return false;
}

void policy_match_host(const struct cordon_policy *p, const struct host_target *host, uint16_t port, struct policy_verdict *out)
{
	bool known = false;

	if (host_is_loopback(host)) {
		decide(out, p->network.localhost, "network.localhost", "it is the sandbox's own loopback");
		return;
	}
	if (find_denied(p, host, out))
		return;
	for (size_t i = 0; i < p->network.outbound.count; i++) {
		const struct policy_outbound *rule = maplist_item(&p->network.outbound, &map_outbound, i);

		if (!host_matches(rule->host, host))
			continue;
		known = true;
		if (!has_port(&rule->ports, port))
			continue;
		decide(out, true, "network.outbound", "a rule allows it");
		out->rule = rule->host;
		out->index = i;
		return;
	}
	decide(out, false, "network.outbound", known ? "no rule for this host has that port" : "no rule names it");
}
