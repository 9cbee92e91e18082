/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What library and broker say to each other arrives as it was sent, or is an error: every prefix, every byte more, every kind, family and port that cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/util.h"
#include "egress/messages.h"
#include "sandbox/wire.h"

static const char *settings[] = {"clear=network.outbound", "network.outbound=host=a.example;ports=443"};

static const struct broker_config sample_config = {.policy = {settings, ARRAY_SIZE(settings)},
                                                   .proxy = "http://proxy.example:3128",
                                                   .proxy_from = "HTTPS_PROXY",
                                                   .no_proxy = "localhost, .example",
                                                   .resolv = "/etc/resolv.conf",
                                                   .connections = 1000,
                                                   .bandwidth = (uint64_t)5 << 32,
                                                   .trust = "/etc/ssl/cert.pem",
                                                   .authority = {"certificate", "key"}};

static const struct airlock_socket sample_sockets[] = {
	{AIRLOCK_DNS_UDP, AF_INET, 53, 3}, {AIRLOCK_DNS_TCP, AF_INET6, 53, 4}, {AIRLOCK_PORT, AF_INET, 65535, 5}};

static const struct broker_event sample_event = {.kind = BROKER_CLOSED,
                                                 .id = (uint64_t)7 << 40,
                                                 .target = "api.example.com",
                                                 .port = 443,
                                                 .protocol = "tls",
                                                 .rule = "network.outbound",
                                                 .reason = "it was reset",
                                                 .sent = (uint64_t)1 << 50,
                                                 .received = 2,
                                                 .duration_us = 3,
                                                 .again = 4};

static void test_a_command_begins_with_or_without_other_resolvers(void **state)
{
	static const char *const texts[] = {NULL, "", "nameserver 9.9.9.9\n"};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_buf_ struct buf b = {0};
		const char *resolv = "unset";
		broker_fresh_encode(texts[i], &b);
		assert_int_equal(broker_message_kind(b.data, b.len), BROKER_FRESH);
		assert_int_equal(broker_fresh_decode(b.data, b.len, &resolv, NULL), 0);
		assert_true(texts[i] ? strcmp(resolv, texts[i]) == 0 : !resolv);
		assert_int_equal(broker_fresh_decode(b.data, b.len - 1, &resolv, NULL), -1);
		buf_add(&b, "x", 1);
		assert_int_equal(broker_fresh_decode(b.data, b.len, &resolv, NULL), -1);
	}
}

static void test_config_arrives_as_it_was_sent(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct broker_config c;
	(void)state;
	broker_config_encode(&sample_config, &b);
	assert_int_equal(broker_message_kind(b.data, b.len), BROKER_CONFIG);
	assert_int_equal(broker_config_decode(b.data, b.len, &c, NULL), 0);
	assert_int_equal(c.policy.count, ARRAY_SIZE(settings));
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		assert_string_equal(c.policy.items[i], settings[i]);
	assert_string_equal(c.proxy, sample_config.proxy);
	assert_string_equal(c.proxy_from, sample_config.proxy_from);
	assert_string_equal(c.no_proxy, sample_config.no_proxy);
	assert_string_equal(c.resolv, sample_config.resolv);
	assert_null(c.hosts);
	assert_int_equal(c.connections, 1000);
	assert_true(c.bandwidth == sample_config.bandwidth);
	assert_string_equal(c.trust, sample_config.trust);
	assert_string_equal(c.authority.certificate, "certificate");
	assert_string_equal(c.authority.key, "key");
	free(c.policy.items);
}

static void test_sockets_arrive_as_they_were_sent(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct airlock_socket out[WIRE_MAX_FDS];
	size_t count;
	bool last;
	(void)state;
	broker_sockets_encode(sample_sockets, ARRAY_SIZE(sample_sockets), true, &b);
	assert_int_equal(broker_message_kind(b.data, b.len), BROKER_SOCKETS);
	assert_int_equal(broker_sockets_decode(b.data, b.len, out, &count, &last, NULL), 0);
	assert_true(last);
	assert_int_equal(count, ARRAY_SIZE(sample_sockets));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(out[i].kind, sample_sockets[i].kind);
		assert_int_equal(out[i].family, sample_sockets[i].family);
		assert_int_equal(out[i].port, sample_sockets[i].port);
		assert_int_equal(out[i].fd, -1); /* a number of the other process means nothing here */
	}
}

