/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A home directory as developers have it, made anew for each test below a temporary directory, and what toolchains_find() makes of it. To be
 * included once in a program.
 */
#ifndef CORDON_TESTS_UNIT_TOOLCHAIN_HOME_H
#define CORDON_TESTS_UNIT_TOOLCHAIN_HOME_H

#include <fcntl.h>
#include <limits.h>
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

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "policy/toolchains.h"
#include "alloc.h"

static char base[64], home[128], work[128]; /* the directory, the caller's home and workspace in it */
static int base_fd = -1;
static struct strlist env;
static struct strlist forbid;
static struct toolchain_list found;
static struct cordon_error err;

/* "~/x" in the home, "@/x" in the workspace; anything else as it is. From a ring of buffers, so that a call may use several. */
static const char *at(const char *path)
{
	static char ring[16][2 * PATH_MAX];
	static unsigned next;
	char *out = ring[next++ % ARRAY_SIZE(ring)];
	const char *prefix = path[0] == '~' ? home : path[0] == '@' ? work : "";

	snprintf(out, sizeof(ring[0]), "%s%s", prefix, path + (prefix[0] != '\0'));
	return out;
}

static int set_up(void **state)
{
	/* what /usr/local/bin of this machine may link to */
	static const char *const elsewhere[] = {"/opt", "/snap", "/nix", "/home/linuxbrew"};

	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (strlist_add(&forbid, elsewhere[i], NULL) < 0)
			return -1;
	snprintf(base, sizeof(base), "/tmp/cordon-toolchains-XXXXXX");
	if (!mkdtemp(base))
		return -1;
	snprintf(home, sizeof(home), "%s/home", base);
	snprintf(work, sizeof(work), "%s/home/src/project", base);
	base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = (struct cordon_error){0};
	return fs_mkdirs(AT_FDCWD, work, 0755, NULL);
}

static int tear_down(void **state)
{
	allocations_left = -1;
	toolchains_free(&found);
	strlist_free(&env);
	strlist_free(&forbid);
	close(base_fd);
	return fs_remove_tree(AT_FDCWD, base, NULL);
}

static void make_dir(const char *path)
{
	assert_int_equal(fs_mkdirs(AT_FDCWD, at(path), 0755, NULL), 0);
}

static void make_file(const char *path)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", at(path));
	*strrchr(dir, '/') = '\0';
	make_dir(dir);
	assert_int_equal(fs_write_file(AT_FDCWD, at(path), "x", 1, 0755, NULL), 0);
}

__attribute__((unused)) static void make_link(const char *target, const char *path)
{
	assert_int_equal(symlink(at(target), at(path)), 0);
}

static void set_variable(const char *name, const char *value)
{
	char text[PATH_MAX + 64];

	snprintf(text, sizeof(text), "%s=%s", name, at(value));
	assert_int_equal(strlist_assign(&env, text, NULL), 0);
}

/* Each entry of a PATH as at() takes it, with `end` after it. */
static void add_entries(struct buf *out, const char *path, const char *end)
{
	for (const char *s = path; *s;) {
		char entry[PATH_MAX];
		size_t len = strcspn(s, ":");

		memcpy(entry, s, len);
		entry[len] = '\0';
		buf_addf(out, "%s%s", at(entry), s[len] ? ":" : end);
		s += len + (s[len] == ':');
	}
}

/* Looks for toolchains with this PATH (entries with ":" between, each as at() takes it). */
static void find(const char *path)
{
	struct toolchain_search what = {.workspace = work, .forbid = &forbid};
	_cleanup_buf_ struct buf text = {0};

	add_entries(&text, path, "");
	set_variable("HOME", "~");
	set_variable("PATH", text.data ? text.data : "");
	what.env = env.items;
	toolchains_free(&found);
	assert_int_equal(toolchains_find(&what, &found, &err), 0);
}

/* Exactly these are mounted, in any order. */
static void assert_mounts(const char *const *expected)
{
	size_t n = 0;

	for (; expected[n]; n++)
		if (!strlist_has(&found.mounts, at(expected[n])))
			fail_msg("%s is not mounted", at(expected[n]));
	for (size_t i = 0; i < found.mounts.count; i++) {
		bool wanted = false;

		for (size_t k = 0; k < n; k++)
			wanted = wanted || !strcmp(at(expected[k]), found.mounts.items[i]);
		if (!wanted)
			fail_msg("%s is mounted", found.mounts.items[i]);
	}
	assert_int_equal(found.mounts.count, n);
}
#define ASSERT_MOUNTS(...) assert_mounts((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

__attribute__((unused)) static void assert_path_is(const char *expected)
{
	_cleanup_buf_ struct buf text = {0};

	buf_add_str(&text, "PATH=");
	add_entries(&text, expected, "");
	assert_true(found.env.count > 0);
	assert_string_equal(found.env.items[0], text.data);
}

/* What the PATH inside begins with, before the sandbox's own directories. */
__attribute__((unused)) static void assert_path(const char *expected)
{
	char text[PATH_MAX];

	snprintf(text, sizeof(text), "%s%s%s", expected, *expected ? ":" : "", POLICY_PATH);
	assert_path_is(text);
}

__attribute__((unused)) static bool told(const char *name, const char *value)
{
	char text[PATH_MAX + 64];

	snprintf(text, sizeof(text), "%s=%s", name, at(value));
	return strlist_has(&found.env, text);
}

__attribute__((unused)) static bool told_anything(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < found.env.count; i++)
		if (!strncmp(found.env.items[i], name, len) && found.env.items[i][len] == '=')
			return true;
	return false;
}

__attribute__((unused)) static void assert_skipped(const char *path, const char *why)
{
	char text[PATH_MAX + 128];

	snprintf(text, sizeof(text), "%s: %s", at(path), why);
	if (!strlist_has(&found.skipped, text)) {
		for (size_t i = 0; i < found.skipped.count; i++)
			print_message("skipped %s\n", found.skipped.items[i]);
		fail_msg("no \"%s\"", text);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
