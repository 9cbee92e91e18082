/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/costs.h"

#include <string.h>

#include "base/util.h"
#include "policy/cover.h"
#include "policy/match.h"

/* A pattern with wildcards other than a "/" "**" at the end has to be looked for. */
static bool is_searched(const char *pattern)
{
	return pattern[0] == '/' && cover_plain_part(pattern) < cover_stem(pattern);
}

static bool any_searched(const struct strlist *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (is_searched(patterns->items[i]))
			return true;
	return false;
}

/* A search from the top, through the system as well. */
static bool any_from_top(const struct strlist *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (is_searched(patterns->items[i]) && cover_below(patterns->items[i], "/usr"))
			return true;
	return false;
}

static bool any_path(const struct strlist *patterns, const char *below)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (patterns->items[i][0] == '/' &&
		    (cover_path(patterns->items[i], below, false) || cover_below(patterns->items[i], below)))
			return true;
	return false;
}

static bool grants_found(const struct cordon_policy *p)
{
	return any_searched(&p->files.read) || any_searched(&p->files.write);
}

static bool denies_found(const struct cordon_policy *p)
{
	return any_searched(&p->files.deny) || any_searched(&p->process.deny);
}

static bool denies_from_top(const struct cordon_policy *p)
{
	return any_from_top(&p->files.deny) || any_from_top(&p->process.deny);
}

static bool denies(const struct cordon_policy *p)
{
	return p->files.deny.count > 0;
}

static bool hides(const struct cordon_policy *p)
{
	return !p->files.hidden;
}

static bool writes(const struct cordon_policy *p, const char *path)
{
	for (size_t i = 0; i < p->files.write.count; i++)
		if (cover_path(p->files.write.items[i], path, false))
			return true;
	return false;
}

static bool no_tmp(const struct cordon_policy *p)
{
	return !writes(p, "/tmp");
}

static bool no_home(const struct cordon_policy *p)
{
	return !writes(p, "/home/user");
}

static bool lists(const struct cordon_policy *p)
{
	return !policy_runs_anything(p);
}

static bool indexes(const struct cordon_policy *p)
{
	return lists(p) || p->process.deny.count > 0 || !p->process.shell;
}

static bool app_is_noexec(const struct cordon_policy *p)
{
	return lists(p) && p->process.native && !any_path(&p->process.allow, "/app");
}

static bool no_native(const struct cordon_policy *p)
{
	return !p->process.native;
}

static const struct {
	bool (*applies)(const struct cordon_policy *p);
	const char *text;
} costs[] = {
	{grants_found,
         "files.read, files.write: wildcards are resolved when a command starts, over up to 1,000,000 entries; what is made later is not "
         "matched, and a directory that only such a pattern names is not opened"},
	{denies,
         "files.deny: what exists when the sandbox starts is masked, one mount each; what a command makes under a denied path is refused at commit"},
	{denies_found,
         "files.deny, process.deny: wildcards are looked for in the mounted trees at the start and whenever layers are exchanged (about 1 "
         "microsecond per entry, at most 1,000,000 entries)"},
	{denies_from_top, "a pattern that may match anywhere is looked for in all of /usr as well: some 0.1 to 0.5 s at each start"},
	{hides,
         "files.hidden: every tree that can be read is searched for names that begin with a dot, each of which is masked; git finds no .git"},
	{no_tmp,
         "/tmp cannot be written, so TMPDIR is of no use: compilers and others that need temporary files fail (add /tmp/** to files.write)"},
	{no_home, "/home/user cannot be written: caches and settings of tools are not kept"},
	{indexes,
         "process.*: the programs in /usr are listed once (seconds) and kept in $CORDON_HOME/cache; checking that list takes 10 to 50 ms at each start"},
	{lists,
         "process.allow: programs that are not listed can be neither run nor read; scripts must be listed as well as their interpreters"},
	{app_is_noexec, "process.allow lists nothing in /app: nothing there can be executed, and native modules there cannot be loaded"},
	{no_native,
         "process.native: nothing that can be written can be executed; Node runs with --jitless, native modules load only from the image"},
};

int policy_costs(const struct cordon_policy *p, struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(costs); i++)
		if (costs[i].applies(p) && strlist_add(out, costs[i].text, err) < 0)
			return -1;
	return 0;
}
