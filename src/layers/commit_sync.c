/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a commit to the disk, at two moments: the new files before the manifest counts, and every step before the stage is marked as
 * done.
 *
 * Where a file system keeps one ordered journal (record.h), data are written out and the next commit of the journal brings all the rest:
 * in DIR, the manifest's own fsync(2), and later the one after the stage was renamed; on another file system, that of a small file which
 * is made for it. Elsewhere every file and directory is synced, or the whole file system where that is cheaper.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/record.h"

#define ONE_BY_ONE 256 /* more than this, and one sync of the whole file system is cheaper, whatever else is written to it */

enum sync_way sync_way(int fd, size_t count)
{
	if (disk_has_one_journal(fd))
		return SYNC_JOURNAL;
	return count > ONE_BY_ONE ? SYNC_WHOLE : SYNC_EACH;
}

static int cannot_sync(struct cordon_error *err)
{
	return err_sys(err, "cannot write to disk");
}

/* Commits the journal, with everything that came before. */
static int commit_journal(const struct stage *s, const char *name, struct cordon_error *err)
{
	if (s->fd < 0) /* the stage is gone already */
		return syncfs(s->top_fd) < 0 ? cannot_sync(err) : 0;
	return write_synced(s->fd, name, "", 0, err);
}

/* ---- new files ---------------------------------------------------------------------------------------------------------------- */

static int open_staged(const struct plan *p, size_t number)
{
	char name[24];
	snprintf(name, sizeof(name), "%zu", number);
	return openat(p->stages.items[p->items[number].stage].files, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static bool has_contents(const struct plan_item *item, size_t stage)
{
	return item->action == ACT_WRITE && item->stage == stage && S_ISREG(item->after);
}

/* 1: a file that its owner may not read stands in the way, so that only the whole file system can be synced. */
static int sync_contents(const struct plan *p, size_t stage, bool journal)
{
	for (size_t i = 0; i < p->count; i++) {
		_cleanup_fd_ int fd = has_contents(&p->items[i], stage) ? open_staged(p, i) : -1;
		if (fd >= 0)
			sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a head start: errors are seen below */
	}
	for (size_t i = 0; i < p->count; i++) {
		if (!has_contents(&p->items[i], stage))
			continue;
		_cleanup_fd_ int fd = open_staged(p, i);
		if (fd < 0 || disk_write_out(fd, journal) < 0)
			return fd < 0 && errno == EACCES ? 1 : -1;
	}
	return 0;
}

static int sync_stage(const struct plan *p, size_t number, size_t count, struct cordon_error *err)
{
	const struct stage *s = &p->stages.items[number];
	enum sync_way way = sync_way(s->fd, count);
	int r = way == SYNC_WHOLE ? 1 : sync_contents(p, number, way == SYNC_JOURNAL);
	if (r > 0)
		r = syncfs(s->fd);
	else if (r == 0 && way == SYNC_EACH)
		r = fsync(s->files) | fsync(s->fd) | fsync(s->top_fd);
	if (r < 0)
		return cannot_sync(err);
	return way == SYNC_JOURNAL && number > 0 ? commit_journal(s, "staged", err) : 0;
}

int sync_staged(const struct plan *p, struct cordon_error *err)
{
	size_t count = 0;
	for (size_t i = 0; i < p->count; i++)
		count += p->items[i].action == ACT_WRITE;
	for (size_t i = 0; i < p->stages.count; i++)
		if (sync_stage(p, i, count, err) < 0)
			return -1;
	return 0;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

int sync_whole(const struct manifest *m, struct cordon_error *err)
{
	for (size_t i = 0; i < m->stages.count; i++)
		if (syncfs(m->stages.items[i].top_fd) < 0)
			return cannot_sync(err);
	return 0;
}

int sync_applied(const struct manifest *m, bool *each, struct cordon_error *err)
{
	*each = false;
	for (size_t i = 0; i < m->stages.count; i++) {
		const struct stage *s = &m->stages.items[i];
		enum sync_way way = sync_way(s->top_fd, m->count);
		*each = *each || way == SYNC_EACH;
		if (way == SYNC_WHOLE && syncfs(s->top_fd) < 0)
			return cannot_sync(err);
		if (way == SYNC_JOURNAL && i > 0 && commit_journal(s, "applied", err) < 0)
			return -1;
	}
	return 0;
}
