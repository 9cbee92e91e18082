/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../alloc.h"
#include "base/util.h"
#include "egress/addresses.h"
#include "egress/names.h"

#define NUMBERS (AIRLOCK_NAME_LAST - AIRLOCK_NAME_FIRST + 1)

static struct names *names;

static void table_of(uint32_t capacity)
{
	names_free(names);
	names = names_new(capacity);
	assert_non_null(names);
}

static int tear_down(void **state)
{
	names_free(names);
	names = NULL;
	return 0;
}

static uint32_t number(const char *name, uint64_t now)
{
	uint32_t n = names_number(names, name, now);

	if (n) {
		assert_in_range(n, AIRLOCK_NAME_FIRST, AIRLOCK_NAME_LAST);
		assert_string_equal(names_of(names, n), name);
	}
	return n;
}

/* ---- tests ---- */

static void test_a_name_keeps_its_number(void **state)
{
	table_of(10);
	uint32_t a = number("a.example", 0), b = number("b.example", 0);

	assert_true(a && b && a != b);
	assert_int_equal(number("a.example", 1), a);
	assert_int_equal(number("a.example", 1000), a);
	assert_int_equal(number("b.example", 1000000), b);
}

static void test_what_nobody_asked_for_has_no_name(void **state)
{
	table_of(NUMBERS);
	uint32_t a = number("a.example", 0), named = 0;

	for (uint32_t i = 0; i < 70000; i++)
		named += names_of(names, i) != NULL;
	assert_int_equal(named, 1);
	assert_null(names_of(names, UINT32_MAX));
	assert_null(names_of(names, a + 0x10000));
}

static void test_every_number_is_given_to_one_name(void **state)
{
	static bool seen[AIRLOCK_NAME_LAST + 1];
	char name[32];

	table_of(UINT32_MAX); /* as many as there are */
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < NUMBERS; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		uint32_t n = number(name, 0);

		assert_true(n && !seen[n]);
		seen[n] = true;
	}
	assert_int_equal(number("one.more.example", 0), 0);
}

static void test_a_number_is_not_given_to_another_while_it_is_promised(void **state)
{
	table_of(2);
	uint32_t a = number("a", 100);

	assert_true(number("b", 100 + NAMES_TTL_S));
	assert_int_equal(number("c", 100 + NAMES_TTL_S), 0);
	assert_int_equal(number("c", 101 + NAMES_TTL_S), a);
	assert_int_equal(number("a", 101 + NAMES_TTL_S), 0); /* it is gone, and b is promised still */
	assert_string_equal(names_of(names, a), "c");
}

static void test_the_name_that_was_not_asked_for_for_longest_goes(void **state)
{
	table_of(3);
	uint32_t a = number("a", 0), b = number("b", 1), c = number("c", 2);

	assert_int_equal(number("a", 3), a);
	assert_int_equal(number("d", 100), b);
	assert_int_equal(number("e", 100), c);
	assert_int_equal(number("f", 100), a);
	assert_int_equal(number("g", 100), 0);
}

static void test_a_name_with_a_connection_stays(void **state)
{
	table_of(2);
	uint32_t a = number("a", 0), b = number("b", 0);

	names_hold(names, a);
	names_hold(names, a);
	assert_int_equal(number("c", 100), b);
	assert_int_equal(number("d", 1000), b);
	assert_string_equal(names_of(names, a), "a");
	names_hold(names, b);
	assert_int_equal(number("e", 10000), 0); /* both are held */
	names_release(names, a);
	assert_int_equal(number("e", 20000), 0); /* by one still */
	assert_int_equal(number("a", 20000), a); /* asking for it changes nothing */
	assert_int_equal(number("e", 30000), 0);
	names_release(names, a);
	assert_int_equal(number("e", 40000), a);
}

/* Who had a connection to it may make another without asking. */
static void test_the_end_of_a_connection_is_a_use(void **state)
{
	table_of(2);
	uint32_t a = number("a", 0), b;

	names_hold(names, a);
	b = number("b", 100);
	names_release(names, a);
	assert_int_equal(number("c", 100 + NAMES_TTL_S), 0);
	assert_int_equal(number("c", 101 + NAMES_TTL_S), b);
	assert_int_equal(number("d", 101 + NAMES_TTL_S), a);
}

static void test_numbers_of_nobody_cannot_be_held(void **state)
{
	table_of(2);
	uint32_t a = number("a", 0), other = a == AIRLOCK_NAME_LAST ? AIRLOCK_NAME_FIRST : a + 1;
	const uint32_t strange[] = {0, AIRLOCK_DNS_NUMBER, AIRLOCK_NAME_FIRST - 1, AIRLOCK_NAME_LAST + 1, UINT32_MAX, other};

	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		names_hold(names, strange[i]);
		names_release(names, strange[i]);
		names_release(names, strange[i]);
	}
	names_release(names, a); /* was not held */
	names_hold(names, a);
	uint32_t b = number("b", 0);
	assert_int_equal(number("c", 100), b);
	names_release(names, a);
	assert_int_equal(number("d", 200), b);
	assert_int_equal(number("e", 200), a);
}

