/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on the disk for what comes after the moment from which on there is no way back. Moving a file into a directory may need a new block for that directory, and
 * attributes may need one; on a full disk a commit would then stop half-way, until somebody makes room. So each stage holds a file with as many blocks as
 * that can take, made before the manifest and removed right after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"

#define BLOCK 4096u
#define BLOCKS_PER_DIR 3u /* a directory that grows: a block for names, and what a tree of blocks (ext4, XFS) takes for a split */
#define ENTRY 32u         /* of a name in a directory, beside its letters; generously */

static size_t parent_len(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

/* At most what the steps of this stage can take. Items are sorted, so that most of a directory's stand together. */
static uint64_t room_needed(const struct plan *p, size_t stage)
{
	uint64_t bytes = BLOCKS_PER_DIR * BLOCK; /* the stage itself is renamed at the end */
	const char *last = NULL;
	for (size_t i = 0; i < p->count; i++) {
		const struct plan_item *item = &p->items[i];
		const size_t dir = parent_len(item->path);
		if (item->stage != stage)
			continue;
		if (item->action == ACT_META)
			bytes += BLOCK;
		if (item->action != ACT_WRITE)
			continue;
		if (!last || parent_len(last) != dir || strncmp(last, item->path, dir) != 0)
			bytes += (uint64_t)BLOCKS_PER_DIR * BLOCK;
		bytes += 2 * (ENTRY + strlen(item->path) - dir);
		last = item->path;
	}
	return bytes;
}

int room_take(int dir, const char *name, uint64_t bytes, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, "cannot make room for it on the disk");
	/* where a file system cannot do that, it goes without */
	if (fallocate(fd, 0, 0, (off_t)bytes) == 0 || (errno != ENOSPC && errno != EDQUOT))
		return 0;
	err_sys(err, "cannot make room for it on the disk");
	unlinkat(dir, name, 0);
	return -1;
}

int plan_take_room(const struct plan *p, struct cordon_error *err)
{
	for (size_t i = 0; i < p->stages.count; i++)
		if (room_take(p->stages.items[i].fd, ROOM, room_needed(p, i), err) < 0)
			return -1;
	return 0;
}

void stages_give_room(const struct stage_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].fd >= 0)
			unlinkat(l->items[i].fd, ROOM, 0);
}
