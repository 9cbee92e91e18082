/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy files that strangers wrote, read from memory; they extend profiles only, since no file of this machine is to be read. Besides memory errors, the target
 * fails when a problem has no place or more than one line, when a policy that was accepted does not become the same one from its settings, from what
 * `cordon policy explain` prints of it, or by copying; and when matching it with a path or host takes it out of bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fuzz_seeds.h"
#include "policy/load.h"
#include "policy/match.h"
#include "policy/print.h"
#include "policy/profiles.h"
#include "must.h"

static void must_be_a_line(const char *text)
{
	MUST(utf8_valid(text, strlen(text)));
	for (; *text; text++)
		MUST((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_problem(void *user, const struct policy_problem *problem)
{
	int *count = user;

	++*count;
	must_be_a_line(problem->file);
	must_be_a_line(problem->message);
	must_be_a_line(problem->hint);
	MUST(problem->message[0] && problem->line > 0 && problem->column > 0);
}

static void must_be_same(const struct cordon_policy *a, const struct cordon_policy *b)
{
	for (size_t i = 0; i < policy_key_count; i++)
		MUST(policy_same(a, b, &policy_keys[i], NULL) == 1);
}

static void read_again(const char *text, size_t len, const struct cordon_policy *wanted)
{
	struct cordon_policy p;
	int problems = 0;

	MUST(policy_check_text(&p, "again", text, len, NULL, NULL, check_problem, &problems, NULL) == 0);
	must_be_same(&p, wanted);
	policy_clear(&p);
}

static void check_settings(const struct cordon_policy *p)
{
	struct cordon_policy base;
	struct strlist settings = {0};

	MUST(policy_init_profile(&base, "dev", NULL) == 0 && policy_settings(p, &base, &settings, NULL) == 0);
	for (size_t i = 0; i < settings.count; i++) {
		char *value = strchr(settings.items[i], '=');

		MUST(value);
		*value++ = '\0';
		MUST(policy_set(&base, settings.items[i], value, NULL) == 0);
	}
	must_be_same(&base, p);
	strlist_free(&settings);
	policy_clear(&base);
}

/* What came from a file can be written to one. */
static void check_printed(const struct cordon_policy *p, const struct policy_origins *o)
{
	struct buf text = {0}, object = {0};
	struct json j = {.out = &object};

	policy_print_yaml(p, o, &text);
	policy_print_json(p, o, &j);
	MUST(!text.failed && !object.failed && utf8_valid(object.data, object.len));
	read_again(text.data, text.len, p);
	buf_free(&text);
	buf_free(&object);
}

static void check_matches(const struct cordon_policy *p)
{
	static const char *const paths[] = {"/", "/app/.git/x", "/usr/bin/git", "/data/a/b/c"};
	static const char *const hosts[] = {"a.example.com", "10.1.2.3", "fd00::1", "localhost"};
	struct policy_verdict verdict;
	struct host_target target;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		policy_match_path(p, paths[i], (enum policy_access)(i % 3), &verdict);
		MUST(policy_key_find(verdict.key) && verdict.why);
		policy_match_program(p, paths[i], &verdict);
		MUST(policy_key_find(verdict.key) && verdict.why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		MUST(host_target_parse(hosts[i], &target, NULL) == 0);
		policy_match_host(p, &target, 443, &verdict);
		MUST(policy_key_find(verdict.key) && verdict.why);
		MUST(!verdict.allowed || verdict.rule || p->network.localhost);
	}
}

/* "extends: PATH" would make this read files. */
static bool extends_a_path(const char *data, size_t size)
{
	const char *at = memmem(data, size, "extends", 7);

	return at && (memchr(at, '/', size - (size_t)(at - data)) || memmem(at, size - (size_t)(at - data), ".y", 2) ||
	              memchr(at, '\\', size - (size_t)(at - data)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_origins o = {0};
	struct cordon_policy p, copy;
	int problems = 0;

	if (size > 4096 || extends_a_path((const char *)data, size)) /* longer ones are only slower */
		return 0;
	int r = policy_check_text(&p, "fuzz", (const char *)data, size, NULL, &o, check_problem, &problems, NULL);
	MUST(r == problems);
	if (r == 0) {
		MUST(policy_copy(&copy, &p, NULL) == 0);
		must_be_same(&copy, &p);
		policy_clear(&copy);
		check_settings(&p);
		check_printed(&p, &o);
		check_matches(&p);
		policy_clear(&p);
	}
	origins_free(&o);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const texts[] = {
		"version: 1\nextends: locked\nlimits: {timeout: 60s, memory: 512M, cpus: 0.5, pids: 3}\n",
		"version: 1\nenv: {allow: [LANG], set: {A: x, B: \"y\\tz\"}}\nroot: layered\n",
		"version: 1\nfiles: {read: [\"/data/**\"], write: [], deny: [/x], hidden: false}\n",
		"version: 1\nnetwork:\n  outbound:\n    - {host: \"*.a.b\", ports: [443, 80], protocol: tcp}\n  deny: [\"10.0.0.0/8\"]\n  inbound: [{port: 1}]\n",
		"version: 1\nprocess: {allow: [git, \"/app/**\"], deny: [\"mkfs*\"], max: 5, native: false}\n",
		"version: 1\npatterns: {use: [a], add: [{language: python, match: \"x;%\", reason: y}], action: deny}\n",
		"version: 1\nsecrets: [{from: \"store:x\", hosts: [a.b], format: \"t {}\", env: E}]\naudit: {retain_age: forever}\n",
		"a: &a [x]\nb: *a\n",
		"version: 1\n\tlimits: {}\n",
		"version: 1\nlimits: {pids: 3, pids: 4}\n",
		"%YAML 1.1\n---\nversion: 1\n...\n",
		"\xef\xbb\xbfversion: 1\r\n",
		"version: 1\nroot: !!str \"\\x41\"\n",
		"version: 1\nlimits: {<<: {}}\n",
	};
	const char *dir = seeds_directory(*argc, *argv);
	struct buf template = {0};
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		snprintf(name, sizeof(name), "text-%zu", i);
		seed_write(dir, name, (uint8_t)texts[i][0], texts[i] + 1, strlen(texts[i]) - 1);
	}
	if (policy_print_template(NULL, &template, NULL) == 0)
		seed_write(dir, "template", (uint8_t) template.data[0], template.data + 1, template.len - 1);
	buf_free(&template);
	return 0;
}
