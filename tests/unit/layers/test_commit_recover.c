/* SPDX-License-Identifier: Apache-2.0 */
/* What recovery makes of stages: of ours, in each state, and of those that somebody else put there. Kills are in tests/crash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "commit_fixture.h"

#include "base/util.h"
#include "layers/commit_parts.h"

#define NOON 1500000000000000000
#define STAGE ".cordon-commit.1500000000000000000"

static enum commit_recovered what;

static int recover(void)
{
	err = (struct cordon_error){0};
	return commit_recover(host, "the host", base_path, &what, &err);
}

static int64_t host_time(void)
{
	struct stat st;
	assert_int_equal(fstat(host, &st), 0);
	return timespec_ns(st.st_mtim);
}

static struct commit_key our_key(void)
{
	struct commit_key key;
	assert_ok(commit_key_load(base_path, true, &key, &err));
	return key;
}

/* A stage with this manifest (without its last line, which is added) and two staged files, "0" and "1". */
static void plant(const char *steps)
{
	struct buf text = {0};
	const struct commit_key key = our_key();
	put_dir(host, STAGE, 0700);
	put_file(host, STAGE "/new/0", "zero\n", 0644);
	put_file(host, STAGE "/new/1", "one\n", 0600);
	if (steps) {
		buf_addf(&text, "cordon-commit 1\nstage %lld %lld .\n%s", (long long)NOON, (long long)NOON + 5, steps);
		manifest_end(&text, &key);
		put_file(host, STAGE "/manifest", text.data, 0600);
		buf_free(&text);
	}
}

/* ---- our own ------------------------------------------------------------------------------------------------------------------ */

static void test_nothing_is_recovered_where_nothing_was_interrupted(void **state)
{
	put_file(host, "f", "f\n", 0644);
	assert_int_equal(recover(), 0);
	assert_int_equal(what, RECOVERED_NOTHING);
}

static void test_a_stage_without_a_manifest_is_undone(void **state)
{
	put_file(host, "f", "f\n", 0644);
	plant(NULL);
	put_file(host, STAGE "/.manifest.tmp", "cordon-commit 1\n", 0600);
	assert_int_equal(recover(), 1);
	assert_int_equal(what, RECOVERED_UNDONE);
	assert_string_equal(what_is(host, STAGE), "(none)");
	assert_int_equal(host_time(), NOON);
	assert_int_equal(recover(), 0);
}

