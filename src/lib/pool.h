/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that were made ahead. A parked one is whole: namespaces, mounts, limits, its init, and in it a child that waits for nothing but a command (sandbox/init_parts.h);
 * it is used once and never again. Each belongs to a kind: one policy, one image, one set of options, compared word by word. A request that no parked one fits, because
 * there are none, or its workspace, its mounts or the host's programs are others by now, is served by a cold start: the pool makes requests faster, never different, and never
 * makes one fail.
 *
 * Theory of operation. One thread per context fills the pool, by the same code that serves a request. It is started when something is to be parked, has all signals blocked,
 * and looks every second whether it should hold more or less: as many of a kind as are likely to be asked for while others are made, by the rate of late; none of a kind
 * that nobody has asked for in a minute; none at all while the machine is short of memory. Whoever dies in the pool is replaced. All fields are by the lock; sandboxes are made
 * and ended without it.
 */
#ifndef CORDON_LIB_POOL_H
#define CORDON_LIB_POOL_H

#include "lib/exec.h"

struct pool;

struct pool *pool_new(struct cordon *ctx);
/* Ends the thread and what is parked. NULL is fine. */
void pool_free(struct pool *p);

/* One that fits, for the caller to keep; NULL: there is none. Either way the request was counted. */
struct cordon_sandbox *pool_take(struct pool *p, const struct cordon_policy *policy, const struct cordon_sandbox_options *o);

/* Around the making of one that was not parked: no more are made at a time than is of use. NULL is fine. */
void pool_turn_begin(struct pool *p);
void pool_turn_end(struct pool *p);

/* One in which nothing runs any more, to be ended when nobody is in a hurry; false: the caller has to do it. NULL is fine. */
bool pool_end(struct pool *p, struct cordon_sandbox *s);

/* Code of this language runs in a sandbox that came from such a request: those that are parked from now on have an interpreter ready. */
void pool_learn(struct pool *p, const struct cordon_sandbox *s, const char *language);

/* The next requests are for code of this language; counts only where each waits for a parked sandbox (CORDON_POOL=1). The text stays the caller's. */
void pool_expect(struct pool *p, const char *language);

int pool_warm(struct pool *p, const struct cordon_policy *policy, const struct cordon_sandbox_options *o, const char *language,
              unsigned count, struct cordon_error *err);
void pool_limit(struct pool *p, unsigned sandboxes, uint64_t bytes);
void pool_info(struct pool *p, struct cordon_pool_info *out);

/* For tests: where to read how short of memory the machine is, instead of /proc/pressure/memory; and a look at it now. */
int pool_set_pressure(struct pool *p, const char *path);
void pool_look(struct pool *p);

/* "some avg10=…" of such a file, in percent; 0 if it says nothing. */
double pool_pressure(const char *path);

#endif
