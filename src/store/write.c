/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Each call runs in a savepoint: one that fails undoes itself only. The transaction's end is everybody's: if COMMIT fails (the
 * disk is full) all of them have failed, since nothing of any is stored. There are errors after which SQLite undoes the whole transaction by itself
 * (no memory, no room, see https://www.sqlite.org/lang_transaction.html): the call that met it has failed, and the others are done again, each
 * alone, so that nobody fails for another's megabytes.
 */
#include "store/write.h"

#include <errno.h>
#include <signal.h>

struct write_call {
	struct write_call *next;
	store_fn *fn;
	void *arg;
	int result;
	bool done;
	struct cordon_error err;
};

/* ---- in the thread ------------------------------------------------------------------------------------------------------------- */

static int run(struct db *db, const char *sql, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, sql);

	return query_run(&q, err);
}

static bool in_transaction(const struct db *db)
{
	return !sqlite3_get_autocommit(db->handle);
}

/* Prepared at the start (writer_start): when it is needed there may be no memory for it. */
static const char rollback[] = "ROLLBACK";

static void undo_all(struct db *db)
{
	if (in_transaction(db))
		run(db, rollback, NULL);
}

/* False: there is no transaction any more, and the call has failed. */
static bool run_call(struct db *db, struct write_call *c)
{
	c->err = (struct cordon_error){0};
	c->result = run(db, "SAVEPOINT call", &c->err);
	if (c->result < 0)
		return in_transaction(db);
	c->result = c->fn(db, c->arg, &c->err);
	const bool failed = c->result < 0;
	if (in_transaction(db) && (!failed || run(db, "ROLLBACK TO call", NULL) == 0) &&
	    run(db, "RELEASE call", failed ? NULL : &c->err) == 0)
		return true;
	undo_all(db);
	if (!failed && c->err.code == CORDON_OK)
		err_set(&c->err, CORDON_ERR_SYSTEM, "the store has undone the transaction");
	c->result = -1;
	return false;
}

static void fail(struct write_call *c, const struct cordon_error *why)
{
	if (c->result < 0)
		return; /* it has its own reason */
	c->result = -1;
	c->err = *why;
}

/* NULL, or the call that took the transaction with it: nothing of any is stored then. */
static struct write_call *run_together(struct db *db, struct write_call *calls)
{
	struct cordon_error why = {0};
	struct write_call *c;
	int r;

	for (c = calls; c; c = c->next)
		c->result = 0;
	undo_all(db); /* should the last one not have been: what is told to have failed must never be stored */
	r = run(db, "BEGIN IMMEDIATE", &why);
	for (c = calls; r == 0 && c; c = c->next)
		if (!run_call(db, c))
			return c;
	if (r == 0)
		r = run(db, "COMMIT", &why);
	if (r == 0)
		return NULL;
	undo_all(db);
	for (c = calls; c; c = c->next)
		fail(c, &why);
	return NULL;
}

static void run_all(struct db *db, struct write_call *calls)
{
	const struct write_call *culprit = run_together(db, calls);

	if (!culprit)
		return;
	for (struct write_call *c = calls, *next; c; c = next) {
		next = c->next;
		c->next = NULL; /* alone */
		if (c != culprit)
			run_together(db, c);
		c->next = next;
	}
}

/* Takes those that have waited longest. */
static struct write_call *take(struct writer *w)
{
	struct write_call *first = w->first, **end = &w->first;
	size_t n = 0;

	for (; *end && n < WRITE_TOGETHER; n++)
		end = &(*end)->next;
	w->first = *end;
	*end = NULL;
	if (!w->first)
		w->last = &w->first;
	w->waiting -= n;
	return first;
}

static void *write_on(void *arg)
{
	struct writer *w = arg;

	pthread_mutex_lock(&w->mutex);
	for (;;) {
		while (!w->first && !w->closing)
			pthread_cond_wait(&w->work, &w->mutex);
		if (!w->first)
			break;
		struct write_call *calls = take(w);
		pthread_mutex_unlock(&w->mutex);
		run_all(&w->db, calls);
		pthread_mutex_lock(&w->mutex);
		for (struct write_call *c = calls, *next; c; c = next) {
			next = c->next; /* it is its caller's as soon as it is done and we wait again */
			c->done = true;
		}
		pthread_cond_broadcast(&w->done);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

/* ---- outside ------------------------------------------------------------------------------------------------------------------- */

int writer_start(struct writer *w, struct cordon_error *err)
{
	struct query prepared = query_new(&w->db, rollback);
	sigset_t all, before;

	if (prepared.rc != SQLITE_OK)
		return db_error(&w->db, prepared.rc, err);
	query_end(&prepared);
	w->last = &w->first;
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->done, NULL);
	sigfillset(&all); /* signals are for the threads of the program */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int failure = pthread_create(&w->thread, NULL, write_on, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure == 0)
		return 0;
	errno = failure;
	return err_sys(err, "cannot start the thread that writes to the store");
}

void writer_stop(struct writer *w)
{
	pthread_mutex_lock(&w->mutex);
	w->closing = true;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->mutex);
	pthread_join(w->thread, NULL);
	db_close(&w->db);
	pthread_cond_destroy(&w->done);
	pthread_cond_destroy(&w->work);
	pthread_mutex_destroy(&w->mutex);
}

int writer_call(struct writer *w, store_fn *fn, void *arg, struct cordon_error *err)
{
	struct write_call c = {.fn = fn, .arg = arg};

	pthread_mutex_lock(&w->mutex);
	w->waiting++;
	*w->last = &c;
	w->last = &c.next;
	pthread_cond_signal(&w->work);
	while (!c.done)
		pthread_cond_wait(&w->done, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
	if (c.result < 0 && err)
		*err = c.err;
	return c.result;
}
