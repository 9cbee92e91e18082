/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit does to the host when nothing stands in its way. Conflicts are in test_commit_conflicts.c, kills in tests/crash. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit_fixture.h"

#include "base/fs.h"
#include "base/util.h"
#include "layers/filemeta.h"

#define NOON 1500000000000000000

static void test_files_of_every_kind_arrive_as_they_are_inside(void **state)
{
	put_file(host, "src/a.c", "a\n", 0644);
	put_file(host, "gone/b", "b\n", 0644);
	put_file(host, "kept", "kept\n", 0600);
	put_file(host, "becomes-dir", "x\n", 0644);
	put_file(host, "becomes-link/x", "x\n", 0644);
	settle_times(host, NOON);
	enter();
	put_file(inside, "src/a.c", "changed\n", 0755);
	put_file(inside, "src/new/deep/er", "new\n", 0640);
	put_attr(inside, "src/new/deep/er", "user.colour", "blue");
	remove_path(inside, "gone");
	remove_path(inside, "becomes-dir");
	put_file(inside, "becomes-dir/f", "f\n", 0644);
	remove_path(inside, "becomes-link");
	put_link(inside, "becomes-link", "src");
	put_dir(inside, "empty", 0711);
	assert_int_equal(mkfifoat(inside, "fifo", 0600), 0);
	leave();
	must_commit((struct options){0});
	assert_host_is_inside();
	assert_int_equal(report.applied, 12);
	assert_int_equal(report.executables.count, 1);
	assert_string_equal(report.executables.items[0], "src/a.c");
}

