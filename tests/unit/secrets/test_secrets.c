/* SPDX-License-Identifier: Apache-2.0 */
/* Names, values, files and directories, friendly and hostile; many at once; what a policy gets. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "fixture.h"
#include "policy/policy.h"

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

static void test_a_value_comes_back_byte_by_byte(void **state)
{
	_cleanup_secret_ struct secret in = {0}, out = {0};

	assert_int_equal(secret_begin(&in, &err), 0);
	for (in.len = 0; in.len < SECRET_VALUE_MAX; in.len++)
		in.data[in.len] = (char)(in.len % 255 + 1); /* line feeds, too, and the last byte is one of its own */
	assert_int_equal(secrets_set(home, "all", &in, NULL, &err), 0);
	assert_int_equal(secrets_get(home, "all", &out, &err), 0);
	assert_int_equal(out.len, SECRET_VALUE_MAX);
	assert_memory_equal(in.data, out.data, SECRET_VALUE_MAX);
	assert_int_equal(out.data[out.len], 0);
	assert_int_equal(set("one", "x"), 0);
	assert_secret("one", "x");
}

/* What comes of `before` bytes 'x' and then a text. */
static int read_from_pipe(size_t before, const char *text, size_t len, struct secret *out)
{
	int ends[2];
	_cleanup_free_ char *data = malloc(before + len);

	memset(data, 'x', before);
	memcpy(data + before, text, len);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, 1 << 18) >= (int)(before + len));
	assert_int_equal(write(ends[1], data, before + len), before + len);
	close(ends[1]);
	int r = secret_read(out, ends[0], "the pipe", &err);
	close(ends[0]);
	return r;
}

