/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in the store: added as a whole or not at all, whatever fails and whoever is killed at whatever moment; layers shared; names replaced; nothing removed that
 * somebody holds, and everything removed that nobody does.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/image.h"
#include "image/store_parts.h"
#include "layers/box.h"
#include "layers/store_parts.h"

static char home[64];

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

/* ---- what fails, or dies ------------------------------------------------------------------------------------------------------- */

static int calls, failing_call, dying_call; /* counted from 1; 0: none */
static char order[256];                     /* of the calls that bring something to the disk, or rename it, by their first letters */

static bool fails(char letter)
{
	size_t len = strlen(order);
	if (letter && len < sizeof(order) - 1)
		order[len] = letter;
	calls++;
	if (calls == dying_call)
		_exit(42);
	errno = EIO;
	return calls == failing_call;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return fails('f') ? -1 : __real_fsync(fd);
}

int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __wrap_syncfs(int fd)
{
	return fails('s') ? -1 : __real_syncfs(fd);
}

int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new)
{
	return fails('r') ? -1 : __real_renameat(from, old, to, new);
}

int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
	return fails(0) ? -1 : __real_mkdirat(dir, name, mode);
}

int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
	return fails(0) ? -1 : __real_unlinkat(dir, name, flags);
}

static int set_up(void **state)
{
	(void)state;
	calls = failing_call = dying_call = 0;
	memset(order, 0, sizeof(order));
	snprintf(home, sizeof(home), "/tmp/test-images.XXXXXX");
	return mkdtemp(home) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	failing_call = dying_call = 0;
	return fs_remove_tree(AT_FDCWD, home, NULL);
}

/* ---- making ---------------------------------------------------------------------------------------------------------------------- */

static void replace_file(const char *path, const char *text)
{
	unlink(path);
	assert_int_equal(fs_write_file(AT_FDCWD, path, text, strlen(text), 0600, NULL), 0);
}

/* A staged layer with one file, of which the digest's first letter tells. */
static int put_layer(const struct image_staging *s, int number, char letter, size_t size)
{
	char path[64], *text = malloc(size);
	assert_non_null(text);
	memset(text, letter, size);
	snprintf(path, sizeof(path), "%d", number);
	int r = __real_mkdirat(s->dir, path, 0700);
	snprintf(path, sizeof(path), "%d/tree", number);
	if (r == 0)
		r = __real_mkdirat(s->dir, path, 0755);
	snprintf(path, sizeof(path), "%d/tree/%c", number, letter);
	if (r == 0)
		r = fs_write_file(s->dir, path, text, size, 0644, NULL);
	free(text);
	return r;
}

/* An image of layers, each named by a letter, topmost first. */
static int add_sized(const char *name, const char *letters, bool replace, size_t size, const char *quota, struct image_added *out,
                     struct cordon_error *err)
{
	struct image_staging s;
	struct image i = {.cwd = strdup("/app")};
	struct image_layer layers[8] = {0};
	size_t count = strlen(letters);
	struct image_added none;
	int r = image_stage(home, quota, &s, err);
	snprintf(i.name, sizeof(i.name), "%s", name);
	for (size_t n = 0; r == 0 && n < count; n++) {
		memset(layers[n].digest, letters[n], DIGEST_LEN);
		layers[n].bytes = size;
		layers[n].files = 1;
		layers[n].staged = (int)n;
		r = put_layer(&s, (int)n, letters[n], size);
	}
	if (r == 0)
		r = image_add(&s, &i, layers, count, replace, out ? out : &none, err);
	image_unstage(&s);
	image_free(&i);
	return r;
}

static int add(const char *name, const char *letters, bool replace, struct image_added *out, struct cordon_error *err)
{
	return add_sized(name, letters, replace, 5000, "1G", out, err);
}