static void test_a_clock_that_goes_back_shortens_no_promise(void **state)
{
	table_of(1);
	uint32_t a = number("a", 1000);

	assert_int_equal(number("a", 10), a);
	assert_int_equal(number("b", 20), 0);
	assert_int_equal(number("b", 1000 + NAMES_TTL_S), 0);
	assert_int_equal(number("b", 1001 + NAMES_TTL_S), a);
}

static void test_without_memory_there_is_no_room_and_nothing_is_lost(void **state)
{
	table_of(2);
	uint32_t a = number("a", 0), b = number("b", 1);

	allocations_left = 0;
	uint32_t refused = names_number(names, "c", 100), kept = names_number(names, "b", 100);
	allocations_left = -1;
	assert_int_equal(refused, 0);
	assert_int_equal(kept, b);
	assert_string_equal(names_of(names, a), "a");
	assert_int_equal(number("c", 100), a);

	table_of(2);
	allocations_left = 0;
	refused = names_number(names, "first", 0);
	allocations_left = -1;
	assert_int_equal(refused, 0);
	assert_true(number("first", 0));
}

static void test_a_capacity_of_nothing_is_one(void **state)
{
	table_of(0);
	assert_true(number("a", 0));
	assert_int_equal(number("b", 0), 0);
}

/* A broker that is started again must not have old addresses mean new names. */
static void test_tables_begin_at_different_numbers(void **state)
{
	uint32_t first[8];
	bool differ = false;

	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		table_of(10);
		first[i] = number("a", 0);
		differ |= first[i] != first[0];
	}
	assert_true(differ);
}

/* Names below an allowed suffix, without end. */
static void test_a_flood_of_names_takes_no_more_places_than_there_are(void **state)
{
	char name[64];
	uint32_t held, live = 0;

	table_of(1000);
	held = number("held.example", 0);
	names_hold(names, held);
	for (uint32_t i = 0; i < 300000; i++) {
		snprintf(name, sizeof(name), "%08x-%u.data.example", i * 2654435761u, i);
		if (number(name, i / 20)) /* of the 620 that come in a TTL, all have room */
			live++;
	}
	assert_int_equal(live, 300000);
	live = 0;
	for (uint32_t n = AIRLOCK_NAME_FIRST; n <= AIRLOCK_NAME_LAST; n++)
		live += names_of(names, n) != NULL;
	assert_int_equal(live, 1000);
	assert_string_equal(names_of(names, held), "held.example");
	live = 0;
	for (uint32_t i = 0; i < 5000; i++) { /* all at once: those that have none are told so */
		snprintf(name, sizeof(name), "%u.burst.example", i);
		live += number(name, 1000000) != 0;
	}
	assert_int_equal(live, 999);
}

/* ---- against a model that looks at everything, always ---- */

#define MODEL_ROOM 8
#define MODEL_NAMES 24

static struct {
	uint32_t number[MODEL_NAMES]; /* 0: none */
	uint64_t used[MODEL_NAMES], order[MODEL_NAMES];
	uint32_t holds[MODEL_NAMES];
	uint64_t step;
} model;

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Which has to go for another; MODEL_NAMES: there is room, -1: none may go. */
static int model_victim(uint64_t now)
{
	int victim = -1;
	unsigned count = 0;

	for (int i = 0; i < MODEL_NAMES; i++) {
		count += model.number[i] != 0;
		if (model.number[i] && !model.holds[i] && (victim < 0 || model.order[i] < model.order[victim]))
			victim = i;
	}
	if (count < MODEL_ROOM)
		return MODEL_NAMES;
	return victim >= 0 && now > model.used[victim] + NAMES_TTL_S ? victim : -1;
}

static void model_use(int i, uint64_t now)
{
	model.used[i] = now;
	model.order[i] = ++model.step;
}

static void model_ask(int i, uint64_t now)
{
	int victim = model.number[i] ? i : model_victim(now);
	char name[16];
	uint32_t n;

	snprintf(name, sizeof(name), "n%d", i);
	n = number(name, now);
	if (victim < 0) {
		assert_int_equal(n, 0);
		return;
	}
	assert_true(n != 0);
	if (victim < MODEL_NAMES) {
		assert_int_equal(n, model.number[victim]);
		model.number[victim] = 0;
	}
	for (int k = 0; k < MODEL_NAMES; k++)
		assert_true(model.number[k] != n);
	model.number[i] = n;
	if (!model.holds[i])
		model_use(i, now);
}

