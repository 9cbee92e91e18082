/* SPDX-License-Identifier: Apache-2.0 */
/* From each version that there was to the one that there is; and the way itself, with versions that only this test has. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fixture.h"
#include "store/migrations.h"
#include "version_1.h"

static const char a_job[] =
	"INSERT INTO tenants (id, name, created_ms, quota_sandboxes, quota_running, quota_queued, quota_memory, quota_disk, quota_cpu, quota_egress,"
	" quota_requests) VALUES ('aaaaaaaaaaaaaaaaaaaa', 'old', 1, 0, 7, 0, 0, 0, 0, 0, 0);"
	"INSERT INTO jobs (id, tenant, key, priority, tries_max, repeatable, created_ms, keep_ms)"
	" VALUES ('00000000-0000-4000-8000-000000000001', 'aaaaaaaaaaaaaaaaaaaa', '', 0, 1, 0, 1, 5);"
	"INSERT INTO requests (job, data) VALUES (1, x'6f6c64');";

/* A database of this table, at store.db. */
static void make(struct db *db, const struct migration *table, size_t count)
{
	char id[64];

	snprintf(id, sizeof(id), "PRAGMA application_id = %d", PLACE_APPLICATION_ID);
	assert_fine(db_open(db, path_of("store.db"), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &err));
	assert_int_equal(chmod(path_of("store.db"), 0600), 0);
	assert_fine(db_exec(db, id, &err));
	assert_fine(store_migrate(db, table, count, &err));
}

static void test_what_was_released_is_not_changed(void **state)
{
	assert_string_equal(store_migrations[0].sql, version_1);
	for (size_t i = 0; i < store_migration_count; i++)
		assert_int_equal(store_migrations[i].version, i + 1);
}

static void test_a_store_of_version_1_is_brought_up_to_date(void **state)
{
	static const struct migration first[] = {{1, version_1}};
	struct db db;
	struct store_job j;

	make(&db, first, 1);
	assert_fine(db_exec(&db, a_job, &err));
	db_close(&db);
	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_int_equal(ask("PRAGMA user_version"), store_migrations[store_migration_count - 1].version);
	assert_int_equal(store_job_claim(store, "node", MINUTE, NOW, &j, &err), 1);
	assert_string_equal(j.id, "00000000-0000-4000-8000-000000000001");
	assert_memory_equal(j.request, "old", 3);
	store_job_clear(&j);
	assert_consistent();
}

/* ---- with versions of this test ------------------------------------------------------------------------------------------------ */

static const struct migration further[] = {
	{1, version_1},
	{2, "ALTER TABLE jobs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'; CREATE TABLE second (n INTEGER) STRICT;"},
	{3, "INSERT INTO second SELECT count(*) FROM jobs;"},
};

static void test_each_version_is_made_from_the_one_before(void **state)
{
	_cleanup_db_ struct db db = {0};

	make(&db, further, 1);
	assert_fine(db_exec(&db, a_job, &err));
	assert_int_equal(ask("PRAGMA user_version"), 1);
	assert_fine(store_migrate(&db, further, 3, &err));
	assert_int_equal(ask("PRAGMA user_version"), 3);
	assert_int_equal(ask("SELECT count(*) FROM jobs WHERE colour = 'red'"), 1);
	assert_int_equal(ask("SELECT sum(n) FROM second"), 1);
	assert_fine(store_migrate(&db, further, 3, &err)); /* not a second time */
	assert_int_equal(ask("SELECT count(*) FROM second"), 1);
	assert_consistent();
}

static void test_a_version_that_fails_leaves_the_one_before(void **state)
{
	static const struct migration failing[] = {
		{1, version_1},
		{2, "CREATE TABLE second (n INTEGER) STRICT; INSERT INTO second VALUES (1); INSERT INTO second VALUES ('not a number');"},
	};
	_cleanup_db_ struct db db = {0};

	make(&db, failing, 1);
	assert_error(store_migrate(&db, failing, 2, &err), CORDON_ERR_SYSTEM, "cannot bring it to version 2");
	assert_int_equal(ask("PRAGMA user_version"), 1);
	assert_int_equal(ask("SELECT count(*) FROM sqlite_schema WHERE name = 'second'"), 0);
	assert_fine(store_migrate(&db, further, 2, &err)); /* when it is put right it goes on */
	assert_int_equal(ask("PRAGMA user_version"), 2);
}

static void test_there_is_no_way_back(void **state)
{
	_cleanup_db_ struct db db = {0};

	make(&db, further, 3);
	assert_error(store_migrate(&db, further, 2, &err), CORDON_ERR_INPUT, "is of version 3, and this cordon knows none after 2");
	assert_int_equal(ask("PRAGMA user_version"), 3);
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_what_was_released_is_not_changed),
		A_TEST(test_a_store_of_version_1_is_brought_up_to_date),
		A_TEST(test_each_version_is_made_from_the_one_before),
		A_TEST(test_a_version_that_fails_leaves_the_one_before),
		A_TEST(test_there_is_no_way_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