static void test_one_line_feed_at_the_end_is_taken_off(void **state)
{
	static const struct {
		const char *given, *want;
	} cases[] = {{"a", "a"}, {"a\n", "a"}, {"a\n\n", "a\n"}, {"a\nb\n", "a\nb"}, {"a\r\n", "a\r"}, {"\na", "\na"}, {"\n\n", "\n"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_secret_ struct secret s = {0};

		assert_int_equal(read_from_pipe(0, cases[i].given, strlen(cases[i].given), &s), 0);
		assert_int_equal(s.len, strlen(cases[i].want));
		assert_string_equal(s.data, cases[i].want);
	}
}

static void test_what_is_no_value_is_refused(void **state)
{
	static const struct {
		size_t before;
		const char *text;
		size_t len;
		const char *error; /* NULL: it is one */
	} cases[] = {
		{0, "", 0, "the pipe is empty"},
		{0, "\n", 1, "the pipe is empty"},
		{0, "a\0b", 3, "NUL"},
		{0, "\0", 1, "NUL"},
		{0, "a\0\n", 3, "NUL"},
		{SECRET_VALUE_MAX, "", 0, NULL},
		{SECRET_VALUE_MAX, "\n", 1, NULL},
		{SECRET_VALUE_MAX - 1, "\n\n", 2, NULL},
		{SECRET_VALUE_MAX, "y", 1, "too long"},
		{SECRET_VALUE_MAX, "y\n", 2, "too long"},
		{SECRET_VALUE_MAX, "\n\n", 2, "too long"},
		{SECRET_VALUE_MAX + 100, "\n", 1, "too long"},
		{SECRET_VALUE_MAX, "\0\n", 2, "too long"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_secret_ struct secret s = {0};
		int r = read_from_pipe(cases[i].before, cases[i].text, cases[i].len, &s);

		if (cases[i].error) {
			assert_error(r, CORDON_ERR_INPUT, cases[i].error);
			assert_null(s.data);
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(s.len, SECRET_VALUE_MAX);
		}
	}
}

/* Whoever builds a struct secret by other means is held to the same. */
static void test_the_store_takes_no_other_values_either(void **state)
{
	_cleanup_secret_ struct secret s = {0};

	assert_int_equal(secret_begin(&s, &err), 0);
	assert_error(secrets_set(home, "n", &s, NULL, &err), CORDON_ERR_INPUT, "empty");
	memcpy(s.data, "a\0b", s.len = 3);
	assert_error(secrets_set(home, "n", &s, NULL, &err), CORDON_ERR_INPUT, "NUL");
	s.len = SECRET_VALUE_MAX + 1;
	assert_error(secrets_set(home, "n", &s, NULL, &err), CORDON_ERR_INPUT, "too long");
	assert_false(is_there("secrets"));
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

#define N16 "abcdefghijklmnop"

static void test_names(void **state)
{
	static const char *const good[] = {"a", "A", "0", "_", "a.b", "a-b", "a..", "OPENAI_API_KEY", "x-", N16 N16 N16 N16};
	static const char *const bad[] = {"",
	                                  ".",
	                                  "..",
	                                  ".a",
	                                  ".new",
	                                  "-",
	                                  "-a",
	                                  "a/b",
	                                  "/a",
	                                  "../a",
	                                  "a b",
	                                  "a\nb",
	                                  "a\tb",
	                                  "ä",
	                                  "*",
	                                  "a=b",
	                                  "a\\b",
	                                  "a:b",
	                                  N16 N16 N16 N16 "q"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct secret s;

		assert_error(set(bad[i], "v"), CORDON_ERR_INPUT, "not a name");
		assert_error(secrets_get(home, bad[i], &s, &err), CORDON_ERR_INPUT, "not a name");
		assert_error(secrets_remove(home, bad[i], &err), CORDON_ERR_INPUT, "not a name");
	}
	assert_false(is_there("secrets"));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(set(good[i], good[i]), 0);
		assert_secret(good[i], good[i]);
	}
}

/* It may be the secret itself, put in the wrong place. */
static void test_a_bad_name_is_not_repeated(void **state)
{
	set("hunter2/hunter2", "v");
	assert_null(strstr(err.message, "hunter2"));
	assert_null(strstr(err.hint, "hunter2"));
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------- */

static void test_set_replaces_and_remove_removes(void **state)
{
	_cleanup_secret_ struct secret s = {0};
	bool replaced = true;

	assert_no_secret("k");
	assert_int_equal(secret_copy(&s, "first", "x", &err), 0);
	assert_int_equal(secrets_set(home, "k", &s, &replaced, &err), 0);
	assert_false(replaced);
	assert_secret("k", "first");
	assert_int_equal(secrets_set(home, "k", &s, &replaced, &err), 0);
	assert_true(replaced);
	assert_int_equal(set("k", "a longer second"), 0);
	assert_secret("k", "a longer second");
	assert_int_equal(set("k", "3rd"), 0);
	assert_secret("k", "3rd");
	assert_int_equal(secrets_remove(home, "k", &err), 0);
	assert_no_secret("k");
	assert_error(secrets_remove(home, "k", &err), CORDON_ERR_NOT_FOUND, "there is no secret k");
}

static void test_what_is_not_found_has_a_hint(void **state)
{
	assert_no_secret("k");
	assert_string_equal(err.message, "there is no secret k");
	assert_string_equal(err.hint, "cordon secret set k");
}

static void test_looking_makes_nothing(void **state)
{
	struct secret_list all;

	assert_int_equal(secrets_list(home, &all, &err), 0);
	assert_int_equal(all.count, 0);
	assert_no_secret("k");
	assert_int_equal(secrets_remove(home, "k", &err), -1);
	assert_false(is_there("secrets"));
	assert_false(is_there("audit"));
	assert_int_equal(rmdir(home), 0);
	assert_int_equal(secrets_list(home, &all, &err), 0);
	assert_no_secret("k");
	assert_int_equal(access(home, F_OK), -1);
	assert_int_equal(set("k", "v"), 0); /* and this makes all of it */
	assert_int_equal(mode_of("."), 0700);
}

static void test_nobody_else_can_read_whatever_the_umask(void **state)
{
	static const mode_t masks[] = {0, 022, 077, 0177, 0777};

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		fs_remove_tree(AT_FDCWD, path_of("secrets"), NULL);
		fs_remove_tree(AT_FDCWD, path_of("audit"), NULL);
		assert_int_equal(mkdir(path_of("audit"), 0700), 0);
		umask(masks[i]);
		int r = set("k", "v");
		umask(022);
		if (masks[i] == 0777 && geteuid() != 0) /* the audit's own files are made with it, and cannot be opened then */
			continue;
		assert_int_equal(r, 0);
		assert_int_equal(mode_of("secrets"), 0700);
		assert_int_equal(mode_of("secrets/k"), 0600);
		assert_secret("k", "v");
	}
}

static void test_the_list_has_names_and_times_in_order(void **state)
{
	static const char *const names[] = {"b", "a.2", "C", "a"}, *const sorted[] = {"C", "a", "a.2", "b"};
	struct secret_list all;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(set(names[i], "v"), 0);
	write_text("secrets/.new", "left by one that was killed", 0600);
	write_text("secrets/not a name", "x", 0600);
	assert_int_equal(secrets_list(home, &all, &err), 0);
	assert_int_equal(all.count, ARRAY_SIZE(sorted));
	for (size_t i = 0; i < all.count; i++) {
		assert_string_equal(all.items[i].name, sorted[i]);
		assert_false(all.items[i].damaged);
		assert_true(all.items[i].created_ms > INT64_C(1600000000000) && all.items[i].created_ms == all.items[i].changed_ms);
	}
	secrets_list_free(&all);
}

#define OLD "cordon-secret 1 1600000000001 1600000000002 00003\n"

static void test_a_new_value_keeps_when_it_was_made(void **state)
{
	struct secret_list all;

	assert_int_equal(set("k", "v"), 0);
	write_text("secrets/k", OLD "old", 0600);
	assert_secret("k", "old");
	assert_int_equal(set("k", "new"), 0);
	assert_int_equal(secrets_list(home, &all, &err), 0);
	assert_int_equal(all.items[0].created_ms, INT64_C(1600000000001));
	assert_true(all.items[0].changed_ms > INT64_C(1700000000000));
	secrets_list_free(&all);
}

static void test_what_a_killed_one_left_is_removed_by_the_next(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	write_text("secrets/.new", "half a se", 0600);
	assert_int_equal(set("other", "v"), 0);
	assert_false(is_there("secrets/.new"));
	write_text("secrets/.new", "half a se", 0600);
	assert_int_equal(secrets_remove(home, "other", &err), 0);
	assert_false(is_there("secrets/.new"));
}

/* ---- hostile files ------------------------------------------------------------------------------------------------------------ */

static void assert_damaged(const char *name, const char *why)
{
	struct secret_list all;
	struct secret s;

	err = (struct cordon_error){0};
	assert_error(secrets_get(home, name, &s, &err), CORDON_ERR_DENIED, why);
	assert_null(s.data);
	assert_int_equal(secrets_list(home, &all, &err), 0);
	assert_int_equal(all.count, 1);
	assert_true(all.items[0].damaged);
	assert_int_equal(all.items[0].created_ms, 0);
	secrets_list_free(&all);
}

static void test_a_link_is_not_followed(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	write_text("elsewhere", OLD "old", 0600);
	unlink(path_of("secrets/k"));
	assert_int_equal(symlink("../elsewhere", path_of("secrets/k")), 0);
	assert_damaged("k", "not a file");
	assert_int_equal(set("k", "new"), 0);
	assert_secret("k", "new");
	char text[128];
	assert_true(fs_read_small(AT_FDCWD, path_of("elsewhere"), text, sizeof(text)) > 0);
	assert_string_equal(text, OLD "old");

	/* nor in the place of what is written first */
	assert_int_equal(symlink("../elsewhere", path_of("secrets/.new")), 0);
	assert_int_equal(set("k", "newer"), 0);
	assert_true(fs_read_small(AT_FDCWD, path_of("elsewhere"), text, sizeof(text)) > 0);
	assert_string_equal(text, OLD "old");

	unlink(path_of("secrets/k"));
	assert_int_equal(symlink("../elsewhere", path_of("secrets/k")), 0);
	assert_int_equal(secrets_remove(home, "k", &err), 0);
	assert_true(is_there("elsewhere"));
	assert_false(is_there("secrets/k"));
}

static void test_what_others_can_read_or_own_is_not_used(void **state)
{
	static const mode_t modes[] = {0644, 0640, 0604, 0660, 0601};

	assert_int_equal(set("k", "v"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path_of("secrets/k"), modes[i]), 0);
		assert_damaged("k", "others can read it");
	}
	assert_int_equal(set("k", "w"), 0);
	assert_int_equal(mode_of("secrets/k"), 0600);
	assert_secret("k", "w");
	if (geteuid() == 0) {
		assert_int_equal(chown(path_of("secrets/k"), 64321, 0), 0);
		assert_damaged("k", "belongs to somebody else");
	}
}

static void test_what_is_no_file_is_not_read(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	unlink(path_of("secrets/k"));
	assert_int_equal(mkfifo(path_of("secrets/k"), 0600), 0);
	assert_damaged("k", "not a file");
	assert_int_equal(set("k", "v"), 0);
	unlink(path_of("secrets/k"));
	assert_int_equal(mkdir(path_of("secrets/k"), 0700), 0);
	assert_damaged("k", "not a file");
	assert_error(set("k", "v"), CORDON_ERR_SYSTEM, "cannot put in place the secret k");
	assert_false(is_there("secrets/.new"));
	assert_error(secrets_remove(home, "k", &err), CORDON_ERR_SYSTEM, "cannot remove the secret k");
}

static void test_a_damaged_file_is_told_from_a_whole_one(void **state)
{
	static const char *const texts[] = {
		"",
		"old",
		"cordon-secret 1 1600000000001 1600000000002 00004\nold",
		"cordon-secret 1 1600000000001 1600000000002 00002\nold",
		"cordon-secret 1 1600000000001 1600000000002 00000\n",
		"cordon-secret 1 1600000000001 1600000000002 99999\nold",
		"cordon-secret 2 1600000000001 1600000000002 00003\nold",
		"cordon-secret 1 1600000000001 1600000000002 +0003\nold",
		"cordon-secret 1 -600000000001 1600000000002 00003\nold",
		"cordon-secret 1 1600000000001 1600000000002 00003 old",
		"cordon-secret 1  160000000001 1600000000002 00003\nold",
		OLD "older",
	};
	const char whole[] = OLD "old";

	assert_int_equal(set("k", "v"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		write_text("secrets/k", texts[i], 0600);
		assert_damaged("k", "damaged");
	}
	for (size_t len = 0; len < sizeof(whole) - 1; len++) {
		write_text("secrets/k", whole, 0600);
		assert_int_equal(truncate(path_of("secrets/k"), (off_t)len), 0);
		assert_damaged("k", "damaged");
	}
	/* holes, as a file system leaves them */
	struct secret s;
	write_text("secrets/k", OLD, 0600);
	assert_int_equal(truncate(path_of("secrets/k"), SECRETS_HEADER + 3), 0);
	assert_error(secrets_get(home, "k", &s, &err), CORDON_ERR_DENIED, "damaged");
	write_text("secrets/k", whole, 0600);
	assert_secret("k", "old");
}

/* ---- hostile directories ------------------------------------------------------------------------------------------------------ */

static void assert_all_refused(const char *why)
{
	struct secret_list all;
	struct secret s;

	assert_error(set("k", "w"), CORDON_ERR_DENIED, why);
	assert_error(secrets_get(home, "k", &s, &err), CORDON_ERR_DENIED, why);
	assert_error(secrets_remove(home, "k", &err), CORDON_ERR_DENIED, why);
	assert_error(secrets_list(home, &all, &err), CORDON_ERR_DENIED, why);
}

static void test_a_directory_that_is_open_to_others_is_refused(void **state)
{
	static const mode_t modes[] = {0755, 0750, 0710, 0701, 0704, 0702, 0720, 01777};

	assert_int_equal(set("k", "v"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path_of("secrets"), modes[i]), 0);
		assert_all_refused("open to others");
	}
	assert_int_equal(chmod(path_of("secrets"), 0700), 0);
	assert_secret("k", "v");
	if (geteuid() == 0) {
		assert_int_equal(chown(path_of("secrets"), 64321, 0), 0);
		assert_all_refused("belongs to somebody else");
	}
}

static void test_a_directory_elsewhere_is_not_used(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	assert_int_equal(rename(path_of("secrets"), path_of("moved")), 0);
	assert_int_equal(symlink("moved", path_of("secrets")), 0);
	assert_all_refused("is not a directory");
	unlink(path_of("secrets"));
	write_text("secrets", "x", 0600);
	assert_all_refused("is not a directory");
}

static void test_a_home_that_others_can_write_is_refused(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	assert_int_equal(chmod(home, 0770), 0);
	assert_all_refused("somebody else");
	assert_int_equal(chmod(home, 01777), 0); /* as /tmp: what is ours in it is safe */
	assert_secret("k", "v");
	assert_int_equal(chmod(home, 0700), 0);
}

/* ---- the audit ---------------------------------------------------------------------------------------------------------------- */

static void test_each_change_is_recorded_without_the_value(void **state)
{
	assert_int_equal(set("k", "hunter2hunter2"), 0);
	assert_int_equal(set("k", "hunter3hunter3"), 0);
	assert_int_equal(secrets_remove(home, "k", &err), 0);
	assert_int_equal(secrets_remove(home, "k", &err), -1);
	_cleanup_free_ char *text = audit_text();
	assert_non_null(strstr(
		text,
		"\"category\":\"auth\",\"action\":\"secret-set\",\"target\":\"k\",\"allowed\":true,\"rule\":null,\"detail\":{\"replaced\":false}"));
	assert_non_null(strstr(
		text,
		"\"category\":\"auth\",\"action\":\"secret-set\",\"target\":\"k\",\"allowed\":true,\"rule\":null,\"detail\":{\"replaced\":true}"));
	assert_non_null(strstr(text, "\"category\":\"auth\",\"action\":\"secret-rm\",\"target\":\"k\",\"allowed\":true"));
	assert_null(strstr(text, "hunter"));
	assert_null(strstr(text, "\"seq\":4"));
}

static void test_what_cannot_be_recorded_is_not_done(void **state)
{
	assert_int_equal(set("k", "v"), 0);
	fs_remove_tree(AT_FDCWD, path_of("audit"), NULL);
	write_text("audit", "in the way", 0600);
	assert_error(set("k", "w"), CORDON_ERR_SYSTEM, "nothing was changed: the audit cannot be written");
	assert_error(secrets_remove(home, "k", &err), CORDON_ERR_SYSTEM, "nothing was changed: the audit cannot be written");
	assert_false(is_there("secrets/.new"));
	assert_secret("k", "v");
}

/* ---- many at once ------------------------------------------------------------------------------------------------------------- */

enum { WRITERS = 4, ROUNDS = 25, LONG = 5000 };

/* A value of one letter: another one in it, and two were mixed. */
static void *write_often(void *arg)
{
	const int letter = *(const int *)arg;
	char text[LONG + 1] = "";
	struct cordon_error mine = {0};

	memset(text, letter, LONG - (size_t)letter);
	for (int i = 0; i < ROUNDS; i++) {
		_cleanup_secret_ struct secret s = {0};

		if (secret_copy(&s, text, "x", &mine) < 0 || secrets_set(home, "k", &s, NULL, &mine) < 0)
			return arg;
		if (letter == 'a' && secrets_remove(home, "k", &mine) < 0 && mine.code != CORDON_ERR_NOT_FOUND)
			return arg;
	}
	return NULL;
}

static void *read_often(void *arg)
{
	for (int i = 0; i < ROUNDS * WRITERS; i++) {
		_cleanup_secret_ struct secret s = {0};
		struct cordon_error mine = {0};

		if (secrets_get(home, "k", &s, &mine) < 0) {
			if (mine.code != CORDON_ERR_NOT_FOUND)
				return arg;
			continue;
		}
		for (size_t j = 0; j < s.len; j++)
			if (s.data[j] != s.data[0])
				return arg;
		if (s.len != LONG - (size_t)s.data[0])
			return arg;
	}
	return NULL;
}

static void test_many_at_once_see_whole_values(void **state)
{
	pthread_t threads[WRITERS + 1];
	int letters[WRITERS + 1];
	void *result;

	for (int i = 0; i <= WRITERS; i++) {
		letters[i] = 'a' + i;
		assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? write_often : read_often, &letters[i]), 0);
	}
	for (int i = 0; i <= WRITERS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	assert_false(is_there("secrets/.new"));
}

