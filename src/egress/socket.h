/* SPDX-License-Identifier: Apache-2.0 */
/* Connected sockets: how they are set up, watched and closed, whoever has them. */
#ifndef CORDON_EGRESS_SOCKET_H
#define CORDON_EGRESS_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/* What has gone wrong with it: an errno, 0: nothing. Asking clears it. */
int socket_failure(int fd);

/* Small writes go at once, a peer that is gone is noticed, urgent bytes are bytes like others. */
void socket_tune(int fd);
void socket_bound_buffers(int fd, uint32_t open); /* open: how many connections there are */

/* If this process is killed, the other side gets a reset: what was cut off must not look as if it were whole. */
void socket_reset_unless_closed(int fd);
/* Closes a connection, -1: none; reset: so that the other side gets a reset. */
void socket_close(int fd, bool reset);

#endif
