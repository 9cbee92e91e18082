/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/airlock.h"
#include "sandbox/wire.h"

#define BATCH 16 /* answers before others have their turn */

struct door {
	int fd; /* -1: shut */
	struct event *readable, *pause;
	void (*changed)(void *arg);
	void *arg;
	struct door_pair stock[DOOR_STOCK + DOOR_ASKED_MAX];
	size_t stock_count, asked;
	size_t waiting, refused; /* who waits for a pair, and how many of these get none */
	bool dry;                /* its last answer was "none" */
};

void door_pair_close(struct door_pair *p)
{
	for (size_t i = 0; i < DOOR_FAMILIES; i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	*p = DOOR_PAIR_NONE;
}

static void shut(struct door *d)
{
	if (d->fd < 0)
		return;
	event_del(d->readable);
	event_del(d->pause);
	close(d->fd);
	d->fd = -1;
	d->asked = 0;
}

/* ---- what comes ----------------------------------------------------------------------------------------------------------------- */

static bool has_option(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t len = sizeof(value);
	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

/* A TCP socket of this family with which nothing was done yet. */
static bool is_fresh(int fd, int family)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	return has_option(fd, SO_DOMAIN, family) && has_option(fd, SO_TYPE, SOCK_STREAM) && has_option(fd, SO_PROTOCOL, IPPROTO_TCP) &&
	       getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == TCP_CLOSE;
}

/* Descriptors that are not taken go with the message. */
static bool read_pair(struct wire_msg *msg, struct door_pair *out)
{
	struct wire_reader r = {.at = msg->body, .end = msg->body + msg->len};
	if (msg->type != WIRE_AIRLOCK || msg->fd_count > DOOR_FAMILIES)
		return false;
	for (size_t i = 0; i < msg->fd_count; i++) {
		struct airlock_socket s;
		if (!airlock_socket_get(&r, &s) || s.kind != AIRLOCK_INSIDE || !is_fresh(msg->fds[i], s.family))
			return false;
		int *place = &out->fds[s.family == AF_INET6 ? DOOR_V6 : DOOR_V4];
		if (*place >= 0 || evutil_make_socket_nonblocking(msg->fds[i]) < 0)
			return false;
		*place = wire_take_fd(msg, i);
	}
	return wire_done(&r);
}

/* Whoever comes later is not meant: it may have some by then. */
static void take_none(struct door *d)
{
	static const struct timeval a_while = {DOOR_PAUSE_S, 0};
	if (d->refused < d->waiting)
		d->refused++;
	if (!evtimer_pending(d->pause, NULL) && evtimer_add(d->pause, &a_while) < 0)
		shut(d);
}

/* 1: an answer, 0: none is there yet, -1: it is none. */
static int take_answer(struct door *d)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct door_pair pair = DOOR_PAIR_NONE;
	struct cordon_error err = {0};
	const int r = wire_recv(d->fd, &msg, &err);
	if (r < 0 && err.sys_errno == EAGAIN)
		return 0;
	if (r <= 0 || d->asked == 0 || !read_pair(&msg, &pair)) {
		door_pair_close(&pair);
		return -1;
	}
	d->asked--;
	d->dry = pair.fds[DOOR_V4] < 0 && pair.fds[DOOR_V6] < 0;
	if (d->dry)
		take_none(d);
	else
		d->stock[d->stock_count++] = pair;
	return 1;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct door *d = arg;
	int r = 1;
	(void)fd;
	(void)what;
	for (size_t i = 0; i < BATCH && r > 0 && d->fd >= 0; i++)
		r = take_answer(d);
	if (r < 0)
		shut(d);
	d->changed(d->arg);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct door *d = arg;
	(void)fd;
	(void)what;
	d->changed(d->arg);
}

/* ---- what is asked for ---------------------------------------------------------------------------------------------------------- */

/* What cannot be sent now is asked for when the next one comes in, or goes. */
static void ask_for(struct door *d, size_t wanted)
{
	while (d->fd >= 0 && d->asked < DOOR_ASKED_MAX && d->stock_count + d->asked < wanted) {
		struct cordon_error err = {0};
		if (wire_send(d->fd, WIRE_DOOR, NULL, NULL, 0, &err) < 0) {
			if (err.sys_errno != EAGAIN) /* or it is read from, and then found to be shut */
				event_active(d->readable, EV_READ, 0);
			return;
		}
		d->asked++;
	}
}

/* An init that has none is not asked all the time, and for those only that wait. */
void door_need(struct door *d, size_t waiting)
{
	d->waiting = waiting;
	d->refused = MIN(d->refused, waiting);
	if (!evtimer_pending(d->pause, NULL))
		ask_for(d, d->dry ? waiting : waiting + DOOR_STOCK);
}

enum door_answer door_take(struct door *d, struct door_pair *out)
{
	*out = DOOR_PAIR_NONE;
	if (d->stock_count) {
		*out = d->stock[--d->stock_count];
		return DOOR_GIVEN;
	}
	if (d->refused) {
		d->refused--;
		return DOOR_NONE;
	}
	return d->fd < 0 ? DOOR_SHUT : DOOR_LATER;
}

/*
 * TCP Fast Open is of no use here, but by it sendto(2) connects, and that has a flag for not to wait. Without bytes nothing goes with the SYN but the option, which who listens may
 * pass over. A new network has it on (tcp_fastopen in ip-sysctl); where somebody inside has switched it off, nobody comes in.
 */
int door_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return sendto(fd, "", 0, MSG_FASTOPEN | MSG_DONTWAIT | MSG_NOSIGNAL, to, len) < 0 ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

struct door *door_new(struct event_base *base, int fd, void (*changed)(void *arg), void *arg)
{
	struct door *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	*d = (struct door){.fd = fd, .changed = changed, .arg = arg};
	d->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, d);
	d->pause = evtimer_new(base, on_pause_over, d);
	if (d->readable && d->pause && evutil_make_socket_nonblocking(fd) == 0 && event_add(d->readable, NULL) == 0) {
		door_need(d, 0);
		return d;
	}
	if (d->readable)
		event_free(d->readable);
	if (d->pause)
		event_free(d->pause);
	free(d);
	return NULL;
}

void door_free(struct door *d)
{
	if (!d)
		return;
	shut(d);
	event_free(d->readable);
	event_free(d->pause);
	while (d->stock_count)
		door_pair_close(&d->stock[--d->stock_count]);
	free(d);
}
