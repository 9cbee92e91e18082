/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/toolchains.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "policy/toolchain_mounts.h"

#define LINKS_MAX 4096 /* directory entries that are looked at in one directory of the PATH */
#define SELECTOR_MAX 128

/*
 * Where toolchains live. The first row that a directory of the PATH lies in decides; the rest of the row then says what to show.
 *
 * Of a home that also holds credentials, settings or caches, `parts` names what programs are made of: ~/.cargo has credentials.toml,
 * ~/.local/share/uv credentials/, ~/.dotnet private keys (corefx), ~/.volta hooks with addresses of private registries, ~/go the sources of
 * private modules, and /nix/var/nix the socket of a daemon that works for the host.
 */
struct layout {
	const char *home;     /* "~" is the caller's home; a last component "*" is any one name */
	const char *variable; /* names the home when it is elsewhere; NULL: none */
	bool told;            /* set the variable inside, where "~" is another directory */
	bool always;          /* show it although it is not on the PATH: interpreters that virtual environments link to */
	const char *parts;    /* what to show, with spaces between; NULL: all of it */
	const char *also;     /* something beside it that its programs need, part of another row or a single file; NULL: none */
	const char *secrets;  /* see toolchain_show(); relative to each part */
};

#define CONDA_SECRETS "condarc envs/*/.condarc envs/*/pip.conf"

static const struct layout layouts[] = {
	{.home = "~/.nvm", .variable = "NVM_DIR", .told = true, .parts = "versions/node nvm.sh nvm-exec alias", .secrets = "*/etc/npmrc"},
	{.home = "~/.cargo", .variable = "CARGO_HOME", .parts = "bin env", .also = "~/.rustup"},
	{.home = "~/.rustup", .variable = "RUSTUP_HOME", .told = true},
	{.home = "~/.pyenv",
         .variable = "PYENV_ROOT",
         .told = true,
         .always = true,
         .parts = "bin shims libexec pyenv.d plugins versions version",
         .secrets = "*/pip.conf"},
	{.home = "~/.rbenv", .variable = "RBENV_ROOT", .told = true, .parts = "bin shims libexec rbenv.d plugins versions version"},
	{.home = "~/.nodenv",
         .variable = "NODENV_ROOT",
         .told = true,
         .parts = "bin shims libexec nodenv.d plugins versions version",
         .secrets = "*/etc/npmrc"},
	{.home = "~/.rvm", .parts = "bin gems rubies wrappers"},
	{.home = "~/.deno", .parts = "bin"},
	{.home = "~/.bun", .variable = "BUN_INSTALL", .parts = "bin install/global"},
	{.home = "~/.volta", .variable = "VOLTA_HOME", .told = true, .parts = "bin tools layout.v4", .secrets = "image/node/*/etc/npmrc"},
	{.home = "~/.asdf",
         .variable = "ASDF_DATA_DIR",
         .told = true,
         .parts = "bin lib libexec shims installs plugins asdf.sh",
         .also = "~/.tool-versions",
         .secrets = "nodejs/*/etc/npmrc python/*/pip.conf"},
	{.home = "~/.sdkman", .variable = "SDKMAN_DIR", .parts = "candidates", .secrets = "maven/*/conf/settings.xml"},
	{.home = "~/.dotnet",
         .variable = "DOTNET_ROOT",
         .told = true,
         .parts = "dotnet host sdk shared packs templates sdk-manifests tools"},
	{.home = "~/.ghcup", .parts = "bin ghc hls"},
	{.home = "~/.pixi", .parts = "bin envs"},
	{.home = "~/.local/share/uv", .always = true, .parts = "python tools"},
	{.home = "~/.local/share/pipx", .variable = "PIPX_HOME", .parts = "venvs shared py", .secrets = "*/pip.conf"},
	{.home = "~/.local/share/mise",
         .variable = "MISE_DATA_DIR",
         .parts = "shims installs",
         .secrets = "node/*/etc/npmrc python/*/pip.conf"},
	{.home = "~/.local/share/fnm", .variable = "FNM_DIR", .parts = "node-versions aliases", .secrets = "*/installation/etc/npmrc"},
	{.home = "~/.local/share/pnpm", .variable = "PNPM_HOME", .secrets = "nodejs/*/etc/npmrc"},
	{.home = "~/.local/share/pypoetry", .parts = "venv"},
	{.home = "~/.local", .parts = "bin pipx/venvs pipx/shared"},
	{.home = "~/go", .variable = "GOPATH", .parts = "bin"},
	{.home = "~/sdk/*"}, /* golang.org/dl */
	{.home = "~/miniconda3", .secrets = CONDA_SECRETS},
	{.home = "~/anaconda3", .secrets = CONDA_SECRETS},
	{.home = "~/miniforge3", .secrets = CONDA_SECRETS},
	{.home = "~/mambaforge", .secrets = CONDA_SECRETS},
	{.home = "~/.conda", .parts = "envs", .secrets = "*/.condarc */pip.conf"},
	{.home = "/home/linuxbrew/.linuxbrew", .variable = "HOMEBREW_PREFIX"},
	{.home = "/nix", .parts = "store var/nix/profiles"},
	{.home = "/opt/*", .secrets = CONDA_SECRETS " conf/settings.xml"},
	{.home = "/snap/*"},
};

