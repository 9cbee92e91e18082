/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Each question goes from a socket of its own, connected to one server, so that an answer must come from there, to a port that nobody knows, with an id that
 * nobody knows, and with the question in it (RFC 5452). What does not is passed over. A server that says nothing in time, or that it cannot say, is followed by the next one; the
 * one that answered last is asked first the next time. Where an answer is truncated, the same server is asked over TCP.
 */
#include "egress/lookup.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/resolv.h"

#define DATAGRAM_MAX 4096 /* none is longer than 512 bytes by right: nothing else was asked for */
#define STRAYS_MAX 64     /* datagrams that are looked at before others have their turn */

TAILQ_HEAD(lookup_list, lookup);

struct lookups {
	struct event_base *base;
	struct resolv resolv;
	size_t first; /* the server that is asked first */
	struct lookup_list waiting;
	size_t running;
};

struct lookup {
	struct lookups *all;
	TAILQ_ENTRY(lookup) link;
	enum { KNOWN, WAITING, RUNNING } state;
	int family;
	lookup_done *done;
	void *arg;
	unsigned char question[REPLY_QUESTION_MAX];
	size_t question_len;
	size_t begun, tries; /* the server that was asked first; how often one was asked since */
	int fd;              /* a datagram's; -1: none */
	struct event readable, timer;
	struct bufferevent *stream;
	struct reply found;
	const char *why;
};

static void next_try(struct lookup *l);

/* ---- the end ------------------------------------------------------------------------------------------------------------------- */

static void hang_up(struct lookup *l)
{
	event_del(&l->timer);
	if (l->fd >= 0) {
		event_del(&l->readable);
		close(l->fd);
		l->fd = -1;
	}
	if (l->stream)
		bufferevent_free(l->stream);
	l->stream = NULL;
}

static void start_timer(struct lookup *l, unsigned seconds)
{
	const struct timeval t = {seconds, 0};
	evtimer_add(&l->timer, &t);
}

/* Whose turn it is begins by its timer: nobody is called out of somebody else's call. */
static void let_next_begin(struct lookups *all)
{
	struct lookup *next = TAILQ_FIRST(&all->waiting);
	if (!next)
		return;
	TAILQ_REMOVE(&all->waiting, next, link);
	next->state = RUNNING;
	all->running++;
	start_timer(next, 0);
}

void lookup_cancel(struct lookup *l)
{
	if (!l)
		return;
	hang_up(l);
	if (l->state == WAITING)
		TAILQ_REMOVE(&l->all->waiting, l, link);
	if (l->state == RUNNING) {
		l->all->running--;
		let_next_begin(l->all);
	}
	free(l);
}

static void finish(struct lookup *l)
{
	lookup_done *done = l->done;
	void *arg = l->arg;
	const int family = l->family;
	const struct reply found = l->found;
	const char *why = l->why;
	lookup_cancel(l);
	done(arg, family, &found, why);
}

/* ---- over TCP ------------------------------------------------------------------------------------------------------------------ */

static const union resolv_address *server_of(const struct lookup *l)
{
	const struct resolv *r = &l->all->resolv;
	return &r->servers[(l->begun + l->tries - 1) % r->server_count];
}

