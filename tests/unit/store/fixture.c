/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"

char home[128];
struct store *store;
struct cordon_error err;

int home_setup(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	err = (struct cordon_error){0};
	umask(022);
	snprintf(home, sizeof(home), "%.80s/cordon-store.XXXXXX", base ? base : "/tmp");
	return mkdtemp(home) ? 0 : -1;
}

int store_setup(void **state)
{
	if (home_setup(state) < 0)
		return -1;
	if (store_open(path_of("store.db"), &store, &err) == 0)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

int store_teardown(void **state)
{
	(void)state;
	store_close(store);
	store = NULL;
	return fs_remove_tree(AT_FDCWD, home, NULL);
}

#define ID_ROOM 40

static char *room_for_id(void)
{
	static char memory[4096][ID_ROOM];
	static unsigned next;

	return memory[next++ % ARRAY_SIZE(memory)];
}

const char *path_of(const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", home, name);
	return path;
}

void reopen(void)
{
	store_close(store);
	assert_fine(store_open(path_of("store.db"), &store, &err));
}

void assert_error(int result, int code, const char *part)
{
	assert_int_equal(result, -1);
	if (!strstr(err.message, part))
		fail_msg("\"%s\" is not in the message \"%s\"", part, err.message);
	assert_int_equal(err.code, code);
	err = (struct cordon_error){0};
}

void assert_fine(int result)
{
	if (result < 0)
		fail_msg("%s (%s)", err.message, err.hint);
}

int64_t ask(const char *sql)
{
	_cleanup_db_ struct db db = {0};

	assert_fine(db_open(&db, path_of("store.db"), SQLITE_OPEN_READONLY, &err));
	_cleanup_query_ struct query q = query_new(&db, sql);
	assert_int_equal(query_next(&q, &err), 1);
	return query_int_at(&q, 0);
}

static int execute_it(struct db *db, void *arg, struct cordon_error *e)
{
	return db_exec(db, arg, e);
}

int execute(const char *sql)
{
	_cleanup_free_ char *copy = strdup(sql);

	return store_write(store, execute_it, copy, &err);
}

/* ---- what is in it -------------------------------------------------------------------------------------------------------------- */

const char *tenant_new(const char *name)
{
	struct store_tenant t = {0};
	char *id = room_for_id();

	snprintf(t.name, sizeof(t.name), "%s", name);
	assert_fine(store_tenant_add(store, &t, NOW, &err));
	snprintf(id, ID_ROOM, "%s", t.id);
	return id;
}

void limit_running(const char *tenant, uint64_t running)
{
	assert_fine(store_tenant_quota(store, tenant, &(struct store_quota){.running = running}, &err));
}

const char *job_new_with(const char *tenant, struct store_job j)
{
	char *id = room_for_id();

	snprintf(j.tenant, sizeof(j.tenant), "%s", tenant);
	assert_fine(store_job_add(store, &j, 0, NOW, &err));
	snprintf(id, ID_ROOM, "%s", j.id);
	return id;
}

const char *job_new(const char *tenant)
{
	return job_new_with(tenant, (struct store_job){.tries_max = 1, .keep_ms = MINUTE});
}

static int claim_it(int64_t now_ms, struct store_job *j)
{
	const int r = store_job_claim(store, "node", MINUTE, now_ms, j, &err);

	assert_fine(r);
	return r;
}

const char *claim(int64_t now_ms)
{
	struct store_job j;
	char *id = room_for_id();

	claim_it(now_ms, &j);
	snprintf(id, ID_ROOM, "%s", j.id);
	store_job_clear(&j);
	return id;
}

const char *claim_tenant(int64_t now_ms)
{
	struct store_job j;
	char *id = room_for_id();

	claim_it(now_ms, &j);
	snprintf(id, ID_ROOM, "%s", j.tenant);
	store_job_clear(&j);
	return id;
}

void assert_job(const char *id, enum store_job_state state, const char *reason)
{
	struct store_job j;

	const int r = store_job_get(store, NULL, id, &j, &err);
	assert_fine(r);
	assert_int_equal(r, 1);
	assert_string_equal(store_job_state_name(j.state), store_job_state_name(state));
	assert_string_equal(j.reason, reason);
	store_job_clear(&j);
}

struct store_job_counts counts(const char *tenant)
{
	struct store_job_counts c;

	assert_fine(store_job_count(store, tenant, &c, &err));
	return c;
}

void assert_counts(const char *tenant, uint64_t queued, uint64_t running, uint64_t succeeded, uint64_t failed)
{
	const struct store_job_counts c = counts(tenant);

	assert_int_equal(c.queued, queued);
	assert_int_equal(c.running, running);
	assert_int_equal(c.succeeded, succeeded);
	assert_int_equal(c.failed, failed);
}

void assert_consistent(void)
{
	assert_int_equal(ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
	assert_int_equal(ask("SELECT count(*) FROM pragma_foreign_key_check"), 0);
	assert_int_equal(ask("SELECT count(*) FROM tenants t WHERE queued <> (SELECT count(*) FROM jobs WHERE tenant = t.id AND state = 1)"
	                     " OR ready <> (SELECT count(*) FROM jobs WHERE tenant = t.id AND state = 1 AND delayed = 0)"
	                     " OR running <> (SELECT count(*) FROM jobs WHERE tenant = t.id AND state = 2)"
	                     " OR succeeded <> (SELECT count(*) FROM jobs WHERE tenant = t.id AND state = 3)"
	                     " OR failed <> (SELECT count(*) FROM jobs WHERE tenant = t.id AND state = 4)"),
	                 0);
	assert_int_equal(
		ask("SELECT count(*) FROM totals WHERE queued <> (SELECT count(*) FROM jobs WHERE state = 1)"
	            " OR running <> (SELECT count(*) FROM jobs WHERE state = 2) OR succeeded <> (SELECT count(*) FROM jobs WHERE state = 3)"
	            " OR failed <> (SELECT count(*) FROM jobs WHERE state = 4)"),
		0);
	assert_int_equal(ask("SELECT count(*) FROM totals"), 1);
}
