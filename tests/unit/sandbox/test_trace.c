/* SPDX-License-Identifier: Apache-2.0 */
/* Events of programs that were started inside: how they are written down, sent and read, by a side that trusts nobody. */
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

#include "base/util.h"
#include "sandbox/trace.h"

static struct trace_table *table;

static int begin(void **state)
{
	table = calloc(1, sizeof(*table));
	return table ? 0 : -1;
}

static int end(void **state)
{
	free(table);
	return 0;
}

/* An event in slot i; argv: words that are joined by their NULs. */
static struct trace_slot *fill(uint32_t i, const char *path, const char *argv, size_t argv_len)
{
	struct trace_slot *s = &table->slots[i];
	*s = (struct trace_slot){.state = TRACE_SLOT_ENDED,
	                         .kind = TRACE_EXEC,
	                         .pid = (int32_t)i + 10,
	                         .ppid = 3,
	                         .status = 256,
	                         .time_us = 1700000000000000,
	                         .begun_us = 100,
	                         .duration_us = 1234,
	                         .path_len = (uint32_t)strlen(path) + 1,
	                         .argv_len = (uint32_t)argv_len};
	memcpy(s->text, path, s->path_len);
	memcpy(s->text + s->path_len, argv, argv_len);
	table->used = MAX(table->used, i + 1);
	return s;
}

static struct wire_reader reader(const struct buf *b)
{
	return (struct wire_reader){b->data, b->data + b->len, false};
}

static void test_an_event_arrives_as_it_was(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct trace_event e;
	struct trace_slot *s = fill(0, "/usr/bin/ls", "ls\0-l\0\0", 7);
	s->flags = TRACE_CUT | TRACE_BY_EXEC;
	trace_put(&b, table, s);
	trace_put(&b, table, fill(1, "/bin/true", "", 0));
	trace_put_lost(&b, 3, 77);
	struct wire_reader r = reader(&b);
	assert_int_equal(trace_next(&r, &e), 1);
	assert_int_equal(e.kind, TRACE_EXEC);
	assert_int_equal(e.flags, TRACE_CUT | TRACE_BY_EXEC);
	assert_int_equal(e.seq, 1);
	assert_int_equal(e.pid, 10);
	assert_int_equal(e.ppid, 3);
	assert_int_equal(e.status, 256);
	assert_int_equal(e.time_us, 1700000000000000);
	assert_int_equal(e.duration_us, 1234);
	assert_string_equal(e.path, "/usr/bin/ls");
	assert_int_equal(e.argv.count, 3);
	assert_string_equal(e.argv.items[0], "ls");
	assert_string_equal(e.argv.items[1], "-l");
	assert_string_equal(e.argv.items[2], "");
	assert_null(e.argv.items[3]);
	trace_event_free(&e);
	assert_int_equal(trace_next(&r, &e), 1);
	assert_int_equal(e.seq, 2);
	assert_int_equal(e.argv.count, 0);
	trace_event_free(&e);
	assert_int_equal(trace_next(&r, &e), 1);
	assert_int_equal(e.kind, TRACE_LOST);
	assert_int_equal(e.lost, 77);
	assert_int_equal(e.status, TRACE_UNKNOWN);
	trace_event_free(&e);
	assert_int_equal(trace_next(&r, &e), 0);
}

static void test_an_event_that_is_sent_again_has_its_number(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct trace_event e;
	struct trace_slot *s = fill(0, "/a", "", 0);
	trace_put(&b, table, s);
	trace_put(&b, table, fill(1, "/b", "", 0));
	trace_put(&b, table, s);
	struct wire_reader r = reader(&b);
	static const uint64_t want[] = {1, 2, 1};
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(trace_next(&r, &e), 1);
		assert_int_equal(e.seq, want[i]);
		trace_event_free(&e);
	}
}

static void test_the_longest_event_fits_into_a_message(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct trace_event e;
	struct trace_slot *s = fill(0, "/x", "", 0);
	memset(s->text, 'p', sizeof(s->text));
	s->path_len = (uint32_t)TRACE_PATH_MAX;
	s->argv_len = (uint32_t)(sizeof(s->text) - TRACE_PATH_MAX);
	for (size_t i = 1; i < TRACE_WORDS_MAX; i++)
		s->text[TRACE_PATH_MAX + i * 40] = '\0';
	trace_put(&b, table, s);
	assert_in_range(b.len, TRACE_TEXT_MAX, TRACE_EVENT_MAX);
	assert_true(TRACE_EVENT_MAX <= WIRE_INLINE);
	struct wire_reader r = reader(&b);
	assert_int_equal(trace_next(&r, &e), 1);
	assert_int_equal(strlen(e.path), TRACE_PATH_MAX - 1);
	assert_int_equal(e.argv.count, TRACE_WORDS_MAX);
	trace_event_free(&e);
}

