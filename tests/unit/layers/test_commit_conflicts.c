/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit refuses: the host's own changes, and what cannot be done. And what --force makes of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "commit_fixture.h"

#include "base/fs.h"
#include "base/util.h"

static const struct options plain = {0};

/* The sandbox changes d/f, adds d/new, deletes d/old and the directory away; the host has done something meanwhile. */
static void sandbox_works(void)
{
	put_file(host, "d/f", "f\n", 0644);
	put_file(host, "d/old", "old\n", 0644);
	put_file(host, "away/x", "x\n", 0644);
	put_file(host, "other", "other\n", 0644);
	enter();
	put_file(inside, "d/f", "from inside\n", 0644);
	put_file(inside, "d/new", "new inside\n", 0644);
	remove_path(inside, "d/old");
	remove_path(inside, "away");
	leave();
}

static void append(int dir, const char *path)
{
	_cleanup_fd_ int fd = openat(dir, path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "host\n", 5), 5);
}

/* ---- the host's changes ------------------------------------------------------------------------------------------------------- */

static void test_an_edit_on_the_host_is_a_conflict(void **state)
{
	sandbox_works();
	append(host, "d/f");
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "changed on the host");
}

static void test_an_edit_that_hides_behind_size_and_time_is_a_conflict(void **state)
{
	struct stat st;
	sandbox_works();
	assert_int_equal(fstatat(host, "d/f", &st, 0), 0);
	_cleanup_fd_ int fd = openat(host, "d/f", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "g", 1, 0), 1);
	assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "changed on the host");
}

static void test_a_file_that_the_host_replaced_is_a_conflict(void **state)
{
	sandbox_works();
	put_file(host, "d/f", "f\n", 0644);
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "changed on the host");
}

static void test_a_file_that_the_host_deleted_is_a_conflict(void **state)
{
	sandbox_works();
	remove_path(host, "d/f");
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "deleted on the host");
}

static void test_a_new_file_that_the_host_has_too_is_a_conflict(void **state)
{
	sandbox_works();
	put_file(host, "d/new", "the host's\n", 0644);
	assert_refused(plain, "d/new", REFUSED_CONFLICT, "created on the host");
}

static void test_a_deleted_file_that_the_host_edited_is_a_conflict(void **state)
{
	sandbox_works();
	append(host, "d/old");
	assert_refused(plain, "d/old", REFUSED_CONFLICT, "changed on the host");
}

static void test_a_new_file_of_the_host_in_a_deleted_directory_is_a_conflict(void **state)
{
	sandbox_works();
	put_file(host, "away/mine", "mine\n", 0644);
	assert_refused(plain, "away/mine", REFUSED_CONFLICT, "created on the host");
}

static void test_what_is_no_file_keeps_its_directory(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	sandbox_works();
	_cleanup_fd_ int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/away/sock", host);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_refused(plain, "away", REFUSED_CONFLICT, "sock");
}

/* With a copy as the seed, what it shows is what the host had. */
static void test_without_records_a_copied_seed_tells_the_hosts_changes(void **state)
{
	sandbox_works();
	use_copied_seed();
	assert_int_equal(commit(.nothing_known = true, .flags = COMMIT_DRY_RUN), 0);
	append(host, "d/f");
	assert_refused((struct options){.nothing_known = true}, "d/f", REFUSED_CONFLICT, "not known");
}

static void test_without_records_everything_that_the_host_has_is_a_conflict(void **state)
{
	sandbox_works();
	assert_int_equal(commit(.nothing_known = true), 1);
	assert_int_equal(report.problem_count, 4); /* not d/new */
	assert_string_equal(problem_of("d/new"), "");
}

static void test_a_directory_that_was_moved_into_place_is_a_conflict(void **state)
{
	enter();
	put_file(inside, "d/new", "new\n", 0644);
	leave();
	remove_path(inside, "d");
	put_dir(host, "d", 0700); /* the host makes one of that name, but another mode */
	assert_refused(plain, "d", REFUSED_CONFLICT, "created on the host");
}

static void test_a_replaced_parent_directory_is_a_conflict_for_new_files(void **state)
{
	put_dir(host, "d", 0755);
	put_dir(host, "e", 0755);
	enter();
	put_file(inside, "d/new", "new\n", 0644);
	leave();
	assert_int_equal(renameat(host, "d", host, "was-d"), 0);
	assert_int_equal(renameat(host, "e", host, "d"), 0);
	assert_refused(plain, "d/new", REFUSED_CONFLICT, "moved or replaced");
}

