/* SPDX-License-Identifier: Apache-2.0 */
#include "store/migrations.h"

#include <stdio.h>

#include "base/util.h"

/*
 * Version 1. What it is about:
 *
 * - The numbers of a tenant's jobs stand with the tenant, and those of all in `totals`. Triggers keep them, so that nothing can change a job and
 *   forget them. A claim looks at tenants, not at jobs: the first of the index tenants_next is the one to be served, and the first of jobs_next for
 *   it is its job.
 * - `delayed` jobs wait for their time (not_before_ms), and are not in the way of the others until then.
 * - Requests and results are in tables of their own: SQLite writes a row anew whole, and a renewed lease must not write megabytes.
 * - States are those of enum store_job_state: 1 queued, 2 running, 3 succeeded, 4 failed.
 * - jobs.key has no foreign key: keys go only with their tenant, and its jobs go before; the check of each key against all jobs would need one more
 *   index.
 */
static const char version_1[] =
	"CREATE TABLE tenants ("
	"  id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL,"
	"  quota_sandboxes INTEGER NOT NULL, quota_running INTEGER NOT NULL, quota_queued INTEGER NOT NULL, quota_memory INTEGER NOT NULL,"
	"  quota_disk INTEGER NOT NULL, quota_cpu INTEGER NOT NULL, quota_egress INTEGER NOT NULL, quota_requests INTEGER NOT NULL,"
	"  queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0), ready INTEGER NOT NULL DEFAULT 0 CHECK (ready BETWEEN 0 AND queued),"
	"  running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0), succeeded INTEGER NOT NULL DEFAULT 0 CHECK (succeeded >= 0),"
	"  failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),"
	"  served INTEGER NOT NULL DEFAULT 0" /* totals.claims when it was last served */
	") STRICT;"
	"CREATE INDEX tenants_next ON tenants (running, served) WHERE ready > 0 AND (quota_running = 0 OR running < quota_running);"

	"CREATE TABLE totals ("
	"  one INTEGER PRIMARY KEY CHECK (one = 1), queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0), running INTEGER NOT NULL DEFAULT 0,"
	"  succeeded INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, claims INTEGER NOT NULL DEFAULT 0,"
	"  checks INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"INSERT INTO totals (one) VALUES (1);"

	"CREATE TABLE keys ("
	"  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,"
	"  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), label TEXT NOT NULL, scopes INTEGER NOT NULL, ceiling TEXT,"
	"  created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, revoked_ms INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE INDEX keys_tenant ON keys (tenant, seq);"

	"CREATE TABLE jobs ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL REFERENCES tenants (id), key TEXT NOT NULL,"
	"  state INTEGER NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 4), delayed INTEGER NOT NULL DEFAULT 0 CHECK (delayed IN (0, 1)),"
	"  reason TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, tries_max INTEGER NOT NULL,"
	"  repeatable INTEGER NOT NULL, cancel INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '', lease_ms INTEGER NOT NULL DEFAULT 0,"
	"  created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL DEFAULT 0, ended_ms INTEGER NOT NULL DEFAULT 0,"
	"  not_before_ms INTEGER NOT NULL DEFAULT 0, keep_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE INDEX jobs_next ON jobs (tenant, priority DESC, seq) WHERE state = 1 AND delayed = 0;"
	"CREATE INDEX jobs_delayed ON jobs (not_before_ms) WHERE state = 1 AND delayed = 1;"
	"CREATE INDEX jobs_node ON jobs (node, lease_ms) WHERE state = 2;"
	"CREATE INDEX jobs_lease ON jobs (lease_ms) WHERE state = 2;"
	"CREATE INDEX jobs_expire ON jobs (expires_ms) WHERE state > 2;"
	"CREATE INDEX jobs_tenant ON jobs (tenant, seq);"
	"CREATE INDEX jobs_state ON jobs (state, seq);"
	"CREATE INDEX jobs_tenant_state ON jobs (tenant, state, seq);"

	"CREATE TABLE requests (job INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE, data BLOB NOT NULL) STRICT;"
	"CREATE TABLE results (job INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE, data BLOB NOT NULL) STRICT;"

	"CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN"
	"  UPDATE tenants SET queued = queued + (NEW.state = 1), ready = ready + (NEW.state = 1 AND NEW.delayed = 0),"
	"    running = running + (NEW.state = 2), succeeded = succeeded + (NEW.state = 3), failed = failed + (NEW.state = 4) WHERE id = NEW.tenant;"
	"  UPDATE totals SET queued = queued + (NEW.state = 1), running = running + (NEW.state = 2), succeeded = succeeded + (NEW.state = 3),"
	"    failed = failed + (NEW.state = 4) WHERE one = 1;"
	"END;"
	"CREATE TRIGGER jobs_changed AFTER UPDATE OF state, delayed ON jobs WHEN OLD.state <> NEW.state OR OLD.delayed <> NEW.delayed BEGIN"
	"  UPDATE tenants SET queued = queued + (NEW.state = 1) - (OLD.state = 1),"
	"    ready = ready + (NEW.state = 1 AND NEW.delayed = 0) - (OLD.state = 1 AND OLD.delayed = 0),"
	"    running = running + (NEW.state = 2) - (OLD.state = 2), succeeded = succeeded + (NEW.state = 3) - (OLD.state = 3),"
	"    failed = failed + (NEW.state = 4) - (OLD.state = 4) WHERE id = NEW.tenant;"
	"  UPDATE totals SET queued = queued + (NEW.state = 1) - (OLD.state = 1), running = running + (NEW.state = 2) - (OLD.state = 2),"
	"    succeeded = succeeded + (NEW.state = 3) - (OLD.state = 3), failed = failed + (NEW.state = 4) - (OLD.state = 4) WHERE one = 1;"
	"END;"
	"CREATE TRIGGER jobs_removed AFTER DELETE ON jobs BEGIN"
	"  UPDATE tenants SET queued = queued - (OLD.state = 1), ready = ready - (OLD.state = 1 AND OLD.delayed = 0),"
	"    running = running - (OLD.state = 2), succeeded = succeeded - (OLD.state = 3), failed = failed - (OLD.state = 4) WHERE id = OLD.tenant;"
	"  UPDATE totals SET queued = queued - (OLD.state = 1), running = running - (OLD.state = 2), succeeded = succeeded - (OLD.state = 3),"
	"    failed = failed - (OLD.state = 4) WHERE one = 1;"
	"END;"

	/* answer: NULL as long as the first request is not over */
	"CREATE TABLE repeats ("
	"  seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE, key TEXT NOT NULL,"
	"  digest BLOB NOT NULL CHECK (length(digest) = 32), expires_ms INTEGER NOT NULL DEFAULT 0, answer BLOB, UNIQUE (tenant, key)"
	") STRICT;"
	"CREATE INDEX repeats_expire ON repeats (expires_ms) WHERE answer IS NOT NULL;"
	"CREATE INDEX repeats_pending ON repeats (seq) WHERE answer IS NULL;"

	"CREATE TABLE usage ("
	"  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE, day INTEGER NOT NULL, cpu_ms INTEGER NOT NULL,"
	"  egress_bytes INTEGER NOT NULL, requests INTEGER NOT NULL, commands INTEGER NOT NULL, jobs INTEGER NOT NULL,"
	"  sandboxes INTEGER NOT NULL, PRIMARY KEY (tenant, day)"
	") STRICT, WITHOUT ROWID;";

