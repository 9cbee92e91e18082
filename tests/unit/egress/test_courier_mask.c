/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in what servers say: every stream is fed in many ways, and all of it comes out at once, with stars where a secret is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/mask.h"

#define MOST 4

struct values {
	const char *items[MOST];
};

/* What came out, in steps of so many bytes. */
static char *masked(const struct values *v, const char *text, size_t step)
{
	struct mask m = {0};
	struct buf out = {0};
	const size_t len = strlen(text);

	for (size_t i = 0; i < MOST && v->items[i]; i++)
		assert_true(mask_add(&m, v->items[i], strlen(v->items[i])));
	for (size_t at = 0; at < len; at += MIN(step, len - at)) {
		const size_t n = MIN(step, len - at);
		char *copy = malloc(n), *before = strndup(out.data ? out.data : "", at);

		assert_true(copy && before);
		memcpy(copy, text + at, n);
		assert_int_equal(mask_feed(&m, copy, n, &out), 0);
		free(copy);
		assert_int_equal(out.len, at + n);
		assert_memory_equal(out.data, before, at); /* it may have been sent */
		free(before);
	}
	mask_clear(&m);
	return buf_steal(&out);
}

/* Found by looking everywhere: of each secret the bytes of the piece in which it becomes whole. */
static char *simply(const struct values *v, const char *text, size_t step)
{
	char *out = strdup(text);

	assert_non_null(out);
	for (size_t i = 0; i < MOST && v->items[i]; i++) {
		const size_t len = strlen(v->items[i]);

		for (const char *hit = text; len >= MASK_SHORTEST && (hit = strstr(hit, v->items[i])); hit++) {
			const size_t from = (size_t)(hit - text), to = from + len, piece = (to - 1) / step * step;

			memset(out + MAX(from, piece), '*', to - MAX(from, piece));
		}
	}
	return out;
}

/* wanted: if it comes in one piece. */
static void check(const struct values *v, const char *text, const char *wanted)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		char *got = masked(v, text, step), *simple = simply(v, text, step);

		assert_string_equal(got, simple);
		if (step >= strlen(text))
			assert_string_equal(got, wanted);
		free(got);
		free(simple);
	}
}

static void test_a_secret_becomes_stars(void **state)
{
	const struct values v = {{"secret-value"}};

	check(&v, "a secret-value, and secret-valuesecret-value.", "a ************, and ************************.");
	check(&v, "secret-value", "************");
	check(&v, "nothing", "nothing");
}

static void test_its_beginning_is_none(void **state)
{
	const struct values v = {{"secret-value"}};

	check(&v, "it ends in secret-valu", "it ends in secret-valu");
	check(&v, "it ends in secret-valux", "it ends in secret-valux");
	check(&v, "sesesecret-value secret-ses", "sese************ secret-ses");
}

static void test_of_one_that_is_cut_the_rest_becomes_stars(void **state)
{
	const struct values v = {{"secret-value"}};
	char *got = masked(&v, "a secret-value.", 8);

	assert_string_equal(got, "a secret******.");
	free(got);
}

static void test_a_secret_that_overlaps_itself(void **state)
{
	const struct values v = {{"abababab"}};

	check(&v, "xabababababx", "x**********x"); /* it is there twice */
	check(&v, "abababa", "abababa");
	check(&v, "ababababx", "********x");
}

static void test_secrets_that_overlap_each_other(void **state)
{
	const struct values v = {{"0123456789", "23456789abcd", "789abcdefg"}};

	check(&v, "<0123456789abcdefg>", "<*****************>");
	check(&v, "<23456789abcd>", "<************>");
	const struct values inside = {{"inner-secret", "an inner-secret in it"}};
	check(&inside, "(an inner-secret in it)", "(*********************)");
}

static void test_short_ones_are_not_looked_for(void **state)
{
	const struct values v = {{"1234567", "12345678"}};

	check(&v, "1234567 12345678", "1234567 ********");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_secret_becomes_stars),
		cmocka_unit_test(test_its_beginning_is_none),
		cmocka_unit_test(test_of_one_that_is_cut_the_rest_becomes_stars),
		cmocka_unit_test(test_a_secret_that_overlaps_itself),
		cmocka_unit_test(test_secrets_that_overlap_each_other),
		cmocka_unit_test(test_short_ones_are_not_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
