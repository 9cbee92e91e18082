/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit refuses because some program on the host would run it by itself. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "commit_fixture.h"

#include "base/fs.h"
#include "base/util.h"

static const struct options plain = {0};
static const char head[] = "ref: refs/heads/main\n", evil[] = "[core]\n\tfsmonitor = evil\n";

/* As begin(), with a home directory of its own: base/home. */
static int begin_at_home(void **state)
{
	char path[256];
	if (begin(state) < 0 || fs_fd_path(base, path, sizeof(path) - 8) < 0)
		return -1;
	put_dir(base, "home", 0755);
	memcpy(path + strlen(path), "/home", 6);
	unsetenv("XDG_CONFIG_HOME");
	return setenv("HOME", path, 1);
}

static void repository(int dir, const char *path)
{
	char name[128];
	snprintf(name, sizeof(name), "%s/HEAD", path);
	put_file(dir, name, head, 0644);
	snprintf(name, sizeof(name), "%s/objects", path);
	put_dir(dir, name, 0755);
	snprintf(name, sizeof(name), "%s/refs/heads", path);
	put_dir(dir, name, 0755);
	snprintf(name, sizeof(name), "%s/config", path);
	put_file(dir, name, "[core]\n\tbare = true\n", 0644);
}

/* The commit is refused because of just these paths: what runs by itself. */
static void refuses(const char *const *paths)
{
	size_t count = 0;
	int r = commit_with(plain);
	if (r != 1)
		fail_msg("not refused: %d %s", r, err.message);
	for (; paths[count]; count++)
		if (!strstr(problem_of(paths[count]), "runs by itself"))
			fail_msg("%s was let through, or: %s", paths[count], problem_of(paths[count]));
	for (size_t i = 0; i < report.problem_count; i++) {
		size_t k = 0;
		while (paths[k] && strcmp(paths[k], report.problems[i].path) != 0)
			k++;
		if (!paths[k])
			fail_msg("%s: %s", report.problems[i].path, report.problems[i].text);
	}
	assert_int_equal(report.problem_count, count);
}
#define assert_refuses(...) refuses((const char *const[]){__VA_ARGS__, NULL})

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static bool next_word(const char **list, char *out, size_t size)
{
	size_t n = strcspn(*list, " ");
	assert_true(n < size);
	memcpy(out, *list, n);
	out[n] = '\0';
	*list += n + ((*list)[n] == ' ');
	return n > 0;
}

static void test_what_runs_by_itself_is_known_by_its_path(void **state)
{
	static const char yes[] =
		"commondir sub/commondir .hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .jj/repo "
		".jj/repo/config.toml .jj/repo/store/git_target .pijul/config _darcs/prefs/defaults .githooks/pre-commit "
		".git-hooks/pre_commit/x.rb .lintstagedrc.json lint-staged.config.mjs mise.toml mise.local.toml "
		"mise.ci.local.toml .mise.toml .config/mise.toml .config/mise/config.toml mise/conf.d/a.toml "
		".tool-versions rust-toolchain.toml devbox.json flake.nix .gitea/workflows/x.yml .forgejo/workflows/x.yml "
		"ci/deploy.gitlab-ci.yml .cirrus.star .gitpod.yml app.sublime-project .vs/tasks.vs.json .lazy.lua "
		".crush.json .inputrc .autoenv.zsh .envrc deep/down/.envrc .direnv/x .vscode/tasks.json .vscode "
		"a/.vscode/settings.json x.code-workspace .idea/workspace.xml .claude/settings.json .cursor/mcp.json "
		".mcp.json .bashrc .zshenv .profile .config/fish/config.fish .npmrc .yarnrc.yml .pre-commit-config.yaml "
		".husky/pre-commit .github/workflows/ci.yml .gitlab-ci.yml .ssh/authorized_keys .netrc "
		"venv/lib/python3.11/site-packages/x.pth sitecustomize.py .devcontainer/devcontainer.json Jenkinsfile "
		".gdbinit .gitconfig";
	static const char no[] = ".hg/dirstate .hg/store/00changelog.i .jj/repo/op_store/heads/x .jj/working_copy/tree_state commondir.txt "
				 "AGENTS.md CLAUDE.md .env .nvmrc .gitea/issue_template.md mise.md toml/mise flake.lock default.nix "
				 ".gitignore .gitattributes .gitmodules git/config src/config hooks/pre-commit Makefile package.json "
				 "a.git/x model.pth site-packages/x.py bashrc x.bashrc .github/ISSUE_TEMPLATE.md vscode/tasks.json";
	char path[64];
	const char *why;
	for (const char *p = yes; next_word(&p, path, sizeof(path));)
		if (!commit_is_autorun(path, S_IFREG | 0644, &why) || !why)
			fail_msg("%s was let through", path);
	for (const char *p = no; next_word(&p, path, sizeof(path));)
		if (commit_is_autorun(path, S_IFREG | 0644, &why))
			fail_msg("%s: %s", path, why);
	assert_true(commit_is_autorun("tool", S_IFREG | 04755, &why));
	assert_true(commit_is_autorun("tool", S_IFREG | 02755, &why));
	assert_false(commit_is_autorun("dir", S_IFDIR | 02755, &why));
	assert_false(commit_is_autorun(".jj/repo", S_IFDIR | 0755, &why));
}

