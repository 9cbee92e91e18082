/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that some program runs, or takes commands from, without being asked to: on opening the directory, on the next shell, on `git
 * status`. An agent that writes one runs code on the host later, after the sandbox is gone (CVE-2026-25725, CVE-2026-26268). They are
 * committed only on demand.
 *
 * What is run because somebody builds or starts the project (Makefile, package.json, build.rs, conftest.py) is its ordinary source and
 * not in the table: whoever builds it runs what is in it. .gitmodules is not either, since git runs nothing from it any more
 * (CVE-2019-19604).
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/util.h"
#include "layers/commit_parts.h"

#define GIT "git runs it, or reads commands from it"
#define EDITOR "an editor runs it, or reads commands from it"
#define AGENT "an AI agent reads commands from it"
#define SHELL "a shell runs it when it starts"
#define TOOL "a tool runs it when it starts in this directory"
#define PACKAGES "a package manager reads from it what to run or where to load from"
#define HOOKS "a manager of git hooks runs what it says"
#define CI "a build server runs it after a push"
#define LOGIN "it is run at log-in, or decides who may log in"
#define PYTHON "python runs it at every start"

/*
 * Patterns match from the top, byte by byte without regard to case (some file systems do not distinguish it); "*" is anything within a
 * name, "**" any number of names, also none. The first that matches decides; no reason: harmless.
 */
