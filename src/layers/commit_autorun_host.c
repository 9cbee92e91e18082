/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of ordinary names that run by themselves because the host says so: its git configuration names a directory of hooks
 * (core.hooksPath), another configuration (include.path) or a program (filter.x.clean, core.fsmonitor …) that lies in the workspace, or a
 * hook or an auto-run file is a link to one.
 *
 * The host's files are read as data; no git is run. What they say is the user's own, but a mistake in them must not lead us astray: every
 * file and list has a limit, and nothing but a regular file is read. Conditions of an includeIf are taken to hold.
 *
 * Not followed: what a hook or such a program runs in its turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/autorun_parts.h"
#include "layers/gitconfig.h"

#define CONFIG_MAX ((size_t)1 << 20)
#define CONFIG_DEPTH_MAX 10 /* git's own limit */
#define CONFIG_FILES_MAX 200
#define LEADS_MAX 10000
#define NAMES_MAX 1000000
#define LINKS_MAX 40 /* the kernel's own limit */

/* Paths longer than PATH_MAX are none that git could open. */
struct path {
	char text[PATH_MAX];
};

static bool path_set(struct path *out, const char *dir, const char *name)
{
	int n = *name == '/' ? snprintf(out->text, sizeof(out->text), "%s", name)
	                     : snprintf(out->text, sizeof(out->text), "%s/%s", dir, name);
	return n >= 0 && (size_t)n < sizeof(out->text);
}

static void path_cut(char *path)
{
	char *slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
}

/* ---- where a path leads -------------------------------------------------------------------------------------------------------- */

static int too_much(const char *what, const char *path, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_DENIED, "cannot tell what runs by itself: %s %s", what, path);
	return err_hint(err, "look at what is to be committed, then use --allow-autorun");
}