/* .cargo/config.toml runs by itself; so does cfg/config.toml, once .cargo is a link to cfg. */
static void test_a_link_in_the_place_of_a_directory_is_refused(void **state)
{
	static const char *const links[] = {".cargo", "a/.config", ".config/fish", ".vscode", ".hg", ".jj", ".github", ".local/bin"};
	const char *why;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		if (!commit_is_autorun(links[i], S_IFLNK | 0777, &why))
			fail_msg("%s was let through", links[i]);
		assert_false(commit_is_autorun(links[i], S_IFDIR | 0755, &why));
	}
	assert_false(commit_is_autorun("src/config", S_IFLNK | 0777, &why));
	assert_false(commit_is_autorun("node_modules/x", S_IFLNK | 0777, &why));
}

static void test_a_hook_is_refused_unless_it_is_asked_for(void **state)
{
	put_file(host, ".git/HEAD", "ref: x\n", 0644);
	enter();
	put_file(inside, ".git/hooks/pre-commit", "#!/bin/sh\n", 0755);
	put_file(inside, ".git/objects/ab/c", "blob\n", 0444);
	leave();
	assert_refused(plain, ".git/hooks/pre-commit", REFUSED_AUTORUN, "runs by itself");
	assert_refused((struct options){.flags = COMMIT_FORCE}, ".git/hooks/pre-commit", REFUSED_AUTORUN, "runs by itself");
	must_commit((struct options){.flags = COMMIT_AUTORUN});
	assert_host_is_inside();
}

static void test_a_hook_may_be_deleted(void **state)
{
	put_file(host, ".git/hooks/pre-commit", "#!/bin/sh\n", 0755);
	enter();
	remove_path(inside, ".git/hooks/pre-commit");
	leave();
	must_commit(plain);
}

static void test_a_new_mode_can_make_a_file_run_by_itself(void **state)
{
	put_file(host, "tool", "x\n", 0755);
	enter();
	assert_int_equal(fchmodat(inside, "tool", 04755, 0), 0);
	leave();
	assert_refused(plain, "tool", REFUSED_AUTORUN, "rights of its owner");
}

static void test_a_file_with_capabilities_is_refused(void **state)
{
	/* struct vfs_cap_data, version 2: cap_setuid, permitted and effective */
	static const unsigned char caps[] = {1, 0, 0, 2, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	need_root();
	enter();
	put_file(inside, "tool", "x\n", 0755);
	_cleanup_fd_ int fd = openat(inside, "tool", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "security.capability", caps, sizeof(caps), 0), 0);
	leave();
	assert_refused(plain, "tool", REFUSED_AUTORUN, "capabilities");
}

/* ---- the host's repositories --------------------------------------------------------------------------------------------------- */