const struct migration store_migrations[] = {
	{1, version_1},
};
const size_t store_migration_count = ARRAY_SIZE(store_migrations);

static int version_of(struct db *db, int *version, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "PRAGMA user_version");
	const int r = query_next(&q, err);

	if (r > 0)
		*version = (int)query_int_at(&q, 0);
	return r < 0 ? -1 : 0;
}

/* With its number in the same transaction: after a loss of power it is done, or it is not. */
static int migrate_one(struct db *db, const struct migration *m, struct cordon_error *err)
{
	char number[64];

	snprintf(number, sizeof(number), "PRAGMA user_version = %d", m->version);
	if (db_exec(db, "BEGIN IMMEDIATE", err) == 0 && db_exec(db, m->sql, err) == 0 && db_exec(db, number, err) == 0 &&
	    db_exec(db, "COMMIT", err) == 0)
		return 0;
	if (!sqlite3_get_autocommit(db->handle))
		db_exec(db, "ROLLBACK", NULL);
	return err_wrap(err, "cannot bring it to version %d", m->version);
}

int store_migrate(struct db *db, const struct migration *table, size_t count, struct cordon_error *err)
{
	const int newest = table[count - 1].version;
	int version = 0;

	if (version_of(db, &version, err) < 0)
		return -1;
	if (version > newest) {
		err_set(err, CORDON_ERR_INPUT, "%s is of version %d, and this cordon knows none after %d",
		        sqlite3_db_filename(db->handle, "main"), version, newest);
		return err_hint(err, "start the newer cordon that wrote it, or put a backup from before in its place");
	}
	for (size_t i = 0; i < count; i++)
		if (table[i].version > version && migrate_one(db, &table[i], err) < 0)
			return -1;
	return 0;
}
