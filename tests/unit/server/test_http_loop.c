/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: its limits and clocks, how it ends, and what comes from other threads. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "serving.h"

static void start(struct http_limits limits)
{
	serving_start(&server, &limits);
}

/* ---- clocks -------------------------------------------------------------------------------------------------------------------- */

static void test_a_head_that_takes_too_long_is_refused(void **state)
{
	(void)state;
	start((struct http_limits){.head_ms = 50});
	_cleanup_fd_ int fd = client_connect(&server);
	struct answer a;

	client_say(fd, "GET /hello HTTP/1.1\r\nHo");
	client_hear(fd, &a);
	assert_int_equal(a.status, 408);
	assert_non_null(strstr(a.body.data, "\"code\":\"timeout\""));
	client_expect_end(fd);
	answer_free(&a);
}

/* Each byte comes in time; the whole does not. */
static void test_a_head_has_no_more_time_if_it_comes_slowly(void **state)
{
	(void)state;
	start((struct http_limits){.head_ms = 200});
	_cleanup_fd_ int fd = client_connect(&server);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	client_say(fd, "GET /");
	while (poll(&p, 1, 10) == 0)
		if (send(fd, "a", 1, MSG_NOSIGNAL) < 0)
			break;
	client_expect(fd, 408, NULL);
}

static void test_a_second_head_has_its_own_time(void **state)
{
	(void)state;
	start((struct http_limits){.head_ms = 50});
	_cleanup_fd_ int fd = client_connect(&server);

	client_say(fd, GET("/hello") "GET /hel");
	client_expect(fd, 200, "hello\n");
	client_expect(fd, 408, NULL);
	client_expect_end(fd);
}

static void test_an_idle_connection_is_closed(void **state)
{
	(void)state;
	start((struct http_limits){.idle_ms = 300});
	_cleanup_fd_ int silent = client_connect(&server), fd = client_connect(&server);

	client_say(fd, GET("/hello"));
	client_expect(fd, 200, "hello\n");
	client_expect_end(fd);
	client_expect_end(silent);
}

static void test_a_connection_that_is_being_answered_is_not_idle(void **state)
{
	(void)state;
	start((struct http_limits){.idle_ms = 300, .head_ms = 300, .stall_ms = 300});
	_cleanup_fd_ int fd = client_connect(&server), silent = client_connect(&server);

	client_say(fd, GET("/later"));
	serving_wait(&server, &server.handled, 1);
	client_expect_end(silent);
	_cleanup_fd_ int another = client_connect(&server);
	client_expect_end(another); /* twice the time that it would have had */
	serving_answer_later(&server);
	client_expect(fd, 200, "later\n");
}

