/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread that writes. A sync to disk takes milliseconds and SQLite has one writer at a time, so whoever wants something written hands it over
 * and waits; all that wait meanwhile go into one transaction, with one sync, and are woken together.
 */
#ifndef CORDON_STORE_WRITE_H
#define CORDON_STORE_WRITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/sqlite.h"

#define WRITE_TOGETHER 128 /* calls in a transaction: nobody waits for more than that many others */

/*
 * What is to be done with the database: 0 or more if it is done, -1 if it failed; what it did is undone then. It may be called more than once, each
 * time with everything undone that it did before, and in another thread than the one that handed it over, which waits.
 */
typedef int store_fn(struct db *db, void *arg, struct cordon_error *err);

struct write_call;

struct writer {
	struct db db; /* the thread's, as long as it runs */
	pthread_t thread;
	pthread_mutex_t mutex; /* of everything below */
	pthread_cond_t work, done;
	struct write_call *first, **last;
	size_t waiting; /* calls that the thread has not taken yet */
	bool closing;
};

/* w->db is open. */
int writer_start(struct writer *w, struct cordon_error *err);
/* What was handed over is done before. Nobody may hand over anything any more: store_close() sees to that. Closes w->db. */
void writer_stop(struct writer *w);

/* What fn returned, when it is on disk; -1 if it failed, or the transaction did. */
int writer_call(struct writer *w, store_fn *fn, void *arg, struct cordon_error *err);

#endif
