/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/util.h"
#include "egress/clock.h"
#include "sandbox/wire.h"

#define SLOTS 1024
#define REASON_MAX 512

/* What was told of: an event's kind, target, port and rule. */
struct refused {
	TAILQ_ENTRY(refused) order; /* least recently told of first */
	LIST_ENTRY(refused) slot;
	uint64_t told_s, again;
	enum broker_event_kind kind;
	uint16_t port;
	const char *rule; /* behind the target */
	char target[];
};

/* Each kind has a limit of its own: hosts that cannot be reached do not keep refusals from being told. */
struct limit {
	uint64_t tokens, filled_s, left_out;
};

TAILQ_HEAD(refused_order, refused);
LIST_HEAD(refused_slot, refused);

struct reporter {
	struct event_base *base;
	int fd;
	struct refused_order order;
	struct refused_slot slots[SLOTS];
	size_t count;
	struct limit limits[BROKER_EVENT_COUNT];
	struct event *timer, *sweep; /* for what is left out, for what happens again */
};

static void tell_left_out(struct reporter *r);
static void tell_again(struct reporter *r, struct refused *f);

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	tell_left_out(arg);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct reporter *r = arg;
	struct refused *f;
	(void)fd;
	(void)what;
	TAILQ_FOREACH(f, &r->order, order)
	{
		tell_again(r, f);
	}
}

struct reporter *reporter_new(struct event_base *base, int fd)
{
	struct reporter *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->base = base;
	r->fd = fd;
	for (size_t i = 0; i < BROKER_EVENT_COUNT; i++)
		r->limits[i] = (struct limit){.tokens = REPORT_BURST, .filled_s = clock_s()};
	TAILQ_INIT(&r->order);
	r->timer = evtimer_new(base, on_timer, r);
	r->sweep = evtimer_new(base, on_sweep, r);
	if (r->timer && r->sweep)
		return r;
	reporter_free(r);
	return NULL;
}

static void forget(struct reporter *r, struct refused *f)
{
	TAILQ_REMOVE(&r->order, f, order);
	LIST_REMOVE(f, slot);
	r->count--;
	free(f);
}

void reporter_free(struct reporter *r)
{
	if (!r)
		return;
	while (!TAILQ_EMPTY(&r->order))
		forget(r, TAILQ_FIRST(&r->order));
	if (r->timer)
		event_free(r->timer);
	if (r->sweep)
		event_free(r->sweep);
	free(r);
}

void report(struct reporter *r, const struct broker_event *e)
{
	_cleanup_buf_ struct buf body = {0};
	broker_event_encode(e, &body);
	if (wire_send(r->fd, WIRE_BROKER, &body, NULL, 0, NULL) < 0)
		event_base_loopbreak(r->base);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------------ */

static struct refused_slot *slot_of(struct reporter *r, const char *target, uint16_t port)
{
	uint64_t hash = 14695981039346656037u ^ port; /* FNV-1a; what collides is only slower to find */
	for (; *target; target++)
		hash = (hash ^ (unsigned char)*target) * 1099511628211u;
	return &r->slots[(hash ^ hash >> 32) % SLOTS];
}

static struct refused *find(struct reporter *r, const struct broker_event *e)
{
	struct refused *f = LIST_FIRST(slot_of(r, e->target, e->port));
	while (f && (f->kind != e->kind || f->port != e->port || strcmp(f->target, e->target) != 0 || strcmp(f->rule, e->rule) != 0))
		f = LIST_NEXT(f, slot);
	return f;
}

static void remember(struct reporter *r, const struct broker_event *e)
{
	const size_t len = strlen(e->target) + 1, rule_len = strlen(e->rule) + 1;
	struct refused *f = calloc(1, sizeof(*f) + len + rule_len);
	if (!f) /* it will be told of once more than it need be */
		return;
	if (r->count == REPORT_TARGETS) {
		tell_again(r, TAILQ_FIRST(&r->order));
		forget(r, TAILQ_FIRST(&r->order));
	}
	memcpy(f->target, e->target, len);
	f->rule = memcpy(f->target + len, e->rule, rule_len);
	f->kind = e->kind;
	f->port = e->port;
	f->told_s = clock_s();
	LIST_INSERT_HEAD(slot_of(r, e->target, e->port), f, slot);
	TAILQ_INSERT_TAIL(&r->order, f, order);
	r->count++;
}

static bool take_token(struct limit *l)
{
	const uint64_t now = clock_s();
	l->tokens = MIN(l->tokens + (now - l->filled_s) * REPORT_RATE, (uint64_t)REPORT_BURST);
	l->filled_s = now;
	if (l->tokens == 0)
		return false;
	l->tokens--;
	return true;
}

static void leave_out(struct reporter *r, struct limit *l, uint64_t count)
{
	const struct timeval later = {REPORT_LEFT_OUT_S, 0};
	l->left_out += count;
	if (!evtimer_pending(r->timer, NULL))
		evtimer_add(r->timer, &later);
}

static void count_again(struct reporter *r, struct refused *f)
{
	const struct timeval later = {REPORT_AGAIN_S, 0};
	f->again++;
	if (!evtimer_pending(r->sweep, NULL))
		evtimer_add(r->sweep, &later);
}

/* How often that was. Where too much is told already, it is counted with the rest. */
static void tell_again(struct reporter *r, struct refused *f)
{
	char reason[REASON_MAX];
	const uint64_t again = f->again;
	f->again = 0;
	if (again == 0)
		return;
	if (!take_token(&r->limits[f->kind])) {
		leave_out(r, &r->limits[f->kind], again);
		return;
	}
	snprintf(reason, sizeof(reason), "%" PRIu64 " times more since it was told", again);
	report(r, &(struct broker_event){.kind = f->kind,
	                                 .target = f->target,
	                                 .port = f->port,
	                                 .protocol = f->port ? "tcp" : "dns",
	                                 .rule = f->rule,
	                                 .reason = reason,
	                                 .again = again});
}

void report_limited(struct reporter *r, const struct broker_event *e)
{
	struct refused *f = find(r, e);
	if (f && clock_s() - f->told_s < REPORT_AGAIN_S) {
		count_again(r, f);
		return;
	}
	if (!take_token(&r->limits[e->kind])) {
		leave_out(r, &r->limits[e->kind], 1);
		return;
	}
	if (f) {
		tell_again(r, f);
		forget(r, f);
	}
	remember(r, e);
	report(r, e);
}

void report_afresh(struct reporter *r)
{
	while (!TAILQ_EMPTY(&r->order)) {
		tell_again(r, TAILQ_FIRST(&r->order));
		forget(r, TAILQ_FIRST(&r->order));
	}
}

void report_rest(struct reporter *r)
{
	report_afresh(r);
	tell_left_out(r);
}

static void tell_left_out(struct reporter *r)
{
	static const char *const names[BROKER_EVENT_COUNT] = {[BROKER_DENIED] = "refusals", [BROKER_FAILED] = "failures"};
	char reason[REASON_MAX];
	for (size_t i = 0; i < BROKER_EVENT_COUNT; i++) {
		struct limit *l = &r->limits[i];
		if (l->left_out == 0)
			continue;
		snprintf(reason, sizeof(reason), "%" PRIu64 " more %s, too many to be told one by one", l->left_out,
		         names[i] ? names[i] : "events");
		l->left_out = 0;
		report(r, &(struct broker_event){.kind = (enum broker_event_kind)i,
		                                 .target = REPORT_OTHERS,
		                                 .protocol = i == BROKER_DENIED ? "dns" : "tcp",
		                                 .rule = "network.outbound",
		                                 .reason = reason});
	}
}
