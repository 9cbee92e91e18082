/* SPDX-License-Identifier: Apache-2.0 */
/* What is opened, what is refused, and that nothing is changed by a refusal; backups. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/sha256.h"
#include "fixture.h"

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(path_of(name), &st), 0);
	return st.st_mode & 07777;
}

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(path_of(name), &st) == 0;
}

static void write_file(const char *name, const void *data, size_t len)
{
	unlink(path_of(name));
	assert_int_equal(fs_write_file(AT_FDCWD, path_of(name), data, len, 0600, NULL), 0);
	assert_int_equal(chmod(path_of(name), 0600), 0);
}

/* Content, mode and time of a file, in hex. */
static void fingerprint(const char *name, char out[SHA256_HEX])
{
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;
	struct stat st;
	char piece[4096];
	ssize_t n;
	_cleanup_fd_ int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	sha256_begin(&s);
	sha256_add(&s, &st.st_mode, sizeof(st.st_mode));
	sha256_add(&s, &st.st_mtim, sizeof(st.st_mtim));
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		sha256_add(&s, piece, (size_t)n);
	sha256_end(&s, digest);
	sha256_hex(digest, out);
}

/* store.db is refused, and stays as it is. */
static void assert_refused(int code, const char *part)
{
	char before[SHA256_HEX], after[SHA256_HEX];
	struct store *s = (struct store *)home;

	fingerprint("store.db", before);
	assert_error(store_open(path_of("store.db"), &s, &err), code, part);
	assert_null(s);
	fingerprint("store.db", after);
	assert_string_equal(before, after);
	assert_false(is_there("store.db-wal"));
	assert_false(is_there("store.db-journal"));
	assert_false(is_there("store.db.new"));
}

/* One with something in it, closed. */
static void make_store(void)
{
	assert_fine(store_open(path_of("store.db"), &store, &err));
	job_new(tenant_new("one"));
	store_close(store);
	store = NULL;
}

static void make_other(const char *name, const char *sql)
{
	_cleanup_db_ struct db db = {0};

	assert_fine(db_open(&db, path_of(name), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &err));
	assert_fine(db_exec(&db, sql, &err));
	assert_int_equal(chmod(path_of(name), 0600), 0);
}

/* ---- opened -------------------------------------------------------------------------------------------------------------------- */

static void test_a_missing_one_is_made_for_its_owner_alone(void **state)
{
	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_int_equal(mode_of("store.db"), 0600);
	assert_int_equal(mode_of("store.db.lock"), 0600);
	assert_fine(store_check(store, &err));
	assert_int_equal(mode_of("store.db-wal"), 0600);
	assert_int_equal(mode_of("store.db-shm"), 0600);
	assert_false(is_there("store.db.new"));
	assert_consistent();
}

static int settings(struct db *db, void *arg, struct cordon_error *e)
{
	static const char *const names[] = {"PRAGMA synchronous", "PRAGMA foreign_keys", "PRAGMA trusted_schema"};
	int64_t *out = arg;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_query_ struct query q = query_new(db, names[i]);
		if (query_next(&q, e) <= 0)
			return -1;
		out[i] = query_int_at(&q, 0);
	}
	return 0;
}

static void test_what_is_written_is_synced_and_checked(void **state)
{
	int64_t found[3];

	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_fine(store_write(store, settings, found, &err));
	assert_int_equal(found[0], 2); /* FULL */
	assert_int_equal(found[1], 1);
	assert_int_equal(found[2], 0);
	assert_int_equal(ask("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%' AND NOT strict"),
		0);
}

static void test_what_was_stored_is_there_again(void **state)
{
	make_store();
	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_counts(NULL, 1, 0, 0, 0);
	assert_false(is_there("store.db-journal"));
}

static void test_the_connection_that_reads_cannot_write(void **state)
{
	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_int_equal(db_exec(&store->reader, "UPDATE totals SET checks = 7", &err), -1);
	assert_int_equal(ask("SELECT checks FROM totals"), 0);
}

static void test_a_name_that_means_something_to_sqlite_is_a_file(void **state)
{
	char before[PATH_MAX];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(home), 0);
	const int r = store_open(":memory:", &store, &err);
	assert_int_equal(chdir(before), 0);
	assert_fine(r);
	assert_true(is_there(":memory:"));
}

/* ---- one at a time ------------------------------------------------------------------------------------------------------------- */

static void test_it_is_opened_once_at_a_time(void **state)
{
	struct store *second;

	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_int_equal(store_open(path_of("store.db"), &second, &err), -1);
	assert_non_null(strstr(err.hint, "a server runs on it"));
	assert_error(-1, CORDON_ERR_BUSY, "store.db is in use");
	assert_null(second);
	reopen();
}