/* What git writes for a commit, a branch, a merge, a stash, a fetch and gc, in a repository, a submodule and a worktree. */
static void test_ordinary_work_with_git_is_committed(void **state)
{
	static const char *const dirs[] = {".git", ".git/modules/lib/a", ".git/worktrees/logs", "sub/.git", "mirror.git"};
	static const char *const names[] = {"HEAD",
	                                    "ORIG_HEAD",
	                                    "index",
	                                    "objects/ab/cdef",
	                                    "objects/pack/pack-1.idx",
	                                    "refs/heads/new/config",
	                                    "refs/stash",
	                                    "logs/HEAD",
	                                    "logs/refs/heads/hooks/x",
	                                    "packed-refs",
	                                    "COMMIT_EDITMSG",
	                                    "MERGE_MSG",
	                                    "FETCH_HEAD",
	                                    "info/exclude",
	                                    "lfs/objects/ab/cd",
	                                    "description",
	                                    "shallow"};
	char name[128];
	for (size_t d = 0; d < ARRAY_SIZE(dirs); d++)
		if (strstr(dirs[d], "worktrees")) {
			put_file(host, ".git/worktrees/logs/HEAD", head, 0644);
			put_file(host, ".git/worktrees/logs/commondir", "../..\n", 0644);
		} else {
			repository(host, dirs[d]);
		}
	enter();
	for (size_t d = 0; d < ARRAY_SIZE(dirs); d++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			snprintf(name, sizeof(name), "%s/%s", dirs[d], names[i]);
			put_file(inside, name, i == 0 ? "ref: refs/heads/new\n" : "x\n", 0644);
		}
	leave();
	must_commit(plain);
	assert_host_is_inside();
}

static void test_all_else_in_a_repository_is_refused(void **state)
{
	static const char *const names[] = {".git/config",
	                                    ".git/config.worktree",
	                                    ".git/hooks/pre-commit",
	                                    ".git/gitdir",
	                                    ".git/info/attributes",
	                                    ".git/rebase-merge/git-rebase-todo",
	                                    ".git/worktrees/w/gitdir",
	                                    ".git/modules/m/config",
	                                    ".git/modules/a/b/hooks/x",
	                                    ".git/lfs/hooks/x",
	                                    ".git/remotes/origin",
	                                    ".git/objects/.git/config",
	                                    "bare/config",
	                                    "bare/hooks/update",
	                                    "bare/branches/x",
	                                    "bare/sub/refs/x"};
	repository(host, ".git");
	repository(host, "bare");
	enter();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put_file(inside, names[i], "new\n", 0644);
	put_file(inside, "src/config", "harmless\n", 0644);
	put_file(inside, "hooks/pre-commit", "harmless\n", 0755);
	leave();
	assert_int_equal(commit_with(plain), 1);
	assert_int_equal(report.problem_count, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!*problem_of(names[i]))
			fail_msg("%s was let through", names[i]);
}

/* Worktrees and submodules may be called like what is harmless further up. */
static void test_names_count_only_at_their_own_level(void **state)
{
	static const char *const names[] = {".git/worktrees/logs/commondir", ".git/worktrees/refs/gitdir", ".git/modules/objects/config",
	                                    ".git/modules/lib/logs/hooks/x"};
	repository(host, ".git");
	repository(host, ".git/modules/objects");
	repository(host, ".git/modules/lib");
	repository(host, ".git/modules/lib/logs");
	put_file(host, ".git/worktrees/logs/HEAD", head, 0644);
	put_file(host, ".git/worktrees/logs/commondir", "../..\n", 0644);
	put_file(host, ".git/worktrees/refs/HEAD", head, 0644);
	put_file(host, ".git/worktrees/refs/commondir", "../..\n", 0644);
	enter();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put_file(inside, names[i], "../../../elsewhere\n", 0644);
	leave();
	assert_refuses(names[0], names[1], names[2], names[3]);
}

/* git would write its log through it. */
static void test_a_link_in_a_repository_is_refused(void **state)
{
	repository(host, ".git");
	enter();
	put_link(inside, ".git/logs", "hooks");
	put_link(inside, ".git/refs/heads/x", "../../hooks/x");
	put_link(inside, "sub/.git", "../real");
	leave();
	assert_refuses(".git/logs", ".git/refs/heads/x", "sub/.git");
}

/* ---- what becomes a repository ------------------------------------------------------------------------------------------------- */

static void test_a_repository_by_another_name_is_seen(void **state)
{
	put_file(host, "lib/HEAD", head, 0644);
	put_dir(host, "lib/refs", 0755);
	enter();
	put_dir(inside, "lib/objects", 0755);
	put_file(inside, "lib/config", evil, 0644);
	put_file(inside, "lib/ordinary", "x\n", 0644);
	leave();
	assert_refuses("lib/objects", "lib/config", "lib/ordinary");
}

static void test_a_head_that_is_a_link_makes_one(void **state)
{
	enter();
	put_link(inside, "d/HEAD", "refs/heads/main");
	put_dir(inside, "d/objects", 0755);
	put_dir(inside, "d/refs", 0755);
	put_file(inside, "d/config", evil, 0644);
	leave();
	assert_refuses("d/HEAD", "d/objects", "d/refs", "d/config");
}

