/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A dial asks for the addresses of both families at once. With the first IPv6 address it begins to connect, with the first IPv4 address a little later, to
 * give the other family its chance (RFC 8305, 3). While one attempt is under way the next one, of the other family, begins after 250 ms, or as
 * soon as one has failed. The first socket that is connected wins; all others are closed.
 */
#include "egress/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
#include "egress/address.h"
#include "egress/lookup.h"
#include "egress/nearby.h"
#include "egress/proxy.h"
#include "egress/socket.h"

#define STAGGER_MS 250   /* between attempts */
#define RESOLUTION_MS 50 /* for which IPv4 waits for IPv6 */
#define ADDRESSES_MAX 8  /* per family */
#define ATTEMPTS_MAX 4   /* at a time */

struct dialler {
	struct event_base *base;
	struct lookups *lookups;
	struct nearby *nearby;
	const struct cordon_policy *policy;
	struct proxy proxy;
	bool has_proxy;
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum family { V6, V4, FAMILIES }; /* in the order in which they are tried */
static const int families[FAMILIES] = {[V6] = AF_INET6, [V4] = AF_INET};

struct attempt {
	struct dial *dial;
	int fd; /* -1: this one is free */
	struct event event;
	union address address;
};

struct dial {
	struct dialler *dialler;
	struct host_target target; /* what is wanted */
	uint16_t port;
	bool by_proxy, filtered; /* filtered: addresses are held against the policy */
	dial_done *done;
	void *arg;
	struct lookup *lookups[FAMILIES]; /* not answered yet */
	union address found[FAMILIES][ADDRESSES_MAX];
	size_t found_count[FAMILIES], tried[FAMILIES];
	enum family turn;
	struct attempt attempts[ATTEMPTS_MAX];
	struct event next, deadline;
	struct proxy_answer *answer; /* connected with the proxy, whose answer is awaited */
	struct buf request;          /* what is still to be sent to it */
	bool asked;                  /* for its addresses */
	bool begun;                  /* the first attempt was made */
	struct dial_result result;
};

static void advance(struct dial *x);
static void begin(struct dial *x);

/* ---- the end ------------------------------------------------------------------------------------------------------------------- */

static void stop_lookups(struct dial *x)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		lookup_cancel(x->lookups[i]);
		x->lookups[i] = NULL;
	}
}

static void close_attempt(struct attempt *a)
{
	if (a->fd < 0)
		return;
	event_del(&a->event);
	close(a->fd);
	a->fd = -1;
}

void dial_cancel(struct dial *x)
{
	stop_lookups(x);
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		close_attempt(&x->attempts[i]);
	event_del(&x->next);
	event_del(&x->deadline);
	proxy_answer_free(x->answer);
	buf_free(&x->request);
	free(x);
}

static void finish(struct dial *x)
{
	dial_done *done = x->done;
	void *arg = x->arg;
	const struct dial_result result = x->result;
	dial_cancel(x);
	done(arg, &result);
}

static void fail(struct dial *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct dial *x, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(x->result.reason, sizeof(x->result.reason), fmt, ap);
	va_end(ap);
	x->result.outcome = DIAL_FAILED;
}

static void set_timer(struct event *timer, unsigned ms)
{
	const struct timeval t = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};
	evtimer_add(timer, &t);
}

static void show_address(const union address *a, char out[64])
{
	char text[INET6_ADDRSTRLEN];
	const bool v4 = a->any.sa_family == AF_INET;
	inet_ntop(a->any.sa_family, v4 ? (const void *)&a->v4.sin_addr : (const void *)&a->v6.sin6_addr, text, sizeof(text));
	snprintf(out, 64, "%s", text);
}

/* ---- a proxy's answer ---------------------------------------------------------------------------------------------------------- */

static void take_over(struct dial *x, struct attempt *a)
{
	x->result.outcome = DIAL_CONNECTED;
	x->result.fd = a->fd;
	event_del(&a->event);
	a->fd = -1;
	finish(x);
}

static void proxy_failed(struct dial *x, unsigned status)
{
	if (status)
		fail(x, "the proxy answers with status %u", status);
	else
		fail(x, "the proxy does not answer as one does");
	finish(x);
}

