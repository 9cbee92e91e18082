/* SPDX-License-Identifier: Apache-2.0 */
/* Collection removes what nobody needs, and never anything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/record.h"
#include "layers/store_parts.h"
#include "store_fixture.h"

#define NOBODY "zzzzzzzzzzzzzzzzzzzz" /* a sandbox that does not exist */
#define DAY_MS ((int64_t)24 * 3600 * 1000)

static bool exists(const char *id)
{
	return there(id, ".");
}

static void test_layers_of_a_removed_sandbox_go_and_those_of_others_stay(void **state)
{
	_cleanup_box_ struct box a = {0}, b = {0};
	new_box(&a, "a", "");
	new_box(&b, "b", "");
	const char *a1 = new_layer("", a.id), *a2 = new_layer(a1, a.id), *b1 = new_layer("", b.id);
	put(a2, "layer.extra", "x");
	collect(0); /* what is in a history stays, also where no head stands on it */
	assert_true(exists(a1) && exists(a2) && exists(b1));
	ok(box_remove(&store, a.id, &err));
	collect(2);
	assert_false(exists(a1) || exists(a2));
	assert_true(exists(b1));
	assert_int_equal(count_entries(store.layers_fd), 1);
	assert_int_equal(count_entries(store.boxes_fd), 1);
}

static void test_a_fork_keeps_what_it_stands_on_after_the_first_sandbox_is_gone(void **state)
{
	_cleanup_box_ struct box a = {0}, fork = {0};
	new_box(&a, "", "");
	const char *a1 = new_layer("", a.id), *a2 = new_layer(a1, a.id), *a3 = new_layer(a2, a.id), *side = new_layer(a1, a.id);
	new_box(&fork, "", a2);
	const char *f1 = new_layer(a2, fork.id);
	ok(box_remove(&store, a.id, &err));
	collect(2);
	assert_true(exists(a1) && exists(a2) && exists(f1));
	assert_false(exists(a3) || exists(side));
	snprintf(fork.head, sizeof(fork.head), "%s", "");
	ok(box_save(&store, &fork, &err));
	collect(0); /* f1 is in its history, and stands on them */
	assert_true(exists(a1) && exists(a2) && exists(f1));
}

static void test_transactions_and_the_mounted_stack_keep_their_layers(void **state)
{
	_cleanup_box_ struct box b = {0};
	const char *t1 = new_layer("", NOBODY), *t2 = new_layer(t1, NOBODY), *m1 = new_layer("", NOBODY), *m2 = new_layer(m1, NOBODY),
		   *loose = new_layer(m1, NOBODY);
	new_box(&b, "", "");
	ok(strlist_add(&b.tx, "-", &err));
	ok(strlist_add(&b.tx, t2, &err));
	snprintf(b.lower, sizeof(b.lower), "%s", m2);
	ok(box_save(&store, &b, &err));
	collect(1);
	assert_true(exists(t1) && exists(t2) && exists(m1) && exists(m2));
	assert_false(exists(loose));
	strlist_free(&b.tx);
	b.lower[0] = '\0';
	ok(box_save(&store, &b, &err));
	collect(4);
}

static const char *failed_layer(const char *parent, const char *sandbox, int64_t created_ms, char *name)
{
	struct layer l = {.kind = LAYER_FAILED, .created_ms = created_ms, .exit_code = 1, .name = name};
	const char *id = new_open_layer();
	snprintf(l.id, sizeof(l.id), "%s", id);
	snprintf(l.parent, sizeof(l.parent), "%s", parent);
	snprintf(l.sandbox, sizeof(l.sandbox), "%s", sandbox);
	ok(layer_seal(&store, &l, &err));
	return id;
}

static void test_failed_layers_stay_a_day_unless_named_or_stood_on(void **state)
{
	char name[] = "look";
	const int64_t now = 10 * DAY_MS;
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	const char *fresh = failed_layer("", b.id, now - DAY_MS + 1, NULL), *old = failed_layer("", b.id, now - DAY_MS - 1, NULL),
		   *named = failed_layer("", b.id, now - 5 * DAY_MS, name), *restored = failed_layer("", b.id, now - 5 * DAY_MS, NULL),
		   *below = failed_layer("", b.id, now - 5 * DAY_MS, NULL), *above = new_layer(below, b.id),
		   *future = failed_layer("", b.id, now + 5 * DAY_MS, NULL), *edited = failed_layer("", b.id, INT64_MIN, NULL);
	snprintf(b.head, sizeof(b.head), "%s", restored);
	ok(box_save(&store, &b, &err));
	assert_int_equal(ok(store_collect(&store, now, &err)), 2);
	assert_false(exists(old) || exists(edited));
	assert_true(exists(fresh) && exists(named) && exists(restored) && exists(below) && exists(above) && exists(future));
}

