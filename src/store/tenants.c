/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "store/parts.h"

#define TENANT_COLUMNS \
	"id, name, created_ms, quota_sandboxes, quota_running, quota_queued, quota_memory, quota_disk, quota_cpu, quota_egress, quota_requests"

/* In the order of the columns. */
#define QUOTAS 8
static void quota_list(const struct store_quota *q, uint64_t out[QUOTAS])
{
	const uint64_t all[QUOTAS] = {q->sandboxes,  q->running, q->queued,       q->memory_bytes,
	                              q->disk_bytes, q->cpu_ms,  q->egress_bytes, q->requests};

	memcpy(out, all, sizeof(all));
}

static int check_quota(const struct store_quota *q, struct cordon_error *err)
{
	uint64_t all[QUOTAS];

	quota_list(q, all);
	for (size_t i = 0; i < QUOTAS; i++)
		if (store_check_number("a quota", all[i], err) < 0)
			return -1;
	return 0;
}

static void bind_quota(struct query *query, const struct store_quota *q)
{
	uint64_t all[QUOTAS];

	quota_list(q, all);
	for (size_t i = 0; i < QUOTAS; i++)
		query_int(query, (int64_t)all[i]);
}

static int tenant_from_row(struct query *q, struct store_tenant *t, struct cordon_error *err)
{
	uint64_t *const quotas[QUOTAS] = {&t->quota.sandboxes,  &t->quota.running, &t->quota.queued,       &t->quota.memory_bytes,
	                                  &t->quota.disk_bytes, &t->quota.cpu_ms,  &t->quota.egress_bytes, &t->quota.requests};

	query_text_at(q, 0, t->id, sizeof(t->id));
	query_text_at(q, 1, t->name, sizeof(t->name));
	t->created_ms = query_int_at(q, 2);
	for (int i = 0; i < QUOTAS; i++)
		*quotas[i] = (uint64_t)query_int_at(q, 3 + i);
	return query_sound(q, err);
}

/* ---- add ----------------------------------------------------------------------------------------------------------------------- */

static int check_name(const char *name, struct cordon_error *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	const size_t len = strnlen(name, STORE_NAME_MAX + 1);

	if (len == 0 || len > STORE_NAME_MAX || *name == '-' || strspn(name, letters) != len)
		return err_set(err, CORDON_ERR_INPUT, "a tenant's name has from 1 to %d of a-z, 0-9 and -, and does not begin with -",
		               STORE_NAME_MAX);
	if (id_valid(name)) /* who has it would be found as the tenant whose id it is */
		return err_set(err, CORDON_ERR_INPUT, "the name \"%s\" has the form of an id", name);
	return 0;
}

static int add(struct db *db, void *arg, struct cordon_error *err)
{
	const struct store_tenant *t = arg;
	_cleanup_query_ struct query q =
		query_new(db, "INSERT INTO tenants (" TENANT_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");

	query_text(&q, t->id);
	query_text(&q, t->name);
	query_int(&q, t->created_ms);
	bind_quota(&q, &t->quota);
	const int r = query_run(&q, err);
	if (r < 0 && db_failed_with(db, SQLITE_CONSTRAINT_UNIQUE))
		return err_set(err, CORDON_ERR_INPUT, "there is a tenant \"%s\" already", t->name);
	return r;
}

int store_tenant_add(struct store *s, struct store_tenant *t, int64_t now_ms, struct cordon_error *err)
{
	if (check_name(t->name, err) < 0 || check_quota(&t->quota, err) < 0 || store_check_time("the time", now_ms, err) < 0)
		return -1;
	struct store_tenant made = *t;
	id_new(made.id);
	made.created_ms = now_ms;
	if (store_write(s, add, &made, err) < 0)
		return -1;
	*t = made;
	return 0;
}

/* ---- get ----------------------------------------------------------------------------------------------------------------------- */

struct getting {
	const char *what;
	struct store_tenant *out;
};

static int get(struct db *db, void *arg, struct cordon_error *err)
{
	const struct getting *g = arg;
	/* no name has the form of an id: there is one at most */
	_cleanup_query_ struct query q = query_new(db, "SELECT " TENANT_COLUMNS " FROM tenants WHERE id = ?1 OR name = ?1");

	query_text(&q, g->what);
	const int r = query_next(&q, err);
	if (r > 0 && tenant_from_row(&q, g->out, err) < 0)
		return -1;
	return r;
}

int store_tenant_get(struct store *s, const char *what, struct store_tenant *out, struct cordon_error *err)
{
	*out = (struct store_tenant){0};
	if (!what || strnlen(what, STORE_NAME_MAX + 1) > STORE_NAME_MAX)
		return 0;
	return store_read(s, get, &(struct getting){what, out}, err);
}

/* ---- change -------------------------------------------------------------------------------------------------------------------- */

static int no_tenant(const char *id, struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_NOT_FOUND, "there is no tenant with the id %.64s", id);
}