/* Reads what belongs to the answer and not a byte more: the rest is the other end's, for a relay that reads from the socket. */
static void read_answer(struct dial *x, struct attempt *a)
{
	char data[4096];
	unsigned status;
	for (;;) {
		ssize_t n = recv(a->fd, data, sizeof(data), MSG_PEEK);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		size_t len = n > 0 ? (size_t)n : 0;
		enum proxy_verdict v = n > 0 ? proxy_answer_read(x->answer, data, &len, &status) : PROXY_REFUSED;
		if (n <= 0)
			status = 0;
		if (v != PROXY_REFUSED && recv(a->fd, data, len, 0) != (ssize_t)len) {
			v = PROXY_REFUSED;
			status = 0;
		}
		if (v == PROXY_CONNECTED)
			take_over(x, a);
		else if (v == PROXY_REFUSED)
			proxy_failed(x, status);
		if (v != PROXY_MORE)
			return;
	}
}

static void on_proxy(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *a = arg;
	struct dial *x = a->dial;
	if (what & EV_WRITE && x->request.len) {
		ssize_t n = send(fd, x->request.data, x->request.len, MSG_NOSIGNAL);
		if (n > 0) {
			x->request.len -= (size_t)n;
			memmove(x->request.data, x->request.data + n, x->request.len);
		} else if (errno != EAGAIN && errno != EINTR) {
			proxy_failed(x, 0);
			return;
		}
		if (x->request.len)
			return;
		event_del(&a->event);
		event_assign(&a->event, x->dialler->base, fd, EV_READ | EV_PERSIST, on_proxy, a);
		event_add(&a->event, NULL);
	}
	if (what & EV_READ)
		read_answer(x, a);
}

static void ask_proxy(struct dial *x, struct attempt *a)
{
	proxy_request(&x->dialler->proxy, &x->target, x->port, &x->request);
	x->answer = proxy_answer_new();
	if (!x->answer || x->request.failed) {
		fail(x, "out of memory");
		finish(x);
		return;
	}
	event_del(&a->event);
	event_assign(&a->event, x->dialler->base, a->fd, EV_READ | EV_WRITE | EV_PERSIST, on_proxy, a);
	event_add(&a->event, NULL);
	set_timer(&x->deadline, DIAL_TIMEOUT_S * 1000);
}

/* ---- attempts ------------------------------------------------------------------------------------------------------------------ */

static void won(struct dial *x, struct attempt *a)
{
	show_address(&a->address, x->result.address);
	stop_lookups(x);
	event_del(&x->next);
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		if (&x->attempts[i] != a)
			close_attempt(&x->attempts[i]);
	if (x->by_proxy)
		ask_proxy(x, a);
	else
		take_over(x, a);
}

static void lost(struct dial *x, struct attempt *a, int why)
{
	char text[64];
	show_address(&a->address, text);
	snprintf(x->result.address, sizeof(x->result.address), "%s", text);
	fail(x, "%s%s: %s", x->by_proxy ? "the proxy " : "", text, strerror(why));
	close_attempt(a);
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *a = arg;
	struct dial *x = a->dial;
	const int failure = socket_failure(fd);
	(void)what;
	if (failure == 0) {
		won(x, a);
		return;
	}
	lost(x, a, failure);
	advance(x);
}

static struct attempt *free_attempt(struct dial *x)
{
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		if (x->attempts[i].fd < 0)
			return &x->attempts[i];
	return NULL;
}

/* 1: under way, 0: failed at once, and the reason is kept. */
static int try_address(struct dial *x, struct attempt *a, const union address *to)
{
	const socklen_t len = to->any.sa_family == AF_INET ? sizeof(to->v4) : sizeof(to->v6);
	a->address = *to;
	a->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (a->fd < 0) {
		fail(x, "%s", strerror(errno));
		return 0;
	}
	event_assign(&a->event, x->dialler->base, a->fd, EV_WRITE | EV_PERSIST, on_connected, a);
	if (connect(a->fd, &to->any, len) < 0 && errno != EINPROGRESS) {
		lost(x, a, errno);
		return 0;
	}
	event_add(&a->event, NULL);
	return 1;
}

/* The next address, of the family whose turn it is if it has one. */
static const union address *next_address(struct dial *x)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		enum family f = (enum family)((x->turn + i) % FAMILIES);
		if (x->tried[f] == x->found_count[f])
			continue;
		x->turn = (enum family)((f + 1) % FAMILIES);
		return &x->found[f][x->tried[f]++];
	}
	return NULL;
}

static bool is_busy(const struct dial *x)
{
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		if (x->attempts[i].fd >= 0)
			return true;
	return x->lookups[V4] || x->lookups[V6];
}

