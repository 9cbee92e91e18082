/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/putback.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "layers/filemeta.h"
#include "layers/index.h"

/*
 * What is made through the sandbox's overlay must belong to an id that exists in its user namespace; root of the host is none. Raw calls: they are for this
 * thread alone.
 */
static void act_as(const struct layer_ids *ids, bool user)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];
	if (!ids->mapped)
		return;
	bool known = syscall(SYS_capget, &head, caps) == 0;
	syscall(SYS_setfsgid, user ? ids->shown_gid : getegid());
	syscall(SYS_setfsuid, user ? ids->shown_uid : geteuid());
	if (known) /* the change takes the capabilities over files away, which files of others and closed directories need */
		syscall(SYS_capset, &head, caps);
}

/* ---- other names of a file --------------------------------------------------------------------------------------------------- */

/* What is needed to find them: the names in each layer and in the seed, read when the first file with several turns up. */
struct names {
	const struct view *want;
	struct tree_index *index; /* one per layer */
	bool *read;
};

static int names_begin(struct names *n, const struct view *want, struct cordon_error *err)
{
	*n = (struct names){
		.want = want, .index = calloc(want->count + 1, sizeof(*n->index)), .read = calloc(want->count + 1, sizeof(*n->read))};
	return n->index && n->read ? 0 : err_sys(err, "cannot put files back");
}

static void names_end(struct names *n)
{
	for (size_t i = 0; n->index && i < n->want->count; i++)
		tree_index_free(&n->index[i]);
	free(n->index);
	free(n->read);
}

static bool is_pending(const struct changes *changes, size_t done, const char *path)
{
	for (size_t i = done; i < changes->count; i++)
		if (strcmp(changes->items[i].path, path) == 0)
			return true;
	return false;
}

/* Another name of the same file that is in place already: the directory, open, and its name there. -1: none. */
static int find_other(struct names *n, int tree, const char *path, const struct view_entry *e, const struct changes *changes, size_t done,
                      const char **other_base)
{
	if (e->st.st_nlink < 2)
		return -1;
	struct tree_index *index = &n->index[e->layer];
	if (!n->read[e->layer] && tree_index_scan(n->want->fds[e->layer], index, NULL) < 0)
		return -1;
	n->read[e->layer] = true;
	for (size_t i = 0; i < index->count; i++) {
		const char *other = index->items[i].path;
		struct view_entry shown;
		if (index->items[i].ino != e->st.st_ino || strcmp(other, path) == 0 || is_pending(changes, done, other) ||
		    view_stat(n->want, other, &shown, NULL) < 0 || shown.layer != e->layer || shown.st.st_ino != e->st.st_ino)
			continue;
		int dir = path_open_parent(tree, other, other_base);
		if (dir >= 0)
			return dir;
	}
	return -1;
}

static bool link_as_user(int dir, const char *other, int parent, const char *base, const struct layer_ids *ids)
{
	act_as(ids, true);
	int r = linkat(dir, other, parent, base, 0);
	act_as(ids, false);
	return r == 0;
}

