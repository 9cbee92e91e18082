/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/addresses.h"
#include "egress/clock.h"
#include "egress/conn.h"
#include "egress/couriers.h"
#include "egress/dial.h"
#include "egress/inbound.h"
#include "egress/relay.h"
#include "egress/report.h"
#include "egress/resolve.h"
#include "sandbox/wire.h"

#define BATCH 64     /* connections accepted before others have their turn */
#define PAUSE_MS 100 /* after which it is tried again to accept, when there was no descriptor or memory, or too many came at once */
#define NAMES_MAX (AIRLOCK_NAME_LAST - AIRLOCK_NAME_FIRST + 1)

/* ---- accepting ------------------------------------------------------------------------------------------------------------------ */

/*
 * With as many connections as there may be, no more are accepted: they wait in the kernel, whose queue is bounded, and are served when others end. A reset would fail programs
 * that open many at a time and could well wait.
 */
static void pause_listening(struct intake *t)
{
	struct broker *b = t->broker;
	if (t->paused)
		return;
	t->paused = true;
	for (size_t i = 0; i < b->listener_count; i++)
		if (b->listeners[i].intake == t)
			event_del(b->listeners[i].event);
}

static bool is_full(const struct intake *t)
{
	const struct broker *b = t->broker;
	return b->conn_count >= b->conn_max || (t == &b->in && b->guest_count >= b->guest_max);
}

static void resume_listening(struct intake *t)
{
	struct broker *b = t->broker;
	if (!t->paused || is_full(t) || evtimer_pending(t->resume, NULL))
		return;
	t->paused = false;
	for (size_t i = 0; i < b->listener_count; i++)
		if (b->listeners[i].intake == t)
			event_add(b->listeners[i].event, NULL);
}

void broker_resume(struct broker *b)
{
	resume_listening(&b->out);
	resume_listening(&b->in);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	resume_listening(arg);
}

/*
 * Each connection is on record, and leaves a port of the host's in TIME-WAIT: without a limit a sandbox could fill the one's disk and use up the other's ports towards a server.
 * Who is too fast waits in the kernel as above.
 */
static bool take_turn(struct intake *t)
{
	const uint64_t more = (clock_us() - t->filled_us) * BROKER_RATE / 1000000;
	if (more) {
		t->may_accept = MIN(t->may_accept + more, (uint64_t)BROKER_BURST);
		t->filled_us += more * 1000000 / BROKER_RATE;
	}
	if (t->may_accept == 0)
		return false;
	t->may_accept--;
	return true;
}

static void tell_waiting(const struct listener *l, const char *why)
{
	const char *rule = l->published ? "network.inbound" : "network.outbound";
	report_limited(l->broker->reporter,
	               &(struct broker_event){.kind = BROKER_FAILED, .target = "(all)", .protocol = "tcp", .rule = rule, .reason = why});
}

static void pause_for_a_while(struct intake *t)
{
	static const struct timeval a_while = {0, PAUSE_MS * 1000};
	pause_listening(t);
	evtimer_add(t->resume, &a_while);
}

