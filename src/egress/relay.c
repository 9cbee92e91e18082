/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Both sockets are watched for edges (EPOLLET), once for the whole life of the connection: what an edge said is remembered in `readable` and
 * `writable` until the kernel says EAGAIN. After every edge the relay runs: for each direction, what is on the way is sent, then new bytes are read, until one side blocks
 * or the turn is used up; then a timer of zero lets the others have theirs.
 */
#include "egress/relay.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/bucket.h"
#include "egress/clock.h"
#include "egress/pipes.h"
#include "egress/socket.h"

#define TURN ((size_t)1 << 20)         /* bytes that one direction moves before others have their turn */
#define SPLICE PIPES_LARGE             /* that are moved at once: more of them do not stay in the processor's caches until they are read */
#define CHUNK (((size_t)64 << 10) - 1) /* that are read at once to be looked at; a buffer has a NUL behind them */
#define HELD_MAX ((size_t)192 << 10)   /* that a check may leave behind: more are not read before it goes on */
#define HELD_LITTLE (((size_t)16 << 10) - 1) /* … while the check waits for the server, or all relays together hold RELAY_MEMORY */
#define PRESSURE_MS 100                      /* after which a relay that holds more than that looks again */
#define UNFINISHED_S 30                      /* for which a side that has ended may leave the check with less than a whole */

struct relays {
	struct event_base *base;
	struct bucket *bucket;
	struct pipes pipes;
	size_t memory; /* of all buffers */
};

struct side {
	int fd;
	struct event event;
	bool readable, writable;
};

struct flow {
	struct side *from, *to;
	struct pipe *pipe; /* NULL while there is nothing in it */
	size_t in_pipe;
	struct buf held; /* bytes in memory: the first `passed` of them may go */
	size_t passed;
	size_t counted; /* in relays.memory */
	bool checked;   /* they are looked at */
	bool copied;    /* they go by memory, be they looked at or not */
	bool waits;     /* RELAY_WAIT */
	bool ended;     /* there is nothing more to read */
	bool closed;    /* … and the other side knows */
	uint64_t bytes;
};

struct relay {
	struct relays *shared;
	struct side client, server;
	struct flow flows[2]; /* by enum relay_way */
	struct event again, idle;
	struct bucket_waiter waiter;
	relay_check *check;
	void *check_arg;
	relay_over *over;
	void *over_arg;
	bool answered; /* since the client's bytes were last looked at, the server has sent something */
	bool hurried;  /* the idle timer was set to UNFINISHED_S */
	uint64_t active_us;
};

enum step { STEP_GO, STEP_BLOCKED, STEP_TURN_OVER, STEP_RESET, STEP_REFUSED };

/* ---- one direction ------------------------------------------------------------------------------------------------------------- */

static void drop_pipe(struct relay *r, struct flow *f)
{
	if (f->pipe)
		pipes_give(&r->shared->pipes, f->pipe, f->in_pipe == 0);
	f->pipe = NULL;
	f->in_pipe = 0;
}

static void count_memory(struct relay *r, struct flow *f)
{
	r->shared->memory += f->held.size - f->counted;
	f->counted = f->held.size;
}

/* The other side takes nothing more. What it has to say is still of interest: a server may refuse an upload, answer and close. */
static void abandon(struct relay *r, struct flow *f)
{
	drop_pipe(r, f);
	buf_free(&f->held);
	f->passed = 0;
	f->ended = f->closed = true;
}

static void went(struct flow *f, size_t n)
{
	f->bytes += n;
	if (f->passed == 0) {
		f->in_pipe -= n;
		return;
	}
	f->passed -= n;
	f->held.len -= n;
	memmove(f->held.data, f->held.data + n, f->held.len);
	if (f->held.len == 0)
		buf_free(&f->held);
}

