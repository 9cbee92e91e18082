/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that some program runs, or takes commands from, without being asked to: on opening the directory, on the next shell, on `git
 * status`. An agent that writes one runs code on the host later, after the sandbox is gone (CVE-2026-25725, CVE-2026-26268). They are
 * committed only on demand.
 *
 * What is run because somebody builds, tests or starts the project (Makefile, package.json, build.rs, conftest.py), the configuration of
 * its linters and the prose that it has for AI agents (AGENTS.md) are its ordinary source and not in the table: whoever builds it runs what
 * is in it. .gitmodules is not either, since git runs nothing from it any more (CVE-2019-19604). Repositories are in commit_autorun_git.c.
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/util.h"
#include "layers/autorun_parts.h"

#define VERSIONS "it decides which programs are run under their names in this directory"
#define ENTER "direnv, devbox or nix runs it when a shell enters the directory"
#define MISE "mise runs its hooks when a shell enters the directory"
#define VCS "a version control system runs it, or reads commands from it"
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
 * name, "**" any number of names, also none. What a pattern means to be a directory may not become a link to one either.
 */
static const struct {
	const char *pattern;
	const char *why;
} table[] = {
	{"**/commondir", AUTORUN_GIT}, /* of a git directory: its configuration is elsewhere */
	{"**/.gitconfig", AUTORUN_GIT},
	{"**/.config/git/**", AUTORUN_GIT},
	{"**/.hg/hgrc*", VCS},
	{"**/.hg/sharedpath", VCS}, /* its configuration is elsewhere */
	{"**/.hgrc", VCS},
	{"**/.sl/config", VCS},
	{"**/.sl/hgrc*", VCS},
	{"**/.sl/sharedpath", VCS},
	{"**/.jj/repo", VCS}, /* as a file: the repository is elsewhere */
	{"**/.jj/repo/*.toml", VCS},
	{"**/.jj/repo/config*", VCS},
	{"**/.jj/repo/store/git_target", VCS},
	{"**/.jj/*.toml", VCS},
	{"**/.jj/config*", VCS},
	{"**/.jjconfig.toml", VCS},
	{"**/.config/jj/**", VCS},
	{"**/.pijul/config*", VCS},
	{"**/_darcs/prefs/defaults", VCS},
	{"**/.bzr/**/*.conf", VCS},

	{"**/.githooks/**", HOOKS},
	{"**/.git-hooks/**", HOOKS},
	{"**/.pre-commit-config.y*ml", HOOKS},
	{"**/.husky/**", HOOKS},
	{"**/.lefthook/**", HOOKS},
	{"**/lefthook.*", HOOKS},
	{"**/.lefthook.*", HOOKS},
	{"**/.overcommit.yml", HOOKS},
	{"**/prek.toml", HOOKS},
	{"**/hk.pkl", HOOKS},
	{"**/.huskyrc*", HOOKS},
	{"**/.lintstagedrc*", HOOKS},
	{"**/lint-staged.config.*", HOOKS},
	{"**/captainhook.json", HOOKS},
	{"**/grumphp.yml*", HOOKS},
	{"**/.rusty-hook.toml", HOOKS},

	{"**/.github/workflows/**", CI},
	{"**/.github/actions/**", CI},
	{"**/.gitea/workflows/**", CI},
	{"**/.gitea/actions/**", CI},
	{"**/.forgejo/workflows/**", CI},
	{"**/.forgejo/actions/**", CI},
	{"**/*.gitlab-ci.y*ml", CI},
	{"**/.circleci/**", CI},
	{"**/.buildkite/**", CI},
	{"**/.travis.yml", CI},
	{"**/.drone.*", CI},
	{"**/.woodpecker*/**", CI},
	{"**/.cirrus.*", CI},
	{"**/.semaphore/**", CI},
	{"**/.teamcity/**", CI},
	{"**/.tekton/**", CI},
	{"**/.builds/**", CI},
	{"**/.build.yml", CI},
	{"**/.appveyor.yml", CI},
	{"**/appveyor.yml", CI},
	{"**/azure-pipelines*.yml", CI},
	{"**/bitbucket-pipelines.yml", CI},
	{"**/jenkinsfile*", CI},

	{"**/.vscode/**", EDITOR},
	{"**/*.code-workspace", EDITOR},
	{"**/.idea/**", EDITOR},
	{"**/.fleet/**", EDITOR},
	{"**/.vs/**", EDITOR},
	{"**/.theia/**", EDITOR},
	{"**/.externaltoolbuilders/**", EDITOR},
	{"**/*.sublime-project", EDITOR},
	{"**/.zed/**", EDITOR},
	{"**/.helix/**", EDITOR},
	{"**/.nvim/**", EDITOR},
	{"**/.vim/**", EDITOR},
	{"**/.config/nvim/**", EDITOR},
	{"**/.exrc", EDITOR},
	{"**/.vimrc", EDITOR},
	{"**/.lvimrc", EDITOR},
	{"**/.local.vimrc", EDITOR},
	{"**/.vimrc.local", EDITOR},
	{"**/.lazy.lua", EDITOR},
	{"**/.neoconf.json", EDITOR},
	{"**/.ycm_extra_conf.py", EDITOR},
	{"**/.nvimrc", EDITOR},
	{"**/.nvim.lua", EDITOR},
	{"**/.emacs", EDITOR},
	{"**/.emacs.el*", EDITOR},
	{"**/.emacs.d/**", EDITOR},
	{"**/.dir-locals*.el", EDITOR},
	{"**/.devcontainer/**", EDITOR},
	{"**/.devcontainer.json", EDITOR},
	{"**/.gitpod.yml", EDITOR},

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
	{"**/crush.json", AGENT},
	{"**/.crush.json", AGENT},
	{"**/.qwen/**", AGENT},
	{"**/.trae/**", AGENT},
	{"**/.augment/**", AGENT},
	{"**/.factory/**", AGENT},
	{"**/.junie/**", AGENT},
	{"**/.kilocode/**", AGENT},
	{"**/.goose/**", AGENT},
	{"**/.amp/**", AGENT},

	{"**/.bashrc", SHELL},
	{"**/.bash_*", SHELL},
	{"**/.bashrc.d/**", SHELL},
	{"**/.inputrc", SHELL},
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
	{"**/.envrc", ENTER},
	{"**/.direnv/**", ENTER},
	{"**/.config/direnv/**", ENTER},
	{"**/.direnvrc", ENTER},
	{"**/devbox.json", ENTER},
	{"**/devenv.nix", ENTER},
	{"**/devenv.local.nix", ENTER},
	{"**/devenv.yaml", ENTER},
	{"**/flake.nix", ENTER}, /* direnv asks again for a changed .envrc, not for what it uses */
	{"**/shell.nix", ENTER},
	{"**/.autoenv*", "a shell runs it when it enters the directory"},
	{"**/mise.toml", MISE},
	{"**/mise.*.toml", MISE},
	{"**/.mise*.toml", MISE},
	{"**/.mise/**", MISE},
	{"**/mise/config*.toml", MISE},
	{"**/mise/conf.d/**", MISE},
	{"**/.tool-versions", VERSIONS},
	{"**/rust-toolchain", VERSIONS},
	{"**/rust-toolchain.toml", VERSIONS},

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
	{"**/.ipython/**", TOOL},
	{"**/.jupyter/**", TOOL},
	{"**/.julia/config/**", TOOL},
	{"**/.irbrc", TOOL},
	{"**/.pryrc", TOOL},
	{"**/.ghci", TOOL},
	{"**/.rprofile", TOOL},
	{"**/.renviron", TOOL},
	{"**/.octaverc", TOOL},
	{"**/.ocamlinit", TOOL},
	{"**/.psqlrc", TOOL},
	{"**/.sqliterc", TOOL},
	{"**/.tmux.conf", TOOL},
	{"**/.screenrc", TOOL},
	{"**/.wgetrc", TOOL},
	{"**/.curlrc", TOOL},
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
bool autorun_path_matches(const char *pattern, const char *path)
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

/* Whether the path is where the pattern has one of its directories. */
static bool is_on_the_way(const char *pattern, const char *path)
{
	char part[64];
	for (const char *slash = strchr(pattern, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t n = (size_t)(slash - pattern);
		if (pattern[n - 1] == '*' || n >= sizeof(part)) /* "**": nothing in particular */
			continue;
		memcpy(part, pattern, n);
		part[n] = '\0';
		if (autorun_path_matches(part, path))
			return true;
	}
	return false;
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
		if (autorun_path_matches(table[i].pattern, path) || (S_ISLNK(mode) && is_on_the_way(table[i].pattern, path))) {
			*what = table[i].why;
			return true;
		}
	}
	return false;
}

/* ---- what takes more than the path -------------------------------------------------------------------------------------------- */

int autorun_of_contents(const struct view *after, const char *path, const struct view_entry *e, const char **what, struct cordon_error *err)
{
	*what = NULL;
	if (!S_ISREG(e->st.st_mode))
		return 0;
	_cleanup_fd_ int fd = view_open_entry(after, path, e, err);
	if (fd < 0)
		return -1;
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		*what = "it runs with capabilities of its own";
	return 0;
}
