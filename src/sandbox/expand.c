/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/expand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "policy/cover.h"

struct walk {
	const struct expand *x;
	uint32_t entries;
	char path[PATH_MAX];
	size_t len;
};

static bool any_names(const struct string_list *patterns, const char *path)
{
	for (uint32_t i = 0; i < patterns->count; i++)
		if (cover_names(patterns->items[i], path))
			return true;
	return false;
}

static bool any_below(const struct string_list *patterns, const char *path)
{
	for (uint32_t i = 0; i < patterns->count; i++)
		if (cover_below(patterns->items[i], path))
			return true;
	return false;
}

static bool skipped(const struct string_list *paths, const char *path)
{
	for (uint32_t i = 0; i < paths->count; i++)
		if (strcmp(paths->items[i], path) == 0)
			return true;
	return false;
}

/* Hiding it would hide one of those that are not to be entered. */
static bool leads_to_skipped(const struct string_list *paths, const char *path)
{
	for (uint32_t i = 0; i < paths->count; i++)
		if (fs_path_within(paths->items[i], path))
			return true;
	return false;
}

/* ---- names that begin with a dot ---------------------------------------------------------------------------------------------- */

static bool spelled(const struct string_list *keep, const char *path, size_t hidden)
{
	for (uint32_t i = 0; i < keep->count; i++)
		if (cover_spells(keep->items[i], path, hidden) && cover_path(keep->items[i], path, false))
			return true;
	return false;
}

/* It leads to something that is spelled out further down. */
static bool leads_on(const struct string_list *keep, const char *path, size_t hidden)
{
	for (uint32_t i = 0; i < keep->count; i++)
		if (cover_spells(keep->items[i], path, hidden) && cover_below(keep->items[i], path))
			return true;
	return false;
}

static bool hidden_name(const struct expand *x, const char *path, bool is_dir)
{
	const size_t hidden = x->dots ? cover_hidden_part(path) : 0;

	return hidden > 0 && !spelled(&x->keep, path, hidden) && !(is_dir && leads_on(&x->keep, path, hidden));
}

/* ---- the walk ----------------------------------------------------------------------------------------------------------------- */

static bool may_hold_some(const struct expand *x, const char *path)
{
	return x->dots || any_below(&x->patterns, path) || (any_names(&x->patterns, path) && leads_to_skipped(&x->skip, path));
}

static int walk_directory(struct walk *w, int fd, int depth, struct cordon_error *err);

/* 1: found, and what lies in it goes with it. */
static int judge(const struct walk *w, int dir, const char *name, bool is_dir, struct cordon_error *err)
{
	const struct expand *x = w->x;

	if (leads_to_skipped(&x->skip, w->path) || (!any_names(&x->patterns, w->path) && !hidden_name(x, w->path, is_dir)))
		return 0;
	if (x->found(x->arg, &(struct expand_entry){dir, name, w->path, is_dir}, err) < 0)
		return -1;
	return x->within ? 0 : 1;
}

static int enter(struct walk *w, int dir, const char *name, int depth, struct cordon_error *err)
{
	const struct expand *x = w->x;
	const struct expand_entry entry = {dir, name, w->path, true};
	int fd;

	if (depth >= EXPAND_DEPTH)
		return err_set(err, CORDON_ERR_INPUT, "%.200s...: too deep to be searched for what the policy names (%d directories)",
		               w->path, EXPAND_DEPTH);
	fd = fs_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0, FS_BENEATH);
	if (fd >= 0)
		return walk_directory(w, fd, depth + 1, err);
	if (errno == EACCES || errno == EPERM)
		return x->hiding ? x->found(x->arg, &entry, err) : 0;
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) /* it was replaced meanwhile */
		return 0;
	return err_sys(err, "cannot search %.200s", w->path);
}