static void test_open_layers_of_the_living_and_of_live_boxes_stay(void **state)
{
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	const char *mine = new_open_layer(), *dead = new_abandoned_layer(), *boxs = new_abandoned_layer(), *foreign = new_open_layer(),
		   *power = new_open_layer();
	put(foreign, "open", "1-1-1.aaaabbbbccccddddeeee\n"); /* of another pid namespace: nobody here can tell */
	put(power, "open", "");
	snprintf(b.open, sizeof(b.open), "%s", boxs);
	ok(box_save(&store, &b, &err));
	collect(2);
	assert_true(exists(mine) && exists(boxs) && exists(foreign));
	assert_false(exists(dead) || exists(power));
}

/* ---- damage ------------------------------------------------------------------------------------------------------------------- */

static void damage(const char *id)
{
	overwrite(path_of("layers", id, "layer"), "", 0);
}

static void test_a_damaged_layer_in_the_middle_keeps_all_that_may_be_below_it(void **state)
{
	_cleanup_box_ struct box b = {0};
	const char *low = new_layer("", NOBODY), *middle = new_layer(low, NOBODY), *top = new_layer(middle, NOBODY),
		   *other = new_layer("", NOBODY), *dead = new_abandoned_layer();
	new_box(&b, "", top);
	damage(middle);
	collect(1); /* nobody can tell that `other` is not below it */
	assert_true(exists(low) && exists(middle) && exists(top) && exists(other));
	assert_false(exists(dead));
	ok(box_remove(&store, b.id, &err));
	collect(4);
}

static void test_a_damaged_head_is_kept(void **state)
{
	_cleanup_box_ struct box b = {0};
	const char *low = new_layer("", NOBODY), *head = new_layer(low, NOBODY);
	new_box(&b, "", head);
	damage(head);
	collect(0);
	assert_true(exists(low) && exists(head));
}

static void test_a_head_that_has_lost_its_record_is_kept(void **state)
{
	_cleanup_box_ struct box b = {0};
	const char *low = new_layer("", NOBODY), *head = new_layer(low, NOBODY);
	new_box(&b, "", head);
	assert_int_equal(unlinkat(store.layers_fd, path_of("", head, "layer") + 1, 0), 0);
	collect(0);
	assert_true(exists(low) && exists(head));
}

static void test_a_damaged_layer_that_still_names_its_parent_does_not_keep_the_rest(void **state)
{
	char text[256];
	_cleanup_box_ struct box b = {0};
	const char *low = new_layer("", NOBODY), *head = new_layer(low, NOBODY), *other = new_layer("", NOBODY);
	new_box(&b, "", head);
	int n = snprintf(text, sizeof(text), "cordon 1 layer\nid %s\nparent %s\nkind exec\ncrea", head, low);
	overwrite(path_of("layers", head, "layer"), text, (size_t)n);
	collect(1);
	assert_true(exists(low) && exists(head));
	assert_false(exists(other));
}

static void test_a_damaged_layer_that_no_head_stands_on_stays_while_it_may_be_somebodys(void **state)
{
	char text[256];
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	const char *mute = new_layer("", NOBODY), *nobodys = new_layer("", NOBODY), *its = new_layer("", NOBODY),
		   *garbage = new_layer("", NOBODY);
	damage(mute);
	int n = snprintf(text, sizeof(text), "cordon 1 layer\nid %s\nsandbox %s\n", nobodys, NOBODY);
	overwrite(path_of("layers", nobodys, "layer"), text, (size_t)n);
	n = snprintf(text, sizeof(text), "cordon 1 layer\nid %s\nparent %s\nsandbox %s\n", its, mute, b.id);
	overwrite(path_of("layers", its, "layer"), text, (size_t)n);
	collect(0); /* `its` is in the history, and stands on one that cannot be read: everything is in doubt */
	assert_true(exists(mute) && exists(nobodys) && exists(its) && exists(garbage));
	ok(layer_drop(&store, its, &err));
	collect(2);
	assert_true(exists(mute));
	assert_false(exists(nobodys) || exists(garbage));
	ok(box_remove(&store, b.id, &err));
	collect(1);
}

static void test_a_damaged_box_keeps_every_sealed_layer(void **state)
{
	_cleanup_box_ struct box a = {0}, b = {0};
	const char *head = new_layer("", NOBODY), *other = new_layer("", NOBODY);
	new_box(&a, "", head);
	new_box(&b, "", "");
	overwrite(path_of("sandboxes", a.id, "sandbox"), "cordon 1 sandbox\n", 17);
	collect(0);
	assert_true(exists(head) && exists(other));
	ok(box_remove(&store, a.id, &err));
	collect(2);
}

static void test_records_of_a_later_version_count_as_needed(void **state)
{
	_cleanup_box_ struct box b = {0};
	const char *low = new_layer("", NOBODY), *head = new_layer(low, NOBODY);
	new_box(&b, "", head);
	overwrite(path_of("layers", head, "layer"), "cordon 2 layer\n", 15);
	collect(0);
	assert_true(exists(low) && exists(head));
}

/* ---- litter ------------------------------------------------------------------------------------------------------------------- */

static void litter(int dirfd, const char *prefix, const char *stamp)
{
	char path[160];
	snprintf(path, sizeof(path), "%s%s.aaaabbbbccccddddeeee", prefix, stamp);
	ok(fs_mkdirs(dirfd, path, 0700, &err));
	strncat(path, "/file", sizeof(path) - strlen(path) - 1);
	ok(fs_write_file(dirfd, path, "x", 1, 0600, &err));
}

