/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in what servers say: every stream is fed in many ways, and what may go at any time never has one in it. */
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

/* What came out, in steps of so many bytes; `held`: after all of it, how much had to wait for more. */
static char *masked(const struct values *v, const char *text, size_t step, size_t *held)
{
	struct needle needles[MOST] = {0};
	struct mask m = {0};
	struct buf out = {0};
	const size_t len = strlen(text);

	for (size_t i = 0; i < MOST && v->items[i]; i++) {
		assert_int_equal(needle_init(&needles[i], v->items[i], strlen(v->items[i])), 0);
		assert_true(mask_add(&m, &needles[i]));
	}
	for (size_t at = 0; at < len; at += MIN(step, len - at)) {
		const size_t n = MIN(step, len - at);
		char *copy = malloc(n);

		assert_non_null(copy);
		memcpy(copy, text + at, n);
		assert_int_equal(mask_feed(&m, copy, n, &out), 0);
		free(copy);
		assert_in_range(mask_held(&m), 0, out.len);
		/* what may go has none in it, whatever comes next */
		char *gone = strndup(out.data, out.len - mask_held(&m));
		for (size_t i = 0; i < MOST && v->items[i]; i++)
			assert_null(strlen(v->items[i]) >= MASK_SHORTEST ? strstr(gone, v->items[i]) : NULL);
		free(gone);
	}
	*held = mask_held(&m);
	for (size_t i = 0; i < MOST; i++)
		needle_clear(&needles[i]);
	return buf_steal(&out);
}

static void check(const struct values *v, const char *text, const char *wanted, size_t wanted_held)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		size_t held;
		char *got = masked(v, text, step, &held);

		assert_string_equal(got, wanted);
		assert_int_equal(held, wanted_held);
		free(got);
	}
}

static void test_a_secret_becomes_stars_wherever_it_is_cut(void **state)
{
	const struct values v = {{"secret-value"}};

	check(&v, "a secret-value, and secret-valuesecret-value.", "a ************, and ************************.", 0);
	check(&v, "secret-value", "************", 0);
	check(&v, "nothing", "nothing", 0);
}

static void test_only_what_may_become_one_is_held_back(void **state)
{
	const struct values v = {{"secret-value"}};

	check(&v, "it ends in secret-valu", "it ends in secret-valu", 11);
	check(&v, "it ends in secret-valux", "it ends in secret-valux", 0);
	check(&v, "sesesecret-value secret-ses", "sese************ secret-ses", 1);
}

static void test_a_secret_that_overlaps_itself(void **state)
{
	const struct values v = {{"abababab"}};

	check(&v, "xabababababx", "x**********x", 0); /* it is there twice */
	check(&v, "abababa", "abababa", 7);
	check(&v, "ababababx", "********x", 0);
}

static void test_secrets_that_overlap_each_other(void **state)
{
	const struct values v = {{"0123456789", "23456789abcd", "789abcdefg"}};

	check(&v, "<0123456789abcdefg>", "<*****************>", 0);
	check(&v, "<23456789abcd>", "<************>", 0);
	const struct values inside = {{"inner-secret", "an inner-secret in it"}};
	check(&inside, "(an inner-secret in it)", "(*********************)", 0);
}

static void test_short_ones_are_not_looked_for(void **state)
{
	const struct values v = {{"1234567", "12345678"}};

	check(&v, "1234567 12345678", "1234567 ********", 0);
}

static void test_what_is_made_to_be_slow_is_not(void **state)
{
	enum { LEN = 32768, STREAM = 4 << 20 };
	struct needle n;
	struct mask m = {0};
	struct buf out = {0};
	char *value = malloc(LEN), *piece = malloc(STREAM);

	assert_true(value && piece);
	memset(value, 'a', LEN);
	value[LEN - 1] = 'b';
	memset(piece, 'a', STREAM);
	assert_int_equal(needle_init(&n, value, LEN), 0);
	assert_true(mask_add(&m, &n));
	/* with a search that goes back this would be 10^11 comparisons, and the test would not end in its time */
	assert_int_equal(mask_feed(&m, piece, STREAM, &out), 0);
	assert_int_equal(mask_held(&m), LEN - 1);
	assert_int_equal(mask_feed(&m, "b", 1, &out), 0);
	assert_int_equal(out.data[STREAM], '*');
	assert_int_equal(out.data[STREAM + 1 - LEN], '*');
	assert_int_equal(out.data[STREAM - LEN], 'a');
	buf_free(&out);
	needle_clear(&n);
	free(value);
	free(piece);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_secret_becomes_stars_wherever_it_is_cut),
		cmocka_unit_test(test_only_what_may_become_one_is_held_back),
		cmocka_unit_test(test_a_secret_that_overlaps_itself),
		cmocka_unit_test(test_secrets_that_overlap_each_other),
		cmocka_unit_test(test_short_ones_are_not_looked_for),
		cmocka_unit_test(test_what_is_made_to_be_slow_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
