/* SPDX-License-Identifier: Apache-2.0 */
/* One crashed disk: mounted (which replays its journal), recovered by cordon, and compared with what the marks say. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/commit.h"
#include "power.h"

/* ---- the directory -------------------------------------------------------------------------------------------------------------- */

/* The tree before this position, and the one after it if a commit was under way; NULL if none was. */
static void trees_at(const struct write_log *log, size_t at, const struct mark **old, const struct mark **new_tree)
{
	bool under_way = false;
	*old = *new_tree = NULL;
	for (size_t i = 0; i < log->mark_count; i++) {
		const struct mark *m = &log->marks[i];
		if (m->kind == MARK_TREE && m->at < at) {
			*old = m;
			under_way = false;
		} else if (m->kind == MARK_BEGIN && m->at < at) {
			under_way = true;
		} else if (m->kind == MARK_TREE && under_way) {
			*new_tree = m;
			return;
		}
	}
}

static bool is_some_tree(const struct write_log *log, const char *text)
{
	for (size_t i = 0; i < log->mark_count; i++)
		if (log->marks[i].kind == MARK_TREE && strcmp(log->marks[i].text, text) == 0)
			return true;
	return false;
}

/* A second time, recovery must find nothing to do. */
static const char *recover(int target)
{
	static struct cordon_error err;
	enum commit_recovered what;
	if (commit_recover(target, TARGET, STORE, &what, &err) < 0)
		return err.message;
	if (commit_recover(target, TARGET, STORE, &what, &err) < 0)
		return err.message;
	return what == RECOVERED_NOTHING ? NULL : "recovery does not come to an end";
}

static enum verdict check_tree(const struct write_log *log, size_t at)
{
	const struct mark *old, *new_tree;
	trees_at(log, at, &old, &new_tree);
	_cleanup_fd_ int target = open(TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(target >= 0 && old);
	const char *wrong = recover(target);
	if (wrong) {
		printf("    recovery: %s\n", wrong);
		return FOUND_TORN;
	}
	_cleanup_free_ char *got = tree_describe(target);
	if (strcmp(got, old->text) == 0) /* with nothing under way, "old" is what the last commit has made: the new tree */
		return new_tree ? FOUND_OLD : FOUND_NEW;
	if (new_tree && strcmp(got, new_tree->text) == 0)
		return FOUND_NEW;
	printf("    %s: %s\n", new_tree ? "old" : "the last tree, no commit was under way", tree_difference(old->text, got));
	if (new_tree)
		printf("    new: %s\n", tree_difference(new_tree->text, got));
	return is_some_tree(log, got) ? FOUND_LOST : FOUND_TORN;
}

/* ---- the layers ----------------------------------------------------------------------------------------------------------------- */

/* How far a layer was: what it holds, whether it must be there, and whether it may. */
struct known_layer {
	const struct mark *seal;
	bool must, may;
};

static struct known_layer layer_at(const struct write_log *log, const struct mark *seal, size_t at)
{
	struct known_layer k = {.seal = seal, .may = seal->at < at};
	for (size_t i = 0; i < log->mark_count; i++) {
		const struct mark *m = &log->marks[i];
		if (m->at >= at || strcmp(m->id, seal->id) != 0)
			continue;
		if (m->kind == MARK_SEALED)
			k.must = true;
		if (m->kind == MARK_DROP)
			k.must = false;
	}
	return k;
}

static const char *compare_layer(struct store *s, const struct mark *seal)
{
	char path[LAYER_ID_LEN + 8];
	snprintf(path, sizeof(path), "%s/app", seal->id);
	_cleanup_fd_ int app = fs_open(s->layers_fd, path, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
	if (app < 0)
		return strerror(errno);
	_cleanup_free_ char *got = tree_describe(app);
	return tree_difference(seal->text, got);
}

/* What is wrong with it, or NULL. *seen: it is sealed. */
static const char *check_layer(struct store *s, const struct known_layer *k, bool *seen)
{
	static struct cordon_error err;
	_cleanup_layer_ struct layer l = {0};
	*seen = layer_read(s, k->seal->id, &l, &err) == 0;
	if (!*seen && (k->must || err.code != CORDON_ERR_NOT_FOUND)) {
		*seen = k->must;
		return err.message;
	}
	if (!*seen)
		return NULL;
	return k->may ? compare_layer(s, k->seal) : "sealed before it was to be";
}

static void check_layers(const struct write_log *log, size_t at, unsigned *layers, unsigned *bad)
{
	struct cordon_error err = {0};
	struct store s;
	MUST(store_open(&s, STORE, &err) == 0);
	for (size_t i = 0; i < log->mark_count; i++) {
		bool seen;
		if (log->marks[i].kind != MARK_SEAL)
			continue;
		struct known_layer k = layer_at(log, &log->marks[i], at);
		const char *wrong = check_layer(&s, &k, &seen);
		if (wrong)
			printf("    layer %s: %s\n", k.seal->id, wrong);
		*layers += seen;
		*bad += wrong != NULL;
	}
	store_close(&s);
}

/* ---- both ----------------------------------------------------------------------------------------------------------------------- */

enum verdict crash_check(const char *device, const struct fs_options *fs, const struct write_log *log, size_t at, unsigned *layers,
                         unsigned *bad)
{
	disk_mount(device, fs);
	enum verdict v = check_tree(log, at);
	check_layers(log, at, layers, bad);
	MUST(umount2(MOUNT_POINT, 0) == 0);
	return v;
}
