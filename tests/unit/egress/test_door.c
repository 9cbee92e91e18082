/* SPDX-License-Identifier: Apache-2.0 */
/* The door of a sandbox from both sides: init, which makes sockets (init_door.c), and the broker, which takes them (door.c); and each of them when the other one is not itself any more. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/door.h"
#include "sandbox/airlock.h"
#include "sandbox/init_parts.h"

static struct init in;
static struct event_base *base;
static struct door *door;
static int ends[2]; /* the broker's, init's */
static unsigned changes;
static int lowest; /* free descriptor before the test */

static int lowest_free(void)
{
	int fd = dup(STDERR_FILENO);
	close(fd);
	return fd;
}

static void changed(void *arg)
{
	(void)arg;
	changes++;
}

static int set_up(void **state)
{
	(void)state;
	base = event_base_new();
	lowest = lowest_free();
	in.door = -1;
	changes = 0;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

static int tear_down(void **state)
{
	(void)state;
	event_base_free(base);
	return 0;
}

static void open_door(void)
{
	door = door_new(base, ends[0], changed, NULL);
	assert_non_null(door);
}

/* … with init behind it. */
static void give_to_init(void)
{
	struct wire_msg msg = {.type = WIRE_DOOR, .fds = {ends[1]}, .fd_count = 1};
	init_door_take(&in, &msg);
	assert_int_equal(in.door, ends[1]);
	wire_msg_free(&msg);
}

static void look(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

static void assert_nothing_left_open(void)
{
	assert_int_equal(lowest_free(), lowest);
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
	return value;
}

static void assert_socket(int fd, int family)
{
	assert_true(fd >= 0);
	assert_int_equal(option(fd, SO_DOMAIN), family);
	assert_int_equal(option(fd, SO_TYPE), SOCK_STREAM);
	assert_int_equal(option(fd, SO_PROTOCOL), IPPROTO_TCP);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* ---- both as they should be ---- */

static void test_pairs_are_there_before_anybody_comes(void **state)
{
	struct door_pair pair;
	open_door();
	give_to_init();
	for (int i = 0; i < DOOR_STOCK; i++)
		init_door_answer(&in);
	init_door_answer(&in); /* nobody asks any more */
	look();
	assert_true(changes > 0);
	for (int i = 0; i < DOOR_STOCK; i++) {
		assert_int_equal(door_take(door, &pair), DOOR_GIVEN);
		assert_socket(pair.fds[DOOR_V4], AF_INET);
		if (pair.fds[DOOR_V6] >= 0) /* or this machine has none */
			assert_socket(pair.fds[DOOR_V6], AF_INET6);
		door_pair_close(&pair);
	}
	assert_int_equal(door_take(door, &pair), DOOR_LATER);
	door_need(door, 1);
	init_door_answer(&in);
	look();
	assert_int_equal(door_take(door, &pair), DOOR_GIVEN);
	door_pair_close(&pair);
	door_free(door);
	init_door_answer(&in); /* what was asked for is answered into the void, or the end is seen */
	for (int i = 0; i < 2 * DOOR_STOCK && in.door >= 0; i++)
		init_door_answer(&in);
	assert_int_equal(in.door, -1);
	assert_nothing_left_open();
}

static void test_no_more_is_asked_for_than_there_may_be(void **state)
{
	unsigned asked = 0;
	open_door();
	for (int i = 0; i < 3; i++)
		door_need(door, 1000);
	while (wire_recv_word(ends[1], WIRE_DOOR) > 0)
		asked++;
	assert_int_equal(asked, DOOR_ASKED_MAX);
	door_free(door);
	close(ends[1]);
	assert_nothing_left_open();
}

static void test_a_later_door_takes_the_place_of_an_earlier_one(void **state)
{
	int later[2];
	char byte;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, later), 0);
	give_to_init();
	struct wire_msg msg = {.type = WIRE_DOOR, .fds = {later[1]}, .fd_count = 1};
	init_door_take(&in, &msg);
	wire_msg_free(&msg);
	assert_int_equal(in.door, later[1]);
	assert_true(fcntl(in.door, F_GETFL) & O_NONBLOCK);
	assert_int_equal(recv(ends[0], &byte, 1, 0), 0);
	close(later[0]);
	close(ends[0]);
	init_door_answer(&in);
	assert_int_equal(in.door, -1);
	assert_nothing_left_open();
}

static void test_a_door_comes_alone(void **state)
{
	struct wire_msg two = {.type = WIRE_DOOR, .fds = {dup(ends[1]), dup(ends[1])}, .fd_count = 2}, none = {.type = WIRE_DOOR},
			with_body = {.type = WIRE_DOOR, .fds = {dup(ends[1])}, .fd_count = 1, .body = strdup("x"), .len = 1};
	struct wire_msg *wrong[] = {&two, &none, &with_body};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		init_door_take(&in, wrong[i]);
		wire_msg_free(wrong[i]);
		assert_int_equal(in.door, -1);
	}
	close(ends[0]);
	close(ends[1]);
	assert_nothing_left_open();
}