/* access(2) follows links, and takes an executable file for a directory that can be entered. */
static void test_links_and_files_for_directories_make_one(void **state)
{
	enter();
	put_file(inside, "d/HEAD", head, 0644);
	put_link(inside, "d/objects", "o");
	put_dir(inside, "d/o", 0755);
	put_file(inside, "d/refs", "x\n", 0755);
	put_file(inside, "d/config", evil, 0644);
	leave();
	assert_refuses("d/HEAD", "d/objects", "d/refs", "d/config");
}

static void test_one_may_not_be_completed_bit_by_bit(void **state)
{
	static const char *const last[] = {"d/HEAD", "d/objects", "d/refs"};
	for (size_t i = 0; i < ARRAY_SIZE(last); i++) {
		assert_int_equal(i ? begin_at_home(state) : 0, 0);
		enter();
		put_file(inside, "d/config", evil, 0644);
		for (size_t k = 0; k < ARRAY_SIZE(last); k++)
			if (k != i && k == 0)
				put_file(inside, last[k], head, 0644);
			else if (k != i)
				put_dir(inside, last[k], 0755);
		leave();
		must_commit(plain); /* by now it is an ordinary directory */
		remember_written();
		next_exec();
		if (i == 0)
			put_file(inside, last[i], head, 0644);
		else
			put_dir(inside, last[i], 0755);
		leave();
		assert_refuses(last[i]);
		if (i + 1 < ARRAY_SIZE(last))
			end(state);
	}
}

/* What is there counts even if git would not take it yet: a HEAD without a branch. */
static void test_a_head_may_not_become_valid(void **state)
{
	repository(host, "d");
	put_file(host, "d/HEAD", "notes about heads\n", 0644);
	enter();
	put_file(inside, "d/HEAD", head, 0644);
	leave();
	assert_refuses("d/HEAD");
}

/* A deletion inside does not hide what the host keeps: only some of the paths are committed. */
static void test_what_is_deleted_inside_still_counts(void **state)
{
	repository(host, "d");
	enter();
	remove_path(inside, "d/HEAD");
	put_file(inside, "d/config", evil, 0644);
	leave();
	assert_refused((struct options){.paths = (const char *const[]){"d/config", NULL}}, "d/config", REFUSED_AUTORUN, "git");
}

static void test_a_configuration_elsewhere_is_refused(void **state)
{
	enter();
	put_dir(inside, "c/objects", 0755);
	put_dir(inside, "c/refs", 0755);
	put_file(inside, "c/config", evil, 0644);
	put_file(inside, "d/HEAD", head, 0644);
	put_file(inside, "d/commondir", "../c\n", 0644);
	leave();
	assert_int_equal(commit_with(plain), 1);
	assert_non_null(strstr(problem_of("d/commondir"), "git"));
}

static void test_the_workspace_itself_may_not_become_one(void **state)
{
	put_file(host, "config", "x\n", 0644);
	put_dir(host, "objects", 0755);
	put_dir(host, "refs", 0755);
	enter();
	put_file(inside, "HEAD", head, 0644);
	leave();
	assert_refuses("HEAD");
}

static void test_directories_called_like_parts_are_ordinary(void **state)
{
	put_file(host, "src/objects/a.c", "x\n", 0644);
	enter();
	put_file(inside, "src/refs/b.c", "x\n", 0644);
	put_file(inside, "src/objects/a.c", "changed\n", 0644);
	put_file(inside, "src/hooks/useState.ts", "x\n", 0644);
	put_file(inside, "src/config", "x\n", 0644);
	put_file(inside, "src/logs/HEAD", "x\n", 0644);
	leave();
	must_commit(plain);
}

/* ---- what the host leads to ---------------------------------------------------------------------------------------------------- */

/* Whether a commit of these files, all new or changed, is refused. */
static void change(const char *const *paths)
{
	enter();
	for (; *paths; paths++)
		put_file(inside, *paths, "changed inside\n", 0755);
	leave();
}
#define changes(...) change((const char *const[]){__VA_ARGS__, NULL})

