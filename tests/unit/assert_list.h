/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of strings holds; for tests that have included cmocka.h. */
#ifndef CORDON_TESTS_ASSERT_LIST_H
#define CORDON_TESTS_ASSERT_LIST_H

#include "policy/policy.h"

static void assert_list(const struct strlist *list, const char *const *expected)
{
	size_t n = 0;

	for (; expected[n]; n++) {
		assert_true(n < list->count);
		assert_string_equal(list->items[n], expected[n]);
	}
	assert_int_equal(list->count, n);
	if (n > 0)
		assert_null(list->items[n]);
	else
		assert_null(list->items);
}
#define ASSERT_LIST(list, ...) assert_list(list, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

#endif
