/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commit: after recovery the directory is exactly the old tree or exactly the new one.
 *
 *   old/     what the host had      new/    what it should become, made by ordinary system calls
 *   layer/   the difference, as a sandbox would have left it
 *   work/    a copy of old/, to which the layer is committed
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "crash.h"
#include "layers/commit.h"
#include "layers/copy.h"

#define OLD_TIME 1600000000123456789
#define LONG_NAME                                                                                                                        \
	"a-name-of-255-bytes-----------------------------------------------------------------------------------------------------------" \
	"------------------------------------------------------------------------------------------------------------------------------end"

static char *old_text, *new_text;

/* ---- the trees ---------------------------------------------------------------------------------------------------------------- */

static const char *numbered(const char *format, int i)
{
	static char texts[2][64]; /* a path and what is in it */
	static int next;
	char *text = texts[next++ % 2];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof(texts[0]), format, i);
#pragma GCC diagnostic pop
	return text;
}

static void make_old(int t)
{
	for (int i = 0; i < 12; i++)
		put_file(t, numbered("src/file%d.c", i), numbered("int f%d;\n", i), 0644);
	for (int i = 0; i < 6; i++)
		put_file(t, numbered("renamed/part/%d", i), numbered("renamed %d\n", i), i % 2 ? 0600 : 0755);
	for (int i = 0; i < 8; i++)
		put_file(t, numbered(i % 2 ? "gone/deep/er/%d" : "gone/%d", i), "gone\n", 0644);
	put_dir(t, "gone/empty", 0755);
	put_file(t, "top.txt", "top\n", 0644);
	put_file(t, "file-to-dir", "file\n", 0644);
	put_file(t, "dir-to-file/a/b", "b\n", 0644);
	put_file(t, "dir-to-link/a", "a\n", 0644);
	put_file(t, "file-to-link", "file\n", 0644);
	put_link(t, "link-to-file", "top.txt");
	put_file(t, "file-to-fifo", "file\n", 0644);
	put_file(t, "mode.sh", "#!/bin/sh\n", 0644);
	put_file(t, "attr.txt", "attr\n", 0644);
	put_attr(t, "attr.txt", "user.old", "1");
	put_file(t, "linked-a", "linked\n", 0644);
	MUST(linkat(t, "linked-a", t, "linked-b", 0) == 0);
	put_file(t, "both-a", "both\n", 0644);
	MUST(linkat(t, "both-a", t, "both-b", 0) == 0);
	put_file(t, "closed/inside", "inside\n", 0444);
	put_dir(t, "closed", 0555);
	put_dir(t, "mode-dir", 0755);
	put_file(t, "untouched/file", "stays\n", 0640);
	put_link(t, "untouched/link", "../nowhere");
	put_file(t, "untouched/new\nline", "odd\n", 0644);
	settle_times(t, OLD_TIME);
}

static void change_links(int t)
{
	put_file(t, "linked-b", "split\n", 0644); /* one of two names is written to: they part */
	MUST(fchmodat(t, "both-a", 0600, 0) == 0);
	put_file(t, "new-links/one", "linked inside\n", 0644);
	MUST(linkat(t, "new-links/one", t, "new-links/two", 0) == 0);
	MUST(linkat(t, "new-links/one", t, "three", 0) == 0);
}

static void change_kinds(int t)
{
	remove_path(t, "file-to-dir");
	put_file(t, "file-to-dir/sub/file", "below\n", 0644);
	remove_path(t, "dir-to-file");
	put_file(t, "dir-to-file", "a file now\n", 0644);
	remove_path(t, "dir-to-link");
	put_link(t, "dir-to-link", "src");
	put_link(t, "file-to-link", "/etc/passwd");
	put_file(t, "link-to-file", "no link\n", 0644);
	remove_path(t, "file-to-fifo");
	MUST(mkfifoat(t, "file-to-fifo", 0640) == 0);
}

static void make_sparse(int t, const char *path)
{
	put_file(t, path, "", 0644);
	_cleanup_fd_ int fd = openat(t, path, O_WRONLY | O_CLOEXEC);
	MUST(fd >= 0 && pwrite(fd, "end", 3, 300000) == 3);
}

/* In the tree, chmod of one of two names would change both; inside a sandbox it does not. */
static void split(int t, const char *path, const char *text)
{
	remove_path(t, path);
	put_file(t, path, text, 0644);
	struct timespec times[2] = {{1600000001, 5}, {1600000001, 5}};
	MUST(utimensat(t, path, times, 0) == 0);
}

