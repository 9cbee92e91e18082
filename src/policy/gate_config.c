/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "policy/gate_policy.h"

#define WORKSPACE "/app"

static const enum gate_language languages[LANGUAGE_COUNT] = {
	[LANGUAGE_PYTHON] = GATE_PYTHON,
	[LANGUAGE_JAVASCRIPT] = GATE_JAVASCRIPT,
	[LANGUAGE_TYPESCRIPT] = GATE_TYPESCRIPT,
	[LANGUAGE_RUBY] = GATE_RUBY,
	[LANGUAGE_BASH] = GATE_SHELL,
};

enum gate_language gate_language_of(enum policy_language language)
{
	return languages[language];
}

/* Some path outside the workspace is granted. */
static bool reaches_outside(const struct strlist *patterns)
{
	static const char inside[] = WORKSPACE "/";
	for (size_t i = 0; i < patterns->count; i++)
		if (strcmp(patterns->items[i], WORKSPACE) != 0 && strncmp(patterns->items[i], inside, sizeof(inside) - 1) != 0)
			return true;
	return false;
}

/* Nothing in a policy grants code that is made at run time: what it does is not known before it runs. */
static unsigned granted(const struct cordon_policy *p)
{
	unsigned set = 0;
	if (p->process.subprocess)
		set |= GATE_SUBPROCESS;
	if (p->network.outbound.count)
		set |= GATE_NETWORK;
	if (reaches_outside(&p->files.read) || reaches_outside(&p->files.write))
		set |= GATE_FILES;
	return set;
}

static const char *home_of(const struct cordon_policy *p)
{
	static const char name[] = "HOME=";
	for (size_t i = 0; i < p->env_set.count; i++)
		if (strncmp(p->env_set.items[i], name, sizeof(name) - 1) == 0 && p->env_set.items[i][sizeof(name) - 1] == '/')
			return p->env_set.items[i] + sizeof(name) - 1;
	return NULL;
}

int gate_config_of(const struct cordon_policy *p, struct gate_config *out, struct cordon_error *err)
{
	const struct policy_pattern *own = p->patterns.add.items;
	size_t count = p->patterns.add.count;
	struct gate_addition *additions = calloc(count + 1, sizeof(*additions));
	if (!additions)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		additions[i] = (struct gate_addition){languages[own[i].language], own[i].match, own[i].reason};
	*out = (struct gate_config){
		.packs = (const char *const *)p->patterns.use.items,
		.pack_count = p->patterns.use.count,
		.additions = additions,
		.addition_count = count,
		.granted = granted(p),
		.workspace = WORKSPACE,
		.home = home_of(p),
	};
	return 0;
}

struct gate_decision gate_decide(const struct cordon_policy *p, const struct gate_result *result)
{
	bool deny = false, unproven = false;
	for (size_t i = 0; i < result->count; i++) {
		deny = deny || result->items[i].verdict == GATE_DENY;
		unproven = unproven || result->items[i].verdict == GATE_UNPROVEN;
	}
	if (deny && p->patterns.action == ACTION_DENY)
		return (struct gate_decision){false, "deny"};
	if (unproven && p->patterns.unproven == UNPROVEN_DENY)
		return (struct gate_decision){false, "unproven"};
	if (deny && p->patterns.action == ACTION_WARN)
		return (struct gate_decision){true, "warn"};
	return (struct gate_decision){true, unproven ? "unproven" : "allow"};
}
