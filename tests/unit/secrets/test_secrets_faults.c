/* SPDX-License-Identifier: Apache-2.0 */
/* Each call that writes fails in turn; and nothing of a value is left in memory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "fixture.h"

/* ---- calls that fail ---------------------------------------------------------------------------------------------------------- */

static int countdown = -1; /* calls that still succeed; -1: all */
static bool hit;

static bool fails(void)
{
	if (countdown < 0)
		return false;
	if (countdown-- > 0)
		return false;
	hit = true;
	errno = ENOSPC;
	return true;
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	return fails() ? -1 : __real_write(fd, data, len);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return fails() ? -1 : __real_fsync(fd);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	return fails() ? -1 : __real_fdatasync(fd);
}

int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fails() ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags)
{
	return fails() ? -1 : __real_unlinkat(dir, name, flags);
}

/* 1: the call came to its end, the n-th of those that could fail was never made. */
static int with_failure(int n, int (*act)(void))
{
	hit = false;
	countdown = n;
	int r = act();
	countdown = -1;
	if (!hit)
		assert_int_equal(r, 0);
	else
		assert_int_equal(r, -1);
	return hit ? 0 : 1;
}

static int set_new(void)
{
	return set("k", "new");
}

static int remove_it(void)
{
	err = (struct cordon_error){0};
	return secrets_remove(home, "k", &err);
}

/* "" if there is none */
static const char *value_of(const char *name)
{
	static char text[64];
	_cleanup_secret_ struct secret s = {0};

	if (secrets_get(home, name, &s, NULL) < 0)
		return "";
	snprintf(text, sizeof(text), "%s", s.data);
	return text;
}

static void test_a_set_that_fails_leaves_the_old_value(void **state)
{
	int old = 0, is_new = 0;

	for (int n = 0;; n++) {
		assert_int_equal(set("k", "old"), 0);
		if (with_failure(n, set_new))
			break;
		assert_true(err.sys_errno == ENOSPC);
		if (strcmp(value_of("k"), "old") == 0)
			old++;
		else if (strcmp(value_of("k"), "new") == 0)
			is_new++;
		else
			fail_msg("failure %d: neither the old nor the new value", n);
		assert_false(is_there("secrets/.new"));
	}
	/* header, value, fsync, the record (written and synced), rename */
	assert_true(old >= 6);
	/* it was in place, and only the sync of the directory failed */
	assert_int_equal(is_new, 1);
	assert_secret("k", "new");
}

static void test_a_full_disk_has_a_hint(void **state)
{
	assert_int_equal(set("k", "old"), 0);
	assert_int_equal(with_failure(1, set_new), 0);
	assert_non_null(strstr(err.message, "No space left on device"));
	assert_non_null(strstr(err.hint, "make room in"));
}

static void test_a_removal_that_fails_leaves_it_or_not(void **state)
{
	int there = 0, gone = 0;

	for (int n = 0;; n++) {
		assert_int_equal(set("k", "old"), 0);
		if (with_failure(n, remove_it))
			break;
		if (is_there("secrets/k"))
			there++;
		else
			gone++;
	}
	assert_true(there >= 3);
	assert_int_equal(gone, 1);
	assert_no_secret("k");
}

static int set_first(void)
{
	return set("first", "new");
}

static void test_a_first_set_that_fails_leaves_none(void **state)
{
	for (int n = 0; with_failure(n, set_first) == 0; n++) {
		const char *value = value_of("first");

		assert_true(*value == '\0' || strcmp(value, "new") == 0);
		assert_int_equal(mode_of("secrets"), 0700);
		assert_false(is_there("secrets/.new"));
		countdown = -1;
		if (*value)
			assert_int_equal(secrets_remove(home, "first", &err), 0);
		rmdir(path_of("secrets")); /* so that it has to be made, too */
	}
	assert_secret("first", "new");
}

static void test_a_change_that_was_recorded_and_failed_is_told(void **state)
{
	assert_int_equal(set("k", "old"), 0);
	for (int n = 0; with_failure(n, set_new) == 0; n++)
		;
	_cleanup_free_ char *text = audit_text();
	assert_non_null(strstr(
		text, "\"level\":\"error\",\"category\":\"auth\",\"action\":\"secret-set\",\"target\":\"k\",\"allowed\":null,\"rule\":null,"
		      "\"detail\":{\"failed\":\"No space left on device\"}"));
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------- */

static unsigned released, dirty;
static size_t watched; /* pages of this length are looked at when they are given back */

int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len)
{
	for (size_t i = 0; len == watched && i < len; i++)
		if (((const char *)at)[i]) {
			dirty++;
			break;
		}
	released += len == watched;
	return __real_munmap(at, len);
}

