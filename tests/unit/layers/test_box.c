/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes on disk: records, names, locks, and how they are found by what a user types. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "store_fixture.h"

#define LONG_NAME "a23456789012345678901234567890123456789012345678901234567890123" /* 63 */

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

static void fill(struct box *b)
{
	*b = (struct box){.name = "web", .used_ms = 7, .ttl_ms = 8, .idle_ms = INT64_MAX, .uid = 1000, .gid = UINT32_MAX};
	b->workspace = strdup("/srv/a dir\nwith \xc3\xa9 and \xff");
	ok(strlist_add(&b->labels, "team=a b", &err));
	ok(strlist_add(&b->env, "X=1\n2", &err));
	ok(strlist_add(&b->env, "EMPTY=", &err));
	ok(strlist_add(&b->policy, "limits.memory=1G", &err));
	ok(strlist_add(&b->mounts, "/srv/data:/data:rw", &err));
	ok(strlist_add(&b->tx, "-", &err));
	snprintf(b->head, sizeof(b->head), "%s", new_layer("", ""));
	snprintf(b->open, sizeof(b->open), "%s", new_open_layer());
	snprintf(b->lower, sizeof(b->lower), "%s", b->head);
}

static void assert_same(const struct box *a, const struct box *b)
{
	assert_string_equal(a->id, b->id);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->head, b->head);
	assert_string_equal(a->open, b->open);
	assert_string_equal(a->lower, b->lower);
	assert_string_equal(a->workspace, b->workspace);
	assert_true(a->created_ms == b->created_ms && a->used_ms == b->used_ms && a->ttl_ms == b->ttl_ms && a->idle_ms == b->idle_ms);
	assert_true(a->uid == b->uid && a->gid == b->gid);
	const struct strlist *lists[][2] = {
		{&a->labels, &b->labels}, {&a->env, &b->env}, {&a->policy, &b->policy}, {&a->mounts, &b->mounts}, {&a->tx, &b->tx}};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		assert_int_equal(lists[i][0]->count, lists[i][1]->count);
		for (size_t j = 0; j < lists[i][0]->count; j++)
			assert_string_equal(lists[i][0]->items[j], lists[i][1]->items[j]);
	}
}

