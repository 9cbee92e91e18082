/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a layer, the way down from one, and the history of a sandbox. Squashing and collecting have tests of their own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/store_parts.h"
#include "store_fixture.h"

/* ---- what reaches the disk ---------------------------------------------------------------------------------------------------- */

static ino_t synced[512];
static size_t synced_count;
static int syncfs_calls;
static int sync_calls, failing_call; /* which one fails, counted from 1; 0: none */

/* Notes what is synced; true if this call is to fail. */
static bool note_sync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && synced_count < ARRAY_SIZE(synced))
		synced[synced_count++] = st.st_ino;
	errno = EIO;
	return ++sync_calls == failing_call;
}

int __real_sync_file_range(int fd, off64_t from, off64_t len, unsigned flags);
int __wrap_sync_file_range(int fd, off64_t from, off64_t len, unsigned flags);
int __wrap_sync_file_range(int fd, off64_t from, off64_t len, unsigned flags)
{
	bool waits = flags & SYNC_FILE_RANGE_WAIT_AFTER;
	return waits && note_sync(fd) ? -1 : __real_sync_file_range(fd, from, len, flags);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return note_sync(fd) ? -1 : __real_fsync(fd);
}

int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __wrap_syncfs(int fd)
{
	syncfs_calls++;
	return note_sync(fd) ? -1 : __real_syncfs(fd);
}

static int set_up(void **state)
{
	synced_count = 0;
	syncfs_calls = sync_calls = failing_call = 0;
	return fixture_set_up(state);
}

static bool was_synced(const char *id, const char *path)
{
	struct stat st;
	char full[256];
	snprintf(full, sizeof(full), "%s/%s", id, path);
	if (fstatat(store.layers_fd, full, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	for (size_t i = 0; i < synced_count; i++)
		if (synced[i] == st.st_ino)
			return true;
	return syncfs_calls > 0;
}

static void test_sealing_writes_every_file_and_the_record_to_the_disk(void **state)
{
	const char *id = new_open_layer();
	char path[64];
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), i % 2 ? "app/dir/%d" : "home/%d", i);
		put_dir(id, "app/dir");
		put(id, path, "x");
	}
	put(id, "app/empty", "");
	seal(id, "", "");
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), i % 2 ? "app/dir/%d" : "home/%d", i);
		assert_true(was_synced(id, path));
	}
	assert_true(was_synced(id, "app/empty"));
	assert_true(was_synced(id, "layer"));
	assert_true(was_synced(id, "."));
}

static void test_what_cannot_be_synced_one_by_one_is_synced_as_a_whole(void **state)
{
	const char *id = new_open_layer();
	char path[400] = "app";
	for (int i = 0; i < 150; i++)
		strncat(path, "/d", sizeof(path) - strlen(path) - 1);
	put_dir(id, path);
	assert_int_equal(mkfifoat(store.layers_fd, path_of("", id, "app/fifo") + 1, 0600), 0);
	assert_int_equal(symlinkat("/etc/passwd", store.layers_fd, path_of("", id, "app/link") + 1), 0);
	seal(id, "", "");
	assert_int_equal(syncfs_calls, 1);
}

static void test_a_disk_that_fails_at_any_sync_leaves_the_layer_open(void **state)
{
	const char *id = new_open_layer();
	struct layer l = {.exit_code = -1}, out;
	int failures = 0;
	snprintf(l.id, sizeof(l.id), "%s", id);
	put(id, "app/file", "x");
	for (failing_call = 1;; failing_call++) {
		sync_calls = 0;
		int r = layer_seal(&store, &l, &err);
		if (r == 0 && sync_calls >= failing_call)
			fail_msg("the failure of sync %d of %d was not seen", failing_call, sync_calls);
		if (r == 0)
			break;
		assert_refused(r, CORDON_ERR_SYSTEM, "Input/output error");
		assert_refused(layer_read(&store, id, &out, &err), CORDON_ERR_NOT_FOUND, "still open");
		_cleanup_fd_ int dir = layer_open_dir(&store, id, &err);
		assert_int_equal(count_entries(dir), 4); /* app home work open */
		failures++;
	}
	assert_true(failures >= 3); /* the file, the record, the directory */
}