/* ---- a broker that is not itself any more ---- */

static void test_init_understands_one_word(void **state)
{
	_cleanup_buf_ struct buf body = {0};
	_cleanup_fd_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	wire_put_u32(&body, 0);
	lowest = lowest_free();
	for (int i = 0; i < 6; i++) {
		int pair[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		struct wire_msg msg = {.type = WIRE_DOOR, .fds = {pair[1]}, .fd_count = 1};
		init_door_take(&in, &msg);
		wire_msg_free(&msg);
		if (i == 0)
			wire_send(pair[0], WIRE_EXEC, NULL, NULL, 0, NULL);
		else if (i == 1)
			wire_send(pair[0], WIRE_DOOR, &body, NULL, 0, NULL);
		else if (i == 2)
			assert_int_equal(send(pair[0], "x", 1, 0), 1);
		else if (i == 3)
			assert_int_equal(send(pair[0], "sixteen bytes...", 16, 0), 16);
		else if (i == 4)
			shutdown(pair[0], SHUT_WR);
		else
			close(pair[0]);
		init_door_answer(&in);
		assert_int_equal(in.door, -1);
		if (i != 5)
			close(pair[0]);
		assert_int_equal(lowest_free(), lowest);
	}
	/* descriptors with it are not even looked at */
	assert_int_equal(wire_send(ends[0], WIRE_DOOR, NULL, &null, 1, NULL), 0);
	give_to_init();
	const int before = lowest_free();
	init_door_answer(&in);
	assert_int_equal(lowest_free(), before);
	close(ends[0]);
	cleanup_fd(&in.door);
}

static void test_init_does_not_wait_for_a_broker_that_does_not_take(void **state)
{
	give_to_init();
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 100000 && in.door >= 0; i++) {
		wire_send(ends[0], WIRE_DOOR, NULL, NULL, 0, NULL);
		init_door_answer(&in);
	}
	assert_int_equal(in.door, -1);
	close(ends[0]);
	assert_nothing_left_open();
}

/* ---- an init that is not itself any more ---- */

static int listening(int family)
{
	int fd = socket(family, SOCK_STREAM, 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* With itself: TCP allows that. */
static int connected(int family)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(to);
	assert_int_equal(family, AF_INET);
	int fd = socket(family, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, len), 0);
	return fd;
}

static int datagram(int family)
{
	return socket(family, SOCK_DGRAM, 0);
}

static int fresh(int family)
{
	return socket(family, SOCK_STREAM, 0);
}

