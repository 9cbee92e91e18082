/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"

int socket_failure(int fd)
{
	int failure = 0;
	socklen_t len = sizeof(failure);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) < 0 ? errno : failure;
}

/* Small writes go at once, as they were made; a peer that is gone is noticed within some minutes; urgent bytes are bytes like others. */
void socket_tune(int fd)
{
	static const int options[][3] = {{IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},    {SOL_SOCKET, SO_OOBINLINE, 1},
	                                 {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 20}, {IPPROTO_TCP, TCP_KEEPCNT, 6}};
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int));
}

/*
 * The kernel gives a fast stream the buffers that it needs, which is some MB, of memory that all of the host has in common (tcp_mem in tcp(7)): that is for a few. `open`: how many connections there
 * are.
 */
void socket_bound_buffers(int fd, uint32_t open)
{
	static const struct {
		uint32_t beyond;
		int bytes;
	} bounds[] = {{256, 32 << 10}, {64, 128 << 10}, {16, 512 << 10}};
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		if (open <= bounds[i].beyond)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bounds[i].bytes, sizeof(int));
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bounds[i].bytes, sizeof(int));
		return;
	}
}

void socket_reset_unless_closed(int fd)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void socket_close(int fd, bool reset)
{
	const struct linger regular = {.l_onoff = 0, .l_linger = 0};
	if (fd < 0)
		return;
	if (reset)
		socket_reset_unless_closed(fd);
	else
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &regular, sizeof(regular));
	close(fd);
}