static void test_a_parent_that_is_a_link_now_is_a_conflict_and_is_not_followed(void **state)
{
	put_dir(host, "d", 0755);
	put_dir(base, "outside", 0755);
	enter();
	put_file(inside, "d/new", "new\n", 0644);
	leave();
	remove_path(host, "d");
	put_link(host, "d", "../outside");
	assert_int_equal(commit(), 1);
	assert_non_null(strstr(problem_of("d/new"), "moved or replaced"));
	assert_string_not_equal(problem_of("d"), "");
	must_commit((struct options){.flags = COMMIT_FORCE}); /* the link goes, a directory comes */
	assert_string_equal(what_is(base, "outside/new"), "(none)");
	assert_string_equal(what_is(host, "d"), "(dir)");
	assert_string_equal(what_is(host, "d/new"), "new\n");
}

static void test_several_conflicts_are_all_reported_and_nothing_is_done(void **state)
{
	sandbox_works();
	append(host, "d/f");
	put_file(host, "d/new", "x\n", 0644);
	assert_int_equal(commit(), 1);
	assert_int_equal(report.problem_count, 2);
	assert_string_not_equal(problem_of("d/f"), "");
	assert_string_not_equal(problem_of("d/new"), "");
	assert_string_equal(what_is(host, "d/old"), "old\n");
	assert_string_equal(what_is(host, "away/x"), "x\n");
}

static void test_a_race_that_was_recorded_is_a_conflict(void **state)
{
	sandbox_works();
	struct identity id = {.known = true, .raced = true};
	assert_ok(identities_put(known, "d/f", &id, &err));
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "while the command ran");
}

/* While large files are being staged there is time for that. */
static void edit_meanwhile(void *user, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	if (done == total)
		append(host, "d/f");
}

