/* SPDX-License-Identifier: Apache-2.0 */
#include "commit_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"

#define LAYERS_MAX 4

int host = -1, inside = -1;
struct commit_report report;
struct cordon_error err;
struct identities *known;

static int layers[LAYERS_MAX]; /* the newest first */
static size_t layer_count;
static int seed = -1; /* -1: the host's directory */

int begin(void **state)
{
	if (base_make(state) < 0)
		return -1;
	put_dir(base, "host", 0755);
	host = tree_open(base, "host");
	err = (struct cordon_error){0};
	report = (struct commit_report){0};
	layer_count = 0;
	return identities_new(&known, &err);
}

int end(void **state)
{
	for (size_t i = 0; i < layer_count; i++)
		close(layers[i]);
	cleanup_fd(&inside);
	cleanup_fd(&seed);
	seed = -1;
	close(host);
	inside = -1;
	commit_report_free(&report);
	identities_free(known);
	return base_remove(state);
}

/* ---- inside ------------------------------------------------------------------------------------------------------------------- */

static void view_of(size_t skip, struct view *out)
{
	int fds[LAYERS_MAX + 1];
	size_t n = 0;
	for (size_t i = skip; i < layer_count; i++)
		fds[n++] = layers[i];
	fds[n++] = seed >= 0 ? seed : host;
	assert_ok(view_from(fds, n, true, out, &err));
}

void enter(void)
{
	struct copy_links *links = copy_links_new();
	assert_int_equal(layer_count, 0);
	assert_ok(copy_tree(base, "host", base, "inside", 0, links, &err));
	copy_links_free(links);
	inside = tree_open(base, "inside");
}

/* The state that `inside` was copied from is not kept: for a second layer it is the first one's tree. */
static void copy_as_before(void)
{
	struct copy_links *links = copy_links_new();
	assert_ok(fs_remove_tree(base, "before", &err));
	assert_ok(copy_tree(base, "inside", base, "before", 0, links, &err));
	copy_links_free(links);
}

void leave(void)
{
	char name[16];
	struct changes changes;
	_cleanup_view_ struct view before = {0}, after = {0};
	struct stat st;
	assert_true(layer_count < LAYERS_MAX);
	snprintf(name, sizeof(name), "layer%zu", layer_count);
	put_dir(base, name, 0700);
	memmove(&layers[1], &layers[0], layer_count++ * sizeof(layers[0]));
	layers[0] = tree_open(base, name);
	bool first = fstatat(base, "before", &st, 0) < 0;
	_cleanup_fd_ int from = tree_open(base, first ? "host" : "before");
	tree_make_layer(from, inside, layers[0]);
	view_of(1, &before);
	view_of(0, &after);
	assert_ok(changes_between(&before, &after, &changes, &err));
	for (size_t i = 0; i < changes.count; i++) {
		struct identity id;
		assert_ok(identity_now(host, changes.items[i].path, &id, &err));
		if (!identities_get(known, changes.items[i].path).known)
			assert_ok(identities_put(known, changes.items[i].path, &id, &err));
	}
	changes_free(&changes);
}

void next_exec(void)
{
	copy_as_before();
}

void use_copied_seed(void)
{
	assert_ok(copy_tree(base, "host", base, "seed", 0, NULL, &err));
	seed = tree_open(base, "seed");
}

/* ---- commits ------------------------------------------------------------------------------------------------------------------ */

static struct identity expected(void *arg, const char *p)
{
	return identities_get(arg, p);
}

int commit_with(struct options o)
{
	struct changes changes;
	_cleanup_view_ struct view before = {0}, after = {0};
	view_of(layer_count, &before);
	view_of(0, &after);
	assert_ok(changes_between(&before, &after, &changes, &err));
	struct commit_request r = {
		.home = base_path,
		.target = host,
		.target_path = "the host",
		.before = &before,
		.after = &after,
		.changes = &changes,
		.expected = o.nothing_known ? NULL : expected,
		.arg = known,
		.paths = o.paths,
		.force = o.force,
		.flags = o.flags,
		.progress = o.progress,
	};
	commit_report_free(&report);
	err = (struct cordon_error){0};
	int result = commit_run(&r, &report, &err);
	changes_free(&changes);
	return result;
}

void must_commit(struct options o)
{
	int r = commit_with(o);
	for (size_t i = 0; i < report.problem_count; i++)
		print_message("%s: %s\n", report.problems[i].path, report.problems[i].text);
	if (r != 0)
		fail_msg("commit: %d %s", r, err.message);
}

void remember_written(void)
{
	assert_non_null(report.written);
	assert_ok(identities_merge_from(known, report.written, &err));
}

const char *problem_of(const char *p)
{
	for (size_t i = 0; i < report.problem_count; i++)
		if (strcmp(report.problems[i].path, p) == 0)
			return report.problems[i].text;
	return "";
}

void assert_refused(struct options o, const char *p, enum commit_refusal why, const char *words)
{
	_cleanup_free_ char *before = tree_describe(host);
	int r = commit_with(o);
	_cleanup_free_ char *after = tree_describe(host);
	const char *difference = tree_difference(before, after);
	if (r != 1)
		fail_msg("not refused: %d %s", r, err.message);
	for (size_t i = 0; i < report.problem_count; i++)
		if (report.problem_count != 1 || strcmp(report.problems[i].path, p) != 0 || report.problems[i].why != why ||
		    !strstr(report.problems[i].text, words))
			fail_msg("problem with %s: %s", report.problems[i].path, report.problems[i].text);
	assert_int_equal(report.problem_count, 1);
	if (difference)
		fail_msg("refused, but the host has changed: %s", difference);
}

void assert_host_is_inside(void)
{
	_cleanup_free_ char *want = tree_describe(inside), *got = tree_describe(host);
	const char *difference = tree_difference(want, got);
	if (difference)
		fail_msg("%s", difference);
}

const char *what_is(int dir, const char *p)
{
	static char text[256];
	struct stat st;
	ssize_t n = 0;
	if (fstatat(dir, p, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return "(none)";
	if (S_ISDIR(st.st_mode) || S_ISFIFO(st.st_mode))
		return S_ISDIR(st.st_mode) ? "(dir)" : "(fifo)";
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, p, text + 3, sizeof(text) - 4) + 3;
		memcpy(text, "-> ", 3);
	} else {
		_cleanup_fd_ int fd = openat(dir, p, O_RDONLY | O_CLOEXEC);
		n = read(fd, text, sizeof(text) - 1);
	}
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

/* ---- users -------------------------------------------------------------------------------------------------------------------- */

void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skip: needs root\n");
	skip();
}

void need_user(void)
{
	if (geteuid() != 0)
		return;
	print_message("skip: needs an ordinary user\n");
	skip();
}
