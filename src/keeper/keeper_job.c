/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execs, services and operations on the layer tree. Those that need the sandbox's one transaction wait in line, first come, first served;
 * what runs beside them (--parallel, services) starts at once. An operation is done where it stands: it takes milliseconds, and nothing
 * else may happen meanwhile anyway.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "keeper/keeper.h"

#define QUEUE_LONG ((size_t)256 << 10) /* of a client: its exec waits */
#define COMMAND_MAX 1024
#define OVER_KEPT 64 /* services that ended, for `ps` */
#define TELL_MS 50   /* between two messages about how far an operation is */

static const char *const op_names[OP_VERB_COUNT] = {
	[OP_SNAPSHOT] = "snapshot",   [OP_RESTORE] = "restore",         [OP_FORK] = "fork",     [OP_TX_BEGIN] = "tx begin",
	[OP_TX_COMMIT] = "tx commit", [OP_TX_ROLLBACK] = "tx rollback", [OP_COMMIT] = "commit", [OP_DISCARD] = "discard",
};

void job_free(struct job *j)
{
	cordon_exec_free(j->exec);
	log_close(&j->log);
	request_free(&j->request);
	wire_msg_free(&j->message);
	buf_free(&j->input);
	free(j->command);
	free(j);
}

void job_sweep(struct keeper *k)
{
	unsigned over = job_count(k, JOB_OVER);
	for (struct job **at = &k->jobs; *at;) {
		struct job *j = *at;
		if (j->state == JOB_OVER && !j->gone && over > OVER_KEPT) {
			j->gone = true;
			over--;
		}
		if (!j->gone) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		job_free(j);
	}
}

unsigned job_count(const struct keeper *k, enum job_state state)
{
	unsigned n = 0;
	for (const struct job *j = k->jobs; j; j = j->next)
		n += j->state == state && !j->gone;
	return n;
}

/* ---- finding one ------------------------------------------------------------------------------------------------------------- */

/* The service that runs under this name, else the one that did last. */
static struct job *find_service(struct keeper *k, const char *name, bool over)
{
	struct job *last = NULL;
	for (struct job *j = k->jobs; j; j = j->next) {
		if (j->gone || j->state == JOB_QUEUED || strcmp(j->name, name) != 0)
			continue;
		if (j->state == JOB_RUNNING)
			return j;
		last = j;
	}
	return over ? last : NULL;
}

struct job *job_find(struct keeper *k, const char *what, bool over, struct cordon_error *err)
{
	struct job *found = what[0] ? find_service(k, what, over) : NULL;
	const char *ended = "";
	for (struct job *j = k->jobs; what[0] && !found && j; j = j->next)
		if (!j->gone && strcmp(j->id, what) == 0 && (over || j->state == JOB_RUNNING))
			return j;
	if (found)
		return found;
	for (struct job *j = k->jobs; what[0] && j; j = j->next) {
		if (j->gone || j->state == JOB_QUEUED || strncmp(j->id, what, strlen(what)) != 0)
			continue;
		if (!over && j->state == JOB_OVER) {
			ended = " running";
			continue;
		}
		if (found) {
			err_set(err, CORDON_ERR_INPUT, "'%.80s' is the beginning of more than one id", what);
			return NULL;
		}
		found = j;
	}
	if (!found) {
		err_set(err, CORDON_ERR_NOT_FOUND, "there is no%s service or exec '%.80s' in sandbox %s", ended, what, k->id);
		err_hint(err, "cordon ps %s", k->id);
	}
	return found;
}

/* ---- the end of one ---------------------------------------------------------------------------------------------------------- */

static void wake_waiting(struct keeper *k, const struct job *j)
{
	const char *id = j->id;
	for (struct conn *c = k->conns; c; c = c->next)
		if (!c->dead && strcmp(c->awaits, j->id) == 0)
			conn_ok(c, (uint32_t)j->exit_code, &(struct string_list){&id, 1});
}

/* It has had its last word, or there is nobody to tell. */
static struct conn *release_client(struct job *j)
{
	struct conn *c = j->client;
	j->client = NULL;
	if (c)
		c->job = NULL;
	return c;
}

static void over(struct keeper *k, struct job *j)
{
	release_client(j);
	j->state = JOB_OVER;
	if (k->alone == j)
		k->alone = NULL;
	wake_waiting(k, j);
	log_close(&j->log);
	cordon_exec_free(j->exec);
	j->exec = NULL;
	j->gone = !j->service;
	keeper_used(k);
}

void job_refuse(struct keeper *k, struct job *j, const struct cordon_error *err)
{
	struct conn *c = release_client(j);
	if (c)
		conn_error(c, err);
	j->service = false; /* nothing to remember */
	over(k, j);
}