static void test_what_dead_processes_left_goes_and_what_living_ones_use_stays(void **state)
{
	char mine[RECORD_TEMP_MAX];
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	const char *id = new_layer("", b.id), *crashed = new_layer("", b.id);
	_cleanup_fd_ int layer = layer_open_dir(&store, id, &err), box = box_open_dir(&store, b.id, &err);
	int dirs[] = {store.layers_fd, store.boxes_fd, layer, box};
	size_t before[4];
	const char *dead = dead_stamp();
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		ok(record_temp_name(mine, RECORD_TEMP, &err));
		ok(fs_mkdirs(dirs[i], mine, 0700, &err));
		before[i] = count_entries(dirs[i]);
		litter(dirs[i], RECORD_TEMP, dead);
	}
	litter(layer, FLAT_TEMP, dead);
	ok(fs_mkdirs(store.layers_fd, GONE "aaaaaaaaaaaaaaaaaaaa/app", 0700, &err));
	ok(fs_mkdirs(store.boxes_fd, GONE "aaaaaaaaaaaaaaaaaaaa/logs", 0700, &err));
	ok(fs_mkdirs(store.layers_fd, "somebody-elses", 0700, &err));
	put_dir(crashed, "work/app/work"); /* killed between the record and the tidying up */
	put(crashed, "open", "x");
	collect(0);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		assert_int_equal(count_entries(dirs[i]), before[i] + (i == 0)); /* somebody-elses */
	assert_false(there(crashed, "work") || there(crashed, "open"));
	assert_true(exists(crashed));
}

/* ---- others at the same time -------------------------------------------------------------------------------------------------- */

/* A child would hold on to the lock that it inherits. */
static pid_t fork_collector(int lock)
{
	pid_t child = fork();
	if (child == 0) {
		close(lock);
		_exit(store_collect(&store, 2000000, NULL));
	}
	assert_true(child > 0);
	return child;
}

static void test_a_box_made_on_a_layer_about_to_be_collected_keeps_it_or_is_refused(void **state)
{
	_cleanup_box_ struct box b = {0}, late = {0};
	const char *head = new_layer("", NOBODY), *gone = new_layer("", NOBODY);
	int lock = store_lock(&store, false, &err); /* as box_create() has it */
	pid_t collector = fork_collector(lock);
	wait_until_blocked(collector);
	new_box(&b, "", head); /* shared locks go together */
	close(lock);
	assert_int_equal(exit_status(collector), 1);
	assert_true(exists(head));
	snprintf(late.head, sizeof(late.head), "%s", gone);
	assert_refused(box_create(&store, &late, &err), CORDON_ERR_NOT_FOUND, "there is no layer");
	snprintf(b.head, sizeof(b.head), "%s", gone);
	assert_refused(box_save(&store, &b, &err), CORDON_ERR_NOT_FOUND, "there is no layer");
	assert_int_equal(count_entries(store.boxes_fd), 1);
}

static void test_boxes_do_not_change_while_garbage_is_being_told(void **state)
{
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	int lock = store_lock(&store, true, &err);
	pid_t child = fork();
	if (child == 0) {
		close(lock);
		_exit(box_save(&store, &b, NULL) < 0);
	}
	wait_until_blocked(child);
	close(lock);
	assert_int_equal(exit_status(child), 0);
}

static void test_two_collectors_at_once_remove_everything_once(void **state)
{
	for (int i = 0; i < 20; i++)
		put(new_layer("", NOBODY), "app/file", "x");
	int lock = store_lock(&store, false, &err);
	pid_t a = fork_collector(lock), b = fork_collector(lock);
	close(lock);
	assert_int_equal(exit_status(a) + exit_status(b), 20);
	collect(0);
	assert_int_equal(count_entries(store.layers_fd), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_layers_of_a_removed_sandbox_go_and_those_of_others_stay),
		T(test_a_fork_keeps_what_it_stands_on_after_the_first_sandbox_is_gone),
		T(test_transactions_and_the_mounted_stack_keep_their_layers),
		T(test_failed_layers_stay_a_day_unless_named_or_stood_on),
		T(test_open_layers_of_the_living_and_of_live_boxes_stay),
		T(test_a_damaged_layer_in_the_middle_keeps_all_that_may_be_below_it),
		T(test_a_damaged_head_is_kept),
		T(test_a_head_that_has_lost_its_record_is_kept),
		T(test_a_damaged_layer_that_still_names_its_parent_does_not_keep_the_rest),
		T(test_a_damaged_layer_that_no_head_stands_on_stays_while_it_may_be_somebodys),
		T(test_a_damaged_box_keeps_every_sealed_layer),
		T(test_records_of_a_later_version_count_as_needed),
		T(test_what_dead_processes_left_goes_and_what_living_ones_use_stays),
		T(test_a_box_made_on_a_layer_about_to_be_collected_keeps_it_or_is_refused),
		T(test_boxes_do_not_change_while_garbage_is_being_told),
		T(test_two_collectors_at_once_remove_everything_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
