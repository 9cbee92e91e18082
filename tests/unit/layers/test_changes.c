/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes_between() says, case by case; test_changes_random.c makes cases up. Built with a small VIEW_NAMES_MAX, so that a directory
 * of the seed that is looked through for nothing makes a test fail, without a clock.
 */
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

#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/view_parts.h"
#include "listing.h"

static int seed = -1, lower = -1, upper = -1;

static int set_up(void **state)
{
	seed = tree_new(base, "seed");
	lower = tree_new(base, "lower");
	upper = tree_new(base, "upper");
	return 0;
}

static int tear_down(void **state)
{
	close(seed);
	close(lower);
	close(upper);
	return fs_remove_tree(base, "seed", NULL) || fs_remove_tree(base, "lower", NULL) || fs_remove_tree(base, "upper", NULL);
}

static struct view view_of(size_t count, const int *fds)
{
	struct view v;

	assert_int_equal(view_from(fds, count, true, &v, NULL), 0);
	return v;
}

/* The changes from the seed alone to [upper, seed], as text: "add a/b\n…". */
static void assert_changes(const char *expected)
{
	_cleanup_view_ struct view before = view_of(1, &seed), after = view_of(2, (int[]){upper, seed});
	struct changes c;
	struct cordon_error err = {0};
	char text[4096] = "";

	if (changes_between(&before, &after, &c, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < c.count; i++) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s %s\n", change_op_names[c.items[i].op], c.items[i].path);
	}
	changes_free(&c);
	assert_string_equal(text, expected);
}

static struct cordon_error changes_error(void)
{
	_cleanup_view_ struct view before = view_of(1, &seed), after = view_of(2, (int[]){upper, seed});
	struct cordon_error err = {0};
	struct changes c;

	assert_int_equal(changes_between(&before, &after, &c, &err), -1);
	assert_int_equal(c.count, 0);
	assert_null(c.items);
	return err;
}

/* ---- by hand ------------------------------------------------------------------------------------------------------------------ */

static void test_each_kind_of_change_has_its_name(void **state)
{
	tree_file(seed, "edited", "old\n");
	tree_file(seed, "same_size", "old\n");
	tree_file(seed, "deleted", "x");
	tree_file(seed, "mode", "x");
	tree_file(seed, "becomes_link", "x");
	tree_file(upper, "edited", "longer\n");
	tree_file(upper, "same_size", "new\n");
	tree_whiteout(upper, "deleted");
	tree_file(upper, "mode", "x");
	assert_int_equal(fchmodat(upper, "mode", 0755, 0), 0);
	assert_int_equal(symlinkat("edited", upper, "becomes_link"), 0);
	tree_file(upper, "added", "x");
	assert_changes("add added\ntype becomes_link\ndelete deleted\nmodify edited\nmode mode\nmodify same_size\n");
}

static void test_a_file_that_was_copied_up_and_not_changed_does_not_count(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "same");
	tree_dir(upper, "d");
	tree_file(upper, "d/f", "same");
	assert_int_equal(utimensat(upper, "d/f", (struct timespec[]){{1, 1}, {1, 1}}, 0), 0);
	assert_changes("");
}

static void test_times_count_only_when_they_are_asked_for(void **state)
{
	_cleanup_view_ struct view before = view_of(1, &seed), after = view_of(2, (int[]){upper, seed});
	const struct timespec then[] = {{1, 1}, {1, 1}};
	struct changes c;

	tree_dir(seed, "d");
	tree_file(seed, "d/f", "same");
	tree_dir(upper, "d");
	tree_file(upper, "d/f", "same");
	tree_file(upper, "new", "12345");
	assert_int_equal(utimensat(upper, "d/f", then, 0), 0);
	assert_int_equal(utimensat(upper, "d", then, 0), 0);
	assert_changes("add new\n");
	assert_int_equal(changes_between_with(&before, &after, CHANGES_FILE_TIMES, &c, NULL), 0);
	assert_int_equal(c.count, 2);
	assert_string_equal(c.items[0].path, "d/f");
	assert_int_equal(c.items[0].op, CHANGE_TIME);
	changes_free(&c);
	assert_int_equal(changes_between_with(&before, &after, CHANGES_FILE_TIMES | CHANGES_DIR_TIMES, &c, NULL), 0);
	assert_int_equal(c.count, 3);
	assert_string_equal(c.items[0].path, "d");
	changes_forget_times(&c);
	assert_int_equal(c.count, 1);
	assert_string_equal(c.items[0].path, "new");
	assert_int_equal(c.bytes, 5);
	changes_free(&c);
}