/* Those that went on while the files of this one were put back. */
static size_t services_now(const struct keeper *k, const char **names, size_t max)
{
	size_t n = 0;
	for (const struct job *j = k->jobs; j && n < max; j = j->next)
		if (j->service && j->state == JOB_RUNNING && !j->gone)
			names[n++] = j->name[0] ? j->name : j->id;
	return n;
}

static void send_result(const struct keeper *k, struct conn *c, const struct cordon_result *ended)
{
	_cleanup_buf_ struct buf data = {.cap = WIRE_MAX};
	struct cordon_result r = *ended;
	const char *names[64];
	if (r.transaction.outcome && strcmp(r.transaction.outcome, "rolled_back") == 0) {
		r.transaction.services = names;
		r.transaction.service_count = services_now(k, names, ARRAY_SIZE(names));
	}
	result_encode(&r, &data);
	if (data.failed || data.len > WIRE_MAX - 1024) { /* paths of 4,000 bytes: how many is what counts */
		buf_free(&data);
		data.cap = WIRE_MAX;
		r.transaction.change_count = 0;
		result_encode(&r, &data);
	}
	if (data.failed) {
		struct cordon_error err = {0};
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		conn_error(c, &err);
		return;
	}
	conn_reply(c, &(struct keeper_reply){.event = KEEPER_END, .data = data.data, .len = data.len});
	c->closing = true;
	if (!c->first)
		c->dead = true;
}

static void exec_over(struct keeper *k, struct job *j, int stepped, const struct cordon_error *err)
{
	const struct cordon_result *result = cordon_exec_result(j->exec);
	struct conn *c = release_client(j);
	j->exit_code = result ? result->exit_code : 125;
	if (stepped < 0)
		log_note(k->logs, j->command, err);
	if (stepped < 0 && j->own && j->exec->lost) {
		k->crashed = true; /* what the open layer holds of it must not be taken for complete */
		keeper_end(k);
	}
	if (c && stepped < 0)
		conn_error(c, err);
	else if (c)
		send_result(k, c, result);
	over(k, j);
}

void job_abandon(struct keeper *k, struct job *j)
{
	struct cordon_error err = {0};
	if (j->state == JOB_RUNNING && cordon_exec_cancel(j->exec, &err) < 0)
		log_note(k->logs, "cannot end an exec", &err);
	if (j->state != JOB_QUEUED)
		return;
	err_set(&err, CORDON_ERR_BUSY, "cancelled while it waited");
	job_refuse(k, j, &err);
}

/* ---- input and output -------------------------------------------------------------------------------------------------------- */

static void output(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct job *j = user;
	log_write(&j->log, data, len);
	while (j->client && len) {
		const size_t n = MIN(len, KEEPER_CHUNK);
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_OUTPUT, .status = stream, .data = data, .len = n});
		data = (const char *)data + n;
		len -= n;
	}
}

static void denial(void *user, const struct cordon_denial *d)
{
	struct job *j = user;
	_cleanup_buf_ struct buf data = {0};
	denial_encode(d, &data);
	if (j->client && !data.failed) /* it is in the result all the same */
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_DENIAL, .data = data.data, .len = data.len});
}

static size_t input_pending(const struct job *j)
{
	return j->input.len - j->input_sent;
}

static void stop_feeding(struct job *j)
{
	j->feeds = false;
	buf_free(&j->input);
	j->input_sent = 0;
	if (!j->exec->tty) /* a terminal goes on: it can still be resized */
		cordon_exec_close_stdin(j->exec);
	if (j->client)
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_NO_ROOM});
}

static void push_input(struct job *j)
{
	while (input_pending(j)) {
		ssize_t n = cordon_exec_write(j->exec, j->input.data + j->input_sent, input_pending(j));
		if (n < 0) {
			stop_feeding(j); /* the command has closed its stdin: what is left is nobody's */
			return;
		}
		if (n == 0)
			return;
		j->input_sent += (size_t)n;
	}
	j->input.len = j->input_sent = 0;
	if (j->input_ended)
		stop_feeding(j);
}

void job_input(struct job *j, const void *data, size_t len)
{
	if (!j->feeds || j->input_ended)
		return;
	buf_add(&j->input, data, len);
	if (!j->room_told || j->input.failed) {
		j->client->dead = true; /* it was not told that there is room, or there is no memory for it */
		return;
	}
	j->room_told = false;
	push_input(j);
}

void job_end_input(struct job *j)
{
	j->input_ended = true;
	if (j->feeds && j->exec)
		push_input(j);
}

/* The command's stdin takes more, or nobody reads it any more. */
static void sink_ready(struct job *j, short revents)
{
	if (revents & (POLLERR | POLLHUP | POLLNVAL)) {
		stop_feeding(j);
		return;
	}
	push_input(j);
	if (!j->feeds || input_pending(j) || j->room_told)
		return;
	j->room_told = true;
	if (j->client)
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_ROOM});
}