static int visit(struct walk *w, int dir, const struct dirent *d, int depth, struct cordon_error *err)
{
	bool is_dir = d->d_type == DT_DIR, is_link = d->d_type == DT_LNK;
	struct stat st;
	int r;

	if (++w->entries > EXPAND_ENTRIES) {
		err_set(err, CORDON_ERR_INPUT, "%s holds more than %u entries: too many to be searched for what the policy names",
		        w->x->name, EXPAND_ENTRIES);
		return err_hint(err, "name directories instead of patterns with wildcards");
	}
	if (d->d_type == DT_UNKNOWN) {
		if (fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		is_dir = S_ISDIR(st.st_mode);
		is_link = S_ISLNK(st.st_mode);
	}
	if (is_link || skipped(&w->x->skip, w->path))
		return 0;
	r = judge(w, dir, d->d_name, is_dir, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	return is_dir && may_hold_some(w->x, w->path) ? enter(w, dir, d->d_name, depth, err) : 0;
}

/* Takes fd over. */
static int walk_directory(struct walk *w, int fd, int depth, struct cordon_error *err)
{
	const size_t len = w->len;
	const struct dirent *d;
	int r = 0;
	_cleanup_dir_ DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return err_sys(err, "cannot search %.200s", w->path);
	}
	while (r == 0 && (errno = 0, d = readdir(dir))) {
		const char *slash = len == 1 ? "" : "/"; /* below the root */
		int n;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		n = snprintf(w->path + len, sizeof(w->path) - len, "%s%s", slash, d->d_name);
		if (n < 0 || (size_t)n >= sizeof(w->path) - len) {
			w->path[len] = '\0';
			return err_set(err, CORDON_ERR_INPUT, "%.200s...: too deep to be searched for what the policy names", w->path);
		}
		w->len = len + (size_t)n;
		r = visit(w, dirfd(dir), d, depth, err);
		w->len = len;
		w->path[len] = '\0';
	}
	return r == 0 && !d && errno ? err_sys(err, "cannot search %.200s", w->path) : r;
}

/* A plain path needs no walk. 1 if it was one. */
static int find_plain(const struct expand *x, int start, const char *pattern, struct cordon_error *err)
{
	char path[PATH_MAX];
	const size_t len = cover_stem(pattern), name_len = strcmp(x->name, "/") == 0 ? 0 : strlen(x->name);
	struct stat st;

	if (cover_plain_part(pattern) < len || len == 0 || len >= sizeof(path))
		return 0;
	memcpy(path, pattern, len);
	path[len] = '\0';
	if (!fs_path_within(path, x->name) || leads_to_skipped(&x->skip, path))
		return 1;
	/* absolute links mean the root's; where the start goes by another name, they cannot be told from it yet */
	const bool own_name = strcmp(x->start, ".") == 0 || strcmp(x->name + 1, x->start) == 0;
	const char *rest = path + name_len + (path[name_len] == '/');
	_cleanup_fd_ int fd = x->hiding ? fs_open(own_name ? x->root : start,
	                                          own_name ? path + 1
	                                          : *rest  ? rest
	                                                   : ".",
	                                          O_PATH, 0, FS_IN_ROOT)
	                                : fs_open(start, *rest ? rest : ".", O_PATH | O_NOFOLLOW, 0, FS_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 1
		                                                                                : err_sys(err, "cannot search %s", path);
	if (S_ISLNK(st.st_mode))
		return 1;
	return x->found(x->arg, &(struct expand_entry){fd, "", path, S_ISDIR(st.st_mode)}, err) < 0 ? -1 : 1;
}

int expand(const struct expand *x, struct cordon_error *err)
{
	_cleanup_free_ const char **wild = calloc(x->patterns.count + 1, sizeof(*wild));
	struct expand rest = *x;
	struct walk w = {.x = &rest};
	_cleanup_fd_ int start = fs_open(x->root, x->start, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	int r;

	if (!wild)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (start < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES ? 0
		                                                                                : err_sys(err, "cannot search %s", x->name);
	rest.patterns = (struct string_list){wild, 0};
	for (uint32_t i = 0; i < x->patterns.count; i++) {
		r = find_plain(x, start, x->patterns.items[i], err);
		if (r < 0)
			return -1;
		if (r == 0)
			wild[rest.patterns.count++] = x->patterns.items[i];
	}
	if (!x->dots && rest.patterns.count == 0)
		return 0;
	if ((size_t)snprintf(w.path, sizeof(w.path), "%s", x->name) >= sizeof(w.path))
		return err_set(err, CORDON_ERR_INPUT, "%.200s...: the path is too long", x->name);
	w.len = strlen(w.path);
	r = judge(&w, start, "", true, err);
	if (r == 0 && may_hold_some(&rest, w.path))
		r = enter(&w, start, ".", 0, err);
	return r < 0 ? -1 : 0;
}