static void make_new(int t)
{
	for (int i = 0; i < 6; i++)
		put_file(t, numbered("src/file%d.c", i), numbered("int changed%d;\n", i), 0644);
	for (int i = 6; i < 8; i++)
		remove_path(t, numbered("src/file%d.c", i));
	for (int i = 0; i < 14; i++)
		put_file(t, numbered("added/%d.txt", i), numbered("added %d\n", i), i % 3 ? 0644 : 0755);
	MUST(renameat(t, "renamed", t, "moved") == 0);
	remove_path(t, "gone");
	split(t, "both-a", "both\n");
	change_links(t);
	change_kinds(t);
	MUST(fchmodat(t, "mode.sh", 0755, 0) == 0);
	put_attr(t, "attr.txt", "user.new", "2");
	MUST(fchmodat(t, "closed", 0755, 0) == 0);
	put_file(t, "closed/more", "more\n", 0444);
	MUST(fchmodat(t, "closed", 0555, 0) == 0);
	MUST(fchmodat(t, "mode-dir", 0750, 0) == 0);
	put_dir(t, "empty/er", 0711);
	put_link(t, "new-link", "nowhere/at/all");
	make_sparse(t, "sparse");
	put_file(t, LONG_NAME, "long\n", 0644);
	put_file(t, "odd\x01\xff=%, name", "odd\n", 0644);
	put_attr(t, "odd\x01\xff=%, name", "user.a b", "x,y=z");
	if (geteuid() == 0)
		MUST(fchownat(t, "added/1.txt", 12345, 54321, 0) == 0 && fchownat(t, "mode.sh", 777, 0, 0) == 0);
}

static void copy(int base, const char *from, const char *to)
{
	struct cordon_error err = {0};
	struct copy_links *links = copy_links_new();
	if (copy_tree(base, from, base, to, 0, links, &err) < 0)
		fprintf(stderr, "%s\n", err.message);
	copy_links_free(links);
	MUST(err.code == 0);
}

static char *describe(int base, const char *name)
{
	_cleanup_fd_ int fd = tree_open(base, name);
	return tree_describe(fd);
}

static const char *make_trees(int base, void (*old)(int), void (*change)(int))
{
	put_dir(base, "old", 0755);
	_cleanup_fd_ int o = tree_open(base, "old");
	old(o);
	copy(base, "old", "new");
	_cleanup_fd_ int n = tree_open(base, "new");
	change(n);
	put_dir(base, "layer", 0700);
	_cleanup_fd_ int layer = tree_open(base, "layer");
	tree_make_layer(o, n, layer);
	old_text = describe(base, "old");
	new_text = describe(base, "new");
	return NULL;
}

static const char *set_up(int base)
{
	return make_trees(base, make_old, make_new);
}

static void reset(int base)
{
	remove_path(base, "work");
	copy(base, "old", "work");
}

/* ---- the operation ------------------------------------------------------------------------------------------------------------ */

static struct identity expected(void *arg, const char *path)
{
	return identities_get(arg, path);
}

/* Where the key is: the directory above. */
static const char *home_of(int base)
{
	static char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", base);
	return path;
}

static int commit(int base, unsigned flags)
{
	struct cordon_error err = {0};
	struct commit_report report;
	struct changes changes;
	struct view before, after;
	struct identities *known;
	_cleanup_fd_ int work = tree_open(base, "work"), layer = tree_open(base, "layer");
	MUST(view_from(&work, 1, true, &before, &err) == 0 && view_from((int[]){layer, work}, 2, true, &after, &err) == 0);
	MUST(changes_between(&before, &after, &changes, &err) == 0 && identities_new(&known, &err) == 0);
	for (size_t i = 0; i < changes.count; i++) {
		struct identity id;
		MUST(identity_now(work, changes.items[i].path, &id, &err) == 0);
		MUST(identities_put(known, changes.items[i].path, &id, &err) == 0);
	}
	struct commit_request r = {.home = home_of(base),
	                           .target = work,
	                           .target_path = "work",
	                           .before = &before,
	                           .after = &after,
	                           .changes = &changes,
	                           .expected = expected,
	                           .arg = known,
	                           .flags = flags};
	int result = commit_run(&r, &report, &err);
	if (result < 0)
		fprintf(stderr, "%s\n", err.message);
	for (size_t i = 0; i < report.problem_count; i++)
		fprintf(stderr, "%s: %s\n", report.problems[i].path, report.problems[i].text);
	return result == 0 ? 0 : 1;
}

static int operate(int base)
{
	return commit(base, 0);
}

