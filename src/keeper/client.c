/* SPDX-License-Identifier: Apache-2.0 */
/* Short questions to a keeper: one request, one answer. */
#include "keeper/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/util.h"
#include "keeper/attach.h"
#include "keeper/link.h"

#define PATIENCE_MS 2000 /* `ls` does not wait for a keeper that is sealing a large layer */

const char *const box_state_names[] = {"stopped", "live", "paused"};

/* One answer, and what it points into. */
struct answer {
	struct wire_msg msg;
	struct keeper_reply reply;
};

static void answer_free(struct answer *a)
{
	reply_free(&a->reply);
	wire_msg_free(&a->msg);
}
#define _cleanup_answer_ __attribute__((cleanup(answer_free)))

/* 1: not the answer yet. */
static int meanwhile(const struct keeper_reply *r, const struct op_request *op, struct cordon_error *err)
{
	uint64_t done, total;
	if (r->event == KEEPER_QUEUED)
		return 1;
	if (r->event != KEEPER_PROGRESS || !op || !op->progress)
		return 0;
	if (progress_decode(r->data, r->len, &done, &total, err) < 0)
		return -1;
	op->progress(op->user, done, total);
	return 1;
}

/* op: whose progress is to be told; NULL: nobody's. */
static int exchange(int fd, const struct keeper_request *request, const struct op_request *op, struct answer *out, struct cordon_error *err)
{
	int more;
	if (link_send(fd, request, err) < 0)
		return -1;
	do {
		answer_free(out);
		if (link_receive(fd, &out->msg, &out->reply, err) < 0)
			return -1;
		more = meanwhile(&out->reply, op, err);
	} while (more > 0);
	if (more < 0)
		return -1;
	return out->reply.event == KEEPER_OK ? 0 : err_set(err, CORDON_ERR_SYSTEM, "unexpected answer from the sandbox's keeper");
}

/* Asks the keeper of a live sandbox. 1: answered, 0: it is not live, -1. */
static int ask_within(const char *home, const char *id, int patience_ms, const struct keeper_request *request, struct answer *out,
                      struct cordon_error *err)
{
	struct store s;
	_cleanup_turn_ struct turn t = {.dir = -1, .changes = -1};
	*out = (struct answer){0};
	if (store_open(&s, home, err) < 0)
		return -1;
	int r = turn_begin(&t, &s, id, err);
	t.patience_ms = patience_ms;
	_cleanup_fd_ int fd = r < 0 ? -1 : link_connect(&t, err);
	if (fd == LINK_NONE)
		r = 0;
	else
		r = fd < 0 || exchange(fd, request, NULL, out, err) < 0 ? -1 : 1;
	store_close(&s);
	return r;
}

static int ask(const char *home, const char *id, const struct keeper_request *request, struct answer *out, struct cordon_error *err)
{
	return ask_within(home, id, 0, request, out, err);
}

int keeper_state(const char *home, const char *id, enum box_state *out, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	struct cordon_error why = {0};
	int r = ask_within(home, id, PATIENCE_MS, &(struct keeper_request){.verb = KEEPER_STATE}, &a, &why);
	*out = BOX_STOPPED;
	if (r < 0 && why.sys_errno == EAGAIN) {
		*out = BOX_LIVE; /* too busy to answer */
		return 0;
	}
	if (r < 0 && why.sys_errno == ECONNRESET)
		return 0; /* it ended while we asked */
	if (r < 0 && err)
		*err = why;
	if (r > 0 && a.reply.items.count > 0)
		*out = strcmp(a.reply.items.items[0], "paused") == 0 ? BOX_PAUSED : BOX_LIVE;
	return r < 0 ? -1 : 0;
}

int keeper_published(const char *home, const char *id, struct strlist *out, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	const int r = ask_within(home, id, PATIENCE_MS, &(struct keeper_request){.verb = KEEPER_STATE}, &a, NULL);
	for (size_t i = KEEPER_STATE_FIELDS; r > 0 && i < a.reply.items.count; i++)
		if (strlist_add(out, a.reply.items.items[i], err) < 0)
			return -1;
	return 0;
}

static int not_live(const char *id, struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_INPUT, "sandbox %s is stopped: nothing runs in it", id);
}

int keeper_stop(const char *home, const char *id, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	struct cordon_error why = {0};
	int r = ask(home, id, &(struct keeper_request){.verb = KEEPER_STOP}, &a, &why);
	if (r >= 0 || why.sys_errno == ECONNRESET) /* gone is as good as stopped */
		return 0;
	if (err)
		*err = why;
	return -1;
}

int keeper_pause(const char *home, const char *id, bool paused, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	int r = ask(home, id, &(struct keeper_request){.verb = paused ? KEEPER_PAUSE : KEEPER_RESUME}, &a, err);
	return r == 0 ? not_live(id, err) : r < 0 ? -1 : 0;
}

/* ---- processes --------------------------------------------------------------------------------------------------------------- */

void keeper_processes_free(struct keeper_processes *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i].command);
	free(p->items);
	*p = (struct keeper_processes){0};
}

static int read_process(const char *const *fields, struct keeper_process *out, struct cordon_error *err)
{
	snprintf(out->id, sizeof(out->id), "%s", fields[0]);
	snprintf(out->name, sizeof(out->name), "%s", fields[1]);
	out->command = strdup(fields[2]);
	out->started_ms = strtoll(fields[3], NULL, 10);
	out->running = strcmp(fields[4], "running") == 0;
	out->queued = strcmp(fields[4], "queued") == 0;
	out->exit_code = (int)strtol(fields[5], NULL, 10);
	return out->command ? 0 : err_sys(err, "strdup");
}

