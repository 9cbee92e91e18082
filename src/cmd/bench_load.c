/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rate and burst: many at once. A candidate that is a program is started from one thread, which waits for whichever ends first; sandboxes of the library are
 * made by as many threads as there are requests at a time.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

#define BURST 100
#define BURST_PARKED 64 /* what a pool holds at most, unless it is told otherwise */
#define BURST_FEW 16
#define RATE_PARKED 32
#define RATE_MOST 3000 /* sandboxes in one trial */

static const char *const payload[] = {BENCH_PROGRAM, NULL};

/* How long a trial of `rate` lasts, and how many trials there are. */
static double window_ms(const struct bench *b)
{
	return (double)MIN(MAX(b->o.runs * 10, (size_t)100), (size_t)2000);
}

static size_t trials(const struct bench *b)
{
	return MIN(MAX(b->o.runs / 40, (size_t)1), (size_t)5);
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------- */

struct running {
	pid_t pid;
	int errors;
	double begin;
};

static int start_one(struct bench *b, struct bench_row *r, struct running *p, struct pollfd *fd, struct cordon_error *err)
{
	p->begin = bench_now_ms();
	p->pid = bench_spawn(b, &r->command, -1, -1, err);
	if (p->pid < 0)
		return -1;
	*fd = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, p->pid, 0), .events = POLLIN};
	return fd->fd < 0 ? err_sys(err, "pidfd_open") : 0;
}

/* Waits for the next to end: its place, or -1. */
static int end_one(struct running *p, struct pollfd *fds, size_t count, struct cordon_error *ended, struct cordon_error *err)
{
	while (poll(fds, count, -1) < 0)
		if (errno != EINTR)
			return err_sys(err, "poll");
	for (size_t i = 0; i < count; i++) {
		if (!fds[i].revents)
			continue;
		*ended = (struct cordon_error){0};
		bench_spawn_wait(p[i].pid, -1, ended);
		close(fds[i].fd);
		fds[i].fd = -1; /* poll() passes over it */
		fds[i].revents = 0;
		return (int)i;
	}
	return err_set(err, CORDON_ERR_SYSTEM, "poll answered without a reason");
}

static int program_burst(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	struct running p[BURST];
	struct pollfd fds[BURST];
	struct cordon_error ended;
	size_t started = 0, values = 0;

	while (started < BURST && start_one(b, r, &p[started], &fds[started], err) == 0)
		started++;
	for (size_t i = 0; i < started; i++) {
		int at = end_one(p, fds, started, &ended, err);

		if (at < 0)
			return -1;
		double ms = bench_now_ms() - p[at].begin;
		if (ended.code != CORDON_OK)
			bench_row_failed(r, &ended);
		else if (values++ == 0)
			*value = ms; /* the caller keeps it */
		else
			bench_row_value(r, ms);
	}
	if (started < BURST)
		return -1;
	return values ? 0 : err_set(err, CORDON_ERR_SYSTEM, "all failed: %.200s", ended.message);
}

static int program_rate(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	enum { SIDE_BY_SIDE = 64 };
	struct running p[SIDE_BY_SIDE];
	struct pollfd fds[SIDE_BY_SIDE];
	size_t width = MIN((size_t)b->cpus * 2, (size_t)SIDE_BY_SIDE), done = 0, going = 0;
	double begin = bench_now_ms();
	struct cordon_error ended;

	for (; going < width; going++)
		if (start_one(b, r, &p[going], &fds[going], err) < 0)
			break;
	for (size_t left = going; left > 0;) {
		int at = end_one(p, fds, going, &ended, err);

		if (at < 0)
			return -1;
		if (ended.code == CORDON_OK)
			done++;
		else
			bench_row_failed(r, &ended);
		bool on = bench_now_ms() - begin < window_ms(b) && done < RATE_MOST && !bench_interrupted();
		if (!on || start_one(b, r, &p[at], &fds[at], err) < 0)
			left--;
	}
	*value = (double)done * 1e3 / (bench_now_ms() - begin);
	return done ? 0 : err_set(err, CORDON_ERR_SYSTEM, "none succeeded: %.200s", ended.message);
}

/* ---- the library ---------------------------------------------------------------------------------------------------------------- */

struct crowd {
	struct bench_library library;
	pthread_barrier_t gate; /* burst: all begin at once */
	pthread_mutex_t lock;
	struct bench_row *row;
	double until;
	size_t most, done; /* rate */
	bool burst;
};

