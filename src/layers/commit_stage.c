/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories in which a commit gets its files ready, and their removal.
 *
 * Making and removing one changes the modification time of the directory it is in. That time is in the stage's name, from the very call
 * that makes it. At the end the name goes before the time can be put back, so for that moment the time is kept in an extended attribute
 * of the directory (user.cordon.commit), which changes no modification time. Where there are no attributes, a kill between these two
 * calls costs the directory its old time, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/filemeta.h"
#include "layers/view_parts.h"

#define NOTE "user.cordon.commit"
#define FILES "new"

void stages_free(struct stage_list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].top);
		cleanup_fd(&l->items[i].top_fd);
		cleanup_fd(&l->items[i].fd);
		cleanup_fd(&l->items[i].files);
	}
	free(l->items);
	*l = (struct stage_list){0};
}

struct stage *stages_add(struct stage_list *l, char *top, int64_t before)
{
	struct stage *more = top ? realloc(l->items, (l->count + 1) * sizeof(*more)) : NULL;
	if (!more) {
		free(top);
		return NULL;
	}
	l->items = more;
	more[l->count] = (struct stage){.top = top, .before = before, .after = before, .top_fd = -1, .fd = -1, .files = -1};
	return &more[l->count++];
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

void stage_name(char out[STAGE_NAME_MAX], int64_t mtime, const char *suffix)
{
	snprintf(out, STAGE_NAME_MAX, "%s%" PRId64 "%s", COMMIT_STAGE, mtime, suffix);
}

static bool parse_time(const char *text, int64_t *mtime, bool *done)
{
	char *end, again[STAGE_NAME_MAX];
	errno = 0;
	long long n = strtoll(text, &end, 10);
	*mtime = n;
	*done = strcmp(end, COMMIT_DONE) == 0;
	/* no other way to write the same number */
	snprintf(again, sizeof(again), "%lld%s", n, *done ? COMMIT_DONE : "");
	return errno == 0 && strcmp(again, text) == 0;
}

bool stage_name_parse(const char *name, int64_t *mtime, bool *done)
{
	return strncmp(name, COMMIT_STAGE, strlen(COMMIT_STAGE)) == 0 && parse_time(name + strlen(COMMIT_STAGE), mtime, done);
}

bool stage_name_reserved(const char *name, size_t len)
{
	return len >= strlen(COMMIT_STAGE) && strncasecmp(name, COMMIT_STAGE, strlen(COMMIT_STAGE)) == 0;
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

static int note_time(struct stage *s)
{
	struct stat st;
	if (fstat(s->top_fd, &st) < 0)
		return -1;
	s->before = s->after = timespec_ns(st.st_mtim);
	return 0;
}

/* mkdir(2) succeeds only if there was nothing of that name, not even a link. */
static int make_stage(struct stage *s, const char *name, struct cordon_error *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if (mkdirat(s->top_fd, name, 0700) < 0)
		return err_sys(err, "cannot create %s%s%s", s->top, *s->top ? "/" : "", name);
	s->fd = openat(s->top_fd, name, flags);
	if (s->fd < 0 || fchmod(s->fd, 0700) < 0 || mkdirat(s->fd, FILES, 0700) < 0)
		return err_sys(err, "cannot create %s", name);
	s->files = openat(s->fd, FILES, flags);
	return s->files < 0 ? err_sys(err, "cannot open %s", name) : 0;
}

static int open_top(int dir, struct stage *s)
{
	s->top_fd = path_open_dir(dir, s->top, O_RDONLY);
	return s->top_fd < 0 ? -1 : 0;
}

/* Which parts there will be has to be known before the first of them is made: recovery begins at DIR. */
static int note_parts(int dir, struct stage_list *l, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	for (size_t i = 1; i < l->count; i++)
		if (open_top(dir, &l->items[i]) < 0 || note_time(&l->items[i]) < 0)
			return err_sys(err, "cannot open %s", l->items[i].top);
	manifest_begin(&text, l);
	manifest_end(&text, l->key);
	if (text.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (write_synced(l->items[0].fd, STAGES, text.data, text.len, err) < 0)
		return -1;
	return fsync(dir) < 0 ? err_sys(err, "cannot write the directory to disk") : 0;
}

int stages_create(int dir, struct stage_list *l, struct cordon_error *err)
{
	char name[STAGE_NAME_MAX];
	struct stage *own = &l->items[0];
	if (open_top(dir, own) < 0 || note_time(own) < 0)
		return err_sys(err, "cannot open the directory");
	stage_name(name, own->before, "");
	if (make_stage(own, name, err) < 0)
		return -1;
	if (l->count > 1 && note_parts(dir, l, err) < 0)
		return -1;
	for (size_t i = 1; i < l->count; i++) {
		stage_name(name, l->items[i].before, COMMIT_PART);
		if (make_stage(&l->items[i], name, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

int stage_open(int top_fd, const char *name, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(err, CORDON_ERR_DENIED, "%s is no directory of ours", name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open %s", name);
	/* what it says will be done, with our rights */
	if (st.st_uid != geteuid())
		return err_set(err, CORDON_ERR_DENIED, "%s belongs to user %u, not to you", name, (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return err_set(err, CORDON_ERR_DENIED, "%s is open to others (mode %o)", name, (unsigned)st.st_mode & 07777);
	return steal_fd(&fd);
}

/* Without its new/ there is nothing to be moved any more. */
static int open_files(struct stage *s, struct cordon_error *err)
{
	s->files = openat(s->fd, FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->files < 0 && errno != ENOENT ? err_sys(err, "cannot open the staged files") : 0;
}

int stages_open(int dir, const char *name, struct stage_list *l, struct cordon_error *err)
{
	char part[STAGE_NAME_MAX];
	for (size_t i = 0; i < l->count; i++) {
		struct stage *s = &l->items[i];
		struct stat st;
		stage_name(part, s->before, COMMIT_PART);
		const char *own = i == 0 ? name : part;
		if (open_top(dir, s) < 0)
			return err_sys(err, "cannot open %s", s->top);
		if (i > 0 && fstatat(s->top_fd, own, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			continue;
		s->fd = stage_open(s->top_fd, own, err);
		if (s->fd < 0 || open_files(s, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- removing ----------------------------------------------------------------------------------------------------------------- */

static bool read_note(int top_fd, int64_t *mtime, bool *done)
{
	char note[STAGE_NAME_MAX];
	ssize_t n = fgetxattr(top_fd, NOTE, note, sizeof(note) - 1);
	if (n <= 0)
		return false;
	note[n] = '\0';
	return parse_time(note, mtime, done);
}

bool stage_unsettled(int top_fd)
{
	int64_t mtime;
	bool done;
	return read_note(top_fd, &mtime, &done);
}

/* A directory of somebody else's keeps the time it has: only its owner may set another. */
static int put_time_back(int top_fd, int64_t mtime, struct cordon_error *err)
{
	if (file_set_mtime(top_fd, mtime) < 0 && errno != EPERM)
		return err_sys(err, "cannot put a directory's time back");
	if (fsync(top_fd) < 0)
		return err_sys(err, "cannot write a directory to disk");
	fremovexattr(top_fd, NOTE);
	return 0;
}

int stage_settle(int top_fd, bool *done, struct cordon_error *err)
{
	int64_t mtime;
	if (!read_note(top_fd, &mtime, done))
		return 0;
	return put_time_back(top_fd, mtime, err) < 0 ? -1 : 1;
}

static int discard_one(int top_fd, const char *name, int64_t mtime, bool done, struct cordon_error *err)
{
	char note[STAGE_NAME_MAX];
	snprintf(note, sizeof(note), "%" PRId64 "%s", mtime, done ? COMMIT_DONE : "");
	fsetxattr(top_fd, NOTE, note, strlen(note), 0); /* fails where there are no attributes, see above */
	if (fs_remove_tree(top_fd, name, err) < 0)
		return -1;
	return put_time_back(top_fd, mtime, err);
}

static int discard_part(int dir, const struct stage *s, bool done, struct cordon_error *err)
{
	char name[STAGE_NAME_MAX];
	struct stat st;
	bool ignored;
	stage_name(name, s->before, COMMIT_PART);
	_cleanup_fd_ int top = path_open_dir(dir, s->top, O_RDONLY);
	if (top < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(err, "cannot open %s", s->top);
	if (fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return stage_settle(top, &ignored, err) < 0 ? -1 : 0;
	_cleanup_fd_ int fd = stage_open(top, name, err);
	return fd < 0 ? -1 : discard_one(top, name, done ? s->after : s->before, done, err);
}

int stages_discard(int dir, const char *name, const struct stage_list *l, bool done, struct cordon_error *err)
{
	int64_t mtime;
	bool ignored;
	for (size_t i = 1; i < l->count; i++)
		if (discard_part(dir, &l->items[i], done, err) < 0)
			return -1;
	if (!stage_name_parse(name, &mtime, &ignored))
		return err_set(err, CORDON_ERR_SYSTEM, "%s: not a name of ours", name);
	return discard_one(dir, name, mtime, done, err);
}
