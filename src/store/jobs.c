/* SPDX-License-Identifier: Apache-2.0 */
/* One job: its row, its beginning, and what can be asked of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "store/parts.h"

#define PRIORITY_MAX 100

void store_job_clear(struct store_job *j)
{
	free(j->request);
	free(j->result);
	*j = (struct store_job){0};
}

const char *store_job_state_name(enum store_job_state state)
{
	switch (state) {
	case STORE_QUEUED:
		return "queued";
	case STORE_RUNNING:
		return "running";
	case STORE_SUCCEEDED:
		return "succeeded";
	case STORE_FAILED:
		return "failed";
	default:
		return "unknown";
	}
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------- */

enum {
	SEQ,
	ID,
	TENANT,
	KEY,
	STATE,
	REASON,
	PRIORITY,
	TRIES,
	TRIES_MAX,
	REPEATABLE,
	CANCEL,
	NODE,
	LEASE,
	CREATED,
	STARTED,
	ENDED,
	NOT_BEFORE,
	KEEP,
	REQUEST,
	RESULT
};

int job_from_row(struct query *q, struct store_job *out, struct cordon_error *err)
{
	*out = (struct store_job){
		.seq = (uint64_t)query_int_at(q, SEQ),
		.state = (enum store_job_state)query_int_at(q, STATE),
		.priority = (int)query_int_at(q, PRIORITY),
		.tries = (unsigned)query_int_at(q, TRIES),
		.tries_max = (unsigned)query_int_at(q, TRIES_MAX),
		.repeatable = query_int_at(q, REPEATABLE) != 0,
		.cancel = query_int_at(q, CANCEL) != 0,
		.lease_ms = query_int_at(q, LEASE),
		.created_ms = query_int_at(q, CREATED),
		.started_ms = query_int_at(q, STARTED),
		.ended_ms = query_int_at(q, ENDED),
		.not_before_ms = query_int_at(q, NOT_BEFORE),
		.keep_ms = query_int_at(q, KEEP),
	};
	query_text_at(q, ID, out->id, sizeof(out->id));
	query_text_at(q, TENANT, out->tenant, sizeof(out->tenant));
	query_text_at(q, KEY, out->key, sizeof(out->key));
	query_text_at(q, REASON, out->reason, sizeof(out->reason));
	query_text_at(q, NODE, out->node, sizeof(out->node));
	return query_sound(q, err);
}

int job_from_whole_row(struct query *q, struct store_job *out, struct cordon_error *err)
{
	if (job_from_row(q, out, err) == 0 && query_blob_at(q, REQUEST, &out->request, &out->request_len, err) == 0 &&
	    query_blob_at(q, RESULT, &out->result, &out->result_len, err) == 0)
		return 0;
	store_job_clear(out);
	return -1;
}

/* ---- add ----------------------------------------------------------------------------------------------------------------------- */

struct adding {
	struct store_job job; /* request: the caller's */
	uint64_t queue_max;
};

static int check_job(const struct store_job *j, struct cordon_error *err)
{
	if (j->priority < -PRIORITY_MAX || j->priority > PRIORITY_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the priority is from %d to %d", -PRIORITY_MAX, PRIORITY_MAX);
	if (!j->request && j->request_len)
		return err_set(err, CORDON_ERR_INPUT, "the request is missing");
	return store_check_blob("the request", j->request_len, err) < 0 ||
	                       store_check_time("how long the result is kept", j->keep_ms, err) < 0
	               ? -1
	               : 0;
}

static int full(const char *whose, uint64_t max, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_BUSY, "%" PRIu64 " jobs %s wait already", max, whose);
	return err_hint(err, "try again when some of them have begun");
}

