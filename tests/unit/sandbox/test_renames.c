/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving directories by hand, on whatever file system TMPDIR is: it need not be one that refuses. Some functions of the C library and of
 * copy.h are stood in for, so that each step can fail in turn, and so that others can work in the tree at a chosen moment.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "sandbox/renames.h"

static const struct timespec long_ago = {0}, far_future = {.tv_sec = (time_t)1 << 40}; /* so that files are linked, or copied */

/* ---- stand-ins ------------------------------------------------------------------------------------------------------------------ */

static int fail_at, steps; /* the step that fails with ENOSPC, counted from 1; 0: none */
static void (*at_finish)(int dir), (*at_removal)(int dir);

static bool fails(void)
{
	if (++steps != fail_at)
		return false;
	errno = ENOSPC;
	return true;
}

int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	return fails() ? -1 : __real_linkat(from_dir, from, to_dir, to, flags);
}

int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
	return fails() ? -1 : __real_mkdirat(dir, name, mode);
}

int __real_copy_entry(int a, const char *b, int c, const char *d, unsigned e, struct copy_links *f, struct cordon_error *err);
int __wrap_copy_entry(int a, const char *b, int c, const char *d, unsigned e, struct copy_links *f, struct cordon_error *err);
int __wrap_copy_entry(int a, const char *b, int c, const char *d, unsigned e, struct copy_links *f, struct cordon_error *err)
{
	return fails() ? err_sys(err, "copy") : __real_copy_entry(a, b, c, d, e, f, err);
}

int __real_copy_dir_meta(int from, int to, unsigned flags, struct cordon_error *err);
int __wrap_copy_dir_meta(int from, int to, unsigned flags, struct cordon_error *err);
int __wrap_copy_dir_meta(int from, int to, unsigned flags, struct cordon_error *err)
{
	if (at_finish)
		at_finish(from);
	return fails() ? err_sys(err, "metadata") : __real_copy_dir_meta(from, to, flags, err);
}

int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
	if (at_removal)
		at_removal(dir);
	return __real_unlinkat(dir, name, flags);
}

/* ---- trees ---------------------------------------------------------------------------------------------------------------------- */

static char top_path[] = "/tmp/test-renames.XXXXXX";
static int top;

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static const char *get(const char *path)
{
	static char text[256];
	return fs_read_small(top, path, text, sizeof(text)) < 0 ? "(none)" : text;
}

static void make_dir(const char *path, mode_t mode)
{
	assert_int_equal(__real_mkdirat(top, path, 0700), 0);
	assert_int_equal(fchmodat(top, path, mode, 0), 0);
}

