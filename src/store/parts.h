/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. Not for others: those have store.h. */
#ifndef CORDON_STORE_PARTS_H
#define CORDON_STORE_PARTS_H

#include <pthread.h>
#include <stdbool.h>

#include "store/place.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "store/write.h"

struct store {
	struct place place;
	struct writer writer;
	struct db reader; /* of its own, so that who reads does not wait for a sync: with a WAL neither keeps the other */
	pthread_mutex_t reading;
	pthread_mutex_t door; /* of those below */
	pthread_cond_t left;
	size_t inside; /* calls that are under way */
	bool closing;
};

/* Every call is between these two: the store is not closed under it. Fails once it is being closed. */
int store_enter(struct store *s, struct cordon_error *err);
void store_leave(struct store *s);

/* fn with the connection that only reads; it must not change anything. */
int store_read(struct store *s, store_fn *fn, void *arg, struct cordon_error *err);
int store_write(struct store *s, store_fn *fn, void *arg, struct cordon_error *err);

#define STORE_PAGE 64 /* rows that a list reads at a time: what is called with them is called without the lock */

/* ---- what comes from outside --------------------------------------------------------------------------------------------------- */

#define STORE_TIME_MAX (INT64_C(1) << 53) /* also for durations: two of them can be added */

/* `what`: how the message calls it. */
int store_check_time(const char *what, int64_t ms, struct cordon_error *err);
/* From min to max bytes of UTF-8, without control characters. */
int store_check_text(const char *what, const char *text, size_t min, size_t max, struct cordon_error *err);
int store_check_blob(const char *what, size_t len, struct cordon_error *err);
/* That SQLite can hold it. */
int store_check_number(const char *what, uint64_t v, struct cordon_error *err);
void store_uuid(char out[STORE_UUID_LEN + 1]);

/* ---- jobs ---------------------------------------------------------------------------------------------------------------------- */

#define JOB_COLUMNS                                                                                                                              \
	"seq, id, tenant, key, state, reason, priority, tries, tries_max, repeatable, cancel, node, lease_ms, created_ms, started_ms, ended_ms," \
	" not_before_ms, keep_ms"
#define JOB_BLOBS "(SELECT data FROM requests WHERE job = seq), (SELECT data FROM results WHERE job = seq)"

/* From a row of JOB_COLUMNS; request and result are NULL. */
int job_from_row(struct query *q, struct store_job *out, struct cordon_error *err);
/* From a row of JOB_COLUMNS ", " JOB_BLOBS. */
int job_from_whole_row(struct query *q, struct store_job *out, struct cordon_error *err);

/* The statements by which a claim finds its job, for a test to look at their plans. The last one is NULL. */
extern const char *const store_claim_queries[];

#endif
