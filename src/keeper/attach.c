/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/util.h"
#include "keeper/link.h"

#define PATIENCE_MS 200 /* before we say what we wait for */
#define MESSAGES_AT_ONCE 64

struct keeper_exec {
	int fd;
	char id[ID_LEN + 1];
	bool room;   /* the keeper takes KEEPER_INPUT_MAX bytes */
	bool closed; /* the command reads no more */
	bool done;
	bool keep;
	void (*on_output)(void *user, enum cordon_stream stream, const void *data, size_t len);
	void (*on_denial)(void *user, const struct cordon_denial *denial);
	void *user;
	struct buf out, err;
	struct wire_msg last; /* what the result points into */
	struct keeper_result result;
};

const char *keeper_exec_id(const struct keeper_exec *e)
{
	return e->id;
}

int keeper_exec_fd(const struct keeper_exec *e)
{
	return e->fd;
}

const struct cordon_result *keeper_exec_result(const struct keeper_exec *e)
{
	return e->done ? &e->result.result : NULL;
}

/* Closing the connection ends the exec. */
void keeper_exec_free(struct keeper_exec *e)
{
	if (!e)
		return;
	cleanup_fd(&e->fd);
	buf_free(&e->out);
	buf_free(&e->err);
	keeper_result_free(&e->result);
	wire_msg_free(&e->last);
	free(e);
}

/* ---- starting ---------------------------------------------------------------------------------------------------------------- */

/* Waits for a word from the keeper; after a while says why. */
static void be_patient(int fd, const struct keeper_exec_options *o, const char *who, bool *told)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	if (*told || !o->waiting || poll(&p, 1, PATIENCE_MS) != 0)
		return;
	o->waiting(o->waiting_user, who);
	*told = true;
}

static int take_start(struct keeper_exec *e, const struct keeper_reply *reply, struct cordon_error *err)
{
	const char *id = reply->event == KEEPER_STARTED ? reply->text : reply->items.count ? reply->items.items[0] : "";
	if (!id_valid(id))
		return err_set(err, CORDON_ERR_SYSTEM, "unexpected answer from the sandbox's keeper");
	snprintf(e->id, sizeof(e->id), "%s", id);
	return 0;
}

/* Until it runs, or why not. */
static int wait_started(struct keeper_exec *e, const struct keeper_exec_options *o, struct cordon_error *err)
{
	bool told = false;
	if (link_send(e->fd, o->request, err) < 0)
		return -1;
	for (;;) {
		_cleanup_msg_ struct wire_msg msg = {0};
		struct keeper_reply reply;
		if (link_receive(e->fd, &msg, &reply, err) < 0)
			return -1;
		const bool queued = reply.event == KEEPER_QUEUED;
		int r = queued ? 0 : take_start(e, &reply, err);
		if (queued)
			be_patient(e->fd, o, reply.text ? reply.text : "another exec", &told);
		reply_free(&reply);
		if (!queued)
			return r;
	}
}

static int reach_and_start(struct turn *t, struct keeper_exec *e, const struct keeper_exec_options *o, struct cordon_error *err)
{
	for (;;) {
		e->fd = link_reach(t, err);
		if (e->fd < 0)
			return -1;
		if (wait_started(e, o, err) == 0)
			return 0;
		cleanup_fd(&e->fd);
		e->fd = -1;
		/* anything else is what the keeper had to say about this exec */
		if (!link_try_again(err) || turn_wait(t, err) < 0)
			return -1;
	}
}

