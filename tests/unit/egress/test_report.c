/* SPDX-License-Identifier: Apache-2.0 */
/* What happens again and again is told once, and how often it was, later: nothing is told twice, and nothing is lost. */
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "egress/report.h"
#include "sandbox/wire.h"

static struct event_base *base;
static struct reporter *reporter;
static int pair[2];
static struct wire_msg msg;
static struct broker_event told;

static int set_up(void **state)
{
	(void)state;
	base = event_base_new();
	if (!base || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	reporter = reporter_new(base, pair[0]);
	return reporter ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	reporter_free(reporter);
	event_base_free(base);
	close(pair[0]);
	close(pair[1]);
	wire_msg_free(&msg);
	return 0;
}

static bool next(void)
{
	char byte;
	if (recv(pair[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
		return false;
	wire_msg_free(&msg);
	msg = (struct wire_msg){0};
	assert_int_equal(wire_recv(pair[1], &msg, NULL), 1);
	assert_int_equal(broker_event_decode(msg.body, msg.len, &told, NULL), 0);
	return true;
}

static void refused(const char *target, uint16_t port, const char *rule, unsigned times)
{
	const struct broker_event e = {
		.kind = BROKER_DENIED, .target = target, .port = port, .protocol = port ? "tls" : "dns", .rule = rule, .reason = "no"};
	for (unsigned i = 0; i < times; i++)
		report_limited(reporter, &e);
}

static void expect(const char *target, const char *rule, uint64_t again)
{
	assert_true(next());
	assert_string_equal(told.target, target);
	assert_string_equal(told.rule, rule);
	assert_int_equal(told.again, again);
}

static void test_what_happens_again_is_told_at_the_end(void **state)
{
	(void)state;
	refused("a.example", 0, "network.outbound", 5);
	refused("a.example", 443, "network.name", 1);
	refused("a.example", 443, "network.address", 3);
	expect("a.example", "network.outbound", 0);
	expect("a.example", "network.name", 0);
	expect("a.example", "network.address", 0);
	assert_false(next());
	report_rest(reporter);
	expect("a.example", "network.outbound", 4);
	assert_string_equal(told.reason, "4 times more since it was told");
	expect("a.example", "network.address", 2);
	assert_int_equal(told.port, 443);
	assert_false(next());
	report_rest(reporter);
	assert_false(next());
}

static void test_a_new_command_is_told_anew(void **state)
{
	(void)state;
	refused("a.example", 0, "network.outbound", 2);
	expect("a.example", "network.outbound", 0);
	report_afresh(reporter);
	expect("a.example", "network.outbound", 1);
	refused("a.example", 0, "network.outbound", 1);
	expect("a.example", "network.outbound", 0);
	report_rest(reporter);
	assert_false(next());
}

static void test_all_that_was_refused_is_counted_somewhere(void **state)
{
	char name[32];
	uint64_t sum = 0;
	(void)state;
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < REPORT_BURST + 100; i++) {
			snprintf(name, sizeof(name), "n%u.example", i);
			refused(name, 0, "network.outbound", 1);
			while (next()) /* or the socket is full */
				sum += told.again ? told.again : 1;
		}
	report_rest(reporter);
	while (next()) {
		unsigned more;
		if (strcmp(told.target, REPORT_OTHERS) == 0 && sscanf(told.reason, "%u more", &more) == 1)
			sum += more;
		else
			sum += told.again;
	}
	assert_int_equal(sum, 3 * (REPORT_BURST + 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_happens_again_is_told_at_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_new_command_is_told_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_all_that_was_refused_is_counted_somewhere, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
