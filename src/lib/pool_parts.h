/* SPDX-License-Identifier: Apache-2.0 */
/* What pool.c (kinds, requests), pool_kind.c (what makes two requests alike), pool_rush.c (many requests at once) and pool_fill.c (the thread) share. */
#ifndef CORDON_LIB_POOL_PARTS_H
#define CORDON_LIB_POOL_PARTS_H

#include <sys/stat.h>

#include "lib/pool.h"

#define POOL_MAX 64                    /* parked, of all kinds, by default */
#define POOL_KINDS_MAX 64              /* the one that was not used for longest gives way */
#define POOL_MEMORY_SHARE 16           /* of the machine's memory, by default */
#define POOL_TICK_MS 1000              /* how often the thread looks */
#define POOL_IDLE_MS 60000             /* a kind that nobody asks for is given up */
#define POOL_AGE_MS 600000             /* nothing is parked for longer */
#define POOL_LISTED_AGE_MS 60000       /* … where the policy lists programs: the list is as old as the sandbox */
#define POOL_TWICE_MS 30000            /* two requests within this time: there will be a third */
#define POOL_PAUSE_MS 3                /* nobody has come or gone for so long: nobody is in a hurry */
#define POOL_CALM_MS 30                /* … or for so long: who comes next may begin a rush (pool_rush.c) */
#define POOL_RUSH_MS 100               /* which is over at the latest then */
#define POOL_ENDED_MAX 128             /* sandboxes that were given back and not ended yet */
#define POOL_GUESS ((uint64_t)1 << 20) /* of memory for one, where nothing says how much */

/* What has to be as it was when a sandbox was parked: the host's programs or the image, the workspace, the mounts. */
struct pool_stamp {
	uint64_t sum;
};

struct parked {
	struct cordon_sandbox *sandbox;
	struct pool_stamp stamp;
	int64_t born_ms;
	uint64_t bytes;
};

/* One sort of sandbox, and those of it that are parked, oldest first. */
struct kind {
	unsigned id;
	struct cordon_policy policy;
	struct cordon_sandbox_options options; /* with copies of all that it points to */
	char *language;                        /* NULL: no interpreter */
	unsigned least;                        /* as asked for by cordon_warm() */
	unsigned target;
	unsigned waiting;                      /* requests that wait for one, see struct pool.always */
	unsigned making;                       /* by the thread, now */
	unsigned failures;                     /* to make one */
	double rate;                           /* requests in a second, of late */
	int64_t rated_ms, asked_ms, before_ms; /* the last request, and the one before */
	int64_t retry_ms;                      /* after a failure: not before this, unless somebody waits */
	double make_ms;                        /* what making one takes, of late */
	uint64_t bytes;                        /* what one needs, the largest so far */
	bool listed;                           /* the policy lists programs */
	struct parked *items;
	unsigned count, size;
};

struct pool {
	struct cordon *ctx;
	pthread_mutex_t lock;
	pthread_cond_t wake;  /* the thread has something to do */
	pthread_cond_t moved; /* something was parked, or could not be */
	pthread_t thread;
	bool running, stop, pressed;
	bool look; /* at once, and not when it is time */
	int64_t looked_ms;
	const char *expected; /* see pool_expect() */
	bool always;          /* CORDON_POOL=1: every request is served by one that was parked, if it takes waiting for it */
	struct kind *kinds[POOL_KINDS_MAX];
	unsigned kind_count, next_id;
	unsigned max, parked;
	uint64_t max_bytes, bytes;
	uint64_t hits, misses, discarded;
	char *pressure; /* see pool_set_pressure() */
	/* pool_rush.c */
	int64_t stirred_ms, rush_ms; /* when somebody last came or left, and the first after a pause */
	unsigned makers, makers_max; /* requests that have a sandbox made; at most so many at a time */
	unsigned in_line, turns;     /* those that wait for it; turns that were handed on to them */
	pthread_cond_t turned;
	struct cordon_sandbox *ended[POOL_ENDED_MAX]; /* given back, to be ended */
	unsigned ended_count;
	struct cordon_error failed; /* why the last one could not be made */
};

int64_t pool_clock_ms(void);

/* pool_kind.c */
bool pool_can(const struct cordon_policy *policy, const struct cordon_sandbox_options *o);
struct kind *pool_kind_new(const struct cordon_policy *policy, const struct cordon_sandbox_options *o);
void pool_kind_free(struct kind *k);
bool pool_kind_is(const struct kind *k, const struct cordon_policy *policy, const struct cordon_sandbox_options *o);
struct pool_stamp pool_stamp_now(const struct cordon *ctx, const struct kind *k);
/* The image's name, NULL: the host's programs. */
const char *pool_image(const struct kind *k);
/* Whether an interpreter may start in one before anybody has asked for it: with nothing inside but the image, so that no code of anybody else runs unasked. */
bool pool_may_wait(const struct cordon_sandbox_options *o);

/* pool_rush.c, with the lock held */
/* Somebody has come, or is done. */
void pool_stir(struct pool *p, int64_t now);
/* 0: what is not urgent can be done; else ask again in so many milliseconds. */
int pool_rush_left(const struct pool *p, int64_t now);
/* Ends those that were given back; the lock is not held meanwhile. */
void pool_end_all(struct pool *p);

/* pool_fill.c, with the lock held */
int pool_start_thread(struct pool *p, struct cordon_error *err);
/* As many as are likely to be asked for while another is made. */
unsigned pool_target(const struct pool *p, const struct kind *k, int64_t now);
/* What the thread has to see to. */
unsigned pool_want(const struct kind *k);
bool pool_lives(const struct parked *one);
/* Takes item i out of its kind. */
struct parked pool_remove(struct pool *p, struct kind *k, unsigned i);

#endif
