/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a path is still what it was. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../crash/crash.h"
#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/filemeta.h"
#include "layers/identity.h"

static int seed;
static struct cordon_error err;

static int begin(void **state)
{
	err = (struct cordon_error){0};
	if (base_make(state) < 0)
		return -1;
	put_file(base, "seed/d/f", "f\n", 0644);
	put_file(base, "seed/other", "o\n", 0644);
	seed = tree_open(base, "seed");
	return 0;
}

static int end(void **state)
{
	close(seed);
	return base_remove(state);
}

static void ok(int r)
{
	if (r < 0)
		fail_msg("%s", err.message);
}

static struct identity now(const char *path)
{
	struct identity id;
	ok(identity_now(seed, path, &id, &err));
	assert_true(id.known);
	return id;
}

static bool still(const char *path, const struct identity *was)
{
	struct identity id;
	bool same;
	ok(identity_check(seed, path, was, &id, &same, &err));
	return same;
}

/* ---- single paths ------------------------------------------------------------------------------------------------------------- */

static void test_a_file_that_nobody_touched_is_the_same(void **state)
{
	struct identity was = now("d/f");
	put_file(seed, "d/another", "x\n", 0644);
	_cleanup_fd_ int fd = openat(seed, "d/f", O_RDONLY | O_CLOEXEC);
	char c;
	assert_int_equal(read(fd, &c, 1), 1);
	assert_true(still("d/f", &was));
	assert_false(was.absent);
	assert_int_equal(was.type, S_IFREG);
	assert_int_equal(was.dev, 0); /* on the seed's own file system: device numbers do not outlive a boot everywhere */
}

static void test_a_file_that_was_written_to_is_another_whatever_the_clock_says(void **state)
{
	struct stat st;
	struct identity was = now("d/f");
	assert_int_equal(fstatat(seed, "d/f", &st, 0), 0);
	_cleanup_fd_ int fd = openat(seed, "d/f", O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "g\n", 2), 2);
	assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0); /* as if the clock had been set back */
	assert_false(still("d/f", &was));
}

static void test_a_file_of_the_same_text_is_another(void **state)
{
	struct identity was = now("d/f");
	put_file(seed, "d/g", "f\n", 0644);
	assert_int_equal(renameat(seed, "d/g", seed, "d/f"), 0);
	assert_false(still("d/f", &was));
}

static void test_a_file_in_another_directory_of_that_name_is_another(void **state)
{
	struct identity was = now("d/f");
	put_dir(seed, "e", 0755);
	assert_int_equal(renameat(seed, "d/f", seed, "e/f"), 0);
	assert_int_equal(renameat(seed, "d", seed, "old"), 0);
	assert_int_equal(renameat(seed, "e", seed, "d"), 0);
	assert_false(still("d/f", &was));
}

static void test_deleted_and_created_are_told(void **state)
{
	struct identity was = now("d/f"), absent = now("d/new");
	assert_true(absent.absent);
	assert_true(still("d/new", &absent));
	remove_path(seed, "d/f");
	put_file(seed, "d/new", "n\n", 0644);
	assert_false(still("d/f", &was));
	assert_false(still("d/new", &absent));
}

static void test_a_directory_is_the_same_whatever_comes_and_goes_in_it(void **state)
{
	struct identity was = now("d");
	put_file(seed, "d/more", "x\n", 0644);
	remove_path(seed, "d/f");
	assert_true(still("d", &was));
	assert_int_equal(fchmodat(seed, "d", 0700, 0), 0);
	assert_false(still("d", &was));
	assert_int_equal(fchmodat(seed, "d", 0755, 0), 0);
	assert_true(still("d", &was));
	remove_path(seed, "d");
	put_dir(seed, "d", 0755);
	/* the inode may be used again at once; the next one is another */
	put_dir(seed, "e", 0755);
	remove_path(seed, "d");
	assert_int_equal(renameat(seed, "e", seed, "d"), 0);
	struct identity replaced = now("d");
	assert_true(replaced.ino == was.ino || !still("d", &was));
}