static void test_the_hosts_directory_of_hooks_is_guarded(void **state)
{
	repository(host, ".git");
	put_file(host, ".git/config", "[core]\n\tbare = false\n[core] HooksPath = \"tools/hooks\" ; ours\n", 0644);
	put_link(host, "tools/hooks/pre-push", "../../scripts/push");
	put_file(host, "scripts/push", "x\n", 0755);
	changes("tools/hooks/pre-commit", "tools/hooks/lib/x.sh", "scripts/push", "scripts/other", "tools/x");
	assert_refuses("tools/hooks/pre-commit", "tools/hooks/lib/x.sh", "scripts/push");
}

static void test_a_directory_of_hooks_that_is_not_there_is_guarded(void **state)
{
	repository(host, ".git");
	put_file(host, ".git/config", "[core]\nhookspath=./a/../conf/hooks/\n", 0644);
	enter();
	put_file(inside, "evil/hooks/pre-commit", "x\n", 0755);
	put_link(inside, "conf", "evil");
	leave();
	assert_refuses("conf");
}

static void test_the_targets_of_hooks_are_guarded(void **state)
{
	repository(host, ".git");
	put_link(host, ".git/hooks/pre-commit", "../../scripts/one");
	put_link(host, "scripts/one", "two");
	put_file(host, "scripts/two", "x\n", 0755);
	put_link(host, ".git/hooks/post-merge", "../../scripts/new");
	enter();
	remove_path(inside, "scripts/one");
	put_file(inside, "scripts/one", "changed\n", 0755);
	put_file(inside, "scripts/two", "changed\n", 0755);
	put_file(inside, "scripts/new", "changed\n", 0755);
	put_file(inside, "scripts/three", "changed\n", 0755);
	leave();
	assert_refuses("scripts/one", "scripts/two", "scripts/new");
}

static void test_hooks_that_are_a_link_are_guarded(void **state)
{
	repository(host, ".git");
	put_link(host, ".git/hooks", "../githooks");
	put_file(host, "githooks/pre-commit", "x\n", 0755);
	changes("githooks/pre-commit");
	assert_refuses("githooks/pre-commit");
}

static void test_included_configurations_are_guarded(void **state)
{
	repository(host, ".git");
	put_file(host, ".git/config", "[include]\n\tpath = ../conf/a\n[includeIf \"gitdir:~/x \\\"y\\\"/\"]\npath = ../conf/if\n", 0644);
	put_file(host, "conf/a", "[include]\n\tpath = deep/b\n", 0644);
	put_file(host, "conf/deep/b", "[core]\n\thooksPath = h\n", 0644);
	changes("conf/a", "conf/deep/b", "conf/if", "conf/other", "h/x", "conf/h/x");
	assert_refuses("conf/a", "conf/deep/b", "conf/if", "h/x");
}

static void test_programs_that_the_configuration_names_are_guarded(void **state)
{
	repository(host, ".git");
	put_file(host, ".git/config",
	         "[core]\n\tfsmonitor = ./tools/watch 2\n\tpager = less\n[filter \"x\"]\n\tclean = python3 clean.py --flag=conf/x %f\n"
	         "[blame]\n\tignoreRevsFile = tools/revs\n[alias]\n\tt = !tools/test\n",
	         0644);
	put_file(host, "clean.py", "x\n", 0644);
	put_file(host, "less", "x\n", 0644);
	changes("tools/watch", "clean.py", "conf/x", "less", "tools/revs", "tools/test", "python3");
	assert_refuses("tools/watch", "clean.py", "conf/x");
}

/* The workspace is a directory in a repository, or a worktree of one. */
static void test_a_repository_around_the_workspace_counts(void **state)
{
	repository(base, ".git");
	put_file(base, ".git/config", "[core]\n\thooksPath = host/hooks-here\n", 0644);
	put_link(base, ".git/hooks/x", "../../host/linked");
	changes("hooks-here/x", "linked", "free");
	assert_refuses("hooks-here/x", "linked");
}

static void test_the_repository_of_a_worktree_counts(void **state)
{
	repository(base, "main/.git");
	put_file(base, "main/.git/config", "[core]\n\thooksPath = conf\n", 0644);
	put_file(base, "main/.git/worktrees/w/HEAD", head, 0644);
	put_file(base, "main/.git/worktrees/w/commondir", "../..\n", 0644);
	put_file(base, "main/.git/worktrees/w/config.worktree", "[include]\npath=../../../../host/extra\n", 0644);
	put_file(host, ".git", "gitdir: ../main/.git/worktrees/w\n", 0644);
	changes("conf/pre-commit", "extra", "free");
	assert_refuses("conf/pre-commit", "extra");
}