static void make_tree(void)
{
	static const struct timespec then[2] = {{.tv_sec = 1000000000, .tv_nsec = 1}, {.tv_sec = 1100000000, .tv_nsec = 123456789}};
	char long_name[270] = "old/";
	make_dir("old", 0750);
	make_dir("old/sub", 0711);
	make_dir("old/sub/empty", 0700);
	put(top, "old/file", "one");
	put(top, "old/sub/file", "two");
	put(top, "old/sub/odd\n\xff", "odd");
	memset(long_name + 4, 'n', 255);
	put(top, long_name, "long");
	assert_int_equal(__real_linkat(top, "old/file", top, "old/sub/hard", 0), 0);
	assert_int_equal(symlinkat("file", top, "old/link"), 0);
	assert_int_equal(mkfifoat(top, "old/fifo", 0640), 0);
	assert_int_equal(fchmodat(top, "old/sub/file", 0604, 0), 0);
	assert_int_equal(utimensat(top, "old/file", then, 0), 0);
	assert_int_equal(utimensat(top, "old/link", then, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(utimensat(top, "old/sub/empty", then, 0), 0);
	assert_int_equal(utimensat(top, "old/sub", then, 0), 0);
	assert_int_equal(utimensat(top, "old", then, 0), 0);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Everything about a tree but the times of access and change; inodes as numbers of links. */
static void describe(int dir, const char *name, struct buf *out)
{
	struct stat st;
	struct dirent **names;
	char text[4096];
	assert_int_equal(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	buf_addf(out, "%o %u %lld.%09ld", st.st_mode, S_ISDIR(st.st_mode) ? 0 : (unsigned)st.st_nlink, (long long)st.st_mtim.tv_sec,
	         st.st_mtim.tv_nsec);
	ssize_t n = S_ISLNK(st.st_mode) ? readlinkat(dir, name, text, sizeof(text) - 1) : 0;
	if (S_ISREG(st.st_mode))
		n = fs_read_small(dir, name, text, sizeof(text));
	buf_addf(out, " %.*s\n", n < 0 ? 0 : (int)n, text);
	if (!S_ISDIR(st.st_mode))
		return;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	assert_true(fd >= 0);
	int count = scandirat(fd, ".", &names, NULL, by_name);
	assert_true(count >= 2);
	for (int i = 0; i < count; i++) {
		if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
			buf_addf(out, "%s ", names[i]->d_name);
			describe(fd, names[i]->d_name, out);
		}
		free(names[i]);
	}
	buf_add_str(out, "end\n");
	free(names);
	close(fd);
}

static char *description(const char *name)
{
	struct buf b = {0};
	describe(top, name, &b);
	return buf_steal(&b);
}

static bool exists(const char *path)
{
	return faccessat(top, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* No temporary name is left, and nothing else but `names` (with a space after each). */
static void assert_only(const char *names)
{
	struct dirent **found;
	struct buf b = {0};
	int count = scandirat(top, ".", &found, NULL, by_name);
	for (int i = 0; i < count; i++) {
		if (strcmp(found[i]->d_name, ".") != 0 && strcmp(found[i]->d_name, "..") != 0)
			buf_addf(&b, "%s ", found[i]->d_name);
		free(found[i]);
	}
	free(found);
	assert_string_equal(b.data ? b.data : "", names);
	buf_free(&b);
}

static int set_up(void **state)
{
	fail_at = steps = 0;
	at_finish = at_removal = NULL;
	memcpy(top_path + sizeof(top_path) - 7, "XXXXXX", 6);
	if (!mkdtemp(top_path) || (top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	make_tree();
	return 0;
}

static int tear_down(void **state)
{
	at_finish = at_removal = NULL;
	close(top);
	return fs_remove_tree(AT_FDCWD, top_path, NULL);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------------- */

static void check_move(const struct timespec *born)
{
	char *before = description("old");
	assert_int_equal(rename_by_hand(top, "old", top, "new", 0, born), 0);
	char *after = description("new");
	assert_string_equal(before, after);
	assert_only("new ");
	free(before);
	free(after);
}

static void test_everything_is_the_same_under_the_new_name_when_linked(void **state)
{
	struct stat before, after;
	assert_int_equal(fstatat(top, "old/sub/file", &before, 0), 0);
	check_move(&long_ago);
	assert_int_equal(fstatat(top, "new/sub/file", &after, 0), 0);
	assert_true(before.st_ino == after.st_ino);
}

static void test_everything_is_the_same_under_the_new_name_when_copied(void **state)
{
	struct stat before, after;
	assert_int_equal(fstatat(top, "old/sub/file", &before, 0), 0);
	int keep = openat(top, "old/sub/file", O_RDONLY | O_CLOEXEC); /* else its number could be used again */
	check_move(&far_future);
	assert_int_equal(fstatat(top, "new/sub/file", &after, 0), 0);
	assert_true(before.st_ino != after.st_ino);
	close(keep);
}

static void test_an_empty_directory_is_replaced_and_a_filled_one_is_not(void **state)
{
	char *before = description("old");
	make_dir("empty", 0755);
	make_dir("filled", 0755);
	make_dir("filled/in", 0755);
	assert_int_equal(rename_by_hand(top, "old", top, "filled", 0, &far_future), ENOTEMPTY);
	assert_int_equal(steps, 0); /* known before anything was copied */
	assert_int_equal(rename_by_hand(top, "old", top, "empty", 1 /* RENAME_NOREPLACE */, &far_future), EEXIST);
	char *meanwhile = description("old");
	assert_string_equal(before, meanwhile);
	assert_only("empty filled old ");
	assert_int_equal(rename_by_hand(top, "old", top, "empty", 0, &far_future), 0);
	char *after = description("empty");
	assert_string_equal(before, after);
	assert_only("empty filled ");
	free(before);
	free(meanwhile);
	free(after);
}

static void test_a_target_that_is_a_file_stays(void **state)
{
	put(top, "file", "here");
	assert_int_equal(rename_by_hand(top, "old", top, "file", 0, &far_future), ENOTDIR);
	assert_string_equal(get("file"), "here");
	assert_only("file old ");
}

static void test_another_mount_is_refused(void **state)
{
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(rename_by_hand(top, "old", proc, "new", 0, &far_future), EXDEV);
	assert_int_equal(rename_by_hand(proc, "self", top, "new", 0, &far_future), EXDEV);
	assert_only("old ");
	close(proc);
}

/* Every step up to the rename fails in turn; then there is one run in which none does. */
static void check_failures(const struct timespec *born)
{
	char *before = description("old");
	int error = ENOSPC;
	for (fail_at = 1; error; fail_at++) {
		steps = 0;
		error = rename_by_hand(top, "old", top, "new", 0, born);
		char *after = description(error ? "old" : "new");
		assert_string_equal(before, after);
		assert_only(error ? "old " : "new ");
		assert_int_equal(error, steps >= fail_at ? ENOSPC : 0);
		free(after);
	}
	assert_true(fail_at > 12);
	free(before);
}

static void test_a_failure_at_any_step_changes_nothing_when_linking(void **state)
{
	check_failures(&long_ago);
}

static void test_a_failure_at_any_step_changes_nothing_when_copying(void **state)
{
	check_failures(&far_future);
}

static void test_what_cannot_be_linked_is_copied_and_the_other_way_round(void **state)
{
	assert_int_equal(fchmodat(top, "old/file", 0200, 0), 0); /* cannot be read, unless by root */
	assert_int_equal(mknodat(top, "old/socket", S_IFSOCK | 0600, 0), 0);
	check_move(&far_future);
}

static void test_a_thousand_levels_need_no_thousand_descriptors(void **state)
{
	const int depth = 1200;
	const struct rlimit few = {.rlim_cur = 64, .rlim_max = 1024};
	struct rlimit saved;
	int dir = openat(top, "old", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		assert_int_equal(__real_mkdirat(dir, "level", 0755), 0);
		int next = openat(dir, "level", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	put(dir, "bottom", "deep");
	close(dir);
	getrlimit(RLIMIT_NOFILE, &saved);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){MIN(few.rlim_cur, saved.rlim_max), saved.rlim_max});
	int error = rename_by_hand(top, "old", top, "new", 0, &long_ago);
	setrlimit(RLIMIT_NOFILE, &saved);
	assert_int_equal(error, 0);
	assert_only("new ");
	dir = openat(top, "new", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		int next = openat(dir, "level", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(dir);
		dir = next;
	}
	assert_int_equal(faccessat(dir, "bottom", F_OK, 0), 0);
	close(dir);
}

/* The directory is the old one, in which everything has been seen. */
static void work_in_old(int dir)
{
	struct stat here, old;
	assert_int_equal(fstat(dir, &here), 0);
	assert_int_equal(fstatat(top, "old", &old, 0), 0);
	if (here.st_ino != old.st_ino)
		return;
	at_finish = NULL;
	put(dir, "fresh", "fresh");               /* created */
	put(dir, "sub/file", "changed in place"); /* written */
	put(dir, "replacement", "replaced");      /* and renamed over */
	assert_int_equal(renameat(dir, "replacement", dir, "sub/odd\n\xff"), 0);
	assert_int_equal(__real_unlinkat(dir, "link", 0), 0); /* too late: it was seen */
	assert_int_equal(__real_mkdirat(dir, "sub/made", 0755), 0);
	put(dir, "sub/made/in", "made");
}

static void check_work_in_old(const struct timespec *born)
{
	at_finish = work_in_old;
	assert_int_equal(rename_by_hand(top, "old", top, "new", 0, born), 0);
	assert_null(at_finish);
	assert_only("new ");
	assert_string_equal(get("new/fresh"), "fresh");
	assert_string_equal(get("new/sub/file"), "changed in place");
	assert_string_equal(get("new/sub/odd\n\xff"), "replaced");
	assert_string_equal(get("new/sub/made/in"), "made");
	assert_string_equal(get("new/file"), "one");
}

static void test_what_others_do_in_the_old_tree_is_not_lost_when_linked(void **state)
{
	check_work_in_old(&long_ago);
}

static void test_what_others_do_in_the_old_tree_is_not_lost_when_copied(void **state)
{
	check_work_in_old(&far_future);
}

/* The new tree has its name, and nothing of the old one is gone yet. */
static void work_in_new(int dir)
{
	at_removal = NULL;
	put(top, "replacement", "newer");
	assert_int_equal(renameat(top, "replacement", top, "new/file"), 0);
	assert_int_equal(__real_unlinkat(top, "new/sub/file", 0), 0);
	put(top, "old/late", "late");
}

static void check_work_in_new(const struct timespec *born)
{
	at_removal = work_in_new;
	assert_int_equal(rename_by_hand(top, "old", top, "new", 0, born), 0);
	assert_null(at_removal);
	assert_only("new ");
	assert_string_equal(get("new/file"), "newer");
	assert_string_equal(get("new/sub/file"), "(none)");
	assert_string_equal(get("new/late"), "late");
	assert_true(exists("new/sub/hard"));
}

static void test_what_others_do_in_the_new_tree_is_not_undone_when_linked(void **state)
{
	check_work_in_new(&long_ago);
}

static void test_what_others_do_in_the_new_tree_is_not_undone_when_copied(void **state)
{
	check_work_in_new(&far_future);
}

static void test_a_directory_that_may_not_be_written_is_moved_too(void **state)
{
	assert_int_equal(fchmodat(top, "old/sub/empty", 0500, 0), 0);
	assert_int_equal(fchmodat(top, "old/sub", 0555, 0), 0);
	assert_int_equal(fchmodat(top, "old", 0500, 0), 0);
	check_move(&far_future);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_everything_is_the_same_under_the_new_name_when_linked),
		TEST(test_everything_is_the_same_under_the_new_name_when_copied),
		TEST(test_an_empty_directory_is_replaced_and_a_filled_one_is_not),
		TEST(test_a_target_that_is_a_file_stays),
		TEST(test_another_mount_is_refused),
		TEST(test_a_failure_at_any_step_changes_nothing_when_linking),
		TEST(test_a_failure_at_any_step_changes_nothing_when_copying),
		TEST(test_what_cannot_be_linked_is_copied_and_the_other_way_round),
		TEST(test_a_thousand_levels_need_no_thousand_descriptors),
		TEST(test_what_others_do_in_the_old_tree_is_not_lost_when_linked),
		TEST(test_what_others_do_in_the_old_tree_is_not_lost_when_copied),
		TEST(test_what_others_do_in_the_new_tree_is_not_undone_when_linked),
		TEST(test_what_others_do_in_the_new_tree_is_not_undone_when_copied),
		TEST(test_a_directory_that_may_not_be_written_is_moved_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
