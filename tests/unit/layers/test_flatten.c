/* SPDX-License-Identifier: Apache-2.0 */
/* Squashing: one tree of links shows what the whole stack shows, over whatever seed, and nothing half-made is ever taken for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/record.h"
#include "layers/store_parts.h"
#include "store_fixture.h"

/* ---- links that fail, and what happens meanwhile ------------------------------------------------------------------------------- */

static int link_error;
static void (*during_link)(void);

int __real_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
	if (during_link) {
		void (*hook)(void) = during_link;
		during_link = NULL;
		hook();
	}
	errno = link_error;
	return link_error ? -1 : __real_linkat(from, old, to, new, flags);
}

static int set_up(void **state)
{
	link_error = 0;
	during_link = NULL;
	return fixture_set_up(state);
}

static void stat_in(const char *id, const char *path, struct stat *st)
{
	assert_int_equal(fstatat(store.layers_fd, path_of("", id, path) + 1, st, AT_SYMLINK_NOFOLLOW), 0);
}

static bool same_inode(const char *a, const char *a_path, const char *b, const char *b_path)
{
	struct stat x, y;
	stat_in(a, a_path, &x);
	stat_in(b, b_path, &y);
	return x.st_ino == y.st_ino;
}

static size_t temps_in(const char *id)
{
	_cleanup_fd_ int dir = layer_open_dir(&store, id, &err);
	struct strlist names = {0};
	size_t count = 0;
	ok(store_list(dir, &names, &err));
	for (size_t i = 0; i < names.count; i++)
		count += strncmp(names.items[i], FLAT_TEMP, strlen(FLAT_TEMP)) == 0;
	strlist_free(&names);
	return count;
}

/* ---- the rules ---------------------------------------------------------------------------------------------------------------- */

static void test_the_topmost_wins_and_marks_are_kept_for_the_seed(void **state)
{
	const char *low = new_open_layer();
	put(low, "app/only-low", "low");
	put(low, "app/both", "low");
	put(low, "app/deleted", "low");
	put_dir(low, "app/merged/deep");
	put(low, "app/merged/low", "low");
	put(low, "app/merged/deep/low", "low");
	put_dir(low, "app/replaced");
	put(low, "app/replaced/low", "low");
	put_dir(low, "app/was-dir");
	put(low, "app/was-dir/low", "low");
	put(low, "app/was-file", "low");
	put_whiteout(low, "app/seed-gone");
	put_whiteout(low, "app/came-back");
	put(low, "home/h", "low");
	seal(low, "", "");
	const char *top = new_open_layer();
	put(top, "app/only-top", "top");
	put(top, "app/both", "top");
	put_whiteout(top, "app/deleted");
	put_dir(top, "app/merged/deep");
	put(top, "app/merged/deep/top", "top");
	put_opaque(top, "app/replaced");
	put(top, "app/replaced/top", "top");
	put(top, "app/was-dir", "top");
	put_dir(top, "app/was-file");
	put_dir(top, "app/came-back");
	put_whiteout(top, "app/never-there");
	seal(top, low, "");
	ok(layer_flatten(&store, top, &err));

	static const char *const expected[][2] = {
		{"only-low", "low"},         {"only-top", "top"},        {"both", "top"},
		{"deleted", "whiteout"},                                                    /* the seed may have it */
		{"never-there", "whiteout"}, {"seed-gone", "whiteout"},  {"merged", "dir"}, /* what the seed has in it shows through */
		{"merged/low", "low"},       {"merged/deep/low", "low"}, {"merged/deep/top", "top"},
		{"replaced", "opaque"},      {"replaced/top", "top"},    {"replaced/low", "none"},
		{"was-dir", "top"},          {"was-file", "opaque"}, /* the file below hid what the seed had */
		{"came-back", "opaque"},
	};
	char path[64];
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		snprintf(path, sizeof(path), "flat/app/%s", expected[i][0]);
		if (strcmp(what_is(top, path), expected[i][1]) != 0)
			fail_msg("%s is %s, not %s", path, what_is(top, path), expected[i][1]);
	}
	assert_string_equal(what_is(top, "flat/home/h"), "low");
	assert_true(same_inode(low, "app/only-low", top, "flat/app/only-low"));
	assert_int_equal(temps_in(top), 0);
}

