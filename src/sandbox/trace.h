/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the programs that a command starts inside its sandbox, for the audit: one event for each execve(2) that found its program.
 *
 * An event is a record, never a decision: path and arguments were read from the caller's memory while it waited for its call to go on, and another of its
 * threads can change them before the kernel reads them again. What the kernel lets run is decided by mounts, Landlock and the filter.
 *
 * It is sent when its process has ended, or calls execve again, or when the exec as a whole is over; all of them come before the word that it is
 * (WIRE_EXITED). An execve that fails leaves none, as far as that can be known (execs.h), but for DENIED.
 */
#ifndef CORDON_SANDBOX_TRACE_H
#define CORDON_SANDBOX_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/spec.h"
#include "sandbox/wire.h"

#define TRACE_PATH_MAX ((size_t)4096) /* with its NUL */
#define TRACE_ARGV_MAX ((size_t)4096) /* with their NULs */
#define TRACE_WORDS_MAX 64u
#define TRACE_TEXT_MAX ((size_t)7424) /* both: an event fits into one message without a memfd */
#define TRACE_MOST 20000u             /* events of one exec; the rest is counted */
#define TRACE_UNKNOWN (-1)            /* no status of wait4(2) is negative */

enum trace_kind {
	TRACE_EXEC = 1, /* a program was started */
	TRACE_DENIED,   /* it exists, and the policy does not let it be started; "fork": nor another process */
	TRACE_LOST,     /* further ones were not recorded: `lost`, 0 if nobody knows how many */
	TRACE_KIND_COUNT,
};

enum trace_flags {
	TRACE_CUT = 1 << 0,     /* path or argv are longer than is kept */
	TRACE_BY_EXEC = 1 << 1, /* ended by another execve of the same process */
	TRACE_RUNNING = 1 << 2, /* ran until the end of the whole exec, which killed it */
	TRACE_FLAGS_ALL = (1 << 3) - 1,
};

struct trace_event {
	enum trace_kind kind;
	uint32_t flags;
	uint64_t seq;         /* from 1 on, ascending in one exec; one that comes again is the same event */
	uint64_t time_us;     /* CLOCK_REALTIME of the call */
	uint64_t duration_us; /* until it ended */
	uint64_t lost;
	int32_t pid, ppid; /* inside */
	int32_t status;    /* as from wait4(2), or TRACE_UNKNOWN: before Linux 6.15 it is known only if we were faster than the parent */
	const char *path;
	struct string_list argv;
};

/* The body of a WIRE_TRACE holds one event after the other. What is got points into the body; 1: got one, 0: no more, -1: malformed. */
int trace_next(struct wire_reader *r, struct trace_event *out);
void trace_event_free(struct trace_event *e);

/* ---- while they are collected --------------------------------------------------------------------------------------------------- */

enum trace_state { TRACE_SLOT_FREE, TRACE_SLOT_OPEN, TRACE_SLOT_ENDED };

struct trace_slot {
	uint32_t state, kind, flags;
	int32_t pid, ppid, status;
	uint32_t path_len, argv_len; /* with NULs, both in text */
	uint64_t seq, time_us, begun_us, duration_us;
	uint64_t stack;                 /* execs.c: which program the process ran before, */
	uint32_t forked, unsure, dying; /* … and what else is known of it */
	char text[TRACE_TEXT_MAX];
};

#define TRACE_SLOTS 512u /* processes at a time; further ones push out the oldest, unended */

/*
 * Shared between init and an exec's supervisor (supervisor.h), who fills it. When the supervisor is gone, for whatever reason, init reads what is left here
 * and sends it.
 */
struct trace_table {
	uint64_t answering; /* the notification that was received and not answered, 0: none */
	uint64_t seq, seen, lost, forks;
	uint32_t used; /* slots from there on were never used */
	struct trace_slot slots[TRACE_SLOTS];
};

/* Puts one event behind the others; bounds and NULs are made sure of. A number is given to it at the first time. */
void trace_put(struct buf *b, struct trace_table *t, struct trace_slot *s);
void trace_put_lost(struct buf *b, uint64_t seq, uint64_t lost);

/* The processes that are still open end now (CLOCK_MONOTONIC), with the exec. */
void trace_close(struct trace_table *t, uint64_t now_us);

/* Sends the events that have ended, as long as the library reads: false if it has to read more first. Adds how many were sent. */
bool trace_send(int sock, struct trace_table *t, size_t *sent);

/* No event is longer than this. */
#define TRACE_EVENT_MAX (TRACE_TEXT_MAX + TRACE_WORDS_MAX * sizeof(uint32_t) + 96)

#endif
