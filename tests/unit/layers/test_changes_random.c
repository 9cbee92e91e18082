/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random stacks of layers: views and changes_between() against a model in memory, against overlayfs itself, and against what overlayfs makes
 * of random commands. Every case begins with a number that is printed, and gives the same layers everywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/util.h"
#include "base_dir.h"
#include "model.h"

#define CASES 300
#define KERNEL_CASES 60
#define COMMAND_ROUNDS 30
#define LAYERS 6

/* ---- against a model ---------------------------------------------------------------------------------------------------------- */

struct stack {
	struct node *nodes[LAYERS];
	int fds[LAYERS];
	size_t count;
};

/* A seed and some layers over it, all made up anew. */
static void stack_make(struct stack *s, struct rng *r, size_t count)
{
	char name[32];

	s->count = count;
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "layer%zu", i);
		s->nodes[i] = model_layer(r, base, name, i == count - 1, geteuid() == 0);
		s->fds[i] = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		MUST(s->fds[i] >= 0);
	}
}

static void stack_drop(struct stack *s)
{
	char name[32];

	for (size_t i = 0; i < s->count; i++) {
		snprintf(name, sizeof(name), "layer%zu", i);
		model_free(s->nodes[i]);
		close(s->fds[i]);
		MUST(fs_remove_tree(base, name, NULL) == 0);
	}
}

/* The layers of one side: some of those that are its own, and all from `common` down. */
struct choice {
	struct node *nodes[LAYERS];
	int fds[LAYERS];
	size_t count;
};

static struct choice choose(const struct stack *s, size_t common, unsigned mask)
{
	struct choice c = {.count = 0};

	for (size_t i = 0; i < s->count; i++) {
		if (i < common && !(mask >> i & 1))
			continue;
		c.nodes[c.count] = s->nodes[i];
		c.fds[c.count++] = s->fds[i];
	}
	return c;
}

static void check_view(const struct choice *c, struct listing *model)
{
	_cleanup_view_ struct view v;
	struct listing seen;

	MUST(view_from(c->fds, c->count, true, &v, NULL) == 0);
	model_listing(c->nodes, c->count, model);
	listing_of_view(&v, &seen);
	assert_true(listing_equal(model, "model", &seen, "view"));
	listing_free(&seen);
}

static void check_changes(const struct choice *before, const struct choice *after)
{
	_cleanup_view_ struct view b = {0}, a = {0};
	struct listing lb, la;
	struct changes expected, got;
	struct cordon_error err = {0};

	check_view(before, &lb);
	check_view(after, &la);
	MUST(view_from(before->fds, before->count, true, &b, NULL) == 0);
	MUST(view_from(after->fds, after->count, true, &a, NULL) == 0);
	if (changes_between(&b, &a, &got, &err) < 0)
		fail_msg("%s", err.message);
	listing_changes(&lb, &la, &expected);
	assert_true(changes_equal(&expected, &got));
	changes_free(&expected);
	changes_free(&got);
	listing_free(&lb);
	listing_free(&la);
}

static void test_random_stacks_agree_with_the_model(void **state)
{
	for (unsigned i = 0; i < CASES; i++) {
		struct rng r = {.state = 0x9e3779b97f4a7c15u + i};
		struct stack s;

		stack_make(&s, &r, 2 + rng_below(&r, 4));
		size_t common = 1 + rng_below(&r, (unsigned)s.count - 1);
		struct choice before = choose(&s, common, rng_below(&r, 16)), after = choose(&s, common, rng_below(&r, 16));
		print_message("# case %u: %zu and %zu layers of %zu, common from %zu\n", i, before.count, after.count, s.count, common);
		check_changes(&before, &after);
		stack_drop(&s);
	}
}