static void test_another_process_cannot_open_it(void **state)
{
	int status;

	assert_fine(store_open(path_of("store.db"), &store, &err));
	const pid_t pid = fork();
	if (pid == 0) {
		struct store *second;
		_exit(store_open(path_of("store.db"), &second, &err) == -1 && err.code == CORDON_ERR_BUSY ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- refused ------------------------------------------------------------------------------------------------------------------- */

static void test_a_file_that_is_no_database_is_refused(void **state)
{
	write_file("store.db", "#!/bin/sh\necho hello\n", 20);
	assert_refused(CORDON_ERR_INPUT, "is not a database");
	char large[8192];
	memset(large, 'x', sizeof(large));
	write_file("store.db", large, sizeof(large));
	assert_refused(CORDON_ERR_INPUT, "is not a database");
}

static void test_an_empty_file_is_not_taken_for_a_new_store(void **state)
{
	write_file("store.db", "", 0);
	assert_refused(CORDON_ERR_INPUT, "is empty");
}

static void test_the_database_of_another_program_is_refused(void **state)
{
	make_other("store.db", "CREATE TABLE tenants (id); INSERT INTO tenants VALUES (1)");
	assert_refused(CORDON_ERR_INPUT, "is a database of another program");
}

static void test_a_newer_version_is_refused(void **state)
{
	make_store();
	make_other("store.db", "PRAGMA journal_mode = DELETE; PRAGMA user_version = 1000");
	assert_refused(CORDON_ERR_INPUT, "is of version 1000");
}

static void test_a_truncated_database_is_refused(void **state)
{
	struct stat st;

	make_store();
	assert_int_equal(stat(path_of("store.db"), &st), 0);
	assert_int_equal(truncate(path_of("store.db"), st.st_size / 2 / 4096 * 4096), 0);
	assert_refused(CORDON_ERR_SYSTEM, "is damaged");
	assert_int_equal(truncate(path_of("store.db"), 60), 0);
	assert_refused(CORDON_ERR_INPUT, "is not a database");
}

static void test_a_damaged_schema_is_refused(void **state)
{
	make_store();
	_cleanup_fd_ int fd = open(path_of("store.db"), O_WRONLY | O_CLOEXEC);
	char zeros[2000] = {0};
	assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 100), sizeof(zeros));
	assert_refused(CORDON_ERR_SYSTEM, "is damaged");
}

static void test_a_directory_is_refused(void **state)
{
	struct store *s;

	assert_int_equal(mkdir(path_of("store.db"), 0700), 0);
	assert_error(store_open(path_of("store.db"), &s, &err), CORDON_ERR_INPUT, "store.db is not a file");
	assert_error(store_open(path_of("store.db/"), &s, &err), CORDON_ERR_INPUT, "is not the path of a file");
	assert_error(store_open("", &s, &err), CORDON_ERR_INPUT, "is not the path of a file");
}

static void test_a_fifo_and_a_link_are_refused(void **state)
{
	struct store *s;

	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	assert_error(store_open(path_of("fifo"), &s, &err), CORDON_ERR_INPUT, "is not a file");
	make_store();
	assert_int_equal(symlink("store.db", path_of("link")), 0);
	assert_error(store_open(path_of("link"), &s, &err), CORDON_ERR_INPUT, "is a symbolic link");
}

static void test_a_missing_directory_is_not_made(void **state)
{
	struct store *s;

	assert_error(store_open(path_of("none/store.db"), &s, &err), CORDON_ERR_SYSTEM, "cannot open the directory of");
	assert_false(is_there("none"));
}

static void test_another_kind_of_store_is_refused_with_a_word(void **state)
{
	struct store *s;

	assert_error(store_open("postgresql://db/cordon", &s, &err), CORDON_ERR_INPUT, "a store can only be a file yet");
}

static void test_a_file_that_others_can_read_or_write_is_refused(void **state)
{
	make_store();
	assert_int_equal(chmod(path_of("store.db"), 0620), 0);
	assert_refused(CORDON_ERR_DENIED, "is open to others");
	assert_int_equal(chmod(path_of("store.db"), 0604), 0);
	assert_refused(CORDON_ERR_DENIED, "is open to others");
}

static void test_a_directory_that_others_can_write_is_refused(void **state)
{
	make_store();
	assert_int_equal(chmod(home, 0770), 0);
	assert_refused(CORDON_ERR_DENIED, "can be written by somebody else");
	assert_int_equal(chmod(home, 01777), 0);
	assert_refused(CORDON_ERR_DENIED, "can be written by somebody else");
	assert_int_equal(chmod(home, 0755), 0);
	assert_fine(store_open(path_of("store.db"), &store, &err));
}

static void test_what_belongs_to_somebody_else_is_refused(void **state)
{
	if (geteuid() != 0)
		skip(); /* only root can give files away */
	make_store();
	assert_int_equal(chown(path_of("store.db"), 65534, 65534), 0);
	assert_refused(CORDON_ERR_DENIED, "belongs to somebody else");
	assert_int_equal(chown(path_of("store.db"), 0, 0), 0);
	assert_int_equal(chown(home, 65534, 65534), 0);
	assert_refused(CORDON_ERR_DENIED, "belongs to or can be written by somebody else");
}

/* As a user for whom the mode of a directory counts. */
static void test_a_directory_that_cannot_be_written_is_an_error(void **state)
{
	int status;

	assert_int_equal(chmod(home, 0500), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(home, 65534, 65534), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		struct store *s;
		if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		_exit(store_open(path_of("store.db"), &s, &err) == -1 && err.sys_errno == EACCES && strstr(err.message, "store.db.lock")
		              ? 0
		              : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(chmod(home, 0700), 0);
	assert_false(is_there("store.db"));
}

/* ---- what is left of others ---------------------------------------------------------------------------------------------------- */

static void test_the_log_of_a_database_that_is_gone_is_not_put_into_a_new_one(void **state)
{
	struct store *s;

	write_file("store.db-wal", "x", 1);
	assert_error(store_open(path_of("store.db"), &s, &err), CORDON_ERR_INPUT, "is missing, but not its -wal");
	assert_true(is_there("store.db-wal"));
	assert_int_equal(unlink(path_of("store.db-wal")), 0);
	write_file("store.db-journal", "x", 1);
	assert_error(store_open(path_of("store.db"), &s, &err), CORDON_ERR_INPUT, "is missing, but not its -journal");
	assert_false(is_there("store.db"));
}

static void test_one_that_was_half_made_is_made_anew(void **state)
{
	write_file("store.db.new", "half", 4);
	write_file("store.db.new-journal", "half", 4);
	assert_fine(store_open(path_of("store.db"), &store, &err));
	assert_false(is_there("store.db.new"));
	assert_false(is_there("store.db.new-journal"));
	assert_consistent();
}

/* ---- backups ------------------------------------------------------------------------------------------------------------------- */

static void test_a_backup_is_a_store(void **state)
{
	assert_fine(store_open(path_of("store.db"), &store, &err));
	job_new(tenant_new("one"));
	assert_fine(store_backup(store, path_of("copy.db"), &err));
	assert_int_equal(mode_of("copy.db"), 0600);
	assert_fine(store_check(store, &err));
	job_new(tenant_new("two"));
	store_close(store);
	assert_fine(store_open(path_of("copy.db"), &store, &err));
	assert_counts(NULL, 1, 0, 0, 0);
	tenant_new("two"); /* it does not know of the other */
}

static int count_files(void)
{
	_cleanup_dir_ DIR *d = opendir(home);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	return n;
}

static void test_a_backup_replaces_nothing(void **state)
{
	assert_fine(store_open(path_of("store.db"), &store, &err));
	write_file("copy.db", "precious", 8);
	const int before = count_files();
	assert_error(store_backup(store, path_of("copy.db"), &err), CORDON_ERR_INPUT, "is there already");
	assert_error(store_backup(store, path_of("none/copy.db"), &err), CORDON_ERR_SYSTEM, "cannot back up the store");
	assert_error(store_backup(store, "", &err), CORDON_ERR_INPUT, "is not the path of a file");
	assert_int_equal(count_files(), before);
	char text[16];
	assert_int_equal(fs_read_small(AT_FDCWD, path_of("copy.db"), text, sizeof(text)), 8);
	assert_string_equal(text, "precious");
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, home_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_a_missing_one_is_made_for_its_owner_alone),
		A_TEST(test_what_is_written_is_synced_and_checked),
		A_TEST(test_what_was_stored_is_there_again),
		A_TEST(test_the_connection_that_reads_cannot_write),
		A_TEST(test_a_name_that_means_something_to_sqlite_is_a_file),
		A_TEST(test_it_is_opened_once_at_a_time),
		A_TEST(test_another_process_cannot_open_it),
		A_TEST(test_a_file_that_is_no_database_is_refused),
		A_TEST(test_an_empty_file_is_not_taken_for_a_new_store),
		A_TEST(test_the_database_of_another_program_is_refused),
		A_TEST(test_a_newer_version_is_refused),
		A_TEST(test_a_truncated_database_is_refused),
		A_TEST(test_a_damaged_schema_is_refused),
		A_TEST(test_a_directory_is_refused),
		A_TEST(test_a_fifo_and_a_link_are_refused),
		A_TEST(test_a_missing_directory_is_not_made),
		A_TEST(test_another_kind_of_store_is_refused_with_a_word),
		A_TEST(test_a_file_that_others_can_read_or_write_is_refused),
		A_TEST(test_a_directory_that_others_can_write_is_refused),
		A_TEST(test_what_belongs_to_somebody_else_is_refused),
		A_TEST(test_a_directory_that_cannot_be_written_is_an_error),
		A_TEST(test_the_log_of_a_database_that_is_gone_is_not_put_into_a_new_one),
		A_TEST(test_one_that_was_half_made_is_made_anew),
		A_TEST(test_a_backup_is_a_store),
		A_TEST(test_a_backup_replaces_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
