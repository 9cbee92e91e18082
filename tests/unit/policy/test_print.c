/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "policy/load.h"
#include "policy/print.h"
#include "policy/profiles.h"

static struct cordon_error err;

static void report(void *user, const struct policy_problem *problem)
{
	_cleanup_buf_ struct buf text = {0};

	policy_problem_text(problem, &text);
	fail_msg("%s", text.data);
}

static void load(struct cordon_policy *p, const char *text)
{
	assert_int_equal(policy_check_text(p, "text", text, strlen(text), NULL, NULL, report, NULL, &err), 0);
}

static void assert_same(const struct cordon_policy *a, const struct cordon_policy *b)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_same(a, b, &policy_keys[i], &err) != 1)
			fail_msg("%s is another", policy_keys[i].name);
}

/* Takes the comment sign away from every "# key: value". */
static char *uncomment(const char *text)
{
	_cleanup_buf_ struct buf out = {0};

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n"), indent = strspn(line, " ");
		size_t word = line[indent] == '#' && line[indent + 1] == ' ' ? strspn(line + indent + 2, "abcdefghijklmnopqrstuvwxyz_") : 0;
		bool value = word && strncmp(line + indent + 2 + word, ": ", 2) == 0;

		buf_add(&out, line, indent);
		buf_add(&out, line + indent + (value ? 2 : 0), len - indent - (value ? 2 : 0));
		buf_add_str(&out, "\n");
		line += len + (line[len] == '\n');
	}
	return buf_steal(&out);
}

/* ---- tests ---- */

static void test_a_new_file_changes_nothing_and_neither_do_its_commented_values(void **state)
{
	for (size_t i = 0; i < policy_profile_count; i++) {
		const char *profile = policy_profiles[i].name;
		_cleanup_buf_ struct buf text = {0};
		struct cordon_policy wanted, got;

		assert_int_equal(policy_init_profile(&wanted, profile, &err), 0);
		assert_int_equal(policy_print_template(profile, &text, &err), 0);
		load(&got, text.data);
		assert_same(&got, &wanted);
		policy_clear(&got);
		_cleanup_free_ char *all = uncomment(text.data);
		assert_string_not_equal(all, text.data);
		load(&got, all);
		assert_same(&got, &wanted);
		policy_clear(&got);
		policy_clear(&wanted);
		for (size_t k = 0; k < policy_key_count; k++)
			if (!policy_keys[k].alias && !strstr(text.data, policy_keys[k].help))
				fail_msg("%s has no help", policy_keys[k].name);
	}
}

static void test_what_is_explained_can_be_read_again(void **state)
{
	static const char *const settings[][2] = {
		{"env.set", "WEIRD=\"a: b\"\t#\xff\xc3\xa4 'x'"},
		{"env.set", "N=1.10"},
		{"env.set", "T=true"},
		{"env.set", "E="},
		{"files.deny", "/a b/{c}/*"},
		{"process.deny", "&a"},
		{"network.outbound", "[fd00::/8]:1,2"},
		{"patterns.add", "language=bash;match=rm -rf {};reason=: \" '"},
		{"secrets", "from=store:x;hosts=a.b,*.c.d;format=token \"{}\""},
		{"limits.cpus", "0.125"},
		{"limits.memory", "1234567890"},
		{"transaction.ok", "1,255"},
		{"mounts.read", "/true"},
		{"mounts.read", "/"},
	};
	struct policy_origins o = {0};
	struct cordon_policy p, got;
	_cleanup_buf_ struct buf text = {0};

	assert_int_equal(policy_init_profile_noted(&p, "locked", &o, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (policy_set(&p, settings[i][0], settings[i][1], &err) < 0)
			fail_msg("%s", err.message);
	/* what is no UTF-8 cannot be written in YAML; everything else can */
	assert_int_equal(policy_set(&p, "env.set", "WEIRD=\"a: b\"\t#\xc3\xa4 'x'", &err), 0);
	policy_print_yaml(&p, &o, &text);
	assert_false(text.failed);
	load(&got, text.data);
	assert_same(&got, &p);
	policy_clear(&got);
	policy_clear(&p);
	origins_free(&o);
}

static void assert_line(const char *text, const char *value, const char *comment)
{
	char line[128];

	snprintf(line, sizeof(line), "\n%-44s%s", value, comment);
	assert_non_null(strstr(text, line));
}

static void test_each_value_is_explained_with_its_origin(void **state)
{
	static const char file[] = "version: 1\nextends: locked\nlimits: {pids: 7}\nfiles: {deny: [/x], read: []}\n";
	struct policy_origins o = {0};
	struct cordon_policy p;
	_cleanup_buf_ struct buf text = {0}, object = {0};
	struct json j = {.out = &object};

	assert_int_equal(policy_check_text(&p, "f.yaml", file, strlen(file), NULL, &o, report, NULL, &err), 0);
	policy_print_yaml(&p, &o, &text);
	assert_line(text.data, "  pids: 7", "# f.yaml:3; processes and threads at a time\n");
	assert_line(text.data, "    - /x", "# f.yaml:4\n");
	assert_line(text.data, "  read: []", "# f.yaml:4; paths inside");
	assert_line(text.data, "  native: false", "# profile locked; ");
	assert_line(text.data, "  timeout: 60s", "# profile default; time a command may take\n");
	policy_print_json(&p, &o, &j);
	assert_non_null(
		strstr(object.data,
	               "{\"key\":\"limits.pids\",\"value\":7,\"origin\":{\"kind\":\"file\",\"name\":\"f.yaml\",\"line\":3,\"column\":16}"));
	assert_non_null(strstr(
		object.data, "\"items\":[{\"value\":\"/x\",\"origin\":{\"kind\":\"file\",\"name\":\"f.yaml\",\"line\":4,\"column\":16}}]"));
	policy_clear(&p);
	origins_free(&o);
}

static void test_a_file_name_cannot_break_out_of_its_comment(void **state)
{
	static const char file[] = "version: 1\nlimits: {pids: 7}\n";
	struct policy_origins o = {0};
	struct cordon_policy p;
	_cleanup_buf_ struct buf text = {0};

	assert_int_equal(policy_check_text(&p, "f\nlimits: {pids: 9}\033", file, strlen(file), NULL, &o, report, NULL, &err), 0);
	policy_print_yaml(&p, &o, &text);
	assert_null(strstr(text.data, "\nlimits: {pids"));
	assert_null(strchr(text.data, '\033'));
	policy_clear(&p);
	origins_free(&o);
}

static void test_schema_and_reference_know_every_key_and_field(void **state)
{
	_cleanup_buf_ struct buf schema = {0}, reference = {0};

	policy_print_schema(&schema);
	policy_print_markdown(&reference);
	assert_false(schema.failed || reference.failed);
	for (size_t i = 0; i < policy_key_count; i++) {
		char quoted[64];

		snprintf(quoted, sizeof(quoted), "\"%s\":{", policy_short_name(&policy_keys[i]));
		assert_non_null(strstr(schema.data, quoted));
		snprintf(quoted, sizeof(quoted), "| `%s` | ", policy_keys[i].name);
		assert_non_null(strstr(reference.data, quoted));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_file_changes_nothing_and_neither_do_its_commented_values),
		cmocka_unit_test(test_what_is_explained_can_be_read_again),
		cmocka_unit_test(test_each_value_is_explained_with_its_origin),
		cmocka_unit_test(test_a_file_name_cannot_break_out_of_its_comment),
		cmocka_unit_test(test_schema_and_reference_know_every_key_and_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
