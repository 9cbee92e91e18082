/* SPDX-License-Identifier: Apache-2.0 */
/* The airlock's sockets on their way out. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/airlock.h"
#include "sandbox/wire.h"

void airlock_close(struct airlock *a)
{
	for (size_t i = 0; i < a->count; i++)
		close(a->sockets[i].fd);
	a->count = 0;
}

int airlock_send(struct airlock *a, int sock, struct cordon_error *err)
{
	int r = 0;
	for (size_t i = 0; i < a->count && r == 0;) {
		_cleanup_buf_ struct buf body = {0};
		int fds[WIRE_MAX_FDS];
		size_t n = 0;
		for (; i < a->count && n < WIRE_MAX_FDS; i++) {
			airlock_socket_put(&body, &a->sockets[i]);
			fds[n++] = a->sockets[i].fd;
		}
		r = wire_send(sock, WIRE_AIRLOCK, &body, fds, n, err);
	}
	airlock_close(a);
	return r;
}

void airlock_socket_put(struct buf *b, const struct airlock_socket *s)
{
	wire_put_u32(b, s->kind);
	wire_put_u32(b, s->family);
	wire_put_u32(b, s->port);
}

static bool fits(uint32_t kind, uint32_t family, uint32_t port)
{
	const bool has_port = kind != AIRLOCK_DOOR && kind != AIRLOCK_INSIDE;
	if (kind == 0 || kind >= AIRLOCK_KIND_COUNT || port > UINT16_MAX || has_port != (port != 0))
		return false;
	return kind == AIRLOCK_DOOR ? family == AF_UNIX : family == AF_INET || family == AF_INET6;
}

bool airlock_socket_get(struct wire_reader *r, struct airlock_socket *s)
{
	const uint32_t kind = wire_get_u32(r), family = wire_get_u32(r), port = wire_get_u32(r);
	if (r->bad || !fits(kind, family, port))
		return false;
	*s = (struct airlock_socket){.kind = (uint16_t)kind, .family = (uint16_t)family, .port = (uint16_t)port, .fd = -1};
	return true;
}

int airlock_receive(struct airlock *a, struct wire_msg *msg, struct cordon_error *err)
{
	struct wire_reader r = {.at = msg->body, .end = msg->body + msg->len};
	for (size_t i = 0; i < msg->fd_count; i++) {
		struct airlock_socket s;
		if (a->count == AIRLOCK_SOCKETS_MAX || !airlock_socket_get(&r, &s) || s.kind > AIRLOCK_PORT)
			return err_set(err, CORDON_ERR_SYSTEM, "the sandbox sent sockets that make no sense");
		s.fd = wire_take_fd(msg, i);
		a->sockets[a->count++] = s;
	}
	return wire_done(&r) ? 0 : err_set(err, CORDON_ERR_SYSTEM, "the sandbox sent fewer sockets than it announced");
}
