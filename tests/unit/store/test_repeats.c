/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come more than once with the same Idempotency-Key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static const unsigned char this_request[32] = {1}, another_request[32] = {2};
static const char *tenant;

static int setup(void **state)
{
	if (store_setup(state) < 0)
		return -1;
	tenant = tenant_new("a");
	return 0;
}

/* What a request is told; an answer must be this one, NULL: there is none. */
static enum store_repeat begin(const char *whose, const char *key, const unsigned char digest[32], int64_t now_ms, const char *want)
{
	enum store_repeat what = 0;
	void *answer;
	size_t len;

	assert_fine(store_repeat_begin(store, whose, key, digest, now_ms, &what, &answer, &len, &err));
	if (want) {
		assert_int_equal(len, strlen(want));
		assert_memory_equal(answer, want, len);
	} else {
		assert_null(answer);
	}
	free(answer);
	return what;
}

static void done(const char *key, const char *answer)
{
	assert_fine(store_repeat_done(store, tenant, key, answer, strlen(answer), MINUTE, NOW, &err));
}

static void test_the_first_goes_on_and_the_next_gets_its_answer(void **state)
{
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_PENDING);
	done("k", "201 made");
	assert_int_equal(begin(tenant, "k", this_request, NOW, "201 made"), STORE_AGAIN);
	reopen();
	assert_int_equal(begin(tenant, "k", this_request, NOW, "201 made"), STORE_AGAIN);
}

static void test_the_same_key_with_another_request_is_told_so(void **state)
{
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "k", another_request, NOW, NULL), STORE_OTHER);
	done("k", "answer");
	assert_int_equal(begin(tenant, "k", another_request, NOW, NULL), STORE_OTHER);
	assert_int_equal(begin(tenant, "k", this_request, NOW, "answer"), STORE_AGAIN);
}

static void test_each_tenant_has_keys_of_its_own(void **state)
{
	const char *other = tenant_new("b");

	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	done("k", "for a");
	assert_int_equal(begin(other, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "K", this_request, NOW, NULL), STORE_FIRST);
}

static void test_an_answer_without_bytes_is_one_too(void **state)
{
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_fine(store_repeat_done(store, tenant, "k", NULL, 0, MINUTE, NOW, &err));
	assert_int_equal(begin(tenant, "k", this_request, NOW, ""), STORE_AGAIN);
}

static void test_what_is_forgotten_begins_anew(void **state)
{
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_fine(store_repeat_forget(store, tenant, "k", &err));
	assert_int_equal(begin(tenant, "k", another_request, NOW, NULL), STORE_FIRST);
	done("k", "answer");
	assert_fine(store_repeat_forget(store, tenant, "k", &err)); /* an answer that was given stays */
	assert_int_equal(begin(tenant, "k", another_request, NOW, "answer"), STORE_AGAIN);
}

static void test_an_answer_is_kept_for_its_time(void **state)
{
	uint64_t removed;

	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "pending", this_request, NOW, NULL), STORE_FIRST);
	done("k", "answer");
	assert_int_equal(begin(tenant, "k", this_request, NOW + MINUTE - 1, "answer"), STORE_AGAIN);
	assert_fine(store_expire(store, NOW + MINUTE - 1, &removed, &err));
	assert_int_equal(removed, 0);
	assert_int_equal(begin(tenant, "k", another_request, NOW + MINUTE, NULL), STORE_FIRST); /* also if nobody has removed it */
	done("k", "answer");
	assert_fine(store_expire(store, NOW + MINUTE, &removed, &err));
	assert_int_equal(removed, 1);
	assert_int_equal(ask("SELECT count(*) FROM repeats"), 1); /* the one that is pending */
}

static void test_what_was_pending_is_forgotten_at_the_start(void **state)
{
	assert_int_equal(begin(tenant, "pending", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "done", this_request, NOW, NULL), STORE_FIRST);
	done("done", "answer");
	reopen();
	assert_int_equal(begin(tenant, "pending", this_request, NOW, NULL), STORE_PENDING);
	assert_fine(store_repeat_recover(store, &err));
	assert_int_equal(begin(tenant, "pending", this_request, NOW, NULL), STORE_FIRST);
	assert_int_equal(begin(tenant, "done", this_request, NOW, "answer"), STORE_AGAIN);
}

static void test_an_end_without_a_beginning_is_an_error(void **state)
{
	assert_error(store_repeat_done(store, tenant, "k", "x", 1, MINUTE, NOW, &err), CORDON_ERR_NOT_FOUND, "is under way");
	assert_fine(store_repeat_forget(store, tenant, "k", &err));
	assert_int_equal(begin(tenant, "k", this_request, NOW, NULL), STORE_FIRST);
	done("k", "first");
	assert_error(store_repeat_done(store, tenant, "k", "x", 1, MINUTE, NOW, &err), CORDON_ERR_NOT_FOUND, "is under way");
	assert_int_equal(begin(tenant, "k", this_request, NOW, "first"), STORE_AGAIN);
}

static int try_begin(const char *whose, const char *key)
{
	enum store_repeat what;
	void *answer;
	size_t len;

	return store_repeat_begin(store, whose, key, this_request, NOW, &what, &answer, &len, &err);
}

static void test_keys_that_are_not_right_are_refused(void **state)
{
	char longest[STORE_IDEMPOTENCY_MAX + 2];

	memset(longest, 'k', sizeof(longest) - 1);
	longest[STORE_IDEMPOTENCY_MAX + 1] = '\0';
	assert_error(try_begin(tenant, ""), CORDON_ERR_INPUT, "the idempotency key is missing");
	assert_error(try_begin(tenant, longest), CORDON_ERR_INPUT, "the idempotency key is longer than 255 bytes");
	assert_error(try_begin(tenant, "\xff"), CORDON_ERR_INPUT, "is not UTF-8");
	assert_error(try_begin(tenant, "a\nb"), CORDON_ERR_INPUT, "has control characters");
	assert_error(try_begin("nobody", "k"), CORDON_ERR_NOT_FOUND, "there is no tenant");
	longest[STORE_IDEMPOTENCY_MAX] = '\0';
	assert_fine(try_begin(tenant, longest));
	assert_error(store_repeat_done(store, tenant, longest, "x", STORE_BLOB_MAX + 1, MINUTE, NOW, &err), CORDON_ERR_INPUT,
	             "the answer has 8388609");
	assert_error(store_repeat_done(store, tenant, longest, "x", 1, -1, NOW, &err), CORDON_ERR_INPUT, "how long the answer is kept");
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_the_first_goes_on_and_the_next_gets_its_answer),
		A_TEST(test_the_same_key_with_another_request_is_told_so),
		A_TEST(test_each_tenant_has_keys_of_its_own),
		A_TEST(test_an_answer_without_bytes_is_one_too),
		A_TEST(test_what_is_forgotten_begins_anew),
		A_TEST(test_an_answer_is_kept_for_its_time),
		A_TEST(test_what_was_pending_is_forgotten_at_the_start),
		A_TEST(test_an_end_without_a_beginning_is_an_error),
		A_TEST(test_keys_that_are_not_right_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