static void test_a_directory_that_its_owner_closed_to_himself_shows_nothing(void **state)
{
	if (geteuid() == 0) {
		print_message("# skip: root reads everything\n");
		skip();
	}
	tree_dir(seed, "closed/d");
	tree_file(seed, "closed/d/f", "x");
	tree_dir(upper, "closed/d");
	tree_file(upper, "closed/d/f", "y");
	tree_file(upper, "new", "x");
	assert_int_equal(fchmodat(upper, "closed", 0, 0), 0);
	assert_changes("mode closed\nadd new\n");
	assert_int_equal(fchmodat(upper, "closed", 0400, 0), 0); /* names, but nothing about them */
	assert_changes("mode closed\nadd new\n");
	assert_int_equal(fchmodat(upper, "closed", 0100, 0), 0); /* no names */
	assert_changes("mode closed\nadd new\n");
	assert_int_equal(fchmodat(upper, "closed", 0755, 0), 0);
}

static void test_attributes_count_but_those_of_overlayfs_do_not(void **state)
{
	tree_file(seed, "f", "x");
	tree_file(upper, "f", "x");
	tree_xattr(upper, "f", "user.overlay.origin", "whatever");
	assert_changes("");
	tree_xattr(upper, "f", "user.a", "1");
	assert_changes("mode f\n");
	tree_xattr(seed, "f", "user.b", "1");
	assert_changes("mode f\n");
	tree_xattr(seed, "f", "user.a", "2");
	tree_xattr(upper, "f", "user.b", "1");
	assert_changes("mode f\n");
	tree_xattr(seed, "f", "user.a", "1");
	assert_changes("");
}

static void test_a_deleted_directory_lists_all_that_went_with_it(void **state)
{
	tree_dir(seed, "d/e");
	tree_file(seed, "d/e/f", "x");
	tree_file(seed, "d/g", "x");
	tree_file(seed, "d-x", "x");
	tree_whiteout(upper, "d");
	assert_changes("delete d\ndelete d/e\ndelete d/e/f\ndelete d/g\n");
}

static void test_an_opaque_directory_hides_what_was_there_and_a_merged_one_does_not(void **state)
{
	tree_dir(seed, "d/e");
	tree_file(seed, "d/e/f", "x");
	tree_file(seed, "d/kept", "x");
	tree_dir(upper, "d");
	tree_file(upper, "d/kept", "x");
	assert_changes("");
	tree_mark(upper, "d", "y");
	assert_changes("delete d/e\ndelete d/e/f\n");
}

static void test_a_directory_in_the_place_of_a_file_and_the_reverse(void **state)
{
	tree_file(seed, "file", "x");
	tree_dir(seed, "dir");
	tree_file(seed, "dir/f", "x");
	tree_dir(upper, "file");
	tree_file(upper, "file/f", "x");
	tree_file(upper, "dir", "x");
	assert_changes("type dir\ndelete dir/f\ntype file\nadd file/f\n");
}

static void test_a_deleted_and_remade_directory_compares_with_the_old_one(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/same", "x");
	tree_file(seed, "d/gone", "x");
	tree_dir(upper, "d");
	tree_mark(upper, "d", "y");
	tree_file(upper, "d/same", "x");
	tree_file(upper, "d/new", "x");
	assert_changes("delete d/gone\nadd d/new\n");
}