static void *burst_member(void *arg)
{
	struct crowd *c = arg;
	struct cordon_error err = {0};
	double answered, gone;

	pthread_barrier_wait(&c->gate);
	double begin = bench_now_ms();
	int r = bench_library_run(&c->library, &bench_exec_true, &answered, &gone, &err);
	pthread_mutex_lock(&c->lock);
	if (r == 0)
		bench_row_value(c->row, answered - begin);
	else
		bench_row_failed(c->row, &err);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void *rate_member(void *arg)
{
	struct crowd *c = arg;
	double answered, gone;

	for (bool on = true; on;) {
		struct cordon_error err = {0};
		int r = bench_library_run(&c->library, &bench_exec_true, &answered, &gone, &err);

		pthread_mutex_lock(&c->lock);
		if (r == 0)
			c->done++;
		else
			bench_row_failed(c->row, &err);
		on = r == 0 && c->done < c->most && bench_now_ms() < c->until && !bench_interrupted();
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

/* Runs that many threads to their end; what could not be started is an error. */
static int let_loose(struct crowd *c, void *(*member)(void *), size_t count, struct cordon_error *err)
{
	_cleanup_free_ pthread_t *threads = calloc(count, sizeof(*threads));
	size_t started = 0;
	int r = threads ? 0 : ENOMEM;

	for (; !r && started < count; started++)
		if ((r = pthread_create(&threads[started], NULL, member, c)))
			break;
	if (r && c->burst) /* those that are there wait for the others */
		for (size_t i = started; i < count; i++)
			pthread_barrier_wait(&c->gate);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	errno = r;
	return r ? err_sys(err, "cannot start a thread") : 0;
}

static int library_burst(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	struct crowd c = {.row = r, .burst = true, .lock = PTHREAD_MUTEX_INITIALIZER};

	(void)b;
	if (bench_library_open(&c.library, r->context ? BURST_FEW : BURST_PARKED, NULL, NULL, err) < 0)
		return -1;
	pthread_barrier_init(&c.gate, NULL, BURST);
	size_t before = r->count;
	int done = let_loose(&c, burst_member, BURST, err);
	pthread_barrier_destroy(&c.gate);
	bench_library_close(&c.library);
	if (done == 0 && r->count > before)
		*value = r->values[--r->count]; /* the caller adds it again */
	else if (done == 0)
		done = err_set(err, CORDON_ERR_SYSTEM, "all failed: %.200s", r->error.message);
	return done;
}

/* Until the last of them is gone, too: who leaves work behind has not sustained anything. */
static int library_rate(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	struct crowd c = {.row = r, .most = RATE_MOST, .lock = PTHREAD_MUTEX_INITIALIZER};

	if (bench_library_open(&c.library, RATE_PARKED, NULL, NULL, err) < 0)
		return -1;
	double begin = bench_now_ms();
	c.until = begin + window_ms(b);
	int done = let_loose(&c, rate_member, (size_t)b->cpus * 2, err);
	bench_library_close(&c.library);
	*value = (double)c.done * 1e3 / (bench_now_ms() - begin);
	return done == 0 && !c.done ? err_set(err, CORDON_ERR_SYSTEM, "none succeeded: %.200s", r->error.message) : done;
}

/* ---- the measurements ----------------------------------------------------------------------------------------------------------- */

/* few: what a second row is, with fewer sandboxes in its pool; NULL: there is none. */
static int crowds(struct bench *b, struct bench_section *s, const char *few,
                  int (*library)(struct bench *, struct bench_row *, double *, struct cordon_error *),
                  int (*program)(struct bench *, struct bench_row *, double *, struct cordon_error *))
{
	struct bench_row *r = bench_wanted(b, "cordon", false) ? bench_row_add(s, "cordon", "libcordon, with a pool") : NULL;

	if (r)
		r->once = library;
	r = few && bench_wanted(b, "cordon-few", false) ? bench_row_add(s, "cordon-few", few) : NULL;
	if (r) {
		r->once = library;
		r->context = r; /* not NULL */
	}
	size_t first = s->count;
	bench_add_candidates(b, s, payload, BENCH_NO_CORDON);
	for (size_t i = first; i < s->count; i++)
		s->rows[i].once = program;
	bench_rounds(b, s, trials(b));
	return 0;
}

int bench_rate(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	(void)err;
	snprintf(s->note, sizeof(s->note), "Trials of %.1f s, or %d sandboxes, with %ld at a time, each until everything was gone.",
	         window_ms(b) / 1e3, RATE_MOST, b->cpus * 2);
	return crowds(b, s, NULL, library_rate, program_rate);
}

int bench_burst(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	(void)err;
	snprintf(
		s->note, sizeof(s->note),
		"%d requests at the same moment, with %d sandboxes parked (a pool's default limit), or %d; the figures are those of single requests.",
		BURST, BURST_PARKED, BURST_FEW);
	return crowds(b, s, "the same with 16 parked", library_burst, program_burst);
}