static void accepted(const struct listener *l, int client, const struct sockaddr_storage *peer)
{
	if (l->published)
		inbound_accepted(l->broker->inbound, client, (const struct sockaddr *)peer, l->published);
	else
		conn_accepted(l->broker, client);
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	const struct listener *l = arg;
	struct intake *t = l->intake;
	(void)what;
	for (size_t i = 0; i < BATCH; i++) {
		if (is_full(t)) {
			pause_listening(t);
			tell_waiting(l, "as many connections are open as there may be: others wait");
			return;
		}
		if (!take_turn(t)) {
			pause_for_a_while(t);
			tell_waiting(l, "connections are opened faster than they may be: others wait");
			return;
		}
		struct sockaddr_storage peer = {0};
		socklen_t len = sizeof(peer);
		int client = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (client >= 0) {
			accepted(l, client, &peer);
			continue;
		}
		t->may_accept++;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_for_a_while(t);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

static int add_listener(struct broker *b, const struct airlock_socket *s, struct cordon_error *err)
{
	struct listener *l = &b->listeners[b->listener_count];
	struct event *e = event_new(b->base, s->fd, EV_READ | EV_PERSIST, on_connection, l);
	if (!e || event_add(e, NULL) < 0) {
		if (e)
			event_free(e);
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	const bool published = s->kind == AIRLOCK_PUBLISHED;
	*l = (struct listener){b, published ? &b->in : &b->out, e, published ? s->port : 0};
	b->listener_count++;
	return 0;
}

/* ---- the library ---------------------------------------------------------------------------------------------------------------- */

/* Whatever is not understood is the end. */
static void on_library(evutil_socket_t fd, short what, void *arg)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct broker *b = arg;
	const char *resolv;
	(void)what;
	if (wire_recv(fd, &msg, NULL) <= 0 || msg.type != WIRE_BROKER || broker_fresh_decode(msg.body, msg.len, &resolv, NULL) < 0) {
		event_base_loopbreak(b->base);
		return;
	}
	report_afresh(b->reporter);
	if (resolv)
		dialler_renew(b->dialler, resolv);
}

void broker_run(struct broker *b)
{
	event_base_dispatch(b->base);
	conn_close_all(b);
	inbound_close_all(b->inbound);
	report_rest(b->reporter);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static struct event_base *make_base(void)
{
	struct event_config *c = event_config_new();
	if (!c)
		return NULL;
	event_config_require_features(c, EV_FEATURE_ET);
	event_config_set_flag(c, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	struct event_base *base = event_base_new_with_config(c);
	event_config_free(c);
	if (base && event_base_priority_init(base, 2) < 0) { /* the library's word comes before that of the sandbox */
		event_base_free(base);
		return NULL;
	}
	return base;
}

static int set_policy(struct cordon_policy *p, const struct string_list *settings, struct cordon_error *err)
{
	for (uint32_t i = 0; i < settings->count; i++) {
		const char *entry = settings->items[i], *equals = strchr(entry, '=');
		_cleanup_free_ char *key = equals ? strndup(entry, (size_t)(equals - entry)) : NULL;
		if (!key)
			return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a setting", entry);
		if (policy_set(p, key, equals + 1, err) < 0)
			return -1;
	}
	return 0;
}

static bool has_ipv6(const struct airlock_socket *sockets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (sockets[i].kind == AIRLOCK_PORT && sockets[i].family == AF_INET6)
			return true;
	return false;
}

/* What only connections need that carry secrets: a policy without them costs nothing of it. */
static int make_couriers(struct broker *b, const struct broker_config *c, struct cordon_error *err)
{
	const struct couriers_config config = {b->base, relays_bucket(b->relays), &b->policy, c->trust, c->authority};
	if (b->policy.secrets.count == 0)
		return 0;
	b->couriers = couriers_new(&config, err);
	return b->couriers ? 0 : -1;
}

static bool make_intake(struct broker *b, struct intake *t)
{
	*t = (struct intake){
		.broker = b, .resume = evtimer_new(b->base, on_resume, t), .may_accept = BROKER_BURST, .filled_us = clock_us()};
	return t->resume != NULL;
}

static int make_parts(struct broker *b, const struct broker_config *c, struct cordon_error *err)
{
	const struct dialler_config dialler = {&b->policy, c->proxy, c->proxy_from, c->no_proxy, c->resolv, c->hosts};
	if (policy_init(&b->policy, err) < 0 || set_policy(&b->policy, &c->policy, err) < 0)
		return -1;
	b->base = make_base();
	b->names = names_new(NAMES_MAX);
	b->relays = b->base ? relays_new(b->base, c->bandwidth) : NULL;
	b->reporter = b->base ? reporter_new(b->base, BROKER_FD) : NULL;
	b->library = b->base ? event_new(b->base, BROKER_FD, EV_READ | EV_PERSIST, on_library, b) : NULL;
	if (!b->names || !b->relays || !b->reporter || !b->library || event_priority_set(b->library, 0) < 0 ||
	    event_add(b->library, NULL) < 0 || !make_intake(b, &b->out) || !make_intake(b, &b->in))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory, or epoll is not available");
	b->dialler = dialler_new(b->base, &dialler, err);
	return b->dialler ? make_couriers(b, c, err) : -1;
}

static int add_door(struct broker *b, const struct airlock_socket *s, struct cordon_error *err)
{
	if (b->inbound)
		return err_set(err, CORDON_ERR_INPUT, "a broker has one door");
	b->inbound = inbound_new(b, s->fd);
	return b->inbound ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

/* The door comes before what is published: nobody is let in without. */
static int add_socket(struct broker *b, const struct airlock_socket *s, struct cordon_error *err)
{
	if (s->kind == AIRLOCK_DOOR)
		return add_door(b, s, err);
	if (s->kind == AIRLOCK_PORT || (s->kind == AIRLOCK_PUBLISHED && b->inbound))
		return add_listener(b, s, err);
	if (s->kind == AIRLOCK_DNS_UDP || s->kind == AIRLOCK_DNS_TCP)
		return resolver_add(b->resolver, s, err);
	return err_set(err, CORDON_ERR_INPUT, "a socket that the broker has no use for");
}

int broker_listen(struct broker *b, const struct airlock_socket *sockets, size_t count, struct cordon_error *err)
{
	b->resolver = resolver_new(b, has_ipv6(sockets, count));
	if (!b->resolver)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct airlock_socket *s = &sockets[i];
		if (add_socket(b, s, err) < 0)
			return -1;
	}
	return 0;
}

struct broker *broker_new(const struct broker_config *c, uint32_t connections, struct cordon_error *err)
{
	struct broker *b = calloc(1, sizeof(*b));
	if (!b) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	TAILQ_INIT(&b->conns);
	TAILQ_INIT(&b->waiting);
	b->conn_max = connections;
	b->guest_max = MAX(connections / 2, 1u);
	b->next_id = 1;
	if (make_parts(b, c, err) == 0)
		return b;
	broker_free(b);
	return NULL;
}

static void free_event(struct event *e)
{
	if (e)
		event_free(e);
}

void broker_free(struct broker *b)
{
	if (!b)
		return;
	conn_close_all(b);
	inbound_free(b->inbound);
	for (size_t i = 0; i < b->listener_count; i++) {
		close(event_get_fd(b->listeners[i].event));
		event_free(b->listeners[i].event);
	}
	resolver_free(b->resolver);
	dialler_free(b->dialler);
	couriers_free(b->couriers);
	relays_free(b->relays);
	reporter_free(b->reporter);
	free_event(b->out.resume);
	free_event(b->in.resume);
	free_event(b->library);
	names_free(b->names);
	if (b->base)
		event_base_free(b->base);
	policy_clear(&b->policy);
	free(b);
}