static void test_an_edit_during_the_commit_is_a_conflict(void **state)
{
	struct stat before, after;
	sandbox_works();
	assert_int_equal(fstat(host, &before), 0);
	assert_int_equal(commit(.progress = edit_meanwhile), 1);
	assert_non_null(strstr(problem_of("d/f"), "during the commit"));
	assert_string_equal(what_is(host, "d/f"), "f\nhost\n");
	assert_string_equal(what_is(host, "d/old"), "old\n");
	assert_string_equal(what_is(host, "d/new"), "(none)");
	assert_int_equal(report.applied, 0);
	assert_int_equal(fstat(host, &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

/* ---- no conflicts ------------------------------------------------------------------------------------------------------------- */

static void test_what_the_host_changed_elsewhere_is_no_conflict(void **state)
{
	sandbox_works();
	append(host, "other");
	put_file(host, "d/hosts-own", "mine\n", 0644); /* in a directory that is written to */
	must_commit(plain);
	assert_string_equal(what_is(host, "d/f"), "from inside\n");
	assert_string_equal(what_is(host, "d/hosts-own"), "mine\n");
	assert_string_equal(what_is(host, "other"), "other\nhost\n");
	assert_string_equal(what_is(host, "away"), "(none)");
}

static void test_what_both_deleted_is_no_conflict(void **state)
{
	sandbox_works();
	remove_path(host, "d/old");
	remove_path(host, "away");
	must_commit(plain);
	assert_int_equal(report.applied, 2);
}

static void test_the_same_change_on_both_sides_is_no_conflict(void **state)
{
	struct stat before, after;
	sandbox_works();
	put_file(host, "d/f", "from inside\n", 0644);
	put_file(host, "d/new", "new inside\n", 0644);
	assert_int_equal(fstatat(host, "d/f", &before, 0), 0);
	must_commit(plain);
	assert_int_equal(fstatat(host, "d/f", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino); /* left alone */
	assert_string_equal(what_is(host, "d/old"), "(none)");
}

static void test_the_same_text_with_another_mode_is_a_conflict(void **state)
{
	sandbox_works();
	put_file(host, "d/new", "new inside\n", 0600);
	assert_refused(plain, "d/new", REFUSED_CONFLICT, "created on the host");
}

static void test_our_own_earlier_commit_is_no_conflict(void **state)
{
	sandbox_works();
	must_commit(plain);
	remember_written();
	next_exec();
	put_file(inside, "d/f", "second\n", 0644);
	put_file(inside, "d/old", "it is back\n", 0644);
	remove_path(inside, "d/new");
	leave();
	must_commit(plain);
	assert_string_equal(what_is(host, "d/f"), "second\n");
	assert_string_equal(what_is(host, "d/old"), "it is back\n");
	assert_string_equal(what_is(host, "d/new"), "(none)");
}

/*
 * Killed after the manifest and finished by recovery: what was written was never recorded. The host's file is still one that came from
 * the sandbox.
 */
static void test_our_own_earlier_commit_is_known_by_its_contents(void **state)
{
	sandbox_works();
	must_commit(plain);
	next_exec();
	put_file(inside, "d/f", "second\n", 0644);
	leave();
	must_commit(plain);
	assert_string_equal(what_is(host, "d/f"), "second\n");
}

static void test_an_edit_after_our_own_commit_is_a_conflict(void **state)
{
	sandbox_works();
	must_commit(plain);
	remember_written();
	append(host, "d/f");
	next_exec();
	put_file(inside, "d/f", "second\n", 0644);
	leave();
	assert_refused(plain, "d/f", REFUSED_CONFLICT, "changed on the host");
}

/* ---- force -------------------------------------------------------------------------------------------------------------------- */

static void test_force_for_one_path_leaves_the_other_conflicts(void **state)
{
	sandbox_works();
	append(host, "d/f");
	put_file(host, "d/new", "x\n", 0644);
	const char *const force[] = {"d/f", NULL};
	assert_refused((struct options){.force = force}, "d/new", REFUSED_CONFLICT, "created");
	const char *const both[] = {"d", NULL};
	must_commit((struct options){.force = both});
	assert_string_equal(what_is(host, "d/f"), "from inside\n");
	assert_string_equal(what_is(host, "d/new"), "new inside\n");
}

static void test_a_forced_deletion_takes_the_hosts_new_files_too(void **state)
{
	sandbox_works();
	put_file(host, "away/mine/deep", "mine\n", 0644);
	must_commit((struct options){.flags = COMMIT_FORCE});
	assert_string_equal(what_is(host, "away"), "(none)");
}

static void test_a_forced_file_gets_back_the_directory_that_the_host_deleted(void **state)
{
	put_file(host, "a/b/f", "f\n", 0644);
	put_dir(host, "a/b", 0750);
	enter();
	put_file(inside, "a/b/f", "changed\n", 0644);
	leave();
	remove_path(host, "a");
	assert_refused(plain, "a/b/f", REFUSED_CONFLICT, "deleted on the host");
	must_commit((struct options){.flags = COMMIT_FORCE});
	assert_string_equal(what_is(host, "a/b/f"), "changed\n");
}

static void test_a_forced_file_replaces_a_directory_of_the_hosts(void **state)
{
	put_file(host, "f", "f\n", 0644);
	enter();
	put_file(inside, "f", "changed\n", 0644);
	leave();
	remove_path(host, "f");
	put_file(host, "f/sub/mine", "mine\n", 0644);
	must_commit((struct options){.flags = COMMIT_FORCE});
	assert_string_equal(what_is(host, "f"), "changed\n");
}

/* ---- what cannot be done ------------------------------------------------------------------------------------------------------ */

static void test_the_name_of_a_stage_is_refused_everywhere(void **state)
{
	enter();
	put_file(inside, "sub/.cordon-commit.5/manifest", "cordon-commit 1\n", 0600);
	put_dir(inside, ".cordon-commit.7.done", 0700);
	leave();
	assert_int_equal(commit(.flags = COMMIT_FORCE | COMMIT_AUTORUN), 1);
	assert_non_null(strstr(problem_of(".cordon-commit.7.done"), "cordon's own"));
	assert_non_null(strstr(problem_of("sub/.cordon-commit.5/manifest"), "cordon's own"));
	assert_string_equal(what_is(host, "sub"), "(none)");
}

static void test_a_mount_point_is_neither_deleted_nor_replaced(void **state)
{
	char path[4096];
	need_root();
	put_file(host, "mnt/x", "x\n", 0644);
	put_file(host, "bound", "bound\n", 0644);
	enter();
	remove_path(inside, "mnt");
	put_file(inside, "bound", "changed\n", 0644);
	leave();
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") < 0) {
		print_message("skip: no mount namespaces\n");
		skip();
	}
	/* a descriptor stays in the namespace it was opened in */
	assert_int_equal(fs_fd_path(host, path, sizeof(path)), 0);
	close(host);
	host = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	strncat(path, "/bound", 7);
	assert_int_equal(mount(path, path, "none", MS_BIND, ""), 0);
	path[strlen(path) - 5] = '\0';
	strncat(path, "mnt", 4);
	assert_int_equal(mount(path, path, "none", MS_BIND, ""), 0);
	assert_int_equal(commit(), 1);
	assert_non_null(strstr(problem_of("mnt"), "mount point"));
	assert_non_null(strstr(problem_of("bound"), "mount point"));
	umount2(path, MNT_DETACH);
	path[strlen(path) - 3] = '\0';
	strncat(path, "bound", 6);
	umount2(path, MNT_DETACH);
}

static void test_a_directory_that_one_may_not_write_to_is_told_before(void **state)
{
	need_user();
	enter();
	put_file(inside, "f", "f\n", 0644);
	leave();
	close(host);
	host = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(commit(.nothing_known = true), 1);
	assert_non_null(strstr(problem_of("f"), "may not write"));
}

static void test_an_immutable_file_is_told_before(void **state)
{
	long flags = FS_IMMUTABLE_FL;
	need_root();
	put_file(host, "f", "f\n", 0644);
	_cleanup_fd_ int fd = openat(host, "f", O_RDONLY | O_CLOEXEC);
	enter();
	put_file(inside, "f", "changed\n", 0644);
	leave();
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0) {
		print_message("skip: no immutable files here\n");
		skip();
	}
	int r = commit(.flags = COMMIT_FORCE);
	flags = 0;
	assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
	assert_int_equal(r, 1);
	assert_non_null(strstr(problem_of("f"), "immutable"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_edit_on_the_host_is_a_conflict),
		TEST(test_an_edit_that_hides_behind_size_and_time_is_a_conflict),
		TEST(test_a_file_that_the_host_replaced_is_a_conflict),
		TEST(test_a_file_that_the_host_deleted_is_a_conflict),
		TEST(test_a_new_file_that_the_host_has_too_is_a_conflict),
		TEST(test_a_deleted_file_that_the_host_edited_is_a_conflict),
		TEST(test_a_new_file_of_the_host_in_a_deleted_directory_is_a_conflict),
		TEST(test_what_is_no_file_keeps_its_directory),
		TEST(test_without_records_a_copied_seed_tells_the_hosts_changes),
		TEST(test_without_records_everything_that_the_host_has_is_a_conflict),
		TEST(test_a_directory_that_was_moved_into_place_is_a_conflict),
		TEST(test_a_replaced_parent_directory_is_a_conflict_for_new_files),
		TEST(test_a_parent_that_is_a_link_now_is_a_conflict_and_is_not_followed),
		TEST(test_several_conflicts_are_all_reported_and_nothing_is_done),
		TEST(test_a_race_that_was_recorded_is_a_conflict),
		TEST(test_an_edit_during_the_commit_is_a_conflict),
		TEST(test_what_the_host_changed_elsewhere_is_no_conflict),
		TEST(test_what_both_deleted_is_no_conflict),
		TEST(test_the_same_change_on_both_sides_is_no_conflict),
		TEST(test_the_same_text_with_another_mode_is_a_conflict),
		TEST(test_our_own_earlier_commit_is_no_conflict),
		TEST(test_our_own_earlier_commit_is_known_by_its_contents),
		TEST(test_an_edit_after_our_own_commit_is_a_conflict),
		TEST(test_force_for_one_path_leaves_the_other_conflicts),
		TEST(test_a_forced_deletion_takes_the_hosts_new_files_too),
		TEST(test_a_forced_file_gets_back_the_directory_that_the_host_deleted),
		TEST(test_a_forced_file_replaces_a_directory_of_the_hosts),
		TEST(test_the_name_of_a_stage_is_refused_everywhere),
		TEST(test_a_mount_point_is_neither_deleted_nor_replaced),
		TEST(test_a_directory_that_one_may_not_write_to_is_told_before),
		TEST(test_an_immutable_file_is_told_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