static void test_a_second_commit_has_nothing_to_do(void **state)
{
	struct stat before, after;
	enter();
	put_file(inside, "f", "f\n", 0644);
	leave();
	must_commit((struct options){0});
	assert_int_equal(fstatat(host, "f", &before, 0), 0);
	must_commit((struct options){0});
	assert_int_equal(report.applied, 0);
	assert_int_equal(fstatat(host, "f", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void test_a_dry_run_changes_nothing_and_says_what_it_would_do(void **state)
{
	put_file(host, "f", "f\n", 0644);
	enter();
	put_file(inside, "f", "changed\n", 0644);
	put_file(inside, "x", "x\n", 0755);
	leave();
	_cleanup_free_ char *before = tree_describe(host);
	must_commit((struct options){.flags = COMMIT_DRY_RUN});
	_cleanup_free_ char *after = tree_describe(host);
	assert_string_equal(before, after);
	assert_int_equal(report.applied, 2);
	assert_string_equal(report.executables.items[0], "x");
	assert_null(report.written);
}

static void test_the_time_of_the_directory_is_put_back_unless_names_came_or_went(void **state)
{
	struct stat st;
	put_file(host, "f", "f\n", 0644);
	put_file(host, "sub/g", "g\n", 0644);
	settle_times(host, NOON);
	enter();
	_cleanup_fd_ int fd = openat(inside, "f", O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, "changed\n", 8), 8);
	put_file(inside, "sub/new", "new\n", 0644);
	leave();
	must_commit((struct options){0});
	assert_int_equal(fstat(host, &st), 0);
	assert_int_equal(timespec_ns(st.st_mtim), NOON);
	assert_host_is_inside();
	next_exec();
	put_file(inside, "new-at-the-top", "x\n", 0644);
	leave();
	must_commit((struct options){0});
	assert_host_is_inside();
	assert_int_equal(fstat(host, &st), 0);
	assert_true(timespec_ns(st.st_mtim) > NOON);
}

static void test_links_between_committed_files_are_links_on_the_host(void **state)
{
	struct stat a, b;
	enter();
	put_file(inside, "one", "one\n", 0644);
	put_dir(inside, "sub", 0755);
	assert_int_equal(linkat(inside, "one", inside, "sub/two", 0), 0);
	leave();
	must_commit((struct options){0});
	assert_int_equal(fstatat(host, "one", &a, 0), 0);
	assert_int_equal(fstatat(host, "sub/two", &b, 0), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(a.st_nlink, 2);
}

/* Inside, a write or a chmod parts a name from the other ones: the other one on the host must stay as it is. */
static void test_one_of_two_names_on_the_host_changes_alone(void **state)
{
	struct stat st;
	put_file(host, "d/a", "text\n", 0644);
	assert_int_equal(linkat(host, "d/a", host, "b", 0), 0);
	put_file(host, "d/c", "text\n", 0644);
	assert_int_equal(linkat(host, "d/c", host, "e", 0), 0);
	enter();
	put_file(inside, "d/a", "changed\n", 0644);
	put_file(inside, "d/c", "text\n", 0755);
	leave();
	must_commit((struct options){0});
	assert_string_equal(what_is(host, "b"), "text\n");
	assert_int_equal(fstatat(host, "e", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_host_is_inside();
}

static void test_a_new_mode_does_not_make_a_new_file(void **state)
{
	struct stat before, after;
	put_file(host, "tool", "#!/bin/sh\n", 0644);
	enter();
	assert_int_equal(fchmodat(inside, "tool", 0755, 0), 0);
	put_attr(inside, "tool", "user.t", "1");
	leave();
	assert_int_equal(fstatat(host, "tool", &before, 0), 0);
	must_commit((struct options){0});
	assert_int_equal(fstatat(host, "tool", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(after.st_mode & 07777, 0755);
	assert_host_is_inside();
	assert_string_equal(report.executables.items[0], "tool");
}

static void test_a_hole_stays_a_hole(void **state)
{
	struct stat st;
	enter();
	put_file(inside, "sparse", "", 0644);
	_cleanup_fd_ int fd = openat(inside, "sparse", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "end", 3, (off_t)64 << 20), 3);
	leave();
	must_commit((struct options){0});
	assert_int_equal(fstatat(host, "sparse", &st, 0), 0);
	assert_int_equal(st.st_size, ((off_t)64 << 20) + 3);
	assert_true(st.st_blocks < 2048);
	assert_host_is_inside();
}

static void test_owners_are_kept(void **state)
{
	struct stat st;
	need_root();
	put_file(host, "changed", "a\n", 0644);
	put_file(host, "given", "a\n", 0644);
	assert_int_equal(fchownat(host, "changed", 1234, 4321, 0), 0);
	enter();
	put_file(inside, "changed", "b\n", 0644);
	assert_int_equal(fchownat(inside, "changed", 1234, 4321, 0), 0);
	assert_int_equal(fchownat(inside, "given", 99, 98, 0), 0);
	put_link(inside, "link", "x");
	assert_int_equal(fchownat(inside, "link", 5, 6, AT_SYMLINK_NOFOLLOW), 0);
	put_dir(inside, "dir", 02775);
	assert_int_equal(fchownat(inside, "dir", 7, 8, 0), 0);
	assert_int_equal(fchmodat(inside, "dir", 02775, 0), 0);
	leave();
	must_commit((struct options){0});
	assert_host_is_inside();
	assert_int_equal(fstatat(host, "changed", &st, 0), 0);
	assert_int_equal(st.st_uid, 1234);
}

static void test_a_read_only_directory_can_get_new_files(void **state)
{
	put_file(host, "ro/old", "old\n", 0444);
	put_file(host, "ro/goes", "goes\n", 0444);
	put_dir(host, "ro", 0555);
	enter();
	put_dir(inside, "ro", 0755);
	put_file(inside, "ro/new", "new\n", 0444);
	put_file(inside, "ro/sub/deeper", "new\n", 0444);
	remove_path(inside, "ro/goes");
	put_dir(inside, "ro/sub", 0500);
	put_dir(inside, "ro", 0555);
	leave();
	must_commit((struct options){0});
	assert_host_is_inside();
}

/* The ACL that a directory gives to new files by default is not the files' own. */
static void test_what_the_directory_would_give_to_new_files_is_not_kept(void **state)
{
	/* version 2; user::rwx user:1:rwx group::rwx mask::rwx other::rwx */
	static const unsigned char acl[] = {2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 2,   0,   7,  0, 1, 0, 0,   0,   4,   0,
	                                    7, 0, 255, 255, 255, 255, 16, 0, 7,   0,   255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255};
	struct file_meta meta;
	put_dir(host, "sub", 0755);
	enter();
	put_file(inside, "f", "f\n", 0640);
	put_file(inside, "sub/g", "g\n", 0604);
	leave();
	assert_ok(file_meta_read(host, "host", 0, &meta, &err));
	meta.attrs = calloc(1, sizeof(*meta.attrs));
	meta.attrs[0] = (struct file_attr){strdup("system.posix_acl_default"), malloc(sizeof(acl)), sizeof(acl)};
	meta.attr_count = 1;
	memcpy(meta.attrs[0].value, acl, sizeof(acl));
	if (file_meta_apply(host, "host", &meta, 0, &err) < 0) {
		file_meta_free(&meta);
		print_message("skip: no ACLs here: %s\n", err.message);
		skip();
	}
	file_meta_free(&meta);
	must_commit((struct options){0});
	_cleanup_fd_ int f = openat(host, "f", O_RDONLY | O_CLOEXEC);
	assert_ok(file_meta_read(f, "f", 0, &meta, &err));
	assert_int_equal(meta.attr_count, 0);
	assert_int_equal(meta.mode & 07777, 0640);
	file_meta_free(&meta);
}

static void test_odd_names_and_very_deep_ones(void **state)
{
	char long_name[256];
	/* 10,000 bytes of path; but valgrind takes a while for each system call, and there it is just more than the kernel takes at once */
	int depth = getenv("UNDER_VALGRIND") ? PATH_MAX / (int)strlen("directory/") + 1 : 1000;
	memset(long_name, 'n', 255);
	long_name[255] = '\0';
	enter();
	put_file(inside, long_name, "long\n", 0644);
	put_file(inside, "new\nline", "x\n", 0644);
	put_file(inside, "\xff\xfe", "x\n", 0644);
	put_file(inside, " lead%41=,", "x\n", 0644);
	_cleanup_fd_ int at = openat(inside, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(at, "directory", 0755), 0);
		int next = openat(at, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	put_file(at, "bottom", "deep\n", 0644);
	leave();
	must_commit((struct options){0});
	assert_int_equal(report.applied, depth + 5);
	cleanup_fd(&at);
	at = openat(host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		int next = openat(at, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	assert_string_equal(what_is(at, "bottom"), "deep\n");
	assert_string_equal(what_is(host, "\xff\xfe"), "x\n");
	assert_string_equal(what_is(host, long_name), "long\n");
}

/* ---- parts of it -------------------------------------------------------------------------------------------------------------- */

static void test_only_named_paths_and_the_new_directories_they_are_in(void **state)
{
	put_file(host, "a/x", "x\n", 0644);
	enter();
	put_file(inside, "a/x", "changed\n", 0644);
	put_file(inside, "new/one/f", "f\n", 0644);
	put_file(inside, "new/two/g", "g\n", 0644);
	put_file(inside, "newer", "h\n", 0644);
	leave();
	must_commit((struct options){.paths = (const char *const[]){"new/one", NULL}});
	assert_string_equal(what_is(host, "new/one/f"), "f\n");
	assert_string_equal(what_is(host, "new/two"), "(none)");
	assert_string_equal(what_is(host, "newer"), "(none)");
	assert_string_equal(what_is(host, "a/x"), "x\n");
	/* what was recorded before the directory came into being still holds */
	remember_written();
	must_commit((struct options){.paths = (const char *const[]){"new/two/g", "a", NULL}});
	assert_string_equal(what_is(host, "new/two/g"), "g\n");
	assert_string_equal(what_is(host, "a/x"), "changed\n");
	must_commit((struct options){0});
	assert_string_equal(what_is(host, "newer"), "h\n");
}

static void test_a_named_path_that_nobody_has_is_an_error(void **state)
{
	enter();
	put_file(inside, "f", "f\n", 0644);
	leave();
	assert_int_equal(commit(.paths = (const char *const[]){"typo", NULL}), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_non_null(strstr(err.message, "typo"));
	assert_int_equal(commit(.paths = (const char *const[]){"../f", NULL}), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_string_equal(what_is(host, "f"), "(none)");
}

/* ---- other file systems, full ones -------------------------------------------------------------------------------------------- */

/* Runs it in a child with a small file system mounted as the host directory; its exit status. */
static int on_small_filesystem(const char *options, int (*act)(void))
{
	char path[4096];
	int status;
	assert_int_equal(fs_fd_path(base, path, sizeof(path) - 8), 0);
	strncat(path, "/host", 6);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") < 0 ||
		    mount("tmpfs", path, "tmpfs", 0, options) < 0)
			_exit(77);
		host = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_exit(host < 0 ? 1 : act());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int commit_that_does_not_fit(void)
{
	put_file(host, "there", "there\n", 0644);
	settle_times(host, NOON);
	_cleanup_free_ char *before = tree_describe(host);
	if (commit(.nothing_known = true) != -1)
		return 2;
	if (err.sys_errno != ENOSPC)
		return 3;
	_cleanup_free_ char *after = tree_describe(host);
	return tree_difference(before, after) ? 4 : 0;
}

static void test_a_full_disk_leaves_the_host_as_it_was(void **state)
{
	need_root();
	enter();
	for (int i = 0; i < 40; i++) {
		char name[16], *text = calloc(1, 65536);
		snprintf(name, sizeof(name), "f%d", i);
		memset(text, 'x', 65535);
		put_file(inside, name, text, 0644);
		free(text);
	}
	leave();
	assert_int_equal(on_small_filesystem("size=1m", commit_that_does_not_fit), 0);
	assert_int_equal(on_small_filesystem("size=8m,nr_inodes=12", commit_that_does_not_fit), 0); /* no inodes left */
}

static int commit_to_mount(void)
{
	return commit(.nothing_known = true) == 0 && strcmp(what_is(host, "f0"), "text\n") == 0 ? 0 : 1;
}

static void test_a_commit_to_another_file_system_than_the_layer_is_on(void **state)
{
	need_root();
	enter();
	put_file(inside, "f0", "text\n", 0644);
	leave();
	assert_int_equal(on_small_filesystem("size=1m", commit_to_mount), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_of_every_kind_arrive_as_they_are_inside, begin, end),
		cmocka_unit_test_setup_teardown(test_a_second_commit_has_nothing_to_do, begin, end),
		cmocka_unit_test_setup_teardown(test_a_dry_run_changes_nothing_and_says_what_it_would_do, begin, end),
		cmocka_unit_test_setup_teardown(test_the_time_of_the_directory_is_put_back_unless_names_came_or_went, begin, end),
		cmocka_unit_test_setup_teardown(test_links_between_committed_files_are_links_on_the_host, begin, end),
		cmocka_unit_test_setup_teardown(test_one_of_two_names_on_the_host_changes_alone, begin, end),
		cmocka_unit_test_setup_teardown(test_a_new_mode_does_not_make_a_new_file, begin, end),
		cmocka_unit_test_setup_teardown(test_a_hole_stays_a_hole, begin, end),
		cmocka_unit_test_setup_teardown(test_owners_are_kept, begin, end),
		cmocka_unit_test_setup_teardown(test_a_read_only_directory_can_get_new_files, begin, end),
		cmocka_unit_test_setup_teardown(test_what_the_directory_would_give_to_new_files_is_not_kept, begin, end),
		cmocka_unit_test_setup_teardown(test_odd_names_and_very_deep_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_only_named_paths_and_the_new_directories_they_are_in, begin, end),
		cmocka_unit_test_setup_teardown(test_a_named_path_that_nobody_has_is_an_error, begin, end),
		cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_the_host_as_it_was, begin, end),
		cmocka_unit_test_setup_teardown(test_a_commit_to_another_file_system_than_the_layer_is_on, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
