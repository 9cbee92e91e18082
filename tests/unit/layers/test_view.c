/* SPDX-License-Identifier: Apache-2.0 */
/* What a stack of directories shows: overlayfs' rules one by one, paths of any length, and trees that work against the reader. */
#include <errno.h>
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
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/view_parts.h"
#include "listing.h"

#define RACE_ROUNDS 150

static int seed = -1, lower = -1, upper = -1;
static struct view v; /* [upper, lower, seed] */

static int set_up(void **state)
{
	seed = tree_new(base, "seed");
	lower = tree_new(base, "lower");
	upper = tree_new(base, "upper");
	return view_from((int[]){upper, lower, seed}, 3, true, &v, NULL);
}

static int tear_down(void **state)
{
	view_close(&v);
	close(seed);
	close(lower);
	close(upper);
	return fs_remove_tree(base, "seed", NULL) || fs_remove_tree(base, "lower", NULL) || fs_remove_tree(base, "upper", NULL);
}

static void assert_absent(const char *path)
{
	struct view_entry e;

	assert_int_equal(view_stat(&v, path, &e, NULL), 0);
	assert_int_equal(e.st.st_mode, 0);
}

static void assert_text(const char *path, size_t layer, const char *text)
{
	struct view_entry e;
	char data[64] = "";

	assert_int_equal(view_stat(&v, path, &e, NULL), 0);
	assert_true(S_ISREG(e.st.st_mode));
	assert_int_equal(e.layer, layer);
	_cleanup_fd_ int fd = view_open_entry(&v, path, &e, NULL);
	assert_true(fd >= 0);
	assert_true(read(fd, data, sizeof(data) - 1) >= 0);
	assert_string_equal(data, text);
}

/* names: with a blank in front of each */
static void assert_lists(const char *path, const char *names)
{
	struct strlist list;
	char text[1024] = "";

	assert_int_equal(view_list(&v, path, &list, NULL), 0);
	for (size_t i = 0; i < list.count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", list.items[i]);
	assert_true(list.count == 0 || !list.items[list.count]);
	strlist_free(&list);
	assert_string_equal(text, names);
}

/* ---- the rules ---------------------------------------------------------------------------------------------------------------- */

static void test_the_topmost_layer_gives_the_entry(void **state)
{
	tree_file(seed, "a", "seed");
	tree_file(seed, "b", "seed");
	tree_file(seed, "c", "seed");
	tree_file(lower, "b", "lower");
	tree_file(lower, "c", "lower");
	tree_file(upper, "c", "upper");
	assert_text("a", 2, "seed");
	assert_text("b", 1, "lower");
	assert_text("c", 0, "upper");
	assert_absent("d");
	assert_absent("a/below/a/file");
	assert_lists("", " a b c");
}

static void test_directories_are_merged(void **state)
{
	struct view_entry e;

	tree_dir(seed, "d/seed");
	tree_dir(lower, "d/lower");
	tree_dir(upper, "d/upper");
	assert_int_equal(fchmodat(lower, "d", 0700, 0), 0);
	assert_lists("d", " lower seed upper");
	assert_int_equal(view_stat(&v, "d", &e, NULL), 0);
	assert_int_equal(e.layer, 0);
	assert_int_equal(e.st.st_mode, S_IFDIR | 0755);
	assert_int_equal(view_stat(&v, "d/seed", &e, NULL), 0);
	assert_int_equal(e.layer, 2);
}

static void test_a_whiteout_hides_what_is_below_it_and_not_what_is_above(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "x");
	tree_file(seed, "f", "x");
	tree_whiteout(lower, "d");
	tree_whiteout(lower, "f");
	assert_absent("d");
	assert_absent("d/f");
	assert_absent("f");
	assert_lists("", "");
	tree_dir(upper, "d");
	tree_file(upper, "f", "new");
	assert_absent("d/f");
	assert_text("f", 0, "new");
	assert_lists("", " d f");
	assert_lists("d", "");
}

