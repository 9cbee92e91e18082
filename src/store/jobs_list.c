/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/util.h"
#include "store/parts.h"

/* ---- list ---------------------------------------------------------------------------------------------------------------------- */

struct page {
	const char *tenant;
	enum store_job_state state;
	int64_t before;
	size_t wanted, count;
	struct store_job rows[STORE_PAGE];
};

/* Each with an index of its own. */
#define LIST(which) "SELECT " JOB_COLUMNS " FROM jobs WHERE " which "seq < ?1 ORDER BY seq DESC LIMIT ?2"
static const char *const lists[2][2] = {
	{LIST(""), LIST("state = ?3 AND ")},
	{LIST("tenant = ?3 AND "), LIST("tenant = ?3 AND state = ?4 AND ")},
};

static int read_page(struct db *db, void *arg, struct cordon_error *err)
{
	struct page *p = arg;
	_cleanup_query_ struct query q = query_new(db, lists[p->tenant != NULL][p->state != 0]);
	int r;

	query_int(&q, p->before);
	query_int(&q, (int64_t)MIN(p->wanted, (size_t)STORE_PAGE));
	if (p->tenant)
		query_text(&q, p->tenant);
	if (p->state)
		query_int(&q, p->state);
	for (p->count = 0; (r = query_next(&q, err)) > 0; p->count++)
		if (job_from_row(&q, &p->rows[p->count], err) < 0)
			return -1;
	return r;
}

int store_job_list(struct store *s, const char *tenant, enum store_job_state state, uint64_t before_seq, size_t limit,
                   int (*each)(void *user, const struct store_job *j), void *user, struct cordon_error *err)
{
	struct page p = {.tenant = tenant, .state = state, .wanted = limit};

	p.before = before_seq == 0 || before_seq > INT64_MAX ? INT64_MAX : (int64_t)before_seq;
	while (p.wanted) {
		if (store_read(s, read_page, &p, err) < 0)
			return -1;
		for (size_t i = 0; i < p.count; i++) {
			const int r = each(user, &p.rows[i]);
			if (r != 0)
				return r;
		}
		if (p.count < MIN(p.wanted, (size_t)STORE_PAGE))
			break;
		p.wanted -= p.count;
		p.before = (int64_t)p.rows[p.count - 1].seq;
	}
	return 0;
}

/* ---- count --------------------------------------------------------------------------------------------------------------------- */

struct counting {
	const char *tenant;
	struct store_job_counts *out;
};

/* As the triggers keep them (migrations.c). */
static int count(struct db *db, void *arg, struct cordon_error *err)
{
	const struct counting *c = arg;
	_cleanup_query_ struct query q = c->tenant ? query_new(db, "SELECT queued, running, succeeded, failed FROM tenants WHERE id = ?1")
	                                           : query_new(db, "SELECT queued, running, succeeded, failed FROM totals WHERE one = 1");

	if (c->tenant)
		query_text(&q, c->tenant);
	const int r = query_next(&q, err);
	if (r > 0)
		*c->out = (struct store_job_counts){(uint64_t)query_int_at(&q, 0), (uint64_t)query_int_at(&q, 1),
		                                    (uint64_t)query_int_at(&q, 2), (uint64_t)query_int_at(&q, 3)};
	return r < 0 ? -1 : 0;
}

int store_job_count(struct store *s, const char *tenant, struct store_job_counts *out, struct cordon_error *err)
{
	*out = (struct store_job_counts){0};
	return store_read(s, count, &(struct counting){tenant, out}, err);
}