/* ---- against overlayfs -------------------------------------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Mounts of our own, as root or in a user namespace. */
static bool enter_namespaces(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
	if (geteuid() == 0)
		return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", uids) && write_text("/proc/self/gid_map", gids) &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#define CANNOT_MOUNT 77

/* In the child: the test is skipped, for the reason that was printed. */
static _Noreturn void give_up(void)
{
	fflush(stdout);
	_exit(CANNOT_MOUNT);
}

static void in_namespaces(void (*run)(void))
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* a descriptor from outside would not do: overlayfs takes no layers of another mount namespace */
		if (!enter_namespaces() || chdir(base_path) < 0 || (base = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
			print_message("# skip: no mount namespace of our own: %s\n", strerror(errno));
			give_up();
		}
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT)
		skip();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void mount_overlay(const char *options)
{
	if (mount("overlay", "merged", "overlay", 0, options) == 0)
		return;
	print_message("# skip: overlayfs cannot be mounted here (%s): %s\n", options, strerror(errno));
	give_up();
}

/* The first xattr whiteouts are those of Linux 6.7. */
static bool kernel_knows_marked_whiteouts(void)
{
	int merged;

	tree_dir(base, "old/d");
	tree_dir(base, "older/d");
	tree_file(base, "old/d/f", "");
	tree_xattr(base, "old/d/f", "user.overlay.whiteout", "");
	tree_mark(base, "old/d", "x");
	tree_file(base, "older/d/f", "x");
	mount_overlay("userxattr,lowerdir=empty:old:older");
	merged = openat(base, "merged/d/f", O_PATH | O_CLOEXEC);
	if (merged >= 0)
		close(merged);
	MUST(umount2("merged", MNT_DETACH) == 0);
	MUST(fs_remove_tree(base, "old", NULL) == 0 && fs_remove_tree(base, "older", NULL) == 0);
	return merged < 0;
}

static void compare_with_the_kernel(void)
{
	unsigned compared = 0;

	if (!kernel_knows_marked_whiteouts()) {
		print_message("# skip: this kernel does not know xattr whiteouts\n");
		give_up();
	}
	for (unsigned i = 0; i < KERNEL_CASES; i++) {
		struct rng r = {.state = 0xdeadbeefcafe1234u + i};
		struct stack s;
		struct listing kernel, ours;
		char options[256] = "userxattr,lowerdir=empty";

		stack_make(&s, &r, 2 + rng_below(&r, 4));
		for (size_t k = 0; k < s.count; k++)
			snprintf(options + strlen(options), sizeof(options) - strlen(options), ":layer%zu", k);
		mount_overlay(options);
		int merged = openat(base, "merged", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_cleanup_view_ struct view v;
		MUST(merged >= 0 && view_from(s.fds, s.count, true, &v, NULL) == 0);
		listing_of_dir(merged, &kernel);
		listing_of_view(&v, &ours);
		close(merged);
		MUST(umount2("merged", MNT_DETACH) == 0);
		MUST(listing_equal(&kernel, "overlayfs", &ours, "view"));
		compared += kernel.count > 0;
		listing_free(&kernel);
		listing_free(&ours);
		stack_drop(&s);
	}
	MUST(compared > KERNEL_CASES / 2);
}

static void test_random_stacks_agree_with_overlayfs(void **state)
{
	tree_dir(base, "empty");
	tree_dir(base, "merged");
	in_namespaces(compare_with_the_kernel);
}

/* ---- against what overlayfs makes of commands --------------------------------------------------------------------------------- */

static void any_path(struct rng *r, char path[32])
{
	static const char *const parts[] = {"a", "b", "c"};
	unsigned depth = 1 + rng_below(r, 3);

	path[0] = '\0';
	for (unsigned i = 0; i < depth; i++)
		snprintf(path + strlen(path), 32 - strlen(path), "%s%s", i ? "/" : "", parts[rng_below(r, ARRAY_SIZE(parts))]);
}

/* What does not work (a parent is missing, the target is not empty) is left undone, as in a shell script without set -e. */
static int any_command(struct rng *r, int tree)
{
	char path[32], other[32], data[8];

	any_path(r, path);
	any_path(r, other);
	snprintf(data, sizeof(data), "%u\n", rng_below(r, 3));
	switch (rng_below(r, 9)) {
	case 0:
	case 1:
		return mkdirat(tree, path, 0755);
	case 2:
	case 3:
		return fs_write_file(tree, path, data, 2, 0644, NULL);
	case 4:
		return fs_remove_tree(tree, path, NULL);
	case 5:
		return renameat(tree, path, tree, other);
	case 6:
		return fchmodat(tree, path, rng_below(r, 2) ? 0755 : 0700, AT_SYMLINK_NOFOLLOW);
	case 7:
		return symlinkat(other, tree, path);
	default: {
		_cleanup_fd_ int fd = openat(tree, path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		return fd < 0 ? -1 : (int)write(fd, data, 2);
	}
	}
}

/* One layer: commands in a mount over all below it. */
static void run_commands(struct rng *r, size_t layer, struct listing *after)
{
	char options[256], name[32];

	snprintf(name, sizeof(name), "up%zu", layer);
	tree_dir(base, name);
	tree_dir(base, "work");
	snprintf(options, sizeof(options), "userxattr,upperdir=%s,workdir=work,lowerdir=", name);
	for (size_t i = layer; i > 0; i--)
		snprintf(options + strlen(options), sizeof(options) - strlen(options), "up%zu:", i - 1);
	snprintf(options + strlen(options), sizeof(options) - strlen(options), "empty");
	mount_overlay(options);
	_cleanup_fd_ int merged = openat(base, "merged", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(merged >= 0);
	for (int i = 0; i < 25; i++)
		any_command(r, merged);
	listing_of_dir(merged, after);
	MUST(umount2("merged", MNT_DETACH) == 0);
	close(steal_fd(&merged)); /* the mount goes with its last descriptor */
	MUST(fs_remove_tree(base, "work", NULL) == 0);
}

/* up0 is the seed. */
static struct view view_up_to(size_t layer)
{
	int fds[LAYERS];
	struct view v;
	char name[32];

	for (size_t i = 0; i <= layer; i++) {
		snprintf(name, sizeof(name), "up%zu", layer - i);
		fds[i] = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		MUST(fds[i] >= 0);
	}
	MUST(view_from(fds, layer + 1, true, &v, NULL) == 0);
	for (size_t i = 0; i <= layer; i++)
		close(fds[i]);
	return v;
}

static void check_step(const struct listing *kernel, size_t from, size_t to)
{
	_cleanup_view_ struct view before = view_up_to(from), after = view_up_to(to);
	struct listing ours;
	struct changes expected, got;

	listing_of_view(&after, &ours);
	MUST(listing_equal(&kernel[to], "overlayfs", &ours, "view"));
	MUST(changes_between(&before, &after, &got, NULL) == 0);
	listing_changes(&kernel[from], &kernel[to], &expected);
	MUST(changes_equal(&expected, &got));
	listing_free(&ours);
	changes_free(&expected);
	changes_free(&got);
}

static void compare_after_commands(void)
{
	size_t differing = 0;

	for (unsigned round = 0; round < COMMAND_ROUNDS; round++) {
		struct rng r = {.state = 0x123456789abcdefu + round};
		struct listing kernel[LAYERS];
		char name[32];

		for (size_t i = 0; i < LAYERS; i++) {
			run_commands(&r, i, &kernel[i]);
			for (size_t from = 0; from <= i; from++)
				check_step(kernel, from, i);
			differing += kernel[i].count > 0;
		}
		for (size_t i = 0; i < LAYERS; i++) {
			listing_free(&kernel[i]);
			snprintf(name, sizeof(name), "up%zu", i);
			MUST(fs_remove_tree(base, name, NULL) == 0);
		}
	}
	MUST(differing > COMMAND_ROUNDS);
}

static void test_what_overlayfs_makes_of_commands_is_understood(void **state)
{
	tree_dir(base, "empty");
	tree_dir(base, "merged");
	in_namespaces(compare_after_commands);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_stacks_agree_with_the_model),
		cmocka_unit_test(test_random_stacks_agree_with_overlayfs),
		cmocka_unit_test(test_what_overlayfs_makes_of_commands_is_understood),
	};

	return cmocka_run_group_tests(tests, base_make, base_remove);
}
