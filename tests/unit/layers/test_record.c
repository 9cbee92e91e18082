/* SPDX-License-Identifier: Apache-2.0 */
/* Text records: what is written is read back, whatever the bytes; and what is not what was written is seen. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/record.h"
#include "policy/policy.h"

enum colour { RED, GREEN, COLOUR_COUNT };
static const char *const colours[] = {"red", "green"};

struct thing {
	char id[ID_LEN + 1];
	char name[8];
	char *text;
	struct strlist list;
	int number;
	uint32_t u32;
	int64_t i64;
	uint64_t u64;
	enum colour colour;
};
static const struct record_key thing_keys[] = {
	{"id", RECORD_ID, offsetof(struct thing, id), 0, NULL},
	{"name", RECORD_CHARS, offsetof(struct thing, name), 8, NULL},
	{"text", RECORD_TEXT, offsetof(struct thing, text), 0, NULL},
	{"list", RECORD_LIST, offsetof(struct thing, list), 0, NULL},
	{"number", RECORD_INT, offsetof(struct thing, number), 0, NULL},
	{"u_small", RECORD_U32, offsetof(struct thing, u32), 0, NULL},
	{"i_large", RECORD_I64, offsetof(struct thing, i64), 0, NULL},
	{"u_large", RECORD_U64, offsetof(struct thing, u64), 0, NULL},
	{"colour", RECORD_WORD, offsetof(struct thing, colour), COLOUR_COUNT, colours},
};
static const struct record_kind kind = {"thing", thing_keys, ARRAY_SIZE(thing_keys)};

static struct cordon_error err;

static void thing_free(struct thing *t)
{
	free(t->text);
	strlist_free(&t->list);
	*t = (struct thing){0};
}

static void fill(struct thing *t)
{
	char every[256];
	for (int i = 1; i < 256; i++)
		every[i - 1] = (char)i;
	every[255] = '\0';
	*t = (struct thing){.id = "abcdefghij0123456789",
	                    .name = "a%\n\xff",
	                    .text = strdup(every),
	                    .number = INT32_MIN,
	                    .u32 = UINT32_MAX,
	                    .i64 = INT64_MIN,
	                    .u64 = UINT64_MAX,
	                    .colour = GREEN};
	assert_int_equal(strlist_add(&t->list, "", NULL), 0);
	assert_int_equal(strlist_add(&t->list, " two  words ", NULL), 0);
	assert_int_equal(strlist_add(&t->list, "end\nid zzzz", NULL), 0);
}

static void assert_same(const struct thing *a, const struct thing *b)
{
	assert_string_equal(a->id, b->id);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->text, b->text);
	assert_int_equal(a->list.count, b->list.count);
	for (size_t i = 0; i < a->list.count; i++)
		assert_string_equal(a->list.items[i], b->list.items[i]);
	assert_int_equal(a->number, b->number);
	assert_int_equal(a->u32, b->u32);
	assert_true(a->i64 == b->i64);
	assert_true(a->u64 == b->u64);
	assert_int_equal(a->colour, b->colour);
}

static void test_hostile_bytes_and_extreme_numbers_come_back_as_they_were(void **state)
{
	struct thing in, out = {0};
	_cleanup_buf_ struct buf text = {0};
	fill(&in);
	record_format(&kind, &in, &text);
	assert_false(text.failed);
	for (size_t i = 0; i < text.len; i++) /* readable with cat, one value per line */
		assert_true(text.data[i] == '\n' || (text.data[i] >= 0x20 && text.data[i] < 0x7f));
	assert_int_equal(record_parse(&kind, text.data, text.len, &out, &err), 0);
	assert_same(&in, &out);
	thing_free(&in);
	thing_free(&out);
}

static void test_what_is_absent_stays_absent_and_what_is_empty_stays_empty(void **state)
{
	struct thing none = {0}, empty = {.text = strdup("")}, out = {0};
	_cleanup_buf_ struct buf a = {0}, b = {0};
	record_format(&kind, &none, &a);
	assert_int_equal(record_parse(&kind, a.data, a.len, &out, &err), 0);
	assert_null(out.text);
	record_format(&kind, &empty, &b);
	assert_int_equal(record_parse(&kind, b.data, b.len, &out, &err), 0);
	assert_string_equal(out.text, "");
	thing_free(&empty);
	thing_free(&out);
}

static void assert_damaged(const char *text, size_t len, const char *words)
{
	struct thing out = {0};
	char *exact = malloc(len ? len : 1); /* so that valgrind sees a read past the end */
	memcpy(exact, text, len);
	err = (struct cordon_error){0};
	int r = record_parse(&kind, exact, len, &out, &err);
	free(exact);
	thing_free(&out);
	if (r == 0 || err.code != CORDON_ERR_INPUT || !strstr(err.message, words))
		fail_msg("%d, code %d, \"%s\" (expected \"%s\") for: %.*s", r, err.code, err.message, words, (int)len, text);
}