static const struct autorun {
	const char *pattern;
	const char *why;
} table[] = {
	/* In .git everything is suspect (commondir and gitdir lead to other configurations, a rebase's todo list runs commands), but for what a commit,
	 * a branch, a merge, a stash or gc writes. */
	{"**/.git/**/.git/**", GIT},
	{"**/.git/**/objects/**", NULL},
	{"**/.git/**/refs/**", NULL},
	{"**/.git/**/logs/**", NULL},
	{"**/.git/**/lfs/objects/**", NULL},
	{"**/.git/**/rr-cache/**", NULL},
	{"**/.git/**/info/exclude", NULL},
	{"**/.git/**/info/refs", NULL},
	{"**/.git/**/info/grafts", NULL},
	{"**/.git/**/index", NULL},
	{"**/.git/**/index.lock", NULL},
	{"**/.git/**/sharedindex.*", NULL},
	{"**/.git/**/head", NULL},
	{"**/.git/**/*_head", NULL},
	{"**/.git/**/auto_merge", NULL},
	{"**/.git/**/packed-refs", NULL},
	{"**/.git/**/shallow", NULL},
	{"**/.git/**/description", NULL},
	{"**/.git/**/gc.log", NULL},
	{"**/.git/**/gc.pid", NULL},
	{"**/.git/**/commit_editmsg", NULL},
	{"**/.git/**/merge_msg", NULL},
	{"**/.git/**/merge_mode", NULL},
	{"**/.git/**/merge_rr", NULL},
	{"**/.git/**/squash_msg", NULL},
	{"**/.git/**/tag_editmsg", NULL},
	{"**/.git/**", GIT},
	{"**/.gitconfig", GIT},
	{"**/.config/git/**", GIT},

	{"**/.pre-commit-config.y*ml", HOOKS},
	{"**/.husky/**", HOOKS},
	{"**/.lefthook/**", HOOKS},
	{"**/lefthook.*", HOOKS},
	{"**/.lefthook.*", HOOKS},
	{"**/.overcommit.yml", HOOKS},

	{"**/.github/workflows/**", CI},
	{"**/.github/actions/**", CI},
	{"**/.gitlab-ci.yml", CI},
	{"**/.circleci/**", CI},
	{"**/.buildkite/**", CI},
	{"**/.travis.yml", CI},
	{"**/.drone.yml", CI},
	{"**/.woodpecker*/**", CI},
	{"**/azure-pipelines*.yml", CI},
	{"**/bitbucket-pipelines.yml", CI},
	{"**/jenkinsfile", CI},

	{"**/.vscode/**", EDITOR},
	{"**/*.code-workspace", EDITOR},
	{"**/.idea/**", EDITOR},
	{"**/.fleet/**", EDITOR},
	{"**/.zed/**", EDITOR},
	{"**/.helix/**", EDITOR},
	{"**/.nvim/**", EDITOR},
	{"**/.vim/**", EDITOR},
	{"**/.config/nvim/**", EDITOR},
	{"**/.exrc", EDITOR},
	{"**/.vimrc", EDITOR},
	{"**/.lvimrc", EDITOR},
	{"**/.nvimrc", EDITOR},
	{"**/.nvim.lua", EDITOR},
	{"**/.emacs", EDITOR},
	{"**/.emacs.d/**", EDITOR},
	{"**/.dir-locals*.el", EDITOR},
	{"**/.devcontainer/**", EDITOR},
	{"**/.devcontainer.json", EDITOR},

	{"**/.claude/**", AGENT},
	{"**/.claude.json", AGENT},
	{"**/.cursor/**", AGENT},
	{"**/.mcp.json", AGENT},
	{"**/.codex/**", AGENT},
	{"**/.gemini/**", AGENT},
	{"**/.windsurf/**", AGENT},
	{"**/.continue/**", AGENT},
	{"**/.roo/**", AGENT},
	{"**/.kiro/**", AGENT},
	{"**/.amazonq/**", AGENT},
	{"**/.opencode/**", AGENT},
	{"**/opencode.json*", AGENT},
	{"**/.aider.conf.yml", AGENT},

	{"**/.bashrc", SHELL},
	{"**/.bash_*", SHELL},
	{"**/.profile", SHELL},
	{"**/.zshrc", SHELL},
	{"**/.zshenv", SHELL},
	{"**/.zprofile", SHELL},
	{"**/.zlogin", SHELL},
	{"**/.zlogout", SHELL},
	{"**/.kshrc", SHELL},
	{"**/.mkshrc", SHELL},
	{"**/.cshrc", SHELL},
	{"**/.tcshrc", SHELL},
	{"**/.login", SHELL},
	{"**/.logout", SHELL},
	{"**/.config/fish/**", SHELL},
	{"**/.envrc", "direnv runs it when a shell enters the directory"},
	{"**/.direnv/**", "direnv runs it when a shell enters the directory"},
	{"**/mise.toml", "mise runs its hooks when a shell enters the directory"},
	{"**/.mise*.toml", "mise runs its hooks when a shell enters the directory"},
	{"**/.mise/**", "mise runs its hooks when a shell enters the directory"},

	{"**/.ssh/**", LOGIN},
	{"**/.netrc", LOGIN},
	{"**/.xprofile", LOGIN},
	{"**/.xinitrc", LOGIN},
	{"**/.xsession*", LOGIN},
	{"**/.pam_environment", LOGIN},
	{"**/.config/autostart/**", LOGIN},
	{"**/.config/systemd/user/**", LOGIN},
	{"**/.config/environment.d/**", LOGIN},
	{"**/.local/bin/**", "it is on the search path for programs"},

	{"**/.npmrc", PACKAGES},
	{"**/.yarnrc*", PACKAGES},
	{"**/.yarn/releases/**", PACKAGES},
	{"**/.yarn/plugins/**", PACKAGES},
	{"**/.pnpmfile.cjs", PACKAGES},
	{"**/.cargo/config", PACKAGES},
	{"**/.cargo/config.toml", PACKAGES},
	{"**/.bundle/config", PACKAGES},
	{"**/.gemrc", PACKAGES},
	{"**/.pypirc", PACKAGES},
	{"**/pip.conf", PACKAGES},

	{"**/sitecustomize.py", PYTHON},
	{"**/usercustomize.py", PYTHON},
	{"**/site-packages/*.pth", PYTHON},
	{"**/dist-packages/*.pth", PYTHON},

	{"**/.gdbinit", TOOL},
	{"**/.lldbinit", TOOL},
	{"**/.pdbrc", TOOL},
	{"**/.irbrc", TOOL},
	{"**/.pryrc", TOOL},
	{"**/.ghci", TOOL},
	{"**/.rprofile", TOOL},
	{"**/.octaverc", TOOL},
	{"**/.ocamlinit", TOOL},
	{"**/.psqlrc", TOOL},
	{"**/.sqliterc", TOOL},
	{"**/.tmux.conf", TOOL},
	{"**/.screenrc", TOOL},
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; /* no locale has a say here */
}

