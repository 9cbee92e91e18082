/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes for splice(2). A connection has one only while there is something in it: a thousand connections that are silent need none. A few are large, which is what a single
 * fast stream wants; the kernel counts their pages per user (pipe-user-pages-soft in proc(5)), and all brokers of a host may have the same one.
 */
#ifndef CORDON_EGRESS_PIPES_H
#define CORDON_EGRESS_PIPES_H

#include <stdbool.h>
#include <stddef.h>

#define PIPES_LARGE ((size_t)256 << 10) /* bytes in a large one */

struct pipe {
	int in, out; /* it is written to `in` and read from `out` */
	bool large;
	struct pipe *next;
};

struct pipes {
	struct pipe *spare;
	size_t spare_count, large_count;
};

/* An empty one; NULL with errno. */
struct pipe *pipes_take(struct pipes *p);
/* is_empty: it can be used again. */
void pipes_give(struct pipes *p, struct pipe *pipe, bool is_empty);
void pipes_clear(struct pipes *p);

#endif
