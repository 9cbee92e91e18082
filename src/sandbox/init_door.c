/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door: how connections come into a sandbox without a wire that leads there. A socket belongs to the network that it was made in, wherever it is used from. So init makes
 * sockets, which are nothing yet, and passes them out to the broker (egress/inbound.c), which connects them to what listens inside.
 *
 * Whoever is behind the door can have nothing else here: one word is understood, and any other closes it. So does a broker that asks and does not take.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/airlock.h"
#include "sandbox/init_parts.h"

static void shut(struct init *in)
{
	cleanup_fd(&in->door);
	in->door = -1;
}

void init_door_take(struct init *in, struct wire_msg *msg)
{
	shut(in);
	if (msg->fd_count == 1 && msg->len == 0 && fcntl(msg->fds[0], F_SETFL, O_NONBLOCK) == 0)
		in->door = wire_take_fd(msg, 0);
}

/* One of each family that there is; none: the broker has to know that, too. */
static bool give(int door)
{
	static const uint16_t families[] = {AF_INET, AF_INET6};
	_cleanup_buf_ struct buf body = {0};
	int fds[ARRAY_SIZE(families)];
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		fds[n] = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fds[n] < 0)
			continue;
		airlock_socket_put(&body, &(struct airlock_socket){.kind = AIRLOCK_INSIDE, .family = families[i]});
		n++;
	}
	const bool given = wire_send(door, WIRE_AIRLOCK, &body, fds, n, NULL) == 0;
	while (n)
		close(fds[--n]);
	return given;
}

void init_door_answer(struct init *in)
{
	const int word = wire_recv_word(in->door, WIRE_DOOR);
	if (word == 0 || (word > 0 && !give(in->door)))
		shut(in);
}