static void test_only_layers_that_are_not_common_are_read(void **state)
{
	char name[32];

	/* more names than may be read */
	tree_dir(seed, "big/in/it");
	for (int i = 0; i <= VIEW_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "big/%d", i);
		tree_file(seed, name, "");
		snprintf(name, sizeof(name), "big%d", i);
		tree_file(lower, name, "");
	}
	tree_dir(upper, "big/in");
	tree_file(upper, "big/in/new", "x");
	assert_changes("add big/in/new\n");

	/* a layer both have is not read either, at whatever place it stands */
	_cleanup_view_ struct view before = view_of(2, (int[]){lower, seed}), after = view_of(3, (int[]){upper, lower, seed});
	struct changes c;
	assert_int_equal(changes_between(&before, &after, &c, NULL), 0);
	assert_int_equal(c.count, 1);
	changes_free(&c);
	assert_int_equal(changes_between(&after, &after, &c, NULL), 0);
	assert_int_equal(c.count, 0);

	/* and it is an error, not a truncation, when it has to be read */
	assert_int_equal(fs_remove_tree(upper, "big", NULL), 0);
	tree_whiteout(upper, "big");
	assert_non_null(strstr(changes_error().message, "more than 2000"));
}

static void test_states_with_different_seeds_are_refused(void **state)
{
	_cleanup_view_ struct view a = view_of(1, &seed), b = view_of(2, (int[]){upper, lower}), none;
	struct cordon_error err = {0};
	struct changes c;

	assert_int_equal(changes_between(&a, &b, &c, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_int_equal(view_from(&upper, 1, false, &none, NULL), 0);
	assert_int_equal(changes_between(&a, &none, &c, NULL), -1);
}

static void test_without_a_seed_everything_is_new(void **state)
{
	_cleanup_view_ struct view before, after;
	struct changes c;

	tree_dir(upper, "d");
	tree_file(upper, "d/f", "12345");
	tree_whiteout(upper, "nothing");
	assert_int_equal(view_from(NULL, 0, false, &before, NULL), 0);
	assert_int_equal(view_from(&upper, 1, false, &after, NULL), 0);
	assert_int_equal(changes_between(&before, &after, &c, NULL), 0);
	assert_int_equal(c.count, 2);
	assert_string_equal(c.items[1].path, "d/f");
	assert_int_equal(c.bytes, 5);
	changes_free(&c);
}

/* The second half of a file that is mostly a hole is what differs; and 8 EiB of nothing take no time. */
static void test_sparse_files_are_compared_without_their_holes(void **state)
{
	const off_t huge = (off_t)1 << 43;
	int a = openat(seed, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644), b = openat(upper, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (ftruncate(a, huge) < 0 || ftruncate(b, huge) < 0) {
		close(a);
		close(b);
		print_message("# skip: no files of 8 TiB here: %s\n", strerror(errno));
		skip();
	}
	assert_changes("");
	assert_int_equal(pwrite(a, "\0\0", 2, huge - 4096), 2);
	assert_changes("");
	assert_int_equal(pwrite(b, "x", 1, huge - 1), 1);
	assert_changes("modify sparse\n");
	close(a);
	close(b);
}

static void test_fifos_and_devices_are_not_opened(void **state)
{
	/* a read would wait for ever */
	assert_int_equal(mkfifoat(seed, "fifo", 0600), 0);
	assert_int_equal(mkfifoat(upper, "fifo", 0644), 0);
	assert_int_equal(mkfifoat(upper, "new", 0600), 0);
	assert_int_equal(mknodat(upper, "socket", S_IFSOCK | 0600, 0), 0);
	assert_changes("mode fifo\nadd new\n");
}

static void test_names_of_any_bytes(void **state)
{
	char longest[256];

	memset(longest, 'n', 255);
	longest[255] = '\0';
	tree_file(upper, longest, "");
	tree_file(upper, "a\nb", "");
	tree_file(upper, "\xff\x80", "");
	tree_file(upper, "...", "");
	tree_file(seed, " ", "");
	tree_whiteout(upper, " ");
	char expected[400];
	snprintf(expected, sizeof(expected), "delete  \nadd ...\nadd a\nb\nadd %s\nadd \xff\x80\n", longest);
	assert_changes(expected);
}

/* Names of 255 bytes, so that the path is far longer than PATH_MAX. */
static void make_deep(int tree, int depth, const char *name)
{
	int at = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(at, name, 0755), 0);
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	tree_file(at, "f", "x");
	close(at);
}

static struct rlimit with_few_descriptors(void)
{
	struct rlimit old, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 120;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	return old;
}

static void test_many_directories_with_few_descriptors(void **state)
{
	char path[32];

	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "%d/a", i);
		tree_dir(seed, path);
		tree_dir(upper, path);
	}
	struct rlimit old = with_few_descriptors();
	assert_changes("");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void test_a_thousand_directories_deep_with_few_descriptors(void **state)
{
	char name[256];

	memset(name, 'd', 255);
	name[255] = '\0';
	make_deep(seed, 1000, name);
	make_deep(upper, 1000, name);
	struct rlimit old = with_few_descriptors();
	assert_changes("");
	assert_int_equal(fs_remove_tree(upper, name, NULL), 0);
	tree_whiteout(upper, name);

	_cleanup_view_ struct view before = view_of(1, &seed), after = view_of(2, (int[]){upper, seed});
	struct changes c;
	assert_int_equal(changes_between(&before, &after, &c, NULL), 0);
	assert_int_equal(c.count, 1001);
	assert_int_equal(strlen(c.items[1000].path), 1000 * 256 + 1);
	struct view_entry e;
	assert_int_equal(view_stat(&before, c.items[1000].path, &e, NULL), 0);
	assert_true(S_ISREG(e.st.st_mode));
	int fd = view_open_entry(&before, c.items[1000].path, &e, NULL);
	assert_true(fd >= 0);
	close(fd);
	changes_free(&c);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* Not many changes, but paths of 184 MB in all. */
static void test_paths_longer_than_the_limit_are_an_error(void **state)
{
	char name[256];
	memset(name, 'd', 255);
	name[255] = '\0';
	make_deep(upper, 1200, name);
	assert_non_null(strstr(changes_error().message, "too many changes"));
}

static void test_a_tree_deeper_than_the_limit_is_an_error(void **state)
{
	make_deep(upper, VIEW_DEPTH_MAX + 1, "d");
	assert_non_null(strstr(changes_error().message, "nested"));
}

static void test_a_layer_that_was_replaced_by_a_link_leads_nowhere(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "x");
	tree_dir(lower, "d");
	tree_file(lower, "d/secret", "x");
	assert_int_equal(symlinkat("../lower/d", upper, "d"), 0);
	assert_changes("type d\ndelete d/f\n");
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		test(test_each_kind_of_change_has_its_name),
		test(test_a_file_that_was_copied_up_and_not_changed_does_not_count),
		test(test_times_count_only_when_they_are_asked_for),
		test(test_a_directory_that_its_owner_closed_to_himself_shows_nothing),
		test(test_attributes_count_but_those_of_overlayfs_do_not),
		test(test_a_deleted_directory_lists_all_that_went_with_it),
		test(test_an_opaque_directory_hides_what_was_there_and_a_merged_one_does_not),
		test(test_a_directory_in_the_place_of_a_file_and_the_reverse),
		test(test_a_deleted_and_remade_directory_compares_with_the_old_one),
		test(test_only_layers_that_are_not_common_are_read),
		test(test_states_with_different_seeds_are_refused),
		test(test_without_a_seed_everything_is_new),
		test(test_sparse_files_are_compared_without_their_holes),
		test(test_fifos_and_devices_are_not_opened),
		test(test_names_of_any_bytes),
		test(test_many_directories_with_few_descriptors),
		test(test_a_thousand_directories_deep_with_few_descriptors),
		test(test_paths_longer_than_the_limit_are_an_error),
		test(test_a_tree_deeper_than_the_limit_is_an_error),
		test(test_a_layer_that_was_replaced_by_a_link_leads_nowhere),
	};

	return cmocka_run_group_tests(tests, base_make, base_remove);
}