int keeper_exec_start(const char *home, const char *id, const struct keeper_exec_options *options, struct keeper_exec **out,
                      struct cordon_error *err)
{
	_cleanup_turn_ struct turn t = {.dir = -1, .changes = -1};
	struct cordon_error why = {0};
	struct store s;
	struct keeper_exec *e = calloc(1, sizeof(*e));
	if (!e)
		return err_sys(err, "cannot start a command");
	*e = (struct keeper_exec){.fd = -1,
	                          .keep = options->keep_output,
	                          .on_output = options->on_output,
	                          .on_denial = options->on_denial,
	                          .user = options->user};
	e->out.cap = e->err.cap = SIZE_MAX / 4; /* the sandbox's own limits.max_output holds */
	if (store_open(&s, home, err) < 0) {
		keeper_exec_free(e);
		return -1;
	}
	int r = turn_begin(&t, &s, id, &why);
	if (r == 0) {
		t.wait = !(options->request->flags & KEEPER_NO_WAIT);
		t.waiting = options->waiting;
		t.user = options->waiting_user;
		r = reach_and_start(&t, e, options, &why);
	}
	store_close(&s);
	if (r < 0) {
		if (err)
			*err = why;
		keeper_exec_free(e);
		return -1;
	}
	*out = e;
	return 0;
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static int take_output(struct keeper_exec *e, const struct keeper_reply *r, struct cordon_error *err)
{
	struct buf *b = r->status == CORDON_STDERR ? &e->err : &e->out;
	if (e->keep) {
		buf_add(b, r->data, r->len);
		if (b->failed)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory while keeping output");
	}
	if (e->on_output)
		e->on_output(e->user, (enum cordon_stream)r->status, r->data, r->len);
	return 1;
}

static int take_denial(struct keeper_exec *e, const struct keeper_reply *r, struct cordon_error *err)
{
	struct cordon_denial d;
	if (denial_decode(r->data, r->len, &d, err) < 0)
		return -1;
	if (e->on_denial)
		e->on_denial(e->user, &d);
	return 1;
}

static int take_end(struct keeper_exec *e, struct wire_msg *msg, const struct keeper_reply *r, struct cordon_error *err)
{
	if (result_decode(r->data, r->len, &e->result, err) < 0)
		return -1;
	e->last = *msg;
	*msg = (struct wire_msg){0};
	struct cordon_result *result = &e->result.result;
	result->stdout_data = e->out.data ? e->out.data : "";
	result->stdout_len = e->out.len;
	result->stderr_data = e->err.data ? e->err.data : "";
	result->stderr_len = e->err.len;
	e->done = true;
	return 0;
}

static int handle(struct keeper_exec *e, struct wire_msg *msg, const struct keeper_reply *r, struct cordon_error *err)
{
	switch (r->event) {
	case KEEPER_OUTPUT:
		return take_output(e, r, err);
	case KEEPER_DENIAL:
		return take_denial(e, r, err);
	case KEEPER_ROOM:
		e->room = true;
		return 1;
	case KEEPER_NO_ROOM:
		e->closed = true;
		return 1;
	case KEEPER_END:
		return take_end(e, msg, r, err);
	case KEEPER_OK:
	case KEEPER_QUEUED:
	case KEEPER_STARTED:
	case KEEPER_PROGRESS:
	case KEEPER_EVENT_COUNT:
		break;
	}
	return err_set(err, CORDON_ERR_SYSTEM, "unexpected answer from the sandbox's keeper");
}

int keeper_exec_step(struct keeper_exec *e, struct cordon_error *err)
{
	struct pollfd p = {.fd = e->fd, .events = POLLIN};
	for (int i = 0; i < MESSAGES_AT_ONCE && !e->done && poll(&p, 1, 0) > 0; i++) {
		_cleanup_msg_ struct wire_msg msg = {0};
		struct keeper_reply reply;
		if (link_receive(e->fd, &msg, &reply, err) < 0)
			return -1;
		int r = handle(e, &msg, &reply, err);
		reply_free(&reply);
		if (r <= 0)
			return r;
	}
	return e->done ? 0 : 1;
}

short keeper_exec_sink(const struct keeper_exec *e)
{
	return e->closed ? POLLERR : e->room ? POLLOUT : 0;
}

ssize_t keeper_exec_write(struct keeper_exec *e, const void *data, size_t len)
{
	if (e->closed)
		return -1;
	if (!e->room || len == 0)
		return 0;
	const struct keeper_request r = {.verb = KEEPER_INPUT, .data = data, .len = MIN(len, KEEPER_INPUT_MAX)};
	e->room = false;
	if (link_send(e->fd, &r, NULL) == 0)
		return (ssize_t)r.len;
	e->closed = true; /* the next step says why */
	return -1;
}

void keeper_exec_close_stdin(struct keeper_exec *e)
{
	if (!e->closed)
		link_send(e->fd, &(struct keeper_request){.verb = KEEPER_INPUT_END}, NULL);
	e->closed = true;
}

int keeper_exec_cancel(struct keeper_exec *e, struct cordon_error *err)
{
	struct cordon_error why = {0};
	if (e->done || link_send(e->fd, &(struct keeper_request){.verb = KEEPER_CANCEL}, &why) == 0 || link_try_again(&why))
		return 0; /* if the keeper is gone, so is the exec */
	if (err)
		*err = why;
	return -1;
}

int keeper_exec_resize(struct keeper_exec *e, unsigned short rows, unsigned short cols)
{
	return link_send(e->fd, &(struct keeper_request){.verb = KEEPER_RESIZE, .rows = rows, .cols = cols}, NULL);
}
