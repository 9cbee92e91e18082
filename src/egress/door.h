/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's side of the door into a sandbox (sandbox/init_door.c): init makes sockets in the sandbox's network and passes them out. A few are asked for ahead, so that who
 * comes need not wait.
 *
 * Init is inside, and nobody knows what has become of it: a socket that is not what was asked for, or anything that is no answer, shuts the door for good. Nothing here waits
 * for it.
 *
 * It also keeps what it passes out, if it likes: O_NONBLOCK, SO_LINGER, all that is the socket's and not the descriptor's, it can change at any time. So who uses such a
 * socket says with every call that it does not wait (MSG_DONTWAIT), to connect as well: connect(2) cannot be told (door_connect()). What remains: close(2) of the last
 * descriptor waits for what was not sent yet if SO_LINGER says so, which is set right before; init would have to set it, and to close its own, just between the two.
 */
#ifndef CORDON_EGRESS_DOOR_H
#define CORDON_EGRESS_DOOR_H

#include <event2/event.h>
#include <stddef.h>
#include <sys/socket.h>

#define DOOR_STOCK 4      /* pairs that are there before anybody comes */
#define DOOR_PAUSE_S 1    /* before an init that had none is asked again */
#define DOOR_ASKED_MAX 64 /* questions that init has not answered yet: these fit into a socket's buffer */

enum { DOOR_V4, DOOR_V6, DOOR_FAMILIES };

/* Sockets of the sandbox, neither bound nor connected, that do not block. */
struct door_pair {
	int fds[DOOR_FAMILIES]; /* -1: none */
};
#define DOOR_PAIR_NONE ((struct door_pair){{-1, -1}})
void door_pair_close(struct door_pair *p);

enum door_answer {
	DOOR_GIVEN,
	DOOR_LATER, /* none is there: `changed` tells when it is worth asking again */
	DOOR_NONE,  /* init could not make any for one of those that door_need() told of */
	DOOR_SHUT,
};

struct door;
/* Takes fd over. changed: not called out of any of these. NULL: out of memory, and nothing was taken over. */
struct door *door_new(struct event_base *base, int fd, void (*changed)(void *arg), void *arg);
void door_free(struct door *d);

/* How many wait for a pair: as many are asked for, and some ahead. */
void door_need(struct door *d, size_t waiting);
enum door_answer door_take(struct door *d, struct door_pair *out);

/* Connects a socket of a pair. As connect(2) does that does not block: -1 and EINPROGRESS, and it becomes writable. */
int door_connect(int fd, const struct sockaddr *to, socklen_t len);

#endif