static void test_event_arrives_as_it_was_sent(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct broker_event e;
	(void)state;
	broker_event_encode(&sample_event, &b);
	assert_int_equal(broker_message_kind(b.data, b.len), BROKER_EVENT);
	assert_int_equal(broker_event_decode(b.data, b.len, &e, NULL), 0);
	assert_int_equal(e.kind, BROKER_CLOSED);
	assert_true(e.id == sample_event.id && e.sent == sample_event.sent && e.received == 2 && e.duration_us == 3 && e.again == 4);
	assert_string_equal(e.target, sample_event.target);
	assert_int_equal(e.port, 443);
	assert_string_equal(e.protocol, "tls");
	assert_string_equal(e.rule, "network.outbound");
	assert_string_equal(e.reason, "it was reset");
	assert_null(e.address);
}

/* ---- hostile bytes ---- */

enum sort { SORT_CONFIG, SORT_AUTHORITY, SORT_SOCKETS, SORT_EVENT, SORTS };

static void encode(enum sort s, struct buf *b)
{
	if (s == SORT_CONFIG)
		broker_config_encode(&sample_config, b);
	else if (s == SORT_AUTHORITY)
		broker_authority_encode(&sample_config.authority, b);
	else if (s == SORT_SOCKETS)
		broker_sockets_encode(sample_sockets, ARRAY_SIZE(sample_sockets), false, b);
	else
		broker_event_encode(&sample_event, b);
}

/* From a copy that ends where the message does, so that a sanitizer or valgrind sees a read behind it. */
static int decode(enum sort s, const void *body, size_t len, struct cordon_error *err)
{
	struct broker_config c;
	struct airlock_socket sockets[WIRE_MAX_FDS];
	struct broker_event e;
	size_t count;
	bool last;
	char *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	if (len)
		memcpy(copy, body, len);
	int r = s == SORT_CONFIG      ? broker_config_decode(copy, len, &c, err)
	        : s == SORT_AUTHORITY ? broker_authority_decode(copy, len, &c.authority, err)
	        : s == SORT_SOCKETS   ? broker_sockets_decode(copy, len, sockets, &count, &last, err)
	                              : broker_event_decode(copy, len, &e, err);
	if (r == 0 && s == SORT_CONFIG)
		free(c.policy.items);
	free(copy);
	return r;
}

static void test_a_message_cut_short_or_too_long_is_an_error(void **state)
{
	(void)state;
	for (enum sort s = 0; s < SORTS; s++) {
		_cleanup_buf_ struct buf b = {0};
		encode(s, &b);
		for (size_t len = 0; len < b.len; len++) {
			struct cordon_error err = {0};
			assert_int_equal(decode(s, b.data, len, &err), -1);
			assert_int_equal(err.code, CORDON_ERR_SYSTEM);
			assert_true(err.message[0]);
		}
		assert_int_equal(decode(s, b.data, b.len, NULL), 0);
		buf_add(&b, "", 1);
		assert_int_equal(decode(s, b.data, b.len, NULL), -1);
	}
}

static void test_a_message_of_another_kind_is_an_error(void **state)
{
	(void)state;
	for (enum sort s = 0; s < SORTS; s++) {
		_cleanup_buf_ struct buf b = {0};
		encode(s, &b);
		for (enum sort other = 0; other < SORTS; other++)
			assert_int_equal(decode(other, b.data, b.len, NULL), other == s ? 0 : -1);
		const uint32_t own = (uint32_t)broker_message_kind(b.data, b.len);
		for (uint32_t kind = 0; kind <= BROKER_MESSAGE_COUNT; kind++) { /* the same, but for what it says it is */
			memcpy(b.data, &kind, sizeof(kind));
			assert_int_equal(decode(s, b.data, b.len, NULL), kind == own ? 0 : -1);
		}
	}
	assert_int_equal(broker_message_kind("", 0), 0);
	assert_int_equal(broker_message_kind("\xff\xff\xff\xff", 4), 0);
	assert_int_equal(broker_message_kind("\x05\0\0", 3), 0);
	assert_int_equal(broker_message_kind("\x05\0\0\0", 4), BROKER_READY);
}

