/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is served next, and for how long. A claim takes three steps, none of which looks at more rows than it needs, however many jobs wait: those
 * whose time has come stop being delayed; the first tenant of the index tenants_next is the one to be served; the first of its jobs in jobs_next is
 * the one.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "store/parts.h"

/*
 * INDEXED BY: SQLite, which does not know how many of each there are, would rather go through all that wait. A hundred at a time: however many have
 * become due, this claim is not the one that takes seconds.
 */
static const char due[] = "UPDATE jobs SET delayed = 0 WHERE seq IN (SELECT seq FROM jobs INDEXED BY jobs_delayed"
			  " WHERE state = 1 AND delayed = 1 AND not_before_ms <= ?1 ORDER BY not_before_ms LIMIT 100)";
static const char next_tenant[] = "SELECT id FROM tenants INDEXED BY tenants_next WHERE ready > 0"
				  " AND (quota_running = 0 OR running < quota_running) ORDER BY running, served LIMIT 1";
static const char next_job[] = "SELECT seq FROM jobs INDEXED BY jobs_next WHERE tenant = ?1 AND state = 1 AND delayed = 0"
			       " ORDER BY priority DESC, seq LIMIT 1";
static const char take[] =
	"UPDATE jobs SET state = 2, node = ?2, lease_ms = ?3, started_ms = ?4, tries = tries + 1 WHERE seq = ?1 AND state = 1";
static const char count_claim[] = "UPDATE totals SET claims = claims + 1 WHERE one = 1";
static const char note_served[] = "UPDATE tenants SET served = (SELECT claims FROM totals WHERE one = 1) WHERE id = ?1";
static const char whole[] = "SELECT " JOB_COLUMNS ", " JOB_BLOBS " FROM jobs WHERE seq = ?1";

const char *const store_claim_queries[] = {due, next_tenant, next_job, take, count_claim, note_served, whole, NULL};

struct claiming {
	const char *node;
	int64_t until_ms, now_ms;
	struct store_job *out;
};

static int end_delays(struct db *db, int64_t now_ms, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, due);

	query_int(&q, now_ms);
	return query_run(&q, err);
}

/* 1: there is one. */
static int pick_tenant(struct db *db, char id[ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, next_tenant);
	const int r = query_next(&q, err);

	if (r > 0)
		query_text_at(&q, 0, id, ID_LEN + 1);
	return r > 0 && query_sound(&q, err) < 0 ? -1 : r;
}

static int pick_job(struct db *db, const char *tenant, int64_t *seq, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, next_job);

	query_text(&q, tenant);
	const int r = query_next(&q, err);
	if (r == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the store counts jobs of the tenant %s that are not there", tenant);
	*seq = r > 0 ? query_int_at(&q, 0) : 0;
	return r < 0 ? -1 : 0;
}

static int take_job(struct db *db, const struct claiming *c, int64_t seq, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, take);

	query_int(&q, seq);
	query_text(&q, c->node);
	query_int(&q, c->until_ms);
	query_int(&q, c->now_ms);
	return query_run(&q, err);
}

static int serve(struct db *db, const char *tenant, struct cordon_error *err)
{
	_cleanup_query_ struct query counted = query_new(db, count_claim);
	_cleanup_query_ struct query noted = query_new(db, note_served);

	query_text(&noted, tenant);
	return query_run(&counted, err) < 0 ? -1 : query_run(&noted, err);
}

static int read_job(struct db *db, int64_t seq, struct store_job *out, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, whole);

	query_int(&q, seq);
	const int r = query_next(&q, err);
	if (r == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the store has lost a job that was being claimed");
	return r < 0 ? -1 : job_from_whole_row(&q, out, err);
}

static int claim(struct db *db, void *arg, struct cordon_error *err)
{
	const struct claiming *c = arg;
	char tenant[ID_LEN + 1];
	int64_t seq = 0;

	store_job_clear(c->out); /* of a run that was undone */
	if (end_delays(db, c->now_ms, err) < 0)
		return -1;
	const int r = pick_tenant(db, tenant, err);
	if (r <= 0)
		return r;
	if (pick_job(db, tenant, &seq, err) < 0 || take_job(db, c, seq, err) < 0 || serve(db, tenant, err) < 0 ||
	    read_job(db, seq, c->out, err) < 0)
		return -1;
	return 1;
}

static int check_lease(const char *node, int64_t lease_ms, int64_t now_ms, struct cordon_error *err)
{
	if (store_check_text("the node", node, 1, STORE_NAME_MAX, err) < 0 || store_check_time("the time", now_ms, err) < 0)
		return -1;
	return store_check_time("the lease", lease_ms, err);
}

int store_job_claim(struct store *s, const char *node, int64_t lease_ms, int64_t now_ms, struct store_job *out, struct cordon_error *err)
{
	*out = (struct store_job){0};
	if (check_lease(node, lease_ms, now_ms, err) < 0)
		return -1;
	const int r = store_write(s, claim, &(struct claiming){node, now_ms + lease_ms, now_ms, out}, err);
	if (r < 0)
		store_job_clear(out);
	return r;
}

/* ---- renew --------------------------------------------------------------------------------------------------------------------- */

struct renewing {
	const char *node;
	int64_t until_ms, now_ms;
	struct buf *cancelled; /* ids, each with its NUL */
};

static int extend(struct db *db, const struct renewing *r, struct cordon_error *err)
{
	/* not what is over: its node may have dropped it, and would keep it for ever without knowing */
	_cleanup_query_ struct query q =
		query_new(db, "UPDATE jobs INDEXED BY jobs_node SET lease_ms = ?2 WHERE state = 2 AND node = ?1 AND lease_ms > ?3");

	query_text(&q, r->node);
	query_int(&q, r->until_ms);
	query_int(&q, r->now_ms);
	return query_run(&q, err);
}

static int renew(struct db *db, void *arg, struct cordon_error *err)
{
	struct renewing *r = arg;
	char id[STORE_UUID_LEN + 1];
	int more;

	buf_free(r->cancelled); /* of a run that was undone */
	if (extend(db, r, err) < 0)
		return -1;
	_cleanup_query_ struct query q =
		query_new(db, "SELECT id FROM jobs INDEXED BY jobs_node WHERE state = 2 AND node = ?1 AND lease_ms > ?2 AND cancel = 1");
	query_text(&q, r->node);
	query_int(&q, r->now_ms);
	while ((more = query_next(&q, err)) > 0) {
		query_text_at(&q, 0, id, sizeof(id));
		if (query_sound(&q, err) < 0)
			return -1;
		buf_add(r->cancelled, id, sizeof(id));
	}
	if (more == 0 && r->cancelled->failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return more;
}

int store_job_renew(struct store *s, const char *node, int64_t lease_ms, int64_t now_ms, void (*cancelled)(void *user, const char *id),
                    void *user, struct cordon_error *err)
{
	if (check_lease(node, lease_ms, now_ms, err) < 0)
		return -1;
	_cleanup_buf_ struct buf ids = {0};
	const int r = store_write(s, renew, &(struct renewing){node, now_ms + lease_ms, now_ms, &ids}, err);
	for (size_t at = 0; r == 0 && cancelled && at < ids.len; at += STORE_UUID_LEN + 1)
		cancelled(user, ids.data + at);
	return r;
}