/* Begins the next attempt; ends if there is nothing left to try or to wait for. */
static void advance(struct dial *x)
{
	struct attempt *a = free_attempt(x);
	const union address *to;
	while (a && (to = next_address(x))) {
		if (!x->begun)
			set_timer(&x->deadline, DIAL_TIMEOUT_S * 1000);
		x->begun = true;
		if (try_address(x, a, to)) {
			set_timer(&x->next, STAGGER_MS);
			return;
		}
	}
	if (!is_busy(x))
		finish(x);
}

static void on_next(evutil_socket_t fd, short what, void *arg)
{
	struct dial *x = arg;
	(void)fd;
	(void)what;
	if (x->asked)
		advance(x);
	else
		begin(x);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct dial *x = arg;
	(void)fd;
	(void)what;
	if (x->answer)
		fail(x, "the proxy has not answered within %d seconds", DIAL_TIMEOUT_S);
	else if (x->begun)
		fail(x, "not connected within %d seconds", DIAL_TIMEOUT_S);
	else
		fail(x, "not resolved within %d seconds", DIAL_TIMEOUT_S);
	finish(x);
}

/* ---- names --------------------------------------------------------------------------------------------------------------------- */

static void refuse(struct dial *x, const union address *a, const char *why, const char *unless)
{
	char text[64];
	show_address(a, text);
	const int n = x->target.is_address ? snprintf(x->result.reason, sizeof(x->result.reason), "it is %s", why)
	                                   : snprintf(x->result.reason, sizeof(x->result.reason), "resolves to %s, %s", text, why);
	if (unless && n > 0 && (size_t)n < sizeof(x->result.reason))
		snprintf(x->result.reason + n, sizeof(x->result.reason) - (size_t)n, " (allowed by a rule for %s%s)", text, unless);
	snprintf(x->result.address, sizeof(x->result.address), "%s", text);
	x->result.outcome = DIAL_DENIED;
}

static bool may_be_dialled(struct dial *x, const union address *a)
{
	const struct cordon_policy *policy = x->dialler->policy;
	const bool first = x->found_count[V4] + x->found_count[V6] == 0; /* others could be told of, but one can be dialled */
	const char *why = NULL;
	struct nearby_place near;
	if (!address_allowed(policy, &a->any, x->port, &why)) {
		if (first)
			refuse(x, a, why, NULL);
		return false;
	}
	if (address_special(&a->any) || !nearby_find(x->dialler->nearby, &a->any, &near) ||
	    address_named(policy, &a->any, x->port, near.bits))
		return true;
	if (first)
		refuse(x, a, near.what, near.is_host ? ", or " DIAL_HOST : "");
	return false;
}

static void add_address(struct dial *x, enum family f, const union address *a)
{
	if (x->found_count[f] < ADDRESSES_MAX && (!x->filtered || may_be_dialled(x, a)))
		x->found[f][x->found_count[f]++] = *a;
}

static void set_port(union address *a, uint16_t port)
{
	if (a->any.sa_family == AF_INET)
		a->v4.sin_port = htons(port);
	else
		a->v6.sin6_port = htons(port);
}

static void add_literal(struct dial *x, int family, const void *bytes, uint16_t port)
{
	union address a = {.any = {.sa_family = (sa_family_t)family}};
	if (family == AF_INET)
		memcpy(&a.v4.sin_addr, bytes, sizeof(a.v4.sin_addr));
	else
		memcpy(&a.v6.sin6_addr, bytes, sizeof(a.v6.sin6_addr));
	set_port(&a, port);
	add_address(x, family == AF_INET ? V4 : V6, &a);
}

/* Something was answered. */
static void resume(struct dial *x)
{
	const bool waits = x->lookups[V4] || x->lookups[V6];
	const bool found = x->found_count[V4] + x->found_count[V6] > 0;
	if (x->begun ? evtimer_pending(&x->next, NULL) : waits && !found)
		return;
	if (!x->begun && x->lookups[V6] && x->found_count[V6] == 0)
		set_timer(&x->next, RESOLUTION_MS);
	else
		advance(x);
}

