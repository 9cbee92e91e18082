/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of a sandbox: what its layers show, to a path on the host. The names and contents come from whatever ran inside, so nothing on the host is
 * followed or written through: each file is made under a name of our own and renamed, links are made as links, and below the directory that
 * the caller named only directories are entered.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/cp.h"
#include "layers/copy.h"

#define TEMP ".cordon-cp.tmp"

struct out {
	const struct view *view;
	int top;              /* the directory on the host */
	const char *name;     /* of the copy in it; NULL: what is copied goes into top itself */
	struct strlist todo;  /* directories in the sandbox whose entries are still to come */
	struct strlist there; /* their places below top; "": top itself */
	uint64_t *files;
};

static int make_link(int from, int to, const char *name, struct cordon_error *err)
{
	char target[4096];
	ssize_t n = readlinkat(from, "", target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(err, "cannot read the link");
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? err_sys(err, "cannot make a link") : 0;
}

/* Set-user-id bits stay inside: the copy belongs to the caller, who may be root. */
static int make_file(int from, int to, const char *name, const struct stat *st, struct cordon_error *err)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
	_cleanup_fd_ int fd = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(err, "cannot make a file");
	if (copy_data(from, fd, st->st_size) < 0 || fchmod(fd, st->st_mode & 0777) < 0 || futimens(fd, times) < 0)
		return err_sys(err, "cannot write");
	return 0;
}

/* One entry that is no directory. */
static int put_entry(struct out *o, const char *path, const struct view_entry *e, int to, const char *name, struct cordon_error *err)
{
	_cleanup_fd_ int from = view_open_entry(o->view, path, e, err);
	int r = -1;

	if (from < 0)
		return -1;
	unlinkat(to, TEMP, 0); /* of one that was killed */
	if (S_ISREG(e->st.st_mode))
		r = make_file(from, to, TEMP, &e->st, err);
	else if (S_ISLNK(e->st.st_mode))
		r = make_link(from, to, TEMP, err);
	else
		r = mkfifoat(to, TEMP, e->st.st_mode & 0777) < 0 ? err_sys(err, "cannot make a fifo") : 0;
	if (r == 0 && renameat(to, TEMP, to, name) < 0)
		r = err_sys(err, "cannot put it in place");
	if (r < 0) {
		unlinkat(to, TEMP, 0);
		return err_wrap(err, "%s", path);
	}
	++*o->files;
	return 0;
}

/* Modes come last: a directory may be read-only. */
static int put_directory(struct out *o, const char *path, const char *there, int to, const char *name, struct cordon_error *err)
{
	struct stat st;

	if (mkdirat(to, name, 0700) < 0 && (errno != EEXIST || fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))) {
		errno = errno == EEXIST ? ENOTDIR : errno;
		return err_sys(err, "cannot make directory %s", there);
	}
	return strlist_add(&o->todo, path, err) < 0 || strlist_add(&o->there, there, err) < 0 ? -1 : 0;
}

static int join(char **out, const char *a, const char *b, struct cordon_error *err)
{
	if (asprintf(out, "%s%s%s", a, *a && *b ? "/" : "", b) >= 0)
		return 0;
	*out = NULL;
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

static int open_there(int top, const char *there)
{
	const char *base;

	if (!*there)
		return fcntl(top, F_DUPFD_CLOEXEC, 3);
	_cleanup_fd_ int parent = path_open_parent(top, there, &base);
	return parent < 0 ? -1 : openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int put_entries(struct out *o, const char *path, const char *there, struct cordon_error *err)
{
	struct strlist names = {0};
	_cleanup_fd_ int to = open_there(o->top, there);
	int r = to < 0 ? err_sys(err, "cannot open %s", *there ? there : "the directory") : view_list(o->view, path, &names, err);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		_cleanup_free_ char *inner = NULL, *outer = NULL;
		struct view_entry e;

		if (join(&inner, path, names.items[i], err) < 0 || join(&outer, there, names.items[i], err) < 0 ||
		    view_stat(o->view, inner, &e, err) < 0)
			r = -1;
		else if (S_ISDIR(e.st.st_mode))
			r = put_directory(o, inner, outer, to, names.items[i], err);
		else if (e.st.st_mode)
			r = put_entry(o, inner, &e, to, names.items[i], err);
	}
	strlist_free(&names);
	return r;
}

/* Backwards: what is inside comes first, since making it changes the time of what is around it. */
static int finish_directories(struct out *o, size_t first, struct cordon_error *err)
{
	for (size_t i = o->todo.count; i > first; i--) {
		_cleanup_fd_ int fd = open_there(o->top, o->there.items[i - 1]);
		struct view_entry e;

		if (view_stat(o->view, o->todo.items[i - 1], &e, err) < 0)
			return -1;
		const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, e.st.st_mtim};
		if (fd < 0 || fchmod(fd, e.st.st_mode & 0777) < 0 || futimens(fd, times) < 0)
			return err_sys(err, "%s", o->there.items[i - 1]);
	}
	return 0;
}

