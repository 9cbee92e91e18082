/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/clock.h"
#include "egress/dns.h"
#include "egress/report.h"
#include "egress/rules.h"

#define BATCH 64                      /* queries that are answered before others have their turn */
#define UNREAD_MAX ((size_t)64 << 10) /* answers that a client may leave unread before it is not listened to */
#define SOCKETS_MAX 8
#define PAUSE_MS 100

struct stream {
	TAILQ_ENTRY(stream) link; /* least recently used first */
	struct resolver *resolver;
	struct bufferevent *io;
	bool ended; /* the client has asked all that it wanted to */
};

TAILQ_HEAD(stream_list, stream);

struct resolver {
	struct broker *broker;
	struct dns_source source;
	struct event *sockets[SOCKETS_MAX];
	size_t socket_count;
	struct stream_list streams;
	size_t stream_count;
	struct event *resume;
};

/* ---- what the answers are ------------------------------------------------------------------------------------------------------- */

static enum dns_verdict refuse(struct broker *b, const struct dns_question *q, const char *rule, const char *why)
{
	report_limited(b->reporter,
	               &(struct broker_event){.kind = BROKER_DENIED, .target = q->name, .protocol = "dns", .rule = rule, .reason = why});
	return DNS_DENIED;
}

static enum dns_verdict ask(void *arg, const struct dns_question *q, uint32_t *number)
{
	struct broker *b = arg;
	struct host_target target;
	struct policy_verdict v;
	if (!q->is_host || host_target_parse(q->name, &target, NULL) < 0 || target.is_address)
		return refuse(b, q, "network.outbound", "it is not the name of a host");
	if (!rules_resolvable(&b->policy, &target, &v))
		return refuse(b, q, v.key, v.why);
	*number = names_number(b->names, target.name, clock_s());
	return *number ? DNS_NUMBER : DNS_BUSY;
}

static const char *name_of(void *arg, uint32_t number)
{
	const struct broker *b = arg;
	return names_of(b->names, number);
}

/* ---- UDP ----------------------------------------------------------------------------------------------------------------------- */

static void on_datagram(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *r = arg;
	char query[DNS_MESSAGE_MAX + 1], answer[DNS_ANSWER_MAX];
	(void)what;
	for (size_t i = 0; i < BATCH; i++) {
		struct sockaddr_storage from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(fd, query, sizeof(query), 0, (struct sockaddr *)&from, &from_len);
		if (n < 0)
			return;
		size_t len = dns_answer(query, (size_t)n, &r->source, answer);
		if (len) /* what does not fit into the socket is lost, and asked again: it is UDP */
			sendto(fd, answer, len, MSG_NOSIGNAL, (const struct sockaddr *)&from, from_len);
	}
}

/* ---- TCP ----------------------------------------------------------------------------------------------------------------------- */

static void close_stream(struct stream *s)
{
	TAILQ_REMOVE(&s->resolver->streams, s, link);
	s->resolver->stream_count--;
	bufferevent_free(s->io);
	free(s);
}

/* 1: one was answered, 0: there is none that is whole, -1: nonsense. */
static int answer_one(struct stream *s)
{
	struct evbuffer *in = bufferevent_get_input(s->io), *out = bufferevent_get_output(s->io);
	char query[DNS_MESSAGE_MAX], answer[sizeof(uint16_t) + DNS_ANSWER_MAX];
	uint16_t prefix;
	if (evbuffer_copyout(in, &prefix, sizeof(prefix)) < (ssize_t)sizeof(prefix))
		return 0;
	size_t len = ntohs(prefix);
	if (len > sizeof(query))
		return -1;
	if (evbuffer_get_length(in) < sizeof(prefix) + len)
		return 0;
	evbuffer_drain(in, sizeof(prefix));
	evbuffer_remove(in, query, len);
	size_t n = dns_answer(query, len, &s->resolver->source, answer + sizeof(prefix));
	prefix = htons((uint16_t)n);
	memcpy(answer, &prefix, sizeof(prefix));
	return n && evbuffer_add(out, answer, sizeof(prefix) + n) == 0 ? 1 : -1;
}