static void model_check(void)
{
	char name[16];

	for (int i = 0; i < MODEL_NAMES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		if (model.number[i])
			assert_string_equal(names_of(names, model.number[i]), name);
	}
}

static void test_it_does_what_a_simple_list_would(void **state)
{
	uint32_t seed = 0x5eed;
	uint64_t now = 0;

	memset(&model, 0, sizeof(model));
	table_of(MODEL_ROOM);
	for (int step = 0; step < 50000; step++) {
		uint32_t r = next_random(&seed);
		int i = (int)(r >> 8) % MODEL_NAMES;

		now += (r >> 16) % 12;
		if (r % 4 < 2) {
			model_ask(i, now);
		} else if (model.number[i] && r % 4 == 2 && model.holds[i] < 2) {
			model.holds[i]++;
			names_hold(names, model.number[i]);
		} else if (model.number[i] && model.holds[i]) {
			model_ask(i, now); /* the table hears what time it is */
			names_release(names, model.number[i]);
			if (--model.holds[i] == 0)
				model_use(i, now);
		}
		model_check();
	}
}

/* ---- addresses ---- */

static void test_every_number_is_two_addresses_and_back(void **state)
{
	for (uint32_t n = AIRLOCK_NAME_FIRST; n <= AIRLOCK_NAME_LAST; n++) {
		uint8_t four[4], six[16];

		names_address4(n, four);
		names_address6(n, six);
		assert_int_equal(names_number_of4(four), n);
		assert_int_equal(names_number_of6(six), n);
	}
}

static void test_addresses_are_in_their_blocks(void **state)
{
	static const uint8_t four[4] = {198, 18, 0x12, 0x34}, six[16] = {0xfd, 0, 0, 0xc0, [14] = 0x12, 0x34};
	uint8_t is4[4], is6[16];

	names_address4(0x1234, is4);
	names_address6(0x1234, is6);
	assert_memory_equal(is4, four, sizeof(four));
	assert_memory_equal(is6, six, sizeof(six));
}

static void test_other_addresses_are_nobodys(void **state)
{
	static const uint8_t four[][4] = {{0},
	                                  {198, 18, 0, 0},
	                                  {198, 18, 0, 1},
	                                  {198, 18, 0, 15},
	                                  {198, 18, 254, 0},
	                                  {198, 18, 255, 255},
	                                  {198, 19, 0, 16},
	                                  {198, 17, 0, 16},
	                                  {127, 18, 0, 16},
	                                  {198, 19, 255, 254},
	                                  {255, 255, 255, 255}};
	static const uint8_t six[][16] = {{0},
	                                  {0xfd, 0, 0, 0xc0},
	                                  {0xfd, 0, 0, 0xc0, [15] = 1},
	                                  {0xfd, 0, 0, 0xc0, [15] = 15},
	                                  {0xfd, 0, 0, 0xc0, [14] = 0xfe, 0},
	                                  {0xfd, 0, 0, 0xc0, [14] = 0xff, 0xff},
	                                  {0xfd, 0, 0, 0xc0, [13] = 1, 0, 16},
	                                  {0xfd, 0, 0, 0xc0, 1, [15] = 16},
	                                  {0xfd, 0, 0, 0xc1, [15] = 16},
	                                  {[10] = 0xff, 0xff, 198, 18, 0, 16}};

	for (size_t i = 0; i < ARRAY_SIZE(four); i++)
		assert_int_equal(names_number_of4(four[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(six); i++)
		assert_int_equal(names_number_of6(six[i]), 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_name_keeps_its_number),
		TEST(test_what_nobody_asked_for_has_no_name),
		TEST(test_every_number_is_given_to_one_name),
		TEST(test_a_number_is_not_given_to_another_while_it_is_promised),
		TEST(test_the_name_that_was_not_asked_for_for_longest_goes),
		TEST(test_a_name_with_a_connection_stays),
		TEST(test_the_end_of_a_connection_is_a_use),
		TEST(test_numbers_of_nobody_cannot_be_held),
		TEST(test_a_clock_that_goes_back_shortens_no_promise),
		TEST(test_without_memory_there_is_no_room_and_nothing_is_lost),
		TEST(test_a_capacity_of_nothing_is_one),
		TEST(test_tables_begin_at_different_numbers),
		TEST(test_a_flood_of_names_takes_no_more_places_than_there_are),
		TEST(test_it_does_what_a_simple_list_would),
		TEST(test_every_number_is_two_addresses_and_back),
		TEST(test_addresses_are_in_their_blocks),
		TEST(test_other_addresses_are_nobodys),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