static int put_tree(struct out *o, const char *path, struct cordon_error *err)
{
	const bool own = !o->name; /* top was there before: its mode is its own */

	if (o->name ? put_directory(o, path, o->name, o->top, o->name, err) < 0
	            : strlist_add(&o->todo, path, err) < 0 || strlist_add(&o->there, "", err) < 0)
		return -1;
	for (size_t i = 0; i < o->todo.count; i++)
		if (put_entries(o, o->todo.items[i], o->there.items[i], err) < 0)
			return -1;
	return finish_directories(o, own, err);
}

/* ---- the target on the host -------------------------------------------------------------------------------------------------- */

/* The caller's own path: links in it are the caller's business. *name: NULL where the copy goes into the directory itself. */
static int open_target(const struct cp_source *from, const char *to, int *dir, char name[NAME_MAX + 1], bool *named,
                       struct cordon_error *err)
{
	_cleanup_free_ char *parent = strdup(to);
	size_t len = parent ? strlen(parent) : 0;
	struct stat st;
	const bool there = stat(to, &st) == 0;
	bool into;

	if (!parent)
		return err_sys(err, "%s", to);
	if (len == 0)
		return err_set(err, CORDON_ERR_INPUT, "the path to copy to is empty");
	if (cp_into(from, !there ? CP_ABSENT : S_ISDIR(st.st_mode) ? CP_DIRECTORY : CP_OTHER, to[len - 1] == '/', to, &into, err) < 0)
		return -1;
	*named = into || !there || !S_ISDIR(st.st_mode);
	if (there && S_ISDIR(st.st_mode)) {
		snprintf(name, NAME_MAX + 1, "%s", from->name);
		*dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		while (len > 1 && parent[len - 1] == '/')
			parent[--len] = '\0';
		char *slash = strrchr(parent, '/');
		snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : parent);
		if (slash)
			slash[slash == parent] = '\0';
		*dir = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return *dir < 0 ? err_sys(err, "%s", to) : 0;
}

int cp_out(const struct view *v, const struct cp_inside *from, const char *to, uint64_t *files, struct cordon_error *err)
{
	const char *slash = strrchr(from->path, '/');
	struct cp_source source = {.name = slash ? slash + 1 : from->path, .contents = from->contents};
	char name[NAME_MAX + 1];
	struct view_entry e;
	_cleanup_fd_ int dir = -1;
	bool named = false;

	if (view_stat(v, from->path, &e, err) < 0)
		return -1;
	if (e.st.st_mode == 0 || ((from->slash || from->contents) && !S_ISDIR(e.st.st_mode)))
		return err_set(err, CORDON_ERR_NOT_FOUND, "no such %s in the sandbox: %s", e.st.st_mode ? "directory" : "file", from->path);
	if (!*from->path)
		source.name = from->tree == TREE_HOME ? "user" : "app";
	source.directory = S_ISDIR(e.st.st_mode);
	if (open_target(&source, to, &dir, name, &named, err) < 0)
		return -1;
	struct out o = {.view = v, .top = dir, .name = named ? name : NULL, .files = files};
	int r = source.directory ? put_tree(&o, from->path, err) : put_entry(&o, from->path, &e, dir, name, err);
	strlist_free(&o.todo);
	strlist_free(&o.there);
	return r;
}
