/* SPDX-License-Identifier: Apache-2.0 */
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
#include "policy/programs.h"

/* ---- fixture: a small system with one busybox under many names, and one editor under two ---- */

static char root[] = "/tmp/cordon-test-programs.XXXXXX";
static struct buf told;
static struct cordon_error err;

static void program(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/usr/bin/%s", root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	close(fd);
}

static void name_of(const char *name, const char *target)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/usr/bin/%s", root, name);
	assert_int_equal(symlink(target, path), 0);
}

static int make_root(void **state)
{
	char path[PATH_MAX];

	if (!mkdtemp(root) || fs_mkdirs(AT_FDCWD, root, 0755, &err) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/usr/bin", root);
	if (fs_mkdirs(AT_FDCWD, path, 0755, &err) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/bin", root);
	if (symlink("usr/bin", path) < 0) /* as most systems have it: no program is there twice for that */
		return -1;
	program("git");
	program("busybox");
	name_of("sh", "busybox");
	name_of("ls", "busybox");
	name_of("dd", "busybox");
	program("vim");
	name_of("vi", "vim");
	name_of("editor", "vi");
	return 0;
}

static int remove_root(void **state)
{
	return fs_remove_tree(AT_FDCWD, root, &err);
}

static void report(void *user, const struct policy_problem *problem)
{
	policy_problem_text(problem, &told);
	buf_add_str(&told, "\n");
}

static void remark(void *user, const struct policy_problem *problem)
{
	buf_add_str(&told, "remark: ");
	report(user, problem);
}

static int check(const char *text)
{
	struct policy_origins o = {0};
	struct cordon_policy p;

	buf_free(&told);
	assert_int_equal(policy_check_text(&p, "p", text, strlen(text), NULL, &o, report, NULL, &err), 0);
	int problems = policy_check_programs(&p, &o, root, report, remark, NULL, &err);
	policy_clear(&p);
	origins_free(&o);
	return problems;
}

/* ---- tests ---- */

static void test_names_of_different_files_are_no_matter(void **state)
{
	assert_int_equal(check("version: 1\nprocess: {allow: [vim], deny: [git]}\n"), 0);
	assert_int_equal(told.len, 0);
	assert_int_equal(check("version: 1\n"), 0);
	assert_int_equal(check("version: 1\nprocess: {deny: [busybox, sh, ls, dd]}\n"), 0); /* all of its names */
	assert_int_equal(told.len, 0);
}

static void test_one_file_cannot_be_allowed_and_denied(void **state)
{
	assert_int_equal(check("version: 1\nprocess:\n  allow: [git, ls]\n  deny: [dd]\n"), 1);
	assert_string_equal(
		told.data,
		"p:4:10: process.deny: 'dd' and 'ls', which process.allow lists, are one file: it cannot be both (take one of the "
		"two out, or give the sandbox an image where they are two files)\n");
	assert_int_equal(check("version: 1\nprocess: {deny: [dd]}\n"), 1); /* no shell would be left */
	assert_non_null(strstr(told.data, "'dd' and 'sh'"));
	buf_free(&told);
}

static void test_other_names_of_a_denied_file_are_mentioned(void **state)
{
	assert_int_equal(check("version: 1\nprocess: {deny: [vi]}\n"), 0);
	assert_string_equal(told.data, "remark: p:2:18: process.deny: with 'vi', the same file goes by 2 other names: editor, vim\n");
	buf_free(&told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_different_files_are_no_matter),
		cmocka_unit_test(test_one_file_cannot_be_allowed_and_denied),
		cmocka_unit_test(test_other_names_of_a_denied_file_are_mentioned),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