/* Any byte may be anything: it is decoded or refused, and nothing is read that is not there (see decode()). */
static void test_changed_bytes_are_decoded_or_refused(void **state)
{
	(void)state;
	for (enum sort s = 0; s < SORTS; s++) {
		_cleanup_buf_ struct buf b = {0};
		encode(s, &b);
		for (size_t i = 0; i < b.len; i++) {
			for (unsigned bit = 0; bit < 8; bit++) {
				b.data[i] = (char)(b.data[i] ^ 1 << bit);
				int r = decode(s, b.data, b.len, NULL);
				assert_true(r == 0 || r == -1);
				b.data[i] = (char)(b.data[i] ^ 1 << bit);
			}
		}
	}
}

static void test_sockets_that_cannot_be_are_refused(void **state)
{
	static const struct airlock_socket wrong[] = {
		{0, AF_INET, 53, -1},
		{AIRLOCK_KIND_COUNT, AF_INET, 53, -1},
		{AIRLOCK_PORT, AF_UNIX, 53, -1},
		{AIRLOCK_PORT, AF_INET, 0, -1},
	};
	struct airlock_socket many[WIRE_MAX_FDS + 1];
	_cleanup_buf_ struct buf none = {0}, more = {0};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_buf_ struct buf b = {0};
		broker_sockets_encode(&wrong[i], 1, true, &b);
		assert_int_equal(decode(SORT_SOCKETS, b.data, b.len, NULL), -1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = sample_sockets[0];
	broker_sockets_encode(many, ARRAY_SIZE(many), true, &more);
	assert_int_equal(decode(SORT_SOCKETS, more.data, more.len, NULL), -1);
	broker_sockets_encode(many, 0, true, &none);
	assert_int_equal(decode(SORT_SOCKETS, none.data, none.len, NULL), -1);
}

static void test_events_that_cannot_be_are_refused(void **state)
{
	struct broker_event wrong[10];
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		wrong[i] = sample_event;
	wrong[0].kind = (enum broker_event_kind)0;
	wrong[1].kind = BROKER_EVENT_COUNT;
	wrong[2].target = NULL;
	wrong[3].protocol = NULL;
	wrong[4].protocol = "tcp ";
	wrong[5].rule = NULL;
	wrong[6].rule = "network\033[5m.x";
	wrong[7].reason = "one line\nand another";
	wrong[8].reason = "\xc2\x9b"
			  "5m"; /* CSI, as terminals read it in UTF-8 */
	wrong[9].target = "a\x7f.example";
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_buf_ struct buf b = {0};
		broker_event_encode(&wrong[i], &b);
		assert_int_equal(decode(SORT_EVENT, b.data, b.len, NULL), -1);
	}
}

static void test_half_an_authority_is_refused(void **state)
{
	struct broker_config c = sample_config;
	_cleanup_buf_ struct buf b = {0};
	(void)state;
	c.authority.key = NULL;
	broker_config_encode(&c, &b);
	assert_int_equal(decode(SORT_CONFIG, b.data, b.len, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_command_begins_with_or_without_other_resolvers),
		cmocka_unit_test(test_config_arrives_as_it_was_sent),
		cmocka_unit_test(test_sockets_arrive_as_they_were_sent),
		cmocka_unit_test(test_event_arrives_as_it_was_sent),
		cmocka_unit_test(test_a_message_cut_short_or_too_long_is_an_error),
		cmocka_unit_test(test_a_message_of_another_kind_is_an_error),
		cmocka_unit_test(test_changed_bytes_are_decoded_or_refused),
		cmocka_unit_test(test_sockets_that_cannot_be_are_refused),
		cmocka_unit_test(test_events_that_cannot_be_are_refused),
		cmocka_unit_test(test_half_an_authority_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
