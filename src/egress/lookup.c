/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Each question goes from a socket of its own, connected to one server, so that an answer must come from there, to a port that nobody knows, with an id that
 * nobody knows, and with the question in it (RFC 5452). What does not is passed over. A server that says nothing in time, or that it cannot say, is followed by the next one; the
 * one that answered last is asked first the next time. Where an answer is truncated, the same server is asked over TCP.
 *
 * A question that is under way is not asked once more: all who want to know wait for its answer. With many at a time one of their ids would soon be guessed (RFC 5452 5).
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

#define ID_LEN 2 /* at a message's beginning */

TAILQ_HEAD(lookup_list, lookup);
TAILQ_HEAD(question_list, question);

struct lookups {
	struct event_base *base;
	struct resolv resolv;
	size_t first; /* the server that is asked first */
	struct question_list waiting, running;
	size_t running_count;
};

/* One who wants to know. */
struct lookup {
	struct question *question;
	TAILQ_ENTRY(lookup) link;
	lookup_done *done;
	void *arg;
};

struct question {
	struct lookups *all;
	TAILQ_ENTRY(question) link; /* in waiting, or in running */
	enum { KNOWN, WAITING, RUNNING, OVER } state;
	int family;
	struct lookup_list askers;
	unsigned char message[REPLY_QUESTION_MAX]; /* its id is another one for each try */
	size_t message_len;
	size_t begun, tries; /* the server that was asked first; how often one was asked since */
	int fd;              /* a datagram's; -1: none */
	struct event readable, timer;
	struct bufferevent *stream;
	struct reply found;
	const char *why;
};

static void next_try(struct question *q);

/* ---- the end ------------------------------------------------------------------------------------------------------------------- */

static void hang_up(struct question *q)
{
	event_del(&q->timer);
	if (q->fd >= 0) {
		event_del(&q->readable);
		close(q->fd);
		q->fd = -1;
	}
	if (q->stream)
		bufferevent_free(q->stream);
	q->stream = NULL;
}

static void start_timer(struct question *q, unsigned seconds)
{
	const struct timeval t = {seconds, 0};
	evtimer_add(&q->timer, &t);
}

/* Whose turn it is begins by its timer: nobody is called out of somebody else's call. */
static void let_next_begin(struct lookups *all)
{
	struct question *next = TAILQ_FIRST(&all->waiting);
	if (!next)
		return;
	TAILQ_REMOVE(&all->waiting, next, link);
	TAILQ_INSERT_TAIL(&all->running, next, link);
	next->state = RUNNING;
	all->running_count++;
	start_timer(next, 0);
}

/* Nobody is added to it from here on. */
static void end_question(struct question *q)
{
	hang_up(q);
	if (q->state == WAITING)
		TAILQ_REMOVE(&q->all->waiting, q, link);
	if (q->state == RUNNING) {
		TAILQ_REMOVE(&q->all->running, q, link);
		q->all->running_count--;
		let_next_begin(q->all);
	}
	q->state = OVER;
}

static void forget(struct lookup *l)
{
	TAILQ_REMOVE(&l->question->askers, l, link);
	free(l);
}

void lookup_cancel(struct lookup *l)
{
	if (!l)
		return;
	struct question *q = l->question;
	forget(l);
	if (!TAILQ_EMPTY(&q->askers) || q->state == OVER) /* over: finish() is at it */
		return;
	end_question(q);
	free(q);
}

/* Who is told may cancel others, or ask anew. */
static void finish(struct question *q)
{
	struct lookup *l;
	end_question(q);
	while ((l = TAILQ_FIRST(&q->askers))) {
		lookup_done *done = l->done;
		void *arg = l->arg;
		forget(l);
		done(arg, q->family, &q->found, q->why);
	}
	free(q);
}

/* ---- over TCP ------------------------------------------------------------------------------------------------------------------ */

static const union resolv_address *server_of(const struct question *q)
{
	const struct resolv *r = &q->all->resolv;
	return &r->servers[(q->begun + q->tries - 1) % r->server_count];
}