static void test_repositories_inside_the_workspace_count(void **state)
{
	repository(host, "a/.git");
	put_file(host, "a/.git/config", "[core]\n\thooksPath = h\n", 0644);
	repository(host, "b.git");
	put_file(host, "b.git/config", "[core]\n\thooksPath = ../bh\n", 0644);
	changes("a/h/x", "a/sub/file", "b.git/refs/heads/x", "bh/x", "h/x");
	assert_refuses("a/h/x", "bh/x");
}

static void test_the_users_configuration_counts(void **state)
{
	repository(host, "repo/.git");
	put_file(base, "home/.gitconfig", "[core]\n\thooksPath = own-hooks\n[include]\n\tpath = ~/../host/dotfiles/gitconfig\n", 0644);
	changes("repo/own-hooks/x", "dotfiles/gitconfig", "dotfiles/other");
	assert_refuses("repo/own-hooks/x", "dotfiles/gitconfig");
}

static void test_the_target_of_an_autorun_link_is_guarded(void **state)
{
	put_link(host, ".envrc", "env/development");
	put_link(host, ".vscode", "editor");
	put_dir(host, "editor", 0755);
	put_file(host, "env/development", "x\n", 0644);
	changes("env/development", "env/other", "editor/tasks.json");
	assert_refuses("env/development", "editor/tasks.json");
}

/* It is the host's, but we read it: it must end, and be no more than it may. */
static void test_a_configuration_without_end_is_an_error(void **state)
{
	_cleanup_free_ char *much = calloc(1, 2 << 20);
	repository(host, ".git");
	memset(much, '\n', (2 << 20) - 1);
	put_file(host, ".git/config", much, 0644);
	changes("x");
	assert_int_equal(commit_with(plain), -1);
	assert_non_null(strstr(err.message, ".git/config"));
	assert_non_null(strstr(err.hint, "--allow-autorun"));
	must_commit((struct options){.flags = COMMIT_AUTORUN});
}

static void test_a_configuration_that_includes_itself_ends(void **state)
{
	repository(host, ".git");
	put_file(host, ".git/config", "[include]\npath = config\n[core]\nhooksPath = h\n", 0644);
	put_link(host, ".git/hooks/loop", "loop");
	assert_int_equal(mkfifoat(host, ".git/config.worktree", 0600), 0);
	changes("h/x");
	assert_refuses("h/x");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_at_home, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_runs_by_itself_is_known_by_its_path),
		TEST(test_a_link_in_the_place_of_a_directory_is_refused),
		TEST(test_a_hook_is_refused_unless_it_is_asked_for),
		TEST(test_a_hook_may_be_deleted),
		TEST(test_a_new_mode_can_make_a_file_run_by_itself),
		TEST(test_a_file_with_capabilities_is_refused),
		TEST(test_ordinary_work_with_git_is_committed),
		TEST(test_all_else_in_a_repository_is_refused),
		TEST(test_names_count_only_at_their_own_level),
		TEST(test_a_link_in_a_repository_is_refused),
		TEST(test_a_repository_by_another_name_is_seen),
		TEST(test_a_head_that_is_a_link_makes_one),
		TEST(test_links_and_files_for_directories_make_one),
		TEST(test_one_may_not_be_completed_bit_by_bit),
		TEST(test_a_head_may_not_become_valid),
		TEST(test_what_is_deleted_inside_still_counts),
		TEST(test_a_configuration_elsewhere_is_refused),
		TEST(test_the_workspace_itself_may_not_become_one),
		TEST(test_directories_called_like_parts_are_ordinary),
		TEST(test_the_hosts_directory_of_hooks_is_guarded),
		TEST(test_a_directory_of_hooks_that_is_not_there_is_guarded),
		TEST(test_the_targets_of_hooks_are_guarded),
		TEST(test_hooks_that_are_a_link_are_guarded),
		TEST(test_included_configurations_are_guarded),
		TEST(test_programs_that_the_configuration_names_are_guarded),
		TEST(test_a_repository_around_the_workspace_counts),
		TEST(test_the_repository_of_a_worktree_counts),
		TEST(test_repositories_inside_the_workspace_count),
		TEST(test_the_users_configuration_counts),
		TEST(test_the_target_of_an_autorun_link_is_guarded),
		TEST(test_a_configuration_without_end_is_an_error),
		TEST(test_a_configuration_that_includes_itself_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