/* True if it is that file's name now. */
static bool link_to_other(int dir, const char *other, int parent, const char *base, const struct stat *now, const struct layer_ids *ids)
{
	struct stat st;
	if (fstatat(dir, other, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (now->st_mode && st.st_ino == now->st_ino)
		return true;
	if (now->st_mode && unlinkat(parent, base, S_ISDIR(now->st_mode) ? AT_REMOVEDIR : 0) < 0)
		return false;
	return link_as_user(dir, other, parent, base, ids);
}

/*
 * The kernel made a file of its own of `other` when it was linked to; the rest of the names would stay with the old one. What cannot be linked again keeps its
 * contents, and is a file of its own.
 */
static void gather_group(struct names *n, int tree, const char *path, const struct view_entry *e, const struct changes *changes,
                         size_t done, int parent, const char *base, const struct layer_ids *ids)
{
	const struct tree_index *index = &n->index[e->layer];
	struct stat mine, theirs;
	if (fstatat(parent, base, &mine, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	for (size_t i = 0; i < index->count; i++) {
		const char *name = index->items[i].path, *other;
		struct view_entry shown;
		if (index->items[i].ino != e->st.st_ino || strcmp(name, path) == 0 || is_pending(changes, done, name) ||
		    view_stat(n->want, name, &shown, NULL) < 0 || shown.layer != e->layer || shown.st.st_ino != e->st.st_ino)
			continue;
		_cleanup_fd_ int dir = path_open_parent(tree, name, &other);
		if (dir < 0 || fstatat(dir, other, &theirs, AT_SYMLINK_NOFOLLOW) < 0 || theirs.st_ino == mine.st_ino)
			continue;
		char temporary[64];
		struct stat above;
		bool dated = fstat(dir, &above) == 0;
		snprintf(temporary, sizeof(temporary), ".cordon-link-%d", (int)getpid());
		if (link_as_user(parent, base, dir, temporary, ids) && renameat(dir, temporary, dir, other) < 0)
			unlinkat(dir, temporary, 0);
		if (dated && file_set_mtime(dir, timespec_ns(above.st_mtim)) < 0)
			continue; /* only its time */
	}
}

/* ---- one path ---------------------------------------------------------------------------------------------------------------- */

/* A directory that its owner may not write to is opened up while something in it is put back. Returns its mode, 0: nothing was done. */
static mode_t open_up(int dir)
{
	struct stat st;
	if (fstat(dir, &st) < 0 || (st.st_mode & 0700) == 0700 || file_chmod(dir, (st.st_mode & 07777) | 0700) < 0)
		return 0;
	return st.st_mode;
}

static int close_again(int dir, mode_t mode, int result, const char *path, struct cordon_error *err)
{
	if (mode && file_chmod(dir, mode & 07777) < 0 && result == 0)
		return err_sys(err, "cannot put back the directory of %s", path);
	return result;
}

static int remove_in(int parent, const char *base, const char *path, struct cordon_error *err);

static int remove_path(int tree, const char *path, struct cordon_error *err)
{
	const char *base;
	_cleanup_fd_ int parent = path_open_parent(tree, path, &base);
	if (parent < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot put back %s", path);
	mode_t was = open_up(parent);
	return close_again(parent, was, remove_in(parent, base, path, err), path, err);
}

static int remove_in(int parent, const char *base, const char *path, struct cordon_error *err)
{
	if (unlinkat(parent, base, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR || errno == EPERM) {
		if (unlinkat(parent, base, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno == ENOTEMPTY) /* what is in it is younger than the list of changes */
			return fs_remove_tree(parent, base, err);
	}
	return err_sys(err, "cannot put back %s", path);
}

/* Opens the file to be filled: the one that is there, if nobody sees it under another name, else a new one. */
static int open_file(int parent, const char *base, const struct stat *now, const struct layer_ids *ids)
{
	if (S_ISREG(now->st_mode) && now->st_nlink == 1) {
		int fd = openat(parent, base, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 || errno != EACCES)
			return fd;
	}
	if (now->st_mode && unlinkat(parent, base, 0) < 0)
		return -1;
	act_as(ids, true);
	int fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	act_as(ids, false);
	return fd;
}

static int make_link(int parent, const char *base, int source, const struct layer_ids *ids)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(source, "", text, sizeof(text) - 1);
	if (n < 0)
		return -1;
	text[n] = '\0';
	act_as(ids, true);
	int r = symlinkat(text, parent, base);
	act_as(ids, false);
	return r;
}

/* Makes what is neither a file nor there already; returns a handle for its metadata. */
static int make_other(int parent, const char *base, const struct stat *now, int source, mode_t mode, const struct layer_ids *ids)
{
	if (S_ISDIR(mode) && S_ISDIR(now->st_mode))
		return openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (now->st_mode && unlinkat(parent, base, S_ISDIR(now->st_mode) ? AT_REMOVEDIR : 0) < 0)
		return -1;
	int r = 0;
	if (S_ISLNK(mode)) {
		r = make_link(parent, base, source, ids);
	} else {
		act_as(ids, true);
		r = S_ISDIR(mode) ? mkdirat(parent, base, 0700) : mknodat(parent, base, S_IFIFO | 0600, 0);
		act_as(ids, false);
	}
	return r < 0 ? -1 : openat(parent, base, (S_ISDIR(mode) ? O_RDONLY | O_DIRECTORY : O_PATH) | O_NOFOLLOW | O_CLOEXEC);
}

static int restore_in(int tree, int parent, const char *base, struct names *names, const struct changes *changes, size_t at,
                      const struct layer_ids *ids, struct cordon_error *err)
{
	const struct view *want = names->want;
	const char *path = changes->items[at].path;
	struct view_entry e;
	struct stat now = {0};
	_cleanup_file_meta_ struct file_meta meta = {0};
	if (view_stat(want, path, &e, err) < 0)
		return -1;
	_cleanup_fd_ int source = view_open_entry(want, path, &e, err);
	if (source < 0)
		return -1;
	if (fstatat(parent, base, &now, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
		return err_sys(err, "cannot put back %s", path);
	if (file_meta_read(source, path, 0, &meta, err) < 0)
		return -1;
	ids_show(ids, &meta);
	const enum change_op op = changes->items[at].op;
	if (op == CHANGE_MODE || op == CHANGE_TIME) { /* what is in it is right */
		_cleanup_fd_ int there = openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		return there < 0 ? err_sys(err, "cannot put back %s", path)
		                 : file_meta_apply(there, path, &meta, ids->mapped ? 0 : COPY_OWNER_MAY_FAIL, err);
	}
	const bool file = S_ISREG(e.st.st_mode);
	const char *other;
	_cleanup_fd_ int other_dir = file ? find_other(names, tree, path, &e, changes, at + 1, &other) : -1;
	if (other_dir >= 0) {
		if (link_to_other(other_dir, other, parent, base, &now, ids)) {
			gather_group(names, tree, path, &e, changes, at + 1, parent, base, ids);
			return 0;
		}
		if (fstatat(parent, base, &now, AT_SYMLINK_NOFOLLOW) < 0)
			now.st_mode = 0;
	}
	_cleanup_fd_ int fd = file ? open_file(parent, base, &now, ids) : make_other(parent, base, &now, source, e.st.st_mode, ids);
	if (fd < 0 || (file && copy_data(source, fd, e.st.st_size) < 0))
		return err_sys(err, "cannot put back %s", path);
	return file_meta_apply(fd, path, &meta, ids->mapped ? 0 : COPY_OWNER_MAY_FAIL, err);
}

static int restore_path(int tree, struct names *names, const struct changes *changes, size_t at, const struct layer_ids *ids,
                        struct cordon_error *err)
{
	const char *base, *path = changes->items[at].path;
	_cleanup_fd_ int parent = path_open_parent(tree, path, &base);
	if (parent < 0)
		return err_sys(err, "cannot put back %s", path);
	mode_t was = open_up(parent);
	return close_again(parent, was, restore_in(tree, parent, base, names, changes, at, ids, err), path, err);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------- */

/* The time of a directory in which something was put back. */
static int restore_times(int tree, const struct view *want, const char *path, size_t len, struct cordon_error *err)
{
	_cleanup_free_ char *dir = strndup(path, len);
	struct view_entry e;
	if (!dir)
		return err_sys(err, "cannot put back %s", path);
	if (view_stat(want, dir, &e, err) < 0)
		return -1;
	if (!S_ISDIR(e.st.st_mode))
		return 0;
	const char *base = ".";
	_cleanup_fd_ int parent = *dir ? path_open_parent(tree, dir, &base) : fcntl(tree, F_DUPFD_CLOEXEC, 3);
	_cleanup_fd_ int fd = parent < 0 ? -1 : openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || file_set_mtime(fd, timespec_ns(e.st.st_mtim)) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot put back the time of %s", dir);
	return 0;
}

int putback(int tree, const struct view *want, const struct changes *changes, const struct layer_ids *ids, struct cordon_error *err)
{
	struct names names;
	int r = names_begin(&names, want, err);
	/* from the end: what is in a directory comes after it */
	for (size_t i = changes->count; r == 0 && i > 0; i--)
		if (!changes->items[i - 1].after || (S_ISDIR(changes->items[i - 1].before) && !S_ISDIR(changes->items[i - 1].after)))
			r = remove_path(tree, changes->items[i - 1].path, err);
	for (size_t i = 0; r == 0 && i < changes->count; i++)
		if (changes->items[i].after)
			r = restore_path(tree, &names, changes, i, ids, err);
	for (size_t i = changes->count; r == 0 && i > 0; i--) {
		const char *path = changes->items[i - 1].path, *slash = strrchr(path, '/');
		r = restore_times(tree, want, path, slash ? (size_t)(slash - path) : 0, err);
	}
	if (r == 0) /* the top is in no list of changes, and a name in it may have come and gone again */
		r = restore_times(tree, want, "", 0, err);
	names_end(&names);
	return r;
}