static int local(int family)
{
	(void)family;
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int other_family(int family)
{
	return socket(family == AF_INET ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
}

static int no_socket(int family)
{
	(void)family;
	return open("/dev/null", O_RDWR);
}

static const struct answer {
	const char *about;
	int (*make)(int family);
	uint16_t kind;
	size_t told, count; /* how many it says that there are, and how many come */
	enum wire_type type;
	bool good;
} answers[] = {
	{"one is enough", fresh, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, true},
	{"a datagram socket", datagram, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"a socket of the host's files", local, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"one of the other family", other_family, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"one that listens", listening, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"one that is connected", connected, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"no socket at all", no_socket, AIRLOCK_INSIDE, 1, 1, WIRE_AIRLOCK, false},
	{"of another kind", fresh, AIRLOCK_PORT, 1, 1, WIRE_AIRLOCK, false},
	{"a door", fresh, AIRLOCK_DOOR, 1, 1, WIRE_AIRLOCK, false},
	{"two of the same family", fresh, AIRLOCK_INSIDE, 2, 2, WIRE_AIRLOCK, false},
	{"more than were told", fresh, AIRLOCK_INSIDE, 0, 1, WIRE_AIRLOCK, false},
	{"fewer than were told", fresh, AIRLOCK_INSIDE, 1, 0, WIRE_AIRLOCK, false},
	{"many", fresh, AIRLOCK_INSIDE, 8, 8, WIRE_AIRLOCK, false},
	{"another message", fresh, AIRLOCK_INSIDE, 1, 1, WIRE_READY, false},
	{"the broker's own word", fresh, AIRLOCK_INSIDE, 0, 0, WIRE_DOOR, false},
};

static void send_answer(const struct answer *a)
{
	_cleanup_buf_ struct buf body = {0};
	int fds[WIRE_MAX_FDS];
	for (size_t i = 0; i < a->told; i++)
		airlock_socket_put(&body, &(struct airlock_socket){.kind = a->kind,
		                                                   .family = a->kind == AIRLOCK_DOOR ? AF_UNIX : AF_INET,
		                                                   .port = a->kind == AIRLOCK_PORT ? 80 : 0});
	for (size_t i = 0; i < a->count; i++)
		assert_true((fds[i] = a->make(AF_INET)) >= 0);
	assert_int_equal(wire_send(ends[1], a->type, &body, fds, a->count, NULL), 0);
	for (size_t i = 0; i < a->count; i++)
		close(fds[i]);
}

static void test_sockets_that_were_not_asked_for_shut_the_door(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct door_pair pair;
		if (i)
			assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
		changes = 0;
		open_door();
		send_answer(&answers[i]);
		look();
		const enum door_answer got = door_take(door, &pair);
		if (got != (answers[i].good ? DOOR_GIVEN : DOOR_SHUT) || changes != 1)
			fail_msg("%s: %d, %u changes", answers[i].about, (int)got, changes);
		if (answers[i].good) /* also one that would block */
			assert_true(fcntl(pair.fds[DOOR_V4], F_GETFL) & O_NONBLOCK);
		door_pair_close(&pair);
		door_need(door, 5); /* to nobody */
		door_free(door);
		close(ends[1]);
		if (lowest_free() != lowest)
			fail_msg("%s: something was left open", answers[i].about);
	}
}

static void test_bytes_and_the_end_shut_the_door(void **state)
{
	struct door_pair pair;
	for (int i = 0; i < 2; i++) {
		if (i)
			assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
		open_door();
		if (i == 0)
			assert_int_equal(send(ends[1], "x", 1, 0), 1);
		else
			close(ends[1]);
		look();
		assert_int_equal(door_take(door, &pair), DOOR_SHUT);
		if (i == 0)
			close(ends[1]);
		door_free(door);
	}
	assert_nothing_left_open();
}

static void test_an_answer_without_a_question_shuts_the_door(void **state)
{
	struct door_pair pair;
	open_door();
	for (int i = 0; i <= DOOR_STOCK; i++)
		send_answer(&answers[0]);
	look();
	for (int i = 0; i < DOOR_STOCK; i++) { /* what came before is good */
		assert_int_equal(door_take(door, &pair), DOOR_GIVEN);
		door_pair_close(&pair);
	}
	assert_int_equal(door_take(door, &pair), DOOR_SHUT);
	door_free(door);
	close(ends[1]);
	assert_nothing_left_open();
}

static unsigned questions(void)
{
	unsigned n = 0;
	while (wire_recv_word(ends[1], WIRE_DOOR) > 0)
		n++;
	return n;
}

static void say_none(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		assert_int_equal(wire_send(ends[1], WIRE_AIRLOCK, NULL, NULL, 0, NULL), 0);
	look();
}

static void test_an_init_without_sockets_says_so_once_for_each_that_waits(void **state)
{
	struct door_pair pair;
	open_door();
	say_none(1); /* to nobody */
	assert_int_equal(door_take(door, &pair), DOOR_LATER);
	door_need(door, 2);
	say_none(DOOR_STOCK - 1);
	assert_int_equal(door_take(door, &pair), DOOR_NONE);
	assert_int_equal(door_take(door, &pair), DOOR_NONE);
	assert_int_equal(door_take(door, &pair), DOOR_LATER);
	door_free(door);
	close(ends[1]);
	assert_nothing_left_open();
}

static void test_who_has_left_is_not_refused_in_the_place_of_others(void **state)
{
	struct door_pair pair;
	open_door();
	door_need(door, 1);
	say_none(1);
	door_need(door, 0);
	assert_int_equal(door_take(door, &pair), DOOR_LATER);
	door_free(door);
	close(ends[1]);
	assert_nothing_left_open();
}

/* Only for those that wait, and not before some time has passed. */
static void test_an_init_without_sockets_is_left_alone(void **state)
{
	struct door_pair pair;
	open_door();
	assert_int_equal(questions(), DOOR_STOCK);
	say_none(DOOR_STOCK);
	door_need(door, 0);
	assert_int_equal(questions(), 0);
	door_need(door, 3);
	assert_int_equal(questions(), 0);
	changes = 0;
	event_base_loop(base, EVLOOP_ONCE); /* until that time has passed */
	assert_int_equal(changes, 1);
	door_need(door, 0);
	assert_int_equal(questions(), 0);
	door_need(door, 3);
	door_need(door, 3);
	assert_int_equal(questions(), 3);
	send_answer(&answers[0]); /* it has some again */
	look();
	assert_int_equal(door_take(door, &pair), DOOR_GIVEN);
	door_pair_close(&pair);
	door_need(door, 2);
	assert_int_equal(questions(), DOOR_STOCK);
	door_free(door);
	close(ends[1]);
	assert_nothing_left_open();
}

/* ---- its sockets ---- */

static int fill_backlog(struct sockaddr_in *to, int *listener)
{
	socklen_t len = sizeof(*to);
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	*listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(*listener, (struct sockaddr *)to, len), 0);
	assert_int_equal(listen(*listener, 0), 0);
	assert_int_equal(getsockname(*listener, (struct sockaddr *)to, &len), 0);
	int first = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(first, (struct sockaddr *)to, len), 0);
	return first;
}

