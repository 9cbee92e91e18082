/* SPDX-License-Identifier: Apache-2.0 */
/* What relays take of bytes that cannot go on: little each while the server is waited for, and little more than RELAY_MEMORY together. And that they do not wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/relay.h"

#define COUNT 240 /* four descriptors each: as many as every machine allows. All of them have more to give than may be taken */
#define EACH ((size_t)184 << 10)
_Static_assert(COUNT *EACH > RELAY_MEMORY + COUNT * ((size_t)16 << 10), "or the limit would not be noticed");
#define LITTLE ((size_t)16 << 10)

struct pair {
	struct relay *relay;
	int client, server; /* the far ends */
	int from;           /* what the relay reads of the client */
	bool over;
};

static enum relay_verdict verdict; /* of hold() */

static enum relay_verdict hold(void *arg, enum relay_way way, const void *data, size_t *len)
{
	(void)arg;
	(void)data;
	if (way == RELAY_UP)
		*len = 0;
	return way == RELAY_UP ? verdict : RELAY_PASS;
}

static void over(void *arg, enum relay_end how)
{
	struct pair *p = arg;
	(void)how;
	p->over = true;
}

static void open_pair(struct relays *s, struct pair *p)
{
	int up[2], down[2];
	struct buf first = {0};
	char *bytes = calloc(1, EACH);
	const int room = 2 * EACH;
	assert_non_null(bytes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, up), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, down), 0);
	setsockopt(up[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	assert_true(write(up[0], bytes, EACH) == (ssize_t)EACH);
	free(bytes);
	*p = (struct pair){.client = up[0], .server = down[0], .from = up[1]};
	p->relay = relay_start(
		s, &(struct relay_spec){.client = up[1], .server = down[1], .first = &first, .check = hold, .over = over, .over_arg = p});
	assert_non_null(p->relay);
}

static size_t left(const struct pair *p)
{
	int n = 0;
	assert_int_equal(ioctl(p->from, FIONREAD, &n), 0);
	return (size_t)n;
}

/* How many bytes relays take when all that they have goes nowhere. */
static size_t taken_by(enum relay_verdict v, size_t count)
{
	struct event_base *base = event_base_new();
	struct relays *s = relays_new(base, 0);
	struct pair *pairs = calloc(count, sizeof(*pairs));
	size_t n = count * EACH;
	assert_true(base && s && pairs);
	verdict = v;
	for (size_t i = 0; i < count; i++)
		open_pair(s, &pairs[i]);
	for (int i = 0; i < 10; i++) /* each has its turns */
		event_base_loop(base, EVLOOP_NONBLOCK);
	for (size_t i = 0; i < count; i++) {
		n -= left(&pairs[i]);
		assert_false(pairs[i].over);
		relay_free(pairs[i].relay, true);
		close(pairs[i].client);
		close(pairs[i].server);
	}
	free(pairs);
	relays_free(s);
	event_base_free(base);
	return n;
}

static void test_a_check_may_leave_much_behind(void **state)
{
	(void)state;
	assert_true(taken_by(RELAY_PASS, 10) == 10 * EACH);
}

static void test_little_is_taken_while_the_server_is_waited_for(void **state)
{
	(void)state;
	const size_t n = taken_by(RELAY_WAIT, 10);
	assert_true(n > 0 && n <= 10 * LITTLE);
}

static void test_all_together_take_little_more_than_they_may(void **state)
{
	(void)state;
	const size_t n = taken_by(RELAY_PASS, COUNT);
	assert_true(n >= COUNT * (LITTLE - 1)); /* nobody gets nothing */
	assert_true(n <= RELAY_MEMORY + COUNT * LITTLE);
}

/* Somebody else has the sockets, too, and has made them block. */
static void test_what_is_copied_never_waits(void **state)
{
	struct event_base *base = event_base_new();
	struct relays *s = relays_new(base, 0);
	struct pair p = {0};
	struct buf first = {0};
	int up[2], down[2];
	char *bytes = calloc(1, EACH);
	size_t sent = 0, got = 0;
	ssize_t n;
	(void)state;
	assert_true(base && s && bytes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, up), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, down), 0);
	p.relay = relay_start(
		s, &(struct relay_spec){.client = up[1], .server = down[1], .first = &first, .copied = true, .over = over, .over_arg = &p});
	assert_non_null(p.relay);
	alarm(60); /* else for ever */
	do {       /* more than the server's buffer takes, whose end nobody reads from */
		n = send(up[0], bytes, EACH, MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		event_base_loop(base, EVLOOP_NONBLOCK);
	} while (n > 0);
	assert_int_equal(send(down[0], "answer", 6, 0), 6);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(recv(up[0], bytes, EACH, MSG_DONTWAIT), 6);
	assert_memory_equal(bytes, "answer", 6);
	while ((n = recv(down[0], bytes, EACH, MSG_DONTWAIT)) > 0) {
		got += (size_t)n;
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	alarm(0);
	assert_int_equal(got, sent);
	assert_int_equal(relay_bytes(p.relay, RELAY_UP), sent);
	assert_int_equal(relay_bytes(p.relay, RELAY_DOWN), 6);
	relay_free(p.relay, true);
	free(bytes);
	close(up[0]);
	close(down[0]);
	relays_free(s);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_check_may_leave_much_behind),
		cmocka_unit_test(test_little_is_taken_while_the_server_is_waited_for),
		cmocka_unit_test(test_all_together_take_little_more_than_they_may),
		cmocka_unit_test(test_what_is_copied_never_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
