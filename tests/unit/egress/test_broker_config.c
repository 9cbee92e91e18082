/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy and the environment say about the way out arrives in what the broker is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/broker.h"
#include "sandbox/wire.h"

static struct cordon_policy policy;
static struct cordon_error err;
static struct wire_msg msg;
static struct broker_config told;

static int set_up(void **state)
{
	static const char *const variables[] = {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"};
	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
	return policy_init(&policy, &err);
}

static int tear_down(void **state)
{
	(void)state;
	free(told.policy.items);
	told = (struct broker_config){0};
	wire_msg_free(&msg);
	policy_clear(&policy);
	return 0;
}

static void set(const char *key, const char *value)
{
	if (policy_set(&policy, key, value, &err) < 0)
		fail_msg("%s=%s: %s", key, value, err.message);
}

static void tell(void)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(broker_send_config(&(struct broker_process){.sock = pair[0]}, &policy, NULL, &err), 0);
	assert_int_equal(wire_recv(pair[1], &msg, &err), 1);
	assert_int_equal(broker_config_decode(msg.body, msg.len, &told, &err), 0);
	close(pair[0]);
	close(pair[1]);
}

static void test_without_a_word_there_are_a_thousand_connections_and_no_limit(void **state)
{
	(void)state;
	tell();
	assert_int_equal(told.connections, 1000);
	assert_int_equal(told.bandwidth, 0);
	assert_null(told.proxy);
	assert_null(told.proxy_from);
	assert_null(told.no_proxy);
}

static void test_the_policys_limits_are_told(void **state)
{
	(void)state;
	set("network.connections", "7");
	set("network.bandwidth", "1.5M");
	tell();
	assert_int_equal(told.connections, 7);
	assert_int_equal(told.bandwidth, 1536 * 1024);
}

static void test_limits_that_cannot_be_held_are_refused(void **state)
{
	(void)state;
	assert_int_equal(policy_set(&policy, "network.connections", "0", &err), -1);
	assert_int_equal(policy_set(&policy, "network.connections", "1001", &err), -1);
	assert_int_equal(policy_set(&policy, "network.bandwidth", "100", &err), -1);
	set("network.bandwidth", "1K");
	set("network.bandwidth", "unlimited");
	assert_int_equal(policy.network.bandwidth, 0);
}

static void test_the_first_variable_that_says_something_counts(void **state)
{
	(void)state;
	setenv("HTTPS_PROXY", "", 1);
	setenv("https_proxy", "one.example:1", 1);
	setenv("ALL_PROXY", "two.example:2", 1);
	setenv("no_proxy", "a,b", 1);
	tell();
	assert_string_equal(told.proxy, "one.example:1");
	assert_string_equal(told.proxy_from, "https_proxy");
	assert_string_equal(told.no_proxy, "a,b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without_a_word_there_are_a_thousand_connections_and_no_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_policys_limits_are_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits_that_cannot_be_held_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_first_variable_that_says_something_counts, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