/* ---- starting one ------------------------------------------------------------------------------------------------------------ */

static int start_exec(struct keeper *k, struct job *j, struct cordon_error *err)
{
	const struct keeper_request *r = &j->request;
	const struct cordon_exec_options options = {
		.size = sizeof(options),
		.argv = (const char *const *)r->argv.items,
		.env = (const char *const *)r->env.items,
		.cwd = r->cwd,
		.flags = CORDON_EXEC_DISCARD | (r->flags & KEEPER_TTY ? CORDON_EXEC_TTY : 0u) |
	                 (r->flags & KEEPER_STDIN ? CORDON_EXEC_STDIN : 0u) | (j->own ? 0u : CORDON_EXEC_PARALLEL) |
	                 (j->service ? CORDON_EXEC_ENDLESS : 0u),
		.rows = (unsigned short)r->rows,
		.cols = (unsigned short)r->cols,
		.on_output = output,
		.on_denial = denial,
		.user = j,
		.timeout_ms = r->timeout_ms ? r->timeout_ms
	                      : j->service  ? -1
	                                    : 0,
		.on_failure = r->on_failure ? tx_action_names[r->on_failure - 1] : NULL,
		.ok = r->flags & KEEPER_HAS_OK ? r->ok : NULL,
	};
	if (j->service && log_open(&j->log, k->logs, j->id, j->name, err) < 0)
		return -1;
	if (exec_start(k->sandbox, &options, j->id, &j->exec, err) < 0) /* one id from `ps` to the result and the audit */
		return -1;
	j->feeds = r->flags & KEEPER_STDIN;
	return 0;
}

static void run_exec(struct keeper *k, struct job *j)
{
	struct cordon_error err = {0};
	const char *id = j->id;
	if (start_exec(k, j, &err) < 0) {
		if (j->service)
			unlinkat(k->logs, j->log.file, 0);
		job_refuse(k, j, &err);
		return;
	}
	j->state = JOB_RUNNING;
	j->started_ms = keeper_time_ms();
	if (j->own)
		k->alone = j;
	request_free(&j->request); /* environment and all: a service may live for weeks */
	wire_msg_free(&j->message);
	keeper_used(k);
	if (j->service)
		conn_ok(release_client(j), 0, &(struct string_list){&id, 1});
	else
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_STARTED, .text = j->id});
	if (j->feeds)
		push_input(j);
}

/* Called while the operation runs, and nothing else does: what the client does not take at once is left out. */
static void tell_progress(void *user, uint64_t done, uint64_t total)
{
	struct job *j = user;
	_cleanup_buf_ struct buf data = {0};
	const int64_t now = keeper_clock_ms();
	if (!j->client || j->client->first || now - j->told_ms < TELL_MS)
		return;
	j->told_ms = now;
	progress_encode(done, total, &data);
	if (!data.failed)
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_PROGRESS, .data = data.data, .len = data.len});
}

static void run_op(struct keeper *k, struct job *j)
{
	struct op_request request = {.verb = (enum op_verb)j->request.op,
	                             .flags = j->request.op_flags,
	                             .progress = j->request.flags & KEEPER_TELL ? tell_progress : NULL,
	                             .user = j};
	struct op_reply reply = {0};
	struct cordon_error err = {0};
	const struct live *l = k->sandbox->live;
	int r = 0;
	if (l->lost && l->running == 0 && !l->box.copy)
		sandbox_halt(k->sandbox); /* its layers are all there, but no longer mounted */
	for (uint32_t i = 0; i < j->request.args.count && r == 0; i++)
		r = strlist_add(&request.args, j->request.args.items[i], &err);
	if (r == 0)
		r = op_run(k->sandbox->live, &request, &reply, &err);
	struct conn *c = release_client(j);
	if (c && r < 0)
		conn_error(c, &err);
	else if (c)
		conn_ok(c, (uint32_t)reply.status,
		        &(struct string_list){(const char **)(void *)reply.items.items, (uint32_t)reply.items.count});
	op_request_free(&request);
	op_reply_free(&reply);
	over(k, j);
}

static void run_job(struct keeper *k, struct job *j)
{
	if (j->request.verb == KEEPER_OP)
		run_op(k, j);
	else
		run_exec(k, j);
}

void job_run_next(struct keeper *k)
{
	for (struct job *j = k->jobs; j && !k->alone && !k->sandbox->frozen && k->stage == STAGE_LIVE; j = j->next)
		if (j->state == JOB_QUEUED && j->own && !j->gone)
			run_job(k, j);
}

/* ---- a new one --------------------------------------------------------------------------------------------------------------- */