static void test_a_record_cut_off_at_any_byte_is_damaged(void **state)
{
	struct thing in;
	_cleanup_buf_ struct buf text = {0};
	fill(&in);
	record_format(&kind, &in, &text);
	for (size_t len = 0; len < text.len; len++)
		assert_damaged(text.data, len, "damaged");
	thing_free(&in);
}

static void test_a_byte_that_was_not_written_is_damage_wherever_it_stands(void **state)
{
	struct thing in;
	_cleanup_buf_ struct buf text = {0};
	fill(&in);
	record_format(&kind, &in, &text);
	for (size_t i = 0; i < text.len; i++) {
		char was = text.data[i];
		text.data[i] = '\0';
		assert_damaged(text.data, text.len, "damaged");
		text.data[i] = (char)(was | 0x80);
		assert_damaged(text.data, text.len, "damaged");
		text.data[i] = was;
	}
	thing_free(&in);
}

#define HEAD "cordon 1 thing\n"
#define NUMBERS "number 1\nu_small 1\ni_large 1\nu_large 1\ncolour red\n"
#define END "end\n"

static void test_malformed_records_are_damaged_and_say_where(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"", "cut off"},
		{"\n" HEAD NUMBERS END, "does not begin with"},
		{"cordon 1 layer\n" NUMBERS END, "does not begin with"},
		{HEAD NUMBERS "name\n" END, "line 7"},
		{HEAD NUMBERS " name x\n" END, "line 7"},
		{HEAD NUMBERS "\n" END, "line 7"},
		{HEAD NUMBERS "Name x\n" END, "line 7"},
		{HEAD NUMBERS "name x\nname y\n" END, "line 8: a second value"},
		{HEAD NUMBERS "name 12345678\n" END, "line 7"},
		{HEAD NUMBERS "id abc\n" END, "line 7"},
		{HEAD NUMBERS "id ../../../etc/passwd/x\n" END, "line 7"},
		{HEAD NUMBERS "text %\n" END, "line 7"},
		{HEAD NUMBERS "text %0\n" END, "line 7"},
		{HEAD NUMBERS "text %0a\n" END, "line 7"},
		{HEAD NUMBERS "text %00\n" END, "line 7"},
		{HEAD NUMBERS "text a\tb\n" END, "line 7"},
		{HEAD "number 1\n" END, "\"u_small\" is missing"},
		{HEAD NUMBERS END "\n", "follows the end"},
		{HEAD NUMBERS END END, "follows the end"},
		{HEAD NUMBERS "end \n", "cut off"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_damaged(cases[i].text, strlen(cases[i].text), cases[i].words);
}

static void test_numbers_that_do_not_fit_are_damage(void **state)
{
	static const char *const bad[] = {
		"number ",
		"number x",
		"number 1x",
		"number +1",
		"number 01",
		"number -0",
		"number  1",
		"number 2147483648",
		"number -2147483649",
		"u_small -1",
		"u_small 4294967296",
		"i_large 9223372036854775808",
		"i_large -9223372036854775809",
		"u_large 18446744073709551616",
		"u_large -1",
		"colour blue",
		"colour ",
	};
	char text[256];
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int n = snprintf(text, sizeof(text), HEAD "%s\n" END, bad[i]);
		assert_damaged(text, (size_t)n, "line 2: not a value");
	}
}