/* ---- for a policy ------------------------------------------------------------------------------------------------------------- */

static int resolve(const char *from, struct secret *out)
{
	char *hosts[] = {(char *)(uintptr_t) "api.example.com", NULL};
	struct policy_secret rule = {.from = (char *)(uintptr_t)from, .hosts = {.items = hosts, .count = 1}};

	err = (struct cordon_error){0};
	return secrets_resolve(home, &rule, out, &err);
}

static void test_a_policy_gets_it_from_the_store_or_the_environment(void **state)
{
	_cleanup_secret_ struct secret a = {0}, b = {0};

	assert_int_equal(set("KEY.1", "from the store\t\xc3\xa4"), 0);
	assert_int_equal(setenv("CORDON_TEST_SECRET", "from here", 1), 0);
	assert_int_equal(resolve("store:KEY.1", &a), 0);
	assert_string_equal(a.data, "from the store\t\xc3\xa4");
	assert_int_equal(resolve("env:CORDON_TEST_SECRET", &b), 0);
	assert_string_equal(b.data, "from here");
	unsetenv("CORDON_TEST_SECRET");
}

static void test_what_a_policy_cannot_get_is_explained(void **state)
{
	struct secret s;

	assert_int_equal(resolve("store:nope", &s), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_string_equal(err.message, "secret store:nope for api.example.com: there is no secret nope");
	assert_string_equal(err.hint, "cordon secret set nope");
	unsetenv("CORDON_TEST_SECRET");
	assert_int_equal(resolve("env:CORDON_TEST_SECRET", &s), -1);
	assert_non_null(strstr(err.hint, "cordon secret set"));
	assert_error(-1, CORDON_ERR_NOT_FOUND, "the variable CORDON_TEST_SECRET is not set");
	setenv("CORDON_TEST_SECRET", "", 1);
	assert_error(resolve("env:CORDON_TEST_SECRET", &s), CORDON_ERR_NOT_FOUND, "the variable CORDON_TEST_SECRET is empty");
	unsetenv("CORDON_TEST_SECRET");
	assert_error(resolve("store:../x", &s), CORDON_ERR_INPUT, "not a name");
	assert_error(resolve("hunter2", &s), CORDON_ERR_INPUT, "write store:NAME or env:NAME");
	assert_int_equal(resolve("hunter2", &s), -1);
	assert_null(strstr(err.message, "hunter2"));
}

static void test_a_header_cannot_be_broken_out_of(void **state)
{
	static const struct {
		const char *value, *why;
	} cases[] = {{"a\nX-Other: b", "a line break"},
	             {"a\r\n\r\nGET / HTTP/1.1", "a line break"},
	             {"a\r", "a line break"},
	             {"a\x1b[0m", "a control character"},
	             {"a\x7f", "a control character"}};
	struct secret s;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(set("k", cases[i].value), 0);
		assert_error(resolve("store:k", &s), CORDON_ERR_INPUT, cases[i].why);
		assert_null(s.data);
		setenv("CORDON_TEST_SECRET", cases[i].value, 1);
		assert_error(resolve("env:CORDON_TEST_SECRET", &s), CORDON_ERR_INPUT, cases[i].why);
		assert_null(s.data);
	}
	unsetenv("CORDON_TEST_SECRET");
}

