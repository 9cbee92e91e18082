/* SPDX-License-Identifier: Apache-2.0 */
/* Removing trees that somebody else may still be moving about. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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

#define ROUNDS 30
#define FILES 400

static int base = -1; /* a directory of our own */
static char base_path[] = "/tmp/cordon-fs-XXXXXX";

static int set_up(void **state)
{
	if (!mkdtemp(base_path))
		return -1;
	base = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return base < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	close(base);
	return fs_remove_tree(AT_FDCWD, base_path, NULL);
}

static void make_dir(const char *path)
{
	assert_int_equal(fs_mkdirs(base, path, 0755, NULL), 0);
}

static void make_file(const char *path)
{
	assert_int_equal(fs_write_file(base, path, "x", 1, 0644, NULL), 0);
}

static bool exists(const char *path)
{
	return faccessat(base, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_a_tree_with_links_and_closed_directories_goes_and_nothing_else(void **state)
{
	make_dir("keep");
	make_file("keep/me");
	make_dir("tree/a/b/c");
	make_file("tree/a/b/c/f");
	assert_int_equal(symlinkat("../keep", base, "tree/link"), 0);
	assert_int_equal(symlinkat("/", base, "tree/a/root"), 0);
	assert_int_equal(mkfifoat(base, "tree/a/fifo", 0600), 0);
	assert_int_equal(fchmodat(base, "tree/a/b", 0, 0), 0);
	assert_int_equal(fs_remove_tree(base, "tree", NULL), 0);
	assert_false(exists("tree"));
	assert_true(exists("keep/me"));
}

static void test_a_very_deep_tree_goes(void **state)
{
	char path[16];
	int at = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), i ? "d" : "deep");
		assert_int_equal(mkdirat(at, path, 0755), 0);
		int next = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	assert_int_equal(fs_remove_tree(base, "deep", NULL), 0);
	assert_false(exists("deep"));
}

/* Waits until the directory is being emptied, then moves it up, so that its ".." is another one. */
static void *move_up(void *arg)
{
	struct stat before, now;
	int fd = openat(base, "scratch/name/a/b/victim-maker", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)arg;
	if (fd < 0 || fstat(fd, &before) < 0)
		return NULL;
	for (int i = 0; i < 2000000; i++)
		if (fstat(fd, &now) < 0 || now.st_mtim.tv_nsec != before.st_mtim.tv_nsec || now.st_mtim.tv_sec != before.st_mtim.tv_sec)
			break;
	renameat(base, "scratch/name/a/b/victim-maker", base, "scratch/name/moved");
	close(fd);
	return NULL;
}

static void test_a_directory_that_is_moved_up_meanwhile_does_not_lead_outside(void **state)
{
	char path[64];

	make_dir("bystander");
	make_file("bystander/f");
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread;

		make_dir("scratch/name/a/b/victim-maker");
		make_dir("scratch/other");
		for (int i = 0; i < FILES; i++) {
			snprintf(path, sizeof(path), "scratch/name/a/b/victim-maker/%d", i);
			make_file(path);
		}
		assert_int_equal(pthread_create(&thread, NULL, move_up, NULL), 0);
		int scratch = openat(base, "scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fs_remove_tree(scratch, "name", NULL); /* may fail: somebody is working against it */
		pthread_join(thread, NULL);
		assert_true(exists("bystander/f"));
		assert_true(exists("scratch/other"));
		assert_int_equal(fs_remove_tree(scratch, "name", NULL), 0);
		close(scratch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tree_with_links_and_closed_directories_goes_and_nothing_else),
		cmocka_unit_test(test_a_very_deep_tree_goes),
		cmocka_unit_test(test_a_directory_that_is_moved_up_meanwhile_does_not_lead_outside),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
