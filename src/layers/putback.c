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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
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

/*
 * A group is the names of one file in one layer. The first of them that is put back is linked to one that is in place, or becomes one; all others are linked to
 * that, so that a group costs what it has names, and not the square of it.
 */
struct group_name {
	uint64_t ino;
	uint32_t entry;
	uint32_t in_place; /* of the first name of a group: the one to link to, INDEX_NONE: not known */
};

struct group_names {
	struct tree_index index;
	struct group_name *items; /* of regular files, by inode */
	size_t count;
	bool read;
};

/* What is needed to find them: the names in each layer and in the seed, read when the first file with several turns up. */
struct names {
	const struct view *want;
	const struct changes *changes;
	struct group_names *layers; /* one per layer */
	struct buf path;
};

static int names_begin(struct names *n, const struct view *want, const struct changes *changes, struct cordon_error *err)
{
	*n = (struct names){.want = want, .changes = changes, .layers = calloc(want->count + 1, sizeof(*n->layers))};
	return n->layers ? 0 : err_sys(err, "cannot put files back");
}

static void names_end(struct names *n)
{
	for (size_t i = 0; n->layers && i < n->want->count; i++) {
		tree_index_free(&n->layers[i].index);
		free(n->layers[i].items);
	}
	free(n->layers);
	buf_free(&n->path);
}

static int by_inode(const void *a, const void *b)
{
	const struct group_name *x = a, *y = b;
	return x->ino != y->ino ? (x->ino < y->ino ? -1 : 1) : x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* False: without it each name is put back as a file of its own. */
static bool read_names(struct group_names *g, int layer)
{
	if (g->read)
		return g->items;
	g->read = true;
	if (tree_index_scan(layer, &g->index, NULL) < 0)
		return false;
	g->items = malloc((g->index.count + 1) * sizeof(*g->items));
	for (uint32_t k = 0; g->items && k < g->index.count; k++)
		if (S_ISREG(g->index.items[k].mode))
			g->items[g->count++] = (struct group_name){g->index.items[k].ino, k, INDEX_NONE};
	if (g->count)
		qsort(g->items, g->count, sizeof(*g->items), by_inode);
	return g->items;
}

/* The first name of a file, NULL: it has none. */
static struct group_name *find_group(struct group_names *g, uint64_t ino)
{
	size_t from = 0, to = g->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (g->items[middle].ino < ino)
			from = middle + 1;
		else
			to = middle;
	}
	return from < g->count && g->items[from].ino == ino ? &g->items[from] : NULL;
}

/* It is yet to be put back, after the first `done`. */
static bool is_pending(const struct changes *changes, size_t done, const char *path)
{
	const struct change *found = changes_find(changes, path);
	return found && (size_t)(found - changes->items) >= done;
}

/* True if a name in a layer is what the tree should show, and does; its path is in n->path then. */
static bool is_in_place(struct names *n, const struct view_entry *e, uint32_t entry, size_t done)
{
	struct view_entry shown;
	const char *path = tree_index_path(&n->layers[e->layer].index, entry, &n->path);
	return path && !is_pending(n->changes, done, path) && view_stat(n->want, path, &shown, NULL) == 0 && shown.layer == e->layer &&
	       shown.st.st_ino == e->st.st_ino;
}

/* What was spared has the same name, and other contents. */
static bool is_unchanged(const struct stat *st, const struct stat *want)
{
	return S_ISREG(st->st_mode) && st->st_size == want->st_size && timespec_ns(st->st_mtim) == timespec_ns(want->st_mtim);
}