/* Variables that name the place of one installation, and something in it by which such a place is known. */
static const struct {
	const char *name;
	const char *witness;
	const char *link; /* may lead to the toolchain that it was made from; NULL: none */
} installations[] = {
	{"VIRTUAL_ENV", "pyvenv.cfg", "bin/python"},
	{"CONDA_PREFIX", "conda-meta", NULL},
	{"JAVA_HOME", "bin/java", NULL},
	{"GOROOT", "bin/go", NULL},
};

/*
 * Variables that choose between versions. Others are not passed on: CARGO_HOME, GOPATH, PNPM_HOME, PIPX_HOME and BUN_INSTALL say where tools
 * write, which inside is the sandbox's own home; NODE_PATH, PYTHONPATH and PYTHONHOME name directories of code that are not shown.
 */
static const char *const selectors[] = {"PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "RUSTUP_TOOLCHAIN", "CONDA_DEFAULT_ENV"};

/* Directories whose programs cannot work inside. */
static const struct {
	const char *path, *why;
} useless[] = {{"/snap/bin", "its programs need the snap daemon"}, {"/var/lib/snapd/snap/bin", "its programs need the snap daemon"}};

struct finder {
	const struct toolchain_search *what;
	struct toolchain_mounts mounts;
	struct strlist path; /* the directories of the PATH inside */
	char home[PATH_MAX]; /* "": unknown */
};

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static const char *variable(const struct finder *f, const char *name)
{
	size_t len = strlen(name);

	for (char *const *e = f->what->env; e && *e; e++)
		if (!strncmp(*e, name, len) && (*e)[len] == '=')
			return *e + len + 1;
	return NULL;
}

/* An absolute path without double slashes; where it has "." or ".." the real one. False if it is relative, too long or, with dots, absent. */
static bool normalise(const char *text, size_t len, char out[PATH_MAX])
{
	char path[PATH_MAX];
	size_t n = 0;
	bool dots = false;

	if (len == 0 || len >= PATH_MAX || text[0] != '/')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '/' && (i + 1 == len || text[i + 1] == '/'))
			continue;
		if (text[i] == '/' && text[i + 1] == '.') {
			size_t dot = i + 1 + (i + 2 < len && text[i + 2] == '.');
			dots = dots || dot + 1 == len || text[dot + 1] == '/';
		}
		path[n++] = text[i];
	}
	path[n] = '\0';
	if (dots)
		return realpath(path, out) != NULL;
	memcpy(out, n > 0 ? path : "/", n > 0 ? n + 1 : 2);
	return true;
}

static bool variable_path(const struct finder *f, const char *name, char out[PATH_MAX])
{
	const char *value = variable(f, name);

	return value && normalise(value, strlen(value), out);
}

/* "~/x" below the caller's home. */
static bool expand(const struct finder *f, const char *path, size_t len, char out[PATH_MAX])
{
	if (path[0] != '~')
		return snprintf(out, PATH_MAX, "%.*s", (int)len, path) < PATH_MAX;
	return f->home[0] && snprintf(out, PATH_MAX, "%s%.*s", strcmp(f->home, "/") != 0 ? f->home : "", (int)len - 1, path + 1) < PATH_MAX;
}

/* ---- layouts ------------------------------------------------------------------------------------------------------------------ */

/* The layout's home; for one that ends in "*" the one that path lies in. False: it has none. */
static bool layout_home(const struct finder *f, const struct layout *l, const char *path, char out[PATH_MAX])
{
	size_t len = strlen(l->home), base;

	if (l->variable && variable_path(f, l->variable, out))
		return true;
	if (l->home[len - 1] != '*')
		return expand(f, l->home, len, out);
	if (!expand(f, l->home, len - 2, out) || !fs_path_within(path, out) || !path[strlen(out)])
		return false;
	base = strlen(out) + 1;
	return snprintf(out, PATH_MAX, "%.*s", (int)(base + strcspn(path + base, "/")), path) < PATH_MAX;
}

static const struct layout *find_layout(const struct finder *f, const char *path, char home[PATH_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layout_home(f, &layouts[i], path, home) && fs_path_within(path, home))
			return &layouts[i];
	return NULL;
}