/* One name against one part of a pattern, with "*". */
static bool name_matches(const char *pattern, size_t plen, const char *name, size_t nlen)
{
	size_t star = plen, from = 0, p = 0, n = 0;
	while (n < nlen) {
		if (p < plen && pattern[p] == '*') {
			star = p++;
			from = n;
		} else if (p < plen && pattern[p] == lower(name[n])) {
			p++;
			n++;
		} else if (star < plen) {
			p = star + 1;
			n = ++from;
		} else {
			return false;
		}
	}
	while (p < plen && pattern[p] == '*')
		p++;
	return p == plen;
}

/* The same with names for letters and "**" for "*"; only the last star that was passed has to be tried further on, in both. */
static bool path_matches(const char *pattern, const char *path)
{
	const char *star = NULL, *from = NULL;
	for (;;) {
		size_t p = strcspn(pattern, "/"), n = strcspn(path, "/");
		if (p == 2 && strncmp(pattern, "**", 2) == 0) {
			if (!pattern[2])
				return true;
			star = pattern + 3;
			from = path;
			pattern = star;
			continue;
		}
		if (*pattern && *path && name_matches(pattern, p, path, n) && (pattern[p] == '\0') == (path[n] == '\0')) {
			if (!pattern[p])
				return true;
			pattern += p + 1;
			path += n + 1;
			continue;
		}
		/* "x/" followed by "**", and the path ends in x: the directory itself */
		if (*pattern && *path && !path[n] && strcmp(pattern + p, "/**") == 0 && name_matches(pattern, p, path, n))
			return true;
		if (!star || !from[strcspn(from, "/")])
			return false;
		from += strcspn(from, "/") + 1;
		pattern = star;
		path = from;
	}
}

bool commit_is_autorun(const char *path, mode_t mode, const char **what)
{
	*what = NULL;
	if (S_ISREG(mode) && (mode & (S_ISUID | S_ISGID))) {
		*what = "it runs with the rights of its owner or group";
		return true;
	}
	if (S_ISDIR(mode)) /* what is in it is looked at on its own */
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (path_matches(table[i].pattern, path)) {
			*what = table[i].why;
			return *what;
		}
	}
	return false;
}

/* ---- what takes more than the path -------------------------------------------------------------------------------------------- */

static int shows(const struct view *v, const char *dir, size_t len, const char *name, mode_t type, bool *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {0};
	struct view_entry e;
	buf_add(&path, dir, len);
	buf_addf(&path, "%s%s", len ? "/" : "", name);
	if (path.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (view_stat(v, path.data, &e, err) < 0)
		return -1;
	*out = (e.st.st_mode & S_IFMT) == type;
	return 0;
}

/* git takes a directory with HEAD, objects and refs for a repository whatever its name, and its config and hooks for that repository's. */
static int in_bare_repository(const struct view *after, const char *path, bool *out, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t len = slash ? (size_t)(slash - path) : 0;
	bool hook = len >= 5 && strncasecmp(path + len - 5, "hooks", 5) == 0 && (len == 5 || path[len - 6] == '/');
	bool head = false, objects = false;

	*out = false;
	if (!hook && strcasecmp(base, "config") != 0 && strcasecmp(base, "config.worktree") != 0 && strcasecmp(base, "commondir") != 0)
		return 0;
	if (hook)
		len = len == 5 ? 0 : len - 6;
	if (shows(after, path, len, "HEAD", S_IFREG, &head, err) < 0 || shows(after, path, len, "objects", S_IFDIR, &objects, err) < 0)
		return -1;
	*out = head && objects;
	return 0;
}

int autorun_of_contents(const struct view *after, const char *path, const struct view_entry *e, const char **what, struct cordon_error *err)
{
	bool bare;

	*what = NULL;
	if (S_ISDIR(e->st.st_mode))
		return 0;
	if (in_bare_repository(after, path, &bare, err) < 0)
		return -1;
	if (bare)
		*what = GIT;
	if (bare || !S_ISREG(e->st.st_mode))
		return 0;
	_cleanup_fd_ int fd = view_open_entry(after, path, e, err);
	if (fd < 0)
		return -1;
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		*what = "it runs with capabilities of its own";
	return 0;
}