static void test_a_body_that_does_not_come_is_refused(void **state)
{
	(void)state;
	start((struct http_limits){.stall_ms = 50});
	_cleanup_fd_ int fd = client_connect(&server);

	client_say(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhello");
	client_expect(fd, 408, NULL);
	client_expect_end(fd);
}

static void test_a_client_that_does_not_read_is_closed(void **state)
{
	(void)state;
	start((struct http_limits){.stall_ms = 50});
	_cleanup_fd_ int fd = client_connect(&server);

	client_say(fd, GET("/parts?n=104857600"));
	serving_wait(&server, &server.gone, 1);
}

static void test_who_does_not_take_note_of_the_end_is_closed(void **state)
{
	(void)state;
	start((struct http_limits){.linger_ms = 50, .connections = 1});
	_cleanup_fd_ int fd = client_connect(&server);

	client_say(fd, "nonsense\r\n\r\n");
	client_expect(fd, 400, NULL);
	client_expect_end(fd); /* its side stays open, and yet there is room for another one */
	_cleanup_fd_ int another = client_connect(&server);
	client_say(another, GET("/hello"));
	client_expect(another, 200, "hello\n");
}

/* ---- how many ------------------------------------------------------------------------------------------------------------------ */

static void test_the_longest_idle_makes_room(void **state)
{
	(void)state;
	start((struct http_limits){.connections = 2});
	_cleanup_fd_ int first = client_connect(&server);
	client_say(first, GET("/hello"));
	client_expect(first, 200, "hello\n");
	_cleanup_fd_ int second = client_connect(&server);
	client_say(second, GET("/hello"));
	client_expect(second, 200, "hello\n");
	client_say(first, GET("/hello")); /* now the second is the longest idle */
	client_expect(first, 200, "hello\n");

	_cleanup_fd_ int third = client_connect(&server);
	client_say(third, GET("/hello"));
	client_expect(third, 200, "hello\n");
	client_expect_end(second);
	client_say(first, GET("/hello"));
	client_expect(first, 200, "hello\n");
}

static void test_if_nobody_is_idle_a_client_waits_for_room(void **state)
{
	(void)state;
	start((struct http_limits){.connections = 1});
	_cleanup_fd_ int first = client_connect(&server);
	client_say(first, GET("/later"));
	serving_wait(&server, &server.handled, 1);

	_cleanup_fd_ int second = client_connect(&server);
	client_say(second, GET("/hello"));
	for (unsigned i = 0; i < 3; i++) {
		serving_round(&server);
		assert_int_equal(serving_count(&server, &server.handled), 1);
	}
	serving_answer_later(&server);
	client_expect(first, 200, "later\n");
	client_expect(second, 200, "hello\n");
	client_expect_end(first); /* it had become idle */
}

static int lowest_free(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

static void test_without_descriptors_a_client_waits_for_one(void **state)
{
	struct rlimit before, few;

	(void)state;
	start((struct http_limits){0});
	if (getenv("UNDER_VALGRIND"))
		skip(); /* its limit of descriptors is not the kernel's: it accepts, and closes again */
	_cleanup_fd_ int busy = client_connect(&server);
	client_say(busy, GET("/never"));
	serving_wait(&server, &server.handled, 1);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)lowest_free() + 1; /* the client's socket is the last one */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	_cleanup_fd_ int fd = client_connect(&server);
	client_say(fd, GET("/hello"));
	serving_answer_later(&server); /* others are served meanwhile */
	client_expect(busy, 200, "later\n");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	client_expect(fd, 200, "hello\n");
}

/* ---- its end ------------------------------------------------------------------------------------------------------------------- */

static void test_a_drained_loop_answers_what_was_asked_and_ends(void **state)
{
	struct answer a;
	char value[32];

	(void)state;
	start((struct http_limits){0});
	_cleanup_fd_ int idle = client_connect(&server), busy = client_connect(&server), reading = client_connect(&server);
	client_say(idle, GET("/hello"));
	client_expect(idle, 200, "hello\n");
	client_say(reading, GET("/parts?n=50000000"));
	serving_wait(&server, &server.waits, 1);
	client_say(busy, GET("/later") GET("/hello"));
	serving_wait(&server, &server.handled, 3);

	http_loop_drain(server.loop);
	client_expect_end(idle);
	serving_answer_later(&server);
	client_hear(busy, &a);
	assert_string_equal(a.body.data, "later\n");
	assert_string_equal(answer_header(&a, "connection", value, sizeof(value)), "close");
	answer_free(&a);
	client_expect_end(busy); /* what came behind it is not answered */
	client_hear(reading, &a);
	assert_int_equal(a.body.len, 50000000);
	answer_free(&a);
	close(steal_fd(&idle));
	close(steal_fd(&busy));
	close(steal_fd(&reading));
	serving_join(&server);
	assert_int_equal(http_loop_connections(server.loop), 0);
}

static void test_a_drained_loop_accepts_nobody(void **state)
{
	(void)state;
	start((struct http_limits){0});
	_cleanup_fd_ int busy = client_connect(&server), idle = client_connect(&server);
	client_say(busy, GET("/later"));
	serving_wait(&server, &server.handled, 1);
	http_loop_drain(server.loop);
	client_expect_end(idle); /* it is being drained */
	_cleanup_fd_ int late = client_connect(&server);
	client_say(late, GET("/hello"));
	serving_answer_later(&server);
	client_expect(busy, 200, "later\n");
	close(steal_fd(&busy));
	close(steal_fd(&idle));
	serving_join(&server);
	assert_int_equal(server.handled, 1);
}

static void test_an_empty_loop_is_drained_at_once(void **state)
{
	(void)state;
	start((struct http_limits){0});
	http_loop_drain(server.loop);
	serving_join(&server);
	assert_int_equal(http_loop_connections(server.loop), 0);
}

static void test_what_is_under_way_when_the_loop_is_freed_is_gone(void **state)
{
	struct http_service service = {.arg = NULL};

	(void)state;
	start(service.limits);
	_cleanup_fd_ int fd = client_connect(&server);
	client_say(fd, GET("/never"));
	serving_wait(&server, &server.handled, 1);
	http_loop_stop(server.loop);
	serving_join(&server);
	assert_int_equal(server.gone, 0);
	while (http_loop_connections(server.loop)) {
		http_loop_free(server.loop);
		assert_int_equal(server.gone, 1);
		server.loop = http_loop_new(&service, NULL); /* for the tear-down */
	}
}

static struct http_loop *signalled;

static void on_signal(int number)
{
	(void)number;
	http_loop_stop(signalled);
}

static void test_a_signal_handler_may_stop_it(void **state)
{
	(void)state;
	start((struct http_limits){0});
	signalled = server.loop;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	serving_join(&server);
	signal(SIGUSR1, SIG_DFL);
	assert_true(server.stopped);
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------- */

#define POSTERS 4
#define POSTS 2000

static struct poster {
	pthread_t thread;
	unsigned number, next, wrong;
} posters[POSTERS];
static unsigned numbers[POSTERS][POSTS];

static void on_post(void *arg)
{
	const unsigned *number = arg;
	struct poster *p = &posters[(number - numbers[0]) / POSTS];

	p->wrong += *number != p->next++;
	pthread_mutex_lock(&server.lock);
	server.posted++;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

static void *post_all(void *arg)
{
	struct poster *p = arg;

	for (unsigned i = 0; i < POSTS; i++) {
		numbers[p->number][i] = i;
		if (http_loop_post(server.loop, on_post, &numbers[p->number][i]) < 0)
			p->wrong++;
	}
	return NULL;
}

static void test_posts_of_several_threads_come_all_and_in_order(void **state)
{
	(void)state;
	start((struct http_limits){0});
	for (unsigned i = 0; i < POSTERS; i++) {
		posters[i].number = i;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
	}
	for (unsigned i = 0; i < POSTERS; i++)
		pthread_join(posters[i].thread, NULL);
	serving_wait(&server, &server.posted, POSTERS * POSTS);
	for (unsigned i = 0; i < POSTERS; i++)
		assert_int_equal(posters[i].wrong, 0);
}

static void *run_loop(void *arg)
{
	http_loop_run(arg);
	return NULL;
}

static void say_two(void *arg, struct http_exchange *x)
{
	(void)arg;
	http_answer(x, &(struct http_answer){.status = 200, .body = "two", .len = 3});
}

/* One of them is busy with clients that it has; the other one takes the next. */
static void test_two_loops_share_a_listener(void **state)
{
	struct http_loop *two;
	pthread_t thread;
	bool heard_two = false;

	(void)state;
	start((struct http_limits){.connections = 1});
	_cleanup_fd_ int busy = client_connect(&server);
	client_say(busy, GET("/never"));
	serving_wait(&server, &server.handled, 1);
	two = http_loop_new(&(struct http_service){.handle = say_two}, NULL);
	assert_non_null(two);
	assert_int_equal(http_loop_listen(two, server.listener, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, two), 0);
	for (unsigned i = 0; i < 10; i++) {
		_cleanup_fd_ int fd = client_connect(&server);
		client_say(fd, GET("/hello"));
		client_expect(fd, 200, "two");
		heard_two = true;
	}
	assert_true(heard_two);
	http_loop_stop(two);
	pthread_join(thread, NULL);
	http_loop_free(two);
}

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */

static void my_problem(void *arg, const struct http_problem *p, struct buf *body)
{
	(void)arg;
	buf_addf(body, "%d %s", p->status, p->code);
}

static void test_errors_have_the_form_that_the_service_gives_them(void **state)
{
	struct http_loop *loop = http_loop_new(&(struct http_service){.handle = say_two, .problem = my_problem}, NULL);
	pthread_t thread;
	int ends[2];

	(void)state;
	start((struct http_limits){0}); /* for the tear-down */
	assert_non_null(loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(http_loop_adopt(loop, ends[1], NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, loop), 0);
	client_say(ends[0], "GET / HTTP/1.1\r\n\r\n");
	client_expect(ends[0], 400, "400 bad_request");
	close(ends[0]);
	http_loop_stop(loop);
	pthread_join(thread, NULL);
	http_loop_free(loop);
}

#define TEST(name) cmocka_unit_test_teardown(name, serving_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_head_that_takes_too_long_is_refused),
		TEST(test_a_head_has_no_more_time_if_it_comes_slowly),
		TEST(test_a_second_head_has_its_own_time),
		TEST(test_an_idle_connection_is_closed),
		TEST(test_a_connection_that_is_being_answered_is_not_idle),
		TEST(test_a_body_that_does_not_come_is_refused),
		TEST(test_a_client_that_does_not_read_is_closed),
		TEST(test_who_does_not_take_note_of_the_end_is_closed),
		TEST(test_the_longest_idle_makes_room),
		TEST(test_if_nobody_is_idle_a_client_waits_for_room),
		TEST(test_without_descriptors_a_client_waits_for_one),
		TEST(test_a_drained_loop_answers_what_was_asked_and_ends),
		TEST(test_a_drained_loop_accepts_nobody),
		TEST(test_an_empty_loop_is_drained_at_once),
		TEST(test_what_is_under_way_when_the_loop_is_freed_is_gone),
		TEST(test_a_signal_handler_may_stop_it),
		TEST(test_posts_of_several_threads_come_all_and_in_order),
		TEST(test_two_loops_share_a_listener),
		TEST(test_errors_have_the_form_that_the_service_gives_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
