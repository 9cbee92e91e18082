/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, limits, clocks, and what comes from other threads. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "server/http_parts.h"

#define ACCEPTS_MAX 64      /* at once: those who are here already want a turn */
#define ACCEPT_LATER_MS 100 /* after there was no descriptor, or no memory, or nobody who had been idle for … */
#define IDLE_LEAST_MS 100

struct http_listener {
	struct http_listener *next;
	struct event *event;
};

struct post {
	struct post *next;
	void (*fn)(void *arg);
	void *arg;
};

static void accept_resume(struct http_loop *l);

/* ---- clocks -------------------------------------------------------------------------------------------------------------------- */

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t patience(const struct http_limits *m, enum timer_kind kind)
{
	const unsigned ms[TIMER_KINDS] = {m->idle_ms, m->head_ms, m->stall_ms, m->linger_ms};

	return ms[kind];
}

static void timer_arm(struct http_loop *l, uint64_t at)
{
	const uint64_t wait = at > l->now_ms ? at - l->now_ms : 0;
	const struct timeval t = {(time_t)(wait / 1000), (suseconds_t)(wait % 1000 * 1000)};

	l->timer_at = at;
	evtimer_add(l->timer, &t);
}

void loop_timer_set(struct http_loop *l, struct conn *c, enum timer_kind kind)
{
	if (c->timer != TIMER_NONE)
		TAILQ_REMOVE(&l->timed[c->timer], c, timed);
	c->timer = kind;
	if (kind == TIMER_NONE)
		return;
	l->now_ms = clock_ms();
	c->deadline = l->now_ms + patience(&l->limits, kind);
	TAILQ_INSERT_TAIL(&l->timed[kind], c, timed);
	if (l->timer_at == 0 || c->deadline < l->timer_at)
		timer_arm(l, c->deadline);
	if (kind == TIMER_IDLE)
		accept_resume(l); /* here is one that could make room */
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http_loop *l = arg;
	uint64_t next = 0;
	struct conn *c;

	(void)fd;
	(void)what;
	l->now_ms = clock_ms();
	l->timer_at = UINT64_MAX; /* whoever is set meanwhile is looked at below */
	for (enum timer_kind kind = 0; kind < TIMER_KINDS; kind++)
		while ((c = TAILQ_FIRST(&l->timed[kind])) && c->deadline <= l->now_ms)
			conn_expired(c, kind);
	for (enum timer_kind kind = 0; kind < TIMER_KINDS; kind++)
		if ((c = TAILQ_FIRST(&l->timed[kind])) && (next == 0 || c->deadline < next))
			next = c->deadline;
	l->timer_at = 0;
	if (next)
		timer_arm(l, next);
}

/* ---- what is kept for the next ------------------------------------------------------------------------------------------------- */

static void exchange_free(struct http_exchange *x)
{
	exchange_clear(x);
	buf_free(&x->body);
	free(x);
}

struct http_exchange *loop_take_exchange(struct http_loop *l)
{
	const size_t headers = l->limits.headers * sizeof(struct http_header), in = exchange_in_size(l);
	struct http_exchange *x = l->spare;

	if (x) {
		l->spare = x->next_spare;
		l->spare_count--;
		return x;
	}
	x = malloc(sizeof(*x) + headers + in + l->limits.target_bytes + 2);
	if (!x)
		return NULL;
	*x = (struct http_exchange){.headers = (struct http_header *)(void *)(x + 1)};
	x->in = (char *)(x + 1) + headers;
	x->query_text = x->in + in;
	exchange_clear(x);
	return x;
}

void loop_give_exchange(struct http_loop *l, struct http_exchange *x)
{
	if (l->spare_count == SPARE_EXCHANGES || l->freeing) {
		exchange_free(x);
		return;
	}
	x->pos = x->filled = 0;
	exchange_clear(x);
	x->next_spare = l->spare;
	l->spare = x;
	l->spare_count++;
}

void loop_take_buf(struct http_loop *l, struct buf *b)
{
	if (l->buf_count)
		*b = l->bufs[--l->buf_count];
}

void loop_give_buf(struct http_loop *l, struct buf *b)
{
	if (l->buf_count == SPARE_BUFS || b->size > KEPT_BYTES || b->failed || l->freeing || !b->data) {
		buf_free(b);
		return;
	}
	l->bufs[l->buf_count++] = (struct buf){.data = b->data, .size = b->size};
	*b = (struct buf){0};
}

/* ---- accepting ----------------------------------------------------------------------------------------------------------------- */

