/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask for, one function per verb. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "keeper/keeper.h"
#include "lib/publish.h"

/* Lists of strings that are made here and sent. */
static int add(struct strlist *l, const char *text, struct cordon_error *err)
{
	return strlist_add(l, text ? text : "", err);
}

static int add_number(struct strlist *l, int64_t n, struct cordon_error *err)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRId64, n);
	return strlist_add(l, text, err);
}

static void answer(struct conn *c, int failed, struct strlist *items, const struct cordon_error *err)
{
	const struct string_list list = {(const char **)(void *)items->items, (uint32_t)items->count};
	if (failed)
		conn_error(c, err);
	else
		conn_ok(c, 0, &list);
	strlist_free(items);
}

static void serve_state(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	struct strlist items = {0};
	struct cordon_error err = {0};
	(void)r;
	int failed = add(&items, k->sandbox->frozen ? "paused" : "live", &err) < 0 || add_number(&items, getpid(), &err) < 0 ||
	             publish_list(k->sandbox, &items, &err) < 0;
	answer(c, failed, &items, &err);
}

static void serve_ps(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	static const char *const states[] = {[JOB_QUEUED] = "queued", [JOB_RUNNING] = "running", [JOB_OVER] = "over"};
	struct strlist items = {0};
	struct cordon_error err = {0};
	int failed = 0;
	(void)r;
	for (const struct job *j = k->jobs; j && !failed; j = j->next) {
		if (j->gone)
			continue;
		failed = add(&items, j->id, &err) < 0 || add(&items, j->name, &err) < 0 || add(&items, j->command, &err) < 0 ||
		         add_number(&items, j->started_ms, &err) < 0 || add(&items, states[j->state], &err) < 0 ||
		         add_number(&items, j->exit_code, &err) < 0;
	}
	answer(c, failed, &items, &err);
}

static void serve_kill(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	struct strlist items = {0};
	struct cordon_error err = {0};
	struct job *j = job_find(k, r->name, false, &err);
	/* a frozen process would hear of it when it is thawed only, and whoever asked could not tell */
	if (j && k->sandbox->frozen) {
		err_set(&err, CORDON_ERR_BUSY, "sandbox %s is paused", k->id);
		err_hint(&err, "cordon resume %s", k->id);
		j = NULL;
	}
	answer(c, !j || cordon_exec_signal(j->exec, (int)r->signo, &err) < 0 || add(&items, j->id, &err) < 0, &items, &err);
}

static void serve_wait(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	struct cordon_error err = {0};
	const struct job *j = job_find(k, r->name, true, &err);
	if (!j) {
		conn_error(c, &err);
	} else if (j->state == JOB_OVER) {
		const char *id = j->id;
		conn_ok(c, (uint32_t)j->exit_code, &(struct string_list){&id, 1});
	} else {
		snprintf(c->awaits, sizeof(c->awaits), "%s", j->id);
	}
}

static void serve_freeze(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	struct cordon_error err = {0};
	if (cordon_sandbox_freeze(k->sandbox, r->verb == KEEPER_PAUSE, &err) < 0) {
		conn_error(c, &err);
		return;
	}
	conn_ok(c, 0, NULL);
	job_run_next(k);
}

static void serve_stop(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	(void)r;
	c->stops = true;
	keeper_end(k);
}

/* ---- for the exec of this client --------------------------------------------------------------------------------------------- */

static void serve_input(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	(void)k;
	if (r->verb == KEEPER_INPUT)
		job_input(c->job, r->data, r->len);
	else
		job_end_input(c->job);
}

static void serve_resize(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	(void)k;
	if (c->job->exec)
		cordon_exec_resize(c->job->exec, (unsigned short)r->rows, (unsigned short)r->cols);
}

static void serve_cancel(struct keeper *k, struct conn *c, const struct keeper_request *r)
{
	(void)r;
	job_abandon(k, c->job);
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

static const struct {
	void (*serve)(struct keeper *k, struct conn *c, const struct keeper_request *r); /* NULL: a job */
	bool later;                                                                      /* belongs to a request that was made before */
	bool always;                                                                     /* also while the keeper is ending */
} verbs[KEEPER_VERB_COUNT] = {
	[KEEPER_EXEC] = {NULL, false, false},           [KEEPER_OP] = {NULL, false, false},
	[KEEPER_STATE] = {serve_state, false, true},    [KEEPER_PS] = {serve_ps, false, true},
	[KEEPER_KILL] = {serve_kill, false, true},      [KEEPER_WAIT] = {serve_wait, false, true},
	[KEEPER_PAUSE] = {serve_freeze, false, false},  [KEEPER_RESUME] = {serve_freeze, false, false},
	[KEEPER_STOP] = {serve_stop, false, true},      [KEEPER_INPUT] = {serve_input, true, true},
	[KEEPER_INPUT_END] = {serve_input, true, true}, [KEEPER_RESIZE] = {serve_resize, true, true},
	[KEEPER_CANCEL] = {serve_cancel, true, true},
};

void serve(struct keeper *k, struct conn *c, struct wire_msg *msg)
{
	struct keeper_request r;
	struct cordon_error err = {0};
	if (request_decode(msg->body, msg->len, &r, &err) < 0) {
		if (c->asked)
			c->dead = true;
		else
			conn_error(c, &err);
		return;
	}
	if (verbs[r.verb].later != c->asked) {
		c->dead = true;
	} else if (verbs[r.verb].later) {
		if (c->job)
			verbs[r.verb].serve(k, c, &r);
	} else if (k->stage != STAGE_LIVE && !verbs[r.verb].always) {
		keeper_try_again(k, &err);
		conn_error(c, &err);
	} else {
		c->asked = true;
		if (!verbs[r.verb].serve) {
			job_add(k, c, msg, &r);
			return;
		}
		verbs[r.verb].serve(k, c, &r);
	}
	request_free(&r);
}
