/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/trail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/scan.h"
#include "audit/trail_end.h"
#include "base/fs.h"
#include "base/util.h"

#define RESERVE ((off_t)256 << 10) /* blocks are taken in steps of this, not for each record */
#define FRAME (27 + AUDIT_TAIL + 1)
#define LINES_KEPT ((size_t)1 << 20) /* of the buffer; a larger one is given back */

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

void trail_name(unsigned number, const char *suffix, char out[TRAIL_NAME])
{
	snprintf(out, TRAIL_NAME, "%06u%s", number, suffix);
}

unsigned trail_number(const char *name, const char **rest)
{
	size_t digits = strspn(name, "0123456789");
	char again[TRAIL_NAME];
	unsigned long n = digits >= 6 && digits <= 9 ? strtoul(name, NULL, 10) : 0;

	snprintf(again, sizeof(again), "%06lu", n);
	if (n == 0 || strlen(again) != digits) /* one spelling per number */
		return 0;
	if (rest)
		*rest = name + digits;
	return (unsigned)n;
}

void trail_list_free(struct trail_list *l)
{
	free(l->items);
	*l = (struct trail_list){0};
}

static int by_number(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return x < y ? -1 : x > y;
}

int trail_list(int dir, const char *suffix, struct trail_list *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf names = {0};
	size_t most = 0;

	if (fs_read_names(dir, &names) < 0)
		return err_sys(err, "cannot read the audit's directory");
	for (size_t i = 0; i < names.len; i += strlen(names.data + i) + 1)
		most++;
	out->count = 0;
	out->items = calloc(most ? most : 1, sizeof(*out->items));
	if (!out->items)
		return err_sys(err, "audit");
	for (size_t i = 0; i < names.len; i += strlen(names.data + i) + 1) {
		const char *rest;
		unsigned n = trail_number(names.data + i, &rest);

		if (n && strcmp(rest, suffix) == 0)
			out->items[out->count++] = n;
	}
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_number);
	return 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

/* Whoever could write there could forge the log. */
static int check_private(int fd, const char *path, struct cordon_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s", path);
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s belongs to or can be written by somebody else", path);
	return err_hint(err, "chown and chmod it, or set CORDON_HOME to a directory of your own");
}

static int make_dir(const char *home, struct cordon_error *err)
{
	if (fs_mkdirs(AT_FDCWD, home, 0700, err) < 0)
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	_cleanup_fd_ int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "cannot open %s", home);
	if (mkdirat(fd, AUDIT_DIR, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "cannot create %s/" AUDIT_DIR, home);
	return fsync(fd) < 0 ? err_sys(err, "cannot sync %s", home) : 0;
}

int trail_open_dir(const char *home, struct cordon_error *err)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" AUDIT_DIR, home) < 0) {
		path = NULL;
		return err_sys(err, "audit");
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no audit yet: %s does not exist", path);
	return fd < 0 ? err_sys(err, "cannot open %s", path) : fd;
}

int trail_open(struct trail *t, const char *home, uint64_t max_segment, struct cordon_error *err)
{
	struct cordon_error absent = {0};

	*t = (struct trail){.dir = -1, .fd = -1, .max_segment = max_segment ? max_segment : AUDIT_SEGMENT_MAX};
	if (asprintf(&t->path, "%s/" AUDIT_DIR, home) < 0) {
		t->path = NULL;
		return err_sys(err, "audit");
	}
	t->dir = trail_open_dir(home, &absent);
	if (t->dir < 0 && absent.code == CORDON_ERR_NOT_FOUND && make_dir(home, err) < 0)
		goto fail;
	if (t->dir < 0 && (t->dir = trail_open_dir(home, err)) < 0)
		goto fail;
	if (check_private(t->dir, t->path, err) == 0)
		return 0;
fail:
	trail_close(t);
	return -1;
}

void trail_close(struct trail *t)
{
	cleanup_fd(&t->fd);
	cleanup_fd(&t->dir);
	free(t->path);
	buf_free(&t->lines);
	*t = (struct trail){.dir = -1, .fd = -1};
}

/* ---- the lock ---------------------------------------------------------------------------------------------------------------- */