/* A file size limit of zero fails each write, as a full disk does. */
static void test_a_full_disk_leaves_the_layer_open_and_no_litter(void **state)
{
	const char *id = new_open_layer();
	struct layer l = {.exit_code = -1};
	struct rlimit old, none;
	snprintf(l.id, sizeof(l.id), "%s", id);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = (struct rlimit){0, old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	int r = layer_seal(&store, &l, &err);
	char other[LAYER_ID_LEN + 1];
	struct cordon_error begin_err;
	int begun = layer_begin(&store, geteuid(), getegid(), other, &begin_err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_refused(r, CORDON_ERR_SYSTEM, "File too large");
	assert_int_equal(begun, -1);
	assert_int_equal(count_entries(store.layers_fd), 1);
	_cleanup_fd_ int dir = layer_open_dir(&store, id, &err);
	assert_int_equal(count_entries(dir), 4); /* app home work open */
	seal(id, "", "");
}

/* ---- one layer ---------------------------------------------------------------------------------------------------------------- */

static mode_t mode_of(const char *id, const char *path)
{
	struct stat st;
	assert_int_equal(fstatat(store.layers_fd, path_of("", id, path) + 1, &st, 0), 0);
	return st.st_mode & 07777;
}

static void test_a_new_layer_has_its_trees_whatever_the_umask(void **state)
{
	mode_t old = umask(077);
	const char *id = new_open_layer();
	umask(old);
	assert_int_equal(mode_of(id, "app"), 0755);
	assert_int_equal(mode_of(id, "home"), 0755);
	assert_int_equal(mode_of(id, "."), 0700);
	assert_true(there(id, "work/app") && there(id, "work/home") && there(id, "open"));
	assert_false(there(id, "layer"));
}

static void test_trees_belong_to_the_owner_that_was_asked_for(void **state)
{
	char id[LAYER_ID_LEN + 1];
	struct stat st;
	if (geteuid() != 0) {
		print_message("# SKIP: only root can give files away\n");
		skip();
	}
	ok(layer_begin(&store, 12345, 54321, id, &err));
	assert_int_equal(fstatat(store.layers_fd, path_of("", id, "home") + 1, &st, 0), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 54321);
}

static void test_a_sealed_layer_reads_back_as_it_was_written(void **state)
{
	char name[] = "a name", note[] = "two\nlines \xff%00 \x1b[31m", command[] = "sh -c 'echo \"end\"'";
	struct layer l = {.parent = "aaaaaaaaaaaaaaaaaaaa",
	                  .sandbox = "bbbbbbbbbbbbbbbbbbbb",
	                  .kind = LAYER_CHECKPOINT,
	                  .created_ms = 1234567890123,
	                  .exit_code = 137,
	                  .changes = UINT64_MAX,
	                  .bytes = 42,
	                  .name = name,
	                  .note = note,
	                  .command = command};
	_cleanup_layer_ struct layer out = {0};
	snprintf(l.id, sizeof(l.id), "%s", new_open_layer());
	assert_int_equal(mkdirat(store.layers_fd, path_of("", l.id, "work/app/work") + 1, 0), 0);
	ok(layer_seal(&store, &l, &err));
	ok(layer_read(&store, l.id, &out, &err));
	assert_string_equal(out.id, l.id);
	assert_string_equal(out.parent, l.parent);
	assert_string_equal(out.sandbox, l.sandbox);
	assert_int_equal(out.kind, LAYER_CHECKPOINT);
	assert_true(out.created_ms == l.created_ms && out.changes == l.changes && out.bytes == l.bytes);
	assert_int_equal(out.exit_code, 137);
	assert_string_equal(out.name, name);
	assert_string_equal(out.note, note);
	assert_string_equal(out.command, command);
	assert_false(there(l.id, "work"));
	assert_false(there(l.id, "open"));
	assert_refused(layer_seal(&store, &l, &err), CORDON_ERR_INPUT, "sealed already");
}

static void test_only_name_note_and_kind_of_a_sealed_layer_change(void **state)
{
	char name[] = "v1", note[] = "n";
	const char *id = new_layer("", "bbbbbbbbbbbbbbbbbbbb");
	struct layer change = {.kind = LAYER_SNAPSHOT, .parent = "cccccccccccccccccccc", .exit_code = 5, .name = name, .note = note};
	_cleanup_layer_ struct layer out = {0};
	snprintf(change.id, sizeof(change.id), "%s", id);
	ok(layer_update(&store, &change, &err));
	ok(layer_read(&store, id, &out, &err));
	assert_string_equal(out.name, "v1");
	assert_string_equal(out.note, "n");
	assert_int_equal(out.kind, LAYER_SNAPSHOT);
	assert_string_equal(out.parent, "");
	assert_string_equal(out.sandbox, "bbbbbbbbbbbbbbbbbbbb");
	assert_int_equal(out.exit_code, -1);
	layer_free(&out);
	change.name = change.note = NULL;
	ok(layer_update(&store, &change, &err));
	ok(layer_read(&store, id, &out, &err));
	assert_null(out.name);
	snprintf(change.id, sizeof(change.id), "%s", new_open_layer());
	assert_refused(layer_update(&store, &change, &err), CORDON_ERR_NOT_FOUND, "still open");
}

static void test_a_dropped_layer_is_gone_open_or_sealed(void **state)
{
	const char *sealed = new_layer("", ""), *open = new_open_layer();
	struct layer out;
	put(open, "app/file", "x");
	ok(layer_drop(&store, sealed, &err));
	ok(layer_drop(&store, open, &err));
	assert_int_equal(count_entries(store.layers_fd), 0);
	assert_refused(layer_drop(&store, sealed, &err), CORDON_ERR_NOT_FOUND, "does not exist");
	assert_refused(layer_read(&store, sealed, &out, &err), CORDON_ERR_NOT_FOUND, "there is no layer");
}

static void test_a_record_cut_off_anywhere_is_a_damaged_layer(void **state)
{
	const char *id = new_layer("", "");
	char text[1024];
	struct layer out;
	ssize_t len = fs_read_small(store.layers_fd, path_of("", id, "layer") + 1, text, sizeof(text));
	assert_true(len > 50);
	for (ssize_t i = 0; i < len; i++) {
		overwrite(path_of("layers", id, "layer"), text, (size_t)i);
		assert_refused(layer_read(&store, id, &out, &err), CORDON_ERR_INPUT, "damaged");
		assert_string_equal(out.id, "");
	}
	overwrite(path_of("layers", id, "layer"), text, (size_t)len);
	ok(layer_read(&store, id, &out, &err));
	layer_free(&out);
}

static void test_a_layer_without_its_record_or_with_anothers_is_damaged(void **state)
{
	const char *id = new_layer("", ""), *other = new_layer("", "");
	char text[1024];
	struct layer out;
	ssize_t len = fs_read_small(store.layers_fd, path_of("", other, "layer") + 1, text, sizeof(text));
	overwrite(path_of("layers", id, "layer"), text, (size_t)len);
	assert_refused(layer_read(&store, id, &out, &err), CORDON_ERR_INPUT, "it is the record of");
	assert_int_equal(unlinkat(store.layers_fd, path_of("", id, "layer") + 1, 0), 0);
	assert_refused(layer_read(&store, id, &out, &err), CORDON_ERR_INPUT, "damaged: its record is missing");
	overwrite(path_of("layers", id, "layer"), "cordon 7 layer\n", 15);
	assert_refused(layer_read(&store, id, &out, &err), CORDON_ERR_INPUT, "version 7");
}

static void test_ids_that_are_paths_are_refused(void **state)
{
	static const char *const bad[] = {"..",
	                                  ".",
	                                  "../sandboxes",
	                                  "/etc",
	                                  "aaaaaaaaaaaaaaaaaaa",
	                                  "aaaaaaaaaaaaaaaaaaaaa",
	                                  "AAAAAAAAAAAAAAAAAAAA",
	                                  "aaaaaaaaa/aaaaaaaaaa",
	                                  ".gone-aaaaaaaaaaaaaa",
	                                  "aaaaaaaaaaaaaaaaaaa\n"};
	struct layer out;
	struct strlist list;
	struct box b;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_refused(layer_read(&store, bad[i], &out, &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(layer_drop(&store, bad[i], &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(layer_chain(&store, bad[i], TREE_APP, &list, &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(layer_ancestors(&store, bad[i], &list, &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(layer_flatten(&store, bad[i], &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(box_load(&store, bad[i], &b, &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(box_remove(&store, bad[i], &err), CORDON_ERR_INPUT, "not an id");
		assert_refused(box_lock(&store, bad[i], "", false, &err), CORDON_ERR_INPUT, "not an id");
	}
	assert_refused(layer_read(&store, "", &out, &err), CORDON_ERR_INPUT, "not an id");
}

static void test_a_home_that_others_can_write_is_refused(void **state)
{
	struct store other;
	assert_int_equal(chmod(store.home, 0770), 0);
	assert_refused(store_open(&other, store.home, &err), CORDON_ERR_DENIED, "somebody else");
	assert_int_equal(chmod(store.home, 0700), 0);
	assert_int_equal(fchmod(store.layers_fd, 0702), 0);
	assert_refused(store_open(&other, store.home, &err), CORDON_ERR_DENIED, "layers belongs to or can be written");
	assert_int_equal(fchmod(store.layers_fd, 0700), 0);
	ok(store_open(&other, store.home, &err));
	store_close(&other);
}

/* ---- the way down ------------------------------------------------------------------------------------------------------------- */

static void assert_list(const struct strlist *got, size_t count, ...)
{
	va_list ap;
	va_start(ap, count);
	assert_int_equal(got->count, count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(got->items[i], va_arg(ap, const char *));
	va_end(ap);
}

static char *text_of(const char *id, const char *path)
{
	char *text = NULL;
	assert_true(asprintf(&text, "%s/%s", id, path) > 0);
	return text;
}

static void test_a_chain_goes_from_the_top_to_the_oldest_or_to_what_was_squashed(void **state)
{
	const char *a = new_layer("", ""), *b = new_layer(a, ""), *c = new_layer(b, "");
	_cleanup_free_ char *app_a = text_of(a, "app"), *app_b = text_of(b, "app"), *app_c = text_of(c, "app"),
			    *flat_b = text_of(b, "flat/app"), *home_c = text_of(c, "home"), *flat_home_b = text_of(b, "flat/home");
	struct strlist list;
	ok(layer_chain(&store, "", TREE_APP, &list, &err));
	assert_list(&list, 0);
	ok(layer_chain(&store, c, TREE_APP, &list, &err));
	assert_list(&list, 3, app_c, app_b, app_a);
	strlist_free(&list);
	ok(layer_flatten(&store, b, &err));
	ok(layer_chain(&store, c, TREE_APP, &list, &err));
	assert_list(&list, 2, app_c, flat_b);
	strlist_free(&list);
	ok(layer_chain(&store, c, TREE_HOME, &list, &err));
	assert_list(&list, 2, home_c, flat_home_b);
	strlist_free(&list);
	ok(layer_ancestors(&store, c, &list, &err)); /* history does not end there */
	assert_list(&list, 3, c, b, a);
	strlist_free(&list);
}

static void test_a_chain_with_a_damaged_or_missing_layer_is_refused_unless_squashed_above(void **state)
{
	const char *a = new_layer("", ""), *b = new_layer(a, ""), *c = new_layer(b, ""), *d = new_layer(c, "");
	struct strlist list;
	ok(layer_flatten(&store, c, &err));
	overwrite(path_of("layers", b, "layer"), "x", 1);
	assert_refused(layer_chain(&store, b, TREE_APP, &list, &err), CORDON_ERR_INPUT, "damaged");
	assert_refused(layer_ancestors(&store, d, &list, &err), CORDON_ERR_INPUT, b);
	assert_int_equal(list.count, 0);
	ok(layer_chain(&store, d, TREE_APP, &list, &err));
	assert_int_equal(list.count, 2);
	strlist_free(&list);
	ok(layer_drop(&store, b, &err));
	assert_refused(layer_ancestors(&store, d, &list, &err), CORDON_ERR_NOT_FOUND, b);
	ok(fs_remove_tree(store.layers_fd, path_of("", a, "app") + 1, &err));
	assert_refused(layer_chain(&store, a, TREE_APP, &list, &err), CORDON_ERR_INPUT, "\"app\" is missing");
}

static void edit_parent(const char *id, const char *parent)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "cordon 1 layer\nid %s\nparent %s\nkind exec\ncreated 1\nexit 0\nchanges 0\nbytes 0\nend\n",
	                 id, parent);
	overwrite(path_of("layers", id, "layer"), text, (size_t)n);
}

static void test_a_circle_of_parents_is_found(void **state)
{
	const char *ids[9];
	struct strlist list;
	for (size_t n = 1; n < ARRAY_SIZE(ids); n++) {
		for (size_t i = 0; i < n; i++)
			ids[i] = new_layer("", "");
		const char *tail = new_layer(ids[0], "");
		for (size_t i = 0; i < n; i++)
			edit_parent(ids[i], ids[(i + 1) % n]);
		assert_refused(layer_ancestors(&store, tail, &list, &err), CORDON_ERR_INPUT, "stands on itself");
		assert_refused(layer_chain(&store, ids[0], TREE_HOME, &list, &err), CORDON_ERR_INPUT, "stands on itself");
		struct layer_list history;
		ok(layer_history(&store, "", tail, &history, &err)); /* it ends */
		assert_int_equal(history.count, n + 1);
		layer_list_free(&history);
	}
}

static void test_a_layer_cannot_be_sealed_onto_itself_or_onto_a_path(void **state)
{
	struct layer l = {.parent = "../../../../../../x"};
	snprintf(l.id, sizeof(l.id), "%s", new_open_layer());
	assert_refused(layer_seal(&store, &l, &err), CORDON_ERR_INPUT, "not an id");
	memcpy(l.parent, l.id, sizeof(l.parent));
	assert_refused(layer_seal(&store, &l, &err), CORDON_ERR_INPUT, "stand on itself");
	l = (struct layer){.kind = LAYER_KIND_COUNT};
	snprintf(l.id, sizeof(l.id), "%s", new_open_layer());
	assert_refused(layer_seal(&store, &l, &err), CORDON_ERR_INPUT, "kind");
}

/* ---- history ------------------------------------------------------------------------------------------------------------------ */

#define BOX_A "aaaaaaaaaaaaaaaaaaa1"
#define BOX_B "bbbbbbbbbbbbbbbbbbb2"

static void assert_history(const char *sandbox, const char *head, size_t count, ...)
{
	struct layer_list list;
	va_list ap;
	ok(layer_history(&store, sandbox, head, &list, &err));
	va_start(ap, count);
	assert_int_equal(list.count, count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(list.items[i].layer.id, va_arg(ap, const char *));
	va_end(ap);
	layer_list_free(&list);
}

static void test_history_has_all_branches_of_a_sandbox_and_what_they_stand_on(void **state)
{
	const char *a = new_layer("", BOX_A), *b = new_layer(a, BOX_A), *side = new_layer(a, BOX_A);
	const char *fork = new_layer(b, BOX_B), *other = new_layer("", BOX_B);
	new_open_layer();
	assert_history(BOX_A, b, 3, a, b, side);
	assert_history(BOX_B, fork, 4, a, b, fork, other);
	assert_history("", fork, 3, a, b, fork);
	assert_history("ccccccccccccccccccc3", "", 0);
}

static void test_history_is_oldest_first_even_if_the_clock_went_back(void **state)
{
	const char *ids[3] = {new_open_layer(), new_open_layer(), new_open_layer()};
	struct layer l = {.sandbox = BOX_A};
	for (int i = 0; i < 3; i++) {
		snprintf(l.id, sizeof(l.id), "%s", ids[i]);
		snprintf(l.parent, sizeof(l.parent), "%s", i ? ids[i - 1] : "");
		l.created_ms = 1000 - i;
		ok(layer_seal(&store, &l, &err));
	}
	assert_history(BOX_A, "", 3, ids[0], ids[1], ids[2]);
}

static void test_history_marks_damaged_and_missing_layers_and_lists_the_others(void **state)
{
	const char *a = new_layer("", BOX_A), *b = new_layer(a, BOX_A), *c = new_layer(b, BOX_A), *lost = new_layer("", BOX_A),
		   *d = new_layer(lost, BOX_A), *stray = new_layer(a, BOX_A);
	char text[512];
	struct layer_list list;
	overwrite(path_of("layers", b, "layer"), "", 0);
	int n = snprintf(text, sizeof(text), "cordon 1 layer\nid %s\nsandbox " BOX_A "\nkind", stray); /* still says whose it was */
	overwrite(path_of("layers", stray, "layer"), text, (size_t)n);
	ok(layer_drop(&store, lost, &err));
	ok(layer_history(&store, BOX_A, c, &list, &err));
	assert_int_equal(list.count, 6);
	for (size_t i = 0; i < list.count; i++) {
		const char *id = list.items[i].layer.id;
		bool bad = !strcmp(id, b) || !strcmp(id, lost) || !strcmp(id, stray);
		assert_true(bad || !strcmp(id, a) || !strcmp(id, c) || !strcmp(id, d));
		assert_int_equal(list.items[i].damaged, bad);
	}
	layer_list_free(&list);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_sealing_writes_every_file_and_the_record_to_the_disk),
		T(test_what_cannot_be_synced_one_by_one_is_synced_as_a_whole),
		T(test_a_disk_that_fails_at_any_sync_leaves_the_layer_open),
		T(test_a_full_disk_leaves_the_layer_open_and_no_litter),
		T(test_a_new_layer_has_its_trees_whatever_the_umask),
		T(test_trees_belong_to_the_owner_that_was_asked_for),
		T(test_a_sealed_layer_reads_back_as_it_was_written),
		T(test_only_name_note_and_kind_of_a_sealed_layer_change),
		T(test_a_dropped_layer_is_gone_open_or_sealed),
		T(test_a_record_cut_off_anywhere_is_a_damaged_layer),
		T(test_a_layer_without_its_record_or_with_anothers_is_damaged),
		T(test_ids_that_are_paths_are_refused),
		T(test_a_home_that_others_can_write_is_refused),
		T(test_a_chain_goes_from_the_top_to_the_oldest_or_to_what_was_squashed),
		T(test_a_chain_with_a_damaged_or_missing_layer_is_refused_unless_squashed_above),
		T(test_a_circle_of_parents_is_found),
		T(test_a_layer_cannot_be_sealed_onto_itself_or_onto_a_path),
		T(test_history_has_all_branches_of_a_sandbox_and_what_they_stand_on),
		T(test_history_is_oldest_first_even_if_the_clock_went_back),
		T(test_history_marks_damaged_and_missing_layers_and_lists_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
