/* SPDX-License-Identifier: Apache-2.0 */
/* A path on the host that is copied into a sandbox: what it is, all that is below it, and where in the sandbox it goes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "cmd/cp.h"

/* "a/b/", "a/.", "..": in a form whose last component is the name of an entry. Only what must be a directory may be reached through a link. */
static char *tidy(const char *from, bool *contents, struct cordon_error *err)
{
	const char *slash = strrchr(from, '/'), *last = slash ? slash + 1 : from;
	char *out;

	if (!*from) {
		err_set(err, CORDON_ERR_INPUT, "the path to copy from is empty");
		return NULL;
	}
	*contents = strcmp(last, ".") == 0;
	out = *contents || !*last || strcmp(last, "..") == 0 ? realpath(from, NULL) : strdup(from);
	if (!out)
		err_sys(err, "%s", from);
	return out;
}

int cp_open_source(const char *from, int *dir, char *name, struct cp_source *out, struct cordon_error *err)
{
	_cleanup_free_ char *path = tidy(from, &out->contents, err);
	struct stat st;

	if (!path)
		return -1;
	char *slash = strrchr(path, '/');
	snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : path);
	if (!*name)
		return err_set(err, CORDON_ERR_INPUT, "the root directory cannot be copied");
	if (slash)
		slash[slash == path] = '\0';
	*dir = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*dir < 0 || fstatat(*dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "%s", from);
	out->name = name;
	out->directory = S_ISDIR(st.st_mode);
	return 0;
}

/* ---- walking ----------------------------------------------------------------------------------------------------------------- */

/* "" is the source itself. */
static int open_below(int dir, const char *name, const char *path)
{
	_cleanup_free_ char *all = NULL;
	const char *base;

	if (asprintf(&all, "%s%s%s", name, *path ? "/" : "", path) < 0) {
		all = NULL;
		return -1;
	}
	_cleanup_fd_ int parent = path_open_parent(dir, all, &base);
	return parent < 0 ? -1 : openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int walk_entry(int fd, const char *path, const char *name, const struct cp_walk *walk, struct strlist *todo,
                      struct cordon_error *err)
{
	_cleanup_free_ char *sub = NULL;
	struct stat st;

	if (asprintf(&sub, "%s%s%s", path, *path ? "/" : "", name) < 0) {
		sub = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "%s", sub);
	if (walk->entry(walk->user, sub, fd, name, &st, err) < 0)
		return -1;
	return S_ISDIR(st.st_mode) ? strlist_add(todo, sub, err) : 0;
}

static int walk_directory(int fd, const char *path, const struct cp_walk *walk, struct strlist *todo, struct cordon_error *err)
{
	_cleanup_buf_ struct buf names = {0};

	if (fs_read_names(fd, &names) < 0)
		return err_sys(err, "cannot read %s", *path ? path : "the directory");
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		if (walk_entry(fd, path, names.data + at, walk, todo, err) < 0)
			return -1;
	return 0;
}

int cp_walk(int dir, const char *name, const struct cp_walk *walk, struct cordon_error *err)
{
	struct strlist todo = {0};
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "%s", name);
	r = walk->entry(walk->user, "", dir, name, &st, err);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = strlist_add(&todo, "", err);
	for (size_t i = 0; r == 0 && i < todo.count; i++) {
		_cleanup_fd_ int fd = open_below(dir, name, todo.items[i]);

		r = fd < 0 ? err_sys(err, "%s%s%s", name, *todo.items[i] ? "/" : "", todo.items[i])
		           : walk_directory(fd, todo.items[i], walk, &todo, err);
	}
	strlist_free(&todo);
	return r;
}

/* ---- the place --------------------------------------------------------------------------------------------------------------- */

static int check_parent(const struct view *v, const char *path, struct cordon_error *err)
{
	_cleanup_free_ char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	struct view_entry e;

	if (!parent)
		return err_sys(err, "cp");
	if (!slash)
		return 0; /* the top of the tree is always there */
	*slash = '\0';
	if (view_stat(v, parent, &e, err) < 0)
		return -1;
	if (S_ISDIR(e.st.st_mode))
		return 0;
	err_set(err, CORDON_ERR_NOT_FOUND, "no such directory in the sandbox: %.300s", parent);
	return S_ISLNK(e.st.st_mode) ? err_hint(err, "links in the sandbox are not followed") : -1;
}

int cp_place(const struct view *v, const struct cp_source *from, const struct cp_inside *to, char **path, struct cordon_error *err)
{
	struct view_entry e;
	bool into;

	*path = NULL;
	if (view_stat(v, to->path, &e, err) < 0)
		return -1;
	if (cp_into(from,
	            !e.st.st_mode && *to->path            ? CP_ABSENT
	            : S_ISDIR(e.st.st_mode) || !*to->path ? CP_DIRECTORY
	                                                  : CP_OTHER,
	            to->slash, to->path, &into, err) < 0)
		return -1;
	if (asprintf(path, "%s%s%s", to->path, into && *to->path ? "/" : "", into ? from->name : "") < 0) {
		*path = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return check_parent(v, *path, err);
}