/* Sends what may go. */
static enum step drain(struct relay *r, struct flow *f)
{
	while (f->passed || f->in_pipe) {
		if (!f->to->writable)
			return STEP_BLOCKED;
		ssize_t n = f->passed ? send(f->to->fd, f->held.data, f->passed, MSG_NOSIGNAL | MSG_DONTWAIT)
		                      : splice(f->pipe->out, NULL, f->to->fd, NULL, f->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n > 0)
			went(f, (size_t)n);
		else if (errno == EAGAIN)
			f->to->writable = false;
		else if (errno != EINTR)
			abandon(r, f);
	}
	return STEP_GO;
}

/* Shows the check, if there is one, what it has not let go. */
static enum step look(struct relay *r, struct flow *f)
{
	const enum relay_way way = f == &r->flows[RELAY_UP] ? RELAY_UP : RELAY_DOWN;
	size_t len = f->held.len - f->passed;
	if (!f->checked)
		f->passed = f->held.len;
	if (!f->checked || len == 0)
		return STEP_GO;
	const enum relay_verdict v = r->check(r->check_arg, way, f->held.data + f->passed, &len);
	if (v == RELAY_STOP)
		return STEP_REFUSED;
	f->checked = v != RELAY_FREE;
	f->waits = v == RELAY_WAIT;
	f->passed = v == RELAY_FREE ? f->held.len : f->passed + len;
	if (way == RELAY_DOWN)
		r->answered = true;
	return STEP_GO;
}

static ssize_t read_held(struct flow *f, size_t len)
{
	void *room = buf_reserve(&f->held, len);
	if (!room) {
		errno = ENOMEM;
		return -1;
	}
	ssize_t n = recv(f->from->fd, room, len, MSG_DONTWAIT);
	if (n > 0)
		f->held.len += (size_t)n;
	if (f->held.len == 0)
		buf_free(&f->held);
	return n;
}

/* splice(2) stops before urgent data, as if there were nothing more; recv(2) goes on (tcp(7)). With SO_OOBINLINE it is bytes like others. */
static bool is_before_urgent(const struct flow *f)
{
	const int before = errno;
	int left = 0;
	const bool more = ioctl(f->from->fd, FIONREAD, &left) == 0 && left > 0;
	errno = before;
	return more;
}

static ssize_t read_pipe(struct relay *r, struct flow *f, size_t len)
{
	if (!f->pipe)
		f->pipe = pipes_take(&r->shared->pipes);
	if (!f->pipe)
		return -1;
	/* the pipe is empty: EAGAIN can only mean that the socket is, too */
	ssize_t n = splice(f->from->fd, NULL, f->pipe->in, NULL, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		f->in_pipe += (size_t)n;
	} else if ((n == 0 || errno == EAGAIN) && is_before_urgent(f)) {
		n = read_held(f, MIN(len, HELD_LITTLE));
		f->passed = f->held.len;
	}
	return n;
}

/* How many bytes may be read into memory. */
static size_t room(struct relay *r, const struct flow *f)
{
	const bool pressure = r->shared->memory > RELAY_MEMORY;
	const size_t most = f->waits || pressure ? HELD_LITTLE : HELD_MAX, held = f->held.len;
	if (held < most)
		return MIN(most - held, CHUNK);
	if (pressure && !f->waits) {
		const struct timeval later = {0, PRESSURE_MS * 1000};
		evtimer_add(&r->again, &later);
	}
	return 0;
}

/* Reads once, as much as there is and the limits allow. All that may go has gone. */
static enum step fill(struct relay *r, struct flow *f, size_t *turn)
{
	const bool to_memory = f->checked || f->copied;
	const size_t most = to_memory ? room(r, f) : SPLICE;
	if (!f->from->readable || most == 0)
		return STEP_BLOCKED;
	if (*turn == 0)
		return STEP_TURN_OVER;
	size_t may = bucket_take(r->shared->bucket, MIN(*turn, most));
	if (may == 0) {
		bucket_wait(r->shared->bucket, &r->waiter);
		return STEP_BLOCKED;
	}
	ssize_t n = to_memory ? read_held(f, may) : read_pipe(r, f, may);
	bucket_give_back(r->shared->bucket, may - (n > 0 ? (size_t)n : 0));
	if (n == 0)
		f->ended = true;
	else if (n > 0)
		*turn -= MIN(*turn, (size_t)n);
	else if (errno == EAGAIN)
		f->from->readable = false;
	else if (errno != EINTR)
		return STEP_RESET;
	return n > 0 ? look(r, f) : STEP_GO;
}

