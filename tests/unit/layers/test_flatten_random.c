/* SPDX-License-Identifier: Apache-2.0 */
/* Squashing random stacks: what is shown over the seed is what the whole stack showed. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/store_parts.h"
#include "model.h"
#include "store_fixture.h"

#define ROUNDS 300

/* Nobody pulls the plug here, and waiting for the disk would be most of the time. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return fd < 0 ? -1 : 0;
}

int __wrap_sync_file_range(int fd, off64_t from, off64_t len, unsigned flags);
int __wrap_sync_file_range(int fd, off64_t from, off64_t len, unsigned flags)
{
	return fd < 0 ? -1 : 0;
}

int __wrap_syncfs(int fd);
int __wrap_syncfs(int fd)
{
	return fd < 0 ? -1 : 0;
}

/* The model applies layers one after another; what the squashed tree shows over the seed must be the same. */
static void compare_with_model(struct rng *r, int layer_count)
{
	struct node *layers[8] = {0};
	struct listing expected = {0}, got = {0};
	const char *ids[8], *parent = "";
	char flat[STORE_PATH_MAX];
	bool owners = geteuid() == 0;
	layers[layer_count] = model_layer(r, store.boxes_fd, "seed", true, owners);
	for (int i = layer_count - 1; i >= 0; i--) { /* topmost first, so the oldest is made first */
		ids[i] = new_open_layer();
		_cleanup_fd_ int dir = layer_open_dir(&store, ids[i], &err);
		assert_int_equal(unlinkat(dir, "app", AT_REMOVEDIR), 0);
		layers[i] = model_layer(r, dir, "app", false, owners);
		seal(ids[i], parent, "");
		parent = ids[i];
		if (rng_below(r, 4) == 0)
			ok(layer_flatten(&store, ids[i], &err)); /* squash over a squashed one, too */
	}
	ok(layer_flatten(&store, ids[0], &err));
	snprintf(flat, sizeof(flat), "%s/flat/app", ids[0]);
	int fds[2] = {openat(store.layers_fd, flat, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	              openat(store.boxes_fd, "seed", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	struct view v;
	ok(view_from(fds, 2, true, &v, &err));
	model_listing(layers, (size_t)layer_count + 1, &expected);
	listing_of_view(&v, &got);
	assert_true(listing_equal(&expected, "model", &got, "squashed"));
	view_close(&v);
	listing_free(&expected);
	listing_free(&got);
	for (int i = 0; i <= layer_count; i++)
		model_free(layers[i]);
	close(fds[0]);
	close(fds[1]);
	ok(fs_remove_tree(store.boxes_fd, "seed", &err));
	for (int i = 0; i < layer_count; i++)
		ok(layer_drop(&store, ids[i], &err));
}

static void test_random_stacks_show_the_same_when_squashed(void **state)
{
	struct rng r = {.state = 20260301};
	for (int i = 0; i < ROUNDS; i++)
		compare_with_model(&r, 1 + (int)rng_below(&r, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_stacks_show_the_same_when_squashed, fixture_set_up, fixture_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