/* Another name of the same file that is in place already: the directory, open, and its name there. -1: none. */
static int find_other(struct names *n, int tree, const struct group_name *group, const struct view_entry *e, size_t done,
                      const char **other_base)
{
	const struct group_names *g = &n->layers[e->layer];
	if (group->in_place != INDEX_NONE) {
		const char *there = tree_index_path(&g->index, group->in_place, &n->path);
		return there ? path_open_parent(tree, there, other_base) : -1;
	}
	for (const struct group_name *i = group; i < g->items + g->count && i->ino == group->ino; i++) {
		struct stat st;
		if (!is_in_place(n, e, i->entry, done))
			continue;
		_cleanup_fd_ int dir = path_open_parent(tree, n->path.data, other_base);
		if (dir >= 0 && fstatat(dir, *other_base, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_unchanged(&st, &e->st))
			return steal_fd(&dir);
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
static bool link_to_other(int dir, const char *other, int parent, const char *base, const struct stat *now, const struct stat *want,
                          const struct layer_ids *ids)
{
	struct stat st;
	if (fstatat(dir, other, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_unchanged(&st, want))
		return false;
	if (now->st_mode && st.st_ino == now->st_ino)
		return true;
	if (now->st_mode && unlinkat(parent, base, S_ISDIR(now->st_mode) ? AT_REMOVEDIR : 0) < 0)
		return false;
	return link_as_user(dir, other, parent, base, ids);
}

static void link_anew(int parent, const char *base, int dir, const char *other, const struct layer_ids *ids)
{
	char temporary[64];
	struct stat above;
	bool dated = fstat(dir, &above) == 0;
	snprintf(temporary, sizeof(temporary), ".cordon-link-%d", (int)getpid());
	if (link_as_user(parent, base, dir, temporary, ids) && renameat(dir, temporary, dir, other) < 0)
		unlinkat(dir, temporary, 0);
	if (dated && file_set_mtime(dir, timespec_ns(above.st_mtim)) < 0)
		return; /* only its time */
}

/*
 * The kernel makes a file of its own of a name that is linked to, when it comes from a layer below; the rest of the names would stay with the old one. What cannot be
 * linked again keeps its contents, and is a file of its own.
 */
static void gather_group(struct names *n, int tree, size_t layer, const struct group_name *group, const struct layer_ids *ids)
{
	const struct group_names *g = &n->layers[layer];
	const struct view_entry e = {.layer = layer, .st = {.st_ino = group->ino}};
	const char *base, *other, *path = tree_index_path(&g->index, group->in_place, &n->path);
	struct stat mine, theirs;
	_cleanup_fd_ int parent = path ? path_open_parent(tree, path, &base) : -1;
	_cleanup_free_ char *name = parent < 0 ? NULL : strdup(base); /* the path's memory is used again */
	if (!name || fstatat(parent, name, &mine, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	for (const struct group_name *i = group; i < g->items + g->count && i->ino == group->ino; i++) {
		if (!is_in_place(n, &e, i->entry, n->changes->count))
			continue;
		_cleanup_fd_ int dir = path_open_parent(tree, n->path.data, &other);
		if (dir >= 0 && fstatat(dir, other, &theirs, AT_SYMLINK_NOFOLLOW) == 0 && theirs.st_ino != mine.st_ino &&
		    is_unchanged(&theirs, &mine))
			link_anew(parent, name, dir, other, ids);
	}
}

static void gather_groups(struct names *n, int tree, const struct layer_ids *ids)
{
	for (size_t layer = 0; layer < n->want->count; layer++)
		for (size_t i = 0; i < n->layers[layer].count; i++)
			if (n->layers[layer].items[i].in_place != INDEX_NONE)
				gather_group(n, tree, layer, &n->layers[layer].items[i], ids);
}

/* True if it is a name of a file that is in place, now. In any case the others of its group are linked to this one from now on. */
static bool join_group(struct names *n, int tree, int parent, const char *base, size_t at, const struct view_entry *e,
                       const struct stat *now, const struct layer_ids *ids)
{
	struct group_names *g = &n->layers[e->layer];
	const char *other;
	if (!S_ISREG(e->st.st_mode) || e->st.st_nlink < 2 || !read_names(g, n->want->fds[e->layer]))
		return false;
	struct group_name *group = find_group(g, e->st.st_ino);
	if (!group)
		return false;
	_cleanup_fd_ int dir = find_other(n, tree, group, e, at, &other);
	const bool joined = dir >= 0 && link_to_other(dir, other, parent, base, now, &e->st, ids);
	group->in_place = tree_index_find(&g->index, n->changes->items[at].path);
	return joined;
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

static int restore_in(int tree, int parent, const char *base, struct names *names, size_t at, const struct layer_ids *ids,
                      struct cordon_error *err)
{
	const struct view *want = names->want;
	const char *path = names->changes->items[at].path;
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
	const enum change_op op = names->changes->items[at].op;
	if (op == CHANGE_MODE || op == CHANGE_TIME) { /* what is in it is right */
		_cleanup_fd_ int there = openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		return there < 0 ? err_sys(err, "cannot put back %s", path)
		                 : file_meta_apply(there, path, &meta, ids->mapped ? 0 : COPY_OWNER_MAY_FAIL, err);
	}
	const bool file = S_ISREG(e.st.st_mode);
	if (join_group(names, tree, parent, base, at, &e, &now, ids))
		return 0;
	if (now.st_mode && fstatat(parent, base, &now, AT_SYMLINK_NOFOLLOW) < 0) /* it went on the way there */
		now.st_mode = 0;
	_cleanup_fd_ int fd = file ? open_file(parent, base, &now, ids) : make_other(parent, base, &now, source, e.st.st_mode, ids);
	if (fd < 0 || (file && copy_data(source, fd, e.st.st_size) < 0))
		return err_sys(err, "cannot put back %s", path);
	return file_meta_apply(fd, path, &meta, ids->mapped ? 0 : COPY_OWNER_MAY_FAIL, err);
}

static int restore_path(int tree, struct names *names, size_t at, const struct layer_ids *ids, struct cordon_error *err)
{
	const char *base, *path = names->changes->items[at].path;
	_cleanup_fd_ int parent = path_open_parent(tree, path, &base);
	if (parent < 0)
		return err_sys(err, "cannot put back %s", path);
	mode_t was = open_up(parent);
	return close_again(parent, was, restore_in(tree, parent, base, names, at, ids, err), path, err);
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

/* The directory that a path is in. */
static size_t parent_len(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

/* Each directory once: those next to one another in the list are in the same, as a rule. */
static int restore_all_times(int tree, const struct view *want, const struct changes *changes, struct cordon_error *err)
{
	for (size_t i = changes->count; i > 0; i--) {
		const char *path = changes->items[i - 1].path, *last = i < changes->count ? changes->items[i].path : NULL;
		const size_t len = parent_len(path);
		if (last && parent_len(last) == len && strncmp(last, path, len) == 0)
			continue;
		if (restore_times(tree, want, path, len, err) < 0)
			return -1;
	}
	return 0;
}

static int read_top(int tree, const struct view *want, const struct layer_ids *ids, struct file_meta *out, struct cordon_error *err)
{
	struct view_entry e;
	if (want->count == 0) /* there is no layer at all: as layer_begin() makes it */
		return file_meta_read(tree, "the top of the tree", 0, out, err);
	if (view_stat(want, "", &e, err) < 0)
		return -1;
	_cleanup_fd_ int source = view_open_entry(want, "", &e, err);
	if (source < 0 || file_meta_read(source, "the top of the tree", 0, out, err) < 0)
		return -1;
	ids_show(ids, out);
	return 0;
}

int putback_top(int tree, const struct view *want, bool inherited, const struct layer_ids *ids, struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta meta = {0};
	if (read_top(tree, want, ids, &meta, err) < 0)
		return -1;
	struct file_meta plain = meta;
	if (want->count == 0)
		plain.mode = S_IFDIR | 0755;
	if (inherited || want->count == 0) {
		plain.mode &= S_IFMT | 01777;
		plain.attr_count = 0;
	}
	return file_meta_apply(tree, "the top of the tree", &plain, ids->mapped ? 0 : COPY_OWNER_MAY_FAIL, err);
}

/*
 * Whether somebody has it bound. A datagram socket is refused by one of another kind, but in another way than by one that nobody has any more; and where it is
 * not refused, nobody hears of it.
 */
bool putback_is_used(int dir, const char *name)
{
	_cleanup_fd_ int there = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", there);
	return there >= 0 && (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0 || errno != ECONNREFUSED);
}

int putback(int tree, const struct view *want, const struct changes *changes, const struct layer_ids *ids, struct cordon_error *err)
{
	struct names names;
	int r = names_begin(&names, want, changes, err);
	mode_t was = open_up(tree);
	/* from the end: what is in a directory comes after it */
	for (size_t i = changes->count; r == 0 && i > 0; i--)
		if (!changes->items[i - 1].after || (S_ISDIR(changes->items[i - 1].before) && !S_ISDIR(changes->items[i - 1].after)))
			r = remove_path(tree, changes->items[i - 1].path, err);
	for (size_t i = 0; r == 0 && i < changes->count; i++)
		if (changes->items[i].after)
			r = restore_path(tree, &names, i, ids, err);
	if (r == 0)
		gather_groups(&names, tree, ids);
	if (r == 0)
		r = restore_all_times(tree, want, changes, err);
	if (r == 0) /* a name in the top may have come and gone again */
		r = restore_times(tree, want, "", 0, err);
	names_end(&names);
	return close_again(tree, was, r, "the top of the tree", err);
}
