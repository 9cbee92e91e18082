/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a text is, a check ends, says where it found something, and says so if it gave up. */
#include <stdlib.h>

#include "gate_case.h"

static struct gate_result check(const struct gate *g, const char *text, size_t len)
{
	struct gate_result r;
	assert_int_equal(gate_shell(g, text, len, &r, NULL), 0);
	return r;
}

/* `times` times `piece`, then `end`; to be freed. */
static char *repeated(const char *piece, size_t times, const char *end, size_t *len)
{
	size_t n = strlen(piece), more = strlen(end);
	char *text = malloc(n * times + more + 1);
	assert_non_null(text);
	for (size_t i = 0; i < times; i++)
		memcpy(text + i * n, piece, n);
	memcpy(text + n * times, end, more + 1);
	*len = n * times + more;
	return text;
}

static void a_finding_says_where_it_is(void **state)
{
	struct gate_result r = check(gate, "ls\necho x; rm -rf /\n", 20);
	const struct gate_finding *f = gate_result_first(&r);
	assert_int_equal(f->line, 2);
	assert_int_equal(f->column, 9);
	assert_string_equal(f->snippet, "rm -rf /");
	assert_string_equal(f->pack, "shell-files");
	gate_result_free(&r);
	/* What is within a word is where the word is. */
	r = check(gate, "ls\n  sh -c 'x\nrm -rf /'", 23);
	f = gate_result_first(&r);
	assert_int_equal(f->line, 2);
	assert_int_equal(f->column, 3);
	gate_result_free(&r);
}

static void snippets_are_short_lines_of_valid_text(void **state)
{
	size_t len;
	char *text = repeated("rm -rf / \xc3\xa4\xff\x01", 100, "", &len);
	struct gate_result r = check(gate, text, len);
	assert_int_equal(r.verdict, GATE_DENY);
	assert_true(strlen(gate_result_first(&r)->snippet) <= GATE_SNIPPET);
	gate_result_free(&r);
	free(text);
}

static void nothing_is_allowed_because_it_is_deep(void **state)
{
	static const char *const pieces[][2] = {{"(", ""},       {"$(", ""},      {"{ ", ""},     {"if x; then ", ""},
	                                        {"eval ", "ls"}, {"sudo ", "ls"}, {"f() { ", ""}, {"\"$(", ""}};
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		size_t len;
		char *text = repeated(pieces[i][0], 5000, pieces[i][1], &len);
		struct gate_result r = check(gate, text, len);
		assert_int_not_equal(r.verdict, GATE_ALLOW);
		gate_result_free(&r);
		free(text);
	}
}

static void what_is_at_the_end_of_a_long_text_is_found(void **state)
{
	static const char *const lines[] = {"echo hello\n", "make -j2 | tee x\n", "x='a\nb'\n", "cat <<E\nit's\nE\n",
	                                    "if a; then\n  b\nfi\n"};
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		size_t len;
		char *text = repeated(lines[i], 20000, "rm -rf /\n", &len);
		struct gate_result r = check(gate, text, len);
		assert_int_equal(r.verdict, GATE_DENY);
		assert_true(names_rule(&r, "delete-vital"));
		gate_result_free(&r);
		free(text);
	}
}

static void a_line_that_comes_again_is_looked_at_again_if_it_means_something_else(void **state)
{
	size_t len;
	char *text = repeated("rm -rf $d\n", 10000, "", &len), *all = malloc(len + 32);
	assert_non_null(all);
	int head = snprintf(all, 32, "d=build\n");
	memcpy(all + head, text, len);
	int tail = snprintf(all + (size_t)head + len, 24, "d=/\nrm -rf $d\n");
	struct gate_result r = check(gate, all, (size_t)head + len + (size_t)tail);
	assert_int_equal(r.verdict, GATE_DENY);
	assert_int_equal(gate_result_first(&r)->line, 10003);
	gate_result_free(&r);
	free(all);
	free(text);
}