static void test_a_stage_with_a_manifest_is_finished(void **state)
{
	put_file(host, "old", "old\n", 0644);
	put_file(host, "dir/f", "f\n", 0644);
	plant("unlink old\nrmdir gone\nmove 0 0 a%20b\nmove 0 1 dir/f\nmove 0 7 never-there\nmeta dir/f 100640 0 0 77 -\ntouch dir 711 99\n");
	if (geteuid())
		assert_int_equal(fchownat(host, STAGE "/manifest", geteuid(), getegid(), 0), 0);
	assert_int_equal(recover(), 1);
	assert_int_equal(what, RECOVERED_FINISHED);
	assert_string_equal(what_is(host, "old"), "(none)");
	assert_string_equal(what_is(host, "a b"), "zero\n");
	assert_string_equal(what_is(host, "dir/f"), "one\n");
	assert_string_equal(what_is(host, "never-there"), "(none)");
	assert_string_equal(what_is(host, STAGE), "(none)");
	assert_int_equal(host_time(), NOON + 5);
	struct stat st;
	assert_int_equal(fstatat(host, "dir/f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(timespec_ns(st.st_mtim), 77);
	assert_int_equal(fstatat(host, "dir", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(timespec_ns(st.st_mtim), 99);
}

static void test_a_stage_that_is_done_is_only_removed(void **state)
{
	put_file(host, "f", "f\n", 0644);
	plant("unlink f\n");
	assert_int_equal(renameat(host, STAGE, host, ".cordon-commit.1234.done"), 0);
	assert_int_equal(recover(), 1);
	assert_int_equal(what, RECOVERED_FINISHED);
	assert_string_equal(what_is(host, "f"), "f\n");
	assert_int_equal(host_time(), 1234);
}

static void test_a_time_that_was_not_put_back_is(void **state)
{
	our_key();
	assert_int_equal(fsetxattr(host, "user.cordon.commit", "4321.done", 9, 0), 0);
	assert_int_equal(recover(), 1);
	assert_int_equal(what, RECOVERED_FINISHED);
	assert_int_equal(host_time(), 4321);
	assert_int_equal(fgetxattr(host, "user.cordon.commit", NULL, 0), -1);
	assert_int_equal(recover(), 0);
}

static void test_a_commit_recovers_first(void **state)
{
	put_file(host, "f", "f\n", 0644);
	enter();
	put_file(inside, "new", "new\n", 0644);
	leave();
	plant("move 0 0 from-before\n");
	must_commit((struct options){0});
	assert_string_equal(what_is(host, "from-before"), "zero\n");
	assert_string_equal(what_is(host, "new"), "new\n");
}

/* An obstacle that comes up after the manifest: the commit fails, and goes on when it is gone. */
static void test_an_obstacle_stops_it_until_it_is_removed(void **state)
{
	put_file(host, "a/in-the-way", "x\n", 0644);
	plant("move 0 0 a\nmove 0 1 b\n");
	assert_int_equal(recover(), -1);
	assert_non_null(strstr(err.message, "cannot put a in place"));
	assert_non_null(strstr(err.hint, STAGE));
	assert_string_equal(what_is(host, "a/in-the-way"), "x\n");
	remove_path(host, "a");
	assert_int_equal(recover(), 1);
	assert_string_equal(what_is(host, "a"), "zero\n");
	assert_string_equal(what_is(host, "b"), "one\n");
}

static void test_a_running_commit_is_left_alone(void **state)
{
	int ready[2], go[2], status;
	char c;
	plant("move 0 0 a\n");
	assert_int_equal(pipe(ready) | pipe(go), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(go[1]); /* so that it ends if this test fails */
		int fd = openat(host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_exit(flock(fd, LOCK_EX) == 0 && write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1 ? 0 : 1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(recover(), 0);
	assert_int_equal(what, RECOVERED_NOTHING);
	assert_string_equal(what_is(host, "a"), "(none)");
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(recover(), 1);
	assert_string_equal(what_is(host, "a"), "zero\n");
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

/* ---- others' ------------------------------------------------------------------------------------------------------------------ */

static void assert_left_alone(void)
{
	_cleanup_free_ char *before = tree_describe(host);
	assert_int_equal(recover(), 0);
	assert_int_equal(what, RECOVERED_FOREIGN);
	_cleanup_free_ char *after = tree_describe(host);
	assert_string_equal(before, after);
	enter();
	put_file(inside, "new", "new\n", 0644);
	leave();
	assert_int_equal(commit(), -1);
	assert_int_equal(err.code, CORDON_ERR_DENIED);
	assert_string_equal(what_is(host, "new"), "(none)");
}

/* As an archive or a repository might bring it along: the form is right, owner and mode are ours, and it was not us. */
static void test_a_manifest_that_we_did_not_write_is_not_carried_out(void **state)
{
	put_file(host, "f", "f\n", 0644);
	plant("unlink f\nmove 0 0 .git/config\n");
	remove_path(base, "key");
	assert_left_alone(); /* and now there is another key */
	assert_int_equal(recover(), 0);
	assert_int_equal(what, RECOVERED_FOREIGN);
	assert_string_equal(what_is(host, "f"), "f\n");
}

static void test_the_key_of_commits_is_for_nobody_else(void **state)
{
	struct commit_key key, again;
	assert_int_equal(commit_key_load(base_path, false, &key, &err), 1);
	assert_ok(commit_key_load(base_path, true, &key, &err));
	assert_ok(commit_key_load(base_path, true, &again, &err));
	assert_memory_equal(&key, &again, sizeof(key));
	assert_int_equal(fchmodat(base, "key", 0644, 0), 0);
	assert_int_equal(commit_key_load(base_path, true, &again, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_DENIED);
	put_file(base, "key", "short", 0600);
	assert_int_equal(commit_key_load(base_path, true, &again, &err), -1);
}

static void test_a_stage_of_another_user_is_refused(void **state)
{
	need_root();
	plant("unlink f\n");
	assert_int_equal(fchownat(host, STAGE, 12345, 0, 0), 0);
	assert_left_alone();
}

static void test_a_stage_that_others_may_write_to_is_refused(void **state)
{
	plant("unlink f\n");
	put_dir(host, STAGE, 0770);
	assert_left_alone();
}

static void test_a_link_is_no_stage(void **state)
{
	put_dir(base, "elsewhere", 0700);
	put_link(host, STAGE, "../elsewhere");
	assert_left_alone();
}

static void test_a_file_is_no_stage(void **state)
{
	put_file(host, STAGE, "x", 0600);
	assert_left_alone();
}

static void test_an_odd_name_is_no_stage(void **state)
{
	put_dir(host, ".cordon-commit.0x7", 0700);
	assert_left_alone();
}

static void test_a_part_of_a_commit_to_a_directory_above_is_left_alone(void **state)
{
	put_file(host, ".cordon-commit.5.part/new/0", "x", 0600);
	assert_int_equal(recover(), 0);
	assert_string_equal(what_is(host, ".cordon-commit.5.part/new/0"), "x");
}

/* ---- manifests that nobody would write ---------------------------------------------------------------------------------------- */

static void test_a_damaged_manifest_is_not_acted_upon(void **state)
{
	static const char *const bad[] = {
		"",
		"cordon-commit 1\n",
		"cordon-commit 1\nstage 1 1 .\nunlink f\n",
		"cordon-commit 1\nstage 1 1 .\nunlink f\nend 0000000000000000\n",
		"cordon-commit 2\nstage 1 1 .\nend 0000000000000000\n",
		"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
	};
	put_file(host, "f", "f\n", 0644);
	plant(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		put_file(host, STAGE "/manifest", bad[i], 0600);
		assert_int_equal(recover(), 0);
		assert_int_equal(what, RECOVERED_FOREIGN);
		assert_string_equal(what_is(host, "f"), "f\n");
	}
}

/* With a right checksum, too: each step is read before the first is done. */
static void test_a_step_that_leads_outside_or_makes_no_sense_stops_all(void **state)
{
	static const char *const bad[] = {
		"unlink ../outside",
		"unlink /etc/passwd",
		"unlink a/../../outside",
		"unlink .",
		"unlink ",
		"unlink",
		"unlink a%zz",
		"unlink a%00",
		"unlink a b",
		"erase a",
		"move 0 0",
		"move 9 0 a",
		"move 0 x a",
		"move 0 0 ..",
		"touch a",
		"touch a 644",
		"touch ../x 644 1",
		"meta a",
		"meta a 100644 0 0",
		"meta a 100644 0 0 1",
		"meta a 100644 0 0 1 user.x",
		"meta a 100644 0 0 1 user.x=0",
		"meta a 100644 0 0 1 user.overlay.opaque=79",
		"rmdir a//b",
		"tree ./a",
		"stage 1 1 ../up",
	};
	put_file(base, "outside", "outside\n", 0644);
	put_file(host, "f", "f\n", 0644);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char steps[256];
		snprintf(steps, sizeof(steps), "unlink f\n%s\n", bad[i]);
		plant(steps);
		if (recover() != -1)
			fail_msg("'%s' was let through", bad[i]);
		assert_string_equal(what_is(host, "f"), "f\n");
		assert_string_equal(what_is(base, "outside"), "outside\n");
		remove_path(host, STAGE);
	}
}

static void test_a_manifest_does_not_follow_links(void **state)
{
	put_file(base, "outside/f", "outside\n", 0644);
	put_link(host, "link", "../outside");
	plant("unlink link/f\ntree link\nrmdir link/f\ntouch link/f 777 5\ntouch link 700 5\nmeta link/f 100777 0 0 5 -\n");
	assert_int_equal(recover(), -1); /* meta finds no file */
	remove_path(host, STAGE);
	plant("unlink link/f\ntree link\nrmdir link/f\ntouch link/f 777 5\ntouch link 700 5\nmove 0 0 link/g\n");
	assert_int_equal(recover(), -1);
	assert_non_null(strstr(err.message, "link/g"));
	assert_string_equal(what_is(base, "outside/f"), "outside\n");
	assert_string_equal(what_is(base, "outside/g"), "(none)");
	assert_string_equal(what_is(host, "link"), "-> ../outside");
	struct stat st;
	assert_int_equal(fstatat(base, "outside", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
}

/* ---- somebody works against it ------------------------------------------------------------------------------------------------ */

/* When the link is put in place: before or after a rename of the commit's, counted from that of the manifest, from which on there is no way back. */
static struct {
	int rename; /* -1: never */
	bool before;
	int count; /* -1: the manifest is still to come */
} swap = {.rename = -1};

static void put_link_in_place(bool before)
{
	if (swap.count != swap.rename || swap.before != before)
		return;
	swap.rename = -1;
	if (renameat(host, "d", base, "aside") < 0 || symlinkat("../outside", host, "d") < 0)
		abort();
}

int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new)
{
	if (swap.rename < 0)
		return __real_renameat(from, old, to, new);
	if (swap.count >= 0 || strcmp(new, "manifest") == 0)
		swap.count++;
	put_link_in_place(true);
	int r = __real_renameat(from, old, to, new);
	put_link_in_place(false);
	return r;
}

static void test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(void **state)
{
	char name[16];
	put_file(base, "outside/0", "outside\n", 0644);
	put_file(host, "d/0", "0\n", 0644);
	enter();
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "d/%d", i);
		put_file(inside, name, "x\n", 0644);
	}
	leave();
	_cleanup_fd_ int outside = tree_open(base, "outside");
	_cleanup_free_ char *before = tree_describe(outside);
	for (int round = 0; round < 10; round++) {
		remove_path(host, "d");
		put_file(host, "d/0", "0\n", 0644);
		struct timespec noon[2] = {{1500000000, 0}, {1500000000, 0}};
		assert_int_equal(futimens(host, noon), 0); /* it is in the stage's name */
		swap.rename = round * 20;
		swap.before = round % 2;
		swap.count = -1;
		assert_int_equal(commit_with((struct options){.flags = COMMIT_FORCE}), -1);
		assert_int_equal(swap.rename, -1);
		_cleanup_free_ char *after = tree_describe(outside);
		assert_string_equal(before, after);
		assert_string_equal(what_is(host, "d"), "-> ../outside");
		remove_path(host, "d");
		assert_int_equal(renameat(base, "aside", host, "d"), 0);
		assert_true(recover() >= 0);
		assert_string_equal(what_is(host, "d/0"), "x\n");
		assert_string_equal(what_is(host, "d/199"), "x\n");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_is_recovered_where_nothing_was_interrupted),
		TEST(test_a_stage_without_a_manifest_is_undone),
		TEST(test_a_stage_with_a_manifest_is_finished),
		TEST(test_a_stage_that_is_done_is_only_removed),
		TEST(test_a_time_that_was_not_put_back_is),
		TEST(test_a_commit_recovers_first),
		TEST(test_an_obstacle_stops_it_until_it_is_removed),
		TEST(test_a_running_commit_is_left_alone),
		TEST(test_a_stage_of_another_user_is_refused),
		TEST(test_a_stage_that_others_may_write_to_is_refused),
		TEST(test_a_link_is_no_stage),
		TEST(test_a_file_is_no_stage),
		TEST(test_an_odd_name_is_no_stage),
		TEST(test_a_part_of_a_commit_to_a_directory_above_is_left_alone),
		TEST(test_a_manifest_that_we_did_not_write_is_not_carried_out),
		TEST(test_the_key_of_commits_is_for_nobody_else),
		TEST(test_a_damaged_manifest_is_not_acted_upon),
		TEST(test_a_step_that_leads_outside_or_makes_no_sense_stops_all),
		TEST(test_a_manifest_does_not_follow_links),
		TEST(test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
