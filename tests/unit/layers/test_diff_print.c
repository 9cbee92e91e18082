/* SPDX-License-Identifier: Apache-2.0 */
/* Differences of trees: what git and patch(1) make of them, and what is said about what neither of them knows. */
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "layers/diff.h"
#include "listing.h"

#define PATCH_CASES 60

static int old = -1, new = -1;

static int set_up(void **state)
{
	old = tree_new(base, "old");
	new = tree_new(base, "new");
	return 0;
}

static int tear_down(void **state)
{
	close(old);
	close(new);
	return fs_remove_tree(base, "old", NULL) || fs_remove_tree(base, "new", NULL);
}

/* What diff_print() says of the trees old and new; free() it. */
static char *diff_of(const struct diff_style *style)
{
	_cleanup_view_ struct view before, after;
	struct changes c;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	MUST(out && view_from(&old, 1, false, &before, NULL) == 0 && view_from(&new, 1, false, &after, NULL) == 0);
	MUST(changes_between(&before, &after, &c, NULL) == 0);
	assert_int_equal(diff_print(out, &before, &after, &c, style, NULL), 0);
	changes_free(&c);
	fclose(out);
	return text;
}

static const struct diff_style unified = {.format = DIFF_UNIFIED, .context = 3, .prefix_a = "a/", .prefix_b = "b/"};

static void assert_diff(const struct diff_style *style, const char *expected)
{
	_cleanup_free_ char *text = diff_of(style);

	assert_string_equal(text, expected);
}

/* ---- case by case ------------------------------------------------------------------------------------------------------------- */

static void test_a_file_that_was_edited(void **state)
{
	tree_file(old, "a b", "1\n2\n");
	tree_file(new, "a b", "1\nx\n");
	assert_diff(&unified, "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n");
}

static void test_files_that_come_and_go(void **state)
{
	tree_file(old, "gone", "x\n");
	tree_dir(new, "d");
	tree_file(new, "d/empty", "");
	tree_file(new, "new\n", "x\n");
	assert_int_equal(fchmodat(new, "new\n", 0755, 0), 0);
	assert_diff(&unified,
	            "diff --git a/d/empty b/d/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
	            "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
	            "diff --git \"a/new\\n\" \"b/new\\n\"\nnew file mode 100755\n--- /dev/null\n+++ \"b/new\\n\"\n@@ -0,0 +1 @@\n+x\n");
}

static void test_modes_and_links(void **state)
{
	tree_file(old, "script", "x\n");
	tree_file(new, "script", "x\n");
	assert_int_equal(fchmodat(new, "script", 0755, 0), 0);
	assert_int_equal(symlinkat("here", old, "link"), 0);
	assert_int_equal(symlinkat("there", new, "link"), 0);
	assert_diff(
		&unified,
		"diff --git a/link b/link\nold mode 120000\nnew mode 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-here\n\\ No newline at end of file\n+there\n"
		"\\ No newline at end of file\n"
		"diff --git a/script b/script\nold mode 100644\nnew mode 100755\n");
}

static void test_another_type_is_a_removal_and_an_addition(void **state)
{
	tree_file(old, "f", "x\n");
	assert_int_equal(symlinkat("y", new, "f"), 0);
	assert_diff(&unified, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
	                      "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+y\n"
	                      "\\ No newline at end of file\n");
}