static void on_answer(void *arg, int family, const struct reply *found, const char *why)
{
	struct dial *x = arg;
	const enum family f = family == AF_INET ? V4 : V6;
	x->lookups[f] = NULL;
	for (size_t i = 0; i < found->count; i++)
		add_literal(x, family, found->addresses[i], x->by_proxy ? x->dialler->proxy.port : x->port);
	if (why && x->result.outcome == DIAL_FAILED && !x->begun)
		fail(x, "%s cannot be resolved: %s", x->by_proxy ? "the proxy" : "it", why);
	resume(x);
}

static bool ask(struct dial *x, enum family f, const char *name)
{
	x->lookups[f] = lookup_start(x->dialler->lookups, name, families[f], on_answer, x);
	return x->lookups[f] != NULL;
}

/* The host's own loopback, for which a rule of exactly this name has been found. */
static void add_own_host(struct dial *x)
{
	static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
	add_literal(x, AF_INET, v4, x->port);
	add_literal(x, AF_INET6, v6, x->port);
}

static void ask_both(struct dial *x, const struct host_target *t, uint16_t port)
{
	if (t->is_address)
		add_literal(x, t->family, t->address, port);
	else if (!ask(x, V6, t->name) || !ask(x, V4, t->name))
		fail(x, "out of memory");
}

static void begin(struct dial *x)
{
	const struct dialler *d = x->dialler;
	if (!x->target.is_address && strcmp(x->target.name, DIAL_HOST) == 0)
		add_own_host(x);
	else
		ask_both(x, x->by_proxy ? &d->proxy.host : &x->target, x->by_proxy ? d->proxy.port : x->port);
	x->asked = true;
	resume(x);
}

/*
 * An address of a block rule that is not of the public internet is in the host's own network, where a proxy is of no use. To a public one it is asked to connect, after
 * the policy has been asked; of a name the policy has been asked already, and its addresses are known to the proxy only.
 */
static bool goes_by_proxy(const struct dialler *d, const struct host_target *t)
{
	union address a = {.any = {.sa_family = (sa_family_t)t->family}};
	if (!d->has_proxy || proxy_is_passed_by(&d->proxy, t) || (!t->is_address && strcmp(t->name, DIAL_HOST) == 0))
		return false;
	if (!t->is_address)
		return true;
	if (t->family == AF_INET)
		memcpy(&a.v4.sin_addr, t->address, sizeof(a.v4.sin_addr));
	else
		memcpy(&a.v6.sin6_addr, t->address, sizeof(a.v6.sin6_addr));
	return address_special(&a.any) == NULL;
}

struct dial *dial_start(struct dialler *d, const struct host_target *target, uint16_t port, dial_done *done, void *arg)
{
	struct dial *x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->dialler = d;
	x->target = *target;
	x->port = port;
	x->by_proxy = goes_by_proxy(d, target);
	x->filtered = !x->by_proxy && (target->is_address || strcmp(target->name, DIAL_HOST) != 0);
	x->done = done;
	x->arg = arg;
	x->result = (struct dial_result){.outcome = DIAL_FAILED, .fd = -1, .reason = "it has no address"};
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		x->attempts[i] = (struct attempt){.dial = x, .fd = -1};
	evtimer_assign(&x->next, d->base, on_next, x);
	evtimer_assign(&x->deadline, d->base, on_deadline, x);
	set_timer(&x->next, 0);
	set_timer(&x->deadline, DIAL_TIMEOUT_S * 1000);
	return x;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static int set_proxy(struct dialler *d, const struct dialler_config *c, struct cordon_error *err)
{
	if (proxy_parse(c->proxy, c->no_proxy, &d->proxy, err) < 0)
		return c->proxy_from ? err_wrap(err, "%s", c->proxy_from) : -1;
	d->has_proxy = true;
	return 0;
}

struct dialler *dialler_new(struct event_base *base, const struct dialler_config *config, struct cordon_error *err)
{
	struct dialler *d = calloc(1, sizeof(*d));
	if (!d) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	d->base = base;
	d->policy = config->policy;
	d->nearby = nearby_new(err);
	d->lookups = d->nearby ? lookups_new(base, config->resolv, config->hosts, err) : NULL;
	if (d->lookups && (!config->proxy || set_proxy(d, config, err) == 0))
		return d;
	dialler_free(d);
	return NULL;
}

void dialler_renew(struct dialler *d, const char *resolv)
{
	lookups_renew(d->lookups, resolv);
}

void dialler_free(struct dialler *d)
{
	if (!d)
		return;
	lookups_free(d->lookups);
	nearby_free(d->nearby);
	proxy_clear(&d->proxy);
	free(d);
}
