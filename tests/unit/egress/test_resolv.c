/* SPDX-License-Identifier: Apache-2.0 */
/* The host's hosts file and resolv.conf, as others read them. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "egress/resolv.h"

static struct resolv r;
static struct cordon_error err;

static void write_file(char path[32], const char *text)
{
	snprintf(path, 32, "/tmp/test-resolv-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void read_both(const char *conf, const char *hosts)
{
	char conf_path[32], hosts_path[32];
	write_file(conf_path, conf);
	write_file(hosts_path, hosts);
	const int result = resolv_read(&r, conf_path, hosts_path, &err);
	unlink(conf_path);
	unlink(hosts_path);
	if (result < 0)
		fail_msg("%s", err.message);
}

static int tear_down(void **state)
{
	(void)state;
	resolv_clear(&r);
	return 0;
}

static void expect_server(size_t i, const char *want)
{
	char text[INET6_ADDRSTRLEN];
	const bool v4 = r.servers[i].any.sa_family == AF_INET;
	inet_ntop(r.servers[i].any.sa_family, v4 ? (void *)&r.servers[i].v4.sin_addr : (void *)&r.servers[i].v6.sin6_addr, text,
	          sizeof(text));
	assert_string_equal(text, want);
	assert_int_equal(ntohs(v4 ? r.servers[i].v4.sin_port : r.servers[i].v6.sin6_port), 53);
}

static void test_servers_and_options_are_read(void **state)
{
	(void)state;
	read_both(
		"# nameserver 1.1.1.1\n;nameserver 2.2.2.2\nsearch example\nnameserver\t9.9.9.9 # here\nnameserver 2620:fe::fe\nnameserver nonsense\n"
		"nameserver 10.0.0.1\r\nnameserver 10.0.0.2\noptions edns0 timeout:7 attempts:99 use-vc\n",
		"");
	assert_int_equal(r.server_count, 3);
	expect_server(0, "9.9.9.9");
	expect_server(1, "2620:fe::fe");
	expect_server(2, "10.0.0.1");
	assert_int_equal(r.timeout_s, 7);
	assert_int_equal(r.attempts, 5);
	assert_true(r.by_stream);
}

static void test_scopes_of_interfaces_are_understood(void **state)
{
	(void)state;
	read_both("nameserver fe80::1%lo\nnameserver fe80::2%no-such-link\n", "");
	assert_int_equal(r.server_count, 1);
	expect_server(0, "fe80::1");
	assert_int_equal(r.servers[0].v6.sin6_scope_id, 1);
}

static void test_without_a_server_it_is_this_host(void **state)
{
	(void)state;
	read_both("options timeout:0 attempts:0 rotate\n", "");
	assert_int_equal(r.server_count, 1);
	expect_server(0, "127.0.0.1");
	assert_true(r.timeout_s > 0 && r.attempts > 0 && !r.by_stream);
}

static void test_servers_can_become_others(void **state)
{
	(void)state;
	read_both("nameserver 9.9.9.9\noptions use-vc timeout:9\n", "10.0.0.1 a.example\n");
	size_t count;
	assert_int_equal(resolv_renew(&r, "nameserver 9.9.9.10\nnameserver 9.9.9.11\n"), 0);
	assert_int_equal(r.server_count, 2);
	expect_server(0, "9.9.9.10");
	expect_server(1, "9.9.9.11");
	assert_false(r.by_stream);
	assert_int_not_equal(r.timeout_s, 9);
	assert_non_null(resolv_host(&r, "a.example", &count));
}

static void test_hosts_are_found_whatever_their_case_in_the_files_order(void **state)
{
	size_t count;
	const struct hosts_entry *e;
	(void)state;
	read_both(
		"",
		"# 1.1.1.1 commented\n10.0.0.2\tB.example other\n10.0.0.1 a.example\n::1 b.EXAMPLE. # here\nnonsense c.example\n10.0.0.1 b.example\n10.0.0.9");
	e = resolv_host(&r, "b.example", &count);
	assert_non_null(e);
	assert_int_equal(count, 3);
	assert_int_equal(e[0].family, AF_INET);
	assert_memory_equal(e[0].address, "\12\0\0\2", 4);
	assert_int_equal(e[1].family, AF_INET6);
	assert_memory_equal(e[2].address, "\12\0\0\1", 4);
	assert_non_null(resolv_host(&r, "a.example", &count));
	assert_int_equal(count, 1);
	assert_non_null(resolv_host(&r, "other", &count));
	static const char *const unknown[] = {"commented", "c.example", "example", "", "zzz", "b.exampl", "b.example0"};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_null(resolv_host(&r, unknown[i], &count));
}

static void test_files_that_are_named_must_be_there(void **state)
{
	(void)state;
	assert_int_equal(resolv_read(&r, "/no/such/file", "/dev/null", &err), -1);
	assert_non_null(strstr(err.message, "/no/such/file"));
	assert_int_equal(resolv_read(&r, "/dev/null", "/no/such/file", &err), -1);
	assert_int_equal(resolv_read(&r, "/dev/zero", "/dev/null", &err), -1);
	assert_int_equal(resolv_read(&r, "/dev/null", "/dev/null", &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_servers_and_options_are_read, tear_down),
		cmocka_unit_test_teardown(test_scopes_of_interfaces_are_understood, tear_down),
		cmocka_unit_test_teardown(test_without_a_server_it_is_this_host, tear_down),
		cmocka_unit_test_teardown(test_servers_can_become_others, tear_down),
		cmocka_unit_test_teardown(test_hosts_are_found_whatever_their_case_in_the_files_order, tear_down),
		cmocka_unit_test_teardown(test_files_that_are_named_must_be_there, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