static void accept_pause(struct http_loop *l, bool for_a_while)
{
	static const struct timeval later = {0, ACCEPT_LATER_MS * 1000};

	for (struct http_listener *n = l->listeners; n; n = n->next)
		event_del(n->event);
	l->accepting = false;
	if (for_a_while)
		evtimer_add(l->accept_later, &later);
}

static void accept_resume(struct http_loop *l)
{
	if (l->accepting || l->draining || l->freeing)
		return;
	l->accepting = true;
	evtimer_del(l->accept_later);
	for (struct http_listener *n = l->listeners; n; n = n->next)
		event_add(n->event, NULL);
}

static void on_accept_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	accept_resume(arg);
}

/* Who has been idle for a while; who came just now may have sent a request that nobody has looked at yet. */
static struct conn *longest_idle(struct http_loop *l)
{
	struct conn *c = TAILQ_FIRST(&l->timed[TIMER_IDLE]);

	return c && clock_ms() + l->limits.idle_ms >= c->deadline + IDLE_LEAST_MS ? c : NULL;
}

/* It loses its place; false: there is none. */
static bool close_longest_idle(struct http_loop *l)
{
	struct conn *c = longest_idle(l);

	if (c)
		conn_free(c);
	return c;
}

/* Nobody is closed for a client that may not be there: that is known after accept() only. */
static bool has_room(struct http_loop *l)
{
	if (l->conn_count < l->limits.connections || longest_idle(l))
		return true;
	accept_pause(l, !TAILQ_EMPTY(&l->timed[TIMER_IDLE]));
	return false;
}

/*
 * Out of descriptors or memory the listener stays readable: without a pause this would go round without end. Out of descriptors accept() says
 * so before it looks whether somebody is there at all.
 */
static void accept_failed(struct http_loop *l, int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || poll(&p, 1, 0) <= 0)
		return;
	if (!close_longest_idle(l))
		accept_pause(l, true);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg)
{
	struct http_loop *l = arg;
	struct sockaddr_storage peer;

	(void)what;
	for (unsigned n = 0; n < ACCEPTS_MAX && l->accepting && has_room(l); n++) {
		socklen_t len = sizeof(peer);
		memset(&peer, 0, sizeof(peer.ss_family));
		const int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			accept_failed(l, listener);
			return;
		}
		if (l->conn_count >= l->limits.connections)
			close_longest_idle(l);
		if (!conn_new(l, fd, (struct sockaddr *)&peer))
			close(fd);
	}
}

void loop_conn_gone(struct http_loop *l)
{
	if (l->draining && l->conn_count == 0)
		event_base_loopbreak(l->base);
	accept_resume(l);
}

static int set_nonblocking(int fd, struct cordon_error *err)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(err, "cannot make socket %d non-blocking", fd);
	return 0;
}

int http_loop_listen(struct http_loop *l, int fd, struct cordon_error *err)
{
	_cleanup_free_ struct http_listener *n = calloc(1, sizeof(*n));

	if (set_nonblocking(fd, err) < 0)
		return -1;
	if (!n || !(n->event = event_new(l->base, fd, EV_READ | EV_PERSIST, on_acceptable, l)))
		return err_set(err, CORDON_ERR_SYSTEM, "cannot listen: out of memory");
	if (l->accepting && event_add(n->event, NULL) < 0) {
		event_free(n->event);
		return err_set(err, CORDON_ERR_SYSTEM, "cannot wait for connections of socket %d", fd);
	}
	n->next = l->listeners;
	l->listeners = steal_ptr(&n);
	return 0;
}

int http_loop_adopt(struct http_loop *l, int fd, struct cordon_error *err)
{
	_cleanup_fd_ int mine = fd;
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);

	if (set_nonblocking(fd, err) < 0)
		return -1;
	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
		return err_sys(err, "cannot take socket %d", fd);
	if (!conn_new(l, fd, (struct sockaddr *)&peer))
		return err_set(err, CORDON_ERR_SYSTEM, "cannot take socket %d: out of memory", fd);
	steal_fd(&mine);
	return 0;
}

/* ---- from other threads -------------------------------------------------------------------------------------------------------- */

static void drain(struct http_loop *l)
{
	struct conn *c, *next;

	if (l->draining)
		return;
	l->draining = true;
	accept_pause(l, false);
	evtimer_del(l->accept_later);
	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, all);
		conn_wake(c); /* who is idle will notice it */
	}
	if (l->conn_count == 0)
		event_base_loopbreak(l->base);
}