static bool has_unread(const struct stream *s)
{
	return evbuffer_get_length(bufferevent_get_output(s->io)) > UNREAD_MAX;
}

static void answer_all(struct stream *s)
{
	int r = 1;
	while (r > 0 && !has_unread(s))
		r = answer_one(s);
	if (r < 0 || (s->ended && evbuffer_get_length(bufferevent_get_output(s->io)) == 0)) {
		close_stream(s);
		return;
	}
	if (has_unread(s))
		bufferevent_disable(s->io, EV_READ);
	else if (!s->ended)
		bufferevent_enable(s->io, EV_READ);
}

static void on_query(struct bufferevent *io, void *arg)
{
	struct stream *s = arg;
	(void)io;
	TAILQ_REMOVE(&s->resolver->streams, s, link);
	TAILQ_INSERT_TAIL(&s->resolver->streams, s, link);
	answer_all(s);
}

static void on_answered(struct bufferevent *io, void *arg)
{
	(void)io;
	answer_all(arg);
}

static void on_end(struct bufferevent *io, short what, void *arg)
{
	struct stream *s = arg;
	(void)io;
	s->ended = true;
	if (what == (BEV_EVENT_READING | BEV_EVENT_EOF))
		answer_all(s);
	else
		close_stream(s);
}

static void add_stream(struct resolver *r, int fd)
{
	static const struct timeval idle = {RESOLVE_IDLE_S, 0};
	struct stream *s = calloc(1, sizeof(*s));
	struct bufferevent *io = s ? bufferevent_socket_new(r->broker->base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
	if (!io) {
		close(fd);
		free(s);
		return;
	}
	*s = (struct stream){.resolver = r, .io = io};
	TAILQ_INSERT_TAIL(&r->streams, s, link);
	bufferevent_setcb(io, on_query, on_answered, on_end, s);
	bufferevent_setwatermark(io, EV_READ, 0, UNREAD_MAX);
	bufferevent_set_timeouts(io, &idle, &idle);
	bufferevent_enable(io, EV_READ | EV_WRITE);
	if (++r->stream_count > RESOLVE_CONNECTIONS)
		close_stream(TAILQ_FIRST(&r->streams));
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *r = arg;
	(void)fd;
	(void)what;
	for (size_t i = 0; i < r->socket_count; i++)
		event_add(r->sockets[i], NULL);
}

/* There is no descriptor or memory for another connection, and no use in being told all the time that one is there. */
static void pause_listening(struct resolver *r)
{
	const struct timeval a_while = {0, PAUSE_MS * 1000};
	if (evtimer_add(r->resume, &a_while) < 0)
		return;
	for (size_t i = 0; i < r->socket_count; i++)
		event_del(r->sockets[i]);
}

static void on_stream(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	for (size_t i = 0; i < RESOLVE_CONNECTIONS; i++) {
		int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (client < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
				pause_listening(arg);
			return;
		}
		add_stream(arg, client);
	}
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

struct resolver *resolver_new(struct broker *b, bool ipv6)
{
	struct resolver *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->broker = b;
	r->source = (struct dns_source){.ask = ask, .name_of = name_of, .arg = b, .no_ipv6 = !ipv6};
	TAILQ_INIT(&r->streams);
	r->resume = evtimer_new(b->base, on_resume, r);
	if (r->resume)
		return r;
	free(r);
	return NULL;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (!TAILQ_EMPTY(&r->streams))
		close_stream(TAILQ_FIRST(&r->streams));
	for (size_t i = 0; i < r->socket_count; i++) {
		close(event_get_fd(r->sockets[i]));
		event_free(r->sockets[i]);
	}
	event_free(r->resume);
	free(r);
}

int resolver_add(struct resolver *r, const struct airlock_socket *s, struct cordon_error *err)
{
	if (r->socket_count == SOCKETS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "too many sockets for names");
	struct event *e = event_new(r->broker->base, s->fd, EV_READ | EV_PERSIST, s->kind == AIRLOCK_DNS_UDP ? on_datagram : on_stream, r);
	if (!e || event_add(e, NULL) < 0) {
		if (e)
			event_free(e);
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	r->sockets[r->socket_count++] = e;
	return 0;
}
