/* SPDX-License-Identifier: Apache-2.0 */
/* What an image may be called, where its name and its room come from, and what can be told from its files without mounting it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/import.h"
#include "image/look.h"

static char dir[64];

static int set_up(void **state)
{
	(void)state;
	unsetenv("CORDON_IMAGES_QUOTA");
	snprintf(dir, sizeof(dir), "/tmp/test-look.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return fs_remove_tree(AT_FDCWD, dir, NULL);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const good[] = {"a", "0", "base", "python:3.12-slim", "a.b_c-d", "x:A", "x:_1"};
	static const char *const bad[] = {"",     "A",      "-a",   ".a", "a/b",  "a b", "a:",   "a:b:c",
	                                  "host", "host:1", "a:.b", "ä",  "a\nb", "..",  "a:b/c"};
	char name[IMAGE_NAME_MAX + 2];
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(image_check_name(good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (image_check_name(bad[i], NULL) == 0)
			fail_msg("'%s' is a name", bad[i]);
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(image_check_name(name, NULL), -1);
	name[IMAGE_NAME_MAX] = '\0';
	assert_int_equal(image_check_name(name, NULL), 0);
}

static void test_names_from_paths_and_tags(void **state)
{
	(void)state;
	static const struct {
		const char *from, *name;
	} paths[] = {{"/x/My App-1.0.tar.gz", "my-app-1.0"},
	             {"rootfs.TAR", "rootfs"},
	             {"dir/", "dir"},
	             {"a.tgz", "a"},
	             {"x.tar.zst", "x"},
	             {"--a--", "a"},
	             {"...", NULL},
	             {"/", NULL},
	             {"host.tar", NULL},
	             {"ü", NULL}},
	  tags[] = {{"registry.example:5000/team/App:1.0", "app:1.0"},
	            {"debian:latest", "debian"},
	            {"debian", "debian"},
	            {"a:b c", NULL},
	            {"", NULL},
	            {"host:1", NULL}};
	char name[IMAGE_NAME_MAX + 1];
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int r = image_name_from_path(paths[i].from, name);
		assert_int_equal(r, paths[i].name ? 0 : -1);
		if (paths[i].name)
			assert_string_equal(name, paths[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		int r = image_name_from_tag(tags[i].from, name);
		assert_int_equal(r, tags[i].name ? 0 : -1);
		if (tags[i].name)
			assert_string_equal(name, tags[i].name);
	}
}

/* ---- looking into it -------------------------------------------------------------------------------------------------------------- */

static void put_link(int at, const char *path, const char *target)
{
	assert_int_equal(symlinkat(target, at, path), 0);
}

static void test_looking_follows_links_inside(void **state)
{
	(void)state;
	_cleanup_view_ struct view v = {0};
	struct view_entry e;
	struct image_traits t;
	struct cordon_error err = {0};
	char where[IMAGE_LOOK_MAX];
	unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 2, [18] = 183};
	_cleanup_fd_ int tree = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_mkdirs(tree, "usr/bin", 0755, NULL), 0);
	assert_int_equal(fs_write_file(tree, "usr/bin/dash", elf, sizeof(elf), 0755, NULL), 0);
	put_link(tree, "bin", "usr/bin");
	put_link(tree, "usr/bin/sh", "/../usr/./bin/dash");
	put_link(tree, "up", "../../../../../../etc/passwd");
	put_link(tree, "loop", "loop");
	assert_int_equal(view_from(&tree, 1, false, &v, &err), 0);
	assert_int_equal(image_look(&v, "/bin/sh", &e, where, &err), 0);
	assert_string_equal(where, "usr/bin/dash");
	assert_true(S_ISREG(e.st.st_mode));
	assert_int_equal(image_look(&v, "/up", &e, NULL, &err), 0);
	assert_int_equal(e.st.st_mode, 0); /* the machine's is not looked at */
	assert_int_equal(image_look(&v, "/bin/none/x", &e, NULL, &err), 0);
	assert_int_equal(e.st.st_mode, 0);
	assert_int_equal(image_look(&v, "/loop", &e, NULL, &err), -1);
	assert_int_equal(err.sys_errno, ELOOP);
	assert_int_equal(image_traits(&v, &t, &err), 0);
	assert_true(t.shell);
	assert_string_equal(t.arch, "arm64");
}

static void test_modules_to_preload(void **state)
{
	(void)state;
	struct strlist l = {0};
	assert_int_equal(image_parse_preload("numpy, pandas,numpy os.path", &l, NULL), 0);
	assert_int_equal(l.count, 3);
	strlist_free(&l);
	static const char *const bad[] = {"1a", "a-b", "a..b", ".a", "a.", "import os", "a;b"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int r = image_parse_preload(bad[i], &l, NULL);
		strlist_free(&l);
		assert_int_equal(r, strcmp(bad[i], "import os") == 0 ? 0 : -1); /* two modules, as far as anyone can tell */
	}
}

/* ---- room -------------------------------------------------------------------------------------------------------------------------- */

static void replace_file(const char *path, const char *text)
{
	unlink(path);
	assert_int_equal(fs_write_file(AT_FDCWD, path, text, strlen(text), 0600, NULL), 0);
}

static void test_where_the_quota_comes_from(void **state)
{
	(void)state;
	struct image_room room;
	char path[128];
	struct cordon_error err = {0};
	assert_int_equal(image_room(dir, NULL, &room, &err), 0);
	assert_true(room.quota > 0 && room.quota <= IMAGE_QUOTA_DEFAULT);
	snprintf(path, sizeof(path), "%s/images/quota", dir);
	replace_file(path, "3M\n");
	assert_int_equal(image_room(dir, NULL, &room, &err), 0);
	assert_int_equal(room.quota, 3 << 20);
	setenv("CORDON_IMAGES_QUOTA", "2M", 1);
	assert_int_equal(image_room(dir, NULL, &room, &err), 0);
	assert_int_equal(room.quota, 2 << 20);
	assert_int_equal(image_room(dir, "1M", &room, &err), 0);
	assert_int_equal(room.quota, 1 << 20);
	assert_int_equal(image_room(dir, "much", &room, &err), -1);
	assert_non_null(strstr(err.message, "--quota"));
	unsetenv("CORDON_IMAGES_QUOTA");
	replace_file(path, "x");
	assert_int_equal(image_room(dir, NULL, &room, &err), -1);
	assert_non_null(strstr(err.message, "images/quota"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_from_paths_and_tags),
		cmocka_unit_test(test_modules_to_preload),
		cmocka_unit_test_setup_teardown(test_where_the_quota_comes_from, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_looking_follows_links_inside, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
