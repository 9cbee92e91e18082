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
#include "sandbox/expand.h"

static char base[] = "/tmp/cordon-expand.XXXXXX";
static int root;
static struct cordon_error err;
static char found[4096];

static void make(const char *path, bool is_dir)
{
	char *slash;
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", path);
	slash = strrchr(copy, '/');
	if (slash) {
		*slash = '\0';
		assert_int_equal(fs_mkdirs(root, copy, 0755, &err), 0);
	}
	if (is_dir)
		assert_int_equal(fs_mkdirs(root, path, 0755, &err), 0);
	else
		assert_int_equal(fs_write_file(root, path, "x", 1, 0644, &err), 0);
}

static int set_up(void **state)
{
	static const char *const files[] = {
		"app/.env",        "app/a.txt",      "app/sub/.env",         "app/sub/b.txt", "app/sub/deep/c.pem",
		"app/.cache/x",    "app/.cache/.y",  "app/.cfg/in/z",        "app/.cfg/out",  "usr/lib/.env",
		"data/secret/key", "data/open/file", "data/open/.hidden/one"};

	memcpy(base + strlen(base) - 6, "XXXXXX", 6);
	if (!mkdtemp(base) || (root = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		make(files[i], false);
	return symlinkat("../data", root, "app/link") < 0 || symlinkat("/data/secret", root, "app/absolute") < 0 ||
	                       symlinkat("nowhere", root, "app/dangling.pem") < 0
	               ? -1
	               : 0;
}

static int tear_down(void **state)
{
	close(root);
	return fs_remove_tree(AT_FDCWD, base, NULL);
}

static int note(void *arg, const struct expand_entry *e, struct cordon_error *unused)
{
	struct stat st;

	assert_int_equal(fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH), 0);
	assert_int_equal(S_ISDIR(st.st_mode) != 0, e->is_dir);
	snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s ", e->path, e->is_dir ? "/" : "");
	return 0;
}

static int by_word(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What was found, sorted: directories are read in any order. */
static const char *sorted(void)
{
	static char out[4096];
	char *words[64];
	char *rest;
	size_t n = 0;

	for (char *w = strtok_r(found, " ", &rest); w && n < ARRAY_SIZE(words); w = strtok_r(NULL, " ", &rest))
		words[n++] = w;
	qsort(words, n, sizeof(*words), by_word);
	out[0] = '\0';
	for (size_t i = 0; i < n; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s", i ? " " : "", words[i]);
	return out;
}

static const char *look(struct expand x, const char *pattern, const char *keep, const char *skip)
{
	x.root = root;
	x.start = x.start ? x.start : ".";
	x.name = x.name ? x.name : "/";
	x.patterns = (struct string_list){&pattern, pattern ? 1 : 0};
	x.keep = (struct string_list){&keep, keep ? 1 : 0};
	x.skip = (struct string_list){&skip, skip ? 1 : 0};
	x.found = note;
	found[0] = '\0';
	err = (struct cordon_error){0};
	return expand(&x, &err) < 0 ? err.message : sorted();
}

static void test_patterns_find_what_they_name(void **state)
{
	const struct expand x = {0};

	assert_string_equal(look(x, "/app/a.txt", NULL, NULL), "/app/a.txt");
	assert_string_equal(look(x, "/app/sub/**", NULL, NULL), "/app/sub/");
	assert_string_equal(look(x, "/app/*.txt", NULL, NULL), "/app/a.txt");
	assert_string_equal(look(x, "/app/**/*.txt", NULL, NULL), "/app/a.txt /app/sub/b.txt");
	assert_string_equal(look(x, "/**/.env", NULL, NULL), "/app/.env /app/sub/.env /usr/lib/.env");
	assert_string_equal(look(x, "/*/s*", NULL, NULL), "/app/sub/ /data/secret/");
	assert_string_equal(look(x, "/nowhere/x", NULL, NULL), "");
	assert_string_equal(look(x, "/app/a.txt/x", NULL, NULL), "");
	assert_string_equal(look(x, "/**/.env", NULL, "/usr"), "/app/.env /app/sub/.env");
	assert_string_equal(look(x, "/app", NULL, "/app"), "");
	assert_string_equal(look(x, "/a*", NULL, "/app"), "");
	assert_string_equal(look(x, "/data/**", NULL, "/data/secret"), "");
	assert_string_equal(look(x, "/d*/**", NULL, "/data/secret"), "/data/open/");
}

static void test_a_tree_may_be_known_by_another_path(void **state)
{
	const struct expand x = {.start = "app", .name = "/srv/my/project"};

	assert_string_equal(look(x, "/srv/*/project/**/*.txt", NULL, NULL), "/srv/my/project/a.txt /srv/my/project/sub/b.txt");
	assert_string_equal(look(x, "/srv/my/project/a.txt", NULL, NULL), "/srv/my/project/a.txt");
	assert_string_equal(look(x, "/app/a.txt", NULL, NULL), "");
}

static void test_links_are_not_followed_unless_to_hide_what_they_lead_to(void **state)
{
	struct expand x = {0};

	assert_string_equal(look(x, "/app/link/secret", NULL, NULL), "");
	assert_string_equal(look(x, "/app/**/key", NULL, NULL), "");
	assert_string_equal(look(x, "/app/*.pem", NULL, NULL), "");
	x.hiding = true;
	assert_string_equal(look(x, "/app/link/secret/key", NULL, NULL), "/app/link/secret/key");
	assert_string_equal(look(x, "/app/absolute/key", NULL, NULL), "/app/absolute/key");
	assert_string_equal(look(x, "/app/dangling.pem", NULL, NULL), "");
}

static void test_names_with_a_dot_are_found_unless_spelled_out(void **state)
{
	const struct expand x = {.start = "app", .name = "/app", .dots = true};

	assert_string_equal(look(x, NULL, NULL, NULL), "/app/.cache/ /app/.cfg/ /app/.env /app/sub/.env");
	assert_string_equal(look(x, NULL, "/app/.cache/**", NULL), "/app/.cache/.y /app/.cfg/ /app/.env /app/sub/.env");
	assert_string_equal(look(x, NULL, "/app/.cfg/in/**", NULL), "/app/.cache/ /app/.cfg/out /app/.env /app/sub/.env");
	assert_string_equal(look(x, NULL, "/app/**", NULL), "/app/.cache/ /app/.cfg/ /app/.env /app/sub/.env");
}

static void test_what_lies_in_what_was_found_is_looked_at_on_demand(void **state)
{
	struct expand x = {0};

	make("app/d.txt/e.txt", false);
	assert_string_equal(look(x, "/app/**.txt", NULL, NULL), "/app/a.txt /app/d.txt/ /app/sub/b.txt");
	x.within = true;
	assert_string_equal(look(x, "/app/**.txt", NULL, NULL), "/app/a.txt /app/d.txt/ /app/d.txt/e.txt /app/sub/b.txt");
}

static void test_a_directory_whose_names_cannot_be_read_is_hidden_as_a_whole(void **state)
{
	struct expand x = {.hiding = true};

	if (geteuid() == 0) {
		print_message("# skip: root reads everything\n");
		skip();
	}
	make("app/closed/x.pem", false);
	assert_int_equal(fchmodat(root, "app/closed", 0111, 0), 0);
	assert_string_equal(look(x, "/app/**/x.pem", NULL, NULL), "/app/closed/");
	x.hiding = false;
	assert_string_equal(look(x, "/app/**/x.pem", NULL, NULL), "");
	assert_int_equal(fchmodat(root, "app/closed", 0755, 0), 0);
}

static void test_a_tree_that_is_too_deep_is_an_error(void **state)
{
	int at = openat(root, "data", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < EXPAND_DEPTH + 5; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0755), 0);
		next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	assert_non_null(strstr(look((struct expand){0}, "/data/**/never", NULL, NULL), "too deep"));
	assert_string_equal(look((struct expand){0}, "/data/*/file", NULL, NULL), "/data/open/file");
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TREE(test_patterns_find_what_they_name),
		IN_TREE(test_a_tree_may_be_known_by_another_path),
		IN_TREE(test_links_are_not_followed_unless_to_hide_what_they_lead_to),
		IN_TREE(test_names_with_a_dot_are_found_unless_spelled_out),
		IN_TREE(test_what_lies_in_what_was_found_is_looked_at_on_demand),
		IN_TREE(test_a_directory_whose_names_cannot_be_read_is_hidden_as_a_whole),
		IN_TREE(test_a_tree_that_is_too_deep_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