static void run_posts(struct http_loop *l)
{
	pthread_mutex_lock(&l->lock);
	struct post *p = l->posts;
	l->posts = NULL;
	l->posts_end = &l->posts;
	pthread_mutex_unlock(&l->lock);
	while (p) {
		struct post *next = p->next;
		p->fn(p->arg);
		free(p);
		p = next;
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct http_loop *l = arg;
	uint64_t count;

	(void)what;
	(void)!read(fd, &count, sizeof(count)); /* it only says that there is something */
	if (atomic_load(&l->stop_asked)) {
		event_base_loopbreak(l->base);
		return;
	}
	run_posts(l);
	if (atomic_load(&l->drain_asked))
		drain(l);
}

static void wake(struct http_loop *l)
{
	const int before = errno; /* we may be in a signal handler */

	(void)!write(l->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
	errno = before;
}

void http_loop_stop(struct http_loop *l)
{
	atomic_store(&l->stop_asked, true);
	wake(l);
}

void http_loop_drain(struct http_loop *l)
{
	atomic_store(&l->drain_asked, true);
	wake(l);
}

int http_loop_post(struct http_loop *l, void (*fn)(void *arg), void *arg)
{
	struct post *p = malloc(sizeof(*p));

	if (!p)
		return -1;
	*p = (struct post){NULL, fn, arg};
	pthread_mutex_lock(&l->lock);
	const bool first = !l->posts;
	*l->posts_end = p;
	l->posts_end = &p->next;
	pthread_mutex_unlock(&l->lock);
	if (first)
		wake(l);
	return 0;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

static void set_limits(struct http_limits *m)
{
#define DEFAULT(field, value) m->field = m->field ? m->field : (value)
	DEFAULT(head_bytes, (size_t)16 << 10);
	DEFAULT(target_bytes, (size_t)8 << 10);
	DEFAULT(headers, 100);
	DEFAULT(connections, 10000);
	DEFAULT(unsent_bytes, (size_t)4 << 20);
	DEFAULT(head_ms, 10000);
	DEFAULT(idle_ms, 75000);
	DEFAULT(stall_ms, 30000);
	DEFAULT(linger_ms, 2000);
#undef DEFAULT
}

static bool make_events(struct http_loop *l)
{
	l->base = event_base_new();
	if (!l->base)
		return false;
	l->timer = evtimer_new(l->base, on_timer, l);
	l->accept_later = evtimer_new(l->base, on_accept_later, l);
	l->wake = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
	return l->timer && l->accept_later && l->wake && event_add(l->wake, NULL) == 0;
}

struct http_loop *http_loop_new(const struct http_service *service, struct cordon_error *err)
{
	struct http_loop *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, CORDON_ERR_SYSTEM, "cannot make a server loop: out of memory");
		return NULL;
	}
	l->service = *service;
	l->limits = service->limits;
	set_limits(&l->limits);
	TAILQ_INIT(&l->conns);
	for (unsigned i = 0; i < TIMER_KINDS; i++)
		TAILQ_INIT(&l->timed[i]);
	l->accepting = true;
	l->posts_end = &l->posts;
	pthread_mutex_init(&l->lock, NULL);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd >= 0 && make_events(l))
		return l;
	err_sys(err, "cannot make a server loop");
	http_loop_free(l);
	return NULL;
}

void http_loop_run(struct http_loop *l)
{
	event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

struct event_base *http_loop_base(struct http_loop *l)
{
	return l->base;
}

size_t http_loop_connections(const struct http_loop *l)
{
	return l->conn_count;
}

static void free_events(struct http_loop *l)
{
	struct event *const events[] = {l->timer, l->accept_later, l->wake};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i])
			event_free(events[i]);
	while (l->listeners) {
		struct http_listener *next = l->listeners->next;
		event_free(l->listeners->event);
		free(l->listeners);
		l->listeners = next;
	}
}

void http_loop_free(struct http_loop *l)
{
	struct conn *c;

	if (!l)
		return;
	l->freeing = true;
	while ((c = TAILQ_FIRST(&l->conns)))
		conn_free(c);
	free_events(l);
	while (l->spare) {
		struct http_exchange *next = l->spare->next_spare;
		exchange_free(l->spare);
		l->spare = next;
	}
	while (l->buf_count)
		buf_free(&l->bufs[--l->buf_count]);
	gzip_free(l->gzip);
	while (l->posts) {
		struct post *next = l->posts->next;
		free(l->posts);
		l->posts = next;
	}
	if (l->base)
		event_base_free(l->base);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