static void test_what_a_middle_layer_cut_off_does_not_come_back(void **state)
{
	const char *a = new_open_layer();
	put_dir(a, "app/x/sub");
	put(a, "app/x/sub/f", "a");
	put_dir(a, "app/y");
	put(a, "app/y/f", "a");
	seal(a, "", "");
	const char *b = new_open_layer();
	put_opaque(b, "app/x");
	put(b, "app/x/b", "b");
	put_whiteout(b, "app/y");
	seal(b, a, "");
	const char *c = new_open_layer();
	put_dir(c, "app/x");
	put(c, "app/x/c", "c");
	put_dir(c, "app/y");
	seal(c, b, "");
	ok(layer_flatten(&store, c, &err));
	assert_string_equal(what_is(c, "flat/app/x"), "opaque");
	assert_string_equal(what_is(c, "flat/app/x/b"), "b");
	assert_string_equal(what_is(c, "flat/app/x/c"), "c");
	assert_string_equal(what_is(c, "flat/app/x/sub"), "none");
	assert_string_equal(what_is(c, "flat/app/y"), "opaque");
	assert_string_equal(what_is(c, "flat/app/y/f"), "none");
}

/* ---- what belongs to the entries ---------------------------------------------------------------------------------------------- */

static void test_directories_keep_mode_times_and_attributes_although_more_is_put_into_them(void **state)
{
	const struct timespec times[] = {{1000, 1}, {2000, 123456789}};
	struct stat st;
	char value[4];
	const char *low = new_open_layer();
	put_dir(low, "app/d");
	put(low, "app/d/low", "low");
	seal(low, "", "");
	const char *top = new_open_layer();
	put_dir(top, "app/d");
	put(top, "app/d/top", "top");
	_cleanup_fd_ int d = openat(store.layers_fd, path_of("", top, "app/d") + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fsetxattr(d, "user.note", "yes", 3, 0), 0);
	assert_int_equal(fchmod(d, 01555), 0); /* an ordinary user cannot write to it as it is */
	assert_int_equal(futimens(d, times), 0);
	assert_int_equal(utimensat(store.layers_fd, path_of("", top, "app") + 1, times, 0), 0);
	seal(top, low, "");
	ok(layer_flatten(&store, top, &err));
	assert_string_equal(what_is(top, "flat/app/d/low"), "low");
	stat_in(top, "flat/app/d", &st);
	assert_int_equal(st.st_mode & 07777, 01555);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 123456789);
	_cleanup_fd_ int flat = openat(store.layers_fd, path_of("", top, "flat/app/d") + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fgetxattr(flat, "user.note", value, sizeof(value)), 3);
	stat_in(top, "flat/app", &st);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
}

