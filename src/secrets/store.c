/* SPDX-License-Identifier: Apache-2.0 */
#include "secrets/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/fs.h"
#include "base/util.h"

#define TEMPORARY ".new"
#define TIME_MAX INT64_C(9999999999999) /* thirteen digits: the year 2286 */

/* ---- the directory ------------------------------------------------------------------------------------------------------------ */

/* As layers/store.c has it: who can write there could put another directory in the place of ours. */
static int check_home(int fd, const char *home, struct cordon_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s", home);
	if ((st.st_uid == geteuid() || st.st_uid == 0) && (!(st.st_mode & 022) || (st.st_mode & S_ISVTX)))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s belongs to or can be written by somebody else", home);
	return err_hint(err, "if it is yours, chmod go-w it; or set CORDON_HOME to a directory of your own");
}

static int check_private(int fd, const char *home, struct cordon_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s/" SECRETS_DIR, home);
	if (st.st_uid != geteuid()) {
		err_set(err, CORDON_ERR_DENIED, "%s/" SECRETS_DIR " belongs to somebody else", home);
		return err_hint(err, "set CORDON_HOME to a directory of your own");
	}
	if (!(st.st_mode & 077))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s/" SECRETS_DIR " is open to others: what is in it may be known", home);
	return err_hint(err, "chmod 700 it, and set the secrets in it again with new values");
}

/* 1: there is none, and `make` is not set. */
static int open_home(const char *home, bool make, int *out, struct cordon_error *err)
{
	int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && !make)
		return 1;
	if (fd < 0 && errno == ENOENT) {
		if (fs_mkdirs(AT_FDCWD, home, 0700, err) < 0)
			return err_hint(err, "set CORDON_HOME to a directory that you can write to");
		fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return err_sys(err, "cannot open %s", home);
	*out = fd;
	return 0;
}

static int make_directory(int home_fd, const char *home, struct cordon_error *err)
{
	int r = mkdirat(home_fd, SECRETS_DIR, 0700);

	if (r < 0 && errno == EEXIST)
		return 0;
	/* the umask may have taken from 0700 what we need */
	if (r < 0 || fchmodat(home_fd, SECRETS_DIR, 0700, 0) < 0 || fsync(home_fd) < 0)
		return err_sys(err, "cannot create %s/" SECRETS_DIR, home);
	return 0;
}

/* As open_home(), for $CORDON_HOME/secrets. */
static int open_directory(const char *home, bool make, int *out, struct cordon_error *err)
{
	_cleanup_fd_ int home_fd = -1;
	int r = open_home(home, make, &home_fd, err);

	if (r != 0)
		return r;
	if (check_home(home_fd, home, err) < 0 || (make && make_directory(home_fd, home, err) < 0))
		return -1;
	_cleanup_fd_ int fd = openat(home_fd, SECRETS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !make)
		return 1;
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
		err_set(err, CORDON_ERR_DENIED, "%s/" SECRETS_DIR " is not a directory", home);
		return err_hint(err, "remove it: cordon makes one of its own, and follows no link to another");
	}
	if (fd < 0)
		return err_sys(err, "cannot open %s/" SECRETS_DIR, home);
	if (check_private(fd, home, err) < 0)
		return -1;
	*out = steal_fd(&fd);
	return 0;
}

/* For whoever changes something; the lock ends with the descriptor. What a killed process left is removed. */
static int lock_directory(int dir, struct cordon_error *err)
{
	while (flock(dir, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot lock the secrets");
	if (unlinkat(dir, TEMPORARY, 0) < 0 && errno != ENOENT)
		return err_sys(err, "cannot remove what is left of an unfinished secret");
	return 0;
}

int secrets_check_name(const char *name, struct cordon_error *err)
{
	if (secret_name_valid(name))
		return 0;
	err_set(err, CORDON_ERR_INPUT, "this is not a name for a secret");
	return err_hint(err, "1 to %d of A-Z a-z 0-9 . _ and -, and neither a dot nor a dash first", SECRET_NAME_MAX);
}

static int not_found(const char *name, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_NOT_FOUND, "there is no secret %s", name);
	return err_hint(err, "cordon secret set %s", name);
}

static int nothing_to_remove(const char *name, struct cordon_error *err)
{
	not_found(name, err);
	return err_hint(err, "cordon secret ls shows which there are");
}

/* ---- one file ----------------------------------------------------------------------------------------------------------------- */

struct header {
	int64_t created_ms, changed_ms;
	size_t len;
};

static int damaged(const char *name, const char *why, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_DENIED, "the secret %s cannot be used: %s", name, why);
	return err_hint(err, "cordon secret set %s", name);
}

