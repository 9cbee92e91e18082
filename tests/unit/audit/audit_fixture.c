/* SPDX-License-Identifier: Apache-2.0 */
#include "audit_fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/query.h"
#include "audit/record.h"
#include "audit/trail.h"
#include "base/util.h"

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

int home_setup(void **state)
{
	const char *base = getenv("TMPDIR");
	char *path = NULL;

	if (asprintf(&path, "%s/cordon-audit.XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(path))
		return -1;
	*state = path;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

int home_teardown(void **state)
{
	int r = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	free(*state);
	return r;
}

static char *path_of(const char *home, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/" AUDIT_DIR "/%s", home, name) > 0);
	return path;
}

char *file_read(const char *home, const char *name, size_t *len)
{
	_cleanup_free_ char *path = path_of(home, name);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	char *data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	data[st.st_size] = '\0';
	if (len)
		*len = (size_t)st.st_size;
	return data;
}

void file_write(const char *home, const char *name, const void *data, size_t len)
{
	_cleanup_free_ char *path = path_of(home, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	/* not O_TRUNC: ext4 then waits for the disk */
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
}

bool file_exists(const char *home, const char *name)
{
	_cleanup_free_ char *path = path_of(home, name);

	return access(path, F_OK) == 0;
}

void file_remove(const char *home, const char *name)
{
	_cleanup_free_ char *path = path_of(home, name);

	assert_int_equal(unlink(path), 0);
}

void file_rename(const char *home, const char *from, const char *to)
{
	_cleanup_free_ char *a = path_of(home, from), *b = path_of(home, to);

	assert_int_equal(rename(a, b), 0);
}

/* ---- records ----------------------------------------------------------------------------------------------------------------- */

struct audit *open_log(const char *home, const struct audit_options *options)
{
	struct cordon_error err = {0};
	struct audit *a = NULL;

	if (audit_open(&a, home, options, &err) < 0)
		fail_msg("%s", err.message);
	return a;
}

void put(struct audit *a, const char *target)
{
	struct cordon_error err = {0};

	if (audit_record(a, &(struct audit_event){.level = AUDIT_INFO, .category = AUDIT_EXEC, .action = "start", .target = target}, &err) <
	    0)
		fail_msg("%s", err.message);
}

static void check_line(const char *line, size_t len, struct chain_head *head, bool *rotates)
{
	struct audit_line l;
	const char *why = audit_scan(line, len, &l);

	if (why)
		fail_msg("record %llu: %s: %.*s", (unsigned long long)head->seq + 1, why, (int)len, line);
	assert_true(audit_line_intact(&l));
	assert_int_equal(l.seq, head->seq + 1);
	assert_memory_equal(l.prev, head->hash, AUDIT_HASH);
	head->seq = l.seq;
	memcpy(head->hash, l.hash, AUDIT_HASH);
	*rotates = audit_line_rotates(&l);
}

uint64_t assert_chain(const char *home)
{
	struct cordon_error err = {0};
	_cleanup_fd_ int dir = trail_open_dir(home, &err);
	_cleanup_trail_list_ struct trail_list segments = {0};
	struct chain_head head = {.hash = AUDIT_NO_HASH};

	assert_true(dir >= 0 && trail_list(dir, TRAIL_SUFFIX, &segments, &err) == 0);
	for (size_t i = 0; i < segments.count; i++) {
		char name[TRAIL_NAME];
		size_t len;
		bool rotates = false;

		assert_int_equal(segments.items[i], i + 1);
		trail_name(segments.items[i], TRAIL_SUFFIX, name);
		_cleanup_free_ char *data = file_read(home, name, &len);
		for (char *at = data, *nl; at < data + len; at = nl + 1) {
			assert_false(rotates);
			nl = memchr(at, '\n', (size_t)(data + len - at));
			assert_non_null(nl);
			check_line(at, (size_t)(nl - at), &head, &rotates);
		}
		assert_true(rotates || i + 1 == segments.count);
	}
	return head.seq;
}

static int count_one(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	++*(uint64_t *)arg;
	return 0;
}

static uint64_t count(const char *home, const struct audit_filter *f)
{
	struct cordon_error err = {0};
	struct audit_found found;
	uint64_t n = 0;

	if (audit_query(home, f, 0, count_one, &n, &found, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(found.matched, n);
	return n;
}

uint64_t count_action(const char *home, const char *action)
{
	return count(home, &(struct audit_filter){.action = action});
}

bool has_target(const char *home, const char *target)
{
	return count(home, &(struct audit_filter){.target = target}) > 0;
}