/* What the client has left behind may still go when the server answers. Nobody completes what a server has left behind. */
static bool may_still_go(const struct relay *r, const struct flow *f)
{
	return f == &r->flows[RELAY_UP] && f->held.len && !r->flows[RELAY_DOWN].ended;
}

static enum step end_flow(struct relay *r, struct flow *f)
{
	if (may_still_go(r, f)) {
		const struct timeval patience = {UNFINISHED_S, 0};
		if (!r->hurried)
			evtimer_add(&r->idle, &patience);
		r->hurried = true;
		return STEP_BLOCKED;
	}
	shutdown(f->to->fd, SHUT_WR);
	f->closed = true;
	return STEP_BLOCKED;
}

static enum step run_flow(struct relay *r, struct flow *f)
{
	size_t turn = TURN;
	enum step s = STEP_GO;
	while (s == STEP_GO && !f->closed) {
		s = drain(r, f);
		if (s == STEP_GO && !f->closed)
			s = f->ended ? end_flow(r, f) : fill(r, f, &turn);
	}
	if (f->in_pipe == 0)
		drop_pipe(r, f);
	count_memory(r, f);
	return s;
}

/* ---- both --------------------------------------------------------------------------------------------------------------------- */

static enum step run_both(struct relay *r)
{
	struct flow *up = &r->flows[RELAY_UP], *down = &r->flows[RELAY_DOWN];
	enum step s = run_flow(r, down), t = STEP_GO;
	if (s == STEP_RESET || s == STEP_REFUSED)
		return s;
	if (r->answered) {
		r->answered = false;
		t = look(r, up);
	}
	if (t == STEP_GO)
		t = run_flow(r, up);
	return t == STEP_RESET || t == STEP_REFUSED || t == STEP_TURN_OVER ? t : s;
}

static void run(struct relay *r)
{
	static const struct timeval at_once = {0, 0};
	const uint64_t before = r->flows[RELAY_UP].bytes + r->flows[RELAY_DOWN].bytes;
	enum step s = run_both(r);
	if (before != r->flows[RELAY_UP].bytes + r->flows[RELAY_DOWN].bytes)
		r->active_us = clock_us();
	if (s == STEP_RESET || s == STEP_REFUSED)
		r->over(r->over_arg, s == STEP_RESET ? RELAY_RESET : RELAY_REFUSED);
	else if (r->flows[RELAY_UP].closed && r->flows[RELAY_DOWN].closed)
		r->over(r->over_arg, RELAY_DONE);
	else if (s == STEP_TURN_OVER)
		evtimer_add(&r->again, &at_once);
}

static void on_edge(struct relay *r, struct side *s, const struct flow *from, short what)
{
	s->readable |= (what & EV_READ) != 0;
	s->writable |= (what & EV_WRITE) != 0;
	/* a side that has ended is not read any more, and if nothing is sent to it either, only this tells that it is gone */
	if (from->ended && socket_failure(s->fd))
		r->over(r->over_arg, RELAY_RESET);
	else
		run(r);
}

static void on_client(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	(void)fd;
	on_edge(r, &r->client, &r->flows[RELAY_UP], what);
}

static void on_server(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	(void)fd;
	on_edge(r, &r->server, &r->flows[RELAY_DOWN], what);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	run(arg);
}

static void on_turn(void *arg)
{
	run(arg);
}