#define HOME_TEST(f) cmocka_unit_test_setup_teardown(f, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(test_a_value_comes_back_byte_by_byte),
		HOME_TEST(test_one_line_feed_at_the_end_is_taken_off),
		HOME_TEST(test_what_is_no_value_is_refused),
		HOME_TEST(test_the_store_takes_no_other_values_either),
		HOME_TEST(test_names),
		HOME_TEST(test_a_bad_name_is_not_repeated),
		HOME_TEST(test_set_replaces_and_remove_removes),
		HOME_TEST(test_what_is_not_found_has_a_hint),
		HOME_TEST(test_looking_makes_nothing),
		HOME_TEST(test_nobody_else_can_read_whatever_the_umask),
		HOME_TEST(test_the_list_has_names_and_times_in_order),
		HOME_TEST(test_a_new_value_keeps_when_it_was_made),
		HOME_TEST(test_what_a_killed_one_left_is_removed_by_the_next),
		HOME_TEST(test_a_link_is_not_followed),
		HOME_TEST(test_what_others_can_read_or_own_is_not_used),
		HOME_TEST(test_what_is_no_file_is_not_read),
		HOME_TEST(test_a_damaged_file_is_told_from_a_whole_one),
		HOME_TEST(test_a_directory_that_is_open_to_others_is_refused),
		HOME_TEST(test_a_directory_elsewhere_is_not_used),
		HOME_TEST(test_a_home_that_others_can_write_is_refused),
		HOME_TEST(test_each_change_is_recorded_without_the_value),
		HOME_TEST(test_what_cannot_be_recorded_is_not_done),
		HOME_TEST(test_many_at_once_see_whole_values),
		HOME_TEST(test_a_policy_gets_it_from_the_store_or_the_environment),
		HOME_TEST(test_what_a_policy_cannot_get_is_explained),
		HOME_TEST(test_a_header_cannot_be_broken_out_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
