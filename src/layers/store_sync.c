/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a layer's files to the disk before the layer counts as sealed: all at once where the file system keeps one journal (35 files: one
 * millisecond instead of seven), else one by one, or the whole file system where there are many.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/record.h"
#include "layers/store_parts.h"

#define BATCH 64      /* files whose data are on their way at once */
#define MAX_DEPTH 64  /* each level of directories takes a descriptor and some stack */
#define MAX_SINGLE 64 /* without one journal: more files than this, and syncfs(2) is cheaper */

struct syncer {
	bool journal;   /* one ordered journal */
	bool all;       /* give up, and sync the whole file system */
	int fds[BATCH]; /* files whose data are being written */
	size_t count;   /* of them */
	size_t done;    /* files and directories so far */
	int failed;     /* errno of a write that failed: the data are lost */
};

/* Waits for what the batch has started. */
static void finish_batch(struct syncer *y)
{
	for (size_t i = 0; i < y->count; i++) {
		if (disk_write_out(y->fds[i], y->journal) < 0)
			y->failed = errno;
		close(y->fds[i]);
	}
	y->count = 0;
}

static void sync_file(struct syncer *y, int dir, const char *name)
{
	/* not O_PATH: the sandbox may have taken our right to read it away, and then the whole file system it is */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		y->all = true;
		cleanup_fd(&fd);
		return;
	}
	if (st.st_size > 0)
		sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a head start: finish_batch() sees the errors */
	y->fds[y->count++] = fd;
	if (y->count == BATCH)
		finish_batch(y);
}

static void sync_directory(struct syncer *y, int parent, const char *name, int depth)
{
	int fd = depth > MAX_DEPTH ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;
	if (!dir) {
		cleanup_fd(&fd);
		y->all = true;
		return;
	}
	while (errno = 0, !y->all && (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			y->all = true;
		else if (S_ISDIR(st.st_mode))
			sync_directory(y, fd, e->d_name, depth + 1);
		else if (S_ISREG(st.st_mode))
			sync_file(y, fd, e->d_name);
		if (!y->journal && ++y->done > MAX_SINGLE)
			y->all = true;
	}
	if (errno)
		y->all = true;
	else if (!y->journal && !y->all && fsync(fd) < 0)
		y->failed = errno;
}

/*
 * Where single files are synced, each of them brings the directories above it to the disk, but not the mark beside it; and a layer with neither mark nor
 * record counts as damaged, not as open.
 */
static int sync_mark(int dir)
{
	_cleanup_fd_ int fd = openat(dir, LAYER_OPEN_MARK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 && errno == ENOENT ? 0 : fd < 0 ? -1 : fsync(fd);
}

int layer_sync(struct store *s, int dir, struct cordon_error *err)
{
	struct syncer y = {.journal = disk_has_one_journal(dir)};
	if (!y.journal && sync_mark(dir) < 0)
		return err_sys(err, "cannot write its mark to the disk");
	for (int i = 0; i < TREE_ALL && !y.all; i++)
		if (i < TREE_COUNT || faccessat(dir, layer_tree_names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			sync_directory(&y, dir, layer_tree_names[i], 0);
	finish_batch(&y);
	errno = y.failed;
	if (y.failed || (y.all && syncfs(s->layers_fd) < 0))
		return err_sys(err, "cannot write its files to the disk");
	if (!y.journal && !y.all && fsync(s->layers_fd) < 0) /* the layer's own name */
		return err_sys(err, "cannot write the directory of layers to the disk");
	return 0;
}
