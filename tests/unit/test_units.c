/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "base/util.h"

static const char *const junk[] = {"",     " ", "-1", "+1", "1Z",    " 5",  "5 ",  "5 M", "1e3",   "nan",     "inf",
                                   "0x10", "M", ".5", "5.", "1.2.3", "1,5", "5MM", "5M5", "1_000", "\xc2\xb2"};

static void test_size_understands_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"1", 1},
		{"1B", 1},
		{"1K", 1024},
		{"1k", 1024},
		{"2KB", 2048},
		{"2KiB", 2048},
		{"2kib", 2048},
		{"512M", 512u << 20},
		{"512mb", 512u << 20},
		{"1.5G", (uint64_t)3 << 29},
		{"0.5K", 512},
		{"4T", (uint64_t)4 << 40},
		{"1024T", (uint64_t)1 << 50},
		{"1P", (uint64_t)1 << 50},
		{"0.1K", 102},
		{"1.9999999999K", 2047},
		{"007", 7},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 0;

		assert_int_equal(units_parse_size(cases[i].text, &bytes, NULL), 0);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void test_size_rejects_zero_negative_and_overflow(void **state)
{
	static const char *const wrong[] = {
		"0", "0.0G", "0.0001K", "99999999999G", "1.1P", "1025T", "18446744073709551616", "99999999999999999999999"};
	struct cordon_error err;
	uint64_t bytes = 42;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(units_parse_size(wrong[i], &bytes, &err), -1);
		assert_int_equal(errno, ERANGE);
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_non_null(strstr(err.message, wrong[i]));
		assert_non_null(strstr(err.message, "1B to 1P"));
	}
	assert_int_equal(units_parse_size("-1", &bytes, &err), -1);
	assert_int_equal(bytes, 42);
}

static void test_size_rejects_junk_and_says_what_to_write(void **state)
{
	struct cordon_error err;
	uint64_t bytes;

	for (size_t i = 0; i < ARRAY_SIZE(junk); i++) {
		assert_int_equal(units_parse_size(junk[i], &bytes, &err), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(units_parse_size(NULL, &bytes, &err), -1);
	assert_int_equal(units_parse_size("1.5B", &bytes, &err), -1);
	assert_int_equal(units_parse_size("1.5", &bytes, &err), -1);
	assert_int_equal(units_parse_size("1Z", &bytes, &err), -1);
	assert_string_equal(err.message, "'1Z' is not a size (write a number with B, K, M, G or T, such as 512M; 1B to 1P)");
}

static void test_duration_understands_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} cases[] = {{"1ms", 1},     {"60", 60000},     {"60s", 60000},    {"1.5", 1500},        {"0.25s", 250},
	             {"2m", 120000}, {"10min", 600000}, {"1.5h", 5400000}, {"365d", 31536000000}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ms = 0;

		assert_int_equal(units_parse_duration(cases[i].text, &ms, NULL), 0);
		assert_int_equal(ms, cases[i].ms);
	}
}

