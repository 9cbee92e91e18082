/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are what they were copied from, to the last attribute, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../crash/crash.h"
#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/copy.h"
#include "layers/filemeta.h"

static struct cordon_error err;

static int begin(void **state)
{
	err = (struct cordon_error){0};
	return base_make(state);
}

static void ok(int r)
{
	if (r < 0)
		fail_msg("%s", err.message);
}

static bool exists(const char *path)
{
	return faccessat(base, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct stat stat_of(const char *path)
{
	struct stat st = {0};
	assert_int_equal(fstatat(base, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static void assert_same(const char *a, const char *b)
{
	_cleanup_fd_ int fa = tree_open(base, a), fb = tree_open(base, b);
	_cleanup_free_ char *ta = tree_describe(fa), *tb = tree_describe(fb);
	const char *difference = tree_difference(ta, tb);
	if (difference)
		fail_msg("%s", difference);
}

static void copy(const char *from, const char *to, unsigned flags)
{
	struct copy_links *links = copy_links_new();
	ok(copy_tree(base, from, base, to, flags, links, &err));
	copy_links_free(links);
}

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	print_message("skip: needs root\n");
	return false;
}

/* ---- trees -------------------------------------------------------------------------------------------------------------------- */

static void make_all_kinds(const char *top)
{
	put_dir(base, top, 0755);
	_cleanup_fd_ int t = tree_open(base, top);
	put_file(t, "a/plain", "plain\n", 0640);
	put_file(t, "a/empty", "", 0600);
	put_file(t, "a/read-only", "x\n", 0444);
	put_attr(t, "a/plain", "user.colour", "blue");
	put_file(t, "a/long-attr", "x\n", 0644);
	char value[3000];
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	put_attr(t, "a/long-attr", "user.long", value);
	put_link(t, "b/link", "../a/plain");
	put_link(t, "b/dangling", "/nowhere");
	assert_int_equal(mkfifoat(t, "b/fifo", 0620), 0);
	put_dir(t, "c/empty", 0711);
	put_attr(t, "c/empty", "user.d", "1");
	assert_int_equal(linkat(t, "a/plain", t, "c/second", 0), 0);
	assert_int_equal(linkat(t, "a/plain", t, "third", 0), 0);
	put_file(t, "new\nline\xff", "odd\n", 0644);
	if (geteuid() == 0)
		assert_int_equal(fchownat(t, "a/empty", 123, 456, 0) | fchownat(t, "b/link", 7, 8, AT_SYMLINK_NOFOLLOW) |
		                         fchownat(t, "c", 9, 10, 0),
		                 0);
	settle_times(t, -1500000000123456789); /* before 1970 */
}

static void test_a_tree_is_copied_with_all_that_belongs_to_it(void **state)
{
	make_all_kinds("from");
	copy("from", "to", 0);
	assert_same("from", "to");
	copy("from", "synced", COPY_SYNC);
	assert_same("from", "synced");
	assert_int_equal(stat_of("to/a/plain").st_nlink, 3);
	assert_int_not_equal(stat_of("to/a/plain").st_ino, stat_of("from/a/plain").st_ino);
}

static void test_a_directory_that_cannot_be_written_to_is_copied_with_its_files(void **state)
{
	put_file(base, "from/sub/f", "f\n", 0400);
	put_dir(base, "from/sub", 0500);
	put_dir(base, "from", 0555);
	copy("from", "to", 0);
	assert_same("from", "to");
	put_dir(base, "from", 0755);
	put_dir(base, "to", 0755);
}

static void test_a_deep_tree_needs_few_descriptors(void **state)
{
	struct rlimit old, few;
	put_dir(base, "from", 0755);
	int at = tree_open(base, "from");
	for (int i = 0; i < 1200; i++) {
		assert_int_equal(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	put_file(at, "bottom", "x\n", 0644);
	assert_int_equal(linkat(at, "bottom", base, "from/top", 0), 0); /* a link from the bottom to the top: the path is 2,400 bytes */
	close(at);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	struct copy_links *links = copy_links_new();
	int r = copy_tree(base, "from", base, "to", 0, links, &err);
	copy_links_free(links);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	ok(r);
	assert_int_equal(stat_of("to/top").st_nlink, 2);
}

static void test_what_is_no_file_is_left_out_of_trees_and_refused_alone(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	put_file(base, "from/f", "f\n", 0644);
	_cleanup_fd_ int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/from/socket", base_path);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(mknodat(base, "from/whiteout", S_IFCHR, makedev(0, 0)), 0);
	copy("from", "to", 0);
	assert_true(exists("to/f"));
	assert_false(exists("to/socket"));
	assert_false(exists("to/whiteout"));
	_cleanup_fd_ int from = tree_open(base, "from");
	assert_int_equal(copy_entry(from, "socket", base, "socket", 0, NULL, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
	assert_int_equal(copy_entry(from, "whiteout", base, "whiteout", 0, NULL, &err), -1);
	assert_false(exists("whiteout"));
}

static void test_a_layer_stays_a_layer_if_asked(void **state)
{
	put_file(base, "from/f", "f\n", 0644);
	put_dir(base, "from/opaque", 0755);
	put_attr(base, "from/opaque", "user.overlay.opaque", "y");
	put_attr(base, "from/f", "user.overlay.origin", "x");
	put_attr(base, "from/f", "user.kept", "x");
	assert_int_equal(mknodat(base, "from/whiteout", S_IFCHR, makedev(0, 0)), 0);
	copy("from", "layer", COPY_OVERLAY);
	assert_same("from", "layer");
	copy("from", "plain", 0);
	_cleanup_fd_ int fd = tree_open(base, "plain/opaque"), f = openat(base, "plain/f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fgetxattr(fd, "user.overlay.opaque", NULL, 0), -1);
	assert_int_equal(fgetxattr(f, "user.overlay.origin", NULL, 0), -1);
	assert_int_equal(fgetxattr(f, "user.kept", NULL, 0), 1);
}

static void test_files_can_be_linked_instead(void **state)
{
	make_all_kinds("from");
	copy("from", "to", COPY_LINK);
	assert_int_equal(stat_of("to/a/empty").st_ino, stat_of("from/a/empty").st_ino);
	assert_int_equal(stat_of("to/third").st_ino, stat_of("from/third").st_ino);
	assert_int_not_equal(stat_of("to/b/link").st_ino, stat_of("from/b/link").st_ino);
	assert_same("from", "to"); /* they have the same links by now */
}

static void test_a_tree_is_never_copied_onto_another(void **state)
{
	put_file(base, "from/f", "f\n", 0644);
	put_file(base, "to/mine", "mine\n", 0644);
	assert_int_equal(copy_tree(base, "from", base, "to", 0, NULL, &err), -1);
	assert_true(exists("to/mine"));
	assert_false(exists("to/f"));
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

static void test_links_are_found_again_in_other_directories(void **state)
{
	struct copy_links *links = copy_links_new();
	char a[16], b[16], directory[16];
	put_dir(base, "to", 0755);
	for (int i = 0; i < 200; i++) {
		snprintf(a, sizeof(a), "from/a%d", i);
		snprintf(b, sizeof(b), "from/b%d", i);
		put_file(base, a, a, 0644);
		assert_int_equal(linkat(base, a, base, b, 0), 0);
	}
	_cleanup_fd_ int from = tree_open(base, "from"), to = tree_open(base, "to");
	for (int i = 0; i < 200; i++) {
		snprintf(directory, sizeof(directory), "to/%d", i);
		put_dir(base, directory, 0755);
		_cleanup_fd_ int sub = tree_open(base, directory);
		snprintf(a, sizeof(a), "a%d", i);
		ok(copy_entry(from, a, sub, a, 0, links, &err));
	}
	for (int i = 199; i >= 0; i--) {
		snprintf(b, sizeof(b), "b%d", i);
		ok(copy_entry(from, b, to, b, 0, links, &err));
		snprintf(a, sizeof(a), "to/b%d", i);
		assert_int_equal(stat_of(a).st_nlink, 2);
	}
	copy_links_free(links);
}

static void test_a_link_is_copied_not_what_it_leads_to(void **state)
{
	put_file(base, "secret", "secret\n", 0600);
	put_link(base, "link", "secret");
	ok(copy_entry(base, "link", base, "copy", 0, NULL, &err));
	assert_true(S_ISLNK(stat_of("copy").st_mode));
	put_link(base, "to", "elsewhere");
	assert_int_equal(copy_entry(base, "secret", base, "to", 0, NULL, &err), -1); /* nor is a link followed that is in the way */
	assert_false(exists("elsewhere"));
	assert_true(S_ISLNK(stat_of("to").st_mode));
}

static void test_what_is_there_already_stays(void **state)
{
	put_file(base, "a", "a\n", 0644);
	put_file(base, "b", "b\n", 0644);
	assert_int_equal(copy_entry(base, "a", base, "b", 0, NULL, NULL), -1);
	assert_true(exists("b"));
	assert_int_equal(stat_of("b").st_size, 2);
}

static void test_holes_stay_holes(void **state)
{
	_cleanup_fd_ int fd = openat(base, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(pwrite(fd, "begin", 5, 1 << 20), 5);
	assert_int_equal(pwrite(fd, "middle", 6, 64 << 20), 6);
	assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0);
	ok(copy_entry(base, "sparse", base, "copy", COPY_SYNC, NULL, &err));
	assert_int_equal(stat_of("copy").st_size, (off_t)1 << 30);
	assert_true(stat_of("copy").st_blocks < 4096);
	char text[8] = "";
	_cleanup_fd_ int out = openat(base, "copy", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(out, text, 6, 64 << 20), 6);
	assert_string_equal(text, "middle");
}

static void test_large_files_arrive_whole(void **state)
{
	put_dir(base, "from", 0755);
	_cleanup_fd_ int fd = openat(base, "from/large", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	for (unsigned i = 0; i < 3000000; i += 4096 / sizeof(i)) {
		unsigned block[4096 / sizeof(i)];
		for (size_t k = 0; k < ARRAY_SIZE(block); k++)
			block[k] = i * 2654435761u + (unsigned)k;
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	}
	assert_int_equal(write(fd, "x", 1), 1);
	copy("from", "to", 0);
	assert_same("from", "to");
}

/* A default ACL of the directory is not the file's own. */
static void test_what_the_directory_gives_to_new_files_is_taken_away(void **state)
{
	static const unsigned char acl[] = {2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 2,   0,   7,  0, 1, 0, 0,   0,   4,   0,
	                                    7, 0, 255, 255, 255, 255, 16, 0, 7,   0,   255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255, 255};
	put_file(base, "from/f", "f\n", 0640);
	put_file(base, "from/with", "f\n", 0640);
	put_dir(base, "to", 0755);
	_cleanup_fd_ int to = tree_open(base, "to"), with = openat(base, "from/with", O_RDONLY | O_CLOEXEC);
	if (fsetxattr(to, "system.posix_acl_default", acl, sizeof(acl), 0) < 0 ||
	    fsetxattr(with, "system.posix_acl_access", acl, sizeof(acl), 0) < 0) {
		print_message("skip: no ACLs here\n");
		skip();
	}
	assert_int_equal(fchmodat(base, "from/with", 0650, 0), 0); /* r-x is its mask now */
	copy("from", "to/copy", 0);
	_cleanup_fd_ int old = openat(base, "from", O_RDONLY | O_CLOEXEC), new_one = openat(base, "to/copy", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *want = tree_describe(old), *got = tree_describe(new_one);
	assert_null(tree_difference(want, got));
}

/* An ordinary user gets a copy of a set-user-id program, but not one that is set-user-id to himself. */
static void test_a_set_user_id_bit_needs_its_owner(void **state)
{
	int status;
	if (!is_root())
		skip();
	put_file(base, "tool", "x\n", 04755);
	assert_int_equal(fchmod(base, 0777), 0);
	ok(copy_entry(base, "tool", base, "as-root", 0, NULL, &err));
	assert_int_equal(stat_of("as-root").st_mode & 07777, 04755);
	pid_t pid = fork();
	if (pid == 0) {
		if (setgid(64321) < 0 || setuid(64321) < 0)
			_exit(1);
		if (copy_entry(base, "tool", base, "denied", 0, NULL, NULL) == 0)
			_exit(2);
		_exit(copy_entry(base, "tool", base, "as-user", COPY_OWNER_MAY_FAIL, NULL, NULL) < 0 ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_false(exists("denied"));
	assert_int_equal(stat_of("as-user").st_mode & 07777, 0755);
	assert_int_equal(stat_of("as-user").st_uid, 64321);
}

static int fill_disk(void)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/small", base_path);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") < 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=64k") < 0)
		return 77;
	_cleanup_fd_ int small = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy_tree(base, "from", small, "to", 0, NULL, &err) == 0 || err.sys_errno != ENOSPC)
		return 1;
	_cleanup_fd_ int from = tree_open(base, "from");
	if (copy_entry(from, "large", small, "file", 0, NULL, &err) == 0 || err.sys_errno != ENOSPC)
		return 2;
	return faccessat(small, "to", F_OK, 0) == 0 || faccessat(small, "file", F_OK, 0) == 0 ? 3 : 0;
}

static void test_a_full_disk_leaves_nothing_behind(void **state)
{
	int status;
	if (!is_root())
		skip();
	put_dir(base, "small", 0755);
	put_file(base, "from/sub/f", "f\n", 0644);
	char *text = calloc(1, 200001);
	memset(text, 'x', 200000);
	put_file(base, "from/large", text, 0644);
	free(text);
	pid_t pid = fork();
	if (pid == 0)
		_exit(fill_disk());
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* ---- small files, text -------------------------------------------------------------------------------------------------------- */

static void test_a_file_is_replaced_whole(void **state)
{
	char text[16] = "";
	put_file(base, "f", "old", 0644);
	put_file(base, ".f.tmp", "left behind by a writer that was killed", 0600);
	ok(write_synced(base, "f", "new", 3, &err));
	assert_int_equal(fs_read_small(base, "f", text, sizeof(text)), 3);
	assert_string_equal(text, "new");
	assert_false(exists(".f.tmp"));
}

static void test_metadata_survives_as_text(void **state)
{
	struct file_meta meta, again;
	struct buf text = {0};
	put_file(base, "f", "f\n", 04751);
	put_attr(base, "f", "user.a=b, %", "\x01\xff value");
	put_attr(base, "f", "user.empty", "");
	struct timespec times[2] = {{-1, 999999999}, {-1, 999999999}};
	assert_int_equal(utimensat(base, "f", times, 0), 0);
	_cleanup_fd_ int fd = openat(base, "f", O_RDONLY | O_CLOEXEC);
	ok(file_meta_read(fd, "f", 0, &meta, &err));
	file_meta_format(&text, &meta);
	ok(file_meta_parse(text.data, &again, &err));
	assert_int_equal(again.mode, meta.mode);
	assert_int_equal(timespec_ns(again.mtime), -1);
	assert_int_equal(again.attr_count, 2);
	put_file(base, "to/g", "g\n", 0600);
	_cleanup_fd_ int g = openat(base, "to/g", O_RDONLY | O_CLOEXEC);
	ok(file_meta_apply(g, "g", &again, 0, &err));
	buf_free(&text);
	file_meta_free(&meta);
	ok(file_meta_read(g, "g", 0, &meta, &err));
	assert_int_equal(meta.mode & 07777, 04751);
	assert_int_equal(meta.attr_count, 2);
	file_meta_free(&meta);
	file_meta_free(&again);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, base_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_tree_is_copied_with_all_that_belongs_to_it),
		TEST(test_a_directory_that_cannot_be_written_to_is_copied_with_its_files),
		TEST(test_a_deep_tree_needs_few_descriptors),
		TEST(test_what_is_no_file_is_left_out_of_trees_and_refused_alone),
		TEST(test_a_layer_stays_a_layer_if_asked),
		TEST(test_files_can_be_linked_instead),
		TEST(test_a_tree_is_never_copied_onto_another),
		TEST(test_links_are_found_again_in_other_directories),
		TEST(test_a_link_is_copied_not_what_it_leads_to),
		TEST(test_what_is_there_already_stays),
		TEST(test_holes_stay_holes),
		TEST(test_large_files_arrive_whole),
		TEST(test_what_the_directory_gives_to_new_files_is_taken_away),
		TEST(test_a_set_user_id_bit_needs_its_owner),
		TEST(test_a_full_disk_leaves_nothing_behind),
		TEST(test_a_file_is_replaced_whole),
		TEST(test_metadata_survives_as_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
