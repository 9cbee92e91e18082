/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules by which overlayfs merges directories (ovl_lookup() in the kernel's fs/overlayfs/namei.c, mounted with userxattr):
 *   - the topmost layer that has a name decides what it is; directories of lower layers are merged into a directory
 *   - a whiteout ends the search: a character device 0:0, or in a directory with user.overlay.opaque=x also an empty file with user.overlay.whiteout
 *   - what is no directory ends the merging of directories, and so does user.overlay.opaque=y, after the directory that has it
 *   - the tops of the layers are always merged
 * Beyond that, devices and sockets count as absent here, and in the seed nothing is a mark of overlayfs'.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/view_parts.h"

struct fd_link fd_link(int fd)
{
	struct fd_link l;

	snprintf(l.path, sizeof(l.path), "/proc/self/fd/%d", fd);
	return l;
}

static bool in_seed(const struct view *v, size_t layer)
{
	return v->seeded && layer == v->count - 1;
}

void merged_free(struct merged *m)
{
	merged_park(m);
	free(m->dirs);
	*m = (struct merged){0};
}

static int merged_add(struct merged *m, size_t layer, int fd, struct cordon_error *err)
{
	struct merged_dir *dirs = realloc(m->dirs, (m->count + 1) * sizeof(*dirs));

	if (!dirs) {
		close(fd);
		return err_sys(err, "cannot read the layers");
	}
	m->dirs = dirs;
	dirs[m->count++] = (struct merged_dir){.layer = (unsigned)layer, .fd = fd};
	return 0;
}

/* ---- marks -------------------------------------------------------------------------------------------------------------------- */

/* The value of user.overlay.opaque, if it is one byte, else 0; -1 on errors. */
static int read_mark(const struct view *v, size_t layer, int fd, struct cordon_error *err)
{
	unsigned char value;

	if (in_seed(v, layer))
		return 0;
	ssize_t n = fgetxattr(fd, "user.overlay.opaque", &value, 1);
	if (n < 0 && errno == EBADF) /* O_PATH */
		n = getxattr(fd_link(fd).path, "user.overlay.opaque", &value, 1);
	if (n == 1)
		return value;
	if (n == 0 || errno == ENODATA || errno == ENOTSUP || errno == ERANGE || errno == EACCES)
		return 0; /* EACCES: an ordinary user, and a directory that its owner has closed to himself */
	return err_sys(err, "cannot read the attributes of a directory");
}

/* 1: an empty file that stands for a whiteout; -1 on errors. */
static int is_marked_whiteout(const struct view *v, const struct merged_dir *d, const char *name, struct cordon_error *err)
{
	char value;
	int mark = read_mark(v, d->layer, d->fd, err);

	if (mark != 'x')
		return mark < 0 ? -1 : 0;
	_cleanup_fd_ int fd = openat(d->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 1 : err_sys(err, "cannot open %s", name);
	if (getxattr(fd_link(fd).path, "user.overlay.whiteout", &value, 0) >= 0)
		return 1;
	return errno == ENODATA || errno == ENOTSUP || errno == EACCES ? 0 : err_sys(err, "cannot read the attributes of %s", name);
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

static bool has_a_kind(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISFIFO(mode);
}

/* The entry in one layer. 1: it is there, or is hidden there; 0: look further down; -1 on errors. */
static int stat_in_layer(const struct view *v, const struct merged_dir *d, const char *name, struct view_entry *out,
                         struct cordon_error *err)
{
	struct stat st;

	if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == EACCES ? 0 : err_sys(err, "cannot look at %s", name);
	if (!has_a_kind(st.st_mode))
		return 1;
	int hidden = S_ISREG(st.st_mode) && st.st_size == 0 ? is_marked_whiteout(v, d, name, err) : 0;
	if (hidden == 0)
		*out = (struct view_entry){.layer = d->layer, .st = st};
	return hidden < 0 ? -1 : 1;
}

int merged_stat(const struct view *v, const struct merged *m, const char *name, struct view_entry *out, struct cordon_error *err)
{
	int found = 0;

	*out = (struct view_entry){0};
	for (size_t i = 0; i < m->count && !found; i++)
		found = stat_in_layer(v, &m->dirs[i], name, out, err);
	return found;
}

/* ---- directories -------------------------------------------------------------------------------------------------------------- */

/*
 * The directory `name` in a directory of one layer, *fd -1 if there is none. 1: it hides what is below, 0: it does not; -1 on errors. O_PATH
 * where it may not be read: for looking names up that is enough.
 */
static int enter_in_layer(const struct view *v, size_t layer, int dir, const char *name, int *fd, struct cordon_error *err)
{
	const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

	*fd = openat(dir, name, O_RDONLY | flags);
	if (*fd < 0 && errno == EACCES)
		*fd = openat(dir, name, O_PATH | flags);
	if (*fd < 0) {
		if (errno == ENOENT || errno == EACCES) /* EACCES: the directory above may not be searched */
			return 0;
		/* whatever else is there, a link included, hides what is below */
		return errno == ENOTDIR || errno == ELOOP ? 1 : err_sys(err, "cannot open %s", name);
	}
	int mark = read_mark(v, layer, *fd, err);
	if (mark >= 0)
		return mark == 'y';
	close(*fd);
	*fd = -1;
	return err_wrap(err, "%s", name);
}

int merged_enter(const struct view *v, const struct merged *m, const char *name, struct merged *out, struct cordon_error *err)
{
	int ended = 0, fd;

	*out = (struct merged){0};
	for (size_t i = 0; i < m->count && ended == 0; i++) {
		ended = enter_in_layer(v, m->dirs[i].layer, m->dirs[i].fd, name, &fd, err);
		if (fd >= 0 && merged_add(out, m->dirs[i].layer, fd, err) < 0)
			ended = -1;
	}
	if (ended < 0)
		merged_free(out);
	return ended;
}

/* The whole path in one layer; returns and *found as enter_in_layer(). */
static int find_in_layer(const struct view *v, size_t layer, const char *path, size_t len, int *found, struct cordon_error *err)
{
	char name[NAME_MAX + 1];
	int ended = 0;

	*found = openat(v->fds[layer], ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*found < 0)
		return err_sys(err, "cannot open the top of a layer");
	for (const char *p = path, *end = path + len; p < end && *found >= 0;) {
		size_t n = MIN(strcspn(p, "/"), (size_t)(end - p));
		_cleanup_fd_ int at = *found;

		memcpy(name, p, n);
		name[n] = '\0';
		int r = enter_in_layer(v, layer, at, name, found, err);
		if (r < 0)
			return -1;
		ended |= r;
		p += n + 1;
	}
	return ended;
}

int merged_find(const struct view *v, const char *path, size_t len, struct merged *out, struct cordon_error *err)
{
	int ended = 0, fd;

	*out = (struct merged){0};
	for (size_t i = 0; i < v->count && ended == 0; i++) {
		ended = find_in_layer(v, i, path, len, &fd, err);
		if (fd >= 0 && merged_add(out, i, fd, err) < 0)
			ended = -1;
	}
	if (ended < 0)
		merged_free(out);
	return ended;
}

/* Layer by layer: mostly the topmost few give the answer. */
int view_stat(const struct view *v, const char *path, struct view_entry *out, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/');

	*out = (struct view_entry){0};
	if (*path && !path_is_clean(path))
		return err_set(err, CORDON_ERR_INPUT, "%s: not a plain relative path", path);
	if (!*path)
		return v->count && fstat(v->fds[0], &out->st) < 0 ? err_sys(err, "cannot look at the top of a layer") : 0;
	for (size_t i = 0; i < v->count; i++) {
		_cleanup_fd_ int fd = -1;
		int ended = find_in_layer(v, i, path, slash ? (size_t)(slash - path) : 0, &fd, err);
		int found = ended < 0 || fd < 0
		                    ? ended
		                    : stat_in_layer(v, &(struct merged_dir){(unsigned)i, fd}, slash ? slash + 1 : path, out, err);
		if (found < 0)
			return err_wrap(err, "%s", path);
		if (found || ended)
			return 0;
	}
	return 0;
}

int merged_fd(const struct merged *m, size_t layer)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->dirs[i].layer == layer)
			return m->dirs[i].fd;
	return -1;
}

void merged_park(struct merged *m)
{
	for (size_t i = 0; i < m->count; i++) {
		cleanup_fd(&m->dirs[i].fd);
		m->dirs[i].fd = -1;
	}
}

int merged_reopen(const struct view *v, const char *path, struct merged *m, struct cordon_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++) {
		if (m->dirs[i].fd >= 0)
			continue;
		m->dirs[i].fd = path_open_dir(v->fds[m->dirs[i].layer], path, O_PATH);
		if (m->dirs[i].fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EACCES)
			return err_sys(err, "cannot open %s", path);
	}
	for (size_t i = 0; i < m->count; i++)
		if (m->dirs[i].fd >= 0)
			m->dirs[kept++] = m->dirs[i];
	m->count = kept;
	return 0;
}
