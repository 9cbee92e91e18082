/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of trees: what they find and remember, what they miss without being settled, and the copies that are made by them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/parcel.h"

static struct cordon_error err;

static int directory(int in, const char *name)
{
	assert_int_equal(mkdirat(in, name, 0755), 0);
	int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void put(int dir, const char *path, const char *text)
{
	assert_int_equal(fs_write_file(dir, path, text, strlen(text), 0644, &err), 0);
}

static struct tree_index scanned(int dir)
{
	struct tree_index i;
	assert_int_equal(tree_index_scan(dir, &i, &err), 0);
	return i;
}

/* dir/a, dir/a-b, dir/a/x: byte order of paths and order of the tree are not the same. */
static void test_each_entry_is_found_by_its_path_and_gives_it(void **state)
{
	_cleanup_fd_ int dir = directory(base, "found"), a = directory(dir, "a"), deep = directory(a, "deep");
	_cleanup_buf_ struct buf path = {0};
	put(dir, "a-b", "1");
	put(a, "x", "2");
	put(deep, "y", "3");
	_cleanup_index_ struct tree_index i = scanned(dir);
	static const char *const paths[] = {"a", "a-b", "a/deep", "a/x", "a/deep/y"};
	assert_int_equal(i.count, ARRAY_SIZE(paths));
	for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
		const uint32_t entry = tree_index_find(&i, paths[k]);
		assert_int_not_equal(entry, INDEX_NONE);
		assert_string_equal(tree_index_path(&i, entry, &path), paths[k]);
		assert_true(i.items[entry].parent == INDEX_TOP || i.items[entry].parent < entry);
	}
	static const char *const others[] = {"b", "a/", "a/dee", "a/deepe", "a/x/y", "a-", "a-bc", "/a", ""};
	for (size_t k = 0; k < ARRAY_SIZE(others); k++)
		assert_int_equal(tree_index_find(&i, others[k]), INDEX_NONE);
}

static void test_nested_directories_take_the_memory_of_their_names(void **state)
{
	enum { DEPTH = 800, NAME = 250 };
	char name[NAME + 1];
	memset(name, 'd', NAME);
	name[NAME] = '\0';
	int at = directory(base, "nested");
	_cleanup_fd_ int top = fcntl(at, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < DEPTH; i++) {
		int next = directory(at, name);
		close(at);
		at = next;
	}
	put(at, "end", "x");
	close(at);
	const struct mallinfo2 before = mallinfo2();
	_cleanup_index_ struct tree_index i = scanned(top);
	const struct mallinfo2 after = mallinfo2();
	assert_int_equal(i.count, DEPTH + 1);
	assert_true(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd < (size_t)4 * DEPTH * NAME);

	/* and the copy goes as deep */
	_cleanup_fd_ int copy = directory(base, "nested-copy");
	assert_int_equal(tree_checkpoint(top, &i, copy, -1, NULL, false, &err), 0);
	_cleanup_index_ struct tree_index j = scanned(copy);
	assert_int_equal(j.count, DEPTH + 1);
	assert_int_equal(j.items[DEPTH].size, 1);
}

/* What is walked to is what the index means, also after it was moved away; and what is no directory any more is not walked through. */
static void test_a_walk_is_not_led_astray(void **state)
{
	_cleanup_fd_ int dir = directory(base, "walk"), a = directory(dir, "a"), b = directory(a, "b"), c = directory(dir, "c");
	_cleanup_fd_ int elsewhere = directory(base, "elsewhere");
	_cleanup_index_ struct tree_index i = scanned(dir);
	_cleanup_walk_ struct index_walk w;
	struct stat is, should;
	index_walk_begin(&w, &i, dir);
	assert_true(index_walk_to(&w, tree_index_find(&i, "a/b")) >= 0);
	assert_int_equal(renameat(a, "b", elsewhere, "b"), 0);
	int fd = index_walk_to(&w, tree_index_find(&i, "c"));
	assert_true(fd >= 0 && fstat(fd, &is) == 0 && fstat(c, &should) == 0);
	assert_int_equal(is.st_ino, should.st_ino);
	assert_int_equal(symlinkat("../elsewhere/b", a, "b"), 0);
	assert_int_equal(index_walk_to(&w, tree_index_find(&i, "a/b")), -1);
	assert_int_equal(errno, ENOTDIR);
	fd = index_walk_to(&w, tree_index_find(&i, "a"));
	assert_true(fd >= 0 && fstat(fd, &is) == 0 && fstat(a, &should) == 0);
	assert_int_equal(is.st_ino, should.st_ino);
	(void)b;
}

