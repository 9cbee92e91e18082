/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

char home[128];
struct cordon_error err;

int home_setup(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	err = (struct cordon_error){0};
	umask(022);
	snprintf(home, sizeof(home), "%.80s/cordon-secrets.XXXXXX", base ? base : "/tmp");
	return mkdtemp(home) ? 0 : -1;
}

int home_teardown(void **state)
{
	(void)state;
	return fs_remove_tree(AT_FDCWD, home, NULL);
}

const char *path_of(const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", home, name);
	return path;
}

mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(path_of(name), &st), 0);
	return st.st_mode & 07777;
}

bool is_there(const char *name)
{
	struct stat st;

	return lstat(path_of(name), &st) == 0;
}

void write_text(const char *name, const char *text, mode_t mode)
{
	unlink(path_of(name));
	assert_int_equal(fs_write_file(AT_FDCWD, path_of(name), text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path_of(name), mode), 0);
}

int set(const char *name, const char *text)
{
	_cleanup_secret_ struct secret s = {0};

	err = (struct cordon_error){0};
	assert_int_equal(secret_copy(&s, text, "the text", &err), 0);
	return secrets_set(home, name, &s, NULL, &err);
}

void assert_secret(const char *name, const char *want)
{
	_cleanup_secret_ struct secret s = {0};

	err = (struct cordon_error){0};
	int r = secrets_get(home, name, &s, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(r, 0);
	assert_int_equal(s.len, strlen(want));
	assert_string_equal(s.data, want);
}

void assert_no_secret(const char *name)
{
	struct secret s;

	err = (struct cordon_error){0};
	assert_int_equal(secrets_get(home, name, &s, &err), -1);
	assert_int_equal(err.code, CORDON_ERR_NOT_FOUND);
	assert_null(s.data);
}

char *audit_text(void)
{
	char *text = calloc(1, 1 << 20);
	ssize_t n;

	assert_non_null(text);
	n = fs_read_small(AT_FDCWD, path_of("audit/000001.jsonl"), text, 1 << 20);
	if (n < 0)
		text[0] = '\0';
	return text;
}

void assert_error(int result, int code, const char *part)
{
	assert_int_equal(result, -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.message, part))
		fail_msg("\"%s\" is not in the message \"%s\"", part, err.message);
	err = (struct cordon_error){0};
}