/* A supervisor that was killed in the middle, or worse, leaves anything. Under a sanitizer this would read beyond the slot. */
static void test_a_table_of_garbage_is_read_within_its_bounds(void **state)
{
	for (unsigned seed = 0; seed < 200; seed++) {
		_cleanup_buf_ struct buf b = {0};
		struct trace_event e;
		struct trace_slot *s = fill(0, "/x", "", 0);
		srand(seed);
		for (size_t i = 0; i < sizeof(*s); i++)
			((unsigned char *)s)[i] = (unsigned char)rand();
		if (seed % 2)
			memset(s->text, 'x', sizeof(s->text));
		trace_put(&b, table, s);
		struct wire_reader r = reader(&b);
		while (trace_next(&r, &e) > 0)
			trace_event_free(&e);
	}
}

static void test_malformed_bodies_are_refused(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct trace_event e;
	trace_put(&b, table, fill(0, "/usr/bin/ls", "ls\0-l", 6));
	for (size_t len = 1; len < b.len; len++) {
		struct wire_reader r = {b.data, b.data + len, false};
		assert_int_equal(trace_next(&r, &e), -1);
	}
	const struct {
		size_t at;
		uint32_t value;
	} wrong[] = {{0, 0}, {0, TRACE_KIND_COUNT}, {4, TRACE_FLAGS_ALL + 1}, {48, UINT32_MAX - 1}, {52, UINT32_MAX}, {52, 0}};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_free_ char *copy = malloc(b.len);
		memcpy(copy, b.data, b.len);
		memcpy(copy + wrong[i].at, &wrong[i].value, sizeof(uint32_t));
		struct wire_reader r = {copy, copy + b.len, false};
		assert_int_equal(trace_next(&r, &e), -1);
	}
}

/* How many events a socket holds, which are read and checked. */
static size_t receive(int sock, uint64_t *last)
{
	size_t count = 0;
	struct cordon_error err = {0};
	for (;;) {
		_cleanup_msg_ struct wire_msg msg;
		struct trace_event e;
		if (recv(sock, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
			return count;
		assert_int_equal(wire_recv(sock, &msg, &err), 1);
		assert_int_equal(msg.type, WIRE_TRACE);
		assert_int_equal(msg.fd_count, 0);
		struct wire_reader r = {msg.body, msg.body + msg.len, false};
		int got;
		while ((got = trace_next(&r, &e)) > 0) {
			assert_int_equal(e.seq, ++*last);
			count++;
			trace_event_free(&e);
		}
		assert_int_equal(got, 0);
	}
}

static void test_what_ended_is_sent_and_what_runs_is_kept(void **state)
{
	int pair[2];
	size_t sent = 0;
	uint64_t last = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (uint32_t i = 0; i < 100; i++)
		fill(i, "/usr/bin/program", "program\0argument", 17);
	table->slots[7].state = TRACE_SLOT_OPEN;
	assert_true(trace_send(pair[0], table, &sent));
	assert_int_equal(sent, 99);
	assert_int_equal(receive(pair[1], &last), 99);
	assert_true(trace_send(pair[0], table, &sent));
	assert_int_equal(sent, 99);
	trace_close(table, 600);
	assert_int_equal(table->slots[7].flags, TRACE_RUNNING);
	assert_int_equal(table->slots[7].duration_us, 500);
	assert_true(trace_send(pair[0], table, &sent));
	assert_int_equal(receive(pair[1], &last), 1);
	close(pair[0]);
	close(pair[1]);
}

/* Nobody blocks, and there is room left for one more word. */
static void test_a_library_that_does_not_read_is_waited_for(void **state)
{
	int pair[2];
	size_t sent = 0, received = 0;
	uint64_t last = 0;
	struct cordon_error err = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	for (uint32_t i = 0; i < TRACE_SLOTS; i++) {
		struct trace_slot *s = fill(i, "/x", "", 0);
		memset(s->text, 'y', sizeof(s->text));
		s->path_len = (uint32_t)TRACE_PATH_MAX;
	}
	assert_false(trace_send(pair[0], table, &sent));
	assert_in_range(sent, 1, TRACE_SLOTS - 1);
	_cleanup_buf_ struct buf word = {0};
	buf_add(&word, &(struct exited_msg){0}, sizeof(struct exited_msg));
	assert_int_equal(wire_send(pair[0], WIRE_TRACE, NULL, NULL, 0, &err), 0);
	while (received < TRACE_SLOTS) {
		size_t n = receive(pair[1], &last);
		assert_true(n > 0);
		received += n;
		trace_send(pair[0], table, &sent);
	}
	assert_int_equal(sent, TRACE_SLOTS);
	close(pair[1]);
	fill(0, "/x", "", 0);
	assert_true(trace_send(pair[0], table, &sent)); /* nobody is there: nothing is kept */
	assert_int_equal(table->slots[0].state, TRACE_SLOT_FREE);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_event_arrives_as_it_was, begin, end),
		cmocka_unit_test_setup_teardown(test_an_event_that_is_sent_again_has_its_number, begin, end),
		cmocka_unit_test_setup_teardown(test_the_longest_event_fits_into_a_message, begin, end),
		cmocka_unit_test_setup_teardown(test_a_table_of_garbage_is_read_within_its_bounds, begin, end),
		cmocka_unit_test_setup_teardown(test_malformed_bodies_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(test_what_ended_is_sent_and_what_runs_is_kept, begin, end),
		cmocka_unit_test_setup_teardown(test_a_library_that_does_not_read_is_waited_for, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
