/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/toolchain_mounts.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/glob.h"
#include "base/util.h"

#define PATTERNS_MAX 32

/* Of the host, and inside as it is there. */
static const char *const system_dirs[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

/* What the sandbox has of its own at these places would be hidden, or (the workspace) written to. Names at the top are refused in any case. */
static const struct {
	const char *path;
	bool below;
} taken[] = {{"/app", true}, {"/home/user", false}, {"/var/tmp", false}};

/* Tokens for package registries, mostly: in files that tools look for beside the programs as well as in the home directory. */
static const char *const common_secrets[] = {
	".env",        ".netrc",       ".npmrc",           ".yarnrc.yml",      ".pypirc",   "pip.conf",  ".condarc",  ".git-credentials",
	"credentials", ".credentials", "credentials.toml", "credentials.json", "auth.json", "auth.toml", "etc/npmrc",
};

/* ---- what must not be shown --------------------------------------------------------------------------------------------------- */

/* Adds the path and, where it has one of its own, its real name. */
static int add_both_names(struct strlist *l, const char *path, struct cordon_error *err)
{
	char real[PATH_MAX];

	if (!strlist_has(l, path) && strlist_add(l, path, err) < 0)
		return -1;
	return realpath(path, real) && !strlist_has(l, real) ? strlist_add(l, real, err) : 0;
}

int toolchain_forbid(struct toolchain_mounts *m, const char *path, struct cordon_error *err)
{
	return add_both_names(&m->forbid, path, err);
}

static int init(struct toolchain_mounts *m, const struct toolchain_search *what, const char *home, struct cordon_error *err)
{
	struct strlist names = {0};
	int result = policy_forbidden_paths(home, &names, err);

	for (size_t i = 0; result == 0 && i < names.count; i++)
		result = toolchain_forbid(m, names.items[i], err);
	for (size_t i = 0; result == 0 && what->forbid && i < what->forbid->count; i++)
		result = toolchain_forbid(m, what->forbid->items[i], err);
	if (result == 0 && what->workspace)
		result = add_both_names(&m->workspace, what->workspace, err);
	strlist_free(&names);
	return result;
}

int toolchain_mounts_init(struct toolchain_mounts *m, const struct toolchain_search *what, const char *home, struct toolchain_list *out,
                          struct cordon_error *err)
{
	*m = (struct toolchain_mounts){.out = out};
	if (init(m, what, home, err) < 0) {
		toolchain_mounts_free(m);
		return -1;
	}
	return 0;
}

void toolchain_mounts_free(struct toolchain_mounts *m)
{
	strlist_free(&m->forbid);
	strlist_free(&m->workspace);
	strlist_free(&m->split);
}

static bool within_any(const char *path, const struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (fs_path_within(path, l->items[i]))
			return true;
	return false;
}

static bool contains_any(const char *path, const struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (fs_path_within(l->items[i], path))
			return true;
	return false;
}

bool toolchain_in_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_dirs); i++)
		if (fs_path_within(path, system_dirs[i]))
			return true;
	return false;
}

bool toolchain_in_workspace(const struct toolchain_mounts *m, const char *path)
{
	return within_any(path, &m->workspace);
}

bool toolchain_forbidden(const struct toolchain_mounts *m, const char *path)
{
	return within_any(path, &m->forbid);
}

bool toolchain_shown(const struct toolchain_mounts *m, const char *path)
{
	return toolchain_in_system(path) || toolchain_in_workspace(m, path) || within_any(path, &m->out->mounts) ||
	       strlist_has(&m->split, path);
}

bool toolchain_shown_in_part(const struct toolchain_mounts *m, const char *path)
{
	return toolchain_shown(m, path) || contains_any(path, &m->out->mounts);
}

int toolchain_skip(struct toolchain_mounts *m, const char *path, const char *why, struct cordon_error *err)
{
	char text[PATH_MAX + 128];

	snprintf(text, sizeof(text), "%s: %s", path, why);
	return strlist_has(&m->out->skipped, text) ? 0 : strlist_add(&m->out->skipped, text, err);
}