static void test_what_git_has_no_form_for_is_said(void **state)
{
	tree_dir(old, "gone/empty");
	tree_dir(old, "gone-too");
	tree_dir(old, "mode");
	tree_dir(new, "mode");
	assert_int_equal(fchmodat(new, "mode", 0700, 0), 0);
	tree_dir(new, "full");
	tree_file(new, "full/f", "");
	assert_int_equal(mkfifoat(new, "fifo", 0600), 0);
	tree_file(old, "tagged", "x");
	tree_file(new, "tagged", "x");
	tree_xattr(new, "tagged", "user.a", "1");
	assert_diff(&unified, "new fifo b/fifo\n"
	                      "diff --git a/full/f b/full/f\nnew file mode 100644\nindex 0000000..e69de29\n"
	                      "deleted directory a/gone-too\n"
	                      "deleted directory a/gone/empty\n"
	                      "mode of directory b/mode: 0755 -> 0700\n"
	                      "attributes of b/tagged changed\n");
	if (geteuid() != 0)
		return;
	assert_int_equal(fchownat(new, "tagged", 12, 34, 0), 0);
	_cleanup_free_ char *text = diff_of(&unified);
	assert_non_null(strstr(text, "owner of b/tagged: 0:0 -> 12:34\n"));
}

static void make_sized(int tree, const char *name, off_t size)
{
	_cleanup_fd_ int fd = openat(tree, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

static void test_binary_and_large_files_are_said_to_differ(void **state)
{
	make_sized(new, "binary", 10);
	make_sized(old, "large", (8 << 20) + 1);
	make_sized(new, "large", 3);
	assert_diff(&unified, "diff --git a/binary b/binary\nnew file mode 100644\nBinary files /dev/null and b/binary differ\n"
	                      "diff --git a/large b/large\nBinary files a/large and b/large differ\n");
	tree_file(new, "large", "text\n");
	_cleanup_free_ char *text = diff_of(&unified);
	assert_non_null(strstr(text, "Large files a/large and b/large differ: 8388609 and 5 bytes\n"));
}

static void test_a_file_that_cannot_be_read_is_said_to_differ(void **state)
{
	if (geteuid() == 0) {
		print_message("# skip: root reads everything\n");
		skip();
	}
	tree_file(old, "f", "x\n");
	tree_file(new, "f", "y\n");
	assert_int_equal(fchmodat(new, "f", 0, 0), 0);
	assert_diff(&unified, "diff --git a/f b/f\nold mode 100644\nnew mode 100000\n"
	                      "Files a/f and b/f differ, the second cannot be read: Permission denied\n");
}

static void test_names_have_a_letter_each(void **state)
{
	static const struct diff_style names = {.format = DIFF_NAMES};

	tree_file(old, "deleted", "");
	tree_file(old, "edited", "1");
	tree_file(old, "mode", "");
	tree_file(old, "type", "");
	tree_file(new, "edited", "2");
	tree_file(new, "mode", "");
	tree_xattr(new, "mode", "user.a", "1");
	tree_dir(new, "type");
	tree_file(new, "a\tb", "");
	assert_diff(&names, "A\t\"a\\tb\"\nD\tdeleted\nM\tedited\nm\tmode\nT\ttype\n");
}

static void test_colours_are_gits(void **state)
{
	struct diff_style coloured = unified;

	coloured.colours = true;
	tree_file(new, "f", "x\n");
	assert_diff(&coloured,
	            "\033[1mdiff --git a/f b/f\033[m\n\033[1mnew file mode 100644\033[m\n\033[1m--- /dev/null\033[m\n\033[1m+++ b/f\033[m\n"
	            "\033[36m@@ -0,0 +1 @@\033[m\n\033[32m+x\033[m\n");
	coloured.format = DIFF_STAT;
	tree_file(old, "f", "y\n");
	assert_diff(&coloured, " f | 2 \033[32m+\033[m\033[31m-\033[m\n 1 file changed, 1 insertion(+), 1 deletion(-)\n");
}

static void test_output_that_cannot_be_written_is_an_error(void **state)
{
	_cleanup_view_ struct view before, after;
	struct cordon_error err = {0};
	struct changes c;
	FILE *full = fopen("/dev/full", "w");

	tree_file(new, "f", "x\n");
	assert_non_null(full);
	setvbuf(full, NULL, _IONBF, 0);
	MUST(view_from(&old, 1, false, &before, NULL) == 0 && view_from(&new, 1, false, &after, NULL) == 0);
	MUST(changes_between(&before, &after, &c, NULL) == 0);
	for (int format = DIFF_NAMES; format <= DIFF_UNIFIED; format++) {
		struct diff_style style = {.format = (enum diff_format)format};

		assert_int_equal(diff_print(full, &before, &after, &c, &style, &err), -1);
		assert_int_equal(err.sys_errno, ENOSPC);
	}
	changes_free(&c);
	fclose(full);
}

/* ---- other programs ----------------------------------------------------------------------------------------------------------- */

static bool is_installed(const char *program)
{
	char path[64];

	snprintf(path, sizeof(path), "/usr/bin/%s", program);
	return access(path, X_OK) == 0;
}

/* In directory `in`; its output goes to the file "output". */
static int run(const char *in, char *const *argv)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		int out = openat(base, "output", O_WRONLY | O_CREAT | O_TRUNC, 0644);

		unsetenv("GIT_DIR");
		setenv("GIT_CEILING_DIRECTORIES", "/tmp", 1);
		setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
		setenv("HOME", "/nonexistent", 1);
		setenv("LC_ALL", "C", 1);
		if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || fchdir(base) < 0 || chdir(in) < 0)
			_exit(126);
		execvp(argv[0], argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static char *output(void)
{
	static char text[65536];

	assert_true(fs_read_small(base, "output", text, sizeof(text)) >= 0);
	return text;
}

/* ---- random trees ------------------------------------------------------------------------------------------------------------- */

/* The last ones cannot be together in one tree: directories in the place of files, which patch(1) does not take. */
#define WITH_NEWLINE 3
static const char *file_names[] = {"a", "d/b", "d/b c", "d/new\nline", "e/\xff\"q\"", "e/f/g", "h", "\xc3\xa9", "h/i", "h/k/l"};
#define FOR_PATCH (ARRAY_SIZE(file_names) - 2)

static void random_lines(struct rng *r, struct buf *out)
{
	static const char *const ends[] = {"\n", "\n", "\n", "\r\n"};
	unsigned lines = rng_below(r, 30);

	buf_add_str(out, "");
	for (unsigned i = 0; i < lines; i++)
		buf_addf(out, "line %u%s", rng_below(r, 40), ends[rng_below(r, ARRAY_SIZE(ends))]);
	if (lines && rng_below(r, 4) == 0)
		buf_add_str(out, "no end");
}

/* Some lines are dropped, some come in. */
static void edit_lines(struct rng *r, const char *from, struct buf *out)
{
	buf_add_str(out, "");
	while (*from) {
		size_t n = strcspn(from, "\n");

		n += from[n] == '\n';
		if (rng_below(r, 6))
			buf_add(out, from, n);
		if (rng_below(r, 6) == 0 && (!out->len || out->data[out->len - 1] == '\n'))
			buf_addf(out, "new %u\n", rng_below(r, 40));
		from += n;
	}
}

static bool is_directory(int tree, const char *path)
{
	struct stat st;

	return fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void put(int tree, const char *path, unsigned kind, const char *data)
{
	char dir[32];
	const char *slash = strrchr(path, '/');

	if (slash) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
		if (fs_mkdirs(tree, dir, 0755, NULL) < 0 || !is_directory(tree, dir))
			return; /* a file is in the way */
	}
	if (kind == 0) {
		assert_int_equal(symlinkat(*data ? "target" : "other", tree, path), 0);
		return;
	}
	tree_file(tree, path, data);
	assert_int_equal(fchmodat(tree, path, kind == 1 ? 0755 : 0644, 0), 0);
}

/* kinds: 0 link, 1 executable, 2 … 5 file, 6 and 7 nothing */
static void random_trees(struct rng *r, size_t names)
{
	for (size_t i = 0; i < names; i++) {
		_cleanup_buf_ struct buf a = {0}, b = {0};
		unsigned before = rng_below(r, 8), after = rng_below(r, 3) ? before : rng_below(r, 8);

		random_lines(r, &a);
		if (rng_below(r, 5))
			edit_lines(r, a.data, &b);
		else
			random_lines(r, &b);
		if (before < 6)
			put(old, file_names[i], before, a.data);
		if (after < 6)
			put(new, file_names[i], after, rng_below(r, 4) ? b.data : a.data);
	}
}

/* Directories come and go with their files; owners are the caller's. */
static void list_files(int tree, struct listing *out)
{
	size_t kept = 0;

	listing_of_dir(tree, out);
	for (size_t i = 0; i < out->count; i++) {
		if (S_ISDIR(out->items[i].mode))
			free(out->items[i].path);
		else
			out->items[kept++] = out->items[i];
	}
	out->count = kept;
}

/* Applies the difference to a copy of old, with a program of others, and compares with new. */
static void check_program(unsigned number, char *const *argv)
{
	static char cp[] = "cp", a[] = "-a", from[] = "old", to[] = "copy";
	struct listing expected, got;

	assert_int_equal(run(".", (char *[]){cp, a, from, to, NULL}), 0);
	if (run("copy", argv) != 0)
		fail_msg("case %u: %s refuses: %s", number, argv[0], output());
	_cleanup_fd_ int copy = openat(base, "copy", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	list_files(new, &expected);
	list_files(copy, &got);
	if (!listing_equal(&expected, "expected", &got, argv[0]))
		fail_msg("case %u: %s makes another tree", number, argv[0]);
	listing_free(&expected);
	listing_free(&got);
	assert_int_equal(fs_remove_tree(base, "copy", NULL), 0);
}

static void check_patches(size_t names, char *const *argv)
{
	for (unsigned i = 0; i < PATCH_CASES; i++) {
		struct rng r = {.state = 0xabcdefu + i};

		random_trees(&r, names);
		_cleanup_free_ char *text = diff_of(&unified);
		assert_true(unlinkat(base, "patch", 0) == 0 || errno == ENOENT);
		assert_int_equal(fs_write_file(base, "patch", text, strlen(text), 0644, NULL), 0);
		if (*text)
			check_program(i, argv);
		assert_int_equal(tear_down(NULL), 0);
		assert_int_equal(set_up(NULL), 0);
	}
}

/* Since 2.8 it refuses them, whatever they are quoted like. */
static bool patch_takes_newlines(char *patch)
{
	static char p1[] = "-p1", silent[] = "-s", file[] = "-i", name[] = "patch";
	const char text[] = "--- /dev/null\n+++ \"b/x\\ny\"\n@@ -0,0 +1 @@\n+1\n";

	assert_int_equal(fs_write_file(base, name, text, strlen(text), 0644, NULL), 0);
	bool taken = run(".", (char *[]){patch, p1, silent, file, name, NULL}) == 0;
	assert_int_equal(faccessat(base, "x\ny", F_OK, 0), taken ? 0 : -1);
	assert_int_equal(tear_down(NULL), 0);
	assert_int_equal(set_up(NULL), 0);
	return taken;
}

static void test_patch_accepts_the_difference(void **state)
{
	static char patch[] = "patch", p1[] = "-p1", silent[] = "-s", exact[] = "-F0", file[] = "-i", name[] = "../patch";

	if (!is_installed("patch")) {
		print_message("# skip: patch is not installed\n");
		skip();
	}
	const char *with_newline = file_names[WITH_NEWLINE];
	if (!patch_takes_newlines(patch)) {
		print_message("# this patch makes no names with newlines\n");
		file_names[WITH_NEWLINE] = "d/new line";
	}
	check_patches(FOR_PATCH, (char *[]){patch, p1, silent, exact, file, name, NULL});
	file_names[WITH_NEWLINE] = with_newline;
}

static void test_git_accepts_the_difference(void **state)
{
	static char git[] = "git", apply[] = "apply", no_warnings[] = "--whitespace=nowarn", name[] = "../patch";

	if (!is_installed("git")) {
		print_message("# skip: git is not installed\n");
		skip();
	}
	check_patches(ARRAY_SIZE(file_names), (char *[]){git, apply, no_warnings, name, NULL});
}

/* ---- --stat ------------------------------------------------------------------------------------------------------------------- */

static void test_the_table_of_a_few_files(void **state)
{
	static const struct diff_style stat = {.format = DIFF_STAT, .width = 80};

	assert_diff(&stat, " 0 files changed\n");
	tree_file(old, "a", "1\n2\n3\n");
	tree_file(new, "a", "1\nx\n3\ny\n");
	make_sized(new, "binary", 123);
	tree_dir(new, "directory");
	tree_file(new, "empty", "");
	assert_diff(&stat, " a      |   3 ++-\n binary | Bin 0 -> 123 bytes\n empty  |   0\n"
	                   " 3 files changed, 2 insertions(+), 1 deletion(-)\n");
}

static void make_lines(int tree, const char *name, char word, unsigned lines)
{
	_cleanup_buf_ struct buf text = {0};

	buf_add_str(&text, "");
	for (unsigned i = 0; i < lines; i++)
		buf_addf(&text, "%c%u\n", word, i);
	tree_file(tree, name, text.data);
}

/* What git says, for many widths: the index holds the old tree, the new one is the work tree. */
static void test_the_table_is_the_one_git_prints(void **state)
{
	static char git[] = "git", dir[] = "--git-dir=../repo", init[] = "init", quiet[] = "-q", add[] = "add", all[] = "-A",
		    here[] = "--work-tree=.", diff[] = "diff";
	const char *deep = "some/where/far/below/in/a/directory/with/a/long/name/so/that/it/must/be/cut";
	char path[128], stat[32];

	if (!is_installed("git")) {
		print_message("# skip: git is not installed\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/file.c", deep);
	for (int i = 0; i < 2; i++) {
		int tree = i ? new : old;

		tree_dir(tree, deep);
		make_lines(tree, path, i ? 'n' : 'o', i ? 300 : 200);
		make_lines(tree, "a-small-one", 'x', i ? 3 : 1);
		make_lines(tree, "one-line", i ? 'n' : 'o', 1);
		make_lines(tree, "shorter", 's', i ? 20 : 100);
		make_sized(tree, "binary", i ? 12345 : 1);
	}
	assert_int_equal(run("old", (char *[]){git, dir, here, init, quiet, NULL}), 0);
	assert_int_equal(run("old", (char *[]){git, dir, here, add, all, NULL}), 0);
	for (int width = 40; width < 500; width += 7) {
		struct diff_style style = {.format = DIFF_STAT, .width = width};
		_cleanup_free_ char *ours = diff_of(&style);

		snprintf(stat, sizeof(stat), "--stat=%d", width);
		assert_int_equal(run("new", (char *[]){git, dir, here, diff, stat, NULL}), 0);
		assert_string_equal(ours, output());
	}
	assert_int_equal(fs_remove_tree(base, "repo", NULL), 0);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		test(test_a_file_that_was_edited),
		test(test_files_that_come_and_go),
		test(test_modes_and_links),
		test(test_another_type_is_a_removal_and_an_addition),
		test(test_what_git_has_no_form_for_is_said),
		test(test_binary_and_large_files_are_said_to_differ),
		test(test_a_file_that_cannot_be_read_is_said_to_differ),
		test(test_names_have_a_letter_each),
		test(test_colours_are_gits),
		test(test_output_that_cannot_be_written_is_an_error),
		test(test_patch_accepts_the_difference),
		test(test_git_accepts_the_difference),
		test(test_the_table_of_a_few_files),
		test(test_the_table_is_the_one_git_prints),
	};

	return cmocka_run_group_tests(tests, base_make, base_remove);
}