static socklen_t address_len(const union resolv_address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

/* An answer that was waited for. */
static void take_reply(struct lookup *l, enum reply_kind kind)
{
	if (kind != REPLY_ADDRESSES && kind != REPLY_NO_NAME) {
		l->why = "its resolver cannot say";
		next_try(l);
		return;
	}
	l->all->first = (l->begun + l->tries - 1) % l->all->resolv.server_count;
	l->why = kind == REPLY_NO_NAME ? "there is no such name" : NULL;
	finish(l);
}

static void on_stream(struct bufferevent *io, void *arg)
{
	struct lookup *l = arg;
	struct evbuffer *in = bufferevent_get_input(io);
	unsigned char size[2];
	if (evbuffer_copyout(in, size, sizeof(size)) < (ssize_t)sizeof(size))
		return;
	const size_t len = (size_t)(size[0] << 8 | size[1]);
	if (evbuffer_get_length(in) < sizeof(size) + len)
		return;
	const unsigned char *message = evbuffer_pullup(in, (ssize_t)(sizeof(size) + len));
	take_reply(l, message ? reply_read(message + sizeof(size), len, l->question, l->question_len, &l->found) : REPLY_FAILED);
}

static void on_stream_event(struct bufferevent *io, short what, void *arg)
{
	struct lookup *l = arg;
	(void)io;
	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	l->why = "its resolver does not answer over TCP";
	next_try(l);
}

static bool ask_by_stream(struct lookup *l)
{
	const union resolv_address *to = server_of(l);
	const unsigned char size[2] = {(unsigned char)(l->question_len >> 8), (unsigned char)l->question_len};
	l->stream = bufferevent_socket_new(l->all->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!l->stream)
		return false;
	start_timer(l, l->all->resolv.timeout_s);
	bufferevent_setwatermark(l->stream, EV_READ, 0, sizeof(size) + UINT16_MAX);
	if (bufferevent_write(l->stream, size, sizeof(size)) < 0 || bufferevent_write(l->stream, l->question, l->question_len) < 0 ||
	    bufferevent_enable(l->stream, EV_READ) < 0 ||
	    bufferevent_socket_connect(l->stream, (struct sockaddr *)(uintptr_t)&to->any, (int)address_len(to)) < 0)
		return false;
	bufferevent_setcb(l->stream, on_stream, NULL, on_stream_event,
	                  l); /* only now: a connection that fails at once would be told of by both */
	return true;
}

/* ---- over UDP ------------------------------------------------------------------------------------------------------------------ */

static void on_datagram(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *l = arg;
	unsigned char message[DATAGRAM_MAX];
	(void)what;
	for (size_t i = 0; i < STRAYS_MAX; i++) {
		const ssize_t n = recv(fd, message, sizeof(message), 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* nobody is there */
			next_try(l);
			return;
		}
		const enum reply_kind kind = reply_read(message, (size_t)n, l->question, l->question_len, &l->found);
		if (kind == REPLY_FOREIGN)
			continue;
		if (kind != REPLY_TRUNCATED) {
			take_reply(l, kind);
			return;
		}
		hang_up(l);
		if (!ask_by_stream(l))
			next_try(l);
		return;
	}
}

static bool ask_by_datagram(struct lookup *l)
{
	const union resolv_address *to = server_of(l);
	l->fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return false;
	event_assign(&l->readable, l->all->base, l->fd, EV_READ | EV_PERSIST, on_datagram, l);
	start_timer(l, l->all->resolv.timeout_s);
	return connect(l->fd, &to->any, address_len(to)) == 0 && send(l->fd, l->question, l->question_len, MSG_NOSIGNAL) >= 0 &&
	       event_add(&l->readable, NULL) == 0;
}

/* ---- the beginning ------------------------------------------------------------------------------------------------------------- */

static void next_try(struct lookup *l)
{
	const struct resolv *r = &l->all->resolv;
	for (;;) {
		hang_up(l);
		if (l->tries >= r->server_count * r->attempts) {
			finish(l);
			return;
		}
		l->tries++;
		if (r->by_stream ? ask_by_stream(l) : ask_by_datagram(l))
			return;
	}
}

/* Of the first, of its turn, or of a try: each has one at a time. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *l = arg;
	(void)fd;
	(void)what;
	if (l->state == KNOWN) {
		finish(l);
		return;
	}
	if (l->tries == 0)
		l->begun = l->all->first;
	l->why = "its resolver does not answer";
	next_try(l);
}

/* A name that the hosts file has is what it says there, also if that is nothing of this family. */
static bool find_host(struct lookup *l, const char *name)
{
	size_t count;
	const struct hosts_entry *e = resolv_host(&l->all->resolv, name, &count);
	for (size_t i = 0; e && i < count && l->found.count < REPLY_ADDRESSES_MAX; i++)
		if (e[i].family == l->family)
			memcpy(l->found.addresses[l->found.count++], e[i].address, sizeof(e[i].address));
	return e != NULL;
}

static bool make_question(struct lookup *l, const char *name)
{
	uint16_t id;
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return false;
	l->question_len = reply_question(name, l->family, id, l->question);
	return l->question_len > 0;
}

struct lookup *lookup_start(struct lookups *all, const char *name, int family, lookup_done *done, void *arg)
{
	struct lookup *l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->all = all;
	l->family = family;
	l->fd = -1;
	l->done = done;
	l->arg = arg;
	evtimer_assign(&l->timer, all->base, on_timer, l);
	l->state = KNOWN;
	if (!find_host(l, name)) {
		l->state = WAITING;
		if (!make_question(l, name)) {
			l->state = KNOWN;
			l->why = "it cannot be asked for";
		}
	}
	if (l->state == KNOWN)
		start_timer(l, 0);
	else
		TAILQ_INSERT_TAIL(&all->waiting, l, link);
	if (l->state == WAITING && all->running < LOOKUPS_MAX)
		let_next_begin(all);
	return l;
}

struct lookups *lookups_new(struct event_base *base, const char *resolv, const char *hosts, struct cordon_error *err)
{
	struct lookups *all = calloc(1, sizeof(*all));
	if (!all) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	all->base = base;
	TAILQ_INIT(&all->waiting);
	if (resolv_read(&all->resolv, resolv, hosts, err) == 0)
		return all;
	free(all);
	return NULL;
}

void lookups_renew(struct lookups *all, const char *resolv)
{
	if (resolv_renew(&all->resolv, resolv) == 0)
		all->first = 0;
}

void lookups_free(struct lookups *all)
{
	if (!all)
		return;
	resolv_clear(&all->resolv);
	free(all);
}
