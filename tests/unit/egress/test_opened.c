/* SPDX-License-Identifier: Apache-2.0 */
/* Connections whose end a broker has not told of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/opened.h"

static struct opened *set;
static struct broker_event left;

static void say(enum broker_event_kind kind, uint64_t id, const char *target)
{
	const struct broker_event e = {.kind = kind,
	                               .id = id,
	                               .target = target,
	                               .port = 443,
	                               .protocol = "tls",
	                               .rule = "network.outbound",
	                               .address = id % 2 ? "9.9.9.9" : NULL,
	                               .sent = 7};
	assert_int_equal(opened_follow(&set, &e), 0);
}

static void test_what_was_not_closed_is_left(void **state)
{
	(void)state;
	assert_false(opened_take(&set, &left));
	say(BROKER_CLOSED, 9, "never.example");
	say(BROKER_OPENED, 1, "one.example");
	say(BROKER_OPENED, 2, "two.example");
	say(BROKER_DENIED, 2, "two.example");
	say(BROKER_OPENED, 3, "three.example");
	say(BROKER_CLOSED, 1, "one.example");
	assert_true(opened_take(&set, &left));
	assert_int_equal(left.kind, BROKER_CLOSED);
	assert_int_equal(left.id, 2);
	assert_string_equal(left.target, "two.example");
	assert_string_equal(left.protocol, "tls");
	assert_string_equal(left.rule, "network.outbound");
	assert_null(left.address);
	assert_int_equal(left.port, 443);
	assert_int_equal(left.sent, 0);
	assert_true(opened_take(&set, &left));
	assert_string_equal(left.target, "three.example");
	assert_string_equal(left.address, "9.9.9.9");
	assert_false(opened_take(&set, &left));
	assert_null(set);
}

static void test_nobody_can_make_it_grow_without_end(void **state)
{
	uint64_t count = 0, first = 0;
	(void)state;
	for (uint64_t id = 1; id <= OPENED_MAX + 10; id++)
		say(BROKER_OPENED, id, "a.example");
	while (opened_take(&set, &left)) {
		first = first ? first : left.id;
		count++;
	}
	assert_int_equal(count, OPENED_MAX);
	assert_int_equal(first, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_not_closed_is_left),
		cmocka_unit_test(test_nobody_can_make_it_grow_without_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
