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

#include "backend/programs.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"

static char base[] = "/tmp/cordon-programs.XXXXXX", home[64], tree[64];
static struct cordon_error err;
static struct programs list;

static void copy(const char *from, const char *name, mode_t mode)
{
	char path[256], data[65536];
	int in = open(from, O_RDONLY), out;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	unlink(path);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, data, sizeof(data))) > 0)
		assert_int_equal(write(out, data, (size_t)n), n);
	assert_int_equal(fchmod(out, mode), 0);
	close(in);
	close(out);
}

static void text(const char *name, const char *content, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	assert_int_equal(fs_write_file(AT_FDCWD, path, content, strlen(content), mode, &err), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static int set_up(void **state)
{
	char real[4096];
	_cleanup_fd_ int root = -1;

	memcpy(base + strlen(base) - 6, "XXXXXX", 6);
	if (!mkdtemp(base))
		return -1;
	snprintf(home, sizeof(home), "%s/home", base);
	snprintf(tree, sizeof(tree), "%s/tree", base);
	if (mkdir(home, 0700) < 0 || mkdir(tree, 0755) < 0 || (root = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    fs_mkdirs(root, "lib/deep", 0755, NULL) < 0 || fs_mkdirs(root, "bin", 0755, NULL) < 0 ||
	    symlinkat("program", root, "bin/link") < 0)
		return -1;
	copy("/bin/true", "bin/program", 0755);
	copy("/bin/true", "lib/deep/unmarked", 0644); /* a loader can start it all the same */
	copy("/bin/true", "lib/deep/named.html", 0644);
	if (realpath("/proc/self/exe", real))
		copy(real, "lib/self", 0755);
	text("bin/script", "#!/bin/sh\n", 0755);
	text("lib/data", "\177ELF", 0644);
	text("lib/broken", "\177ELF\2\1\1 and then something else that is long enough to be taken for a header of that format", 0755);
	return 0;
}

static int tear_down(void **state)
{
	programs_free(&list);
	return fs_remove_tree(AT_FDCWD, base, NULL);
}

static const struct program *find(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	for (size_t i = 0; i < list.count; i++)
		if (strcmp(list.items[i].path, path) == 0)
			return &list.items[i];
	return NULL;
}

static void look(void)
{
	programs_free(&list);
	assert_int_equal(programs_find(home, tree, &list, &err), 0);
	for (size_t i = 1; i < list.count; i++)
		assert_true(strcmp(list.items[i - 1].path, list.items[i].path) < 0);
}

static void test_programs_are_told_from_other_files(void **state)
{
	look();
	assert_int_equal(find("bin/program")->kind, PROGRAM_NATIVE);
	assert_int_equal(find("lib/self")->kind, PROGRAM_NATIVE);
	assert_int_equal(find("lib/deep/unmarked")->kind, PROGRAM_NATIVE);
	assert_int_equal(find("bin/script")->kind, PROGRAM_OTHER);
	assert_int_equal(find("lib/broken")->kind, PROGRAM_OTHER);
	assert_null(find("lib/data"));
	assert_null(find("bin/link"));
	assert_null(find("lib/deep/named.html"));
	assert_true(list.loaders.count >= 1 && list.loaders.items[0][0] == '/');
}

static void test_the_list_is_kept_until_a_directory_changes(void **state)
{
	char path[256];

	look();
	snprintf(path, sizeof(path), "%s/bin/program", tree);
	/* in place, so that no directory changes: only what was kept still knows a program there */
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(chmod(path, 0644), 0);
	look();
	assert_non_null(find("bin/program"));
	text("bin/new", "#!/bin/sh\n", 0755);
	look();
	assert_null(find("bin/program"));
	assert_non_null(find("bin/new"));
}

static void encode(struct buf *out)
{
	struct programs fresh = {0};
	struct programs_dirs dirs = {0};

	assert_int_equal(programs_scan(tree, &fresh, &dirs, &err), 0);
	programs_encode(tree, &fresh, &dirs, out);
	assert_false(out->failed);
	programs_free(&fresh);
	programs_free_dirs(&dirs);
}

static void test_no_damaged_byte_is_believed(void **state)
{
	_cleanup_buf_ struct buf good = {0};

	encode(&good);
	assert_int_equal(programs_decode(good.data, good.len, tree, &list), 1);
	assert_non_null(find("bin/program"));
	programs_free(&list);
	assert_int_equal(programs_decode(good.data, good.len, "/usr", &list), 0);
	for (size_t i = 0; i < good.len; i++) {
		_cleanup_free_ char *bad = malloc(good.len);

		memcpy(bad, good.data, good.len);
		bad[i] ^= 0x41;
		assert_int_equal(programs_decode(bad, good.len, tree, &list), 0);
		assert_int_equal(list.count, 0);
	}
	for (size_t i = 0; i < good.len; i++)
		assert_int_equal(programs_decode(good.data, i, tree, &list), 0);
}

/* As programs_cache.c makes it: whoever writes hostile bytes can do the same. */
static uint64_t checksum(const char *data, size_t len)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ len, word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
		sum ^= sum >> 29;
	}
	for (; len > 0; len--)
		sum = (sum ^ (unsigned char)*data++) * UINT64_C(0x100000001b3);
	return sum;
}

static void test_hostile_bytes_name_nothing_outside(void **state)
{
	static const uint32_t values[] = {UINT32_MAX, UINT32_MAX - 1, INT32_MAX, 65537, 0, 0x2f2e2e2f};
	_cleanup_buf_ struct buf good = {0};
	size_t believed = 0;

	encode(&good);
	for (size_t i = sizeof(uint64_t); i + 4 <= good.len; i++) {
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			_cleanup_free_ char *bad = malloc(good.len); /* exactly: what is read past the end is noticed */
			uint64_t sum;

			memcpy(bad, good.data, good.len);
			memcpy(bad + i, &values[v], sizeof(values[v]));
			sum = checksum(bad + sizeof(sum), good.len - sizeof(sum));
			memcpy(bad, &sum, sizeof(sum));
			believed += (size_t)programs_decode(bad, good.len, tree, &list);
			for (size_t k = 0; k < list.count; k++) {
				assert_true(fs_path_within(list.items[k].path, tree));
				assert_true(list.items[k].kind < PROGRAM_KIND_COUNT);
			}
			programs_free(&list);
		}
	}
	assert_true(believed > 0); /* the sum is the right one: it is not what stops them */
}

static void test_a_cache_that_cannot_be_written_only_costs_time(void **state)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/nowhere", home);
	assert_int_equal(programs_find(path, tree, &list, &err), 0);
	assert_non_null(find("bin/program"));
	programs_free(&list);
	snprintf(path, sizeof(path), "%s/missing", tree);
	assert_int_equal(programs_find(home, path, &list, &err), -1);
	assert_int_equal(list.count, 0);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TREE(test_programs_are_told_from_other_files),
		IN_TREE(test_the_list_is_kept_until_a_directory_changes),
		IN_TREE(test_no_damaged_byte_is_believed),
		IN_TREE(test_hostile_bytes_name_nothing_outside),
		IN_TREE(test_a_cache_that_cannot_be_written_only_costs_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
