/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/broker.h"
#include "lib/context.h"
#include "lib/events.h"
#include "lib/opened.h"
#include "lib/publish.h"
#include "policy/host.h"
#include "policy/maps.h"

#define FAREWELL_MS 2000 /* for its last word */
#define LIVES 5          /* that are begun within … */
#define LIVES_US (60 * UINT64_C(1000000))
#define DRAINED_AT_ONCE 512 /* more than a socket's buffer holds */

/* As long as its sandbox: whoever runs in that may be about to use it. */
struct egress {
	struct cordon_sandbox *sandbox;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread; /* starts brokers, reads what they say */
	bool threaded;    /* there is one; this and the following by the lock */
	bool joining;     /* … and somebody waits for its end */
	enum { OVER, STARTING, UP } state;
	struct cordon_error why; /* OVER, if it was not to be */
	bool joined;             /* the sandbox is ready: its sockets are there */
	bool was_up;             /* a broker was: what goes wrong from then on, nobody waits to be told */
	bool ending;
	bool unrecorded;              /* something could not be written to the audit */
	struct broker_process broker; /* that is up */
	struct opened *opened;        /* its connections */
	char *resolv;                 /* resolv.conf, as the broker knows it */
	char *certificate, *key;      /* by which its brokers speak for others (struct broker_authority); NULL: not known yet */
	struct cordon_exec *running;  /* linked by egress_next */
	struct published published;   /* open while there is a thread */
	bool announced;               /* … and on record */
};

/* By the lock. Its number is its own until it is reaped, which is by the lock, too. */
static void end_broker(const struct egress *g)
{
	if (g->broker.pid > 0)
		kill(g->broker.pid, SIGKILL);
}

/* ---- what it reports ----------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *action;
	enum audit_level level;
	enum audit_allowed allowed;
} kinds[BROKER_EVENT_COUNT] = {
	[BROKER_DENIED] = {"connect", AUDIT_WARNING, AUDIT_DENIED},
	[BROKER_OPENED] = {"connect", AUDIT_INFO, AUDIT_ALLOWED},
	[BROKER_CLOSED] = {"close", AUDIT_INFO, AUDIT_ALLOWED},
	[BROKER_FAILED] = {"fail", AUDIT_WARNING, AUDIT_ALLOWED},
};

/* HOST:PORT, or the name alone where it was asked for. */
static void target_of(const struct broker_event *b, char out[HOST_TEXT_MAX + 8])
{
	const char *open = strchr(b->target, ':') ? "[" : "";
	if (b->port)
		snprintf(out, HOST_TEXT_MAX + 8, "%s%.250s%s:%u", open, b->target, *open ? "]" : "", b->port);
	else
		snprintf(out, HOST_TEXT_MAX + 8, "%.250s", b->target);
}

static const char *action_of(const struct broker_event *b)
{
	const bool inbound = b->kind == BROKER_OPENED && strcmp(b->rule, "network.inbound") == 0;
	return !b->port ? "resolve" : inbound ? "accept" : kinds[b->kind].action;
}

/* counted: its numbers are known. */
static void record(struct egress *g, const struct broker_event *b, const char *target, bool counted)
{
	const bool over = b->kind == BROKER_CLOSED && counted, only = g->running && !g->running->egress_next && !b->again;
	const struct audit_field detail[] = {AUDIT_TEXT("protocol", b->protocol),
	                                     AUDIT_TEXT("address", b->address),
	                                     AUDIT_TEXT("reason", b->reason),
	                                     over ? AUDIT_INT("sent", b->sent) : AUDIT_NULL("sent"),
	                                     over ? AUDIT_INT("received", b->received) : AUDIT_NULL("received"),
	                                     over ? AUDIT_REAL("duration_ms", (double)b->duration_us / 1000) : AUDIT_NULL("duration_ms"),
	                                     b->id ? AUDIT_INT("connection", b->id) : AUDIT_NULL("connection"),
	                                     b->again ? AUDIT_INT("again", b->again) : AUDIT_NULL("again"),
	                                     AUDIT_END};
	const struct audit_event event = {.level = kinds[b->kind].level,
	                                  .category = AUDIT_NETWORK,
	                                  .action = action_of(b),
	                                  .allowed = kinds[b->kind].allowed,
	                                  .sandbox = cordon_sandbox_id(g->sandbox),
	                                  .exec = only ? g->running->result.id : NULL, /* of several, nobody knows whose it is */
	                                  .target = target,
	                                  .rule = b->rule,
	                                  .detail = detail};
	struct audit *log = events_log(g->sandbox->ctx, &g->sandbox->policy, NULL);
	if (log && audit_add(log, &event, NULL) == 0 && audit_write(log, NULL) == 0)
		return;
	g->unrecorded = true; /* nothing goes out that is on no record */
	end_broker(g);
}

