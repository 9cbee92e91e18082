/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users write: "512M", "1.5h", policy keys and their values. An input is one kind byte and text; for the policy, lines "KEY VALUE".
 * Besides memory errors, a target fails when a value that was accepted does not survive being printed and read again, lies outside the
 * documented range, or when a value was refused without a message.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "fuzz_seeds.h"
#include "policy/policy.h"
#include "must.h"

enum kind { KIND_UNITS, KIND_POLICY, KIND_COUNT };

static void must_explain(const struct cordon_error *err)
{
	MUST(err->code == CORDON_ERR_INPUT && err->message[0] && !strchr(err->message, '\n'));
}

static void try_units(const char *text)
{
	struct cordon_error err = {0};
	uint64_t value, again;
	char shown[32];

	if (units_parse_size(text, &value, &err) == 0) {
		MUST(value >= 1 && value <= (uint64_t)1 << 50);
		MUST(units_parse_size(units_format_size(value, shown), &again, NULL) == 0 && again == value);
	} else {
		must_explain(&err);
	}
	err = (struct cordon_error){0};
	if (units_parse_duration(text, &value, &err) == 0) {
		MUST(value >= 1 && value <= (uint64_t)365 * 24 * 3600 * 1000);
		MUST(units_parse_duration(units_format_duration(value, shown), &again, NULL) == 0 && again == value);
	} else {
		must_explain(&err);
	}
	err = (struct cordon_error){0};
	if (units_parse_cpus(text, &value, &err) == 0)
		MUST(value >= 10 && value <= 1024 * 1000);
	else
		must_explain(&err);
	err = (struct cordon_error){0};
	if (units_parse_count(text, 3, 1000, &value, &err) == 0)
		MUST(value >= 3 && value <= 1000);
	else
		must_explain(&err);
}

/* Whatever was set, the environment that comes out has only well-formed names, each once. */
static void check_environment(const struct cordon_policy *p)
{
	static char lang[] = "LANG=C", preload[] = "LD_PRELOAD=/evil.so", bare[] = "NOVALUE", empty[] = "=x";
	char *const host[] = {lang, preload, bare, empty, NULL};
	struct strlist env = {0};

	if (policy_environment(p, host, NULL, &env, NULL) == 0) {
		for (size_t i = 0; i < env.count; i++) {
			const char *equals = strchr(env.items[i], '=');

			MUST(equals && env_name_valid(env.items[i], (size_t)(equals - env.items[i])));
			MUST(strcmp(env.items[i], preload) != 0 || strlist_has(&p->env_set, preload));
			for (size_t k = 0; k < i; k++)
				MUST(strncmp(env.items[i], env.items[k], (size_t)(equals - env.items[i]) + 1) != 0);
		}
	}
	strlist_free(&env);
}

static void try_policy(char *text)
{
	struct cordon_policy p, copy = {0};
	char *save = NULL;

	if (policy_init(&p, NULL) < 0)
		abort();
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');
		struct cordon_error err = {0};

		if (space)
			*space++ = '\0';
		if (policy_set(&p, line, space ? space : "", &err) < 0)
			must_explain(&err);
		else
			MUST(policy_key_find(line) || strcmp(line, "clear") == 0);
	}
	MUST(p.limits.memory && p.limits.pids && p.limits.cpus_milli && p.limits.max_output);
	check_environment(&p);
	if (policy_copy(&copy, &p, NULL) == 0) {
		MUST(copy.limits.memory == p.limits.memory && copy.mounts_read.count == p.mounts_read.count);
		policy_clear(&copy);
	}
	policy_clear(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > 512) /* longer ones are only slower */
		return 0;
	char *text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] % KIND_COUNT == KIND_UNITS)
		try_units(text);
	else
		try_policy(text);
	free(text);
	return 0;
}

static void seed_text(const char *dir, const char *name, enum kind kind, const char *text)
{
	seed_write(dir, name, (uint8_t)kind, text, strlen(text));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const units[] = {"512M", "1.5G", "60s", "10min",        "0.01", "1PiB", "365d",
	                                    "-1",   "0",    "1Z",  "99999999999G", "1e3",  "0x10"};
	static const char *const lists[] = {"env.set A=b\nenv.set LD_PRELOAD=/x\nenv.allow LANG\nenv.allow LD_PRELOAD",
	                                    "mounts.read /srv\nmounts.write /srv/rw\nmounts.forbid /srv/no\nallow_weak memory"};
	const char *dir = seeds_directory(*argc, *argv);
	char name[32], text[256];

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		snprintf(name, sizeof(name), "unit-%zu", i);
		seed_text(dir, name, KIND_UNITS, units[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		snprintf(name, sizeof(name), "list-%zu", i);
		seed_text(dir, name, KIND_POLICY, lists[i]);
	}
	for (size_t i = 0; i < policy_key_count; i++) {
		snprintf(name, sizeof(name), "key-%zu", i);
		snprintf(text, sizeof(text), "%s %s", policy_keys[i].name, policy_keys[i].fallback ? policy_keys[i].fallback : "x");
		seed_text(dir, name, KIND_POLICY, text);
	}
	return 0;
}