static void format_header(const struct header *h, char out[SECRETS_HEADER + 1])
{
	char text[SECRETS_HEADER + 64]; /* for times that do not fit, and then are not read back either */
	snprintf(text, sizeof(text), "cordon-secret 1 %013" PRId64 " %013" PRId64 " %05zu\n", h->created_ms, h->changed_ms, h->len);
	memcpy(out, text, SECRETS_HEADER);
	out[SECRETS_HEADER] = '\0';
}

/* Exactly what format_header() writes: a line that reads the same when it is written again. */
static bool parse_header(const char text[SECRETS_HEADER + 1], struct header *h)
{
	char again[SECRETS_HEADER + 1];

	if (sscanf(text, "cordon-secret 1 %13" SCNd64 " %13" SCNd64 " %5zu", &h->created_ms, &h->changed_ms, &h->len) != 3)
		return false;
	if (h->created_ms < 0 || h->changed_ms < 0 || h->len < 1 || h->len > SECRET_VALUE_MAX)
		return false;
	format_header(h, again);
	return strcmp(text, again) == 0;
}

/* Its descriptor. The header is all that is read: a list has no business with the rest. */
static int open_secret(int dir, const char *name, struct header *h, struct cordon_error *err)
{
	char text[SECRETS_HEADER + 1] = "";
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return not_found(name, err);
	if (fd < 0 && (errno == ELOOP || errno == ENXIO))
		return damaged(name, "it is not a file", err);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open the secret %s", name);
	if (!S_ISREG(st.st_mode))
		return damaged(name, "it is not a file", err);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return damaged(name, "it belongs to somebody else, or others can read it", err);
	if (fs_pread_full(fd, text, SECRETS_HEADER, 0) != SECRETS_HEADER || !parse_header(text, h) ||
	    st.st_size != (off_t)(SECRETS_HEADER + h->len))
		return damaged(name, "its file is damaged", err);
	return steal_fd(&fd);
}