static void put_socket(const char *id, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_fd_ int dir = openat(store.layers_fd, path_of("", id, "app") + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void fill_with_kinds(const char *id)
{
	put(id, "app/file", "data");
	assert_int_equal(linkat(store.layers_fd, path_of("", id, "app/file") + 1, store.layers_fd, "second", 0), 0);
	assert_int_equal(renameat(store.layers_fd, "second", store.layers_fd, path_of("", id, "app/second") + 1), 0);
	assert_int_equal(symlinkat("/etc/passwd", store.layers_fd, path_of("", id, "app/link") + 1), 0);
	assert_int_equal(mkfifoat(store.layers_fd, path_of("", id, "app/fifo") + 1, 0640), 0);
	put_whiteout(id, "app/white");
	put_socket(id, "socket");
}

static void test_links_pipes_and_sockets_stay_what_they_are(void **state)
{
	const char *id = new_open_layer();
	fill_with_kinds(id);
	seal(id, "", "");
	ok(layer_flatten(&store, id, &err));
	assert_true(same_inode(id, "flat/app/file", id, "flat/app/second"));
	assert_string_equal(what_is(id, "flat/app/link"), "link");
	assert_string_equal(what_is(id, "flat/app/fifo"), "special");
	assert_string_equal(what_is(id, "flat/app/socket"), "special");
	assert_string_equal(what_is(id, "flat/app/white"), "whiteout");
}

static void test_where_there_can_be_no_more_links_there_are_copies(void **state)
{
	const char *id = new_open_layer();
	struct stat st;
	fill_with_kinds(id);
	assert_int_equal(fchmodat(store.layers_fd, path_of("", id, "app/file") + 1, 0751, 0), 0);
	seal(id, "", "");
	link_error = EMLINK;
	ok(layer_flatten(&store, id, &err));
	assert_false(same_inode(id, "app/file", id, "flat/app/file"));
	assert_string_equal(what_is(id, "flat/app/file"), "data");
	stat_in(id, "flat/app/file", &st);
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_string_equal(what_is(id, "flat/app/link"), "link");
	assert_string_equal(what_is(id, "flat/app/fifo"), "special");
	assert_string_equal(what_is(id, "flat/app/white"), "whiteout");
	assert_string_equal(what_is(id, "flat/app/socket"), "none"); /* nobody listens */
}

/* 1,000 levels, names of 255 bytes of every kind: the whole path is far longer than PATH_MAX. */
static void descend_or_make(int *at, const char *name, bool make)
{
	if (make)
		assert_int_equal(mkdirat(*at, name, 0755), 0);
	int next = openat(*at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	assert_true(next >= 0);
	close(*at);
	*at = next;
}

static void walk_deep(const char *id, const char *tree, const char *leaf, bool make)
{
	char name[256];
	int at = openat(store.layers_fd, path_of("", id, tree) + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 1000; i++) {
		memset(name, 1 + i % 255 == '/' || 1 + i % 255 == '.' ? '?' : 1 + i % 255, 255);
		name[255] = '\0';
		descend_or_make(&at, name, make);
	}
	if (make)
		ok(fs_write_file(at, leaf, leaf, strlen(leaf), 0644, &err));
	assert_int_equal(faccessat(at, leaf, F_OK, 0), 0);
	close(at);
}

static void test_a_thousand_levels_with_any_names_are_merged(void **state)
{
	const char *low = new_open_layer();
	walk_deep(low, "app", "low", true);
	seal(low, "", "");
	const char *top = new_open_layer();
	walk_deep(top, "app", "to\np", true);
	seal(top, low, "");
	ok(layer_flatten(&store, top, &err));
	walk_deep(top, "flat/app", "low", false);
	walk_deep(top, "flat/app", "to\np", false);
}

/* ---- interruptions ------------------------------------------------------------------------------------------------------------ */

static void test_what_a_killed_process_left_is_removed_and_what_a_living_one_makes_is_not(void **state)
{
	const char *id = new_open_layer();
	char dead[192], mine[192], name[RECORD_TEMP_MAX];
	put(id, "app/file", "data");
	seal(id, "", "");
	snprintf(dead, sizeof(dead), "%s%s.aaaabbbbccccddddeeee", FLAT_TEMP, dead_stamp());
	ok(record_temp_name(name, FLAT_TEMP, &err));
	snprintf(mine, sizeof(mine), "%s/app", name);
	put_dir(id, dead);
	put_dir(id, mine);
	put(id, path_of("", dead, "half") + 1, "x");
	ok(layer_flatten(&store, id, &err));
	assert_false(there(id, dead));
	assert_true(there(id, mine));
	assert_string_equal(what_is(id, "flat/app/file"), "data");
	assert_string_equal(what_is(id, "flat/half"), "none");
}

static void test_a_failure_in_the_middle_leaves_nothing_and_the_next_try_works(void **state)
{
	const char *id = new_open_layer();
	put(id, "app/file", "data");
	seal(id, "", "");
	link_error = ENOSPC;
	assert_refused(layer_flatten(&store, id, &err), CORDON_ERR_SYSTEM, "No space left");
	assert_int_equal(temps_in(id), 0);
	assert_false(there(id, "flat"));
	link_error = 0;
	ok(layer_flatten(&store, id, &err));
	assert_true(there(id, "flat/app/file"));
}

static const char *racing_id;

static void be_faster(void)
{
	put_dir(racing_id, "flat/app");
	put(racing_id, "flat/app/theirs", "theirs");
}

static void test_somebody_who_was_faster_wins(void **state)
{
	racing_id = new_open_layer();
	put(racing_id, "app/file", "data");
	seal(racing_id, "", "");
	during_link = be_faster;
	ok(layer_flatten(&store, racing_id, &err));
	assert_null(during_link);
	assert_string_equal(what_is(racing_id, "flat/app/theirs"), "theirs");
	assert_int_equal(temps_in(racing_id), 0);
	ok(layer_flatten(&store, racing_id, &err)); /* and is left alone */
	assert_true(there(racing_id, "flat/app/theirs"));
}

static void test_only_sealed_layers_on_sound_ones_are_squashed(void **state)
{
	const char *open = new_open_layer(), *low = new_layer("", ""), *top = new_layer(low, "");
	assert_refused(layer_flatten(&store, open, &err), CORDON_ERR_NOT_FOUND, "still open");
	overwrite(path_of("layers", low, "layer"), "", 0);
	assert_refused(layer_flatten(&store, top, &err), CORDON_ERR_INPUT, "damaged");
	assert_false(there(top, "flat"));
	assert_int_equal(temps_in(top), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_the_topmost_wins_and_marks_are_kept_for_the_seed),
		T(test_what_a_middle_layer_cut_off_does_not_come_back),
		T(test_directories_keep_mode_times_and_attributes_although_more_is_put_into_them),
		T(test_links_pipes_and_sockets_stay_what_they_are),
		T(test_where_there_can_be_no_more_links_there_are_copies),
		T(test_a_thousand_levels_with_any_names_are_merged),
		T(test_what_a_killed_process_left_is_removed_and_what_a_living_one_makes_is_not),
		T(test_a_failure_in_the_middle_leaves_nothing_and_the_next_try_works),
		T(test_somebody_who_was_faster_wins),
		T(test_only_sealed_layers_on_sound_ones_are_squashed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