static void test_duration_rejects_zero_negative_overflow_and_junk(void **state)
{
	static const char *const wrong[] = {"0", "0s", "0.0001s", "366d", "99999999999h", "1M", "1S", "1sec", "0.5ms"};
	struct cordon_error err;
	uint64_t ms;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(units_parse_duration(wrong[i], &ms, &err), -1);
		assert_non_null(strstr(err.message, wrong[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(junk); i++)
		assert_int_equal(units_parse_duration(junk[i], &ms, &err), -1);
}

static void test_cpus_are_thousandths_within_a_range(void **state)
{
	static const char *const wrong[] = {"0", "0.009", "1024.001", "1025", "1c", "99999999999999999999"};
	uint64_t milli = 0;

	assert_int_equal(units_parse_cpus("1", &milli, NULL), 0);
	assert_int_equal(milli, 1000);
	assert_int_equal(units_parse_cpus("0.01", &milli, NULL), 0);
	assert_int_equal(milli, 10);
	assert_int_equal(units_parse_cpus("1.2345", &milli, NULL), 0);
	assert_int_equal(milli, 1234);
	assert_int_equal(units_parse_cpus("1024", &milli, NULL), 0);
	assert_int_equal(milli, 1024000);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(units_parse_cpus(wrong[i], &milli, NULL), -1);
	for (size_t i = 0; i < ARRAY_SIZE(junk); i++)
		assert_int_equal(units_parse_cpus(junk[i], &milli, NULL), -1);
}

static void test_count_is_a_whole_number_within_its_range(void **state)
{
	struct cordon_error err;
	uint64_t n = 0;

	assert_int_equal(units_parse_count("5", 5, 7, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_int_equal(units_parse_count("7", 5, 7, &n, &err), 0);
	assert_int_equal(units_parse_count("18446744073709551615", 0, UINT64_MAX, &n, &err), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(units_parse_count("0", 0, 7, &n, &err), 0);
	assert_int_equal(units_parse_count("18446744073709551616", 0, UINT64_MAX, &n, &err), -1);
	assert_int_equal(units_parse_count("4", 5, 7, &n, &err), -1);
	assert_int_equal(units_parse_count("8", 5, 7, &n, &err), -1);
	assert_string_equal(err.message, "'8' is out of range (write digits only; 5 to 7)");
	assert_int_equal(units_parse_count("5.0", 5, 7, &n, &err), -1);
	assert_int_equal(errno, EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(junk); i++)
		assert_int_equal(units_parse_count(junk[i], 0, 100, &n, &err), -1);
}

static void test_sizes_are_formatted_in_their_shortest_form(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {{0, "0B"},
	             {1, "1B"},
	             {1000, "1000B"},
	             {1024, "1K"},
	             {1536, "1.5K"},
	             {1025, "1025B"},
	             {512u << 20, "512M"},
	             {(uint64_t)3 << 29, "1.5G"},
	             {(uint64_t)1 << 50, "1P"},
	             {UINT64_MAX, "18446744073709551615B"}};
	char buf[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(units_format_size(cases[i].bytes, buf), cases[i].text);
}

static void test_durations_are_formatted_as_people_say_them(void **state)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {{1, "1ms"},       {999, "999ms"},    {1000, "1s"},         {1500, "1.5s"}, {1050, "1.05s"},
	             {1001, "1.001s"}, {60000, "60s"},    {90000, "90s"},       {120000, "2m"}, {3600000, "60m"},
	             {7200000, "2h"},  {86400000, "24h"}, {31536000000, "365d"}};
	char buf[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(units_format_duration(cases[i].ms, buf), cases[i].text);
}

static void test_formatted_values_parse_back_to_the_same_value(void **state)
{
	uint64_t seed = 1, back;
	char buf[32];

	for (int i = 0; i < 20000; i++) {
		uint64_t bytes, ms;

		seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator: the same numbers on each run */
		bytes = (seed >> 14) >> (seed % 50);
		bytes = (bytes >> seed % 11 * 4 << seed % 11 * 4) % ((uint64_t)1 << 50) + (seed & 1);
		ms = bytes % 31536000000u;
		if (bytes == 0 || ms == 0)
			continue;
		assert_int_equal(units_parse_size(units_format_size(bytes, buf), &back, NULL), 0);
		assert_int_equal(back, bytes);
		assert_int_equal(units_parse_duration(units_format_duration(ms, buf), &back, NULL), 0);
		assert_int_equal(back, ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size_understands_every_unit),
		cmocka_unit_test(test_size_rejects_zero_negative_and_overflow),
		cmocka_unit_test(test_size_rejects_junk_and_says_what_to_write),
		cmocka_unit_test(test_duration_understands_every_unit),
		cmocka_unit_test(test_duration_rejects_zero_negative_overflow_and_junk),
		cmocka_unit_test(test_cpus_are_thousandths_within_a_range),
		cmocka_unit_test(test_count_is_a_whole_number_within_its_range),
		cmocka_unit_test(test_sizes_are_formatted_in_their_shortest_form),
		cmocka_unit_test(test_durations_are_formatted_as_people_say_them),
		cmocka_unit_test(test_formatted_values_parse_back_to_the_same_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