static socklen_t address_len(const union resolv_address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

/* An answer that was waited for. */
static void take_reply(struct question *q, enum reply_kind kind)
{
	if (kind != REPLY_ADDRESSES && kind != REPLY_NO_NAME) {
		q->why = "its resolver cannot say";
		next_try(q);
		return;
	}
	q->all->first = (q->begun + q->tries - 1) % q->all->resolv.server_count;
	q->why = kind == REPLY_NO_NAME ? "there is no such name" : NULL;
	finish(q);
}

static void on_stream(struct bufferevent *io, void *arg)
{
	struct question *q = arg;
	struct evbuffer *in = bufferevent_get_input(io);
	unsigned char size[2];
	if (evbuffer_copyout(in, size, sizeof(size)) < (ssize_t)sizeof(size))
		return;
	const size_t len = (size_t)(size[0] << 8 | size[1]);
	if (evbuffer_get_length(in) < sizeof(size) + len)
		return;
	const unsigned char *message = evbuffer_pullup(in, (ssize_t)(sizeof(size) + len));
	take_reply(q, message ? reply_read(message + sizeof(size), len, q->message, q->message_len, &q->found) : REPLY_FAILED);
}

static void on_stream_event(struct bufferevent *io, short what, void *arg)
{
	struct question *q = arg;
	(void)io;
	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	q->why = "its resolver does not answer over TCP";
	next_try(q);
}

/* What was said to one server, or an earlier time, is of no use to who makes up an answer. */
static bool new_id(struct question *q)
{
	return getrandom(q->message, ID_LEN, 0) == ID_LEN;
}

static bool ask_by_stream(struct question *q)
{
	const union resolv_address *to = server_of(q);
	const unsigned char size[2] = {(unsigned char)(q->message_len >> 8), (unsigned char)q->message_len};
	q->stream = bufferevent_socket_new(q->all->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!q->stream || !new_id(q))
		return false;
	start_timer(q, q->all->resolv.timeout_s);
	bufferevent_setwatermark(q->stream, EV_READ, 0, sizeof(size) + UINT16_MAX);
	if (bufferevent_write(q->stream, size, sizeof(size)) < 0 || bufferevent_write(q->stream, q->message, q->message_len) < 0 ||
	    bufferevent_enable(q->stream, EV_READ) < 0 ||
	    bufferevent_socket_connect(q->stream, (struct sockaddr *)(uintptr_t)&to->any, (int)address_len(to)) < 0)
		return false;
	bufferevent_setcb(q->stream, on_stream, NULL, on_stream_event,
	                  q); /* only now: a connection that fails at once would be told of by both */
	return true;
}

/* ---- over UDP ------------------------------------------------------------------------------------------------------------------ */

static void on_datagram(evutil_socket_t fd, short what, void *arg)
{
	struct question *q = arg;
	unsigned char message[DATAGRAM_MAX];
	(void)what;
	for (size_t i = 0; i < STRAYS_MAX; i++) {
		const ssize_t n = recv(fd, message, sizeof(message), 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* nobody is there */
			next_try(q);
			return;
		}
		const enum reply_kind kind = reply_read(message, (size_t)n, q->message, q->message_len, &q->found);
		if (kind == REPLY_FOREIGN)
			continue;
		if (kind != REPLY_TRUNCATED) {
			take_reply(q, kind);
			return;
		}
		hang_up(q);
		if (!ask_by_stream(q))
			next_try(q);
		return;
	}
}

static bool ask_by_datagram(struct question *q)
{
	const union resolv_address *to = server_of(q);
	q->fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (q->fd < 0 || !new_id(q))
		return false;
	event_assign(&q->readable, q->all->base, q->fd, EV_READ | EV_PERSIST, on_datagram, q);
	start_timer(q, q->all->resolv.timeout_s);
	return connect(q->fd, &to->any, address_len(to)) == 0 && send(q->fd, q->message, q->message_len, MSG_NOSIGNAL) >= 0 &&
	       event_add(&q->readable, NULL) == 0;
}

/* ---- the beginning ------------------------------------------------------------------------------------------------------------- */

static void next_try(struct question *q)
{
	const struct resolv *r = &q->all->resolv;
	for (;;) {
		hang_up(q);
		if (q->tries >= r->server_count * r->attempts) {
			finish(q);
			return;
		}
		q->tries++;
		if (r->by_stream ? ask_by_stream(q) : ask_by_datagram(q))
			return;
	}
}

/* Of the first, of its turn, or of a try: each has one at a time. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct question *q = arg;
	(void)fd;
	(void)what;
	if (q->state == KNOWN) {
		finish(q);
		return;
	}
	if (q->tries == 0)
		q->begun = q->all->first;
	q->why = "its resolver does not answer";
	next_try(q);
}

/* A name that the hosts file has is what it says there, also if that is nothing of this family. */
static bool find_host(struct question *q, const char *name)
{
	size_t count;
	const struct hosts_entry *e = resolv_host(&q->all->resolv, name, &count);
	for (size_t i = 0; e && i < count && q->found.count < REPLY_ADDRESSES_MAX; i++)
		if (e[i].family == q->family)
			memcpy(q->found.addresses[q->found.count++], e[i].address, sizeof(e[i].address));
	return e != NULL;
}

static struct question *find_same(struct question_list *list, const struct question *q)
{
	struct question *other;
	TAILQ_FOREACH(other, list, link)
	{
		if (other->message_len == q->message_len &&
		    memcmp(other->message + ID_LEN, q->message + ID_LEN, q->message_len - ID_LEN) == 0)
			return other;
	}
	return NULL;
}

static void begin(struct question *q)
{
	struct lookups *all = q->all;
	if (q->state == KNOWN) {
		start_timer(q, 0);
		return;
	}
	TAILQ_INSERT_TAIL(&all->waiting, q, link);
	if (all->running_count < LOOKUPS_MAX)
		let_next_begin(all);
}

static struct question *new_question(struct lookups *all, const char *name, int family)
{
	struct question *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct question){.all = all, .family = family, .fd = -1, .state = KNOWN};
	TAILQ_INIT(&q->askers);
	evtimer_assign(&q->timer, all->base, on_timer, q);
	if (find_host(q, name))
		return q;
	q->message_len = reply_question(name, family, 0, q->message);
	if (q->message_len)
		q->state = WAITING;
	else
		q->why = "it cannot be asked for";
	return q;
}

/* The one that is under way, if there is. */
static struct question *question_for(struct lookups *all, const char *name, int family)
{
	struct question *q = new_question(all, name, family), *same = NULL;
	if (q && q->state == WAITING) {
		same = find_same(&all->running, q);
		if (!same)
			same = find_same(&all->waiting, q);
	}
	if (same) {
		free(q);
		return same;
	}
	if (q)
		begin(q);
	return q;
}

struct lookup *lookup_start(struct lookups *all, const char *name, int family, lookup_done *done, void *arg)
{
	struct lookup *l = calloc(1, sizeof(*l));
	struct question *q = l ? question_for(all, name, family) : NULL;
	if (!q) {
		free(l);
		return NULL;
	}
	*l = (struct lookup){.question = q, .done = done, .arg = arg};
	TAILQ_INSERT_TAIL(&q->askers, l, link);
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
	TAILQ_INIT(&all->running);
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