static void test_another_version_is_told_apart_from_damage(void **state)
{
	static const char text[] = "cordon 2 thing\nwhatever\n";
	struct thing out = {0};
	assert_int_equal(record_parse(&kind, text, strlen(text), &out, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_non_null(strstr(err.message, "version 2"));
	assert_null(strstr(err.message, "damaged"));
}

static void test_unknown_keys_are_skipped_and_not_written_again(void **state)
{
	static const char text[] = HEAD "novelty %41\n" NUMBERS "name x\n" END;
	struct thing out = {0};
	_cleanup_buf_ struct buf again = {0};
	assert_int_equal(record_parse(&kind, text, strlen(text), &out, &err), 0);
	assert_string_equal(out.name, "x");
	record_format(&kind, &out, &again);
	assert_null(strstr(again.data, "novelty"));
}

static void test_what_a_damaged_record_still_says_is_kept(void **state)
{
	static const char text[] = HEAD "number x\nid abcdefghij0123456789\nname cut-o";
	struct thing out = {0};
	assert_int_equal(record_parse(&kind, text, strlen(text), &out, &err), -1);
	assert_string_equal(out.id, "abcdefghij0123456789");
	assert_string_equal(out.name, ""); /* a line without its end does not count */
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

static void assert_file_damaged(const char *name, const char *words)
{
	struct thing out = {0};
	assert_int_equal(record_read(base, name, &kind, &out, &err), -1);
	thing_free(&out);
	if (err.code != CORDON_ERR_INPUT || !strstr(err.message, words))
		fail_msg("%s: code %d, %s", name, err.code, err.message);
}

static void test_files_are_replaced_whole_and_leave_no_temporary_names(void **state)
{
	struct thing in, out = {0};
	fill(&in);
	assert_int_equal(record_write(base, "record", &kind, &in, &err), 0);
	in.colour = RED;
	assert_int_equal(record_write(base, "record", &kind, &in, &err), 0);
	assert_int_equal(record_read(base, "record", &kind, &out, &err), 0);
	assert_same(&in, &out);
	assert_int_equal(unlinkat(base, "record", 0), 0);
	assert_int_equal(rmdir(base_path), 0); /* nothing else was there */
	assert_int_equal(mkdir(base_path, 0700), 0);
	thing_free(&in);
	thing_free(&out);
}

static void test_what_is_no_record_at_all_is_damaged_or_missing(void **state)
{
	struct thing out = {0};
	assert_int_equal(record_read(base, "absent", &kind, &out, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_int_equal(mkfifoat(base, "fifo", 0600), 0);
	assert_file_damaged("fifo", "not a regular file");
	assert_int_equal(mkdirat(base, "dir", 0700), 0);
	assert_file_damaged("dir", "not a regular file");
	assert_int_equal(symlinkat("/etc/passwd", base, "link"), 0);
	assert_file_damaged("link", "damaged");
	assert_int_equal(fs_write_file(base, "empty", "", 0, 0600, &err), 0);
	assert_file_damaged("empty", "damaged");
	int fd = openat(base, "zeros", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_file_damaged("zeros", "contains NUL");
	assert_int_equal(ftruncate(fd, (off_t)RECORD_SIZE_MAX + 1), 0);
	close(fd);
	assert_file_damaged("zeros", "longer than 1 MiB");
}

static void test_a_record_over_the_limit_is_not_written(void **state)
{
	struct thing in = {.text = malloc(RECORD_SIZE_MAX)};
	memset(in.text, 'x', RECORD_SIZE_MAX - 1);
	in.text[RECORD_SIZE_MAX - 1] = '\0';
	assert_int_equal(record_write(base, "record", &kind, &in, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_int_equal(faccessat(base, "record", F_OK, 0), -1);
	in.text[RECORD_SIZE_MAX - 200] = '\0';
	assert_int_equal(record_write(base, "record", &kind, &in, &err), 0);
	thing_free(&in);
}

static void test_temporary_names_tell_whether_their_maker_lives(void **state)
{
	char name[RECORD_TEMP_MAX];
	assert_int_equal(record_temp_name(name, RECORD_TEMP, &err), 0);
	assert_int_equal(strncmp(name, RECORD_TEMP, strlen(RECORD_TEMP)), 0);
	assert_false(record_temp_is_dead(name, RECORD_TEMP));
	assert_false(record_temp_is_dead("record", RECORD_TEMP));
	assert_false(record_temp_is_dead(RECORD_TEMP "x", RECORD_TEMP));
	char *start = strrchr(name, '-'); /* the same process, begun at another time */
	assert_non_null(start);
	snprintf(start, sizeof(name) - (size_t)(start - name), "-1.abcdefghij0123456789");
	assert_true(record_temp_is_dead(name, RECORD_TEMP));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_bytes_and_extreme_numbers_come_back_as_they_were),
		cmocka_unit_test(test_what_is_absent_stays_absent_and_what_is_empty_stays_empty),
		cmocka_unit_test(test_a_record_cut_off_at_any_byte_is_damaged),
		cmocka_unit_test(test_a_byte_that_was_not_written_is_damage_wherever_it_stands),
		cmocka_unit_test(test_malformed_records_are_damaged_and_say_where),
		cmocka_unit_test(test_numbers_that_do_not_fit_are_damage),
		cmocka_unit_test(test_another_version_is_told_apart_from_damage),
		cmocka_unit_test(test_unknown_keys_are_skipped_and_not_written_again),
		cmocka_unit_test(test_what_a_damaged_record_still_says_is_kept),
		cmocka_unit_test_setup_teardown(test_files_are_replaced_whole_and_leave_no_temporary_names, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_what_is_no_record_at_all_is_damaged_or_missing, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_a_record_over_the_limit_is_not_written, base_make, base_remove),
		cmocka_unit_test(test_temporary_names_tell_whether_their_maker_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