static void refuse(struct egress *g, const struct broker_event *b, const char *target)
{
	char hint[HOST_TEXT_MAX + 32];
	if (b->rule && strcmp(b->rule, "network.outbound") == 0)
		snprintf(hint, sizeof(hint), "--allow-host %s", target);
	else
		snprintf(hint, sizeof(hint), "%.200s", b->reason ? b->reason : "the policy refuses it");
	const struct cordon_denial d = {.category = "network",
	                                .target = target,
	                                .rule = b->rule,
	                                .errno_name = b->port ? "ECONNREFUSED" : "EAI_NONAME",
	                                .hint = hint};
	for (struct cordon_exec *e = g->running; e; e = e->egress_next) {
		if (denials_add(&e->egress_denials, &d, NULL) < 0)
			g->unrecorded = true;
		if (e->wake >= 0)
			eventfd_write(e->wake, 1); /* its owner's thread tells it */
	}
}

static void take_event(struct egress *g, const struct wire_msg *msg)
{
	struct broker_event b;
	char target[HOST_TEXT_MAX + 8];
	if (msg->type != WIRE_BROKER || broker_message_kind(msg->body, msg->len) != BROKER_EVENT ||
	    broker_event_decode(msg->body, msg->len, &b, NULL) < 0) {
		end_broker(g); /* it is not itself any more */
		return;
	}
	target_of(&b, target);
	record(g, &b, target, true);
	if (opened_follow(&g->opened, &b) < 0)
		g->unrecorded = true;
	if (b.kind == BROKER_DENIED && b.again == 0)
		refuse(g, &b, target);
}

/* By the lock: a broker has ended, and what it did not tell will not be told any more. */
static void record_lost(struct egress *g)
{
	struct broker_event b;
	char target[HOST_TEXT_MAX + 8];
	while (opened_take(&g->opened, &b)) {
		b.reason = "the broker died";
		target_of(&b, target);
		record(g, &b, target, false);
	}
}

/* By the lock: what it has said so far, but not without end. False: it has said its last word. */
static bool drain(struct egress *g)
{
	struct pollfd p = {.fd = g->broker.sock, .events = POLLIN};
	for (int i = 0; i < DRAINED_AT_ONCE && g->broker.sock >= 0 && poll(&p, 1, 0) > 0; i++) {
		_cleanup_msg_ struct wire_msg msg = {0};
		if (wire_recv(g->broker.sock, &msg, NULL) <= 0)
			return false;
		take_event(g, &msg);
	}
	return g->broker.sock >= 0;
}

/* ---- its lives ------------------------------------------------------------------------------------------------------------------ */

/* The broker's program is being loaded while the sandbox is made. NULL: there will be no sandbox. */
static const struct airlock *wait_joined(struct egress *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->joined && !g->ending)
		pthread_cond_wait(&g->changed, &g->lock);
	const bool joined = g->joined;
	pthread_mutex_unlock(&g->lock);
	return joined ? &g->sandbox->state.airlock : NULL;
}