/* The numbers stand in the tenant's row and in one other: nothing is counted here. */
static int check_room(struct db *db, const struct adding *a, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(
		db,
		"SELECT queued, quota_queued, (SELECT queued FROM totals WHERE one = 1), EXISTS (SELECT 1 FROM keys WHERE id = ?2 AND tenant = ?1)"
		" FROM tenants WHERE id = ?1");

	query_text(&q, a->job.tenant);
	query_text(&q, a->job.key);
	const int r = query_next(&q, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no tenant with the id %s", a->job.tenant);
	if (a->job.key[0] && !query_int_at(&q, 3))
		return err_set(err, CORDON_ERR_NOT_FOUND, "the tenant %s has no key with the id %s", a->job.tenant, a->job.key);
	const uint64_t queued = (uint64_t)query_int_at(&q, 0), quota = (uint64_t)query_int_at(&q, 1), all = (uint64_t)query_int_at(&q, 2);
	if (quota && queued >= quota)
		return full("of this tenant", quota, err);
	if (a->queue_max && all >= a->queue_max)
		return full("in all", a->queue_max, err);
	return 0;
}

static int insert_job(struct db *db, struct store_job *j, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(
		db,
		"INSERT INTO jobs (id, tenant, key, priority, tries_max, repeatable, created_ms, keep_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");

	query_text(&q, j->id);
	query_text(&q, j->tenant);
	query_text(&q, j->key);
	query_int(&q, j->priority);
	query_int(&q, j->tries_max);
	query_int(&q, j->repeatable);
	query_int(&q, j->created_ms);
	query_int(&q, j->keep_ms);
	if (query_run(&q, err) < 0)
		return -1;
	j->seq = (uint64_t)sqlite3_last_insert_rowid(db->handle);
	return 0;
}

static int add(struct db *db, void *arg, struct cordon_error *err)
{
	struct adding *a = arg;

	if (check_room(db, a, err) < 0 || insert_job(db, &a->job, err) < 0)
		return -1;
	_cleanup_query_ struct query q = query_new(db, "INSERT INTO requests (job, data) VALUES (?1, ?2)");
	query_int(&q, (int64_t)a->job.seq);
	query_blob(&q, a->job.request ? a->job.request : "", a->job.request_len);
	return query_run(&q, err);
}

int store_job_add(struct store *s, struct store_job *j, uint64_t queue_max, int64_t now_ms, struct cordon_error *err)
{
	if (check_job(j, err) < 0 || store_check_time("the time", now_ms, err) < 0)
		return -1;
	struct adding a = {.queue_max = queue_max,
	                   .job = {.state = STORE_QUEUED,
	                           .priority = j->priority,
	                           .tries_max = MAX(j->tries_max, 1U),
	                           .repeatable = j->repeatable,
	                           .request = j->request,
	                           .request_len = j->request_len,
	                           .created_ms = now_ms,
	                           .keep_ms = j->keep_ms}};
	memcpy(a.job.tenant, j->tenant, sizeof(a.job.tenant));
	memcpy(a.job.key, j->key, sizeof(a.job.key));
	store_uuid(a.job.id);
	if (store_write(s, add, &a, err) < 0)
		return -1;
	*j = a.job;
	return 0;
}

/* ---- get ----------------------------------------------------------------------------------------------------------------------- */

struct getting {
	const char *tenant, *id;
	struct store_job *out;
};

static int get(struct db *db, void *arg, struct cordon_error *err)
{
	const struct getting *g = arg;
	_cleanup_query_ struct query q =
		query_new(db, "SELECT " JOB_COLUMNS ", " JOB_BLOBS " FROM jobs WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");

	query_text(&q, g->id);
	query_text(&q, g->tenant);
	const int r = query_next(&q, err);
	return r > 0 && job_from_whole_row(&q, g->out, err) < 0 ? -1 : r;
}

int store_job_get(struct store *s, const char *tenant, const char *id, struct store_job *out, struct cordon_error *err)
{
	*out = (struct store_job){0};
	if (!id || strnlen(id, STORE_UUID_LEN + 1) != STORE_UUID_LEN)
		return 0;
	return store_read(s, get, &(struct getting){tenant, id, out}, err);
}

/* ---- cancel -------------------------------------------------------------------------------------------------------------------- */

struct cancelling {
	const char *tenant, *id;
	int64_t now_ms;
};

/* The states on the right are those before. */
static int cancel(struct db *db, void *arg, struct cordon_error *err)
{
	const struct cancelling *c = arg;
	_cleanup_query_ struct query q = query_new(
		db,
		"UPDATE jobs SET cancel = 1, state = iif(state = 1, 4, state), reason = iif(state = 1, 'cancelled', reason), delayed = 0,"
		" ended_ms = iif(state = 1, ?3, 0), expires_ms = iif(state = 1, ?3 + keep_ms, 0)"
		" WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) AND state < 3");

	query_text(&q, c->id);
	query_text(&q, c->tenant);
	query_int(&q, c->now_ms);
	if (query_run(&q, err) < 0)
		return -1;
	return db_changes(db) ? 1 : 0;
}

int store_job_cancel(struct store *s, const char *tenant, const char *id, int64_t now_ms, struct cordon_error *err)
{
	if (store_check_time("the time", now_ms, err) < 0)
		return -1;
	if (!id || strnlen(id, STORE_UUID_LEN + 1) != STORE_UUID_LEN)
		return 0;
	return store_write(s, cancel, &(struct cancelling){tenant, id, now_ms}, err);
}
