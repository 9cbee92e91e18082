/* SPDX-License-Identifier: Apache-2.0 */
/* Putting files back in place: into what is open, through hard links, and never through symbolic ones. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/putback.h"

static int want_dir = -1, tree = -1, outside = -1;
static const struct layer_ids own = {.mapped = false};
static struct cordon_error err;

static int directory(const char *name)
{
	assert_int_equal(mkdirat(base, name, 0755), 0);
	int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int set_up(void **state)
{
	err = (struct cordon_error){0};
	if (base_make(state) < 0)
		return -1;
	want_dir = directory("want");
	tree = directory("tree");
	outside = directory("outside");
	return 0;
}

static int tear_down(void **state)
{
	const int fds[] = {want_dir, tree, outside};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	return base_remove(state);
}

static void put(int dir, const char *path, const char *text)
{
	unlinkat(dir, path, 0);
	assert_int_equal(fs_write_file(dir, path, text, strlen(text), 0644, &err), 0);
}

static const char *text_of(int dir, const char *path)
{
	static char text[64];
	return fs_read_small(dir, path, text, sizeof(text)) < 0 ? NULL : text;
}

/* Makes the tree show what "want" shows, by the list that comparing the two gives, or by `listed`. */
static int go_back(const struct changes *listed)
{
	_cleanup_view_ struct view now = {0}, want = {0};
	struct changes found = {0};
	assert_int_equal(view_from(&tree, 1, false, &now, &err), 0);
	assert_int_equal(view_from(&want_dir, 1, false, &want, &err), 0);
	assert_int_equal(changes_between_with(&now, &want, CHANGES_FILE_TIMES | CHANGES_DIR_TIMES, &found, &err), 0);
	int r = putback(tree, &want, listed ? listed : &found, &own, &err);
	changes_free(&found);
	return r;
}

static void test_an_open_file_is_written_in_place(void **state)
{
	put(want_dir, "f", "before\n");
	put(tree, "f", "after, and longer\n");
	_cleanup_fd_ int held = openat(tree, "f", O_RDONLY | O_CLOEXEC);
	char text[64] = "";
	assert_int_equal(go_back(NULL), 0);
	assert_string_equal(text_of(tree, "f"), "before\n");
	assert_true(pread(held, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "before\n");
}

static void test_what_was_made_goes_and_what_was_removed_comes_back(void **state)
{
	struct stat a, b;
	assert_int_equal(mkdirat(want_dir, "gone", 0750), 0);
	put(want_dir, "gone/f", "1\n");
	assert_int_equal(symlinkat("nowhere", want_dir, "link"), 0);
	assert_int_equal(mkdirat(tree, "made", 0755), 0);
	put(tree, "made/f", "2\n");
	assert_int_equal(go_back(NULL), 0);
	assert_string_equal(text_of(tree, "gone/f"), "1\n");
	assert_int_equal(fstatat(tree, "made", &a, 0), -1);
	assert_int_equal(fstatat(tree, "link", &a, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(a.st_mode));
	assert_true(fstatat(want_dir, "gone", &a, 0) == 0 && fstatat(tree, "gone", &b, 0) == 0);
	assert_int_equal(a.st_mode, b.st_mode);
	assert_memory_equal(&a.st_mtim, &b.st_mtim, sizeof(a.st_mtim));
}

static void test_names_of_one_file_stay_together(void **state)
{
	struct stat a, b, c;
	put(want_dir, "a", "one\n");
	assert_true(linkat(want_dir, "a", want_dir, "b", 0) == 0 && linkat(want_dir, "a", want_dir, "c", 0) == 0);
	put(tree, "a", "one\n");
	assert_int_equal(linkat(tree, "a", tree, "b", 0), 0); /* c was removed */
	assert_int_equal(go_back(NULL), 0);
	assert_true(fstatat(tree, "a", &a, 0) == 0 && fstatat(tree, "b", &b, 0) == 0 && fstatat(tree, "c", &c, 0) == 0);
	assert_true(a.st_ino == b.st_ino && b.st_ino == c.st_ino);
}

static void test_a_closed_directory_is_opened_up_and_closed_again(void **state)
{
	struct stat st;
	assert_true(mkdirat(want_dir, "d", 0755) == 0 && mkdirat(tree, "d", 0755) == 0);
	put(want_dir, "d/f", "1\n");
	assert_true(fchmodat(want_dir, "d", 0555, 0) == 0 && fchmodat(tree, "d", 0555, 0) == 0);
	assert_int_equal(go_back(NULL), 0);
	assert_string_equal(text_of(tree, "d/f"), "1\n");
	assert_int_equal(fstatat(tree, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
}

/* The list says that d/f is to be put back; by then d leads out of the tree. */
static void test_nothing_is_written_or_removed_through_a_link(void **state)
{
	struct change back = {.op = CHANGE_MODIFY, .path = (char[]){"d/f"}, .before = S_IFREG | 0644, .after = S_IFREG | 0644};
	struct change away = {.op = CHANGE_DELETE, .path = (char[]){"d/f"}, .before = S_IFREG | 0644};
	assert_int_equal(mkdirat(want_dir, "d", 0755), 0);
	put(want_dir, "d/f", "1\n");
	put(outside, "f", "mine\n");
	assert_int_equal(symlinkat("../outside", tree, "d"), 0);
	assert_int_equal(go_back(&(struct changes){.items = &back, .count = 1}), -1);
	assert_string_equal(text_of(outside, "f"), "mine\n");
	assert_int_equal(go_back(&(struct changes){.items = &away, .count = 1}), -1);
	assert_string_equal(text_of(outside, "f"), "mine\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_open_file_is_written_in_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_was_made_goes_and_what_was_removed_comes_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_names_of_one_file_stay_together, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_closed_directory_is_opened_up_and_closed_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_written_or_removed_through_a_link, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