static int recover(int base)
{
	struct cordon_error err = {0};
	enum commit_recovered what;
	_cleanup_fd_ int work = tree_open(base, "work");
	int r = commit_recover(work, "work", home_of(base), &what, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.message);
	return r < 0 ? 99 : (int)what;
}

static const char *check(int base, bool killed, int recovered)
{
	static char text[2400];
	_cleanup_free_ char *got = describe(base, "work");
	const char *from_old = tree_difference(old_text, got), *difference;
	if (recovered == 99)
		return "recovery failed";
	if (!killed && !from_old)
		return "the commit has changed nothing";
	if (!from_old)
		return recovered == RECOVERED_FINISHED ? "the old tree, but recovery says that it finished" : NULL;
	snprintf(text, sizeof(text), "neither old nor new.\n    old: %s", from_old);
	difference = tree_difference(new_text, got);
	if (!difference)
		return recovered == RECOVERED_UNDONE ? "the new tree, but recovery says that it was undone" : NULL;
	size_t len = strlen(text);
	snprintf(text + len, sizeof(text) - len, "\n    new: %s", difference);
	return text;
}

static void tear_down(int base)
{
	free(old_text);
	free(new_text);
	old_text = new_text = NULL;
}

const struct scenario commit_scenario = {
	.name = "commit",
	.set_up = set_up,
	.reset = reset,
	.operate = operate,
	.recover = recover,
	.check = check,
	.tear_down = tear_down,
	.least = 500,
	.samples = 4,
};

/* ---- a file system mounted below the directory -------------------------------------------------------------------------------- */

static void make_old_mounted(int t)
{
	put_file(t, "plain", "plain\n", 0644);
	for (int i = 0; i < 4; i++)
		put_file(t, numbered("mnt/sub/%d", i), "mounted\n", 0644);
	put_file(t, "mnt/top", "top\n", 0644);
	put_file(t, "mnt/goes/away", "goes\n", 0644);
	settle_times(t, OLD_TIME);
}

static void make_new_mounted(int t)
{
	put_file(t, "plain", "changed\n", 0644);
	for (int i = 0; i < 2; i++)
		put_file(t, numbered("mnt/sub/%d", i), "changed\n", 0644);
	put_file(t, "mnt/sub/new/file", "new\n", 0644);
	put_file(t, "mnt/added", "added\n", 0600);
	MUST(linkat(t, "mnt/added", t, "mnt/sub/linked", 0) == 0);
	remove_path(t, "mnt/goes");
	put_file(t, "outside", "outside\n", 0644);
}

static const char *set_up_mounted(int base)
{
	char path[4096];
	MUST(fs_fd_path(base, path, sizeof(path)) == 0);
	if (mount("tmpfs", path, "tmpfs", 0, NULL) < 0)
		return "cannot mount a file system here";
	MUST(umount2(path, 0) == 0);
	return make_trees(base, make_old_mounted, make_new_mounted);
}

static void reset_mounted(int base)
{
	char path[4096];
	struct cordon_error err = {0};
	_cleanup_fd_ int was = openat(base, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fs_fd_path(base, path, sizeof(path) - 16) == 0);
	strncat(path, "/work/mnt", sizeof(path) - strlen(path) - 1);
	if (was >= 0)
		MUST(umount2(path, MNT_DETACH) == 0);
	reset(base);
	MUST(mount("tmpfs", path, "tmpfs", 0, "mode=0755") == 0);
	_cleanup_fd_ int from = tree_open(base, "old/mnt"), to = tree_open(base, "work/mnt");
	for (const char *const *name = (const char *const[]){"sub", "top", "goes", NULL}; *name; name++) {
		struct stat st;
		MUST(fstatat(from, *name, &st, 0) == 0);
		MUST((S_ISDIR(st.st_mode) ? copy_tree(from, *name, to, *name, 0, NULL, &err)
		                          : copy_entry(from, *name, to, *name, 0, NULL, &err)) == 0);
	}
	MUST(copy_dir_meta(from, to, 0, NULL) == 0);
}

static void tear_down_mounted(int base)
{
	char path[4096];
	MUST(fs_fd_path(base, path, sizeof(path) - 16) == 0);
	strncat(path, "/work/mnt", sizeof(path) - strlen(path) - 1);
	umount2(path, MNT_DETACH);
	tear_down(base);
}

const struct scenario commit_mounts_scenario = {
	.name = "commit-mounts",
	.set_up = set_up_mounted,
	.reset = reset_mounted,
	.operate = operate,
	.recover = recover,
	.check = check,
	.tear_down = tear_down_mounted,
	.least = 100,
	.samples = 3,
};