static void test_an_opaque_directory_ends_the_merging(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/seed", "x");
	tree_dir(lower, "d");
	tree_file(lower, "d/lower", "x");
	tree_mark(lower, "d", "y");
	tree_dir(upper, "d");
	assert_lists("d", " lower");
	assert_absent("d/seed");
	/* other values mean nothing */
	tree_mark(lower, "d", "yes");
	assert_lists("d", " lower seed");
	tree_mark(lower, "d", "n");
	assert_lists("d", " lower seed");
}

static void test_the_top_of_a_layer_is_never_opaque(void **state)
{
	tree_file(seed, "f", "x");
	tree_mark(base, "upper", "y");
	assert_lists("", " f");
}

static void test_an_empty_file_is_a_whiteout_where_the_directory_says_so(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "seed");
	tree_file(seed, "d/g", "seed");
	tree_file(seed, "d/h", "seed");
	tree_dir(lower, "d");
	tree_file(lower, "d/f", "");
	tree_xattr(lower, "d/f", "user.overlay.whiteout", "");
	tree_file(lower, "d/g", "not empty");
	tree_xattr(lower, "d/g", "user.overlay.whiteout", "");
	tree_file(lower, "d/h", "");
	assert_lists("d", " f g h"); /* not yet */
	tree_mark(lower, "d", "x");
	assert_absent("d/f");
	assert_text("d/g", 1, "not empty");
	assert_text("d/h", 1, "");
	assert_lists("d", " g h");
}

static void test_a_file_over_a_directory_hides_it_also_from_a_directory_above(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "x");
	tree_file(lower, "d", "file");
	assert_absent("d/f");
	assert_text("d", 1, "file");
	tree_dir(upper, "d");
	assert_absent("d/f");
	assert_lists("d", "");
}

static void test_nothing_in_the_seed_is_a_mark(void **state)
{
	tree_dir(seed, "d");
	tree_file(seed, "d/f", "");
	tree_xattr(seed, "d/f", "user.overlay.whiteout", "");
	tree_mark(seed, "d", "x");
	assert_lists("d", " f");
	tree_whiteout(seed, "null");
	assert_absent("null");
}

