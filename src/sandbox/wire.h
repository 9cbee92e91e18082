/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between library, launcher and init: typed, length-capped, over SOCK_SEQPACKET with descriptors attached.
 *
 *   library ── CREATE | RELAYER | FREEZE ──▶ launcher  (one request socket; the socket for the answers travels in the message)
 *   library ◀─ CREATED ── launcher                     (over the sandbox's socket: pidfd and usage descriptors)
 *   library ◀─ AIRLOCK …, READY | ERROR ── init        (over the sandbox's socket from here on)
 *   library ── EXEC ──▶ init                           (an exec's own socket travels in the message)
 *   library ── DOOR ──▶ init                           (likewise: one to the broker, see init_door.c)
 *   library ◀─ STARTED | ERROR, EXITED ── init         (over the exec's socket)
 *   library ◀─ TRACE ── init or an exec's supervisor   (over the exec's socket, between STARTED and EXITED)
 *   library ── SIGNAL | CANCEL ──▶ init                (over the exec's socket; closing it ends the exec)
 *   library ◀─ PARKED ── init, library ── GO ──▶ init  (over the exec's socket: an interpreter that was started ahead, see init_parked.c)
 *
 * Since every reply comes over a socket that belongs to one sandbox or one exec, requests from many threads need no matching and no lock. Bodies over
 * WIRE_INLINE bytes (long argument lists) travel in a memfd. Every reader treats the other side as hostile: the launcher's decoder runs
 * with the caller's privileges, and init's replies come from inside the sandbox.
 */
#ifndef CORDON_SANDBOX_WIRE_H
#define CORDON_SANDBOX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum wire_type {
	WIRE_CREATE = 1, /* struct sandbox_spec; fds: the sandbox's socket */
	WIRE_CREATED,    /* struct created_msg; fds: see there */
	WIRE_READY,      /* nothing; fds of a live sandbox: its /app and /home/user, to be worked on from outside */
	WIRE_ERROR,      /* struct cordon_error */
	WIRE_EXEC,       /* struct exec_spec; fds: the exec's socket, then stdin, stdout, stderr (unless it gets a terminal) */
	WIRE_STARTED,    /* nothing; fds: the terminal's master, if one was asked for */
	WIRE_EXITED,     /* struct exited_msg */
	WIRE_SIGNAL,     /* u32 signal number */
	WIRE_CANCEL,     /* nothing */
	WIRE_RELAYER,    /* struct sandbox_spec: the layers that a live sandbox shows from now on; fds: a socket for READY or ERROR */
	WIRE_FREEZE,     /* struct freeze_msg; fds: a socket for READY or ERROR */
	WIRE_REQUEST,    /* struct keeper_request: from a command to the keeper of a live sandbox (keeper/protocol.h) */
	WIRE_REPLY,      /* struct keeper_reply */
	WIRE_TRACE,      /* events of trace.h */
	WIRE_GATE,       /* a question to the gate, or its answer (gate/messages.h) */
	WIRE_AIRLOCK,    /* struct airlock_socket, without its descriptor, for each of the descriptors that come with it */
	WIRE_BROKER,     /* egress/messages.h */
	WIRE_UNPARK,     /* struct freeze_msg: a sandbox that was made ahead is put to use; no answer */
	WIRE_DOOR,       /* nothing; fds: a socket to the broker. Over that one: none; the broker asks for sockets (init_door.c) */
	WIRE_GO,         /* struct go_spec: what a parked interpreter is to do; STARTED or ERROR answers it, or EXITED: it was dead */
	WIRE_PARKED,     /* nothing: it waits for that */
	WIRE_WARDEN,     /* warden/messages.h */
	WIRE_TYPE_COUNT,
};

#define WIRE_INLINE ((size_t)8 << 10)
#define WIRE_MAX ((size_t)16 << 20)
#define WIRE_MAX_FDS 8

struct wire_msg {
	enum wire_type type;
	char *body; /* owned */
	size_t len;
	int fds[WIRE_MAX_FDS]; /* owned; -1 once taken */
	size_t fd_count;
};

/* Sends one message. The descriptors stay the caller's. */
int wire_send(int sock, enum wire_type type, const struct buf *body, const int *fds, size_t fd_count, struct cordon_error *err);

/* Receives one. 1: got one, 0: the other side is gone, -1: error (EAGAIN in err->sys_errno on a non-blocking socket). */
int wire_recv(int sock, struct wire_msg *out, struct cordon_error *err);
/*
 * The same for one that can be nothing but a word: no body, no descriptors, and whatever else came is thrown away by the kernel. Does not wait. 1: it came, 0: the other side is
 * gone, or said something else; -1: nothing is there.
 */
int wire_recv_word(int sock, enum wire_type type);
void wire_msg_free(struct wire_msg *msg);
#define _cleanup_msg_ __attribute__((cleanup(wire_msg_free)))

/* Descriptor i of the message, now the caller's; -1 if there is none. */
int wire_take_fd(struct wire_msg *msg, size_t i);

void wire_put_u32(struct buf *b, uint32_t v);
void wire_put_u64(struct buf *b, uint64_t v);
void wire_put_bytes(struct buf *b, const void *data, size_t len);
void wire_put_str(struct buf *b, const char *s); /* NULL stays NULL */

/* Reads from a body; after the first fault every get returns 0 or NULL and `bad` is set. What is returned points into the body. */
struct wire_reader {
	const char *at, *end;
	bool bad;
};
uint32_t wire_get_u32(struct wire_reader *r);
uint64_t wire_get_u64(struct wire_reader *r);
const void *wire_get_bytes(struct wire_reader *r, size_t *len);
const char *wire_get_str(struct wire_reader *r);
/* A count that will be followed by at least min_size bytes each: refuses what the rest of the body cannot hold. */
uint32_t wire_get_count(struct wire_reader *r, size_t min_size, uint32_t max);
/* True if everything was read and nothing was wrong. */
bool wire_done(const struct wire_reader *r);

#endif
