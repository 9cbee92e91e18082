/* SPDX-License-Identifier: Apache-2.0 */
/* The database of version 1, as it was when it was made. Never to be changed: there are stores of it. */
#ifndef CORDON_TESTS_STORE_VERSION_1_H
#define CORDON_TESTS_STORE_VERSION_1_H

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

#endif
