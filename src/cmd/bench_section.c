/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of figures. Candidates alternate: each round runs each of them once, in another order, so that a change of the machine's load or clock, and what a run
 * leaves for the kernel to tidy up, hits them all alike. What is compared are medians of one such section, never those of two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/bench.h"

double bench_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct bench_row *bench_row_add(struct bench_section *s, const char *name, const char *how)
{
	if (s->count == BENCH_ROWS_MAX)
		return NULL;
	struct bench_row *r = &s->rows[s->count++];
	*r = (struct bench_row){.how = how, .command.mount_ns = -1};
	snprintf(r->name, sizeof(r->name), "%s", name);
	return r;
}

void bench_row_value(struct bench_row *r, double value)
{
	if (r->count == r->room) {
		size_t room = r->room ? 2 * r->room : 256;
		double *values = realloc(r->values, room * sizeof(*values));

		if (!values) {
			r->failures++;
			err_set(&r->error, CORDON_ERR_SYSTEM, "out of memory");
			return;
		}
		r->values = values;
		r->room = room;
	}
	r->values[r->count++] = value;
}

void bench_row_failed(struct bench_row *r, const struct cordon_error *err)
{
	r->failures++;
	r->error = *err;
}

const struct bench_row *bench_row_find(const struct bench_section *s, const char *name)
{
	for (size_t i = 0; s && i < s->count; i++)
		if (strcmp(s->rows[i].name, name) == 0)
			return &s->rows[i];
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct bench_figures bench_figures(const struct bench_row *r)
{
	if (!r || r->count == 0)
		return (struct bench_figures){0};
	size_t n = r->count, half = n / 2;
	double *v = r->values;
	qsort(v, n, sizeof(*v), by_size);
	return (struct bench_figures){
		.p50 = n % 2 ? v[half] : (v[half - 1] + v[half]) / 2,
		.p10 = v[(n - 1) / 10],
		.p90 = v[((n - 1) * 9 + 9) / 10],
		.p99 = v[(n * 99 + 99) / 100 - 1],
		.min = v[0],
		.max = v[n - 1],
	};
}

/* ---- rounds ------------------------------------------------------------------------------------------------------------------- */

void bench_progress(const char *what, size_t done, size_t of)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (!what)
		fputs("\r\033[K", stderr);
	else if (of)
		fprintf(stderr, "\r\033[K%s: %zu of %zu", what, done, of);
	else
		fprintf(stderr, "\r\033[K%s", what);
}

/* Fisher and Yates: nobody always runs in the wake of the same other. */
static void shuffle(size_t *order, size_t count, unsigned *seed)
{
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count; i > 1; i--) {
		size_t k = (size_t)rand_r(seed) % i, swapped = order[i - 1];

		order[i - 1] = order[k];
		order[k] = swapped;
	}
}

/* A slow peer need not be measured as often as the others. */
#define PEER_MS 15000.0
#define PEER_VALUES 20

static bool enough(const struct bench_row *r)
{
	return r->spent > PEER_MS && r->count >= PEER_VALUES && strncmp(r->name, "cordon", 6) != 0 && strcmp(r->name, "bare") != 0;
}

static void measure(struct bench *b, struct bench_row *r)
{
	struct cordon_error err = {0};
	double value, begin = bench_now_ms();

	if (!r->once || (r->error.code != CORDON_OK && !r->failures) || enough(r)) /* what did not work when it was tried is not measured */
		return;
	int done = r->once(b, r, &value, &err);
	r->spent += bench_now_ms() - begin;
	if (done == 0)
		bench_row_value(r, value);
	else if (!bench_interrupted())
		bench_row_failed(r, &err);
}

void bench_rounds(struct bench *b, struct bench_section *s, size_t rounds)
{
	size_t order[BENCH_ROWS_MAX], step = MAX(rounds / 50, (size_t)1);
	unsigned seed = 1; /* the same order in each session */

	for (size_t i = 0; i < rounds && !bench_interrupted(); i++) {
		if (i % step == 0)
			bench_progress(s->measure->name, i, rounds);
		shuffle(order, s->count, &seed);
		for (size_t k = 0; k < s->count && !bench_interrupted(); k++)
			measure(b, &s->rows[order[k]]);
	}
	bench_progress(NULL, 0, 0);
}