static void more_findings_than_are_kept_are_counted_as_more(void **state)
{
	size_t len;
	char *text = repeated("rm -rf /; ", 1000, "", &len);
	struct gate_result r = check(gate, text, len);
	assert_int_equal(r.count, GATE_FINDINGS);
	assert_true(r.more);
	gate_result_free(&r);
	/* A worse one behind them still counts. */
	char *mild = repeated("git reset --hard; ", 1000, "rm -rf /", &len);
	r = check(gate, mild, len);
	assert_int_equal(r.verdict, GATE_DENY);
	gate_result_free(&r);
	free(mild);
	free(text);
}

static void a_check_keeps_to_its_memory(void **state)
{
	struct gate_config config = {.packs = all_packs, .pack_count = ARRAY_SIZE(all_packs), .limit_bytes = (size_t)1 << 20};
	struct gate *small = NULL;
	size_t len;
	char *text = repeated("echo hello world\n", 200000, "", &len);
	assert_int_equal(gate_open(&small, &config, NULL), 0);
	struct gate_result r = check(small, text, len);
	assert_int_equal(r.verdict, GATE_UNPROVEN);
	assert_true(names_rule(&r, "limit"));
	gate_result_free(&r);
	r = check(small, "rm -rf /", 8);
	assert_int_equal(r.verdict, GATE_DENY);
	gate_result_free(&r);
	gate_close(small);
	free(text);
}

static void a_check_keeps_to_its_time(void **state)
{
	struct gate_config config = {.packs = all_packs, .pack_count = ARRAY_SIZE(all_packs), .limit_ms = 1};
	struct gate *hasty = NULL;
	size_t len, n = 0;
	char *text = repeated("a=$((a + 1)); echo \"$a\" | sort > x.$a; ", 100000, "", &len);
	for (char *s = text; *s; s++) /* no two are the same */
		if (*s == '1')
			*s = (char)('0' + n++ % 10);
	assert_int_equal(gate_open(&hasty, &config, NULL), 0);
	struct gate_result r = check(hasty, text, len);
	assert_int_equal(r.verdict, GATE_UNPROVEN);
	assert_true(names_rule(&r, "limit"));
	gate_result_free(&r);
	gate_close(hasty);
	free(text);
}

static void any_bytes_may_come(void **state)
{
	char all[1024];
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)(i * 7);
	for (int language = 0; language < GATE_LANGUAGES; language++) {
		struct gate_result r;
		assert_int_equal(gate_code(gate, (enum gate_language)language, all, sizeof(all), &r, NULL), 0);
		gate_result_free(&r);
		assert_int_equal(gate_code(gate, (enum gate_language)language, "", 0, &r, NULL), 0);
		assert_int_equal(r.verdict, GATE_ALLOW);
		gate_result_free(&r);
	}
}

/* The bytes that stand for what is not known must not come from outside. */
static void control_characters_are_unproven(void **state)
{
	struct gate_result r = check(gate, "ls \x02", 4);
	assert_int_equal(r.verdict, GATE_UNPROVEN);
	assert_true(names_rule(&r, "control-character"));
	gate_result_free(&r);
	r = check(gate, "ls\0x", 4);
	assert_int_equal(r.verdict, GATE_UNPROVEN);
	gate_result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_finding_says_where_it_is),
		cmocka_unit_test(snippets_are_short_lines_of_valid_text),
		cmocka_unit_test(nothing_is_allowed_because_it_is_deep),
		cmocka_unit_test(what_is_at_the_end_of_a_long_text_is_found),
		cmocka_unit_test(a_line_that_comes_again_is_looked_at_again_if_it_means_something_else),
		cmocka_unit_test(more_findings_than_are_kept_are_counted_as_more),
		cmocka_unit_test(a_check_keeps_to_its_memory),
		cmocka_unit_test(a_check_keeps_to_its_time),
		cmocka_unit_test(any_bytes_may_come),
		cmocka_unit_test(control_characters_are_unproven),
	};
	return cmocka_run_group_tests(tests, open_gate, close_gate);
}
