/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of cordon-gate, and its answers. The texts are whatever somebody wants to run, so they are parsed by a process of its own, with no rights at all:
 * its answers are decoded as hostile input, and if it dies or does not answer the verdict is "unproven".
 *
 *   caller ── config ──▶ gate     once
 *   caller ◀─ result ── gate      empty: the gate is open
 *   caller ── question ──▶ gate   any number of times
 *   caller ◀─ result ── gate
 *
 * Each is a wire message (sandbox/wire.h) of type WIRE_GATE, or WIRE_ERROR instead of the first result.
 */
#ifndef CORDON_GATE_MESSAGES_H
#define CORDON_GATE_MESSAGES_H

#include "gate/gate.h"
#include "sandbox/spec.h"

#define GATE_FD 3 /* the socket, in the gate's process */

struct gate_asked {
	bool is_argv;
	enum gate_language language; /* of a text */
	const char *text;
	size_t len;
	struct string_list argv; /* its array is to be freed */
};

void gate_config_encode(const struct gate_config *c, struct buf *out);
/* Points into the body; the arrays are to be released with gate_config_free(). */
int gate_config_decode(const void *body, size_t len, struct gate_config *out, struct cordon_error *err);
void gate_config_free(struct gate_config *c);

void gate_asked_encode(const struct gate_asked *q, struct buf *out);
int gate_asked_decode(const void *body, size_t len, struct gate_asked *out, struct cordon_error *err);

void gate_result_encode(const struct gate_result *r, struct buf *out);
/* Points into the body; the array is to be freed. */
int gate_result_decode(const void *body, size_t len, struct gate_result *out, struct cordon_error *err);

#endif