/* Opened each time: a child that was forked meanwhile and lives on must not hold it. */
static int take_lock(struct trail *t, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(t->dir, TRAIL_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(err, "cannot open %s/" TRAIL_LOCK, t->path);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot lock %s/" TRAIL_LOCK, t->path);
	return steal_fd(&fd);
}

static void release_lock(int *fd)
{
	if (*fd >= 0)
		flock(*fd, LOCK_UN); /* not by closing it alone: a fork in another thread may have a copy for a moment */
	cleanup_fd(fd);
}
#define _cleanup_lock_ __attribute__((cleanup(release_lock)))

static unsigned read_hint(int lock)
{
	char text[TRAIL_NAME] = "";
	const char *rest;
	ssize_t n = pread(lock, text, sizeof(text) - 1, 0);
	unsigned number = n > 0 ? trail_number(text, &rest) : 0;

	return number && *rest == '\n' ? number : 0;
}

/* Only a hint: it does not matter if it is lost. */
static void write_hint(int lock, unsigned number)
{
	char text[TRAIL_NAME];

	trail_name(number, "\n", text);
	if (pwrite(lock, text, strlen(text), 0) == (ssize_t)strlen(text) && ftruncate(lock, (off_t)strlen(text)) == 0)
		return;
}

/* ---- segments ---------------------------------------------------------------------------------------------------------------- */

static bool exists(const struct trail *t, unsigned number, const char *suffix)
{
	char name[TRAIL_NAME];

	trail_name(number, suffix, name);
	return faccessat(t->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int sync_failed(struct trail *t, struct cordon_error *err)
{
	t->lost = errno;
	return err_sys(err, "cannot sync %s/%06u" TRAIL_SUFFIX, t->path, t->number);
}

/* A new, empty segment becomes the newest. */
static int begin_segment(struct trail *t, int lock, unsigned number, struct cordon_error *err)
{
	char name[TRAIL_NAME];

	trail_name(number, TRAIL_SUFFIX, name);
	int fd = openat(t->dir, name, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, "cannot create %s/%s", t->path, name);
	if (fsync(t->dir) < 0) {
		err_sys(err, "cannot sync %s", t->path);
		close(fd);
		unlinkat(t->dir, name, 0);
		return -1;
	}
	cleanup_fd(&t->fd);
	t->fd = fd;
	t->number = number;
	t->size = t->reserved = 0;
	t->full = false;
	write_hint(lock, number);
	return 0;
}

/* The newest one holds its last record: on to the next. */
static int leave_segment(struct trail *t, int lock, struct cordon_error *err)
{
	if (ftruncate(t->fd, t->size) < 0 || fdatasync(t->fd) < 0) /* what was reserved and not used is given back */
		return sync_failed(t, err);
	return begin_segment(t, lock, t->number + 1, err);
}

/* The number of the newest segment; 0: there is none; -1: some are gone. */
static int find_newest(struct trail *t, int lock, struct cordon_error *err)
{
	_cleanup_trail_list_ struct trail_list segments = {0}, seals = {0};
	unsigned hint = read_hint(lock);

	if (hint && exists(t, hint, TRAIL_SUFFIX) && !exists(t, hint + 1, TRAIL_SUFFIX))
		return (int)hint;
	if (trail_list(t->dir, TRAIL_SUFFIX, &segments, err) < 0 || trail_list(t->dir, ".seal", &seals, err) < 0)
		return -1;
	if (segments.count)
		return (int)segments.items[segments.count - 1];
	if (!hint && !seals.count)
		return 0;
	err_set(err, CORDON_ERR_SYSTEM, "%s: its segments are gone, but there were some", t->path);
	return err_hint(err, "put them back; or move the directory away, and a new log begins");
}

/* What the end of the newest segment says; damaged ends are put aside. */
static int look_at_end(struct trail *t, int lock, struct cordon_error *err)
{
	struct trail_end end;

	if (trail_end_read(t->dir, t->path, t->fd, t->number, &end, err) < 0)
		return -1;
	if (end.good < end.size && trail_end_set_aside(t->dir, t->path, t->fd, t->number, &end, err) < 0)
		return -1;
	t->head = end.head;
	t->size = end.good;
	t->full = end.rotates;
	return t->full ? leave_segment(t, lock, err) : 0;
}

static int refresh(struct trail *t, int lock, struct cordon_error *err)
{
	struct stat st;

	if (t->fd >= 0 && fstat(t->fd, &st) == 0 && st.st_nlink > 0 && !exists(t, t->number + 1, TRAIL_SUFFIX)) {
		t->reserved = MAX(t->reserved, (off_t)st.st_blocks * 512);
		if (st.st_size != t->size)
			return look_at_end(t, lock, err);
		return t->full ? leave_segment(t, lock, err) : 0;
	}
	int newest = find_newest(t, lock, err);
	if (newest < 0)
		return -1;
	if (newest == 0) {
		t->head = (struct chain_head){.hash = AUDIT_NO_HASH};
		return begin_segment(t, lock, 1, err);
	}
	char name[TRAIL_NAME];
	trail_name((unsigned)newest, TRAIL_SUFFIX, name);
	int fd = openat(t->dir, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		err_sys(err, "cannot open %s/%s", t->path, name);
		cleanup_fd(&fd);
		return -1;
	}
	/* what this writer has left in the one before must not be lost, even if whoever ended it did not get it to the disk */
	if (t->fd >= 0 && fdatasync(t->fd) < 0) {
		close(fd);
		return sync_failed(t, err);
	}
	cleanup_fd(&t->fd);
	t->fd = fd;
	t->number = (unsigned)newest;
	t->size = -1; /* not known, should the following fail */
	t->reserved = (off_t)st.st_blocks * 512;
	if ((unsigned)newest != read_hint(lock))
		write_hint(lock, (unsigned)newest);
	return look_at_end(t, lock, err);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static void reserve(struct trail *t, size_t len)
{
	off_t need = t->size + (off_t)len;

	if (need <= t->reserved)
		return;
	off_t more = MAX(RESERVE, (off_t)len);
	if (fallocate(t->fd, FALLOC_FL_KEEP_SIZE, t->size, more) == 0)
		t->reserved = t->size + more;
	else
		t->reserved = need; /* no room, or the file system cannot: the write itself decides */
}

/* Writes t->lines; `head` is their last record. All of them, or none. */
static int flush(struct trail *t, const struct chain_head *head, struct cordon_error *err)
{
	struct buf *lines = &t->lines;

	if (lines->failed)
		return err_set(err, CORDON_ERR_SYSTEM, "audit: out of memory");
	if (lines->len == 0)
		return 0;
	reserve(t, lines->len);
	if (fs_write_full(t->fd, lines->data, lines->len) < 0) {
		int saved = errno;

		/* if this fails, too, the next writer finds what is left over: its size is then not the one that we know */
		int cut = ftruncate(t->fd, t->size);
		(void)cut;
		errno = saved;
		err_sys(err, "cannot write to the audit, %s/%06u" TRAIL_SUFFIX, t->path, t->number);
		return err_hint(err, "nothing is done that cannot be recorded%s",
		                saved == ENOSPC || saved == EDQUOT ? ": make room on that disk" : "");
	}
	t->size += (off_t)lines->len;
	t->head = *head;
	if (t->written)
		t->written(t->arg, lines->data, lines->len);
	lines->len = 0;
	return 0;
}

/* Adds a record of the writer's own. */
static int add_own(struct trail *t, struct chain_head *head, const struct audit_event *e, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};

	if (audit_body(&body, e, NULL, err) < 0)
		return -1;
	audit_chain(&t->lines, head, body.data, body.len);
	return 0;
}

/* The end of a segment, and all that comes before it in t->lines. */
static int end_segment(struct trail *t, int lock, struct chain_head *head, struct cordon_error *err)
{
	char next[TRAIL_NAME];

	trail_name(t->number + 1, TRAIL_SUFFIX, next);
	if (add_own(t, head, &(struct audit_event){.level = AUDIT_INFO, .category = AUDIT_SYSTEM, .action = AUDIT_ROTATE, .target = next},
	            err) < 0 ||
	    flush(t, head, err) < 0)
		return -1;
	t->ended++;
	t->full = true;
	return leave_segment(t, lock, err);
}

/* If somebody put a torn end aside and nobody has told about it yet. */
static int add_notice(struct trail *t, struct chain_head *head, struct cordon_error *err)
{
	char name[TRAIL_NAME];
	struct stat st;

	trail_end_torn_name(t->number, head->seq + 1, name);
	if (fstatat(t->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	const struct audit_event e = {.level = AUDIT_WARNING,
	                              .category = AUDIT_SYSTEM,
	                              .action = AUDIT_RECOVER,
	                              .target = name,
	                              .detail = (const struct audit_field[]){
					      AUDIT_TEXT("reason", "a writer was interrupted; what it left was never reported as written"),
					      AUDIT_INT("bytes", st.st_size), AUDIT_END}};
	return add_own(t, head, &e, err);
}

static int append(struct trail *t, int lock, const char *bodies, size_t len, size_t *done, struct cordon_error *err)
{
	struct chain_head head = t->head;

	t->lines.len = 0;
	t->lines.failed = false;
	if (add_notice(t, &head, err) < 0)
		return -1;
	for (size_t at = 0; at < len;) {
		off_t now = t->size + (off_t)t->lines.len;
		uint32_t n;

		memcpy(&n, bodies + at, sizeof(n));
		if (now && (uint64_t)now + n + FRAME > t->max_segment) {
			int r = end_segment(t, lock, &head, err);

			if (r == 0 || t->full) /* written, in any case */
				*done = at;
			if (r < 0)
				return -1;
		}
		audit_chain(&t->lines, &head, bodies + at + sizeof(n), n);
		at += sizeof(n) + n;
	}
	if (flush(t, &head, err) < 0)
		return -1;
	*done = len;
	if (t->lines.size > LINES_KEPT)
		buf_free(&t->lines);
	return 0;
}

static int check_lost(const struct trail *t, struct cordon_error *err)
{
	if (!t->lost)
		return 0;
	return err_set(err, CORDON_ERR_SYSTEM, "%s could not be synced before (%s): it is not known what is on the disk", t->path,
	               strerror(t->lost));
}

int trail_append(struct trail *t, const char *bodies, size_t len, size_t *done, struct cordon_error *err)
{
	_cleanup_lock_ int lock = -1;

	*done = 0;
	if (check_lost(t, err) < 0 || (lock = take_lock(t, err)) < 0 || refresh(t, lock, err) < 0)
		return -1;
	return append(t, lock, bodies, len, done, err);
}

int trail_rotate(struct trail *t, struct cordon_error *err)
{
	_cleanup_lock_ int lock = -1;

	if (check_lost(t, err) < 0 || (lock = take_lock(t, err)) < 0 || refresh(t, lock, err) < 0)
		return -1;
	struct chain_head head = t->head;
	if (t->size == 0)
		return 0;
	t->lines.len = 0;
	t->lines.failed = false;
	return add_notice(t, &head, err) < 0 ? -1 : end_segment(t, lock, &head, err);
}