static char *command_line(const struct keeper_request *r)
{
	struct buf b = {.cap = COMMAND_MAX + 16};
	if (r->verb == KEEPER_OP)
		buf_add_str(&b, op_names[r->op]);
	for (uint32_t i = 0; i < r->argv.count && b.len < COMMAND_MAX; i++)
		buf_addf(&b, "%s%.*s", i ? " " : "", (int)(COMMAND_MAX - b.len), r->argv.items[i]);
	char *text = buf_steal(&b);
	buf_free(&b);
	return text;
}

static int check_new(struct keeper *k, const struct keeper_request *r, struct cordon_error *err)
{
	const struct job *same = r->verb == KEEPER_EXEC && r->name ? find_service(k, r->name, false) : NULL;
	if (k->sandbox->frozen) {
		err_set(err, CORDON_ERR_BUSY, "sandbox %s is paused", k->id);
		return err_hint(err, "cordon resume %s", k->id);
	}
	if (!same)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "a service '%s' runs already (%s: %.200s)", r->name, same->id, same->command);
	return err_hint(err, "cordon kill %s %s", k->id, r->name);
}

static struct job *new_job(struct keeper *k, struct conn *c, struct wire_msg *msg, struct keeper_request *request)
{
	struct job *j = calloc(1, sizeof(*j)), **at = &k->jobs;
	char *command = j ? command_line(request) : NULL;
	if (!command) {
		free(j);
		return NULL;
	}
	id_new(j->id);
	j->started_ms = keeper_time_ms();
	j->command = command;
	j->service = request->verb == KEEPER_EXEC && (request->flags & KEEPER_DETACH);
	j->own = request->verb == KEEPER_OP || !(request->flags & (KEEPER_DETACH | KEEPER_PARALLEL));
	snprintf(j->name, sizeof(j->name), "%s", j->service && request->name ? request->name : "");
	j->message = *msg;
	*msg = (struct wire_msg){0};
	j->request = *request;
	*request = (struct keeper_request){0};
	j->log.fd = -1;
	j->input.cap = KEEPER_INPUT_MAX;
	j->slot = j->sink_slot = -1;
	j->client = c;
	c->job = j;
	while (*at)
		at = &(*at)->next;
	*at = j;
	return j;
}

/* Somebody has the transaction: wait, or say so. */
static void wait_in_line(struct keeper *k, struct job *j)
{
	const struct job *first = k->alone;
	struct cordon_error err = {0};
	char who[COMMAND_MAX + 64];
	for (const struct job *o = k->jobs; o && !first; o = o->next)
		if (o->own && o->state == JOB_QUEUED && o != j)
			first = o;
	snprintf(who, sizeof(who), "%s %s", first ? first->id : "", first ? first->command : "another exec");
	if (!(j->request.flags & KEEPER_NO_WAIT)) {
		conn_reply(j->client, &(struct keeper_reply){.event = KEEPER_QUEUED, .text = who});
		return;
	}
	err_set(&err, CORDON_ERR_BUSY, "sandbox %s is busy: %.600s", k->id, who);
	job_refuse(k, j, &err);
}

void job_add(struct keeper *k, struct conn *c, struct wire_msg *msg, struct keeper_request *request)
{
	struct cordon_error err = {0};
	if (check_new(k, request, &err) < 0) {
		conn_error(c, &err);
		request_free(request);
		return;
	}
	struct job *j = new_job(k, c, msg, request);
	if (!j) {
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		conn_error(c, &err);
		request_free(request);
		return;
	}
	if (!j->own) {
		run_job(k, j);
		return;
	}
	job_run_next(k);
	if (j->state == JOB_QUEUED && !j->gone)
		wait_in_line(k, j);
}

/* ---- the loop's part --------------------------------------------------------------------------------------------------------- */

static int watch(struct pollfd *set, nfds_t *count, int fd, short events)
{
	set[*count] = (struct pollfd){.fd = fd, .events = events};
	return (int)(*count)++;
}

void job_poll(struct job *j, struct pollfd *set, nfds_t *count)
{
	j->slot = j->sink_slot = -1;
	if (j->state != JOB_RUNNING || j->gone)
		return;
	if (!j->client || j->client->queued < QUEUE_LONG)
		j->slot = watch(set, count, cordon_exec_fd(j->exec), POLLIN);
	if (j->feeds && cordon_exec_stdin_fd(j->exec) >= 0)
		j->sink_slot = watch(set, count, cordon_exec_stdin_fd(j->exec), input_pending(j) || !j->room_told ? POLLOUT : 0);
}

void job_step(struct keeper *k, struct job *j, const struct pollfd *set)
{
	struct cordon_error err = {0};
	if (j->sink_slot >= 0 && set[j->sink_slot].revents && j->feeds)
		sink_ready(j, set[j->sink_slot].revents);
	if (j->slot < 0 || !set[j->slot].revents || j->state != JOB_RUNNING)
		return;
	int r = cordon_exec_step(j->exec, &err);
	if (r <= 0)
		exec_over(k, j, r, &err);
}