/* Why the path may not be shown, by its name alone; NULL: it may. Asked for the name it was found under and for the real one. */
static const char *objection_to_name(const struct toolchain_mounts *m, const char *path)
{
	if (toolchain_forbidden(m, path))
		return NEVER_SHOWN;
	if (contains_any(path, &m->forbid))
		return "it contains a directory that is never shown";
	if (contains_any(path, &m->split))
		return "it contains a directory with credentials";
	if (contains_any(path, &m->workspace))
		return "the workspace lies in it";
	if (!strchr(path + 1, '/'))
		return "a directory at the top holds too much";
	if (path[1] == '.')
		return "its name at the top begins with a dot";
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (fs_path_within(taken[i].path, path) || (taken[i].below && fs_path_within(path, taken[i].path)))
			return "the sandbox has something of its own there";
	return NULL;
}

/* *real becomes the real name. */
static const char *objection(const struct toolchain_mounts *m, const char *path, char real[PATH_MAX])
{
	struct stat st;
	const char *why;

	if (!realpath(path, real))
		return "it cannot be looked at";
	why = objection_to_name(m, path);
	if (!why)
		why = objection_to_name(m, real);
	if (why)
		return why;
	if (toolchain_in_workspace(m, real))
		return "it is a link into the workspace";
	if (stat(real, &st) < 0)
		return "it cannot be looked at";
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return "it is neither a directory nor a file";
	if (st.st_mode & S_IWOTH)
		return "everybody may write to it";
	if (m->out->mounts.count >= TOOLCHAIN_MOUNTS_MAX)
		return "too many directories are shown already";
	return NULL;
}

/* ---- showing ------------------------------------------------------------------------------------------------------------------ */

static void remove_below(struct strlist *l, const char *path)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		if (fs_path_within(l->items[i], path))
			free(l->items[i]);
		else
			l->items[kept++] = l->items[i];
	}
	l->count = kept;
	if (l->items)
		l->items[kept] = NULL;
}

static int add_mount(struct toolchain_mounts *m, const char *path, struct cordon_error *err)
{
	if (toolchain_in_system(path) || toolchain_in_workspace(m, path) || within_any(path, &m->out->mounts))
		return 0;
	remove_below(&m->out->mounts, path);
	return strlist_add(&m->out->mounts, path, err);
}

/* Under its name, and where that passes through links also under the real one, which its own files may use. */
static int show_whole(struct toolchain_mounts *m, const char *path, struct cordon_error *err)
{
	char real[PATH_MAX];
	const char *why = objection(m, path, real);

	if (why)
		return toolchain_skip(m, path, why, err);
	if (add_mount(m, path, err) < 0)
		return -1;
	return m->out->mounts.count < TOOLCHAIN_MOUNTS_MAX ? add_mount(m, real, err) : 0;
}

/* ---- around the secrets ------------------------------------------------------------------------------------------------------- */

/* A pattern's next component: does the name match it? *rest becomes what follows, "" at the end. */
static bool matches_component(const char *pattern, const char *name, const char **rest)
{
	char component[NAME_MAX + 1];
	size_t len = strcspn(pattern, "/");

	if (len >= sizeof(component))
		return false;
	memcpy(component, pattern, len);
	component[len] = '\0';
	*rest = pattern + len + (pattern[len] == '/');
	return glob_match(component, name);
}