static int write_temporary(int dir, const struct header *h, const struct secret *value)
{
	char text[SECRETS_HEADER + 1];
	_cleanup_fd_ int fd = openat(dir, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	format_header(h, text);
	/* as above */
	if (fchmod(fd, 0600) < 0 || fs_write_full(fd, text, SECRETS_HEADER) < 0 || fs_write_full(fd, value->data, value->len) < 0)
		return -1;
	return fsync(fd);
}

/* ---- the audit ---------------------------------------------------------------------------------------------------------------- */

static bool is_full(const struct cordon_error *err)
{
	return err->sys_errno == ENOSPC || err->sys_errno == EDQUOT;
}

static int record(const char *home, const struct audit_event *event, struct cordon_error *err)
{
	struct audit *log = NULL;
	int r = audit_open(&log, home, NULL, err) < 0 || audit_record(log, event, err) < 0 ? -1 : 0;

	audit_close(log);
	return r;
}

/* Before it is done. detail may be NULL. */
static int announce(const char *home, const char *action, const char *name, const struct audit_field *detail, struct cordon_error *err)
{
	const struct audit_event event = {
		.level = AUDIT_INFO, .category = AUDIT_AUTH, .allowed = AUDIT_ALLOWED, .action = action, .target = name, .detail = detail};

	if (record(home, &event, err) == 0)
		return 0;
	err_wrap(err, "nothing was changed: the audit cannot be written");
	return is_full(err) ? err_hint(err, "make room in %s", home) : -1;
}

/* What was announced and could not be done is recorded, too, as far as that is still possible. */
static int undone(const char *home, const char *action, const char *name, const char *what, struct cordon_error *err)
{
	int error = errno;
	const struct audit_field detail[] = {AUDIT_TEXT("failed", strerror(error)), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_ERROR, .category = AUDIT_AUTH, .action = action, .target = name, .detail = detail};

	record(home, &event, NULL);
	errno = error;
	return err_sys(err, "cannot %s the secret %s", what, name);
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	int64_t ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	return ms < 0 ? 0 : MIN(ms, TIME_MAX);
}

int secrets_get(const char *home, const char *name, struct secret *out, struct cordon_error *err)
{
	_cleanup_fd_ int dir = -1;
	struct header h;

	*out = (struct secret){0};
	if (secrets_check_name(name, err) < 0)
		return -1;
	int r = open_directory(home, false, &dir, err);
	if (r != 0)
		return r > 0 ? not_found(name, err) : -1;
	_cleanup_fd_ int fd = open_secret(dir, name, &h, err);
	if (fd < 0 || secret_begin(out, err) < 0)
		return -1;
	ssize_t n = fs_pread_full(fd, out->data, h.len, SECRETS_HEADER);
	out->len = h.len;
	if (n == (ssize_t)h.len && !memchr(out->data, '\0', out->len))
		return 0;
	secret_wipe(out);
	return n < 0 ? err_sys(err, "cannot read the secret %s", name) : damaged(name, "its file is damaged", err);
}

/* The name is free or taken; under the lock. */
static int exists(int dir, const char *name, struct cordon_error *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_sys(err, "cannot examine the secret %s", name);
}

static int replace(const char *home, int dir, const char *name, const struct secret *value, bool *replaced, struct cordon_error *err)
{
	struct header old, h = {.changed_ms = now_ms(), .len = value->len};
	int there = exists(dir, name, err);

	if (there < 0)
		return -1;
	*replaced = there;
	const struct audit_field detail[] = {AUDIT_BOOL("replaced", there), AUDIT_END};
	_cleanup_fd_ int fd = there ? open_secret(dir, name, &old, NULL) : -1;
	h.created_ms = fd >= 0 ? old.created_ms : h.changed_ms;
	if (write_temporary(dir, &h, value) < 0) {
		err_sys(err, "cannot write the secret %s", name);
		return is_full(err) ? err_hint(err, "make room in %s", home) : -1;
	}
	if (announce(home, "secret-set", name, detail, err) < 0)
		return -1;
	return renameat(dir, TEMPORARY, dir, name) < 0 || fsync(dir) < 0 ? undone(home, "secret-set", name, "put in place", err) : 0;
}

int secrets_set(const char *home, const char *name, const struct secret *value, bool *replaced, struct cordon_error *err)
{
	_cleanup_fd_ int dir = -1;
	struct cordon_error none = {0};
	bool was;

	if (!err)
		err = &none;
	if (secrets_check_name(name, err) < 0 || secret_check(value, "the value", err) < 0 || open_directory(home, true, &dir, err) < 0 ||
	    lock_directory(dir, err) < 0)
		return -1;
	int r = replace(home, dir, name, value, replaced ? replaced : &was, err);
	if (r < 0)
		unlinkat(dir, TEMPORARY, 0);
	return r;
}

int secrets_remove(const char *home, const char *name, struct cordon_error *err)
{
	_cleanup_fd_ int dir = -1;
	struct cordon_error none = {0};

	if (!err)
		err = &none;
	if (secrets_check_name(name, err) < 0)
		return -1;
	int r = open_directory(home, false, &dir, err);
	if (r != 0)
		return r > 0 ? nothing_to_remove(name, err) : -1;
	if (lock_directory(dir, err) < 0 || (r = exists(dir, name, err)) < 0)
		return -1;
	if (!r)
		return nothing_to_remove(name, err);
	if (announce(home, "secret-rm", name, NULL, err) < 0)
		return -1;
	return unlinkat(dir, name, 0) < 0 || fsync(dir) < 0 ? undone(home, "secret-rm", name, "remove", err) : 0;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------------- */

void secrets_list_free(struct secret_list *l)
{
	free(l->items);
	*l = (struct secret_list){0};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct secret_info *)a)->name, ((const struct secret_info *)b)->name);
}

/* One that goes away meanwhile was not there; a file whose name is none is not ours to show. */
static void look_at(int dir, const char *name, struct secret_list *out)
{
	struct secret_info *item = &out->items[out->count];
	struct cordon_error why = {0};
	struct header h = {0};

	if (!secret_name_valid(name))
		return;
	_cleanup_fd_ int fd = open_secret(dir, name, &h, &why);
	if (fd < 0 && why.code == CORDON_ERR_NOT_FOUND)
		return;
	*item = (struct secret_info){.damaged = fd < 0};
	memcpy(item->name, name, strlen(name) + 1);
	if (fd >= 0) {
		item->created_ms = h.created_ms;
		item->changed_ms = h.changed_ms;
	}
	out->count++;
}

int secrets_list(const char *home, struct secret_list *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf names = {0};
	_cleanup_fd_ int dir = -1;
	size_t count = 0;

	*out = (struct secret_list){0};
	int r = open_directory(home, false, &dir, err);
	if (r != 0)
		return r > 0 ? 0 : -1;
	if (fs_read_names(dir, &names) < 0)
		return err_sys(err, "cannot list the secrets");
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		count++;
	out->items = calloc(count + 1, sizeof(*out->items));
	if (!out->items)
		return err_sys(err, "cannot list the secrets");
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		look_at(dir, names.data + at, out);
	qsort(out->items, out->count, sizeof(*out->items), by_name);
	return 0;
}
