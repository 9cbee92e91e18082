/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients. Their sockets never block us: what a client does not take yet is queued, and while its queue is long its exec is not stepped
 * (keeper_job.c), so that the command waits as it would for any slow reader and the queue has a bound. A client that sends what it must
 * not is dropped; nothing that a client does ends the keeper.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "keeper/keeper.h"

#define MAX_CONNS 256
#define MESSAGES_AT_ONCE 32 /* of one client in one round: the others wait */
#define FLUSH_MS 1000

void conn_add(struct keeper *k, int fd)
{
	struct conn *c = k->conn_count < MAX_CONNS ? calloc(1, sizeof(*c)) : NULL;
	if (!c || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		free(c);
		close(fd);
		return;
	}
	c->fd = fd;
	c->slot = -1;
	c->next = k->conns;
	k->conns = c;
	k->conn_count++;
	conn_send(c, WIRE_READY, NULL);
}

/* The directory lets nobody else in; should it have been opened up by hand, this still holds. */
static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && (who.uid == geteuid() || who.uid == 0);
}

void conn_accept(struct keeper *k)
{
	int fd;
	while ((fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (is_ours(fd))
			conn_add(k, fd);
		else
			close(fd);
	}
}

/* ---- sending ----------------------------------------------------------------------------------------------------------------- */

static void drop_first(struct conn *c)
{
	struct message *m = c->first;
	c->first = m->next;
	if (!c->first)
		c->last = NULL;
	c->queued -= m->body.len + sizeof(*m);
	buf_free(&m->body);
	free(m);
}

/* True if it went out or the client is lost; false if it has to wait. */
static bool send_now(struct conn *c, enum wire_type type, const struct buf *body)
{
	struct cordon_error err = {0};
	if (wire_send(c->fd, type, body, NULL, 0, &err) == 0)
		return true;
	if (err.sys_errno == EAGAIN || err.sys_errno == ENOBUFS)
		return false;
	c->dead = true;
	return true;
}

void conn_send(struct conn *c, enum wire_type type, const struct buf *body)
{
	if (c->dead || (!c->first && send_now(c, type, body)))
		return;
	struct message *m = calloc(1, sizeof(*m));
	if (m && body) {
		m->body.cap = WIRE_MAX;
		buf_add(&m->body, body->data, body->len);
	}
	if (!m || m->body.failed) {
		free(m);
		c->dead = true; /* it would miss something */
		return;
	}
	m->type = type;
	if (c->last)
		c->last->next = m;
	else
		c->first = m;
	c->last = m;
	c->queued += m->body.len + sizeof(*m);
}

static void send_queued(struct conn *c)
{
	while (c->first && !c->dead && send_now(c, c->first->type, &c->first->body))
		drop_first(c);
	if (c->closing && !c->first)
		c->dead = true;
}

void conn_flush(struct conn *c)
{
	while (c->first && !c->dead) {
		struct pollfd p = {.fd = c->fd, .events = POLLOUT};
		if (poll(&p, 1, FLUSH_MS) <= 0)
			return;
		send_queued(c);
	}
}

void conn_reply(struct conn *c, const struct keeper_reply *r)
{
	_cleanup_buf_ struct buf body = {.cap = WIRE_MAX};
	reply_encode(r, &body);
	if (!body.failed) {
		conn_send(c, WIRE_REPLY, &body);
		return;
	}
	struct cordon_error err = {0};
	err_set(&err, CORDON_ERR_SYSTEM, "the answer is too large, or memory is short");
	conn_error(c, &err);
}

static void last_word(struct conn *c)
{
	c->closing = true;
	c->awaits[0] = '\0';
	if (!c->first)
		c->dead = true;
}

void conn_ok(struct conn *c, uint32_t status, const struct string_list *items)
{
	conn_reply(c, &(struct keeper_reply){.event = KEEPER_OK, .status = status, .items = items ? *items : (struct string_list){0}});
	last_word(c);
}

void conn_error(struct conn *c, const struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	error_encode(err, &body);
	conn_send(c, WIRE_ERROR, &body);
	last_word(c);
}

/* ---- receiving --------------------------------------------------------------------------------------------------------------- */

static void receive(struct keeper *k, struct conn *c)
{
	for (int i = 0; i < MESSAGES_AT_ONCE && !c->dead; i++) {
		_cleanup_msg_ struct wire_msg msg;
		struct cordon_error err = {0};
		int r = wire_recv(c->fd, &msg, &err);
		if (r < 0 && err.sys_errno == EAGAIN)
			return;
		if (r <= 0 || msg.type != WIRE_REQUEST) {
			c->dead = true;
			return;
		}
		if (!c->closing) /* what comes after the last word was sent before it arrived */
			serve(k, c, &msg);
	}
}

void conn_step(struct keeper *k, struct conn *c, short revents)
{
	if (revents & POLLOUT)
		send_queued(c);
	if (!c->dead && (revents & (POLLIN | POLLHUP | POLLERR)))
		receive(k, c);
}

static void conn_free(struct keeper *k, struct conn *c)
{
	struct job *j = c->job;
	c->job = NULL;
	if (j) {
		j->client = NULL;
		job_abandon(k, j);
	}
	while (c->first)
		drop_first(c);
	close(c->fd);
	free(c);
	k->conn_count--;
}

void conn_sweep(struct keeper *k)
{
	for (struct conn **at = &k->conns; *at;) {
		struct conn *c = *at;
		if (!c->dead) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		conn_free(k, c);
	}
}
