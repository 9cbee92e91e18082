/* SPDX-License-Identifier: Apache-2.0 */
/* cold, warm, static, second, python: how long one command takes, in a sandbox that is made for it, was parked for it, or has been used before. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

#define PARKED 8

static const char *const payload_true[] = {BENCH_PROGRAM, NULL};

static const struct cordon_exec_options exec_noop = {.size = sizeof(struct cordon_exec_options),
                                                     .argv = (const char *const[]){BENCH_TOOLS "/noop", NULL}};
static const struct cordon_exec_options exec_python = {
	.size = sizeof(struct cordon_exec_options), .language = "python", .code = "pass", .code_len = 4};

int bench_cold(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	bench_add_candidates(b, s, payload_true, 0);
	bench_rounds(b, s, b->o.runs);
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->rows[i].name, "cordon") == 0 && s->rows[i].error.code != CORDON_OK) {
			*err = s->rows[i].error;
			return -1;
		}
	return 0;
}

/* ---- through the library -------------------------------------------------------------------------------------------------------- */

/* What a row's run needs. */
struct library_row {
	struct bench_library *library;
	const struct cordon_exec_options *exec;
	struct bench_row *removed;      /* gets the time with the removal; NULL: nobody does */
	struct cordon_sandbox *sandbox; /* has been used before; NULL: one for each run */
};

static int library_once(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	struct library_row *l = r->context;
	double begin, answered, gone;

	(void)b;
	if (bench_library_refill(l->library, err) < 0)
		return -1;
	begin = bench_now_ms();
	if (l->sandbox) {
		int done = bench_library_exec(l->sandbox, l->exec, err);

		*value = bench_now_ms() - begin;
		return done;
	}
	if (bench_library_run(l->library, l->exec, &answered, &gone, err) < 0)
		return -1;
	*value = answered - begin;
	if (l->removed)
		bench_row_value(l->removed, gone - begin);
	return 0;
}

static struct bench_row *library_row(struct bench *b, struct bench_section *s, const char *name, const char *how,
                                     struct library_row *context)
{
	struct bench_row *r = bench_wanted(b, name, false) ? bench_row_add(s, name, how) : NULL;

	if (r) {
		r->once = library_once;
		r->context = context;
	}
	return r;
}

/* Twice, as the others are tried. */
static void warm_up(struct bench *b, struct bench_row *r)
{
	struct library_row *l = r ? r->context : NULL;
	struct cordon_error err = {0};
	double value;

	if (!l)
		return;
	struct bench_row *removed = l->removed;
	l->removed = NULL;
	for (int i = 0; i < 2 && r->error.code == CORDON_OK; i++)
		if (r->once(b, r, &value, &err) < 0)
			r->error = err;
	l->removed = removed;
}

/* bare, from a pool, and without one; then the peers. */
static int bench_started(struct bench *b, struct bench_section *s, const struct cordon_exec_options *exec, const char *const *bare,
                         const char *tools, bool peers, struct cordon_error *err)
{
	struct bench_library warm, made;
	struct library_row from_pool = {.library = &warm, .exec = exec}, fresh = {.library = &made, .exec = exec};

	if (bench_library_open(&warm, PARKED, exec->language, tools, err) < 0)
		return -1;
	if (bench_library_open(&made, 0, NULL, tools, err) < 0) {
		bench_library_close(&warm);
		return -1;
	}
	warm_up(b, library_row(b, s, "cordon", "libcordon, from the pool, until the result is there", &from_pool));
	from_pool.removed = library_row(b, s, "cordon-removed", "the same, until the sandbox was given back", &from_pool);
	if (from_pool.removed)
		from_pool.removed->once = NULL;
	warm_up(b, library_row(b, s, "cordon-made", "libcordon, a sandbox that is made when it is asked for", &fresh));
	bench_add_candidates(b, s, bare, BENCH_NO_CORDON | (peers ? 0 : BENCH_NO_PEERS));
	bench_rounds(b, s, b->o.runs);
	bench_library_close(&warm);
	bench_library_close(&made);
	return 0;
}

int bench_warm(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	return bench_started(b, s, &bench_exec_true, payload_true, NULL, false, err);
}

int bench_static(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	char noop[160];

	snprintf(noop, sizeof(noop), "%s/noop", b->tools);
	const char *const bare[] = {noop, NULL};
	return bench_started(b, s, &exec_noop, bare, b->tools, false, err);
}

int bench_python(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	static const char *const bare[] = {"/usr/bin/python3", "-c", "pass", NULL};

	if (access(bare[0], X_OK) < 0)
		return err_set(err, CORDON_ERR_NOT_FOUND, "%s is not installed", bare[0]);
	return bench_started(b, s, &exec_python, bare, NULL, true, err);
}

/* ---- the second command --------------------------------------------------------------------------------------------------------- */

static int second_sandboxes(struct bench_library *l, struct library_row *plain, struct library_row *stays, struct cordon_error *err)
{
	const struct cordon_create_options options = {.size = sizeof(options)};
	char id[21];

	if (cordon_sandbox_create(l->context, l->policy, &l->options, &plain->sandbox, err) < 0 || cordon_create(&options, id, err) < 0)
		return -1;
	return cordon_sandbox_open(l->context, id, &stays->sandbox, err);
}

int bench_second(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	struct bench_library l;
	struct library_row plain = {.library = &l, .exec = &bench_exec_true}, noop = {.library = &l, .exec = &exec_noop}, stays = plain;

	if (bench_library_open(&l, 0, NULL, b->tools, err) < 0)
		return -1;
	int r = second_sandboxes(&l, &plain, &stays, err);
	if (r == 0) {
		noop.sandbox = plain.sandbox;
		warm_up(b, library_row(b, s, "cordon", "libcordon: a command in a sandbox that has run others before", &plain));
		warm_up(b, library_row(b, s, "cordon-static", "the same with a static program that does nothing", &noop));
		warm_up(b,
		        library_row(b, s, "cordon-stays", "in a sandbox that stays on disk, where each command is a transaction", &stays));
		bench_add_candidates(b, s, payload_true, BENCH_NO_CORDON | BENCH_NO_PEERS);
		bench_add_held(b, s, payload_true);
		bench_rounds(b, s, b->o.runs);
		bench_end_held(b, s);
	}
	cordon_sandbox_destroy(plain.sandbox);
	cordon_sandbox_destroy(stays.sandbox);
	bench_library_close(&l);
	return r;
}
