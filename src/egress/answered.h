/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the answers that a server has given, so that one of the broker's own is never taken for that of a request before. What cannot be followed is passed on all the same: then
 * it is just not known which requests have been answered.
 */
#ifndef CORDON_EGRESS_ANSWERED_H
#define CORDON_EGRESS_ANSWERED_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWERED_AHEAD 64 /* requests of one connection that wait for their answers; with more it is lost */

struct answered {
	llhttp_t parser;
	uint64_t requests, answers;
	uint64_t heads; /* those to HEAD, which have no body: bit by bit, the oldest at `answers` modulo 64 */
	bool lost;      /* for good */
};

/* Stays where it is from then on. */
void answered_init(struct answered *a);
/* A request goes to the server. */
void answered_request(struct answered *a, const char *method);
/* This came from it. */
void answered_feed(struct answered *a, const char *data, size_t len);

enum answered_state {
	ANSWERED_ALL,
	ANSWERED_SOME, /* there is more to come, of an answer or of others */
	ANSWERED_LOST, /* nobody knows */
};
enum answered_state answered_state(const struct answered *a);

#endif
