/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a job stops to run. Everything here asks in the same statement whether the job is still this node's, so that who comes too late changes
 * nothing: somebody else may have it by then.
 */
#include <string.h>

#include "store/parts.h"

/* Of the ?1st job, which ?2 has, at ?3. */
#define IS_HELD "id = ?1 AND state = 2 AND node = ?2 AND lease_ms > ?3"

static int check_holder(const char *node, const char *id, int64_t now_ms, struct cordon_error *err)
{
	if (store_check_text("the node", node, 1, STORE_NAME_MAX, err) < 0 || store_check_text("the job", id, 1, STORE_UUID_LEN, err) < 0)
		return -1;
	return store_check_time("the time", now_ms, err);
}

/* ---- finish -------------------------------------------------------------------------------------------------------------------- */

struct finishing {
	const char *node, *id, *reason;
	enum store_job_state state;
	const void *result;
	size_t result_len;
	int64_t now_ms;
};

static int keep_result(struct db *db, const struct finishing *f, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "INSERT INTO results (job, data) SELECT seq, ?2 FROM jobs WHERE id = ?1");

	query_text(&q, f->id);
	query_blob(&q, f->result, f->result_len);
	return query_run(&q, err);
}

static int finish(struct db *db, void *arg, struct cordon_error *err)
{
	const struct finishing *f = arg;
	_cleanup_query_ struct query q = query_new(
		db, "UPDATE jobs SET state = ?4, reason = ?5, ended_ms = ?3, expires_ms = ?3 + keep_ms, lease_ms = 0 WHERE " IS_HELD);

	query_text(&q, f->id);
	query_text(&q, f->node);
	query_int(&q, f->now_ms);
	query_int(&q, f->state);
	query_text(&q, f->reason);
	if (query_run(&q, err) < 0)
		return -1;
	if (!db_changes(db))
		return 1;
	return f->result ? keep_result(db, f, err) : 0;
}

int store_job_finish(struct store *s, const char *node, const char *id, enum store_job_state state, const char *reason, const void *result,
                     size_t result_len, int64_t now_ms, struct cordon_error *err)
{
	const size_t reason_max = sizeof(((struct store_job *)0)->reason) - 1;

	if (state != STORE_SUCCEEDED && state != STORE_FAILED)
		return err_set(err, CORDON_ERR_INPUT, "a job ends as succeeded or failed");
	if (!result && result_len)
		return err_set(err, CORDON_ERR_INPUT, "the result is missing");
	if (check_holder(node, id, now_ms, err) < 0 || store_check_text("the reason", reason, 0, reason_max, err) < 0 ||
	    store_check_blob("the result", result_len, err) < 0)
		return -1;
	return store_write(s, finish, &(struct finishing){node, id, reason ? reason : "", state, result, result_len, now_ms}, err);
}

/* ---- retry --------------------------------------------------------------------------------------------------------------------- */

struct retrying {
	const char *node, *id;
	int64_t not_before_ms, now_ms;
};

enum held { NOT_HELD, HELD, HELD_CANCELLED };

/* Fails if it has no tries left. */
static int look(struct db *db, const struct retrying *r, enum held *held, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "SELECT cancel, tries < tries_max, tries_max FROM jobs WHERE " IS_HELD);

	query_text(&q, r->id);
	query_text(&q, r->node);
	query_int(&q, r->now_ms);
	const int found = query_next(&q, err);
	*held = found <= 0 ? NOT_HELD : query_int_at(&q, 0) ? HELD_CANCELLED : HELD;
	if (*held == HELD && !query_int_at(&q, 1))
		return err_set(err, CORDON_ERR_INPUT, "the job %s has no tries left of %d", r->id, (int)query_int_at(&q, 2));
	return found < 0 ? -1 : 0;
}

static int put_back(struct db *db, const struct retrying *r, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(
		db,
		"UPDATE jobs SET state = 1, delayed = ?4 > ?3, not_before_ms = ?4, node = '', lease_ms = 0, started_ms = 0 WHERE " IS_HELD);

	query_text(&q, r->id);
	query_text(&q, r->node);
	query_int(&q, r->now_ms);
	query_int(&q, r->not_before_ms);
	return query_run(&q, err);
}

static int retry(struct db *db, void *arg, struct cordon_error *err)
{
	const struct retrying *r = arg;
	enum held held;

	if (look(db, r, &held, err) < 0)
		return -1;
	if (held == NOT_HELD)
		return 1;
	if (held == HELD)
		return put_back(db, r, err);
	return finish(db,
	              &(struct finishing){.node = r->node, .id = r->id, .reason = "cancelled", .state = STORE_FAILED, .now_ms = r->now_ms},
	              err);
}

int store_job_retry(struct store *s, const char *node, const char *id, int64_t not_before_ms, int64_t now_ms, struct cordon_error *err)
{
	if (check_holder(node, id, now_ms, err) < 0 || store_check_time("the time of the next try", not_before_ms, err) < 0)
		return -1;
	return store_write(s, retry, &(struct retrying){node, id, not_before_ms, now_ms}, err);
}

/* ---- recover ------------------------------------------------------------------------------------------------------------------- */

/* ?1: now, ?2: the node. What was to be cancelled is not begun again. */
#define PUT_BACK " SET state = 1, delayed = 0, not_before_ms = 0, node = '', lease_ms = 0, started_ms = 0 WHERE state = 2"
#define GIVE_UP                                                                                                                    \
	" SET state = 4, reason = iif(cancel, 'cancelled', 'interrupted'), ended_ms = ?1, expires_ms = ?1 + keep_ms, lease_ms = 0" \
	" WHERE state = 2"
#define MAY_REPEAT " AND repeatable = 1 AND tries < tries_max AND cancel = 0"
#define OVER(what) "UPDATE jobs INDEXED BY jobs_lease" what " AND lease_ms <= ?1"
#define OF_NODE(what) "UPDATE jobs INDEXED BY jobs_node" what " AND node = ?2"

struct recovering {
	const char *node; /* NULL: none */
	int64_t now_ms;
	uint64_t again, failed;
};

static int recover_with(struct db *db, const struct recovering *r, const char *sql, bool of_node, uint64_t *count, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, sql);

	query_int(&q, r->now_ms);
	if (of_node)
		query_text(&q, r->node);
	if (query_run(&q, err) < 0)
		return -1;
	*count += db_changes(db);
	return 0;
}

static int recover(struct db *db, void *arg, struct cordon_error *err)
{
	struct recovering *r = arg;

	r->again = r->failed = 0;
	if (recover_with(db, r, OVER(PUT_BACK MAY_REPEAT), false, &r->again, err) < 0 ||
	    recover_with(db, r, OVER(GIVE_UP), false, &r->failed, err) < 0)
		return -1;
	if (!r->node)
		return 0;
	/* ?1 is bound and not used by the first of these: SQLite lets it */
	if (recover_with(db, r, OF_NODE(PUT_BACK MAY_REPEAT), true, &r->again, err) < 0)
		return -1;
	return recover_with(db, r, OF_NODE(GIVE_UP), true, &r->failed, err);
}

int store_job_recover(struct store *s, const char *node, int64_t now_ms, uint64_t *again, uint64_t *failed, struct cordon_error *err)
{
	struct recovering r = {.node = node, .now_ms = now_ms};

	if ((node && store_check_text("the node", node, 1, STORE_NAME_MAX, err) < 0) || store_check_time("the time", now_ms, err) < 0 ||
	    store_write(s, recover, &r, err) < 0)
		return -1;
	if (again)
		*again = r.again;
	if (failed)
		*failed = r.failed;
	return 0;
}