/* Remembers an absolute path without links if it is in the workspace. */
static int add_inside(struct leads *l, const char *path, struct cordon_error *err)
{
	size_t n = strcmp(l->top, "/") == 0 ? 0 : strlen(l->top);
	if (strncmp(path, l->top, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return 0;
	path += n + (path[n] == '/');
	if (strlist_has(&l->paths, path))
		return 0;
	if (l->paths.count == LEADS_MAX)
		return too_much("git and links lead to too many paths in", l->top, err);
	return strlist_add(&l->paths, path, err);
}

/*
 * Every link in the workspace on the way along an absolute path, and what it comes to in the end. What does not exist leads on by its
 * name: it may be what this commit makes.
 */
static int add_lead(struct leads *l, const char *path, struct cordon_error *err)
{
	struct path rest, next;
	char at[PATH_MAX] = "", target[PATH_MAX];
	int links = 0;

	if (!path_set(&rest, "", path))
		return 0;
	for (char *p = rest.text;;) {
		p += strspn(p, "/");
		size_t n = strcspn(p, "/"), len = strlen(at);
		if (n == 0)
			return add_inside(l, *at ? at : "/", err);
		if (n == 2 && strncmp(p, "..", 2) == 0)
			path_cut(at);
		else if (n != 1 || *p != '.')
			if (snprintf(at + len, sizeof(at) - len, "/%.*s", (int)n, p) >= (int)(sizeof(at) - len))
				return 0;
		p += n;
		ssize_t size = strlen(at) > len ? readlink(at, target, sizeof(target) - 1) : -1;
		if (size < 0)
			continue;
		if (add_inside(l, at, err) < 0)
			return -1;
		target[size] = '\0';
		int whole = snprintf(next.text, sizeof(next.text), "%s%s", target, p);
		if (++links > LINKS_MAX || whole < 0 || (size_t)whole >= sizeof(next.text))
			return 0;
		if (target[0] == '/')
			at[0] = '\0';
		else
			path_cut(at);
		rest = next;
		p = rest.text;
	}
}

/* The links in a directory whose names are wanted lead on. */
static int add_links_in(struct leads *l, const char *path, bool (*wanted)(const char *name), struct cordon_error *err)
{
	_cleanup_dir_ DIR *dir = opendir(path);
	struct path entry;
	struct dirent *e;
	for (size_t n = 0; dir && (e = readdir(dir)); n++) {
		if (n == NAMES_MAX)
			return too_much("there are too many names in", path, err);
		if ((e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) || strcmp(e->d_name, "..") == 0 || !wanted(e->d_name))
			continue;
		if (path_set(&entry, path, e->d_name) && add_lead(l, entry.text, err) < 0)
			return -1;
	}
	return 0;
}

static bool any_name(const char *name)
{
	return strcmp(name, ".") != 0;
}

static bool autorun_name(const char *name)
{
	const char *what;
	return commit_is_autorun(name, S_IFLNK | 0777, &what);
}

static int add_hooks(struct leads *l, const char *path, struct cordon_error *err)
{
	return add_lead(l, path, err) < 0 ? -1 : add_links_in(l, path, any_name, err);
}

/* ---- configuration ------------------------------------------------------------------------------------------------------------- */

enum lead { LEAD_INCLUDE, LEAD_HOOKS, LEAD_COMMAND };

/* Keys whose values git runs, or looks for hooks in, without being asked for just that. "*": any key. */
static const struct {
	const char *section, *key;
	enum lead lead;
} keys[] = {
	{"include", "path", LEAD_INCLUDE},
	{"includeif", "path", LEAD_INCLUDE},
	{"core", "hookspath", LEAD_HOOKS},
	{"init", "templatedir", LEAD_HOOKS},
	{"hook", "command", LEAD_COMMAND},
	{"core", "fsmonitor", LEAD_COMMAND},
	{"core", "sshcommand", LEAD_COMMAND},
	{"core", "gitproxy", LEAD_COMMAND},
	{"core", "askpass", LEAD_COMMAND},
	{"core", "editor", LEAD_COMMAND},
	{"core", "pager", LEAD_COMMAND},
	{"core", "alternaterefscommand", LEAD_COMMAND},
	{"sequence", "editor", LEAD_COMMAND},
	{"pager", "*", LEAD_COMMAND},
	{"interactive", "difffilter", LEAD_COMMAND},
	{"filter", "clean", LEAD_COMMAND},
	{"filter", "smudge", LEAD_COMMAND},
	{"filter", "process", LEAD_COMMAND},
	{"diff", "external", LEAD_COMMAND},
	{"diff", "command", LEAD_COMMAND},
	{"diff", "textconv", LEAD_COMMAND},
	{"merge", "driver", LEAD_COMMAND},
	{"gpg", "program", LEAD_COMMAND},
	{"credential", "helper", LEAD_COMMAND},
	{"trailer", "command", LEAD_COMMAND},
	{"trailer", "cmd", LEAD_COMMAND},
	{"submodule", "update", LEAD_COMMAND},
	{"remote", "uploadpack", LEAD_COMMAND},
	{"remote", "receivepack", LEAD_COMMAND},
	{"uploadpack", "packobjectshook", LEAD_COMMAND},
};

struct config {
	struct leads *leads;
	const char *root; /* the top of the work tree: hooks and programs run there */
	const char *dir;  /* of this file */
	int depth;
};
static int read_config(struct leads *l, const char *file, const char *root, int depth, struct cordon_error *err);

/* As git expands a value that is a path. */
static bool expand(struct path *out, const char *dir, const char *value)
{
	const char *home = getenv("HOME");
	if (strncmp(value, ":(optional)", 11) == 0)
		value += 11;
	if (strncmp(value, "~/", 2) == 0)
		return home && *home == '/' && path_set(out, home, value + 2);
	return *value && path_set(out, dir, value);
}

/*
 * A word of a command leads to a file if it has a slash, or if it is an argument and there is such a file; a program without a slash is
 * looked for on the search path. Nobody runs a directory.
 */
static int add_word(struct leads *l, const char *root, const char *word, bool first, struct cordon_error *err)
{
	struct path path;
	struct stat st;
	if (!expand(&path, root, word))
		return 0;
	bool there = stat(path.text, &st) == 0;
	if (strchr(word, '/') ? there && S_ISDIR(st.st_mode) : first || !there || !S_ISREG(st.st_mode))
		return 0;
	return add_lead(l, path.text, err);
}

static int add_command(struct leads *l, const char *root, const char *command, struct cordon_error *err)
{
	static const char between[] = " \t\n\"'`;&|()<>$!=,";
	struct path word;
	for (bool first = true;; first = false) {
		command += strspn(command, between);
		size_t n = strcspn(command, between);
		if (n == 0)
			return 0;
		if (n < sizeof(word.text)) {
			memcpy(word.text, command, n);
			word.text[n] = '\0';
			if (add_word(l, root, word.text, first, err) < 0)
				return -1;
		}
		command += n;
	}
}

static int add_setting(void *arg, const struct git_setting *s, struct cordon_error *err)
{
	const struct config *c = arg;
	struct path path;
	size_t i = 0;
	while (i < ARRAY_SIZE(keys) &&
	       (strcmp(keys[i].section, s->section) != 0 || (keys[i].key[0] != '*' && strcmp(keys[i].key, s->key) != 0)))
		i++;
	if (i == ARRAY_SIZE(keys))
		return 0;
	switch (keys[i].lead) {
	case LEAD_INCLUDE:
		return expand(&path, c->dir, s->value) ? read_config(c->leads, path.text, c->root, c->depth + 1, err) : 0;
	case LEAD_HOOKS:
		return expand(&path, c->root, s->value) ? add_hooks(c->leads, path.text, err) : 0;
	case LEAD_COMMAND:
		return add_command(c->leads, c->root, s->value, err);
	default:
		return 0;
	}
}

/* A whole file, or nothing if there is none that may be read. More than max bytes are an error. */
static int read_file(const char *path, size_t max, struct buf *out, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	buf_add(out, "", 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	for (;;) {
		char *to = buf_reserve(out, 4096);
		ssize_t n = to ? read(fd, to, 4096) : -1;
		if (n < 0 && to && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot read %s", path);
		if (n == 0)
			break;
		out->len += (size_t)n;
		if (out->len > max)
			return too_much("too much is in", path, err);
	}
	buf_add(out, "", 0);
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

static int read_config(struct leads *l, const char *file, const char *root, int depth, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	if (depth > CONFIG_DEPTH_MAX)
		return 0;
	_cleanup_free_ char *dir = strdup(file);
	if (!dir)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	path_cut(dir);
	struct config c = {.leads = l, .root = root, .dir = dir, .depth = depth};
	if (l->files++ == CONFIG_FILES_MAX)
		return too_much("too many files are included by", file, err);
	if (add_lead(l, file, err) < 0 || read_file(file, CONFIG_MAX, &text, err) < 0)
		return -1;
	return git_config_parse(text.data, text.len, add_setting, &c, err);
}

static int read_config_in(struct leads *l, const char *dir, const char *name, const char *root, struct cordon_error *err)
{
	struct path file;
	return path_set(&file, dir, name) ? read_config(l, file.text, root, 0, err) : 0;
}

/* The system's and the user's; what they name relatively is in this work tree. */
static int read_common_config(struct leads *l, const char *root, struct cordon_error *err)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	if (read_config_in(l, "/etc", "gitconfig", root, err) < 0)
		return -1;
	if (xdg && *xdg == '/' && read_config_in(l, xdg, "git/config", root, err) < 0)
		return -1;
	if (!home || *home != '/')
		return 0;
	return read_config_in(l, home, ".config/git/config", root, err) < 0 ? -1 : read_config_in(l, home, ".gitconfig", root, err);
}

/* ---- repositories -------------------------------------------------------------------------------------------------------------- */

/* A file that holds one path and nothing else but a prefix: `gitdir: ` in .git, none in commondir. 1: there is one. */
static int read_pointer(const char *dir, const char *name, const char *prefix, struct path *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	struct path file;
	size_t skip = strlen(prefix);
	if (!path_set(&file, dir, name))
		return 0;
	if (read_file(file.text, 2 * (size_t)PATH_MAX, &text, err) < 0)
		return -1;
	if (text.len <= skip || strncmp(text.data, prefix, skip) != 0)
		return 0;
	char *value = text.data + skip;
	value[strcspn(value, "\r\n")] = '\0';
	return *value && path_set(out, dir, value);
}

static int add_repository(struct leads *l, const char *git, const char *root, struct cordon_error *err)
{
	struct path common, hooks;
	l->files = 0;
	int r = read_pointer(git, "commondir", "", &common, err);
	if (r < 0 || (r == 0 && !path_set(&common, "", git)))
		return r;
	if (read_config_in(l, common.text, "config", root, err) < 0 || read_config_in(l, git, "config.worktree", root, err) < 0 ||
	    read_common_config(l, root, err) < 0)
		return -1;
	return path_set(&hooks, common.text, "hooks") ? add_hooks(l, hooks.text, err) : 0;
}

/* A directory whose .git is a repository, or says where that is. */
static int add_work_tree(struct leads *l, const char *root, struct cordon_error *err)
{
	struct path git;
	struct stat st;
	if (!path_set(&git, root, ".git") || stat(git.text, &st) < 0)
		return 0;
	if (S_ISREG(st.st_mode)) {
		int r = read_pointer(root, ".git", "gitdir: ", &git, err);
		if (r <= 0)
			return r;
	}
	return add_repository(l, git.text, root, err);
}

static bool path_below_top(const struct leads *l, const char *path, size_t len, struct path *out)
{
	int n = snprintf(out->text, sizeof(out->text), "%s%s%.*s", l->top, len ? "/" : "", (int)len, path);
	return len < sizeof(out->text) && n >= 0 && (size_t)n < sizeof(out->text);
}

int leads_of_work_tree(struct leads *l, const char *path, size_t len, struct cordon_error *err)
{
	struct path root;
	if (!path_below_top(l, path, len, &root))
		return 0;
	return add_work_tree(l, root.text, err) < 0 ? -1 : add_links_in(l, root.text, autorun_name, err);
}

int leads_of_repository(struct leads *l, const char *path, size_t len, struct cordon_error *err)
{
	struct path git;
	return path_below_top(l, path, len, &git) ? add_repository(l, git.text, git.text, err) : 0;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

int leads_begin(struct leads *l, int dir, struct cordon_error *err)
{
	struct path above;
	*l = (struct leads){0};
	if (fs_fd_path(dir, above.text, sizeof(above.text)) < 0)
		return err_sys(err, "cannot find the workspace's path");
	l->top = strdup(above.text);
	if (!l->top)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (read_common_config(l, l->top, err) < 0 || add_links_in(l, l->top, autorun_name, err) < 0)
		return -1;
	while (above.text[0] && strcmp(above.text, "/") != 0) {
		path_cut(above.text); /* "" is "/" here */
		if (add_work_tree(l, above.text, err) < 0)
			return -1;
	}
	return 0;
}

void leads_end(struct leads *l)
{
	free(l->top);
	strlist_free(&l->paths);
	*l = (struct leads){0};
}

bool leads_to(const struct leads *l, const char *path, mode_t mode)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < l->paths.count; i++) {
		const char *lead = l->paths.items[i];
		size_t n = strlen(lead);
		if (n == 0 && !S_ISDIR(mode))
			return true;
		if (strncasecmp(path, lead, MIN(len, n)) != 0)
			continue;
		/* the path itself or what is in it, or instead of a directory on the way something that leads elsewhere */
		if (len >= n ? (path[n] == '\0' || path[n] == '/') && !S_ISDIR(mode) : lead[len] == '/' && !S_ISDIR(mode))
			return true;
	}
	return false;
}