struct limiting {
	const char *id;
	const struct store_quota *quota;
};

static int set_quota(struct db *db, void *arg, struct cordon_error *err)
{
	const struct limiting *l = arg;
	_cleanup_query_ struct query q = query_new(
		db,
		"UPDATE tenants SET quota_sandboxes = ?1, quota_running = ?2, quota_queued = ?3, quota_memory = ?4, quota_disk = ?5, quota_cpu = ?6,"
		" quota_egress = ?7, quota_requests = ?8 WHERE id = ?9");

	bind_quota(&q, l->quota);
	query_text(&q, l->id);
	if (query_run(&q, err) < 0)
		return -1;
	return db_changes(db) ? 0 : no_tenant(l->id, err);
}

int store_tenant_quota(struct store *s, const char *id, const struct store_quota *quota, struct cordon_error *err)
{
	if (check_quota(quota, err) < 0)
		return -1;
	return store_write(s, set_quota, &(struct limiting){id, quota}, err);
}

static int check_idle(struct db *db, const char *id, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "SELECT queued + running FROM tenants WHERE id = ?1");

	query_text(&q, id);
	const int r = query_next(&q, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return no_tenant(id, err);
	if (query_int_at(&q, 0) == 0)
		return 0;
	err_set(err, CORDON_ERR_BUSY, "the tenant %s has jobs that are not over", id);
	return err_hint(err, "cancel them, or wait for their end");
}

/* What refers to it, but for its jobs, goes with it: ON DELETE CASCADE. */
static int remove_tenant(struct db *db, void *arg, struct cordon_error *err)
{
	static const char *const statements[] = {"DELETE FROM jobs WHERE tenant = ?1", "DELETE FROM tenants WHERE id = ?1"};
	const char *id = arg;

	if (check_idle(db, id, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		_cleanup_query_ struct query q = query_new(db, statements[i]);
		query_text(&q, id);
		if (query_run(&q, err) < 0)
			return -1;
	}
	return 0;
}

int store_tenant_remove(struct store *s, const char *id, struct cordon_error *err)
{
	char copy[ID_LEN + 1];

	if (!id_valid(id))
		return no_tenant(id ? id : "", err);
	snprintf(copy, sizeof(copy), "%s", id);
	return store_write(s, remove_tenant, copy, err);
}

/* ---- list ---------------------------------------------------------------------------------------------------------------------- */

struct page {
	char after[STORE_NAME_MAX + 1];
	struct store_tenant rows[STORE_PAGE];
	size_t count;
};

static int read_page(struct db *db, void *arg, struct cordon_error *err)
{
	struct page *p = arg;
	_cleanup_query_ struct query q = query_new(db, "SELECT " TENANT_COLUMNS " FROM tenants WHERE name > ?1 ORDER BY name LIMIT ?2");
	int r;

	query_text(&q, p->after);
	query_int(&q, STORE_PAGE);
	for (p->count = 0; (r = query_next(&q, err)) > 0; p->count++)
		if (tenant_from_row(&q, &p->rows[p->count], err) < 0)
			return -1;
	return r;
}

int store_tenant_list(struct store *s, int (*each)(void *user, const struct store_tenant *t), void *user, struct cordon_error *err)
{
	struct page p = {.after = ""}; /* no name is */
	int r;

	do {
		if (store_read(s, read_page, &p, err) < 0)
			return -1;
		for (size_t i = 0; i < p.count; i++)
			if ((r = each(user, &p.rows[i])) != 0)
				return r;
		if (p.count)
			memcpy(p.after, p.rows[p.count - 1].name, sizeof(p.after));
	} while (p.count == STORE_PAGE);
	return 0;
}
