/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/util.h"
#include "store/parts.h"

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)
#define COUNTERS 6

static void counter_list(struct store_usage *u, uint64_t *out[COUNTERS])
{
	uint64_t *const all[COUNTERS] = {&u->cpu_ms, &u->egress_bytes, &u->requests, &u->commands, &u->jobs, &u->sandboxes};

	for (size_t i = 0; i < COUNTERS; i++)
		out[i] = all[i];
}

/* A counter stops at the largest number that SQLite has, rather than to begin anew. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	a = MIN(a, (uint64_t)INT64_MAX);
	b = MIN(b, (uint64_t)INT64_MAX);
	return MIN(a + b, (uint64_t)INT64_MAX);
}

struct using
{
	const char *tenant;
	int64_t day;
	struct store_usage *usage;
};

	/* ---- add ----------------------------------------------------------------------------------------------------------------------- */

#define MORE(column) \
	column " = iif(" column " > 9223372036854775807 - excluded." column ", 9223372036854775807, " column " + excluded." column ")"

static int add(struct db *db, void *arg, struct cordon_error *err)
{
	const struct using *u = arg;
	uint64_t *counters[COUNTERS];
	_cleanup_query_ struct query q = query_new(
		db,
		"INSERT INTO usage (tenant, day, cpu_ms, egress_bytes, requests, commands, jobs, sandboxes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
		" ON CONFLICT (tenant, day) DO UPDATE SET " MORE("cpu_ms") ", " MORE("egress_bytes") ", " MORE("requests") ", " MORE(
			"commands") ", " MORE("jobs") ", " MORE("sandboxes"));

	query_text(&q, u->tenant);
	query_int(&q, u->day);
	counter_list(u->usage, counters);
	for (size_t i = 0; i < COUNTERS; i++)
		query_int(&q, (int64_t)sum(*counters[i], 0));
	const int r = query_run(&q, err);
	if (r < 0 && db_failed_with(db, SQLITE_CONSTRAINT_FOREIGNKEY))
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no tenant with the id %.64s", u->tenant);
	return r;
}

int store_usage_add(struct store *s, const char *tenant, const struct store_usage *more, int64_t now_ms, struct cordon_error *err)
{
	struct store_usage usage = *more;

	if (store_check_text("the tenant", tenant, 1, ID_LEN, err) < 0 || store_check_time("the time", now_ms, err) < 0)
		return -1;
	return store_write(s, add, &(struct using){tenant, now_ms / DAY_MS, &usage}, err);
}

/* ---- get ----------------------------------------------------------------------------------------------------------------------- */

static int get(struct db *db, void *arg, struct cordon_error *err)
{
	const struct using *u = arg;
	uint64_t *counters[COUNTERS];
	_cleanup_query_ struct query q = query_new(
		db, "SELECT cpu_ms, egress_bytes, requests, commands, jobs, sandboxes FROM usage WHERE tenant = ?1 AND day >= ?2");
	int r;

	query_text(&q, u->tenant);
	query_int(&q, u->day);
	counter_list(u->usage, counters);
	while ((r = query_next(&q, err)) > 0)
		for (int i = 0; i < COUNTERS; i++)
			*counters[i] = sum(*counters[i], (uint64_t)query_int_at(&q, i));
	return r;
}

int store_usage_get(struct store *s, const char *tenant, int64_t since_ms, struct store_usage *out, struct cordon_error *err)
{
	*out = (struct store_usage){0};
	if (store_check_text("the tenant", tenant, 1, ID_LEN, err) < 0 || store_check_time("the time", since_ms, err) < 0)
		return -1;
	return store_read(s, get, &(struct using){tenant, since_ms / DAY_MS, out}, err);
}