static void test_directories_that_come_to_be_above_what_was_absent_do_not_matter(void **state)
{
	struct identity was = now("d/new/deep/f");
	assert_true(was.absent);
	put_dir(seed, "d/new", 0755);
	assert_true(still("d/new/deep/f", &was));
	put_dir(seed, "d/new/deep", 0755);
	assert_true(still("d/new/deep/f", &was));
	put_dir(seed, "e", 0755);
	assert_int_equal(renameat(seed, "d", seed, "was-d"), 0);
	assert_int_equal(renameat(seed, "e", seed, "d"), 0);
	assert_false(still("d/new/deep/f", &was)); /* but a directory that was there matters */
	remove_path(seed, "d");
	assert_false(still("d/new/deep/f", &was));
}

static void test_links_are_not_followed(void **state)
{
	put_link(seed, "link", "d");
	put_link(seed, "up", "..");
	assert_true(now("link/f").absent);
	assert_true(now("up/seed").absent);
	assert_int_equal(now("link").type, S_IFLNK);
	assert_true(now("other/below-a-file").absent);
}

static void test_what_was_never_recorded_is_equal_to_nothing(void **state)
{
	struct identity unknown = {0}, raced = {.known = true, .raced = true}, real = now("d/f");
	assert_false(identity_equal(&unknown, &unknown));
	assert_false(identity_equal(&raced, &raced));
	assert_true(identity_equal(&real, &real));
	assert_false(still("d/f", &unknown));
	assert_false(still("d/absent", &unknown));
	assert_false(still("d/f", &raced));
}

static void test_a_path_longer_than_the_kernel_takes(void **state)
{
	struct buf path = {0};
	int at = openat(seed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(mkdirat(at, "directory", 0755), 0);
		int next = openat(at, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
		buf_add_str(&path, "directory/");
	}
	put_file(at, "f", "f\n", 0644);
	close(at);
	buf_add_str(&path, "f");
	struct identity was = now(path.data);
	assert_false(was.absent);
	assert_true(still(path.data, &was));
	buf_free(&path);
}

/* ---- files of them ------------------------------------------------------------------------------------------------------------ */

static void test_a_map_survives_being_written_and_read(void **state)
{
	static const char *const odd[] = {"plain", "with blank", "new\nline", "%41", "\xff\xfe", "a=b,c", "-", "!", "x:y"};
	struct identities *map, *again;
	struct identity real = now("d/f"), absent = now("nowhere/f"), raced = {.known = true, .raced = true};
	ok(identities_new(&map, &err));
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		ok(identities_put(map, odd[i], i % 3 == 0 ? &real : i % 3 == 1 ? &absent : &raced, &err));
	for (int i = 0; i < 1000; i++) {
		char path[16];
		snprintf(path, sizeof(path), "p%d", i);
		real.ino = (uint64_t)i;
		real.ctime_ns = -i;
		ok(identities_put(map, path, &real, &err));
	}
	ok(identities_save(map, base, "ids", &err));
	ok(identities_load(base, "ids", &again, &err));
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct identity want = identities_get(map, odd[i]), got = identities_get(again, odd[i]);
		assert_true(got.known && got.raced == want.raced && got.absent == want.absent);
		assert_true(want.raced || identity_equal(&want, &got));
	}
	assert_int_equal(identities_get(again, "p999").ino, 999);
	assert_int_equal(identities_get(again, "p999").ctime_ns, -999);
	assert_false(identities_get(again, "p1000").known);
	identities_free(map);
	identities_free(again);
}