int keeper_ps(const char *home, const char *id, struct keeper_processes *out, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	*out = (struct keeper_processes){0};
	int r = ask(home, id, &(struct keeper_request){.verb = KEEPER_PS}, &a, err);
	if (r <= 0)
		return r;
	const size_t count = a.reply.items.count / KEEPER_PS_FIELDS;
	out->items = calloc(count + 1, sizeof(*out->items));
	if (!out->items)
		return err_sys(err, "cannot list the processes");
	for (size_t i = 0; i < count; i++) {
		if (read_process(a.reply.items.items + i * KEEPER_PS_FIELDS, &out->items[i], err) < 0) {
			keeper_processes_free(out);
			return -1;
		}
		out->count++;
	}
	return 0;
}

int keeper_kill(const char *home, const char *id, const char *target, int signo, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a;
	int r = ask(home, id, &(struct keeper_request){.verb = KEEPER_KILL, .name = target, .signo = (uint32_t)signo}, &a, err);
	return r == 0 ? not_live(id, err) : r < 0 ? -1 : 0;
}

int keeper_await(const char *home, const char *id, const char *target, struct cordon_error *err)
{
	struct store s;
	_cleanup_turn_ struct turn t = {.dir = -1, .changes = -1};
	if (store_open(&s, home, err) < 0)
		return -1;
	_cleanup_fd_ int fd = turn_begin(&t, &s, id, err) < 0 ? -1 : link_connect(&t, err);
	store_close(&s);
	if (fd == LINK_NONE)
		return KEEPER_NOT_LIVE;
	if (fd < 0 || link_send(fd, &(struct keeper_request){.verb = KEEPER_WAIT, .name = target}, err) < 0)
		return -1;
	return steal_fd(&fd);
}

/* ---- operations on the layer tree -------------------------------------------------------------------------------------------- */

static const char *op_who(enum op_verb verb)
{
	static const char *const names[OP_VERB_COUNT] = {"snapshot",  "restore",     "fork",   "tx begin",
	                                                 "tx commit", "tx rollback", "commit", "discard"};
	return names[verb];
}

static int op_through_keeper(int fd, const struct op_request *request, bool wait, struct op_reply *reply, struct cordon_error *err)
{
	_cleanup_answer_ struct answer a = {0};
	const struct keeper_request r = {
		.verb = KEEPER_OP,
		.flags = (wait ? 0u : KEEPER_NO_WAIT) | (request->progress ? KEEPER_TELL : 0u),
		.op = request->verb,
		.op_flags = request->flags,
		.args = {(const char **)(void *)request->args.items, (uint32_t)request->args.count},
	};
	if (exchange(fd, &r, request, &a, err) < 0)
		return -1;
	reply->status = (int)a.reply.status;
	for (uint32_t i = 0; i < a.reply.items.count; i++)
		if (strlist_add(&reply->items, a.reply.items.items[i], err) < 0)
			return -1;
	return 0;
}

/* It is stopped: we do it ourselves, under its lock. */
static int op_by_ourselves(const char *home, const char *id, const struct op_request *request, struct op_reply *reply,
                           struct cordon_error *err)
{
	struct live l;
	char who[64];
	snprintf(who, sizeof(who), "%s (process %d)", op_who(request->verb), (int)getpid());
	if (live_open(&l, home, id, who, false, err) < 0)
		return -1;
	int r = op_run(&l, request, reply, err);
	live_close(&l);
	/* nobody else had it: whatever the reason is, it is not one to wait for */
	if (r < 0 && err && (err->code == CORDON_ERR_BUSY || err->code == CORDON_ERR_DENIED))
		err->code = CORDON_ERR_INPUT;
	return r;
}

static int op_once(const struct turn *t, const char *home, const struct op_request *request, bool wait, struct op_reply *reply,
                   struct cordon_error *err)
{
	_cleanup_fd_ int fd = link_connect(t, err);
	if (fd >= 0)
		return op_through_keeper(fd, request, wait, reply, err);
	return fd == LINK_NONE ? op_by_ourselves(home, t->id, request, reply, err) : -1;
}

int keeper_op(const char *home, const char *what, const struct op_request *request, bool wait, struct op_reply *reply,
              struct cordon_error *err)
{
	_cleanup_box_ struct box b = {0};
	_cleanup_turn_ struct turn t = {.dir = -1, .changes = -1};
	struct store s;
	struct cordon_error why = {0};
	*reply = (struct op_reply){0};
	if (store_open(&s, home, err) < 0)
		return -1;
	int r = box_find(&s, what, &b, &why) < 0 || turn_begin(&t, &s, b.id, &why) < 0 ? -1 : 0;
	t.wait = wait;
	while (r == 0) {
		r = op_once(&t, home, request, wait, reply, &why);
		if (r == 0)
			break;
		op_reply_free(reply);
		/* a live sandbox that is busy or paused says so itself, and has made us wait if we wanted to */
		if (why.code == CORDON_ERR_BUSY && !link_try_again(&why))
			break;
		r = turn_wait(&t, &why);
	}
	if (r < 0 && err)
		*err = why;
	store_close(&s);
	return r;
}
