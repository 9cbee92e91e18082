/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "store/parts.h"

#define AT_ONCE "100" /* of each kind: those that write meanwhile wait for no more than that */

struct expiring {
	int64_t now_ms;
	uint64_t removed;
};

static int expire(struct db *db, void *arg, struct cordon_error *err)
{
	/* requests and results go with their jobs */
	static const char *const statements[] = {
		"DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs INDEXED BY jobs_expire WHERE state > 2 AND expires_ms <= ?1"
		" ORDER BY expires_ms LIMIT " AT_ONCE ")",
		"DELETE FROM repeats WHERE seq IN (SELECT seq FROM repeats INDEXED BY repeats_expire WHERE answer IS NOT NULL AND expires_ms <= ?1"
		" ORDER BY expires_ms LIMIT " AT_ONCE ")",
	};
	struct expiring *e = arg;

	e->removed = 0;
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		_cleanup_query_ struct query q = query_new(db, statements[i]);
		query_int(&q, e->now_ms);
		if (query_run(&q, err) < 0)
			return -1;
		e->removed += db_changes(db);
	}
	return 0;
}

int store_expire(struct store *s, int64_t now_ms, uint64_t *removed, struct cordon_error *err)
{
	struct expiring e = {.now_ms = now_ms};

	*removed = 0;
	if (store_check_time("the time", now_ms, err) < 0 || store_write(s, expire, &e, err) < 0)
		return -1;
	*removed = e.removed;
	return 0;
}