static void test_memory_is_overwritten_before_it_is_given_back(void **state)
{
	struct secret s;

	watched = SECRET_VALUE_MAX + 2;
	released = dirty = 0;
	assert_int_equal(secret_copy(&s, "hunter2", "x", &err), 0);
	s.data[watched - 1] = 'x'; /* all of it */
	secret_wipe(&s);
	assert_null(s.data);
	secret_wipe(&s);
	assert_int_equal(set("k", "hunter2"), 0);
	assert_secret("k", "hunter2");
	/* also on the way out of an error */
	write_text("secrets/k", "cordon-secret 1 1600000000001 1600000000002 00003\na\nb", 0600);
	assert_int_equal(truncate(path_of("secrets/k"), SECRETS_HEADER + 1), 0);
	assert_int_equal(truncate(path_of("secrets/k"), SECRETS_HEADER + 3), 0);
	assert_int_equal(secrets_get(home, "k", &s, &err), -1);
	assert_null(s.data);
	assert_int_equal(released, 4);
	assert_int_equal(dirty, 0);
}

static void test_without_memory_there_is_an_error(void **state)
{
	struct rlimit before, none;
	struct secret s;

	assert_int_equal(set("k", "v"), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	int r = secrets_get(home, "k", &s, &err);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_error(r, CORDON_ERR_SYSTEM, "no memory for a secret");
	assert_null(s.data);
}

/* The value is never written down in this program: each of its letters is made when it is needed. */
enum { LETTERS = 2000 };
static char letter(size_t i)
{
	return (char)('!' + (i * i + i * 37 + 11) % 89);
}

static bool is_here(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != letter(i))
			return false;
	return true;
}

/* Whether the first 24 letters are anywhere in memory that this process can write to. */
static bool in_memory(void)
{
	enum { NEEDLE = 24, MOST = 64 << 20 };
	FILE *maps = fopen("/proc/self/maps", "re");
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char line[512];
	bool found = false;

	assert_non_null(maps);
	assert_true(memory >= 0);
	setvbuf(maps, NULL, _IONBF, 0);
	while (!found && fgets(line, sizeof(line), maps)) {
		uintptr_t from, to;
		char rights[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) != 3 || rights[1] != 'w' || to - from > MOST)
			continue; /* what is larger is the shadow of a sanitizer */
		char *copy = malloc(to - from);
		assert_non_null(copy);
		ssize_t n = pread(memory, copy, to - from, (off_t)from);
		for (ssize_t i = 0; i + NEEDLE <= n && !found; i++)
			found = is_here(copy + i, NEEDLE);
		if (n > 0)
			explicit_bzero(copy, (size_t)n); /* the copy must not be found the next time */
		free(copy);
	}
	close(memory);
	fclose(maps);
	return found;
}

static int from_another_process(void)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (size_t i = 0; i < LETTERS; i++) {
			char c = letter(i);

			if (__real_write(ends[1], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* the pipe has room for all of it */
	return ends[0];
}

static void test_nothing_of_a_value_stays_in_memory(void **state)
{
	struct secret in, out;
	_cleanup_fd_ int fd = from_another_process();

	assert_false(in_memory());
	assert_int_equal(secret_read(&in, fd, "the pipe", &err), 0);
	assert_int_equal(in.len, LETTERS);
	assert_true(in_memory()); /* it can be found */
	assert_int_equal(secrets_set(home, "k", &in, NULL, &err), 0);
	secret_wipe(&in);
	assert_false(in_memory());
	assert_int_equal(secrets_get(home, "k", &out, &err), 0);
	assert_true(out.len == LETTERS && is_here(out.data, LETTERS));
	assert_true(in_memory());
	secret_wipe(&out);
	assert_false(in_memory());
}

/* As the kernel says it: "dd" is MADV_DONTDUMP. */
static void test_values_are_in_no_core_dump(void **state)
{
	_cleanup_secret_ struct secret s = {0};
	char line[512];
	uintptr_t from, to;
	bool here = false, kept_out = false;
	FILE *maps;

	assert_int_equal(secret_copy(&s, "v", "x", &err), 0);
	maps = fopen("/proc/self/smaps", "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			here = from <= (uintptr_t)s.data && (uintptr_t)s.data < to;
		if (here && strncmp(line, "VmFlags:", 8) == 0)
			kept_out = strstr(line, " dd") != NULL;
	}
	fclose(maps);
	assert_true(kept_out);
}

#define HOME_TEST(f) cmocka_unit_test_setup_teardown(f, home_setup, home_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(test_a_set_that_fails_leaves_the_old_value),
		HOME_TEST(test_a_full_disk_has_a_hint),
		HOME_TEST(test_a_removal_that_fails_leaves_it_or_not),
		HOME_TEST(test_a_first_set_that_fails_leaves_none),
		HOME_TEST(test_a_change_that_was_recorded_and_failed_is_told),
		HOME_TEST(test_memory_is_overwritten_before_it_is_given_back),
		HOME_TEST(test_without_memory_there_is_an_error),
		HOME_TEST(test_nothing_of_a_value_stays_in_memory),
		HOME_TEST(test_values_are_in_no_core_dump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