static int show_parts(struct finder *f, const struct layout *l, const char *home, struct cordon_error *err)
{
	char path[PATH_MAX];
	struct stat st;

	if (!l->parts)
		return toolchain_show(&f->mounts, home, l->secrets, err);
	if (toolchain_forbidden(&f->mounts, home)) /* one line for the user, not one for each part */
		return stat(home, &st) == 0 ? toolchain_skip(&f->mounts, home, NEVER_SHOWN, err) : 0;
	for (const char *part = l->parts; *part;) {
		size_t len = strcspn(part, " ");

		if (snprintf(path, sizeof(path), "%s/%.*s", home, (int)len, part) < PATH_MAX &&
		    toolchain_show(&f->mounts, path, l->secrets, err) < 0)
			return -1;
		part += len + strspn(part + len, " ");
	}
	return 0;
}

static int show_layout(struct finder *f, const struct layout *l, const char *home, struct cordon_error *err)
{
	char path[PATH_MAX], other[PATH_MAX];

	if (show_parts(f, l, home, err) < 0)
		return -1;
	if (!l->also || !expand(f, l->also, strlen(l->also), path))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) /* with a row of its own, it may have been moved by a variable as well */
		if (!strcmp(layouts[i].home, l->also))
			return layout_home(f, &layouts[i], path, other) ? show_parts(f, &layouts[i], other, err) : 0;
	return toolchain_show(&f->mounts, path, NULL, err);
}

/* Shows the toolchain that path belongs to, if it is one of the table's. */
static const struct layout *show_known(struct finder *f, const char *path, int *result, struct cordon_error *err)
{
	char home[PATH_MAX];
	const struct layout *l = find_layout(f, path, home);

	*result = l ? show_layout(f, l, home, err) : 0;
	return l;
}

/* ---- directories of the PATH -------------------------------------------------------------------------------------------------- */

/* What else may be shown of a home that has credentials beside its programs. */
static bool is_for_programs(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return !strcmp(name, "bin") || !strcmp(name, "sbin") || !strcmp(name, "shims");
}

/*
 * Programs are often links, from ~/.local/bin or /usr/local/bin to where they really are: known toolchains among these are shown too. Not from
 * inside the workspace: what lies there may have been written in a sandbox, and must not decide about the next one.
 */
static int follow_links(struct finder *f, const char *dir, struct cordon_error *err)
{
	_cleanup_dir_ DIR *d = toolchain_in_workspace(&f->mounts, dir) ? NULL : opendir(dir);
	char path[PATH_MAX], real[PATH_MAX];
	int left = LINKS_MAX, result = 0;

	for (struct dirent *e; d && result == 0 && left-- > 0 && (e = readdir(d));) {
		if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < PATH_MAX && realpath(path, real) &&
		    !toolchain_shown(&f->mounts, real))
			show_known(f, real, &result, err);
	}
	return result;
}

/*
 * Shows dir: with the toolchain that it is known to belong to, by its name or its real one, or else by itself. 1: done, *name is how to call it
 * inside (dir, or `real`); 0: it must not be shown; -1: out of memory. safe: it is known to be nothing but programs.
 */
static int show_directory(struct finder *f, const char *dir, bool safe, char real[PATH_MAX], const char **name, struct cordon_error *err)
{
	const struct layout *l;
	int result = 0;

	if (!realpath(dir, real))
		return 0;
	for (size_t i = 0; i < 2; i++) {
		*name = i == 0 ? dir : real;
		l = toolchain_shown(&f->mounts, *name) ? NULL : show_known(f, *name, &result, err);
		if (result < 0 || toolchain_shown(&f->mounts, *name))
			return result < 0 ? -1 : 1;
		safe = safe || is_for_programs(dir);
		if (l && l->parts && !safe)
			return toolchain_skip(&f->mounts, dir, "it is not known to be free of credentials", err);
	}
	*name = dir;
	if (toolchain_show(&f->mounts, dir, NULL, err) < 0)
		return -1;
	return toolchain_shown(&f->mounts, dir);
}

/* Why a directory of the PATH is left out without a further look; NULL: it is not. */
static const char *objection_to_entry(const char *dir)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(useless); i++)
		if (!strcmp(dir, useless[i].path))
			return useless[i].why;
	if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return "it is not a directory";
	if (st.st_mode & S_IWOTH)
		return "everybody may write to it";
	return NULL;
}