static bool join(char out[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

static bool is_dot_name(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool holds(const char *dir, const char *pattern);

static bool holds_in_children(const char *dir, const char *pattern)
{
	_cleanup_dir_ DIR *d = opendir(dir);
	char child[PATH_MAX];
	const char *rest;

	for (struct dirent *e; d && (e = readdir(d));) {
		if (is_dot_name(e->d_name) || !matches_component(pattern, e->d_name, &rest))
			continue;
		if (!*rest || (join(child, dir, e->d_name) && holds(child, rest)))
			return true;
	}
	return false;
}

/* Is there anything in dir that the pattern matches? Directories are only listed for a "*". */
static bool holds(const char *dir, const char *pattern)
{
	size_t fixed = strcspn(pattern, "*");
	char path[PATH_MAX];
	struct stat st;

	if (!pattern[fixed])
		return join(path, dir, pattern) && lstat(path, &st) == 0;
	while (fixed > 0 && pattern[fixed - 1] != '/')
		fixed--;
	if (fixed == 0)
		return holds_in_children(dir, pattern);
	return snprintf(path, sizeof(path), "%s/%.*s", dir, (int)fixed - 1, pattern) < PATH_MAX && holds_in_children(path, pattern + fixed);
}

static int show_around(struct toolchain_mounts *m, const char *dir, const char *const *patterns, size_t count, struct cordon_error *err);

/*
 * The name by which a child is judged: its own, or for a link the name of the child that it points to. A link to anywhere else cannot be shown,
 * since a mount would follow it; false then.
 */
static bool name_of_child(const char *dir, const char *name, char real[PATH_MAX], const char **judged)
{
	char path[PATH_MAX], real_dir[PATH_MAX];
	char *slash;

	*judged = name;
	if (!join(path, dir, name) || !realpath(path, real) || !realpath(dir, real_dir))
		return false;
	slash = strrchr(real, '/');
	*judged = slash + 1;
	return (size_t)(slash - real) == strlen(real_dir) && !strncmp(real, real_dir, strlen(real_dir));
}

static int show_child(struct toolchain_mounts *m, const char *dir, const char *name, const char *const *patterns, size_t count,
                      struct cordon_error *err)
{
	const char *below[PATTERNS_MAX], *judged, *rest;
	char path[PATH_MAX], real[PATH_MAX];
	size_t n = 0;

	if (!join(path, dir, name))
		return 0;
	if (!name_of_child(dir, name, real, &judged))
		return toolchain_skip(m, path, "it is a link to elsewhere", err);
	for (size_t i = 0; i < count; i++) {
		if (!matches_component(patterns[i], judged, &rest))
			continue;
		if (!*rest)
			return toolchain_skip(m, path, "it may hold credentials", err);
		below[n++] = rest;
	}
	return show_around(m, path, below, n, err);
}

/* Normally one mount. A directory with a secret in it is shown child by child, without that one. */
static int show_around(struct toolchain_mounts *m, const char *dir, const char *const *patterns, size_t count, struct cordon_error *err)
{
	struct dirent **children = NULL;
	char real[PATH_MAX];
	const char *why;
	size_t first = 0;
	int n, result = 0;

	while (first < count && !holds(dir, patterns[first]))
		first++;
	if (first == count)
		return show_whole(m, dir, err);
	why = objection(m, dir, real);
	if (why)
		return toolchain_skip(m, dir, why, err);
	if (add_both_names(&m->split, dir, err) < 0)
		return -1;
	n = scandir(dir, &children, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (result == 0 && !is_dot_name(children[i]->d_name))
			result = show_child(m, dir, children[i]->d_name, patterns, count, err);
		free(children[i]);
	}
	free(children);
	return result;
}

int toolchain_show(struct toolchain_mounts *m, const char *path, const char *secrets, struct cordon_error *err)
{
	const char *patterns[PATTERNS_MAX];
	_cleanup_free_ char *words = strdup(secrets ? secrets : "");
	size_t count = 0;
	char *save = NULL;
	struct stat st;

	if (!words)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (toolchain_shown(m, path) || stat(path, &st) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(common_secrets); i++)
		patterns[count++] = common_secrets[i];
	for (char *w = strtok_r(words, " ", &save); w && count < ARRAY_SIZE(patterns); w = strtok_r(NULL, " ", &save))
		patterns[count++] = w;
	return show_around(m, path, patterns, count, err);
}
