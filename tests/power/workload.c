/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree that changes: d0 … d5 with files f0 … f9, some of them in s0 … s2 below. links/ holds hard links, which are made and removed
 * together: what becomes of a link to a file that is not committed is told in commit.h, and is not the matter here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "power.h"

#define PATH_SIZE 64
#define MOST_TEXT 40000

static unsigned pick(struct rng *r, unsigned below)
{
	return (unsigned)rng_below(r, below);
}

static const char *some_directory(struct rng *r, char path[PATH_SIZE])
{
	if (pick(r, 2))
		snprintf(path, PATH_SIZE, "d%u", pick(r, 6));
	else
		snprintf(path, PATH_SIZE, "d%u/s%u", pick(r, 6), pick(r, 3));
	return path;
}

static const char *some_file(struct rng *r, char path[PATH_SIZE])
{
	char dir[PATH_SIZE / 2];
	unsigned at = pick(r, 6);
	if (pick(r, 2))
		snprintf(dir, sizeof(dir), "d%u", at);
	else
		snprintf(dir, sizeof(dir), "d%u/s%u", at, pick(r, 3));
	snprintf(path, PATH_SIZE, "%s/f%u", dir, pick(r, 10));
	return path;
}

static mode_t mode_at(int tree, const char *path)
{
	struct stat st;
	return fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

/* Many small ones, some of several blocks, a few empty. Random bytes: what is torn cannot look whole. */
static const char *some_text(struct rng *r)
{
	static char text[MOST_TEXT + 1];
	size_t len = pick(r, 10) == 0 ? 0 : pick(r, 3) ? pick(r, 300) : pick(r, MOST_TEXT);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(' ' + pick(r, 95));
	text[len] = '\0';
	return text;
}

/* ---- single changes ------------------------------------------------------------------------------------------------------------- */

static void write_file(int tree, struct rng *r)
{
	char path[PATH_SIZE];
	if (!S_ISDIR(mode_at(tree, some_file(r, path))))
		put_file(tree, path, some_text(r), pick(r, 4) ? 0644 : 0755);
}

static void append_to_file(int tree, struct rng *r)
{
	char path[PATH_SIZE];
	if (!S_ISREG(mode_at(tree, some_file(r, path))))
		return;
	_cleanup_fd_ int fd = openat(tree, path, O_WRONLY | O_APPEND | O_CLOEXEC);
	const char *text = some_text(r);
	MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void remove_file(int tree, struct rng *r)
{
	char path[PATH_SIZE];
	if (mode_at(tree, some_file(r, path)))
		remove_path(tree, path);
}

static void remove_directory(int tree, struct rng *r)
{
	char path[PATH_SIZE];
	if (mode_at(tree, some_directory(r, path)))
		remove_path(tree, path);
}

static void rename_directory(int tree, struct rng *r)
{
	char from[PATH_SIZE], to[PATH_SIZE];
	some_directory(r, from);
	some_directory(r, to);
	if (mode_at(tree, from) && !mode_at(tree, to))
		MUST(renameat(tree, from, tree, to) == 0 || errno == ENOENT || errno == EINVAL);
}

static void rename_file(int tree, struct rng *r)
{
	char from[PATH_SIZE], to[PATH_SIZE];
	some_file(r, from);
	some_file(r, to);
	if (mode_at(tree, from) && !S_ISDIR(mode_at(tree, from)) && !S_ISDIR(mode_at(tree, to)))
		MUST(renameat(tree, from, tree, to) == 0 || errno == ENOENT);
}

static void change_mode(int tree, struct rng *r)
{
	static const mode_t modes[] = {0600, 0640, 0644, 0700, 0755, 0444};
	char path[PATH_SIZE];
	if (S_ISREG(mode_at(tree, some_file(r, path))))
		MUST(fchmodat(tree, path, modes[pick(r, ARRAY_SIZE(modes))], 0) == 0);
}

static void change_attribute(int tree, struct rng *r)
{
	char path[PATH_SIZE], value[16];
	snprintf(value, sizeof(value), "%u", pick(r, 1000000));
	if (S_ISREG(mode_at(tree, some_file(r, path))))
		put_attr(tree, path, "user.power", value);
}

static void make_link(int tree, struct rng *r)
{
	char path[PATH_SIZE], target[PATH_SIZE];
	if (!S_ISDIR(mode_at(tree, some_file(r, path))))
		put_link(tree, path, some_file(r, target));
}

static void change_kind(int tree, struct rng *r)
{
	char path[PATH_SIZE], below[PATH_SIZE + 8];
	mode_t mode = mode_at(tree, some_file(r, path));
	if (!mode)
		return;
	remove_path(tree, path);
	snprintf(below, sizeof(below), "%s/below", path);
	if (!S_ISDIR(mode))
		put_file(tree, below, some_text(r), 0644);
	else if (pick(r, 2))
		put_file(tree, path, some_text(r), 0600);
	else
		MUST(mkfifoat(tree, path, 0640) == 0);
}

static void change_links(int tree, struct rng *r)
{
	if (mode_at(tree, "links"))
		remove_path(tree, "links");
	if (pick(r, 3) == 0)
		return;
	put_file(tree, "links/one", some_text(r), 0644);
	MUST(linkat(tree, "links/one", tree, "links/two", 0) == 0 && linkat(tree, "links/one", tree, "links/three", 0) == 0);
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------------- */

static const struct {
	unsigned weight;
	void (*make)(int tree, struct rng *r);
} changes[] = {
	{8, write_file},  {3, append_to_file},   {4, remove_file}, {1, remove_directory}, {1, rename_directory}, {2, rename_file},
	{2, change_mode}, {2, change_attribute}, {2, make_link},   {1, change_kind},      {1, change_links},
};

static void change_once(int tree, struct rng *r)
{
	unsigned sum = 0, n;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		sum += changes[i].weight;
	n = pick(r, sum);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		if (n < changes[i].weight) {
			changes[i].make(tree, r);
			return;
		}
		n -= changes[i].weight;
	}
}

/* A name directly in the tree always comes or goes: it decides whose time the top directory gets, which is not the matter here. */
void tree_change(int tree, struct rng *r)
{
	unsigned count = pick(r, 2) ? 2 + pick(r, 8) : 20 + pick(r, 30); /* few and many are synced differently */
	for (unsigned i = 0; i < count; i++)
		change_once(tree, r);
	if (mode_at(tree, "odd"))
		remove_path(tree, "odd");
	else
		put_file(tree, "odd", some_text(r), 0644);
}

void tree_begin(int tree, struct rng *r)
{
	for (int i = 0; i < 40; i++)
		write_file(tree, r);
	tree_change(tree, r);
	settle_times(tree, 1600000000123456789);
}