static void test_a_box_reads_back_as_it_was_created_and_saved(void **state)
{
	_cleanup_box_ struct box in, out = {0};
	struct stat st;
	fill(&in);
	ok(box_create(&store, &in, &err));
	assert_int_equal(strlen(in.id), LAYER_ID_LEN);
	assert_true(in.created_ms > 0);
	ok(box_load(&store, in.id, &out, &err));
	assert_same(&in, &out);
	box_free(&out);
	in.used_ms = 99;
	in.open[0] = '\0';
	ok(strlist_add(&in.tx, in.head, &err));
	ok(box_save(&store, &in, &err));
	ok(box_load(&store, in.id, &out, &err));
	assert_same(&in, &out);
	_cleanup_fd_ int dir = box_open_dir(&store, in.id, &err);
	assert_int_equal(count_entries(dir), 3); /* sandbox lock logs */
	assert_int_equal(fstat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* What was not waited for counts while it is whole; after a loss of power it may be anything. */
static void test_what_is_saved_soon_may_be_lost_but_not_the_box(void **state)
{
	static const char *const remains[] = {"", "cordon 1 sandbox\n", "cordon 1 sandbox\nend\n", NULL};
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	const int64_t before = b.used_ms;
	for (const char *const *r = remains;; r++) {
		struct box out;
		b.used_ms = 77;
		ok(box_save_soon(&store, &b, &err));
		ok(box_load(&store, b.id, &out, &err));
		assert_int_equal(out.used_ms, 77);
		box_free(&out);
		if (!*r)
			break;
		_cleanup_fd_ int dir = box_open_dir(&store, b.id, &err);
		_cleanup_fd_ int fd = openat(dir, "sandbox.soon", O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_int_equal(write(fd, *r, strlen(*r)), strlen(*r));
		ok(box_load(&store, b.id, &out, &err));
		assert_int_equal(out.used_ms, before);
		box_free(&out);
	}
	_cleanup_box_ struct box out = {0};
	b.used_ms = 78;
	ok(box_save(&store, &b, &err));
	ok(box_load(&store, b.id, &out, &err));
	assert_int_equal(out.used_ms, 78);
	_cleanup_fd_ int dir = box_open_dir(&store, b.id, &err);
	assert_int_equal(count_entries(dir), 3); /* sandbox lock logs */
}

static void test_a_damaged_box_is_listed_as_such_and_the_others_work(void **state)
{
	_cleanup_box_ struct box a = {0}, b = {0}, c = {0}, out = {0};
	struct box_list list;
	char text[1024];
	new_box(&a, "a", "");
	new_box(&b, "b", "");
	new_box(&c, "c", "");
	ssize_t len = fs_read_small(store.boxes_fd, path_of("", b.id, "sandbox") + 1, text, sizeof(text));
	for (ssize_t i = 0; i < len; i++) {
		overwrite(path_of("sandboxes", b.id, "sandbox"), text, (size_t)i);
		assert_refused(box_load(&store, b.id, &out, &err), CORDON_ERR_INPUT, "damaged");
	}
	assert_int_equal(unlinkat(store.boxes_fd, path_of("", c.id, "sandbox") + 1, 0), 0);
	ok(box_list(&store, &list, &err));
	assert_int_equal(list.count, 3);
	for (size_t i = 0; i < list.count; i++)
		assert_int_equal(list.items[i].damaged, strcmp(list.items[i].box.id, a.id) != 0);
	box_list_free(&list);
	assert_refused(box_find(&store, "b", &out, &err), CORDON_ERR_INPUT, "damaged"); /* its name can still be read */
	assert_refused(box_find(&store, c.id, &out, &err), CORDON_ERR_INPUT, "damaged: its record is missing");
	ok(box_find(&store, "a", &out, &err));
	ok(box_remove(&store, b.id, &err));
	ok(box_remove(&store, c.id, &err));
	assert_int_equal(count_entries(store.boxes_fd), 1);
}

static void set_created(struct box *b, int64_t ms)
{
	b->created_ms = ms;
	ok(box_save(&store, b, &err));
}

static void test_the_list_is_sorted_by_age(void **state)
{
	struct box boxes[4];
	struct box_list list;
	for (int i = 0; i < 4; i++) {
		new_box(&boxes[i], "", "");
		set_created(&boxes[i], 1000 - i * 10);
	}
	assert_int_equal(mkdirat(store.boxes_fd, "not-an-id", 0700), 0);
	ok(box_list(&store, &list, &err));
	assert_int_equal(list.count, 4);
	for (int i = 0; i < 4; i++)
		assert_string_equal(list.items[i].box.id, boxes[3 - i].id);
	box_list_free(&list);
}

static void test_a_removed_box_cannot_be_saved_back_into_being(void **state)
{
	_cleanup_box_ struct box b = {0}, out = {0};
	new_box(&b, "", "");
	ok(box_remove(&store, b.id, &err));
	assert_refused(box_save(&store, &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_refused(box_load(&store, b.id, &out, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_refused(box_remove(&store, b.id, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_refused(box_lock(&store, b.id, "", false, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_int_equal(count_entries(store.boxes_fd), 0);
}

static void test_a_box_that_cannot_be_written_leaves_nothing(void **state)
{
	_cleanup_box_ struct box b = {.name = "big"};
	b.workspace = malloc(2 << 20);
	memset(b.workspace, 'x', 2 << 20);
	b.workspace[(2 << 20) - 1] = '\0';
	assert_refused(box_create(&store, &b, &err), CORDON_ERR_INPUT, "longer than 1 MiB");
	assert_int_equal(count_entries(store.boxes_fd), 0);
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static void test_names_are_dns_labels_and_not_ids(void **state)
{
	static const char *const good[] = {"a", "7", "web", "web-2", "a--b", LONG_NAME, "abcdefghij012345678", "abcdefghij01234567890"};
	static const char *const bad[] = {"",    "-a",   "a-",  "-",           "Web",  "a_b",         "a.b",
	                                  "a/b", "../x", "a b", "caf\xc3\xa9", "a\nb", LONG_NAME "4", "abcdefghij0123456789"};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ok(box_check_name(good[i], &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_refused(box_check_name(bad[i], &err), CORDON_ERR_INPUT, "cannot be");
}

static void test_names_of_layers_leave_their_keywords_alone(void **state)
{
	static const char *const good[] = {"v1.0", "Before_upgrade", "a", "header"};
	static const char *const bad[] = {"", "head", "seed", ".x", "-x", "a b", "a/b", "abcdefghij0123456789", LONG_NAME "4", "x\x1b"};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ok(box_check_layer_name(good[i], &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_refused(box_check_layer_name(bad[i], &err), CORDON_ERR_INPUT, "cannot be");
}

static void test_a_name_is_given_once(void **state)
{
	_cleanup_box_ struct box a = {0}, b = {.name = "web"}, c = {.name = "Web"};
	new_box(&a, "web", "");
	assert_refused(box_create(&store, &b, &err), CORDON_ERR_INPUT, "'web' is taken");
	assert_refused(box_create(&store, &c, &err), CORDON_ERR_INPUT, "cannot be the name");
	ok(box_remove(&store, a.id, &err));
	ok(box_create(&store, &b, &err));
}

static void test_of_many_who_want_a_name_at_once_one_gets_it(void **state)
{
	enum { CHILDREN = 8 };
	pid_t children[CHILDREN];
	int status, given = 0;
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct box b = {.name = "web"};
			_exit(box_create(&store, &b, NULL) == 0);
		}
	}
	for (int i = 0; i < CHILDREN; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		given += WEXITSTATUS(status);
	}
	assert_int_equal(given, 1);
	assert_int_equal(count_entries(store.boxes_fd), 1);
}

/* ---- finding ------------------------------------------------------------------------------------------------------------------ */

/* A box under an id of our choice. */
static void box_with_id(const char *id, const char *name)
{
	struct box b;
	char text[512];
	new_box(&b, "", "");
	assert_int_equal(renameat(store.boxes_fd, b.id, store.boxes_fd, id), 0);
	int n = snprintf(text, sizeof(text), "cordon 1 sandbox\nid %s\nname %s\ncreated 1\nused 0\nttl 0\nidle 0\nuid 0\ngid 0\nend\n", id,
	                 name);
	overwrite(path_of("sandboxes", id, "sandbox"), text, (size_t)n);
}

static void assert_found(const char *what, const char *id)
{
	_cleanup_box_ struct box b = {0};
	if (box_find(&store, what, &b, &err) < 0)
		fail_msg("%s: %s", what, err.message);
	assert_string_equal(b.id, id);
}

#define ONE "abcd1aaaaaaaaaaaaaaa"
#define TWO "abcd2bbbbbbbbbbbbbbb"
#define THREE "zyxw0ccccccccccccccc"

static void test_boxes_are_found_by_id_by_name_and_by_a_unique_beginning(void **state)
{
	struct box b;
	box_with_id(ONE, "web");
	box_with_id(TWO, "database");
	box_with_id(THREE, "abcd1"); /* a name wins over the beginning of an id */
	assert_found(ONE, ONE);
	assert_found("web", ONE);
	assert_found("abcd2", TWO);
	assert_found("abcd1", THREE);
	assert_found("abcd1a", ONE);
	assert_found("zyxw", THREE);
	assert_refused(box_find(&store, "abcd", &b, &err), CORDON_ERR_INPUT, "'abcd' could be 2 sandboxes");
	assert_non_null(strstr(err.hint, ONE));
	assert_non_null(strstr(err.hint, TWO));
	assert_refused(box_find(&store, "zyx", &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox 'zyx'");
}

static void test_what_is_not_found_comes_with_the_nearest(void **state)
{
	static const char *const paths[] = {"../sandboxes/" ONE,    ".",         "..",  "", "/", ONE "/sandbox",
	                                    "abcd1aaaaaaaaaaaaaa.", "w\x1b[31m", "web/"};
	struct box b;
	assert_refused(box_find(&store, "web", &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox 'web'");
	assert_non_null(strstr(err.hint, "cordon create"));
	box_with_id(ONE, "web");
	box_with_id(TWO, "web2");
	assert_refused(box_find(&store, "wbe", &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_non_null(strstr(err.hint, "web, web2"));
	assert_refused(box_find(&store, "abcd1aaaaaaaaaaaaaab", &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_non_null(strstr(err.hint, ONE));
	assert_refused(box_find(&store, "quite-different", &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_non_null(strstr(err.hint, "cordon ls"));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_refused(box_find(&store, paths[i], &b, &err), CORDON_ERR_NOT_FOUND, "there is no sandbox");
	assert_null(strchr(err.message, '\x1b'));
}

static void name_layer(const char *id, const char *name)
{
	_cleanup_layer_ struct layer l = {0};
	ok(layer_read(&store, id, &l, &err));
	l.name = strdup(name);
	ok(layer_update(&store, &l, &err));
}

static void assert_layer(const struct box *b, const char *what, const char *expected)
{
	char id[LAYER_ID_LEN + 1] = "x";
	if (box_find_layer(&store, b, what, id, &err) < 0)
		fail_msg("%s: %s", what, err.message);
	assert_string_equal(id, expected);
}

static void test_layers_are_found_in_the_history_of_the_box_only(void **state)
{
	_cleanup_box_ struct box b = {0}, other = {0};
	char id[LAYER_ID_LEN + 1], prefix[9];
	new_box(&b, "", "");
	new_box(&other, "", "");
	const char *first = new_layer("", b.id), *second = new_layer(first, b.id), *foreign = new_layer("", other.id);
	name_layer(first, "v1");
	name_layer(foreign, "v2");
	snprintf(b.head, sizeof(b.head), "%s", second);
	snprintf(prefix, sizeof(prefix), "%s", second);
	assert_layer(&b, "head", second);
	assert_layer(&b, "seed", "");
	assert_layer(&b, "v1", first);
	assert_layer(&b, second, second);
	assert_layer(&b, prefix, second);
	assert_refused(box_find_layer(&store, &b, "v2", id, &err), CORDON_ERR_NOT_FOUND, "there is no snapshot 'v2'");
	assert_non_null(strstr(err.hint, "v1"));
	assert_refused(box_find_layer(&store, &b, foreign, id, &err), CORDON_ERR_NOT_FOUND, "there is no snapshot");
	assert_refused(box_find_layer(&store, &b, "../layers", id, &err), CORDON_ERR_NOT_FOUND, "there is no snapshot");
	name_layer(second, "v1");
	assert_refused(box_find_layer(&store, &b, "v1", id, &err), CORDON_ERR_INPUT, "could be 2 snapshots");
	overwrite(path_of("layers", second, "layer"), "", 0);
	assert_layer(&b, second, second); /* whoever uses it is told that it is damaged */
	assert_layer(&b, "v1", first);
}

/* ---- locks -------------------------------------------------------------------------------------------------------------------- */

static void test_a_lock_tells_by_whom_it_is_held(void **state)
{
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	int lock = ok(box_lock(&store, b.id, "exec 4711 make a-very-long-target-name", false, &err));
	assert_refused(box_lock(&store, b.id, "x", false, &err), CORDON_ERR_BUSY, "is busy: exec 4711 make a-very-long-target-name");
	assert_refused(box_remove(&store, b.id, &err), CORDON_ERR_BUSY, "exec 4711");
	close(lock);
	lock = ok(box_lock(&store, b.id, "short\nfake\x1b", false, &err));
	assert_refused(box_lock(&store, b.id, "x", false, &err), CORDON_ERR_BUSY, "is busy: short fake ");
	assert_null(strstr(err.message, "make"));
	close(lock);
	char who[1000];
	memset(who, 'w', sizeof(who) - 1);
	who[sizeof(who) - 1] = '\0';
	lock = ok(box_lock(&store, b.id, who, false, &err));
	assert_refused(box_lock(&store, b.id, "x", false, &err), CORDON_ERR_BUSY, "wwww");
	close(lock);
	lock = ok(box_lock(&store, b.id, "", false, &err));
	assert_refused(box_lock(&store, b.id, "x", false, &err), CORDON_ERR_BUSY, "another process");
	close(lock);
}

/* Its exit status: 0 got the lock, else the error's code. */
static pid_t fork_waiter(const char *id, int lock)
{
	pid_t child = fork();
	if (child == 0) {
		close(lock); /* it would hold on to what it inherits */
		struct cordon_error why = {0};
		_exit(box_lock(&store, id, "child", true, &why) >= 0 ? 0 : (int)why.code);
	}
	wait_until_blocked(child);
	return child;
}

static void test_who_waits_gets_the_lock_when_its_holder_is_done_or_dead(void **state)
{
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	int lock = ok(box_lock(&store, b.id, "parent", false, &err));
	pid_t child = fork_waiter(b.id, lock);
	close(lock);
	assert_int_equal(exit_status(child), 0); /* and it died with the lock in its hands */
	close(ok(box_lock(&store, b.id, "parent", false, &err)));
}

static void test_who_waited_for_a_box_that_is_removed_is_told(void **state)
{
	_cleanup_box_ struct box b = {0};
	new_box(&b, "", "");
	int lock = ok(box_lock(&store, b.id, "parent", false, &err));
	pid_t child = fork_waiter(b.id, lock);
	assert_int_equal(renameat(store.boxes_fd, b.id, store.boxes_fd, ".gone-x"), 0);
	close(lock);
	assert_int_equal(exit_status(child), CORDON_ERR_NOT_FOUND);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_a_box_reads_back_as_it_was_created_and_saved),
		T(test_what_is_saved_soon_may_be_lost_but_not_the_box),
		T(test_a_damaged_box_is_listed_as_such_and_the_others_work),
		T(test_the_list_is_sorted_by_age),
		T(test_a_removed_box_cannot_be_saved_back_into_being),
		T(test_a_box_that_cannot_be_written_leaves_nothing),
		T(test_names_are_dns_labels_and_not_ids),
		T(test_names_of_layers_leave_their_keywords_alone),
		T(test_a_name_is_given_once),
		T(test_of_many_who_want_a_name_at_once_one_gets_it),
		T(test_boxes_are_found_by_id_by_name_and_by_a_unique_beginning),
		T(test_what_is_not_found_comes_with_the_nearest),
		T(test_layers_are_found_in_the_history_of_the_box_only),
		T(test_a_lock_tells_by_whom_it_is_held),
		T(test_who_waits_gets_the_lock_when_its_holder_is_done_or_dead),
		T(test_who_waited_for_a_box_that_is_removed_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