static void test_later_records_replace_earlier_ones(void **state)
{
	struct identities *a, *b;
	struct identity one = now("d/f"), two = now("other");
	ok(identities_new(&a, &err));
	ok(identities_new(&b, &err));
	ok(identities_put(a, "x", &one, &err));
	ok(identities_put(a, "kept", &one, &err));
	ok(identities_put(b, "x", &two, &err));
	ok(identities_save(b, base, "ids", &err));
	ok(identities_merge(a, base, "ids", &err));
	assert_int_equal(identities_get(a, "x").ino, two.ino);
	assert_int_equal(identities_get(a, "kept").ino, one.ino);
	ok(identities_put(b, "x", &one, &err));
	ok(identities_merge_from(a, b, &err));
	assert_int_equal(identities_get(a, "x").ino, one.ino);
	ok(identities_merge(a, base, "no-such-file", &err));
	identities_free(a);
	identities_free(b);
}

static void test_a_missing_file_is_empty_and_a_damaged_one_is_an_error(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"cordon-identities 2\n",
		"cordon-identities 1\n1:2:3 f\n",
		"cordon-identities 1\n- f\n",
		"cordon-identities 1\n! f",
		"cordon-identities 1\n!\n",
		"cordon-identities 1\n! \n",
		"cordon-identities 1\n! a%0\n",
		"cordon-identities 1\n! a b\n",
		"cordon-identities 1\n0:1:2:3:4:5:6 f\n",
		"cordon-identities 1\n\n",
		"cordon-identities 1\n! a%00b\n",
	};
	struct identities *map;
	ok(identities_load(base, "nothing", &map, &err));
	assert_false(identities_get(map, "x").known);
	identities_free(map);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		put_file(base, "ids", bad[i], 0600);
		if (identities_load(base, "ids", &map, &err) != -1)
			fail_msg("'%s' was let through", bad[i]);
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_non_null(strstr(err.message, "damaged"));
	}
	put_link(base, "ids", "other-ids");
	assert_int_equal(identities_load(base, "ids", &map, &err), -1);
}

static void test_a_seal_records_what_the_host_has_and_what_it_changed_meanwhile(void **state)
{
	struct change items[] = {{.op = CHANGE_MODIFY, .path = (char[]){"d/f"}},
	                         {.op = CHANGE_ADD, .path = (char[]){"new"}},
	                         {.op = CHANGE_MODIFY, .path = (char[]){"other"}}};
	struct changes changes = {.items = items, .count = 3};
	struct identities *map;
	struct stat st;
	assert_int_equal(fstatat(seed, "d/f", &st, 0), 0);
	int64_t birth = timespec_ns(st.st_ctim);
	do /* until the clock of the file system has moved on */
		put_file(seed, "other", "changed\n", 0644);
	while (fstatat(seed, "other", &st, 0) == 0 && timespec_ns(st.st_ctim) <= birth);
	put_file(base, "base", "from a seal that was killed", 0600);
	ok(identities_record(base, seed, &changes, birth, &err));
	ok(identities_load(base, "base", &map, &err));
	struct identity f = identities_get(map, "d/f"), added = identities_get(map, "new"), raced = identities_get(map, "other");
	assert_true(still("d/f", &f));
	assert_true(added.known && added.absent);
	assert_true(raced.known && raced.raced);
	identities_free(map);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_file_that_nobody_touched_is_the_same),
		TEST(test_a_file_that_was_written_to_is_another_whatever_the_clock_says),
		TEST(test_a_file_of_the_same_text_is_another),
		TEST(test_a_file_in_another_directory_of_that_name_is_another),
		TEST(test_deleted_and_created_are_told),
		TEST(test_a_directory_is_the_same_whatever_comes_and_goes_in_it),
		TEST(test_directories_that_come_to_be_above_what_was_absent_do_not_matter),
		TEST(test_links_are_not_followed),
		TEST(test_what_was_never_recorded_is_equal_to_nothing),
		TEST(test_a_path_longer_than_the_kernel_takes),
		TEST(test_a_map_survives_being_written_and_read),
		TEST(test_later_records_replace_earlier_ones),
		TEST(test_a_missing_file_is_empty_and_a_damaged_one_is_an_error),
		TEST(test_a_seal_records_what_the_host_has_and_what_it_changed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