static void test_the_top_itself_counts(void **state)
{
	_cleanup_fd_ int dir = directory(base, "top");
	_cleanup_index_ struct tree_index a = scanned(dir);
	put(dir, "f", "x");
	assert_int_equal(unlinkat(dir, "f", 0), 0);
	_cleanup_index_ struct tree_index b = scanned(dir);
	assert_true(tree_index_equal(&a, &b)); /* only its times have changed */
	assert_int_equal(fchmod(dir, 0700), 0);
	_cleanup_index_ struct tree_index c = scanned(dir);
	assert_false(tree_index_equal(&a, &c));
}

/* ---- mapped files -------------------------------------------------------------------------------------------------------------- */

static struct tree_index trusted(int dir, const struct tree_index *last)
{
	struct tree_index i = scanned(dir);
	assert_int_equal(tree_index_settle(dir, &i, last, 0, &err), 0);
	tree_index_await_tick(&i);
	return i;
}

static const char *text_of(int dir, const char *path)
{
	static char text[16];
	memset(text, 0, sizeof(text));
	return fs_read_small(dir, path, text, sizeof(text)) < 0 ? NULL : text;
}

static void write_again(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, "two", 3), 3);
}

/* What was put back and not touched since is below already; but a directory that hides what is below is all there or not at all. */
static void test_what_is_as_below_is_left_out(void **state)
{
	_cleanup_fd_ int dir = directory(base, "open"), copy = directory(base, "shed"), again = directory(base, "shed-again");
	_cleanup_fd_ int plain = directory(dir, "plain"), opaque = directory(dir, "opaque"), quiet = directory(dir, "quiet");
	_cleanup_fd_ int deep = directory(opaque, "deep");
	struct stat st;
	(void)state;
	put(dir, "back", "1");
	put(plain, "back", "1");
	put(plain, "written", "1");
	put(opaque, "back", "1");
	put(deep, "written", "1");
	put(quiet, "back", "1");
	assert_int_equal(fsetxattr(opaque, "user.overlay.opaque", "y", 1, 0), 0);
	assert_int_equal(fsetxattr(quiet, "user.overlay.opaque", "y", 1, 0), 0);
	_cleanup_index_ struct tree_index last = trusted(dir, &(struct tree_index){0});
	tree_index_await_tick(&last);
	write_again(plain, "written");
	write_again(deep, "written");
	put(dir, "new", "1");
	_cleanup_index_ struct tree_index now = trusted(dir, &last);
	assert_int_equal(tree_checkpoint(dir, &now, copy, -1, &last, true, &err), 0);
	assert_string_equal(text_of(copy, "new"), "1");
	assert_string_equal(text_of(copy, "plain/written"), "two");
	assert_string_equal(text_of(copy, "opaque/back"), "1");
	assert_string_equal(text_of(copy, "opaque/deep/written"), "two");
	assert_int_equal(fstatat(copy, "back", &st, 0), -1);
	assert_int_equal(fstatat(copy, "plain/back", &st, 0), -1);
	assert_int_equal(fstatat(copy, "quiet", &st, 0), -1);
	/* what the last copy has is not below it, and stays */
	_cleanup_index_ struct tree_index later = trusted(dir, &now);
	assert_int_equal(tree_checkpoint(dir, &later, again, copy, &now, true, &err), 0);
	assert_string_equal(text_of(again, "new"), "1");
	assert_string_equal(text_of(again, "plain/written"), "two");
	assert_string_equal(text_of(again, "opaque/back"), "1");
	assert_int_equal(fstatat(again, "plain/back", &st, 0), -1);
	assert_int_equal(fstatat(again, "quiet", &st, 0), -1);
}