/* Init can make it block again, whenever it likes. */
static void test_to_connect_does_not_wait_whatever_the_file_says(void **state)
{
	struct sockaddr_in to;
	int listener, first = fill_backlog(&to, &listener);
	for (int i = 0; i < 2; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		alarm(60); /* else it would be minutes */
		assert_int_equal(door_connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
		if (errno == EOPNOTSUPP) /* this machine has it switched off; a sandbox has not */
			skip();
		assert_int_equal(errno, EINPROGRESS);
		alarm(0);
		close(fd);
	}
	close(first);
	close(listener);
	close(ends[0]);
	close(ends[1]);
	assert_nothing_left_open();
}

/* ---- kinds ---- */

static void test_each_kind_has_its_families_and_a_port_or_none(void **state)
{
	static const struct {
		uint16_t kind, family, port;
		bool good, leads_out;
	} cases[] = {
		{AIRLOCK_DNS_UDP, AF_INET, 53, true, true},
		{AIRLOCK_DNS_TCP, AF_INET6, 53, true, true},
		{AIRLOCK_PORT, AF_INET6, 443, true, true},
		{AIRLOCK_PORT, AF_INET, 0, false, false},
		{AIRLOCK_PORT, AF_UNIX, 443, false, false},
		{AIRLOCK_DOOR, AF_UNIX, 0, true, false},
		{AIRLOCK_DOOR, AF_INET, 0, false, false},
		{AIRLOCK_DOOR, AF_UNIX, 1, false, false},
		{AIRLOCK_INSIDE, AF_INET, 0, true, false},
		{AIRLOCK_INSIDE, AF_INET6, 0, true, false},
		{AIRLOCK_INSIDE, AF_INET, 80, false, false},
		{AIRLOCK_INSIDE, AF_UNIX, 0, false, false},
		{AIRLOCK_PUBLISHED, AF_INET, 80, true, false},
		{AIRLOCK_PUBLISHED, AF_INET, 0, false, false},
		{AIRLOCK_PUBLISHED, AF_UNIX, 80, false, false},
		{AIRLOCK_KIND_COUNT, AF_INET, 80, false, false},
		{0, AF_INET, 80, false, false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct airlock_socket sent = {cases[i].kind, cases[i].family, cases[i].port, -1};
		struct airlock_socket got;
		struct airlock airlock = {0};
		_cleanup_buf_ struct buf body = {0};
		airlock_socket_put(&body, &sent);
		struct wire_reader r = {.at = body.data, .end = body.data + body.len};
		if (airlock_socket_get(&r, &got) != cases[i].good)
			fail_msg("case %zu", i);
		/* out of a sandbox that is being made comes nothing else than what leads out of it */
		struct wire_msg msg = {.type = WIRE_AIRLOCK, .body = body.data, .len = body.len, .fds = {dup(ends[0])}, .fd_count = 1};
		if ((airlock_receive(&airlock, &msg, NULL) == 0) != cases[i].leads_out)
			fail_msg("case %zu", i);
		airlock_close(&airlock);
		msg.body = NULL;
		wire_msg_free(&msg);
	}
	close(ends[0]);
	close(ends[1]);
	assert_nothing_left_open();
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pairs_are_there_before_anybody_comes),
		TEST(test_no_more_is_asked_for_than_there_may_be),
		TEST(test_a_later_door_takes_the_place_of_an_earlier_one),
		TEST(test_a_door_comes_alone),
		TEST(test_init_understands_one_word),
		TEST(test_init_does_not_wait_for_a_broker_that_does_not_take),
		TEST(test_sockets_that_were_not_asked_for_shut_the_door),
		TEST(test_bytes_and_the_end_shut_the_door),
		TEST(test_an_answer_without_a_question_shuts_the_door),
		TEST(test_an_init_without_sockets_says_so_once_for_each_that_waits),
		TEST(test_who_has_left_is_not_refused_in_the_place_of_others),
		TEST(test_an_init_without_sockets_is_left_alone),
		TEST(test_to_connect_does_not_wait_whatever_the_file_says),
		TEST(test_each_kind_has_its_families_and_a_port_or_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