static void must_add(const char *name, const char *letters)
{
	struct cordon_error err = {0};
	if (add(name, letters, false, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

/* The names in a part of the store: "a b". */
static const char *names_in(const char *part, char out[512])
{
	char path[128];
	struct strlist names = {0};
	snprintf(path, sizeof(path), "%s/images/%s", home, part);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	out[0] = '\0';
	if (fd < 0)
		return out;
	assert_int_equal(store_list(fd, &names, NULL), 0);
	close(fd);
	for (char c = '.'; c <= 'z'; c++)
		for (size_t i = 0; i < names.count; i++)
			if (names.items[i][0] == c)
				snprintf(out + strlen(out), 512 - strlen(out), "%s%.12s", *out ? " " : "", names.items[i]);
	strlist_free(&names);
	return out;
}

static void assert_layers(const char *expected)
{
	char text[512], *to = text;
	names_in("layers", text);
	for (const char *from = text; *from;) { /* a letter stands for a digest */
		size_t len = strcspn(from, " ");
		*to++ = len == 12 ? *from : '?';
		from += len + (from[len] == ' ');
	}
	*to = '\0';
	assert_string_equal(text, expected);
}

static void assert_names(const char *expected)
{
	char text[512];
	assert_string_equal(names_in("names", text), expected);
}

static void assert_no_temporaries(void)
{
	char text[512];
	assert_string_equal(names_in("tmp", text), "");
}

static void find(const char *name, struct image *out)
{
	struct cordon_error err = {0};
	if (image_find(home, name, out, &err) < 0)
		fail_msg("%s", err.message);
}

/* ---- adding ---------------------------------------------------------------------------------------------------------------------- */

static void test_an_added_image_is_found_as_it_was_given(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	struct image_layer l;
	must_add("web:1.0", "ba");
	find("web:1.0", &i);
	assert_string_equal(i.name, "web:1.0");
	assert_int_equal(i.layers.count, 2);
	assert_string_equal(i.layers.items[0], B);
	assert_string_equal(i.layers.items[1], A);
	assert_string_equal(i.cwd, "/app");
	assert_int_equal(i.bytes, 10000);
	assert_true(image_digest_valid(i.id));
	assert_int_equal(image_layer_read(home, A, &l, NULL), 0);
	assert_int_equal(l.bytes, 5000);
	assert_true(l.disk >= 4096);
	assert_no_temporaries();
}

/* Files, then the records that make layers of them; the two layers' names; the record by id, and last of all the name, each with its directory. */
static void test_everything_is_on_the_disk_before_it_has_a_name(void **state)
{
	(void)state;
	must_add("one", "ba");
	assert_string_equal(order, "s" /* files */ "rr" /* records */ "s"
	                           "rr"
	                           "f" /* layers */ "frf" /* ids */ "frf" /* names */);
}

static void test_layers_are_shared(void **state)
{
	(void)state;
	struct image_added added;
	must_add("one", "ba");
	assert_int_equal(add("two", "ca", false, &added, NULL), 0);
	assert_int_equal(added.shared, 1);
	assert_false(added.replaced);
	assert_layers("abc");
	assert_int_equal(image_remove(home, "one", false, NULL, NULL), 0);
	assert_layers("ac");
	assert_int_equal(image_remove(home, "two", false, NULL, NULL), 0);
	assert_layers("");
}

static void test_the_layer_that_is_there_stays(void **state)
{
	(void)state;
	char path[256], text[16] = "";
	must_add("one", "a");
	snprintf(path, sizeof(path), "%s/images/layers/" A "/tree/mark", home);
	assert_int_equal(fs_write_file(AT_FDCWD, path, "old", 3, 0644, NULL), 0);
	must_add("two", "a");
	assert_int_equal(fs_read_small(AT_FDCWD, path, text, sizeof(text)), 3);
}

static void test_a_damaged_layer_is_replaced(void **state)
{
	(void)state;
	char path[256];
	struct image_added added;
	must_add("one", "a");
	snprintf(path, sizeof(path), "%s/images/layers/" A "/layer", home);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(add("two", "a", false, &added, NULL), 0);
	assert_int_equal(added.shared, 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_layers("a");
}

static void test_the_same_layer_twice_is_in_an_image_once(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	must_add("one", "aba");
	find("one", &i);
	assert_int_equal(i.layers.count, 2);
	assert_string_equal(i.layers.items[0], A);
	assert_string_equal(i.layers.items[1], B);
}

static void test_a_name_that_is_taken(void **state)
{
	(void)state;
	struct cordon_error err = {0};
	struct image_added added;
	must_add("one", "a");
	assert_int_equal(add("one", "b", false, NULL, &err), -1);
	assert_non_null(strstr(err.message, "'one' exists"));
	assert_layers("a");
	assert_int_equal(add("one", "b", true, &added, NULL), 0);
	assert_true(added.replaced);
	assert_layers("b");
	assert_names("one");
}

static void test_finding_names_the_nearest(void **state)
{
	(void)state;
	struct image i;
	struct cordon_error err = {0};
	assert_int_equal(image_find(home, "data", &i, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_non_null(strstr(err.hint, "none yet"));
	must_add("data", "a");
	assert_int_equal(image_find(home, "dta", &i, &err), -1);
	assert_non_null(strstr(err.hint, "did you mean data"));
	assert_int_equal(image_find(home, "../x", &i, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_INPUT);
}

/* ---- room ------------------------------------------------------------------------------------------------------------------------ */

static void test_the_quota_is_hard(void **state)
{
	(void)state;
	struct cordon_error err = {0};
	assert_int_equal(add_sized("one", "a", false, 100000, "150K", NULL, &err), 0);
	assert_int_equal(add_sized("two", "b", false, 100000, "150K", NULL, &err), -1);
	assert_non_null(strstr(err.message, "quota"));
	assert_layers("a");
	assert_names("one");
	assert_int_equal(add_sized("again", "a", false, 100000, "150K", NULL, &err), 0); /* shared: costs nothing */
	assert_int_equal(add_sized("two", "b", false, 100000, "300K", NULL, &err), 0);
}

/* ---- holding --------------------------------------------------------------------------------------------------------------------- */

static void test_what_is_held_is_not_removed(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	struct cordon_error err = {0};
	pid_t pids[4];
	size_t count;
	must_add("one", "ba");
	find("one", &i);
	int held = image_hold(home, &i, &err);
	assert_true(held >= 0);
	assert_int_equal(image_remove(home, "one", false, NULL, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_BUSY);
	assert_non_null(strstr(err.message, "'one'"));
	assert_names("one");
	assert_int_equal(image_holders(home, &i, pids, 4, &count, &err), 0);
	assert_int_equal(count, 1);
	assert_int_equal(pids[0], getpid());
	close(held);
	assert_int_equal(image_remove(home, "one", false, NULL, &err), 0);
	assert_layers("");
	assert_int_equal(image_hold(home, &i, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
}

static void test_what_is_held_outlives_its_name(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	must_add("one", "a");
	find("one", &i);
	int held = image_hold(home, &i, NULL);
	assert_int_equal(add("one", "b", true, NULL, NULL), 0); /* replaced */
	assert_layers("ab");
	assert_int_equal(image_remove(home, "one", true, NULL, NULL), 0);
	assert_layers("a");
	close(held);
	image_sweep(home);
	assert_layers("");
}

/* "-> FLOCK ... INODE": somebody waits for a lock on it, see proc_locks(5). */
static bool somebody_waits(ino_t inode)
{
	char line[256], number[32];
	bool found = false;
	FILE *f = fopen("/proc/locks", "re");
	assert_non_null(f);
	snprintf(number, sizeof(number), ":%lu ", (unsigned long)inode);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "-> FLOCK") && strstr(line, number);
	fclose(f);
	return found;
}

static void test_a_holder_that_comes_too_late_is_told(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	char path[192];
	struct stat st;
	int status;
	must_add("one", "a");
	find("one", &i);
	snprintf(path, sizeof(path), "%s/images/ids/%s", home, i.id);
	int collector = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(collector, &st), 0);
	assert_int_equal(flock(collector, LOCK_EX), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct cordon_error err = {0};
		close(collector);
		_exit(image_hold(home, &i, &err) < 0 && err.code == CORDON_ERR_NOT_FOUND ? 0 : 1);
	}
	while (!somebody_waits(st.st_ino))
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(unlink(path), 0);
	close(collector);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_a_name_of_two_goes_though_it_is_held(void **state)
{
	(void)state;
	_cleanup_image_ struct image i = {0};
	must_add("one", "a");
	must_add("two", "a");
	find("one", &i);
	int held = image_hold(home, &i, NULL);
	assert_int_equal(image_remove(home, "one", false, NULL, NULL), 0);
	assert_int_equal(image_remove(home, "two", false, NULL, NULL), -1);
	close(held);
	assert_layers("a");
}

static void test_an_image_that_a_sandbox_stands_on_is_not_removed(void **state)
{
	(void)state;
	struct store s;
	struct cordon_error err = {0};
	_cleanup_box_ struct box b = {.name = "work", .image = strdup("one"), .uid = UINT32_MAX, .gid = UINT32_MAX};
	must_add("one", "a");
	assert_int_equal(store_open(&s, home, &err), 0);
	assert_int_equal(box_create(&s, &b, &err), 0);
	assert_int_equal(image_remove(home, "one", false, NULL, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_BUSY);
	assert_non_null(strstr(err.message, "by sandbox work"));
	assert_names("one");
	assert_int_equal(box_remove(&s, b.id, &err), 0);
	store_close(&s);
	assert_int_equal(image_remove(home, "one", false, NULL, &err), 0);
}

/* ---- failures -------------------------------------------------------------------------------------------------------------------- */

/* Which names there are must tell all: the image of that name is whole, and nothing else is there. */
static void check_whole(bool old_was_there)
{
	struct image_list all = {0};
	char expected[8] = "";
	failing_call = dying_call = 0;
	image_sweep(home);
	assert_int_equal(image_list(home, &all, NULL), 0);
	assert_true(all.count <= 1 && (!old_was_there || all.count == 1));
	for (size_t i = 0; i < all.count; i++) {
		assert_false(all.items[i].damaged);
		for (size_t n = all.items[i].image.layers.count; n-- > 0;) {
			struct image_layer l;
			char path[256];
			const char *digest = all.items[i].image.layers.items[n];
			assert_int_equal(image_layer_read(home, digest, &l, NULL), 0);
			snprintf(path, sizeof(path), "%s/images/layers/%s/tree/%c", home, digest, digest[0]);
			assert_int_equal(access(path, R_OK), 0);
			snprintf(expected + strlen(expected), 2, "%c", digest[0]);
		}
	}
	image_list_free(&all);
	assert_layers(expected);
	assert_no_temporaries();
	char ids[512];
	assert_int_equal(*names_in("ids", ids) != '\0', *expected != '\0');
}

static void test_each_call_that_fails(void **state)
{
	(void)state;
	for (int n = 1;; n++) {
		struct cordon_error err = {0};
		must_add("one", "a");
		calls = 0;
		failing_call = n;
		int r = add("one", "cb", true, NULL, &err);
		bool reached = calls >= n;
		failing_call = 0;
		if (r < 0)
			assert_true(err.message[0]);
		check_whole(true);
		assert_int_equal(image_remove(home, "one", true, NULL, NULL), 0);
		if (!reached) {
			assert_true(n > 10);
			return;
		}
	}
}

static void test_a_death_at_each_call(void **state)
{
	(void)state;
	for (int n = 1;; n++) {
		bool old = n % 2;
		if (old)
			must_add("one", "a");
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			calls = 0;
			dying_call = n;
			_exit(add("one", "cb", true, NULL, NULL) == 0 ? 0 : 1);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		check_whole(old);
		image_remove(home, "one", true, NULL, NULL);
		assert_layers("");
		if (WEXITSTATUS(status) != 42) {
			assert_int_equal(WEXITSTATUS(status), 0);
			assert_true(n > 10);
			return;
		}
	}
}

static void test_a_damaged_record_puts_all_in_doubt(void **state)
{
	(void)state;
	char path[128];
	struct image_list all = {0};
	must_add("one", "a");
	must_add("two", "b");
	snprintf(path, sizeof(path), "%s/images/names/one", home);
	replace_file(path, "cordon 1 image\nname one\n");
	assert_int_equal(image_list(home, &all, NULL), 0);
	assert_int_equal(all.count, 2);
	assert_true(all.items[0].damaged);
	image_list_free(&all);
	assert_int_equal(image_remove(home, "two", false, NULL, NULL), 0);
	assert_layers("ab"); /* whatever the damaged one needs may be among them */
	assert_int_equal(image_remove(home, "one", false, NULL, NULL), 0);
	assert_layers("");
}

static void test_a_store_that_others_can_write_is_refused(void **state)
{
	(void)state;
	char path[128];
	struct cordon_error err = {0};
	_cleanup_image_ struct image i = {0};
	must_add("one", "a");
	snprintf(path, sizeof(path), "%s/images/layers", home);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(image_find(home, "one", &i, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_DENIED);
	assert_int_equal(chmod(path, 0700), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_added_image_is_found_as_it_was_given, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_everything_is_on_the_disk_before_it_has_a_name, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_layers_are_shared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_layer_that_is_there_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_damaged_layer_is_replaced, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_same_layer_twice_is_in_an_image_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_name_that_is_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_finding_names_the_nearest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_quota_is_hard, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_held_is_not_removed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_held_outlives_its_name, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_holder_that_comes_too_late_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_name_of_two_goes_though_it_is_held, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_an_image_that_a_sandbox_stands_on_is_not_removed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_each_call_that_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_death_at_each_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_damaged_record_puts_all_in_doubt, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_store_that_others_can_write_is_refused, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