/* The timer is not set again for every byte: it finds out when it fires. */
static void on_idle(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	const struct flow *up = &r->flows[RELAY_UP];
	const bool unfinished = up->ended && !up->closed && may_still_go(r, up);
	const uint64_t most = (uint64_t)(unfinished ? UNFINISHED_S : RELAY_IDLE_S) * 1000000, idle = clock_us() - r->active_us;
	(void)fd;
	(void)what;
	if (idle >= most) {
		r->over(r->over_arg, RELAY_IDLE);
		return;
	}
	const struct timeval next = {(time_t)((most - idle) / 1000000) + 1, 0};
	evtimer_add(&r->idle, &next);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

struct relays *relays_new(struct event_base *base, uint64_t bandwidth)
{
	struct relays *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->base = base;
	s->bucket = bucket_new(base, bandwidth);
	if (s->bucket)
		return s;
	free(s);
	return NULL;
}

void relays_free(struct relays *s)
{
	if (!s)
		return;
	pipes_clear(&s->pipes);
	bucket_free(s->bucket);
	free(s);
}

struct bucket *relays_bucket(struct relays *s)
{
	return s->bucket;
}

static void watch(struct relay *r, struct side *s, int fd, event_callback_fn on)
{
	s->fd = fd;
	s->readable = s->writable = true; /* found out by trying */
	event_assign(&s->event, r->shared->base, fd, EV_READ | EV_WRITE | EV_PERSIST | EV_ET, on, r);
	event_add(&s->event, NULL);
}

struct relay *relay_start(struct relays *s, const struct relay_spec *spec)
{
	static const struct timeval at_once = {0, 0}, idle = {RELAY_IDLE_S, 0};
	struct relay *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct relay){
		.shared = s, .check = spec->check, .check_arg = spec->check_arg, .over = spec->over, .over_arg = spec->over_arg};
	r->active_us = clock_us();
	r->waiter = (struct bucket_waiter){.go = on_turn, .arg = r};
	r->flows[RELAY_UP] = (struct flow){.from = &r->client, .to = &r->server};
	r->flows[RELAY_DOWN] = (struct flow){.from = &r->server, .to = &r->client};
	r->flows[RELAY_UP].held = *spec->first;
	r->flows[RELAY_UP].passed = spec->passed;
	r->flows[RELAY_UP].checked = r->flows[RELAY_DOWN].checked = spec->check != NULL;
	r->flows[RELAY_UP].copied = r->flows[RELAY_DOWN].copied = spec->copied;
	r->flows[RELAY_UP].waits = r->answered = spec->check != NULL; /* what is there is shown to it first: it may wait */
	*spec->first = (struct buf){0};
	count_memory(r, &r->flows[RELAY_UP]);
	socket_reset_unless_closed(spec->client);
	socket_reset_unless_closed(spec->server);
	watch(r, &r->client, spec->client, on_client);
	watch(r, &r->server, spec->server, on_server);
	evtimer_assign(&r->idle, s->base, on_idle, r);
	evtimer_assign(&r->again, s->base, on_again, r);
	evtimer_add(&r->idle, &idle);
	evtimer_add(&r->again, &at_once);
	return r;
}

uint64_t relay_bytes(const struct relay *r, enum relay_way way)
{
	return r->flows[way].bytes;
}

void relay_free(struct relay *r, bool reset)
{
	if (!r)
		return;
	bucket_leave(r->shared->bucket, &r->waiter);
	event_del(&r->client.event);
	event_del(&r->server.event);
	event_del(&r->again);
	event_del(&r->idle);
	for (size_t i = 0; i < ARRAY_SIZE(r->flows); i++) {
		drop_pipe(r, &r->flows[i]);
		buf_free(&r->flows[i].held);
		count_memory(r, &r->flows[i]);
	}
	socket_close(r->client.fd, reset);
	socket_close(r->server.fd, reset);
	free(r);
}
