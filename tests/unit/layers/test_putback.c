/* SPDX-License-Identifier: Apache-2.0 */
/* Putting files back in place: into what is open, through hard links, and never through symbolic ones. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
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

/* How often a path was opened: openat2(2) has no function of its own. */
static unsigned long opened;
long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	opened += nr == SYS_openat2;
	return __real_syscall(nr, a, b, c, d, e, f);
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

/* All names of a file are gone but one. */
static void test_a_group_of_names_costs_what_it_has_names(void **state)
{
	enum { NAMES = 300, FOR_EACH = 40 };
	char name[16];
	struct stat one, other;
	put(want_dir, "a", "one\n");
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		assert_int_equal(linkat(want_dir, "a", want_dir, name, 0), 0);
	}
	opened = 0;
	assert_int_equal(go_back(NULL), 0);
	assert_true(opened < NAMES * FOR_EACH);
	assert_int_equal(fstatat(tree, "a", &one, 0), 0);
	assert_int_equal(one.st_nlink, NAMES + 1);
	assert_true(fstatat(tree, "l299", &other, 0) == 0 && other.st_ino == one.st_ino);
}

/* a was removed, and b, which is the same file, was only touched: it is not in place yet when a comes back. */
static void test_names_that_were_only_touched_join_the_rest(void **state)
{
	struct stat a, b;
	put(want_dir, "a", "one\n");
	assert_int_equal(linkat(want_dir, "a", want_dir, "b", 0), 0);
	put(tree, "b", "one\n");
	assert_int_equal(utimensat(tree, "b", (const struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
	assert_int_equal(go_back(NULL), 0);
	assert_true(fstatat(tree, "a", &a, 0) == 0 && fstatat(tree, "b", &b, 0) == 0);
	assert_int_equal(a.st_ino, b.st_ino);
}

/* a and b are one file; both were written to, and only a is to be put back. */
static void test_a_name_is_not_linked_to_what_was_spared(void **state)
{
	struct change back = {.op = CHANGE_MODIFY, .path = (char[]){"a"}, .before = S_IFREG | 0644, .after = S_IFREG | 0644};
	put(want_dir, "a", "one\n");
	assert_int_equal(linkat(want_dir, "a", want_dir, "b", 0), 0);
	put(tree, "a", "another\n");
	assert_int_equal(linkat(tree, "a", tree, "b", 0), 0);
	assert_int_equal(go_back(&(struct changes){.items = &back, .count = 1}), 0);
	assert_string_equal(text_of(tree, "a"), "one\n");
	assert_string_equal(text_of(tree, "b"), "another\n");
}

static void test_the_top_is_put_back(void **state)
{
	_cleanup_view_ struct view want = {0}, none = {0};
	struct stat st;
	char value[8];
	assert_int_equal(view_from(&want_dir, 1, false, &want, &err), 0);
	assert_true(fchmod(want_dir, 02750) == 0 && fsetxattr(want_dir, "user.kept", "1", 1, 0) == 0);
	assert_true(fsetxattr(tree, "user.left", "1", 1, 0) == 0 && fchmod(tree, 0) == 0);
	assert_int_equal(putback_top(tree, &want, false, &own, &err), 0);
	assert_true(fstat(tree, &st) == 0 && (st.st_mode & 07777) == 02750);
	assert_int_equal(fgetxattr(tree, "user.kept", value, sizeof(value)), 1);
	assert_int_equal(fgetxattr(tree, "user.left", value, sizeof(value)), -1);
	assert_int_equal(putback_top(tree, &want, true, &own, &err), 0);
	assert_true(fstat(tree, &st) == 0 && (st.st_mode & 07777) == 0750);
	assert_int_equal(fgetxattr(tree, "user.kept", value, sizeof(value)), -1);
	assert_int_equal(putback_top(tree, &none, true, &own, &err), 0);
	assert_true(fstat(tree, &st) == 0 && (st.st_mode & 07777) == 0755);
}

static int bind_in(int dir, const char *name, int kind)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
	int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void test_sockets_in_use_are_told_from_those_that_were_left(void **state)
{
	static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int fd = bind_in(tree, "s", kinds[i]);
		assert_true(putback_is_used(tree, "s"));
		if (kinds[i] != SOCK_DGRAM) {
			struct pollfd waiting = {.fd = fd, .events = POLLIN};
			assert_int_equal(listen(fd, 1), 0);
			assert_true(putback_is_used(tree, "s"));
			assert_int_equal(poll(&waiting, 1, 0), 0); /* and nobody has knocked */
		}
		close(fd);
		assert_false(putback_is_used(tree, "s"));
		assert_int_equal(unlinkat(tree, "s", 0), 0);
	}
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
		cmocka_unit_test_setup_teardown(test_a_group_of_names_costs_what_it_has_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_names_that_were_only_touched_join_the_rest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_name_is_not_linked_to_what_was_spared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_top_is_put_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sockets_in_use_are_told_from_those_that_were_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_closed_directory_is_opened_up_and_closed_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_written_or_removed_through_a_link, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