static int take_entry(struct finder *f, const char *text, size_t len, struct cordon_error *err)
{
	char dir[PATH_MAX], real[PATH_MAX];
	const char *name, *why;
	int shown;

	if (!normalise(text, len, dir)) /* an empty entry is the current directory, a relative one depends on it */
		return 0;
	why = objection_to_entry(dir);
	if (why)
		return toolchain_skip(&f->mounts, dir, why, err);
	shown = show_directory(f, dir, false, real, &name, err);
	if (shown <= 0)
		return shown;
	if (!strlist_has(&f->path, name) && strlist_add(&f->path, name, err) < 0)
		return -1;
	/* of the system's, only /usr/local is filled by hand: what packages link in /usr/bin leads to where packages are */
	return fs_path_within(dir, "/usr/local") || !toolchain_in_system(dir) ? follow_links(f, dir, err) : 0;
}

static int take_path(struct finder *f, const char *path, struct cordon_error *err)
{
	for (const char *s = path; s && *s;) {
		size_t len = strcspn(s, ":");

		if (take_entry(f, s, len, err) < 0)
			return -1;
		s += len + (s[len] == ':');
	}
	return 0;
}

static int show_always(struct finder *f, struct cordon_error *err)
{
	char home[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].always && layout_home(f, &layouts[i], "", home) && show_layout(f, &layouts[i], home, err) < 0)
			return -1;
	return 0;
}

/* ---- variables ---------------------------------------------------------------------------------------------------------------- */

static int tell(struct finder *f, const char *name, const char *value, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};

	buf_addf(&text, "%s=%s", name, value);
	if (text.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return strlist_add(&f->mounts.out->env, text.data, err);
}

static int tell_installation(struct finder *f, size_t which, struct cordon_error *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 32], real[PATH_MAX], target[PATH_MAX];
	const char *name, *link = installations[which].link;
	struct stat st;
	int shown, result = 0;

	if (!variable_path(f, installations[which].name, dir))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, installations[which].witness);
	if (stat(path, &st) < 0)
		return 0;
	shown = show_directory(f, dir, true, real, &name, err);
	if (shown <= 0)
		return shown;
	snprintf(path, sizeof(path), "%s/%s", dir, link ? link : "");
	if (link && !toolchain_in_workspace(&f->mounts, dir) && realpath(path, target) && !toolchain_shown(&f->mounts, target))
		show_known(f, target, &result, err);
	return result < 0 ? -1 : tell(f, installations[which].name, name, err);
}

static bool is_version(const char *value)
{
	size_t len = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+-");

	return len > 0 && len < SELECTOR_MAX && !value[len];
}

static int tell_rest(struct finder *f, struct cordon_error *err)
{
	char home[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].told && layout_home(f, &layouts[i], "", home) && toolchain_shown_in_part(&f->mounts, home) &&
		    tell(f, layouts[i].variable, home, err) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(selectors); i++) {
		const char *value = variable(f, selectors[i]);

		if (value && is_version(value) && tell(f, selectors[i], value, err) < 0)
			return -1;
	}
	return 0;
}

/* What was found, in the caller's order, and then the sandbox's own. */
static int tell_path(struct finder *f, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};

	for (size_t i = 0; i < f->path.count; i++)
		buf_addf(&text, "%s%s", i > 0 ? ":" : "", f->path.items[i]);
	return text.failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : tell(f, "PATH", text.data ? text.data : POLICY_PATH, err);
}

/* ---- the search --------------------------------------------------------------------------------------------------------------- */

static int find(struct finder *f, struct cordon_error *err)
{
	if (take_path(f, variable(f, "PATH"), err) < 0 || take_path(f, POLICY_PATH, err) < 0 || tell_path(f, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(installations); i++)
		if (tell_installation(f, i, err) < 0)
			return -1;
	return show_always(f, err) < 0 ? -1 : tell_rest(f, err);
}

int toolchains_find(const struct toolchain_search *what, struct toolchain_list *out, struct cordon_error *err)
{
	struct finder f = {.what = what};
	char state[PATH_MAX];
	int result = 0;

	*out = (struct toolchain_list){0};
	if (!variable_path(&f, "HOME", f.home))
		f.home[0] = '\0';
	if (toolchain_mounts_init(&f.mounts, what, f.home, out, err) < 0)
		return -1;
	if (variable_path(&f, "CORDON_HOME", state)) /* other sandboxes */
		result = toolchain_forbid(&f.mounts, state, err);
	if (result == 0)
		result = find(&f, err);
	toolchain_mounts_free(&f.mounts);
	strlist_free(&f.path);
	return result;
}

void toolchains_free(struct toolchain_list *l)
{
	strlist_free(&l->mounts);
	strlist_free(&l->env);
	strlist_free(&l->skipped);
}

int toolchains_apply(const struct toolchain_list *l, struct cordon_policy *p, struct cordon_error *err)
{
	for (size_t i = 0; i < l->mounts.count; i++)
		if (policy_set(p, "mounts.read", l->mounts.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < l->env.count; i++)
		if (policy_set(p, "env.set", l->env.items[i], err) < 0)
			return -1;
	return 0;
}