/* All brokers of a sandbox have the one that its first one made: it is inside. */
static int learn_authority(struct egress *g, const struct broker_process *b, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct broker_authority a;
	if (broker_receive_authority(b, &msg, &a, err) < 0)
		return -1;
	pthread_mutex_lock(&g->lock);
	if (!g->certificate) {
		g->key = strdup(a.key);
		g->certificate = strdup(a.certificate);
	}
	const bool known = g->certificate && g->key;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	return known ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

/* The airlock's, and what leads into the sandbox: the door is another one for each broker. */
static int send_sockets(struct egress *g, const struct broker_process *b, const struct airlock *a, struct cordon_error *err)
{
	struct airlock_socket all[BROKER_SOCKETS_MAX];
	size_t n = a->count;
	_cleanup_fd_ int door = -1;
	memcpy(all, a->sockets, n * sizeof(all[0]));
	if (g->published.count) {
		if ((!g->announced && publish_announce(g->sandbox, &g->published, err) < 0) || publish_door(g->sandbox, &all[n], err) < 0)
			return -1;
		g->announced = true;
		door = all[n++].fd;
		memcpy(all + n, g->published.sockets, g->published.count * sizeof(all[0]));
		n += g->published.count;
	}
	return broker_send_sockets(b, all, n, err);
}

static int tell(struct egress *g, const struct broker_process *b, struct cordon_error *err)
{
	const struct cordon_policy *policy = &g->sandbox->policy;
	const struct broker_authority known = {g->certificate, g->key}; /* set by this thread alone, once */
	if (broker_send_config(b, policy, &known, err) < 0)
		return -1;
	if (policy->secrets.count && (learn_authority(g, b, err) < 0 || broker_send_secrets(b, g->sandbox->ctx->home, policy, err) < 0))
		return -1;
	const struct airlock *a = wait_joined(g);
	return !a || send_sockets(g, b, a, err) < 0 ? -1 : broker_wait_ready(b, err);
}

/* A broker that is up. */
static int begin_life(struct egress *g, struct broker_process *b, struct cordon_error *err)
{
	if (broker_start(b, err) < 0)
		return -1;
	if (tell(g, b, err) == 0)
		return 0;
	broker_kill(b);
	return -1;
}

/* Until it says nothing more. Then it has no reason to live, whatever it thinks. */
static void live_life(struct egress *g)
{
	struct pollfd p = {.fd = g->broker.sock, .events = POLLIN};
	siginfo_t info;
	for (bool more = true; more;) {
		poll(&p, 1, -1);
		pthread_mutex_lock(&g->lock);
		more = drain(g);
		if (!more && !g->ending)
			end_broker(g);
		pthread_mutex_unlock(&g->lock);
	}
	while (waitid(P_PID, (id_t)g->broker.pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
}

static void note(struct egress *g, enum audit_level level, const char *action)
{
	const struct audit_event event = {
		.level = level, .category = AUDIT_SYSTEM, .action = action, .sandbox = cordon_sandbox_id(g->sandbox)};
	struct audit *log = events_log(g->sandbox->ctx, &g->sandbox->policy, NULL);
	if (!log || audit_add(log, &event, NULL) < 0 || audit_write(log, NULL) < 0)
		g->unrecorded = true;
}

/* By the lock. */
static void set_state(struct egress *g, int state)
{
	g->state = state;
	pthread_cond_broadcast(&g->changed);
}

/* By the lock, which is released meanwhile: one life, from its beginning to its end. -1: it did not begin. */
static int one_life(struct egress *g)
{
	struct cordon_error why = {0};
	struct broker_process b = {.sock = -1};
	broker_resolv_changed(&g->resolv); /* it will read that, or what comes after it */
	pthread_mutex_unlock(&g->lock);
	const int r = begin_life(g, &b, &why);
	pthread_mutex_lock(&g->lock);
	if (r < 0) {
		g->why = why;
		return -1;
	}
	g->broker = b;
	g->was_up = true;
	if (g->ending)
		shutdown(b.sock, SHUT_WR);
	set_state(g, UP);
	pthread_mutex_unlock(&g->lock);
	live_life(g);
	pthread_mutex_lock(&g->lock);
	broker_kill(&g->broker);
	record_lost(g);
	return 0;
}

/* By the lock: one life after the other. Returns when there is to be no other, and says why. */
static void live(struct egress *g)
{
	uint64_t first = exec_clock_us();
	for (int lives = 1; !g->ending; lives++) {
		if (exec_clock_us() - first > LIVES_US) {
			first = exec_clock_us();
			lives = 1;
		}
		if (one_life(g) < 0 || g->ending)
			return;
		if (g->unrecorded) {
			err_set(&g->why, CORDON_ERR_SYSTEM, "the network is cut off: the audit cannot be written");
			return;
		}
		note(g, AUDIT_ERROR, "broker-died");
		if (lives == LIVES) {
			err_set(&g->why, CORDON_ERR_SYSTEM, "the broker died %d times within a minute", LIVES);
			err_hint(&g->why, "cordon audit --category system tells when; a sandbox that is stopped gets another one");
			return;
		}
	}
}

static void *run(void *arg)
{
	struct egress *g = arg;
	pthread_mutex_lock(&g->lock);
	live(g);
	if (!g->ending && g->was_up) {
		note(g, AUDIT_CRITICAL, "broker-given-up");
		airlock_close(&g->sandbox->state.airlock); /* nothing leads out any more */
		publish_close(&g->published);              /* nor in */
	}
	set_state(g, OVER);
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* ---- for the rest of the library ------------------------------------------------------------------------------------------------ */

static struct egress *new_egress(struct cordon_sandbox *s)
{
	struct egress *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->sandbox = s;
	g->broker.sock = -1;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	return g;
}

static void release(struct egress *g)
{
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g->resolv);
	free(g->certificate);
	if (g->key)
		explicit_bzero(g->key, strlen(g->key));
	free(g->key);
	free(g);
}

/* The same for everybody, whoever asks first. */
static struct egress *one_egress(struct cordon_sandbox *s)
{
	struct egress *g = atomic_load(&s->egress);
	if (g)
		return g;
	struct egress *fresh = new_egress(s);
	if (!fresh || atomic_compare_exchange_strong(&s->egress, &g, fresh))
		return fresh;
	release(fresh);
	return g;
}

/* By the lock. */
static int start_thread(struct egress *g, struct cordon_error *err)
{
	sigset_t all, before;
	g->ending = g->joined = g->was_up = g->unrecorded = false;
	g->announced = false;
	g->why = (struct cordon_error){0};
	if (publish_open(&g->published, &g->sandbox->policy, err) < 0)
		return -1;
	sigfillset(&all); /* signals are the caller's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&g->thread, NULL, run, g);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (errno) {
		err_sys(err, "cannot start the broker's thread");
		publish_close(&g->published);
		return -1;
	}
	g->threaded = true;
	g->state = STARTING;
	return 0;
}

/* Its lock is held afterwards. NULL: it could not be started. */
static struct egress *begin(struct cordon_sandbox *s, struct cordon_error *err)
{
	struct egress *g = one_egress(s);
	if (!g) {
		err_sys(err, "cannot start the broker");
		return NULL;
	}
	pthread_mutex_lock(&g->lock);
	while (g->joining)
		pthread_cond_wait(&g->changed, &g->lock);
	if (g->threaded || start_thread(g, err) == 0)
		return g;
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

void egress_prepare(struct cordon_sandbox *s)
{
	struct egress *g = broker_needed(&s->policy) ? begin(s, NULL) : NULL;
	if (g)
		pthread_mutex_unlock(&g->lock);
}

int egress_authority(struct cordon_sandbox *s, const char **certificate, struct cordon_error *err)
{
	*certificate = NULL;
	if (!s->policy.secrets.count)
		return 0;
	struct egress *g = begin(s, err);
	if (!g)
		return -1;
	while (!g->certificate && g->state == STARTING)
		pthread_cond_wait(&g->changed, &g->lock);
	*certificate = g->certificate;
	if (!g->certificate && err)
		*err = g->why;
	pthread_mutex_unlock(&g->lock);
	return *certificate ? 0 : -1;
}

int egress_enter(struct cordon_exec *e, struct cordon_error *err)
{
	struct cordon_sandbox *s = e->sandbox;
	if (!broker_needed(&s->policy))
		return 0;
	struct egress *g = sandbox_ready(s, err) < 0 ? NULL : begin(s, err);
	if (!g)
		return -1;
	g->joined = true;
	pthread_cond_broadcast(&g->changed);
	while (g->state == STARTING)
		pthread_cond_wait(&g->changed, &g->lock);
	int r = 0;
	if (g->state == UP && !g->ending) {
		/* what others were refused a moment ago, this one is to be told of, too */
		if (!broker_send_fresh(&g->broker, broker_resolv_changed(&g->resolv) ? g->resolv : NULL))
			end_broker(g);
		e->egress_next = g->running;
		g->running = e;
		e->egress_entered = true;
	} else if (g->why.code != CORDON_OK) {
		r = -1;
		if (err)
			*err = g->why;
	} else {
		r = err_set(err, CORDON_ERR_SYSTEM, "the sandbox has ended");
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

/* By the lock, or when nobody else knows it any more. */
static void hand_over(struct cordon_exec *e)
{
	for (size_t i = 0; i < e->egress_denials.count; i++)
		if (denials_add(&e->denials, &e->egress_denials.items[i], NULL) < 0)
			e->unrecorded = true;
	denials_free(&e->egress_denials);
}

void egress_collect(struct cordon_exec *e)
{
	struct egress *g = atomic_load(&e->sandbox->egress);
	eventfd_t many;
	if (!e->egress_entered || eventfd_read(e->wake, &many) < 0)
		return;
	pthread_mutex_lock(&g->lock);
	hand_over(e);
	pthread_mutex_unlock(&g->lock);
}

void egress_leave(struct cordon_exec *e)
{
	struct egress *g = atomic_load(&e->sandbox->egress);
	if (!e->egress_entered)
		return;
	e->egress_entered = false;
	pthread_mutex_lock(&g->lock);
	drain(g);
	for (struct cordon_exec **p = &g->running; *p; p = &(*p)->egress_next) {
		if (*p == e) {
			*p = e->egress_next;
			break;
		}
	}
	e->unrecorded = e->unrecorded || g->unrecorded;
	pthread_mutex_unlock(&g->lock);
	hand_over(e);
}

bool egress_published(struct cordon_sandbox *s, size_t i, struct egress_port *out)
{
	struct egress *g = atomic_load(&s->egress);
	if (!g || i >= s->policy.network.inbound.count)
		return false;
	const struct policy_inbound *rule = maplist_item(&s->policy.network.inbound, &map_inbound, i);
	pthread_mutex_lock(&g->lock);
	*out = (struct egress_port){rule->port.items[0], g->published.host_ports[i]};
	const bool open = g->published.count > 0;
	pthread_mutex_unlock(&g->lock);
	return open;
}

/* By the lock. */
static void say_farewell(struct egress *g)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FAREWELL_MS / 1000;
	g->ending = true;
	pthread_cond_broadcast(&g->changed);
	if (g->broker.sock >= 0)
		shutdown(g->broker.sock, SHUT_WR); /* it says what there is to say, and ends */
	while (g->state != OVER && pthread_cond_timedwait(&g->changed, &g->lock, &until) == 0)
		;
	if (g->state != OVER)
		end_broker(g);
}

void egress_end(struct cordon_sandbox *s)
{
	struct egress *g = atomic_load(&s->egress);
	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	while (g->joining)
		pthread_cond_wait(&g->changed, &g->lock);
	if (g->threaded) {
		g->joining = true;
		say_farewell(g);
		pthread_mutex_unlock(&g->lock);
		pthread_join(g->thread, NULL);
		pthread_mutex_lock(&g->lock);
		g->threaded = g->joining = false;
		publish_close(&g->published);
		pthread_cond_broadcast(&g->changed);
	}
	pthread_mutex_unlock(&g->lock);
}

void egress_free(struct cordon_sandbox *s)
{
	egress_end(s);
	struct egress *g = atomic_exchange(&s->egress, NULL);
	if (g)
		release(g);
}
