/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way out of a sandbox that leads to nobody but the broker (egress/): a second network namespace, the airlock, joined to the sandbox's own by a pair of
 * interfaces. In the sandbox, the airlock's blocks of addresses (egress/addresses.h) and those that the policy names are the only things routed; in the airlock, they
 * are all local, so that a socket which listens there accepts what was meant for any of them, and getsockname(2) tells for which.
 *
 * No process lives in the airlock: its sockets, made here, are passed out, and hold it. There is no route from it to anywhere, no address translation and no
 * firewall rule: what has no socket is refused by the kernel.
 */
#ifndef CORDON_SANDBOX_AIRLOCK_H
#define CORDON_SANDBOX_AIRLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/wire.h"

#define AIRLOCK_PORTS_MAX 64
#define AIRLOCK_BLOCKS_MAX 64
#define AIRLOCK_SOCKETS_MAX (2 * AIRLOCK_PORTS_MAX + 4)

struct airlock_block {  /* of addresses that are routed into the airlock, too */
	uint8_t family; /* AF_INET, AF_INET6 */
	uint8_t bits;
	uint8_t address[16];
};

struct airlock_spec {
	uint16_t ports[AIRLOCK_PORTS_MAX]; /* without any there is no airlock */
	uint32_t port_count;
	struct airlock_block blocks[AIRLOCK_BLOCKS_MAX];
	uint32_t block_count;
};

enum airlock_kind {
	AIRLOCK_DNS_UDP = 1,
	AIRLOCK_DNS_TCP,
	AIRLOCK_PORT,
	/* … and what leads into a sandbox, beside the airlock (sandbox/init_door.c, lib/publish.h) */
	AIRLOCK_DOOR,      /* AF_UNIX: to init, which makes sockets */
	AIRLOCK_INSIDE,    /* such a one: TCP, of the sandbox's network, not connected */
	AIRLOCK_PUBLISHED, /* listens on the host's loopback; port: the one inside */
	AIRLOCK_KIND_COUNT,
};

struct airlock_socket {
	uint16_t kind;   /* enum airlock_kind */
	uint16_t family; /* AF_INET, or AF_INET6 and nothing else */
	uint16_t port;   /* 0: it has none */
	int fd;          /* listens, or is bound; does not block */
};

struct airlock {
	struct airlock_socket sockets[AIRLOCK_SOCKETS_MAX];
	size_t count;
};

/*
 * The caller is in a network namespace of its own: it becomes the airlock, and the caller is in a new one afterwards, joined to it, with the loopback interface
 * down. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN there. -1: errno, and *what was being done.
 */
int airlock_make(const struct airlock_spec *spec, struct airlock *out, const char **what);
void airlock_close(struct airlock *a);

/* Passes the sockets out, in WIRE_AIRLOCK messages, and closes them; and takes what such a message brings, into the rest of the array. */
int airlock_send(struct airlock *a, int sock, struct cordon_error *err);
int airlock_receive(struct airlock *a, struct wire_msg *msg, struct cordon_error *err);
/* What one of them is, without its descriptor. */
void airlock_socket_put(struct buf *b, const struct airlock_socket *s);
bool airlock_socket_get(struct wire_reader *r, struct airlock_socket *s);

#endif