static void test_devices_and_sockets_are_absent_and_hide(void **state)
{
	tree_file(seed, "s", "x");
	assert_int_equal(mknodat(upper, "s", S_IFSOCK | 0600, 0), 0);
	assert_absent("s");
	if (geteuid() == 0 && mknodat(upper, "dev", S_IFCHR | 0600, makedev(1, 3)) == 0 &&
	    mknodat(upper, "block", S_IFBLK | 0600, makedev(7, 0)) == 0)
		assert_absent("dev");
	assert_lists("", "");
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

static void test_links_and_fifos_are_opened_without_being_used(void **state)
{
	struct view_entry e;
	char target[16];

	assert_int_equal(symlinkat("/etc", upper, "link"), 0);
	assert_int_equal(mkfifoat(upper, "fifo", 0600), 0);
	assert_int_equal(view_stat(&v, "link", &e, NULL), 0);
	assert_true(S_ISLNK(e.st.st_mode));
	int fd = view_open_entry(&v, "link", &e, NULL);
	assert_int_equal(readlinkat(fd, "", target, sizeof(target)), 4);
	close(fd);
	assert_int_equal(view_stat(&v, "fifo", &e, NULL), 0);
	assert_true(S_ISFIFO(e.st.st_mode));
	fd = view_open_entry(&v, "fifo", &e, NULL); /* would wait for a writer */
	assert_true(fcntl(fd, F_GETFL) & O_PATH);
	close(fd);
	assert_absent("link/passwd");
}

static void test_a_file_that_became_something_else_is_not_opened(void **state)
{
	struct view_entry e;
	struct cordon_error err = {0};

	tree_file(upper, "f", "x");
	assert_int_equal(view_stat(&v, "f", &e, NULL), 0);
	assert_int_equal(unlinkat(upper, "f", 0), 0);
	assert_int_equal(mkfifoat(upper, "f", 0600), 0);
	assert_int_equal(view_open_entry(&v, "f", &e, &err), -1);
	assert_int_equal(err.sys_errno, ESTALE);
	assert_int_equal(unlinkat(upper, "f", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", upper, "f"), 0);
	assert_int_equal(view_open_entry(&v, "f", &e, &err), -1);
	e.layer = 17;
	assert_int_equal(view_open_entry(&v, "f", &e, &err), -1);
}

static void test_paths_that_are_not_plain_are_refused(void **state)
{
	static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/.", "a/../b", "../seed"};
	struct view_entry e;
	struct strlist list;
	const char *name;
	char component[300];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cordon_error err = {0};

		assert_int_equal(view_stat(&v, bad[i], &e, &err), -1);
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_int_equal(view_list(&v, bad[i], &list, NULL), -1);
		assert_int_equal(view_open_entry(&v, bad[i], &e, NULL), -1);
		assert_int_equal(path_open_parent(seed, bad[i], &name), -1);
		assert_int_equal(errno, EINVAL);
	}
	memset(component, 'x', sizeof(component));
	component[256] = '\0';
	assert_int_equal(view_stat(&v, component, &e, NULL), -1);
	assert_int_equal(path_open_parent(seed, "", &name), -1);
	component[255] = '\0';
	assert_absent(component);
	assert_absent("...");
}

static void test_the_top_is_the_empty_path(void **state)
{
	struct view_entry e;

	assert_int_equal(view_stat(&v, "", &e, NULL), 0);
	assert_true(S_ISDIR(e.st.st_mode));
	int fd = view_open_entry(&v, "", &e, NULL);
	assert_true(fd >= 0);
	close(fd);
}

static void test_a_view_of_nothing_is_empty(void **state)
{
	struct view none;
	struct view_entry e;
	struct strlist list;
	struct cordon_error err = {0};

	assert_int_equal(view_from(NULL, 0, true, &none, NULL), 0);
	assert_false(none.seeded);
	assert_int_equal(view_stat(&none, "", &e, NULL), 0);
	assert_int_equal(e.st.st_mode, 0);
	assert_int_equal(view_stat(&none, "a/b", &e, NULL), 0);
	assert_int_equal(e.st.st_mode, 0);
	assert_int_equal(view_list(&none, "", &list, NULL), 0);
	assert_int_equal(list.count, 0);
	assert_int_equal(view_list(&none, "d", &list, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	view_close(&none);
}

static void test_listing_a_file_is_an_error(void **state)
{
	struct strlist list;
	struct cordon_error err = {0};

	tree_file(upper, "f", "x");
	assert_int_equal(view_list(&v, "f", &list, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_string_equal(err.message, "f: no such directory");
}

static void test_an_empty_tree_is_told_from_one_that_holds_a_whiteout(void **state)
{
	assert_true(tree_is_empty(base, "upper"));
	tree_whiteout(upper, ".hidden");
	assert_false(tree_is_empty(base, "upper"));
	assert_false(tree_is_empty(base, "missing"));
	assert_int_equal(symlinkat("lower", base, "link"), 0);
	assert_false(tree_is_empty(base, "link"));
	assert_int_equal(unlinkat(base, "link", 0), 0);
}

/* ---- long paths --------------------------------------------------------------------------------------------------------------- */

static char *deep_path(size_t depth, const char *name, const char *last)
{
	size_t len = strlen(name) + 1;
	char *path = malloc(depth * len + strlen(last) + 1);

	assert_non_null(path);
	for (size_t i = 0; i < depth; i++) {
		memcpy(path + i * len, name, len - 1);
		path[i * len + len - 1] = '/';
	}
	memcpy(path + depth * len, last, strlen(last) + 1);
	return path;
}

static void test_paths_are_opened_whatever_their_length(void **state)
{
	/* pieces end before, at and behind the kernel's limit */
	static const size_t lengths[] = {1, 2, 3, 7, 15, 63, 127, 255};
	char name[256];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t depth = 9000 / (lengths[i] + 1);
		int at = openat(seed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		const char *last;
		struct view_entry e;
		struct stat expected, got;

		memset(name, 'a' + (int)i, lengths[i]);
		name[lengths[i]] = '\0';
		_cleanup_free_ char *path = deep_path(depth, name, "file");
		for (size_t k = 0; k < depth; k++) {
			assert_int_equal(mkdirat(at, name, 0755), 0);
			int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			close(at);
			at = next;
		}
		tree_file(at, "file", "x");
		assert_int_equal(fstat(at, &expected), 0);
		close(at);
		_cleanup_fd_ int parent = path_open_parent(seed, path, &last);
		assert_true(parent >= 0);
		assert_string_equal(last, "file");
		assert_int_equal(fstat(parent, &got), 0);
		assert_int_equal(got.st_ino, expected.st_ino);
		assert_int_equal(view_stat(&v, path, &e, NULL), 0);
		assert_true(S_ISREG(e.st.st_mode));
		assert_int_equal(fs_remove_tree(seed, name, NULL), 0);
	}
}

static void test_no_piece_of_a_long_path_follows_a_link(void **state)
{
	_cleanup_free_ char *path = deep_path(4000, "d", "f");
	const char *last;

	assert_int_equal(symlinkat(".", seed, "d"), 0);
	assert_int_equal(path_open_parent(seed, path, &last), -1);
	assert_int_equal(errno, ELOOP);
	assert_absent(path);
}

/* ---- trees in use ------------------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

/* A directory, a link out of the tree, a FIFO and a file take turns under one name. */
static void *take_turns(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		renameat2(upper, "x", upper, "link", RENAME_EXCHANGE);
		renameat2(upper, "x", upper, "fifo", RENAME_EXCHANGE);
		renameat2(upper, "x/sub", upper, "file", RENAME_EXCHANGE);
		renameat2(upper, "x", upper, "x/sub/up", RENAME_EXCHANGE);
		renameat2(upper, "x", upper, "file", RENAME_EXCHANGE);
	}
	return NULL;
}

static void read_all(void)
{
	static const char *const paths[] = {"x", "x/sub", "x/sub/f", "x/secret", "link/secret", "file"};
	struct view_entry e;
	struct strlist list;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (view_stat(&v, paths[i], &e, NULL) == 0 && e.st.st_mode) {
			int fd = view_open_entry(&v, paths[i], &e, NULL);
			if (fd >= 0)
				close(fd);
			assert_null(strstr(paths[i], "secret"));
		}
		if (view_list(&v, paths[i], &list, NULL) < 0)
			continue;
		assert_false(strlist_has(&list, "secret"));
		strlist_free(&list);
	}
}

static void test_a_tree_that_changes_while_it_is_read_leads_nowhere(void **state)
{
	_cleanup_view_ struct view before;
	pthread_t thread;
	struct changes c;

	tree_dir(base, "outside");
	tree_file(base, "outside/secret", "x");
	tree_dir(seed, "x/sub");
	tree_file(seed, "x/sub/f", "x");
	tree_dir(upper, "x/sub/up");
	assert_int_equal(symlinkat("../outside", upper, "link"), 0);
	assert_int_equal(mkfifoat(upper, "fifo", 0600), 0);
	tree_file(upper, "file", "x");
	assert_int_equal(view_from(&seed, 1, true, &before, NULL), 0);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, take_turns, NULL), 0);
	for (int i = 0; i < RACE_ROUNDS; i++) {
		read_all();
		if (changes_between(&before, &v, &c, NULL) < 0)
			continue;
		for (size_t k = 0; k < c.count; k++)
			assert_null(strstr(c.items[k].path, "secret"));
		changes_free(&c);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fs_remove_tree(base, "outside", NULL), 0);
}

/* ---- views of the store ------------------------------------------------------------------------------------------------------- */

/* A store as far as view_open() asks. */
const char *const layer_tree_names[TREE_ALL] = {"app", "home", "root"};

int layer_chain(struct store *s, const char *head, enum layer_tree tree, struct strlist *out, struct cordon_error *err)
{
	if (!*head)
		return 0;
	if (strcmp(head, "head") != 0)
		return err_set(err, CORDON_ERR_NOT_FOUND, "no such layer");
	return strlist_add(out, tree == TREE_APP ? "head/app" : "head/home", err) < 0 || strlist_add(out, "old/flat/app", err) < 0 ? -1 : 0;
}

static void test_a_view_of_the_store_has_the_open_layer_on_top_and_the_seed_below(void **state)
{
	struct store s = {.layers_fd = base, .boxes_fd = -1};
	struct cordon_error err = {0};
	struct strlist list;
	struct view of;

	tree_dir(base, "open/home");
	tree_dir(base, "head/home/a");
	tree_dir(base, "old/flat/app/b");
	tree_dir(seed, "c");
	assert_int_equal(view_open(&s, "head", "open", TREE_HOME, seed, &of, &err), 0);
	assert_int_equal(of.count, 4);
	assert_true(of.seeded);
	assert_int_equal(view_list(&of, "", &list, NULL), 0);
	assert_int_equal(list.count, 3);
	strlist_free(&list);
	view_close(&of);

	assert_int_equal(view_open(&s, "", NULL, TREE_APP, seed, &of, &err), 0);
	assert_int_equal(of.count, 1);
	view_close(&of);
	assert_int_equal(view_open(&s, "", "", TREE_APP, -1, &of, &err), 0);
	assert_int_equal(of.count, 0);
	assert_false(of.seeded);
	view_close(&of);

	assert_int_equal(view_open(&s, "head", NULL, TREE_APP, seed, &of, &err), -1);
	assert_string_equal(err.message, "cannot open layer head/app: No such file or directory");
	assert_int_equal(symlinkat("home", base, "head/app"), 0); /* the store is ours, and still no link is followed */
	assert_int_equal(view_open(&s, "head", NULL, TREE_APP, seed, &of, &err), -1);
	assert_int_equal(view_open(&s, "other", NULL, TREE_APP, seed, &of, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		test(test_the_topmost_layer_gives_the_entry),
		test(test_directories_are_merged),
		test(test_a_whiteout_hides_what_is_below_it_and_not_what_is_above),
		test(test_an_opaque_directory_ends_the_merging),
		test(test_the_top_of_a_layer_is_never_opaque),
		test(test_an_empty_file_is_a_whiteout_where_the_directory_says_so),
		test(test_a_file_over_a_directory_hides_it_also_from_a_directory_above),
		test(test_nothing_in_the_seed_is_a_mark),
		test(test_devices_and_sockets_are_absent_and_hide),
		test(test_links_and_fifos_are_opened_without_being_used),
		test(test_a_file_that_became_something_else_is_not_opened),
		test(test_paths_that_are_not_plain_are_refused),
		test(test_the_top_is_the_empty_path),
		test(test_a_view_of_nothing_is_empty),
		test(test_listing_a_file_is_an_error),
		test(test_an_empty_tree_is_told_from_one_that_holds_a_whiteout),
		test(test_paths_are_opened_whatever_their_length),
		test(test_no_piece_of_a_long_path_follows_a_link),
		test(test_a_tree_that_changes_while_it_is_read_leads_nowhere),
		test(test_a_view_of_the_store_has_the_open_layer_on_top_and_the_seed_below),
	};

	return cmocka_run_group_tests(tests, base_make, base_remove);
}