/* A program that has a file mapped writes to it before and after a copy is made; the page stays dirty in between. */
static void copies_of_a_mapped_file(int in)
{
	_cleanup_fd_ int dir = directory(in, "mapped"), first = directory(in, "first"), second = directory(in, "second");
	_cleanup_fd_ int third = directory(in, "third");
	put(dir, "db", "....");
	put(dir, "other", "same");
	_cleanup_fd_ int fd = openat(dir, "db", O_RDWR | O_CLOEXEC);
	char *map = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	memcpy(map, "AAAA", 4);
	_cleanup_index_ struct tree_index a = trusted(dir, &(struct tree_index){0});
	assert_int_equal(tree_checkpoint(dir, &a, first, -1, NULL, false, &err), 0);
	assert_string_equal(text_of(first, "db"), "AAAA");
	_cleanup_index_ struct tree_index same = trusted(dir, &a);
	assert_true(tree_index_equal(&same, &a));

	memcpy(map, "BBBB", 4);
	_cleanup_index_ struct tree_index b = trusted(dir, &a);
	assert_false(tree_index_equal(&b, &a));
	assert_int_equal(tree_checkpoint(dir, &b, second, first, &a, false, &err), 0);
	assert_string_equal(text_of(second, "db"), "BBBB");
	struct stat one, two;
	assert_true(fstatat(first, "other", &one, 0) == 0 && fstatat(second, "other", &two, 0) == 0);
	assert_int_equal(one.st_ino, two.st_ino); /* what was not written to is linked */

	memcpy(map, "CCCC", 4);
	_cleanup_index_ struct tree_index c = trusted(dir, &b);
	assert_false(tree_index_equal(&c, &b));
	assert_int_equal(tree_checkpoint(dir, &c, third, second, &b, false, &err), 0);
	assert_string_equal(text_of(third, "db"), "CCCC");
	munmap(map, 4);
}

static void test_what_is_written_through_a_mapping_is_noticed(void **state)
{
	copies_of_a_mapped_file(base);
}

static void test_what_is_written_through_a_mapping_is_noticed_on_tmpfs(void **state)
{
	char path[] = "/dev/shm/cordon-unit-XXXXXX";
	struct statfs fs;
	if (statfs("/dev/shm", &fs) < 0 || (unsigned long)fs.f_type != TMPFS_MAGIC || !mkdtemp(path))
		skip();
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	copies_of_a_mapped_file(dir);
	close(dir);
	assert_int_equal(fs_remove_tree(AT_FDCWD, path, &err), 0);
}

/* ---- from process to process --------------------------------------------------------------------------------------------------- */

static void test_what_is_sent_arrives(void **state)
{
	_cleanup_fd_ int dir = directory(base, "sent"), sub = directory(dir, "sub"), fd = memfd_create("test", MFD_CLOEXEC);
	struct changes some = {0}, arrived;
	put(sub, "f", "x");
	_cleanup_index_ struct tree_index i = scanned(dir);
	const struct change listed[] = {{.op = CHANGE_ADD, .path = (char[]){"a/b"}, .bytes = 7, .after = S_IFREG | 0644},
	                                {.op = CHANGE_DELETE, .path = (char[]){"c"}, .before = S_IFDIR | 0755}};
	for (size_t k = 0; k < ARRAY_SIZE(listed); k++)
		assert_int_equal(changes_add(&some, &listed[k], &err), 0);
	assert_int_equal(tree_index_send(&i, fd, &err), 0);
	assert_int_equal(changes_send(&some, fd, &err), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	struct tree_index j;
	assert_int_equal(tree_index_receive(&j, fd, &err), 0);
	assert_true(tree_index_equal(&i, &j));
	assert_int_equal(tree_index_find(&j, "sub/f"), tree_index_find(&i, "sub/f"));
	assert_int_equal(changes_receive(&arrived, fd, &err), 0);
	assert_int_equal(arrived.count, 2);
	assert_int_equal(arrived.bytes, 7);
	assert_string_equal(arrived.items[0].path, "a/b");
	assert_int_equal(arrived.items[1].before, S_IFDIR | 0755);
	tree_index_free(&j);
	assert_int_equal(tree_index_receive(&j, fd, &err), -1); /* there is no more */
	changes_free(&some);
	changes_free(&arrived);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_entry_is_found_by_its_path_and_gives_it, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_nested_directories_take_the_memory_of_their_names, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_a_walk_is_not_led_astray, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_the_top_itself_counts, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_what_is_as_below_is_left_out, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_what_is_written_through_a_mapping_is_noticed, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_what_is_written_through_a_mapping_is_noticed_on_tmpfs, base_make, base_remove),
		cmocka_unit_test_setup_teardown(test_what_is_sent_arrives, base_make, base_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
